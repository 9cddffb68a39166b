/* test_image_ops.c: every image operation by itself: what it plans, what it computes, what it refuses. That several of them
 * together give the same is test_image_fusion.c's. */
#include "harness.h"
#include "image/pixels.h"
#include "image_samples.h"
#include "jpeg_samples.h"
#include "unit/image_rig.h"

#include <math.h>

/* ---- Plans ---- */

/* What `text` makes of the fields, or its error. */
static void plans(const char *text, const char *fields, const char *want, int line)
{
    struct rig r;
    pst_error error;
    pst_spec in = rig_spec(fields);
    char got[1024] = "";
    pst_status st = rig_plan(&r, text, &in, &error);
    if (st < 0)
        snprintf(got, sizeof(got), "%s: %s", pst_status_name(st), error.message);
    else
        pst_spec_text(&r.node->out, got, sizeof(got));
    test_report(strncmp(got, want, strlen(want)) == 0, __FILE__, line, "%s of %s gives\n%s\nexpected\n%s", text, fields, got,
                want);
    if (st == PST_OK && r.node->out.field[0].alias < 0)
        CHECK(pst_spec_reads(&r.node->out, 0) &&
              r.node->out.field[in.count - 1].alias == (in.count > 1 ? (int)in.count - 1 : -1));
    rig_finish(&r);
}

#define PLANS(text, fields, want) plans(text, fields, want, __LINE__)

static void test_plan_decode(void)
{
    PLANS("decode", "image:bytes label:i64", "image: uint8 [?,?,3], label: int64");
    PLANS("decode photo channels=1", "photo:bytes", "photo: uint8 [?,?,1]");
    PLANS("decode channels=0", "image:bytes", "image: uint8 [?,?,?]");
    PLANS("decode image raw 24x32x3", "image:bytes", "image: uint8 [24,32,3]");
    PLANS("decode channels=2", "image:bytes",
          "PST_EINVAL: channels is 2; expected 0 (as stored), 1 (gray), 3 (RGB) or 4 (RGBA)");
    PLANS("decode format=raw", "image:bytes",
          "PST_EINVAL: the shape of raw pixels is missing; expected height x width x channels");
    PLANS("decode format=raw shape=24x32", "image:bytes", "PST_EINVAL: the shape of raw pixels is 24x32; expected");
    PLANS("decode format=raw shape=24x32x3x1", "image:bytes", "PST_EINVAL: the shape");
    PLANS("decode format=raw shape=24x32x5", "image:bytes", "PST_EINVAL: the shape");
    PLANS("decode format=raw shape=0x32x3", "image:bytes", "PST_EINVAL: the shape");
    PLANS("decode format=raw shape=x32x3", "image:bytes", "PST_EINVAL: the shape");
    PLANS("decode shape=24x32x3", "image:bytes", "PST_EINVAL: shape is for raw pixels: write format=raw");
    PLANS("decode", "image:u8[?,?,3]", "PST_ETYPE: field image has uint8 of 3 dimensions; expected an encoded image: bytes");
    PLANS("decode", "image:bytes[4]", "PST_ETYPE: field image has bytes of 1 dimensions");
    PLANS("decode imge", "image:bytes", "PST_ENOTFOUND: there is no field imge; did you mean image?");
}

