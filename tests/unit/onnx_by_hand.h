/* onnx_by_hand.h: ONNX files written piece by piece, as no exporter writes them. */
#ifndef TESTS_UNIT_ONNX_BY_HAND_H
#define TESTS_UNIT_ONNX_BY_HAND_H

#include "base/proto.h"
#include "export/onnx_import.h"

enum { FLOAT = 1, INT64 = 7 };

struct hand {
    struct text graph;
};

#define DIMS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

void hand_fill(float *values, size_t count, uint64_t key); /* random numbers from −1 to 1 */
void hand_constant(struct hand *h, const char *name, int type, const int64_t *dims, size_t rank, const void *data, size_t bytes);
/* A node of a domain, or of none; `words` are attributes, separated by spaces: "name=1,2": whole numbers; "name:1": one of them; "name~0.5": a float;
 * "name@1": a tensor with one whole number. */
void hand_node_of(struct hand *h, const char *domain, const char *op, const char *in, const char *out, const char *words);
void hand_node(struct hand *h, const char *op, const char *in, const char *out, const char *words);
/* An input (11) or a result (12); a size of −1 is open. */
void hand_port(struct hand *h, unsigned field, const char *name, const int64_t *dims, size_t rank);
/* The file around the graph, whose text it frees. */
struct text hand_finish(struct hand *h);
/* Finishes the file and imports it. */
pst_status hand_import(struct hand *h, struct onnx_model *m, pst_error *error);

#endif
