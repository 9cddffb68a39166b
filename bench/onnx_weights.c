/* onnx_weights.c: see onnx_weights.h. Reads initialisers only; the graph is taken for granted. */
#include "onnx_weights.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <stdio.h>
#include <string.h>

enum { MODEL_GRAPH = 7, GRAPH_CONSTANT = 5, TENSOR_NAME = 8, TENSOR_DATA = 9 };

/* A part of the file. */
struct span {
    const uint8_t *at, *end;
};

static bool read_varint(struct span *s, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; s->at < s->end && shift < 64; shift += 7) {
        uint8_t byte = *s->at++;
        *ret |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* The next field; `*ret` is the content of a message, and empty for numbers. */
static bool next_field(struct span *s, uint64_t *field, struct span *ret)
{
    uint64_t key, n = 0;
    *ret = (struct span){0};
    if (!read_varint(s, &key))
        return false;
    *field = key >> 3;
    if ((key & 7) == 0)
        return read_varint(s, &n);
    if ((key & 7) == 2) {
        if (!read_varint(s, &n) || n > (uint64_t)(s->end - s->at))
            return false;
        *ret = (struct span){s->at, s->at + n};
    } else {
        n = (key & 7) == 1 ? 8 : 4;
    }
    if (n > (uint64_t)(s->end - s->at))
        return false;
    s->at += n;
    return true;
}

/* The data of the initialiser with this name. */
static struct span find_data(struct span graph, const char *name)
{
    struct span constant, part;
    uint64_t field;
    while (next_field(&graph, &field, &constant)) {
        struct span data = {0};
        bool same = false;
        while (field == GRAPH_CONSTANT && next_field(&constant, &field, &part)) {
            if (field == TENSOR_NAME)
                same = (size_t)(part.end - part.at) == strlen(name) && memcmp(part.at, name, strlen(name)) == 0;
            if (field == TENSOR_DATA)
                data = part;
            field = GRAPH_CONSTANT;
        }
        if (same)
            return data;
    }
    return (struct span){0};
}

static const uint8_t *find_values(struct span graph, const char *name, size_t count)
{
    struct span data = find_data(graph, name);
    return (size_t)(data.end - data.at) == count * sizeof(float) ? data.at : NULL;
}

/* From OIHW to ours. */
static void place_kernel(const struct graph_param *p, const uint8_t *from, float *to)
{
    size_t taps = (size_t)p->layer.shape[0] * p->layer.shape[1], out = p->layer.shape[p->layer.rank - 1], in = p->count / taps / out;
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            for (size_t t = 0; t < taps; t++)
                memcpy(&to[(t * in + i) * out + o], from + ((o * in + i) * taps + t) * sizeof(float), sizeof(float));
}

/* From (out, in) to (in, out); `image` is what was flattened before it: channels come first there. */
static void place_dense(const struct graph_param *p, const struct shape *image, const uint8_t *from, float *to)
{
    size_t in = p->layer.shape[0], out = p->layer.shape[1], pixels = (size_t)image->h * image->w;
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            memcpy(&to[i * out + o], from + (o * in + i % image->c * pixels + i / image->c) * sizeof(float), sizeof(float));
}

pst_status onnx_weights_read(const char *path, const struct graph *g, float *params, pst_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t length = 0, number = 0;
    uint64_t field = 0;
    struct span graph = {0};
    pst_status st = file_read_all(&bytes, &length, path, (size_t)1 << 31, reterr);
    for (struct span all = {bytes, bytes + length}; st == PST_OK && field != MODEL_GRAPH && next_field(&all, &field, &graph);)
        ;
    for (size_t i = 0; st == PST_OK && i < g->count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const struct graph_param *p = &g->params[n->first_param];
        char name[32], bias[40];
        if (n->params < 2)
            continue;
        snprintf(name, sizeof(name), "k%zu", number++);
        snprintf(bias, sizeof(bias), "%s_bias", name);
        const uint8_t *kernel_at = find_values(graph, name, p->count), *bias_at = find_values(graph, bias, p[1].count);
        if (!kernel_at || !bias_at) {
            st = pst_fail_at(reterr, PST_ETYPE, path, PST_NOWHERE, PST_NOWHERE, "%s does not have the size of %s", kernel_at ? bias : name, n->name);
            break;
        }
        size_t before = n->input[0]; /* the value, and one more than the node that made it */
        bool flat = before && strcmp(g->nodes[before - 1].layer->name, "flatten") == 0;
        if (p->layer.rank == 2)
            place_dense(p, flat ? &g->nodes[before - 1].in[0] : &n->in[0], kernel_at, params + p->offset);
        else
            place_kernel(p, kernel_at, params + p->offset);
        memcpy(params + p[1].offset, bias_at, p[1].count * sizeof(float));
    }
    mem_free(bytes);
    return st;
}
