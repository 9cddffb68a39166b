/* test_jpeg_damage.c: damaged JPEGs. Our decoder either has libjpeg-turbo's pixels or leaves the image to it, for every
 * truncation and every flipped bit of small files; through a region decoder, pixels are libjpeg-turbo's in any case. */
#include "jpeg_rig.h"

static struct region_decoder regions;
static struct region_memory memory;
static size_t own, left;

/* The whole by both, then a part as pipelines get it. */
static void check_damaged(struct jpeg_decoder *d, const uint8_t *data, size_t length, const char *what, size_t where)
{
    pst_error error;
    struct jpeg_frame frame;
    struct region_info info;
    pst_image want, got;
    pst_status wanted = rig_turbo(data, length, 3, &memory, &want, &error);
    pst_status st = jpeg_decoder_open(d, data, length, &frame, &error);
    if (st == PST_OK) {
        struct region whole = {.width = frame.width, .height = frame.height};
        st = (uint64_t)frame.width * frame.height > 1 << 20 ? PST_EUNSUPPORTED
                                                            : jpeg_decode_pixels(d, &whole, 3, NULL, &got, &error);
        CHECK_MSG(st == PST_EUNSUPPORTED || (st == wanted && rig_same(&want, &whole, &got)), "%s %zu: other pixels", what,
                  where);
    }
    own += st == PST_OK;
    left += st == PST_EUNSUPPORTED;
    if (region_probe(&regions, data, length, &info, &error) < 0 || (uint64_t)info.width * info.height > 1 << 20)
        return;
    struct region part = {info.width / 3, info.height / 2, info.width - info.width / 3,
                          (info.height - info.height / 2 + 1) / 2};
    st = region_decode(&regions, data, length, &info, &part, &got, &error);
    CHECK_MSG(st == wanted && (st < 0 || rig_same(&want, &part, &got)), "%s %zu: part: status %d, expected %d", what, where, st,
              wanted);
}

static void check_recipe(const struct recipe *r, size_t level)
{
    struct jpeg_decoder *d = rig_decoder(level);
    uint8_t *data;
    size_t length = rig_encode(&data, r, 3);
    own = left = 0;
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *exactly = rig_need(malloc(length - cut)); /* so that sanitizers see the end */
        memcpy(exactly, data, length - cut);
        check_damaged(d, exactly, length - cut, "cut", cut);
        free(exactly);
    }
    CHECK_MSG(own >= 1 && left > length / 4, "%s: %zu read, %zu left", rig_name(r), own, left);
    own = left = 0;
    for (size_t bit = 0; bit < 8 * length; bit++) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        check_damaged(d, data, length, "bit", bit);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CHECK_MSG(own > length / 4 && left > length / 4, "%s: %zu read, %zu left", rig_name(r), own, left);
    free(data);
    jpeg_decoder_free(d);
}

static void test_small_files(void)
{
    static const int restarts[] = {0, 2, 0, 1, 3};
    for (int s = 0; s < RIG_SAMPLINGS; s++) {
        struct recipe r = {.width = 40,
                           .height = 21,
                           .components = rig_samplings[s][0],
                           .h = rig_samplings[s][1],
                           .v = rig_samplings[s][2],
                           .restart = restarts[s],
                           .quality = 60,
                           .noise = 60,
                           .optimised = true};
        check_recipe(&r, s % 2 && rig_runs(1) ? 1 : 0);
    }
}

/* Longer data, several MCUs behind the trouble. */
static void test_random_damage(void)
{
    struct jpeg_decoder *d = rig_decoder(rig_runs(1));
    struct random random;
    random_init(&random, 9, 0, 0, 0);
    for (int s = 0; s < RIG_SAMPLINGS; s++) {
        struct recipe r = {.width = 160,
                           .height = 90,
                           .components = rig_samplings[s][0],
                           .h = rig_samplings[s][1],
                           .v = rig_samplings[s][2],
                           .restart = s % 2 * 7,
                           .quality = 95,
                           .noise = 255};
        uint8_t *data;
        size_t length = rig_encode(&data, &r, 3);
        for (int i = 0; i < 120; i++) {
            size_t at = 300 + random_below(&random, length - 300);
            uint8_t kept = data[at];
            data[at] = i % 3 ? (uint8_t)random_u64(&random) : 0xff;
            check_damaged(d, data, length, "byte", at);
            data[at] = kept;
        }
        free(data);
    }
    jpeg_decoder_free(d);
}

/* A restart marker too many, too few, of another number, or with fill bytes before it. */
static void test_restarts(void)
{
    struct jpeg_decoder *d = rig_decoder(0);
    struct recipe r = {.width = 100, .height = 30, .components = 3, .h = 1, .v = 1, .restart = 4, .quality = 90, .noise = 90};
    uint8_t *data;
    size_t length = rig_encode(&data, &r, 3);
    uint8_t *changed = rig_need(malloc(length + 4));
    for (size_t at = 600; at + 2 < length; at++) {
        if (data[at] != 0xff || data[at + 1] < 0xd0 || data[at + 1] > 0xd7)
            continue;
        for (int kind = 0; kind < 4; kind++) {
            size_t add = kind == 0 ? 1 : kind == 1 ? 2 : 0;
            memcpy(changed, data, at);
            memcpy(changed + at, "\xff\xff", add);
            memcpy(changed + at + add, data + at, length - at);
            if (kind == 1)
                changed[at + 1] = data[at + 1];
            if (kind == 2)
                changed[at + 1] ^= 1;
            if (kind == 3)
                memmove(changed + at, changed + at + 2, length - at - 2);
            check_damaged(d, changed, length + add - (kind == 3 ? 2 : 0), "restart", at);
        }
    }
    free(changed);
    free(data);
    jpeg_decoder_free(d);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"small files", test_small_files}, {"random damage", test_random_damage}, {"restarts", test_restarts}, {NULL, NULL}};
    struct region_options options = {.decode = {.size = sizeof(options.decode), .channels = 3}};
    if (region_decoder_init(&regions, &options, NULL) < 0)
        return 1;
    int rc = test_main(argc, argv, tests);
    region_decoder_finish(&regions);
    mem_free(memory.data);
    return rc;
}
