/* f32_depthwise_clamp_x86.c: depthwise 3 × 3 convolution with bias and clamp for predictions, a vector of channels at a time: 8 with AVX2, 16
 * with AVX-512, the same bits.
 *
 * Reads images as they lie: nothing is copied. Inside of an image, blocks of neighbouring outputs are computed together, so that every value
 * is loaded once per block; windows that reach over a border have kernels of fewer rows or columns, compiled one by one. All channels of a
 * block follow each other, as they do in memory. Every output is one sum, tap by tap, whatever the block: the bits do not depend on how an
 * image is divided. Weights as the depthwise kernel of the same instruction set packs them. */
#include "model/kernels/direct.h"
#include "model/kernels/vector_x86.h"

#define TAPS   9
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 9")

/* Rows or columns of a kernel that lie inside: [begin, end). */
struct inside {
    size_t begin, end;
};

static struct inside inside_of(size_t o, size_t stride, size_t before, size_t in)
{
    size_t at = o * stride, last = in + before - at;
    return (struct inside){.begin = at < before ? before - at : 0, .end = last < 3 ? last : 3};
}

static bool is_whole(size_t o, size_t stride, size_t before, size_t in)
{
    return o * stride >= before && o * stride + 3 <= in + before;
}

/* One output, all channels; `in` is the corner of its window, which may lie outside. */
struct spot {
    const float *in;
    size_t row, pixel;
    const float *weights, *bias;
    float *out;
    size_t channels;
    float low, high;
};

INLINE vec clamp(vec v, vec low, vec high)
{
    return vec_min(high, vec_max(low, v)); /* NaN stays NaN */
}

INLINE void spot_inside(const struct spot *s, size_t y0, size_t y1, size_t x0, size_t x1)
{
    const vec low = vec_set(s->low), high = vec_set(s->high);
    const float *rows[3] = {s->in, s->in + s->row, s->in + 2 * s->row}, *w = s->weights;
    for (size_t c = 0; c < s->channels; c += VEC, w += TAPS * VEC) {
        vec sum = s->bias ? vec_load(s->bias + c) : vec_zero();
        UNROLL
        for (size_t y = y0; y < y1; y++)
            UNROLL
            for (size_t x = x0; x < x1; x++)
                sum = vec_fma(vec_load(rows[y] + x * s->pixel + c), vec_load(w + (y * 3 + x) * VEC), sum);
        vec_store(s->out + c, clamp(sum, low, high));
    }
}

INLINE void spot_rows(const struct spot *s, size_t y0, size_t y1, struct inside x)
{
    if (x.begin == 0 && x.end == 3)
        spot_inside(s, y0, y1, 0, 3);
    else if (x.begin == 1 && x.end == 3)
        spot_inside(s, y0, y1, 1, 3);
    else if (x.begin == 0)
        spot_inside(s, y0, y1, 0, 2);
    else
        spot_inside(s, y0, y1, 1, 2);
}

static void run_spot(const struct spot *s, struct inside y, struct inside x)
{
    if (y.begin == 0 && y.end == 3)
        spot_rows(s, 0, 3, x);
    else if (y.begin == 1 && y.end == 3)
        spot_rows(s, 1, 3, x);
    else if (y.begin == 0)
        spot_rows(s, 0, 2, x);
    else
        spot_rows(s, 1, 2, x);
}

/* `count` blocks of `high` rows and two columns of outputs beside each other, whose windows lie inside. */
struct blocks {
    struct spot first;
    size_t out_row, out_pixel, count;
};

#define COLUMNS 2

