/* onnx_operators.c: operators as layers: products, normalisation, activations, means and joins; the table of all operators. */
#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "export/onnx_translate.h"
#include "model/layer_activation.h"
#include "model/layer_dense.h"
#include "model/layer_norm.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_CONCAT 256 /* inputs, before those of earlier concats are put together */

/* ---- Products ---- */

struct product {
    const struct onnx_tensor *weights, *bias;
    bool transposed; /* weights are (out, in) */
    double alpha, beta;
    struct onnx_value *out;
};

/* A dense layer over the samples, or over the pixels of an image whose last dimension is its channels. */
static pst_status dense(struct onnx_translation *t, const struct onnx_file_node *n, const struct onnx_value *x, const struct product *p)
{
    struct dense_config *config = onnx_config(t, "dense");
    const struct onnx_tensor *w = p->weights;
    char name[GRAPH_NAME_SIZE];
    size_t ours = x->ours, made, count;
    bool pixels = x->rank == 4 && onnx_has_axes(x, "NHWC") && graph_shape(t->graph, x->ours)->rank == 3;
    uint32_t whole = onnx_whole_dim(x), dim = pixels ? 3 : whole && whole == x->rank - 1 && x->rank <= 4 ? whole : 0;
    if (!config)
        return onnx_fail_memory(t);
    if (dim == 0 || w->rank != 2 || w->count == 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "expected rows of samples times a constant matrix");
    uint64_t in = w->dims[p->transposed], out = w->dims[!p->transposed];
    if (in != onnx_dim_size(x, dim) || out > UINT32_MAX || (p->bias && p->bias->count != out && p->bias->count != 1))
        return onnx_fail(t, PST_ECORRUPT, "weights of %" PRIu64 " × %" PRIu64 " for %zu values per sample", in, out, onnx_dim_size(x, dim));
    pst_status st = pixels ? PST_OK : onnx_flatten(t, x, &ours);
    const uint32_t *positions = pixels ? NULL : onnx_positions(t, x, dim);
    if (st == PST_OK && !pixels && !positions)
        st = onnx_fail_memory(t);
    config->units = out;
    config->bias = p->bias != NULL;
    if (st == PST_OK)
        st = onnx_add(t, "dense", config, onnx_layer_name(n, w->name, name), &ours, 1, &made);
    if (st < 0)
        return st;
    float *to = onnx_param(t, 0, &count);
    for (size_t i = 0; i < in; i++)
        for (size_t o = 0; o < out; o++)
            to[(positions ? positions[i] : i) * out + o] = (float)p->alpha * onnx_tensor_float(w, p->transposed ? o * in + i : i * out + o);
    to = p->bias ? onnx_param(t, 1, &count) : NULL;
    for (size_t o = 0; to && o < out; o++)
        to[o] = (float)p->beta * onnx_tensor_float(p->bias, p->bias->count == 1 ? 0 : o);
    onnx_set(t, p->out, made, pixels ? "NHWC" : x->rank == 2 ? "NC" : x->rank == 3 ? "N-C" : "N--C");
    return onnx_note_weights(t, w, p->bias);
}

pst_status onnx_gemm(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct product p = {.transposed = onnx_int(n, "transB", 0) != 0, .alpha = onnx_float(n, "alpha", 1), .beta = onnx_float(n, "beta", 1), .out = out};
    struct onnx_value *x;
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK)
        st = onnx_constant_input(t, n, 1, "matrix", &p.weights);
    if (st == PST_OK && onnx_input(t, n, 2))
        st = onnx_constant_input(t, n, 2, "bias", &p.bias);
    if (st == PST_OK && onnx_int(n, "transA", 0) != 0)
        st = onnx_fail(t, PST_EUNSUPPORTED, "transA");
    return st == PST_OK ? dense(t, n, x, &p) : st;
}

