/* webp.c: WebP through libwebp: lossy and lossless stills; an animation is not read.
 *
 * The probe reads the RIFF chunk that comes first: VP8 (lossy), VP8L (lossless) or VP8X (a canvas with extras). Pixels after
 * full transparency are kept as they are, in both directions. */
#include "codec/image_codec.h"

#include "base/le.h"
#include "config.h"

#include <inttypes.h>
#include <string.h>

static bool webp_match(const uint8_t *data, size_t length)
{
    return length >= 12 && memcmp(data, "RIFF", 4) == 0 && memcmp(data + 8, "WEBP", 4) == 0;
}

static uint32_t le24(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

static pst_status webp_probe(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    pst_image_info info = {.format = PST_IMAGE_WEBP};
    size_t needed = length >= 16 && memcmp(data + 12, "VP8L", 4) == 0 ? 25 : 30;
    if (length < needed)
        return image_codec_cut_off("webp", needed, length, reterr);
    const uint8_t *body = data + 20;
    if (memcmp(data + 12, "VP8 ", 4) == 0 && le24(body + 3) == 0x2a019d) {
        info.width = le16(body + 6) & 0x3fff;
        info.height = le16(body + 8) & 0x3fff;
        info.channels = 3;
    } else if (memcmp(data + 12, "VP8L", 4) == 0 && body[0] == 0x2f) {
        uint32_t bits = le32(body + 1);
        info.width = (bits & 0x3fff) + 1;
        info.height = (bits >> 14 & 0x3fff) + 1;
        info.channels = bits >> 28 & 1 ? 4 : 3;
    } else if (memcmp(data + 12, "VP8X", 4) == 0) {
        info.width = le24(body + 4) + 1;
        info.height = le24(body + 7) + 1;
        info.channels = body[0] & 0x10 ? 4 : 3;
    }
    if (!info.width || !info.height)
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, 12,
                           "webp: the first chunk is neither VP8, VP8L nor VP8X, or has a side of 0");
    *ret = info;
    return PST_OK;
}

static const uint8_t *webp_exif(const uint8_t *data, size_t length, size_t *ret_length)
{
    static const char jpeg_name[6] = "Exif\0"; /* that some writers put in front, as in a JPEG */
    for (size_t at = 12; length - at >= 8;) {
        size_t size = le32(data + at + 4), name = 0;
        if (size > length - at - 8)
            break;
        if (memcmp(data + at, "EXIF", 4) == 0) {
            if (size >= sizeof(jpeg_name) && memcmp(data + at + 8, jpeg_name, sizeof(jpeg_name)) == 0)
                name = sizeof(jpeg_name);
            *ret_length = size - name;
            return data + at + 8 + name;
        }
        at += 8 + size;
        at += at < length && size % 2;
    }
    return NULL;
}

#ifdef HAVE_WEBP
#include <webp/decode.h>
#include <webp/encode.h>

static pst_status fail_decode(VP8StatusCode code, pst_error *reterr)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY:
        return image_codec_no_memory("webp", reterr);
    case VP8_STATUS_UNSUPPORTED_FEATURE:
        return pst_fail(reterr, PST_EUNSUPPORTED, "webp: libwebp does not read this kind of image");
    case VP8_STATUS_NOT_ENOUGH_DATA:
        return pst_fail(reterr, PST_ECORRUPT, "webp: cut off");
    default:
        return pst_fail(reterr, PST_ECORRUPT, "webp: the bitstream is damaged (libwebp's status %d)", (int)code);
    }
}

