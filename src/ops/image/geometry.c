/* geometry.c: one image operation by itself: cut, resized, mirrored, or its bytes worked on. What several of them do at once is
 * frame.c's and image_pass.c's. */
#include "image/pixels.h"

#include "base/error.h"
#include "image/resize.h"
#include "ops/fields.h"
#include "ops/image/image_op.h"

#include <inttypes.h>
#include <string.h>

const char *const plane_methods[] = {"antialias", "bilinear", "bicubic", "nearest", "area", NULL};
const char *const resize_methods[] = {"antialias", "bilinear", "bicubic",  "nearest",       "area", "keyscubic",
                                      "lanczos3",  "lanczos5", "gaussian", "mitchellcubic", NULL};

pst_filter resize_method(int choice)
{
    static const pst_filter filters[] = {PST_FILTER_TRIANGLE, PST_FILTER_BILINEAR,     PST_FILTER_BICUBIC,  PST_FILTER_NEAREST,
                                         PST_FILTER_AREA,     PST_FILTER_KEYSCUBIC,    PST_FILTER_LANCZOS3, PST_FILTER_LANCZOS5,
                                         PST_FILTER_GAUSSIAN, PST_FILTER_MITCHELLCUBIC};
    return filters[choice];
}

pst_status image_op_geometry(const struct op_decl *op, const void *config, pst_ctx *ctx, uint32_t width, uint32_t height,
                             struct geometry *ret, pst_error *reterr)
{
    pst_status st = op->image->geometry(config, ctx, width, height, ret, reterr);
    if (st < 0)
        return st;
    uint32_t w = geometry_width(ret), h = geometry_height(ret);
    if ((uint64_t)w * h > PST_MAX_PIXELS || w > INT32_MAX || h > INT32_MAX)
        return pst_fail(reterr, PST_ELIMIT,
                        "%s of an image of %" PRIu32 " × %" PRIu32 " would have %" PRIu32 " × %" PRIu32
                        " pixels; at most %" PRIu64 " are made",
                        op->op.name, width, height, w, h, (uint64_t)PST_MAX_PIXELS);
    return PST_OK;
}

/* ---- Moving ---- */

/* Pixels of any type, a row after the other. */
struct raster {
    uint8_t *data;
    uint32_t width, height;
    size_t pixel; /* bytes */
};

static void copy_pixels(uint8_t *to, const uint8_t *from, size_t count, size_t pixel, bool flips)
{
    if (!flips) {
        memcpy(to, from, count * pixel);
        return;
    }
    for (size_t i = 0; i < count; i++)
        memcpy(to + i * pixel, from + (count - 1 - i) * pixel, pixel);
}

/* The columns of the result that have pixels: [*begin, *end) of the cut. */
static void overlap(int64_t at, uint32_t length, uint32_t available, int64_t *begin, int64_t *end)
{
    *begin = at < 0 ? -at : 0;
    *end = (int64_t)available - at < length ? (int64_t)available - at : length;
    if (*begin >= *end)
        *begin = *end = 0;
}

static void move_pixels(const struct raster *in, const struct geometry *g, struct raster *out)
{
    int64_t left, right, top, bottom;
    size_t row = out->width * out->pixel;
    overlap(g->x, g->cut_width, in->width, &left, &right);
    overlap(g->y, g->cut_height, in->height, &top, &bottom);
    int64_t first = g->flips ? (int64_t)g->cut_width - right : left;
    bool whole = left == 0 && right == (int64_t)g->cut_width;
    for (uint32_t y = 0; y < out->height; y++) {
        uint8_t *to = out->data + y * row;
        bool inside = y >= top && y < bottom && right > left;
        if (!inside || !whole)
            memset(to, 0, row);
        if (!inside)
            continue;
        const uint8_t *from = in->data + ((size_t)(g->y + y) * in->width + (size_t)(g->x + left)) * in->pixel;
        copy_pixels(to + (size_t)first * out->pixel, from, (size_t)(right - left), out->pixel, g->flips);
    }
}

/* ---- Resizing ---- */

static pst_status resize(pst_ctx *ctx, const pst_image *in, pst_filter filter, pst_image *out, pst_error *reterr)
{
    struct resize_axis x, y;
    void *x_memory = pst_scratch(ctx, resize_axis_bytes(in->width, out->width, filter));
    void *y_memory = pst_scratch(ctx, resize_axis_bytes(in->height, out->height, filter));
    void *scratch = NULL;
    if (x_memory && y_memory) {
        resize_axis_init(&x, in->width, out->width, filter, x_memory);
        resize_axis_init(&y, in->height, out->height, filter, y_memory);
        scratch = pst_scratch(ctx, resize_scratch_bytes(&x, &y, in->channels));
    }
    if (!scratch)
        return pst_fail(reterr, PST_ENOMEM, "out of memory to resize %" PRIu32 " × %" PRIu32 " to %" PRIu32 " × %" PRIu32,
                        in->width, in->height, out->width, out->height);
    resize_run(in, out, &x, &y, scratch);
    return PST_OK;
}

