/* onnx_layers.c: each layer as ONNX nodes.
 *
 * Values are (N, C, H, W), or (N, C) for vectors, so that channels are axis 1 always. Kernels of convolutions become (O, C, H,
 * W); `flatten` and `layernorm` of images transpose, as their order is height, width, channel. */
#include "export/onnx_graph.h"

#include "model/layer_conv.h"
#include "model/layer_dense.h"
#include "model/layer_norm.h"
#include "model/layer_pool.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The node that is being written. */
struct onnx_call {
    struct onnx_graph *w;
    const struct graph_node *node;
    const char *in, *out; /* the first input and the result */
};

#define IN(...) ((const char *const[]){__VA_ARGS__, NULL})
#define INT(label, number)                                                                                                     \
    {                                                                                                                          \
        .name = (label), .kind = ONNX_INT, .ints = {(number) }                                                                 \
    }
#define FLOAT(label, number)                                                                                                   \
    {                                                                                                                          \
        .name = (label), .kind = ONNX_FLOAT, .value = (number)                                                                 \
    }

static const struct onnx_attribute to_nhwc[] = {{.name = "perm", .kind = ONNX_INTS, .ints = {0, 2, 3, 1}, .count = 4}, {0}};
static const struct onnx_attribute to_nchw[] = {{.name = "perm", .kind = ONNX_INTS, .ints = {0, 3, 1, 2}, .count = 4}, {0}};

/* ---- Constants ---- */

struct name {
    char text[ONNX_NAME_SIZE];
};

static struct name part(const struct onnx_call *c, const char *what)
{
    struct name n;
    snprintf(n.text, sizeof(n.text), "%s/%s", c->node->name, what);
    return n;
}

static const struct graph_param *param(const struct onnx_call *c, size_t i)
{
    return &c->w->graph->params[c->node->first_param + i];
}

/* Writes parameter `i` as it is; returns its name. */
static const char *add_param(const struct onnx_call *c, size_t i)
{
    const struct graph_param *p = param(c, i);
    if (c->w->quant && c->w->quant->layers[p->node].weights) {
        if (i == 0)
            onnx_quantised_kernel(c->w, p->node, 0, 0, 0);
        else
            onnx_quantised_bias(c->w, p->node);
        return p->name;
    }
    uint64_t shape[4];
    for (uint32_t k = 0; k < p->layer.rank; k++)
        shape[k] = p->layer.shape[k];
    struct onnx_constant constant = onnx_begin_constant(c->w, p->name, shape, p->layer.rank);
    text_add_n(c->w->to, (const char *)(c->w->params + p->offset), p->count * sizeof(float));
    onnx_end_constant(c->w, constant);
    return p->name;
}

/* Writes parameter 0, stored as (taps, in, out), as (out, in, rows, columns); returns its name. */
static const char *add_kernel(const struct onnx_call *c, uint64_t size, uint64_t in, uint64_t out)
{
    const struct graph_param *p = param(c, 0);
    const float *values = c->w->params + p->offset;
    struct text *row = &c->w->row;
    if (c->w->quant && c->w->quant->layers[p->node].weights) {
        onnx_quantised_kernel(c->w, p->node, size, in, out);
        return p->name;
    }
    uint64_t taps = size * size;
    struct onnx_constant constant = onnx_begin_constant(c->w, p->name, (const uint64_t[]){out, in, size, size}, 4);
    for (uint64_t o = 0; o < out; o++) {
        row->length = 0;
        for (uint64_t i = 0; i < in; i++)
            for (uint64_t t = 0; t < taps; t++)
                text_add_n(row, (const char *)&values[(t * in + i) * out + o], sizeof(float));
        if (!row->failed)
            text_add_n(c->w->to, row->data, row->length);
    }
    onnx_end_constant(c->w, constant);
    return p->name;
}

static struct name add_scalar(const struct onnx_call *c, const char *what, double value)
{
    struct name n = part(c, what);
    float f = (float)value;
    struct onnx_constant constant = onnx_begin_constant(c->w, n.text, NULL, 0);
    text_add_n(c->w->to, (const char *)&f, sizeof(f));
    onnx_end_constant(c->w, constant);
    return n;
}

/* ---- Convolutions and dense layers ---- */

static int64_t pad_after(const struct window *w)
{
    int64_t reach = (int64_t)(w->size - 1) * w->dilation + 1;
    int64_t after = (int64_t)(w->out - 1) * w->stride + reach - w->before - w->in;
    return after > 0 ? after : 0;
}

