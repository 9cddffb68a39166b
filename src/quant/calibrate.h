/* calibrate.h: the ranges of a graph's values, from samples. */
#ifndef QUANT_CALIBRATE_H
#define QUANT_CALIBRATE_H

#include "quant/range.h"

struct quant_calibration;

/* `g` is a folded graph and `params` its values; both must outlive the result. */
pst_status quant_calibration_create(struct quant_calibration **ret, const struct graph *g, const float *params, pst_error *reterr);
struct quant_calibration *quant_calibration_destroy(struct quant_calibration *c); /* NULL ok; returns NULL */
/* Runs the graph in float32 on `n` samples and counts their values. PST_EINVAL: a value is not finite. */
pst_status quant_calibration_feed(struct quant_calibration *c, const float *in, size_t n, pst_error *reterr);
/* One range per value of the graph; those of values that are not QUANT_U8 are [0, 0]. PST_EINVAL: there were no samples. */
pst_status quant_calibration_ranges(const struct quant_calibration *c, enum quant_method method, double share, struct quant_range *ret,
                                    pst_error *reterr);
/* The mean of each channel of a value; 0 where it is not QUANT_U8. */
void quant_calibration_means(const struct quant_calibration *c, size_t value, double *ret);
/* Changes the biases of a model that was made from this calibration, so that the mean of each result is as before its weights were
 * rounded. `params` are the graph's values. */
pst_status quant_correct_biases(struct quant_model *q, const struct quant_calibration *c, const float *params, pst_error *reterr);

#endif
