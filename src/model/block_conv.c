/* block_conv.c: convolution, dense or depthwise, with what follows it: bias, batch normalisation, clamping activation, 2 × 2 maximum.
 *
 * Forward, per lane: the input is read as it is, or, where it is lazy, computed into a strip of a few images; the kernel's
 * epilogue adds the bias, clamps and pools, or sums for batch normalisation, whose result stays lazy where every reader can
 * take it. Backward, per lane: the gradient of the convolution's result comes into a strip (un-pooled, or through batch
 * normalisation), from which data gradient and weight gradient are computed. The data gradient's epilogue masks by the
 * producer's activation and takes the sums that the producer's batch normalisation needs. */
#include "model/block_conv.h"

#include "base/error.h"
#include "base/memory.h"
#include "model/kernels/elem.h"
#include "model/layer_conv.h"
#include "model/layer_norm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define STRIP_BYTES ((size_t)192 << 10) /* images are loaded together up to this size: the second-level cache holds it */

enum { GAMMA, BETA, MOVING_MEAN, MOVING_VARIANCE };

/* ---- Which nodes ---- */

static bool is_layer(const struct graph_node *n, const char *name)
{
    return strcmp(n->layer->name, name) == 0;
}

/* Node `next` reads the result of the node before it, and nothing else does. */
static bool follows(const struct step_view *v, size_t next)
{
    return next < v->nodes && v->graph->nodes[next].inputs == 1 && v->graph->nodes[next].input[0] == next && v->consumers[next] == 1;
}

static bool is_clamp(const struct graph_node *n, float *low, float *high)
{
    *low = 0;
    *high = is_layer(n, "relu6") ? 6 : INFINITY;
    return is_layer(n, "relu") || is_layer(n, "relu6");
}

static bool is_pool_2(const struct graph_node *n)
{
    const struct pool_config *c = n->config;
    return is_layer(n, "maxpool") && c->size == 2 && (c->stride == 2 || c->stride == 0) &&
           (strcmp(c->pad, "valid") == 0 || (strcmp(c->pad, "same") == 0 && n->in[0].h % 2 + n->in[0].w % 2 == 0)) && n->in[0].h > 1 && n->in[0].w > 1;
}

static bool conv_shape_of(const struct graph_node *n, struct conv_shape *ret)
{
    const struct conv_config *c = n->config;
    bool depthwise = is_layer(n, "dwconv");
    if ((!depthwise && !is_layer(n, "conv")) || (!depthwise && c->groups != 1) || c->dilation != 1)
        return false;
    *ret = (struct conv_shape){.size = c->size, .stride = c->stride, .ci = n->in[0].c, .co = n->out.c, .depthwise = depthwise};
    return true;
}

struct conv_group {
    struct conv_shape shape;
    const struct conv_kernel *kernel;
    size_t nodes;
    bool norm, pool;
    float low, high;
};

static bool find_group(const struct step_view *v, size_t node, struct conv_group *ret)
{
    struct conv_group g = {.nodes = 1, .low = -INFINITY, .high = INFINITY};
    if (!conv_shape_of(&v->graph->nodes[node], &g.shape))
        return false;
    g.kernel = conv_kernel_find(&g.shape, v->features);
    if (!g.kernel)
        return false;
    size_t next = node + 1;
    if (v->graph->nodes[node].params == 1 && follows(v, next) && is_layer(&v->graph->nodes[next], "batchnorm")) /* no bias */
        g.norm = true, next++;
    if (follows(v, next) && is_clamp(&v->graph->nodes[next], &g.low, &g.high))
        next++;
    else
        g.low = -INFINITY, g.high = INFINITY;
    if (!g.norm && follows(v, next) && is_pool_2(&v->graph->nodes[next]))
        g.pool = true, next++;
    g.nodes = next - node;
    *ret = g;
    return true;
}

static size_t match(const struct step_view *v, size_t node, char *why, size_t size)
{
    struct conv_group g;
    if (!find_group(v, node, &g))
        return 0;
    snprintf(why, size, "%s%s%s%s", g.kernel->name, g.norm ? ", batch norm summed on the way" : "",
             g.high < INFINITY || g.low > -INFINITY ? ", clamped" : "", g.pool ? ", pooled" : "");
    return g.nodes;
}

