/* wino4.h: 3 × 3 convolution with stride 1 by Winograd's F(4 × 4, 3 × 3), fp32 NHWC: forward, data gradient, weight gradient.
 *
 * Micro-kernels: pointers, strides and counts, one thread, no allocation, no globals. Strides are in floats (bytes for the
 * argmax). Any number of channels works; multiples of 16 are fast. Points 0, ±2/3, ±3/2, ∞: an output of 4 × 4 pixels costs 36
 * products per pair of channels in place of 144.
 *
 * Transformed weights and their gradient: [⌈co/16⌉][36][ci][16], zeros after the last channel. Memory for them and scratch is
 * aligned to 64 bytes. A call may take several images, or some rows of one. */
#ifndef MODEL_KERNELS_WINO4_H
#define MODEL_KERNELS_WINO4_H

#include "model/kernels/conv.h"

/* The gradient of the weights that made `images` outputs of h × w pixels and co channels. */
struct wino4_weight_gradient {
    size_t images, h, w;
    size_t ci, co;
    struct conv_source in;      /* as in the forward pass */
    struct conv_extra gradient; /* of the output */
    float *transformed;         /* [⌈co/16⌉][36][ci][16] */
    bool accumulate;            /* add to `transformed`; false: write it */
    struct conv_ahead ahead;
};

struct wino4_kernels {
    /* Kernels `hwio` [3][3][ci][co] to transformed weights of the forward pass, ci to co channels. */
    void (*weights)(const float *hwio, size_t ci, size_t co, float *ret);
    /* The same kernels to the weights of the data gradient, co to ci channels: a wino4_conv with both swapped. */
    void (*weights_back)(const float *hwio, size_t ci, size_t co, float *ret);
    /* Forward pass, or data gradient with the weights of `weights_back`. */
    void (*conv)(const struct conv_job *c, void *scratch);
    void (*weight_gradient)(const struct wino4_weight_gradient *g, void *scratch);
    /* The sum of all weight_gradient calls to the gradient [3][3][ci][co], for `count` panels of 16 output channels from `first` on. */
    void (*weight_gradient_finish)(const float *transformed, size_t ci, size_t co, size_t first, size_t count, float *ret_hwio);
};

void wino4_kernels_init(struct wino4_kernels *k, unsigned features); /* enum cpu_feature */
void wino4_kernels_init_c(struct wino4_kernels *k);
void wino4_kernels_init_avx2(struct wino4_kernels *k);
void wino4_kernels_init_avx512(struct wino4_kernels *k);

size_t wino4_weights_bytes(size_t ci, size_t co); /* of transformed weights, or of their gradient */
size_t wino4_scratch_bytes(size_t ci, size_t co); /* for every function of every level */

#endif