pst_status onnx_matmul(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct product p = {.alpha = 1, .beta = 1, .out = out};
    struct onnx_value *x;
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK)
        st = onnx_constant_input(t, n, 1, "matrix", &p.weights);
    if (st < 0)
        return st;
    struct onnx_value *sum = onnx_take_bias(t, out, &p.bias);
    if (sum && p.weights->rank == 2 && p.bias->count == p.weights->dims[1])
        p.out = sum;
    else
        p.bias = NULL;
    return dense(t, n, x, &p);
}

struct onnx_value *onnx_take_bias(struct onnx_translation *t, const struct onnx_value *v, const struct onnx_tensor **ret_bias)
{
    const struct onnx_file_node *n = onnx_only_reader(t, v, "Add");
    struct onnx_value *a = n && n->ins == 2 && n->outs == 1 ? onnx_input(t, n, 0) : NULL, *b = a ? onnx_input(t, n, 1) : NULL;
    if (!a || !b)
        return NULL;
    const struct onnx_value *other = a == v ? b : a;
    if (other->kind != ONNX_CONSTANT)
        return NULL;
    /* The constant differs along one dimension: the channels, which is the last of two, and the third before the last of four. */
    const struct onnx_tensor *c = other->constant;
    bool conv = strcmp(t->node->op, "Conv") == 0;
    for (uint32_t i = 0; i < c->rank; i++)
        if (c->dims[i] != 1 && c->rank - i != (conv ? 3 : 1))
            return NULL;
    if (c->rank > 4 || c->count < 2) /* a single number is added to all channels; Conv has no such bias */
        return NULL;
    *ret_bias = c;
    return onnx_find(t, n->out[0]);
}

/* ---- Normalisation ---- */

static pst_status batchnorm(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    static const char *const names[] = {"scale", "bias", "mean", "variance"};
    struct norm_config *config = onnx_config(t, "batchnorm");
    struct onnx_value *x;
    float *values[4] = {NULL};
    char name[GRAPH_NAME_SIZE];
    size_t ours = 0, made, count;
    pst_status st = config ? onnx_value_input(t, n, 0, false, &x) : onnx_fail_memory(t);
    const struct onnx_tensor *c = NULL, *scale = NULL;
    if (st == PST_OK && (x->rank < 2 || onnx_int(n, "training_mode", 0) != 0))
        st = onnx_fail(t, PST_EUNSUPPORTED, "expected channels, and statistics of training");
    for (size_t i = 0; st == PST_OK && i < 4; i++) {
        struct onnx_value from = *x;
        st = onnx_constant_input(t, n, 1 + i, names[i], &c);
        scale = i == 0 ? c : scale;
        from.ours = i ? ours : x->ours; /* flattened once */
        if (st == PST_OK)
            st = onnx_dim_values(t, &from, 1, c, &ours, &values[i]);
    }
    if (st < 0)
        return st;
    config->eps = onnx_float(n, "epsilon", 1e-5);
    config->momentum = onnx_float(n, "momentum", 0.9);
    if (!(config->eps > 0 && config->eps <= 1))
        return onnx_fail(t, PST_EUNSUPPORTED, "epsilon is %g", config->eps);
    if (!(config->momentum >= 0 && config->momentum <= 1))
        return onnx_fail(t, PST_EUNSUPPORTED, "momentum is %g", config->momentum);
    st = onnx_add(t, "batchnorm", config, onnx_layer_name(n, scale->name, name), &ours, 1, &made);
    for (size_t i = 0; st == PST_OK && i < 4; i++) {
        float *to = onnx_param(t, i, &count);
        memcpy(to, values[i], count * sizeof(float));
    }
    if (st == PST_OK)
        onnx_follow(out, x, made);
    return st;
}

