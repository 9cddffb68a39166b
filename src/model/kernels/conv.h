/* conv.h: what every convolution kernel is asked for, and the table of candidates.
 *
 * Kernels know pointers, strides and counts: one thread, no allocation. Strides are in floats (bytes for the argmax). The block
 * above (block_conv.c) owns packing, threads and batch normalisation. */
#ifndef MODEL_KERNELS_CONV_H
#define MODEL_KERNELS_CONV_H

#include "model/number.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conv_strides {
    size_t image, row, pixel;
};

/* Pixels to read. The window of output (0, 0) begins `top` rows above and `left` columns before pixel (0, 0). Pixels outside
 * of h × w read as zero and are not loaded. */
struct conv_source {
    const float *data;
    struct conv_strides strides;
    size_t h, w;
    size_t top, left;
};

/* A tensor of the output's shape that an epilogue reads; `data` NULL: absent. */
struct conv_extra {
    const float *data;
    struct conv_strides strides;
};

/* The same, of the job's number type. */
struct conv_numbers {
    const void *data;
    struct conv_strides strides;
};

struct conv_shape {
    size_t size, stride; /* of the square kernel; its step */
    size_t ci, co;
    bool depthwise;      /* ci = co, one kernel per channel: HWC */
    size_t groups;       /* of channels, which do not mix: the weights have ci / groups input channels; 0: 1 */
    size_t dilation;     /* pixels from one tap of the kernel to the next; 0: 1 */
};

static inline size_t conv_groups(const struct conv_shape *s)
{
    return s->groups ? s->groups : 1;
}

static inline size_t conv_dilation(const struct conv_shape *s)
{
    return s->dilation ? s->dilation : 1;
}

/* Without groups and dilation, as most kernels take it. */
static inline bool conv_is_plain(const struct conv_shape *s)
{
    return conv_groups(s) == 1 && conv_dilation(s) == 1;
}

/* Memory that is read after a call. Kernels that can do so fetch it on the way, while they compute. */
#define CONV_AHEADS 3
struct conv_ahead {
    const void *data[CONV_AHEADS]; /* NULL: none, nor after it */
    size_t bytes[CONV_AHEADS];
};

/* The last step, while the output is in registers; `y` is the convolution's value. */
enum conv_epilogue {
    CONV_RAW,      /* out = y; sum += y − shift, sum2 += (y − shift)² */
    CONV_CLAMP,    /* out = clamp(y + bias + add, low, high) */
    CONV_POOL,     /* out = the 2 × 2 maximum of clamp(y + bias), ⌊h/2⌋ × ⌊w/2⌋ pixels; argmax: where it lay */
    CONV_GRADIENT, /* g = out = (y + add) where low < mask < high, else 0; sum += g, sum2 += g · (z − shift) */
};

struct conv_job {
    struct conv_shape shape;
    size_t images, h, w; /* of the output, before pooling */
    struct conv_source in;
    const float *weights; /* packed */
    enum conv_epilogue epilogue;
    enum number number; /* of `out`, `add` and `z` */
    void *out;
    struct conv_strides out_strides;
    const float *shift;  /* RAW, GRADIENT: per channel; NULL: 0 */
    double *sum, *sum2;  /* RAW, GRADIENT: per channel, added to; both or neither are NULL */
    const float *bias;   /* CLAMP, POOL: per channel; NULL: 0 */
    float low, high;     /* none: −INFINITY, INFINITY; relu: 0, INFINITY; relu6: 0, 6 */
    uint8_t *argmax;     /* POOL: 2 · row + column in the window, the first of equals; 255 where the maximum is ≤ low or ≥ high; NULL: not needed */
    struct conv_strides argmax_strides; /* bytes */
    struct conv_numbers add;            /* CLAMP, GRADIENT; may be `out` itself */
    struct conv_numbers z;              /* GRADIENT; sums need it */
    struct conv_extra mask;             /* GRADIENT; absent: every value passes */
    bool streams;                       /* `out` is large: a kernel may store it past the caches, and fences before it returns */
    struct conv_ahead ahead;
};