bool block_conv_reads(const struct step_view *v, size_t node)
{
    struct conv_group g;
    return find_group(v, node, &g);
}

/* ---- State ---- */

struct conv_state {
    struct conv_group group;
    const struct elem_kernels *elem;
    const struct graph_node *node;
    size_t in, out; /* values */
    struct window rows, columns;
    size_t in_values, z_values, out_values; /* per sample */
    size_t strip_images;
    size_t strip_rows;  /* of the result's gradient: all, or, where one image is too large for a strip, an even number */
    size_t bias, gamma; /* parameters; SIZE_MAX: none */
    double eps, momentum;
    bool stores_y;      /* batch norm whose result somebody reads as it is: z is saved beside it */
    bool needs_data;    /* the input's gradient */
    bool serves;        /* the input's producer takes mask and sums from this block's epilogue */
    bool served;        /* a reader masks the gradient and takes the sums */
    struct block *asks; /* the dense block that computes rows of the result's gradient on demand; NULL: it is stored */
    size_t ask_rows, ask_images; /* pooled rows and images at a time */
    float *packed, *packed_back;
    float *scale, *shift, *centre;      /* batch norm, forward; what sums are taken around */
    float *by_gradient, *by_z, *offset; /* batch norm, backward: dz = by_gradient · g + by_z · z + offset */
    double *sums;                       /* per lane: 2 · co forward, and 2 · co of the result's gradient */
    size_t sum_bytes;                   /* of the weight gradient, per lane */
};

/* z of the lane's images: the value itself where it is lazy, otherwise what was saved beside it. */
static float *z_of(struct step *s, struct block *b)
{
    const struct conv_state *c = b->state;
    return c->stores_y ? step_saved(s, b) : step_value(s, c->out);
}

/* The result from sample `first` on, as it is read. */
static struct elem_read read_of(struct step *s, struct block *b, size_t first)
{
    const struct conv_state *c = b->state;
    struct elem_read r = {.low = c->group.low, .high = c->group.high};
    r.z = (c->group.norm ? z_of(s, b) : (float *)step_value(s, c->out)) + first * c->out_values;
    r.scale = c->group.norm ? c->scale : NULL;
    r.shift = c->group.norm ? c->shift : NULL;
    return r;
}

static bool skips_unpooling(const struct conv_state *c)
{
    const struct conv_kernel *k = c->group.kernel;
    return c->group.pool && !c->needs_data && k->takes_pooled && k->takes_pooled(&c->group.shape);
}

/* For a block that is the only reader of a convolution's result. */
struct conv_service block_conv_serve(struct step *s, struct block *b, unsigned lane)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co;
    struct conv_service r = {.low = c->group.low, .high = c->group.high};
    if (c->group.norm) {
        r.z = z_of(s, b);
        r.centre = c->centre;
        r.sum = c->sums + 4 * co * lane + 2 * co;
        r.sum2 = r.sum + co;
    }
    return r;
}

bool block_conv_offer(const struct step_view *v, size_t value)
{
    struct block *b = v->forms[value].producer;
    struct conv_state *c = b && b->class == &block_conv ? b->state : NULL;
    if (!c || v->consumers[value] != 1 || c->group.pool)
        return false;
    c->served = true;
    return true;
}

bool block_conv_asks(const struct step_view *v, size_t value, struct block *dense)
{
    struct block *b = v->forms[value].producer;
    struct conv_state *c = b && b->class == &block_conv ? b->state : NULL;
    if (!c || v->consumers[value] != 1 || !skips_unpooling(c))
        return false;
    c->asks = dense;
    return true;
}

static void free_state(struct block *b)
{
    struct conv_state *c = b->state;
    if (!c)
        return;
    mem_free(c->packed);
    mem_free(c->scale);
    mem_free(c->sums);
    mem_free(c);
}

static struct conv_strides strides_of(size_t w, size_t channels, size_t values)
{
    return (struct conv_strides){.image = values, .row = w * channels, .pixel = channels};
}

