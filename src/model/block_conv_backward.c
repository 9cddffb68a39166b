/* block_conv_backward.c: the backward pass of the convolution block (block_conv.c), per lane: the gradient of the convolution's result
 * comes into a strip (un-pooled, or through batch normalisation), from which data gradient and weight gradient are computed. */
#include "model/block_conv_state.h"

#include <math.h>
#include <string.h>

/* Where no reader has done it, and no argmax says what passes: masks the gradient of the result, in place, and takes batch norm's
 * sums. */
static void mask_gradient(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = conv_lane(s, c, lane);
    size_t co = c->group.shape.co;
    void *g = number_at(step_gradient(s, c->out), c->z_number, r.first * c->out_values);
    struct strip_gradient j = {.g = g, .number = c->z_number, .mask = conv_result(s, b, r.first)};
    (void)lanes;
    if (c->group.norm) {
        j.z = number_from(conv_z(s, b), c->z_number, r.first * c->out_values);
        j.centre = c->centre;
        j.sum = c->sums + 4 * co * lane + 2 * co;
        j.sum2 = j.sum + co;
    }
    strip_gradient(c->elem, &j, r.count * c->out_values / co, co, g, c->z_number);
}

static void share_backward(struct step *s, struct block *b, unsigned i, unsigned count)
{
    (void)i, (void)count;
    conv_share_sums(s, b, 2 * ((struct conv_state *)b->state)->group.shape.co);
}

/* Sums Σg and Σg·(z − centre) to dz = gamma/σ · (g − mean(g) − h · mean(g·h)), h = (z − mean)/σ, as a function of g and z. */
static void finish_norm_back(struct step *s, struct block *b, unsigned i, unsigned count)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co, rows = step_samples(s) * c->units * c->rows.out * c->columns.out;
    const float *gamma = step_param(s, c->gamma);
    float *dgamma = step_param_gradient(s, c->gamma), *dbeta = step_param_gradient(s, c->gamma + BETA);
    float *dmean = step_param_gradient(s, c->gamma + MOVING_MEAN), *dvariance = step_param_gradient(s, c->gamma + MOVING_VARIANCE);
    for (size_t k = co * i / count; k < co * (i + 1) / count; k++) {
        dmean[k] = dvariance[k] = 0;
        double sum = 0, sum2 = 0, deviation = c->deviation[k];
        for (unsigned lane = 0; lane < step_lanes(s); lane++) {
            sum += c->sums[4 * co * lane + 2 * co + k];
            sum2 += c->sums[4 * co * lane + 3 * co + k];
        }
        double product = (sum2 - sum * (c->mean[k] - c->centre[k])) * deviation; /* Σ g·h */
        dbeta[k] = (float)sum;
        dgamma[k] = (float)product;
        double n = (double)rows; /* parameters have this rank's gradients, the data that of all ranks' sums */
        if (c->shared) {
            sum = c->shared[k];
            product = (c->shared[co + k] - sum * (c->mean[k] - c->centre[k])) * deviation;
            n = c->shared_rows;
        }
        double a = gamma[k] * deviation, by_z = -a * deviation * product / n;
        c->by_gradient[k] = (float)a;
        c->by_z[k] = (float)by_z;
        /* The sum over all pixels is 0 with the factors as they are rounded: an error here would be the same in every pixel. */
        c->offset[k] = (float)(-(double)c->by_gradient[k] * sum / n - (double)c->by_z[k] * (c->mean[k] - c->centre[k]));
    }
}

/* Rows of one image from its pooled gradient at value `at`. */
static void unpool_rows(struct step *s, struct block *b, size_t at, size_t rows, float *buffer, float *strip)
{
    const struct conv_state *c = b->state;
    size_t co = c->group.shape.co, w = c->columns.out, row = w / 2 * co;
    const void *g = step_gradient(s, c->out);
    const uint8_t *argmax = (const uint8_t *)step_saved(s, b) + at;
    if (c->z_number == NUMBER_F32) {
        c->elem->unpool((const float *)g + at, argmax, rows, w, co, strip);
        return;
    }
    for (size_t y = 0; y < rows; y += 2, argmax += row, at += row) {
        size_t now = rows - y < 2 ? rows - y : 2;
        if (now == 2)
            strip_convert(number_from(g, c->z_number, at), c->z_number, row, buffer, NUMBER_F32);
        c->elem->unpool(buffer, argmax, now, w, co, strip + y * w * co);
    }
}