/* The cut of an operation that resizes lies within the image. */
static pst_status resize_cut(pst_ctx *ctx, const pst_tensor *from, const struct geometry *g, pst_tensor *to, pst_error *reterr)
{
    pst_image image, result;
    pst_status st = image_of_tensor(from, &image, reterr);
    if (st == PST_OK)
        st = image_of_tensor(to, &result, reterr);
    if (st < 0)
        return st;
    if (g->full_width) {
        memset(result.pixels, 0, result.stride * result.height);
        result = pixels_crop(&result, g->left, g->top, g->width, g->height);
    }
    pst_image cut = pixels_crop(&image, (uint32_t)g->x, (uint32_t)g->y, g->cut_width, g->cut_height);
    st = resize(ctx, &cut, g->filter, &result, reterr);
    if (st == PST_OK && g->flips)
        pixels_flip(&result);
    return st;
}

static pst_status run_geometry(const struct op_decl *op, const void *config, pst_ctx *ctx, const pst_tensor *from,
                               pst_tensor *to, pst_error *reterr)
{
    struct geometry g;
    pst_image image;
    pst_status st = image_of_tensor(from, &image, reterr);
    if (st == PST_OK)
        st = image_op_geometry(op, config, ctx, image.width, image.height, &g, reterr);
    if (st == PST_OK)
        st = field_prepare(ctx, to, 3, (const uint64_t[]){geometry_height(&g), geometry_width(&g), image.channels}, reterr);
    if (st < 0)
        return st;
    if (geometry_resizes(&g))
        return resize_cut(ctx, from, &g, to, reterr);
    struct raster source = {.data = from->data, .width = image.width, .height = image.height};
    struct raster target = {.data = to->data, .width = g.width, .height = g.height};
    source.pixel = target.pixel = image.channels * pst_dtype_size(from->dtype);
    move_pixels(&source, &g, &target);
    return PST_OK;
}

/* ---- Work on bytes ---- */

pst_status image_work_begin(struct image_work *w, const struct image_facet *facet, const void *config, pst_ctx *ctx,
                            uint32_t channels, pst_error *reterr)
{
    size_t size = facet->levels ? sizeof(uint8_t[4][256]) : facet->row_state;
    *w = (struct image_work){.facet = facet, .config = config, .state = size ? pst_scratch(ctx, size) : NULL};
    if (size && !w->state)
        return fail_memory(reterr, "allocating an operation's state");
    if (facet->levels)
        return facet->levels(config, ctx, channels, w->state, reterr);
    if (size)
        memset(w->state, 0, size);
    return facet->row_begin ? facet->row_begin(config, ctx, channels, w->state, reterr) : PST_OK;
}

void image_work_row(const struct image_work *w, uint8_t *pixels, uint32_t width, uint32_t channels)
{
    if (w->facet->row) {
        w->facet->row(w->config, w->state, pixels, width, channels);
        return;
    }
    const uint8_t(*levels)[256] = w->state;
    for (uint32_t x = 0; x < width; x++)
        for (uint32_t c = 0; c < channels; c++, pixels++)
            *pixels = levels[c][*pixels];
}

static pst_status run_work(const struct op_decl *op, const void *config, pst_ctx *ctx, const pst_tensor *from, pst_tensor *to,
                           pst_error *reterr)
{
    struct image_work work;
    pst_image image;
    pst_status st = image_of_tensor(from, &image, reterr);
    if (st == PST_OK)
        st = image_work_begin(&work, op->image, config, ctx, image.channels, reterr);
    if (st == PST_OK)
        st = field_prepare(ctx, to, 3, from->shape, reterr);
    if (st < 0)
        return st;
    memcpy(to->data, image.pixels, image.stride * image.height);
    for (uint32_t y = 0; y < image.height; y++)
        image_work_row(&work, (uint8_t *)to->data + y * image.stride, image.width, image.channels);
    return PST_OK;
}

pst_status image_op_run(const struct op_decl *op, const void *config, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                        pst_error *reterr)
{
    size_t field = ((const struct image_field *)config)->number;
    return (op->image->geometry ? run_geometry : run_work)(op, config, ctx, &in[field], &out[field], reterr);
}
