/* quant.c: see quant.h: from floats and ranges to integers. */
#include "quant/quant.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/layer_conv.h"

#include <math.h>
#include <string.h>

#define BIAS_LIMIT (1 << 30)

const char *const quant_run_names[QUANT_RUNS] = {"auto", "product", "winograd", "fp32"};

/* ---- Numbers ---- */

struct quant_value quant_value_of(struct quant_range r)
{
    struct quant_value v = {.form = QUANT_U8, .scale = 1};
    double low = r.low < 0 ? r.low : 0, high = r.high > 0 ? r.high : 0;
    float scale = (float)((high - low) / 255);
    if (!(scale > 1e-30f) || !isfinite(scale))
        return v;
    double zero = nearbyint(-low / scale);
    v.scale = scale;
    v.zero = (uint8_t)(zero > 255 ? 255 : zero < 0 ? 0 : zero);
    return v;
}

uint8_t quant_round(const struct quant_value *v, float x)
{
    float q = rintf(x / v->scale) + (float)v->zero;
    return isnan(q) ? v->zero : (uint8_t)(q < 0 ? 0 : q > 255 ? 255 : q);
}

int quant_weight_limit(unsigned bits)
{
    return bits == QUANT_BITS_8 ? 127 : 63;
}

static int8_t round_weight(float x, float scale, int limit)
{
    float q = rintf(x / scale);
    return (int8_t)(q > (float)limit ? (float)limit : q < (float)-limit ? (float)-limit : q);
}

void quant_weight_scales(float *scale, size_t channels, unsigned bits)
{
    float least = INFINITY, limit = (float)quant_weight_limit(bits);
    for (size_t c = 0; c < channels; c++) {
        scale[c] = scale[c] / limit > 1e-30f ? scale[c] / limit : 0;
        least = scale[c] > 0 && scale[c] < least ? scale[c] : least;
    }
    for (size_t c = 0; c < channels; c++)
        scale[c] = scale[c] > 0 ? scale[c] : isfinite(least) ? least : 1.0f / 4096;
}

void quant_weights(const float *kernel, size_t count, size_t channels, unsigned bits, float *ret_scale, int8_t *ret)
{
    int limit = quant_weight_limit(bits);
    for (size_t c = 0; c < channels; c++) {
        ret_scale[c] = 0;
        for (size_t i = c; i < count; i += channels)
            ret_scale[c] = fabsf(kernel[i]) > ret_scale[c] ? fabsf(kernel[i]) : ret_scale[c];
    }
    quant_weight_scales(ret_scale, channels, bits);
    for (size_t c = 0; c < channels; c++)
        for (size_t i = c; i < count; i += channels)
            ret[i] = round_weight(kernel[i], ret_scale[c], limit);
}

void quant_clamp(const struct quant_group *g, const struct quant_value *out, uint8_t *ret_low, uint8_t *ret_high)
{
    *ret_low = isfinite(g->low) ? quant_round(out, g->low) : 0;
    *ret_high = isfinite(g->high) ? quant_round(out, g->high) : 255;
}

size_t quant_channels(const struct graph_node *n)
{
    bool has = strcmp(n->layer->name, "conv") == 0 || strcmp(n->layer->name, "dwconv") == 0 || strcmp(n->layer->name, "dense") == 0;
    return has ? n->out.c : 0;
}

size_t quant_kernel_values(const struct graph *g, const struct graph_node *n)
{
    return g->params[n->first_param].count;
}

/* ---- Memory ---- */

size_t quant_float_values(const struct graph *g, const struct graph_node *n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n->params; i++)
        sum += g->params[n->first_param + i].count;
    return sum;
}

static bool allocate_layer(struct quant_model *q, size_t node)
{
    const struct graph_node *n = &q->graph->nodes[node];
    struct quant_layer *l = &q->layers[node];
    size_t channels = quant_channels(n);
    if (l->group.op == QUANT_OP_FLOAT && n->params) {
        l->params = mem_array(quant_float_values(q->graph, n), sizeof(float));
        return l->params;
    }
    if (l->group.op != QUANT_OP_CONV && l->group.op != QUANT_OP_DENSE)
        return true;
    l->weights = mem_array(quant_kernel_values(q->graph, n), 1);
    l->weight_scale = mem_array(channels, sizeof(float));
    l->bias = mem_array(channels, sizeof(int32_t));
    for (size_t c = 0; l->weight_scale && c < channels; c++)
        l->weight_scale[c] = 1;
    return l->weights && l->weight_scale && l->bias;
}

