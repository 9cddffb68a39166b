/* f32_wino4_gradient_x86.c: weight gradient and weight transforms of wino4, compiled for AVX2 with FMA and for AVX-512: the same bits.
 *
 * The gradient of the transformed weights is, per frequency, vᵀ · d: the input transformed as in the forward pass times the
 * transformed gradient d[co/16][36][tile][16], summed over tiles. One frequency of both lies in the first-level cache. */
#include "model/kernels/ahead_avx2.h"
#include "model/kernels/wino4_x86.h"

#include <string.h>

/* ---- The gradient's transform ---- */

WINO4_INLINE vec even_part(vec square, vec y0, vec y2)
{
    return vec_fma(square, y2, y0);
}

WINO4_INLINE vec odd_part(vec point, vec square, vec y1, vec y3)
{
    return vec_mul(point, vec_add(y1, vec_mul(square, y3)));
}

/* Horizontal transform of one row: six frequencies. */
WINO4_INLINE void gradient_row(const vec y[4], float *d)
{
    const vec a = vec_set(WINO4_A), b = vec_set(WINO4_B);
    const vec aa = vec_set(WINO4_AA), bb = vec_set(WINO4_BB);
    vec even = even_part(aa, y[0], y[2]), odd = odd_part(a, aa, y[1], y[3]);
    vec_store(d, y[0]);
    vec_store(d + WINO4_PANEL_PITCH, vec_add(even, odd));
    vec_store(d + 2 * WINO4_PANEL_PITCH, vec_sub(even, odd));
    even = even_part(bb, y[0], y[2]);
    odd = odd_part(b, bb, y[1], y[3]);
    vec_store(d + 3 * WINO4_PANEL_PITCH, vec_add(even, odd));
    vec_store(d + 4 * WINO4_PANEL_PITCH, vec_sub(even, odd));
    vec_store(d + 5 * WINO4_PANEL_PITCH, y[3]);
}

/* A vector of channels of one tile, of which h × w pixels exist: to load pixels three times is cheaper than to spill half a
 * transform. */
struct gradient_tile {
    const float *from;
    struct conv_strides s;
    size_t h, w;
    bool whole;
    vec_lanes lanes;
};

WINO4_INLINE vec gradient_pixel(const struct gradient_tile *t, size_t i, size_t j)
{
    return i < t->h && j < t->w ? vec_load_lanes(t->from + i * t->s.row + j * t->s.pixel, t->whole, t->lanes) : vec_zero();
}

/* The two frequencies of a pair of points, vertically. */
WINO4_INLINE void gradient_pair(const struct gradient_tile *t, float point, float *d)
{
    const vec p = vec_set(point), square = vec_set(point == WINO4_A ? WINO4_AA : WINO4_BB);
    vec plus[4], minus[4];
    WINO4_UNROLL
    for (size_t j = 0; j < 4; j++) {
        vec even = even_part(square, gradient_pixel(t, 0, j), gradient_pixel(t, 2, j));
        vec odd = odd_part(p, square, gradient_pixel(t, 1, j), gradient_pixel(t, 3, j));
        plus[j] = vec_add(even, odd);
        minus[j] = vec_sub(even, odd);
    }
    gradient_row(plus, d);
    gradient_row(minus, d + 6 * WINO4_PANEL_PITCH);
}

WINO4_INLINE void gradient_tile(const struct gradient_tile *t, float *d)
{
    vec first[4], last[4];
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
            for (size_t c = 0; c < wino4_round(g->co, WINO4_PANEL); c += VEC) {
                float *panel = to + c / WINO4_PANEL * WINO4_FREQS * WINO4_PANEL_PITCH + c % WINO4_PANEL;
                if (c + VEC <= g->co && h == 4 && w == 4)
                    gradient_tile(&(struct gradient_tile){from + c, s, 4, 4, true, vec_first(VEC)}, panel);
                else if (c < g->co)
                    gradient_tile(&(struct gradient_tile){from + c, s, h, w, false, vec_first(g->co - c)}, panel);
                else
                    gradient_tile(&(struct gradient_tile){from, s, 0, 0, false, vec_first(0)}, panel);
            }
        }
    }
}

/* ---- The weight gradient ---- */

