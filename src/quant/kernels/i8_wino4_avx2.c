/* i8_wino4_avx2.c: 3 × 3 convolutions with stride 1 by Winograd's F(4×4, 3×3), exact in integers.
 *
 * With the points 0, ±1, ±2, ∞ the input transform Bᵀ d B has whole coefficients: bytes become at most 17340 in size. The weight
 * transform is multiplied by 24 along columns, and along rows by 4, 6, 6, 24, 24, 1, which the output transform makes up to 24: weights
 * become at most 24 · 7 · 127. So 36 products of 16-bit integers per 4 × 4 outputs replace 144, and the result is 576 times the sum,
 * modulo 2³². Division by 576 is exact: times the inverse of 9 modulo 2³², then a shift by 6, for sums below 2²⁵ in size.
 *
 * Packed weights: [panel of 16][36][pair of inputs][16][2]; V: [36][tile][inputs], M: [36][tile][16]. */
#include "quant/kernels/i8_avx2.h"
#include "quant/kernels/i8_rows.h"

#define POINTS   36
#define TILES    12 /* that are transformed together; a multiple of GROUP */
#define GROUP    6  /* tiles of one product */
#define PANEL    16
#define FEWEST   8  /* channels: with fewer the transforms cost more than they save */
#define INVERSE9 0x38e38e39

static size_t round_16(size_t n)
{
    return (n + 15) / 16 * 16;
}

static bool takes(const struct i8_shape *s)
{
    return s->size == 3 && s->stride == 1 && s->dilation == 1 && s->groups == 1 && !s->depthwise && s->ci >= FEWEST && s->co >= FEWEST &&
           s->sum * 255 < 1 << 25;
}

/* ---- Weights ---- */

static size_t weights_bytes(const struct i8_shape *s)
{
    return POINTS * round_16(s->ci) * round_16(s->co) * sizeof(int16_t);
}

/* U = rows · w · columnsᵀ for one pair of channels. */
static void transform_weights(const int8_t *kernel, size_t tap_stride, int16_t ret[POINTS])
{
    static const int rows[6][3] = {{1, 0, 0}, {-1, -1, -1}, {-1, 1, -1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};
    static const int columns[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4}, {1, 2, 4}, {1, -2, 4}, {0, 0, 24}};
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 6; j++) {
            int sum = 0;
            for (int y = 0; y < 3; y++)
                for (int x = 0; x < 3; x++)
                    sum += rows[i][y] * columns[j][x] * kernel[(size_t)(y * 3 + x) * tap_stride];
            ret[i * 6 + j] = (int16_t)sum;
        }
}

static void pack(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, void *ret, int32_t *bias)
{
    size_t inputs = round_16(s->ci);
    int16_t *to = ret, u[POINTS];
    i8_fold_zero(s, kernel, in_zero, bias);
    memset(ret, 0, weights_bytes(s));
    for (size_t c = 0; c < s->ci; c++)
        for (size_t o = 0; o < s->co; o++) {
            transform_weights(kernel + c * s->co + o, s->ci * s->co, u);
            for (size_t e = 0; e < POINTS; e++)
                to[(((o / PANEL * POINTS + e) * (inputs / 2) + c / 2) * PANEL + o % PANEL) * 2 + c % 2] = u[e];
        }
}

/* ---- Input ---- */

#define ADD(a, b)   _mm256_add_epi16(a, b)
#define SUB(a, b)   _mm256_sub_epi16(a, b)
#define SHIFT(a, n) _mm256_slli_epi16(a, n)

/* One dimension of Bᵀ d. */
static inline void transform_six(const __m256i d[6], __m256i t[6])
{
    __m256i a = SUB(d[4], SHIFT(d[2], 2)), b = SUB(d[3], SHIFT(d[1], 2)), c = SUB(d[4], d[2]), e = SHIFT(SUB(d[3], d[1]), 1);
    t[0] = ADD(SHIFT(SUB(d[0], d[2]), 2), c); /* 4 d0 − 5 d2 + d4 */
    t[1] = ADD(a, b);
    t[2] = SUB(a, b);
    t[3] = ADD(c, e);
    t[4] = SUB(c, e);
    t[5] = ADD(SHIFT(SUB(d[1], d[3]), 2), SUB(d[5], d[3])); /* 4 d1 − 5 d3 + d5 */
}

