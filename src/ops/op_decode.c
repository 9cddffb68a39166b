/* op_decode.c: `decode`: encoded images, or raw pixels, as arrays. */
#include "ops/fields.h"
#include "ops/image/image_source.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const qualities[] = {[QUALITY_AUTO] = "auto", [QUALITY_EXACT] = "exact", [QUALITY_FAST] = "fast",
                                        [QUALITY_TENSORFLOW] = "tensorflow", NULL};
static const char *const formats[] = {[DECODE_AUTO] = "auto", [DECODE_RAW] = "raw", NULL};

/* ---- Planning ---- */

/* "224x224x3" */
static bool parse_shape(const char *text, uint32_t *height, uint32_t *width, uint32_t *depth)
{
    uint32_t *sides[3] = {height, width, depth};
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long v = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
        if (v == 0 || v > (i < 2 ? IMAGE_MAX_SIDE : 4) || *end != (i < 2 ? 'x' : '\0'))
            return false;
        *sides[i] = (uint32_t)v;
        text = end + 1;
    }
    return true;
}

static pst_status check_form(struct decode_config *c, pst_error *reterr)
{
    if (c->format == DECODE_RAW && !parse_shape(c->shape, &c->height, &c->width, &c->depth))
        return pst_fail(reterr, PST_EINVAL,
                        "the shape of raw pixels is %s%.40s; expected height x width x channels, as in shape=224x224x3",
                        c->shape[0] ? "" : "missing", c->shape);
    if (c->format != DECODE_RAW && c->shape[0])
        return pst_fail(reterr, PST_EINVAL, "shape is for raw pixels: write format=raw, or leave it out");
    if (c->channels == 2)
        return pst_fail(reterr, PST_EINVAL, "channels is 2; expected 0 (as stored), 1 (gray), 3 (RGB) or 4 (RGBA)");
    return PST_OK;
}

static pst_status plan(void *config, const pst_spec *in, pst_spec *ret_out, pst_error *reterr)
{
    struct decode_config *c = config;
    pst_status st = check_form(c, reterr);
    if (st == PST_OK)
        st = field_find(in, c->field.name, &c->field.number, reterr);
    if (st < 0)
        return st;
    const pst_field *f = &in->field[c->field.number];
    if (f->dtype != PST_DTYPE_BYTES || f->rank != 0)
        return pst_fail(reterr, PST_ETYPE, "field %s has %s of %" PRIu32 " dimensions; expected an encoded image: bytes",
                        f->name, pst_dtype_name(f->dtype), f->rank);
    bool raw = c->format == DECODE_RAW;
    pst_spec_pass(in, ret_out);
    pst_spec_read(ret_out, c->field.number);
    pst_field *out = pst_spec_write(ret_out, c->field.number);
    out->dtype = PST_DTYPE_U8;
    out->rank = 3;
    out->shape[0] = raw ? c->height : PST_ANY;
    out->shape[1] = raw ? c->width : PST_ANY;
    out->shape[2] = raw ? c->depth : c->channels ? c->channels : PST_ANY;
    return PST_OK;
}

/* ---- Running ---- */

struct region_options decode_options(const struct decode_config *c)
{
    return (struct region_options){.decode = {.size = sizeof(pst_decode_options),
                                              .channels = (uint32_t)c->channels,
                                              .max_pixels = c->max_pixels,
                                              .max_scans = (uint32_t)c->max_scans,
                                              .strict = !c->recover},
                                   .upright = c->exif,
                                   .fast_transform = c->quality == QUALITY_TENSORFLOW};
}

pst_status decode_raw(const struct decode_config *c, const pst_bytes *bytes, pst_image *ret, pst_error *reterr)
{
    size_t row = (size_t)c->width * c->depth;
    if (bytes->length != row * c->height)
        return pst_fail(reterr, PST_ECORRUPT, "raw pixels of %zu bytes; %" PRIu32 " × %" PRIu32 " × %" PRIu32 " are %zu",
                        bytes->length, c->height, c->width, c->depth, row * c->height);
    *ret = (pst_image){
        .pixels = (uint8_t *)bytes->data, .width = c->width, .height = c->height, .channels = c->depth, .stride = row};
    return PST_OK;
}

static pst_status start(const void *config, void *worker, pst_error *reterr)
{
    return image_decoder_init(worker, config, reterr);
}

