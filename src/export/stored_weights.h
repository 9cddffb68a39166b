/* stored_weights.h: weights in fewer bits, as arrays of a safetensors file.
 *
 * A kernel in integers is NAME (I8, or U8 with two values of 4 bits per byte, the lower half first) and NAME_scale (F32, one per output
 * channel). In 16 bits it is NAME (F16 or BF16). Other parameters stay F32. Kernels of a mixed file have formats of their own. A quantised model has activations/scale (F32) and
 * activations/zero (U8), one per value of its graph, and biases in integers (I32). Arrays are stored without their zeros where that takes fewer
 * bytes (safetensors.h). */
#ifndef EXPORT_STORED_WEIGHTS_H
#define EXPORT_STORED_WEIGHTS_H

#include "export/weight_file.h"
#include "quant/quant.h"
#include <penstock/network.h>

extern const char *const weights_format_names[]; /* by pst_weights_format; ends with NULL */

/* Rounds the kernels of `params` to what the format can store. In this function and the next two, `each` holds the format of each parameter of the
 * graph where `format` is PST_WEIGHTS_MIXED; otherwise it is not read. */
pst_status stored_round(const struct graph *g, float *params, pst_weights_format format, const pst_weights_format *each, pst_error *reterr);
/* Appends the file. Kernels are as stored_round left them; of PST_WEIGHTS_FLOAT32 anything. `sparse`: without zeros, where that takes fewer bytes;
 * other programs do not read that. */
pst_status stored_write(struct text *to, const struct graph *g, const float *params, pst_weights_format format, const pst_weights_format *each,
                        bool sparse, pst_error *reterr);
/* Bytes of the arrays of a sparse file. */
uint64_t stored_bytes(const struct graph *g, const float *params, pst_weights_format format, const pst_weights_format *each);
/* Bytes of one array in it. */
uint64_t stored_array_bytes(const void *data, uint64_t count, size_t width, uint32_t rank);
/* Whether a parameter is a kernel, which is stored in fewer bits. */
bool stored_kernel(const struct graph *g, size_t param);
/* Bits of one value of a kernel. */
unsigned stored_bits(pst_weights_format format);
/* Replaces kernels in integers by F32 arrays. PST_ECORRUPT: sizes contradict the model. */
pst_status stored_expand(struct weight_file *f, const struct graph *g, pst_error *reterr);

pst_status stored_write_quantised(struct text *to, const struct quant_model *q, pst_error *reterr);
/* Fills in a model that quant_create_empty made, and checks it. */
pst_status stored_read_quantised(struct quant_model *q, const struct safetensors *from, pst_error *reterr);

#endif
