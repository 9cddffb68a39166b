/* geometry.c: one image operation by itself: cut, resized, mirrored, or its bytes worked on. What several of them do at once is
 * image_frame.c's and image_pass.c's. */
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

struct axes {
    struct resize_axis x, y;
};

/* The weights of a resize, in scratch memory. False: out of memory. */
static bool axes_init(struct axes *a, pst_ctx *ctx, const struct geometry *g)
{
    void *x = pst_scratch(ctx, resize_axis_bytes(g->cut_width, g->width, g->filter));
    void *y = pst_scratch(ctx, resize_axis_bytes(g->cut_height, g->height, g->filter));
    if (!x || !y)
        return false;
    resize_axis_init(&a->x, g->cut_width, g->width, g->filter, x);
    resize_axis_init(&a->y, g->cut_height, g->height, g->filter, y);
    return true;
}

static pst_status fail_resize(const struct geometry *g, pst_error *reterr)
{
    return pst_fail(reterr, PST_ENOMEM, "out of memory to resize %" PRIu32 " × %" PRIu32 " to %" PRIu32 " × %" PRIu32,
                    g->cut_width, g->cut_height, g->width, g->height);
}

static pst_status resize_bytes(pst_ctx *ctx, const pst_image *image, const struct geometry *g, pst_image *whole,
                               pst_error *reterr)
{
    struct axes a;
    pst_image cut = pixels_crop(image, (uint32_t)g->x, (uint32_t)g->y, g->cut_width, g->cut_height), result = *whole;
    void *scratch = axes_init(&a, ctx, g) ? pst_scratch(ctx, resize_scratch_bytes(&a.x, &a.y, cut.channels)) : NULL;
    if (!scratch)
        return fail_resize(g, reterr);
    if (g->full_width) {
        memset(result.pixels, 0, result.stride * result.height);
        result = pixels_crop(&result, g->left, g->top, g->width, g->height);
    }
    resize_run(&cut, &result, &a.x, &a.y, scratch);
    if (g->flips)
        pixels_flip(&result);
    return PST_OK;
}

static void flip_floats(float *row, uint32_t width, uint32_t channels)
{
    for (float *left = row, *right = row + (size_t)(width - 1) * channels; left < right; left += channels, right -= channels)
        for (uint32_t c = 0; c < channels; c++) {
            float v = left[c];
            left[c] = right[c];
            right[c] = v;
        }
}

/* `image` and `whole` have the sizes; the strides and addresses of pst_image are for bytes. */
static pst_status resize_floats(pst_ctx *ctx, const float *from, const pst_image *image, const struct geometry *g, float *to,
                                const pst_image *whole, pst_error *reterr)
{
    struct axes a;
    size_t in_stride = (size_t)image->width * image->channels, out_stride = (size_t)whole->width * whole->channels;
    float *scratch = axes_init(&a, ctx, g) ? pst_scratch(ctx, resize_float_bytes(&a.x, &a.y, image->channels)) : NULL;
    if (!scratch)
        return fail_resize(g, reterr);
    if (g->full_width) {
        memset(to, 0, out_stride * whole->height * sizeof(*to));
        to += (size_t)g->top * out_stride + (size_t)g->left * whole->channels;
    }
    from += (size_t)g->y * in_stride + (size_t)g->x * image->channels;
    resize_float_run(from, in_stride, to, out_stride, image->channels, &a.x, &a.y, scratch);
    for (uint32_t y = 0; g->flips && y < g->height; y++, to += out_stride)
        flip_floats(to, g->width, image->channels);
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
    if (from->dtype == PST_DTYPE_F32)
        return resize_floats(ctx, from->data, &image, g, to->data, &result, reterr);
    return resize_bytes(ctx, &image, g, &result, reterr);
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