static void test_plan_geometry(void)
{
    PLANS("resize 24", "image:u8[?,?,3] label:i64", "image: uint8 [24,24,3], label: int64");
    PLANS("resize 320x240 bicubic", "image:u8[?,?,?]", "image: uint8 [240,320,?]");
    PLANS("resize short=256", "image:u8[?,?,3]", "image: uint8 [?,?,3]");
    PLANS("resize short=256", "image:u8[375,500,3]", "image: uint8 [256,341,3]");
    PLANS("resize short=256", "image:u8[500,375,3]", "image: uint8 [341,256,3]");
    PLANS("resize", "image:u8[?,?,3]", "PST_EINVAL: there is no size; write resize 224");
    PLANS("resize 24 short=3", "image:u8[?,?,3]", "PST_EINVAL: there are two sizes");
    PLANS("resize 320x240 fit=pad", "image:u8[10,10,3]", "image: uint8 [240,320,3]");
    PLANS("resize short=24 fit=pad", "image:u8[?,?,3]", "PST_EINVAL: short keeps the shape of an image");
    PLANS("resize 24", "image:bytes",
          "PST_ETYPE: image: bytes; expected uint8 or float32 [height,width,channels], 1 to 4 channels: decode it first");
    PLANS("resize 24", "image:f32[?,?,3]", "image: float32 [24,24,3]");
    PLANS("resize 24", "image:f16[?,?,3]",
          "PST_ETYPE: image: float16 [?,?,3]; expected uint8 or float32 [height,width,channels], 1 to 4 channels: put "
          "this before normalize or cast");
    PLANS("random_resized_crop 24", "image:f32[?,?,3]", "image: float32 [24,24,3]");
    PLANS("resize 24", "image:u8[3,?,?]",
          "PST_ETYPE: image: uint8 [3,?,?]; expected uint8 or float32 [height,width,channels], 1 to 4 channels: put this "
          "before layout");
    PLANS("resize 24", "image:u8[3,40,40]", "PST_ETYPE: image: uint8 [3,40,40]; expected");
    PLANS("resize 24", "image:u8[40,40]", "PST_ETYPE: image: uint8 [40,40]; expected");
    PLANS("crop 1 2 3 4", "image:f32[?,?,3]", "image: float32 [4,3,3]");
    PLANS("crop 1 2 9 8", "image:u8[10,10,1]", "image: uint8 [8,9,1]");
    PLANS("crop 2 2 9 8", "image:u8[10,10,1]", "PST_ETYPE: the rectangle of 9 × 8 pixels at 2, 2 leaves the image of 10 × 10");
    PLANS("center_crop 30x20", "image:u8[?,?,3]", "image: uint8 [20,30,3]");
    PLANS("random_crop 32 padding=4", "image:u8[32,32,3]", "image: uint8 [32,32,3]");
    PLANS("random_crop 41 padding=4", "image:u8[32,32,3]",
          "PST_ETYPE: a crop of 41 × 41 does not fit into an image of 32 × 32 with a padding of 4");
    PLANS("random_resized_crop 24x12", "image:u8[?,?,3]", "image: uint8 [12,24,3]");
    PLANS("random_resized_crop 24 scale=0.5", "image:u8[?,?,3]",
          "PST_EINVAL: scale has 1 values; expected two, above 0 and increasing");
    PLANS("random_resized_crop 24 ratio=2,1", "image:u8[?,?,3]",
          "PST_EINVAL: ratio has 2 values; expected two, above 0 and increasing");
    PLANS("random_resized_crop 24 scale=0,1", "image:u8[?,?,3]", "PST_EINVAL: scale");
    PLANS("random_resized_crop 24", "image:f16[?,?,3]", "PST_ETYPE");
    PLANS("flip", "image:f16[?,?,3]", "image: float16 [?,?,3]");
    PLANS("flip field=x", "image:u8[?,?,3]", "PST_ENOTFOUND");
}

static void test_plan_values(void)
{
    PLANS("normalize imagenet", "image:u8[24,24,3] label:i64", "image: float32 [24,24,3], label: int64");
    PLANS("normalize", "image:u8[?,?,?]", "image: float32 [?,?,?]");
    PLANS("normalize mean=0.5 std=0.5", "image:u8[?,?,4]", "image: float32 [?,?,4]");
    PLANS("normalize imagenet", "image:u8[?,?,1]",
          "PST_ETYPE: imagenet has 3 values, the images of field image have 1 channel; decode channels=3");
    PLANS("normalize mean=0.5,0.5", "image:u8[?,?,3]",
          "PST_ETYPE: mean has 2 values, the images of field image have 3 channels");
    PLANS("normalize mean=0.5 std=1,2", "image:u8[?,?,3]", "PST_ETYPE: std has 2 values");
    PLANS("normalize imagenet mean=0.5", "image:u8[?,?,3]", "PST_EINVAL: imagenet already sets mean and std");
    PLANS("normalize std=0", "image:u8[?,?,3]", "PST_EINVAL: std has the value 0");
    PLANS("normalize", "image:f32[?,?,3]", "image: float32 [?,?,3]");
    PLANS("normalize", "image:f64[?,?,3]", "PST_ETYPE");
    PLANS("layout nchw", "image:f32[24,20,3]", "image: float32 [3,24,20]");
    PLANS("layout nchw", "image:u8[?,?,?]", "image: uint8 [?,?,?]");
    PLANS("layout nhwc", "image:f32[24,20,3]", "image: float32 [24,20,3]");
    PLANS("layout nhwc", "image:f32[3,24,20]", "image: float32 [24,20,3]");
    PLANS("layout nchw", "image:f32[3,24,20]", "image: float32 [3,24,20]");
    PLANS("layout nchw", "image:f32[24,20]", "PST_ETYPE");
    PLANS("layout nchw", "image:bytes", "PST_ETYPE: image: bytes");
}

/* ---- Running ---- */

static struct rig_result run_on(struct image_rig *rig, const pst_image *image, uint64_t epoch, uint64_t sample)
{
    pst_tensor in = {
        .dtype = PST_DTYPE_U8, .rank = 3, .shape = {image->height, image->width, image->channels}, .data = image->pixels};
    return image_rig_run(rig, &in, epoch, sample);
}

