/* test_jpeg.c: our JPEG decoder has libjpeg-turbo's coefficients and pixels, for every size, sampling, quality, restart
 * interval and kind of table, at every level of instructions. `--full` takes all combinations, not every so many. */
#include "jpeg_rig.h"

static struct jpeg_decoder *decoders[RIG_LEVELS];
static struct region_memory memory;
static unsigned every = 61; /* of the combinations */

/* ---- Coefficients ---- */

static bool same_mcu(struct jpeg_reader *r, jvirt_barray_ptr *arrays, const struct jpeg_frame *f, const int16_t *block,
                     uint32_t mcu)
{
    bool same = true;
    for (uint32_t c = 0; c < f->components; c++)
        for (uint32_t y = 0; y < (c ? 1u : f->v); y++)
            for (uint32_t x = 0; x < (c ? 1u : f->h); x++, block += 64) {
                uint32_t bx = mcu % f->mcus_x * (c ? 1 : f->h) + x, by = mcu / f->mcus_x * (c ? 1 : f->v) + y;
                jpeg_component_info *info = &r->info.comp_info[c];
                if (bx >= info->width_in_blocks || by >= info->height_in_blocks)
                    continue;
                JBLOCKARRAY row = r->info.mem->access_virt_barray((j_common_ptr)&r->info, arrays[c], by, 1, FALSE);
                same &= memcmp(row[0][bx], block, 128) == 0;
            }
    return same;
}

static bool same_coefficients(struct jpeg_decoder *d, const uint8_t *data, size_t length)
{
    struct jpeg_reader r;
    const struct jpeg_frame *f = &d->frame;
    jpeg_reader_init(&r, PST_MAX_SCANS);
    if (setjmp(r.trouble.jump))
        return false;
    jpeg_reader_open(&r, data, length);
    jvirt_barray_ptr *arrays = jpeg_read_coefficients(&r.info);
    bool same = jpeg_entropy_start(d, &d->stage[0].place);
    for (uint32_t mcu = 0; same && mcu < f->mcus_x * f->mcus_y; mcu++)
        same = rig_read(d, &d->stage[0], 1) && same_mcu(&r, arrays, f, d->stage[0].coefficients, mcu);
    jpeg_destroy_decompress(&r.info);
    return same && d->stage[0].place.mcu == f->mcus_x * f->mcus_y;
}

/* ---- Pixels ---- */

static void check_pixels(struct jpeg_decoder *d, const pst_image *want, const char *name, const char *level)
{
    pst_error error = {0};
    pst_image got;
    struct region whole = {.width = want->width, .height = want->height};
    pst_status st = jpeg_decode_pixels(d, &whole, want->channels, NULL, &got, &error);
    CHECK_MSG(st == PST_OK && rig_same(want, &whole, &got), "%s, %s, %u channels: %s", name, level, want->channels,
              st < 0 ? error.message : "other pixels");
}

static void check_bytes(const uint8_t *data, size_t length, const char *name)
{
    pst_error error;
    struct jpeg_frame frame;
    for (size_t l = 0; l < RIG_LEVELS; l++) {
        if (!rig_runs(l))
            continue;
        struct jpeg_decoder *d = decoders[l];
        REQUIRE_OK(jpeg_decoder_open(d, data, length, &frame, &error), &error);
        CHECK_MSG(same_coefficients(d, data, length), "%s, %s: other coefficients", name, rig_levels[l].name);
    }
    for (uint32_t channels = 1; channels <= 4; channels += channels == 1 ? 2 : 1) {
        pst_image want;
        if (channels == 1 && frame.rgb)
            continue;
        REQUIRE_OK(rig_turbo(data, length, channels, &memory, &want, &error), &error);
        for (size_t l = 0; l < RIG_LEVELS; l++)
            if (rig_runs(l))
                check_pixels(decoders[l], &want, name, rig_levels[l].name);
    }
}

static void check_recipe(const struct recipe *r, uint64_t seed)
{
    uint8_t *data;
    size_t length = rig_encode(&data, r, seed);
    check_bytes(data, length, rig_name(r));
    free(data);
}

/* ---- The matrix ---- */