/* kernel_shape, strides, pads: for convolutions and pools. */
static void set_windows(struct onnx_attribute ret[3], const struct window *rows, const struct window *columns)
{
    ret[0] =
        (struct onnx_attribute){.name = "kernel_shape", .kind = ONNX_INTS, .ints = {rows->size, columns->size}, .count = 2};
    ret[1] = (struct onnx_attribute){.name = "strides", .kind = ONNX_INTS, .ints = {rows->stride, columns->stride}, .count = 2};
    ret[2] = (struct onnx_attribute){.name = "pads",
                                     .kind = ONNX_INTS,
                                     .ints = {rows->before, columns->before, pad_after(rows), pad_after(columns)},
                                     .count = 4};
}

static pst_status convolution(const struct onnx_call *c, uint64_t groups, const char *kernel, const char *bias,
                              pst_error *reterr)
{
    struct onnx_attribute attributes[6] = {{0}};
    struct window rows, columns;
    pst_status st = conv_windows(c->node->config, c->node->in, &rows, &columns, reterr);
    if (st < 0)
        return st;
    set_windows(attributes, &rows, &columns);
    attributes[3] =
        (struct onnx_attribute){.name = "dilations", .kind = ONNX_INTS, .ints = {rows.dilation, columns.dilation}, .count = 2};
    attributes[4] = (struct onnx_attribute)INT("group", (int64_t)groups);
    onnx_node(c->w, "Conv", IN(c->in, kernel, bias), c->out, attributes);
    return PST_OK;
}

static pst_status emit_conv(const struct onnx_call *c, pst_error *reterr)
{
    const struct conv_config *config = c->node->config;
    const char *kernel = add_kernel(c, config->size, c->node->in[0].c / config->groups, config->filters);
    return convolution(c, config->groups, kernel, config->bias ? add_param(c, 1) : NULL, reterr);
}

static pst_status emit_dwconv(const struct onnx_call *c, pst_error *reterr)
{
    const struct conv_config *config = c->node->config;
    const char *kernel = add_kernel(c, config->size, 1, c->node->in[0].c);
    return convolution(c, c->node->in[0].c, kernel, config->bias ? add_param(c, 1) : NULL, reterr);
}

/* Images are taken pixel by pixel: a 1 × 1 convolution. */
static pst_status emit_dense(const struct onnx_call *c, pst_error *reterr)
{
    const struct dense_config *config = c->node->config;
    bool image = c->node->in[0].rank == 3;
    const char *kernel = image ? add_kernel(c, 1, c->node->in[0].c, config->units) : add_param(c, 0);
    const char *bias = config->bias ? add_param(c, 1) : NULL;
    (void)reterr;
    onnx_node(c->w, image ? "Conv" : bias ? "Gemm" : "MatMul", IN(c->in, kernel, bias), c->out, NULL);
    return PST_OK;
}

/* ---- Normalisation ---- */

static pst_status emit_batchnorm(const struct onnx_call *c, pst_error *reterr)
{
    const struct norm_config *config = c->node->config;
    const struct onnx_attribute attributes[] = {FLOAT("epsilon", config->eps), {0}};
    const char *p[4];
    (void)reterr;
    for (size_t i = 0; i < 4; i++)
        p[i] = add_param(c, i);
    onnx_node(c->w, "BatchNormalization", IN(c->in, p[0], p[1], p[2], p[3]), c->out, attributes);
    return PST_OK;
}

static pst_status emit_layernorm(const struct onnx_call *c, pst_error *reterr)
{
    const struct norm_config *config = c->node->config;
    const struct onnx_attribute attributes[] = {INT("axis", -1), FLOAT("epsilon", config->eps), {0}};
    const char *gamma = add_param(c, 0), *beta = add_param(c, 1);
    (void)reterr;
    if (c->node->in[0].rank == 1) {
        onnx_node(c->w, "LayerNormalization", IN(c->in, gamma, beta), c->out, attributes);
        return PST_OK;
    }
    struct name before = part(c, "nhwc"), after = part(c, "normalized");
    onnx_node(c->w, "Transpose", IN(c->in), before.text, to_nhwc);
    onnx_node(c->w, "LayerNormalization", IN(before.text, gamma, beta), after.text, attributes);
    onnx_node(c->w, "Transpose", IN(after.text), c->out, to_nchw);
    return PST_OK;
}

