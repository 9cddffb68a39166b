/* test_pixels.c: crop, flip, gray, colour jitter; and pst_image_resize on top of the resize kernels. */
#include "base/memory.h"
#include "harness.h"
#include "image/pixels.h"
#include "image_samples.h"

static void test_crop_and_copy(void)
{
    pst_image image = sample_image(9, 7, 3, 1), out;
    pst_image view = pixels_crop(&image, 2, 3, 4, 2);
    CHECK_INT(view.width, 4);
    CHECK_INT(view.height, 2);
    CHECK(view.pixels == image.pixels + 3 * image.stride + 6 && view.stride == image.stride);
    if (pst_image_create(&out, 4, 2, 3, NULL) < 0)
        abort();
    pixels_copy(&view, &out);
    CHECK(memcmp(out.pixels + out.stride, view.pixels + view.stride, 12) == 0);
    pst_image_finish(&out);
    pst_image_finish(&image);
}

static void test_flip(void)
{
    for (uint32_t channels = 1; channels <= 4; channels++)
        for (uint32_t width = 1; width <= 6; width++) {
            pst_image whole = sample_image(width + 2, 3, channels, width), copy = sample_image(width + 2, 3, channels, width);
            pst_image view = pixels_crop(&whole, 1, 1, width, 2);
            pixels_flip(&view);
            bool fine = true;
            for (uint32_t y = 0; y < 3; y++)
                for (uint32_t x = 0; x < width + 2; x++) {
                    bool inside = y >= 1 && x >= 1 && x <= width;
                    uint32_t from = inside ? width + 1 - x : x;
                    fine &= memcmp(whole.pixels + y * whole.stride + x * channels,
                                   copy.pixels + y * copy.stride + from * channels, channels) == 0;
                }
            CHECK_MSG(fine, "%u channels, width %u", channels, width);
            pst_image_finish(&whole);
            pst_image_finish(&copy);
        }
}

static void test_gray(void)
{
    static uint8_t rgb[5][3] = {{0, 0, 0}, {255, 255, 255}, {255, 0, 0}, {0, 255, 0}, {0, 0, 255}};
    static const uint8_t want[5] = {0, 255, 76, 150, 29};
    uint8_t gray[5], back[15];
    pst_image in = {.pixels = rgb[0], .width = 5, .height = 1, .channels = 3, .stride = 15};
    pst_image out = {.pixels = gray, .width = 5, .height = 1, .channels = 1, .stride = 5};
    pst_image again = {.pixels = back, .width = 5, .height = 1, .channels = 3, .stride = 15};
    pixels_to_gray(&in, &out);
    CHECK(memcmp(gray, want, 5) == 0);
    pixels_gray_to_rgb(&out, &again);
    for (int i = 0; i < 15; i++)
        CHECK_INT(back[i], want[i / 3]);
}

static void adjust(uint8_t *rgb, float brightness, float contrast, float saturation)
{
    pst_image image = {.pixels = rgb, .width = 2, .height = 1, .channels = 3, .stride = 6};
    pixels_adjust(&image, brightness, contrast, saturation);
}

#define CHECK_RGB(rgb, ...) CHECK(memcmp((rgb), (const uint8_t[]){__VA_ARGS__}, 6) == 0)

static void test_adjust(void)
{
    uint8_t rgb[6] = {10, 100, 200, 255, 0, 60};
    adjust(rgb, 1, 1, 1);
    CHECK_RGB(rgb, 10, 100, 200, 255, 0, 60);
    adjust(rgb, 1.5f, 1, 1);
    CHECK_RGB(rgb, 15, 150, 255, 255, 0, 90);
    adjust(rgb, 0.5f, 1, 1);
    CHECK_RGB(rgb, 7, 75, 127, 127, 0, 45);
    memcpy(rgb, (const uint8_t[]){10, 100, 200, 255, 0, 60}, 6);
    adjust(rgb, 1, 0, 1); /* grays 84 and 83: their mean is 83.5 */
    CHECK_RGB(rgb, 84, 84, 84, 84, 84, 84);
    memcpy(rgb, (const uint8_t[]){10, 100, 200, 255, 0, 60}, 6);
    adjust(rgb, 1, 1, 0);
    CHECK_RGB(rgb, 84, 84, 84, 83, 83, 83);
    memcpy(rgb, (const uint8_t[]){10, 100, 200, 255, 0, 60}, 6);
    adjust(rgb, 1, 1, 2);
    CHECK_RGB(rgb, 0, 116, 255, 255, 0, 37);
    uint8_t gray[4] = {0, 100, 200, 255};
    pst_image image = {.pixels = gray, .width = 2, .height = 2, .channels = 1, .stride = 2};
    pixels_adjust(&image, 1, 0.5f, 0); /* the mean is 139 */
    CHECK(memcmp(gray, (const uint8_t[]){69, 119, 169, 197}, 4) == 0);
}

static void test_resize(void)
{
    pst_error error;
    pst_image image = sample_image(31, 17, 3, 1), out;
    REQUIRE_OK(pst_image_resize(&out, &image, 31, 17, PST_FILTER_TRIANGLE, &error), &error);
    CHECK(memcmp(out.pixels, image.pixels, 31 * 17 * 3) == 0);
    pst_image_finish(&out);
    memset(image.pixels, 201, 31 * 17 * 3);
    static const uint32_t sizes[][2] = {{1, 1}, {300, 1}, {1, 300}, {8, 9}, {31, 9}, {30, 17}, {500, 200}};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        REQUIRE_OK(pst_image_resize(&out, &image, sizes[i][0], sizes[i][1], PST_FILTER_TRIANGLE, &error), &error);
        CHECK_INT(out.width, sizes[i][0]);
        CHECK_INT(out.height, sizes[i][1]);
        bool constant = true;
        for (size_t k = 0; k < out.stride * out.height; k++)
            constant &= out.pixels[k] == 201;
        CHECK_MSG(constant, "a plain image is no longer plain at %u × %u", sizes[i][0], sizes[i][1]);
        pst_image_finish(&out);
    }
    pst_image_finish(&image);
}

static void test_resize_extremes(void)
{
    pst_error error;
    uint64_t before = mem_live();
    pst_image image = sample_image(10000, 2, 1, 1), out;
    REQUIRE_OK(pst_image_resize(&out, &image, 1, 10000, PST_FILTER_TRIANGLE, &error), &error);
    CHECK_MSG(out.pixels[0] > 110 && out.pixels[0] < 130, "10000 to 1: %d", out.pixels[0]); /* from 40 to 190, evenly */
    pst_image_finish(&out);
    REQUIRE_OK(pst_image_resize(&out, &image, 3, 1, PST_FILTER_NEAREST, &error), &error);
    CHECK_INT(out.pixels[1], image.pixels[10000 + 5000]);
    pst_image_finish(&out);
    pst_image_finish(&image);
    CHECK_INT(mem_live(), before);
}

static const struct test tests[] = {
    {"crop and copy", test_crop_and_copy},
    {"flip", test_flip},
    {"gray", test_gray},
    {"brightness, contrast, saturation", test_adjust},
    {"resize", test_resize},
    {"resize to and from one pixel", test_resize_extremes},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