static bool open_rig(struct image_rig *rig, const char *text, const char *fields)
{
    pst_error error;
    pst_spec in = rig_spec(fields);
    return test_check_status(image_rig_init(rig, text, &in, false, &error), PST_OK, &error, __FILE__, __LINE__, text);
}

#define ANY_IMAGE "image:u8[?,?,?]"

/* Pixel (x, y) of an image that says where it is from. */
static pst_image map_image(uint32_t width, uint32_t height)
{
    pst_image image = sample_image(width, height, 3, 1);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++)
            memcpy(image.pixels + y * image.stride + 3 * x, (const uint8_t[]){(uint8_t)(x + 1), (uint8_t)(y + 1), 77}, 3);
    return image;
}

/* Where the corner of a crop of a map_image came from; false: padding. */
static bool origin(const pst_tensor *t, int64_t at_x, int64_t at_y, int64_t *x, int64_t *y)
{
    const uint8_t *p = (const uint8_t *)t->data + ((uint64_t)at_y * t->shape[1] + (uint64_t)at_x) * 3;
    *x = p[0] - 1;
    *y = p[1] - 1;
    return p[2] == 77;
}

static void test_decode(void)
{
    pst_image image = sample_image(33, 21, 3, 2);
    uint8_t *jpeg;
    size_t length = jpeg_sample(&jpeg, &image, &jpeg_kinds[2], 90);
    static const char *const texts[] = {"decode", "decode channels=1", "decode channels=4", "decode channels=0"};
    static const uint32_t channels[] = {3, 1, 4, 0};
    for (int i = 0; i < 4; i++) {
        struct image_rig rig;
        pst_bytes bytes = {jpeg, length};
        pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &bytes};
        pst_decode_options options = {.size = sizeof(options), .channels = channels[i]};
        pst_image want;
        pst_error error;
        REQUIRE(open_rig(&rig, texts[i], "image:bytes"));
        struct rig_result r = image_rig_run(&rig, &in, 0, 0);
        REQUIRE_OK(r.status, &r.error);
        REQUIRE_OK(pst_image_decode(&want, jpeg, length, &options, &error), &error);
        CHECK_INT(r.tensor.shape[0], 21);
        CHECK_INT(r.tensor.shape[1], 33);
        CHECK_INT(r.tensor.shape[2], want.channels);
        CHECK(memcmp(r.tensor.data, want.pixels, rig_bytes(&r.tensor)) == 0);
        bytes.length = length - 20;
        r = image_rig_run(&rig, &in, 0, 0);
        CHECK_STATUS(r.status, PST_ECORRUPT, &r.error);
        bytes = (pst_bytes){(const uint8_t *)"no image", 8};
        r = image_rig_run(&rig, &in, 0, 0);
        CHECK_STATUS(r.status, PST_ECORRUPT, &r.error);
        bytes = (pst_bytes){NULL, 0};
        r = image_rig_run(&rig, &in, 0, 0);
        CHECK_STATUS(r.status, PST_ECORRUPT, &r.error);
        pst_image_finish(&want);
        image_rig_finish(&rig);
    }
    free(jpeg);
    pst_image_finish(&image);
}

static void check_method(const char *name, pst_filter filter)
{
    char text[64];
    struct image_rig rig;
    snprintf(text, sizeof(text), "resize 19x31 %s", name);
    REQUIRE(open_rig(&rig, text, ANY_IMAGE));
    for (uint32_t channels = 1; channels <= 8; channels++) { /* the second half has the size already: some filters blur it */
        pst_image image = channels <= 4 ? sample_image(40, 25, channels, channels) : sample_image(19, 31, channels - 4, 1),
                  want;
        pst_error error;
        REQUIRE_OK(pst_image_resize(&want, &image, 19, 31, filter, &error), &error);
        struct rig_result r = run_on(&rig, &image, 0, 0);
        REQUIRE_OK(r.status, &r.error);
        CHECK_MSG(memcmp(r.tensor.data, want.pixels, rig_bytes(&r.tensor)) == 0, "%s", text);
        pst_image_finish(&want);
        pst_image_finish(&image);
    }
    image_rig_finish(&rig);
}

