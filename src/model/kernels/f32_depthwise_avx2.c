/* f32_depthwise_avx2.c: depthwise 3 × 3 convolution with stride 1 or 2, any padding, eight channels at a time.
 *
 * The rows below a run of output pixels are copied, padded, eight channels wide: so borders cost no tests, and rows whose pitch
 * is a power of two do not share cache lines. An image is taken in blocks of rows, each for all channels, so that a cache line is
 * fetched once. Weights and their gradient: [channels / 8][3 × 3][8]. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/direct.h"
#include "model/kernels/epilogue_avx2.h"

#include <stdint.h>
#include <string.h>

#define VECTOR      8
#define TAPS        9
#define RUN         64                   /* output pixels of one row */
#define WIDEST      (2 * RUN + 3)        /* input pixels below them */
#define HELD        256                  /* pixels whose epilogue is done at once */
#define BLOCK_BYTES ((size_t)64 << 10)   /* of the input, per block of rows */

static bool takes(const struct conv_shape *s)
{
    return s->depthwise && s->size == 3 && (s->stride == 1 || s->stride == 2);
}

static size_t groups(const struct conv_shape *s)
{
    return (s->ci + VECTOR - 1) / VECTOR;
}

static size_t weights_bytes(const struct conv_shape *s)
{
    return groups(s) * TAPS * VECTOR * sizeof(float);
}

struct scratch {
    float rows[3][WIDEST * VECTOR]; /* row r of the input lies in rows[r mod 3] */
    float values[2 * HELD * VECTOR];
};

static size_t scratch_bytes(const struct conv_shape *s)
{
    (void)s;
    return sizeof(struct scratch);
}

static size_t weights_at(const struct conv_shape *s, size_t channel)
{
    (void)s;
    return channel * TAPS;
}

static void pack(const struct conv_shape *s, const float *hwc, bool turned, float *ret)
{
    for (size_t c = 0; c < groups(s) * VECTOR; c++)
        for (size_t t = 0; t < TAPS; t++)
            ret[(c / VECTOR * TAPS + (turned ? TAPS - 1 - t : t)) * VECTOR + c % VECTOR] = c < s->ci ? hwc[t * s->ci + c] : 0;
}

static void weights(const struct conv_shape *s, const float *hwc, float *ret)
{
    pack(s, hwc, false, ret);
}

/* With stride 1 the data gradient is a convolution with the kernel turned around. */
static void weights_back(const struct conv_shape *s, const float *hwc, float *ret)
{
    pack(s, hwc, s->stride == 1, ret);
}

/* ---- Rows ---- */

/* One pass over some rows: channels from `first` on, input columns from `left` (may be negative). */
struct pass {
    const struct conv_source *in;
    size_t image, first, channels;
    ptrdiff_t left;
    size_t width;
    ptrdiff_t loaded; /* rows before this one are in scratch */
    struct scratch *scratch;
    struct ahead *ahead;
};

static float *row_at(const struct pass *p, ptrdiff_t y)
{
    return p->scratch->rows[(y % 3 + 3) % 3]; /* y may be negative */
}

static void load_row(const struct pass *p, ptrdiff_t y)
{
    float *to = row_at(p, y);
    if (y < 0 || (size_t)y >= p->in->h) {
        memset(to, 0, p->width * VECTOR * sizeof(float));
        return;
    }
    size_t before = p->left < 0 ? (size_t)-p->left : 0, pixel = p->in->strides.pixel;
    before = before < p->width ? before : p->width;
    size_t begin = p->left < 0 ? 0 : (size_t)p->left, count = begin < p->in->w ? p->in->w - begin : 0;
    count = count < p->width - before ? count : p->width - before;
    const float *from = p->in->data + p->image * p->in->strides.image + (size_t)y * p->in->strides.row + begin * pixel + p->first;
    memset(to, 0, before * VECTOR * sizeof(float));
    to += before * VECTOR;
    if (p->channels >= VECTOR) {
        for (size_t n = 0; n < count; n++)
            _mm256_storeu_ps(to + n * VECTOR, _mm256_loadu_ps(from + n * pixel));
    } else {
        __m256i lanes = gemm_lanes(p->channels);
        for (size_t n = 0; n < count; n++)
            _mm256_storeu_ps(to + n * VECTOR, _mm256_maskload_ps(from + n * pixel, lanes));
    }
    memset(to + count * VECTOR, 0, (p->width - before - count) * VECTOR * sizeof(float));
}

