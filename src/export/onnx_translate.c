/* onnx_translate.c: see onnx_translate.h: finding values, attributes and names; adding layers. */
#include "export/onnx_translate.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "model/graph_write.h"
#include "model/layer_list.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Errors ---- */

pst_status onnx_fail(const struct onnx_translation *t, pst_status st, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const struct onnx_file_node *n = t->node;
    if (n)
        return pst_fail_at(t->reterr, st, t->file->path, PST_NOWHERE, PST_NOWHERE, "ONNX: node %zu \"%.60s\" (%.32s): %s", (size_t)(n - t->file->nodes),
                           n->name[0] || !n->outs ? n->name : n->out[0], n->op, text);
    return pst_fail_at(t->reterr, st, t->file->path, PST_NOWHERE, PST_NOWHERE, "ONNX: %s", text);
}

pst_status onnx_fail_memory(const struct onnx_translation *t)
{
    return fail_memory_at(t->reterr, t->file->path, "reading ONNX");
}

pst_status onnx_spend(struct onnx_translation *t, size_t bytes)
{
    if (bytes > t->most || (t->made += bytes) > t->most)
        return onnx_fail(t, PST_ELIMIT, "the file computes more constants from its constants than a model needs");
    return PST_OK;
}

pst_status onnx_fail_inner(const struct onnx_translation *t, pst_status st)
{
    char message[sizeof(t->reterr->message)];
    if (!t->reterr)
        return st;
    snprintf(message, sizeof(message), "%s", t->reterr->message);
    message[strcspn(message, "\n")] = '\0'; /* the drawing of a place in text that the user never wrote */
    return onnx_fail(t, st, "%s", message);
}

/* ---- Values ---- */

static size_t slot_of(const struct onnx_translation *t, const char *name)
{
    size_t at = hash_bytes(name, strlen(name), t->seed) & t->mask;
    while (t->slots[at] && strcmp(t->values[t->slots[at] - 1].name, name) != 0)
        at = (at + 1) & t->mask;
    return at;
}

struct onnx_value *onnx_find(const struct onnx_translation *t, const char *name)
{
    size_t at = name[0] ? slot_of(t, name) : 0;
    return name[0] && t->slots[at] ? &t->values[t->slots[at] - 1] : NULL;
}

void onnx_index_value(struct onnx_translation *t, size_t value)
{
    if (t->values[value].name[0])
        t->slots[slot_of(t, t->values[value].name)] = (uint32_t)value + 1;
}

struct onnx_value *onnx_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i)
{
    return i < n->ins ? onnx_find(t, n->in[i]) : NULL;
}

pst_status onnx_value_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i, bool padded, struct onnx_value **ret)
{
    struct onnx_value *v = onnx_input(t, n, i);
    if (!v)
        return onnx_fail(t, PST_ECORRUPT, "input %zu is missing", i);
    if (v->kind == ONNX_UNKNOWN)
        return onnx_fail(t, PST_EUNSUPPORTED, "its input \"%.60s\" is a result that is not supported", v->name);
    if (v->kind != ONNX_VALUE)
        return onnx_fail(t, PST_EUNSUPPORTED, "its input \"%.60s\" does not depend on the model's input", v->name);
    if (!padded && (v->pads[0] || v->pads[1] || v->pads[2] || v->pads[3]))
        return onnx_fail(t, PST_EUNSUPPORTED, "its input comes from Pad, which is supported before Conv and pools");
    if (v->integers)
        return onnx_fail(t, PST_EUNSUPPORTED, "it reads integers; expected DequantizeLinear before it");
    *ret = v;
    return PST_OK;
}

pst_status onnx_constant_input(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i, const char *what,
                               const struct onnx_tensor **ret)
{
    struct onnx_value *v = onnx_input(t, n, i);
    if (!v || v->kind != ONNX_CONSTANT)
        return onnx_fail(t, v ? PST_EUNSUPPORTED : PST_ECORRUPT, "the %s is not a constant", what);
    *ret = v->constant;
    return PST_OK;
}

const struct onnx_file_node *onnx_only_reader(const struct onnx_translation *t, const struct onnx_value *v, const char *op)
{
    if (!v || v->uses != 1 || !v->reader)
        return NULL;
    const struct onnx_file_node *n = &t->file->nodes[v->reader - 1];
    return strcmp(n->op, op) == 0 ? n : NULL;
}

/* ---- Attributes ---- */

int64_t onnx_int(const struct onnx_file_node *n, const char *name, int64_t fallback)
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, name);
    return a ? a->i : fallback;
}

double onnx_float(const struct onnx_file_node *n, const char *name, double fallback)
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, name);
    return a ? (double)a->f : fallback;
}