static void test_resize(void)
{
    check_method("antialias", PST_FILTER_TRIANGLE);
    check_method("bilinear", PST_FILTER_BILINEAR);
    check_method("bicubic", PST_FILTER_BICUBIC);
    check_method("nearest", PST_FILTER_NEAREST);
    check_method("area", PST_FILTER_AREA);
    check_method("keyscubic", PST_FILTER_KEYSCUBIC);
    check_method("lanczos3", PST_FILTER_LANCZOS3);
    check_method("lanczos5", PST_FILTER_LANCZOS5);
    check_method("gaussian", PST_FILTER_GAUSSIAN);
    check_method("mitchellcubic", PST_FILTER_MITCHELLCUBIC);
    struct image_rig rig;
    pst_image image = sample_image(50, 20, 3, 1), thin = sample_image(1, 60000, 1, 1);
    REQUIRE(open_rig(&rig, "resize short=30", ANY_IMAGE));
    struct rig_result r = run_on(&rig, &image, 0, 0);
    REQUIRE_OK(r.status, &r.error);
    CHECK(r.tensor.shape[0] == 30 && r.tensor.shape[1] == 75 && r.tensor.shape[2] == 3);
    image_rig_finish(&rig);
    REQUIRE(open_rig(&rig, "resize short=60000", ANY_IMAGE));
    r = run_on(&rig, &thin, 0, 0);
    CHECK_STATUS(r.status, PST_ELIMIT, &r.error);
    image_rig_finish(&rig);
    pst_image_finish(&thin);
    pst_image_finish(&image);
}

/* Where an image of 50 × 20 comes to lie, by Keras's smart_resize and TensorFlow's resize_with_pad. */
static void test_fit(void)
{
    static const struct {
        const char *text;
        int64_t x, y;
        uint32_t cut_width, cut_height, width, height, left, top, full_width, full_height;
    } cases[] = {
        {"resize 40x30 fit=crop", 12, 0, 26, 20, 40, 30, 0, 0, 0, 0},
        {"resize 60x10 fit=crop", 0, 6, 50, 8, 60, 10, 0, 0, 0, 0},
        {"resize 1x65535 fit=crop", 24, 0, 1, 20, 1, 65535, 0, 0, 0, 0},
        {"resize 40x30 fit=pad", 0, 0, 50, 20, 40, 16, 0, 7, 40, 30},
        {"resize 30x10 fit=pad", 0, 0, 50, 20, 25, 10, 2, 0, 30, 10},
        {"resize 33x30 fit=pad", 0, 0, 50, 20, 33, 13, 0, 8, 33, 30},
        {"resize 60x20 fit=pad", -5, 0, 60, 20, 60, 20, 0, 0, 0, 0},
        {"resize 1x30 fit=pad", 0, 0, 50, 20, 1, 1, 0, 14, 1, 30},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct chain chain = {0};
        struct geometry g;
        pst_error error;
        REQUIRE_OK(chain_parse(&chain, cases[i].text, &error), &error);
        REQUIRE_OK(image_op_geometry(&op_resize, chain.nodes[0].config, NULL, 50, 20, &g, &error), &error);
        CHECK_MSG(g.x == cases[i].x && g.y == cases[i].y && g.cut_width == cases[i].cut_width &&
                      g.cut_height == cases[i].cut_height && g.width == cases[i].width && g.height == cases[i].height &&
                      g.left == cases[i].left && g.top == cases[i].top && g.full_width == cases[i].full_width &&
                      g.full_height == cases[i].full_height,
                  "%s: %lld %lld %u %u %u %u %u %u %u %u", cases[i].text, (long long)g.x, (long long)g.y, g.cut_width,
                  g.cut_height, g.width, g.height, g.left, g.top, g.full_width, g.full_height);
        chain_finish(&chain);
    }
    struct chain chain = {0};
    struct geometry g;
    pst_error error;
    REQUIRE_OK(chain_parse(&chain, "resize 65535x1 fit=crop", &error), &error);
    for (uint32_t height = 65535; height <= 65538; height++) { /* its width would have 2^32 columns and more */
        REQUIRE_OK(image_op_geometry(&op_resize, chain.nodes[0].config, NULL, 200, height, &g, &error), &error);
        CHECK(g.cut_width == 200 && g.cut_height == 1);
    }
    chain_finish(&chain);
}

/* White stays white and black black, at every small size and by every method. */
static void test_small_sizes(void)
{
    for (int m = 0; resize_methods[m]; m++)
        for (uint32_t to = 1; to <= 6; to++) {
            char text[64];
            struct image_rig rig;
            snprintf(text, sizeof(text), "resize %ux%u %s | center_crop %u", to, 7 - to, resize_methods[m], to);
            REQUIRE(open_rig(&rig, text, ANY_IMAGE));
            for (uint32_t size = 1; size <= 36; size++) {
                pst_image image = sample_image(1 + size % 6, 1 + size / 6, 1 + size % 4, 1);
                memset(image.pixels, size % 2 ? 255 : 0, image.stride * image.height);
                struct rig_result r = run_on(&rig, &image, 0, 0);
                REQUIRE_OK(r.status, &r.error);
                const uint8_t *middle = (const uint8_t *)r.tensor.data + ((to - 1) / 2 * to + (to - 1) / 2) * image.channels;
                CHECK_MSG(*middle == (size % 2 ? 255 : 0), "%s: %u", text, *middle);
                pst_image_finish(&image);
            }
            image_rig_finish(&rig);
        }
}