/* Rows [row, row + rows) of the gradient of the convolution's result, in place or in the strip. Several images: all rows. */
static const float *load_gradient(struct step *s, struct block *b, size_t first, size_t count, size_t row, size_t rows, float *buffer, float *strip)
{
    const struct conv_state *c = b->state;
    size_t co = c->group.shape.co, pixels = count * rows * c->columns.out, at = first * c->out_values + row * c->columns.out * co;
    if (c->group.pool) {
        at = first * c->out_values + row / 2 * (c->columns.out / 2) * co;
        for (size_t n = 0; n < count; n++, at += c->out_values)
            unpool_rows(s, b, at, rows, buffer, strip + n * c->z_values);
        return strip;
    }
    const void *g = number_from(step_gradient(s, c->out), c->z_number, at);
    if (!c->group.norm && c->z_number == NUMBER_F32)
        return g;
    if (!c->group.norm)
        strip_convert(g, c->z_number, pixels * co, strip, NUMBER_F32);
    else
        strip_norm_gradient(c->elem, g, number_from(conv_z(s, b), c->z_number, at), c->z_number, c->centre, c->by_gradient, c->by_z, c->offset, pixels, co,
                            strip);
    return strip;
}

struct back_memory { /* of a lane */
    float *weight_sum, *bias_sum, *input_strip, *gradient_strip;
    void *scratch;
};

size_t conv_gradient_floats(const struct conv_state *c)
{
    if (c->ask_images)
        return c->ask_images * (c->columns.out / 2) * c->group.shape.co;
    return conv_skips_unpooling(c) ? 0 : c->strip_images * c->strip_rows * c->columns.out * c->group.shape.co;
}

static struct back_memory back_memory(struct step *s, struct block *b, unsigned lane)
{
    const struct conv_state *c = b->state;
    char *sums = step_work(s, b, true, lane), *at = step_scratch(s, lane);
    struct back_memory m = {.weight_sum = (float *)sums, .bias_sum = (float *)(sums + round_up(c->sum_bytes)), .input_strip = (float *)at};
    m.gradient_strip = (float *)(at += conv_back_input_bytes(c));
    m.scratch = at + round_up(conv_gradient_floats(c) * sizeof(float));
    return m;
}

static struct conv_job data_job(struct step *s, const struct conv_state *c, unsigned lane)
{
    struct conv_service to = {.low = -INFINITY, .high = INFINITY};
    if (c->serves)
        to = block_conv_serve(s, step_form(s, c->in)->producer, lane);
    return (struct conv_job){.shape = c->group.shape,
                         .h = c->in_h,
                         .w = c->node->in[0].w,
                         .weights = c->packed_back,
                         .epilogue = CONV_GRADIENT,
                         .number = step_form(s, c->in)->number,
                         .low = to.low,
                         .high = to.high,
                         .shift = to.centre,
                         .sum = to.sum,
                         .sum2 = to.sum2,
                         .z = {.data = to.z},
                         .streams = conv_streams(s, c, c->in_values, step_form(s, c->in)->number),
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
                          const struct conv_ahead *ahead, size_t first, size_t row, size_t rows)
{
    const struct conv_state *c = b->state;
    size_t co = c->group.shape.co, skipped = row * data.out_strides.row;
    struct conv_extra dz = {.data = load_gradient(s, b, first, data.images, row, rows, m->scratch, m->gradient_strip),
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
                                                               .sum = m->weight_sum,
                                                               .ahead = *ahead},
                                     m->scratch);
    if (!c->needs_data)
        return;
    data.h = rows < c->rows.out ? rows : data.h;
    data.in = (struct conv_source){.data = dz.data, .strides = dz.strides, .h = rows, .w = c->columns.out, .top = c->rows.before,
                                   .left = c->columns.before};
    data.out = number_at(data.out, data.number, skipped);
    data.add.data = data.add.data ? number_from(data.add.data, data.number, skipped) : NULL;
    data.mask.data = data.mask.data ? data.mask.data + skipped : NULL;
    data.z.data = data.z.data ? number_from(data.z.data, data.number, skipped) : NULL;
    c->group.kernel->data(&data, m->scratch);
}