static size_t round_up(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* ---- Strips ---- */

/* Of the strip of inputs; the input of the model is read where it lies. */
static size_t input_bytes(const struct conv_state *c)
{
    return c->in == 0 ? 0 : round_up(c->strip_images * c->in_values * sizeof(float));
}

/* The input of `count` images from `first`: in place, or in the strip. */
static struct conv_source load_input(struct step *s, const struct conv_state *c, size_t first, size_t count, float *strip)
{
    const struct value_form *f = step_form(s, c->in);
    const float *in = (const float *)step_value(s, c->in) + first * c->in_values;
    if (f->lazy)
        c->elem->read(&(struct elem_read){.z = in, .scale = f->scale, .shift = f->shift, .low = f->low, .high = f->high},
                      count * c->in_values / c->node->in[0].c, c->node->in[0].c, strip);
    return (struct conv_source){.data = f->lazy ? strip : in,
                                .strides = strides_of(c->node->in[0].w, c->node->in[0].c, c->in_values),
                                .h = c->node->in[0].h,
                                .w = c->node->in[0].w,
                                .top = c->rows.before,
                                .left = c->columns.before};
}

/* ---- Forward ---- */

/* Weights as the kernels take them, for both directions. */
static void prepare(struct step *s, struct block *b)
{
    struct conv_state *c = b->state;
    const float *kernel = step_param(s, c->node->first_param);
    c->group.kernel->weights(&c->group.shape, kernel, c->packed);
    if (c->needs_data && step_is_training(s))
        c->group.kernel->weights_back(&c->group.shape, kernel, c->packed_back);
    if (c->group.norm) {
        memcpy(c->centre, step_param(s, c->gamma + MOVING_MEAN), c->group.shape.co * sizeof(float));
        memset(c->sums, 0, 4 * c->group.shape.co * step_lanes(s) * sizeof(double));
    }
}

static struct conv_job forward_job(struct step *s, struct block *b, unsigned lane)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co;
    struct conv_job j = {.shape = c->group.shape,
                         .h = c->rows.out,
                         .w = c->columns.out,
                         .weights = c->packed,
                         .bias = c->bias == SIZE_MAX ? NULL : step_param(s, c->bias),
                         .low = c->group.low,
                         .high = c->group.high,
                         .epilogue = c->group.norm ? CONV_RAW : c->group.pool ? CONV_POOL : CONV_CLAMP,
                         .out_strides = strides_of(c->group.pool ? c->columns.out / 2 : c->columns.out, co, c->out_values),
                         .argmax_strides = strides_of(c->columns.out / 2, co, c->out_values)};
    if (c->group.norm && step_is_training(s)) {
        j.shift = c->centre;
        j.sum = c->sums + 4 * co * lane;
        j.sum2 = j.sum + co;
    }
    return j;
}

static void forward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    struct conv_job j = forward_job(s, b, lane);
    float *strip = step_work(s, b, false, lane);
    char *scratch = (char *)strip + input_bytes(c);
    (void)lanes;
    for (size_t at = 0; at < r.count; at += c->strip_images) {
        size_t first = r.first + at;
        j.images = r.count - at < c->strip_images ? r.count - at : c->strip_images;
        j.in = load_input(s, c, first, j.images, strip);
        j.out = (c->group.norm ? z_of(s, b) : (float *)step_value(s, c->out)) + first * c->out_values;
        j.argmax = c->group.pool ? (uint8_t *)step_saved(s, b) + first * c->out_values : NULL;
        c->group.kernel->conv(&j, scratch);
    }
}

