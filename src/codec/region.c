/* region.c: see region.h. A format that can decode parts does; any other is decoded as a whole and cut. */
#include "codec/region.h"

#include "base/error.h"
#include "base/memory.h"
#include "codec/exif.h"
#include "codec/image_codec.h"
#include "codec/jpeg_input.h"

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
    if (d->jpeg)
        jpeg_input_finish(d->jpeg);
    mem_free(d->jpeg);
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

static pst_decode_options stored_options(const struct region_decoder *d, const struct region_info *info)
{
    pst_decode_options options = d->options.decode;
    options.channels = info->channels;
    options.strict = false;
    return options;
}

pst_status region_open(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                       pst_error *reterr)
{
    d->data = data;
    d->length = length;
    d->info = *info;
    if (info->stored.format != PST_IMAGE_JPEG)
        return PST_OK;
    if (!d->jpeg)
        d->jpeg = mem_zalloc(sizeof(*d->jpeg));
    if (!d->jpeg)
        return image_codec_no_memory("jpeg", reterr);
    pst_decode_options options = stored_options(d, info);
    return jpeg_input_open(d->jpeg, data, length, &info->stored, &options, d->options.fast_transform, reterr);
}

const struct jpeg_decoder *region_jpeg(const struct region_decoder *d)
{
    return d->info.stored.format == PST_IMAGE_JPEG && d->info.orientation == 1 ? jpeg_input_decoder(d->jpeg) : NULL;
}

static pst_status decode_whole(struct region_decoder *d, const struct image_codec *codec, const struct region *part,
                               const pst_decode_options *options, pst_image *ret, pst_error *reterr)
{
    pst_image_finish(&d->whole);
    pst_status st = image_codec_decode(&d->whole, codec, d->data, d->length, &d->info.stored, options, reterr);
    if (st < 0)
        return st;
    *ret = d->whole;
    ret->pixels += part->y * ret->stride + (size_t)part->x * ret->channels;
    ret->width = part->width;
    ret->height = part->height;
    return PST_OK;
}

static pst_status decode_stored(struct region_decoder *d, const struct region *part, struct jpeg_points *points, pst_image *ret,
                                pst_error *reterr)
{
    const struct image_codec *codec = image_codec_of(d->info.stored.format);
    pst_decode_options options = stored_options(d, &d->info);
    if (d->info.stored.format == PST_IMAGE_JPEG)
        return jpeg_input_pixels(d->jpeg, part, points, &d->memory, ret, reterr);
    if (!codec->decode_part)
        return decode_whole(d, codec, part, &options, ret, reterr);
    return codec->decode_part(ret, d->data, d->length, &d->info.stored, part, &options, &d->memory, reterr);
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

pst_status region_pixels(struct region_decoder *d, const struct region *part, struct jpeg_points *points, pst_image *ret,
                         pst_error *reterr)
{
    const struct region_info *info = &d->info;
    assert(part->width > 0 && part->x <= info->width && part->width <= info->width - part->x);
    assert(part->height > 0 && part->y <= info->height && part->height <= info->height - part->y);
    if (info->orientation == 1)
        return decode_stored(d, part, points, ret, reterr);
    pst_image stored;
    struct region where = exif_region(part, info->stored.width, info->stored.height, info->orientation);
    pst_status st = decode_stored(d, &where, NULL, &stored, reterr);
    return st < 0 ? st : turn(d, &stored, info->orientation, ret, reterr);
}

pst_status region_planes(struct region_decoder *d, const struct region *part, unsigned scale, struct jpeg_points *points,
                         struct jpeg_frame *ret_frame, struct jpeg_plane *ret, pst_error *reterr)
{
    if (d->info.stored.format != PST_IMAGE_JPEG || d->info.orientation != 1)
        return PST_EUNSUPPORTED;
    return jpeg_input_planes(d->jpeg, part, scale, points, ret_frame, ret, reterr);
}

pst_status region_decode(struct region_decoder *d, const void *data, size_t length, const struct region_info *info,
                         const struct region *part, pst_image *ret, pst_error *reterr)
{
    pst_status st = region_open(d, data, length, info, reterr);
    return st < 0 ? st : region_pixels(d, part, NULL, ret, reterr);
}
