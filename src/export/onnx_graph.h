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

/* Begins a constant of floats; the caller appends its values to w->to, then calls onnx_end_constant. */
struct onnx_constant {
    size_t begin;
};
struct onnx_constant onnx_begin_constant(struct onnx_graph *w, const char *name, const uint64_t *shape, size_t rank);
void onnx_end_constant(struct onnx_graph *w, struct onnx_constant c);

/* Writes node `i` of the model; its result becomes the value called names[i + 1]. */
pst_status onnx_layer(struct onnx_graph *w, size_t i, pst_error *reterr);

#endif
