/* png.c: PNG through libpng: every colour type and bit depth comes out as 8-bit gray, RGB or RGBA.
 *
 * 16 bits keep their upper 8, as TensorFlow and Pillow do. Only the chunks that make pixels are read (IHDR, PLTE, tRNS,
 * IDAT, IEND); gamma, profiles and text are skipped without parsing. libpng reports errors by a jump: what must survive it lives
 * in structs of the outer function. Its memory is ours, so that allocation faults reach it. */
#include "codec/image_codec.h"

#include "base/memory.h"
#include "config.h"

#include <inttypes.h>
#include <string.h>

static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

static bool png_match(const uint8_t *data, size_t length)
{
    return length >= sizeof(signature) && memcmp(data, signature, sizeof(signature)) == 0;
}

static uint32_t be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static pst_status png_probe(const uint8_t *data, size_t length, pst_image_info *ret, pst_error *reterr)
{
    static const uint8_t channels_of[7] = {1, 0, 3, 3, 2, 0, 4}; /* by colour type; a palette holds RGB */
    if (length < 29)
        return image_codec_cut_off("png", 29, length, reterr);
    if (be32(data + 8) != 13 || memcmp(data + 12, "IHDR", 4) != 0)
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, 8, "png: the first chunk is not an IHDR of 13 bytes");
    uint32_t width = be32(data + 16), height = be32(data + 20), type = data[25];
    if (!width || !height || width > INT32_MAX || height > INT32_MAX || type > 6 || !channels_of[type])
        return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, 16,
                           "png: %" PRIu32 " × %" PRIu32 " pixels of colour type %" PRIu32, width, height, type);
    *ret = (pst_image_info){.format = PST_IMAGE_PNG, .width = width, .height = height, .channels = channels_of[type]};
    return PST_OK;
}

static const uint8_t *png_exif(const uint8_t *data, size_t length, size_t *ret_length)
{
    for (size_t at = sizeof(signature); length - at >= 12;) {
        size_t size = be32(data + at);
        if (size > length - at - 12)
            break;
        if (memcmp(data + at + 4, "eXIf", 4) == 0) {
            *ret_length = size;
            return data + at + 8;
        }
        at += size + 12;
    }
    return NULL;
}

#ifdef HAVE_PNG
#include <png.h>

/* Shared by reading and writing. */
struct trouble {
    png_structp png;
    png_infop info;
    bool no_memory;
    unsigned warnings;
    char text[128]; /* the error, or the first warning */
};

static void *allocate(png_structp png, png_alloc_size_t size)
{
    struct trouble *t = png_get_mem_ptr(png);
    void *p = mem_alloc(size);
    t->no_memory |= !p;
    return p;
}

static void release(png_structp png, void *p)
{
    (void)png;
    mem_free(p);
}

static void keep(struct trouble *t, const char *text)
{
    size_t n = strnlen(text, sizeof(t->text) - 1);
    memcpy(t->text, text, n);
    t->text[n] = '\0';
}

