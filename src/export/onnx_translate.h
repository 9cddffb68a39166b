/* onnx_translate.h: what the parts of the ONNX import share: values, and the state of a translation. */
#ifndef EXPORT_ONNX_TRANSLATE_H
#define EXPORT_ONNX_TRANSLATE_H

#include "export/onnx_file.h"
#include "model/graph.h"

#define ONNX_MAX_SHAPE 16
#define ONNX_BATCH     INT64_MIN /* in shapes that the file computes: the size of the batch */

enum onnx_kind { ONNX_UNKNOWN, ONNX_CONSTANT, ONNX_VALUE, ONNX_SHAPE };

/* Integers of values: real = scale · (q − zero), q in 8 bits. */
struct onnx_levels {
    bool set;
    float scale;
    uint8_t zero;
};

/* What a name of the file stands for.
 *
 * A value of the model is a value of our graph. `axes` says which of our axes (N, C, H, W) each dimension of the file's tensor is: "C", or
 * "CHW" of a flattened image. Axes of size 1 are in none. Our value may be flattened already (rank 1): its order is always H, W, C of `image`. */
struct onnx_value {
    const char *name;
    size_t maker;  /* the node that makes it, and one more; 0: none */
    size_t reader; /* a node that reads it, and one more */
    size_t uses;   /* how often it is read; the result of the graph is read once more */
    enum onnx_kind kind;
    const struct onnx_tensor *constant;
    size_t ours;
    struct shape image;
    uint32_t rank;
    char axes[ONNX_FILE_RANK][5];
    uint32_t pads[4];  /* zeros that Pad put around it and that are not in our value: top, left, bottom, right */
    bool positive;     /* no value is below zero */
    bool integers;     /* between QuantizeLinear and DequantizeLinear, with these levels */
    struct onnx_levels levels;
    int64_t shape[ONNX_MAX_SHAPE]; /* of ONNX_SHAPE: numbers that the file computes from shapes */
    size_t shape_count;
};

/* Constants of a layer with integer weights. */
struct onnx_weights {
    const struct onnx_tensor *kernel, *bias; /* bias NULL: none */
};

/* What is known of a node before it is translated. */
struct onnx_state {
    uint8_t visit;
    bool absorbed;         /* part of a pattern whose last node stands for it */
    const char *op;        /* the operator that a pattern is; NULL: the node's own */
    struct onnx_value *in; /* of a pattern: its input */
};

struct onnx_translation {
    const struct onnx_file *file;
    struct onnx_value *values;
    size_t value_count;
    uint32_t *slots; /* hash table: number of a value, and one more */
    size_t mask;
    uint64_t seed; /* of the hash: names of a file cannot be chosen to collide */
    size_t *concats; /* per value of the graph: the concat that begins with it, and one more; 0: none */
    size_t concat_capacity;
    bool quantised; /* values are rounded to integers: the file has QuantizeLinear */
    struct onnx_state *states; /* per node */
    size_t *order;             /* nodes that the result needs, each after those it reads */
    size_t order_count;
    int64_t batch; /* of the input; −1: open */
    struct graph *graph;
    struct graph_builder builder;
    float *params;
    size_t capacity;
    size_t most; /* values of parameters that the file's constants can make */
    size_t made; /* bytes of constants that were computed from others, at most `most` */
    struct onnx_levels *levels;   /* per value of the graph, those that are rounded to integers; NULL: none is */
    struct onnx_weights *weights; /* per node of the graph; NULL: none has integers */
    struct arena memory;               /* of values that are made on the way */
    const struct onnx_file_node *node; /* the current one, for errors; NULL: none */
    pst_error *reterr;
};

/* Fails with the name and the operator of the current node. */
pst_status onnx_fail(const struct onnx_translation *t, pst_status st, const char *format, ...) PST_PRINTF(3, 4);
pst_status onnx_fail_memory(const struct onnx_translation *t);
/* Before memory for a constant that is computed from another: fails where the sum of them is beyond what the file's constants justify. */
pst_status onnx_spend(struct onnx_translation *t, size_t bytes);
/* Adds the place to an error of another room. */
pst_status onnx_fail_inner(const struct onnx_translation *t, pst_status st);

/* The value of a name; NULL: there is none. */
struct onnx_value *onnx_find(const struct onnx_translation *t, const char *name);
void onnx_index_value(struct onnx_translation *t, size_t value); /* makes it found by its name */
/* Input `i` of a node; NULL: absent. */
struct onnx_value *onnx_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i);
/* A required input that is a value of the model, and has no zeros of a Pad around it unless `padded`. */
pst_status onnx_value_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i, bool padded, struct onnx_value **ret);
/* A required input that is a constant. */
pst_status onnx_constant_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i, const char *what,
                               const struct onnx_tensor **ret);
