/* sparse.h: 1 × 1 convolutions with stride 1 whose weights are mostly zeros: only the others are stored and multiplied.
 *
 * Pixels are turned in blocks, so that a weight is multiplied with many of them at once. One thread, no allocation; images are NHWC
 * without gaps. */
#ifndef MODEL_KERNELS_SPARSE_H
#define MODEL_KERNELS_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sparse_term {
    float value;
    uint32_t at; /* of its input in a block: `block` floats per input */
};

/* out = clamp(in · weights + bias + add, low, high) */
struct sparse_job {
    size_t pixels, ci, co;
    const struct sparse_term *terms; /* of output channel 0, then of channel 1, … */
    const uint32_t *first;           /* per output channel, and the end */
    const float *in, *bias, *add;    /* NULL: no bias; nothing to add */
    float low, high;
    float *out;
};

struct sparse_kernel {
    const char *name;
    bool (*takes)(size_t ci, size_t co);
    size_t (*block)(size_t ci); /* pixels */
    size_t (*scratch_bytes)(size_t ci, size_t co); /* aligned to 64 bytes */
    /* A result does not depend on where its pixel lies in a job. */
    void (*conv)(const struct sparse_job *j, void *scratch);
};

/* NULL: none for these CPU features. */
const struct sparse_kernel *sparse_kernel(unsigned features);

/* Weights of `kernel` (ci × co) that are not zero. */
size_t sparse_count(const float *kernel, size_t ci, size_t co);
void sparse_pack(const float *kernel, size_t ci, size_t co, size_t block, struct sparse_term *ret, uint32_t *ret_first);

#endif
