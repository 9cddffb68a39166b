/* jpeg_read.c: JPEG through libjpeg-turbo, the part that is asked for and what its pixels depend on.
 *
 * Rows above the part are entropy-decoded only, rows below it not at all, columns beside it up to the coefficients. Smooth
 * upsampling looks at neighbours: libjpeg takes care of the row above where it skips rows, but at the edges of a column range
 * it would extend the edge. The range is therefore a whole step wider. What cannot be cut exactly is decoded from the top in
 * full rows: rare sampling factors, and progressive images that are incomplete, which libjpeg smooths across blocks.
 *
 * Gray asked of a colour image is the stored luma, as TensorFlow's decode_jpeg(channels=1) has it. CMYK is read in Adobe's
 * inverted sense and turned to RGB as Pillow does. */
#include "codec/libjpeg.h"

#include "codec/image_codec.h"

#include <inttypes.h>

#define ROWS_AT_ONCE 4 /* what libjpeg can hand over in one call at most */

/* ---- Colours ---- */

/* Pillow's conversion of inverted CMYK. */
static void rgb_from_cmyk(const uint8_t *cmyk, uint8_t *rgb, uint32_t width)
{
    for (uint32_t x = 0; x < width; x++, cmyk += 4, rgb += 3) {
        unsigned light = cmyk[3];
        for (int c = 0; c < 3; c++) {
            unsigned product = (255u - cmyk[c]) * light + 128;
            rgb[c] = (uint8_t)(light - ((product >> 8) + product) / 256);
        }
    }
}

static bool is_cmyk(const struct jpeg_decompress_struct *info)
{
    return info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
}

static J_COLOR_SPACE colours_of(const struct jpeg_decompress_struct *info, uint32_t channels)
{
    if (is_cmyk(info))
        return JCS_CMYK;
    return channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_EXT_RGBA;
}

/* ---- Rows and columns ---- */

/* Whether rows may be skipped and columns left out without a trace: for the samplings that the tests cover. */
static bool cuts_exactly(const struct jpeg_decompress_struct *info)
{
    if (info->max_h_samp_factor > 2 || info->max_v_samp_factor > 2)
        return false;
    for (int c = 0; c < info->num_components; c++) {
        if (info->comp_info[c].h_samp_factor != (c ? 1 : info->max_h_samp_factor) ||
            info->comp_info[c].v_samp_factor != (c ? 1 : info->max_v_samp_factor))
            return false;
        for (int k = 0; info->progressive_mode && k < DCTSIZE2; k++)
            if (info->coef_bits[c][k] != 0)
                return false;
    }
    return true;
}

/* The columns to decode: those of the part and a neighbour on each side, in whole steps, and never so few that libjpeg would
 * choose another way of upsampling. `*left` is where they begin. */
static JDIMENSION choose_columns(const struct jpeg_decompress_struct *info, const struct region *part, JDIMENSION *left)
{
    JDIMENSION step = (JDIMENSION)(DCTSIZE * info->max_h_samp_factor), all = info->output_width;
    JDIMENSION begin = part->x ? (part->x - 1) / step * step : 0, end = (part->x + part->width) / step * step + step;
    if (all - begin < 2 * step)
        begin = begin > step ? begin - step : 0;
    *left = begin;
    return (end < all ? end : all) - begin;
}

static void read_row(struct jpeg_decompress_struct *info, uint8_t *row)
{
    jpeg_read_scanlines(info, &row, 1);
}

static void skip_rows(struct jpeg_decompress_struct *info, uint32_t count, bool exactly, uint8_t *row)
{
    if (exactly && count)
        jpeg_skip_scanlines(info, count);
    while (info->output_scanline < count)
        read_row(info, row);
}

static void read_rows(struct jpeg_decompress_struct *info, const pst_image *image)
{
    for (uint32_t y = 0; y < image->height;) {
        JSAMPROW rows[ROWS_AT_ONCE];
        JDIMENSION n = 0;
        for (; n < ROWS_AT_ONCE && y + n < image->height; n++)
            rows[n] = image->pixels + (y + n) * image->stride;
        y += jpeg_read_scanlines(info, rows, n);
    }
}

/* libjpeg stops at inks; `inks` and `rgb` are rows of scratch. */
static void read_cmyk_rows(struct jpeg_decompress_struct *info, const pst_image *image, uint8_t *inks, uint8_t *rgb)
{
    for (uint32_t y = 0; y < image->height; y++) {
        read_row(info, inks);
        rgb_from_cmyk(inks, rgb, image->width);
        image_codec_convert_row(rgb, 3, image->pixels + y * image->stride, image->channels, image->width);
    }
}