static void test_crop(void)
{
    struct image_rig rig;
    pst_image image = map_image(20, 15), small = map_image(10, 15);
    int64_t x, y;
    REQUIRE(open_rig(&rig, "crop 3 5 10 6", ANY_IMAGE));
    struct rig_result r = run_on(&rig, &image, 0, 0);
    REQUIRE_OK(r.status, &r.error);
    CHECK(r.tensor.shape[0] == 6 && r.tensor.shape[1] == 10);
    CHECK(origin(&r.tensor, 0, 0, &x, &y) && x == 3 && y == 5);
    CHECK(origin(&r.tensor, 9, 5, &x, &y) && x == 12 && y == 10);
    r = run_on(&rig, &small, 0, 0);
    CHECK_STATUS(r.status, PST_ETYPE, &r.error);
    CHECK_MSG(strstr(r.error.message, "leaves the image of 10 × 15"), "%s", r.error.message);
    image_rig_finish(&rig);
    pst_image_finish(&small);
    pst_image_finish(&image);
}

/* torchvision: int(round((size - crop) / 2)), halves to even; padding on the left is the smaller half. */
static void test_center_crop(void)
{
    static const struct {
        uint32_t size;
        int64_t corner;
    } cases[] = {{8, 0},  {9, 0},  {10, 1}, {11, 2}, {12, 2}, {13, 2}, {14, 3},
                 {15, 4}, {17, 4}, {7, 0},  {6, -1}, {5, -1}, {1, -3}};
    struct image_rig rig;
    REQUIRE(open_rig(&rig, "center_crop 8", ANY_IMAGE));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_image image = map_image(cases[i].size, 8);
        struct rig_result r = run_on(&rig, &image, 0, 0);
        int64_t x = 0, y = 0, at = cases[i].corner < 0 ? -cases[i].corner : 0;
        REQUIRE_OK(r.status, &r.error);
        CHECK_MSG(origin(&r.tensor, at, 0, &x, &y) && x == at + cases[i].corner && y == 0, "size %u: %lld", cases[i].size,
                  (long long)x);
        for (int64_t k = 0; k < 8; k++)
            CHECK_INT(origin(&r.tensor, k, 7, &x, &y), k >= at && k - at < cases[i].size);
        pst_image_finish(&image);
    }
    image_rig_finish(&rig);
}

/* Chi-square of `counts` against equal shares, in standard deviations from what is to be expected. */
static double unevenness(const size_t *counts, size_t n, size_t total)
{
    double expected = (double)total / (double)n, sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    return (sum - (double)(n - 1)) / sqrt(2.0 * (double)(n - 1));
}

static void test_random_crop(void)
{
    enum { DRAWS = 4000 };
    struct image_rig rig;
    pst_image image = map_image(9, 7), small = map_image(3, 3);
    size_t places[8 * 6] = {0};
    REQUIRE(open_rig(&rig, "random_crop 6 padding=2", ANY_IMAGE)); /* 8 × 6 places */
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct rig_result r = run_on(&rig, &image, i % 3, i);
        int64_t x = 0, y = 0;
        REQUIRE_OK(r.status, &r.error);
        CHECK(origin(&r.tensor, 3, 3, &x, &y)); /* the middle is always inside */
        REQUIRE(x >= 1 && x <= 8 && y >= 1 && y <= 6);
        places[(y - 1) * 8 + x - 1]++;
        for (int64_t k = 0; k < 6; k++) {
            int64_t px, py;
            bool inside = x - 3 + k >= 0 && x - 3 + k < 9;
            CHECK(origin(&r.tensor, k, 3, &px, &py) == inside && (!inside || px == x - 3 + k));
        }
    }
    double u = unevenness(places, 48, DRAWS);
    CHECK_MSG(fabs(u) < 4, "%.1f deviations", u);
    image_rig_finish(&rig);
    REQUIRE(open_rig(&rig, "random_crop 6", ANY_IMAGE));
    struct rig_result r = run_on(&rig, &small, 0, 0);
    CHECK_STATUS(r.status, PST_ETYPE, &r.error);
    image_rig_finish(&rig);
    pst_image_finish(&small);
    pst_image_finish(&image);
}

