/* onnx_graph.h: nodes and constants of an ONNX graph, as layers write them. */
#ifndef EXPORT_ONNX_GRAPH_H
#define EXPORT_ONNX_GRAPH_H

#include "export/onnx.h"

#define ONNX_NAME_SIZE (GRAPH_NAME_SIZE + 24)
#define ONNX_MAX_INTS  4

struct onnx_graph {
    struct text *to;
    const struct graph *graph;
    const float *params;
    const struct quant_model *quant; /* NULL: floats */
    char (*names)[ONNX_NAME_SIZE]; /* name of each value of the model */
    bool used;       /* a node wrote the value that is being built; otherwise it is its input under another name */
    struct text row; /* scratch for weights whose order changes */
};

/* An attribute of a node: whole numbers, or one float. */
struct onnx_attribute {
    const char *name; /* NULL: the end of a list */
    enum { ONNX_INT, ONNX_INTS, ONNX_FLOAT } kind;
    int64_t ints[ONNX_MAX_INTS];
    size_t count; /* of ONNX_INTS */
    double value; /* of ONNX_FLOAT */
};

/* One node: `in` ends with NULL, `attributes` (NULL: none) with a NULL name. */
void onnx_node(struct onnx_graph *w, const char *op, const char *const *in, const char *out,
               const struct onnx_attribute *attributes);

/* Types of constants: the numbers that ONNX gives them. */
enum onnx_type { ONNX_TYPE_FLOAT = 1, ONNX_TYPE_U8 = 2, ONNX_TYPE_I8 = 3, ONNX_TYPE_I32 = 6 };

/* Begins a constant of floats; the caller appends its values to w->to, then calls onnx_end_constant. */
struct onnx_constant {
    size_t begin;
};
struct onnx_constant onnx_begin_constant(struct onnx_graph *w, const char *name, const uint64_t *shape, size_t rank);
struct onnx_constant onnx_begin_typed(struct onnx_graph *w, enum onnx_type type, const char *name, const uint64_t *shape, size_t rank);
void onnx_end_constant(struct onnx_graph *w, struct onnx_constant c);

/* ---- Quantised models ---- */

/* Rounds a value that was written to its integers and back; it has another name then. */
void onnx_quantise_value(struct onnx_graph *w, size_t value);
/* Writes the integers of node `node`'s kernel, stored as (taps, in, out), as (out, in, rows, columns), or as they are where `size` is 0, and
 * their conversion to floats, which is called as the parameter. */
void onnx_quantised_kernel(struct onnx_graph *w, size_t node, uint64_t size, uint64_t in, uint64_t out);
void onnx_quantised_bias(struct onnx_graph *w, size_t node);

/* Writes node `i` of the model; its result becomes the value called names[i + 1]. */
pst_status onnx_layer(struct onnx_graph *w, size_t i, pst_error *reterr);

#endif
