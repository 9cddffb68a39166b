/* onnx_integers.c: ONNX models in 8-bit integers: QuantizeLinear and DequantizeLinear around values and after weights, as our own export writes
 * them. The layers are translated as if there were floats; the integers then make the quantised model. */
#include "base/error.h"
#include "base/memory.h"
#include "export/onnx_import.h"
#include "export/onnx_translate.h"
#include "model/graph_write.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- Operators ---- */

/* The scale and the zero of values: one number each. Signed integers are the same numbers, moved. */
static pst_status get_levels(const struct onnx_translation *t, const struct onnx_file_node *n, float *ret_scale, uint8_t *ret_zero)
{
    const struct onnx_tensor *scale = NULL, *zero = NULL;
    pst_status st = onnx_constant_input(t, n, 1, "scale", &scale);
    if (st == PST_OK && onnx_input(t, n, 2))
        st = onnx_constant_input(t, n, 2, "zero point", &zero);
    if (st < 0)
        return st;
    bool known = !zero || (zero->count == 1 && (zero->type == ONNX_UINT8 || zero->type == ONNX_INT8));
    if (scale->count != 1 || !known)
        return onnx_fail(t, PST_EUNSUPPORTED, "expected one scale and one zero point of 8 bits for all values");
    *ret_scale = onnx_tensor_float(scale, 0);
    *ret_zero = zero ? (uint8_t)(onnx_tensor_int(zero, 0) + (zero->type == ONNX_INT8 ? 128 : 0)) : 0;
    return isfinite(*ret_scale) && *ret_scale > 0 ? PST_OK : onnx_fail(t, PST_ECORRUPT, "the scale is %g", (double)*ret_scale);
}

pst_status onnx_quantize(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *x;
    float scale;
    uint8_t zero;
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK)
        st = get_levels(t, n, &scale, &zero);
    if (st < 0)
        return st;
    onnx_follow(out, x, x->ours);
    out->positive = x->positive;
    out->integers = true;
    out->levels = (struct onnx_levels){.set = true, .scale = scale, .zero = zero};
    return PST_OK;
}

/* Weights: integers times a scale per channel, or one for all. */
static pst_status dequantize_constant(struct onnx_translation *t, const struct onnx_file_node *n, const struct onnx_tensor *from, struct onnx_value *out)
{
    const struct onnx_tensor *scale, *zero = NULL;
    pst_status st = onnx_constant_input(t, n, 1, "scale", &scale);
    if (st == PST_OK && onnx_input(t, n, 2))
        st = onnx_constant_input(t, n, 2, "zero point", &zero);
    int64_t axis = onnx_int(n, "axis", 1);
    axis += axis < 0 ? from->rank : 0;
    if (st < 0)
        return st;
    bool whole = from->type == ONNX_INT8 || from->type == ONNX_UINT8 || from->type == ONNX_INT32;
    bool fits = scale->count == 1 || (axis >= 0 && axis < from->rank && from->dims[axis] == scale->count);
    if (!whole || !fits || onnx_type_width(scale->type) == 0 || (zero && (zero->count != scale->count || zero->type != from->type)))
        return onnx_fail(t, PST_EUNSUPPORTED, "expected integers with one scale, or one per channel");
    st = onnx_spend(t, from->count * sizeof(float));
    if (st < 0)
        return st;
    struct onnx_tensor *to = arena_alloc(&t->memory, sizeof(*to));
    float *data = arena_alloc(&t->memory, from->count * sizeof(float) + 1);
    if (!to || !data)
        return onnx_fail_memory(t);
    size_t inner = 1;
    for (uint32_t i = (uint32_t)axis + 1; scale->count > 1 && i < from->rank; i++)
        inner *= from->dims[i];
    bool symmetric = true;
    for (size_t i = 0; i < from->count; i++) {
        size_t c = scale->count == 1 ? 0 : i / inner % scale->count;
        int64_t z = zero ? onnx_tensor_int(zero, c) : 0;
        symmetric &= z == 0;
        data[i] = (float)(onnx_tensor_int(from, i) - z) * onnx_tensor_float(scale, c);
    }
    *to = *from;
    to->type = ONNX_FLOAT32;
    to->data = (const uint8_t *)data;
    to->integers = symmetric ? from : NULL;
    to->scales = scale;
    out->kind = ONNX_CONSTANT;
    out->constant = to;
    return PST_OK;
}

