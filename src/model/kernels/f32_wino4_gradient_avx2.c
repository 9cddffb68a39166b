/* f32_wino4_gradient_avx2.c: weight gradient and weight transforms of wino4 with AVX2 and FMA.
 *
 * The gradient of the transformed weights is, per frequency, vᵀ · d: the input transformed as in the forward pass times the
 * transformed gradient d[co/16][36][tile][16], summed over tiles. One frequency of both lies in the first-level cache. */
#include "model/kernels/wino4_avx2.h"

#include <string.h>

/* ---- Products: u[rows][16] (+)= vᵀ · d over n tiles ---- */

/* One tile of the sum. The first one multiplies: sums that start from one zeroed register are slower. */
WINO4_INLINE void product_step(const float *v, const float *d, unsigned rows, bool first, __m256 low[6], __m256 high[6])
{
    const __m256 d0 = _mm256_loadu_ps(d), d1 = _mm256_loadu_ps(d + 8);
#pragma GCC unroll 6
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
#pragma GCC unroll 6
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

WINO4_INLINE void gradient_1d(const __m256 y[4], __m256 m[6])
{
    const __m256 a = _mm256_set1_ps(WINO4_A), b = _mm256_set1_ps(WINO4_B);
    const __m256 aa = _mm256_set1_ps(WINO4_AA), bb = _mm256_set1_ps(WINO4_BB);
    __m256 even = _mm256_fmadd_ps(aa, y[2], y[0]), odd = _mm256_fmadd_ps(aa, y[3], y[1]);
    m[1] = _mm256_fmadd_ps(a, odd, even);
    m[2] = _mm256_fnmadd_ps(a, odd, even);
    even = _mm256_fmadd_ps(bb, y[2], y[0]);
    odd = _mm256_fmadd_ps(bb, y[3], y[1]);
    m[3] = _mm256_fmadd_ps(b, odd, even);
    m[4] = _mm256_fnmadd_ps(b, odd, even);
    m[0] = y[0];
    m[5] = y[3];
}

/* Eight channels of one tile, of which h × w pixels exist. */
WINO4_INLINE void gradient_tile(const float *from, const struct wino4_strides *s, size_t h, size_t w, bool whole,
                                __m256i lanes, float *d, size_t pitch)
{
    __m256 t[6][4];
#pragma GCC unroll 4
    for (size_t j = 0; j < 4; j++) {
        __m256 y[4], m[6];
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++)
            y[i] = i < h && j < w ? load_lanes(from + i * s->row + j * s->pixel, whole, lanes) : _mm256_setzero_ps();
        gradient_1d(y, m);
#pragma GCC unroll 6
        for (size_t i = 0; i < 6; i++)
            t[i][j] = m[i];
    }
#pragma GCC unroll 6
    for (size_t i = 0; i < 6; i++) {
        __m256 m[6];
        gradient_1d(t[i], m);
#pragma GCC unroll 6
        for (size_t j = 0; j < 6; j++)
            _mm256_storeu_ps(d + (6 * i + j) * pitch, m[j]);
    }
}

/* Tiles `at`…`end` of all channels to d[co/16][36][tile][16]. */
static void gradient_block(const struct wino4_weight_gradient *g, const struct wino4_grid *grid, size_t at, size_t end,
                           float *d, size_t pitch)
{
    const struct wino4_strides s = g->gradient.strides;
    for (size_t first = at; at < end;) {
        struct wino4_run r = wino4_run_at(grid, at, end);
        for (size_t t = 0; t < r.count; t++, at++) {
            size_t x = r.x + 4 * t, h = g->h - r.y < 4 ? g->h - r.y : 4, w = g->w - x < 4 ? g->w - x : 4;
            const float *from = g->gradient.data + wino4_offset(&s, r.image, r.y, x);
            float *to = d + (at - first) * WINO4_PANEL;
            for (size_t c = 0; c < wino4_round(g->co, WINO4_PANEL); c += 8) {
                float *panel = to + c / WINO4_PANEL * WINO4_FREQS * pitch + c % WINO4_PANEL;
                if (c + 8 > g->co)
                    gradient_tile(from + c, &s, c < g->co ? h : 0, w, false, first_lanes(c < g->co ? g->co - c : 0), panel,
                                  pitch);
                else if (h == 4 && w == 4)
                    gradient_tile(from + c, &s, 4, 4, true, first_lanes(8), panel, pitch);
                else
                    gradient_tile(from + c, &s, h, w, true, first_lanes(8), panel, pitch);
            }
        }
    }
}

/* ---- The weight gradient ---- */

