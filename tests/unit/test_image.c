/* test_image.c: the image formats through the public calls: round trips, what a header promises, limits, damage, faults. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"
#include "image/pixels.h"
#include "image_samples.h"

#include <math.h>

static pst_decode_options decode_as(uint32_t channels)
{
    return (pst_decode_options){.size = sizeof(pst_decode_options), .channels = channels};
}

static pst_status decode(pst_image *ret, const void *data, size_t length, uint32_t channels, pst_error *error)
{
    pst_decode_options options = decode_as(channels);
    return pst_image_decode(ret, data, length, &options, error);
}

static bool same_pixels(const pst_image *a, const pst_image *b)
{
    if (a->width != b->width || a->height != b->height || a->channels != b->channels)
        return false;
    for (uint32_t y = 0; y < a->height; y++)
        if (memcmp(a->pixels + y * a->stride, b->pixels + y * b->stride, (size_t)a->width * a->channels) != 0)
            return false;
    return true;
}

static double mean_difference(const pst_image *a, const pst_image *b)
{
    double sum = 0;
    size_t n = (size_t)a->width * a->channels;
    for (uint32_t y = 0; y < a->height; y++)
        for (size_t i = 0; i < n; i++)
            sum += fabs((double)a->pixels[y * a->stride + i] - b->pixels[y * b->stride + i]);
    return sum / ((double)n * a->height);
}

/* ---- Names and arguments ---- */

static void test_names(void)
{
    pst_error error;
    pst_image_format format;
    for (int f = PST_IMAGE_JPEG; f <= PST_IMAGE_RAW; f++) {
        REQUIRE_OK(pst_image_format_parse(&format, pst_image_format_name((pst_image_format)f), &error), &error);
        CHECK_INT(format, f);
    }
    REQUIRE_OK(pst_image_format_parse(&format, "JPG", &error), &error);
    CHECK_INT(format, PST_IMAGE_JPEG);
    CHECK_STATUS(pst_image_format_parse(&format, "jpge", &error), PST_EINVAL, &error);
    CHECK_MSG(strstr(error.message, "jpge") && strstr(error.message, "mean jpeg"), "%s", error.message);
    CHECK_STATUS(pst_image_format_parse(&format, "unknown", &error), PST_EINVAL, &error);
    CHECK_STR(pst_image_format_name((pst_image_format)99), "unknown");
}

