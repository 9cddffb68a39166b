/* wino4_few_x86.h: the input transform of wino4 for images of up to 4 channels, such as the first layer's.
 *
 * Pixels and channels of a row lie next to each other, so the vertical transform takes whole vectors of them. The horizontal
 * one takes VEC / 4 tiles at a time, four values each, of which the first ci are channels of the tile and the rest are not used. */
#ifndef MODEL_KERNELS_WINO4_FEW_X86_H
#define MODEL_KERNELS_WINO4_FEW_X86_H

#include "model/kernels/rows.h"
#include "model/kernels/wino4_x86.h"

/* Row `y` of the image from column x on, as if padded, `width` pixels: where it lies, if what is read beyond its end is still the
 * image's; otherwise a copy. */
WINO4_INLINE const float *few_row(const struct conv_source *s, size_t image, ptrdiff_t y, ptrdiff_t x, size_t width, size_t ci, float *copy)
{
    if (s->strides.pixel == ci && x >= 0 && (size_t)x + width <= s->w && y >= 0 && (size_t)y + 1 < s->h && s->strides.row >= s->w * ci && s->w * ci >= VEC)
        return s->data + image * s->strides.image + (size_t)y * s->strides.row + (size_t)x * ci;
    rows_copy(s, image, y, x, width, ci, copy);
    return copy;
}

/* Four values of each of VEC / 4 tiles. */
WINO4_INLINE vec few_tiles(const float *p, size_t apart)
{
    __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + apart), 1);
#if VEC == 16
    __m256 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 2 * apart)), _mm_loadu_ps(p + 3 * apart), 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
#else
    return low;
#endif
}

/* A row of tiles `n` of the image to v[36][tile][4]. `x`, `y`: the first output pixel; `rows`: WINO4_FEW_ROWS floats. */
WINO4_INLINE void input_few(const struct conv_source *s, size_t image, size_t y, size_t x, size_t n, size_t ci, float *rows, float *v)
{
    const size_t width = 4 * n + 2;
    const float *row[WINO4_POINTS];
    for (size_t i = 0; i < WINO4_POINTS; i++)
        row[i] = few_row(s, image, (ptrdiff_t)(y + i) - (ptrdiff_t)s->top, (ptrdiff_t)x - (ptrdiff_t)s->left, width, ci, rows + i * WINO4_FEW_ROW);
    for (size_t k = 0; k < width * ci; k += VEC) { /* copies: in place */
        vec d[6], to[6];
        WINO4_UNROLL
        for (size_t i = 0; i < 6; i++)
            d[i] = vec_load(row[i] + k);
        input_1d(d, to);
        WINO4_UNROLL
        for (size_t i = 0; i < 6; i++)
            vec_store(rows + i * WINO4_FEW_ROW + k, to[i]);
    }
    for (size_t i = 0; i < WINO4_POINTS; i++, v += WINO4_POINTS * WINO4_FEW_PITCH)
        for (size_t t = 0; t < n; t += VEC / 4) {
            const float *p = rows + i * WINO4_FEW_ROW + 4 * t * ci;
            vec d[6], to[6];
            WINO4_UNROLL
            for (size_t j = 0; j < 6; j++)
                d[j] = few_tiles(p + j * ci, 4 * ci);
            input_1d(d, to);
            WINO4_UNROLL
            for (size_t j = 0; j < 6; j++)
                vec_store(v + j * WINO4_FEW_PITCH + 4 * t, to[j]);
        }
}

/* The same in up to three parts: tiles that lie inside of the image need no copy of its rows. A part writes up to
 * VEC / 4 - 1 tiles too many, which the next part overwrites. */
WINO4_INLINE void input_few_row(const struct conv_source *s, size_t image, size_t y, size_t x, size_t n, size_t ci, float *rows, float *v)
{
    size_t lead = x < s->left ? (s->left - x + 3) / 4 : 0, inside = s->w + s->left >= x + 6 ? (s->w + s->left - x - 6) / 4 + 1 : 0;
    lead = lead < n ? lead : n;
    inside = inside < lead ? lead : inside < n ? inside : n;
    if (lead > 0)
        input_few(s, image, y, x, lead, ci, rows, v);
    if (inside > lead)
        input_few(s, image, y, x + 4 * lead, inside - lead, ci, rows, v + 4 * lead);
    if (n > inside)
        input_few(s, image, y, x + 4 * inside, n - inside, ci, rows, v + 4 * inside);
}

#endif
