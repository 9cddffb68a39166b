/* test_bitmap.c: BMP and GIF, which are read by hand, from bytes written by hand. */
#include "base/memory.h"
#include "harness.h"
#include "image_samples.h"

/* Decodes `b` with `channels` and compares with `want`, an array of width × height × channels levels. */
static void check_pixels(const struct bytes *b, uint32_t width, uint32_t height, uint32_t channels, const uint8_t *want,
                         int line)
{
    pst_error error;
    pst_image image;
    pst_image_info info;
    pst_decode_options options = {.size = sizeof(options), .channels = channels, .strict = true};
    uint64_t before = mem_live();
    if (!test_check_status(pst_image_probe(b->data, b->length, &info, &error), PST_OK, &error, __FILE__, line, "probe") ||
        !test_check_status(pst_image_decode(&image, b->data, b->length, &options, &error), PST_OK, &error, __FILE__, line,
                           "decode"))
        return;
    uint32_t got_channels = image.channels;
    test_check_int(info.width, width, __FILE__, line, "width");
    test_check_int(info.height, height, __FILE__, line, "height");
    test_check_int(image.width, width, __FILE__, line, "decoded width");
    test_check_int(image.height, height, __FILE__, line, "decoded height");
    for (size_t i = 0; i < (size_t)width * height * got_channels; i++)
        test_report(image.pixels[i] == want[i], __FILE__, line, "pixel %zu channel %zu is %d, expected %d", i / got_channels,
                    i % got_channels, image.pixels[i], want[i]);
    pst_image_finish(&image);
    test_check_int((long long)mem_live(), (long long)before, __FILE__, line, "mem_live()");
}

#define CHECK_PIXELS(b, width, height, channels, ...)                                                                          \
    check_pixels((b), (width), (height), (channels), (const uint8_t[]){__VA_ARGS__}, __LINE__)

static pst_status decode_status(const struct bytes *b, pst_error *error)
{
    pst_image image;
    pst_status st = pst_image_decode(&image, b->data, b->length, NULL, error);
    if (st == PST_OK)
        pst_image_finish(&image);
    return st;
}

/* ---- BMP ---- */

static void test_bmp_one_bit(void)
{
    struct bytes b = {.length = 0};
    bmp_header(&b, 10, 2, 1, 0, 2, 0);
    ADD(&b, 0, 0, 0, 0, 255, 255, 255, 0);
    ADD(&b, 0x00, 0xc0, 0, 0, 0xa5, 0x40, 0, 0); /* the lower row first */
    CHECK_PIXELS(&b, 10, 2, 0, 255, 0, 255, 0, 0, 255, 0, 255, 0, 255, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255);
}

static void test_bmp_four_bits(void)
{
    struct bytes b = {.length = 0};
    bmp_header(&b, 3, 1, 4, 0, 3, 0);
    ADD(&b, 3, 2, 1, 0, 6, 5, 4, 0, 9, 8, 7, 0); /* blue, green, red */
    ADD(&b, 0x21, 0x00, 0, 0);
    CHECK_PIXELS(&b, 3, 1, 0, 7, 8, 9, 4, 5, 6, 1, 2, 3);
    CHECK_PIXELS(&b, 3, 1, 4, 7, 8, 9, 255, 4, 5, 6, 255, 1, 2, 3, 255);
    b.data[b.length - 4] = 0x2f; /* an index that the palette lacks is a gray */
    CHECK_PIXELS(&b, 3, 1, 3, 7, 8, 9, 15, 15, 15, 1, 2, 3);
}

static void test_bmp_eight_bits(void)
{
    struct bytes b = {.length = 0};
    bmp_header(&b, 3, -2, 8, 0, 2, 0); /* top-down */
    ADD(&b, 200, 200, 200, 0, 50, 50, 50, 0);
    ADD(&b, 0, 1, 0, 0, 1, 1, 0, 0);
    CHECK_PIXELS(&b, 3, 2, 0, 200, 50, 200, 50, 50, 200); /* a palette of grays: one channel */
    CHECK_PIXELS(&b, 3, 2, 3, 200, 200, 200, 50, 50, 50, 200, 200, 200, 50, 50, 50, 50, 50, 50, 200, 200, 200);
}

