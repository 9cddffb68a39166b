/* pixels.h: small pure operations on 8-bit images: crop view, flip, gray, colour jitter. No allocation.
 *
 * `in` and `out` have the same size and do not overlap, unless said otherwise. */
#ifndef IMAGE_PIXELS_H
#define IMAGE_PIXELS_H

#include <penstock/image.h>

/* A view into `in`; the rectangle must lie inside. */
pst_image pixels_crop(const pst_image *in, uint32_t x, uint32_t y, uint32_t width, uint32_t height);
void pixels_copy(const pst_image *in, pst_image *out);    /* same channels */
void pixels_flip(pst_image *image);                       /* left to right, in place */
void pixels_to_gray(const pst_image *in, pst_image *out); /* RGB or RGBA: ITU-R 601, as Pillow's convert("L") */
void pixels_gray_to_rgb(const pst_image *in, pst_image *out);
/* Factors as in torchvision's ColorJitter on Pillow images, not negative: 1 changes nothing, 0 is black, the mean gray or no
 * colour. In that order, rounded to 8 bits in between. In place; RGB or gray (saturation ignored). */
void pixels_adjust(pst_image *image, float brightness, float contrast, float saturation);

#endif