static void test_arguments(void)
{
    pst_error error;
    pst_image image, out;
    uint8_t *bytes;
    size_t length;
    pst_decode_options no_size = {.channels = 3};
    pst_encode_options quality = {.size = sizeof(quality), .quality = 101}, effort = {.size = sizeof(effort), .effort = 10};
    CHECK_STATUS(pst_image_create(&image, 0, 1, 3, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_create(&image, 1, 1, 5, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_create(&image, UINT32_MAX, UINT32_MAX, 4, &error), PST_ENOMEM, &error);
    CHECK_STATUS(pst_image_decode(&out, "GIF", 3, &no_size, &error), PST_EINVAL, &error);
    CHECK_STATUS(decode(&out, "", 0, 2, &error), PST_EINVAL, &error);
    CHECK_STATUS(decode(&out, "", 0, 0, &error), PST_ECORRUPT, &error);
    CHECK_STATUS(decode(&out, "no image at all", 15, 0, &error), PST_ECORRUPT, &error);
    CHECK_MSG(strstr(error.message, "6e 6f 20"), "%s", error.message);
    image = sample_image(3, 2, 4, 1);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_PNG, &quality, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_PNG, &effort, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_JPEG, NULL, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_BMP, NULL, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_GIF, NULL, &error), PST_EUNSUPPORTED, &error);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_UNKNOWN, NULL, &error), PST_EUNSUPPORTED, &error);
    CHECK_STATUS(pst_image_resize(&out, &image, 0, 1, PST_FILTER_TRIANGLE, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_resize(&out, &image, 1, 1, (pst_filter)99, &error), PST_EINVAL, &error);
    pst_image_finish(&image);
    CHECK_STATUS(pst_image_encode(&bytes, &length, &image, PST_IMAGE_PNG, NULL, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_image_resize(&out, &image, 1, 1, PST_FILTER_TRIANGLE, &error), PST_EINVAL, &error);
    pst_image_finish(&image);
    pst_image_finish(NULL);
    pst_free(NULL);
}

/* ---- Round trips ---- */

struct round_trip {
    pst_image_format format;
    uint32_t channels, stored; /* given; found by the probe */
    int quality, effort;
    bool lossless;
    double tolerance; /* mean difference in levels */
};

static const struct round_trip round_trips[] = {
    {PST_IMAGE_PNG, 1, 1, 0, 0, false, 0},      {PST_IMAGE_PNG, 2, 2, 0, 0, false, 0},   {PST_IMAGE_PNG, 3, 3, 0, 0, false, 0},
    {PST_IMAGE_PNG, 4, 4, 0, 0, false, 0},      {PST_IMAGE_PNG, 3, 3, 0, 1, false, 0},   {PST_IMAGE_PNG, 3, 3, 0, 9, false, 0},
    {PST_IMAGE_BMP, 1, 3, 0, 0, false, 0},      {PST_IMAGE_BMP, 3, 3, 0, 0, false, 0},   {PST_IMAGE_WEBP, 1, 3, 0, 0, true, 0},
    {PST_IMAGE_WEBP, 3, 3, 0, 0, true, 0},      {PST_IMAGE_WEBP, 4, 4, 0, 6, true, 0},   {PST_IMAGE_WEBP, 3, 3, 0, 0, false, 5},
    {PST_IMAGE_WEBP, 4, 4, 0, 2, false, 5},     {PST_IMAGE_JPEG, 1, 1, 0, 0, false, 3},  {PST_IMAGE_JPEG, 3, 3, 0, 0, false, 4},
    {PST_IMAGE_JPEG, 3, 3, 100, 0, false, 2.5}, {PST_IMAGE_JPEG, 3, 3, 20, 0, false, 8},
};

static void check_round_trip(const struct round_trip *t, uint32_t width, uint32_t height)
{
    pst_error error;
    pst_image whole = sample_image(width + 3, height + 2, t->channels, width * 1000 + height), back;
    pst_image image = pixels_crop(&whole, 2, 1, width, height), tight;
    pst_encode_options options = {.size = sizeof(options), .quality = t->quality, .effort = t->effort, .lossless = t->lossless};
    pst_image_info info;
    uint8_t *bytes, *again;
    size_t length, again_length;
    REQUIRE_OK(pst_image_encode(&bytes, &length, &image, t->format, &options, &error), &error);
    REQUIRE_OK(pst_image_create(&tight, width, height, t->channels, &error), &error);
    pixels_copy(&image, &tight);
    REQUIRE_OK(pst_image_encode(&again, &again_length, &tight, t->format, &options, &error), &error);
    CHECK_MSG(length == again_length && memcmp(bytes, again, length) == 0, "%s: encoded twice, different bytes",
              pst_image_format_name(t->format));
    REQUIRE_OK(pst_image_probe(bytes, length, &info, &error), &error);
    CHECK_INT(info.format, t->format);
    CHECK_INT(info.width, width);
    CHECK_INT(info.height, height);
    CHECK_INT(info.channels, t->stored);
    /* 2 channels come back as RGBA */
    REQUIRE_OK(decode(&back, bytes, length, t->channels == 2 ? 4 : t->channels, &error), &error);
    if (t->channels == 2) {
        bool equal = true;
        for (uint32_t i = 0; i < width * height; i++)
            for (int c = 0; c < 4; c++)
                equal &= back.pixels[4 * i + c] == tight.pixels[2 * i + (c == 3)];
        CHECK(equal);
    } else {
        double difference = mean_difference(&image, &back);
        CHECK_MSG(difference <= t->tolerance, "%s, %u channels, %u × %u: mean difference %.2f, at most %.2f",
                  pst_image_format_name(t->format), t->channels, width, height, difference, t->tolerance);
    }
    pst_image_finish(&back);
    pst_free(bytes);
    pst_free(again);
    pst_image_finish(&tight);
    pst_image_finish(&whole);
}

static void test_round_trips(void)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 1}, {1, 3}, {7, 5}, {16, 16}, {33, 17}, {97, 64}};
    uint64_t before = mem_live();
    for (size_t i = 0; i < sizeof(round_trips) / sizeof(round_trips[0]); i++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
            check_round_trip(&round_trips[i], sizes[k][0], sizes[k][1]);
    CHECK_INT(mem_live(), before);
}