static void test_bmp_direct(void)
{
    struct bytes b = {.length = 0};
    bmp_header(&b, 2, 1, 16, 0, 0, 0);
    ADD(&b, 0xff, 0x7f, 0x10, 0x04); /* 31 31 31, 1 0 16 */
    CHECK_PIXELS(&b, 2, 1, 0, 255, 255, 255, 8, 0, 131);
    b.length = 0;
    bmp_header(&b, 1, 2, 24, 0, 0, 0);
    ADD(&b, 1, 2, 3, 0, 4, 5, 6, 0);
    CHECK_PIXELS(&b, 1, 2, 0, 6, 5, 4, 3, 2, 1);
    b.length = 0;
    bmp_header(&b, 2, 1, 32, 0, 0, 0);
    ADD(&b, 1, 2, 3, 0, 4, 5, 6, 0);
    CHECK_PIXELS(&b, 2, 1, 0, 3, 2, 1, 6, 5, 4);
    CHECK_PIXELS(&b, 2, 1, 4, 3, 2, 1, 255, 6, 5, 4, 255); /* the fourth byte means nothing */
}

static void test_bmp_masks(void)
{
    struct bytes b = {.length = 0};
    bmp_header(&b, 2, 1, 16, 3, 0, 12);
    add32(&b, 0xf800), add32(&b, 0x07e0), add32(&b, 0x001f);
    ADD(&b, 0x00, 0xf8, 0xe1, 0x07);
    CHECK_PIXELS(&b, 2, 1, 0, 255, 0, 0, 0, 255, 8);
    b.length = 0;
    bmp_header(&b, 1, 1, 32, 6, 0, 16); /* with a mask for alpha */
    add32(&b, 0x000000ff), add32(&b, 0x0000ff00), add32(&b, 0x00ff0000), add32(&b, 0xff000000);
    ADD(&b, 1, 2, 3, 4);
    CHECK_PIXELS(&b, 1, 1, 4, 1, 2, 3, 4);
    CHECK_PIXELS(&b, 1, 1, 0, 1, 2, 3);
    b.length = 0;
    bmp_header(&b, 1, 1, 32, 3, 0, 12); /* ten bits each: the upper eight */
    add32(&b, 0x3ff00000), add32(&b, 0x000ffc00), add32(&b, 0x000003ff);
    add32(&b, 1023u << 20 | 512u << 10 | 3u);
    CHECK_PIXELS(&b, 1, 1, 0, 255, 128, 0);
    pst_error error;
    put_le32(b.data + 54, 0x3ff00001);
    CHECK_STATUS(decode_status(&b, &error), PST_EUNSUPPORTED, &error);
}

static void test_bmp_runs(void)
{
    struct bytes b = sample_rle();
    CHECK_PIXELS(&b, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 0, 0, 0, /* the last row stored is the first */
                 3, 2, 1, 60, 50, 40, 255, 255, 255, 60, 50, 40, 60, 50, 40,     /* */
                 3, 2, 1, 3, 2, 1, 3, 2, 1, 3, 2, 1, 3, 2, 1);
    struct bytes four = {.length = 0};
    bmp_header(&four, 6, 2, 4, 2, 4, 0);
    ADD(&four, 0, 0, 0, 0, 1, 1, 1, 0, 2, 2, 2, 0, 3, 3, 3, 0);
    ADD(&four, 5, 0x12, 1, 0x30, 0, 0);                   /* 1 2 1 2 1 3 */
    ADD(&four, 0, 5, 0x32, 0x10, 0x10, 0, 9, 0x22, 0, 1); /* 3 2 1 0 1, then 2s beyond the row */
    CHECK_PIXELS(&four, 6, 2, 0, 3, 2, 1, 0, 1, 2, 1, 2, 1, 2, 1, 3);
    pst_error error;
    b.length -= 4;
    CHECK_STATUS(decode_status(&b, &error), PST_ECORRUPT, &error);
    CHECK_MSG(strstr(error.message, "row 2 of 3"), "%s", error.message);
}

