/* train_models.h: the models that training is compared by, with the same start weights and data everywhere. */
#ifndef BENCH_TRAIN_MODELS_H
#define BENCH_TRAIN_MODELS_H

#include "model/graph.h"

#define TRAIN_CLASSES 10

/* The text of S1, S2, S3, M, R or E, and the side of its square input; NULL: there is no such model. */
const char *train_model_text(const char *name, uint32_t *ret_side);
/* Fills in start values; parameters other than kernels keep theirs. `params` is the block of all of them. */
void train_start_weights(const struct graph *g, float *params);
void train_start_data(size_t batch, size_t values, float *images, int64_t *labels);

#endif
