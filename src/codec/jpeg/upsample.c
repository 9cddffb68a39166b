/* upsample.c: a part of an image as libjpeg-turbo decodes it by default: smooth upsampling of subsampled components, then
 * colours.
 *
 * Upsampling looks at the neighbours of a sample, and at the edges of the image repeats the last one. Components of one or
 * two columns it repeats instead, rows and columns alike. */
#include "codec/jpeg/planes.h"

#include <inttypes.h>

/* ---- Components at the size of the image ---- */

/* The samples before and after each row repeat the first and last: filters use them at the edges of the image. */
static void extend_rows(const struct jpeg_area *a, uint32_t c)
{
    const struct jpeg_plane *p = &a->plane[c];
    uint8_t *row = a->pixels[c];
    for (uint32_t y = 0; y < p->height; y++, row += p->stride) {
        if (p->x == 0)
            row[-1] = row[0];
        if (p->x + p->width == p->full_width)
            row[p->width] = row[p->width - 1];
    }
}

static const uint8_t *row_of(const struct jpeg_plane *p, uint32_t x, uint32_t y)
{
    return p->pixels + (size_t)(y - p->y) * p->stride + (x - p->x);
}

static void repeat(const uint8_t *in, uint8_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[2 * i] = out[2 * i + 1] = in[i];
}

/* Row y of component c, from column x of the image on, `width` columns: in place, or in `scratch`. */
static const uint8_t *full_row(const struct jpeg_area *a, const struct jpeg_kernels *k, uint32_t c, uint32_t x, uint32_t y,
                               uint32_t width, uint8_t *scratch)
{
    const struct jpeg_plane *p = &a->plane[c];
    const bool wide = a->h[c] < a->h[0], high = a->v[c] < a->v[0], upper = y % 2 == 0;
    if (!wide && !high)
        return row_of(p, x, y);
    uint32_t cx = wide ? x / 2 : x, cy = high ? y / 2 : y, far = cy;
    size_t n = wide ? (size_t)((x + width + 1) / 2 - cx) : width;
    if (high && upper)
        far = cy ? cy - 1 : 0;
    else if (high)
        far = cy + 1 < p->full_height ? cy + 1 : cy;
    if (!wide)
        k->between(row_of(p, cx, cy), row_of(p, cx, far), scratch, n, upper);
    else if (p->full_width <= 2)
        repeat(row_of(p, cx, cy), scratch, n);
    else if (high)
        k->widen_between(row_of(p, cx, cy), row_of(p, cx, far), scratch, n);
    else
        k->widen(row_of(p, cx, cy), scratch, n);
    return scratch + (wide ? x % 2 : 0);
}

/* ---- Rows of pixels ---- */

static void interleave(const uint8_t *const from[3], uint8_t *to, uint32_t channels, size_t n)
{
    for (size_t i = 0; i < n; i++, to += channels) {
        to[0] = from[0][i];
        to[1] = from[1][i];
        to[2] = from[2][i];
        if (channels == 4)
            to[3] = 255;
    }
}

static void write_rows(const struct jpeg_area *a, const struct jpeg_decoder *d, const struct region *part, const pst_image *out,
                       uint8_t *scratch, size_t pitch)
{
    for (uint32_t y = 0; y < part->height; y++) {
        uint8_t *to = out->pixels + y * out->stride;
        const uint8_t *from[3];
        for (uint32_t c = 0; c < a->components; c++)
            from[c] = full_row(a, d->kernels, c, part->x, part->y + y, part->width, scratch + c * pitch);
        if (out->channels == 1) {
            memcpy(to, from[0], part->width);
        } else if (a->components == 3 && !d->frame.rgb) {
            d->kernels->colour[out->channels - 3](from[0], from[1], from[2], to, part->width);
        } else {
            from[1] = from[a->components == 3 ? 1 : 0];
            from[2] = from[a->components == 3 ? 2 : 0];
            interleave(from, to, out->channels, part->width);
        }
    }
}

pst_status jpeg_decode_pixels(struct jpeg_decoder *d, const struct region *part, uint32_t channels, struct jpeg_points *points,
                              pst_image *ret, pst_error *reterr)
{
    const struct jpeg_frame *f = &d->frame;
    struct jpeg_area a;
    if (channels == 1 && f->rgb)
        return pst_fail(reterr, PST_EUNSUPPORTED, "jpeg: gray from an image stored as RGB is left to libjpeg-turbo");
    bool sampled = channels > 1 && f->h * f->v > 1;
    pst_status st = jpeg_area_init(&a, d, f, part, sampled ? 2 : 0, 8, channels == 1 ? 1 : f->components, reterr);
    if (st < 0)
        return st;
    pst_image image = {.width = part->width, .height = part->height, .channels = channels};
    size_t pitch = (size_t)part->width + 2 + JPEG_ROW_SLACK, bytes;
    image.stride = (size_t)part->width * channels; /* far below the range: a side has 16 bits */
    if (__builtin_mul_overflow(image.stride, (size_t)part->height, &bytes) ||
        !region_memory_need(&d->pixels, bytes + JPEG_ROW_SLACK) || !region_memory_need(&d->rows, 3 * pitch))
        return pst_fail(reterr, PST_ENOMEM, "jpeg: no memory for %" PRIu32 " × %" PRIu32 " pixels", part->width, part->height);
    image.pixels = d->pixels.data;
    st = jpeg_area_decode(&a, d, points, reterr);
    if (st < 0)
        return st;
    for (uint32_t c = 1; c < a.components && f->h > 1; c++)
        extend_rows(&a, c);
    write_rows(&a, d, part, &image, d->rows.data, pitch);
    *ret = image;
    return PST_OK;
}