/* Weight and bias gradients of a pooled layer, whose gradient is never un-pooled. */
static struct conv_pooled_job pooled_job(struct step *s, struct block *b, const struct back_memory *m)
{
    struct conv_state *c = b->state;
    struct conv_strides pooled = strides_of(c->columns.out / 2, c->group.shape.co, c->out_values);
    return (struct conv_pooled_job){.shape = c->group.shape,
                                    .h = c->rows.out,
                                    .w = c->columns.out,
                                    .gradient = {NULL, pooled},
                                    .argmax = step_saved(s, b),
                                    .argmax_strides = pooled,
                                    .sum = m->weight_sum,
                                    .bias_sum = m->bias_sum};
}

static void backward_pooled(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = conv_lane(s, c, lane);
    struct back_memory m = back_memory(s, b, lane);
    struct conv_pooled_job j = pooled_job(s, b, &m);
    (void)lanes;
    memset(m.weight_sum, 0, c->sum_bytes);
    memset(m.bias_sum, 0, c->group.shape.co * sizeof(float));
    j.images = r.count;
    j.in = conv_load_input(s, c, r.first, r.count, NULL);
    j.gradient.data = (const float *)step_gradient(s, c->out) + r.first * c->out_values;
    j.argmax += r.first * c->out_values;
    c->group.kernel->pooled_weight_gradient(&j, m.scratch);
}

/* One pooled row of the gradient of `count` images: the data gradient of the dense layer that reads the result, or converted. */
static void fill_row(struct step *s, struct block *b, size_t first, size_t count, size_t at, size_t row, const float *turned, float *to)
{
    const struct conv_state *c = b->state;
    if (c->asks) {
        block_dense_fill(s, c->asks, first, count, turned, row, to);
        return;
    }
    for (size_t i = 0; i < count; i++)
        strip_convert(number_from(step_gradient(s, c->out), c->z_number, (first + i) * c->out_values + at), c->z_number, row, to + i * row, NUMBER_F32);
}

/* The data gradient of two rows of `j->images` images from `first` on. */
static void pooled_data(struct step *s, const struct conv_state *c, const struct conv_pooled_job *j, struct conv_job data, bool adds, size_t first, size_t row,
                        void *scratch)
{
    size_t at = first * c->in_values + row * data.out_strides.row;
    data.images = j->images;
    data.h = 2;
    data.out = number_at(step_gradient(s, c->in), data.number, at);
    data.add = (struct conv_numbers){.data = adds ? data.out : NULL, .strides = data.out_strides};
    data.mask = c->serves ? (struct conv_extra){.data = j->in.data, .strides = j->in.strides} : (struct conv_extra){0};
    data.z = (struct conv_numbers){.data = data.z.data ? number_from(data.z.data, data.number, at) : NULL, .strides = data.out_strides};
    c->group.kernel->pooled_data(&data, j, scratch);
}

/* The same, and the data gradient, from rows of the gradient that do not leave the second-level cache. A lane takes some rows of all
 * images: what the rows need of a dense layer's kernel is read once. */
