/* test_picture.c: samples before and after a remedy: exactly the middle of both, and nothing where they cannot be compared. */
#include "base/fault.h"
#include "base/memory.h"
#include "doctor/picture.h"
#include "harness.h"

#include <string.h>

#define SIDE 96

static uint8_t value_at(uint32_t x, uint32_t y, uint32_t channel, uint8_t add)
{
    return (uint8_t)(3 * x + 7 * y + 50 * channel + add);
}

static void fill(pst_image *image, uint32_t width, uint32_t height, uint8_t add)
{
    pst_error error;
    REQUIRE_OK(pst_image_create(image, width, height, 3, &error), &error);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < 3 * width; x++)
            image->pixels[y * image->stride + x] = value_at(x / 3, y, x % 3, add);
}

static void check_decoded(const uint8_t *data, size_t length, uint32_t left, uint32_t top, uint32_t width, uint32_t height,
                          uint8_t add)
{
    pst_image image = {0};
    pst_error error;
    size_t wrong = 0;
    REQUIRE(data != NULL);
    REQUIRE_OK(pst_image_decode(&image, data, length, NULL, &error), &error);
    CHECK_INT(image.width, width);
    CHECK_INT(image.height, height);
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < 3 * image.width; x++)
            wrong += image.pixels[y * image.stride + x] != value_at(left + x / 3, top + y, x % 3, add);
    CHECK_INT(wrong, 0);
    pst_image_finish(&image);
}

static void test_the_middle(void)
{
    pst_image a, b, small, other;
    struct picture p = {0};
    uint64_t live = mem_live();
    fill(&a, 200, 120, 0);
    fill(&b, 200, 120, 9);
    fill(&small, 30, 20, 0);
    fill(&other, 30, 21, 0);
    picture_make(&p, &a, &b);
    check_decoded(p.before, p.before_length, 52, 12, SIDE, SIDE, 0);
    check_decoded(p.after, p.after_length, 52, 12, SIDE, SIDE, 9);
    picture_make(&p, &small, &other); /* of different sizes: the picture stays */
    check_decoded(p.before, p.before_length, 52, 12, SIDE, SIDE, 0);
    picture_make(&p, &small, &small); /* replaces it */
    check_decoded(p.after, p.after_length, 0, 0, 30, 20, 0);
    picture_finish(&p);
    CHECK(!p.before && !p.after);
    pst_image_finish(&a);
    pst_image_finish(&b);
    pst_image_finish(&small);
    pst_image_finish(&other);
    CHECK_INT(mem_live(), live);
}

static void test_tensors(void)
{
    static uint8_t before[2 * 5 * 4 * 3], after[2 * 5 * 4 * 3];
    pst_tensor a = {.dtype = PST_DTYPE_U8, .rank = 4, .shape = {2, 5, 4, 3}, .data = before}, b = a, wrong;
    struct picture p = {0};
    for (uint32_t i = 0; i < 5 * 4 * 3; i++)
        before[sizeof(before) / 2 + i] = value_at(i / 3 % 4, i / 12, i % 3, 0);
    memcpy(after, before, sizeof(after));
    b.data = after;
    picture_of_tensors(&p, &a, &b, 2); /* there are two */
    picture_of_tensors(&p, &a, NULL, 1);
    wrong = b;
    wrong.dtype = PST_DTYPE_F32;
    picture_of_tensors(&p, &a, &wrong, 1);
    wrong = b;
    wrong.shape[3] = 4;
    picture_of_tensors(&p, &a, &wrong, 1);
    CHECK(!p.before && !p.after);
    picture_of_tensors(&p, &a, &b, 1);
    check_decoded(p.before, p.before_length, 0, 0, 4, 5, 0);
    check_decoded(p.after, p.after_length, 0, 0, 4, 5, 0);
    picture_finish(&p);
}

static void test_memory_runs_out(void)
{
    pst_image a;
    bool reached = true;
    fill(&a, 20, 20, 0);
    uint64_t live = mem_live();
    for (uint64_t n = 0; reached && n < 1000; n++) {
        struct picture p = {0};
        test_fault_arm(FAULT_MEMORY, n, false);
        picture_make(&p, &a, &a);
        reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK((p.before != NULL) == (p.after != NULL) && (reached || p.before));
        picture_finish(&p);
        CHECK_INT(mem_live(), live);
    }
    CHECK(!reached);
    pst_image_finish(&a);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"the middle", test_the_middle}, {"tensors", test_tensors}, {"memory runs out", test_memory_runs_out}, {0}};
    return test_main(argc, argv, tests);
}
