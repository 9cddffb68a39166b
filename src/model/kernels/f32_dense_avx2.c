/* f32_dense_avx2.c: the products of dense.h, CHUNK inputs at a time: what is used more than once stays in the second-level cache,
 * and samples, which lie far apart, are read a kilobyte at a time. */
#include "model/kernels/dense.h"
#include "model/kernels/gemm_avx2.h"

#include <string.h>

#define CHUNK 256 /* inputs */

extern const struct dense_kernels dense_kernels_avx2;

_Static_assert(DENSE_PANEL == GEMM_PANEL, "one panel");

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The largest of: a panel of the kernel; the kernel turned around and a tile; samples of a chunk, all of g and a panel of the
 * gradient. */
static size_t scratch_bytes(size_t n, size_t co)
{
    size_t data = CHUNK * co + 6 * GEMM_PANEL, weights = n * CHUNK + dense_panels(co) * n * GEMM_PANEL + CHUNK * GEMM_PANEL;
    return (data > weights ? data : weights) * sizeof(float) + CHUNK * GEMM_PANEL * sizeof(float);
}

/* `rows` rows of up to 16 columns, zeros after them. */
static void pack_columns(const float *from, size_t pitch, size_t rows, size_t columns, float *to)
{
    __m256i low = gemm_lanes(columns), high = gemm_lanes(columns > 8 ? columns - 8 : 0);
    for (size_t i = 0; i < rows; i++, from += pitch, to += GEMM_PANEL) {
        _mm256_store_ps(to, _mm256_maskload_ps(from, low));
        _mm256_store_ps(to + 8, columns > 8 ? _mm256_maskload_ps(from + 8, high) : _mm256_setzero_ps());
    }
}

static void forward(const struct dense_job *j, float *sum, void *scratch)
{
    memset(sum, 0, dense_panels(j->co) * j->n * GEMM_PANEL * sizeof(float));
    for (size_t k = 0; k < j->k; k += CHUNK) {
        size_t depth = smaller(CHUNK, j->k - k);
        const float *x = j->x + k;
        for (size_t first = 0; first < j->co; first += GEMM_PANEL) {
            float *to = sum + first * j->n;
            pack_columns(j->kernel + k * j->co + first, j->co, depth, smaller(GEMM_PANEL, j->co - first), scratch);
            for (size_t s = 0; s < j->n;) {
                size_t rows = gemm_rows(j->n - s);
                GEMM_TILE(rows, true, &x, 1, s * j->x_pitch, depth, j->x_pitch, 1, scratch, to + s * GEMM_PANEL);
                s += rows;
            }
        }
    }
}

/* Columns are inputs: [inputs / 16][co][16]. */
static void pack_turned(const float *kernel, size_t inputs, size_t co, float *to)
{
    for (size_t k = 0; k < inputs; k += GEMM_PANEL, to += co * GEMM_PANEL)
        for (size_t i = 0; i < GEMM_PANEL; i++)
            for (size_t o = 0; o < co; o++)
                to[o * GEMM_PANEL + i] = k + i < inputs ? kernel[(k + i) * co + o] : 0;
}

static void store_tile(const float *tile, size_t rows, size_t columns, bool adds, float *to, size_t pitch)
{
    __m256i lanes[2] = {gemm_lanes(columns), gemm_lanes(columns > 8 ? columns - 8 : 0)};
    for (size_t r = 0; r < rows; r++, to += pitch, tile += GEMM_PANEL)
        for (size_t half = 0; half < (columns > 8 ? 2 : 1); half++) {
            __m256 v = _mm256_load_ps(tile + 8 * half);
            if (adds)
                v = _mm256_add_ps(v, _mm256_maskload_ps(to + 8 * half, lanes[half]));
            if (columns >= 8 * (half + 1))
                _mm256_storeu_ps(to + 8 * half, v);
            else
                _mm256_maskstore_ps(to + 8 * half, lanes[half], v);
        }
}

static void data(const struct dense_job *j, bool adds, float *dx, size_t pitch, void *scratch)
{
    float *turned = scratch, *tile = turned + CHUNK * j->co;
    for (size_t k = 0; k < j->k; k += CHUNK) {
        size_t inputs = smaller(CHUNK, j->k - k);
        pack_turned(j->kernel + k * j->co, inputs, j->co, turned);
        for (size_t s = 0; s < j->n;) {
            size_t rows = gemm_rows(j->n - s);
            for (size_t first = 0; first < inputs; first += GEMM_PANEL) {
                GEMM_TILE(rows, false, &j->g, 1, s * j->co, j->co, j->co, 1, turned + first * j->co, tile);
                store_tile(tile, rows, smaller(GEMM_PANEL, inputs - first), adds, dx + s * pitch + k + first, pitch);
            }
            s += rows;
        }
    }
}

static void weights(const struct dense_job *j, float *gradient, void *scratch)
{
    float *panels = scratch, *sum = panels + dense_panels(j->co) * j->n * GEMM_PANEL, *samples = sum + CHUNK * GEMM_PANEL;
    const float *source = samples;
    for (size_t first = 0; first < j->co; first += GEMM_PANEL)
        pack_columns(j->g + first, j->co, j->n, smaller(GEMM_PANEL, j->co - first), panels + first * j->n);
    for (size_t k = 0; k < j->k; k += CHUNK) {
        size_t inputs = smaller(CHUNK, j->k - k);
        for (size_t s = 0; s < j->n; s++)
            memcpy(samples + s * CHUNK, j->x + s * j->x_pitch + k, inputs * sizeof(float));
        for (size_t first = 0; first < j->co; first += GEMM_PANEL) {
            size_t width = smaller(GEMM_PANEL, j->co - first);
            for (size_t i = 0; i < inputs;) {
                size_t rows = gemm_rows(inputs - i);
                GEMM_TILE(rows, false, &source, 1, i, j->n, 1, CHUNK, panels + first * j->n, sum + i * GEMM_PANEL);
                i += rows;
            }
            for (size_t i = 0; i < inputs; i++)
                memcpy(gradient + (k + i) * j->co + first, sum + i * GEMM_PANEL, width * sizeof(float));
        }
    }
}

const struct dense_kernels dense_kernels_avx2 = {.scratch_bytes = scratch_bytes, .forward = forward, .data = data, .weights = weights};