/* 6 × 6 pixels of `inputs` channels to V. */
static void transform_input(const uint8_t *from, size_t row, size_t pixel, size_t inputs, int16_t *v, size_t step)
{
    for (size_t c = 0; c < inputs; c += 16) {
        __m256i columns[6][6], d[6], t[6];
        for (int x = 0; x < 6; x++) {
#pragma GCC unroll 6
            for (int y = 0; y < 6; y++)
                d[y] = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)(from + (size_t)y * row + (size_t)x * pixel + c)));
            transform_six(d, t);
#pragma GCC unroll 6
            for (int y = 0; y < 6; y++)
                columns[y][x] = t[y];
        }
        for (int y = 0; y < 6; y++) {
            transform_six(columns[y], t);
#pragma GCC unroll 6
            for (int x = 0; x < 6; x++)
                _mm256_storeu_si256((void *)(v + (size_t)(y * 6 + x) * step + c), t[x]);
        }
    }
}

/* ---- Products ---- */

/* M of GROUP tiles at one point. */
static void multiply(const int16_t *v, size_t inputs, const int16_t *u, int32_t *m)
{
    __m256i acc[2 * GROUP];
    for (int i = 0; i < 2 * GROUP; i++)
        acc[i] = _mm256_setzero_si256();
    for (size_t k = 0; k < inputs; k += 2, u += 2 * PANEL) {
        __m256i u0 = _mm256_load_si256((const void *)u), u1 = _mm256_load_si256((const void *)(u + PANEL));
#pragma GCC unroll 6
        for (size_t t = 0; t < GROUP; t++) {
            int32_t pair;
            memcpy(&pair, v + t * inputs + k, sizeof(pair));
            __m256i x = _mm256_set1_epi32(pair);
            acc[2 * t] = _mm256_add_epi32(acc[2 * t], _mm256_madd_epi16(x, u0));
            acc[2 * t + 1] = _mm256_add_epi32(acc[2 * t + 1], _mm256_madd_epi16(x, u1));
        }
    }
#pragma GCC unroll 12
    for (size_t i = 0; i < 2 * GROUP; i++)
        _mm256_store_si256((void *)(m + i * 8), acc[i]);
}

/* ---- Output ---- */

#define ADD32(a, b)   _mm256_add_epi32(a, b)
#define SUB32(a, b)   _mm256_sub_epi32(a, b)
#define SHIFT32(a, n) _mm256_slli_epi32(a, n)

/* Along columns: Aᵀ as it is. */
static inline void finish_columns(const int32_t *m, __m256i y[4])
{
    __m256i p[6];
#pragma GCC unroll 6
    for (size_t i = 0; i < 6; i++)
        p[i] = _mm256_load_si256((const void *)(m + i * TILES * PANEL));
    __m256i s = ADD32(p[1], p[2]), d = SUB32(p[1], p[2]), s2 = ADD32(p[3], p[4]), d2 = SUB32(p[3], p[4]);
    y[0] = ADD32(ADD32(p[0], s), s2);
    y[1] = ADD32(d, SHIFT32(d2, 1));
    y[2] = ADD32(s, SHIFT32(s2, 2));
    y[3] = ADD32(ADD32(d, SHIFT32(d2, 3)), p[5]);
}

/* Along rows: Aᵀ times 6, 4, 4, 1, 1, 24 by column. */
static inline void finish_rows(const __m256i p[6], __m256i y[4])
{
    __m256i s = SHIFT32(ADD32(p[1], p[2]), 2), d = SHIFT32(SUB32(p[1], p[2]), 2), s2 = ADD32(p[3], p[4]), d2 = SHIFT32(SUB32(p[3], p[4]), 1);
    __m256i first = SHIFT32(ADD32(p[0], SHIFT32(p[0], 1)), 1), last = SHIFT32(ADD32(p[5], SHIFT32(p[5], 1)), 3);
    y[0] = ADD32(ADD32(first, s), s2);
    y[1] = ADD32(d, d2);
    y[2] = ADD32(s, SHIFT32(s2, 2));
    y[3] = ADD32(ADD32(d, SHIFT32(d2, 2)), last);
}

/* 4 × 4 sums of 8 channels. */
static inline void sums(const int32_t *m, __m256i ret[4][4])
{
    const __m256i inverse = _mm256_set1_epi32(INVERSE9);
    __m256i half[4][6], y[4];
    for (size_t i = 0; i < 6; i++) {
        finish_columns(m + i * 6 * TILES * PANEL, y);
#pragma GCC unroll 4
        for (int x = 0; x < 4; x++)
            half[x][i] = y[x];
    }
    for (int x = 0; x < 4; x++) {
        finish_rows(half[x], y);
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            ret[r][x] = _mm256_srai_epi32(_mm256_mullo_epi32(y[r], inverse), 6);
    }
}