/* Statistics of the batch from the sums of the lanes, and from them how z is read. */
static void finish_norm(struct step *s, struct block *b, unsigned i, unsigned count)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co, rows = step_samples(s) * c->rows.out * c->columns.out;
    const float *gamma = step_param(s, c->gamma), *beta = step_param(s, c->gamma + BETA);
    float *moving_mean = step_param(s, c->gamma + MOVING_MEAN), *moving_variance = step_param(s, c->gamma + MOVING_VARIANCE);
    for (size_t k = co * i / count; k < co * (i + 1) / count; k++) {
        double mean = moving_mean[k], variance = moving_variance[k];
        if (step_is_training(s)) {
            double sum = 0, sum2 = 0;
            for (unsigned lane = 0; lane < step_lanes(s); lane++) {
                sum += c->sums[4 * co * lane + k];
                sum2 += c->sums[4 * co * lane + co + k];
            }
            sum /= (double)rows;
            mean = c->centre[k] + sum;
            variance = sum2 / (double)rows - sum * sum;
            variance = variance > 0 ? variance : 0;
            moving_mean[k] = (float)(c->momentum * moving_mean[k] + (1 - c->momentum) * mean);
            moving_variance[k] = (float)(c->momentum * moving_variance[k] + (1 - c->momentum) * variance);
        }
        double deviation = 1 / sqrt(variance + c->eps);
        c->scale[k] = (float)(gamma[k] * deviation);
        c->shift[k] = (float)(beta[k] - gamma[k] * deviation * mean);
        c->by_gradient[k] = (float)deviation; /* kept for backward, which replaces it */
        c->centre[k] = (float)mean;
    }
}

static void store_y(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    struct elem_read read = read_of(s, b, r.first);
    (void)lanes;
    c->elem->read(&read, r.count * c->out_values / c->group.shape.co, c->group.shape.co,
                  (float *)step_value(s, c->out) + r.first * c->out_values);
}

/* ---- Backward ---- */

/* Where no reader has done it, and no argmax says what passes: masks the gradient of the result, in place, and takes batch norm's
 * sums. */
static void mask_gradient(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    (void)lanes;
    struct conv_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    size_t co = c->group.shape.co;
    float *g = (float *)step_gradient(s, c->out) + r.first * c->out_values;
    struct elem_service to = {.y = read_of(s, b, r.first)};
    if (c->group.norm) {
        to.z = z_of(s, b) + r.first * c->out_values;
        to.centre = c->centre;
        to.sum = c->sums + 4 * co * lane + 2 * co;
        to.sum2 = to.sum + co;
    }
    c->elem->gradient(g, NULL, 0, 0, &to, false, r.count * c->out_values / co, co, g);
}

/* Sums Σg and Σg·(z − mean) to dz = gamma/σ · (g − mean(g) − h · mean(g·h)), h = (z − mean)/σ, as a function of g and z. */
static void finish_norm_back(struct step *s, struct block *b, unsigned i, unsigned count)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co, rows = step_samples(s) * c->rows.out * c->columns.out;
    const float *gamma = step_param(s, c->gamma);
    float *dgamma = step_param_gradient(s, c->gamma), *dbeta = step_param_gradient(s, c->gamma + BETA);
    float *dmean = step_param_gradient(s, c->gamma + MOVING_MEAN), *dvariance = step_param_gradient(s, c->gamma + MOVING_VARIANCE);
    for (size_t k = co * i / count; k < co * (i + 1) / count; k++) {
        dmean[k] = dvariance[k] = 0;
        double sum = 0, sum2 = 0, deviation = c->by_gradient[k], mean = c->centre[k];
        for (unsigned lane = 0; lane < step_lanes(s); lane++) {
            sum += c->sums[4 * co * lane + 2 * co + k];
            sum2 += c->sums[4 * co * lane + 3 * co + k];
        }
        double product = sum2 * deviation; /* Σ g·h */
        dbeta[k] = (float)sum;
        dgamma[k] = (float)product;
        double a = gamma[k] * deviation, by_z = -a * deviation * product / (double)rows;
        c->by_gradient[k] = (float)a;
        c->by_z[k] = (float)by_z;
        c->offset[k] = (float)(-a * sum / (double)rows - by_z * mean);
    }
}

/* Rows [row, row + rows) of the gradient of the convolution's result, in place or in the strip. Several images: all rows. */
static const float *load_gradient(struct step *s, struct block *b, size_t first, size_t count, size_t row, size_t rows, float *strip)
{
    const struct conv_state *c = b->state;
    size_t co = c->group.shape.co, pixels = count * rows * c->columns.out, at = first * c->out_values + row * c->columns.out * co;
    const float *g = step_gradient(s, c->out);
    if (c->group.pool) {
        const uint8_t *argmax = step_saved(s, b);
        at = first * c->out_values + row / 2 * (c->columns.out / 2) * co;
        for (size_t n = 0; n < count; n++, at += c->out_values)
            c->elem->unpool(g + at, argmax + at, rows, c->columns.out, co, strip + n * c->z_values);
        return strip;
    }
    if (!c->group.norm)
        return g + at;
    c->elem->norm_gradient(g + at, z_of(s, b) + at, c->by_gradient, c->by_z, c->offset, pixels, co, strip);
    return strip;
}

