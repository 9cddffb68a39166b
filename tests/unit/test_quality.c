/* test_quality.c: what `decode quality=fast` makes of an image: close to exact, equal to it where nothing has to be resized or
 * nothing is a plane, the pixels of an independent model, and the same with an entropy index. */
#include "base/le.h"
#include "harness.h"
#include "image_samples.h"
#include "jpeg_samples.h"
#include "source/jpeg_points.h"
#include "unit/image_rig.h"

#include <math.h>

static const pst_spec *encoded_spec(void)
{
    static const pst_field image = {.name = "image", .dtype = PST_DTYPE_BYTES, .alias = -1};
    static const pst_spec spec = {.count = 1, .field = &image};
    return &spec;
}

/* Something like a photo: large shapes, edges, texture and a little noise, in colours. */
static pst_image photo(uint32_t width, uint32_t height, uint64_t seed)
{
    struct random r;
    pst_image image;
    random_init(&r, seed, 0, 0, 0);
    if (pst_image_create(&image, width, height, 3, NULL) < 0)
        abort();
    double tilt = random_between(&r, 0.5, 2);
    for (uint32_t y = 0; y < height; y++)
        for (uint32_t x = 0; x < width; x++) {
            uint8_t *p = image.pixels + y * image.stride + 3 * (size_t)x;
            double wave = 20 * sin(x * 0.11 + y * 0.05 * tilt),
                   inside = hypot(x - width * 0.6, (y - height * 0.4) * tilt) < 50 ? 1 : 0;
            double noise = (double)random_below(&r, 7);
            p[0] = (uint8_t)(60 + 100.0 * x / width + wave + 60 * inside + noise);
            p[1] = (uint8_t)(90 + 80.0 * y / height - wave / 2 - 40 * inside + noise);
            p[2] = (uint8_t)(150 - 60.0 * (x + y) / (width + height) + wave / 3 + noise);
        }
    return image;
}

static pst_bytes jpeg_of(const pst_image *image, const struct jpeg_kind *kind, int quality)
{
    uint8_t *data;
    size_t length = jpeg_sample(&data, image, kind, quality);
    return (pst_bytes){data, length};
}

/* The image that a chain makes of it; free() it. */
static uint8_t *run_chain(const char *text, const pst_bytes *bytes, uint64_t epoch, bool fuse, struct entropy *entropy,
                          size_t *ret_size)
{
    struct image_rig rig;
    pst_error error;
    pst_bytes view = *bytes;
    pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &view};
    if (image_rig_init(&rig, text, encoded_spec(), fuse, &error) < 0)
        abort();
    rig.ctx.entropy = entropy;
    struct rig_result result = image_rig_run(&rig, &in, epoch, 0);
    CHECK_STATUS(result.status, PST_OK, &result.error);
    *ret_size = result.status == PST_OK ? rig_bytes(&result.tensor) : 0;
    uint8_t *copy = malloc(*ret_size + 1);
    if (!copy)
        abort();
    memcpy(copy, result.tensor.data, *ret_size);
    image_rig_finish(&rig);
    return copy;
}

static double psnr(const uint8_t *a, const uint8_t *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum > 0 ? 10 * log10(255.0 * 255.0 * (double)n / sum) : 99;
}

/* ---- Close to exact ---- */

static double compare(const char *chain, const pst_bytes *bytes, uint64_t epoch)
{
    char text[256];
    size_t n, m;
    snprintf(text, sizeof(text), "decode quality=exact | %s", chain);
    uint8_t *exact = run_chain(text, bytes, epoch, true, NULL, &n);
    snprintf(text, sizeof(text), "decode quality=fast | %s", chain);
    uint8_t *fast = run_chain(text, bytes, epoch, true, NULL, &m);
    double db = n == m ? psnr(exact, fast, n) : 0;
    free(exact);
    free(fast);
    return db;
}

static void test_close(void)
{
    static const struct {
        const char *chain;
        double least, mean; /* dB */
    } cases[] = {
        {"random_resized_crop 96 scale=0.1,0.5", 46, 50},
        {"random_resized_crop 96 scale=0.1,0.5 method=bilinear", 46, 50},
        {"random_resized_crop 96 scale=0.1,0.5 method=bicubic", 44, 49},
        {"random_resized_crop 96 scale=0.1,0.5 method=area", 46, 50},
        {"random_resized_crop 40", 39, 45}, /* by a smaller transform */
        {"random_crop 120 | resize 120", 48, 60},
    };
    static const size_t kinds[] = {0, 1, 2, 3, 6, 15};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        double sum = 0, least = 99;
        size_t count = 0;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            pst_image image = photo(301, 223, i), gray = sample_image(301, 223, 1, i);
            pst_bytes bytes = jpeg_of(kinds[i] == 6 ? &gray : &image, &jpeg_kinds[kinds[i]], 92);
            for (uint64_t epoch = 0; epoch < 4; epoch++, count++) {
                double db = compare(cases[c].chain, &bytes, epoch);
                sum += db;
                least = fmin(least, db);
            }
            free((void *)bytes.data);
            pst_image_finish(&gray);
            pst_image_finish(&image);
        }
        CHECK_MSG(least >= cases[c].least && sum / (double)count >= cases[c].mean, "%s: mean %.1f dB, minimum %.1f",
                  cases[c].chain, sum / (double)count, least);
        printf("# %s: mean %.1f dB, minimum %.1f\n", cases[c].chain, sum / (double)count, least);
    }
}

