/* test_jpeg_collect.c: points that are collected along the way: they are those that a pass over the image finds, they never
 * show in what is decoded, and trouble in the data shows as it does without them, in whatever order parts come. */
#include "base/hash.h"
#include "jpeg_rig.h"

#define UNTOUCHED 0xa5

struct subject {
    const char *name;
    const uint8_t *data;
    size_t length;
    struct jpeg_frame frame;
    struct jpeg_decoder *decoder;
    struct jpeg_points points; /* what is collected */
};

/* Copies the data, so that sanitizers see their end. */
static bool subject_open(struct subject *s, const char *name, const uint8_t *data, size_t length, size_t level)
{
    uint8_t *copy = rig_need(malloc(length + !length));
    memcpy(copy, data, length);
    *s = (struct subject){.name = name, .data = copy, .length = length, .decoder = rig_decoder(level)};
    if (jpeg_decoder_open(s->decoder, s->data, s->length, &s->frame, NULL) < 0 ||
        (uint64_t)s->frame.width * s->frame.height > 1 << 20)
        return false;
    size_t count = jpeg_points_count(s->decoder);
    s->points = (struct jpeg_points){
        .step = JPEG_POINT_STEP, .count = (uint32_t)count, .room = rig_need(malloc(count * sizeof(struct jpeg_point)))};
    s->points.point = memset(s->points.room, UNTOUCHED, count * sizeof(struct jpeg_point));
    return true;
}

static void subject_close(struct subject *s)
{
    jpeg_decoder_free(s->decoder);
    free((void *)(uintptr_t)s->points.point);
    free((void *)(uintptr_t)s->data);
}

/* What decoding a part gives: its status, or a hash of its samples. */
static uint64_t outcome(const struct subject *s, const struct region *part, unsigned scale, struct jpeg_points *points)
{
    struct jpeg_plane planes[3];
    pst_error error;
    pst_status st = jpeg_decode_planes(s->decoder, part, 0, scale, points, planes, &error);
    uint64_t hash = (uint64_t)(int64_t)st;
    for (uint32_t c = 0; st == PST_OK && c < s->frame.components; c++)
        for (uint32_t y = 0; y < planes[c].height; y++)
            hash = hash_bytes(planes[c].pixels + y * planes[c].stride, planes[c].width, hash);
    return hash;
}

/* The first points of an image are known when a part was read: all in front of its last MCU. */
static uint32_t points_up_to(const struct jpeg_frame *f, const struct region *part)
{
    uint32_t right = (part->x + part->width + 8u * f->h - 1) / (8u * f->h),
             bottom = (part->y + part->height + 8u * f->v - 1) / (8u * f->v);
    return ((bottom - 1) * f->mcus_x + right + JPEG_POINT_STEP - 1) / JPEG_POINT_STEP;
}

static bool untouched(const struct jpeg_points *p)
{
    const uint8_t *byte = (const uint8_t *)(p->point + p->known), *end = (const uint8_t *)(p->point + p->count);
    while (byte < end && *byte == UNTOUCHED)
        byte++;
    return byte == end;
}

/* ---- Sound images ---- */

static struct recipe recipe_of(unsigned i)
{
    static const uint32_t sizes[][2] = {{333, 251}, {500, 64}, {33, 400}, {129, 130},
                                        {255, 16},  {128, 64}, {19, 23},  {256, 90}};
    static const int restarts[] = {0, 0, 5, 16, 1, 0, 23}, noises[] = {255, 30, 3};
    const int *sampling = rig_samplings[i % RIG_SAMPLINGS];
    return (struct recipe){.width = sizes[i % 8][0],
                           .height = sizes[i % 8][1],
                           .components = sampling[0],
                           .h = sampling[1],
                           .v = sampling[2],
                           .restart = restarts[i % 7],
                           .quality = i % 3 ? 92 : 50,
                           .noise = noises[i / 3 % 3],
                           .optimised = i % 2};
}

static void check_part(struct subject *s, const struct region *part, unsigned scale, bool adds, const struct jpeg_points *want)
{
    struct jpeg_points *p = &s->points;
    const uint32_t before = p->known, reached = points_up_to(&s->frame, part);
    struct jpeg_point *room = p->room;
    uint64_t plain = outcome(s, part, scale, NULL);
    p->room = adds ? room : NULL;
    uint64_t got = outcome(s, part, scale, p);
    p->room = room;
    CHECK_MSG(got == plain, "%s: part %u × %u at %u, %u differs with %u of %u points known", s->name, part->width, part->height,
              part->x, part->y, before, p->count);
    bool grows = adds && reached > before && p->count > 2; /* so few are of no use */
    CHECK_MSG(p->known == (grows ? reached : before), "%s: %u points known, %u before, the part reaches %u", s->name, p->known,
              before, reached);
    CHECK_MSG(memcmp(p->point, want->point, p->known * sizeof(*p->point)) == 0, "%s: other points", s->name);
    CHECK_MSG(untouched(p), "%s: more is written than is known", s->name);
}

