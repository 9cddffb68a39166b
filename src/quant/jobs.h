/* jobs.h: the kernels' view of layers: shapes, factors, tables. */
#ifndef QUANT_JOBS_H
#define QUANT_JOBS_H

#include "quant/kernels/i8.h"
#include "quant/quant.h"

/* Everything about a convolution or dense layer but its pointers: shape, windows, zeros, clamps. A dense layer is a 1 × 1
 * convolution over a row of samples: `images` is set to 1 and `w` to `n`. */
struct i8_job quant_conv_job(const struct quant_model *q, size_t node, size_t n);
/* Factors of a CONV or DENSE layer, one per output channel: acc · factor is the result in steps of its scale, or in reals. */
void quant_factors(const struct quant_model *q, size_t node, float *ret);
/* The result fits 32 bits whatever the input is. */
bool quant_fits(const struct quant_model *q, size_t node);

struct i8_add quant_add_job(const struct quant_model *q, size_t node);
struct i8_pool quant_pool_job(const struct quant_model *q, size_t node, size_t n);
/* What a TABLE layer makes of each integer, or what CONCAT makes of those of input `k`. */
void quant_table(const struct quant_model *q, size_t node, size_t k, uint8_t ret[256]);

/* Runs a FLOAT layer by its own reference. `saved` has quant_float_saved bytes. */
void quant_float_node(const struct quant_model *q, size_t node, size_t n, const float *const *in, float *out, void *saved);
size_t quant_float_saved(const struct quant_model *q, size_t node, size_t n);

#endif
