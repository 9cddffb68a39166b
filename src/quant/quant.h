/* quant.h: a model in 8-bit integers: what is quantised, how, and by which numbers.
 *
 * Activations are uint8 per value of the graph, asymmetric: real = scale · (q − zero), and the range contains 0. Weights are int8 per
 * output channel, symmetric: real = scale[c] · q. A convolution or dense layer computes
 *
 *     acc = Σ (q_in − zero_in) · q_w + bias,   bias in units of scale_in · scale[c]
 *     out = clamp(rint(acc · (scale_in · scale[c] / scale_out)) + zero_out, low, high)
 *
 * in 32-bit integers, one float multiplication, and rounding to nearest even: the same integers on every instruction set, and what
 * ONNX Runtime computes. relu and relu6 after it are the clamp. A value that no integer layer reads stays float.
 *
 * The graph is a folded one (model/fold.h). */
#ifndef QUANT_QUANT_H
#define QUANT_QUANT_H

#include "model/graph.h"

#include <stdatomic.h>

/* ---- What is quantised ---- */

enum quant_form {
    QUANT_INSIDE, /* the value lies within a layer and its activation, and is not stored */
    QUANT_U8,
    QUANT_FLOAT,
};

enum quant_op {
    QUANT_OP_NONE,    /* part of the layer before it */
    QUANT_OP_CONV,    /* conv, dwconv, and dense of an image */
    QUANT_OP_DENSE,
    QUANT_OP_ADD,
    QUANT_OP_CONCAT,
    QUANT_OP_MAXPOOL, /* the result has the input's scale, as for flatten */
    QUANT_OP_AVGPOOL,
    QUANT_OP_GLOBALAVGPOOL,
    QUANT_OP_FLATTEN,
    QUANT_OP_TABLE,   /* an activation: 256 results */
    QUANT_OP_FLOAT,   /* anything else, in float, with conversions around it */
};

/* What a folded graph looks like in integers; depends on the graph only. */
struct quant_group {
    enum quant_op op;
    size_t out;       /* the value that holds the result: after the activation */
    float low, high;  /* clamp of the activation; none: −INFINITY, INFINITY */
};

struct quant_borders {
    struct quant_group *groups; /* per node */
    enum quant_form *forms;     /* per value, count + 1 of them */
    size_t *readers;            /* per value: nodes that read it; the graph's result has one more */
};

pst_status quant_borders_create(struct quant_borders *ret, const struct graph *g, pst_error *reterr);
void quant_borders_finish(struct quant_borders *b); /* Zeroed ok. */

/* ---- Numbers ---- */

/* The range of a value. */
struct quant_range {
    float low, high;
};

struct quant_value {
    enum quant_form form;
    float scale; /* of QUANT_U8 */
    uint8_t zero;
};

/* How a layer with integer weights is computed. The integer ways give the same bits; where a machine lacks one, another runs. */
enum quant_run {
    QUANT_RUN_AUTO,    /* the first integer kernel that takes the shape */
    QUANT_RUN_PRODUCT, /* integers, as a product of windows and weights */
    QUANT_RUN_WINOGRAD,
    QUANT_RUN_FLOAT,   /* fp32, with dequantised weights and the same borders: differs by one level at most */
    QUANT_RUNS,
};
extern const char *const quant_run_names[QUANT_RUNS];

struct quant_layer {
    struct quant_group group;
    int8_t *weights;     /* CONV, DENSE: in the order of the graph's parameter */
    float *weight_scale; /* per output channel */
    int32_t *bias;       /* per output channel; 0 where the layer has none */
    float *params;       /* FLOAT: values of its parameters, one after the other */
    enum quant_run run;  /* CONV, DENSE: how it is computed */
};

/* Read-only once it was made, but for `refs`. */
struct quant_model {
    atomic_uint refs;
    struct graph *graph;        /* owned */
    struct quant_layer *layers; /* per node */
    struct quant_value *values; /* count + 1 of them */
    unsigned weight_bits;       /* 8: weights in ±127; 7: in ±63, where pairs of products fit 16 bits */
};

enum quant_bits { QUANT_BITS_7 = 7, QUANT_BITS_8 = 8 };

struct quant_options {
    unsigned weight_bits; /* 0: 7 */
};

/* Quantises a folded graph. `params` are its values, `ranges` one per value of the graph (those of values that are not
 * QUANT_U8 are not read). PST_EINVAL: a range or a weight is not finite. */
pst_status quant_create(struct quant_model **ret, const struct graph *g, const float *params, const struct quant_range *ranges,
                        const struct quant_options *o, pst_error *reterr);
struct quant_model *quant_ref(const struct quant_model *q);
struct quant_model *quant_unref(struct quant_model *q); /* NULL ok; returns NULL */

/* The parameters of the graph in float32, as the integers have them: its block of values. */
void quant_dequantise(const struct quant_model *q, float *ret_params);
/* The kernel of a CONV or DENSE layer in float32, and its bias (`ret_bias` NULL: not needed). */
void quant_dequantise_layer(const struct quant_model *q, size_t node, float *ret_kernel, float *ret_bias);
/* Values of the parameters of a FLOAT layer. */
size_t quant_float_values(const struct graph *g, const struct graph_node *n);

/* Bytes of weights, scales and biases as they are stored. */
uint64_t quant_weight_bytes(const struct quant_model *q);

/* Checks sums, scales and clamps after numbers were read from a file. PST_ECORRUPT. */
pst_status quant_check(const struct quant_model *q, pst_error *reterr);
/* Allocates a model of the text without numbers, for a reader: weights are 0, scales 1. */
pst_status quant_create_empty(struct quant_model **ret, const char *text, const struct shape *input, unsigned weight_bits,
                              pst_error *reterr);

/* Scale and zero of a range, which is widened to contain 0. */
struct quant_value quant_value_of(struct quant_range r);
/* Turns the largest absolute weight of each channel into its scale. A channel of zeros gets the smallest scale of the others: the unit of its bias
 * depends on it. */
void quant_weight_scales(float *scale, size_t channels, unsigned bits);
/* Scales and integers of a kernel whose last dimension is the output channel (or the channel of a depthwise one). */
void quant_weights(const float *kernel, size_t count, size_t channels, unsigned bits, float *ret_scale, int8_t *ret);
/* The largest integer of a weight: 127 or 63. */
int quant_weight_limit(unsigned bits);
/* The clamp of a group as integers of its result. */
void quant_clamp(const struct quant_group *g, const struct quant_value *out, uint8_t *ret_low, uint8_t *ret_high);
/* Output channels of the layer of a node; 0: it has no integer weights. */
size_t quant_channels(const struct graph_node *n);
/* Number of values of its kernel. */
size_t quant_kernel_values(const struct graph *g, const struct graph_node *n);

static inline float quant_real(const struct quant_value *v, uint8_t q)
{
    return v->scale * (float)((int)q - (int)v->zero);
}

uint8_t quant_round(const struct quant_value *v, float x); /* NaN: the zero */

/* ---- The reference ---- */

/* Computes the graph's result in float for `n` samples by the plain C meaning of every layer. `values` (NULL: not wanted) receives
 * the stored integers of each QUANT_U8 value, at values[v] unless that is NULL. */
pst_status quant_reference(const struct quant_model *q, const float *in, size_t n, float *ret, uint8_t *const *values,
                           pst_error *reterr);

#endif
