/* op_random_resized_crop.c: `random_resized_crop`: a rectangle of random area and shape, resized: torchvision's rule. */
#include "ops/ctx.h"
#include "ops/image/image_op.h"
#include "ops/op_list.h"

#include <math.h>

#define TRIES 10

struct config {
    struct image_field field;
    pst_size2d size;
    pst_floats scale, ratio;
    int method;
};

static pst_status check_range(const char *name, const pst_floats *range, pst_error *reterr)
{
    if (range->count != 2 || !(range->value[0] > 0) || !(range->value[0] <= range->value[1]))
        return pst_fail(reterr, PST_EINVAL, "%s has %zu values; expected two, above 0 and increasing, as in %s=%s", name,
                        range->count, name, name[0] == 's' ? "0.08,1" : "0.75,1.333");
    return PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_size2d size = size_both(c->size);
    pst_field *f;
    pst_status st = check_range("scale", &c->scale, reterr);
    if (st == PST_OK)
        st = check_range("ratio", &c->ratio, reterr);
    if (st == PST_OK)
        st = image_field_plan(&c->field, in, IMAGE_BYTES_AND_FLOATS, ret_out, &f, reterr);
    if (st < 0)
        return st;
    f->shape[0] = size.height;
    f->shape[1] = size.width;
    return PST_OK;
}

/* Areas are uniform, ratios are uniform in their logarithm: as often wide as high. */
static bool draw(const struct config *c, struct random *r, uint32_t width, uint32_t height, struct geometry *ret)
{
    double area = (double)width * height * random_between(r, c->scale.value[0], c->scale.value[1]);
    double ratio = exp(random_between(r, log(c->ratio.value[0]), log(c->ratio.value[1])));
    double w = rint(sqrt(area * ratio)), h = rint(sqrt(area / ratio)); /* halves to even, as Python rounds */
    if (!(w > 0 && w <= width && h > 0 && h <= height))
        return false;
    ret->cut_width = (uint32_t)w;
    ret->cut_height = (uint32_t)h;
    ret->y = (int64_t)random_below(r, (uint64_t)height - ret->cut_height + 1);
    ret->x = (int64_t)random_below(r, (uint64_t)width - ret->cut_width + 1);
    return true;
}

/* At least one pixel, even where the ratio would leave none. */
static uint32_t side_of(double length)
{
    return length < 1 ? 1 : (uint32_t)rint(length);
}

/* As much of the middle as has an allowed ratio. */
static void take_middle(const struct config *c, uint32_t width, uint32_t height, struct geometry *ret)
{
    double ratio = (double)width / height;
    ret->cut_width = width;
    ret->cut_height = height;
    if (ratio < c->ratio.value[0])
        ret->cut_height = side_of(width / c->ratio.value[0]);
    else if (ratio > c->ratio.value[1])
        ret->cut_width = side_of(height * c->ratio.value[1]);
    ret->x = (width - ret->cut_width) / 2;
    ret->y = (height - ret->cut_height) / 2;
}

static pst_status geometry(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr)
{
    const struct config *c = config;
    pst_size2d size = size_both(c->size);
    bool drawn = false;
    (void)reterr;
    *ret = (struct geometry){.width = size.width, .height = size.height, .filter = resize_method(c->method)};
    for (int i = 0; i < TRIES && !drawn; i++)
        drawn = draw(c, ctx_random(ctx), width, height, ret);
    if (!drawn)
        take_middle(c, width, height, ret);
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    return image_op_run(&op_random_resized_crop, config, ctx, in, out, reterr);
}

static const pst_param params[] = {
    {"size", PST_PARAM_SIZE2D, offsetof(struct config, size), NULL, 1, IMAGE_MAX_SIDE, NULL,
     "224 for a square, 320x240 for width x height"},
    {"scale", PST_PARAM_FLOATS, offsetof(struct config, scale), "0.08,1", 0, 0, NULL,
     "smallest and largest share of the image's area"},
    {"ratio", PST_PARAM_FLOATS, offsetof(struct config, ratio), "0.75,1.3333333333333333", 0, 0, NULL,
     "smallest and largest width / height"},
    {"method", PST_PARAM_CHOICE, offsetof(struct config, method), "antialias", 0, 0, plane_methods,
     "method of resizing; see resize"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.geometry = geometry, .resizes = true, .cuts_at_random = true};

const struct op_decl op_random_resized_crop = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "random_resized_crop",
            .doc = "Crops a rectangle of random area, aspect ratio and position and resizes it; every epoch has new "
                   "rectangles. The rule is that of torchvision's RandomResizedCrop: up to ten random areas and ratios "
                   "are tried; if none fits into the image, its centre is used. Only the needed part of an encoded "
                   "image is decoded.",
            .example = "tfrecord shards/ | example | decode | random_resized_crop 224 | flip | normalize imagenet | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .run = run,
            .flags = PST_OP_RANDOM | PST_OP_ONE_FIELD | PST_OP_CUTS | PST_OP_SIZES,
            .steady = "resize",
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
