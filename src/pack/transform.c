/* transform.c: decode, crop, resize, convert, encode: only the steps that are asked for.
 *
 * Promises: an image that already is what the options ask for keeps its bytes; copies have the size of the original's
 * output; the same input gives the same output on any worker. A truncated image is refused rather than stored with the
 * missing part in gray. */
#include "pack/compose.h"

#include "base/random.h"
#include "image/pixels.h"

#include <math.h>
#include <string.h>

#define DEFAULT_QUALITY 90

/* How far augmented copies go. */
#define LEAST_AREA   0.5
#define LEAST_ASPECT (3.0 / 4.0)
#define MOST_ASPECT  (4.0 / 3.0)
#define JITTER       0.2

static void target_size(const struct pack_config *c, uint32_t width, uint32_t height, uint32_t *ret_width, uint32_t *ret_height)
{
    *ret_width = width;
    *ret_height = height;
    if (c->width) {
        *ret_width = c->width;
        *ret_height = c->height;
    } else if (c->short_side) {
        uint64_t small = width < height ? width : height, large = width < height ? height : width;
        uint64_t other = (large * c->short_side + small / 2) / small;
        uint32_t side = other > UINT32_MAX ? UINT32_MAX : (uint32_t)other; /* the decoder's limits keep it far below */
        *ret_width = width < height ? c->short_side : side;
        *ret_height = width < height ? side : c->short_side;
    }
}

static pst_image_format target_format(const struct pack_config *c, pst_image_format source)
{
    if (c->options.format != PST_IMAGE_UNKNOWN)
        return c->options.format;
    return source == PST_IMAGE_GIF || source == PST_IMAGE_BMP ? PST_IMAGE_PNG : source;
}

static bool is_as_asked(const struct pack_config *c, const pst_image_info *info)
{
    uint32_t width, height;
    target_size(c, info->width, info->height, &width, &height);
    bool requality = c->options.quality && (info->format == PST_IMAGE_JPEG || info->format == PST_IMAGE_WEBP);
    return width == info->width && height == info->height && !requality &&
           (c->options.channels == 0 || c->options.channels == info->channels) &&
           (c->options.format == PST_IMAGE_UNKNOWN || c->options.format == info->format);
}

/* A warning of a decoder is an error if data is missing, and ignored if there is too much of it. */
static pst_status decode(pst_image *ret, const struct transform_input *in, uint32_t channels, pst_error *reterr)
{
    pst_decode_options options = {.size = sizeof(options), .channels = channels, .strict = true};
    pst_status st = pst_image_decode(ret, in->data, in->length, &options, reterr);
    if (st != PST_ECORRUPT || strstr(reterr->message, "Premature end"))
        return st;
    options.strict = false;
    return pst_image_decode(ret, in->data, in->length, &options, reterr);
}

static pst_status copy_image(pst_image *ret, const pst_image *in, uint32_t channels, pst_error *reterr)
{
    pst_status st = pst_image_create(ret, in->width, in->height, channels, reterr);
    if (st < 0)
        return st;
    if (channels == in->channels)
        pixels_copy(in, ret);
    else if (channels == 1)
        pixels_to_gray(in, ret);
    else
        pixels_gray_to_rgb(in, ret);
    return PST_OK;
}

/* Fills t->decoded with item's pixels, in the channels asked for. */
static pst_status bring_pixels(struct transform *t, const struct pack_config *c, uint64_t item,
                               const struct transform_input *in, pst_error *reterr)
{
    if (t->item == item + 1)
        return PST_OK;
    pst_image_finish(&t->decoded);
    t->item = 0;
    uint32_t channels = c->options.channels;
    pst_status st = in->pixels ? copy_image(&t->decoded, in->pixels, channels ? channels : in->pixels->channels, reterr)
                               : decode(&t->decoded, in, channels, reterr);
    if (st == PST_OK)
        t->item = item + 1;
    return st;
}