struct back_memory { /* of a lane */
    float *weight_sum, *bias_sum, *input_strip, *gradient_strip;
    void *scratch;
};

static size_t gradient_floats(const struct conv_state *c)
{
    if (c->asks)
        return c->ask_images * c->ask_rows * (c->columns.out / 2) * c->group.shape.co;
    return skips_unpooling(c) ? 0 : c->strip_images * c->strip_rows * c->columns.out * c->group.shape.co;
}

static struct back_memory back_memory(struct step *s, struct block *b, unsigned lane)
{
    const struct conv_state *c = b->state;
    char *at = step_work(s, b, true, lane);
    struct back_memory m = {.weight_sum = (float *)at};
    m.bias_sum = (float *)(at += round_up(c->sum_bytes));
    m.input_strip = (float *)(at += round_up(c->group.shape.co * sizeof(float)));
    m.gradient_strip = (float *)(at += input_bytes(c));
    m.scratch = at + round_up(gradient_floats(c) * sizeof(float));
    return m;
}

static struct conv_job data_job(struct step *s, const struct conv_state *c, unsigned lane)
{
    struct conv_service to = {.low = -INFINITY, .high = INFINITY};
    if (c->serves)
        to = block_conv_serve(s, step_form(s, c->in)->producer, lane);
    return (struct conv_job){.shape = c->group.shape,
                         .h = c->node->in[0].h,
                         .w = c->node->in[0].w,
                         .weights = c->packed_back,
                         .epilogue = CONV_GRADIENT,
                         .low = to.low,
                         .high = to.high,
                         .shift = to.centre,
                         .sum = to.sum,
                         .sum2 = to.sum2,
                         .z = {.data = to.z},
                         .out_strides = strides_of(c->node->in[0].w, c->group.shape.ci, c->in_values)};
}

/* The input from where the windows of output row `row` begin. */
static struct conv_source source_from(const struct conv_source *in, size_t begin)
{
    struct conv_source r = *in;
    size_t skipped = begin > in->top ? begin - in->top : 0;
    skipped = skipped < in->h ? skipped : in->h;
    r.top = begin < in->top ? in->top - begin : 0;
    r.data += skipped * in->strides.row;
    r.h -= skipped;
    return r;
}

/* Both gradients from rows [row, row + rows) of the result's; `in` and `data` are those of whole images. */
static void backward_rows(struct step *s, struct block *b, const struct back_memory *m, const struct conv_source *in, struct conv_job data,
                          size_t first, size_t row, size_t rows)
{
    const struct conv_state *c = b->state;
    size_t co = c->group.shape.co, skipped = row * data.out_strides.row;
    struct conv_extra dz = {.data = load_gradient(s, b, first, data.images, row, rows, m->gradient_strip),
                            .strides = strides_of(c->columns.out, co, c->z_values)};
    struct conv_source from = source_from(in, row * c->group.shape.stride);
    if (c->bias != SIZE_MAX)
        c->elem->sum(dz.data, data.images * rows * c->columns.out, co, m->bias_sum);
    c->group.kernel->weight_gradient(&(struct conv_weight_job){.shape = c->group.shape,
                                                               .images = data.images,
                                                               .h = rows,
                                                               .w = c->columns.out,
                                                               .in = from,
                                                               .gradient = dz,
                                                               .sum = m->weight_sum},
                                     m->scratch);
    if (!c->needs_data)
        return;
    data.h = rows < c->rows.out ? rows : data.h;
    data.in = (struct conv_source){.data = dz.data, .strides = dz.strides, .h = rows, .w = c->columns.out, .top = c->rows.before,
                                   .left = c->columns.before};
    data.out += skipped;
    data.add.data = data.add.data ? data.add.data + skipped : NULL;
    data.mask.data = data.mask.data ? data.mask.data + skipped : NULL;
    data.z.data = data.z.data ? data.z.data + skipped : NULL;
    c->group.kernel->data(&data, m->scratch);
}