static void stop(const void *config, void *worker)
{
    (void)config;
    region_decoder_finish(worker);
}

static pst_status run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    const struct decode_config *c = config;
    pst_tensor *to = &out[c->field.number];
    struct image_source source;
    pst_image image;
    pst_status st = image_source_open(&source, c, worker, ctx, &in[c->field.number], reterr);
    if (st == PST_OK)
        st = image_source_pixels(&source, &(struct region){.width = source.info.width, .height = source.info.height}, &image,
                                 reterr);
    if (st < 0)
        return st;
    to->rank = 3;
    to->shape[0] = image.height;
    to->shape[1] = image.width;
    to->shape[2] = image.channels;
    to->data = image.pixels; /* the record's or the decoder's own, until the next element */
    return PST_OK;
}

static const pst_param params[] = {
    {"field", PST_PARAM_STRING, offsetof(struct decode_config, field.name), "image", 0, 0, NULL,
     "the field with the encoded images"},
    {"format", PST_PARAM_CHOICE, offsetof(struct decode_config, format), "auto", 0, 0, formats,
     "auto: detected from the first bytes of each image; raw: the bytes are pixels"},
    {"shape", PST_PARAM_STRING, offsetof(struct decode_config, shape), "", 0, 0, NULL,
     "for format=raw: height x width x channels, such as 224x224x3"},
    {"channels", PST_PARAM_UINT, offsetof(struct decode_config, channels), "3", 0, 4, NULL,
     "3 RGB, 1 gray, 4 RGBA, 0 as stored (gray or RGB)"},
    {"exif", PST_PARAM_BOOL, offsetof(struct decode_config, exif), "false", 0, 0, NULL,
     "rotate photos as their EXIF data says; the default is off, as in tf.image and torchvision"},
    {"recover", PST_PARAM_BOOL, offsetof(struct decode_config, recover), "false", 0, 0, NULL,
     "accept a truncated JPEG; the missing part is gray"},
    {"max_pixels", PST_PARAM_UINT, offsetof(struct decode_config, max_pixels), "268435456", 1, 1e15, NULL,
     "an image with more pixels is an error; checked before memory is allocated"},
    {"max_scans", PST_PARAM_UINT, offsetof(struct decode_config, max_scans), "500", 1, 1e9, NULL,
     "a progressive JPEG with more scans is an error"},
    {"quality", PST_PARAM_CHOICE, offsetof(struct decode_config, quality), "auto", 0, 0, qualities,
     "for JPEG and yuv420. exact: libjpeg's pixels. fast: planes are resized before the conversion to "
     "RGB. tensorflow: the pixels of tf.io.decode_jpeg, whose transform is less accurate. auto: fast if a random "
     "crop and a resize follow, otherwise exact"},
    {0},
};

static const char *choice(const void *config, const char **ret_reason)
{
    const struct decode_config *c = config;
    *ret_reason = c->reason;
    return !c->reason ? NULL : c->fast ? "quality fast" : c->quality == QUALITY_TENSORFLOW ? "quality tensorflow" : "quality exact";
}

/* The choice depends on what follows, and is part of what the pipeline means. */
static uint64_t fingerprint(const void *config)
{
    const struct decode_config *c = config;
    return c->reason && c->fast;
}

static const struct image_facet image = {.decodes = true};

const struct op_decl op_decode = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "decode",
            .doc = "Decodes images to uint8 [height,width,channels]: JPEG, PNG, WebP, BMP, GIF (first frame) and "
                   "yuv420, detected by their content. If crops or a resize follow, only the needed part is decoded. If "
                   "an image is damaged or truncated, that element is an error. Raw pixels are not copied.",
            .example = "tfrecord shards/ | example \"image:bytes label:int64\" | decode image | resize 224 | batch 64",
            .params = params,
            .config_size = sizeof(struct decode_config),
            .worker_size = sizeof(struct region_decoder),
            .plan = plan,
            .start = start,
            .flags = PST_OP_ONE_FIELD | PST_OP_DECODES,
            .run = run,
            .stop = stop,
            .fingerprint = fingerprint,
        },
    .kind = PST_OP_SAMPLE,
    .choice = choice,
    .image = &image,
    .cause = PST_CAUSE_IMAGE,
};
