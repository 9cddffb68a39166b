/* f32_depthwise_x86.c: depthwise 3 × 3 convolution with stride 1 or 2, any padding, a vector of channels at a time: 8 with AVX2, 16 with
 * AVX-512, the same bits.
 *
 * The rows below a run of output pixels are copied, padded, a vector wide: so borders cost no tests, and rows whose pitch is a power of
 * two do not share cache lines. An image is taken in blocks of rows, each for all channels, so that a cache line is fetched once. Weights
 * and their gradient: [channels / VEC][3 × 3][VEC]. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/direct.h"
#include "model/kernels/epilogue_x86.h"

#include <stdint.h>

#define TAPS        9
#define RUN         64                   /* output pixels of one row */
#define WIDEST      (2 * RUN + 3)        /* input pixels below them */
#define HELD        256                  /* pixels whose epilogue is done at once */
#define BLOCK_BYTES ((size_t)64 << 10)   /* of the input, per block of rows */

/* AVX-512 takes whole vectors only: the last channels leave fewer lanes of AVX2 empty. */
static bool takes(const struct conv_shape *s)
{
    return conv_is_plain(s) && s->depthwise && s->size == 3 && (s->stride == 1 || s->stride == 2) && (VEC == 8 || s->ci % VEC == 0);
}

static size_t groups(const struct conv_shape *s)
{
    return (s->ci + VEC - 1) / VEC;
}

static size_t weights_bytes(const struct conv_shape *s)
{
    return groups(s) * TAPS * VEC * sizeof(float);
}