/* ---- Equal to exact ---- */

static void test_equal(void)
{
    static const struct {
        size_t kind;
        const char *decode, *chain;
    } cases[] = {
        {0, "", "crop 3 5 77 60"},                         /* 4:4:4 and nothing resized */
        {0, "", "random_crop 40 padding=9 | flip 1"},      /* */
        {6, "", "crop 3 5 77 60"},                         /* gray */
        {6, "channels=0", "flip 1"},                       /* */
        {2, "channels=1", "crop 3 5 77 60"},               /* the stored brightness */
        {9, "", "random_resized_crop 33 | flip"},          /* stored as RGB: no such planes */
        {10, "", "random_resized_crop 33 | flip"},         /* CMYK */
        {2, "channels=4", "random_resized_crop 33 | flip"} /* RGBA is made of pixels */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct jpeg_kind *kind = &jpeg_kinds[cases[i].kind];
        pst_image image = sample_image(121, 90, (uint32_t)kind->channels, i);
        pst_bytes bytes = jpeg_of(&image, kind, 90);
        char text[256];
        size_t n, m;
        snprintf(text, sizeof(text), "decode %s quality=exact | %s", cases[i].decode, cases[i].chain);
        uint8_t *exact = run_chain(text, &bytes, i, true, NULL, &n);
        snprintf(text, sizeof(text), "decode %s quality=fast | %s", cases[i].decode, cases[i].chain);
        uint8_t *fast = run_chain(text, &bytes, i, true, NULL, &m);
        CHECK_MSG(n == m && memcmp(exact, fast, n) == 0, "%s: %s", kind->name, text);
        free(exact);
        free(fast);
        free((void *)bytes.data);
        pst_image_finish(&image);
    }
}

/* ---- A model ---- */

/* What the antialiased filter makes of [low, high) at output `i` of `out`: positions and weights as the manual has them. */
struct reach {
    double low, high, scale;
    uint32_t size, out;
};

static double weight_of(const struct reach *r, uint32_t i, int64_t k)
{
    double stretch = fmax(r->scale, 1), centre = r->low + (i + 0.5) * r->scale;
    if (k < (int64_t)floor(r->low) || k >= (int64_t)fmin(ceil(r->high), r->size))
        return 0;
    return fmax(0, 1 - fabs(((double)k + 0.5 - centre) / stretch));
}

static double sample_of(const uint8_t *plane, const struct reach *x, const struct reach *y, uint32_t i, uint32_t j)
{
    double sum = 0, weights = 0;
    for (int64_t row = 0; row < y->size; row++) {
        double down = weight_of(y, j, row);
        for (int64_t column = 0; down > 0 && column < x->size; column++) {
            double w = down * weight_of(x, i, column);
            sum += w * plane[(size_t)row * x->size + (size_t)column];
            weights += w;
        }
    }
    return sum / weights;
}

static struct reach reach_of(uint32_t at, uint32_t length, uint32_t size, unsigned coarser, uint32_t out)
{
    struct reach r = {.low = (double)at / coarser, .high = (double)(at + length) / coarser, .out = out};
    r.size = (size + coarser - 1) / coarser;
    r.scale = (r.high - r.low) / out;
    return r;
}

static void check_model(uint32_t width, uint32_t height, const uint32_t *cut, uint32_t to_width, uint32_t to_height)
{
    pst_image image = photo(width, height, width);
    uint8_t *data;
    size_t length, n;
    char text[128];
    REQUIRE_OK(pst_image_encode(&data, &length, &image, PST_IMAGE_YUV420, NULL, NULL), NULL);
    pst_bytes bytes = {data, length};
    snprintf(text, sizeof(text), "decode quality=fast | crop %u %u %u %u | resize %ux%u", cut[0], cut[1], cut[2], cut[3],
             to_width, to_height);
    uint8_t *got = run_chain(text, &bytes, 0, true, NULL, &n);
    const uint8_t *planes[3] = {data + 16, data + 16 + (size_t)width * height};
    planes[2] = planes[1] + (size_t)((width + 1) / 2) * ((height + 1) / 2);
    double worst = 0;
    for (uint32_t j = 0; j < to_height; j++)
        for (uint32_t i = 0; i < to_width; i++) {
            double v[3];
            for (int c = 0; c < 3; c++) {
                struct reach x = reach_of(cut[0], cut[2], width, c ? 2 : 1, to_width);
                struct reach y = reach_of(cut[1], cut[3], height, c ? 2 : 1, to_height);
                v[c] = sample_of(planes[c], &x, &y, i, j);
            }
            double rgb[3] = {v[0] + 1.402 * (v[2] - 128), v[0] - 0.344136 * (v[1] - 128) - 0.714136 * (v[2] - 128),
                             v[0] + 1.772 * (v[1] - 128)};
            for (int c = 0; c < 3; c++)
                worst = fmax(worst, fabs(fmin(255, fmax(0, rgb[c])) - got[((size_t)j * to_width + i) * 3 + (size_t)c]));
        }
    CHECK_MSG(worst <= 3.5, "%s of %u × %u: %.2f levels", text, width, height, worst);
    free(got);
    pst_free(data);
    pst_image_finish(&image);
}

