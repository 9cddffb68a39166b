/* test_yuv.c: stored planes: what is written is read, as a whole and in parts, and as libjpeg would; hostile bytes fail. */
#include "base/le.h"
#include "codec/region.h"
#include "codec/yuv.h"
#include "harness.h"
#include "image_samples.h"

/* Colours far from gray, smooth enough for halves. */
static pst_image colourful(uint32_t width, uint32_t height, uint64_t seed)
{
    struct random r;
    pst_image image;
    random_init(&r, seed, 0, 0, 0);
    if (pst_image_create(&image, width, height, 3, NULL) < 0)
        abort();
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = image.pixels + y * image.stride + 3 * (size_t)x;
            p[0] = (uint8_t)(200 * x / width + random_below(&r, 6));
            p[1] = (uint8_t)(200 * y / height + random_below(&r, 6));
            p[2] = (uint8_t)(230 - 180 * (x + y) / (width + height) + random_below(&r, 6));
        }
    return image;
}

static void test_there_and_back(void)
{
    static const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {33, 17}, {64, 48}, {129, 40}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pst_image image = colourful(sizes[i][0], sizes[i][1], i), back;
        pst_image_info info;
        pst_error error;
        size_t length, worst = 0;
        uint8_t *bytes = encode_image(&image, PST_IMAGE_YUV420, &length);
        uint64_t w = image.width, h = image.height;
        CHECK_INT(length, 16 + w * h + 2 * ((w + 1) / 2) * ((h + 1) / 2));
        REQUIRE_OK(pst_image_probe(bytes, length, &info, &error), &error);
        CHECK(info.format == PST_IMAGE_YUV420 && info.width == w && info.height == h && info.channels == 3);
        REQUIRE_OK(pst_image_decode(&back, bytes, length, NULL, &error), &error);
        CHECK(back.width == w && back.height == h && back.channels == 3);
        for (size_t k = 0; k < w * h * 3; k++) {
            size_t off = (size_t)abs(back.pixels[k] - image.pixels[k]);
            worst = off > worst ? off : worst;
        }
        CHECK_MSG(w * h < 100 || worst <= 16, "%u × %u: %zu levels off", image.width, image.height, worst);
        pst_image_finish(&back);
        pst_image_finish(&image);
        free(bytes);
    }
}

static void test_gray(void)
{
    pst_image gray = sample_image(31, 20, 1, 3), back;
    pst_decode_options options = {.size = sizeof(options), .channels = 0};
    size_t length;
    uint8_t *bytes = encode_image(&gray, PST_IMAGE_YUV420, &length);
    CHECK_INT(length, 16 + 31 * 20);
    REQUIRE_OK(pst_image_decode(&back, bytes, length, &options, NULL), NULL);
    CHECK(back.channels == 1 && memcmp(back.pixels, gray.pixels, 31 * 20) == 0);
    pst_image_finish(&back);
    options.channels = 3;
    REQUIRE_OK(pst_image_decode(&back, bytes, length, &options, NULL), NULL);
    CHECK(back.pixels[0] == gray.pixels[0] && back.pixels[2] == gray.pixels[0]);
    pst_image_finish(&back);
    pst_image_finish(&gray);
    free(bytes);
}

/* ---- Against libjpeg ---- */

/* The planes of a JPEG of 4:2:0 as we store them. */
static uint8_t *planes_of(const uint8_t *jpeg, size_t jpeg_length, size_t *ret_length)
{
    struct jpeg_decompress_struct info;
    struct jpeg_error_mgr trouble;
    info.err = jpeg_std_error(&trouble);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, jpeg, jpeg_length);
    jpeg_read_header(&info, TRUE);
    info.raw_data_out = TRUE;
    jpeg_start_decompress(&info);
    size_t w = info.image_width, h = info.image_height, cw = (w + 1) / 2, ch = (h + 1) / 2, pitch = (w + 15) / 16 * 16;
    uint8_t *bytes = malloc(16 + w * h + 2 * cw * ch), *rows[3], *block = malloc(pitch * 32);
    if (!bytes || !block)
        abort();
    memcpy(bytes, "PSTYUV\1\3", 8);
    put_le32(bytes + 8, (uint32_t)w);
    put_le32(bytes + 12, (uint32_t)h);
    rows[0] = bytes + 16;
    rows[1] = rows[0] + w * h;
    rows[2] = rows[1] + cw * ch;
    for (size_t y = 0; y < h; y += 16) {
        JSAMPROW lines[3][16];
        JSAMPARRAY planes[3] = {lines[0], lines[1], lines[2]};
        for (size_t i = 0; i < 32; i++)
            lines[i < 16 ? 0 : i < 24 ? 1 : 2][i < 16 ? i : i % 8] = block + i * pitch;
        jpeg_read_raw_data(&info, planes, 16);
        for (size_t c = 0; c < 3; c++)
            for (size_t k = 0; k < (c ? 8u : 16u); k++) {
                size_t row = (c ? y / 2 : y) + k, n = c ? cw : w;
                if (row < (c ? ch : h))
                    memcpy(rows[c] + row * n, lines[c][k], n);
            }
    }
    jpeg_finish_decompress(&info);
    jpeg_destroy_decompress(&info);
    free(block);
    *ret_length = 16 + w * h + 2 * cw * ch;
    return bytes;
}

