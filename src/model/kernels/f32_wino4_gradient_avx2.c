/* f32_wino4_gradient_avx2.c: weight gradient and weight transforms of wino4 with AVX2 and FMA.
 *
 * The gradient of the transformed weights is, per frequency, vᵀ · d: the input transformed as in the forward pass times the
 * transformed gradient d[co/16][36][tile][16], summed over tiles. One frequency of both lies in the first-level cache. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/wino4_avx2.h"

#include <string.h>

/* ---- Products: u[rows][16] (+)= vᵀ · d over n tiles ---- */

/* One tile of the sum. The first one multiplies: sums that start from one zeroed register are slower. */
WINO4_INLINE void product_step(const float *v, const float *d, unsigned rows, bool first, __m256 low[6], __m256 high[6])
{
    const __m256 d0 = _mm256_loadu_ps(d), d1 = _mm256_loadu_ps(d + 8);
    WINO4_UNROLL
    for (unsigned i = 0; i < rows; i++) {
        __m256 x = _mm256_broadcast_ss(v + i);
        low[i] = first ? _mm256_mul_ps(x, d0) : _mm256_fmadd_ps(x, d0, low[i]);
        high[i] = first ? _mm256_mul_ps(x, d1) : _mm256_fmadd_ps(x, d1, high[i]);
    }
}

WINO4_INLINE void product_rows(const float *v, size_t stride, const float *d, size_t n, float *u, unsigned rows, bool add)
{
    __m256 low[6], high[6];
    product_step(v, d, rows, true, low, high);
#pragma GCC unroll 3
    for (size_t t = 1; t < n; t++)
        product_step(v + t * stride, d + t * WINO4_PANEL, rows, false, low, high);
    WINO4_UNROLL
    for (unsigned i = 0; i < rows; i++) {
        float *to = u + WINO4_PANEL * i;
        _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), low[i]) : low[i]);
        _mm256_storeu_ps(to + 8, add ? _mm256_add_ps(_mm256_loadu_ps(to + 8), high[i]) : high[i]);
    }
}

WINO4_INLINE void product(const float *v, size_t ci, const float *d, size_t n, float *u, bool add)
{
    const size_t stride = wino4_round(ci, 8);
    for (size_t left = ci; left > 0;) {
        unsigned rows = next_rows(left);
        switch (rows) {
        case 6:
            product_rows(v, stride, d, n, u, 6, add);
            break;
        case 5:
            product_rows(v, stride, d, n, u, 5, add);
            break;
        case 4:
            product_rows(v, stride, d, n, u, 4, add);
            break;
        case 3:
            product_rows(v, stride, d, n, u, 3, add);
            break;
        case 2:
            product_rows(v, stride, d, n, u, 2, add);
            break;
        default:
            product_rows(v, stride, d, n, u, 1, add);
        }
        left -= rows;
        v += rows;
        u += rows * WINO4_PANEL;
    }
}

/* ---- The gradient's transform ---- */

WINO4_INLINE __m256 even_part(__m256 square, __m256 y0, __m256 y2)
{
    return _mm256_fmadd_ps(square, y2, y0);
}

WINO4_INLINE __m256 odd_part(__m256 point, __m256 square, __m256 y1, __m256 y3)
{
    return _mm256_mul_ps(point, _mm256_add_ps(y1, _mm256_mul_ps(square, y3)));
}

