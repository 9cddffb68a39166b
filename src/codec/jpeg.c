/* jpeg.c: JPEG through libjpeg-turbo: accurate integer DCT and smooth upsampling, its defaults.
 *
 * libjpeg reports errors by a call that must not return: it jumps back here. All that must survive the jump lives in
 * structs of the outer function, none in locals of the one that calls setjmp. Gray asked of a colour image is the stored
 * luma, as TensorFlow's decode_jpeg(channels=1) has it. CMYK is read in Adobe's inverted sense and turned to RGB as Pillow
 * does. Orientation tags and colour profiles are left alone. */
#include "codec/image_codec.h"

#include "base/memory.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

/* ---- Errors ---- */

struct trouble {
    struct jpeg_error_mgr manager; /* first: libjpeg hands back its address */
    jmp_buf jump;
    pst_status status;
    unsigned warnings;
    char text[JMSG_LENGTH_MAX]; /* the error, or the first warning */
};

static pst_status status_of(int code)
{
    switch (code) {
    case JERR_OUT_OF_MEMORY:
        return PST_ENOMEM;
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_SOF_UNSUPPORTED:
        return PST_EUNSUPPORTED;
    default:
        return PST_ECORRUPT;
    }
}

static void on_error(j_common_ptr info)
{
    struct trouble *t = (struct trouble *)info->err;
    t->status = status_of(info->err->msg_code);
    info->err->format_message(info, t->text);
    longjmp(t->jump, 1);
}

static void on_message(j_common_ptr info, int level)
{
    struct trouble *t = (struct trouble *)info->err;
    if (level < 0 && t->warnings++ == 0)
        info->err->format_message(info, t->text);
}

static void on_output(j_common_ptr info)
{
    (void)info; /* libjpeg would print */
}

static struct jpeg_error_mgr *trouble_init(struct trouble *t)
{
    jpeg_std_error(&t->manager);
    t->manager.error_exit = on_error;
    t->manager.emit_message = on_message;
    t->manager.output_message = on_output;
    return &t->manager;
}

/* ---- Probing ---- */

static bool jpeg_match(const uint8_t *data, size_t length)
{
    return length >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff;
}

static unsigned be16(const uint8_t *p)
{
    return (unsigned)(p[0] << 8 | p[1]);
}

static bool is_frame(unsigned marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

/* Walks from marker to marker up to the frame header; garbage between them is passed over, as libjpeg does. */
static pst_status jpeg_probe(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    size_t at = 2;
    for (;;) {
        while (at < length && data[at] != 0xff)
            at++;
        while (at < length && data[at] == 0xff)
            at++;
        if (at + 3 > length)
            return image_codec_cut_off("jpeg", at + 3, length, reterr);
        unsigned marker = data[at++];
        if (marker == 0x00 || marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7))
            continue; /* stuffing and markers without a length */
        if (marker == 0xd9 || marker == 0xda)
            return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, at - 2, "jpeg: marker %02x before any frame header",
                               marker);
        size_t size = be16(data + at);
        if (is_frame(marker)) {
            if (at + 8 > length)
                return image_codec_cut_off("jpeg", at + 8, length, reterr);
            uint32_t height = be16(data + at + 3), width = be16(data + at + 5), components = data[at + 7];
            if (!width || !height || !components || components > 4)
                return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, at,
                                   "jpeg: a frame of %" PRIu32 " × %" PRIu32 " pixels, %" PRIu32 " components", width, height,
                                   components);
            *ret = (pst_image_info){.format = PST_IMAGE_JPEG, .width = width, .height = height, .channels = components};
            return PST_OK;
        }
        if (size < 2)
            return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, at, "jpeg: marker %02x has the length %zu", marker,
                               size);
        at += size;
    }
}

/* ---- Decoding ---- */

struct reader {
    struct jpeg_decompress_struct info;
    struct trouble trouble;
    struct jpeg_progress_mgr progress;
    uint32_t max_scans;
    pst_image image;
};

/* Called while the input is read: each scan of a progressive image touches all of its coefficients. */
static void on_progress(j_common_ptr common)
{
    struct reader *r = common->client_data;
    if (r->info.input_scan_number <= (int64_t)r->max_scans)
        return;
    r->trouble.status = PST_ELIMIT;
    snprintf(r->trouble.text, sizeof(r->trouble.text),
             "more than max_scans = %" PRIu32 " scans; raise it if the source is trusted", r->max_scans);
    longjmp(r->trouble.jump, 1);
}

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

/* Sets what libjpeg shall deliver; returns the channels of the image. */
static uint32_t choose_colours(struct jpeg_decompress_struct *info, uint32_t wanted)
{
    if (info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK) {
        info->out_color_space = JCS_CMYK;
        return 3;
    }
    info->out_color_space = wanted == 1 ? JCS_GRAYSCALE : wanted == 3 ? JCS_RGB : JCS_EXT_RGBA;
    return wanted;
}