/* ---- An image ---- */

struct request {
    const uint8_t *data;
    size_t length;
    const pst_image_info *found;
    const struct region *part;
    const pst_decode_options *options;
    struct region_memory *memory;
    bool fast_transform;
    pst_image decoded; /* the part, and what was decoded to its left and right */
    JDIMENSION left;
};

static pst_status start(struct jpeg_reader *r, const struct request *q, pst_error *reterr)
{
    struct jpeg_decompress_struct *info = &r->info;
    jpeg_reader_open(r, q->data, q->length);
    if (info->image_width != q->found->width || info->image_height != q->found->height)
        return pst_fail(reterr, PST_ECORRUPT, "jpeg: %" PRIu32 " × %" PRIu32 " in the first frame header, %u × %u in another",
                        q->found->width, q->found->height, info->image_width, info->image_height);
    info->out_color_space = colours_of(info, q->options->channels);
    info->dct_method = q->fast_transform ? JDCT_IFAST : JDCT_ISLOW;
    jpeg_start_decompress(info);
    return PST_OK;
}

static pst_status make_room(struct request *q, JDIMENSION width, pst_error *reterr)
{
    pst_image image = {.width = width, .height = q->part->height, .channels = q->options->channels};
    size_t bytes;
    image.stride = (size_t)width * image.channels; /* far below the range: a side has 16 bits */
    if (__builtin_mul_overflow(image.stride, (size_t)image.height, &bytes) || !region_memory_need(q->memory, bytes))
        return pst_fail(reterr, PST_ENOMEM, "no memory for an image of %" PRIu32 " × %" PRIu32 " × %" PRIu32, image.width,
                        image.height, image.channels);
    image.pixels = q->memory->data;
    q->decoded = image;
    return PST_OK;
}

static uint8_t *scratch_row(struct jpeg_decompress_struct *info, JDIMENSION bytes)
{
    return info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE, bytes, 1)[0];
}

static pst_status read_part(struct jpeg_reader *r, struct request *q, pst_error *reterr)
{
    struct jpeg_decompress_struct *info = &r->info;
    if (setjmp(r->trouble.jump))
        return pst_fail(reterr, r->trouble.status, "jpeg: %s", r->trouble.text);
    pst_status st = start(r, q, reterr);
    if (st < 0)
        return st;
    bool exactly = cuts_exactly(info);
    JDIMENSION width = exactly ? choose_columns(info, q->part, &q->left) : info->output_width;
    st = make_room(q, width, reterr);
    if (st < 0)
        return st;
    if (width < info->output_width)
        jpeg_crop_scanline(info, &q->left, &width);
    if (is_cmyk(info)) {
        uint8_t *inks = scratch_row(info, width * 4);
        skip_rows(info, q->part->y, exactly, inks);
        read_cmyk_rows(info, &q->decoded, inks, scratch_row(info, width * 3));
    } else {
        skip_rows(info, q->part->y, exactly, q->decoded.pixels);
        read_rows(info, &q->decoded);
    }
    if (q->options->strict)
        jpeg_finish_decompress(info); /* reads on to the end marker */
    if (q->options->strict && r->trouble.warnings)
        return pst_fail(reterr, PST_ECORRUPT, "jpeg: %s", r->trouble.text);
    return PST_OK;
}

static pst_status read_request(pst_image *ret, struct request *q, pst_error *reterr)
{
    struct jpeg_reader r;
    jpeg_reader_init(&r, q->options->max_scans);
    pst_status st = read_part(&r, q, reterr);
    jpeg_destroy_decompress(&r.info); /* the rest of the image is never read */
    if (st < 0)
        return st;
    *ret = q->decoded;
    ret->pixels += (size_t)(q->part->x - q->left) * ret->channels;
    ret->width = q->part->width;
    return PST_OK;
}

pst_status jpeg_read(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info, const struct region *part,
                     const pst_decode_options *options, struct region_memory *memory, pst_error *reterr)
{
    struct request q = {.data = data, .length = length, .found = info, .part = part, .options = options, .memory = memory};
    return read_request(ret, &q, reterr);
}

pst_status jpeg_read_fast(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                          const struct region *part, const pst_decode_options *options, struct region_memory *memory,
                          pst_error *reterr)
{
    struct request q = {.data = data, .length = length, .found = info, .part = part, .options = options, .memory = memory};
    q.fast_transform = true;
    return read_request(ret, &q, reterr);
}
