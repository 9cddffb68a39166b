/* image_codec.c: the list of image formats, and the public calls that go through it.
 *
 * Here options get their defaults, sizes are held against the limits, and pixels get the channels that were asked for.
 * What the bytes mean is each format's own business. */
#include "codec/image_codec.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

static const struct image_codec *const codecs[] = {
    &image_codec_jpeg, &image_codec_png, &image_codec_webp, &image_codec_bmp, &image_codec_gif, &image_codec_yuv,
};
#define CODECS (sizeof(codecs) / sizeof(codecs[0]))

/* In the order of the enum; ends with NULL for text_nearest. */
static const char *const names[] = {"unknown", "jpeg", "png", "webp", "bmp", "gif", "raw", "yuv420", NULL};

const char *pst_image_format_name(pst_image_format format)
{
    return (unsigned)format < PST_IMAGE_FORMATS ? names[format] : names[PST_IMAGE_UNKNOWN];
}

pst_status pst_image_format_parse(pst_image_format *ret, const char *name, pst_error *reterr)
{
    const char *full = strcasecmp(name, "jpg") == 0 ? "jpeg" : name;
    for (int i = PST_IMAGE_JPEG; i < PST_IMAGE_FORMATS; i++) {
        if (strcasecmp(full, names[i]) == 0) {
            *ret = (pst_image_format)i;
            return PST_OK;
        }
    }
    const char *near = text_nearest(name, names + 1);
    return pst_fail(reterr, PST_EINVAL,
                    "image format \"%s\" is not known; expected jpeg, png, webp, bmp, gif, raw or yuv420%s%s%s", name,
                    near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

const struct image_codec *image_codec_find(const uint8_t *data, size_t length)
{
    for (size_t i = 0; i < CODECS; i++)
        if (codecs[i]->match(data, length))
            return codecs[i];
    return NULL;
}

const struct image_codec *image_codec_of(pst_image_format format)
{
    for (size_t i = 0; i < CODECS; i++)
        if (codecs[i]->format == format)
            return codecs[i];
    return NULL;
}

/* ---- Shared failures and memory ---- */

pst_status image_codec_check_size(uint64_t width, uint64_t height, const pst_decode_options *options, pst_error *reterr)
{
    if (height && width > options->max_pixels / height)
        return pst_fail(reterr, PST_ELIMIT,
                        "the image has %" PRIu64 " × %" PRIu64 " pixels, max_pixels is %" PRIu64
                        "; raise it if the source is trusted",
                        width, height, options->max_pixels);
    return PST_OK;
}

pst_status image_codec_cut_off(const char *format, size_t needed, size_t length, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, length, "%s: cut off after %zu bytes, at least %zu expected",
                       format, length, needed);
}

pst_status image_codec_no_memory(const char *format, pst_error *reterr)
{
    return fail_memory(reterr, "%s", format);
}

pst_status image_codec_bad_channels(const char *format, uint32_t channels, const char *allowed, pst_error *reterr)
{
    return pst_fail(reterr, PST_EINVAL, "%s stores images of %s channels, this one has %" PRIu32, format, allowed, channels);
}

bool byte_sink_add(struct byte_sink *s, const void *data, size_t length)
{
    if (length > SIZE_MAX - s->length || mem_grow((void **)&s->data, &s->capacity, s->length + length, 1) < 0)
        return false;
    memcpy(s->data + s->length, data, length);
    s->length += length;
    return true;
}

/* ---- Probing and decoding ---- */

static pst_status find(const struct image_codec **ret, const uint8_t *data, size_t length, pst_error *reterr)
{
    *ret = image_codec_find(data, length);
    if (*ret)
        return PST_OK;
    char start[8 * 3 + 1] = "";
    for (size_t i = 0; i < 8 && i < length; i++) {
        static const char digits[] = "0123456789abcdef";
        memcpy(start + 3 * i, (char[]){' ', digits[data[i] >> 4], digits[data[i] & 15]}, 3);
    }
    return pst_fail(reterr, PST_ECORRUPT, "not a jpeg, png, webp, bmp or gif: %zu bytes that begin with%s", length,
                    length ? start : " nothing");
}

pst_status pst_image_probe(const void *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    const struct image_codec *codec;
    pst_status st = find(&codec, data, length, reterr);
    return st < 0 ? st : codec->probe(data, length, ret, reterr);
}

/* Copies the options that the caller knows over zeros. */
static pst_status take_options(void *ret, size_t size, const void *options, pst_error *reterr)
{
    memset(ret, 0, size);
    if (!options)
        return PST_OK;
    size_t given = *(const size_t *)options;
    if (given < sizeof(size_t) || given > 4096)
        return pst_fail(reterr, PST_EINVAL, "the options' size is %zu; set it to sizeof the struct", given);
    memcpy(ret, options, given < size ? given : size);
    return PST_OK;
}

void image_codec_convert_row(const uint8_t *from, uint32_t from_channels, uint8_t *to, uint32_t to_channels, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, from += from_channels, to += to_channels) {
        bool gray = from_channels < 3;
        const uint8_t rgb[3] = {from[0], from[gray ? 0 : 1], from[gray ? 0 : 2]};
        if (to_channels == 1) { /* ITU-R 601 as Pillow rounds it; the same as pixels_to_gray */
            to[0] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
            continue;
        }
        memcpy(to, rgb, 3);
        if (to_channels == 4)
            to[3] = from_channels % 2 ? 255 : from[from_channels - 1];
    }
}