static void test_bmp_old_header(void)
{
    struct bytes b = {.length = 0};
    ADD(&b, 'B', 'M', 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 12, 0, 0, 0, 2, 0, 1, 0, 1, 0, 1, 0);
    ADD(&b, 1, 2, 3, 4, 5, 6, 0x40, 0, 0, 0);
    CHECK_PIXELS(&b, 2, 1, 0, 3, 2, 1, 6, 5, 4);
}

static void test_bmp_refused(void)
{
    pst_error error;
    struct bytes b = {.length = 0};
    bmp_header(&b, 2, 2, 24, 0, 0, 0);
    ADD(&b, 1, 2, 3, 4, 5, 6, 0, 0, 1, 2, 3, 4, 5, 6, 0);
    CHECK_STATUS(decode_status(&b, &error), PST_ECORRUPT, &error);
    b.data[28] = 5;
    CHECK_STATUS(decode_status(&b, &error), PST_EUNSUPPORTED, &error);
    b.data[28] = 24, b.data[30] = 4;
    CHECK_STATUS(decode_status(&b, &error), PST_EUNSUPPORTED, &error);
    b.data[30] = 0, b.data[18] = 0;
    CHECK_STATUS(decode_status(&b, &error), PST_ECORRUPT, &error);
    b.data[18] = 1, b.data[14] = 41, b.data[10] = 0;
    CHECK_STATUS(decode_status(&b, &error), PST_OK, &error); /* larger headers than we know begin alike */
    b.data[14] = 13;
    CHECK_STATUS(decode_status(&b, &error), PST_ECORRUPT, &error);
}

/* ---- GIF ---- */

static void test_gif_frame(void)
{
    struct bytes b = sample_gif();
    CHECK_PIXELS(&b, 4, 3, 0, 0, 0, 250, 0, 0, 250, 0, 0, 250, 0, 0, 250, /* around the frame: the transparent colour */
                 0, 0, 250, 10, 20, 30, 250, 0, 0, 0, 250, 0,             /* */
                 0, 0, 250, 0, 0, 250, 0, 250, 0, 250, 0, 0);
    CHECK_PIXELS(&b, 4, 3, 4, 0, 0, 250, 0, 0, 0, 250, 0, 0, 0, 250, 0, 0, 0, 250, 0, /* */
                 0, 0, 250, 0, 10, 20, 30, 255, 250, 0, 0, 255, 0, 250, 0, 255,       /* */
                 0, 0, 250, 0, 0, 0, 250, 0, 0, 250, 0, 255, 250, 0, 0, 255);
    b.data[28] = 0; /* no transparency: colour 0 around it */
    CHECK_INT(b.data[25], 0x21);
    CHECK_PIXELS(&b, 4, 3, 0, 10, 20, 30, 10, 20, 30, 10, 20, 30, 10, 20, 30, /* */
                 10, 20, 30, 10, 20, 30, 250, 0, 0, 0, 250, 0,                /* */
                 10, 20, 30, 0, 0, 250, 0, 250, 0, 250, 0, 0);
}

/* One column of `height` pixels, row i in gray i; `first` and `step` give the order in which the rows are stored. */
static void test_gif_interlace(void)
{
    for (uint32_t height = 1; height <= 40; height++) {
        uint8_t order[40], want[40];
        static const uint8_t start[4] = {0, 4, 2, 1}, step[4] = {8, 8, 4, 2};
        size_t n = 0;
        for (int pass = 0; pass < 4; pass++)
            for (uint32_t y = start[pass]; y < height; y += step[pass])
                order[n++] = (uint8_t)y;
        for (uint32_t y = 0; y < height; y++)
            want[y] = (uint8_t)y;
        struct bytes b = {.length = 0};
        add(&b, "GIF87a", 6);
        ADD(&b, 1, 0, (uint8_t)height, 0, 0, 0, 0); /* no palette: grays */
        ADD(&b, 0x2c, 0, 0, 0, 0, 1, 0, (uint8_t)height, 0, 0x40);
        gif_pixels(&b, 8, order, n);
        ADD(&b, 0x3b);
        check_pixels(&b, 1, height, 0, want, __LINE__);
    }
}

