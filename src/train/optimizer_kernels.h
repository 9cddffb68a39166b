/* optimizer_kernels.h: the arithmetic of optimisers over runs of values; compiled once per instruction set, with the same bits. */
#ifndef TRAIN_OPTIMIZER_KERNELS_H
#define TRAIN_OPTIMIZER_KERNELS_H

#include <stddef.h>

/* Values that are constant within one step. */
struct optimizer_step {
    float rate;              /* Adam: with the bias corrections */
    float decay;             /* w −= decay · w before the update */
    float momentum;          /* SGD */
    float keep1, keep2;      /* Adam: 1 − β1, 1 − β2 */
    float epsilon;           /* Adam: added to the uncorrected root */
    float scale, limit;      /* g = clamp(g · scale, −limit, limit); clipping */
    float ema;               /* share of the new weights in the mean */
};

struct optimizer_kernels {
    void (*sgd)(const struct optimizer_step *s, const float *g, float *w, float *m, size_t count);
    void (*nesterov)(const struct optimizer_step *s, const float *g, float *w, float *m, size_t count);
    void (*adam)(const struct optimizer_step *s, const float *g, float *w, float *m, float *v, size_t count);
    void (*lion)(const struct optimizer_step *s, const float *g, float *w, float *m, size_t count);
    void (*mean)(const struct optimizer_step *s, const float *w, float *ema, size_t count);
    void (*add)(float weight, const float *g, float *sum, int first, size_t count); /* sum += weight · g */
    double (*squares)(const float *g, size_t count); /* Σ g², in 8 partial sums in double */
};

const struct optimizer_kernels *optimizer_kernels(unsigned features); /* enum cpu_feature */

#endif