/* Weight and bias gradients of a pooled first layer, whose gradient is never un-pooled. */
static struct conv_pooled_job pooled_job(struct step *s, struct block *b, const struct back_memory *m)
{
    struct conv_state *c = b->state;
    struct conv_strides pooled = strides_of(c->columns.out / 2, c->group.shape.co, c->out_values);
    return (struct conv_pooled_job){.shape = c->group.shape,
                                    .h = c->rows.out,
                                    .w = c->columns.out,
                                    .gradient = {step_gradient(s, c->out), pooled},
                                    .argmax = step_saved(s, b),
                                    .argmax_strides = pooled,
                                    .sum = m->weight_sum,
                                    .bias_sum = m->bias_sum};
}

static void backward_pooled(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    struct back_memory m = back_memory(s, b, lane);
    struct conv_pooled_job j = pooled_job(s, b, &m);
    (void)lanes;
    memset(m.weight_sum, 0, c->sum_bytes);
    memset(m.bias_sum, 0, c->group.shape.co * sizeof(float));
    j.images = r.count;
    j.in = load_input(s, c, r.first, r.count, NULL);
    j.gradient.data += r.first * c->out_values;
    j.argmax += r.first * c->out_values;
    c->group.kernel->pooled_weight_gradient(&j, m.scratch);
}

/* The same where the reader is a dense layer: rows of its data gradient are computed here, for some images at a time, and never
 * leave the second-level cache. */
static void backward_asking(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    struct back_memory m = back_memory(s, b, lane);
    struct conv_pooled_job whole = pooled_job(s, b, &m);
    size_t row = c->columns.out / 2 * c->group.shape.co;
    (void)lanes;
    memset(m.weight_sum, 0, c->sum_bytes);
    memset(m.bias_sum, 0, c->group.shape.co * sizeof(float));
    for (size_t y = 0; y < c->rows.out / 2; y += c->ask_rows)
        for (size_t at = 0; at < r.count; at += c->ask_images) {
            struct conv_pooled_job j = whole;
            size_t rows = c->rows.out / 2 - y < c->ask_rows ? c->rows.out / 2 - y : c->ask_rows;
            struct conv_source in = load_input(s, c, r.first + at, 0, NULL);
            j.images = r.count - at < c->ask_images ? r.count - at : c->ask_images;
            block_dense_fill(s, c->asks, r.first + at, j.images, y * row, rows * row, m.gradient_strip, m.scratch);
            j.h = 2 * rows;
            j.in = source_from(&in, 2 * y);
            j.gradient = (struct conv_extra){m.gradient_strip, strides_of(c->columns.out / 2, c->group.shape.co, rows * row)};
            j.argmax += (r.first + at) * c->out_values + y * row;
            c->group.kernel->pooled_weight_gradient(&j, m.scratch);
        }
}

static void backward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = step_lane(s, lane);
    struct back_memory m = back_memory(s, b, lane);
    struct conv_job data = data_job(s, c, lane);
    const float *z = data.z.data;
    bool adds = c->needs_data && step_gradient_adds(s, b, c->in);
    (void)lanes;
    memset(m.weight_sum, 0, c->sum_bytes);
    memset(m.bias_sum, 0, c->group.shape.co * sizeof(float));
    for (size_t at = 0; at < r.count; at += c->strip_images) {
        size_t first = r.first + at;
        data.images = r.count - at < c->strip_images ? r.count - at : c->strip_images;
        struct conv_source in = load_input(s, c, first, data.images, m.input_strip);
        if (c->needs_data) {
            data.out = (float *)step_gradient(s, c->in) + first * c->in_values;
            data.add = adds ? (struct conv_extra){.data = data.out, .strides = data.out_strides} : (struct conv_extra){0};
            data.mask = c->serves ? (struct conv_extra){.data = in.data, .strides = in.strides} : (struct conv_extra){0};
            data.z = (struct conv_extra){.data = z ? z + first * c->in_values : NULL, .strides = data.out_strides};
        }
        for (size_t row = 0; row < c->rows.out; row += c->strip_rows)
            backward_rows(s, b, &m, &in, data, first, row, c->rows.out - row < c->strip_rows ? c->rows.out - row : c->strip_rows);
    }
}