/* Draws are a function of seed, epoch, sample and place in the chain; every rectangle keeps the rule. */
static void test_random_resized_crop(void)
{
    struct chain chain = {0};
    struct geometry g, again;
    pst_ctx ctx = {.seed = 5};
    pst_error error;
    size_t different = 0, halves[2] = {0};
    REQUIRE_OK(chain_parse(&chain, "random_resized_crop 24", &error), &error);
    const void *config = chain.nodes[0].config;
    for (uint64_t i = 0; i < 3000; i++) {
        ctx.epoch = i % 5;
        ctx.sample = i;
        ctx_enter(&ctx, 7);
        REQUIRE_OK(image_op_geometry(&op_random_resized_crop, config, &ctx, 500, 375, &g, &error), &error);
        ctx_enter(&ctx, 7);
        REQUIRE_OK(image_op_geometry(&op_random_resized_crop, config, &ctx, 500, 375, &again, &error), &error);
        CHECK(memcmp(&g, &again, sizeof(g)) == 0);
        ctx_enter(&ctx, 8);
        REQUIRE_OK(image_op_geometry(&op_random_resized_crop, config, &ctx, 500, 375, &again, &error), &error);
        different += g.x != again.x || g.y != again.y || g.cut_width != again.cut_width;
        double area = (double)g.cut_width * g.cut_height / (500.0 * 375), ratio = (double)g.cut_width / g.cut_height;
        CHECK_MSG(area > 0.079 && area <= 1 && ratio > 0.74 && ratio < 1.35, "area %.3f, ratio %.3f", area, ratio);
        CHECK(g.x >= 0 && g.y >= 0 && g.x + g.cut_width <= 500 && g.y + g.cut_height <= 375 && g.width == 24 && g.height == 24);
        halves[ratio > 1]++;
    }
    CHECK(different > 2950);
    CHECK_MSG(halves[0] > 1200 && halves[1] > 1200, "%zu, %zu", halves[0], halves[1]);
    /* where nothing fits: the middle, with the nearest ratio that is allowed */
    REQUIRE_OK(image_op_geometry(&op_random_resized_crop, config, &ctx, 1000, 10, &g, &error), &error);
    CHECK(g.cut_width == 13 && g.cut_height == 10 && g.x == (1000 - 13) / 2 && g.y == 0);
    REQUIRE_OK(image_op_geometry(&op_random_resized_crop, config, &ctx, 9, 1000, &g, &error), &error);
    CHECK(g.cut_width == 9 && g.cut_height == 12 && g.x == 0 && g.y == (1000 - 12) / 2);
    REQUIRE_OK(image_op_geometry(&op_random_resized_crop, config, &ctx, 1, 1, &g, &error), &error);
    CHECK(g.cut_width == 1 && g.cut_height == 1);
    chain_finish(&chain);
}

static void test_flip(void)
{
    static const char *const texts[] = {"flip 0", "flip 1", "flip"};
    pst_image image = map_image(9, 4);
    for (int k = 0; k < 3; k++) {
        struct image_rig rig;
        size_t flipped = 0;
        REQUIRE(open_rig(&rig, texts[k], ANY_IMAGE));
        for (uint64_t i = 0; i < 1000; i++) {
            struct rig_result r = run_on(&rig, &image, 1, i);
            int64_t x, y;
            REQUIRE_OK(r.status, &r.error);
            CHECK(origin(&r.tensor, 2, 3, &x, &y) && (x == 2 || x == 6) && y == 3);
            flipped += x == 6;
        }
        CHECK_MSG(k == 0   ? flipped == 0
                  : k == 1 ? flipped == 1000
                           : flipped > 430 && flipped < 570,
                  "%s: %zu of 1000", texts[k], flipped);
        image_rig_finish(&rig);
    }
    pst_image_finish(&image);
}

/* Cuts and mirrors move values of every type. */
static void test_types(void)
{
    static const char *const casts[] = {"i32", "i64", "f16", "bf16", "f32", "f64"};
    pst_image image = map_image(9, 6);
    for (size_t k = 0; k < 6; k++) {
        char moved_last[96], moved_first[96];
        struct image_rig a, b;
        snprintf(moved_last, sizeof(moved_last), "cast %s | crop 1 2 5 3 | flip 1 | center_crop 7x2", casts[k]);
        snprintf(moved_first, sizeof(moved_first), "crop 1 2 5 3 | flip 1 | center_crop 7x2 | cast %s", casts[k]);
        REQUIRE(open_rig(&a, moved_last, ANY_IMAGE) && open_rig(&b, moved_first, ANY_IMAGE));
        struct rig_result first = run_on(&a, &image, 0, 0), second = run_on(&b, &image, 0, 0);
        CHECK_MSG(first.status == PST_OK && same_result(&first, &second), "%s", casts[k]);
        image_rig_finish(&a);
        image_rig_finish(&b);
    }
    pst_image_finish(&image);
}

