/* float_node.c: see float_node.h. */
#include "quant/float_node.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/block_conv.h"
#include "model/layer_conv.h"

#include <math.h>
#include <string.h>

struct float_node {
    const struct graph_node *node;
    const float *params[LAYER_MAX_PARAMS];
    const struct conv_kernel *kernel; /* NULL: the layer's own reference */
    struct conv_shape shape;
    struct window rows, columns;
    float *packed;
    float low, high;
};

/* Finds a convolution kernel for the node. A dense layer is a 1 × 1 convolution of one pixel. */
static bool find_kernel(struct float_node *f, unsigned features)
{
    const struct graph_node *n = f->node;
    bool dense = strcmp(n->layer->name, "dense") == 0;
    f->shape = (struct conv_shape){.size = 1, .stride = 1, .ci = n->in[0].c, .co = n->out.c};
    if (!dense && (!block_conv_shape(n, &f->shape) || conv_windows(n->config, n->in, &f->rows, &f->columns, NULL) < 0))
        return false;
    f->kernel = conv_kernel_find(&f->shape, features);
    return f->kernel;
}

pst_status float_node_create(struct float_node **ret, const struct graph_node *n, const float *const *params, unsigned features,
                             float low, float high, pst_error *reterr)
{
    struct float_node *f = mem_zalloc(sizeof(*f));
    if (!f)
        return fail_memory(reterr, "preparing %s", n->name);
    f->node = n;
    f->low = low;
    f->high = high;
    for (size_t i = 0; i < n->params; i++)
        f->params[i] = params[i];
    if (find_kernel(f, features)) {
        f->packed = mem_aligned(f->kernel->weights_bytes(&f->shape));
        if (!f->packed) {
            float_node_destroy(f);
            return fail_memory(reterr, "preparing %s", n->name);
        }
        f->kernel->weights(&f->shape, params[0], f->packed);
    }
    *ret = f;
    return PST_OK;
}

struct float_node *float_node_destroy(struct float_node *f)
{
    if (f)
        mem_free(f->packed);
    mem_free(f);
    return NULL;
}

size_t float_node_bytes(const struct float_node *f)
{
    return f->packed ? f->kernel->weights_bytes(&f->shape) : 0;
}

size_t float_node_scratch(const struct float_node *f, size_t samples)
{
    const struct graph_node *n = f->node;
    size_t bytes = f->kernel                ? f->kernel->scratch_bytes(&f->shape)
                   : n->layer->saved_bytes ? n->layer->saved_bytes(n->config, n->in, samples, sizeof(float))
                                           : 0;
    return (bytes + 127) / 64 * 64;
}

static struct conv_strides strides_of(size_t w, size_t channels, size_t values)
{
    return (struct conv_strides){.image = values, .row = w * channels, .pixel = channels};
}

static void run_conv(const struct float_node *f, size_t samples, const float *in, float *out, void *scratch)
{
    const struct graph_node *n = f->node;
    struct conv_job j = {.shape = f->shape,
                         .images = samples,
                         .h = n->out.h,
                         .w = n->out.w,
                         .in = {.data = in,
                                .strides = strides_of(n->in[0].w, n->in[0].c, shape_values(n->in)),
                                .h = n->in[0].h,
                                .w = n->in[0].w,
                                .top = f->rows.before,
                                .left = f->columns.before},
                         .weights = f->packed,
                         .epilogue = CONV_CLAMP,
                         .number = NUMBER_F32,
                         .out = out,
                         .out_strides = strides_of(n->out.w, n->out.c, shape_values(&n->out)),
                         .bias = n->params > 1 ? f->params[1] : NULL,
                         .low = f->low,
                         .high = f->high};
    f->kernel->conv(&j, scratch);
}

void float_node_run(const struct float_node *f, size_t samples, const float *const *in, float *out, void *scratch)
{
    const struct graph_node *n = f->node;
    if (f->kernel) {
        run_conv(f, samples, in[0], out, scratch);
        return;
    }
    struct layer_call call = {.config = n->config, .n = samples, .inputs = n->inputs, .in_shape = n->in, .out_shape = n->out, .out = out, .saved = scratch};
    for (size_t k = 0; k < n->inputs; k++)
        call.in[k] = in[k];
    for (size_t k = 0; k < n->params; k++)
        call.param[k] = (void *)(uintptr_t)f->params[k];
    n->layer->forward(&call);
    for (size_t i = 0, count = samples * shape_values(&n->out); isfinite(f->low) && i < count; i++)
        out[i] = out[i] < f->low ? f->low : out[i] > f->high ? f->high : out[i];
}