static void test_raw(void)
{
    pst_error error;
    pst_image whole = sample_image(9, 6, 3, 5), image = pixels_crop(&whole, 1, 1, 4, 3);
    uint8_t *bytes;
    size_t length;
    REQUIRE_OK(pst_image_encode(&bytes, &length, &image, PST_IMAGE_RAW, NULL, &error), &error);
    CHECK_INT(length, 4 * 3 * 3);
    for (uint32_t y = 0; y < 3; y++)
        CHECK(memcmp(bytes + y * 12, image.pixels + y * image.stride, 12) == 0);
    pst_free(bytes);
    pst_image_finish(&whole);
}

/* Every stored layout decoded to every asked one. */
static void test_channels(void)
{
    pst_error error;
    for (uint32_t stored = 1; stored <= 4; stored++) {
        pst_image image = sample_image(11, 7, stored, stored), one, three, four, zero, gray;
        uint8_t *bytes;
        size_t length;
        REQUIRE_OK(pst_image_encode(&bytes, &length, &image, PST_IMAGE_PNG, NULL, &error), &error);
        REQUIRE_OK(decode(&one, bytes, length, 1, &error), &error);
        REQUIRE_OK(decode(&three, bytes, length, 3, &error), &error);
        REQUIRE_OK(decode(&four, bytes, length, 4, &error), &error);
        REQUIRE_OK(pst_image_decode(&zero, bytes, length, NULL, &error), &error);
        REQUIRE_OK(pst_image_create(&gray, 11, 7, 1, &error), &error);
        pixels_to_gray(&three, &gray);
        CHECK(same_pixels(&one, &gray));
        CHECK(same_pixels(&zero, stored < 3 ? &one : &three));
        for (uint32_t i = 0; i < 11 * 7; i++) {
            const uint8_t *p = image.pixels + i * stored;
            CHECK(four.pixels[4 * i] == p[0] && memcmp(four.pixels + 4 * i, three.pixels + 3 * i, 3) == 0);
            CHECK_INT(four.pixels[4 * i + 3], stored % 2 ? 255 : p[stored - 1]);
        }
        pst_image_finish(&gray);
        pst_image_finish(&zero);
        pst_image_finish(&four);
        pst_image_finish(&three);
        pst_image_finish(&one);
        pst_free(bytes);
        pst_image_finish(&image);
    }
}

/* ---- Limits ---- */

/* Refused with the name of the limit, and before any allocation. */
static void check_refused(const void *data, size_t length, const char *what)
{
    pst_error error;
    pst_image image;
    test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
    pst_status st = decode(&image, data, length, 0, &error);
    uint64_t calls = test_fault_calls();
    test_fault_clear();
    CHECK_STATUS(st, PST_ELIMIT, &error);
    CHECK_MSG(strstr(error.message, "max_pixels"), "%s: %s", what, error.message);
    CHECK_MSG(calls == 0, "%s: %d allocations", what, (int)calls);
}

static void test_bombs(void)
{
    struct bytes jpeg = {.length = 0}, png = {.length = 0}, webp = {.length = 0}, bmp = {.length = 0}, gif = {.length = 0};
    ADD(&jpeg, 0xff, 0xd8, 0xff, 0xc0, 0, 17, 8, 0xff, 0xff, 0xff, 0xff, 3, 1, 0x22, 0, 2, 0x11, 1, 3, 0x11, 1, 0xff, 0xda);
    check_refused(jpeg.data, jpeg.length, "jpeg");
    ADD(&png, 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n', 0, 0, 0, 13, 'I', 'H', 'D', 'R', 0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff,
        0xff, 0xff, 8, 2, 0, 0, 0, 0, 0, 0, 0);
    check_refused(png.data, png.length, "png");
    add(&webp, "RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0", 20);
    ADD(&webp, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);
    check_refused(webp.data, webp.length, "webp");
    bmp_header(&bmp, INT32_MAX, INT32_MIN, 8, 1, 1, 0);
    ADD(&bmp, 0, 0, 0, 0, 0, 1);
    check_refused(bmp.data, bmp.length, "bmp");
    add(&gif, "GIF89a", 6);
    ADD(&gif, 1, 0, 1, 0, 0, 0, 0, 0x2c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 2, 0);
    check_refused(gif.data, gif.length, "gif");
}