static pst_status layernorm(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct norm_config *config = onnx_config(t, "layernorm");
    struct onnx_value *x;
    const struct onnx_tensor *scale = NULL, *bias = NULL;
    float *gamma, *beta = NULL;
    char name[GRAPH_NAME_SIZE];
    size_t ours, made, count;
    pst_status st = config ? onnx_value_input(t, n, 0, false, &x) : onnx_fail_memory(t);
    if (st == PST_OK)
        st = onnx_constant_input(t, n, 1, "scale", &scale);
    if (st == PST_OK && onnx_input(t, n, 2))
        st = onnx_constant_input(t, n, 2, "bias", &bias);
    if (st < 0)
        return st;
    int64_t axis = onnx_int(n, "axis", -1);
    axis += axis < 0 ? x->rank : 0;
    if (x->rank < 2 || axis != (int64_t)x->rank - 1 || !(onnx_has_axes(x, "NHWC") || onnx_whole_dim(x) == x->rank - 1))
        return onnx_fail(t, PST_EUNSUPPORTED, "expected to normalise the last dimension, and that to be the channels");
    struct onnx_value from = *x;
    st = onnx_dim_values(t, x, x->rank - 1, scale, &ours, &gamma);
    from.ours = st == PST_OK ? ours : 0;
    if (st == PST_OK && bias)
        st = onnx_dim_values(t, &from, x->rank - 1, bias, &ours, &beta);
    config->eps = onnx_float(n, "epsilon", 1e-5);
    if (st == PST_OK && !(config->eps > 0 && config->eps <= 1))
        st = onnx_fail(t, PST_EUNSUPPORTED, "epsilon is %g", config->eps);
    if (st == PST_OK)
        st = onnx_add(t, "layernorm", config, onnx_layer_name(n, scale->name, name), &ours, 1, &made);
    if (st < 0)
        return st;
    memcpy(onnx_param(t, 0, &count), gamma, onnx_dim_size(x, x->rank - 1) * sizeof(float));
    if (beta)
        memcpy(onnx_param(t, 1, &count), beta, count * sizeof(float));
    onnx_follow(out, x, made);
    return PST_OK;
}

/* x · scale + shift with numbers per channel: a batchnorm whose statistics are 0 and 1. */
static pst_status affine(struct onnx_translation *t, const struct onnx_value *x, const struct onnx_tensor *c, const char *op, bool reversed,
                         struct onnx_value *out)
{
    struct norm_config *config = onnx_config(t, "batchnorm");
    float *values;
    size_t ours, made, count;
    pst_status st = config ? onnx_channel_values(t, x, c, &ours, &values) : onnx_fail_memory(t);
    if (st < 0)
        return st;
    config->eps = 1e-3;
    config->momentum = 0.99;
    st = onnx_add(t, "batchnorm", config, NULL, &ours, 1, &made);
    if (st < 0)
        return st;
    float *scale = onnx_param(t, 0, &count), *shift = onnx_param(t, 1, &count), *mean = onnx_param(t, 2, &count), *variance = onnx_param(t, 3, &count);
    for (size_t i = 0; i < count; i++) {
        scale[i] = strcmp(op, "Mul") == 0 ? values[i] : strcmp(op, "Div") == 0 ? 1 / values[i] : reversed ? -1 : 1;
        shift[i] = strcmp(op, "Add") == 0 || reversed ? values[i] : strcmp(op, "Sub") == 0 ? -values[i] : 0;
        mean[i] = 0;
        variance[i] = 1 - 1e-3f;
    }
    onnx_follow(out, x, made);
    return PST_OK;
}

/* ---- Activations ---- */

static pst_status activation(struct onnx_translation *t, const char *layer, double slope, const struct onnx_value *x, struct onnx_value *out)
{
    struct activation_config *config = onnx_config(t, layer);
    size_t made;
    if (!config)
        return onnx_fail_memory(t);
    if (strcmp(layer, "leaky") == 0)
        config->slope = slope;
    pst_status st = onnx_add(t, layer, config, NULL, &x->ours, 1, &made);
    if (st == PST_OK)
        onnx_follow(out, x, made);
    return st;
}

