/* stored_weights.c: see stored_weights.h. */
#include "export/stored_weights.h"

#include "base/cast.h"
#include "base/error.h"
#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const weights_format_names[] = {"float32", "bfloat16", "float16", "int8", "int4", "quantized", "mixed", NULL};

bool stored_kernel(const struct graph *g, size_t param)
{
    const struct graph_node *n = &g->nodes[g->params[param].node];
    return quant_channels(n) > 0 && param == n->first_param;
}

unsigned stored_bits(pst_weights_format format)
{
    static const unsigned bits[] = {32, 16, 16, 8, 4, 8};
    return (size_t)format < sizeof(bits) / sizeof(bits[0]) ? bits[format] : 32;
}

/* The format of one parameter. */
static pst_weights_format format_at(const struct graph *g, size_t param, pst_weights_format format, const pst_weights_format *each)
{
    return !stored_kernel(g, param) ? PST_WEIGHTS_FLOAT32 : format == PST_WEIGHTS_MIXED ? each[param] : format;
}

static bool in_integers(pst_weights_format format)
{
    return format == PST_WEIGHTS_INT8 || format == PST_WEIGHTS_INT4;
}

static int limit_of(pst_weights_format format)
{
    return format == PST_WEIGHTS_INT4 ? 7 : 127;
}

/* ---- Arrays to write ---- */

struct arrays {
    struct safetensor *list;
    void **owned; /* data and names that are freed with it */
    size_t count, owned_count;
    bool failed;
};

static struct arrays arrays_make(size_t most)
{
    struct arrays a = {.list = mem_array(most + 1, sizeof(*a.list)), .owned = mem_array(3 * most + 1, sizeof(*a.owned))};
    a.failed = !a.list || !a.owned;
    return a;
}

static void arrays_finish(struct arrays *a)
{
    for (size_t i = 0; i < a->owned_count; i++)
        mem_free(a->owned[i]);
    mem_free(a->owned);
    mem_free(a->list);
}

static void *own(struct arrays *a, void *p)
{
    a->failed |= !p;
    if (p)
        a->owned[a->owned_count++] = p;
    return p;
}

static void add_array(struct arrays *a, char *name, const char *dtype, uint32_t rank, const uint32_t *shape, const void *data)
{
    own(a, name);
    if (a->failed)
        return;
    struct safetensor *x = &a->list[a->count++];
    *x = (struct safetensor){.name = name, .rank = rank, .count = 1, .data = data};
    memcpy(x->dtype, dtype, strlen(dtype));
    for (uint32_t i = 0; i < rank; i++) {
        x->shape[i] = shape[i];
        x->count *= shape[i];
    }
}

/* ---- Zeros ---- */

#define PARTS_BYTES 256 /* what the header of a file says about the three arrays that hold one without its zeros */

/* Bytes of an array: with its zeros, or a bit per value, the values that are left and the shape, where that is less. */
static uint64_t array_bytes(uint64_t count, uint64_t left, size_t width, uint32_t rank, bool *ret_sparse)
{
    uint64_t dense = count * width, sparse = (count + 7) / 8 + left * width + 8 * (uint64_t)rank;
    *ret_sparse = sparse + PARTS_BYTES < dense;
    return *ret_sparse ? sparse : dense;
}

/* Whether the value has a bit that is set: −0 has one. */
static bool has_bits(const void *data, uint64_t i, size_t width)
{
    static const uint8_t none[8];
    return memcmp((const uint8_t *)data + i * width, none, width) != 0;
}

static uint64_t count_left(const void *data, uint64_t count, size_t width)
{
    uint64_t left = 0;
    for (uint64_t i = 0; i < count; i++)
        left += has_bits(data, i, width);
    return left;
}

uint64_t stored_array_bytes(const void *data, uint64_t count, size_t width, uint32_t rank)
{
    bool sparse;
    return array_bytes(count, count_left(data, count, width), width, rank, &sparse);
}

/* The array is stored without its zeros where that takes fewer bytes. */
static void leave_zeros_out(struct arrays *a, struct safetensor *x)
{
    size_t width = safetensors_width(x->dtype);
    bool sparse = false;
    if (width > 0 && width <= 8)
        array_bytes(x->count, count_left(x->data, x->count, width), width, x->rank, &sparse);
    uint8_t *bitmap = sparse ? own(a, mem_zalloc((size_t)(x->count + 7) / 8)) : NULL;
    for (uint64_t i = 0; bitmap && i < x->count; i++)
        if (has_bits(x->data, i, width))
            bitmap[i / 8] = (uint8_t)(bitmap[i / 8] | 1u << i % 8);
    x->bitmap = bitmap;
}

