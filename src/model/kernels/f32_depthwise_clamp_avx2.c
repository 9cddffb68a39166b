/* f32_depthwise_clamp_avx2.c: depthwise 3 × 3 convolution with bias and clamp for predictions, eight channels at a time.
 *
 * Reads images as they lie: nothing is copied. Windows that reach over a border have kernels of fewer rows or columns, compiled one by one;
 * neighbouring pixels with the same kernel are computed together, with its weights in registers. Weights as conv_depthwise_avx2 packs them. */
#include "model/kernels/direct.h"

#include <immintrin.h>

#define VECTOR 8
#define TAPS   9
#define INLINE static inline __attribute__((always_inline))

/* Rows or columns of a kernel that lie inside: [begin, end). */
struct inside {
    size_t begin, end;
};

static struct inside inside_of(size_t o, size_t stride, size_t before, size_t in)
{
    size_t at = o * stride, last = in + before - at;
    return (struct inside){.begin = at < before ? before - at : 0, .end = last < 3 ? last : 3};
}

/* `count` pixels of eight channels. `in` is the first window's corner, which may lie outside. */
struct run {
    const float *in, *weights, *bias;
    size_t row, pixel, step; /* of the input: from row to row, pixel to pixel, window to window */
    float *out;
    size_t out_pixel, count;
    __m256 low, high;
};

INLINE void run_inside(const struct run *r, size_t y0, size_t y1, size_t x0, size_t x1)
{
    __m256 w[TAPS];
    const __m256 bias = r->bias ? _mm256_loadu_ps(r->bias) : _mm256_setzero_ps(), low = r->low, high = r->high;
    const float *in = r->in;
    float *out = r->out;
    size_t row = r->row, pixel = r->pixel, step = r->step, out_pixel = r->out_pixel;
#pragma GCC unroll 9
    for (size_t t = 0; t < TAPS; t++)
        w[t] = _mm256_loadu_ps(r->weights + t * VECTOR);
    for (size_t n = r->count; n > 0; n--, in += step, out += out_pixel) {
        __m256 sum[3] = {bias, _mm256_setzero_ps(), _mm256_setzero_ps()};
#pragma GCC unroll 3
        for (size_t y = y0; y < y1; y++)
#pragma GCC unroll 3
            for (size_t x = x0; x < x1; x++)
                sum[y] = _mm256_fmadd_ps(_mm256_loadu_ps(in + y * row + x * pixel), w[y * 3 + x], sum[y]);
        __m256 v = _mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), sum[2]);
        _mm256_storeu_ps(out, _mm256_min_ps(_mm256_max_ps(v, low), high));
    }
}

INLINE void run_rows(const struct run *r, size_t y0, size_t y1, struct inside x)
{
    if (x.begin == 0 && x.end == 3)
        run_inside(r, y0, y1, 0, 3);
    else if (x.begin == 1 && x.end == 3)
        run_inside(r, y0, y1, 1, 3);
    else if (x.begin == 0)
        run_inside(r, y0, y1, 0, 2);
    else
        run_inside(r, y0, y1, 1, 2);
}

static void run_some(const struct run *r, struct inside y, struct inside x)
{
    if (y.begin == 0 && y.end == 3)
        run_rows(r, 0, 3, x);
    else if (y.begin == 1 && y.end == 3)
        run_rows(r, 1, 3, x);
    else if (y.begin == 0)
        run_rows(r, 0, 2, x);
    else
        run_rows(r, 1, 2, x);
}

static bool reaches_one(size_t out, size_t stride, size_t before, size_t in)
{
    return before <= 1 && (out - 1) * stride + 3 <= in + before + 1;
}

bool conv_depthwise_clamp_takes_avx2(const struct conv_job *j)
{
    const struct conv_shape *s = &j->shape;
    return s->depthwise && s->size == 3 && s->co % VECTOR == 0 && j->epilogue == CONV_CLAMP && j->h && j->w &&
           reaches_one(j->h, s->stride, j->in.top, j->in.h) && reaches_one(j->w, s->stride, j->in.left, j->in.w);
}

/* One row of eight channels: runs of pixels whose windows have the same columns inside. */
static void row_of(const struct conv_job *j, struct run r, struct inside y)
{
    const float *in = r.in;
    float *out = r.out;
    for (size_t x = 0, end; x < j->w; x = end) {
        struct inside columns = inside_of(x, j->shape.stride, j->in.left, j->in.w);
        for (end = x + 1; end < j->w; end++) {
            struct inside next = inside_of(end, j->shape.stride, j->in.left, j->in.w);
            if (next.begin != columns.begin || next.end != columns.end)
                break;
        }
        r.in = in + x * r.step;
        r.out = out + x * r.out_pixel;
        r.count = end - x;
        run_some(&r, y, columns);
    }
}

void conv_depthwise_clamp_avx2(const struct conv_job *j)
{
    const struct conv_strides *s = &j->in.strides;
    size_t stride = j->shape.stride;
    for (size_t n = 0; n < j->images; n++)
        for (size_t y = 0; y < j->h; y++) {
            struct inside rows = inside_of(y, stride, j->in.top, j->in.h);
            /* Sums of offsets, as the corner may lie before the image. */
            ptrdiff_t corner = (ptrdiff_t)(n * s->image + y * stride * s->row) - (ptrdiff_t)(j->in.top * s->row + j->in.left * s->pixel);
            for (size_t c = 0; c < j->shape.co; c += VECTOR)
                row_of(j,
                       (struct run){.in = j->in.data + corner + (ptrdiff_t)c,
                                    .weights = j->weights + c * TAPS,
                                    .bias = j->bias ? j->bias + c : NULL,
                                    .row = s->row,
                                    .pixel = s->pixel,
                                    .step = stride * s->pixel,
                                    .out = (float *)j->out + n * j->out_strides.image + y * j->out_strides.row + c,
                                    .out_pixel = j->out_strides.pixel,
                                    .low = _mm256_set1_ps(j->low),
                                    .high = _mm256_set1_ps(j->high)},
                       rows);
        }
}
