/* op_normalize.c: `normalize`: levels as floating point around 0. */
#include "image/convert.h"
#include "ops/fields.h"
#include "ops/image/image_op.h"

#include <inttypes.h>

struct config {
    struct image_field field;
    int range;
    pst_floats mean, std;
};

enum { ZERO_ONE, MINUS_ONE_ONE, IMAGENET };
static const char *const ranges[] = {[ZERO_ONE] = "0..1", [MINUS_ONE_ONE] = "-1..1", [IMAGENET] = "imagenet", NULL};

/* Means and deviations of levels from 0 to 1. */
static const pst_floats imagenet_mean = {3, {0.485, 0.456, 0.406}}, imagenet_std = {3, {0.229, 0.224, 0.225}};
static const pst_floats zero = {1, {0}}, half = {1, {0.5}}, one = {1, {1}};

static const pst_floats *mean_of(const struct config *c)
{
    if (c->mean.count)
        return &c->mean;
    return c->range == IMAGENET ? &imagenet_mean : c->range == MINUS_ONE_ONE ? &half : &zero;
}

static const pst_floats *std_of(const struct config *c)
{
    if (c->std.count)
        return &c->std;
    return c->range == IMAGENET ? &imagenet_std : c->range == MINUS_ONE_ONE ? &half : &one;
}

static double value_of(const pst_floats *f, uint32_t channel)
{
    return f->value[f->count == 1 ? 0 : channel];
}

static pst_status check_count(const struct config *c, const char *what, size_t count, uint64_t channels, pst_error *reterr)
{
    if (count == 1 || channels == PST_ANY || count == channels)
        return PST_OK;
    return pst_fail(reterr, PST_ETYPE,
                    "%s has %zu values, the images of field %s have %" PRIu64
                    " channel%s; decode channels=%zu gives them as many",
                    what, count, c->field.name, channels, channels == 1 ? "" : "s", count);
}

static pst_status check_channels(const struct config *c, uint64_t channels, pst_error *reterr)
{
    pst_status st = check_count(c, c->range == IMAGENET ? "imagenet" : "mean", mean_of(c)->count, channels, reterr);
    return st < 0 ? st : check_count(c, c->range == IMAGENET ? "imagenet" : "std", std_of(c)->count, channels, reterr);
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct config *c = config;
    pst_field *f;
    if (c->range != ZERO_ONE && (c->mean.count || c->std.count))
        return pst_fail(reterr, PST_EINVAL, "%s already sets mean and std; leave it out, or leave them out", ranges[c->range]);
    for (size_t i = 0; i < c->std.count; i++)
        if (!(c->std.value[i] > 0))
            return pst_fail(reterr, PST_EINVAL, "std has the value %g; expected values above 0, of levels from 0 to 1",
                            c->std.value[i]);
    pst_status st = image_field_plan(&c->field, in, IMAGE_BYTES_AND_FLOATS, ret_out, &f, reterr);
    if (st == PST_OK)
        st = check_channels(c, f->shape[2], reterr);
    if (st < 0)
        return st;
    f->dtype = PST_DTYPE_F32;
    return PST_OK;
}

static pst_status factors(const void *config, uint32_t channels, float *scale, float *bias, pst_error *reterr)
{
    const struct config *c = config;
    const pst_floats *mean = mean_of(c), *std = std_of(c);
    pst_status st = check_channels(c, channels, reterr);
    if (st < 0)
        return st;
    for (uint32_t i = 0; i < channels; i++) {
        scale[i] = (float)(1 / (255 * value_of(std, i)));
        bias[i] = (float)(-value_of(mean, i) / value_of(std, i));
    }
    return PST_OK;
}

static void scale_floats(const float *from, float *to, const pst_image *image, const float *scale, const float *bias)
{
    size_t values = (size_t)image->width * image->height * image->channels;
    for (size_t i = 0; i < values; i++) {
        size_t channel = i % image->channels;
        to[i] = from[i] * scale[channel] + bias[channel];
    }
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct config *c = config;
    pst_tensor *to = &out[c->field.number];
    struct convert convert;
    float scale[4], bias[4];
    pst_image image;
    (void)worker;
    pst_status st = image_of_tensor(&in[c->field.number], &image, reterr);
    if (st == PST_OK)
        st = factors(c, image.channels, scale, bias, reterr);
    if (st == PST_OK)
        st = field_prepare(ctx, to, 3, in[c->field.number].shape, reterr);
    if (st < 0)
        return st;
    if (in[c->field.number].dtype == PST_DTYPE_F32) {
        scale_floats(in[c->field.number].data, to->data, &image, scale, bias);
        return PST_OK;
    }
    convert_init(&convert, image.channels, false, scale, bias);
    for (uint32_t y = 0; y < image.height; y++)
        convert_row(&convert, image.pixels + y * image.stride, image.width, (float *)to->data + y * image.stride, 0, NULL);
    return PST_OK;
}

static const pst_param params[] = {
    {"range", PST_PARAM_CHOICE, offsetof(struct config, range), "0..1", 0, 0, ranges,
     "0..1 and -1..1: scale all levels to that range; imagenet: use ImageNet's mean and standard "
     "deviation, as torchvision's models expect"},
    {"mean", PST_PARAM_FLOATS, offsetof(struct config, mean), "", -100, 100, NULL,
     "the mean to subtract, for levels from 0 to 1: one value, or one per channel"},
    {"std", PST_PARAM_FLOATS, offsetof(struct config, std), "", -100, 100, NULL,
     "the standard deviation to divide by: one value, or one per channel"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field.name), "image", 0, 0, NULL, "the field with the images"},
    {0},
};

static const struct image_facet image = {.factors = factors};

const struct op_decl op_normalize = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "normalize",
            .doc = "Converts the levels of an image, which are from 0 to 255, to float32: (level / 255 - mean) / std, computed as one "
                   "multiplication and one addition. mean and std are for levels from 0 to 1, as in torchvision's "
                   "Normalize. Images may be uint8 or float32. A second one on the same field is refused.",
            .example = "tfrecord shards/ | example | decode | resize 224 | normalize imagenet | batch 64",
            .params = params,
            .config_size = sizeof(struct config),
            .plan = plan,
            .flags = PST_OP_ONE_FIELD | PST_OP_CONVERTS,
            .run = run,
        },
    .kind = PST_OP_SAMPLE,
    .image = &image,
};