/* Activations of the same name, or nearly. */
static pst_status simple(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    static const char *const rows[][2] = {{"Relu", "relu"}, {"Sigmoid", "sigmoid"}, {"Tanh", "tanh"}, {"LeakyRelu", "leaky"}};
    struct onnx_value *x;
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    for (size_t i = 0; st == PST_OK && i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strcmp(rows[i][0], n->op) != 0)
            continue;
        double slope = onnx_float(n, "alpha", 0.01);
        if (!(slope >= 0 && slope <= 1) && strcmp(n->op, "LeakyRelu") == 0)
            return onnx_fail(t, PST_EUNSUPPORTED, "alpha is %g; expected 0 to 1", slope);
        st = activation(t, rows[i][1], slope, x, out);
        out->positive = i < 2;
        return st;
    }
    return st;
}

static pst_status gelu(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_state *state = &t->states[n - t->file->nodes];
    const struct onnx_file_attribute *form = onnx_attribute_find(n, "approximate");
    struct onnx_value *x = state->in;
    if (!x && form && form->s[0] && strcmp(form->s, "none") != 0)
        return onnx_fail(t, PST_EUNSUPPORTED, "approximate=%.20s; expected none", form->s);
    pst_status st = x ? PST_OK : onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK && x->kind != ONNX_VALUE)
        st = onnx_fail(t, PST_EUNSUPPORTED, "an activation of a constant");
    return st == PST_OK ? activation(t, "gelu", 0, x, out) : st;
}

static pst_status silu(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    const struct onnx_state *state = &t->states[n - t->file->nodes];
    struct onnx_value *x = state->in;
    pst_status st = x ? PST_OK : onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK && (x->kind != ONNX_VALUE || onnx_float(n, "alpha", 1) != 1))
        st = onnx_fail(t, PST_EUNSUPPORTED, "an activation of a constant, or with another alpha than 1");
    return st == PST_OK ? activation(t, "silu", 0, x, out) : st;
}

/* A bound of Clip: an input, or an attribute in old versions. */
static pst_status get_bound(const struct onnx_translation *t, const struct onnx_file_node *n, size_t i, const char *name, double fallback, double *ret)
{
    const struct onnx_tensor *c;
    *ret = onnx_float(n, name, fallback);
    if (!onnx_input(t, n, i))
        return PST_OK;
    pst_status st = onnx_constant_input(t, n, i, name, &c);
    if (st == PST_OK && c->count != 1)
        st = onnx_fail(t, PST_ECORRUPT, "%s is not a single number", name);
    if (st == PST_OK)
        *ret = (double)onnx_tensor_float(c, 0);
    return st;
}

static pst_status clip(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    double low, high;
    struct onnx_value *x;
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK)
        st = get_bound(t, n, 1, "min", -INFINITY, &low);
    if (st == PST_OK)
        st = get_bound(t, n, 2, "max", INFINITY, &high);
    if (st < 0)
        return st;
    if (low != 0 || (high != 6 && !(high >= 3.4e38)))
        return onnx_fail(t, PST_EUNSUPPORTED, "from %g to %g; expected 0 to 6 (relu6), or 0 and no end (relu)", low, high);
    st = activation(t, high == 6 ? "relu6" : "relu", 0, x, out);
    out->positive = true;
    return st;
}

static pst_status softmax(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *x, flat;
    void *config = onnx_config(t, "softmax");
    size_t made;
    pst_status st = config ? onnx_value_input(t, n, 0, false, &x) : onnx_fail_memory(t);
    if (st < 0)
        return st;
    int64_t axis = onnx_int(n, "axis", t->file->opset >= 13 ? -1 : 1);
    axis += axis < 0 ? x->rank : 0;
    bool all = axis > 0 && axis < x->rank && onnx_whole_dim(x) == axis;
    bool channels = axis > 0 && axis < x->rank && strcmp(x->axes[axis], "C") == 0 && graph_shape(t->graph, x->ours)->rank == 3;
    if (!all && (!channels || t->file->opset < 13)) /* before, it took all dimensions from the axis on together */
        return onnx_fail(t, PST_EUNSUPPORTED, "axis %" PRId64 "; expected the channels", axis);
    flat = *x;
    if (all && !channels)
        st = onnx_flatten(t, x, &flat.ours);
    if (st == PST_OK)
        st = onnx_add(t, "softmax", config, NULL, &flat.ours, 1, &made);
    if (st == PST_OK)
        onnx_follow(out, &flat, made);
    return st;
}

