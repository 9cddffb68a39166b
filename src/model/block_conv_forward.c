/* block_conv_forward.c: the forward pass of the convolution block (block_conv.c), per lane: a few images at a time come into a strip,
 * the kernel's epilogue finishes and stores them. */
#include "model/block_conv_state.h"

#include <math.h>
#include <string.h>

bool conv_skips_unpooling(const struct conv_state *c)
{
    const struct conv_kernel *k = c->group.kernel;
    const struct conv_shape *s = &c->group.shape;
    bool padded = c->rows.before + c->columns.before > 0 || c->rows.out > c->node->in[0].h || c->columns.out > c->node->in[0].w;
    if (!c->group.pool || !k->takes_pooled || !k->takes_pooled(s) || (s->size == 1 && padded))
        return false;
    return !c->needs_data || (k->takes_pooled_data && k->takes_pooled_data(s) && c->rows.out % 2 + c->columns.out % 2 == 0);
}

size_t conv_input_bytes(const struct conv_state *c)
{
    return c->in == 0 ? 0 : round_up(c->strip_images * c->in_values * sizeof(float));
}

size_t conv_back_input_bytes(const struct conv_state *c)
{
    const struct shape *in = &c->node->in[0];
    return c->in && c->ask_images ? round_up(c->ask_images * 2 * in->w * in->c * sizeof(float)) : conv_input_bytes(c);
}

void *conv_z(struct step *s, struct block *b)
{
    const struct conv_state *c = b->state;
    return c->stores_y ? step_saved(s, b) : step_value(s, c->out);
}

struct strip_source conv_result(struct step *s, struct block *b, size_t first)
{
    const struct conv_state *c = b->state;
    struct strip_source r = {.number = c->z_number, .low = c->group.low, .high = c->group.high};
    r.z = number_from(c->group.norm ? conv_z(s, b) : step_value(s, c->out), c->z_number, first * c->out_values);
    r.centre = c->centre;
    r.scale = c->group.norm ? c->scale : NULL;
    r.shift = c->group.norm ? c->shift : NULL;
    return r;
}

/* The input from image `first` on as it is stored. */
static struct strip_source stored_input(struct step *s, const struct conv_state *c, size_t first)
{
    const struct value_form *f = step_form(s, c->in);
    return (struct strip_source){.z = number_from(step_value(s, c->in), f->number, first * c->in_values),
                                 .number = f->number,
                                 .centre = f->centre,
                                 .scale = f->lazy ? f->scale : NULL,
                                 .shift = f->shift,
                                 .low = f->low,
                                 .high = f->high};
}

static bool lies_ready(const struct strip_source *in)
{
    return !in->scale && in->number == NUMBER_F32;
}

struct conv_source conv_load_input(struct step *s, const struct conv_state *c, size_t first, size_t count, float *strip)
{
    struct strip_source in = stored_input(s, c, first);
    bool loads = !lies_ready(&in);
    if (loads)
        strip_read(c->elem, &in, count * c->in_values / c->node->in[0].c, c->node->in[0].c, strip);
    return (struct conv_source){.data = loads ? strip : in.z,
                                .strides = strides_of(c->node->in[0].w, c->node->in[0].c, c->in_values),
                                .h = c->in_h,
                                .w = c->node->in[0].w,
                                .top = c->rows.before,
                                .left = c->columns.before};
}

struct conv_source conv_load_rows(struct step *s, const struct conv_state *c, size_t first, size_t count, size_t row, size_t rows, float *strip)
{
    size_t channels = c->node->in[0].c, w = c->node->in[0].w, values = rows * w * channels;
    struct strip_source in = strip_skip(stored_input(s, c, first), row * w * channels);
    bool loads = !lies_ready(&in);
    for (size_t i = 0; loads && i < count; i++) {
        struct strip_source of = strip_skip(in, i * c->in_values);
        strip_read(c->elem, &of, rows * w, channels, strip + i * values);
    }
    return (struct conv_source){.data = loads ? strip : in.z, .strides = strides_of(w, channels, loads ? values : c->in_values), .h = rows, .w = w};
}

/* Weights as the kernels take them, for both directions. */
void conv_prepare(struct step *s, struct block *b)
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

/* An ordinary store reads its line from memory first, and the caches may have dropped the line before the next layer reads it. With 1 MiB of second-level
 * cache per core, tensors of 2 MiB and more were written faster past the caches; other machines may have more. */
#define STREAMED_BYTES ((size_t)4 << 20)

bool conv_streams(const struct step *s, const struct conv_state *c, size_t values, enum number number)
{
    return step_samples(s) * c->units * values * number_bytes(number) >= STREAMED_BYTES;
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
                         .number = c->z_number,
                         .epilogue = c->group.norm ? CONV_RAW : c->group.pool ? CONV_POOL : CONV_CLAMP,
                         .out_strides = strides_of(c->group.pool ? c->columns.out / 2 : c->columns.out, co, c->out_values),
                         .argmax_strides = strides_of(c->columns.out / 2, co, c->out_values),
                         .streams = conv_streams(s, c, c->out_values, c->z_number)};
    if (c->group.norm && step_is_training(s) && !step_repeats(s)) {
        j.shift = c->centre;
        j.sum = c->sums + 4 * co * lane;
        j.sum2 = j.sum + co;
    }
    return j;
}

