/* onnx_patterns.c: activations that files spell out: x · Sigmoid(x), and gelu as x · (1 + Erf(x / √2)) / 2 in any order of its factors. */
#include "export/onnx_translate.h"

#include <math.h>
#include <string.h>

/* The number of a constant of a single value; NaN: it is none. */
static double single(const struct onnx_value *v)
{
    return v && v->kind == ONNX_CONSTANT && v->constant->count == 1 ? (double)onnx_tensor_float(v->constant, 0) : (double)NAN;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-4;
}

/* The other input of a node with two; NULL: `v` is none of them, or both. */
static struct onnx_value *other(const struct onnx_translation *t, const struct onnx_file_node *n, const struct onnx_value *v)
{
    if (!n || n->ins != 2 || n->outs != 1)
        return NULL;
    struct onnx_value *a = onnx_input(t, n, 0), *b = onnx_input(t, n, 1);
    return a == b ? NULL : a == v ? b : b == v ? a : NULL;
}

static struct onnx_value *result(const struct onnx_translation *t, const struct onnx_file_node *n)
{
    return n && n->outs ? onnx_find(t, n->out[0]) : NULL;
}

static struct onnx_state *state(const struct onnx_translation *t, const struct onnx_file_node *n)
{
    return &t->states[n - t->file->nodes];
}

static void finish(const struct onnx_translation *t, const struct onnx_file_node *last, const char *op, struct onnx_value *in)
{
    state(t, last)->op = op;
    state(t, last)->in = in;
}

static void find_silu(const struct onnx_translation *t, const struct onnx_file_node *gate)
{
    struct onnx_value *x = onnx_input(t, gate, 0), *g = result(t, gate);
    const struct onnx_file_node *product = g ? onnx_only_reader(t, g, "Mul") : NULL;
    if (!x || other(t, product, g) != x)
        return;
    state(t, gate)->absorbed = true;
    finish(t, product, "Swish", x);
}

/* The node Mul(x, ½) that only `reader` reads. */
static const struct onnx_file_node *half_of(const struct onnx_translation *t, const struct onnx_value *v, const struct onnx_value *x,
                                            const struct onnx_file_node *reader)
{
    const struct onnx_file_node *n = v && v->maker ? &t->file->nodes[v->maker - 1] : NULL;
    if (!n || strcmp(n->op, "Mul") != 0 || onnx_only_reader(t, v, reader->op) != reader)
        return NULL;
    return near(single(other(t, n, x)), 0.5) ? n : NULL;
}

static void find_gelu(const struct onnx_translation *t, const struct onnx_file_node *erf_node)
{
    struct onnx_value *scaled = onnx_input(t, erf_node, 0), *x = NULL;
    const struct onnx_file_node *scale = scaled && scaled->maker && scaled->uses == 1 ? &t->file->nodes[scaled->maker - 1] : NULL, *half = NULL;
    if (!scale || scale->ins != 2)
        return;
    for (size_t i = 0; i < 2; i++) {
        double c = single(onnx_input(t, scale, 1 - i));
        if ((strcmp(scale->op, "Div") == 0 && i == 0 && near(c, sqrt(2))) || (strcmp(scale->op, "Mul") == 0 && near(c, sqrt(.5))))
            x = onnx_input(t, scale, i);
    }
    const struct onnx_file_node *sum = result(t, erf_node) ? onnx_only_reader(t, result(t, erf_node), "Add") : NULL;
    if (!x || !sum || !near(single(other(t, sum, result(t, erf_node))), 1))
        return;
    const struct onnx_file_node *first = onnx_only_reader(t, result(t, sum), "Mul"), *last = NULL;
    struct onnx_value *factor = other(t, first, result(t, sum));
    if (!factor)
        return;
    if (factor == x) { /* (x · sum) · ½ */
        last = onnx_only_reader(t, result(t, first), "Mul");
        last = last && near(single(other(t, last, result(t, first))), 0.5) ? last : NULL;
    } else if (near(single(factor), 0.5)) { /* x · (sum · ½) */
        last = onnx_only_reader(t, result(t, first), "Mul");
        last = last && other(t, last, result(t, first)) == x ? last : NULL;
    } else if ((half = half_of(t, factor, x, first))) { /* (x · ½) · sum */
        last = first;
    }
    if (!last)
        return;
    state(t, scale)->absorbed = state(t, erf_node)->absorbed = state(t, sum)->absorbed = true;
    if (first != last)
        state(t, first)->absorbed = true;
    if (half)
        state(t, half)->absorbed = true;
    finish(t, last, "Gelu", x);
}

void onnx_find_patterns(struct onnx_translation *t)
{
    for (size_t i = 0; i < t->order_count; i++) {
        const struct onnx_file_node *n = &t->file->nodes[t->order[i]];
        if (strcmp(n->op, "Sigmoid") == 0)
            find_silu(t, n);
        else if (strcmp(n->op, "Erf") == 0)
            find_gelu(t, n);
    }
}
