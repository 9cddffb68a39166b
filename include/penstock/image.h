/* image.h: images outside of a pipeline: probing, decoding, encoding, resizing.
 *
 * Dimensions are checked from the header before anything is allocated. For a format whose library this build lacks, functions
 * return PST_EUNSUPPORTED, and the message names the library. */
#ifndef PENSTOCK_IMAGE_H
#define PENSTOCK_IMAGE_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The format in which an image is stored. */
typedef enum pst_image_format {
    PST_IMAGE_UNKNOWN = 0, /* The bytes are not an image that the library recognises. */
    PST_IMAGE_JPEG,        /* The image is a JPEG, baseline or progressive. */
    PST_IMAGE_PNG,         /* The image is a PNG. */
    PST_IMAGE_WEBP,        /* The image is a WebP, lossy or lossless. */
    PST_IMAGE_BMP,         /* The image is a BMP. */
    PST_IMAGE_GIF,         /* The image is a GIF; only its first frame is read, and none is written. */
    PST_IMAGE_RAW,         /* The image is plain pixels, which are never recognised from their bytes. */
    PST_IMAGE_YUV420,      /* The image is a plane of brightness and two of colours at half its size, not compressed. */
    PST_IMAGE_FORMATS      /* The number of formats of this version. */
} pst_image_format;

/* Returns the name of a format, such as "jpeg". */
PST_API const char *pst_image_format_name(pst_image_format format);
/* Stores the format called `name`; "jpg" is accepted, too. PST_EINVAL: there is no such format. */
PST_API pst_status pst_image_format_parse(pst_image_format *ret, const char *name, pst_error *reterr);

#define PST_MAX_PIXELS (UINT64_C(1) << 28) /* default limit of width × height */
#define PST_MAX_SCANS  500u                /* default limit of the scans of a progressive JPEG */

/* The header of an image. */
typedef struct pst_image_info {
    pst_image_format format; /* The format. */
    uint32_t width, height;  /* The size in pixels. */
    uint32_t channels;       /* The channels as stored: 1, 2 (gray and alpha), 3, 4 (with alpha, or CMYK). */
} pst_image_info;

/* Reads the header of the image of `length` bytes at `data`. PST_ECORRUPT: it is not an image of a known format. */
PST_API pst_status pst_image_probe(const void *data, size_t length, pst_image_info *ret, pst_error *reterr);

/* Pixels of 8 bits per channel, the channels of a pixel side by side. */
typedef struct pst_image {
    uint8_t *pixels;        /* The first row. */
    uint32_t width, height; /* The size in pixels. */
    uint32_t channels;      /* 1 gray, 3 RGB, 4 RGBA. */
    size_t stride;          /* The distance from one row to the next in bytes. */
} pst_image;

/* Allocates an image whose rows have no gaps between them. The pixels are not initialised. */
PST_API pst_status pst_image_create(pst_image *ret, uint32_t width, uint32_t height, uint32_t channels, pst_error *reterr);
/* Frees the pixels. NULL and a zeroed image are allowed. */
PST_API void pst_image_finish(pst_image *image);

/* How an image is decoded. A member that is 0 has its default. */
typedef struct pst_decode_options {
    size_t size;       /* sizeof(pst_decode_options). */
    uint32_t channels; /* 1 gray (of a JPEG: its luma as stored), 3 RGB, 4 RGBA; 0: gray stays gray, everything else becomes RGB
                          without alpha. */
    uint64_t max_pixels; /* The largest width × height; 0: PST_MAX_PIXELS. */
    bool strict;         /* Treats a warning of the decoder, such as truncated data, as an error. */
    uint32_t max_scans;  /* The largest number of scans of a progressive JPEG; 0: PST_MAX_SCANS. */
} pst_decode_options;

/* Decodes the image of `length` bytes at `data`; release `*ret` with pst_image_finish. `options` may be NULL. PST_ECORRUPT: it
 * does not decode. PST_ELIMIT: it exceeds a limit. */
PST_API pst_status pst_image_decode(pst_image *ret, const void *data, size_t length, const pst_decode_options *options,
                                    pst_error *reterr);

/* How an image is encoded. A member that is 0 has its default. */
typedef struct pst_encode_options {
    size_t size;   /* sizeof(pst_encode_options). */
    int quality;   /* The quality of jpeg (4:2:0) and webp, 1 to 100; 0: 90. */
    int effort;    /* The effort of png (1 to 9) and webp (1 to 6); 0: the default of the format. */
    bool lossless; /* Keeps every pixel of a webp exactly; png, bmp and raw always do, jpeg never does. */
} pst_encode_options;

/* Encodes an image into `*ret_length` bytes at `*ret`; release them with pst_free. Equal images and options give equal bytes.
 * `options` may be NULL. PST_EINVAL: jpeg and bmp have no alpha. */
PST_API pst_status pst_image_encode(uint8_t **ret, size_t *ret_length, const pst_image *image, pst_image_format format,
                                    const pst_encode_options *options, pst_error *reterr);

/* How pixels are resized. */
typedef enum pst_filter {
    PST_FILTER_TRIANGLE = 0, /* Bilinear, antialiased when shrinking: Pillow's BILINEAR, the default of torchvision. */
    PST_FILTER_NEAREST,      /* The nearest pixel: Pillow's NEAREST. */
    PST_FILTER_BILINEAR,     /* Between the two nearest positions, never antialiased: the default of tf.image.resize. */
    PST_FILTER_BICUBIC,      /* Bicubic, antialiased when shrinking: Pillow's BICUBIC. */
    PST_FILTER_AREA,         /* The mean of the covered area: that of tf.image.resize, and of OpenCV when shrinking. */
    PST_FILTER_KEYSCUBIC,    /* The bicubic of tf.image.resize; this and the following are never antialiased. */
    PST_FILTER_LANCZOS3,     /* The lanczos3 of tf.image.resize. */
    PST_FILTER_LANCZOS5,     /* The lanczos5 of tf.image.resize. */
    PST_FILTER_GAUSSIAN,     /* The gaussian of tf.image.resize. */
    PST_FILTER_MITCHELLCUBIC /* The mitchellcubic of tf.image.resize. */
} pst_filter;

/* Resizes an image to `width` × `height`; release `*ret` with pst_image_finish. */
PST_API pst_status pst_image_resize(pst_image *ret, const pst_image *image, uint32_t width, uint32_t height, pst_filter filter,
                                    pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