static struct recipe recipe_of(uint32_t width, uint32_t height, unsigned kind)
{
    static const int qualities[] = {1, 30, 75, 95, 100}, restarts[] = {0, 1, 3, 7};
    static const int noises[] = {0, 20, 255};
    const int *sampling = rig_samplings[kind % RIG_SAMPLINGS];
    kind /= RIG_SAMPLINGS;
    return (struct recipe){.width = width,
                           .height = height,
                           .components = sampling[0],
                           .h = sampling[1],
                           .v = sampling[2],
                           .quality = qualities[kind % 5],
                           .restart = restarts[kind / 5 % 4],
                           .noise = noises[kind / 20 % 3],
                           .optimised = kind / 60 % 2};
}
#define KINDS (RIG_SAMPLINGS * 120u)

static void test_sizes(void)
{
    static const uint32_t heights[] = {1, 2, 7, 8, 9, 15, 16, 17, 33};
    unsigned number = 0;
    for (uint32_t width = 1; width <= 67; width++)
        for (size_t h = 0; h < 2 * sizeof(heights) / sizeof(heights[0]); h++)
            for (unsigned kind = 0; kind < KINDS; kind++, number++) {
                struct recipe r = recipe_of(width, heights[h / 2], kind);
                if (h % 2) { /* and on its side */
                    r.width = r.height;
                    r.height = width;
                }
                if (number % (every * 4) == 0)
                    check_recipe(&r, number);
            }
}

static void test_kinds(void)
{
    static const uint32_t sizes[][2] = {{67, 45}, {128, 96}, {33, 200}};
    for (unsigned kind = 0; kind < KINDS * 3; kind++) {
        struct recipe r = recipe_of(sizes[kind / KINDS][0], sizes[kind / KINDS][1], kind % KINDS);
        if (kind % (every / 10 + 1) == 0)
            check_recipe(&r, kind);
    }
}

/* ---- What else a file may be ---- */

static void test_rgb(void)
{
    for (int restart = 0; restart < 3; restart++)
        check_recipe(&(struct recipe){.width = 61,
                                      .height = 43,
                                      .components = 3,
                                      .h = 1,
                                      .v = 1,
                                      .quality = 90,
                                      .rgb = true,
                                      .restart = restart,
                                      .noise = 90},
                     1);
}

/* All of a file's tables of 16 bits. */
static void change_quants(uint8_t *data, unsigned value)
{
    for (size_t at = 2; data[at + 1] != 0xda; at += 2 + (size_t)(data[at + 2] << 8 | data[at + 3]))
        for (size_t i = 0; data[at + 1] == 0xdb && data[at + 4] >> 4 && i < 64; i++) {
            data[at + 5 + 2 * i] = (uint8_t)(value >> 8);
            data[at + 6 + 2 * i] = (uint8_t)value;
        }
}

/* Tables of 16 bits, and values that leave the range of images, also beyond 16 bits. */
static void test_quant(void)
{
    static const unsigned quants[] = {1, 2, 255, 256, 300, 1000, 4095, 8191, 8192, 16384, 32767, 32768, 65535};
    for (size_t q = 0; q < sizeof(quants) / sizeof(quants[0]); q++)
        for (int s = 0; s < RIG_SAMPLINGS; s++)
            for (int noise = 0; noise <= 255; noise += 85) {
                struct recipe r = {.width = 40,
                                   .height = 40,
                                   .components = rig_samplings[s][0],
                                   .h = rig_samplings[s][1],
                                   .v = rig_samplings[s][2],
                                   .quality = 90,
                                   .noise = noise};
                for (r.quant = quants[q] < 256 ? (int)quants[q] : 256; r.quant <= 1024; r.quant *= 2) {
                    uint8_t *data;
                    size_t length = rig_encode(&data, &r, q);
                    change_quants(data, quants[q]);
                    check_bytes(data, length, rig_name(&r));
                    free(data);
                }
            }
}

static void test_gray_sampled(void)
{
    for (int h = 1; h <= 4; h++)
        for (int v = 1; v <= 4; v++)
            check_recipe(
                &(struct recipe){
                    .width = 45, .height = 37, .components = 1, .h = h, .v = v, .quality = 80, .noise = 40, .restart = h},
                (uint64_t)v);
}