/* Rows up to `y` are in scratch; of them the last three. */
static void load_rows(struct pass *p, ptrdiff_t y)
{
    p->loaded = p->loaded < y - 2 ? y - 2 : p->loaded;
    for (; p->loaded <= y; p->loaded++)
        load_row(p, p->loaded);
}

/* ---- Forward, and the data gradient with stride 1 ---- */

GEMM_INLINE void convolve_row(const float *a, const float *b, const float *c, const float *w, size_t stride, size_t count, float *to)
{
    const __m256 w0 = _mm256_loadu_ps(w), w1 = _mm256_loadu_ps(w + 8), w2 = _mm256_loadu_ps(w + 16);
    const __m256 w3 = _mm256_loadu_ps(w + 24), w4 = _mm256_loadu_ps(w + 32), w5 = _mm256_loadu_ps(w + 40);
    const __m256 w6 = _mm256_loadu_ps(w + 48), w7 = _mm256_loadu_ps(w + 56), w8 = _mm256_loadu_ps(w + 64);
    for (size_t n = 0; n < count; n++, a += stride * 8, b += stride * 8, c += stride * 8, to += 8) {
        __m256 x = _mm256_mul_ps(_mm256_loadu_ps(a), w0), y = _mm256_mul_ps(_mm256_loadu_ps(b), w3);
        __m256 z = _mm256_mul_ps(_mm256_loadu_ps(c), w6);
        x = _mm256_fmadd_ps(_mm256_loadu_ps(a + 8), w1, x);
        y = _mm256_fmadd_ps(_mm256_loadu_ps(b + 8), w4, y);
        z = _mm256_fmadd_ps(_mm256_loadu_ps(c + 8), w7, z);
        x = _mm256_fmadd_ps(_mm256_loadu_ps(a + 16), w2, x);
        y = _mm256_fmadd_ps(_mm256_loadu_ps(b + 16), w5, y);
        z = _mm256_fmadd_ps(_mm256_loadu_ps(c + 16), w8, z);
        _mm256_storeu_ps(to, _mm256_add_ps(_mm256_add_ps(x, y), z));
    }
}

/* Output row y of the pass to `to`. */
static void convolve_pass_row(struct pass *p, const float *w, size_t stride, ptrdiff_t top, size_t y, size_t count, float *to)
{
    ptrdiff_t row = (ptrdiff_t)(y * stride) - top;
    load_rows(p, row + 2);
    if (stride == 1)
        convolve_row(row_at(p, row), row_at(p, row + 1), row_at(p, row + 2), w, 1, count, to);
    else
        convolve_row(row_at(p, row), row_at(p, row + 1), row_at(p, row + 2), w, 2, count, to);
}

/* ---- The data gradient with stride 2 ---- */

