/* op_center_crop.c: `center_crop`: the middle of an image, as torchvision's CenterCrop cuts it. */
#include "ops/image/image_op.h"
#include "ops/op_list.h"

struct config {
    struct image_field field;
    pst_size2d size;
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_size2d size = size_both(c->size);
    pst_field *f;
    pst_status st = image_field_plan(&c->field, in, IMAGE_NUMBERS, ret_out, &f, reterr);
    if (st < 0)
        return st;
    f->shape[0] = size.height;
    f->shape[1] = size.width;
    return PST_OK;
}

/* Half a pixel goes to the even side, as Python rounds; a smaller image gets the smaller margin first. */
static int64_t corner(uint32_t available, uint32_t wanted)
{
    if (wanted > available)
        return -(int64_t)((wanted - available) / 2);
    uint32_t spare = available - wanted, half = spare / 2;
    return half + (spare & half & 1);
}

static pst_status geometry(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr)
{
    pst_size2d size = size_both(((const struct config *)config)->size);
    (void)ctx;
    (void)reterr;
    *ret = (struct geometry){.x = corner(width, size.width), .y = corner(height, size.height)};
    ret->width = ret->cut_width = size.width;
    ret->height = ret->cut_height = size.height;
    return PST_OK;
}

static bool pads(const void *config)
{
    (void)config;
    return true;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    return image_op_run(&op_center_crop, config, ctx, in, out, reterr);
}

static const pst_param params[] = {
    {"size", PST_PARAM_SIZE2D, offsetof(struct config, size), NULL, 1, IMAGE_MAX_SIDE, NULL,
     "224 for a square, 320x240 for width x height"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.geometry = geometry, .pads = pads};

const struct op_decl op_center_crop = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "center_crop",
            .doc = "Crops the centre of an image, as torchvision's CenterCrop does. A smaller image is padded with "
                   "zeros on both sides. Only the needed part of an encoded image is decoded.",
            .example = "tfrecord shards/ | example | decode | resize short=256 | center_crop 224 | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CUTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