static void test_limit_is_exact(void)
{
    pst_error error;
    pst_image image = sample_image(10, 7, 3, 1), back;
    pst_decode_options options = decode_as(0);
    uint8_t *bytes;
    size_t length;
    static const pst_image_format formats[] = {PST_IMAGE_JPEG, PST_IMAGE_PNG, PST_IMAGE_WEBP, PST_IMAGE_BMP};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        REQUIRE_OK(pst_image_encode(&bytes, &length, &image, formats[i], NULL, &error), &error);
        options.max_pixels = 70;
        REQUIRE_OK(pst_image_decode(&back, bytes, length, &options, &error), &error);
        pst_image_finish(&back);
        options.max_pixels = 69;
        CHECK_STATUS(pst_image_decode(&back, bytes, length, &options, &error), PST_ELIMIT, &error);
        pst_free(bytes);
    }
    pst_image_finish(&image);
}

static void test_scans(void)
{
    pst_error error;
    pst_image image = sample_image(16, 16, 3, 1), back;
    pst_decode_options options = decode_as(0);
    uint8_t *bytes;
    size_t length = sample_progressive(&bytes, &image, 0);
    REQUIRE_OK(decode(&back, bytes, length, 0, &error), &error);
    CHECK_MSG(mean_difference(&image, &back) < 8, "progressive: mean difference %.2f", mean_difference(&image, &back));
    pst_image_finish(&back);
    options.max_scans = 9; /* it has 10 */
    CHECK_STATUS(pst_image_decode(&back, bytes, length, &options, &error), PST_ELIMIT, &error);
    CHECK_MSG(strstr(error.message, "max_scans"), "%s", error.message);
    options.max_scans = 10;
    REQUIRE_OK(pst_image_decode(&back, bytes, length, &options, &error), &error);
    pst_image_finish(&back);
    free(bytes);
    length = sample_progressive(&bytes, &image, 491);
    CHECK_STATUS(decode(&back, bytes, length, 0, &error), PST_ELIMIT, &error);
    CHECK_MSG(strstr(error.message, "max_scans = 500"), "%s", error.message);
    free(bytes);
    pst_image_finish(&image);
}

/* ---- Damage ---- */

struct sample {
    const char *name;
    uint8_t *data;
    size_t length;
    uint32_t width, height;
    bool whole; /* a strict decode notices any missing byte */
};

static struct sample encoded(const char *name, pst_image_format format, uint32_t channels, bool lossless)
{
    pst_image image = sample_image(9, 6, channels, 3);
    pst_encode_options options = {.size = sizeof(options), .quality = 30, .lossless = lossless};
    struct sample s = {.name = name, .width = 9, .height = 6, .whole = format == PST_IMAGE_JPEG || format == PST_IMAGE_PNG};
    uint8_t *bytes;
    if (pst_image_encode(&bytes, &s.length, &image, format, &options, NULL) < 0)
        abort();
    s.data = malloc(s.length); /* exactly as long as the data: sanitizers see one byte too many */
    if (!s.data)
        abort();
    memcpy(s.data, bytes, s.length);
    pst_free(bytes);
    pst_image_finish(&image);
    return s;
}

static struct sample written(const char *name, const struct bytes *b, uint32_t width, uint32_t height)
{
    struct sample s = {.name = name, .data = malloc(b->length), .length = b->length, .width = width, .height = height};
    if (!s.data)
        abort();
    memcpy(s.data, b->data, b->length);
    return s;
}

enum { SAMPLES = 11 };