WINO4_INLINE void weight_gradient_with(const struct wino4_weight_gradient *g, void *scratch, size_t ci, bool fast)
{
    const size_t tiles = wino4_gradient_tiles(ci, g->co), panels = (g->co + WINO4_PANEL - 1) / WINO4_PANEL;
    const size_t pitch = wino4_pitch(tiles, wino4_round(ci, VEC));
    const struct wino4_grid grid = wino4_grid_of(g->images, g->h, g->w);
    float *columns = scratch, *v = columns + WINO4_COLUMNS, *d = v + WINO4_FREQS * pitch;
    struct ahead ahead = ahead_make(&g->ahead, (grid.total + tiles - 1) / tiles * WINO4_FREQS * ((panels + PANELS - 1) / PANELS));
    bool add = g->accumulate;
    for (size_t at = 0; at < grid.total; at += tiles, add = true) {
        size_t end = grid.total - at < tiles ? grid.total : at + tiles;
        input_block(&g->in, &grid, at, end, ci, fast, columns, v, pitch);
        gradient_block(g, &grid, at, end, d);
        for (size_t f = 0; f < WINO4_FREQS; f++)
            for (size_t k = 0; k < panels; k += PANELS) {
                struct frequency p = {.step = 1, .next = wino4_round(ci, VEC), .n = end - at, .panels = 1, .add = add, .count = ci};
                const float *with = d + (k * WINO4_FREQS + f) * WINO4_PANEL_PITCH;
                float *to = g->transformed + (k * WINO4_FREQS + f) * ci * WINO4_PANEL;
                ahead_fetch(&ahead);
                if (PANELS == 2 && panels - k > 1) {
                    p.panels = 2;
                    p.b_apart = WINO4_FREQS * WINO4_PANEL_PITCH;
                    p.out_apart = WINO4_FREQS * ci * WINO4_PANEL;
                    frequency_multiply(&p, v + f * pitch, with, to);
                } else {
                    frequency_multiply(&p, v + f * pitch, with, to);
                }
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
    for (size_t f = 0; f < WINO4_FREQS; f++)
        for (size_t k = 0; k < WINO4_PANEL; k += VEC)
            vec_store(to + f * to_pitch + k, vec_load(from + f * from_pitch + k));
}

WINO4_INLINE void finish_1d(const vec u[6], vec g[3])
{
    const vec a = vec_set(WINO4_A), b = vec_set(WINO4_B), n1 = vec_set(WINO4_N1);
    const vec aa = vec_set(WINO4_AA), bb = vec_set(WINO4_BB), n2 = vec_set(WINO4_N2);
    vec s1 = vec_mul(n1, vec_add(u[1], u[2])), d1 = vec_mul(n1, vec_sub(u[1], u[2]));
    vec s2 = vec_mul(n2, vec_add(u[3], u[4])), d2 = vec_mul(n2, vec_sub(u[3], u[4]));
    g[0] = vec_add(u[0], vec_add(s1, s2));
    g[1] = vec_fma(b, d2, vec_mul(a, d1));
    g[2] = vec_fma(bb, s2, vec_fma(aa, s1, u[5]));
}

/* A vector of kernels side by side from u[36][16]. */
WINO4_INLINE void finish_vector(const float *u, vec ret[9])
{
    vec of[6], t[3][6], g[3];
    WINO4_UNROLL
    for (size_t j = 0; j < 6; j++) {
        WINO4_UNROLL
        for (size_t k = 0; k < 6; k++)
            of[k] = vec_load(u + (6 * k + j) * WINO4_PANEL);
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
            for (size_t k = 0; k < WINO4_PANEL && o + k < co; k += VEC) {
                float *to = ret_hwio + i * co + o + k;
                size_t left = co - o - k;
                vec taps[9];
                finish_vector(lines + k, taps);
                for (size_t tap = 0; tap < 9; tap++)
                    vec_store_lanes(to + tap * ci * co, taps[tap], left >= VEC, vec_first(left));
            }
        }
}

/* ---- Weights ---- */

WINO4_INLINE void weights_1d(const vec g[3], vec u[6])
{
    const vec a = vec_set(WINO4_A), b = vec_set(WINO4_B), k = vec_set(WINO4_K);
    const vec aa = vec_set(WINO4_AA), bb = vec_set(WINO4_BB), minus_k = vec_set(-WINO4_K);
    vec even = vec_mul(k, vec_fma(aa, g[2], g[0])), odd = vec_mul(k, vec_mul(a, g[1]));
    u[1] = vec_add(even, odd);
    u[2] = vec_sub(even, odd);
    even = vec_mul(minus_k, vec_fma(bb, g[2], g[0]));
    odd = vec_mul(minus_k, vec_mul(b, g[1]));
    u[3] = vec_add(even, odd);
    u[4] = vec_sub(even, odd);
    u[0] = g[0];
    u[5] = g[2];
}

/* A vector of kernels side by side to u[36][16]. */
WINO4_INLINE void weights_vector(vec g[9], float *u)
{
    vec t[6][3], of[3], to[6];
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
            vec_store(u + (6 * i + j) * WINO4_PANEL, to[j]);
    }
}

static void weights(const float *hwio, size_t ci, size_t co, float *ret)
{
    float lines[WINO4_FREQS * WINO4_PANEL];
    for (size_t o = 0; o < co; o += WINO4_PANEL)
        for (size_t i = 0; i < ci; i++) {
            for (size_t k = 0; k < WINO4_PANEL; k += VEC) {
                size_t left = co > o + k ? co - o - k : 0;
                const float *from = hwio + i * co + (left ? o + k : 0);
                vec g[9];
                for (size_t tap = 0; tap < 9; tap++)
                    g[tap] = vec_load_lanes(from + tap * ci * co, left >= VEC, vec_first(left));
                weights_vector(g, lines + k);
            }
            copy_lines(ret + o * WINO4_FREQS * ci + i * WINO4_PANEL, WINO4_PANEL * ci, lines, WINO4_PANEL);
        }
}

/* Stores the transpose of 8 × 8 values, rows WINO4_PANEL apart. */
WINO4_INLINE void store_transposed(const __m256 v[8], float *to)
{
    __m256 t[8], q[8];
    for (size_t i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (size_t i = 0; i < 8; i += 4) {
        q[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        q[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        q[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        q[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_ps(to + i * WINO4_PANEL, _mm256_permute2f128_ps(q[i], q[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * WINO4_PANEL, _mm256_permute2f128_ps(q[i], q[i + 4], 0x31));
    }
}

/* Taps of 16 input channels from `i` and eight output channels from `o`, zeros after the last channel. */
WINO4_INLINE void load_transposed(const float *hwio, size_t ci, size_t co, size_t i, size_t o, float ret[9][8][WINO4_PANEL])
{
    const size_t count = co - o < 8 ? co - o : 8;
    for (size_t tap = 0; tap < 9; tap++)
        for (size_t first = 0; first < WINO4_PANEL; first += 8) {
            __m256 v[8];
            for (size_t k = 0; k < 8; k++)
                v[k] = i + first + k >= ci ? _mm256_setzero_ps()
                       : count == 8        ? _mm256_loadu_ps(hwio + (tap * ci + i + first + k) * co + o)
                                           : _mm256_maskload_ps(hwio + (tap * ci + i + first + k) * co + o, gemm_lanes(count));
            store_transposed(v, ret[tap][0] + first);
        }
}

static void weights_back(const float *hwio, size_t ci, size_t co, float *ret)
{
    float lines[WINO4_FREQS * WINO4_PANEL], taps[9][8][WINO4_PANEL];
    for (size_t i = 0; i < ci; i += WINO4_PANEL)
        for (size_t o = 0; o < co; o += 8) {
            load_transposed(hwio, ci, co, i, o, taps);
            for (size_t k = 0; k < 8 && o + k < co; k++) {
                for (size_t part = 0; part < WINO4_PANEL; part += VEC) {
                    vec g[9];
                    for (size_t tap = 0; tap < 9; tap++)
                        g[tap] = vec_load(taps[8 - tap][k] + part); /* turned by half a circle */
                    weights_vector(g, lines + part);
                }
                copy_lines(ret + i * WINO4_FREQS * co + (o + k) * WINO4_PANEL, WINO4_PANEL * co, lines, WINO4_PANEL);
            }
        }
}

void VEC_NAME(wino4_kernels_init_gradient)(struct wino4_kernels *k)
{
    k->weights = weights;
    k->weights_back = weights_back;
    k->weight_gradient = weight_gradient;
    k->weight_gradient_finish = weight_gradient_finish;
}
