/* i8_rows.h: images as if they were padded, for kernels that read windows without looking at borders. */
#ifndef QUANT_KERNELS_I8_ROWS_H
#define QUANT_KERNELS_I8_ROWS_H

#include "quant/kernels/i8.h"

#include <string.h>

static inline size_t i8_reach(const struct i8_shape *s)
{
    return (s->size - 1) * s->dilation + 1;
}

/* Input rows that `rows` output rows read. */
static inline size_t i8_rows_read(const struct i8_shape *s, size_t rows)
{
    return (rows - 1) * s->stride + i8_reach(s);
}

/* Whether a window reaches beyond the image. */
static inline bool i8_is_padded(const struct i8_job *j)
{
    return j->top || j->left || i8_rows_read(&j->shape, j->h) > j->in_h || i8_rows_read(&j->shape, j->w) > j->in_w;
}

/* Copies `count` pixels from column `x` of row `y`; the zero outside of the image. */
static inline void i8_copy_pixels(const struct i8_job *j, const uint8_t *image, ptrdiff_t y, ptrdiff_t x, size_t count, uint8_t *to)
{
    size_t ci = j->shape.ci;
    if (y < 0 || (size_t)y >= j->in_h) {
        memset(to, j->in_zero, count * ci);
        return;
    }
    size_t before = x < 0 ? (size_t)-x : 0, begin = x < 0 ? 0 : (size_t)x, inside = begin < j->in_w ? j->in_w - begin : 0;
    before = before < count ? before : count;
    inside = inside < count - before ? inside : count - before;
    memset(to, j->in_zero, before * ci);
    memcpy(to + before * ci, image + ((size_t)y * j->in_w + begin) * ci, inside * ci);
    memset(to + (before + inside) * ci, j->in_zero, (count - before - inside) * ci);
}

/* Bytes of what i8_pad writes for all rows, with slack. */
static inline size_t i8_padded_bytes(const struct i8_job *j)
{
    return (i8_rows_read(&j->shape, j->h) * i8_rows_read(&j->shape, j->w) * j->shape.ci + I8_SLACK + 63) / 64 * 64;
}

/* A row of pixels: short, and copied often. */
static inline void i8_copy_row(uint8_t *to, const uint8_t *from, size_t bytes)
{
    if (bytes < 64) {
        memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i + 64 < bytes; i += 64)
        memcpy(to + i, from + i, 64);
    memcpy(to + bytes - 64, from + bytes - 64, 64);
}

/* Copies the pixels that the job's rows of an image read. `fresh`: `to` does not hold another image of this job, whose pixels
 * outside of the image are the same. */
static inline void i8_pad(const struct i8_job *j, const uint8_t *image, uint8_t *to, bool fresh)
{
    size_t ci = j->shape.ci, width = i8_rows_read(&j->shape, j->w), rows = i8_rows_read(&j->shape, j->row_end - j->row);
    size_t first = j->row * j->shape.stride; /* row of the padded image */
    size_t begin = first < j->top ? j->top - first : 0, end = first < j->in_h + j->top ? j->in_h + j->top - first : 0;
    size_t left = j->left < width ? j->left : width, inside = j->in_w < width - left ? j->in_w : width - left;
    uint8_t *filled = to; /* up to here */
    for (size_t y = begin; y < rows && y < end; y++) {
        uint8_t *row = to + (y * width + left) * ci;
        if (fresh)
            memset(filled, j->in_zero, (size_t)(row - filled));
        i8_copy_row(row, image + (first + y - j->top) * j->in_w * ci, inside * ci);
        filled = row + inside * ci;
    }
    if (fresh)
        memset(filled, j->in_zero, (size_t)(to + rows * width * ci - filled));
}

/* Subtracts what a zero point other than 0 adds to each sum, where inputs are multiplied as they are. */
static inline void i8_fold_zero(const struct i8_shape *s, const int8_t *kernel, uint8_t in_zero, int32_t *bias)
{
    size_t count = s->size * s->size * (s->depthwise ? 1 : s->ci / s->groups);
    for (size_t o = 0; o < s->co; o++)
        for (size_t i = 0; i < count; i++)
            bias[o] -= (int32_t)in_zero * kernel[i * s->co + o];
}

#endif