/* The node that alone reads the value, if it has this operator; NULL: none. */
const struct onnx_file_node *onnx_only_reader(const struct onnx_translation *t, const struct onnx_value *v, const char *op);

/* Attributes, or their default. */
int64_t onnx_int(const struct onnx_file_node *n, const char *name, int64_t fallback);
double onnx_float(const struct onnx_file_node *n, const char *name, double fallback);
/* Whole numbers of the attribute `name`, or of input `i`, where newer versions of operators have them. False: neither is there. */
pst_status onnx_numbers(const struct onnx_translation *t, const struct onnx_file_node *n, const char *name, size_t i, int64_t ret[ONNX_MAX_SHAPE],
                        size_t *ret_count, bool *ret_found);

/* ---- Layers ---- */

/* A zeroed config of the layer. NULL: out of memory. */
void *onnx_config(const struct onnx_translation *t, const char *layer);
/* Adds a layer; its parameters are zeros. `wanted` is a name for it, if it is free; NULL: counted. */
pst_status onnx_add(struct onnx_translation *t, const char *layer, const void *config, const char *wanted, const size_t *inputs, size_t count,
                    size_t *ret);
/* Parameter `k` of the layer that was added last. */
float *onnx_param(const struct onnx_translation *t, size_t k, size_t *ret_count);
/* A name for the layer of a node with these weights, in `ret`; NULL: counted. */
const char *onnx_layer_name(const struct onnx_file_node *n, const char *weights, char ret[GRAPH_NAME_SIZE]);

/* ---- Axes ---- */

uint32_t onnx_axis_size(const struct onnx_value *v, char axis); /* of "N": 1 */
/* Sizes of dimension `i` without the batch. */
size_t onnx_dim_size(const struct onnx_value *v, uint32_t i);
/* Makes `v` a value with these axes, as "NCHW", one letter per dimension; "-" is a dimension of size 1. */
void onnx_set(struct onnx_translation *t, struct onnx_value *v, size_t ours, const char *axes);
/* The same value as `from`, computed further: axes and sizes stay. */
void onnx_follow(struct onnx_value *to, const struct onnx_value *from, size_t ours);
/* Whether the dimensions are these axes. */
bool onnx_has_axes(const struct onnx_value *v, const char *axes);
/* The dimension that has all axes of a sample; 0: there is none. */
uint32_t onnx_whole_dim(const struct onnx_value *v);
/* Our flattened value. */
pst_status onnx_flatten(struct onnx_translation *t, const struct onnx_value *v, size_t *ret);
/* The position in our flattened value of each position in dimension `dim`, which is the whole one. NULL: out of memory. */
const uint32_t *onnx_positions(struct onnx_translation *t, const struct onnx_value *v, uint32_t dim);
/* A constant that is broadcast to `v` as one number per channel of `*ret_ours`, which is `v` or its flattened form. */
pst_status onnx_channel_values(struct onnx_translation *t, const struct onnx_value *v, const struct onnx_tensor *c, size_t *ret_ours, float **ret);
/* The same for a constant with one number per position of dimension `dim`, such as those of normalisations. */
pst_status onnx_dim_values(struct onnx_translation *t, const struct onnx_value *v, uint32_t dim, const struct onnx_tensor *c, size_t *ret_ours,
                           float **ret);

/* ---- Operators ---- */

typedef pst_status onnx_operator(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out);
onnx_operator onnx_transpose, onnx_reshape, onnx_flatten_node, onnx_squeeze, onnx_unsqueeze, onnx_identity, onnx_cast, onnx_constant_node, onnx_shape_node,
    onnx_gather, onnx_slice, onnx_constant_of_shape;
onnx_operator onnx_conv, onnx_maxpool, onnx_averagepool, onnx_pad;
onnx_operator onnx_gemm, onnx_matmul, onnx_quantize, onnx_dequantize;
/* Numbers of shapes side by side: Concat of them. */
pst_status onnx_concat_shapes(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out);

/* Takes the node as one that adds a constant per channel to `v`, and reads it ahead: its result is then `out`. False: it is not. */
struct onnx_value *onnx_take_bias(struct onnx_translation *t, const struct onnx_value *v, const struct onnx_tensor **ret_bias);

/* Remembers the constants of the layer that was added last, where they come from integers. */
pst_status onnx_note_weights(struct onnx_translation *t, const struct onnx_tensor *kernel, const struct onnx_tensor *bias);
struct onnx_model;
/* Makes the quantised model of a file that rounds values to integers; otherwise none. */
pst_status onnx_make_quantised(const struct onnx_translation *t, struct onnx_model *m);

/* Marks nodes that together are one activation: x · sigmoid(x), and the forms of gelu. */
void onnx_find_patterns(struct onnx_translation *t);
/* Translates one node. */
pst_status onnx_translate_node(struct onnx_translation *t, size_t node);

#endif