/* Σ of `taps` products: values from `from[t]` on, a pixel apart, of every second output. */
GEMM_INLINE void gather(size_t taps, const float *const *from, const float *const *w, size_t count, float *to)
{
    const __m256 w0 = _mm256_loadu_ps(w[0]), w1 = taps > 1 ? _mm256_loadu_ps(w[1]) : w0;
    const __m256 w2 = taps > 2 ? _mm256_loadu_ps(w[2]) : w0, w3 = taps > 2 ? _mm256_loadu_ps(w[3]) : w0;
    for (size_t n = 0; n < count; n++, to += 2 * VECTOR) {
        __m256 v = _mm256_mul_ps(_mm256_loadu_ps(from[0] + n * VECTOR), w0);
        if (taps > 1)
            v = _mm256_fmadd_ps(_mm256_loadu_ps(from[1] + n * VECTOR), w1, v);
        if (taps > 2) {
            v = _mm256_fmadd_ps(_mm256_loadu_ps(from[2] + n * VECTOR), w2, v);
            v = _mm256_fmadd_ps(_mm256_loadu_ps(from[3] + n * VECTOR), w3, v);
        }
        _mm256_storeu_ps(to, v);
    }
}

/* Outputs o and taps i with 2 · o + i = q: tap 1 where q is odd, otherwise taps 0 and 2. Columns of the scratch begin at
 * p->left, which is even with its first output's window. */
static void gather_pass_row(struct pass *p, const float *w, size_t top, size_t left, size_t y, size_t x, size_t count, float *to)
{
    size_t q = y + top, row_taps = q % 2 ? 1 : 2;
    load_rows(p, (ptrdiff_t)(q / 2));
    for (size_t odd = 0; odd < 2 && odd < count; odd++) {
        size_t r = x + odd + left, column_taps = r % 2 ? 1 : 2, taps = 0;
        const float *from[4], *weight[4];
        for (size_t i = 0; i < row_taps; i++)
            for (size_t k = 0; k < column_taps; k++, taps++) {
                const float *row = row_at(p, (ptrdiff_t)(q / 2) - (ptrdiff_t)i);
                from[taps] = row + ((ptrdiff_t)(r / 2) - (ptrdiff_t)k - p->left) * VECTOR;
                weight[taps] = w + ((q % 2 ? 1 : 2 * i) * 3 + (r % 2 ? 1 : 2 * k)) * VECTOR;
            }
        size_t half = (count - odd + 1) / 2;
        if (taps == 1)
            gather(1, from, weight, half, to + odd * VECTOR);
        else if (taps == 2)
            gather(2, from, weight, half, to + odd * VECTOR);
        else
            gather(4, from, weight, half, to + odd * VECTOR);
    }
}

/* ---- Blocks of rows ---- */

static bool rows_join(const struct conv_strides *s, size_t w)
{
    return s->row == w * s->pixel;
}

static bool extra_rows_join(const void *data, const struct conv_strides *s, size_t w)
{
    return !data || rows_join(s, w);
}

/* Rows [begin, end) of one run of columns, one group of channels. Epilogues take several rows at once where they can. */
static void run_rows(const struct conv_job *j, struct pass *p, bool gathers, size_t top, size_t left, size_t x, size_t count, size_t begin,
                     size_t end)
{
    const float *w = j->weights + p->first * TAPS;
    bool pool = j->epilogue == CONV_POOL;
    bool joins = count == j->w && rows_join(&j->out_strides, j->w) && extra_rows_join(j->add.data, &j->add.strides, j->w) &&
                 extra_rows_join(j->mask.data, &j->mask.strides, j->w) &&
                 extra_rows_join(j->z.data, &j->z.strides, j->w);
    size_t rows = pool ? 2 : joins ? HELD / count : 1;
    float *values = p->scratch->values;
    for (size_t y = begin; y < end; y += rows) {
        size_t now = end - y < rows ? end - y : rows;
        for (size_t i = 0; i < now; i++) {
            ahead_fetch(p->ahead);
            float *to = values + (pool ? i * HELD : i * count) * VECTOR;
            if (gathers)
                gather_pass_row(p, w, top, left, y + i, x, count, to);
            else
                convolve_pass_row(p, w, j->shape.stride, (ptrdiff_t)top, y + i, count, to);
        }
        struct epilogue_run r = {.image = p->image, .y = y, .x = x, .step = 1, .count = pool ? count : now * count, .first = p->first,
                                 .channels = p->channels};
        if (pool)
            epilogue_pool_run(j, &r, values, values + HELD * VECTOR, VECTOR);
        else
            epilogue_run(j, &r, values, VECTOR);
    }
}