/* Horizontal transform of one row: six frequencies. */
WINO4_INLINE void gradient_row(const __m256 y[4], float *d)
{
    const __m256 a = _mm256_set1_ps(WINO4_A), b = _mm256_set1_ps(WINO4_B);
    const __m256 aa = _mm256_set1_ps(WINO4_AA), bb = _mm256_set1_ps(WINO4_BB);
    __m256 even = even_part(aa, y[0], y[2]), odd = odd_part(a, aa, y[1], y[3]);
    _mm256_storeu_ps(d, y[0]);
    _mm256_storeu_ps(d + WINO4_PANEL_PITCH, _mm256_add_ps(even, odd));
    _mm256_storeu_ps(d + 2 * WINO4_PANEL_PITCH, _mm256_sub_ps(even, odd));
    even = even_part(bb, y[0], y[2]);
    odd = odd_part(b, bb, y[1], y[3]);
    _mm256_storeu_ps(d + 3 * WINO4_PANEL_PITCH, _mm256_add_ps(even, odd));
    _mm256_storeu_ps(d + 4 * WINO4_PANEL_PITCH, _mm256_sub_ps(even, odd));
    _mm256_storeu_ps(d + 5 * WINO4_PANEL_PITCH, y[3]);
}

/* Eight channels of one tile, of which h × w pixels exist: to load pixels three times is cheaper than to spill half a
 * transform. */
struct gradient_tile {
    const float *from;
    struct conv_strides s;
    size_t h, w;
    bool whole;
    __m256i lanes;
};

WINO4_INLINE __m256 gradient_pixel(const struct gradient_tile *t, size_t i, size_t j)
{
    return i < t->h && j < t->w ? load_lanes(t->from + i * t->s.row + j * t->s.pixel, t->whole, t->lanes) : _mm256_setzero_ps();
}

/* The two frequencies of a pair of points, vertically. */
WINO4_INLINE void gradient_pair(const struct gradient_tile *t, float point, float *d)
{
    const __m256 p = _mm256_set1_ps(point), square = _mm256_set1_ps(point == WINO4_A ? WINO4_AA : WINO4_BB);
    __m256 plus[4], minus[4];
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++) {
        __m256 even = even_part(square, gradient_pixel(t, 0, j), gradient_pixel(t, 2, j));
        __m256 odd = odd_part(p, square, gradient_pixel(t, 1, j), gradient_pixel(t, 3, j));
        plus[j] = _mm256_add_ps(even, odd);
        minus[j] = _mm256_sub_ps(even, odd);
    }
    gradient_row(plus, d);
    gradient_row(minus, d + 6 * WINO4_PANEL_PITCH);
}

WINO4_INLINE void gradient_tile(const struct gradient_tile *t, float *d)
{
    __m256 first[4], last[4];
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++)
        first[j] = gradient_pixel(t, 0, j);
    gradient_row(first, d);
    gradient_pair(t, WINO4_A, d + 6 * WINO4_PANEL_PITCH);
    gradient_pair(t, WINO4_B, d + 18 * WINO4_PANEL_PITCH);
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++)
        last[j] = gradient_pixel(t, 3, j);
    gradient_row(last, d + 30 * WINO4_PANEL_PITCH);
}

/* Tiles `at`…`end` of all channels to d[co/16][36][tile][16]. */
static void gradient_block(const struct wino4_weight_gradient *g, const struct wino4_grid *grid, size_t at, size_t end,
                           float *d)
{
    const struct conv_strides s = g->gradient.strides;
    for (size_t first = at; at < end;) {
        struct wino4_run r = wino4_run_at(grid, at, end);
        for (size_t i = 0; i < r.count; i++, at++) {
            size_t x = r.x + 4 * i, h = g->h - r.y < 4 ? g->h - r.y : 4, w = g->w - x < 4 ? g->w - x : 4;
            const float *from = g->gradient.data + wino4_offset(&s, r.image, r.y, x);
            float *to = d + (at - first) * WINO4_PANEL;
            for (size_t c = 0; c < wino4_round(g->co, WINO4_PANEL); c += 8) {
                float *panel = to + c / WINO4_PANEL * WINO4_FREQS * WINO4_PANEL_PITCH + c % WINO4_PANEL;
                if (c + 8 <= g->co && h == 4 && w == 4)
                    gradient_tile(&(struct gradient_tile){from + c, s, 4, 4, true, first_lanes(8)}, panel);
                else if (c < g->co)
                    gradient_tile(&(struct gradient_tile){from + c, s, h, w, false, first_lanes(g->co - c)}, panel);
                else
                    gradient_tile(&(struct gradient_tile){from, s, 0, 0, false, first_lanes(0)}, panel);
            }
        }
    }
}

