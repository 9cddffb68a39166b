/* i8_depthwise3_avx2.c: depthwise 3 × 3 convolutions with weights of 7 bits, 32 bytes at a time.
 *
 * Three rows of a column are interleaved with a zero, four bytes per channel: vpmaddubsw and vpmaddwd sum them. Pairs of products fit 16 bits
 * (255 · 64 · 2 < 32768), so that sums are exact. A column serves every output that reads it. 32 bytes are 32 channels of a pixel, or two
 * pixels of 16 channels. Packed weights: [part][3 columns][4][32], in the order that unpacking leaves. */
#include "quant/kernels/i8_avx2.h"
#include "quant/kernels/i8_rows.h"

#define WIDTH        32
#define EXACT_WEIGHT 64
#define COLUMN       (4 * WIDTH) /* bytes of weights */

/* Two pixels of 16 channels at once. */
static bool is_pair(const struct i8_shape *s)
{
    return s->co == WIDTH / 2;
}

static bool takes(const struct i8_shape *s)
{
    return s->depthwise && s->size == 3 && s->dilation == 1 && s->stride <= 2 && s->most <= EXACT_WEIGHT &&
           (s->co >= WIDTH || (is_pair(s) && s->stride == 1));
}

static size_t parts(const struct i8_shape *s)
{
    return (s->co + WIDTH - 1) / WIDTH;
}

/* The last part may overlap the one before. */
static size_t first_channel(const struct i8_shape *s, size_t part)
{
    return is_pair(s) ? 0 : part * WIDTH + WIDTH > s->co ? s->co - WIDTH : part * WIDTH;
}

static size_t weights_bytes(const struct i8_shape *s)
{
    return parts(s) * 3 * COLUMN;
}

/* The channel of 32-bit lane `lane` of vector `i`. */
static size_t channel_of(const struct i8_shape *s, size_t part, size_t i, size_t lane)
{
    size_t second = is_pair(s) ? 0 : 16;
    return first_channel(s, part) + (lane / 4) * second + 4 * i + lane % 4;
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    int8_t *to = ret;
    i8_fold_zero(s, kernel, in_zero, bias);
    for (size_t part = 0; part < parts(s); part++)
        for (size_t column = 0; column < 3; column++)
            for (size_t i = 0; i < 4; i++)
                for (size_t lane = 0; lane < 8; lane++)
                    for (size_t row = 0; row < 4; row++)
                        *to++ = row < 3 ? kernel[(row * 3 + column) * s->co + channel_of(s, part, i, lane)] : 0;
}

static size_t scratch_bytes(const struct i8_job *j)
{
    return i8_is_padded(j) ? i8_padded_bytes(j) : 0;
}

/* ---- Sums ---- */

#define INLINE static inline __attribute__((always_inline))

INLINE __m256i load(const uint8_t *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* Three rows of a column, interleaved. */
INLINE void load_column(const uint8_t *from, size_t row, __m256i q[4])
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = load(from), b = load(from + row), c = load(from + 2 * row);
    __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
    __m256i low2 = _mm256_unpacklo_epi8(c, zero), high2 = _mm256_unpackhi_epi8(c, zero);
    q[0] = _mm256_unpacklo_epi16(low, low2);
    q[1] = _mm256_unpackhi_epi16(low, low2);
    q[2] = _mm256_unpacklo_epi16(high, high2);
    q[3] = _mm256_unpackhi_epi16(high, high2);
}

INLINE void add_column(__m256i acc[4], const __m256i q[4], const int8_t *w)
{
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(q[i], _mm256_load_si256((const void *)(w + i * WIDTH))), ones));
}

/* Two outputs whose windows are one column apart, or two (`wide`). */
INLINE void sum_two(const uint8_t *from, size_t column, size_t row, const int8_t *w, __m256i a[4], __m256i b[4], bool wide)
{
    __m256i q[4];
    load_column(from, row, q);
    add_column(a, q, w);
    load_column(from + column, row, q);
    add_column(a, q, w + COLUMN);
    if (!wide)
        add_column(b, q, w);
    load_column(from + 2 * column, row, q);
    add_column(a, q, w + 2 * COLUMN);
    add_column(b, q, wide ? w : w + COLUMN);
    load_column(from + 3 * column, row, q);
    add_column(b, q, wide ? w + COLUMN : w + 2 * COLUMN);
    if (wide) {
        load_column(from + 4 * column, row, q);
        add_column(b, q, w + 2 * COLUMN);
    }
}

INLINE void sum_one(const uint8_t *from, size_t column, size_t row, const int8_t *w, __m256i a[4])
{
    __m256i q[4];
    for (size_t k = 0; k < 3; k++) {
        load_column(from + k * column, row, q);
        add_column(a, q, w + k * COLUMN);
    }
}

/* ---- Results ---- */

