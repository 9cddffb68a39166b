/* onnx_quantised.c: quantised models in ONNX: every value that is stored in integers goes through QuantizeLinear and DequantizeLinear, and
 * weights are integers with a DequantizeLinear after them. Programs that run integers fuse these with the layer between them. */
#include "export/onnx_graph.h"

#include <stdio.h>
#include <string.h>

#define IN(...) ((const char *const[]){__VA_ARGS__, NULL})

struct name {
    char text[ONNX_NAME_SIZE];
};

static struct name joined(const char *name, const char *what)
{
    struct name n;
    snprintf(n.text, sizeof(n.text), "%.*s/%s", (int)(sizeof(n.text) - strlen(what) - 2), name, what);
    return n;
}

static void add_constant(struct onnx_graph *w, enum onnx_type type, const char *name, const uint64_t *shape, size_t rank, const void *data,
                         size_t bytes)
{
    struct onnx_constant c = onnx_begin_typed(w, type, name, shape, rank);
    text_add_n(w->to, data, bytes);
    onnx_end_constant(w, c);
}

void onnx_quantise_value(struct onnx_graph *w, size_t value)
{
    const struct quant_value *v = &w->quant->values[value];
    const char *name = value ? w->graph->nodes[value - 1].name : "input";
    struct name scale = joined(name, "out_scale"), zero = joined(name, "out_zero"), integers = joined(name, "quantized"),
                back = joined(name, "dequantized");
    add_constant(w, ONNX_TYPE_FLOAT, scale.text, NULL, 0, &v->scale, sizeof(v->scale));
    add_constant(w, ONNX_TYPE_U8, zero.text, NULL, 0, &v->zero, 1);
    onnx_node(w, "QuantizeLinear", IN(w->names[value], scale.text, zero.text), integers.text, NULL);
    onnx_node(w, "DequantizeLinear", IN(integers.text, scale.text, zero.text), back.text, NULL);
    memcpy(w->names[value], back.text, sizeof(back.text));
}

/* The conversion of integers called NAME_quantized to floats called NAME. */
static void add_conversion(struct onnx_graph *w, const char *name, const char *integers, enum onnx_type type, const float *scales, uint64_t count,
                           int64_t axis)
{
    struct name scale = joined(name, "scale"), zero = joined(name, "zero");
    const struct onnx_attribute attributes[] = {{.name = "axis", .kind = ONNX_INT, .ints = {axis}}, {0}};
    size_t bytes = count * (type == ONNX_TYPE_I32 ? 4 : 1);
    add_constant(w, ONNX_TYPE_FLOAT, scale.text, &count, 1, scales, count * sizeof(float));
    struct onnx_constant c = onnx_begin_typed(w, type, zero.text, &count, 1);
    for (size_t i = 0; i < bytes; i++)
        text_add_n(w->to, "", 1);
    onnx_end_constant(w, c);
    onnx_node(w, "DequantizeLinear", IN(integers, scale.text, zero.text), name, attributes);
}

void onnx_quantised_kernel(struct onnx_graph *w, size_t node, uint64_t size, uint64_t in, uint64_t out)
{
    const struct graph_node *n = &w->graph->nodes[node];
    const struct graph_param *p = &w->graph->params[n->first_param];
    const struct quant_layer *l = &w->quant->layers[node];
    struct name integers = joined(p->name, "quantized");
    if (size == 0) {
        const uint64_t shape[] = {p->layer.shape[0], p->layer.shape[1]};
        add_constant(w, ONNX_TYPE_I8, integers.text, shape, 2, l->weights, p->count);
    } else {
        struct onnx_constant c = onnx_begin_typed(w, ONNX_TYPE_I8, integers.text, (const uint64_t[]){out, in, size, size}, 4);
        for (uint64_t o = 0; o < out; o++)
            for (uint64_t i = 0; i < in; i++)
                for (uint64_t t = 0; t < size * size; t++)
                    text_add_n(w->to, (const char *)&l->weights[(t * in + i) * out + o], 1);
        onnx_end_constant(w, c);
    }
    add_conversion(w, p->name, integers.text, ONNX_TYPE_I8, l->weight_scale, quant_channels(n), size == 0 ? 1 : 0);
}

void onnx_quantised_bias(struct onnx_graph *w, size_t node)
{
    const struct graph_node *n = &w->graph->nodes[node];
    const struct graph_param *p = &w->graph->params[n->first_param + 1];
    const struct quant_layer *l = &w->quant->layers[node];
    struct name integers = joined(p->name, "quantized");
    uint64_t channels = quant_channels(n);
    float in = w->quant->values[n->input[0]].scale;
    w->row.length = 0;
    for (uint64_t c = 0; c < channels; c++) {
        float scale = in * l->weight_scale[c];
        text_add_n(&w->row, (const char *)&scale, sizeof(scale));
    }
    if (w->row.failed)
        return;
    add_constant(w, ONNX_TYPE_I32, integers.text, &channels, 1, l->bias, channels * sizeof(int32_t));
    add_conversion(w, p->name, integers.text, ONNX_TYPE_I32, (const float *)(const void *)w->row.data, channels, 0);
}