/* ---- The weight gradient ---- */

WINO4_INLINE void weight_gradient_with(const struct wino4_weight_gradient *g, void *scratch, size_t ci, bool fast)
{
    const size_t tiles = wino4_gradient_tiles(ci, g->co), panels = (g->co + WINO4_PANEL - 1) / WINO4_PANEL;
    const size_t pitch = wino4_pitch(tiles, wino4_round(ci, 8));
    const struct wino4_grid grid = wino4_grid_of(g->images, g->h, g->w);
    float *columns = scratch, *v = columns + WINO4_COLUMNS, *d = v + WINO4_FREQS * pitch;
    struct ahead ahead = ahead_make(&g->ahead, (grid.total + tiles - 1) / tiles * WINO4_FREQS * panels);
    bool add = g->accumulate;
    for (size_t at = 0; at < grid.total; at += tiles, add = true) {
        size_t end = grid.total - at < tiles ? grid.total : at + tiles;
        input_block(&g->in, &grid, at, end, ci, fast, columns, v, pitch);
        gradient_block(g, &grid, at, end, d);
        for (size_t f = 0; f < WINO4_FREQS; f++)
            for (size_t p = 0; p < panels; p++) {
                ahead_fetch(&ahead);
                product(v + f * pitch, ci, d + (p * WINO4_FREQS + f) * WINO4_PANEL_PITCH, end - at,
                        g->transformed + (p * WINO4_FREQS + f) * ci * WINO4_PANEL, add);
            }
    }
    if (!add)
        memset(g->transformed, 0, wino4_weights_bytes(g->ci, g->co));
}

static void weight_gradient_16(const struct wino4_weight_gradient *g, void *scratch)
{
    weight_gradient_with(g, scratch, 16, true);
}

static void weight_gradient_32(const struct wino4_weight_gradient *g, void *scratch)
{
    weight_gradient_with(g, scratch, 32, true);
}

static void weight_gradient_64(const struct wino4_weight_gradient *g, void *scratch)
{
    weight_gradient_with(g, scratch, 64, true);
}

static void weight_gradient_128(const struct wino4_weight_gradient *g, void *scratch)
{
    weight_gradient_with(g, scratch, 128, true);
}

static void weight_gradient_16s(const struct wino4_weight_gradient *g, void *scratch) /* another multiple of 16 */
{
    weight_gradient_with(g, scratch, g->ci, true);
}

static void weight_gradient_any(const struct wino4_weight_gradient *g, void *scratch)
{
    weight_gradient_with(g, scratch, g->ci, false);
}

static void weight_gradient(const struct wino4_weight_gradient *g, void *scratch)
{
    if (g->ci % 16 != 0 || g->in.strides.pixel != g->ci)
        weight_gradient_any(g, scratch);
    else if (g->ci == 16)
        weight_gradient_16(g, scratch);
    else if (g->ci == 32)
        weight_gradient_32(g, scratch);
    else if (g->ci == 64)
        weight_gradient_64(g, scratch);
    else if (g->ci == 128)
        weight_gradient_128(g, scratch);
    else
        weight_gradient_16s(g, scratch);
}

/* 36 frequencies of 16 floats. Those of weights may lie a power of two apart and share few lines of the cache: transforms work
 * on a copy and touch each line once. */
WINO4_INLINE void copy_lines(float *to, size_t to_pitch, const float *from, size_t from_pitch)
{
    for (size_t f = 0; f < WINO4_FREQS; f++) {
        __m256 low = _mm256_loadu_ps(from + f * from_pitch), high = _mm256_loadu_ps(from + f * from_pitch + 8);
        _mm256_storeu_ps(to + f * to_pitch, low);
        _mm256_storeu_ps(to + f * to_pitch + 8, high);
    }
}