pst_status onnx_dequantize(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_value *x = onnx_input(t, n, 0);
    float scale;
    uint8_t zero;
    if (x && x->kind == ONNX_CONSTANT)
        return dequantize_constant(t, n, x->constant, out);
    if (!x || x->kind != ONNX_VALUE || !x->integers)
        return onnx_fail(t, PST_EUNSUPPORTED, "expected weights, or the result of QuantizeLinear");
    pst_status st = get_levels(t, n, &scale, &zero);
    if (st < 0)
        return st;
    if (scale != x->levels.scale || zero != x->levels.zero)
        return onnx_fail(t, PST_EUNSUPPORTED, "another scale than that of QuantizeLinear");
    if (!t->levels) {
        t->levels = arena_alloc(&t->memory, (GRAPH_MAX_NODES + 1) * sizeof(*t->levels));
        if (!t->levels)
            return onnx_fail_memory(t);
        memset(t->levels, 0, (GRAPH_MAX_NODES + 1) * sizeof(*t->levels));
    }
    struct onnx_levels *known = &t->levels[x->ours];
    if (known->set && (known->scale != scale || known->zero != zero))
        return onnx_fail(t, PST_EUNSUPPORTED, "a value that is rounded in two ways");
    *known = x->levels;
    onnx_follow(out, x, x->ours);
    out->positive = x->positive;
    out->integers = false;
    return PST_OK;
}

pst_status onnx_note_weights(struct onnx_translation *t, const struct onnx_tensor *kernel, const struct onnx_tensor *bias)
{
    if (!kernel->integers)
        return PST_OK;
    if (!t->weights) {
        t->weights = arena_alloc(&t->memory, GRAPH_MAX_NODES * sizeof(*t->weights));
        if (!t->weights)
            return onnx_fail_memory(t);
        memset(t->weights, 0, GRAPH_MAX_NODES * sizeof(*t->weights));
    }
    t->weights[t->graph->count - 1] = (struct onnx_weights){.kernel = kernel, .bias = bias};
    return PST_OK;
}

/* ---- The model ---- */

/* The place in the translated graph of a node of the model's: they have the same names. */
static size_t number_of(const struct onnx_translation *t, const char *name)
{
    const struct graph_node *n = graph_find_node(t->graph, name);
    return n ? (size_t)(n - t->graph->nodes) : 0;
}

static pst_status set_levels(const struct onnx_translation *t, struct quant_model *q)
{
    const struct graph *g = q->graph;
    for (size_t v = 0; v <= g->count; v++) {
        const struct onnx_levels *l = &t->levels[v ? number_of(t, g->nodes[v - 1].name) + 1 : 0];
        const char *name = v ? g->nodes[v - 1].name : "the input";
        enum quant_op op = v ? q->layers[v - 1].group.op : QUANT_OP_NONE;
        if (l->set && q->values[v].form != QUANT_U8)
            return onnx_fail(t, PST_EUNSUPPORTED, "the result of %s is rounded to integers, which int8 models here do not do", name);
        if (q->values[v].form != QUANT_U8)
            continue;
        if (l->set) {
            q->values[v].scale = l->scale;
            q->values[v].zero = l->zero;
        } else if (op == QUANT_OP_MAXPOOL || op == QUANT_OP_FLATTEN) {
            const struct quant_value *in = &q->values[g->nodes[v - 1].input[0]];
            q->values[v].scale = in->scale;
            q->values[v].zero = in->zero;
        } else {
            return onnx_fail(t, PST_EUNSUPPORTED, "the result of %s is not rounded to integers, as int8 models here do it; quantise the float model", name);
        }
    }
    return PST_OK;
}