pst_status quant_create_empty(struct quant_model **ret, const char *text, const struct shape *input, unsigned weight_bits,
                              pst_error *reterr)
{
    struct quant_borders b = {0};
    struct quant_model *q = mem_zalloc(sizeof(*q));
    if (!q)
        return fail_memory(reterr, "quantising");
    atomic_init(&q->refs, 1);
    q->weight_bits = weight_bits;
    pst_status st = graph_create(&q->graph, text, input, reterr);
    if (st == PST_OK)
        st = quant_borders_create(&b, q->graph, reterr);
    if (st == PST_OK) {
        size_t count = q->graph->count;
        q->layers = mem_array(count + 1, sizeof(*q->layers));
        q->values = mem_array(count + 1, sizeof(*q->values));
        bool whole = q->layers && q->values;
        for (size_t v = 0; whole && v <= count; v++)
            q->values[v] = (struct quant_value){.form = b.forms[v], .scale = 1};
        for (size_t i = 0; whole && i < count; i++) {
            q->layers[i].group = b.groups[i];
            whole = allocate_layer(q, i);
        }
        st = whole ? PST_OK : fail_memory(reterr, "quantising");
    }
    quant_borders_finish(&b);
    if (st == PST_OK)
        *ret = q;
    else
        quant_unref(q);
    return st;
}

struct quant_model *quant_ref(const struct quant_model *q)
{
    struct quant_model *shared = (struct quant_model *)(uintptr_t)q; /* only the count changes */
    atomic_fetch_add(&shared->refs, 1);
    return shared;
}

struct quant_model *quant_unref(struct quant_model *q)
{
    if (!q || atomic_fetch_sub(&q->refs, 1) > 1)
        return NULL;
    for (size_t i = 0; q->layers && i < q->graph->count; i++) {
        mem_free(q->layers[i].weights);
        mem_free(q->layers[i].weight_scale);
        mem_free(q->layers[i].bias);
        mem_free(q->layers[i].params);
    }
    graph_destroy(q->graph);
    mem_free(q->layers);
    mem_free(q->values);
    mem_free(q);
    return NULL;
}

uint64_t quant_weight_bytes(const struct quant_model *q)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < q->graph->count; i++) {
        const struct graph_node *n = &q->graph->nodes[i];
        if (q->layers[i].weights)
            sum += quant_kernel_values(q->graph, n) + quant_channels(n) * (sizeof(float) + sizeof(int32_t));
        else if (q->layers[i].params)
            sum += quant_float_values(q->graph, n) * sizeof(float);
    }
    return sum;
}

/* ---- From floats ---- */

static bool all_finite(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* The bias in units of scale_in · scale[c]. A kernel so small beside its bias that this does not fit gets a larger scale. */
static void quantise_bias(const struct quant_model *q, size_t node, const float *kernel, const float *bias)
{
    const struct graph_node *n = &q->graph->nodes[node];
    struct quant_layer *l = &q->layers[node];
    double in = q->values[n->input[0]].scale;
    size_t channels = quant_channels(n), count = quant_kernel_values(q->graph, n);
    for (size_t c = 0; c < channels; c++) {
        double b = bias ? bias[c] : 0;
        if (fabs(b) / (in * l->weight_scale[c]) > BIAS_LIMIT) {
            l->weight_scale[c] = (float)(fabs(b) / in / (BIAS_LIMIT / 2));
            for (size_t i = c; i < count; i += channels)
                l->weights[i] = round_weight(kernel[i], l->weight_scale[c], quant_weight_limit(q->weight_bits));
        }
        l->bias[c] = (int32_t)nearbyint(b / (in * l->weight_scale[c]));
    }
}

static pst_status quantise_layer(struct quant_model *q, size_t node, const float *params, pst_error *reterr)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct graph_param *p = &q->graph->params[n->first_param];
    struct quant_layer *l = &q->layers[node];
    float *to = l->params;
    for (size_t i = 0; i < n->params; i++) {
        if (!all_finite(params + p[i].offset, p[i].count))
            return pst_fail(reterr, PST_EINVAL, "%s holds a value that is not finite; it cannot be quantised", p[i].name);
        if (!to)
            continue;
        memcpy(to, params + p[i].offset, p[i].count * sizeof(float));
        to += p[i].count;
    }
    if (!l->weights)
        return PST_OK;
    const float *kernel = params + p->offset;
    quant_weights(kernel, p->count, quant_channels(n), q->weight_bits, l->weight_scale, l->weights);
    quantise_bias(q, node, kernel, n->params > 1 ? params + p[1].offset : NULL);
    return PST_OK;
}

/* Scales of all stored values. The result of a maximum or of flatten has the scale of what it reads. */
static pst_status set_values(struct quant_model *q, const struct quant_range *ranges, pst_error *reterr)
{
    for (size_t v = 0; v <= q->graph->count; v++) {
        if (q->values[v].form != QUANT_U8)
            continue;
        if (!isfinite(ranges[v].low) || !isfinite(ranges[v].high) || ranges[v].low > ranges[v].high)
            return pst_fail(reterr, PST_EINVAL, "the range of the result of %s is not finite: [%g, %g]",
                            v ? q->graph->nodes[v - 1].name : "the input", (double)ranges[v].low, (double)ranges[v].high);
        q->values[v] = quant_value_of(ranges[v]);
    }
    for (size_t i = 0; i < q->graph->count; i++) {
        enum quant_op op = q->layers[i].group.op;
        if (op == QUANT_OP_MAXPOOL || op == QUANT_OP_FLATTEN)
            q->values[i + 1] = q->values[q->graph->nodes[i].input[0]];
    }
    return PST_OK;
}