WINO4_INLINE void weight_gradient_with(const struct wino4_weight_gradient *g, void *scratch, size_t ci, bool fast)
{
    const size_t tiles = wino4_gradient_tiles(ci, g->co), panels = (g->co + WINO4_PANEL - 1) / WINO4_PANEL;
    const size_t pitch = wino4_pitch(tiles, wino4_round(ci, 8)), d_pitch = wino4_pitch(tiles, WINO4_PANEL);
    const struct wino4_grid grid = wino4_grid_of(g->images, g->h, g->w);
    float *columns = scratch, *v = columns + WINO4_COLUMNS, *d = v + WINO4_FREQS * pitch;
    bool add = g->accumulate;
    for (size_t at = 0; at < grid.total; at += tiles, add = true) {
        size_t end = grid.total - at < tiles ? grid.total : at + tiles;
        input_block(&g->in, &grid, at, end, ci, fast, columns, v, pitch);
        gradient_block(g, &grid, at, end, d, d_pitch);
        for (size_t f = 0; f < WINO4_FREQS; f++)
            for (size_t p = 0; p < panels; p++)
                product(v + f * pitch, ci, d + (p * WINO4_FREQS + f) * d_pitch, end - at,
                        g->transformed + (p * WINO4_FREQS + f) * ci * WINO4_PANEL, add);
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

static void weight_gradient_finish(const float *transformed, size_t ci, size_t co, float *ret_hwio)
{
    for (size_t i = 0; i < ci; i++)
        for (size_t o = 0; o < co; o += 8) {
            const float *u = transformed + (o / 16 * WINO4_FREQS * ci + i) * 16 + o % 16;
            float *to = ret_hwio + i * co + o;
            __m256 of[6], t[3][6], g[3];
            for (size_t j = 0; j < 6; j++) {
                for (size_t k = 0; k < 6; k++)
                    of[k] = _mm256_loadu_ps(u + (6 * k + j) * 16 * ci);
                finish_1d(of, g);
                for (size_t y = 0; y < 3; y++)
                    t[y][j] = g[y];
            }
            for (size_t y = 0; y < 3; y++) {
                finish_1d(t[y], g);
                for (size_t x = 0; x < 3; x++)
                    store_lanes(to + (3 * y + x) * ci * co, g[x], co - o >= 8, first_lanes(co - o));
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

/* Eight kernels side by side to frequencies `pitch` apart. */
WINO4_INLINE void weights_eight(__m256 g[3][3], float *u, size_t pitch)
{
    __m256 t[6][3], of[3], to[6];
    for (size_t j = 0; j < 3; j++) {
        for (size_t i = 0; i < 3; i++)
            of[i] = g[i][j];
        weights_1d(of, to);
        for (size_t i = 0; i < 6; i++)
            t[i][j] = to[i];
    }
    for (size_t i = 0; i < 6; i++) {
        weights_1d(t[i], to);
        for (size_t j = 0; j < 6; j++)
            _mm256_storeu_ps(u + (6 * i + j) * pitch, to[j]);
    }
}

static void weights(const float *hwio, size_t ci, size_t co, float *ret)
{
    for (size_t i = 0; i < ci; i++)
        for (size_t o = 0; o < wino4_round(co, WINO4_PANEL); o += 8) {
            __m256i lanes = first_lanes(o < co ? co - o : 0);
            __m256 g[3][3];
            for (size_t tap = 0; tap < 9; tap++)
                g[tap / 3][tap % 3] = o < co ? load_lanes(hwio + (tap * ci + i) * co + o, co - o >= 8, lanes) : _mm256_setzero_ps();
            weights_eight(g, ret + (o / 16 * WINO4_FREQS * ci + i) * 16 + o % 16, 16 * ci);
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

static void weights_back(const float *hwio, size_t ci, size_t co, float *ret)
{
    for (size_t i = 0; i < wino4_round(ci, WINO4_PANEL); i += 8)
        for (size_t o = 0; o < co; o += 8) {
            const size_t count = co - o < 8 ? co - o : 8;
            __m256 taps[9][8], g[3][3];
            for (size_t tap = 0; tap < 9; tap++) {
                for (size_t k = 0; k < 8; k++)
                    taps[tap][k] = i + k < ci ? load_lanes(hwio + (tap * ci + i + k) * co + o, count == 8, first_lanes(count))
                                              : _mm256_setzero_ps();
                transpose(taps[tap]);
            }
            for (size_t k = 0; k < count; k++) {
                for (size_t tap = 0; tap < 9; tap++)
                    g[tap / 3][tap % 3] = taps[8 - tap][k];
                weights_eight(g, ret + (i / 16 * WINO4_FREQS * co + o + k) * 16 + i % 16, 16 * co);
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
