/* test_region.c: parts of images have exactly the pixels of the whole, and a decoder that is kept forgets what was. */
#include "base/fault.h"
#include "base/memory.h"
#include "codec/exif.h"
#include "codec/region.h"
#include "harness.h"
#include "image_samples.h"
#include "jpeg_samples.h"

/* Noise: every sample differs from its neighbours, so that a wrong one shows. */
static pst_image noise(uint32_t width, uint32_t height, uint32_t channels, uint64_t seed)
{
    struct random r;
    pst_image image = sample_image(width, height, channels, seed);
    random_init(&r, seed, 1, 0, 0);
    for (size_t i = 0; i < image.stride * height; i++)
        image.pixels[i] = (uint8_t)random_u64(&r);
    return image;
}

static struct region_decoder decoder_of(uint32_t channels, bool strict, bool upright)
{
    struct region_decoder d;
    struct region_options options = {.decode = {.size = sizeof(options.decode), .channels = channels, .strict = strict},
                                     .upright = upright};
    if (region_decoder_init(&d, &options, NULL) < 0)
        abort();
    return d;
}

static bool same_part(const pst_image *part, const pst_image *whole, const struct region *r)
{
    if (part->width != r->width || part->height != r->height || part->channels != whole->channels)
        return false;
    for (uint32_t y = 0; y < r->height; y++)
        if (memcmp(part->pixels + y * part->stride, whole->pixels + (r->y + y) * whole->stride + r->x * whole->channels,
                   (size_t)r->width * whole->channels) != 0)
            return false;
    return true;
}

struct subject {
    const char *name;
    const uint8_t *data;
    size_t length;
    struct region_info info;
    pst_image whole;
    struct region_decoder decoder;
};

static bool subject_open(struct subject *s, const char *name, const uint8_t *data, size_t length, uint32_t channels)
{
    pst_error error;
    pst_decode_options options = {.size = sizeof(options), .channels = channels};
    *s = (struct subject){.name = name, .data = data, .length = length, .decoder = decoder_of(channels, false, false)};
    return test_check_status(pst_image_decode(&s->whole, data, length, &options, &error), PST_OK, &error, __FILE__, __LINE__,
                             name) &&
           test_check_status(region_probe(&s->decoder, data, length, &s->info, &error), PST_OK, &error, __FILE__, __LINE__,
                             name);
}

static void subject_close(struct subject *s)
{
    region_decoder_finish(&s->decoder);
    pst_image_finish(&s->whole);
}

static bool check_part(struct subject *s, struct region r)
{
    pst_error error = {0};
    pst_image part;
    pst_status st = region_decode(&s->decoder, s->data, s->length, &s->info, &r, &part, &error);
    bool fine = st == PST_OK && same_part(&part, &s->whole, &r);
    CHECK_MSG(fine, "%s, %u × %u × %u: part %u × %u at %u, %u: %s", s->name, s->whole.width, s->whole.height, s->whole.channels,
              r.width, r.height, r.x, r.y, st < 0 ? error.message : "other pixels");
    return fine;
}

/* Every range of columns and every range of rows, each with one of three of the others. Stops at the first wrong one. */
static void check_ranges(struct subject *s)
{
    uint32_t w = s->whole.width, h = s->whole.height, k = 0;
    const uint32_t ys[3][2] = {{0, h}, {h / 2, 1}, {h / 3, h - h / 3}}, xs[3][2] = {{0, w}, {w / 2, 1}, {w / 3, w - w / 3}};
    for (uint32_t x = 0; x < w; x++)
        for (uint32_t n = 1; n <= w - x; n++, k = (k + 1) % 3)
            if (!check_part(s, (struct region){x, ys[k][0], n, ys[k][1]}))
                return;
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t n = 1; n <= h - y; n++, k = (k + 1) % 3)
            if (!check_part(s, (struct region){xs[k][0], y, xs[k][1], n}))
                return;
}

static void test_jpeg_ranges(void)
{
    for (size_t k = 0; k < JPEG_KINDS; k++) {
        const struct jpeg_kind *kind = &jpeg_kinds[k];
        pst_image image = noise(35 + (uint32_t)k % 3, 36 + (uint32_t)k % 5, (uint32_t)kind->channels, k);
        uint8_t *data;
        size_t length = jpeg_sample(&data, &image, kind, 90);
        struct subject s;
        if (subject_open(&s, kind->name, data, length, kind->channels == 1 ? 1 : 3))
            check_ranges(&s);
        subject_close(&s);
        free(data);
        pst_image_finish(&image);
    }
}