/* Takes `image` over: on PST_OK `*ret` has the wanted channels, otherwise `image` is gone. */
static pst_status convert(pst_image *ret, pst_image *image, uint32_t channels, pst_error *reterr)
{
    if (image->channels == channels) {
        *ret = *image;
        return PST_OK;
    }
    pst_image out;
    pst_status st = pst_image_create(&out, image->width, image->height, channels, reterr);
    if (st == PST_OK) {
        for (uint32_t y = 0; y < image->height; y++)
            image_codec_convert_row(image->pixels + y * image->stride, image->channels, out.pixels + y * out.stride, channels,
                                    image->width);
        *ret = out;
    }
    pst_image_finish(image);
    return st;
}

pst_status image_codec_complete_options(pst_decode_options *ret, const pst_decode_options *options, pst_error *reterr)
{
    pst_status st = take_options(ret, sizeof(*ret), options, reterr);
    if (st < 0)
        return st;
    if (ret->channels == 2 || ret->channels > 4)
        return pst_fail(reterr, PST_EINVAL, "decode: channels is %" PRIu32 "; expected 0 (as stored), 1, 3 or 4",
                        ret->channels);
    if (!ret->max_pixels)
        ret->max_pixels = PST_MAX_PIXELS;
    if (!ret->max_scans)
        ret->max_scans = PST_MAX_SCANS;
    return PST_OK;
}

pst_status image_codec_open(const struct image_codec **ret, const uint8_t *data, size_t length,
                            const pst_decode_options *options, pst_image_info *ret_info, pst_error *reterr)
{
    const struct image_codec *codec;
    pst_image_info info;
    pst_status st = find(&codec, data, length, reterr);
    if (st < 0)
        return st;
    if (!codec->decode)
        return pst_fail(reterr, PST_EUNSUPPORTED, "decoding %s needs %s, which this build lacks", names[codec->format],
                        codec->library);
    st = codec->probe(data, length, &info, reterr);
    if (st < 0)
        return st;
    st = image_codec_check_size(info.width, info.height, options, reterr);
    if (st < 0)
        return st;
    *ret = codec;
    *ret_info = info;
    return PST_OK;
}

uint32_t image_codec_channels(const pst_decode_options *options, const pst_image_info *info)
{
    return options->channels ? options->channels : info->channels < 3 ? 1 : 3;
}

pst_status image_codec_decode(pst_image *ret, const struct image_codec *codec, const uint8_t *data, size_t length,
                              const pst_image_info *info, const pst_decode_options *options, pst_error *reterr)
{
    pst_image image;
    pst_status st = codec->decode(&image, data, length, info, options, reterr);
    return st < 0 ? st : convert(ret, &image, options->channels, reterr);
}

pst_status pst_image_decode(pst_image *ret, const void *data, size_t length, const pst_decode_options *options,
                            pst_error *reterr)
{
    const struct image_codec *codec;
    pst_decode_options complete;
    pst_image_info info;
    pst_status st = image_codec_complete_options(&complete, options, reterr);
    if (st < 0)
        return st;
    st = image_codec_open(&codec, data, length, &complete, &info, reterr);
    if (st < 0)
        return st;
    complete.channels = image_codec_channels(&complete, &info);
    return image_codec_decode(ret, codec, data, length, &info, &complete, reterr);
}

/* ---- Encoding ---- */

static pst_status encode_raw(struct byte_sink *sink, const pst_image *image, pst_error *reterr)
{
    for (uint32_t y = 0; y < image->height; y++)
        if (!byte_sink_add(sink, image->pixels + y * image->stride, (size_t)image->width * image->channels))
            return image_codec_no_memory("raw", reterr);
    return PST_OK;
}

static pst_status complete_encode_options(pst_encode_options *ret, const pst_encode_options *options, pst_error *reterr)
{
    pst_status st = take_options(ret, sizeof(*ret), options, reterr);
    if (st < 0)
        return st;
    if (ret->quality < 0 || ret->quality > 100)
        return pst_fail(reterr, PST_EINVAL, "encode: quality is %d; expected 1…100, or 0 for 90", ret->quality);
    if (ret->effort < 0 || ret->effort > 9)
        return pst_fail(reterr, PST_EINVAL, "encode: effort is %d; expected 1…9, or 0 for the format's default", ret->effort);
    if (!ret->quality)
        ret->quality = 90;
    return PST_OK;
}

pst_status pst_image_encode(uint8_t **ret, size_t *ret_length, const pst_image *image, pst_image_format format,
                            const pst_encode_options *options, pst_error *reterr)
{
    const struct image_codec *codec = image_codec_of(format);
    pst_encode_options complete;
    struct byte_sink sink = {0};
    pst_status st = complete_encode_options(&complete, options, reterr);
    if (st < 0)
        return st;
    if (!image->pixels || !image->width || !image->height || image->channels < 1 || image->channels > 4)
        return pst_fail(reterr, PST_EINVAL, "encode: the image is empty or has %" PRIu32 " channels; expected 1…4",
                        image->channels);
    if (codec && !codec->encode && codec->library)
        return pst_fail(reterr, PST_EUNSUPPORTED, "encoding %s needs %s, which this build lacks", names[format],
                        codec->library);
    if (format == PST_IMAGE_RAW)
        st = encode_raw(&sink, image, reterr);
    else if (codec && codec->encode)
        st = codec->encode(&sink, image, &complete, reterr);
    else
        return pst_fail(reterr, PST_EUNSUPPORTED, "writing %s is not supported; choose jpeg, png, webp, bmp, raw or yuv420",
                        pst_image_format_name(format));
    if (st < 0) {
        mem_free(sink.data);
        return st;
    }
    *ret = sink.data;
    *ret_length = sink.length;
    return PST_OK;
}