WINO4_INLINE void finish_1d(const __m256 u[6], __m256 g[3])
{
    const __m256 a = _mm256_set1_ps(WINO4_A), b = _mm256_set1_ps(WINO4_B), n1 = _mm256_set1_ps(WINO4_N1);
    const __m256 aa = _mm256_set1_ps(WINO4_AA), bb = _mm256_set1_ps(WINO4_BB), n2 = _mm256_set1_ps(WINO4_N2);
    __m256 s1 = _mm256_mul_ps(n1, _mm256_add_ps(u[1], u[2])), d1 = _mm256_mul_ps(n1, _mm256_sub_ps(u[1], u[2]));
    __m256 s2 = _mm256_mul_ps(n2, _mm256_add_ps(u[3], u[4])), d2 = _mm256_mul_ps(n2, _mm256_sub_ps(u[3], u[4]));
    g[0] = _mm256_add_ps(u[0], _mm256_add_ps(s1, s2));
    g[1] = _mm256_fmadd_ps(b, d2, _mm256_mul_ps(a, d1));
    g[2] = _mm256_fmadd_ps(bb, s2, _mm256_fmadd_ps(aa, s1, u[5]));
}

/* Eight kernels side by side from u[36][16]. */
WINO4_INLINE void finish_eight(const float *u, __m256 ret[9])
{
    __m256 of[6], t[3][6], g[3];
    WINO4_UNROLL
    for (size_t j = 0; j < 6; j++) {
        WINO4_UNROLL
        for (size_t k = 0; k < 6; k++)
            of[k] = _mm256_loadu_ps(u + (6 * k + j) * WINO4_PANEL);
        finish_1d(of, g);
        WINO4_UNROLL
        for (size_t y = 0; y < 3; y++)
            t[y][j] = g[y];
    }
    WINO4_UNROLL
    for (size_t y = 0; y < 3; y++)
        finish_1d(t[y], ret + 3 * y);
}

static void weight_gradient_finish(const float *transformed, size_t ci, size_t co, size_t first, size_t count, float *ret_hwio)
{
    float lines[WINO4_FREQS * WINO4_PANEL];
    for (size_t o = first * WINO4_PANEL; o < co && o < (first + count) * WINO4_PANEL; o += WINO4_PANEL)
        for (size_t i = 0; i < ci; i++) {
            copy_lines(lines, WINO4_PANEL, transformed + o * WINO4_FREQS * ci + i * WINO4_PANEL, WINO4_PANEL * ci);
            for (size_t k = 0; k < WINO4_PANEL && o + k < co; k += 8) {
                float *to = ret_hwio + i * co + o + k;
                size_t left = co - o - k;
                __m256 taps[9];
                finish_eight(lines + k, taps);
                for (size_t tap = 0; tap < 9; tap++)
                    store_lanes(to + tap * ci * co, taps[tap], left >= 8, first_lanes(left));
            }
        }
}

/* ---- Weights ---- */

WINO4_INLINE void weights_1d(const __m256 g[3], __m256 u[6])
{
    const __m256 a = _mm256_set1_ps(WINO4_A), b = _mm256_set1_ps(WINO4_B), k = _mm256_set1_ps(WINO4_K);
    const __m256 aa = _mm256_set1_ps(WINO4_AA), bb = _mm256_set1_ps(WINO4_BB), minus_k = _mm256_set1_ps(-WINO4_K);
    __m256 even = _mm256_mul_ps(k, _mm256_fmadd_ps(aa, g[2], g[0])), odd = _mm256_mul_ps(k, _mm256_mul_ps(a, g[1]));
    u[1] = _mm256_add_ps(even, odd);
    u[2] = _mm256_sub_ps(even, odd);
    even = _mm256_mul_ps(minus_k, _mm256_fmadd_ps(bb, g[2], g[0]));
    odd = _mm256_mul_ps(minus_k, _mm256_mul_ps(b, g[1]));
    u[3] = _mm256_add_ps(even, odd);
    u[4] = _mm256_sub_ps(even, odd);
    u[0] = g[0];
    u[5] = g[2];
}