/* Every part of every small image. */
static void test_jpeg_small(void)
{
    for (size_t k = 0; k < JPEG_KINDS; k++)
        for (uint32_t width = 1; width <= 19; width += 3)
            for (uint32_t height = 1; height <= 18; height += 4) {
                pst_image image = noise(width, height, (uint32_t)jpeg_kinds[k].channels, width * 100 + height);
                uint8_t *data;
                size_t length = jpeg_sample(&data, &image, &jpeg_kinds[k], 80);
                struct subject s;
                if (subject_open(&s, jpeg_kinds[k].name, data, length, 3))
                    for (uint32_t x = 0; x < width; x += 2)
                        for (uint32_t y = 0; y < height; y++)
                            check_part(&s, (struct region){x, y, 1 + (width - x - 1) / 2, 1 + (height - y - 1) / 3});
                subject_close(&s);
                free(data);
                pst_image_finish(&image);
            }
}

/* Images of several sizes and kinds through one decoder, in all channels. */
static void test_jpeg_large(void)
{
    static const uint32_t sizes[][2] = {{333, 251}, {500, 64}, {33, 400}, {129, 130}};
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (size_t k = 0; k < JPEG_KINDS * 4; k++) {
        const struct jpeg_kind *kind = &jpeg_kinds[k % JPEG_KINDS];
        const uint32_t *size = sizes[k / JPEG_KINDS];
        pst_image image = noise(size[0], size[1], (uint32_t)kind->channels, k);
        uint8_t *data;
        size_t length = jpeg_sample(&data, &image, kind, 75);
        static const uint32_t channels[4] = {0, 1, 3, 4};
        struct subject s;
        if (subject_open(&s, kind->name, data, length, channels[k % 4]))
            for (int i = 0; i < 25; i++) {
                struct region part = {.x = (uint32_t)random_below(&r, size[0]), .y = (uint32_t)random_below(&r, size[1])};
                part.width = 1 + (uint32_t)random_below(&r, size[0] - part.x);
                part.height = 1 + (uint32_t)random_below(&r, size[1] - part.y);
                check_part(&s, part);
            }
        subject_close(&s);
        free(data);
        pst_image_finish(&image);
    }
}

/* ---- Other formats ---- */

static void test_formats(void)
{
    static const pst_image_format formats[] = {PST_IMAGE_BMP, PST_IMAGE_PNG, PST_IMAGE_WEBP};
    pst_encode_options lossless = {.size = sizeof(lossless), .lossless = true};
    for (size_t k = 0; k < 3; k++) {
        pst_image image = noise(23, 19, 3, k);
        uint8_t *data;
        size_t length;
        struct subject s;
        if (pst_image_encode(&data, &length, &image, formats[k], &lossless, NULL) == PST_OK) { /* or this build lacks it */
            for (uint32_t channels = 0; channels <= 4; channels += channels == 1 ? 2 : 1) {
                if (subject_open(&s, pst_image_format_name(formats[k]), data, length, channels)) {
                    check_part(&s, (struct region){0, 0, 23, 19});
                    check_part(&s, (struct region){5, 18, 18, 1});
                    check_part(&s, (struct region){22, 0, 1, 19});
                }
                subject_close(&s);
            }
            pst_free(data);
        }
        pst_image_finish(&image);
    }
    struct bytes gif = sample_gif();
    struct subject s;
    if (subject_open(&s, "gif", gif.data, gif.length, 3))
        check_part(&s, (struct region){1, 1, 2, 2});
    subject_close(&s);
}

/* ---- Upright ---- */

