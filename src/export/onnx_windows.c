/* onnx_windows.c: operators with windows: Conv, MaxPool, AveragePool, and the Pad before them.
 *
 * Our layers have square windows and the same zeros on all sides, or those of TensorFlow's "same". A convolution with other zeros, or with a
 * kernel that is not square, becomes one with a larger kernel that has zeros around it, where that gives the same result. */
#include "base/error.h"
#include "export/onnx_translate.h"
#include "model/layer_conv.h"
#include "model/layer_dense.h"
#include "model/layer_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAX_WINDOW 4096
#define MAX_GROWTH 64 /* times as many values in a kernel with zeros around it */
#define MAX_SPREAD 64 /* side of such a kernel */

/* Rows, then columns. */
struct geometry {
    uint32_t in[2], kernel[2], stride[2], dilation[2], before[2], after[2], out[2];
    bool padded; /* by the node itself */
};

/* ---- Attributes ---- */

static pst_status get_pair(const struct onnx_translation *t, const struct onnx_file_node *n, const char *name, uint32_t fallback, uint32_t ret[2])
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, name);
    ret[0] = ret[1] = fallback;
    if (!a)
        return fallback ? PST_OK : onnx_fail(t, PST_ECORRUPT, "%s is missing", name);
    if (a->ints_count != 2)
        return onnx_fail(t, PST_EUNSUPPORTED, "%s has %zu numbers; images have 2 dimensions", name, a->ints_count);
    for (size_t i = 0; i < 2; i++) {
        if (a->ints[i] < 1 || a->ints[i] > MAX_WINDOW)
            return onnx_fail(t, PST_ELIMIT, "%s is %" PRId64 "; expected 1 to %d", name, a->ints[i], MAX_WINDOW);
        ret[i] = (uint32_t)a->ints[i];
    }
    return PST_OK;
}

static uint64_t reach_of(const struct geometry *g, int i)
{
    return (uint64_t)(g->kernel[i] - 1) * g->dilation[i] + 1;
}

static pst_status explicit_pads(const struct onnx_translation *t, const struct onnx_file_node *n, struct geometry *g)
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, "pads");
    if (!a)
        return PST_OK;
    if (a->ints_count != 4)
        return onnx_fail(t, PST_EUNSUPPORTED, "pads has %zu numbers; expected 4", a->ints_count);
    for (size_t i = 0; i < 4; i++) {
        if (a->ints[i] < 0 || a->ints[i] > MAX_WINDOW)
            return onnx_fail(t, PST_EUNSUPPORTED, "pads has %" PRId64 "; expected 0 to %d", a->ints[i], MAX_WINDOW);
        *(i < 2 ? &g->before[i] : &g->after[i - 2]) = (uint32_t)a->ints[i];
        g->padded |= a->ints[i] > 0;
    }
    return PST_OK;
}

static void same_pads(struct geometry *g, int i, uint64_t in, bool lower)
{
    uint64_t out = (in + g->stride[i] - 1) / g->stride[i], needed = (out - 1) * g->stride[i] + reach_of(g, i);
    uint32_t total = needed > in ? (uint32_t)(needed - in) : 0;
    g->before[i] = lower ? total - total / 2 : total / 2;
    g->after[i] = total - g->before[i];
    g->padded |= total > 0;
}