pst_status quant_create(struct quant_model **ret, const struct graph *g, const float *params, const struct quant_range *ranges,
                        const struct quant_options *o, pst_error *reterr)
{
    unsigned bits = o && o->weight_bits ? o->weight_bits : QUANT_BITS_7;
    struct quant_model *q = NULL;
    if (bits != QUANT_BITS_7 && bits != QUANT_BITS_8)
        return pst_fail(reterr, PST_EINVAL, "weights of %u bits; expected 7 or 8", bits);
    char *text = graph_text(g);
    pst_status st = text ? quant_create_empty(&q, text, &g->input, bits, reterr) : fail_memory(reterr, "quantising");
    if (st == PST_OK)
        st = set_values(q, ranges, reterr);
    for (size_t i = 0; st == PST_OK && i < q->graph->count; i++)
        st = quantise_layer(q, i, params, reterr);
    mem_free(text);
    if (st == PST_OK)
        *ret = q;
    else
        quant_unref(q);
    return st;
}

/* ---- Back to floats ---- */

void quant_dequantise_layer(const struct quant_model *q, size_t node, float *ret_kernel, float *ret_bias)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct quant_layer *l = &q->layers[node];
    size_t channels = quant_channels(n), count = quant_kernel_values(q->graph, n);
    double in = q->values[n->input[0]].scale;
    for (size_t i = 0; i < count; i++)
        ret_kernel[i] = (float)l->weights[i] * l->weight_scale[i % channels];
    for (size_t c = 0; ret_bias && c < channels; c++)
        ret_bias[c] = (float)(l->bias[c] * (in * l->weight_scale[c]));
}

void quant_dequantise(const struct quant_model *q, float *ret_params)
{
    memset(ret_params, 0, q->graph->values * sizeof(float));
    for (size_t i = 0; i < q->graph->count; i++) {
        const struct graph_node *n = &q->graph->nodes[i];
        const struct graph_param *p = &q->graph->params[n->first_param];
        const float *from = q->layers[i].params;
        if (q->layers[i].weights)
            quant_dequantise_layer(q, i, ret_params + p->offset, n->params > 1 ? ret_params + p[1].offset : NULL);
        for (size_t k = 0; from && k < n->params; from += p[k++].count)
            memcpy(ret_params + p[k].offset, from, p[k].count * sizeof(float));
    }
}

/* ---- From a file ---- */

static bool is_scale(float x)
{
    return isfinite(x) && x > 0;
}

static pst_status check_layer(const struct quant_model *q, size_t node, pst_error *reterr)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct quant_layer *l = &q->layers[node];
    int limit = quant_weight_limit(q->weight_bits);
    if (l->params && !all_finite(l->params, quant_float_values(q->graph, n)))
        return pst_fail(reterr, PST_ECORRUPT, "%s holds a value that is not finite", n->name);
    if (!l->weights)
        return PST_OK;
    for (size_t c = 0; c < quant_channels(n); c++)
        if (!is_scale(l->weight_scale[c]))
            return pst_fail(reterr, PST_ECORRUPT, "%s/kernel_scale: value %zu is %g; expected a positive number", n->name, c,
                            (double)l->weight_scale[c]);
    for (size_t i = 0, count = quant_kernel_values(q->graph, n); i < count; i++)
        if (l->weights[i] > limit || l->weights[i] < -limit)
            return pst_fail(reterr, PST_ECORRUPT, "%s/kernel: value %zu is %d; expected at most %d with %u bits", n->name, i,
                            l->weights[i], limit, q->weight_bits);
    return PST_OK;
}

pst_status quant_check(const struct quant_model *q, pst_error *reterr)
{
    for (size_t v = 0; v <= q->graph->count; v++)
        if (q->values[v].form == QUANT_U8 && !is_scale(q->values[v].scale))
            return pst_fail(reterr, PST_ECORRUPT, "the scale of the result of %s is %g; expected a positive number",
                            v ? q->graph->nodes[v - 1].name : "the input", (double)q->values[v].scale);
    for (size_t i = 0; i < q->graph->count; i++) {
        enum quant_op op = q->layers[i].group.op;
        const struct quant_value *in = &q->values[q->graph->nodes[i].input[0]], *out = &q->values[i + 1];
        if ((op == QUANT_OP_MAXPOOL || op == QUANT_OP_FLATTEN) && (in->scale != out->scale || in->zero != out->zero))
            return pst_fail(reterr, PST_ECORRUPT, "%s: the result has another scale than the input", q->graph->nodes[i].name);
        pst_status st = check_layer(q, i, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}