/* Segments of one kind are taken out. */
static size_t without(uint8_t *data, size_t length, unsigned marker)
{
    for (size_t at = 2; at + 4 < length && data[at + 1] != 0xda;) {
        size_t size = 2 + (size_t)(data[at + 2] << 8 | data[at + 3]);
        if (data[at + 1] == marker) {
            memmove(data + at, data + at + size, length - at - size);
            length -= size;
        } else {
            at += size;
        }
    }
    return length;
}

static void test_segments(void)
{
    for (int s = 0; s < RIG_SAMPLINGS; s++) {
        struct recipe r = {.width = 50,
                           .height = 41,
                           .components = rig_samplings[s][0],
                           .h = rig_samplings[s][1],
                           .v = rig_samplings[s][2],
                           .quality = 85,
                           .noise = 60};
        uint8_t *data;
        size_t length = rig_encode(&data, &r, 5);
        length = without(data, length, 0xc4);
        check_bytes(data, length, "without Huffman tables");
        length = without(data, length, 0xe0);
        check_bytes(data, length, "without JFIF");
        uint8_t *longer = rig_need(calloc(1, length + 9));
        memcpy(longer + 5, data + 2, length - 2);
        memcpy(longer, "\xff\xd8\xff\xff\xff", 5); /* fill bytes, and then what is not the image's */
        check_bytes(longer, length + 9, "with bytes around");
        check_bytes(data, length - 2, "without an end");
        free(longer);
        free(data);
    }
}

/* Tables of one image are not lent to another. */
static void test_forgets(void)
{
    struct recipe r = {
        .width = 64, .height = 64, .components = 3, .h = 2, .v = 2, .quality = 95, .noise = 255, .optimised = true};
    uint8_t *own, *standard;
    size_t length = rig_encode(&own, &r, 1);
    r.optimised = false;
    size_t other = rig_encode(&standard, &r, 2);
    other = without(standard, other, 0xc4);
    for (int i = 0; i < 3; i++) {
        check_bytes(own, length, "optimised");
        check_bytes(standard, other, "standard");
    }
    struct jpeg_frame frame;
    other = without(standard, other, 0xdb);
    CHECK_STATUS(jpeg_decoder_open(decoders[0], standard, other, &frame, NULL), PST_EUNSUPPORTED, NULL);
    free(own);
    free(standard);
}

/* Frames that are left to libjpeg-turbo, by their headers. */
static void test_left_alone(void)
{
    static const struct {
        const char *name;
        size_t marker_offset; /* from the frame header's marker */
        uint8_t value;
    } changes[] = {{"progressive", 1, 0xc2}, {"arithmetic", 1, 0xc9}, {"12 bits", 4, 12},  {"no height", 6, 0},
                   {"4:1:1", 11, 0x41},      {"other", 14, 0x21},     {"no table", 12, 3}, {"two", 9, 2}};
    struct recipe r = {.width = 20, .height = 20, .components = 3, .h = 2, .v = 2, .quality = 85};
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        uint8_t *data;
        size_t length = rig_encode(&data, &r, 5), at = 2;
        struct jpeg_frame frame;
        while (data[at + 1] != 0xc0)
            at += 2 + (size_t)(data[at + 2] << 8 | data[at + 3]);
        data[at + changes[i].marker_offset] = changes[i].value;
        pst_error error;
        CHECK_MSG(jpeg_decoder_open(decoders[0], data, length, &frame, &error) == PST_EUNSUPPORTED, "%s", changes[i].name);
        free(data);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"sizes", test_sizes},
        {"kinds", test_kinds},
        {"rgb", test_rgb},
        {"quant", test_quant},
        {"gray sampled", test_gray_sampled},
        {"segments", test_segments},
        {"forgets", test_forgets},
        {"left alone", test_left_alone},
        {NULL, NULL},
    };
    if (argc > 1 && strcmp(argv[1], "--full") == 0) {
        every = 1;
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    for (size_t l = 0; l < RIG_LEVELS; l++)
        decoders[l] = rig_decoder(l);
    int rc = test_main(argc, argv, tests);
    for (size_t l = 0; l < RIG_LEVELS; l++)
        jpeg_decoder_free(decoders[l]);
    mem_free(memory.data);
    return rc;
}