/* Adds the lanes' sums of some panels of the weight gradient in lane 0, and makes the gradient of them. */
static void finish_weights(struct step *s, struct block *b, unsigned part, unsigned parts)
{
    const struct conv_state *c = b->state;
    const struct conv_kernel *k = c->group.kernel;
    size_t panels = k->gradient_panels(&c->group.shape), floats = c->sum_bytes / sizeof(float) / panels;
    size_t first = panels * part / parts, count = panels * (part + 1) / parts - first;
    float *sum = back_memory(s, b, 0).weight_sum;
    for (unsigned lane = 1; lane < step_lanes(s); lane++)
        c->elem->accumulate(back_memory(s, b, lane).weight_sum + first * floats, count * floats, sum + first * floats);
    k->weight_gradient_finish(&c->group.shape, sum, first, count, step_param_gradient(s, c->node->first_param));
    if (c->bias == SIZE_MAX || part > 0)
        return;
    float *to = step_param_gradient(s, c->bias);
    memset(to, 0, c->group.shape.co * sizeof(float));
    for (unsigned lane = 0; lane < step_lanes(s); lane++)
        for (size_t o = 0; o < c->group.shape.co; o++)
            to[o] += back_memory(s, b, lane).bias_sum[o];
}

/* ---- Plan ---- */

/* Whether every reader of the value can take it lazily. */
static bool all_read_lazily(const struct step_view *v, size_t value)
{
    for (size_t i = 0; i < v->nodes; i++)
        for (size_t k = 0; k < v->graph->nodes[i].inputs; k++)
            if (v->graph->nodes[i].input[k] == value && !block_conv_reads(v, i) && !block_add_reads(v, i))
                return false;
    return v->consumers[value] > 0;
}

static pst_status allocate(const struct step_view *v, struct conv_state *c)
{
    const struct conv_kernel *k = c->group.kernel;
    size_t packed = round_up(k->weights_bytes(&c->group.shape)), co = c->group.shape.co, row = round_up(co * sizeof(float)) / sizeof(float);
    c->packed = mem_aligned(2 * packed);
    c->packed_back = c->packed ? c->packed + packed / sizeof(float) : NULL;
    if (!c->packed)
        return PST_ENOMEM;
    if (!c->group.norm)
        return PST_OK;
    c->scale = mem_aligned(6 * row * sizeof(float));
    c->sums = mem_array(4 * co * v->lanes, sizeof(double));
    if (!c->scale || !c->sums)
        return PST_ENOMEM;
    c->shift = c->scale + row;
    c->centre = c->shift + row;
    c->by_gradient = c->centre + row;
    c->by_z = c->by_gradient + row;
    c->offset = c->by_z + row;
    return PST_OK;
}

static void plan_values(const struct step_view *v, struct block *b)
{
    struct conv_state *c = b->state;
    struct value_form *out = &v->forms[c->out];
    bool lazy = c->group.norm && all_read_lazily(v, c->out);
    *out = (struct value_form){.lazy = lazy, .scale = c->scale, .shift = c->shift, .low = c->group.low, .high = c->group.high, .producer = b};
    c->stores_y = c->group.norm && !lazy;
    c->needs_data = c->in != 0;
    c->serves = block_conv_offer(v, c->in);
}

/* Rows of the gradient can be taken apart where no data gradient needs its neighbours. */
static void plan_rows(struct conv_state *c)
{
    const struct conv_shape *s = &c->group.shape;
    bool alone = c->in == 0 || (s->size == 1 && s->stride == 1 && c->rows.before + c->columns.before == 0);
    size_t rows = STRIP_BYTES / (c->columns.out * s->co * sizeof(float)) / 2 * 2;
    c->strip_rows = c->rows.out;
    if (alone && c->strip_images == 1 && rows < c->rows.out)
        c->strip_rows = rows > 2 ? rows : 2;
}

