/* block_conv_state.h: the convolution block's state, shared by its plan (block_conv.c), its forward pass (block_conv_forward.c) and
 * its backward pass (block_conv_backward.c). */
#ifndef MODEL_BLOCK_CONV_STATE_H
#define MODEL_BLOCK_CONV_STATE_H

#include "model/block_conv.h"
#include "model/strip.h"
#include "model/window.h"

enum { GAMMA, BETA, MOVING_MEAN, MOVING_VARIANCE };

struct conv_group {
    struct conv_shape shape;
    const struct conv_kernel *kernel;
    size_t nodes;
    bool norm, pool;
    float low, high;
};

struct conv_state {
    struct conv_group group;
    const struct elem_kernels *elem;
    const struct graph_node *node;
    size_t in, out; /* values */
    struct window rows, columns;
    size_t units;  /* of a sample: rows, where pixels do not need each other (1 × 1); otherwise 1. What follows counts units as images */
    size_t in_h;
    size_t in_values, z_values, out_values; /* per unit */
    size_t strip_images;
    size_t strip_rows;  /* of the result's gradient: all, or, where one image is too large for a strip, an even number */
    size_t bias, gamma; /* parameters; SIZE_MAX: none */
    double eps, momentum;
    enum number z_number; /* of the result and its gradient */
    bool stores_y;      /* batch norm whose result is read as it is: z is saved beside it */
    bool needs_data;    /* the input's gradient */
    bool serves;        /* the input's producer takes mask and sums from this block's epilogue */
    bool served;        /* a reader masks the gradient and takes the sums */
    struct block *asks; /* the dense block that computes rows of the result's gradient on demand; NULL: it is stored */
    size_t ask_images;  /* where pooled rows of the gradient come into a strip: so many images of one row */
    float *packed, *packed_back;
    float *scale, *shift, *centre;      /* batch norm, forward; what sums are taken around */
    float *by_gradient, *by_z, *offset; /* batch norm, backward: dz = by_gradient · g + by_z · (z − centre) + offset */
    double *mean, *deviation;           /* of the batch: the mean, and 1 / √(variance + eps) */
    double *sums;                       /* per lane: 2 · co forward, and 2 · co of the result's gradient */
    double *shared;                     /* with shared_norm: the sums of all ranks, 2 · co; NULL: of this one */
    double shared_rows;
    size_t sum_bytes;                   /* of the weight gradient, per lane */
};

static inline struct conv_strides strides_of(size_t w, size_t channels, size_t values)
{
    return (struct conv_strides){.image = values, .row = w * channels, .pixel = channels};
}

static inline size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* Units of a lane. */
static inline struct lane_range conv_lane(const struct step *s, const struct conv_state *c, unsigned lane)
{
    struct lane_range r = step_lane(s, lane);
    return (struct lane_range){r.first * c->units, r.count * c->units};
}

/* `bytes` of `data` from `first` on are read next. */
static inline void conv_ahead_bytes(struct conv_ahead *a, const void *data, size_t first, size_t bytes)
{
    size_t i = 0;
    while (i < CONV_AHEADS && a->data[i])
        i++;
    if (i < CONV_AHEADS && bytes > 0 && data) {
        a->data[i] = (const char *)data + first;
        a->bytes[i] = bytes;
    }
}

/* `count` images from `first` on of `values` values each are read next. */
static inline void conv_ahead_add(struct conv_ahead *a, const void *data, enum number number, size_t values, size_t first, size_t count)
{
    conv_ahead_bytes(a, data, first * values * number_bytes(number), count * values * number_bytes(number));
}

/* Whether a tensor of `values` numbers per unit is so large that it is stored past the caches. */
bool conv_streams(const struct step *s, const struct conv_state *c, size_t values, enum number number);
/* Whether gradients are taken from the pooled gradient as it is. */
bool conv_skips_unpooling(const struct conv_state *c);
/* Bytes of the strip of inputs. The input of the model is read where it lies. */
size_t conv_input_bytes(const struct conv_state *c);
/* The same in the backward pass. */
size_t conv_back_input_bytes(const struct conv_state *c);
/* Floats of the strip of gradients. */
size_t conv_gradient_floats(const struct conv_state *c);

/* The convolution's own result z: the value itself where it is lazy, otherwise what was saved beside it. Of number type z_number. */
void *conv_z(struct step *s, struct block *b);
/* The block's result from sample `first` on, as it is read. */
struct strip_source conv_result(struct step *s, struct block *b, size_t first);
/* The input of `count` images from `first`: in place, or in the strip. */
struct conv_source conv_load_input(struct step *s, const struct conv_state *c, size_t first, size_t count, float *strip);
/* Rows [row, row + rows) of it. */
struct conv_source conv_load_rows(struct step *s, const struct conv_state *c, size_t first, size_t count, size_t row, size_t rows, float *strip);

/* Puts the lanes' sums from `first` on, added over all ranks, into `shared`. */
void conv_share_sums(struct step *s, struct block *b, size_t first);

/* Phases. */
void conv_prepare(struct step *s, struct block *b);
void conv_plan_forward(struct block *b);
void conv_plan_backward(struct block *b);

#endif
