/* layer_join.c: layers with several inputs: `add`, in which residual ends, and `concat`. Their inputs are the results of the
 * chains in parentheses. */
#include "model/graph.h"

#include "model/real.h"

#include <stddef.h>
#include <string.h>

static const pst_param params[] = {
    {"name", PST_PARAM_STRING, offsetof(struct layer_config, name), "", 0, 0, NULL, "Name of the layer."},
    {0},
};

static pst_status add_shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    (void)config;
    for (size_t i = 1; i < inputs; i++)
        if (!shape_equals(&in[0], &in[i]))
            return pst_fail(reterr, PST_ETYPE, "the branches differ: %u×%u×%u and %u×%u×%u (height × width × channels)", in[0].h,
                            in[0].w, in[0].c, in[i].h, in[i].w, in[i].c);
    *ret = in[0];
    return PST_OK;
}

static void add_forward(const struct layer_call *call)
{
    size_t values = call->n * shape_values(&call->out_shape);
    real *restrict out = call->out;
    memcpy(out, call->in[0], sizeof(real) * values);
    for (size_t k = 1; k < call->inputs; k++) {
        const real *x = call->in[k];
        for (size_t i = 0; i < values; i++)
            out[i] += x[i];
    }
}

static void add_backward(const struct layer_call *call)
{
    for (size_t k = 0; k < call->inputs; k++)
        if (call->din[k])
            memcpy(call->din[k], call->dout, sizeof(real) * call->n * shape_values(&call->out_shape));
}

static pst_status concat_shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    uint64_t channels = in[0].c;
    (void)config;
    for (size_t i = 1; i < inputs; i++) {
        if (in[0].rank != in[i].rank || in[0].h != in[i].h || in[0].w != in[i].w)
            return pst_fail(reterr, PST_ETYPE, "the branches differ: %u×%u and %u×%u (height × width)", in[0].h, in[0].w, in[i].h,
                            in[i].w);
        channels += in[i].c;
    }
    if (channels > UINT32_MAX)
        return pst_fail(reterr, PST_ELIMIT, "the branches have more than 2^32 channels together");
    *ret = in[0];
    ret->c = (uint32_t)channels;
    return PST_OK;
}

/* Copies between `out`-shaped rows and the inputs' rows. */
static void concat_rows(const struct layer_call *call, bool gather)
{
    size_t rows = call->n * (size_t)call->out_shape.h * call->out_shape.w, channels = call->out_shape.c, at = 0;
    for (size_t k = 0; k < call->inputs; at += call->in_shape[k].c, k++) {
        size_t width = call->in_shape[k].c;
        if (!gather && !call->din[k])
            continue;
        for (size_t r = 0; r < rows; r++)
            if (gather)
                memcpy((real *)call->out + r * channels + at, (const real *)call->in[k] + r * width, sizeof(real) * width);
            else
                memcpy((real *)call->din[k] + r * width, (const real *)call->dout + r * channels + at, sizeof(real) * width);
    }
}

static void concat_forward(const struct layer_call *call)
{
    concat_rows(call, true);
}

static void concat_backward(const struct layer_call *call)
{
    concat_rows(call, false);
}

static pst_status build(struct graph_builder *b, const struct lang_node *n, size_t in, size_t *ret, pst_error *reterr)
{
    size_t ends[LAYER_MAX_INPUTS];
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < n->child_count; i++)
        st = graph_add_chain(b, &n->children[i], in, &ends[i], reterr);
    return st < 0 ? st : graph_add(b, n->class.owner, n->config, NULL, ends, n->child_count, ret, reterr);
}

const struct layer_class REAL(layer_add) = {
    .name = "add",
    .doc = "The sum of the results of several chains. One of them may be empty: the input itself.",
    .example = "conv 8 3 pad=same | add( conv 8 3 pad=same )( conv 8 1 ) | globalavgpool | dense 10",
    .params = params,
    .config_size = sizeof(struct layer_config),
    .min_children = 2,
    .max_children = LAYER_MAX_INPUTS,
    .empty_child = true,
    .build = build,
    .shape = add_shape,
    .forward = add_forward,
    .backward = add_backward,
};

const struct layer_class REAL(layer_concat) = {
    .name = "concat",
    .doc = "The results of several chains side by side along the channels. One of them may be empty: the input itself, as in DenseNet.",
    .example = "conv 8 1 | concat( )( conv 8 1 )( conv 8 3 pad=same ) | globalavgpool | dense 10",
    .params = params,
    .config_size = sizeof(struct layer_config),
    .min_children = 2,
    .max_children = LAYER_MAX_INPUTS,
    .empty_child = true,
    .build = build,
    .shape = concat_shape,
    .forward = concat_forward,
    .backward = concat_backward,
};