/* Where the windows of a node lie on `x`; kernel and dilation are set. */
static pst_status get_geometry(const struct onnx_translation *t, const struct onnx_file_node *n, const struct onnx_value *x, struct geometry *g)
{
    const struct onnx_file_attribute *a = onnx_attribute_find(n, "auto_pad");
    const char *mode = a && a->s[0] ? a->s : "NOTSET";
    bool upper = strcmp(mode, "SAME_UPPER") == 0, lower = strcmp(mode, "SAME_LOWER") == 0;
    pst_status st = get_pair(t, n, "strides", 1, g->stride);
    if (st == PST_OK && strcmp(mode, "NOTSET") == 0)
        st = explicit_pads(t, n, g);
    else if (st == PST_OK && strcmp(mode, "VALID") != 0 && !upper && !lower)
        st = onnx_fail(t, PST_ECORRUPT, "auto_pad is \"%.20s\"", mode);
    if (st < 0)
        return st;
    g->in[0] = x->image.h;
    g->in[1] = x->image.w;
    for (int i = 0; i < 2; i++) {
        uint64_t in = (uint64_t)g->in[i] + x->pads[i] + x->pads[i + 2], all, reach = reach_of(g, i);
        if (upper || lower)
            same_pads(g, i, in, lower);
        all = in + g->before[i] + g->after[i];
        if (all < reach)
            return onnx_fail(t, PST_ECORRUPT, "a window of %" PRIu64 " does not fit into %" PRIu64 " values", reach, all);
        uint64_t steps = all - reach;
        bool up = onnx_int(n, "ceil_mode", 0) != 0 && steps % g->stride[i] != 0;
        /* the last window of ceil_mode begins within the data or the zeros before it */
        up = up && (steps / g->stride[i] + 1) * g->stride[i] < in + g->before[i];
        g->out[i] = (uint32_t)(steps / g->stride[i] + 1 + up);
        g->before[i] += x->pads[i];
        g->after[i] += x->pads[i + 2];
    }
    return PST_OK;
}

/* ---- Our ways to pad ---- */

static bool pad_fits(const struct geometry *g, const char *pad)
{
    for (int i = 0; i < 2; i++) {
        struct window w;
        if (window_plan(&w, pad, g->kernel[i], g->stride[i], g->dilation[i], g->in[i], NULL) < 0 || w.before != g->before[i] || w.out != g->out[i])
            return false;
    }
    return g->kernel[0] == g->kernel[1] && g->stride[0] == g->stride[1] && (g->kernel[0] == 1 || g->dilation[0] == g->dilation[1]);
}

/* The text of pad=; false: we have none. */
static bool find_pad(const struct geometry *g, char ret[16])
{
    snprintf(ret, 16, "valid");
    if (pad_fits(g, ret))
        return true;
    snprintf(ret, 16, "same");
    if (pad_fits(g, ret))
        return true;
    snprintf(ret, 16, "%u", g->before[0]);
    return pad_fits(g, ret);
}

/* Finds a square kernel with the node's inside, at row `at[0]` and column `at[1]`. */
static bool find_spread(const struct geometry *g, struct geometry *ret, char pad[16], uint32_t at[2])
{
    uint32_t most = g->before[0] > g->before[1] ? g->before[0] : g->before[1];
    if (g->stride[0] != g->stride[1] || (g->dilation[0] > 1 && g->kernel[0] > 1) || (g->dilation[1] > 1 && g->kernel[1] > 1))
        return false;
    for (uint32_t each = most; each <= most + MAX_SPREAD; each++) {
        uint32_t rows = each - g->before[0] + g->kernel[0], columns = each - g->before[1] + g->kernel[1];
        for (uint32_t size = rows > columns ? rows : columns; size <= MAX_SPREAD; size++) {
            *ret = *g;
            ret->kernel[0] = ret->kernel[1] = size;
            ret->dilation[0] = ret->dilation[1] = 1;
            ret->before[0] = ret->before[1] = each;
            snprintf(pad, 16, "%u", each);
            at[0] = each - g->before[0];
            at[1] = each - g->before[1];
            if (pad_fits(ret, pad))
                return (uint64_t)size * size <= (uint64_t)MAX_GROWTH * g->kernel[0] * g->kernel[1];
        }
    }
    return false;
}

/* ---- Conv ---- */

struct convolution {
    const struct onnx_tensor *kernel, *bias;
    uint64_t groups;
    struct geometry geometry;
    struct onnx_value *out; /* of the node, or of the Add after it that is its bias */
    char name[GRAPH_NAME_SIZE];
    const char *wanted;
};