/* ---- Activations ---- */

static pst_status emit_relu(const struct onnx_call *c, pst_error *reterr)
{
    (void)reterr;
    onnx_node(c->w, "Relu", IN(c->in), c->out, NULL);
    return PST_OK;
}

static pst_status emit_relu6(const struct onnx_call *c, pst_error *reterr)
{
    struct name least = add_scalar(c, "min", 0), most = add_scalar(c, "max", 6);
    (void)reterr;
    onnx_node(c->w, "Clip", IN(c->in, least.text, most.text), c->out, NULL);
    return PST_OK;
}

static pst_status emit_leaky(const struct onnx_call *c, pst_error *reterr)
{
    const struct activation_config *config = c->node->config;
    (void)reterr;
    onnx_node(c->w, "LeakyRelu", IN(c->in), c->out, (const struct onnx_attribute[]){FLOAT("alpha", config->slope), {0}});
    return PST_OK;
}

/* x · (1 + erf(x / √2)) / 2 */
static pst_status emit_gelu(const struct onnx_call *c, pst_error *reterr)
{
    struct name root = add_scalar(c, "root", sqrt(.5)), one = add_scalar(c, "one", 1), half = add_scalar(c, "half", .5);
    struct name scaled = part(c, "scaled"), erf_value = part(c, "erf"), sum = part(c, "sum"), product = part(c, "product");
    (void)reterr;
    onnx_node(c->w, "Mul", IN(c->in, root.text), scaled.text, NULL);
    onnx_node(c->w, "Erf", IN(scaled.text), erf_value.text, NULL);
    onnx_node(c->w, "Add", IN(erf_value.text, one.text), sum.text, NULL);
    onnx_node(c->w, "Mul", IN(c->in, sum.text), product.text, NULL);
    onnx_node(c->w, "Mul", IN(product.text, half.text), c->out, NULL);
    return PST_OK;
}

static pst_status emit_silu(const struct onnx_call *c, pst_error *reterr)
{
    struct name gate = part(c, "gate");
    (void)reterr;
    onnx_node(c->w, "Sigmoid", IN(c->in), gate.text, NULL);
    onnx_node(c->w, "Mul", IN(c->in, gate.text), c->out, NULL);
    return PST_OK;
}

static pst_status emit_sigmoid(const struct onnx_call *c, pst_error *reterr)
{
    (void)reterr;
    onnx_node(c->w, "Sigmoid", IN(c->in), c->out, NULL);
    return PST_OK;
}

static pst_status emit_tanh(const struct onnx_call *c, pst_error *reterr)
{
    (void)reterr;
    onnx_node(c->w, "Tanh", IN(c->in), c->out, NULL);
    return PST_OK;
}

static pst_status emit_softmax(const struct onnx_call *c, pst_error *reterr)
{
    (void)reterr;
    onnx_node(c->w, "Softmax", IN(c->in), c->out, (const struct onnx_attribute[]){INT("axis", 1), {0}});
    return PST_OK;
}

/* ---- Pools ---- */

/* ONNX has no windows that lie in the padding as a whole. */
static pst_status check_pads(const struct onnx_call *c, const struct window *w, pst_error *reterr)
{
    if (w->before < w->size && pad_after(w) < w->size)
        return PST_OK;
    return pst_fail(reterr, PST_EUNSUPPORTED, "%s pads by %u, its windows have %u: ONNX takes pools with less padding only",
                    c->node->name, w->before, w->size);
}

static pst_status pool(const struct onnx_call *c, const char *op, const struct onnx_attribute *more, pst_error *reterr)
{
    struct onnx_attribute attributes[5] = {{0}};
    struct window rows, columns;
    pst_status st = pool_windows(c->node->config, c->node->in, &rows, &columns, reterr);
    if (st == PST_OK)
        st = check_pads(c, &rows, reterr);
    if (st == PST_OK)
        st = check_pads(c, &columns, reterr);
    if (st < 0)
        return st;
    set_windows(attributes, &rows, &columns);
    if (more)
        attributes[3] = *more;
    onnx_node(c->w, op, IN(c->in), c->out, attributes);
    return PST_OK;
}

static pst_status emit_maxpool(const struct onnx_call *c, pst_error *reterr)
{
    return pool(c, "MaxPool", NULL, reterr);
}

