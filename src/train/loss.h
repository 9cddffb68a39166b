/* loss.h: losses from the model's result, and their gradients.
 *
 * Every loss is a mean over the samples of a batch; with weights per sample, the weighted sum divided by the number of samples.
 * Cross-entropies take logits: the model's last softmax or sigmoid is left out of the step and folded in here. Sums are in
 * double, sample after sample. */
#ifndef TRAIN_LOSS_H
#define TRAIN_LOSS_H

#include <penstock/op.h>
#include <penstock/train.h>

struct loss_options {
    pst_loss kind; /* not PST_LOSS_AUTO */
    double smoothing; /* of labels: categorical losses */
};

/* The targets of a batch: integer labels (one per sample), or `width` floats per sample. */
struct loss_target {
    const int64_t *labels; /* NULL: values */
    const float *values;
};

/* Returns the number of the first sample whose label lies outside 0 … classes − 1, or `n`: none. */
size_t loss_check_labels(const int64_t *labels, size_t n, size_t classes);

/* Adds the loss of each of the `n` samples of `width` results. Returns the mean; `dout` (NULL: not needed) gets the gradient of the
 * mean. `weights` NULL: 1. */
double loss_compute(const struct loss_options *o, const float *out, const struct loss_target *target, const float *weights, size_t n,
                    size_t width, float *dout);

/* exp(x − max) / sum, in double inside. */
void loss_softmax(const float *logits, size_t width, float *ret);
float loss_sigmoid(float logit);

/* The targets of a batch as losses take them. */

/* Where converted targets go. */
struct target_room {
    pst_loss loss;
    size_t width;    /* results per sample */
    int64_t *labels; /* one per sample */
    float *values;   /* `width` per sample */
};

/* Converts the targets of `n` samples. PST_ETYPE: they do not fit the loss. PST_EINVAL with the sample as record: a label is out of range. */
pst_status target_convert(const struct target_room *room, const pst_tensor *x, size_t n, struct loss_target *ret, pst_error *reterr);

#endif