static void test_gif_local_palette(void)
{
    struct bytes b = {.length = 0};
    add(&b, "GIF89a", 6);
    ADD(&b, 2, 0, 1, 0, 0x80, 0, 0);
    ADD(&b, 1, 1, 1, 2, 2, 2);
    ADD(&b, 0x21, 0xfe, 3, 'a', 'b', 'c', 1, 'd', 0); /* a comment of two blocks */
    ADD(&b, 0x2c, 0, 0, 0, 0, 2, 0, 1, 0, 0x80);
    ADD(&b, 9, 8, 7, 6, 5, 4);
    gif_pixels(&b, 2, (const uint8_t[]){1, 0}, 2);
    CHECK_PIXELS(&b, 2, 1, 0, 6, 5, 4, 9, 8, 7);
}

static void test_gif_larger_frame(void)
{
    struct bytes b = {.length = 0};
    add(&b, "GIF89a", 6);
    ADD(&b, 1, 0, 1, 0, 0, 0, 0);
    ADD(&b, 0x2c, 1, 0, 0, 0, 2, 0, 1, 0, 0);
    gif_pixels(&b, 3, (const uint8_t[]){5, 6}, 2);
    CHECK_PIXELS(&b, 3, 1, 0, 0, 5, 6);
}

/* Codes that refer to themselves, and a table that fills up: what an encoder makes of one colour. */
static void test_gif_lzw(void)
{
    struct bytes b = {.length = 0};
    add(&b, "GIF89a", 6);
    ADD(&b, 10, 0, 1, 0, 0, 0, 0);
    ADD(&b, 0x2c, 0, 0, 0, 0, 10, 0, 1, 0, 0);
    /* clear 1 6 7 8 end as 3, 3, 3, 3, 4, 4 bits: 1, 11, 111, 1111 */
    unsigned codes[6] = {4, 1, 6, 7, 8, 5}, bits[6] = {3, 3, 3, 3, 4, 4}, held = 0;
    uint32_t pending = 0;
    for (int i = 0; i < 6; i++) {
        pending |= codes[i] << held;
        held += bits[i];
    }
    ADD(&b, 2, 3, (uint8_t)pending, (uint8_t)(pending >> 8), (uint8_t)(pending >> 16), 0, 0x3b);
    CHECK_PIXELS(&b, 10, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
    pst_error error;
    b.data[7 + 6 + 10 + 2] = 0xff; /* a code not yet defined */
    CHECK_STATUS(decode_status(&b, &error), PST_ECORRUPT, &error);
}

static void test_gif_refused(void)
{
    pst_error error;
    struct bytes b = sample_gif();
    b.length -= 4;
    CHECK_STATUS(decode_status(&b, &error), PST_ECORRUPT, &error);
    CHECK_MSG(strstr(error.message, "of 6 pixels"), "%s", error.message);
    struct bytes empty = {.length = 0};
    add(&empty, "GIF89a", 6);
    ADD(&empty, 4, 0, 3, 0, 0, 0, 0, 0x3b);
    CHECK_STATUS(decode_status(&empty, &error), PST_ECORRUPT, &error);
}

static const struct test tests[] = {
    {"bmp: 1 bit", test_bmp_one_bit},
    {"bmp: 4 bits", test_bmp_four_bits},
    {"bmp: 8 bits, top-down, gray", test_bmp_eight_bits},
    {"bmp: 16, 24, 32 bits", test_bmp_direct},
    {"bmp: bit masks", test_bmp_masks},
    {"bmp: run lengths", test_bmp_runs},
    {"bmp: OS/2 header", test_bmp_old_header},
    {"bmp: what is refused", test_bmp_refused},
    {"gif: a frame on its screen", test_gif_frame},
    {"gif: interlaced", test_gif_interlace},
    {"gif: local palette", test_gif_local_palette},
    {"gif: a frame beyond the screen", test_gif_larger_frame},
    {"gif: strings of codes", test_gif_lzw},
    {"gif: what is refused", test_gif_refused},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