static void samples_make(struct sample *s)
{
    pst_image image = sample_image(8, 8, 3, 2);
    struct bytes gif = sample_gif(), rle = sample_rle(), masks = {.length = 0};
    bmp_header(&masks, 2, 2, 16, 3, 0, 12);
    add32(&masks, 0xf800), add32(&masks, 0x7e0), add32(&masks, 0x1f);
    ADD(&masks, 1, 2, 3, 4, 5, 6, 7, 8);
    s[0] = encoded("jpeg", PST_IMAGE_JPEG, 3, false);
    s[1] = encoded("jpeg gray", PST_IMAGE_JPEG, 1, false);
    s[2] = encoded("png", PST_IMAGE_PNG, 3, false);
    s[3] = encoded("png rgba", PST_IMAGE_PNG, 4, false);
    s[4] = encoded("webp", PST_IMAGE_WEBP, 3, false);
    s[5] = encoded("webp lossless", PST_IMAGE_WEBP, 4, true);
    s[6] = encoded("bmp", PST_IMAGE_BMP, 3, false);
    s[7] = written("gif", &gif, 4, 3);
    s[8] = written("bmp rle", &rle, 5, 3);
    s[9] = written("bmp masks", &masks, 2, 2);
    s[10] = (struct sample){.name = "jpeg progressive", .width = 8, .height = 8, .whole = true};
    s[10].length = sample_progressive(&s[10].data, &image, 0);
    pst_image_finish(&image);
}

static void samples_free(struct sample *s)
{
    for (int i = 0; i < SAMPLES; i++)
        free(s[i].data);
}

/* Decodes whatever this is: an image of the probed size within the limit, or an error; nothing is left behind. */
static pst_status decode_damaged(const uint8_t *data, size_t length, uint32_t channels, bool strict)
{
    pst_error error, probe_error;
    pst_image image = {0};
    pst_image_info info;
    pst_decode_options options = {.size = sizeof(options), .channels = channels, .max_pixels = 1 << 16, .strict = strict};
    pst_status probed = pst_image_probe(data, length, &info, &probe_error);
    pst_status st = pst_image_decode(&image, data, length, &options, &error);
    CHECK(st <= PST_OK && st != PST_EINVAL && (st == PST_OK || error.message[0]));
    CHECK(st < 0 || (probed == PST_OK && info.width == image.width && info.height == image.height));
    CHECK(st < 0 || image.channels == (channels ? channels : info.channels < 3 ? 1 : 3));
    pst_image_finish(&image);
    return st;
}

static void test_truncation(void)
{
    struct sample samples[SAMPLES];
    samples_make(samples);
    uint64_t before = mem_live();
    for (int i = 0; i < SAMPLES; i++) {
        const struct sample *s = &samples[i];
        for (size_t n = 0; n <= s->length; n++) {
            uint8_t *exact = malloc(n ? n : 1);
            if (!exact)
                abort();
            memcpy(exact, s->data, n);
            pst_status st = decode_damaged(exact, n, 0, false), strict = decode_damaged(exact, n, n % 2 ? 4 : 1, true);
            if (n == s->length)
                CHECK_MSG(st == PST_OK && strict == PST_OK, "%s: whole, but does not decode", s->name);
            else if (s->whole)
                CHECK_MSG(strict < 0, "%s: strict, but %zu of %zu bytes decode", s->name, n, s->length);
            free(exact);
        }
    }
    CHECK_INT(mem_live(), before);
    samples_free(samples);
}

