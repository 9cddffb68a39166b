/* op_resize.c: `resize`: images in another size, by a method that is chosen by name. */
#include "ops/image/image_op.h"
#include "ops/op_list.h"

#include <inttypes.h>

struct config {
    struct image_field field;
    pst_size2d size; /* width 0: not given */
    int method;
    uint64_t shorter; /* 0: not given */
    int fit;
};

enum { FIT_STRETCH, FIT_CROP, FIT_PAD };
static const char *const fit_names[] = {"stretch", "crop", "pad", NULL};

/* The longer side is rounded down, as torchvision does. */
static void result_size(const struct config *c, uint64_t width, uint64_t height, uint64_t *ret_width, uint64_t *ret_height)
{
    pst_size2d size = size_both(c->size);
    uint64_t small = width < height ? width : height, large = width < height ? height : width;
    if (!c->shorter) {
        *ret_width = size.width;
        *ret_height = size.height;
        return;
    }
    large = c->shorter * large / small;
    *ret_width = width < height ? c->shorter : large;
    *ret_height = width < height ? large : c->shorter;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_field *f;
    if (!c->size.width == !c->shorter)
        return pst_fail(reterr, PST_EINVAL,
                        "%s; write resize 224 for a square, resize 320x240 for width x height, or resize short=256",
                        c->shorter ? "there are two sizes" : "there is no size");
    if (c->shorter && c->fit != FIT_STRETCH)
        return pst_fail(reterr, PST_EINVAL, "short keeps the shape of an image: there is nothing to fit; leave out fit=%s",
                        fit_names[c->fit]);
    pst_status st = image_field_plan(&c->field, in, IMAGE_BYTES_AND_FLOATS, ret_out, &f, reterr);
    if (st < 0)
        return st;
    bool known = f->shape[0] != PST_ANY && f->shape[1] != PST_ANY && f->shape[0] > 0 && f->shape[1] > 0;
    if (known || !c->shorter)
        result_size(c, f->shape[1], f->shape[0], &f->shape[1], &f->shape[0]);
    else
        f->shape[0] = f->shape[1] = PST_ANY;
    return PST_OK;
}

static uint32_t side_within(float side, uint32_t most)
{
    return side < 1 ? 1 : side < (float)most ? (uint32_t)side : most;
}

/* The middle that has the shape of the result: Keras's smart_resize, in its single precision. */
static void fit_crop(pst_size2d size, uint32_t width, uint32_t height, struct geometry *g)
{
    g->cut_width = side_within((float)((uint64_t)height * size.width) / (float)size.height, width);
    g->cut_height = side_within((float)((uint64_t)width * size.height) / (float)size.width, height);
    g->x = (width - g->cut_width) / 2;
    g->y = (height - g->cut_height) / 2;
}

/* Returns the number of zeros before an image whose side is not rounded yet. */
static uint32_t margin(uint32_t full, float side, uint32_t used)
{
    uint32_t half = (float)full > side ? (uint32_t)(((float)full - side) / 2) : 0;
    return half < full - used ? half : full - used;
}

/* The whole image with zeros around it: tf.image.resize_with_pad, in its single precision. */
static void fit_pad(pst_size2d size, uint32_t width, uint32_t height, struct geometry *g)
{
    float across = (float)width / (float)size.width, down = (float)height / (float)size.height;
    float ratio = across > down ? across : down, w = (float)width / ratio, h = (float)height / ratio;
    g->width = side_within(w, size.width);
    g->height = side_within(h, size.height);
    g->left = margin(size.width, w, g->width);
    g->top = margin(size.height, h, g->height);
    g->full_width = size.width;
    g->full_height = size.height;
    if (!geometry_resizes(g)) { /* nothing is resized: a cut that is larger than the image */
        *g = (struct geometry){.x = -(int64_t)g->left, .y = -(int64_t)g->top, .filter = g->filter};
        g->width = g->cut_width = size.width;
        g->height = g->cut_height = size.height;
    }
}

static pst_status geometry(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr)
{
    const struct config *c = config;
    uint64_t w, h;
    (void)ctx;
    result_size(c, width, height, &w, &h);
    if (w > INT32_MAX || h > INT32_MAX)
        return pst_fail(reterr, PST_ELIMIT, "an image of %" PRIu32 " × %" PRIu32 " would become %" PRIu64 " × %" PRIu64, width,
                        height, w, h);
    *ret = (struct geometry){.cut_width = width, .cut_height = height, .width = (uint32_t)w, .height = (uint32_t)h};
    ret->filter = resize_method(c->method);
    if (c->fit == FIT_CROP)
        fit_crop(size_both(c->size), width, height, ret);
    else if (c->fit == FIT_PAD)
        fit_pad(size_both(c->size), width, height, ret);
    return PST_OK;
}

static bool pads(const void *config)
{
    return ((const struct config *)config)->fit == FIT_PAD;
}

static bool needs_pixels(const void *config)
{
    int known = 0;
    while (plane_methods[known])
        known++;
    return ((const struct config *)config)->method >= known;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    return image_op_run(&op_resize, config, ctx, in, out, reterr);
}

static const pst_param params[] = {
    {"size", PST_PARAM_SIZE2D, offsetof(struct config, size), "0", 0, IMAGE_MAX_SIDE, NULL,
     "224 for a square, 320x240 for width x height"},
    {"method", PST_PARAM_CHOICE, offsetof(struct config, method), "antialias", 0, 0, resize_methods, "the filter; see above"},
    {"short", PST_PARAM_UINT, offsetof(struct config, shorter), "0", 0, IMAGE_MAX_SIDE, NULL,
     "length of the shorter side, instead of size; the aspect ratio is kept"},
    {"fit", PST_PARAM_CHOICE, offsetof(struct config, fit), "stretch", 0, 0, fit_names,
     "if the aspect ratio of an image differs from that of size: stretch the image, crop its centre "
     "first, or pad it with zeros"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.geometry = geometry, .resizes = true, .pads = pads, .needs_pixels = needs_pixels};

const struct op_decl op_resize = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "resize",
            .doc = "Resizes an image to a square, to width x height, or to a given length of its shorter side. "
                   "Methods: antialias (the default: bilinear as in Pillow and torchvision, a triangle filter over all "
                   "covered pixels; close to the photo and fast), bilinear (the default of tf.image.resize: two pixels "
                   "in each direction, aliases when shrinking), bicubic (Pillow's, antialiased), nearest, area (the "
                   "mean of the covered pixels, as in TensorFlow, and as in OpenCV when shrinking). The methods "
                   "keyscubic (bicubic), lanczos3, lanczos5, gaussian and mitchellcubic are those of tf.image.resize; "
                   "they are not antialiased and always resize pixels, never the planes of a fast decode. Bytes "
                   "are rounded to bytes; float32 values are not rounded.",
            .example = "tfrecord shards/ | example | decode | resize 224 bilinear | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_SIZES,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
