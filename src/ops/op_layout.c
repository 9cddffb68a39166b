/* op_layout.c: `layout`: images pixel by pixel, or one plane per channel. */
#include "ops/fields.h"
#include "ops/image/image_op.h"

#include <string.h>

enum { LAYOUT_NCHW, LAYOUT_NHWC };
struct config {
    struct image_field field;
    int order;
};

static const char *const orders[] = {[LAYOUT_NCHW] = "nchw", [LAYOUT_NHWC] = "nhwc", NULL};

/* Channels first: a small first dimension before dimensions that cannot be channels. */
static bool is_planar(const pst_field *f)
{
    return f->rank == 3 && !image_field_holds(f) && f->dtype != PST_DTYPE_BYTES && f->shape[0] >= 1 && f->shape[0] <= 4;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_field *f;
    pst_status st = field_find(in, c->field.name, &c->field.number, reterr);
    if (st < 0)
        return st;
    const pst_field *old = &in->field[c->field.number];
    bool planar = is_planar(old);
    if (planar == (c->order == LAYOUT_NCHW) && (planar || image_field_holds(old))) { /* it is so already */
        pst_spec_pass(in, ret_out);
        return PST_OK;
    }
    if (!planar) {
        st = image_field_plan(&c->field, in, IMAGE_NUMBERS, ret_out, &f, reterr);
        if (st < 0)
            return st;
    } else {
        pst_spec_pass(in, ret_out);
        pst_spec_read(ret_out, c->field.number);
        f = pst_spec_write(ret_out, c->field.number);
    }
    uint64_t shape[3];
    memcpy(shape, f->shape, sizeof(shape));
    f->shape[0] = shape[planar ? 1 : 2];
    f->shape[1] = shape[planar ? 2 : 0];
    f->shape[2] = shape[planar ? 0 : 1];
    return PST_OK;
}

/* Rows of `rows` × `columns` values of `size` bytes become columns. */
static void transpose(uint8_t *to, const uint8_t *from, size_t rows, size_t columns, size_t size)
{
    for (size_t c = 0; c < columns; c++)
        for (size_t r = 0; r < rows; r++, to += size)
            memcpy(to, from + (r * columns + c) * size, size);
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    const pst_tensor *from = &in[c->field.number];
    pst_tensor *to = &out[c->field.number];
    bool split = c->order == LAYOUT_NCHW;
    const uint64_t *s = from->shape, shape[3] = {s[split ? 2 : 1], s[split ? 0 : 2], s[split ? 1 : 0]};
    size_t pixels = (size_t)(split ? s[0] * s[1] : s[1] * s[2]), channels = (size_t)(split ? s[2] : s[0]);
    (void)worker;
    pst_status st = field_prepare(ctx, to, 3, shape, reterr);
    if (st == PST_OK)
        transpose(to->data, from->data, split ? pixels : channels, split ? channels : pixels, pst_dtype_size(from->dtype));
    return st;
}

static const pst_param params[] = {
    {"order", PST_PARAM_CHOICE, offsetof(struct config, order), NULL, 0, 0, orders,
     "nchw: channels first, as in PyTorch; nhwc: channels last, as in TensorFlow"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static bool splits(const void *config)
{
    return ((const struct config *)config)->order == LAYOUT_NCHW;
}

static const struct image_facet image = {.splits = splits};

const struct op_decl op_layout = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "layout",
            .doc = "Moves the channels of an image first (nchw) or last (nhwc); N is the batch dimension, which batch "
                   "adds. Decoded images have their channels last, and image operations need them there.",
            .example = "tfrecord shards/ | example | decode | resize 224 | normalize imagenet | layout nchw | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