/* A JPEG's planes become the JPEG's pixels. */
static void test_as_libjpeg(void)
{
    static const uint32_t sizes[][2] = {{64, 48}, {33, 17}, {90, 31}, {16, 16}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pst_image image = colourful(sizes[i][0], sizes[i][1], i), want, got;
        uint8_t *jpeg;
        size_t length, stored;
        REQUIRE_OK(pst_image_encode(&jpeg, &length, &image, PST_IMAGE_JPEG, NULL, NULL), NULL);
        uint8_t *bytes = planes_of(jpeg, length, &stored);
        REQUIRE_OK(pst_image_decode(&want, jpeg, length, NULL, NULL), NULL);
        REQUIRE_OK(pst_image_decode(&got, bytes, stored, NULL, NULL), NULL);
        CHECK_MSG(memcmp(got.pixels, want.pixels, want.stride * want.height) == 0, "%u × %u", want.width, want.height);
        pst_image_finish(&got);
        pst_image_finish(&want);
        pst_image_finish(&image);
        pst_free(jpeg);
        free(bytes);
    }
}

/* ---- Parts ---- */

static void check_parts(const uint8_t *bytes, size_t length, uint32_t channels, struct random *r)
{
    struct region_options options = {.decode = {.size = sizeof(pst_decode_options), .channels = channels, .strict = true}};
    struct region_decoder decoder;
    struct region_info info;
    pst_image whole, part;
    REQUIRE_OK(pst_image_decode(&whole, bytes, length, &options.decode, NULL), NULL);
    REQUIRE_OK(region_decoder_init(&decoder, &options, NULL), NULL);
    REQUIRE_OK(region_probe(&decoder, bytes, length, &info, NULL), NULL);
    for (int i = 0; i < 200; i++) {
        struct region where = {.x = (uint32_t)random_below(r, info.width), .y = (uint32_t)random_below(r, info.height)};
        where.width = 1 + (uint32_t)random_below(r, info.width - where.x);
        where.height = 1 + (uint32_t)random_below(r, info.height - where.y);
        REQUIRE_OK(region_decode(&decoder, bytes, length, &info, &where, &part, NULL), NULL);
        bool same = part.channels == whole.channels;
        for (uint32_t y = 0; y < where.height; y++)
            same &= memcmp(part.pixels + y * part.stride,
                           whole.pixels + (where.y + y) * whole.stride + (size_t)where.x * whole.channels,
                           (size_t)where.width * whole.channels) == 0;
        CHECK_MSG(same, "%u × %u at %u, %u", where.width, where.height, where.x, where.y);
    }
    region_decoder_finish(&decoder);
    pst_image_finish(&whole);
}

static void test_parts(void)
{
    static const uint32_t channels[] = {0, 1, 3, 4};
    struct random r;
    random_init(&r, 4, 0, 0, 0);
    for (size_t i = 0; i < 8; i++) {
        pst_image image = i % 2 ? sample_image(23, 31, 1, i) : colourful(31 + (uint32_t)i, 18, i);
        size_t length;
        uint8_t *bytes = encode_image(&image, PST_IMAGE_YUV420, &length);
        check_parts(bytes, length, channels[i / 2], &r);
        pst_image_finish(&image);
        free(bytes);
    }
}

/* ---- Damage ---- */

static void test_damage(void)
{
    pst_image image = colourful(9, 7, 1), back;
    pst_error error;
    struct yuv_planes planes;
    size_t length;
    uint8_t *bytes = encode_image(&image, PST_IMAGE_YUV420, &length);
    for (size_t n = 0; n < length; n++) { /* every cut */
        uint8_t *cut = malloc(n ? n : 1);
        if (!cut)
            abort();
        memcpy(cut, bytes, n);
        CHECK_STATUS(pst_image_decode(&back, cut, n, NULL, &error), PST_ECORRUPT, &error);
        CHECK_STATUS(yuv_open(cut, n, &planes, &error), PST_ECORRUPT, &error);
        free(cut);
    }
    static const struct {
        size_t at;
        uint8_t value;
    } changes[] = {{0, 'X'}, {6, 2}, {7, 0}, {7, 2}, {8, 0}, {11, 0x80}, {15, 1}, {12, 0xff}};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        uint8_t kept = bytes[changes[i].at];
        bytes[changes[i].at] = changes[i].value;
        pst_status st = pst_image_decode(&back, bytes, length, NULL, &error);
        CHECK_MSG(st == PST_ECORRUPT || st == PST_ELIMIT, "byte %zu: %s", changes[i].at, pst_status_name(st));
        bytes[changes[i].at] = kept;
    }
    pst_image four = sample_image(4, 4, 4, 1);
    uint8_t *none;
    CHECK_STATUS(pst_image_encode(&none, &length, &four, PST_IMAGE_YUV420, NULL, &error), PST_EINVAL, &error);
    pst_image_finish(&four);
    pst_image_finish(&image);
    free(bytes);
}

static const struct test tests[] = {
    {"there and back", test_there_and_back},
    {"gray", test_gray},
    {"as libjpeg", test_as_libjpeg},
    {"parts", test_parts},
    {"damage", test_damage},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