static pst_image random_crop(const pst_image *in, struct random *r)
{
    double area = random_between(r, LEAST_AREA, 1), aspect = random_between(r, LEAST_ASPECT, MOST_ASPECT);
    double width = in->width * sqrt(area * aspect), height = in->height * sqrt(area / aspect);
    uint32_t w = width >= in->width ? in->width : width < 1 ? 1 : (uint32_t)width;
    uint32_t h = height >= in->height ? in->height : height < 1 ? 1 : (uint32_t)height;
    uint32_t x = (uint32_t)random_below(r, (uint64_t)in->width - w + 1),
             y = (uint32_t)random_below(r, (uint64_t)in->height - h + 1);
    return pixels_crop(in, x, y, w, h);
}

/* The pixels that are stored, in t->result. */
static pst_status make_result(struct transform *t, const struct pack_config *c, uint64_t item, uint32_t copy, pst_error *reterr)
{
    uint32_t width, height;
    struct random r;
    pst_image part = t->decoded;
    target_size(c, part.width, part.height, &width, &height);
    if ((uint64_t)width * height > PST_MAX_PIXELS)
        return pst_fail(reterr, PST_ELIMIT, "resizing %u × %u to %u × %u makes more pixels than an image may have", part.width,
                        part.height, width, height);
    random_init(&r, c->options.seed, 0, item, copy);
    if (copy)
        part = random_crop(&t->decoded, &r);
    pst_image_finish(&t->result);
    pst_status st = part.width == width && part.height == height
                        ? copy_image(&t->result, &part, part.channels, reterr)
                        : pst_image_resize(&t->result, &part, width, height, PST_FILTER_TRIANGLE, reterr);
    if (st < 0 || !copy)
        return st;
    if (random_below(&r, 2))
        pixels_flip(&t->result);
    float brightness = (float)random_between(&r, 1 - JITTER, 1 + JITTER),
          contrast = (float)random_between(&r, 1 - JITTER, 1 + JITTER);
    float saturation = (float)random_between(&r, 1 - JITTER, 1 + JITTER);
    pixels_adjust(&t->result, brightness, contrast, saturation);
    return PST_OK;
}

pst_status transform_run(struct transform *t, const struct pack_config *c, uint64_t item, uint32_t copy,
                         const struct transform_input *in, struct transform_output *ret, pst_error *reterr)
{
    pst_image_info info = {.format = PST_IMAGE_RAW};
    pst_status st = PST_OK;
    if (in->pixels) {
        info.width = in->pixels->width;
        info.height = in->pixels->height;
        info.channels = in->pixels->channels;
    } else {
        st = pst_image_probe(in->data, in->length, &info, reterr);
    }
    if (st < 0)
        return st;
    bool as_is = copy == 0 && !in->pixels && is_as_asked(c, &info);
    /* With copies the original is decoded too: an item is sound with all of its copies, or not at all. */
    if (!as_is || c->options.augment)
        st = bring_pixels(t, c, item, in, reterr);
    if (st < 0)
        return st;
    if (as_is) {
        *ret = (struct transform_output){in->data, in->length, info};
        return PST_OK;
    }
    st = make_result(t, c, item, copy, reterr);
    if (st < 0)
        return st;
    const pst_image *image = &t->result;
    info = (pst_image_info){target_format(c, info.format), image->width, image->height, image->channels};
    if (info.format == PST_IMAGE_RAW) { /* rows of a created image lie close together */
        *ret = (struct transform_output){image->pixels, image->stride * image->height, info};
        return PST_OK;
    }
    pst_encode_options options = {.size = sizeof(options),
                                  .quality = c->options.quality ? c->options.quality : DEFAULT_QUALITY};
    size_t length = 0;
    pst_free(t->encoded);
    t->encoded = NULL;
    st = pst_image_encode(&t->encoded, &length, image, info.format, &options, reterr);
    if (st == PST_EUNSUPPORTED) /* nothing is wrong with the image: the command cannot be carried out */
        return pst_fail(reterr, PST_EINVAL, "%s", reterr->message);
    if (st == PST_OK)
        *ret = (struct transform_output){t->encoded, length, info};
    return st;
}

void transform_finish(struct transform *t)
{
    pst_image_finish(&t->decoded);
    pst_image_finish(&t->result);
    pst_free(t->encoded);
    *t = (struct transform){0};
}