static size_t block_rows(const struct conv_source *in, size_t channels)
{
    size_t rows = BLOCK_BYTES / (in->w * channels * sizeof(float)) / 2 * 2;
    return rows < 8 ? 8 : rows;
}

static void run(const struct conv_job *j, bool gathers, size_t top, size_t left, struct scratch *scratch)
{
    bool pool = j->epilogue == CONV_POOL;
    size_t h = pool ? j->h / 2 * 2 : j->h, w = pool ? j->w / 2 * 2 : j->w, ci = j->shape.ci, block = block_rows(&j->in, ci);
    struct ahead ahead = ahead_make(&j->ahead, j->images * h * ((w + RUN - 1) / RUN) * groups(&j->shape));
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0; y < h; y += block)
            for (size_t x = 0; x < w; x += RUN)
                for (size_t first = 0; first < ci; first += VECTOR) {
                    size_t count = w - x < RUN ? w - x : RUN;
                    struct pass p = {.in = &j->in, .image = image, .first = first, .channels = ci - first, .loaded = PTRDIFF_MIN / 2, .scratch = scratch,
                                     .ahead = &ahead};
                    p.left = gathers ? (ptrdiff_t)((x + left) / 2) - 1 : (ptrdiff_t)(x * j->shape.stride) - (ptrdiff_t)left;
                    p.width = gathers ? count / 2 + 3 : (count - 1) * j->shape.stride + 3;
                    run_rows(j, &p, gathers, top, left, x, count, y, h - y < block ? h : y + block);
                }
}

static void conv(const struct conv_job *j, void *scratch)
{
    run(j, false, j->in.top, j->in.left, scratch);
}

static void data(const struct conv_job *j, void *scratch)
{
    bool gathers = j->shape.stride == 2;
    run(j, gathers, gathers ? j->in.top : 2 - j->in.top, gathers ? j->in.left : 2 - j->in.left, scratch);
}

/* ---- Weight gradient ---- */

GEMM_INLINE void gradient_row(const float *a, const float *b, const float *c, const float *g, size_t pixel, bool whole, __m256i lanes,
                              size_t stride, size_t count, float *sum)
{
    __m256 s0 = _mm256_loadu_ps(sum), s1 = _mm256_loadu_ps(sum + 8), s2 = _mm256_loadu_ps(sum + 16), s3 = _mm256_loadu_ps(sum + 24);
    __m256 s4 = _mm256_loadu_ps(sum + 32), s5 = _mm256_loadu_ps(sum + 40), s6 = _mm256_loadu_ps(sum + 48), s7 = _mm256_loadu_ps(sum + 56);
    __m256 s8 = _mm256_loadu_ps(sum + 64);
    for (size_t n = 0; n < count; n++, a += stride * 8, b += stride * 8, c += stride * 8, g += pixel) {
        __m256 d = epilogue_load(g, whole, lanes);
        s0 = _mm256_fmadd_ps(_mm256_loadu_ps(a), d, s0);
        s1 = _mm256_fmadd_ps(_mm256_loadu_ps(a + 8), d, s1);
        s2 = _mm256_fmadd_ps(_mm256_loadu_ps(a + 16), d, s2);
        s3 = _mm256_fmadd_ps(_mm256_loadu_ps(b), d, s3);
        s4 = _mm256_fmadd_ps(_mm256_loadu_ps(b + 8), d, s4);
        s5 = _mm256_fmadd_ps(_mm256_loadu_ps(b + 16), d, s5);
        s6 = _mm256_fmadd_ps(_mm256_loadu_ps(c), d, s6);
        s7 = _mm256_fmadd_ps(_mm256_loadu_ps(c + 8), d, s7);
        s8 = _mm256_fmadd_ps(_mm256_loadu_ps(c + 16), d, s8);
    }
    _mm256_storeu_ps(sum, s0), _mm256_storeu_ps(sum + 8, s1), _mm256_storeu_ps(sum + 16, s2), _mm256_storeu_ps(sum + 24, s3);
    _mm256_storeu_ps(sum + 32, s4), _mm256_storeu_ps(sum + 40, s5), _mm256_storeu_ps(sum + 48, s6), _mm256_storeu_ps(sum + 56, s7);
    _mm256_storeu_ps(sum + 64, s8);
}

