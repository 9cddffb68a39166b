/* region.c: see region.h. A format that can decode parts does; any other is decoded as a whole and cut. */
#include "codec/region.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/exif.h"
#include "codec/image_codec.h"
#include "codec/jpeg/decoder.h"

#include <assert.h>

#define KEPT_MOST ((size_t)64 << 20) /* one huge image must not occupy its memory for ever */

bool region_memory_need(struct region_memory *m, size_t size)
{
    if (size <= m->size && (m->size <= KEPT_MOST || size > KEPT_MOST))
        return true;
    mem_free(m->data);
    m->data = mem_aligned(size);
    m->size = m->data ? size : 0;
    return m->data != NULL;
}

pst_status region_decoder_init(struct region_decoder *d, const struct region_options *options, pst_error *reterr)
{
    *d = (struct region_decoder){.options = *options};
    return image_codec_complete_options(&d->options.decode, &options->decode, reterr);
}

void region_decoder_finish(struct region_decoder *d)
{
    mem_free(d->memory.data);
    mem_free(d->turned.data);
    pst_image_finish(&d->whole);
    jpeg_decoder_free(d->jpeg);
    *d = (struct region_decoder){0};
}

pst_status region_probe(const struct region_decoder *d, const void *data, size_t length, struct region_info *ret,
                        pst_error *reterr)
{
    const struct image_codec *codec;
    struct region_info info = {.orientation = 1};
    pst_status st = image_codec_open(&codec, data, length, &d->options.decode, &info.stored, reterr);
    if (st < 0)
        return st;
    if (d->options.decode.strict && codec->check_end) {
        st = codec->check_end(data, length, reterr);
        if (st < 0)
            return st;
    }
    if (d->options.upright)
        info.orientation = exif_orientation(codec, data, length);
    bool turns = exif_turns(info.orientation);
    info.width = turns ? info.stored.height : info.stored.width;
    info.height = turns ? info.stored.width : info.stored.height;
    info.channels = image_codec_channels(&d->options.decode, &info.stored);
    *ret = info;
    return PST_OK;
}

static pst_status decode_whole(struct region_decoder *d, const struct image_codec *codec, const void *data, size_t length,
                               const pst_image_info *info, const struct region *part, const pst_decode_options *options,
                               pst_image *ret, pst_error *reterr)
{
    pst_image_finish(&d->whole);
    pst_status st = image_codec_decode(&d->whole, codec, data, length, info, options, reterr);
    if (st < 0)
        return st;
    *ret = d->whole;
    ret->pixels += part->y * ret->stride + (size_t)part->x * ret->channels;
    ret->width = part->width;
    ret->height = part->height;
    return PST_OK;
}

/* With our own decoder. PST_EUNSUPPORTED, without an error: with libjpeg-turbo, then, which has the same pixels. */
static pst_status decode_jpeg(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                              const struct region *part, pst_image *ret, pst_error *reterr)
{
    struct jpeg_frame frame;
    pst_error error;
    if (!d->jpeg)
        d->jpeg = jpeg_decoder_create();
    if (!d->jpeg)
        return image_codec_no_memory("jpeg", reterr);
    if (jpeg_decoder_open(d->jpeg, data, length, &frame, NULL) < 0 || frame.width != info->stored.width ||
        frame.height != info->stored.height)
        return PST_EUNSUPPORTED;
    pst_status st = jpeg_decode_pixels(d->jpeg, part, info->channels, NULL, ret, &error);
    if (st < 0 && st != PST_EUNSUPPORTED && reterr)
        *reterr = error;
    return st;
}

static pst_status decode_stored(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                                const struct region *part, pst_image *ret, pst_error *reterr)
{
    const struct image_codec *codec = image_codec_of(info->stored.format);
    pst_decode_options options = d->options.decode;
    options.channels = info->channels;
    options.strict = false;
    if (info->stored.format == PST_IMAGE_JPEG) {
        pst_status st = decode_jpeg(d, data, length, info, part, ret, reterr);
        if (st != PST_EUNSUPPORTED)
            return st;
    }
    if (!codec->decode_part)
        return decode_whole(d, codec, data, length, &info->stored, part, &options, ret, reterr);
    return codec->decode_part(ret, data, length, &info->stored, part, &options, &d->memory, reterr);
}

static pst_status turn(struct region_decoder *d, const pst_image *in, unsigned orientation, pst_image *ret, pst_error *reterr)
{
    bool turns = exif_turns(orientation);
    pst_image out = {
        .width = turns ? in->height : in->width, .height = turns ? in->width : in->height, .channels = in->channels};
    out.stride = (size_t)out.width * out.channels;
    if (!region_memory_need(&d->turned, out.stride * out.height)) /* as much as the decoded part itself takes */
        return fail_memory(reterr, "turning an image upright");
    out.pixels = d->turned.data;
    exif_turn(in, &out, orientation);
    *ret = out;
    return PST_OK;
}

pst_status region_decode(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                         const struct region *part, pst_image *ret, pst_error *reterr)
{
    assert(part->width > 0 && part->x <= info->width && part->width <= info->width - part->x);
    assert(part->height > 0 && part->y <= info->height && part->height <= info->height - part->y);
    if (info->orientation == 1)
        return decode_stored(d, data, length, info, part, ret, reterr);
    pst_image stored;
    struct region where = exif_region(part, info->stored.width, info->stored.height, info->orientation);
    pst_status st = decode_stored(d, data, length, info, &where, &stored, reterr);
    return st < 0 ? st : turn(d, &stored, info->orientation, ret, reterr);
}