/* EXIF data that holds nothing but the orientation. */
static size_t exif_data(uint8_t *to, bool big, unsigned orientation)
{
    static const uint8_t little[] = {'I', 'I', 42, 0,    8,    0, 0, 0, 2, 0, 0x10, 0x01, 2, 0, 1, 0, 0, 0, 'x',
                                     0,   0,   0,  0x12, 0x01, 3, 0, 1, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0};
    static const uint8_t motorola[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    memcpy(to, big ? motorola : little, big ? sizeof(motorola) : sizeof(little));
    to[big ? 19 : 30] = (uint8_t)orientation;
    return big ? sizeof(motorola) : sizeof(little);
}

/* The JPEG with an APP1 segment; free. */
static uint8_t *with_exif(const uint8_t *jpeg, size_t length, bool big, unsigned orientation, size_t *ret_length)
{
    uint8_t exif[64], *out = malloc(length + 128);
    size_t n = exif_data(exif, big, orientation);
    const uint8_t head[10] = {0xff, 0xe1, 0, (uint8_t)(n + 8), 'E', 'x', 'i', 'f', 0, 0};
    if (!out)
        abort();
    memcpy(out, jpeg, 2);
    memcpy(out + 2, head, sizeof(head));
    memcpy(out + 12, exif, n);
    memcpy(out + 12 + n, jpeg + 2, length - 2);
    *ret_length = length + 10 + n;
    return out;
}

/* Where the upright pixel comes from, spelled out. */
static void stored_place(unsigned orientation, uint32_t w, uint32_t h, uint32_t x, uint32_t y, uint32_t *sx, uint32_t *sy)
{
    const uint32_t places[8][2] = {{x, y}, {w - 1 - x, y}, {w - 1 - x, h - 1 - y}, {x, h - 1 - y},
                                   {y, x}, {y, h - 1 - x}, {w - 1 - y, h - 1 - x}, {w - 1 - y, x}};
    *sx = places[orientation - 1][0];
    *sy = places[orientation - 1][1];
}

static void check_upright(const uint8_t *data, size_t length, const pst_image *stored, unsigned orientation)
{
    struct region_decoder d = decoder_of(3, true, true);
    struct region_info info;
    pst_error error;
    pst_image part;
    REQUIRE_OK(region_probe(&d, data, length, &info, &error), &error);
    CHECK_INT(info.orientation, orientation);
    CHECK_INT(info.width, orientation > 4 ? stored->height : stored->width);
    struct region parts[] = {
        {0, 0, info.width, info.height}, {3, 5, info.width - 4, info.height - 9}, {info.width - 1, 0, 1, 7}};
    for (int i = 0; i < 3; i++) {
        const struct region *r = &parts[i];
        REQUIRE_OK(region_decode(&d, data, length, &info, r, &part, &error), &error);
        bool same = part.width == r->width && part.height == r->height;
        for (uint32_t y = 0; y < r->height; y++)
            for (uint32_t x = 0; x < r->width; x++) {
                uint32_t sx, sy;
                stored_place(orientation, stored->width, stored->height, r->x + x, r->y + y, &sx, &sy);
                same &= memcmp(part.pixels + y * part.stride + 3 * x, stored->pixels + sy * stored->stride + 3 * sx, 3) == 0;
            }
        CHECK_MSG(same, "orientation %u, part %d", orientation, i);
    }
    region_decoder_finish(&d);
}

static void test_upright(void)
{
    pst_image image = noise(37, 22, 3, 3), stored;
    uint8_t *jpeg;
    size_t length = jpeg_sample(&jpeg, &image, &jpeg_kinds[2], 90), n;
    pst_error error;
    REQUIRE_OK(pst_image_decode(&stored, jpeg, length, NULL, &error), &error);
    for (unsigned orientation = 1; orientation <= 8; orientation++) {
        uint8_t *data = with_exif(jpeg, length, orientation % 2, orientation, &n);
        check_upright(data, n, &stored, orientation);
        free(data);
    }
    struct region_decoder upright = decoder_of(3, true, true), plain = decoder_of(3, true, false);
    struct region_info info;
    uint8_t *data = with_exif(jpeg, length, false, 6, &n);
    REQUIRE_OK(region_probe(&plain, data, n, &info, &error), &error); /* opt-in */
    CHECK_INT(info.orientation, 1);
    for (size_t at = 12; at < 50; at++) { /* whatever the EXIF data says, the image stays readable */
        uint8_t kept = data[at];
        data[at] = 0xff;
        REQUIRE_OK(region_probe(&upright, data, n, &info, &error), &error);
        CHECK(info.orientation >= 1 && info.orientation <= 8);
        data[at] = kept;
    }
    REQUIRE_OK(region_probe(&upright, jpeg, length, &info, &error), &error);
    CHECK_INT(info.orientation, 1);
    free(data);
    free(jpeg);
    pst_image_finish(&stored);
    pst_image_finish(&image);
}

static void test_exif_elsewhere(void)
{
    static const uint8_t png_head[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0,
                                       0,    0,   2,   0,   0,    0,    3,    8,    2, 0, 0, 0,  0,   0,   0,   0};
    struct bytes png = {0}, webp = {0};
    uint8_t exif[64];
    size_t n = exif_data(exif, false, 8);
    add(&png, png_head, sizeof(png_head));
    ADD(&png, 0, 0, 0, (uint8_t)n, 'e', 'X', 'I', 'f');
    add(&png, exif, n);
    ADD(&png, 0, 0, 0, 0);
    add(&webp, "RIFF\0\0\0\0WEBPVP8X\12\0\0\0\10\0\0\0\1\0\0\2\0\0", 30);
    ADD(&webp, 'o', 'd', 'd', ' ', 1, 0, 0, 0, 7, 0);
    ADD(&webp, 'E', 'X', 'I', 'F', (uint8_t)n, 0, 0, 0);
    add(&webp, exif, n);
    CHECK_INT(exif_orientation(&image_codec_png, png.data, png.length), 8);
    CHECK_INT(exif_orientation(&image_codec_webp, webp.data, webp.length), 8);
    for (size_t length = 12; length < png.length; length++)
        CHECK_INT(exif_orientation(&image_codec_png, png.data, length), 1);
    for (size_t length = 12; length < webp.length; length++)
        CHECK_INT(exif_orientation(&image_codec_webp, webp.data, length), 1);
    CHECK_INT(exif_orientation(&image_codec_bmp, png.data, png.length), 1);
}

/* ---- Damage, limits, memory ---- */

/* A file that is cut off is an error whatever part is wanted, unless it is to be recovered; then the rest is gray. */
static void test_cut_off(void)
{
    pst_image image = noise(64, 64, 3, 4), part;
    uint8_t *jpeg;
    size_t length = jpeg_sample(&jpeg, &image, &jpeg_kinds[0], 90);
    struct region_decoder strict = decoder_of(3, true, false), tolerant = decoder_of(3, false, false);
    const struct region top = {0, 0, 64, 8}, whole = {0, 0, 64, 64};
    struct region_info info;
    pst_error error;
    for (size_t cut = 1; cut < length - 700; cut += 101) {
        CHECK_STATUS(region_probe(&strict, jpeg, length - cut, &info, &error), PST_ECORRUPT, &error);
        CHECK_MSG(strstr(error.message, "cut off") && strstr(error.message, "recover"), "%s", error.message);
        REQUIRE_OK(region_probe(&tolerant, jpeg, length - cut, &info, &error), &error);
        REQUIRE_OK(region_decode(&tolerant, jpeg, length - cut, &info, &whole, &part, &error), &error);
        REQUIRE_OK(region_decode(&tolerant, jpeg, length - cut, &info, &top, &part, &error), &error);
    }
    uint8_t *longer = malloc(length + 5); /* bytes behind the end are nobody's business */
    if (!longer)
        abort();
    memcpy(longer, jpeg, length);
    memset(longer + length, 0, 5);
    REQUIRE_OK(region_probe(&strict, longer, length + 5, &info, &error), &error);
    REQUIRE_OK(region_decode(&strict, longer, length + 5, &info, &whole, &part, &error), &error);
    free(longer);
    free(jpeg);
    region_decoder_finish(&strict);
    region_decoder_finish(&tolerant);
    pst_image_finish(&image);
}

/* A decoder that met a broken image decodes the next one as if nothing had happened. */
static void test_recovers(void)
{
    pst_image image = noise(50, 40, 3, 5), whole, part;
    uint8_t *jpeg, *broken;
    size_t length = jpeg_sample(&jpeg, &image, &jpeg_kinds[2], 90),
           progressive = jpeg_sample(&broken, &image, &jpeg_kinds[15], 90);
    struct region_decoder d = decoder_of(3, false, false);
    const struct region r = {9, 17, 30, 20};
    struct region_info info;
    struct random random;
    pst_error error;
    size_t failed = 0;
    random_init(&random, 3, 0, 0, 0);
    REQUIRE_OK(pst_image_decode(&whole, jpeg, length, NULL, &error), &error);
    for (int i = 0; i < 300; i++) {
        size_t at = random_below(&random, progressive);
        uint8_t kept = broken[at];
        broken[at] ^= (uint8_t)(1 + random_below(&random, 255));
        if (region_probe(&d, broken, progressive, &info, &error) == PST_OK && info.width > 39 && info.height > 37)
            failed += region_decode(&d, broken, progressive, &info, &r, &part, &error) < 0;
        broken[at] = kept;
        REQUIRE_OK(region_probe(&d, jpeg, length, &info, &error), &error);
        REQUIRE_OK(region_decode(&d, jpeg, length, &info, &r, &part, &error), &error);
        CHECK(same_part(&part, &whole, &r));
    }
    CHECK_MSG(failed > 5, "%zu", failed);
    region_decoder_finish(&d);
    free(broken);
    free(jpeg);
    pst_image_finish(&whole);
    pst_image_finish(&image);
}

static void test_limits(void)
{
    pst_image image = noise(64, 48, 3, 6), part;
    uint8_t *jpeg, *scans;
    size_t length = jpeg_sample(&jpeg, &image, &jpeg_kinds[0], 90), many = sample_progressive(&scans, &image, 30);
    struct region_options options = {.decode = {.size = sizeof(options.decode), .max_pixels = 64 * 48 - 1, .max_scans = 20}};
    struct region_decoder d;
    struct region_info info;
    pst_error error;
    REQUIRE_OK(region_decoder_init(&d, &options, &error), &error);
    CHECK_STATUS(region_probe(&d, jpeg, length, &info, &error), PST_ELIMIT, &error);
    options.decode.max_pixels++;
    REQUIRE_OK(region_decoder_init(&d, &options, &error), &error);
    REQUIRE_OK(region_probe(&d, scans, many, &info, &error), &error);
    CHECK_STATUS(region_decode(&d, scans, many, &info, &(struct region){0, 0, 1, 1}, &part, &error), PST_ELIMIT, &error);
    REQUIRE_OK(region_probe(&d, jpeg, length, &info, &error), &error);
    REQUIRE_OK(region_decode(&d, jpeg, length, &info, &(struct region){0, 0, 1, 1}, &part, &error), &error);
    region_decoder_finish(&d);
    options.decode.channels = 2;
    CHECK_STATUS(region_decoder_init(&d, &options, &error), PST_EINVAL, &error);
    free(scans);
    free(jpeg);
    pst_image_finish(&image);
}

static void test_memory(void)
{
    struct region_memory m = {0};
    const size_t huge = (size_t)100 << 20;
    REQUIRE(region_memory_need(&m, 1000));
    uint8_t *first = m.data;
    CHECK(region_memory_need(&m, 900) && m.data == first); /* kept */
    CHECK(region_memory_need(&m, huge) && m.size == huge);
    CHECK(region_memory_need(&m, huge - 1) && m.size == huge);
    CHECK(region_memory_need(&m, 1000) && m.size == 1000); /* not for ever */
    test_fault_arm(FAULT_MEMORY, 0, false);
    CHECK(!region_memory_need(&m, 2000) && !m.data && m.size == 0);
    test_fault_clear();
    CHECK(region_memory_need(&m, 10));
    mem_free(m.data);
}

static void test_faults(void)
{
    pst_image image = noise(30, 20, 3, 7), part;
    uint8_t *jpeg;
    size_t length = jpeg_sample(&jpeg, &image, &jpeg_kinds[2], 90), turned;
    uint8_t *data = with_exif(jpeg, length, true, 6, &turned);
    const uint64_t live = mem_live();
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        struct region_decoder d = decoder_of(3, true, true);
        struct region_info info;
        pst_error error = {0};
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = region_probe(&d, data, turned, &info, &error);
        if (st == PST_OK)
            st = region_decode(&d, data, turned, &info, &(struct region){1, 2, 3, 4}, &part, &error);
        done = test_fault_calls() <= n;
        test_fault_clear();
        CHECK_STATUS(st, done ? PST_OK : PST_ENOMEM, &error);
        if (!done) { /* and then it works */
            REQUIRE_OK(region_probe(&d, data, turned, &info, &error), &error);
            REQUIRE_OK(region_decode(&d, data, turned, &info, &(struct region){1, 2, 3, 4}, &part, &error), &error);
        }
        region_decoder_finish(&d);
        CHECK_INT(mem_live(), live);
    }
    free(data);
    free(jpeg);
    pst_image_finish(&image);
}

static const struct test tests[] = {
    {"jpeg: every range of rows and columns", test_jpeg_ranges},
    {"jpeg: small images", test_jpeg_small},
    {"jpeg: large images", test_jpeg_large},
    {"other formats", test_formats},
    {"upright", test_upright},
    {"EXIF in PNG and WebP", test_exif_elsewhere},
    {"cut off", test_cut_off},
    {"after a broken image", test_recovers},
    {"limits", test_limits},
    {"memory that is kept", test_memory},
    {"failing allocations", test_faults},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