static pst_status write_arrays(struct text *to, struct arrays *a, bool sparse, pst_error *reterr)
{
    for (size_t i = 0; sparse && !a->failed && i < a->count; i++)
        leave_zeros_out(a, &a->list[i]);
    if (!a->failed)
        safetensors_write(to, a->list, a->count);
    bool whole = !a->failed && !to->failed;
    arrays_finish(a);
    return whole ? PST_OK : fail_memory(reterr, "writing weights");
}

/* ---- 16 bits ---- */

static uint16_t to_bfloat(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    if (x != x)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to nearest even */
}

static void to_16_bits(const float *x, size_t count, pst_weights_format format, uint16_t *ret)
{
    if (format == PST_WEIGHTS_FLOAT16)
        cast_values(ret, PST_DTYPE_F16, x, PST_DTYPE_F32, count);
    for (size_t i = 0; format == PST_WEIGHTS_BFLOAT16 && i < count; i++)
        ret[i] = to_bfloat(x[i]);
}

/* ---- Integers ---- */

/* The next number above with 16 bits: `limit` times it is exact, so that rounded values have the same scale again. */
static float short_scale(float x)
{
    int exponent;
    float m = frexpf(x, &exponent);
    return ldexpf(ceilf(ldexpf(m, 16)), exponent - 16);
}

/* One scale per output channel: the largest value is `limit` of it. */
static void scales_of(const float *x, size_t count, size_t channels, int limit, float *ret)
{
    for (size_t c = 0; c < channels; c++) {
        float most = 0;
        for (size_t i = c; i < count; i += channels)
            most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
        ret[c] = most / (float)limit > 1e-30f ? short_scale(most / (float)limit) : 1;
    }
}

static int round_to(float x, float scale, int limit)
{
    float q = rintf(x / scale);
    return (int)(q > (float)limit ? (float)limit : q < (float)-limit ? (float)-limit : q);
}

/* ---- Rounding ---- */

static pst_status round_kernel(const struct graph_param *p, float *x, size_t channels, pst_weights_format format, pst_error *reterr)
{
    for (size_t i = 0; i < p->count; i++)
        if (!isfinite(x[i]))
            return pst_fail(reterr, PST_EINVAL, "%s holds a value that is not finite; it cannot be stored in fewer bits", p->name);
    if (in_integers(format)) {
        int limit = limit_of(format);
        float *scale = mem_array(channels, sizeof(float));
        if (!scale)
            return fail_memory(reterr, "rounding weights");
        scales_of(x, p->count, channels, limit, scale);
        for (size_t i = 0; i < p->count; i++)
            x[i] = (float)round_to(x[i], scale[i % channels], limit) * scale[i % channels];
        mem_free(scale);
        return PST_OK;
    }
    uint16_t bits;
    for (size_t i = 0; format != PST_WEIGHTS_FLOAT32 && i < p->count; i++) {
        float before = x[i];
        to_16_bits(&before, 1, format, &bits);
        weights_convert(&x[i], &bits, format == PST_WEIGHTS_FLOAT16 ? "F16" : "BF16", 1);
        if (!isfinite(x[i]))
            return pst_fail(reterr, PST_EINVAL, "%s: %g does not fit %s; bfloat16 has the range of float32", p->name, (double)before,
                            weights_format_names[format]);
    }
    return PST_OK;
}

pst_status stored_round(const struct graph *g, float *params, pst_weights_format format, const pst_weights_format *each, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++)
        if (stored_kernel(g, i))
            st = round_kernel(&g->params[i], params + g->params[i].offset, quant_channels(&g->nodes[g->params[i].node]),
                              format_at(g, i, format, each), reterr);
    return st;
}

/* ---- Writing ---- */

static void add_integers(struct arrays *a, const struct graph_param *p, const float *x, uint32_t channels, pst_weights_format format)
{
    bool four = format == PST_WEIGHTS_INT4;
    int limit = limit_of(format);
    uint32_t packed = (uint32_t)((p->count + 1) / 2);
    uint8_t *q = own(a, mem_array(p->count + 1, 1));
    float *scale = own(a, mem_array(channels, sizeof(float)));
    if (!q || !scale)
        return;
    scales_of(x, p->count, channels, limit, scale);
    for (size_t i = 0; i < p->count; i++) {
        int v = round_to(x[i], scale[i % channels], limit);
        if (four)
            q[i / 2] = (uint8_t)(q[i / 2] | (v & 15) << (i % 2 * 4));
        else
            q[i] = (uint8_t)v;
    }
    add_array(a, mem_strdup(p->name), four ? "U8" : "I8", four ? 1 : p->layer.rank, four ? &packed : p->layer.shape, q);
    add_array(a, mem_format("%s_scale", p->name), "F32", 1, &channels, scale);
}

