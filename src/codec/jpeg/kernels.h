/* kernels.h: the inner loops of the decoder and the table that names them; for this folder and its tests.
 *
 * jpeg_kernels_init fills the table with the C reference, then overrides upward by CPU feature. All levels give the same
 * bytes, for any input: those of libjpeg-turbo's own vector code. Where that rounds or wraps to 16 bits, so do they; only
 * data that no encoder writes reaches such values. */
#ifndef CODEC_JPEG_KERNELS_H
#define CODEC_JPEG_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jpeg_decoder;
struct jpeg_place;
struct jpeg_run;

struct jpeg_kernels {
    /* Reads one run to its end, or two runs until one of them ends: each waits for table lookups most of the time. False: an
     * error in the data. */
    bool (*read_one)(const struct jpeg_decoder *d, struct jpeg_run *run);
    bool (*read_two)(const struct jpeg_decoder *d, struct jpeg_run *one, struct jpeg_run *two);
    /* Skips the next MCUs at a place, at most JPEG_GROUP and up to a restart marker. */
    bool (*skip_run)(const struct jpeg_decoder *d, struct jpeg_place *p, uint32_t mcus);

    /* Transforms two blocks of coefficients, multiplied by `quant`, to 8 × 8 samples each, side by side. */
    void (*transform_pair)(const int16_t *a, const int16_t *b, const int16_t *quant, uint8_t *out, size_t stride);
    /* Transforms one block to 4 × 4, 2 × 2 or 1 × 1 samples. */
    void (*transform_4)(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride);
    void (*transform_2)(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride);
    void (*transform_1)(const int16_t *block, const int16_t *quant, uint8_t *out, size_t stride);

    /* Doubles a row of `n` samples, with one more on each side, to 2 × n: weights 3 and 1 of the two nearest. */
    void (*widen)(const uint8_t *in, uint8_t *out, size_t n);
    /* The same between two rows: `near` weighs 3, `far` 1, before the columns do. */
    void (*widen_between)(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n);
    /* Interpolates between two rows without widening; `upper`: the row lies above the middle of `near`. */
    void (*between)(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n, int upper);

    /* YCbCr to RGB, [0], and RGBA, [1]. */
    void (*colour[2])(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n);
};

#define JPEG_ROW_SLACK 64 /* bytes after a row that a kernel may read, and for an output row also write */

void jpeg_kernels_init(struct jpeg_kernels *k, unsigned features);
void jpeg_kernels_init_runs_c(struct jpeg_kernels *k);
void jpeg_kernels_init_transforms_c(struct jpeg_kernels *k);
void jpeg_kernels_init_colours_c(struct jpeg_kernels *k);
void jpeg_kernels_init_runs_bmi2(struct jpeg_kernels *k);
void jpeg_kernels_init_transforms_avx2(struct jpeg_kernels *k);
void jpeg_kernels_init_colours_avx2(struct jpeg_kernels *k);
const struct jpeg_kernels *jpeg_kernels(void); /* the best kernels for this processor */

/* Used for rows and cases that the vector code does not handle. */
void jpeg_transform_pair_c(const int16_t *a, const int16_t *b, const int16_t *quant, uint8_t *out, size_t stride);
void jpeg_colour_rgb_c(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n);
void jpeg_colour_rgba_c(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n);

/* Returns the sample value of a block without AC coefficients. */
static inline uint8_t jpeg_flat(int16_t dc, int16_t quant)
{
    int32_t t = (int16_t)((uint32_t)(dc * quant) << 2);
    int32_t level = (t + 16) >> 5;
    return (uint8_t)((level < -128 ? -128 : level > 127 ? 127 : level) + 128);
}

#endif