static void forward(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = conv_lane(s, c, lane);
    struct conv_job j = forward_job(s, b, lane);
    float *strip = step_scratch(s, lane);
    char *scratch = (char *)strip + conv_input_bytes(c);
    (void)lanes;
    for (size_t at = 0; at < r.count; at += c->strip_images) {
        size_t first = r.first + at;
        j.images = r.count - at < c->strip_images ? r.count - at : c->strip_images;
        j.in = conv_load_input(s, c, first, j.images, strip);
        j.ahead = (struct conv_ahead){{0}, {0}};
        conv_ahead_add(&j.ahead, step_value(s, c->in), step_form(s, c->in)->number, c->in_values, first + j.images,
                       c->strip_images < r.count - at - j.images ? c->strip_images : r.count - at - j.images);
        j.out = number_at(c->group.norm ? conv_z(s, b) : step_value(s, c->out), c->z_number, first * c->out_values);
        j.argmax = c->group.pool ? (uint8_t *)step_saved(s, b) + first * c->out_values : NULL;
        c->group.kernel->conv(&j, scratch);
    }
}

void conv_share_sums(struct step *s, struct block *b, size_t first)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co;
    c->shared_rows = (double)(step_samples(s) * c->units * c->rows.out * c->columns.out);
    for (size_t k = 0; k < 2 * co; k++) {
        c->shared[k] = 0;
        for (unsigned lane = 0; lane < step_lanes(s); lane++)
            c->shared[k] += c->sums[4 * co * lane + first + k];
    }
    step_share(s, c->shared, 2 * co, &c->shared_rows);
}

static void share_forward(struct step *s, struct block *b, unsigned i, unsigned count)
{
    (void)i, (void)count;
    if (step_is_training(s) && !step_repeats(s))
        conv_share_sums(s, b, 0);
}

/* Statistics of the batch from the sums of the lanes, and from them how z is read. */
static void finish_norm(struct step *s, struct block *b, unsigned i, unsigned count)
{
    struct conv_state *c = b->state;
    size_t co = c->group.shape.co, rows = step_samples(s) * c->units * c->rows.out * c->columns.out;
    const float *gamma = step_param(s, c->gamma), *beta = step_param(s, c->gamma + BETA);
    float *moving_mean = step_param(s, c->gamma + MOVING_MEAN), *moving_variance = step_param(s, c->gamma + MOVING_VARIANCE);
    double *mean_to = step_statistic(s, c->gamma + MOVING_MEAN), *variance_to = step_statistic(s, c->gamma + MOVING_VARIANCE);
    if (step_repeats(s))
        return;
    for (size_t k = co * i / count; k < co * (i + 1) / count; k++) {
        double mean = moving_mean[k], variance = moving_variance[k];
        if (step_is_training(s)) {
            double sum = 0, sum2 = 0;
            for (unsigned lane = 0; lane < step_lanes(s); lane++) {
                sum += c->sums[4 * co * lane + k];
                sum2 += c->sums[4 * co * lane + co + k];
            }
            double n = (double)rows;
            if (c->shared) {
                sum = c->shared[k];
                sum2 = c->shared[co + k];
                n = c->shared_rows;
            }
            sum /= n;
            mean = c->centre[k] + sum;
            variance = sum2 / n - sum * sum;
            variance = variance > 0 ? variance : 0;
        }
        if (step_is_training(s) && mean_to) {
            mean_to[k] = mean;
            variance_to[k] = variance;
        } else if (step_is_training(s)) {
            moving_mean[k] = (float)(c->momentum * moving_mean[k] + (1 - c->momentum) * mean);
            moving_variance[k] = (float)(c->momentum * moving_variance[k] + (1 - c->momentum) * variance);
        }
        double deviation = 1 / sqrt(variance + c->eps);
        c->scale[k] = (float)(gamma[k] * deviation);
        c->shift[k] = (float)(beta[k] + gamma[k] * deviation * ((double)(float)mean - mean)); /* what rounding the centre leaves */
        c->deviation[k] = deviation;
        c->mean[k] = mean;
        c->centre[k] = (float)mean;
    }
}

static void store_y(struct step *s, struct block *b, unsigned lane, unsigned lanes)
{
    struct conv_state *c = b->state;
    struct lane_range r = conv_lane(s, c, lane);
    struct strip_source read = conv_result(s, b, r.first);
    (void)lanes;
    strip_read(c->elem, &read, r.count * c->out_values / c->group.shape.co, c->group.shape.co,
                  (float *)step_value(s, c->out) + r.first * c->out_values);
}

void conv_plan_forward(struct block *b)
{
    struct conv_state *c = b->state;
    struct block_phase *f = b->forward;
    *f++ = (struct block_phase){PHASE_LANES, forward};
    if (c->shared)
        *f++ = (struct block_phase){PHASE_ONCE, share_forward};
    if (c->group.norm)
        *f++ = (struct block_phase){PHASE_PARTS, finish_norm};
    if (c->stores_y)
        *f++ = (struct block_phase){PHASE_LANES, store_y};
}
