/* convert.h: rows of 8-bit pixels as what a batch holds: left to right or mirrored, interleaved or a plane a channel, bytes
 * or scaled floating point. Pure: the caller brings the scratch memory.
 *
 * A scaled value is x × scale + bias in single precision: a multiplication, rounded, and an addition, rounded, on every
 * machine and at every SIMD level. */
#ifndef IMAGE_CONVERT_H
#define IMAGE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVERT_PERIOD 24 /* a multiple of every channel count and of the values that SIMD takes at once */

struct convert {
    uint32_t channels; /* 1…4 */
    bool flips;        /* left to right */
    bool planar;       /* channel by channel, `plane` values apart; otherwise pixel by pixel */
    bool scaled;       /* to float; otherwise bytes stay */
    bool streams;      /* floats are written past the caches: for results that nobody reads soon */
    float scale[4][CONVERT_PERIOD], bias[4][CONVERT_PERIOD]; /* as they take turns: in a plane each, or in the first of them */
};

/* `scale` and `bias` have a value a channel; both NULL: bytes stay. */
void convert_init(struct convert *c, uint32_t channels, bool planar, const float *scale, const float *bias);
/* Bytes for convert_row; 0: `scratch` may be NULL. */
size_t convert_scratch_bytes(const struct convert *c, uint32_t width);
/* A row of `width` pixels; `out` is where the row begins in the first plane: floats when scaled, bytes otherwise. Writes
 * nothing but the row. `in` and `out` do not overlap. */
void convert_row(const struct convert *c, const uint8_t *in, uint32_t width, void *out, size_t plane, void *scratch);
/* The same where the result has planes and the input a row for each of them. */
void convert_planes(const struct convert *c, const uint8_t *const *in, uint32_t width, void *out, size_t plane, void *scratch);
/* Behind the last row: from here on other threads may read them. */
void convert_end(const struct convert *c);

#endif