static void test_sound(void)
{
    struct random random;
    random_init(&random, 1, 0, 0, 0);
    for (unsigned i = 0; i < 160; i++) {
        struct recipe r = recipe_of(i);
        struct subject s;
        uint8_t *data;
        size_t length = rig_encode(&data, &r, i);
        REQUIRE(subject_open(&s, rig_name(&r), data, length, rig_runs(1) && i % 4 ? 1 : 0));
        struct jpeg_points want = rig_points(s.decoder);
        for (int k = 0; k < 24; k++) {
            struct region part = rig_part(&random, r.width, r.height);
            if (k < 12 && part.height > r.height / 4) /* so that much is left to add later */
                part.height = part.height / 4 + 1;
            check_part(&s, &part, 8u >> k % 4, k % 3 != 2, &want);
        }
        const struct region whole = {.width = r.width, .height = r.height};
        check_part(&s, &whole, 8, true, &want);
        CHECK(s.points.known == s.points.count || s.points.count < 3);
        check_part(&s, &whole, 8, true, &want); /* there is nothing left to add */
        free((void *)(uintptr_t)want.point);
        subject_close(&s);
        free(data);
    }
}

/* Pixels need a margin, of which the plain decoder knows as well. */
static void test_pixels(void)
{
    struct random random;
    struct region_memory memory = {0};
    random_init(&random, 2, 0, 0, 0);
    for (unsigned i = 0; i < 40; i++) {
        struct recipe r = recipe_of(i);
        struct subject s;
        uint8_t *data;
        size_t length = rig_encode(&data, &r, i);
        pst_image whole, got;
        pst_error error;
        REQUIRE(subject_open(&s, rig_name(&r), data, length, rig_runs(1)));
        REQUIRE_OK(rig_turbo(data, length, 3, &memory, &whole, &error), &error);
        for (int k = 0; k < 12; k++) {
            struct region part = rig_part(&random, r.width, r.height);
            pst_status st = jpeg_decode_pixels(s.decoder, &part, 3, &s.points, &got, &error);
            CHECK_MSG(st == PST_OK && rig_same(&whole, &part, &got), "%s: other pixels", s.name);
        }
        subject_close(&s);
        free(data);
    }
    mem_free(memory.data);
}

/* ---- Places in the file ---- */

/* Any amount of stuffing, read in steps of any size, asked now and then or never: where the stream is in the file. */
static void check_stream(unsigned one_of, unsigned ask_one_of)
{
    enum { LENGTH = 60000, AFTER = 0x5a };
    static struct {
        struct stream stream;
        uint8_t after[4096];
    } s;
    static uint8_t file[LENGTH];
    struct random random;
    size_t at = 0, wrong = 0;
    random_init(&random, 5, one_of, ask_one_of, 0);
    for (size_t i = 0; i < LENGTH; i++)
        file[i] = i && file[i - 1] == 0xff ? 0 : random_below(&random, one_of) ? (uint8_t)random_below(&random, 255) : 0xff;
    memset(s.after, AFTER, sizeof(s.after));
    CHECK(stream_begin(&s.stream, file, file + LENGTH, 0));
    for (uint64_t bits = 0; at + 64 < LENGTH;) {
        CHECK(stream_ready(&s.stream));
        bits_fill(&s.stream.bits);
        unsigned n = 1 + (unsigned)random_below(&random, 50);
        bits_drop(&s.stream.bits, n);
        for (uint64_t whole = (bits + n) / 8 - bits / 8; whole; whole--)
            at += file[at] == 0xff ? 2 : 1;
        bits += n;
        wrong += random_below(&random, ask_one_of) == 0 && stream_offset(&s.stream) != at;
    }
    CHECK_MSG(wrong == 0 && stream_offset(&s.stream) == at, "stuffing every %u bytes: %zu wrong", one_of, wrong);
    for (size_t i = 0; i < sizeof(s.after); i++)
        wrong += s.after[i] != AFTER;
    CHECK_MSG(wrong == 0, "stuffing every %u bytes: written behind the stream", one_of);
}

static void test_stream(void)
{
    static const unsigned often[] = {1, 2, 5, 256, 100000};
    for (size_t i = 0; i < 5; i++)
        for (size_t k = 0; k < 5; k++)
            check_stream(often[i], often[k]);
}

/* ---- Damaged ones ---- */

/* Parts in any order, each as if nothing had come before it. Returns how many could be decoded. */
static unsigned check_damaged(const char *name, const uint8_t *data, size_t length, const char *what, size_t where)
{
    struct random random;
    struct subject s;
    unsigned decoded = 0;
    random_init(&random, 3, where, length, 0);
    if (subject_open(&s, name, data, length, rig_runs(1) && where % 2))
        for (int k = 0; k < 4; k++) {
            struct region part = rig_part(&random, s.frame.width, s.frame.height);
            if (k % 2)
                part.height = part.height / 3 + 1;
            uint64_t plain = outcome(&s, &part, 8, NULL), got = outcome(&s, &part, 8, &s.points);
            CHECK_MSG(plain == got, "%s, %s %zu: part %d of %u × %u at %u, %u, %u points known: %llx, not %llx", name, what,
                      where, k, part.width, part.height, part.x, part.y, s.points.known, (unsigned long long)got,
                      (unsigned long long)plain);
            decoded += plain != (uint64_t)(int64_t)PST_EUNSUPPORTED;
            CHECK_MSG(!s.points.known || jpeg_point_bit(&s.points.point[s.points.known - 1]) <= 8 * length,
                      "%s, %s %zu: a point behind the end of the data", name, what, where);
        }
    subject_close(&s);
    return decoded;
}

