/* op_crop.c: `crop`: a fixed rectangle of an image. */
#include "ops/image/image_op.h"
#include "ops/op_list.h"

#include <inttypes.h>

struct config {
    struct image_field field;
    uint64_t x, y, width, height;
};

static pst_status fail_outside(const struct config *c, uint64_t width, uint64_t height, pst_error *reterr)
{
    return pst_fail(reterr, PST_ETYPE,
                    "the rectangle of %" PRIu64 " × %" PRIu64 " pixels at %" PRIu64 ", %" PRIu64 " leaves the image of %" PRIu64
                    " × %" PRIu64 "; resize first, or use center_crop",
                    c->width, c->height, c->x, c->y, width, height);
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_field *f;
    pst_status st = image_field_plan(&c->field, in, IMAGE_NUMBERS, ret_out, &f, reterr);
    if (st < 0)
        return st;
    if (c->y + c->height > f->shape[0] || c->x + c->width > f->shape[1]) /* an unknown side is the largest number */
        return fail_outside(c, f->shape[1], f->shape[0], reterr);
    f->shape[0] = c->height;
    f->shape[1] = c->width;
    return PST_OK;
}

static pst_status geometry(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr)
{
    const struct config *c = config;
    (void)ctx;
    if (c->y + c->height > height || c->x + c->width > width)
        return fail_outside(c, width, height, reterr);
    *ret = (struct geometry){.x = (int64_t)c->x, .y = (int64_t)c->y};
    ret->width = ret->cut_width = (uint32_t)c->width;
    ret->height = ret->cut_height = (uint32_t)c->height;
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    return image_op_run(&op_crop, config, ctx, in, out, reterr);
}

static const pst_param params[] = {
    {"x", PST_PARAM_UINT, offsetof(struct config, x), NULL, 0, IMAGE_MAX_SIDE, NULL, "left edge, counted from 0"},
    {"y", PST_PARAM_UINT, offsetof(struct config, y), NULL, 0, IMAGE_MAX_SIDE, NULL, "upper edge, counted from 0"},
    {"width", PST_PARAM_UINT, offsetof(struct config, width), NULL, 1, IMAGE_MAX_SIDE, NULL, "columns to keep"},
    {"height", PST_PARAM_UINT, offsetof(struct config, height), NULL, 1, IMAGE_MAX_SIDE, NULL, "rows to keep"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.geometry = geometry};

const struct op_decl op_crop = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "crop",
            .doc = "Crops a fixed rectangle. If an image does not contain the whole rectangle, that element is an "
                   "error. Only the needed part of an encoded image is decoded.",
            .example = "tfrecord shards/ | example | decode | crop 16 0 224 224 | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CUTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
