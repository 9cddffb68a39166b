/* i8_depthwise3_vnni.c: depthwise 3 × 3 convolutions by vpdpbusd, 64 bytes at a time, exact for every weight.
 *
 * Three rows of a column are interleaved with a zero, four bytes per channel, which one instruction multiplies and sums. A
 * column serves every output that reads it. 64 bytes are a unit: 64 channels of a pixel, two pixels of 32 or four of 16. Packed
 * weights: [part][3 columns][4][64], in the order that unpacking leaves: byte 16 · lane + 4 · i + k of a unit is 32-bit number
 * k of `lane` of vector i. */
#include "quant/kernels/i8_avx512.h"
#include "quant/kernels/i8_rows.h"

#define WIDTH  64
#define COLUMN (4 * WIDTH) /* bytes of weights */
#define INLINE static inline __attribute__((always_inline))

static bool takes(const struct i8_shape *s)
{
    return s->depthwise && s->size == 3 && s->dilation == 1 && s->stride <= 2 &&
           (s->co >= WIDTH || s->co == WIDTH / 2 || s->co == WIDTH / 4);
}

/* Pixels of a unit. */
static size_t pixels_of(const struct i8_shape *s)
{
    return s->co < WIDTH ? WIDTH / s->co : 1;
}

static size_t parts(const struct i8_shape *s)
{
    return (s->co + WIDTH - 1) / WIDTH;
}

/* The last part may overlap the one before. */
static size_t first_channel(const struct i8_shape *s, size_t part)
{
    return s->co < WIDTH ? 0 : part * WIDTH + WIDTH > s->co ? s->co - WIDTH : part * WIDTH;
}

/* The channel of 32-bit number `k` of vector `i`. */
static size_t channel_of(const struct i8_shape *s, size_t part, size_t i, size_t k)
{
    return first_channel(s, part) + (k / 4 * 16 + 4 * i + k % 4) % s->co;
}

static size_t weights_bytes(const struct i8_shape *s)
{
    return parts(s) * 3 * COLUMN;
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    int8_t *to = ret;
    i8_fold_zero(s, kernel, in_zero, bias);
    for (size_t part = 0; part < parts(s); part++)
        for (size_t column = 0; column < 3; column++)
            for (size_t i = 0; i < 4; i++)
                for (size_t k = 0; k < 16; k++)
                    for (size_t row = 0; row < 4; row++)
                        *to++ = row < 3 ? kernel[(row * 3 + column) * s->co + channel_of(s, part, i, k)] : 0;
}

static size_t scratch_bytes(const struct i8_job *j)
{
    return i8_is_padded(j) ? i8_padded_bytes(j) : 0;
}

/* ---- Columns ---- */

struct column {
    __m512i q[4];
};

INLINE struct column interleave(__m512i a, __m512i b, __m512i c)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i low = _mm512_unpacklo_epi8(a, b), high = _mm512_unpackhi_epi8(a, b);
    __m512i low2 = _mm512_unpacklo_epi8(c, zero), high2 = _mm512_unpackhi_epi8(c, zero);
    return (struct column){{_mm512_unpacklo_epi16(low, low2), _mm512_unpackhi_epi16(low, low2),
                            _mm512_unpacklo_epi16(high, high2), _mm512_unpackhi_epi16(high, high2)}};
}

/* 64 bytes side by side. */
INLINE struct column load_column(const uint8_t *from, size_t row)
{
    return interleave(_mm512_loadu_si512(from), _mm512_loadu_si512(from + row), _mm512_loadu_si512(from + 2 * row));
}

/* Two pixels of 32 bytes, or four of 16, at from + at[…]. */
INLINE __m512i gather(const uint8_t *from, const size_t at[4], bool four)
{
    if (!four)
        return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)from)),
                                  _mm256_loadu_si256((const void *)(from + at[1])), 1);
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const void *)from));
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(from + at[1])), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(from + at[2])), 2);
    return _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(from + at[3])), 3);
}

INLINE struct column gather_column(const uint8_t *from, size_t row, const size_t at[4], bool four)
{
    return interleave(gather(from, at, four), gather(from + row, at, four), gather(from + 2 * row, at, four));
}

/* The column of pixels from the second of `a`, or the third, up to the first of `b`, or the second. */
INLINE struct column between(const struct column *a, const struct column *b, const int quarters)
{
    struct column c;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        c.q[i] = quarters == 1 ? _mm512_alignr_epi64(b->q[i], a->q[i], 2) : _mm512_alignr_epi64(b->q[i], a->q[i], 4);
    return c;
}