static void backward_by_row(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct back_memory m = back_memory(s, b, lane);
    struct conv_pooled_job whole = pooled_job(s, b, &m);
    struct conv_job data = c->needs_data ? data_job(s, c, lane) : (struct conv_job){0};
    bool adds = c->needs_data && step_gradient_adds(s, b, c->in);
    size_t row = c->columns.out / 2 * c->group.shape.co, rows = c->rows.out / 2, samples = step_samples(s);
    float *turned = (float *)((char *)m.scratch + round_up(c->group.kernel->scratch_bytes(&c->group.shape)));
    memset(m.weight_sum, 0, c->sum_bytes);
    memset(m.bias_sum, 0, c->group.shape.co * sizeof(float));
    for (size_t y = rows * lane / lanes; y < rows * (lane + 1) / lanes; y++) {
        if (c->asks)
            block_dense_turn(s, c->asks, y * row, row, turned);
        for (size_t at = 0; at < samples; at += c->ask_images) {
            struct conv_pooled_job j = whole;
            j.images = samples - at < c->ask_images ? samples - at : c->ask_images;
            fill_row(s, b, at, j.images, y * row, row, turned, m.gradient_strip);
            j.h = 2;
            j.gradient = (struct conv_extra){m.gradient_strip, strides_of(c->columns.out / 2, c->group.shape.co, row)};
            j.argmax += at * c->out_values + y * row;
            if (c->needs_data) {
                j.in = conv_load_rows(s, c, at, j.images, 2 * y, 2, m.input_strip);
            } else {
                struct conv_source in = conv_load_input(s, c, at, 0, NULL);
                j.in = source_from(&in, 2 * y);
            }
            j.more = at + j.images < samples && j.in.data != m.input_strip;
            c->group.kernel->pooled_weight_gradient(&j, m.scratch);
            if (c->needs_data)
                pooled_data(s, c, &j, data, adds, at, 2 * y, m.scratch);
        }
    }
}

static void backward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = conv_lane(s, c, lane);
    struct back_memory m = back_memory(s, b, lane);
    struct conv_job data = data_job(s, c, lane);
    const void *z = data.z.data;
    bool adds = c->needs_data && step_gradient_adds(s, b, c->in);
    (void)lanes;
    memset(m.weight_sum, 0, c->sum_bytes);
    memset(m.bias_sum, 0, c->group.shape.co * sizeof(float));
    for (size_t at = 0; at < r.count; at += c->strip_images) {
        size_t first = r.first + at;
        data.images = r.count - at < c->strip_images ? r.count - at : c->strip_images;
        struct conv_source in = conv_load_input(s, c, first, data.images, m.input_strip);
        if (c->needs_data) {
            data.out = number_at(step_gradient(s, c->in), data.number, first * c->in_values);
            data.add = (struct conv_numbers){.data = adds ? data.out : NULL, .strides = data.out_strides};
            data.mask = c->serves ? (struct conv_extra){.data = in.data, .strides = in.strides} : (struct conv_extra){0};
            data.z = (struct conv_numbers){.data = z ? number_from(z, data.number, first * c->in_values) : NULL, .strides = data.out_strides};
        }
        struct conv_ahead ahead = {{0}, {0}};
        size_t next = first + data.images, left = r.count - at - data.images, count = left < c->strip_images ? left : c->strip_images;
        data.ahead = (struct conv_ahead){{0}, {0}};
        if (c->strip_rows == c->rows.out) {
            conv_ahead_add(&ahead, step_gradient(s, c->out), c->z_number, c->out_values, next, count);
            if (c->group.pool)
                conv_ahead_bytes(&ahead, step_saved(s, b), next * c->out_values, count * c->out_values);
            if (c->group.norm)
                conv_ahead_add(&ahead, conv_z(s, b), c->z_number, c->z_values, next, count);
            conv_ahead_add(&data.ahead, step_value(s, c->in), step_form(s, c->in)->number, c->in_values, next, count);
        }
        for (size_t row = 0; row < c->rows.out; row += c->strip_rows)
            backward_rows(s, b, &m, &in, data, &ahead, first, row, c->rows.out - row < c->strip_rows ? c->rows.out - row : c->strip_rows);
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

void conv_plan_backward(struct block *b)
{
    struct conv_state *c = b->state;
    struct block_phase *g = b->backward;
    bool clamps = c->group.low > -INFINITY || c->group.high < INFINITY;
    if (!c->served && !c->group.pool && (c->group.norm || clamps))
        *g++ = (struct block_phase){PHASE_LANES, mask_gradient};
    if (c->shared)
        *g++ = (struct block_phase){PHASE_ONCE, share_backward};
    if (c->group.norm)
        *g++ = (struct block_phase){PHASE_PARTS, finish_norm_back};
    *g++ = (struct block_phase){PHASE_LANES, c->ask_images ? backward_by_row : conv_skips_unpooling(c) ? backward_pooled : backward};
    *g++ = (struct block_phase){PHASE_PARTS, finish_weights};
}