pst_status onnx_numbers(const struct onnx_translation *t, const struct onnx_file_node *n, const char *name, size_t i, int64_t ret[ONNX_MAX_SHAPE],
                        size_t *ret_count, bool *ret_found)
{
    const struct onnx_file_attribute *a = name[0] ? onnx_attribute_find(n, name) : NULL;
    const struct onnx_value *v = a ? NULL : onnx_input(t, n, i);
    *ret_count = 0;
    *ret_found = a || v;
    if (!*ret_found)
        return PST_OK;
    bool whole = v && v->kind == ONNX_CONSTANT && (v->constant->type == ONNX_INT64 || v->constant->type == ONNX_INT32);
    if (v && !whole && v->kind != ONNX_SHAPE)
        return onnx_fail(t, PST_EUNSUPPORTED, "input %zu is not a list of whole numbers that is known before the model runs", i);
    size_t count = a ? a->ints_count : whole ? v->constant->count : v->shape_count;
    if (count > ONNX_MAX_SHAPE)
        return onnx_fail(t, PST_ELIMIT, "a list of %zu numbers; expected up to %d", count, ONNX_MAX_SHAPE);
    for (size_t k = 0; k < count; k++)
        ret[k] = a ? a->ints[k] : whole ? onnx_tensor_int(v->constant, k) : v->shape[k];
    *ret_count = count;
    return PST_OK;
}

/* ---- Layers ---- */

void *onnx_config(const struct onnx_translation *t, const char *layer)
{
    size_t size = layer_find(layer)->config_size;
    void *config = arena_alloc(&t->graph->memory, size);
    if (config)
        memset(config, 0, size);
    return config;
}

pst_status onnx_add(struct onnx_translation *t, const char *layer, const void *config, const char *wanted, const size_t *inputs, size_t count,
                    size_t *ret)
{
    size_t before = t->graph->values;
    const char *name = wanted && !graph_find_node(t->graph, wanted) ? wanted : NULL;
    pst_status st = graph_add(&t->builder, layer_find(layer), config, name, inputs, count, ret, t->reterr);
    if (st < 0)
        return onnx_fail_inner(t, st);
    if (t->graph->values > t->most)
        return onnx_fail(t, PST_ELIMIT, "the model needs more weights than the file has");
    if (mem_grow((void **)&t->params, &t->capacity, t->graph->values, sizeof(float)) < 0)
        return onnx_fail_memory(t);
    if (t->graph->values > before)
        memset(t->params + before, 0, (t->graph->values - before) * sizeof(float));
    return PST_OK;
}

float *onnx_param(const struct onnx_translation *t, size_t k, size_t *ret_count)
{
    const struct graph_node *n = &t->graph->nodes[t->graph->count - 1];
    const struct graph_param *p = &t->graph->params[n->first_param + k];
    *ret_count = p->count;
    return t->params + p->offset;
}

/* ---- Names of layers ---- */

#define MAX_NAME (GRAPH_NAME_SIZE - 26)

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
}

/* The name of weights without what they are: "layer1.0.conv1.weight", "conv_1/kernel". 0: it has no such ending. */
static size_t owner_length(const char *weights)
{
    static const char *const endings[] = {".weight", "/kernel", "/gamma", ".gamma"};
    size_t length = strlen(weights);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcmp(weights + length - n, endings[i]) == 0)
            return length - n;
    }
    return 0;
}

/* "/layer1/layer1.0/conv1/Conv" as PyTorch names modules: a part that the next one repeats is left out, and so is the operator. */
static void join_path(const struct onnx_file_node *n, char *to, size_t size)
{
    size_t used = 0;
    to[0] = '\0';
    for (const char *at = n->name + strspn(n->name, "/"), *next; *at; at = next) {
        size_t length = strcspn(at, "/"), op = strlen(n->op);
        next = at + length + strspn(at + length, "/");
        bool repeated = strncmp(next, at, length) == 0 && next[length] == '.';
        bool named = !*next && strncmp(at, n->op, op) == 0 && (length == op || at[op] == '_');
        if (!repeated && !named && used + length + 2 < size)
            used += (size_t)snprintf(to + used, size - used, "%s%.*s", used ? "." : "", (int)length, at);
    }
}

const char *onnx_layer_name(const struct onnx_file_node *n, const char *weights, char ret[GRAPH_NAME_SIZE])
{
    char all[512];
    size_t owner = owner_length(weights);
    if (owner && owner < sizeof(all))
        snprintf(all, sizeof(all), "%.*s", (int)owner, weights);
    else
        join_path(n, all, sizeof(all));
    const char *from = all;
    while (strlen(from) > MAX_NAME && strpbrk(from, "./")) /* the parts before matter least */
        from = strpbrk(from, "./") + 1;
    size_t length = strlen(from);
    bool usable = length > 0 && length <= MAX_NAME && !strstr(from, "::");
    for (size_t i = 0; usable && i <= length; i++)
        ret[i] = from[i] == '\0' || is_letter(from[i]) ? from[i] : '_';
    return usable ? ret : NULL;
}