static void test_bit_flips(void)
{
    struct sample samples[SAMPLES];
    samples_make(samples);
    uint64_t before = mem_live();
    for (int i = 0; i < SAMPLES; i++) {
        struct sample *s = &samples[i];
        for (size_t bit = 0; bit < s->length * 8; bit++) {
            s->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            decode_damaged(s->data, s->length, bit % 3 == 0 ? 0 : bit % 3 == 1 ? 3 : 4, bit % 2);
            s->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
        CHECK_INT(decode_damaged(s->data, s->length, 0, true), PST_OK);
    }
    CHECK_INT(mem_live(), before);
    samples_free(samples);
}

static void test_strict(void)
{
    pst_error error;
    pst_image image = sample_image(64, 64, 3, 9), back;
    pst_decode_options options = decode_as(0);
    uint8_t *bytes;
    size_t length;
    REQUIRE_OK(pst_image_encode(&bytes, &length, &image, PST_IMAGE_JPEG, NULL, &error), &error);
    REQUIRE_OK(pst_image_decode(&back, bytes, length - length / 4, &options, &error), &error);
    CHECK(mean_difference(&image, &back) > 0);
    pst_image_finish(&back);
    options.strict = true;
    CHECK_STATUS(pst_image_decode(&back, bytes, length - length / 4, &options, &error), PST_ECORRUPT, &error);
    CHECK_MSG(strstr(error.message, "Premature end"), "%s", error.message);
    REQUIRE_OK(pst_image_decode(&back, bytes, length, &options, &error), &error);
    pst_image_finish(&back);
    pst_free(bytes);
    pst_image_finish(&image);
}

/* ---- Faults ---- */

/* Fails allocation after allocation, once or from there on, until the call gets through without reaching the failing one. */
static void check_faults(const char *what, bool forever, pst_status (*call)(void *user, pst_error *error), void *user)
{
    uint64_t before = mem_live();
    for (uint64_t n = 0; n < 1000; n++) {
        pst_error error = {0};
        test_fault_arm(FAULT_MEMORY, n, forever);
        pst_status st = call(user, &error);
        uint64_t calls = test_fault_calls();
        test_fault_clear();
        CHECK_MSG(mem_live() == before, "%s: allocation %d failed, %d blocks left", what, (int)n, (int)(mem_live() - before));
        if (calls <= n) {
            CHECK_STATUS(st, PST_OK, &error);
            CHECK_MSG(n > 0, "%s: no allocation at all", what);
            return;
        }
        CHECK_MSG(st == PST_ENOMEM && error.status == st, "%s: allocation %d failed, the call said %s", what, (int)n,
                  pst_status_name(st));
    }
    CHECK_MSG(false, "%s: more than 1000 allocations", what);
}

static pst_status fault_decode(void *user, pst_error *error)
{
    const struct sample *s = user;
    pst_image image;
    pst_status st = decode(&image, s->data, s->length, 1, error);
    if (st == PST_OK)
        pst_image_finish(&image);
    return st;
}

struct encoding {
    pst_image image;
    pst_image_format format;
};

static pst_status fault_encode(void *user, pst_error *error)
{
    const struct encoding *e = user;
    uint8_t *bytes;
    size_t length;
    pst_status st = pst_image_encode(&bytes, &length, &e->image, e->format, NULL, error);
    if (st == PST_OK)
        pst_free(bytes);
    return st;
}

static pst_status fault_resize(void *user, pst_error *error)
{
    pst_image out;
    pst_status st = pst_image_resize(&out, user, 5, 3, PST_FILTER_TRIANGLE, error);
    if (st == PST_OK)
        pst_image_finish(&out);
    return st;
}

static void test_allocation_faults(void)
{
    struct sample samples[SAMPLES];
    struct encoding e = {.image = sample_image(60, 50, 3, 4)};
    samples_make(samples);
    for (int forever = 0; forever <= 1; forever++) {
        for (int i = 0; i < SAMPLES; i++)
            check_faults(samples[i].name, forever, fault_decode, &samples[i]);
        for (int f = PST_IMAGE_JPEG; f <= PST_IMAGE_RAW; f++) {
            e.format = (pst_image_format)f;
            if (f != PST_IMAGE_GIF)
                check_faults(pst_image_format_name(e.format), forever, fault_encode, &e);
        }
        check_faults("resize", forever, fault_resize, &e.image);
    }
    samples_free(samples);
    pst_image_finish(&e.image);
}

static const struct test tests[] = {
    {"names of formats", test_names},
    {"wrong arguments", test_arguments},
    {"round trips", test_round_trips},
    {"raw pixels", test_raw},
    {"channels as asked", test_channels},
    {"bombs are refused before allocation", test_bombs},
    {"max_pixels is exact", test_limit_is_exact},
    {"endless scans", test_scans},
    {"truncated at every byte", test_truncation},
    {"every bit flipped", test_bit_flips},
    {"strict", test_strict},
    {"every allocation fails", test_allocation_faults},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