/* ---- Means ---- */

/* The mean over height and width; its result has these axes. */
static pst_status mean(struct onnx_translation *t, const struct onnx_value *x, struct onnx_value *out, const char *axes)
{
    void *config = onnx_config(t, "globalavgpool");
    size_t made = x->ours;
    pst_status st = PST_OK;
    if (!config)
        return onnx_fail_memory(t);
    if (graph_shape(t->graph, x->ours)->rank == 1 && shape_values(&x->image) != x->image.c)
        return onnx_fail(t, PST_EUNSUPPORTED, "the mean of an image that was flattened before");
    if (graph_shape(t->graph, x->ours)->rank == 3)
        st = onnx_add(t, "globalavgpool", config, NULL, &x->ours, 1, &made);
    if (st == PST_OK)
        onnx_set(t, out, made, axes);
    return st;
}

static pst_status globalaveragepool(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *x;
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK && !onnx_has_axes(x, "NCHW"))
        st = onnx_fail(t, PST_EUNSUPPORTED, "its input is not an image in the order batch, channel, height, width");
    return st == PST_OK ? mean(t, x, out, "NC--") : st;
}

static pst_status reducemean(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *x;
    int64_t dims[ONNX_MAX_SHAPE];
    size_t count = 0, kept = 0;
    char axes[ONNX_FILE_RANK + 1] = "";
    bool found, keep = onnx_int(n, "keepdims", 1) != 0, gone[ONNX_FILE_RANK] = {false};
    pst_status st = onnx_value_input(t, n, 0, false, &x);
    if (st == PST_OK)
        st = onnx_numbers(t, n, "axes", 1, dims, &count, &found);
    if (st == PST_OK && count == 0)
        return onnx_int(n, "noop_with_empty_axes", 0) ? onnx_identity(t, n, out)
                                                      : onnx_fail(t, PST_EUNSUPPORTED, "no axes; expected the mean over height and width of an image");
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        int64_t d = dims[i] + (dims[i] < 0 ? x->rank : 0);
        if (d < 0 || d >= x->rank)
            return onnx_fail(t, PST_ECORRUPT, "axis %" PRId64 " of %u dimensions", dims[i], x->rank);
        gone[d] = true;
    }
    for (uint32_t i = 0; st == PST_OK && i < x->rank; i++) {
        const char *a = x->axes[i];
        bool spatial = a[0] == 'H' || a[0] == 'W';
        if (a[0] && (a[1] || spatial != gone[i]))
            return onnx_fail(t, PST_EUNSUPPORTED, "expected the mean over height and width of an image");
        if (!gone[i] || keep)
            axes[kept++] = a[0] && !gone[i] ? a[0] : '-';
    }
    return st == PST_OK ? mean(t, x, out, axes) : st;
}

/* ---- Joins ---- */