static void test_damaged(void)
{
    static const int restarts[] = {0, 16, 5, 0, 8};
    for (int k = 0; k < RIG_SAMPLINGS; k++) {
        struct recipe r = {.width = 64u * (unsigned)rig_samplings[k][1],
                           .height = 43u * (unsigned)rig_samplings[k][2],
                           .components = rig_samplings[k][0],
                           .h = rig_samplings[k][1],
                           .v = rig_samplings[k][2],
                           .restart = restarts[k],
                           .quality = 75,
                           .noise = 60,
                           .optimised = true};
        uint8_t *data;
        size_t length = rig_encode(&data, &r, 3), parts = 0;
        unsigned decoded = 0;
        const char *name = rig_name(&r);
        for (size_t cut = 0; cut < length; cut++, parts += 4)
            decoded += check_damaged(name, data, length - cut, "cut", cut);
        CHECK_MSG(decoded > parts / 10 && decoded < parts / 2, "%s: %u of %zu parts of cut data", name, decoded, parts);
        decoded = 0;
        for (size_t bit = 0; bit < 8 * length; bit++) {
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            decoded += check_damaged(name, data, length, "bit", bit);
            data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        CHECK_MSG(decoded > 8 * length && decoded < 31 * length, "%s: %u of %zu parts of changed data", name, decoded,
                  32 * length);
        free(data);
    }
}

/* The restart marker behind a part is none of its business, though it lies in front of the next point. */
static void test_trouble_behind(void)
{
    struct recipe r = {.width = 128, .height = 64, .components = 1, .h = 1, .v = 1, .restart = 16, .quality = 80, .noise = 40};
    struct region upper = {.x = 8, .width = 120, .height = 8}, lower = {.x = 8, .y = 8, .width = 100, .height = 24};
    struct subject s;
    uint8_t *data;
    size_t length = rig_encode(&data, &r, 3), at = length - 1;
    while (data[at] != 0xd0 || data[at - 1] != 0xff)
        at--;
    data[at] = 0xd3;
    REQUIRE(subject_open(&s, rig_name(&r), data, length, 0));
    for (int pass = 0; pass < 2; pass++) {
        CHECK_INT(outcome(&s, &lower, 8, &s.points), (uint64_t)(int64_t)PST_EUNSUPPORTED);
        CHECK_INT(s.points.known, 1);
        CHECK_INT(outcome(&s, &upper, 8, &s.points), outcome(&s, &upper, 8, NULL));
        CHECK_INT(s.points.known, 1);
    }
    subject_close(&s);
    free(data);
}

/* ---- Wrong ones ---- */

/* A prefix of any bytes: some status, reads and writes that stay inside (which sanitizers watch), and no claim that the data
 * were sound. */
static void test_hostile(void)
{
    struct random random;
    unsigned refused = 0;
    random_init(&random, 4, 0, 0, 0);
    for (unsigned i = 0; i < 60; i++) {
        struct recipe r = recipe_of(i);
        struct subject s;
        uint8_t *data;
        size_t length = rig_encode(&data, &r, i);
        REQUIRE(subject_open(&s, rig_name(&r), data, length, rig_runs(1)));
        for (int k = 0; k < 40; k++) {
            struct region part = rig_part(&random, r.width, r.height);
            s.points.known = (uint32_t)random_below(&random, s.points.count + 1);
            for (uint32_t n = 0; n < s.points.known; n++) {
                uint64_t bit = 8 * s.decoder->scan + random_below(&random, 8 * length);
                s.points.room[n] = (struct jpeg_point){.bit = {(uint16_t)bit, (uint16_t)(bit >> 16)}};
            }
            struct jpeg_plane planes[3];
            pst_status st = jpeg_decode_planes(s.decoder, &part, 0, 8, &s.points, planes, NULL);
            CHECK(st == PST_OK || st == PST_EUNSUPPORTED);
            CHECK(s.points.known <= s.points.count);
            refused += st != PST_OK;
        }
        s.points.known = s.points.count + 1;
        const struct region whole = {.width = r.width, .height = r.height};
        CHECK_INT(outcome(&s, &whole, 8, &s.points), (uint64_t)(int64_t)PST_EUNSUPPORTED);
        subject_close(&s);
        free(data);
    }
    CHECK_MSG(refused > 100, "%u", refused);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"sound", test_sound},
                                        {"pixels", test_pixels},
                                        {"stream", test_stream},
                                        {"damaged", test_damaged},
                                        {"trouble behind", test_trouble_behind},
                                        {"hostile", test_hostile},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