struct sums {
    __m512i acc[4];
};

INLINE struct sums add_column(struct sums s, const struct column *c, const int8_t *w)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        s.acc[i] = _mm512_dpbusd_epi32(s.acc[i], c->q[i], _mm512_load_si512(w + i * WIDTH));
    return s;
}

/* ---- Results ---- */

/* Biases and factors of a part, in the order of the sums. */
struct ends {
    struct sums bias;
    __m512 factor[4];
    uint8_t *out;
    struct i8_range512 range;
    size_t co;
};

/* Vector `i`, in the order of the sums, of 32-bit numbers of a unit's channels; `wrap`: the last channel of a pixel. */
INLINE __m512i quarters(const void *p, size_t i, size_t wrap)
{
    const int32_t *from = (const int32_t *)p + 4 * i;
    __m512i x = _mm512_castsi128_si512(_mm_loadu_si128((const void *)from));
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(from + (16 & wrap))), 1);
    x = _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(from + (32 & wrap))), 2);
    return _mm512_inserti32x4(x, _mm_loadu_si128((const void *)(from + (48 & wrap))), 3);
}

static struct ends ends_of(const struct i8_job *j, size_t part)
{
    struct ends e = {.out = j->out, .range = i8_range512_of(j->zero, j->low, j->high), .co = j->shape.co};
    size_t channel = first_channel(&j->shape, part), wrap = WIDTH / pixels_of(&j->shape) - 1;
    for (size_t i = 0; i < 4; i++) {
        e.bias.acc[i] = quarters(j->bias + channel, i, wrap);
        e.factor[i] = _mm512_castsi512_ps(quarters(j->factors + channel, i, wrap));
    }
    return e;
}

/* `at`: the first value of the result. */
static __attribute__((noinline)) void store_reals(const struct i8_job *j, const struct ends *e, const struct sums *s, size_t at,
                                                  size_t count)
{
    for (size_t i = 0; i < 4; i++) {
        float x[16];
        _mm512_storeu_ps(x, _mm512_mul_ps(_mm512_cvtepi32_ps(s->acc[i]), e->factor[i]));
        for (size_t k = 0; k < 16; k++) {
            size_t byte = k / 4 * 16 + 4 * i + k % 4;
            if (byte < count)
                j->out_real[at + byte] = x[k] < j->least ? j->least : x[k] > j->most ? j->most : x[k];
        }
    }
}