static int64_t rounded(double x, int64_t limit)
{
    return !(x > -(double)limit) ? -limit : !(x < (double)limit) ? limit : (int64_t)nearbyint(x);
}

static pst_status set_weights(const struct onnx_translation *t, struct quant_model *q, size_t node, const float *params)
{
    const struct graph_node *n = &q->graph->nodes[node];
    const struct graph_param *p = &q->graph->params[n->first_param];
    struct quant_layer *l = &q->layers[node];
    const struct onnx_weights *w = t->weights ? &t->weights[number_of(t, n->name)] : NULL;
    size_t channels = quant_channels(n);
    if (!w || !w->kernel || (w->kernel->scales->count != 1 && w->kernel->scales->count != channels) || w->kernel->integers->type != ONNX_INT8)
        return onnx_fail(t, PST_EUNSUPPORTED, "the weights of %s are not int8 with one scale per channel, as int8 models here have them", n->name);
    for (size_t c = 0; c < channels; c++) {
        l->weight_scale[c] = onnx_tensor_float(w->kernel->scales, w->kernel->scales->count == 1 ? 0 : c);
        if (!isfinite(l->weight_scale[c]) || !(l->weight_scale[c] > 0))
            return onnx_fail(t, PST_ECORRUPT, "a scale of the weights of %s is %g", n->name, (double)l->weight_scale[c]);
        double step = (double)q->values[n->input[0]].scale * (double)l->weight_scale[c];
        const struct onnx_tensor *exact = w->bias && w->bias->integers && w->bias->integers->type == ONNX_INT32 ? w->bias->integers : NULL;
        double b = w->bias ? (double)params[p[1].offset + c] : 0;
        int64_t e = exact ? onnx_tensor_int(exact, exact->count == 1 ? 0 : c) : 0; /* taken where its scale is that of the products */
        l->bias[c] = (int32_t)(exact && fabs((double)e * step - b) <= 1e-5 * fabs(b) ? e : rounded(b / step, INT32_MAX));
    }
    for (size_t i = 0; i < p->count; i++) {
        double x = (double)params[p->offset + i] / (double)l->weight_scale[i % channels];
        l->weights[i] = (int8_t)rounded(x, 127);
        if (!(fabs(x - l->weights[i]) < 1e-3))
            return onnx_fail(t, PST_EUNSUPPORTED, "the weights of %s have scales of something else than output channels", n->name);
    }
    return PST_OK;
}

/* 7 where all integers of weights fit it. */
static unsigned weight_bits(const struct onnx_translation *t)
{
    for (size_t i = 0; t->weights && i < t->graph->count; i++) {
        const struct onnx_tensor *k = t->weights[i].kernel;
        for (size_t j = 0; k && j < k->count; j++)
            if (onnx_tensor_int(k->integers, j) > 63 || onnx_tensor_int(k->integers, j) < -63)
                return QUANT_BITS_8;
    }
    return QUANT_BITS_7;
}

pst_status onnx_make_quantised(const struct onnx_translation *t, struct onnx_model *m)
{
    struct quant_model *q = NULL;
    if (!t->levels)
        return PST_OK;
    pst_status st = quant_create_empty(&q, m->text, &m->graph->input, weight_bits(t), t->reterr);
    if (st < 0)
        return onnx_fail_inner(t, st);
    st = set_levels(t, q);
    for (size_t i = 0; st == PST_OK && i < q->graph->count; i++) {
        const struct graph_node *n = &q->graph->nodes[i];
        const struct graph_param *p = &q->graph->params[n->first_param];
        float *to = q->layers[i].params;
        for (size_t k = 0; to && k < n->params; to += p[k++].count)
            memcpy(to, m->params + p[k].offset, p[k].count * sizeof(float));
        if (q->layers[i].weights)
            st = set_weights(t, q, i, m->params);
    }
    if (st == PST_OK && (st = quant_check(q, t->reterr)) < 0)
        onnx_fail_inner(t, st);
    if (st < 0) {
        quant_unref(q);
        return st;
    }
    quant_dequantise(q, m->params);
    m->quant = q;
    return PST_OK;
}