static pst_status webp_decode(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                              const pst_decode_options *options, pst_error *reterr)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return pst_fail(reterr, PST_EUNSUPPORTED, "webp: libwebp has another version than its header");
    VP8StatusCode code = WebPGetFeatures(data, length, &config.input);
    if (code != VP8_STATUS_OK)
        return fail_decode(code, reterr);
    if (config.input.has_animation)
        return pst_fail(reterr, PST_EUNSUPPORTED, "webp: an animation; only still images are read");
    if (config.input.width != (int64_t)info->width || config.input.height != (int64_t)info->height)
        return pst_fail(reterr, PST_ECORRUPT, "webp: a canvas of %" PRIu32 " × %" PRIu32 " around an image of %d × %d",
                        info->width, info->height, config.input.width, config.input.height);
    pst_image image;
    pst_status st = pst_image_create(&image, info->width, info->height, options->channels == 4 ? 4 : 3, reterr);
    if (st < 0)
        return st;
    config.output.colorspace = image.channels == 4 ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = image.pixels;
    config.output.u.RGBA.stride = (int)image.stride; /* at most 4 × 2^24 */
    config.output.u.RGBA.size = image.stride * image.height;
    code = WebPDecode(data, length, &config);
    WebPFreeDecBuffer(&config.output);
    if (code != VP8_STATUS_OK) {
        pst_image_finish(&image);
        return fail_decode(code, reterr);
    }
    *ret = image;
    return PST_OK;
}

/* ---- Encoding ---- */

struct target {
    struct byte_sink *sink;
    bool full; /* libwebp does not always say that it was the writing that failed */
};

static int on_write(const uint8_t *data, size_t n, const WebPPicture *picture)
{
    struct target *t = picture->custom_ptr;
    t->full |= !byte_sink_add(t->sink, data, n);
    return !t->full;
}

static int import_pixels(WebPPicture *picture, const pst_image *image)
{
    if (image->channels == 4)
        return WebPPictureImportRGBA(picture, image->pixels, (int)image->stride);
    if (image->channels == 3)
        return WebPPictureImportRGB(picture, image->pixels, (int)image->stride);
    if (!WebPPictureAlloc(picture))
        return 0;
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width; x++)
            picture->argb[y * (size_t)picture->argb_stride + x] =
                0xff000000u | image->pixels[y * image->stride + x] * 0x010101u;
    return 1;
}

static pst_status webp_encode(struct byte_sink *sink, const pst_image *image, const pst_encode_options *options,
                              pst_error *reterr)
{
    if (image->channels == 2)
        return image_codec_bad_channels("webp", image->channels, "1, 3 or 4", reterr);
    if (image->width > WEBP_MAX_DIMENSION || image->height > WEBP_MAX_DIMENSION || image->stride > INT32_MAX)
        return pst_fail(reterr, PST_EINVAL,
                        "webp: %" PRIu32 " × %" PRIu32 " pixels, at most %d per side; resize, or choose png", image->width,
                        image->height, WEBP_MAX_DIMENSION);
    if (options->effort > 6)
        return pst_fail(reterr, PST_EINVAL, "webp: effort is %d; expected 1…6, or 0 for 4", options->effort);
    WebPConfig config;
    WebPPicture picture;
    struct target target = {.sink = sink};
    if (!WebPConfigPreset(&config, WEBP_PRESET_DEFAULT, (float)options->quality) || !WebPPictureInit(&picture))
        return pst_fail(reterr, PST_EUNSUPPORTED, "webp: libwebp has another version than its header");
    config.method = options->effort ? options->effort : 4;
    config.lossless = options->lossless;
    config.exact = 1;
    picture.use_argb = 1;
    picture.width = (int)image->width;
    picture.height = (int)image->height;
    picture.writer = on_write;
    picture.custom_ptr = &target;
    bool written = import_pixels(&picture, image) && WebPEncode(&config, &picture);
    WebPEncodingError code = picture.error_code;
    WebPPictureFree(&picture);
    if (written)
        return PST_OK;
    if (target.full || code == VP8_ENC_ERROR_OUT_OF_MEMORY || code == VP8_ENC_ERROR_BITSTREAM_OUT_OF_MEMORY)
        return image_codec_no_memory("webp", reterr);
    return pst_fail(reterr, PST_EINVAL, "webp: libwebp's encoder refused the image (its error %d)", (int)code);
}
#else
#define webp_decode NULL
#define webp_encode NULL
#endif

const struct image_codec image_codec_webp = {
    .format = PST_IMAGE_WEBP,
    .library = "libwebp",
    .match = webp_match,
    .probe = webp_probe,
    .decode = webp_decode,
    .encode = webp_encode,
    .exif = webp_exif,
};
