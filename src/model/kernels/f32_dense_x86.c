/* f32_dense_x86.c: the products of dense.h, compiled for AVX2 with FMA and for AVX-512: the same bits. What is used more than once stays in the first caches: a chunk of the kernel for all
 * samples, or 16 inputs of all samples for all units. */
#include "model/kernels/dense.h"
#include "model/kernels/product_x86.h"
#include "model/kernels/turn_avx2.h"

#include <string.h>

#define CHUNK 256 /* inputs */
#define AHEAD 64  /* inputs: samples lie too far apart for the processor to foresee what is read next */
#define LINE  16  /* inputs of a cache line: lines of a sample are fetched together, which memory delivers faster */

extern const struct dense_kernels VEC_NAME(dense_kernels);

_Static_assert(DENSE_PANEL == GEMM_PANEL, "one panel");

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The largest of: a panel of the kernel; the kernel turned around; 16 inputs of all samples and their gradient. */
static size_t scratch_bytes(size_t n, size_t co)
{
    size_t data = CHUNK * co, weights = (n + co + 8) * GEMM_PANEL, forward = CHUNK * GEMM_PANEL;
    size_t most = data > weights ? data : weights;
    return (most > forward ? most : forward) * sizeof(float);
}

/* `rows` rows of up to 16 columns, zeros after them. */
static void pack_columns(const float *from, size_t pitch, size_t rows, size_t columns, float *to)
{
    for (size_t c = 0; c < GEMM_PANEL; c += VEC) {
        const vec_lanes lanes = vec_first(columns > c ? columns - c : 0);
        for (size_t i = 0; i < rows; i++)
            vec_store(to + i * GEMM_PANEL + c, columns > c ? vec_load_lanes(from + i * pitch + c, false, lanes) : vec_zero());
    }
}

/* sum[row] += `depth` inputs of `rows` samples from `s` on, a cache line of each at a time, times a panel of the kernel. Fetches the inputs CHUNK
 * further on; `left`: inputs of a sample from `x` on, 0: fetch none. */
static void forward_tile(const struct dense_job *j, const float *x, size_t s, size_t rows, size_t depth, size_t left, const float *panel, float *sum)
{
    for (size_t k = 0; k < depth; k += LINE) {
        const struct product p = {.source = &x, .segments = 1, .at = s * j->x_pitch + k, .length = smaller(LINE, depth - k), .step = j->x_pitch,
                                  .next = 1, .panel = panel + k * GEMM_PANEL, .panel_pitch = GEMM_PANEL};
        for (size_t i = s; i < s + rows && k + CHUNK < left; i++)
            _mm_prefetch((const char *)(x + i * j->x_pitch + k + CHUNK), _MM_HINT_T1);
        PRODUCT_TILE(rows, 1, true, &p, sum, GEMM_PANEL, 0);
    }
}

static void forward(const struct dense_job *j, float *sum, void *scratch)
{
    for (size_t k = 0; k < j->k; k += CHUNK) {
        size_t depth = smaller(CHUNK, j->k - k);
        const float *x = j->x + k;
        for (size_t first = 0; first < j->co; first += GEMM_PANEL) {
            float *to = sum + first * j->n;
            pack_columns(j->kernel + k * j->co + first, j->co, depth, smaller(GEMM_PANEL, j->co - first), scratch);
            for (size_t s = 0, rows; s < j->n; s += rows) {
                rows = product_rows(j->n - s);
                forward_tile(j, x, s, rows, depth, first == 0 ? j->k - k : 0, scratch, to + s * GEMM_PANEL);
            }
        }
    }
}

/* Columns are inputs: [inputs / 16][co][16]. */
static void pack_turned(const float *kernel, size_t inputs, size_t co, float *to)
{
    for (size_t k = 0; k < inputs; k += 8) {
        float *panel = to + k / GEMM_PANEL * co * GEMM_PANEL + k % GEMM_PANEL;
        if (inputs - k >= 8)
            turn_rows(kernel + k * co, co, 8, co, panel, GEMM_PANEL);
        else
            turn_rows(kernel + k * co, co, inputs - k, co, panel, GEMM_PANEL);
    }
}

static void store_tile(const float *tile, size_t rows, size_t columns, bool adds, float *to, size_t pitch)
{
    for (size_t r = 0; r < rows; r++, to += pitch, tile += GEMM_PANEL)
        for (size_t c = 0; c < columns; c++)
            to[c] = adds ? to[c] + tile[c] : tile[c];
}