static pst_status get_convolution(struct onnx_translation *t, const struct onnx_file_node *n, const struct onnx_value *x, struct convolution *c)
{
    pst_status st = onnx_constant_input(t, n, 1, "kernel", &c->kernel);
    int64_t groups = onnx_int(n, "group", 1);
    if (st == PST_OK && onnx_input(t, n, 2))
        st = onnx_constant_input(t, n, 2, "bias", &c->bias);
    if (st < 0)
        return st;
    if (c->kernel->rank != 4 || c->kernel->count == 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "a kernel of %u dimensions; expected 4: convolutions of images", c->kernel->rank);
    const uint64_t *dims = c->kernel->dims;
    if (groups < 1 || (uint64_t)groups > dims[0] || dims[0] % (uint64_t)groups || dims[1] * (uint64_t)groups != x->image.c)
        return onnx_fail(t, PST_ECORRUPT, "a kernel for %" PRIu64 " channels in %" PRId64 " groups; its input has %u", dims[1], groups, x->image.c);
    if (dims[0] > UINT32_MAX || dims[2] > MAX_WINDOW || dims[3] > MAX_WINDOW)
        return onnx_fail(t, PST_ELIMIT, "a kernel of %" PRIu64 " × %" PRIu64, dims[2], dims[3]);
    c->groups = (uint64_t)groups;
    c->geometry.kernel[0] = (uint32_t)dims[2];
    c->geometry.kernel[1] = (uint32_t)dims[3];
    c->wanted = onnx_layer_name(n, c->kernel->name, c->name);
    if (!c->bias) {
        struct onnx_value *sum = onnx_take_bias(t, c->out, &c->bias);
        c->out = sum ? sum : c->out;
    }
    if (c->bias && c->bias->count != dims[0])
        return onnx_fail(t, PST_ECORRUPT, "a bias of %zu values for %" PRIu64 " channels", c->bias->count, dims[0]);
    st = get_pair(t, n, "dilations", 1, c->geometry.dilation);
    return st == PST_OK ? get_geometry(t, n, x, &c->geometry) : st;
}

static void copy_bias(const struct onnx_translation *t, const struct onnx_tensor *bias)
{
    size_t count;
    float *to = bias ? onnx_param(t, 1, &count) : NULL;
    for (size_t i = 0; to && i < count; i++)
        to[i] = onnx_tensor_float(bias, i);
}

/* A 1 × 1 convolution of a vector, such as the mean of every channel. */
static pst_status dense_convolution(struct onnx_translation *t, const struct convolution *c, const struct onnx_value *x)
{
    struct dense_config *config = onnx_config(t, "dense");
    size_t count, ours, out = c->kernel->dims[0], in = c->kernel->dims[1];
    if (!config)
        return onnx_fail_memory(t);
    if (c->groups != 1 || c->kernel->dims[2] != 1 || c->kernel->dims[3] != 1 || c->geometry.out[0] != 1 || c->geometry.out[1] != 1 ||
        c->geometry.before[0] != 0 || c->geometry.before[1] != 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "a convolution of a single pixel; expected a 1 × 1 kernel without groups");
    config->units = out;
    config->bias = c->bias != NULL;
    pst_status st = onnx_add(t, "dense", config, c->wanted, &x->ours, 1, &ours);
    if (st < 0)
        return st;
    float *to = onnx_param(t, 0, &count);
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < in; i++)
            to[i * out + o] = onnx_tensor_float(c->kernel, o * in + i);
    copy_bias(t, c->bias);
    onnx_set(t, c->out, ours, "NC--");
    return onnx_note_weights(t, c->kernel, c->bias);
}

/* From (out, in, rows, columns) to (rows, columns, in, out), with zeros around. */
static void copy_kernel(const struct onnx_translation *t, const struct onnx_tensor *from, uint32_t size, const uint32_t at[2])
{
    size_t count, outs = from->dims[0], ins = from->dims[1], rows = from->dims[2], columns = from->dims[3], next = 0;
    float *to = onnx_param(t, 0, &count);
    for (size_t o = 0; o < outs; o++)
        for (size_t i = 0; i < ins; i++)
            for (size_t r = 0; r < rows; r++)
                for (size_t c = 0; c < columns; c++)
                    to[(((r + at[0]) * size + c + at[1]) * ins + i) * outs + o] = onnx_tensor_float(from, next++);
}

