/* test_region.c: parts of images have exactly the pixels of the whole, and a decoder that is kept forgets what was. */
#include "base/fault.h"
#include "base/memory.h"
#include "codec/image_codec.h"
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
    struct region_options options = {.decode = {.size = sizeof(options.decode), .channels = channels, .strict = strict}, .upright = upright};
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
    return test_check_status(pst_image_decode(&s->whole, data, length, &options, &error), PST_OK, &error, __FILE__, __LINE__, name) &&
           test_check_status(region_probe(&s->decoder, data, length, &s->info, &error), PST_OK, &error, __FILE__, __LINE__, name);
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
    CHECK_MSG(fine, "%s, %u × %u × %u: part %u × %u at %u, %u: %s", s->name, s->whole.width, s->whole.height, s->whole.channels, r.width,
              r.height, r.x, r.y, st < 0 ? error.message : "other pixels");
    return fine;
}

/* Every range of columns with some ranges of rows, and the other way round. Stops at the first wrong one. */
static void check_ranges(struct subject *s)
{
    uint32_t w = s->whole.width, h = s->whole.height;
    const uint32_t ys[3][2] = {{0, h}, {h / 2, 1}, {h / 3, h - h / 3}}, xs[3][2] = {{0, w}, {w / 2, 1}, {w / 3, w - w / 3}};
    for (uint32_t x = 0; x < w; x++)
        for (uint32_t n = 1; n <= w - x; n++)
            for (int k = 0; k < 3; k++)
                if (!check_part(s, (struct region){x, ys[k][0], n, ys[k][1]}))
                    return;
    for (uint32_t y = 0; y < h; y++)
        for (uint32_t n = 1; n <= h - y; n++)
            for (int k = 0; k < 3; k++)
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

static const struct test tests[] = {
    {"jpeg: every range of rows and columns", test_jpeg_ranges},
    {"jpeg: small images", test_jpeg_small},
    {"jpeg: large images", test_jpeg_large},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
