/* i8_gemm.h: convolutions of any shape, and dense layers, as a product of windows and weights: what does not depend on the
 * instruction set.
 *
 * A window is a list of runs of bytes: one per kernel row, since its pixels lie side by side, or one per tap with dilation or
 * groups. Runs are padded to multiples of 4 with weights of 0. The pixels of a job are multiplied in blocks, whose windows stay
 * in the cache while the weights go by. */
#ifndef QUANT_KERNELS_I8_GEMM_H
#define QUANT_KERNELS_I8_GEMM_H

#include "quant/kernels/i8_rows.h"

#define I8_BLOCK 96 /* pixels; a multiple of every tile */
#define I8_TILE  24 /* the most pixels of a tile */

struct i8_runs {
    size_t count, bytes, steps; /* steps of 4 inputs per run */
    size_t ci, co;              /* of one group */
};

static inline struct i8_runs i8_runs_of(const struct i8_shape *s)
{
    bool rows = s->dilation == 1 && s->groups == 1;
    struct i8_runs r = {.count = rows ? s->size : s->size * s->size, .ci = s->ci / s->groups, .co = s->co / s->groups};
    r.bytes = rows ? s->size * s->ci : r.ci;
    r.steps = (r.bytes + 3) / 4;
    return r;
}

/* The weight of byte `k` of run `run` for output channel `o` of a group. */
static inline int8_t i8_weight_at(const struct i8_shape *s, const struct i8_runs *r, const int8_t *kernel, size_t group,
                                  size_t run, size_t k, size_t o)
{
    return k < r->bytes && o < r->co ? kernel[(run * r->bytes + k) * s->co + group * r->co + o] : 0;
}

struct i8_block {
    const struct i8_job *job;
    struct i8_runs runs;
    const size_t *offsets;                    /* of each run in a window */
    const uint8_t *pixel[I8_BLOCK + I8_TILE]; /* windows; the last one is repeated: computed and not stored */
    size_t at, count;                         /* output pixels */
};

typedef void i8_run_block(struct i8_block *b);

static inline void i8_finish_block(struct i8_block *b, i8_run_block *run)
{
    for (size_t m = 0; m < I8_TILE; m++)
        b->pixel[b->count + m] = b->pixel[b->count - 1];
    run(b);
    b->at += b->count;
    b->count = 0;
}

/* Windows of the next group of channels. */
static inline void i8_next_group(struct i8_block *b)
{
    for (size_t m = 0; b->job->shape.groups > 1 && m < b->count + I8_TILE; m++)
        b->pixel[m] += b->runs.ci;
}

/* All pixels of the job's rows of an image whose pixels begin at `from`, `width` in a row. */
static inline void i8_run_rows(struct i8_block *b, const uint8_t *from, size_t width, size_t rows, size_t w, i8_run_block *run)
{
    const struct i8_shape *s = &b->job->shape;
    for (size_t y = 0; y < rows; y++)
        for (size_t x = 0; x < w; x++) {
            b->pixel[b->count++] = from + (y * s->stride * width + x * s->stride) * s->ci;
            if (b->count == I8_BLOCK)
                i8_finish_block(b, run);
        }
    if (b->count)
        i8_finish_block(b, run);
}

static inline size_t i8_offsets_bytes(const struct i8_shape *s)
{
    return (i8_runs_of(s).count * sizeof(size_t) + 63) / 64 * 64;
}

static inline size_t i8_gemm_scratch(const struct i8_job *j)
{
    return i8_offsets_bytes(&j->shape) + (i8_is_padded(j) ? i8_padded_bytes(j) : 0);
}

static inline void i8_gemm(const struct i8_job *j, void *scratch, i8_run_block *run)
{
    const struct i8_shape *s = &j->shape;
    struct i8_block b = {.job = j, .runs = i8_runs_of(s), .offsets = scratch};
    bool padded = i8_is_padded(j);
    size_t *offsets = scratch, width = padded ? i8_rows_read(s, j->w) : j->in_w, rows = j->row_end - j->row;
    uint8_t *strip = (uint8_t *)scratch + i8_offsets_bytes(s);
    for (size_t i = 0; i < b.runs.count; i++)
        offsets[i] = b.runs.count == s->size ? i * width * s->ci : (i / s->size * width + i % s->size) * s->dilation * s->ci;
    if (s->size == 1 && s->stride == 1 && !padded && rows == j->h) { /* all pixels are one row */
        i8_run_rows(&b, j->in, 0, 1, j->images * j->h * j->w, run);
        return;
    }
    for (size_t n = 0; n < j->images && rows; n++) {
        const uint8_t *image = j->in + n * j->in_h * j->in_w * s->ci;
        b.at = (n * j->h + j->row) * j->w;
        if (padded)
            i8_pad(j, image, strip, n == 0);
        i8_run_rows(&b, padded ? strip : image + j->row * s->stride * width * s->ci, width, rows, j->w, run);
    }
}

#endif
