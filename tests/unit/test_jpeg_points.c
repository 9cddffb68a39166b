/* test_jpeg_points.c: points into entropy-coded data: where they lie, and that wrong ones do no harm. */
#include "base/fault.h"
#include "jpeg_rig.h"

#include "base/hash.h"

static uint8_t *encode(const struct recipe *r, struct jpeg_decoder *d, struct jpeg_frame *frame, size_t *length)
{
    uint8_t *data;
    pst_error error;
    *length = rig_encode(&data, r, 1);
    test_check_status(jpeg_decoder_open(d, data, *length, frame, &error), PST_OK, &error, __FILE__, __LINE__, rig_name(r));
    return data;
}

/* Decoding from a point on gives what decoding from the beginning gives there. */
static void check_points(const struct recipe *r)
{
    struct jpeg_decoder *d = rig_decoder(0), *from = rig_decoder(rig_runs(1));
    struct jpeg_frame frame;
    size_t length;
    uint8_t *data = encode(r, d, &frame, &length);
    struct jpeg_points points = rig_points(d);
    uint32_t all = frame.mcus_x * frame.mcus_y, before = 0;
    CHECK_INT(points.count, (all + JPEG_POINT_STEP - 1) / JPEG_POINT_STEP);
    CHECK_INT(jpeg_point_bit(&points.point[0]), 8 * d->scan);
    REQUIRE(jpeg_decoder_open(from, data, length, &frame, NULL) == PST_OK && jpeg_entropy_start(d, &d->stage[0].place));
    for (uint32_t mcu = 0; mcu < all; mcu++) {
        if (mcu % JPEG_POINT_STEP == 0) {
            uint32_t bit = jpeg_point_bit(&points.point[mcu / JPEG_POINT_STEP]);
            CHECK_MSG(bit > before && bit < 8 * length, "%s: point %u at bit %u", rig_name(r), mcu / JPEG_POINT_STEP, bit);
            before = bit;
            CHECK_MSG(jpeg_entropy_seek(from, &from->stage[0].place, &points, mcu / JPEG_POINT_STEP), "%s: MCU %u", rig_name(r),
                      mcu);
        }
        bool same = rig_read(d, &d->stage[0], 1) && rig_read(from, &from->stage[0], 1) &&
                    memcmp(d->stage[0].coefficients, from->stage[0].coefficients, d->blocks * 128) == 0;
        CHECK_MSG(same, "%s: MCU %u", rig_name(r), mcu);
        if (!same)
            break;
    }
    free((void *)points.point);
    free(data);
    jpeg_decoder_free(d);
    jpeg_decoder_free(from);
}

static void test_places(void)
{
    static const int restarts[] = {0, 1, 4, 5, 16, 17, 32};
    for (int s = 0; s < RIG_SAMPLINGS; s++)
        for (int i = 0; i < 7; i++) {
            struct recipe r = {.width = 150,
                               .height = 90,
                               .components = rig_samplings[s][0],
                               .h = rig_samplings[s][1],
                               .v = rig_samplings[s][2],
                               .restart = restarts[i],
                               .quality = 98,
                               .noise = i % 2 ? 255 : 20};
            check_points(&r);
        }
}

/* ---- Wrong points ---- */

static const struct region part = {70, 40, 50, 45};
static const struct recipe recipe = {.width = 200, .height = 100, .components = 3, .h = 2, .v = 2, .quality = 95, .noise = 255};