/* Biases and factors of a part, in the order of the sums. */
struct ends {
    __m256i bias[4];
    __m256 factor[4];
    size_t channel, second; /* first channels of both halves */
    uint8_t *out;
    __m256i zero, low, high;
};

static struct ends ends_of(const struct i8_job *j, size_t part)
{
    struct ends e = {.channel = first_channel(&j->shape, part),
                     .out = j->out,
                     .zero = _mm256_set1_epi16(j->zero),
                     .low = _mm256_set1_epi8((char)j->low),
                     .high = _mm256_set1_epi8((char)j->high)};
    e.second = e.channel + (is_pair(&j->shape) ? 0 : 16);
    for (size_t i = 0; i < 4; i++) {
        const int32_t *b = j->bias + 4 * i;
        const float *f = j->factors + 4 * i;
        e.bias[i] = _mm256_set_m128i(_mm_loadu_si128((const void *)(b + e.second)), _mm_loadu_si128((const void *)(b + e.channel)));
        e.factor[i] = _mm256_set_m128(_mm_loadu_ps(f + e.second), _mm_loadu_ps(f + e.channel));
    }
    return e;
}

/* `at`: the first value of the result; `halves`: 16 bytes each. */
INLINE void store_reals(const struct i8_job *j, const struct ends *e, const __m256i acc[4], size_t at, size_t halves)
{
    float x[8];
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(x, _mm256_mul_ps(_mm256_cvtepi32_ps(acc[i]), e->factor[i]));
        for (size_t k = 0; k < 4 * halves; k++) {
            float y = x[k] < j->least ? j->least : x[k] > j->most ? j->most : x[k];
            j->out_real[at + k / 4 * 16 + 4 * i + k % 4] = y;
        }
    }
}

INLINE void store(const struct i8_job *j, const struct ends *e, const __m256i acc[4], size_t at, size_t halves)
{
    __m256i s[4];
    if (!e->out) {
        store_reals(j, e, acc, at, halves);
        return;
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        s[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(acc[i]), e->factor[i]));
    __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(s[0], s[1]), e->zero), high = _mm256_adds_epi16(_mm256_packs_epi32(s[2], s[3]), e->zero);
    __m256i q = _mm256_packus_epi16(low, high);
    q = _mm256_min_epu8(_mm256_max_epu8(q, e->low), e->high);
    if (halves == 2)
        _mm256_storeu_si256((void *)(e->out + at), q);
    else
        _mm_storeu_si128((void *)(e->out + at), _mm256_castsi256_si128(q));
}

/* ---- Rows ---- */

/* One row of `j->w` results; windows begin at `from`, rows of the input are `row` bytes apart. */
INLINE void run_row(const struct i8_job *j, const struct ends *shared, const int8_t *w, const uint8_t *from, size_t row, size_t at, bool wide)
{
    const struct ends own = *shared, *e = &own; /* a copy: stores of bytes may change what is shared */
    size_t co = j->shape.co, pixels = is_pair(&j->shape) ? 2 : 1, step = is_pair(&j->shape) ? WIDTH : j->shape.stride * co;
    size_t units = (j->w + pixels - 1) / pixels, u = 0, whole = j->w % pixels ? units - 1 : units; /* the last may be half of one */
    __m256i a[4], b[4];
    for (; u + 2 <= whole; u += 2) {
        for (int i = 0; i < 4; i++)
            a[i] = b[i] = e->bias[i];
        sum_two(from + u * step, co, row, w, a, b, wide);
        store(j, e, a, at + u * pixels * co, 2);
        store(j, e, b, at + (u + 1) * pixels * co, 2);
    }
    for (; u < units; u++) {
        for (int i = 0; i < 4; i++)
            a[i] = e->bias[i];
        sum_one(from + u * step, co, row, w, a);
        store(j, e, a, at + u * pixels * co, u < whole ? 2 : 1);
    }
}

static void run_rows(const struct i8_job *j, const uint8_t *from, size_t row, size_t image)
{
    const struct i8_shape *s = &j->shape;
    bool wide = s->stride == 2 || is_pair(s);
    for (size_t part = 0; part < parts(s); part++) {
        struct ends e = ends_of(j, part);
        const int8_t *w = (const int8_t *)j->weights + part * 3 * COLUMN;
        for (size_t y = j->row; y < j->row_end; y++) {
            const uint8_t *begin = from + (y - j->row) * s->stride * row + e.channel;
            size_t at = (image * j->h + y) * j->w * s->co + e.channel;
            if (wide)
                run_row(j, &e, w, begin, row, at, true);
            else
                run_row(j, &e, w, begin, row, at, false);
        }
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
        run_rows(j, padded ? (const uint8_t *)scratch : image + j->row * s->stride * row, row, n);
    }
}

const struct i8_kernel i8_depthwise3_avx2 = {.name = "depthwise 3×3",
                                             .takes = takes,
                                             .weights_bytes = weights_bytes,
                                             .scratch_bytes = scratch_bytes,
                                             .pack = pack,
                                             .conv = conv};
