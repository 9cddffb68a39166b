/* pixels.c: see pixels.h. The arithmetic is Pillow's, truncations included, so that images augmented by either are equal. */
#include "image/pixels.h"

#include <assert.h>
#include <string.h>

static uint8_t *row_of(const pst_image *image, uint32_t y)
{
    return image->pixels + y * image->stride;
}

static uint8_t luma(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

pst_image pixels_crop(const pst_image *in, uint32_t x, uint32_t y, uint32_t width, uint32_t height)
{
    assert(x <= in->width && width <= in->width - x && y <= in->height && height <= in->height - y);
    pst_image view = *in;
    view.pixels = row_of(in, y) + (size_t)x * in->channels;
    view.width = width;
    view.height = height;
    return view;
}

void pixels_copy(const pst_image *in, pst_image *out)
{
    assert(in->width == out->width && in->height == out->height && in->channels == out->channels);
    for (uint32_t y = 0; y < in->height; y++)
        memcpy(row_of(out, y), row_of(in, y), (size_t)in->width * in->channels);
}

void pixels_flip(pst_image *image)
{
    size_t size = image->channels;
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *left = row_of(image, y), *right = left + (image->width - 1) * size;
        for (; left < right; left += size, right -= size) {
            uint8_t kept[4];
            memcpy(kept, left, size);
            memcpy(left, right, size);
            memcpy(right, kept, size);
        }
    }
}

void pixels_to_gray(const pst_image *in, pst_image *out)
{
    assert(in->width == out->width && in->height == out->height && in->channels >= 3 && out->channels == 1);
    for (uint32_t y = 0; y < in->height; y++) {
        const uint8_t *from = row_of(in, y);
        uint8_t *to = row_of(out, y);
        for (uint32_t x = 0; x < in->width; x++, from += in->channels)
            to[x] = luma(from);
    }
}

void pixels_gray_to_rgb(const pst_image *in, pst_image *out)
{
    assert(in->width == out->width && in->height == out->height && in->channels == 1 && out->channels == 3);
    for (uint32_t y = 0; y < in->height; y++) {
        const uint8_t *from = row_of(in, y);
        uint8_t *to = row_of(out, y);
        for (uint32_t x = 0; x < in->width; x++, to += 3)
            to[0] = to[1] = to[2] = from[x];
    }
}

/* From `base` (factor 0) through `value` (1) and beyond. */
static uint8_t blend(uint8_t base, uint8_t value, float factor)
{
    float v = (float)base + factor * (float)(value - base);
    return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
}

static void blend_with_level(pst_image *image, uint8_t level, float factor)
{
    uint8_t table[256];
    for (unsigned v = 0; v < 256; v++)
        table[v] = blend(level, (uint8_t)v, factor);
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = row_of(image, y);
        for (size_t i = 0; i < (size_t)image->width * image->channels; i++)
            row[i] = table[row[i]];
    }
}

static uint8_t mean_gray(const pst_image *image)
{
    uint64_t sum = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = row_of(image, y);
        for (uint32_t x = 0; x < image->width; x++, row += image->channels)
            sum += image->channels == 1 ? row[0] : luma(row);
    }
    return (uint8_t)((double)sum / ((double)image->width * image->height) + 0.5);
}

static void blend_with_gray(pst_image *image, float factor)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *rgb = row_of(image, y);
        for (uint32_t x = 0; x < image->width; x++, rgb += 3) {
            uint8_t gray = luma(rgb);
            for (int c = 0; c < 3; c++)
                rgb[c] = blend(gray, rgb[c], factor);
        }
    }
}

void pixels_adjust(pst_image *image, float brightness, float contrast, float saturation)
{
    assert(image->channels == 1 || image->channels == 3);
    assert(brightness >= 0 && contrast >= 0 && saturation >= 0);
    if (brightness != 1)
        blend_with_level(image, 0, brightness);
    if (contrast != 1)
        blend_with_level(image, mean_gray(image), contrast);
    if (saturation != 1 && image->channels == 3)
        blend_with_gray(image, saturation);
}