pst_status stored_write(struct text *to, const struct graph *g, const float *params, pst_weights_format format, const pst_weights_format *each,
                        bool sparse, pst_error *reterr)
{
    struct arrays a = arrays_make(2 * g->param_count);
    for (size_t i = 0; !a.failed && i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        const float *x = params + p->offset;
        pst_weights_format own_format = format_at(g, i, format, each);
        if (own_format == PST_WEIGHTS_FLOAT32) {
            add_array(&a, mem_strdup(p->name), "F32", p->layer.rank, p->layer.shape, x);
        } else if (in_integers(own_format)) {
            add_integers(&a, p, x, (uint32_t)quant_channels(&g->nodes[p->node]), own_format);
        } else {
            uint16_t *bits = own(&a, mem_array(p->count, sizeof(uint16_t)));
            if (bits)
                to_16_bits(x, p->count, own_format, bits);
            add_array(&a, mem_strdup(p->name), own_format == PST_WEIGHTS_FLOAT16 ? "F16" : "BF16", p->layer.rank, p->layer.shape, bits);
        }
    }
    return write_arrays(to, &a, sparse, reterr);
}

/* Of a kernel as stored_round left it: a value of less than 32 bits is zero where that of 32 bits is. */
static uint64_t kernel_bytes(const struct graph_param *p, const float *x, pst_weights_format format)
{
    unsigned width = stored_bits(format) / 8;
    uint64_t left = 0;
    bool sparse;
    if (width == 0) { /* bytes of two values each */
        for (size_t i = 0; i < p->count; i += 2)
            left += x[i] != 0 || (i + 1 < p->count && x[i + 1] != 0);
        return array_bytes((p->count + 1) / 2, left, 1, 1, &sparse);
    }
    for (size_t i = 0; i < p->count; i++)
        left += in_integers(format) ? x[i] != 0 : has_bits(x, i, sizeof(*x));
    return array_bytes(p->count, left, width, p->layer.rank, &sparse);
}

uint64_t stored_bytes(const struct graph *g, const float *params, pst_weights_format format, const pst_weights_format *each)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->param_count; i++) {
        uint64_t channels = quant_channels(&g->nodes[g->params[i].node]);
        pst_weights_format own_format = format_at(g, i, format, each);
        sum += kernel_bytes(&g->params[i], params + g->params[i].offset, own_format) + (in_integers(own_format) ? 4 * channels : 0);
    }
    return sum;
}

/* ---- Reading ---- */

static pst_status fail_array(pst_error *reterr, const char *name)
{
    return pst_fail(reterr, PST_ECORRUPT, "%s is missing, or has another type or size than the model says", name);
}

/* The array with this name, type and number of values. */
static const struct safetensor *find_array(const struct safetensors *from, const char *name, const char *suffix, const char *dtype,
                                           uint64_t count)
{
    char full[GRAPH_NAME_SIZE + 40];
    if (snprintf(full, sizeof(full), "%s%s", name, suffix) >= (int)sizeof(full))
        return NULL;
    const struct safetensor *x = safetensors_find(from, full);
    return x && strcmp(x->dtype, dtype) == 0 && x->count == count ? x : NULL;
}

static void expand_values(const struct safetensor *x, const uint8_t *scales, size_t count, size_t channels, float *ret)
{
    const uint8_t *bytes = x->data;
    bool four = strcmp(x->dtype, "U8") == 0;
    for (size_t i = 0; i < count; i++) {
        float scale;
        int q = four ? (int8_t)(uint8_t)(bytes[i / 2] << (i % 2 ? 0 : 4)) >> 4 : (int8_t)bytes[i];
        memcpy(&scale, scales + i % channels * sizeof(float), sizeof(float));
        ret[i] = (float)q * scale;
    }
}

