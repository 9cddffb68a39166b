/* image.h: images outside a pipeline: probing, decoding, encoding, resizing.
 *
 * Dimensions are checked from the header before anything is allocated. A format whose library this build lacks gives
 * PST_EUNSUPPORTED naming the library. */
#ifndef PENSTOCK_IMAGE_H
#define PENSTOCK_IMAGE_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pst_image_format {
    PST_IMAGE_UNKNOWN = 0,
    PST_IMAGE_JPEG,
    PST_IMAGE_PNG,
    PST_IMAGE_WEBP,
    PST_IMAGE_BMP,
    PST_IMAGE_GIF,    /* read only, first frame */
    PST_IMAGE_RAW,    /* pixels as they are; never recognised from bytes */
    PST_IMAGE_YUV420, /* planes of brightness and of colours at half its size, not compressed */
    PST_IMAGE_FORMATS /* how many there are */
} pst_image_format;
PST_API const char *pst_image_format_name(pst_image_format format);                                    /* "jpeg", … */
PST_API pst_status pst_image_format_parse(pst_image_format *ret, const char *name, pst_error *reterr); /* "jpg" too */

#define PST_MAX_PIXELS (UINT64_C(1) << 28) /* default cap on width × height */
#define PST_MAX_SCANS  500u                /* default cap on the scans of a progressive JPEG */

typedef struct pst_image_info {
    pst_image_format format;
    uint32_t width, height, channels; /* channels as stored: 1, 2 (gray + alpha), 3, 4 (with alpha, or CMYK) */
} pst_image_info;

/* Reads only the header. PST_ECORRUPT: not an image that we know. */
PST_API pst_status pst_image_probe(const void *data, size_t length, pst_image_info *ret, pst_error *reterr);

/* 8-bit interleaved pixels, rows `stride` bytes apart. */
typedef struct pst_image {
    uint8_t *pixels;
    uint32_t width, height, channels;
    size_t stride;
} pst_image;

typedef struct pst_decode_options {
    size_t size;         /* sizeof(pst_decode_options) */
    uint32_t channels;   /* 1 gray (of a JPEG: its luma as stored), 3 RGB, 4 RGBA; 0: gray stays gray, everything else
                            becomes RGB (alpha dropped) */
    uint64_t max_pixels; /* 0: PST_MAX_PIXELS */
    bool strict;         /* a warning of the decoder (truncated data, …) is an error */
    uint32_t max_scans;  /* 0: PST_MAX_SCANS */
} pst_decode_options;

/* Rows without gaps; the pixels are not initialised. */
PST_API pst_status pst_image_create(pst_image *ret, uint32_t width, uint32_t height, uint32_t channels, pst_error *reterr);
PST_API pst_status pst_image_decode(pst_image *ret, const void *data, size_t length, const pst_decode_options *options,
                                    pst_error *reterr);
PST_API void pst_image_finish(pst_image *image); /* frees the pixels; NULL and zeroed ok */

typedef struct pst_encode_options {
    size_t size;   /* sizeof(pst_encode_options) */
    int quality;   /* jpeg (4:2:0), webp: 1…100; 0: 90 */
    int effort;    /* png: 1…9, webp: 1…6; 0: the format's default */
    bool lossless; /* webp: every pixel exactly; png, bmp and raw always are, jpeg never is */
} pst_encode_options;

/* The same image and options give the same bytes. jpeg and bmp have no alpha: PST_EINVAL. Release `*ret`
 * with pst_free. */
PST_API pst_status pst_image_encode(uint8_t **ret, size_t *ret_length, const pst_image *image, pst_image_format format,
                                    const pst_encode_options *options, pst_error *reterr);

typedef enum pst_filter {
    PST_FILTER_TRIANGLE = 0, /* bilinear, antialiased when shrinking: Pillow's BILINEAR, torchvision's default */
    PST_FILTER_NEAREST,      /* Pillow's NEAREST */
    PST_FILTER_BILINEAR,     /* between the two nearest positions, never antialiased: tf.image.resize's default */
    PST_FILTER_BICUBIC,      /* antialiased when shrinking: Pillow's BICUBIC */
    PST_FILTER_AREA,         /* the mean of what an output pixel covers: tf.image.resize's area, and OpenCV's when shrinking */
    /* tf.image.resize's, never antialiased */
    PST_FILTER_KEYSCUBIC, /* its bicubic */
    PST_FILTER_LANCZOS3,
    PST_FILTER_LANCZOS5,
    PST_FILTER_GAUSSIAN,
    PST_FILTER_MITCHELLCUBIC
} pst_filter;
PST_API pst_status pst_image_resize(pst_image *ret, const pst_image *image, uint32_t width, uint32_t height, pst_filter filter,
                                    pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