/* float32 has the values of bytes, not rounded and not clamped. */
static void test_resize_floats(void)
{
    static const char *const fits[] = {"", "fit=crop", "fit=pad"};
    for (size_t k = 0; resize_methods[k]; k++) {
        for (size_t i = 0; i < 12; i++) {
            static const char *const sizes[] = {"7x11", "40x3", "5", "19x23"};
            pst_image image = sample_image(19, 23, 1 + (uint32_t)(i + k) % 4, 1);
            char bytes[96], floats[96];
            struct image_rig a, b;
            double worst = 0;
            snprintf(bytes, sizeof(bytes), "resize %s %s %s | cast f32", sizes[i % 4], resize_methods[k], fits[i / 4]);
            snprintf(floats, sizeof(floats), "cast f32 | resize %s %s %s", sizes[i % 4], resize_methods[k], fits[i / 4]);
            REQUIRE(open_rig(&a, bytes, ANY_IMAGE) && open_rig(&b, floats, ANY_IMAGE));
            struct rig_result want = run_on(&a, &image, 0, 0), got = run_on(&b, &image, 0, 0);
            REQUIRE_OK(got.status, &got.error);
            CHECK(got.tensor.dtype == PST_DTYPE_F32 && memcmp(got.tensor.shape, want.tensor.shape, 24) == 0);
            size_t n = got.tensor.shape[0] * got.tensor.shape[1] * got.tensor.shape[2];
            for (size_t v = 0; v < n; v++) {
                double value = ((const float *)got.tensor.data)[v], level = ((const float *)want.tensor.data)[v];
                worst = fmax(worst, fabs(fmin(fmax(value, 0), 255) - level));
            }
            CHECK_MSG(worst <= (k < 5 && k != 2 ? 1.01 : 1.6), "%s: %g off", floats,
                      worst); /* rounded twice; clamped between */
            image_rig_finish(&a);
            image_rig_finish(&b);
            pst_image_finish(&image);
        }
    }
}

static void check_normalize(const char *text, const double *mean, const double *std, double tolerance)
{
    struct image_rig rig;
    pst_image image = sample_image(256, 1, 3, 1);
    double worst = 0;
    for (int i = 0; i < 768; i++)
        image.pixels[i] = (uint8_t)(i / 3);
    REQUIRE(open_rig(&rig, text, ANY_IMAGE));
    struct rig_result r = run_on(&rig, &image, 0, 0);
    REQUIRE_OK(r.status, &r.error);
    for (int i = 0; i < 768; i++)
        worst = fmax(worst, fabs(((const float *)r.tensor.data)[i] - (i / 3 / 255.0 - mean[i % 3]) / std[i % 3]));
    CHECK_MSG(worst <= tolerance, "%s: %g off", text, worst);
    image_rig_finish(&rig);
    pst_image_finish(&image);
}

static void test_normalize(void)
{
    const double zero[3] = {0, 0, 0}, one[3] = {1, 1, 1}, half[3] = {0.5, 0.5, 0.5};
    const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225}, other[3] = {0.1, 0.2, 0.3},
                 quarter[3] = {0.25, 0.25, 0.25};
    check_normalize("normalize", zero, one, 1e-7);
    check_normalize("normalize 0..1", zero, one, 1e-7);
    check_normalize("normalize -1..1", half, half, 2e-7);
    check_normalize("normalize imagenet", mean, std, 5e-7);
    check_normalize("normalize mean=0.1,0.2,0.3", other, one, 2e-7);
    check_normalize("normalize std=0.25", zero, quarter, 5e-7);
    check_normalize("normalize mean=0.1,0.2,0.3 std=0.229,0.224,0.225", other, std, 5e-7);
    struct image_rig rig;
    pst_image gray = sample_image(2, 2, 1, 1), white = sample_image(1, 1, 3, 1);
    REQUIRE(open_rig(&rig, "normalize imagenet", ANY_IMAGE));
    struct rig_result r = run_on(&rig, &gray, 0, 0);
    CHECK_STATUS(r.status, PST_ETYPE, &r.error);
    image_rig_finish(&rig);
    memset(white.pixels, 255, 3);
    for (int k = 0; k < 2; k++) { /* the ends of the ranges are met exactly */
        REQUIRE(open_rig(&rig, k ? "normalize -1..1" : "normalize 0..1", ANY_IMAGE));
        r = run_on(&rig, &white, 0, 0);
        CHECK(((const float *)r.tensor.data)[1] == 1.0f);
        image_rig_finish(&rig);
    }
    pst_image_finish(&white);
    pst_image_finish(&gray);
}