pst_status onnx_conv(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct convolution c = {.out = out};
    struct geometry spread;
    struct onnx_value *x;
    uint32_t at[2] = {0, 0};
    size_t ours;
    char pad[16];
    pst_status st = onnx_value_input(t, n, 0, true, &x);
    if (st == PST_OK && !onnx_has_axes(x, "NCHW"))
        st = onnx_fail(t, PST_EUNSUPPORTED, "its input is not an image in the order batch, channel, height, width");
    if (st == PST_OK)
        st = get_convolution(t, n, x, &c);
    if (st < 0)
        return st;
    if (graph_shape(t->graph, x->ours)->rank == 1)
        return dense_convolution(t, &c, x);
    bool depthwise = c.groups > 1 && c.groups == c.kernel->dims[0] && c.kernel->dims[1] == 1;
    if (find_pad(&c.geometry, pad))
        spread = c.geometry;
    else if (!find_spread(&c.geometry, &spread, pad, at))
        return onnx_fail(t, PST_EUNSUPPORTED, "kernel %u × %u, strides %u and %u, zeros %u, %u, %u, %u: no layer pads like that", c.geometry.kernel[0],
                         c.geometry.kernel[1], c.geometry.stride[0], c.geometry.stride[1], c.geometry.before[0], c.geometry.before[1], c.geometry.after[0],
                         c.geometry.after[1]);
    struct conv_config *config = onnx_config(t, depthwise ? "dwconv" : "conv");
    if (!config || !(config->pad = arena_strndup(&t->graph->memory, pad, strlen(pad))))
        return onnx_fail_memory(t);
    config->filters = c.kernel->dims[0];
    config->size = spread.kernel[0];
    config->stride = spread.stride[0];
    config->dilation = spread.kernel[0] == 1 ? 1 : spread.dilation[0];
    config->groups = depthwise ? 1 : c.groups;
    config->bias = c.bias != NULL;
    st = onnx_add(t, depthwise ? "dwconv" : "conv", config, c.wanted, &x->ours, 1, &ours);
    if (st < 0)
        return st;
    copy_kernel(t, c.kernel, spread.kernel[0], at);
    copy_bias(t, c.bias);
    onnx_set(t, c.out, ours, "NCHW");
    return onnx_note_weights(t, c.kernel, c.bias);
}

/* ---- Pools ---- */

static pst_status pool_layer(struct onnx_translation *t, const char *layer, const struct geometry *g, const char *pad, const struct onnx_value *x,
                             struct onnx_value *out)
{
    struct pool_config *config = onnx_config(t, layer);
    size_t ours;
    if (!config || !(config->pad = arena_strndup(&t->graph->memory, pad, strlen(pad))))
        return onnx_fail_memory(t);
    config->size = g->kernel[0];
    config->stride = g->stride[0];
    pst_status st = onnx_add(t, layer, config, NULL, &x->ours, 1, &ours);
    if (st == PST_OK)
        onnx_set(t, out, ours, "NCHW");
    return st;
}

static pst_status get_pool(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value **x, struct geometry *g)
{
    pst_status st = onnx_value_input(t, n, 0, true, x);
    if (st == PST_OK && (!onnx_has_axes(*x, "NCHW") || graph_shape(t->graph, (*x)->ours)->rank != 3))
        st = onnx_fail(t, PST_EUNSUPPORTED, "its input is not an image in the order batch, channel, height, width");
    if (st == PST_OK)
        st = get_pair(t, n, "kernel_shape", 0, g->kernel);
    if (st == PST_OK)
        st = get_pair(t, n, "dilations", 1, g->dilation);
    if (st == PST_OK && (g->dilation[0] > 1 || g->dilation[1] > 1))
        st = onnx_fail(t, PST_EUNSUPPORTED, "dilations of a pool");
    return st == PST_OK ? get_geometry(t, n, *x, g) : st;
}

static pst_status fail_pool(const struct onnx_translation *t, const struct geometry *g)
{
    return onnx_fail(t, PST_EUNSUPPORTED, "windows of %u × %u, strides %u and %u, zeros %u, %u, %u, %u: no pooling layer supports this", g->kernel[0],
                     g->kernel[1], g->stride[0], g->stride[1], g->before[0], g->before[1], g->after[0], g->after[1]);
}

static bool has_pads(const struct onnx_value *x)
{
    return x->pads[0] || x->pads[1] || x->pads[2] || x->pads[3];
}