/* The inputs of a node that joins up to `most` values, which become all images, or all vectors. */
static pst_status get_joined(struct onnx_translation *t, const struct onnx_file_node *n, size_t most, struct onnx_value **x, size_t *ours)
{
    bool images = false, vectors = false;
    if (n->ins < 1 || n->ins > most)
        return onnx_fail(t, PST_EUNSUPPORTED, "%zu inputs; expected up to %zu", n->ins, most);
    for (size_t i = 0; i < n->ins; i++) {
        pst_status st = onnx_value_input(t, n, i, false, &x[i]);
        if (st < 0)
            return st;
        ours[i] = x[i]->ours;
        bool vector = graph_shape(t->graph, ours[i])->rank == 1;
        vectors |= vector;
        images |= !vector;
    }
    for (size_t i = 0; images && vectors && i < n->ins; i++) {
        pst_status st = onnx_flatten(t, x[i], &ours[i]);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

static pst_status join(struct onnx_translation *t, const char *layer, size_t *ours, size_t count, size_t *made)
{
    void *config = onnx_config(t, layer);
    *made = ours[0];
    if (!config)
        return onnx_fail_memory(t);
    return count > 1 ? onnx_add(t, layer, config, NULL, ours, count, made) : PST_OK;
}

static pst_status add_values(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *x[LAYER_MAX_INPUTS];
    size_t ours[LAYER_MAX_INPUTS], made;
    pst_status st = get_joined(t, n, LAYER_MAX_INPUTS, x, ours);
    for (size_t i = 1; st == PST_OK && i < n->ins; i++)
        if (x[i]->rank != x[0]->rank || memcmp(x[i]->axes, x[0]->axes, sizeof(x[0]->axes)) != 0 || x[i]->image.h != x[0]->image.h ||
            x[i]->image.w != x[0]->image.w || x[i]->image.c != x[0]->image.c)
            return onnx_fail(t, PST_EUNSUPPORTED, "its inputs have different shapes, or orders of axes: %u×%u×%u and %u×%u×%u", x[0]->image.h,
                             x[0]->image.w, x[0]->image.c, x[i]->image.h, x[i]->image.w, x[i]->image.c);
    if (st == PST_OK)
        st = join(t, "add", ours, n->ins, &made);
    if (st == PST_OK)
        onnx_follow(out, x[0], made);
    return st;
}

static pst_status arithmetic(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *a = onnx_input(t, n, 0), *b = onnx_input(t, n, 1), *x;
    if (n->ins == 2 && a && b && (a->kind == ONNX_CONSTANT) != (b->kind == ONNX_CONSTANT)) {
        bool reversed = a->kind == ONNX_CONSTANT;
        pst_status st = onnx_value_input(t, n, reversed, false, &x);
        if (st < 0)
            return st;
        if (reversed && strcmp(n->op, "Div") == 0)
            return onnx_fail(t, PST_EUNSUPPORTED, "a constant divided by values");
        return affine(t, x, (reversed ? a : b)->constant, strcmp(n->op, "Sum") == 0 ? "Add" : n->op, reversed && strcmp(n->op, "Sub") == 0, out);
    }
    if (strcmp(n->op, "Add") == 0 || strcmp(n->op, "Sum") == 0)
        return add_values(t, n, out);
    return onnx_fail(t, PST_EUNSUPPORTED, "of two values; supported are a constant per channel, and x · Sigmoid(x)");
}

/* Inputs that an earlier concat has put together already are replaced by its result, as DenseNet's blocks need it: each layer of PyTorch's reads all
 * values before it, which in a chain is the last concat. Returns how many inputs are left. In integers they stay: the result of the earlier concat is
 * rounded to levels of its own. */
static size_t collapse(const struct onnx_translation *t, size_t *ours, size_t count)
{
    while (!t->quantised && count > 1 && ours[0] < t->concat_capacity && t->concats[ours[0]]) {
        const struct graph_node *n = &t->graph->nodes[t->concats[ours[0]] - 1];
        if (n->inputs > count || memcmp(n->input, ours, n->inputs * sizeof(*ours)) != 0)
            break;
        count -= n->inputs - 1;
        ours[0] = t->concats[ours[0]]; /* the value after node i is i + 1 */
        memmove(ours + 1, ours + n->inputs, (count - 1) * sizeof(*ours));
    }
    return count;
}

static pst_status note_concat(struct onnx_translation *t, size_t first, size_t value)
{
    size_t before = t->concat_capacity;
    if (mem_grow((void **)&t->concats, &t->concat_capacity, first + 1, sizeof(*t->concats)) < 0)
        return onnx_fail_memory(t);
    memset(t->concats + before, 0, (t->concat_capacity - before) * sizeof(*t->concats));
    t->concats[first] = value;
    return PST_OK;
}

static pst_status concat(struct onnx_translation *t, const struct onnx_file_node *n, struct onnx_value *out)
{
    struct onnx_value *first = onnx_input(t, n, 0), *x[MOST_CONCAT];
    size_t ours[MOST_CONCAT], made;
    if (first && first->kind != ONNX_VALUE)
        return onnx_concat_shapes(t, n, out);
    pst_status st = get_joined(t, n, MOST_CONCAT, x, ours);
    if (st < 0)
        return st;
    int64_t axis = onnx_int(n, "axis", 1);
    axis += axis < 0 ? x[0]->rank : 0;
    char axes[ONNX_FILE_RANK + 1] = "";
    for (size_t i = 0; i < n->ins; i++) {
        const struct onnx_value *v = x[i];
        bool plain = axis > 0 && axis < v->rank && v->rank == x[0]->rank && graph_shape(t->graph, ours[i])->c == v->image.c;
        for (uint32_t k = 0; plain && k < v->rank; k++) {
            char letter = k == axis ? 'C' : v->axes[k][0] ? v->axes[k][0] : '-';
            plain = !(v->axes[k][0] && v->axes[k][1]) && (k == axis ? (v->image.c == 1 ? !v->axes[k][0] : v->axes[k][0] == 'C') : letter != 'C');
            plain = plain && (i == 0 || axes[k] == letter);
            axes[k] = letter;
        }
        if (!plain)
            return onnx_fail(t, PST_EUNSUPPORTED, "axis %" PRId64 "; expected channels of values in the same order", axis);
    }
    size_t count = collapse(t, ours, n->ins);
    if (count > LAYER_MAX_INPUTS)
        return onnx_fail(t, PST_EUNSUPPORTED, "%zu inputs; expected up to %d", count, LAYER_MAX_INPUTS);
    st = join(t, "concat", ours, count, &made);
    if (st == PST_OK && count > 1)
        st = note_concat(t, ours[0], made);
    if (st == PST_OK)
        onnx_set(t, out, made, axes);
    return st;
}

/* ---- The table ---- */

static const struct {
    const char *op;
    onnx_operator *translate;
} operators[] = {
    {"Add", arithmetic},         {"AveragePool", onnx_averagepool}, {"BatchNormalization", batchnorm},
    {"Cast", onnx_cast},         {"Clip", clip},                    {"Concat", concat},
    {"Constant", onnx_constant_node}, {"ConstantOfShape", onnx_constant_of_shape}, {"Conv", onnx_conv}, {"DequantizeLinear", onnx_dequantize}, {"Div", arithmetic},
    {"Dropout", onnx_identity},  {"Flatten", onnx_flatten_node},    {"Gather", onnx_gather},
    {"Gelu", gelu},              {"Gemm", onnx_gemm},               {"GlobalAveragePool", globalaveragepool},
    {"Identity", onnx_identity}, {"LayerNormalization", layernorm}, {"LeakyRelu", simple},
    {"MatMul", onnx_matmul},     {"MaxPool", onnx_maxpool},         {"Mul", arithmetic},
    {"Pad", onnx_pad},           {"QuantizeLinear", onnx_quantize}, {"ReduceMean", reducemean},        {"Relu", simple},
    {"Reshape", onnx_reshape},   {"Shape", onnx_shape_node},        {"Sigmoid", simple},
    {"Slice", onnx_slice},       {"Softmax", softmax},              {"Squeeze", onnx_squeeze},
    {"Sub", arithmetic},         {"Sum", arithmetic},               {"Swish", silu},
    {"Tanh", simple},            {"Transpose", onnx_transpose},     {"Unsqueeze", onnx_unsqueeze},
};

pst_status onnx_translate_node(struct onnx_translation *t, size_t node)
{
    const struct onnx_file_node *n = &t->file->nodes[node];
    const char *op = t->states[node].op ? t->states[node].op : n->op;
    struct onnx_value *out = n->outs ? onnx_find(t, n->out[0]) : NULL;
    t->node = n;
    if (!out)
        return onnx_fail(t, PST_ECORRUPT, "it has no result");
    if (out->kind != ONNX_UNKNOWN || t->states[node].absorbed)
        return PST_OK; /* a layer before it took it along */
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (strcmp(operators[i].op, op) == 0)
            return operators[i].translate(t, n, out);
    return onnx_fail(t, PST_EUNSUPPORTED, "the operator is not supported; docs/onnx.md lists those that are");
}