static void test_model(void)
{
    check_model(101, 77, (const uint32_t[]){0, 0, 101, 77}, 40, 33); /* an odd edge of half a sample */
    check_model(101, 77, (const uint32_t[]){7, 5, 60, 50}, 40, 33);  /* from and to between samples */
    check_model(90, 60, (const uint32_t[]){31, 11, 21, 13}, 64, 50); /* enlarged */
    check_model(64, 64, (const uint32_t[]){8, 8, 33, 33}, 33, 33);   /* only the colours are */
    check_model(150, 120, (const uint32_t[]){1, 1, 149, 119}, 9, 8); /* many taps */
}

/* ---- Points ---- */

static void test_points(void)
{
    static const char *const chains[] = {"decode | random_resized_crop 40 | flip",
                                         "decode quality=exact | random_crop 60 | flip",
                                         "decode quality=fast | crop 30 20 99 88"};
    static const struct source_class nowhere = {.op = {.name = "nowhere"}};
    for (size_t k = 0; k < 14; k++) {
        const struct jpeg_kind *kind = &jpeg_kinds[k];
        pst_image image = sample_image(403, 150, (uint32_t)kind->channels, k);
        pst_bytes bytes = jpeg_of(&image, kind, 90);
        struct entropy *entropy;
        REQUIRE_OK(entropy_create(&entropy, &nowhere, NULL, 1, 1 << 20, NULL), NULL);
        for (uint64_t epoch = 0; epoch < 12; epoch++) {
            size_t n, m;
            uint8_t *want = run_chain(chains[epoch % 3], &bytes, epoch, epoch % 2, NULL, &n);
            uint8_t *got = run_chain(chains[epoch % 3], &bytes, epoch, true, entropy, &m);
            CHECK_MSG(n == m && memcmp(want, got, n) == 0, "%s of %s", chains[epoch % 3], kind->name);
            free(want);
            free(got);
        }
        if (k < 4)
            CHECK_INT(entropy_count(entropy).made, 1);
        entropy_destroy(entropy);
        free((void *)bytes.data);
        pst_image_finish(&image);
    }
}

/* Bytes change after their points were made, and end too early: the points are not theirs, and what comes is what comes without. */
static void test_stale_points(void)
{
    static const char *const chains[] = {"decode recover=true quality=fast | crop 40 9 280 191",
                                         "decode recover=true quality=exact | crop 40 9 280 191"};
    static const struct source_class nowhere = {.op = {.name = "nowhere"}};
    pst_image image = sample_image(320, 200, 3, 1);
    for (size_t i = 0; i < 8; i++) {
        pst_bytes bytes = jpeg_of(&image, &jpeg_kinds[i % 4], 90);
        uint8_t *data = (uint8_t *)bytes.data;
        struct entropy *entropy;
        size_t n, m;
        REQUIRE_OK(entropy_create(&entropy, &nowhere, NULL, 1, 1 << 20, NULL), NULL);
        for (uint64_t epoch = 0; epoch < 2; epoch++)
            free(run_chain(chains[i / 4], &bytes, epoch, true, entropy, &n));
        CHECK_INT(entropy_count(entropy).made, 1);
        memcpy(data + bytes.length * 63 / 100, "\xff\xd9", 2);
        uint8_t *want = run_chain(chains[i / 4], &bytes, 2, true, NULL, &n);
        for (uint64_t epoch = 2; epoch < 4; epoch++) {
            uint8_t *got = run_chain(chains[i / 4], &bytes, epoch, true, entropy, &m);
            CHECK_MSG(n == m && memcmp(want, got, n) == 0, "%s of %s", chains[i / 4], jpeg_kinds[i % 4].name);
            free(got);
        }
        free(want);
        entropy_destroy(entropy);
        free(data);
    }
    pst_image_finish(&image);
}

static const struct test tests[] = {
    {"close to exact", test_close},
    {"equal to exact", test_equal},
    {"a model", test_model},
    {"with an entropy index", test_points},
    {"with one of other bytes", test_stale_points},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