static void test_stale(void)
{
    struct jpeg_decoder *d = rig_decoder(0);
    struct jpeg_frame frame;
    struct jpeg_plane planes[3];
    size_t length;
    uint8_t *data = encode(&recipe, d, &frame, &length);
    struct jpeg_points points = rig_points(d), wrong = points;
    struct jpeg_point *point = (struct jpeg_point *)points.point;
    pst_error error;
    REQUIRE_OK(jpeg_decode_planes(d, &part, 0, 8, &points, planes, &error), &error);
    wrong.known++; /* more than there can be */
    CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &wrong, planes, &error), PST_ESTALE, &error);
    wrong = points;
    wrong.known = --wrong.count;
    CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &wrong, planes, &error), PST_ESTALE, &error);
    wrong = points;
    wrong.step = 0;
    CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &wrong, planes, &error), PST_ESTALE, &error);
    wrong.step = JPEG_POINT_STEP * 2;
    CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &wrong, planes, &error), PST_ESTALE, &error);
    wrong.count = 0; /* there are none */
    REQUIRE_OK(jpeg_decode_planes(d, &part, 0, 8, &wrong, planes, &error), &error);
    const uint32_t bits[] = {0, 8 * (uint32_t)d->scan - 1, 8 * (uint32_t)length, UINT32_MAX};
    for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++) {
        for (uint32_t k = 0; k < points.count; k++) {
            point[k].bit[0] = (uint16_t)bits[i];
            point[k].bit[1] = (uint16_t)(bits[i] >> 16);
        }
        CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &points, planes, &error), PST_ESTALE, &error);
    }
    free(point);
    free(data);
    jpeg_decoder_free(d);
}

static uint64_t hash_planes(const struct jpeg_plane *planes)
{
    uint64_t hash = 0;
    for (int c = 0; c < 3; c++)
        for (uint32_t y = 0; y < planes[c].height; y++)
            hash = hash_bytes(planes[c].pixels + y * planes[c].stride, planes[c].width, hash);
    return hash;
}

/* A point that is wrong in any bit disagrees with the way that comes by it, or with the next: never other pixels, also where a
 * part passes no point at all or ends after the last one. */
static void test_disagreeing(void)
{
    static const struct region parts[] = {{0, 0, 200, 100}, {70, 40, 50, 45}, {0, 0, 16, 100}, {64, 0, 20, 100}, {100, 30, 1, 1},
                                          {150, 0, 50, 100}, {184, 84, 16, 16}, {0, 96, 200, 4}};
    struct jpeg_decoder *d = rig_decoder(0);
    struct jpeg_frame frame;
    struct jpeg_plane planes[3];
    size_t length, unused = 0;
    struct recipe r = recipe;
    pst_error error;
    for (r.restart = 0; r.restart <= 16; r.restart += 8) {
        uint8_t *data = encode(&r, d, &frame, &length);
        struct jpeg_points points = rig_points(d);
        struct jpeg_point *point = (struct jpeg_point *)points.point;
        for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
            REQUIRE_OK(jpeg_decode_planes(d, &parts[i], 0, 8, NULL, planes, &error), &error);
            uint64_t want = hash_planes(planes);
            REQUIRE_OK(jpeg_decode_planes(d, &parts[i], 0, 8, &points, planes, &error), &error);
            CHECK(hash_planes(planes) == want);
            for (uint32_t k = 0; k < points.count; k++)
                for (unsigned bit = 0; bit < 8 * sizeof(*point); bit++) {
                    uint8_t *byte = (uint8_t *)&point[k] + bit / 8;
                    *byte ^= (uint8_t)(1 << bit % 8);
                    pst_status st = jpeg_decode_planes(d, &parts[i], 0, 8, &points, planes, &error);
                    CHECK_MSG(st == PST_ESTALE || (st == PST_OK && hash_planes(planes) == want), "part %d, point %d, bit %d", (int)i,
                              (int)k, (int)bit);
                    unused += st == PST_OK;
                    *byte ^= (uint8_t)(1 << bit % 8);
                }
        }
        free(point);
        free(data);
    }
    CHECK_MSG(unused > 1000, "%zu: a part refuses points that it does not pass", unused);
    jpeg_decoder_free(d);
}