static pst_status emit_avgpool(const struct onnx_call *c, pst_error *reterr)
{
    const struct pool_config *config = c->node->config;
    const struct onnx_attribute counted = INT("count_include_pad", strcmp(config->pad, "same") != 0);
    return pool(c, "AveragePool", &counted, reterr);
}

static pst_status emit_globalavgpool(const struct onnx_call *c, pst_error *reterr)
{
    struct name mean = part(c, "mean");
    (void)reterr;
    onnx_node(c->w, "GlobalAveragePool", IN(c->in), mean.text, NULL);
    onnx_node(c->w, "Flatten", IN(mean.text), c->out, NULL);
    return PST_OK;
}

/* ---- Order and joins ---- */

static pst_status emit_dropout(const struct onnx_call *c, pst_error *reterr)
{
    (void)c, (void)reterr; /* predictions drop nothing: the result is the input */
    return PST_OK;
}

/* A model that is being trained for int8 is not what runs: the integers made from it are. */
static pst_status emit_fakequant(const struct onnx_call *c, pst_error *reterr)
{
    const struct graph_param *p = &c->w->graph->params[c->node->first_param];
    if (c->w->params[p[0].offset] == 0 && c->w->params[p[1].offset] == 0)
        return PST_OK; /* no range: values pass */
    return pst_fail(reterr, PST_EUNSUPPORTED, "%s: the model was trained for int8: make it with `penstock compress RUN --quantize int8` and export that",
                    c->node->name);
}

static pst_status emit_flatten(const struct onnx_call *c, pst_error *reterr)
{
    const struct shape *in = &c->node->in[0];
    struct name order = part(c, "nhwc");
    (void)reterr;
    if (in->rank == 1)
        return PST_OK;
    if (in->h * in->w > 1 && in->c > 1)
        onnx_node(c->w, "Transpose", IN(c->in), order.text, to_nhwc);
    else
        snprintf(order.text, sizeof(order.text), "%s", c->in);
    onnx_node(c->w, "Flatten", IN(order.text), c->out, NULL);
    return PST_OK;
}

/* All inputs of the node, in order. */
static void join(const struct onnx_call *c, const char *op, const struct onnx_attribute *attributes)
{
    const char *in[LAYER_MAX_INPUTS + 1] = {NULL};
    for (size_t i = 0; i < c->node->inputs; i++)
        in[i] = c->w->names[c->node->input[i]];
    onnx_node(c->w, op, in, c->out, attributes);
}

static pst_status emit_add(const struct onnx_call *c, pst_error *reterr)
{
    (void)reterr;
    join(c, c->node->inputs == 2 ? "Add" : "Sum", NULL);
    return PST_OK;
}

static pst_status emit_concat(const struct onnx_call *c, pst_error *reterr)
{
    (void)reterr;
    join(c, "Concat", (const struct onnx_attribute[]){INT("axis", 1), {0}});
    return PST_OK;
}

/* ---- The table ---- */

static const struct {
    const char *layer;
    pst_status (*emit)(const struct onnx_call *c, pst_error *reterr);
} emitters[] = {
    {"conv", emit_conv},           {"dwconv", emit_dwconv},   {"dense", emit_dense},     {"batchnorm", emit_batchnorm},
    {"layernorm", emit_layernorm}, {"relu", emit_relu},       {"relu6", emit_relu6},     {"leaky", emit_leaky},
    {"gelu", emit_gelu},           {"silu", emit_silu},       {"sigmoid", emit_sigmoid}, {"tanh", emit_tanh},
    {"softmax", emit_softmax},     {"maxpool", emit_maxpool}, {"avgpool", emit_avgpool}, {"globalavgpool", emit_globalavgpool},
    {"dropout", emit_dropout},     {"fakequant", emit_fakequant}, {"flatten", emit_flatten}, {"add", emit_add},         {"concat", emit_concat},
};

pst_status onnx_layer(struct onnx_graph *w, size_t i, pst_error *reterr)
{
    const struct graph_node *node = &w->graph->nodes[i];
    struct onnx_call call = {.w = w, .node = node, .in = w->names[node->input[0]], .out = w->names[i + 1]};
    for (size_t k = 0; k < sizeof(emitters) / sizeof(emitters[0]); k++)
        if (strcmp(emitters[k].layer, node->layer->name) == 0)
            return emitters[k].emit(&call, reterr);
    return pst_fail(reterr, PST_EUNSUPPORTED, "%s: the layer %s has no ONNX form; export safetensors instead", node->name,
                    node->layer->name);
}