/* A tile of the output: its image and its first pixel. */
struct place {
    size_t image, y, x;
};

static void finish_tile(const struct i8_job *j, const struct place *p, const int32_t *m, size_t o)
{
    const struct i8_ending e = i8_ending_of(j);
    __m256i a[4][4], b[4][4], bias = i8_bias(&e, o), bias2 = i8_bias(&e, o + 8);
    size_t left = j->shape.co - o, columns = left < PANEL ? left : PANEL, height = j->h, width = j->w, last = j->row_end;
    sums(m, a);
    sums(m + 8, b);
    for (size_t y = 0; y < 4 && p->y + y < last; y++)
        for (size_t x = 0; x < 4 && p->x + x < width; x++)
            i8_store(&e, ADD32(a[y][x], bias), ADD32(b[y][x], bias2), (p->image * height + p->y + y) * width + p->x + x, o, columns);
}

/* ---- All tiles ---- */

/* Scratch: V, M, one padded tile. */
static size_t v_bytes(size_t inputs)
{
    return POINTS * TILES * inputs * sizeof(int16_t);
}

#define M_BYTES (POINTS * TILES * PANEL * sizeof(int32_t))

static size_t scratch_bytes(const struct i8_job *j)
{
    return v_bytes(round_16(j->shape.ci)) + M_BYTES + (36 * j->shape.ci + I8_SLACK + 63) / 64 * 64;
}

static void load_tile(const struct i8_job *j, const struct place *p, uint8_t *patch, int16_t *v)
{
    size_t ci = j->shape.ci, inputs = round_16(ci);
    const uint8_t *image = j->in + p->image * j->in_h * j->in_w * ci;
    ptrdiff_t y = (ptrdiff_t)p->y - (ptrdiff_t)j->top, x = (ptrdiff_t)p->x - (ptrdiff_t)j->left;
    if (y >= 0 && x >= 0 && (size_t)y + 6 <= j->in_h && (size_t)x + 6 <= j->in_w) {
        transform_input(image + ((size_t)y * j->in_w + (size_t)x) * ci, j->in_w * ci, ci, inputs, v, TILES * inputs);
        return;
    }
    for (size_t i = 0; i < 6; i++)
        i8_copy_pixels(j, image, y + (ptrdiff_t)i, x, 6, patch + i * 6 * ci);
    transform_input(patch, 6 * ci, ci, inputs, v, TILES * inputs);
}

static void run_tiles(const struct i8_job *j, const struct place *places, size_t count, int16_t *v)
{
    size_t inputs = round_16(j->shape.ci);
    int32_t *m = (int32_t *)((char *)v + v_bytes(inputs));
    uint8_t *patch = (uint8_t *)m + M_BYTES;
    for (size_t t = 0; t < count; t++)
        load_tile(j, &places[t], patch, v + t * inputs);
    for (size_t o = 0; o < j->shape.co; o += PANEL) {
        const int16_t *u = (const int16_t *)j->weights + o / PANEL * POINTS * inputs * PANEL;
        for (size_t e = 0; e < POINTS; e++)
            for (size_t t = 0; t < count; t += GROUP)
                multiply(v + (e * TILES + t) * inputs, inputs, u + e * inputs * PANEL, m + (e * TILES + t) * PANEL);
        for (size_t t = 0; t < count; t++)
            finish_tile(j, &places[t], m + t * PANEL, o);
    }
}

static void conv(const struct i8_job *j, void *scratch)
{
    struct place places[TILES];
    size_t count = 0;
    for (size_t n = 0; n < j->images; n++)
        for (size_t y = j->row; y < j->row_end; y += 4)
            for (size_t x = 0; x < j->w; x += 4) {
                places[count++] = (struct place){n, y, x};
                if (count == TILES) {
                    run_tiles(j, places, count, scratch);
                    count = 0;
                }
            }
    if (count)
        run_tiles(j, places, count, scratch);
}

const struct i8_kernel i8_wino4_avx2 = {.name = "winograd 4×4 in integers",
                                        .tile = 4,
                                        .takes = takes,
                                        .weights_bytes = weights_bytes,
                                        .scratch_bytes = scratch_bytes,
                                        .pack = pack,
                                        .conv = conv};