/* Adds to the gradient of the weights that made `images` outputs of h × w pixels. */
struct conv_weight_job {
    struct conv_shape shape;
    size_t images, h, w;
    struct conv_source in;      /* as in the forward pass */
    struct conv_extra gradient; /* of the output */
    float *sum;                 /* `gradient_bytes`, in the kernel's own layout */
    struct conv_ahead ahead;
};

/* The same from the gradient of a pooled result (CONV_POOL). */
struct conv_pooled_job {
    struct conv_shape shape;
    size_t images, h, w; /* of the output, before pooling */
    struct conv_source in;
    struct conv_extra gradient; /* ⌊h/2⌋ × ⌊w/2⌋ pixels */
    const uint8_t *argmax;
    struct conv_strides argmax_strides; /* bytes */
    float *sum;      /* as for conv_weight_job */
    float *bias_sum; /* per channel, added to; NULL: not needed */
    bool more;       /* the image after the last one is read by the next call */
};

struct conv_kernel {
    const char *name;
    bool numbers; /* whether it takes any number type; otherwise float32 only */
    bool (*takes)(const struct conv_shape *s);
    size_t (*weights_bytes)(const struct conv_shape *s); /* of packed weights, for either direction */
    size_t (*gradient_bytes)(const struct conv_shape *s);
    size_t (*scratch_bytes)(const struct conv_shape *s);
    size_t (*conv_scratch_bytes)(const struct conv_shape *s); /* of `conv` alone; NULL: scratch_bytes */
    size_t tile;  /* rows and columns of outputs (of one remainder by the dilation) that are computed together; 0: 1 */
    size_t panel; /* output channels that are computed together: a multiple of them can be left out at either end; 0: none can */
    size_t (*weights_at)(const struct conv_shape *s, size_t channel); /* floats of packed forward weights before this channel */
    void (*weights)(const struct conv_shape *s, const float *hwio, float *ret);
    void (*weights_back)(const struct conv_shape *s, const float *hwio, float *ret);
    void (*conv)(const struct conv_job *j, void *scratch);
    /* Data gradient: `shape` and in.top, in.left are those of the forward pass; `in` is the gradient of its output, h × w × ci
     * the gradient of its input. */
    void (*data)(const struct conv_job *j, void *scratch);
    void (*weight_gradient)(const struct conv_weight_job *j, void *scratch);
    /* The gradient [size][size][ci / groups][co] from the sum, for panels first to first + count − 1 of gradient_panels: equal parts of the sum,
     * which may be overwritten. */
    size_t (*gradient_panels)(const struct conv_shape *s);
    void (*weight_gradient_finish)(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwio);
    /* Optional: the weight gradient without un-pooling, for the shapes that takes_pooled takes; 1 × 1 without padding only. */
    bool (*takes_pooled)(const struct conv_shape *s);
    void (*pooled_weight_gradient)(const struct conv_pooled_job *j, void *scratch);
    /* Optional: the data gradient without un-pooling, for 1 × 1 convolutions without padding whose results have an even number of rows
     * and columns. `d` is as for `data`, but for d->in, which is not read. */
    bool (*takes_pooled_data)(const struct conv_shape *s);
    void (*pooled_data)(const struct conv_job *d, const struct conv_pooled_job *j, void *scratch);
};

/* Kernel number `i` of those that run with these CPU features, in the order in which they are asked; NULL: there are no more. */
const struct conv_kernel *conv_kernel_at(size_t i, unsigned features);
/* Whether the kernel has this name, for vectors of any width: they give the same bits. */
bool conv_kernel_is(const struct conv_kernel *k, const char *name);
/* Kernel number `i` of those that take the shape and could be the fastest: without those in plain C where there are others, and with
 * the widest vectors only. */
const struct conv_kernel *conv_kernel_rival(size_t i, const struct conv_shape *s, unsigned features);
/* The first kernel that takes the shape with these CPU features; NULL: none. */
const struct conv_kernel *conv_kernel_find(const struct conv_shape *s, unsigned features);

#endif
