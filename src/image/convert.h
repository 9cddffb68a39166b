/* convert.h: converts rows of 8-bit pixels to the form in a batch: left to right or mirrored, interleaved or one plane per
 * channel, bytes or scaled floating point. Pure: the caller provides the scratch memory.
 *
 * A scaled value is x × scale + bias in single precision: a multiplication, rounded, and an addition, rounded, on every
 * machine and at every SIMD level. */
#ifndef IMAGE_CONVERT_H
#define IMAGE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVERT_PERIOD 24 /* a multiple of every channel count and of the values that SIMD processes at once */

struct convert {
    uint32_t channels; /* 1…4 */
    bool flips;        /* left to right */
    bool planar;       /* channel by channel, `plane` values apart; otherwise pixel by pixel */
    bool scaled;       /* converted to float; otherwise bytes are kept */
    bool streams;      /* floats are written past the caches: for results that are not read soon */
    float scale[4][CONVERT_PERIOD], bias[4][CONVERT_PERIOD]; /* repeated periodically: one row per plane, or all channels in the
                                                                first row */
};

/* `scale` and `bias` have one value per channel; both NULL: bytes are kept. */
void convert_init(struct convert *c, uint32_t channels, bool planar, const float *scale, const float *bias);
/* Returns the scratch bytes for convert_row; 0: `scratch` may be NULL. */
size_t convert_scratch_bytes(const struct convert *c, uint32_t width);
/* A row of `width` pixels; `out` is where the row begins in the first plane: floats when scaled, bytes otherwise. Writes
 * nothing but the row. `in` and `out` do not overlap. */
void convert_row(const struct convert *c, const uint8_t *in, uint32_t width, void *out, size_t plane, void *scratch);
/* The same if the result has planes and the input has one row per plane. */
void convert_planes(const struct convert *c, const uint8_t *const *in, uint32_t width, void *out, size_t plane, void *scratch);
/* Call after the last row: from then on other threads may read the rows. */
void convert_end(const struct convert *c);

#endif