/* 16 inputs of `rows` samples. */
static void data_tile(const struct dense_job *j, size_t s, size_t rows, bool adds, const float *turned, float *to, size_t pitch)
{
    const struct product p = {.source = &j->g, .segments = 1, .at = s * j->co, .length = j->co, .step = j->co, .next = 1, .panel = turned,
                              .panel_pitch = GEMM_PANEL};
    if (adds)
        PRODUCT_TILE(rows, 1, true, &p, to, pitch, 0);
    else
        PRODUCT_TILE(rows, 1, false, &p, to, pitch, 0);
}

static void data_turned(const struct dense_job *j, bool adds, const float *turned, float *dx, size_t pitch)
{
    float tile[PRODUCT_ROWS * GEMM_PANEL];
    for (size_t k = 0; k < j->k; k += GEMM_PANEL, turned += GEMM_PANEL * j->co)
        for (size_t s = 0, rows; s < j->n; s += rows) {
            float *to = dx + s * pitch + k;
            rows = product_rows(j->n - s);
            if (k + GEMM_PANEL <= j->k) {
                data_tile(j, s, rows, adds, turned, to, pitch);
            } else {
                data_tile(j, s, rows, false, turned, tile, GEMM_PANEL);
                store_tile(tile, rows, j->k - k, adds, to, pitch);
            }
        }
}

static void data(const struct dense_job *j, bool adds, float *dx, size_t pitch, void *scratch)
{
    struct dense_job part = *j;
    for (size_t k = 0; k < j->k; k += CHUNK) {
        part.k = smaller(CHUNK, j->k - k);
        pack_turned(j->kernel + k * j->co, part.k, j->co, scratch);
        data_turned(&part, adds, scratch, dx + k, pitch);
    }
}

static size_t turned_floats(size_t inputs, size_t co)
{
    return (inputs + GEMM_PANEL - 1) / GEMM_PANEL * GEMM_PANEL * co;
}

/* Gradients of 16 inputs, [unit][input], from `x`, whose samples lie `pitch` apart, to rows of units; `count` of the inputs exist. */
static void weights_of(const struct dense_job *j, const float *x, size_t pitch, bool ahead, size_t count, float *sum, float *gradient)
{
    for (size_t o = 0, rows; o < j->co; o += rows, ahead = false) {
        struct product p = {.source = &j->g, .segments = 1, .at = o, .length = j->n, .step = 1, .next = j->co, .panel = x, .panel_pitch = pitch};
        rows = product_rows(j->co - o);
        if (ahead) {
            p.ahead = AHEAD;
            p.ahead_lines = AHEAD / LINE;
            PRODUCT_TILE(rows, 1, false, &p, sum + o * GEMM_PANEL, GEMM_PANEL, 0);
        } else {
            PRODUCT_TILE(rows, 1, false, &p, sum + o * GEMM_PANEL, GEMM_PANEL, 0);
        }
    }
    for (size_t o = 0; o < j->co; o += 8)
        for (size_t half = 0; half < count; half += 8) {
            __m256 v[8];
            for (size_t i = 0; i < 8; i++)
                v[i] = _mm256_loadu_ps(sum + (o + i) * GEMM_PANEL + half);
            turn(v);
            for (size_t i = 0; i < 8 && half + i < count; i++)
                gemm_store(gradient + (half + i) * j->co + o, v[i], j->co - o);
        }
}

static void weights(const struct dense_job *j, float *gradient, void *scratch)
{
    float *sum = scratch, *last = sum + (j->co + 8) * GEMM_PANEL;
    memset(sum + j->co * GEMM_PANEL, 0, 8 * GEMM_PANEL * sizeof(float)); /* read with the last units */
    size_t whole = j->k / GEMM_PANEL * GEMM_PANEL;
    for (size_t k = 0; k < whole; k += GEMM_PANEL)
        weights_of(j, j->x + k, j->x_pitch, k % AHEAD == 0, GEMM_PANEL, sum, gradient + k * j->co);
    if (whole < j->k) {
        pack_columns(j->x + whole, j->x_pitch, j->n, j->k - whole, last);
        weights_of(j, last, GEMM_PANEL, false, j->k - whole, sum, gradient + whole * j->co);
    }
}

const struct dense_kernels VEC_NAME(dense_kernels) = {.scratch_bytes = scratch_bytes,
                                                 .forward = forward,
                                                 .data = data,
                                                 .turned_floats = turned_floats,
                                                 .turn = pack_turned,
                                                 .data_turned = data_turned,
                                                 .weights = weights};