INLINE void run_blocks(const struct blocks *b, size_t stride, size_t high_rows)
{
    const vec low = vec_set(b->first.low), high = vec_set(b->first.high);
    const size_t pixel = b->first.pixel, row = b->first.row, channels = b->first.channels;
    const float *in = b->first.in, *bias = b->first.bias;
    float *out = b->first.out;
    for (size_t n = b->count; n > 0; n--, in += COLUMNS * stride * pixel, out += COLUMNS * b->out_pixel) {
        const float *w = b->first.weights;
        for (size_t c = 0; c < channels; c += VEC, w += TAPS * VEC) {
            vec weight[TAPS], sum[2 * COLUMNS], start = bias ? vec_load(bias + c) : vec_zero();
            UNROLL
            for (size_t t = 0; t < TAPS; t++)
                weight[t] = vec_load(w + t * VEC);
            UNROLL
            for (size_t o = 0; o < high_rows * COLUMNS; o++)
                sum[o] = start;
            UNROLL
            for (size_t y = 0; y < (high_rows - 1) * stride + 3; y++)
                UNROLL
                for (size_t x = 0; x < (COLUMNS - 1) * stride + 3; x++) {
                    vec v = vec_load(in + y * row + x * pixel + c);
                    UNROLL
                    for (size_t o = 0; o < high_rows * COLUMNS; o++) {
                        size_t top = o / COLUMNS * stride, left = o % COLUMNS * stride;
                        if (y >= top && y < top + 3 && x >= left && x < left + 3)
                            sum[o] = vec_fma(v, weight[(y - top) * 3 + x - left], sum[o]);
                    }
                }
            UNROLL
            for (size_t o = 0; o < high_rows * COLUMNS; o++)
                vec_store(out + o / COLUMNS * b->out_row + o % COLUMNS * b->out_pixel + c, clamp(sum[o], low, high));
        }
    }
}

static bool reaches_one(size_t out, size_t stride, size_t before, size_t in)
{
    return before <= 1 && (out - 1) * stride + 3 <= in + before + 1;
}

bool VEC_NAME(conv_depthwise_clamp_takes)(const struct conv_job *j)
{
    const struct conv_shape *s = &j->shape;
    return s->depthwise && s->size == 3 && s->stride <= 2 && s->co % VEC == 0 && j->epilogue == CONV_CLAMP && j->h && j->w &&
           reaches_one(j->h, s->stride, j->in.top, j->in.h) && reaches_one(j->w, s->stride, j->in.left, j->in.w);
}

static struct spot spot_at(const struct conv_job *j, size_t image, size_t y, size_t x)
{
    const struct conv_strides *s = &j->in.strides, *t = &j->out_strides;
    /* Sums of offsets, as the corner may lie before the image. */
    ptrdiff_t corner = (ptrdiff_t)(image * s->image + y * j->shape.stride * s->row + x * j->shape.stride * s->pixel) -
                       (ptrdiff_t)(j->in.top * s->row + j->in.left * s->pixel);
    return (struct spot){.in = j->in.data + corner,
                         .row = s->row,
                         .pixel = s->pixel,
                         .weights = j->weights,
                         .bias = j->bias,
                         .out = (float *)j->out + image * t->image + y * t->row + x * t->pixel,
                         .channels = j->shape.co,
                         .low = j->low,
                         .high = j->high};
}

/* `rows` rows of outputs from y on, which are one, or two whose windows have all their rows. */
static void run_rows(const struct conv_job *j, size_t image, size_t y, size_t rows)
{
    size_t stride = j->shape.stride, end = j->w;
    bool whole = is_whole(y, stride, j->in.top, j->in.h);
    while (end > 0 && !is_whole(end - 1, stride, j->in.left, j->in.w))
        end--;
    for (size_t x = 0; x < j->w;) {
        if (whole && x + COLUMNS <= end && is_whole(x, stride, j->in.left, j->in.w)) {
            struct blocks b = {.first = spot_at(j, image, y, x), .out_row = j->out_strides.row, .out_pixel = j->out_strides.pixel,
                               .count = (end - x) / COLUMNS};
            if (stride == 2)
                run_blocks(&b, 2, 1);
            else if (rows == 2)
                run_blocks(&b, 1, 2);
            else
                run_blocks(&b, 1, 1);
            x += b.count * COLUMNS;
            continue;
        }
        for (size_t i = 0; i < rows; i++) {
            struct spot s = spot_at(j, image, y + i, x);
            run_spot(&s, inside_of(y + i, stride, j->in.top, j->in.h), inside_of(x, stride, j->in.left, j->in.w));
        }
        x++;
    }
}

void VEC_NAME(conv_depthwise_clamp)(const struct conv_job *j)
{
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0, rows; y < j->h; y += rows) {
            bool two = j->shape.stride == 1 && y + 1 < j->h && is_whole(y, 1, j->in.top, j->in.h) && is_whole(y + 1, 1, j->in.top, j->in.h);
            rows = two ? 2 : 1;
            run_rows(j, image, y, rows);
        }
}