struct scratch {
    float rows[3][WIDEST * VEC]; /* row r of the input lies in rows[r mod 3] */
    float values[2 * HELD * VEC];
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
    for (size_t c = 0; c < groups(s) * VEC; c++)
        for (size_t t = 0; t < TAPS; t++)
            ret[(c / VEC * TAPS + (turned ? TAPS - 1 - t : t)) * VEC + c % VEC] = c < s->ci ? hwc[t * s->ci + c] : 0;
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

/* Mostly one or none: a call of memset, which compilers would make of the loop, takes longer. */
GEMM_INLINE void zero_pixels(float *to, size_t count)
{
    for (; count > 0; count--, to += VEC) {
        vec_store(to, vec_zero());
        __asm__("" : "+r"(to));
    }
}

static void load_row(const struct pass *p, ptrdiff_t y)
{
    float *to = row_at(p, y);
    if (y < 0 || (size_t)y >= p->in->h) {
        zero_pixels(to, p->width);
        return;
    }
    size_t before = p->left < 0 ? (size_t)-p->left : 0, pixel = p->in->strides.pixel;
    before = before < p->width ? before : p->width;
    size_t begin = p->left < 0 ? 0 : (size_t)p->left, count = begin < p->in->w ? p->in->w - begin : 0;
    count = count < p->width - before ? count : p->width - before;
    const float *from = p->in->data + p->image * p->in->strides.image + (size_t)y * p->in->strides.row + begin * pixel + p->first;
    zero_pixels(to, before);
    to += before * VEC;
    if (p->channels >= VEC) {
        for (size_t n = 0; n < count; n++)
            vec_store(to + n * VEC, vec_load(from + n * pixel));
    } else {
        vec_lanes lanes = vec_first(p->channels);
        for (size_t n = 0; n < count; n++)
            vec_store(to + n * VEC, vec_load_lanes(from + n * pixel, false, lanes));
    }
    zero_pixels(to + count * VEC, p->width - before - count);
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
    const vec w0 = vec_load(w), w1 = vec_load(w + VEC), w2 = vec_load(w + 2 * VEC);
    const vec w3 = vec_load(w + 3 * VEC), w4 = vec_load(w + 4 * VEC), w5 = vec_load(w + 5 * VEC);
    const vec w6 = vec_load(w + 6 * VEC), w7 = vec_load(w + 7 * VEC), w8 = vec_load(w + 8 * VEC);
    for (size_t n = 0; n < count; n++, a += stride * VEC, b += stride * VEC, c += stride * VEC, to += VEC) {
        vec x = vec_mul(vec_load(a), w0), y = vec_mul(vec_load(b), w3);
        vec z = vec_mul(vec_load(c), w6);
        x = vec_fma(vec_load(a + VEC), w1, x);
        y = vec_fma(vec_load(b + VEC), w4, y);
        z = vec_fma(vec_load(c + VEC), w7, z);
        x = vec_fma(vec_load(a + 2 * VEC), w2, x);
        y = vec_fma(vec_load(b + 2 * VEC), w5, y);
        z = vec_fma(vec_load(c + 2 * VEC), w8, z);
        vec_store(to, vec_add(vec_add(x, y), z));
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
    const vec w0 = vec_load(w[0]), w1 = taps > 1 ? vec_load(w[1]) : w0;
    const vec w2 = taps > 2 ? vec_load(w[2]) : w0, w3 = taps > 2 ? vec_load(w[3]) : w0;
    for (size_t n = 0; n < count; n++, to += 2 * VEC) {
        vec v = vec_mul(vec_load(from[0] + n * VEC), w0);
        if (taps > 1)
            v = vec_fma(vec_load(from[1] + n * VEC), w1, v);
        if (taps > 2) {
            v = vec_fma(vec_load(from[2] + n * VEC), w2, v);
            v = vec_fma(vec_load(from[3] + n * VEC), w3, v);
        }
        vec_store(to, v);
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
                from[taps] = row + ((ptrdiff_t)(r / 2) - (ptrdiff_t)k - p->left) * VEC;
                weight[taps] = w + ((q % 2 ? 1 : 2 * i) * 3 + (r % 2 ? 1 : 2 * k)) * VEC;
            }
        size_t half = (count - odd + 1) / 2;
        if (taps == 1)
            gather(1, from, weight, half, to + odd * VEC);
        else if (taps == 2)
            gather(2, from, weight, half, to + odd * VEC);
        else
            gather(4, from, weight, half, to + odd * VEC);
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
            float *to = values + (pool ? i * HELD : i * count) * VEC;
            if (gathers)
                gather_pass_row(p, w, top, left, y + i, x, count, to);
            else
                convolve_pass_row(p, w, j->shape.stride, (ptrdiff_t)top, y + i, count, to);
        }
        struct epilogue_run r = {.image = p->image, .y = y, .x = x, .step = 1, .count = pool ? count : now * count, .first = p->first,
                                 .channels = p->channels};
        if (pool)
            epilogue_pool_run(j, &r, values, values + HELD * VEC, VEC);
        else
            epilogue_run(j, &r, values, VEC);
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
                for (size_t first = 0; first < ci; first += VEC) {
                    size_t count = w - x < RUN ? w - x : RUN;
                    struct pass p = {.in = &j->in, .image = image, .first = first, .channels = ci - first, .loaded = PTRDIFF_MIN / 2, .scratch = scratch,
                                     .ahead = &ahead};
                    p.left = gathers ? (ptrdiff_t)((x + left) / 2) - 1 : (ptrdiff_t)(x * j->shape.stride) - (ptrdiff_t)left;
                    p.width = gathers ? count / 2 + 3 : (count - 1) * j->shape.stride + 3;
                    run_rows(j, &p, gathers, top, left, x, count, y, h - y < block ? h : y + block);
                }
    epilogue_end(j);
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

GEMM_INLINE void gradient_row(const float *a, const float *b, const float *c, const float *g, size_t pixel, bool whole, vec_lanes lanes,
                              size_t stride, size_t count, float *sum)
{
    vec s0 = vec_load(sum), s1 = vec_load(sum + VEC), s2 = vec_load(sum + 2 * VEC), s3 = vec_load(sum + 3 * VEC);
    vec s4 = vec_load(sum + 4 * VEC), s5 = vec_load(sum + 5 * VEC), s6 = vec_load(sum + 6 * VEC), s7 = vec_load(sum + 7 * VEC);
    vec s8 = vec_load(sum + 8 * VEC);
    for (size_t n = 0; n < count; n++, a += stride * VEC, b += stride * VEC, c += stride * VEC, g += pixel) {
        vec d = epilogue_load(g, whole, lanes);
        s0 = vec_fma(vec_load(a), d, s0);
        s1 = vec_fma(vec_load(a + VEC), d, s1);
        s2 = vec_fma(vec_load(a + 2 * VEC), d, s2);
        s3 = vec_fma(vec_load(b), d, s3);
        s4 = vec_fma(vec_load(b + VEC), d, s4);
        s5 = vec_fma(vec_load(b + 2 * VEC), d, s5);
        s6 = vec_fma(vec_load(c), d, s6);
        s7 = vec_fma(vec_load(c + VEC), d, s7);
        s8 = vec_fma(vec_load(c + 2 * VEC), d, s8);
    }
    vec_store(sum, s0), vec_store(sum + VEC, s1), vec_store(sum + 2 * VEC, s2), vec_store(sum + 3 * VEC, s3);
    vec_store(sum + 4 * VEC, s4), vec_store(sum + 5 * VEC, s5), vec_store(sum + 6 * VEC, s6), vec_store(sum + 7 * VEC, s7);
    vec_store(sum + 8 * VEC, s8);
}

static void gradient_rows(const struct conv_weight_job *j, struct pass *p, size_t x, size_t count, size_t begin, size_t end)
{
    const struct conv_strides *s = &j->gradient.strides;
    const vec_lanes lanes = vec_first(p->channels);
    float *sum = j->sum + p->first * TAPS;
    for (size_t y = begin; y < end; y++) {
        ptrdiff_t row = (ptrdiff_t)(y * j->shape.stride) - (ptrdiff_t)j->in.top;
        const float *g = j->gradient.data + p->image * s->image + y * s->row + x * s->pixel + p->first;
        load_rows(p, row + 2);
        ahead_fetch(p->ahead);
        const float *a = row_at(p, row), *b = row_at(p, row + 1), *c = row_at(p, row + 2);
        if (p->channels < VEC)
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
                for (size_t first = 0; first < ci; first += VEC) {
                    size_t count = j->w - x < RUN ? j->w - x : RUN;
                    struct pass p = {.in = &j->in, .image = image, .first = first, .channels = ci - first, .loaded = PTRDIFF_MIN / 2, .scratch = scratch, .ahead = &ahead,
                                     .left = (ptrdiff_t)(x * j->shape.stride) - (ptrdiff_t)j->in.left,
                                     .width = (count - 1) * j->shape.stride + 3};
                    gradient_rows(j, &p, x, count, y, j->h - y < block ? j->h : y + block);
                }
}

static void weight_gradient_finish(const struct conv_shape *s, float *sum, size_t first, size_t count, float *ret_hwc)
{
    for (size_t c = first * VEC; c < s->ci && c < (first + count) * VEC; c++)
        for (size_t t = 0; t < TAPS; t++)
            ret_hwc[t * s->ci + c] = sum[(c / VEC * TAPS + t) * VEC + c % VEC];
}

const struct conv_kernel VEC_NAME(conv_depthwise) = {
    .name = VEC == 16 ? "depthwise (avx512)" : "depthwise",
    .numbers = true,
    .takes = takes,
    .weights_bytes = weights_bytes,
    .gradient_bytes = weights_bytes,
    .scratch_bytes = scratch_bytes,
    .panel = VEC,
    .weights_at = weights_at,
    .weights = weights,
    .weights_back = weights_back,
    .conv = conv,
    .data = data,
    .weight_gradient = weight_gradient,
    .gradient_panels = groups,
    .weight_gradient_finish = weight_gradient_finish,
};
