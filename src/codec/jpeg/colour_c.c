/* colour_c.c: subsampled components to the size of the image, and YCbCr to RGB, as libjpeg has it. */
#include "codec/jpeg/kernels.h"

/* ---- Upsampling: a triangle filter ---- */

static void widen_c(const uint8_t *in, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned middle = 3u * in[i];
        out[2 * i] = (uint8_t)((middle + in[(ptrdiff_t)i - 1] + 1) >> 2); /* halves are rounded down and up in turn */
        out[2 * i + 1] = (uint8_t)((middle + in[i + 1] + 2) >> 2);
    }
}

static void widen_between_c(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n)
{
    unsigned before = 3u * near[-1] + far[-1], here = 3u * near[0] + far[0];
    for (size_t i = 0; i < n; i++) {
        unsigned behind = 3u * near[i + 1] + far[i + 1];
        out[2 * i] = (uint8_t)((3 * here + before + 8) >> 4);
        out[2 * i + 1] = (uint8_t)((3 * here + behind + 7) >> 4);
        before = here;
        here = behind;
    }
}

static void between_c(const uint8_t *near, const uint8_t *far, uint8_t *out, size_t n, int upper)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((3u * near[i] + far[i] + (upper ? 1 : 2)) >> 2);
}

/* ---- Colours: the constants are those of JFIF times 2^16 ---- */

static uint8_t level(int32_t x)
{
    return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x);
}

static void rgb_of(uint8_t luma, uint8_t cb, uint8_t cr, uint8_t *out)
{
    const int32_t half = 1 << 15, blue = cb - 128, red = cr - 128;
    out[0] = level(luma + ((91881 * red + half) >> 16));
    out[1] = level(luma + ((-22554 * blue - 46802 * red + half) >> 16));
    out[2] = level(luma + ((116130 * blue + half) >> 16));
}

void jpeg_colour_rgb_c(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        rgb_of(y[i], cb[i], cr[i], out + 3 * i);
}

void jpeg_colour_rgba_c(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rgb_of(y[i], cb[i], cr[i], out + 4 * i);
        out[4 * i + 3] = 255;
    }
}

void jpeg_kernels_init_colours_c(struct jpeg_kernels *k)
{
    k->widen = widen_c;
    k->widen_between = widen_between_c;
    k->between = between_c;
    k->colour[0] = jpeg_colour_rgb_c;
    k->colour[1] = jpeg_colour_rgba_c;
}
