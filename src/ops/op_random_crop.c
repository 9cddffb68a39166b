/* op_random_crop.c: `random_crop`: a rectangle of fixed size anywhere in an image, as torchvision's RandomCrop draws it. */
#include "ops/ctx.h"
#include "ops/image/image_op.h"
#include "ops/op_list.h"

#include <inttypes.h>

struct config {
    struct image_field field;
    pst_size2d size;
    uint64_t padding;
};

static pst_status fail_small(const struct config *c, uint64_t width, uint64_t height, pst_error *reterr)
{
    pst_size2d size = size_both(c->size);
    return pst_fail(reterr, PST_ETYPE,
                    "a crop of %" PRIu32 " × %" PRIu32 " does not fit into an image of %" PRIu64 " × %" PRIu64
                    " with a padding of %" PRIu64 "; resize first, or pad more",
                    size.width, size.height, width, height, c->padding);
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_size2d size = size_both(c->size);
    pst_field *f;
    pst_status st = image_field_plan(&c->field, in, IMAGE_NUMBERS, ret_out, &f, reterr);
    if (st < 0)
        return st;
    for (int side = 0; side < 2; side++) {
        uint64_t wanted = side ? size.width : size.height;
        if (f->shape[side] != PST_ANY && f->shape[side] + 2 * c->padding < wanted)
            return fail_small(c, f->shape[1], f->shape[0], reterr);
    }
    f->shape[0] = size.height;
    f->shape[1] = size.width;
    return PST_OK;
}

static pst_status geometry(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr)
{
    const struct config *c = config;
    pst_size2d size = size_both(c->size);
    uint64_t padded_width = width + 2 * c->padding, padded_height = height + 2 * c->padding;
    if (padded_width < size.width || padded_height < size.height)
        return fail_small(c, width, height, reterr);
    struct random *r = ctx_random(ctx);
    uint64_t y = random_below(r, padded_height - size.height + 1), x = random_below(r, padded_width - size.width + 1);
    *ret = (struct geometry){.x = (int64_t)x - (int64_t)c->padding, .y = (int64_t)y - (int64_t)c->padding};
    ret->width = ret->cut_width = size.width;
    ret->height = ret->cut_height = size.height;
    return PST_OK;
}

static bool pads(const void *config)
{
    return ((const struct config *)config)->padding > 0;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    return image_op_run(&op_random_crop, config, ctx, in, out, reterr);
}

static const pst_param params[] = {
    {"size", PST_PARAM_SIZE2D, offsetof(struct config, size), NULL, 1, IMAGE_MAX_SIDE, NULL,
     "224 for a square, 320x240 for width x height"},
    {"padding", PST_PARAM_UINT, offsetof(struct config, padding), "0", 0, IMAGE_MAX_SIDE, NULL,
     "width of the border of zeros that is added on every side before the crop"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.geometry = geometry, .cuts_at_random = true, .pads = pads};

const struct op_decl op_random_crop = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "random_crop",
            .doc = "Crops a rectangle of fixed size at a random position, as torchvision's RandomCrop does. All "
                   "positions are equally likely, and every epoch has new ones. If an image with its padding is smaller "
                   "than the crop, that element is an error. Only the needed part of an encoded image is decoded.",
            .example = "tfrecord shards/ | example | decode | random_crop 32 padding=4 | flip | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .run = run,
            .flags = PST_OP_RANDOM | PST_OP_ONE_FIELD | PST_OP_CUTS,
            .steady = "center_crop",
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