/* Levels as floats give what the same levels give as bytes. */
static void test_normalize_floats(void)
{
    static const char *const options[] = {"", "-1..1", "imagenet", "mean=0.1,0.2,0.3 std=0.25"};
    pst_image image = sample_image(37, 21, 3, 1);
    for (size_t k = 0; k < sizeof(options) / sizeof(options[0]); k++) {
        struct image_rig bytes, floats;
        char plain[96], cast[96];
        snprintf(plain, sizeof(plain), "normalize %s", options[k]);
        snprintf(cast, sizeof(cast), "cast f32 | normalize %s", options[k]);
        REQUIRE(open_rig(&bytes, plain, ANY_IMAGE) && open_rig(&floats, cast, ANY_IMAGE));
        struct rig_result want = run_on(&bytes, &image, 0, 0), got = run_on(&floats, &image, 0, 0);
        REQUIRE_OK(want.status, &want.error);
        REQUIRE_OK(got.status, &got.error);
        CHECK_INT(got.tensor.dtype, PST_DTYPE_F32);
        CHECK_MSG(memcmp(got.tensor.data, want.tensor.data, 37 * 21 * 3 * sizeof(float)) == 0, "%s", plain);
        image_rig_finish(&bytes);
        image_rig_finish(&floats);
    }
    pst_image_finish(&image);
}

static void test_layout(void)
{
    static const char *const casts[] = {"u8", "f16", "f32", "f64"};
    pst_image image = sample_image(7, 5, 3, 1);
    for (size_t k = 0; k < 4; k++) {
        char text[64], back[96];
        struct image_rig rig, round, plain;
        snprintf(text, sizeof(text), "cast %s | layout nchw", casts[k]);
        snprintf(back, sizeof(back), "cast %s | layout nchw | layout nhwc", casts[k]);
        REQUIRE(open_rig(&rig, text, "image:u8[5,7,3]") && open_rig(&round, back, "image:u8[5,7,3]"));
        REQUIRE(open_rig(&plain, strcmp(casts[k], "u8") == 0 ? "crop 0 0 7 5" : strtok(text, "|"), "image:u8[5,7,3]"));
        struct rig_result r = run_on(&rig, &image, 0, 0), same = run_on(&round, &image, 0, 0),
                          want = run_on(&plain, &image, 0, 0);
        REQUIRE_OK(r.status, &r.error);
        CHECK_MSG(same_result(&same, &want), "%s", back);
        size_t size = pst_dtype_size(r.tensor.dtype);
        CHECK(r.tensor.shape[0] == 3 && r.tensor.shape[1] == 5 && r.tensor.shape[2] == 7);
        for (size_t i = 0; i < 105; i++)
            CHECK(memcmp((const uint8_t *)r.tensor.data + (i % 3 * 35 + i / 3) * size,
                         (const uint8_t *)want.tensor.data + i * size, size) == 0);
        image_rig_finish(&rig);
        image_rig_finish(&round);
        image_rig_finish(&plain);
    }
    pst_image_finish(&image);
}

static void test_no_image(void)
{
    struct image_rig rig;
    uint8_t value = 0;
    const pst_tensor tensors[] = {{.dtype = PST_DTYPE_U8, .rank = 3, .shape = {0, 4, 3}, .data = &value},
                                  {.dtype = PST_DTYPE_U8, .rank = 3, .shape = {4, 0, 3}, .data = &value},
                                  {.dtype = PST_DTYPE_U8, .rank = 3, .shape = {4, 4, 5}, .data = &value},
                                  {.dtype = PST_DTYPE_U8, .rank = 3, .shape = {UINT64_C(1) << 40, 1, 1}, .data = &value}};
    static const char *const texts[] = {"resize 4", "flip", "normalize", "random_crop 1 | normalize"};
    for (size_t i = 0; i < 16; i++) {
        pst_error error;
        pst_spec in = rig_spec(ANY_IMAGE);
        REQUIRE_OK(image_rig_init(&rig, texts[i / 4], &in, true, &error), &error);
        struct rig_result r = image_rig_run(&rig, &tensors[i % 4], 0, 0);
        CHECK_STATUS(r.status, PST_ETYPE, &r.error);
        image_rig_finish(&rig);
    }
}

static const struct test tests[] = {
    {"decode: plans", test_plan_decode},
    {"geometry: plans", test_plan_geometry},
    {"normalize, layout: plans", test_plan_values},
    {"decode", test_decode},
    {"resize", test_resize},
    {"resize: fit", test_fit},
    {"small sizes", test_small_sizes},
    {"crop", test_crop},
    {"center_crop", test_center_crop},
    {"random_crop", test_random_crop},
    {"random_resized_crop", test_random_resized_crop},
    {"flip", test_flip},
    {"values of every type", test_types},
    {"float32 images are resized", test_resize_floats},
    {"normalize", test_normalize},
    {"normalize: floats", test_normalize_floats},
    {"layout", test_layout},
    {"arrays that are no images", test_no_image},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
