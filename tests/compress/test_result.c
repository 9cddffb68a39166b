/* test_result.c: the variants and layers of a result, as programs of older and newer versions read them. */
#include "harness.h"
#include <penstock/compress.h>

#include <string.h>

static pst_compress_variant variants[] = {{.size = sizeof(variants[0]), .name = "original", .accepted = true, .accuracy = 0.75},
                                          {.size = sizeof(variants[0]), .name = "int8", .accuracy = 0.5, .memory = 77}};
static pst_compress_layer layers[] = {{.size = sizeof(layers[0]), .name = "conv_1", .weights = 9, .bits = 4}};
static const pst_compress_result result = {
    .size = sizeof(result), .variants = variants, .count = 2, .chosen = 1, .layers = layers, .layer_count = 1};

static void test_all(void)
{
    pst_compress_variant v = {.size = sizeof(v)};
    pst_compress_layer l = {.size = sizeof(l)};
    REQUIRE(pst_compress_variant_at(&result, 1, &v));
    CHECK_STR(v.name, "int8");
    CHECK(v.memory == 77 && v.size == sizeof(v));
    CHECK(!pst_compress_variant_at(&result, 2, &v));
    REQUIRE(pst_compress_layer_at(&result, 0, &l));
    CHECK(l.weights == 9 && l.bits == 4);
    CHECK(!pst_compress_layer_at(&result, 1, &l));
}

/* An older program's struct ends before `accuracy`; a newer one's has more, which stays zero. */
static void test_other_versions(void)
{
    pst_compress_variant older = {.size = offsetof(pst_compress_variant, accuracy), .accuracy = -1};
    REQUIRE(pst_compress_variant_at(&result, 0, &older));
    CHECK(older.accepted && older.accuracy == -1);
    struct {
        pst_compress_variant known;
        uint64_t more;
    } newer = {.known.size = sizeof(newer)};
    REQUIRE(pst_compress_variant_at(&result, 1, &newer.known));
    CHECK(newer.known.memory == 77 && newer.more == 0 && newer.known.size == sizeof(newer));
    pst_compress_variant unset = {0};
    CHECK(!pst_compress_variant_at(&result, 0, &unset));
    pst_compress_result first = result;
    first.size = offsetof(pst_compress_result, layers); /* before there were layers */
    pst_compress_layer l = {.size = sizeof(l)};
    CHECK(!pst_compress_layer_at(&first, 0, &l));
}

static const struct test tests[] = {
    {"variants and layers", test_all},
    {"structs of other versions", test_other_versions},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
