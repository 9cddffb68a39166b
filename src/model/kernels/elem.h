/* elem.h: passes over pixels value by value: how lazy values are read, gradients masked and summed, residuals added.
 *
 * Each takes `pixels` rows of `channels` values without gaps. Sums per channel are in double; within 64 pixels they are taken in
 * float, so that the loops stay vectors. Every level gives the same bits. */
#ifndef MODEL_KERNELS_ELEM_H
#define MODEL_KERNELS_ELEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* y = clamp(scale · (z − centre) + shift, low, high); scale NULL: clamp(z). */
struct elem_read {
    const float *z;
    const float *centre, *scale, *shift; /* per channel */
    float low, high;
};

/* A gradient on its way to a convolution's result: 0 unless low < y < high, and the sums for batch normalisation. */
struct elem_service {
    struct elem_read y;   /* what is compared with y.low and y.high; y.z NULL: nothing is masked */
    const float *z;       /* of sum2 */
    const float *centre;  /* per channel */
    double *sum, *sum2;   /* per channel: sum += g, sum2 += g · (z − centre); NULL: no sums */
};

struct elem_kernels {
    void (*read)(const struct elem_read *from, size_t pixels, size_t channels, float *to);
    /* to = by_gradient · g + by_z · (z − centre) + offset */
    void (*norm_gradient)(const float *g, const float *z, const float *centre, const float *by_gradient, const float *by_z, const float *offset,
                          size_t pixels, size_t channels, float *to);
    /* to = clamp(a + b, low, high) */
    void (*add)(const struct elem_read *a, const struct elem_read *b, float low, float high, size_t pixels, size_t channels,
                float *to);
    /* to = [to +] g where `pass` (y = NULL: everywhere) lies between low and high, and as the service says. `to` may be g. */
    void (*gradient)(const float *g, const float *y, float low, float high, const struct elem_service *service, bool adds,
                     size_t pixels, size_t channels, float *to);
    /* Gradient of 2 × 2 pooling: dz (h × w, zeros elsewhere) from g (⌊h/2⌋ × ⌊w/2⌋) by the argmax. */
    void (*unpool)(const float *g, const uint8_t *argmax, size_t h, size_t w, size_t channels, float *dz);
    /* sum[c] += Σ x[c] */
    void (*sum)(const float *x, size_t pixels, size_t channels, float *sum);
    /* to += from */
    void (*accumulate)(const float *from, size_t count, float *to);
};

const struct elem_kernels *elem_kernels(unsigned features); /* enum cpu_feature */

#endif