/* The first `count` values of a unit. */
INLINE void store(const struct i8_job *j, const struct ends *e, struct sums s, size_t at, size_t count)
{
    __m512i x[4];
    if (!e->out) {
        struct sums copy = s; /* `s` stays in registers */
        store_reals(j, e, &copy, at, count);
        return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        x[i] = i8_scale512(s.acc[i], e->factor[i]);
    __m512i q = i8_bytes512(&e->range, x[0], x[1], x[2], x[3]);
    if (count == WIDTH)
        _mm512_storeu_si512(e->out + at, q);
    else
        _mm512_mask_storeu_epi8(e->out + at, ((__mmask64)1 << count) - 1, q);
}

/* ---- Rows: `j->w` results from `at` on. Windows begin at `from`, rows of the input are `row` bytes apart ---- */

/* 64 channels, stride 1: every column is added to three results. */
static void run_near(const struct i8_job *j, const struct ends *shared, const int8_t *w, const uint8_t *from, size_t row,
                     size_t at)
{
    const struct ends e = *shared; /* a copy: stores of bytes may change what is shared */
    size_t co = e.co, width = j->w;
    struct column c = load_column(from, row), next = load_column(from + co, row);
    struct sums first = add_column(add_column(e.bias, &c, w), &next, w + COLUMN), second = add_column(e.bias, &next, w);
    from += 2 * co;
    for (size_t x = 0; x < width; x++, from += co, at += co) {
        c = load_column(from, row);
        first = add_column(first, &c, w + 2 * COLUMN);
        store(j, &e, first, at, WIDTH);
        first = add_column(second, &c, w + COLUMN);
        second = add_column(e.bias, &c, w);
    }
}

/* 64 channels, stride 2: every second column is added to two results. */
static void run_far(const struct i8_job *j, const struct ends *shared, const int8_t *w, const uint8_t *from, size_t row,
                    size_t at)
{
    const struct ends e = *shared;
    size_t co = e.co, width = j->w;
    struct column c = load_column(from, row);
    for (size_t x = 0; x < width; x++, from += 2 * co, at += co) {
        struct column middle = load_column(from + co, row);
        struct sums s = add_column(add_column(e.bias, &c, w), &middle, w + COLUMN);
        c = load_column(from + 2 * co, row);
        store(j, &e, add_column(s, &c, w + 2 * COLUMN), at, WIDTH);
    }
}

/* Some pixels of a unit, stride 1: the columns between two units are parts of both. */
INLINE void run_units(const struct i8_job *j, const struct ends *shared, const int8_t *w, const uint8_t *from, size_t row,
                      size_t at, const size_t pixels)
{
    const struct ends e = *shared;
    const size_t co = WIDTH / pixels;
    size_t width = j->w;
    struct column c = load_column(from, row);
    for (size_t x = 0; x < width; x += pixels, at += WIDTH) {
        struct column next = c;
        if (x + pixels <= width + 1) /* a window reaches it */
            next = load_column(from + (x + pixels) * co, row);
        struct column second = between(&c, &next, pixels == 2 ? 2 : 1), third = pixels == 2 ? next : between(&c, &next, 2);
        struct sums s = add_column(add_column(add_column(e.bias, &c, w), &second, w + COLUMN), &third, w + 2 * COLUMN);
        store(j, &e, s, at, x + pixels <= width ? WIDTH : (width - x) * co);
        c = next;
    }
}

/* Some pixels of a unit, stride 2. */
INLINE void run_far_units(const struct i8_job *j, const struct ends *shared, const int8_t *w, const uint8_t *from, size_t row,
                          size_t at, const size_t pixels)
{
    const struct ends e = *shared;
    const size_t co = WIDTH / pixels;
    size_t width = j->w;
    for (size_t x = 0; x < width; x += pixels, at += WIDTH, from += 2 * WIDTH) {
        size_t count = width - x < pixels ? width - x : pixels, offsets[4] = {0};
        for (size_t i = 0; i < count; i++)
            offsets[i] = 2 * i * co;
        struct sums s = e.bias;
#pragma GCC unroll 3
        for (size_t k = 0; k < 3; k++) {
            struct column c = gather_column(from + k * co, row, offsets, pixels == 4);
            s = add_column(s, &c, w + k * COLUMN);
        }
        store(j, &e, s, at, count * co);
    }
}

static void run_row(const struct i8_job *j, const struct ends *e, const int8_t *w, const uint8_t *from, size_t row, size_t at)
{
    size_t pixels = pixels_of(&j->shape);
    if (j->shape.stride == 1) {
        if (pixels == 1)
            run_near(j, e, w, from, row, at);
        else if (pixels == 2)
            run_units(j, e, w, from, row, at, 2);
        else
            run_units(j, e, w, from, row, at, 4);
    } else if (pixels == 1) {
        run_far(j, e, w, from, row, at);
    } else if (pixels == 2) {
        run_far_units(j, e, w, from, row, at, 2);
    } else {
        run_far_units(j, e, w, from, row, at, 4);
    }
}

static void conv(const struct i8_job *j, void *scratch)
{
    const struct i8_shape *s = &j->shape;
    bool padded = i8_is_padded(j);
    size_t row = (padded ? i8_rows_read(s, j->w) : j->in_w) * s->co;
    for (size_t n = 0; n < j->images && j->row < j->row_end; n++) {
        const uint8_t *image = j->in + n * j->in_h * j->in_w * s->co;
        if (padded)
            i8_pad(j, image, scratch, n == 0);
        const uint8_t *from = padded ? (const uint8_t *)scratch : image + j->row * s->stride * row;
        for (size_t part = 0; part < parts(s); part++) {
            const struct ends e = ends_of(j, part);
            size_t channel = first_channel(s, part);
            for (size_t y = j->row; y < j->row_end; y++)
                run_row(j, &e, (const int8_t *)j->weights + part * 3 * COLUMN, from + (y - j->row) * s->stride * row + channel,
                        row, (n * j->h + y) * j->w * s->co + channel);
        }
    }
}

const struct i8_kernel i8_depthwise3_vnni = {.name = "depthwise 3×3",
                                             .takes = takes,
                                             .weights_bytes = weights_bytes,
                                             .scratch_bytes = scratch_bytes,
                                             .pack = pack,
                                             .conv = conv};