pst_status stored_expand(struct weight_file *f, const struct graph *g, pst_error *reterr)
{
    void **blocks = mem_array(f->block_count + g->param_count + 1, sizeof(*blocks));
    if (!blocks)
        return fail_memory(reterr, "reading weights");
    for (size_t i = 0; i < f->block_count; i++)
        blocks[i] = f->blocks[i];
    mem_free(f->blocks);
    f->blocks = blocks;
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        struct safetensor *x = (struct safetensor *)(uintptr_t)safetensors_find(&f->arrays, p->name); /* the file's own */
        size_t channels = quant_channels(&g->nodes[p->node]);
        if (!x || !stored_kernel(g, i) || (strcmp(x->dtype, "I8") != 0 && strcmp(x->dtype, "U8") != 0))
            continue;
        const struct safetensor *scale = find_array(&f->arrays, p->name, "_scale", "F32", channels);
        if (!scale || x->count != (strcmp(x->dtype, "U8") == 0 ? (p->count + 1) / 2 : p->count))
            return fail_array(reterr, p->name);
        float *values = mem_array(p->count, sizeof(float));
        if (!values)
            return fail_memory(reterr, "reading weights");
        f->blocks[f->block_count++] = values;
        expand_values(x, scale->data, p->count, channels, values);
        memcpy(x->dtype, "F32", 4);
        x->rank = p->layer.rank;
        x->count = p->count;
        x->data = values;
        for (uint32_t k = 0; k < x->rank; k++)
            x->shape[k] = p->layer.shape[k];
    }
    return PST_OK;
}

/* ---- Quantised models ---- */

pst_status stored_write_quantised(struct text *to, const struct quant_model *q, pst_error *reterr)
{
    const struct graph *g = q->graph;
    uint32_t values = (uint32_t)g->count + 1;
    struct arrays a = arrays_make(3 * g->param_count + g->count + 2);
    float *scale = a.failed ? NULL : own(&a, mem_array(values, sizeof(float)));
    uint8_t *zero = a.failed ? NULL : own(&a, mem_array(values, 1));
    for (size_t v = 0; !a.failed && v < values; v++) {
        scale[v] = q->values[v].scale;
        zero[v] = q->values[v].zero;
    }
    add_array(&a, mem_strdup("activations/scale"), "F32", 1, &values, scale);
    add_array(&a, mem_strdup("activations/zero"), "U8", 1, &values, zero);
    for (size_t i = 0; !a.failed && i < g->count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const struct graph_param *p = &g->params[n->first_param];
        const struct quant_layer *l = &q->layers[i];
        uint32_t channels = (uint32_t)quant_channels(n);
        const float *from = l->params;
        if (l->weights) {
            add_array(&a, mem_strdup(p->name), "I8", p->layer.rank, p->layer.shape, l->weights);
            add_array(&a, mem_format("%s_scale", p->name), "F32", 1, &channels, l->weight_scale);
            add_array(&a, mem_format("%s/bias", n->name), "I32", 1, &channels, l->bias);
        }
        for (size_t k = 0; from && k < n->params; from += p[k++].count)
            add_array(&a, mem_strdup(p[k].name), "F32", p[k].layer.rank, p[k].layer.shape, from);
    }
    return write_arrays(to, &a, true, reterr);
}

static pst_status read_layer(struct quant_model *q, size_t node, const struct safetensors *from, pst_error *reterr)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct graph_param *p = &q->graph->params[n->first_param];
    struct quant_layer *l = &q->layers[node];
    size_t channels = quant_channels(n);
    float *to = l->params;
    for (size_t k = 0; to && k < n->params; to += p[k++].count) {
        const struct safetensor *x = find_array(from, p[k].name, "", "F32", p[k].count);
        if (!x)
            return fail_array(reterr, p[k].name);
        memcpy(to, x->data, p[k].count * sizeof(float));
    }
    if (!l->weights)
        return PST_OK;
    const struct safetensor *kernel = find_array(from, p->name, "", "I8", p->count);
    const struct safetensor *scale = find_array(from, p->name, "_scale", "F32", channels);
    const struct safetensor *bias = find_array(from, n->name, "/bias", "I32", channels);
    if (!kernel || !scale || !bias)
        return fail_array(reterr, !kernel ? p->name : n->name);
    memcpy(l->weights, kernel->data, p->count);
    memcpy(l->weight_scale, scale->data, channels * sizeof(float));
    memcpy(l->bias, bias->data, channels * sizeof(int32_t));
    return PST_OK;
}

pst_status stored_read_quantised(struct quant_model *q, const struct safetensors *from, pst_error *reterr)
{
    size_t values = q->graph->count + 1;
    const struct safetensor *scale = find_array(from, "activations", "/scale", "F32", values);
    const struct safetensor *zero = find_array(from, "activations", "/zero", "U8", values);
    pst_status st = scale && zero ? PST_OK : fail_array(reterr, scale ? "activations/zero" : "activations/scale");
    for (size_t v = 0; st == PST_OK && v < values; v++) {
        memcpy(&q->values[v].scale, (const uint8_t *)scale->data + v * sizeof(float), sizeof(float));
        q->values[v].zero = ((const uint8_t *)zero->data)[v];
    }
    for (size_t i = 0; st == PST_OK && i < q->graph->count; i++)
        st = read_layer(q, i, from, reterr);
    return st == PST_OK ? quant_check(q, reterr) : st;
}