/* Eight kernels side by side to u[36][16]. */
WINO4_INLINE void weights_eight(__m256 g[9], float *u)
{
    __m256 t[6][3], of[3], to[6];
    WINO4_UNROLL
    for (size_t j = 0; j < 3; j++) {
        WINO4_UNROLL
        for (size_t i = 0; i < 3; i++)
            of[i] = g[3 * i + j];
        weights_1d(of, to);
        WINO4_UNROLL
        for (size_t i = 0; i < 6; i++)
            t[i][j] = to[i];
    }
    WINO4_UNROLL
    for (size_t i = 0; i < 6; i++) {
        weights_1d(t[i], to);
        WINO4_UNROLL
        for (size_t j = 0; j < 6; j++)
            _mm256_storeu_ps(u + (6 * i + j) * WINO4_PANEL, to[j]);
    }
}

static void weights(const float *hwio, size_t ci, size_t co, float *ret)
{
    float lines[WINO4_FREQS * WINO4_PANEL];
    for (size_t o = 0; o < co; o += WINO4_PANEL)
        for (size_t i = 0; i < ci; i++) {
            for (size_t k = 0; k < WINO4_PANEL; k += 8) {
                size_t left = co > o + k ? co - o - k : 0;
                const float *from = hwio + i * co + (left ? o + k : 0);
                __m256 g[9];
                for (size_t tap = 0; tap < 9; tap++)
                    g[tap] = load_lanes(from + tap * ci * co, left >= 8, first_lanes(left));
                weights_eight(g, lines + k);
            }
            copy_lines(ret + o * WINO4_FREQS * ci + i * WINO4_PANEL, WINO4_PANEL * ci, lines, WINO4_PANEL);
        }
}

WINO4_INLINE void transpose(__m256 v[8])
{
    __m256 t[8];
    for (size_t i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        v[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        v[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        v[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        v[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(v[i], v[i + 4], 0x31);
    }
    memcpy(v, t, sizeof(t));
}

/* Taps of eight input channels from `i` and eight output channels from `o`: [tap][output] vectors of input channels. */
WINO4_INLINE void load_transposed(const float *hwio, size_t ci, size_t co, size_t i, size_t o, __m256 ret[9][8])
{
    const size_t count = co - o < 8 ? co - o : 8;
    for (size_t tap = 0; tap < 9; tap++) {
        for (size_t k = 0; k < 8; k++)
            ret[tap][k] = i + k < ci ? load_lanes(hwio + (tap * ci + i + k) * co + o, count == 8, first_lanes(count))
                                     : _mm256_setzero_ps();
        transpose(ret[tap]);
    }
}

static void weights_back(const float *hwio, size_t ci, size_t co, float *ret)
{
    float lines[WINO4_FREQS * WINO4_PANEL];
    for (size_t i = 0; i < ci; i += WINO4_PANEL)
        for (size_t o = 0; o < co; o += 8) {
            __m256 taps[2][9][8], g[9];
            load_transposed(hwio, ci, co, i, o, taps[0]);
            load_transposed(hwio, ci, co, i + 8, o, taps[1]);
            for (size_t k = 0; k < 8 && o + k < co; k++) {
                for (size_t half = 0; half < 2; half++) {
                    for (size_t tap = 0; tap < 9; tap++)
                        g[tap] = taps[half][8 - tap][k]; /* turned by half a circle */
                    weights_eight(g, lines + 8 * half);
                }
                copy_lines(ret + i * WINO4_FREQS * co + (o + k) * WINO4_PANEL, WINO4_PANEL * co, lines, WINO4_PANEL);
            }
        }
}

void wino4_kernels_init_avx2_gradient(struct wino4_kernels *k)
{
    k->weights = weights;
    k->weights_back = weights_back;
    k->weight_gradient = weight_gradient;
    k->weight_gradient_finish = weight_gradient_finish;
}