/* Every bit of every point, every stuffed byte: some status, and reads that stay inside (which sanitizers watch). */
static void test_hostile(void)
{
    struct jpeg_decoder *d = rig_decoder(0);
    struct jpeg_frame frame;
    struct jpeg_plane planes[3];
    size_t length, stale = 0;
    struct recipe r = recipe;
    pst_error error;
    for (r.restart = 0; r.restart <= 16; r.restart += 8) {
        uint8_t *data = encode(&r, d, &frame, &length);
        struct jpeg_points points = rig_points(d);
        struct jpeg_point *point = (struct jpeg_point *)points.point;
        for (uint32_t k = 0; k < points.count; k++)
            for (unsigned bit = 0; bit < 8 * sizeof(*point); bit++) {
                uint8_t *byte = (uint8_t *)&point[k] + bit / 8;
                *byte ^= (uint8_t)(1 << bit % 8);
                pst_status st = jpeg_decode_planes(d, &part, 0, 8, &points, planes, &error);
                CHECK(st == PST_OK || st == PST_ESTALE);
                stale += st == PST_ESTALE;
                *byte ^= (uint8_t)(1 << bit % 8);
            }
        for (size_t at = d->scan; at < length; at++) {
            point[1].bit[0] = (uint16_t)(8 * at);
            point[1].bit[1] = (uint16_t)(8 * at >> 16);
            bool fits = jpeg_entropy_seek(d, &d->stage[0].place, &points, 1);
            CHECK_MSG(!fits || (!(data[at] == 0 && data[at - 1] == 0xff)), "stuffing at %zu", at);
        }
        free(point);
        free(data);
    }
    CHECK_MSG(stale > 100, "%zu", stale);
    jpeg_decoder_free(d);
}

/* ---- Where they come from ---- */

static void test_unsound(void)
{
    struct jpeg_decoder *d = rig_decoder(0);
    struct jpeg_frame frame;
    size_t length;
    uint8_t *data = encode(&recipe, d, &frame, &length);
    struct jpeg_point *points = rig_need(malloc(jpeg_points_count(d) * sizeof(*points)));
    pst_error error;
    for (size_t cut = 3; cut < length - d->scan; cut += 97) {
        REQUIRE_OK(jpeg_decoder_open(d, data, length - cut, &frame, &error), &error);
        CHECK_STATUS(jpeg_points_find(d, points, &error), PST_EUNSUPPORTED, &error);
    }
    free(points);
    free(data);
    jpeg_decoder_free(d);
}

/* Parts by the way that takes any format. */
static void test_region_decoder(void)
{
    struct region_options options = {.decode = {.size = sizeof(options.decode), .channels = 3}};
    struct region_decoder regions;
    struct region_info info;
    struct region_memory memory = {0};
    struct jpeg_decoder *d = rig_decoder(0);
    struct jpeg_frame frame;
    size_t length;
    uint8_t *data = encode(&recipe, d, &frame, &length);
    pst_image whole, got;
    pst_error error;
    REQUIRE_OK(rig_turbo(data, length, 3, &memory, &whole, &error), &error);
    REQUIRE_OK(region_decoder_init(&regions, &options, &error), &error);
    REQUIRE_OK(region_probe(&regions, data, length, &info, &error), &error);
    REQUIRE_OK(region_decode(&regions, data, length, &info, &part, &got, &error), &error);
    CHECK(rig_same(&whole, &part, &got));
    for (uint64_t n = 0; n < 8; n++) { /* out of memory is an error, and the next image is fine */
        struct region_decoder fresh;
        REQUIRE_OK(region_decoder_init(&fresh, &options, &error), &error);
        test_fault_arm(FAULT_MEMORY, n, true);
        pst_status st = region_decode(&fresh, data, length, &info, &part, &got, &error);
        test_fault_clear();
        CHECK_MSG(st == PST_ENOMEM || (n >= 4 && st == PST_OK), "%d after %d", st, (int)n);
        REQUIRE_OK(region_decode(&fresh, data, length, &info, &part, &got, &error), &error);
        CHECK(rig_same(&whole, &part, &got));
        region_decoder_finish(&fresh);
    }
    region_decoder_finish(&regions);
    free(data);
    mem_free(memory.data);
    jpeg_decoder_free(d);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"places", test_places},
                                        {"stale", test_stale},
                                        {"disagreeing", test_disagreeing},
                                        {"hostile", test_hostile},
                                        {"unsound", test_unsound},
                                        {"region decoder", test_region_decoder},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
