/* op_flip.c: `flip`: images mirrored left to right, some of them. */
#include "ops/image/image_op.h"
#include "ops/op_list.h"

struct config {
    struct image_field field;
    double p;
};

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_field *f;
    return image_field_plan(&c->field, in, IMAGE_NUMBERS, ret_out, &f, reterr);
}

static pst_status geometry(const void *config, pst_ctx *ctx, uint32_t width, uint32_t height, struct geometry *ret,
                           pst_error *reterr)
{
    const struct config *c = config;
    (void)reterr;
    *ret = (struct geometry){.cut_width = width, .cut_height = height, .width = width, .height = height};
    ret->flips = pst_random_unit(ctx) < c->p;
    return PST_OK;
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)worker;
    return image_op_run(&op_flip, config, ctx, in, out, reterr);
}

static const pst_param params[] = {
    {"p", PST_PARAM_FLOAT, offsetof(struct config, p), "0.5", 0, 1, NULL, "the probability of mirroring an image"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.geometry = geometry};

const struct op_decl op_flip = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "flip",
            .doc = "Mirrors an image left to right with probability p. Every epoch makes new random choices.",
            .example = "tfrecord shards/ | example | decode | resize 224 | flip | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .run = run,
            .flags = PST_OP_RANDOM | PST_OP_ONE_FIELD,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