pst_status onnx_maxpool(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct geometry g = {0};
    struct onnx_value *x;
    char pad[16];
    pst_status st = get_pool(t, n, &x, &g);
    if (st < 0)
        return st;
    if (has_pads(x) && !x->positive) /* the zeros of Pad are values; those of a pool are not */
        return onnx_fail(t, PST_EUNSUPPORTED, "a Pad before it adds zeros to values that may be negative");
    if (!find_pad(&g, pad))
        return fail_pool(t, &g);
    bool positive = x->positive;
    st = pool_layer(t, "maxpool", &g, pad, x, out);
    out->positive = positive;
    return st;
}

pst_status onnx_averagepool(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct geometry g = {0};
    struct onnx_value *x;
    char pad[16];
    pst_status st = get_pool(t, n, &x, &g);
    if (st < 0)
        return st;
    bool counted = has_pads(x) || onnx_int(n, "count_include_pad", 0) != 0, none = !g.padded && !has_pads(x);
    if (has_pads(x) && g.padded && onnx_int(n, "count_include_pad", 0) == 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "zeros of a Pad that are counted, and others that are not");
    snprintf(pad, sizeof(pad), none ? "valid" : counted ? "%u" : "same", g.before[0]);
    if (!pad_fits(&g, pad)) {
        snprintf(pad, sizeof(pad), "same"); /* windows beyond the end, of ceil_mode: what is not there is not counted */
        if (!none || !pad_fits(&g, pad))
            return fail_pool(t, &g);
    }
    return pool_layer(t, "avgpool", &g, pad, x, out);
}

/* ---- Pad ---- */

/* The numbers of zeros: before each dimension, then after each. */
static pst_status get_zeros(const struct onnx_translation *t, const struct onnx_file_node *n, uint32_t rank, int64_t zeros[2 * ONNX_FILE_RANK])
{
    const struct onnx_file_attribute *mode = onnx_attribute_find(n, "mode");
    const struct onnx_value *value = onnx_input(t, n, 2);
    size_t count = 0;
    bool found;
    pst_status st = onnx_numbers(t, n, "pads", 1, zeros, &count, &found);
    if (st < 0)
        return st;
    if (mode && mode->s[0] && strcmp(mode->s, "constant") != 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "mode \"%.20s\"; expected constant zeros", mode->s);
    bool zero = value ? value->kind == ONNX_CONSTANT && value->constant->count == 1 && onnx_tensor_float(value->constant, 0) == 0
                      : onnx_float(n, "value", 0) == 0;
    if (!zero)
        return onnx_fail(t, PST_EUNSUPPORTED, "the value is not zero");
    if (onnx_input(t, n, 3))
        return onnx_fail(t, PST_EUNSUPPORTED, "axes; expected numbers for all dimensions");
    return found && count == 2 * (size_t)rank ? PST_OK : onnx_fail(t, PST_EUNSUPPORTED, "pads are not known, or not two for each dimension");
}

pst_status onnx_pad(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *x;
    int64_t zeros[ONNX_MAX_SHAPE];
    pst_status st = onnx_value_input(t, n, 0, true, &x);
    if (st == PST_OK)
        st = get_zeros(t, n, x->rank, zeros);
    if (st < 0)
        return st;
    onnx_follow(out, x, x->ours);
    out->positive = x->positive;
    for (uint32_t i = 0; i < x->rank; i++) {
        int64_t before = zeros[i], after = zeros[x->rank + i];
        char axis = x->axes[i][0] && !x->axes[i][1] ? x->axes[i][0] : '\0';
        if (before == 0 && after == 0)
            continue;
        if ((axis != 'H' && axis != 'W') || before < 0 || after < 0 || before > MAX_WINDOW || after > MAX_WINDOW)
            return onnx_fail(t, PST_EUNSUPPORTED, "%" PRId64 " and %" PRId64 " zeros in dimension %u; expected zeros around images", before, after, i);
        out->pads[axis == 'W'] += (uint32_t)before;
        out->pads[2 + (axis == 'W')] += (uint32_t)after;
        if (out->pads[axis == 'W'] > MAX_WINDOW || out->pads[2 + (axis == 'W')] > MAX_WINDOW)
            return onnx_fail(t, PST_ELIMIT, "more than %d zeros", MAX_WINDOW);
    }
    return PST_OK;
}