static pst_status read_image(struct reader *r, const uint8_t *data, size_t length, const pst_image_info *found,
                             const pst_decode_options *options, pst_error *reterr)
{
    struct jpeg_decompress_struct *info = &r->info;
    if (setjmp(r->trouble.jump))
        return pst_fail(reterr, r->trouble.status, "jpeg: %s", r->trouble.text);
    jpeg_create_decompress(info);
    info->client_data = r;
    info->progress = &r->progress;
    jpeg_mem_src(info, data, length);
    jpeg_read_header(info, TRUE);
    if (info->image_width != found->width || info->image_height != found->height)
        return pst_fail(reterr, PST_ECORRUPT, "jpeg: %" PRIu32 " × %" PRIu32 " in the first frame header, %u × %u in another",
                        found->width, found->height, info->image_width, info->image_height);
    pst_status st = pst_image_create(&r->image, found->width, found->height, choose_colours(info, options->channels), reterr);
    if (st < 0)
        return st;
    jpeg_start_decompress(info);
    bool cmyk = info->out_color_space == JCS_CMYK;
    JSAMPARRAY inks = cmyk ? info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE, info->output_width * 4, 1) : NULL;
    while (info->output_scanline < info->output_height) {
        uint8_t *row = r->image.pixels + info->output_scanline * r->image.stride;
        jpeg_read_scanlines(info, cmyk ? inks : &row, 1);
        if (cmyk)
            rgb_from_cmyk(inks[0], row, found->width);
    }
    if (options->strict)
        jpeg_finish_decompress(info); /* reads on to the end marker */
    if (options->strict && r->trouble.warnings)
        return pst_fail(reterr, PST_ECORRUPT, "jpeg: %s", r->trouble.text);
    return PST_OK;
}

static pst_status jpeg_decode(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                              const pst_decode_options *options, pst_error *reterr)
{
    struct reader r = {.max_scans = options->max_scans, .progress = {.progress_monitor = on_progress}};
    r.info.err = trouble_init(&r.trouble);
    pst_status st = read_image(&r, data, length, info, options, reterr);
    jpeg_destroy_decompress(&r.info);
    if (st < 0)
        pst_image_finish(&r.image);
    else
        *ret = r.image;
    return st;
}

/* ---- Encoding ---- */

struct writer {
    struct jpeg_compress_struct info;
    struct trouble trouble;
    struct jpeg_destination_mgr destination;
    struct byte_sink *sink; /* libjpeg writes straight into its free part */
};

static void offer_room(struct writer *w)
{
    struct byte_sink *s = w->sink;
    if (s->length == s->capacity && mem_grow((void **)&s->data, &s->capacity, s->length + 16384, 1) < 0)
        ERREXIT1(&w->info, JERR_OUT_OF_MEMORY, 0);
    w->destination.next_output_byte = s->data + s->length;
    w->destination.free_in_buffer = s->capacity - s->length;
}

static void on_start(j_compress_ptr info)
{
    offer_room(info->client_data);
}

static boolean on_full(j_compress_ptr info)
{
    struct writer *w = info->client_data;
    w->sink->length = w->sink->capacity; /* libjpeg's rule: the whole room is used, whatever the counters say */
    offer_room(w);
    return TRUE;
}

static void on_end(j_compress_ptr info)
{
    struct writer *w = info->client_data;
    w->sink->length = w->sink->capacity - w->destination.free_in_buffer;
}

static pst_status write_image(struct writer *w, const pst_image *image, int quality, pst_error *reterr)
{
    struct jpeg_compress_struct *info = &w->info;
    if (setjmp(w->trouble.jump))
        return pst_fail(reterr, w->trouble.status, "jpeg: %s", w->trouble.text);
    jpeg_create_compress(info);
    info->client_data = w;
    info->dest = &w->destination;
    info->image_width = image->width;
    info->image_height = image->height;
    info->input_components = (int)image->channels;
    info->in_color_space = image->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(info); /* 4:2:0 for colour */
    jpeg_set_quality(info, quality, TRUE);
    info->optimize_coding = TRUE;
    jpeg_start_compress(info, TRUE);
    while (info->next_scanline < info->image_height) {
        JSAMPROW row = image->pixels + info->next_scanline * image->stride;
        jpeg_write_scanlines(info, &row, 1);
    }
    jpeg_finish_compress(info);
    return PST_OK;
}

static pst_status jpeg_encode(struct byte_sink *sink, const pst_image *image, const pst_encode_options *options,
                              pst_error *reterr)
{
    if (image->channels != 1 && image->channels != 3)
        return image_codec_bad_channels("jpeg", image->channels, "1 or 3", reterr);
    if (image->width > JPEG_MAX_DIMENSION || image->height > JPEG_MAX_DIMENSION)
        return pst_fail(reterr, PST_EINVAL, "jpeg: %" PRIu32 " × %" PRIu32 " pixels, at most %ld a side; resize, or choose png",
                        image->width, image->height, JPEG_MAX_DIMENSION);
    struct writer w = {
        .sink = sink,
        .destination = {.init_destination = on_start, .empty_output_buffer = on_full, .term_destination = on_end}};
    w.info.err = trouble_init(&w.trouble);
    pst_status st = write_image(&w, image, options->quality, reterr);
    jpeg_destroy_compress(&w.info);
    return st;
}

const struct image_codec image_codec_jpeg = {
    .format = PST_IMAGE_JPEG,
    .library = "libjpeg",
    .match = jpeg_match,
    .probe = jpeg_probe,
    .decode = jpeg_decode,
    .encode = jpeg_encode,
};
