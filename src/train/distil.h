/* distil.h: what a student learns from a teacher: soft targets (Hinton et al., 2015), and values between layers.
 *
 * loss = alpha · L + (1 − alpha) · T² · KL(softmax(teacher / T) ‖ softmax(student / T)) + weight · Σ features. Binary targets have a
 * sigmoid for each result instead; MSE takes the mean squared difference of the results. Sums are in double, sample after sample. */
#ifndef TRAIN_DISTIL_H
#define TRAIN_DISTIL_H

#include "model/layer.h"
#include "train/loss.h"

struct distil_options {
    pst_loss kind;
    double temperature, alpha;
};

/* `plain` is the loss without a teacher and `dout` its gradient (NULL: not needed), which becomes that of the result. */
double distil_logits(const struct distil_options *o, double plain, const float *out, const float *teacher, const float *weights, size_t n, size_t width,
                     float *dout);

/* Whether values of these shapes can be compared: equal ones by their mean squared difference; where only height and width are equal, by
 * the maps of their energy over the channels, each divided by its norm (attention transfer, Zagoruyko and Komodakis, 2017). */
bool distil_comparable(const struct shape *student, const struct shape *teacher);
/* The mean over the samples; `extra` gets its gradient times `scale`. */
double distil_feature(const struct shape *student, const struct shape *teacher, const float *values, const float *wanted, size_t n, double scale,
                      float *extra);

#endif
