/* planes.c: the samples of a part of an image, component by component.
 *
 * Here is where samples lie and how they come about; which MCUs are decoded is mcu_walk.c's. */
#include "codec/jpeg/planes.h"

#include <assert.h>
#include <inttypes.h>

/* ---- Where samples lie ---- */

static uint32_t divide_up(uint64_t a, uint32_t b)
{
    return (uint32_t)((a + b - 1) / b);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static size_t stride_of(const struct jpeg_area *a, uint32_t c)
{
    size_t columns = (size_t)(a->right - a->left) * a->h[c] * a->scale;
    return (1 + columns + JPEG_ROW_SLACK + 63) & ~(size_t)63;
}

static size_t rows_of(const struct jpeg_area *a, uint32_t c)
{
    return (size_t)(a->bottom - a->top) * a->v[c] * a->scale;
}

static void describe_plane(struct jpeg_area *a, const struct jpeg_frame *f, uint32_t c)
{
    struct jpeg_plane *p = &a->plane[c];
    uint32_t across = a->h[c] * a->scale, down = a->v[c] * a->scale;
    p->pixels = a->pixels[c];
    p->stride = stride_of(a, c);
    p->full_width = divide_up((uint64_t)f->width * across, 8u * f->h);
    p->full_height = divide_up((uint64_t)f->height * down, 8u * f->v);
    p->x = a->left * across;
    p->y = a->top * down;
    p->width = (uint32_t)smaller((uint64_t)a->right * across, p->full_width) - p->x;
    p->height = (uint32_t)smaller((uint64_t)a->bottom * down, p->full_height) - p->y;
}

pst_status jpeg_area_init(struct jpeg_area *a, struct jpeg_decoder *d, const struct jpeg_frame *f, const struct region *part,
                          uint32_t margin, unsigned scale, uint32_t components, pst_error *reterr)
{
    size_t bytes = 64;
    assert(part->width && part->x < f->width && part->width <= f->width - part->x);
    assert(part->height && part->y < f->height && part->height <= f->height - part->y);
    assert(scale == 8 || scale == 4 || scale == 2 || scale == 1);
    *a = (struct jpeg_area){.scale = scale, .components = components, .h = {f->h, 1, 1}, .v = {f->v, 1, 1}};
    a->left = (part->x - (uint32_t)smaller(part->x, margin)) / (8u * f->h);
    a->top = (part->y - (uint32_t)smaller(part->y, margin)) / (8u * f->v);
    a->right = divide_up(smaller((uint64_t)part->x + part->width + margin, f->width), 8u * f->h);
    a->bottom = divide_up(smaller((uint64_t)part->y + part->height + margin, f->height), 8u * f->v);
    for (uint32_t c = 0; c < components; c++)
        bytes += stride_of(a, c) * rows_of(a, c); /* far below the range: a side has 16 bits */
    if (!region_memory_need(&d->planes, bytes))
        return pst_fail(reterr, PST_ENOMEM, "jpeg: no memory for %" PRIu32 " × %" PRIu32 " pixels", part->width, part->height);
    uint8_t *at = d->planes.data + 64;
    for (uint32_t c = 0; c < components; c++) {
        a->pixels[c] = at;
        at += stride_of(a, c) * rows_of(a, c);
        describe_plane(a, f, c);
    }
    return PST_OK;
}

/* ---- Coefficients to samples ---- */

static void fill_pair(uint8_t *out, size_t stride, uint8_t a, uint8_t b)
{
    for (int row = 0; row < 8; row++, out += stride) {
        memset(out, a, 8);
        memset(out + 8, b, 8);
    }
}

static uint32_t block_number(const struct jpeg_blocks *b, uint32_t i)
{
    return i / b->group * b->step + i % b->group;
}

/* The last block of an odd number is transformed twice, once into the slack. */
static void transform_pairs(const struct jpeg_kernels *k, const int16_t *quant, const struct jpeg_blocks *b, uint8_t *out,
                            size_t stride)
{
    for (uint32_t i = 0; i < b->count; i += 2, out += 16) {
        uint32_t one = block_number(b, i), two = i + 1 < b->count ? block_number(b, i + 1) : one;
        const int16_t *first = b->blocks + (size_t)one * 64, *second = b->blocks + (size_t)two * 64;
        if (b->flat && b->flat[one] == 2 && b->flat[two] == 2)
            fill_pair(out, stride, jpeg_flat(first[0], quant[0]), jpeg_flat(second[0], quant[0]));
        else
            k->transform_pair(first, second, quant, out, stride);
    }
}

void jpeg_area_transform(const struct jpeg_area *a, const struct jpeg_kernels *k, uint32_t component, const int16_t *quant,
                         const struct jpeg_blocks *b, uint32_t x, uint32_t y)
{
    size_t stride = a->plane[component].stride;
    uint8_t *out = a->pixels[component] + (size_t)y * a->scale * stride + (size_t)x * a->scale;
    if (a->scale == 8) {
        transform_pairs(k, quant, b, out, stride);
        return;
    }
    void (*transform)(const int16_t *, const int16_t *, uint8_t *, size_t) = a->scale == 4   ? k->transform_4
                                                                             : a->scale == 2 ? k->transform_2
                                                                                             : k->transform_1;
    for (uint32_t i = 0; i < b->count; i++)
        transform(b->blocks + (size_t)block_number(b, i) * 64, quant, out + (size_t)i * a->scale, stride);
}

pst_status jpeg_decode_planes(struct jpeg_decoder *d, const struct region *part, uint32_t margin, unsigned scale,
                              struct jpeg_points *points, struct jpeg_plane ret[3], pst_error *reterr)
{
    struct jpeg_area a;
    assert(d->scan);
    pst_status st = jpeg_area_init(&a, d, &d->frame, part, margin, scale, d->frame.components, reterr);
    if (st == PST_OK)
        st = jpeg_area_decode(&a, d, points, reterr);
    if (st == PST_OK)
        memcpy(ret, a.plane, d->frame.components * sizeof(*ret));
    return st;
}
