/* tune.h: measures which kernel is the fastest for each convolution of a model, within its whole training step. */
#ifndef MODEL_TUNE_H
#define MODEL_TUNE_H

#include "model/step.h"

struct tune_options {
    size_t batch;
    unsigned threads;
    unsigned features;
    unsigned passes; /* that are measured, for each candidate; 0: 5 */
    enum number store;
    bool (*progress)(void *user, unsigned done, unsigned total); /* returns true to stop: PST_ECANCELLED. NULL: none */
    void *user;
};

/* Adds a table of kernels to `to` (kernel_table.h), with the measured times as comments. */
pst_status tune_kernels(const struct graph *g, const struct tune_options *o, struct text *to, pst_error *reterr);

#endif
