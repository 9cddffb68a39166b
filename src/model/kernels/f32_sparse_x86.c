/* f32_sparse_x86.c: the kernels of sparse.h, compiled for AVX2 with FMA and for AVX-512: the same bits.
 *
 * A block is 1 to 4 vectors of pixels, so that its inputs stay in a first-level cache. Every output channel has two sums, of its even and
 * of its odd terms: additions of one sum wait for each other. */
#include "model/kernels/sparse.h"
#include "model/kernels/turn_avx2.h"
#include "model/kernels/vector_x86.h"

#define MOST 4                    /* vectors of a block */
#define ROOM ((size_t)16384)      /* floats of the inputs of a block */
#define SIDE 8                    /* channels and pixels that are turned together */

extern const struct sparse_kernel VEC_NAME(sparse_kernel);

static size_t vectors_of(size_t ci)
{
    return ci * VEC * MOST <= ROOM ? MOST : ci * VEC * 2 <= ROOM ? 2 : 1;
}

static size_t block(size_t ci)
{
    return vectors_of(ci) * VEC;
}

static bool takes(size_t ci, size_t co)
{
    return ci > 0 && co % SIDE == 0;
}

static size_t scratch_bytes(size_t ci, size_t co)
{
    return (ci + co) * block(ci) * sizeof(float);
}

/* `channels` of `count` pixels: to[channel][pixel], with some pixels of zeros beyond the last one. */
static void turn_pixels(const float *from, size_t count, size_t channels, size_t width, float *to)
{
    for (size_t p = 0; p < width; p += SIDE)
        if (count >= p + SIDE)
            turn_rows(from + p * channels, channels, SIDE, channels, to + p, width);
        else
            turn_rows(from + p * channels, channels, count > p ? count - p : 0, channels, to + p, width);
}

/* One output channel of a block: y = clamp(sum + bias + y). */
VEC_INLINE void run_channel(const struct sparse_job *j, size_t o, const float *x, float *y, const int vectors)
{
    const struct sparse_term *t = j->terms + j->first[o], *end = j->terms + j->first[o + 1];
    const vec low = vec_set(j->low), high = vec_set(j->high), bias = vec_set(j->bias ? j->bias[o] : 0);
    vec even[MOST], odd[MOST];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++)
        even[v] = odd[v] = vec_zero();
    for (; t + 2 <= end; t += 2) {
        const vec a = vec_set(t[0].value), b = vec_set(t[1].value);
        const float *p = x + t[0].at, *q = x + t[1].at;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) {
            even[v] = vec_fma(a, vec_load(p + v * VEC), even[v]);
            odd[v] = vec_fma(b, vec_load(q + v * VEC), odd[v]);
        }
    }
    if (t < end) {
        const vec a = vec_set(t->value);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            even[v] = vec_fma(a, vec_load(x + t->at + v * VEC), even[v]);
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        vec sum = vec_add(vec_add(even[v], odd[v]), bias);
        sum = j->add ? vec_add(sum, vec_load(y + v * VEC)) : sum;
        vec_store(y + v * VEC, vec_min(high, vec_max(low, sum))); /* NaN stays NaN */
    }
}

static void run_block(const struct sparse_job *j, const float *x, float *y, size_t vectors)
{
    for (size_t o = 0; o < j->co; o++, y += vectors * VEC)
        if (vectors == MOST)
            run_channel(j, o, x, y, MOST);
        else if (vectors == 2)
            run_channel(j, o, x, y, 2);
        else
            run_channel(j, o, x, y, 1);
}

static void conv(const struct sparse_job *j, void *scratch)
{
    size_t vectors = vectors_of(j->ci), width = vectors * VEC;
    float *x = scratch, *y = x + j->ci * width;
    for (size_t at = 0; at < j->pixels; at += width) {
        size_t count = j->pixels - at < width ? j->pixels - at : width;
        turn_pixels(j->in + at * j->ci, count, j->ci, width, x);
        if (j->add)
            turn_pixels(j->add + at * j->co, count, j->co, width, y);
        run_block(j, x, y, vectors);
        for (size_t o = 0; o < j->co; o += SIDE)
            turn_rows(y + o * width, width, SIDE, count, j->out + at * j->co + o, j->co);
    }
}

const struct sparse_kernel VEC_NAME(sparse_kernel) = {
    .name = "sparse", .takes = takes, .block = block, .scratch_bytes = scratch_bytes, .conv = conv};