static void gradient_rows(const struct conv_weight_job *j, struct pass *p, size_t x, size_t count, size_t begin, size_t end)
{
    const struct conv_strides *s = &j->gradient.strides;
    const __m256i lanes = gemm_lanes(p->channels);
    float *sum = j->sum + p->first * TAPS;
    for (size_t y = begin; y < end; y++) {
        ptrdiff_t row = (ptrdiff_t)(y * j->shape.stride) - (ptrdiff_t)j->in.top;
        const float *g = j->gradient.data + p->image * s->image + y * s->row + x * s->pixel + p->first;
        load_rows(p, row + 2);
        ahead_fetch(p->ahead);
        const float *a = row_at(p, row), *b = row_at(p, row + 1), *c = row_at(p, row + 2);
        if (p->channels < VECTOR)
            gradient_row(a, b, c, g, s->pixel, false, lanes, j->shape.stride, count, sum);
        else if (j->shape.stride == 1)
            gradient_row(a, b, c, g, s->pixel, true, lanes, 1, count, sum);
        else
            gradient_row(a, b, c, g, s->pixel, true, lanes, 2, count, sum);
    }
}

static void weight_gradient(const struct conv_weight_job *j, void *scratch)
{
    size_t ci = j->shape.ci, block = block_rows(&j->in, ci);
    struct ahead ahead = ahead_make(&j->ahead, j->images * j->h * ((j->w + RUN - 1) / RUN) * groups(&j->shape));
    for (size_t image = 0; image < j->images; image++)
        for (size_t y = 0; y < j->h; y += block)
            for (size_t x = 0; x < j->w; x += RUN)
                for (size_t first = 0; first < ci; first += VECTOR) {
                    size_t count = j->w - x < RUN ? j->w - x : RUN;
                    struct pass p = {.in = &j->in, .image = image, .first = first, .channels = ci - first, .loaded = PTRDIFF_MIN / 2, .scratch = scratch, .ahead = &ahead,
                                     .left = (ptrdiff_t)(x * j->shape.stride) - (ptrdiff_t)j->in.left,
                                     .width = (count - 1) * j->shape.stride + 3};
                    gradient_rows(j, &p, x, count, y, j->h - y < block ? j->h : y + block);
                }
}

static void weight_gradient_finish(const struct conv_shape *s, const float *sum, size_t first, size_t count, float *ret_hwc)
{
    for (size_t c = first * VECTOR; c < s->ci && c < (first + count) * VECTOR; c++)
        for (size_t t = 0; t < TAPS; t++)
            ret_hwc[t * s->ci + c] = sum[(c / VECTOR * TAPS + t) * VECTOR + c % VECTOR];
}

const struct conv_kernel conv_depthwise_avx2 = {
    .name = "depthwise",
    .numbers = true,
    .takes = takes,
    .weights_bytes = weights_bytes,
    .gradient_bytes = weights_bytes,
    .scratch_bytes = scratch_bytes,
    .panel = VECTOR,
    .weights_at = weights_at,
    .weights = weights,
    .weights_back = weights_back,
    .conv = conv,
    .data = data,
    .weight_gradient = weight_gradient,
    .gradient_panels = groups,
    .weight_gradient_finish = weight_gradient_finish,
};