static void plan_phases(struct block *b)
{
    struct conv_state *c = b->state;
    struct block_phase *f = b->forward, *g = b->backward;
    bool clamps = c->group.low > -INFINITY || c->group.high < INFINITY;
    *f++ = (struct block_phase){PHASE_LANES, forward};
    if (c->group.norm)
        *f++ = (struct block_phase){PHASE_PARTS, finish_norm};
    if (c->stores_y)
        *f++ = (struct block_phase){PHASE_LANES, store_y};
    if (!c->served && !c->group.pool && (c->group.norm || clamps))
        *g++ = (struct block_phase){PHASE_LANES, mask_gradient};
    if (c->group.norm)
        *g++ = (struct block_phase){PHASE_PARTS, finish_norm_back};
    *g++ = (struct block_phase){PHASE_LANES, c->asks ? backward_asking : skips_unpooling(c) ? backward_pooled : backward};
    *g++ = (struct block_phase){PHASE_PARTS, finish_weights};
}

static pst_status plan(const struct step_view *v, struct block *b, pst_error *reterr)
{
    struct conv_state *c = mem_zalloc(sizeof(*c));
    b->state = c;
    if (!c)
        return fail_memory(reterr, "planning the step");
    c->node = &v->graph->nodes[b->first];
    c->in = c->node->input[0];
    c->out = b->first + b->count;
    find_group(v, b->first, &c->group);
    c->elem = elem_kernels(v->features);
    conv_windows(c->node->config, c->node->in, &c->rows, &c->columns, NULL);
    c->in_values = shape_values(c->node->in);
    c->z_values = shape_values(&c->node->out);
    c->out_values = shape_values(graph_shape(v->graph, c->out));
    c->bias = c->node->params > 1 ? c->node->first_param + 1 : SIZE_MAX;
    c->gamma = SIZE_MAX;
    if (c->group.norm) {
        const struct graph_node *norm = c->node + 1;
        const struct norm_config *config = norm->config;
        c->gamma = norm->first_param;
        c->eps = config->eps;
        c->momentum = config->momentum;
    }
    size_t larger = c->in_values > c->z_values ? c->in_values : c->z_values;
    size_t lane = (v->options->batch + v->lanes - 1) / v->lanes;
    c->strip_images = STRIP_BYTES / (larger * sizeof(float));
    c->strip_images = c->strip_images < 1 ? 1 : c->strip_images > lane ? lane : c->strip_images;
    plan_rows(c);
    c->sum_bytes = c->group.kernel->gradient_bytes(&c->group.shape);
    pst_status st = allocate(v, c);
    if (st < 0)
        return fail_memory(reterr, "planning the step");
    plan_values(v, b);
    return PST_OK;
}

#define ASK_BYTES ((size_t)256 << 10) /* of the gradient's rows; the dense layer's kernel for them takes about as much */

/* Rows and images of a gradient that is computed on demand. */
static void plan_asking(const struct step_view *v, struct conv_state *c)
{
    size_t row = c->columns.out / 2 * c->group.shape.co * sizeof(float), lane = (v->options->batch + v->lanes - 1) / v->lanes;
    c->ask_rows = 1;
    c->ask_images = ASK_BYTES / (c->ask_rows * row);
    c->ask_images = c->ask_images < 1 ? 1 : c->ask_images > lane ? lane : c->ask_images;
}

/* The readers are known: which gradients they leave to this block, and how much memory it takes. */
static void settle(const struct step_view *v, struct block *b)
{
    struct conv_state *c = b->state;
    size_t scratch = round_up(c->group.kernel->scratch_bytes(&c->group.shape));
    size_t input = input_bytes(c);
    b->work.bytes = input + scratch;
    if (c->asks) {
        plan_asking(v, c);
        size_t fill = block_dense_fill_scratch(c->asks, c->ask_images);
        scratch = fill > scratch ? fill : scratch;
    }
    b->saved.bytes = c->stores_y ? v->options->batch * c->z_values * sizeof(float) : c->group.pool ? v->options->batch * c->out_values : 0;
    b->back_work.bytes = round_up(c->sum_bytes) + round_up(c->group.shape.co * sizeof(float)) + input + round_up(gradient_floats(c) * sizeof(float)) + scratch;
    plan_phases(b);
}

const struct block_class block_conv = {
    .name = "conv",
    .match = match,
    .plan = plan,
    .settle = settle,
    .prepare = prepare,
    .free = free_state,
};