static void on_error(png_structp png, const char *text)
{
    keep(png_get_error_ptr(png), text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, const char *text)
{
    struct trouble *t = png_get_error_ptr(png);
    if (t->warnings++ == 0)
        keep(t, text);
}

static pst_status fail(const struct trouble *t, pst_status otherwise, pst_error *reterr)
{
    return t->no_memory ? image_codec_no_memory("png", reterr) : pst_fail(reterr, otherwise, "png: %s", t->text);
}

/* ---- Decoding ---- */

struct reader {
    struct trouble trouble;
    const uint8_t *data;
    size_t left;
    pst_image image;
};

static void on_read(png_structp png, png_bytep out, size_t n)
{
    struct reader *r = png_get_io_ptr(png);
    if (n > r->left)
        png_error(png, "cut off");
    memcpy(out, r->data, n);
    r->data += n;
    r->left -= n;
}

/* Chunks that libpng may see, limits, and the conversions to what was asked. */
static void prepare(png_structp png, png_infop info, const pst_image_info *found, const pst_decode_options *options)
{
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_user_limits(png, found->width, found->height);
    png_set_chunk_malloc_max(png, 1 << 20);
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    if (options->channels >= 3)
        png_set_gray_to_rgb(png);
    if (options->channels == 4)
        png_set_add_alpha(png, 0xff, PNG_FILLER_AFTER);
    else
        png_set_strip_alpha(png);
}

static pst_status read_image(struct reader *r, const pst_image_info *found, const pst_decode_options *options,
                             pst_error *reterr)
{
    png_structp png = r->trouble.png;
    if (setjmp(png_jmpbuf(png)))
        return fail(&r->trouble, PST_ECORRUPT, reterr);
    png_set_read_fn(png, r, on_read);
    prepare(png, r->trouble.info, found, options);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, r->trouble.info);
    uint32_t width = png_get_image_width(png, r->trouble.info), height = png_get_image_height(png, r->trouble.info);
    pst_status st = pst_image_create(&r->image, width, height, png_get_channels(png, r->trouble.info), reterr);
    if (st < 0)
        return st;
    if (png_get_rowbytes(png, r->trouble.info) != r->image.stride)
        png_error(png, "libpng plans rows of another size");
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < height; y++)
            png_read_row(png, r->image.pixels + y * r->image.stride, NULL);
    if (options->strict)
        png_read_end(png, NULL);
    if (options->strict && r->trouble.warnings)
        return fail(&r->trouble, PST_ECORRUPT, reterr);
    return PST_OK;
}

static pst_status png_decode(pst_image *ret, const uint8_t *data, size_t length, const pst_image_info *info,
                             const pst_decode_options *options, pst_error *reterr)
{
    struct reader r = {.data = data, .left = length};
    struct trouble *t = &r.trouble;
    pst_status st = PST_ENOMEM;
    t->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, t, on_error, on_warning, t, allocate, release);
    if (t->png)
        t->info = png_create_info_struct(t->png);
    if (t->info)
        st = read_image(&r, info, options, reterr);
    else
        image_codec_no_memory("png", reterr);
    png_destroy_read_struct(&t->png, &t->info, NULL);
    if (st < 0)
        pst_image_finish(&r.image);
    else
        *ret = r.image;
    return st;
}

/* ---- Encoding ---- */

static void on_write(png_structp png, png_bytep data, size_t n)
{
    if (byte_sink_add(png_get_io_ptr(png), data, n))
        return;
    ((struct trouble *)png_get_error_ptr(png))->no_memory = true;
    png_error(png, "out of memory");
}

static pst_status write_image(struct trouble *t, struct byte_sink *sink, const pst_image *image, int effort, pst_error *reterr)
{
    static const int types[5] = {0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA};
    png_structp png = t->png;
    if (setjmp(png_jmpbuf(png)))
        return fail(t, PST_EINVAL, reterr);
    png_set_write_fn(png, sink, on_write, NULL);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png, t->info, image->width, image->height, 8, types[image->channels], PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(png, effort ? effort : 6);
    png_set_filter(png, PNG_FILTER_TYPE_BASE, effort && effort <= 3 ? PNG_FILTER_SUB : PNG_ALL_FILTERS); /* all: tried a row */
    png_write_info(png, t->info);
    for (uint32_t y = 0; y < image->height; y++)
        png_write_row(png, image->pixels + y * image->stride);
    png_write_end(png, NULL);
    return PST_OK;
}

static pst_status png_encode(struct byte_sink *sink, const pst_image *image, const pst_encode_options *options,
                             pst_error *reterr)
{
    struct trouble t = {0};
    pst_status st = PST_ENOMEM;
    t.png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &t, on_error, on_warning, &t, allocate, release);
    if (t.png)
        t.info = png_create_info_struct(t.png);
    if (t.info)
        st = write_image(&t, sink, image, options->effort, reterr);
    else
        image_codec_no_memory("png", reterr);
    png_destroy_write_struct(&t.png, &t.info);
    return st;
}
#else
#define png_decode NULL
#define png_encode NULL
#endif

const struct image_codec image_codec_png = {
    .format = PST_IMAGE_PNG,
    .library = "libpng",
    .match = png_match,
    .probe = png_probe,
    .decode = png_decode,
    .encode = png_encode,
    .exif = png_exif,
};
