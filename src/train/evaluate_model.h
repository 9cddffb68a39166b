/* evaluate_model.h: a pass over a pipeline without training; metrics, and the samples that went worst. */
#ifndef TRAIN_EVALUATE_MODEL_H
#define TRAIN_EVALUATE_MODEL_H

#include "train/trainer.h"

#define MISTAKES 12 /* samples that are kept for people to look at */

/* A sample with a large loss. */
struct mistake {
    double loss;
    double wanted, found;         /* classes, or values of the first result */
    double probability;           /* of the class that was found; NaN: there are no classes */
    char place[160];              /* file and record; empty: unknown */
    void *data;                   /* the input, `bytes` of it */
    size_t bytes;
    pst_dtype dtype;
};

/* The worst samples of a pass, the largest loss first. */
struct mistakes {
    struct mistake list[MISTAKES];
    size_t count;
};
void mistakes_finish(struct mistakes *m); /* zeroed ok */

/* pst_trainer_evaluate_pipeline that also keeps the worst samples in `mistakes` (NULL: not needed). `shared`: every rank evaluates its
 * share of the pipeline, and the result is that of all of them; the worst samples are this rank's. */
pst_status evaluate_pipeline(pst_trainer *t, pst_pipeline *p, const pst_fields *fields, pst_evaluation *ret, struct mistakes *mistakes,
                             bool shared, pst_error *reterr);

/* Refuses a pipeline whose epoch never ends: there would be no result. It must have its plan. */
pst_status evaluate_requires_end(const pst_pipeline *p, pst_error *reterr);

/* The tensors of a batch by the names in `fields`. */
pst_status samples_of(const pst_batch *b, const pst_fields *fields, pst_samples *ret, pst_error *reterr);
/* Puts the place in the file into an error about one sample of a batch. Returns `st`. */
pst_status locate_sample(pst_pipeline *p, const pst_batch *batch, pst_status st, pst_error *reterr);

#endif
