/* test_entropy_use.c: entropy indexes at work: whose points an image gets, and who adds to them. Pipelines with them:
 * test_entropy_flow.c. */
#include "entropy_fixture.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/thread.h"
#include "source/jpeg_points.h"

#define PHOTOS 6

/* ---- A source of records that holds photos ---- */

struct album {
    struct entropy_section section;
    uint8_t *bytes;
    size_t length;
    _Atomic uint32_t states[64];
    bool damaged;
};

static bool album_entropy(const void *source, uint64_t index, struct entropy_home *ret)
{
    const struct album *a = source;
    *ret = (struct entropy_home){
        .section = a->damaged ? NULL : &a->section, .record = index, .states = (_Atomic uint32_t *)(uintptr_t)a->states};
    return true;
}

static const struct source_class stored_class = {.entropy = album_entropy}, plain_class = {0};

/* Record i holds `each` of the photos from i × each on. */
static void album_make(struct album *a, const pst_bytes *photos, size_t count, size_t each)
{
    struct entropy_scanner *scanner = NULL;
    struct entropy_builder b = {0};
    pst_error e;
    *a = (struct album){0};
    CHECK_STATUS(entropy_scanner_create(&scanner, &e), PST_OK, &e);
    for (size_t i = 0; i < count; i++)
        CHECK_STATUS(entropy_scanner_add(scanner, &b, i / each, photos[i].data, photos[i].length, &e), PST_OK, &e);
    CHECK_STATUS(entropy_builder_bytes(&b, &a->bytes, &a->length, &e), PST_OK, &e);
    CHECK(entropy_section_open(&a->section, a->bytes, a->length));
    CHECK_INT(a->section.count, count);
    entropy_builder_finish(&b);
    entropy_scanner_destroy(scanner);
}

static void photos_make(pst_bytes *photos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        photos[i] = photo((uint32_t)i);
}

static void photos_free(pst_bytes *photos, size_t count)
{
    for (size_t i = 0; i < count; i++)
        photo_free(photos[i]);
}

/* Points that are handed out are those of these bytes, or it says so. */
static void check_points(struct jpeg_decoder *d, const struct jpeg_points *points, uint64_t sample)
{
    size_t count = jpeg_points_count(d);
    struct jpeg_point *want = calloc(count, sizeof(*want));
    bool same = points->step == JPEG_POINT_STEP && points->count == count && points->known <= count &&
                (jpeg_points_find(d, want, NULL) == PST_OK || !points->sound) &&
                memcmp(want, points->point, points->known * sizeof(*want)) == 0;
    CHECK_MSG(same, "sample %llu got the points of another image", (unsigned long long)sample);
    free(want);
}

/* Decodes rows from one that is not the first up to `end`, as far as these are there. Returns how many points were known
 * before. */
static uint32_t ask_for(struct entropy *e, struct jpeg_decoder *d, uint64_t sample, pst_bytes image, uint32_t end)
{
    struct jpeg_frame frame;
    struct entropy_use use;
    struct jpeg_plane planes[3];
    pst_error error;
    if (!CHECK_STATUS(jpeg_decoder_open(d, image.data, image.length, &frame, &error), PST_OK, &error))
        return 0;
    if (!entropy_begin(e, sample, d, image.data, image.length, &use))
        return 0;
    const uint32_t known = use.points.known, bottom = end < frame.height ? end : frame.height;
    const struct region part = {.y = bottom - 1, .width = frame.width, .height = 1};
    check_points(d, &use.points, sample);
    pst_status st = jpeg_decode_planes(d, &part, 0, 8, &use.points, planes, &error);
    CHECK(st == PST_OK || st == PST_EUNSUPPORTED);
    check_points(d, &use.points, sample);
    entropy_done(e, &use);
    return known;
}

/* The last row. Whether anything was known. */
static bool ask(struct entropy *e, struct jpeg_decoder *d, uint64_t sample, pst_bytes image)
{
    return ask_for(e, d, sample, image, UINT32_MAX) > 0;
}

static struct entropy *entropy_made(const struct source_class *class, const void *source, uint64_t samples, uint64_t budget)
{
    struct entropy *e = NULL;
    pst_error error;
    CHECK_STATUS(entropy_create(&e, class, source, samples, budget, &error), PST_OK, &error);
    return e;
}

static void check_counts(const struct entropy *e, uint64_t stored, uint64_t made, uint64_t stale)
{
    struct entropy_counts c = entropy_count(e);
    CHECK_INT(c.stored, stored);
    CHECK_INT(c.made, made);
    CHECK_INT(c.stale, stale);
}

static void test_stored(void)
{
    pst_bytes photos[PHOTOS];
    struct album a;
    struct jpeg_decoder *d = jpeg_decoder_create();
    photos_make(photos, PHOTOS);
    album_make(&a, photos, PHOTOS, 1);
    struct entropy *e = entropy_made(&stored_class, &a, PHOTOS, 0);
    for (int pass = 0; pass < 3; pass++)
        for (size_t i = 0; i < PHOTOS; i++)
            CHECK(ask(e, d, i, photos[i]));
    check_counts(e, PHOTOS, 0, 0);
    CHECK_INT(entropy_bytes(e), 0);
    CHECK(!ask(e, d, PHOTOS + 3, photos[0])); /* a record that has none */
    CHECK(!ask(NULL, d, 0, photos[0]));
    check_counts(NULL, 0, 0, 0);
    entropy_refuse(NULL, 0, photos[0].data, photos[0].length);
    CHECK(!ask(e, d, 1, photos[0])); /* an image that another operation put there */
    check_counts(e, PHOTOS, 0, 0);
    entropy_destroy(e);
    mem_free(a.bytes);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
}

/* Zeros behind the end of an image make it as long as another. */
static pst_bytes padded(pst_bytes image, size_t length)
{
    uint8_t *data = calloc(1, length);
    memcpy(data, image.data, image.length);
    photo_free(image);
    return (pst_bytes){data, length};
}

/* Several JPEGs in one record, two of them of one length. */
static void test_several(void)
{
    pst_bytes photos[PHOTOS];
    struct album a;
    struct jpeg_decoder *d = jpeg_decoder_create();
    photos_make(photos, PHOTOS);
    size_t most = (photos[3].length > photos[5].length ? photos[3].length : photos[5].length) + 1;
    photos[3] = padded(photos[3], most);
    photos[5] = padded(photos[5], most);
    album_make(&a, photos, PHOTOS, 3);
    for (int reversed = 0; reversed < 2; reversed++) {
        struct entropy *e = entropy_made(&stored_class, &a, 2, 0);
        memset((void *)a.states, 0, sizeof(a.states));
        for (int pass = 0; pass < 3; pass++)
            for (size_t k = 0; k < PHOTOS; k++) {
                size_t i = reversed ? PHOTOS - 1 - k : k;
                CHECK(ask(e, d, i / 3, photos[i]));
            }
        check_counts(e, PHOTOS, 0, 0);
        entropy_destroy(e);
    }
    mem_free(a.bytes);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
}

/* Other bytes of the same length. */
static void test_stale(void)
{
    pst_bytes photos[PHOTOS];
    struct album a;
    struct jpeg_decoder *d = jpeg_decoder_create();
    photos_make(photos, PHOTOS);
    album_make(&a, photos, PHOTOS, 1);
    struct entropy *e = entropy_made(&stored_class, &a, PHOTOS, 0);
    ((uint8_t *)(uintptr_t)photos[2].data)[photos[2].length - 40] ^= 4;
    for (int pass = 0; pass < 2; pass++) {
        CHECK(!ask(e, d, 2, photos[2]));
        check_counts(e, 0, 0, 1);
    }
    /* Once it was right: other bytes do not get the points, and the right ones still do. */
    CHECK(ask(e, d, 3, photos[3]));
    uint8_t *byte = (uint8_t *)(uintptr_t)photos[3].data + photos[3].length / 2 + 37; /* any byte counts */
    *byte ^= 4;
    CHECK(!ask(e, d, 3, photos[3]));
    *byte ^= 4;
    CHECK(ask(e, d, 3, photos[3]));
    check_counts(e, 1, 0, 1);
    /* What the decoder refuses is gone. */
    CHECK(ask(e, d, 4, photos[4]));
    entropy_refuse(e, 4, photos[4].data, photos[4].length);
    entropy_refuse(e, 4, photos[4].data, photos[4].length);
    CHECK(!ask(e, d, 4, photos[4]));
    check_counts(e, 2, 0, 2);
    entropy_destroy(e);
    mem_free(a.bytes);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
}

static void test_damaged(void)
{
    pst_bytes photos[PHOTOS];
    struct album a;
    struct jpeg_decoder *d = jpeg_decoder_create();
    photos_make(photos, PHOTOS);
    album_make(&a, photos, PHOTOS, 1);
    struct entropy_entry *entries = (struct entropy_entry *)(void *)(a.bytes + 64);
    struct entropy *e = entropy_made(&stored_class, &a, PHOTOS, 1 << 20);
    entries[1].hash ^= 1;
    a.bytes[a.length - 3] ^= 8; /* a point of the last one */
    entries[2].count--;         /* with a checksum that is right */
    entry_seal(&entries[2], a.section.points + entries[2].first);
    for (int pass = 0; pass < 3; pass++) /* …and then they are collected */
        for (size_t i = 0; i < PHOTOS; i++)
            CHECK(ask(e, d, i, photos[i]) == (pass > 0 || (i != 1 && i != 2 && i != PHOTOS - 1)));
    check_counts(e, PHOTOS - 2, 3, 3); /* the short one was right until somebody counted */
    entropy_destroy(e);

    a.damaged = true;
    memset((void *)a.states, 0, sizeof(a.states));
    e = entropy_made(&stored_class, &a, PHOTOS, 1 << 20);
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < PHOTOS; i++)
            CHECK(ask(e, d, i, photos[i]) == (pass > 0));
    check_counts(e, 0, PHOTOS, 1);
    entropy_destroy(e);
    mem_free(a.bytes);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
}

/* ---- Collected ---- */

static void test_made(void)
{
    pst_bytes photos[PHOTOS];
    struct jpeg_decoder *d = jpeg_decoder_create();
    photos_make(photos, PHOTOS);
    struct entropy *e = entropy_made(&plain_class, NULL, PHOTOS, 1 << 20);
    for (int pass = 0; pass < 4; pass++)
        for (size_t i = 0; i < PHOTOS; i++)
            CHECK(ask(e, d, i, photos[i]) == (pass > 0));
    check_counts(e, 0, PHOTOS, 0);
    uint64_t used = entropy_bytes(e);
    CHECK(used > PHOTOS * 100 && used < 1 << 20);
    /* Another image in its place, as a second field or as a file that was rewritten: its own points. */
    CHECK(!ask(e, d, 0, photos[1]));
    CHECK(ask(e, d, 0, photos[0]));
    CHECK(ask(e, d, 0, photos[1]));
    check_counts(e, 0, PHOTOS + 1, 0);
    uint8_t *byte = (uint8_t *)(uintptr_t)photos[2].data + photos[2].length / 2 + 37; /* as long, but not the same */
    *byte ^= 4;
    CHECK(!ask(e, d, 2, photos[2]));
    *byte ^= 4;
    CHECK(ask(e, d, 2, photos[2]));
    check_counts(e, 0, PHOTOS + 2, 0);
    entropy_refuse(e, 0, photos[0].data, photos[0].length); /* is about stored ones */
    CHECK(ask(e, d, 0, photos[0]));
    check_counts(e, 0, PHOTOS + 2, 0);
    CHECK(!ask(e, d, PHOTOS, photos[0]) && !ask(e, d, PHOTOS, photos[0]) && !ask(e, d, UINT64_MAX, photos[0]));
    entropy_destroy(e);
    /* An image of a single point needs none. */
    pst_bytes tiny = photo_of(jpeg_kind_named("4:4:4"), 16, 16, 1);
    e = entropy_made(&plain_class, NULL, 2, 1 << 20);
    for (int pass = 0; pass < 3; pass++)
        CHECK(!ask(e, d, 1, tiny));
    check_counts(e, 0, 0, 0);
    CHECK(entropy_bytes(e) < 200);
    entropy_destroy(e);
    photo_free(tiny);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
}

/* As many as the parts before reached; of an image that is not sound, up to the trouble. */
static void test_prefix(void)
{
    struct jpeg_decoder *d = jpeg_decoder_create();
    pst_bytes image = photo(0), cut = {image.data, image.length * 2 / 3}; /* 15 × 12 MCUs, 12 points */
    struct entropy *e = entropy_made(&plain_class, NULL, 2, 1 << 20);
    CHECK_INT(ask_for(e, d, 0, image, 16), 0);
    CHECK_INT(entropy_count(e).made, 1);
    uint64_t used = entropy_bytes(e);
    CHECK_INT(ask_for(e, d, 0, image, 8), 2); /* 30 MCUs were read */
    CHECK_INT(ask_for(e, d, 0, image, 48), 2);
    CHECK_INT(ask_for(e, d, 0, image, 90), 6); /* 90 MCUs */
    CHECK_INT(ask_for(e, d, 0, image, 90), 12);
    CHECK_INT(entropy_bytes(e), used); /* room for all was taken at once */
    CHECK_INT(ask_for(e, d, 1, cut, 90), 0);
    uint32_t known = ask_for(e, d, 1, cut, 8);
    CHECK_MSG(known > 2 && known < 11, "%u", known);
    CHECK_INT(ask_for(e, d, 1, cut, 90), known);
    CHECK_INT(ask_for(e, d, 1, cut, 90), known);
    check_counts(e, 0, 2, 0); /* damage is not staleness */
    entropy_destroy(e);
    photo_free(image);
    jpeg_decoder_free(d);
}

/* Two workers have an image at once: one adds, the other uses what is known, and neither waits. */
static void test_claim(void)
{
    struct jpeg_decoder *d = jpeg_decoder_create();
    pst_bytes image = photo(0);
    struct jpeg_frame frame;
    struct jpeg_plane planes[3];
    struct entropy_use one, two, three;
    pst_error error;
    struct entropy *e = entropy_made(&plain_class, NULL, 1, 1 << 20);
    CHECK_INT(ask_for(e, d, 0, image, 16), 0);
    REQUIRE_OK(jpeg_decoder_open(d, image.data, image.length, &frame, &error), &error);
    const struct region part = {.y = 40, .width = frame.width, .height = 8};
    CHECK(entropy_begin(e, 0, d, image.data, image.length, &one) && entropy_begin(e, 0, d, image.data, image.length, &two));
    CHECK(one.points.room && !two.points.room && one.points.point == two.points.point);
    CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &two.points, planes, &error), PST_OK, &error);
    CHECK_STATUS(jpeg_decode_planes(d, &part, 0, 8, &one.points, planes, &error), PST_OK, &error);
    CHECK(one.points.known == 6 && two.points.known == 2);
    entropy_done(e, &two); /* does not end the claim of the other */
    CHECK(entropy_begin(e, 0, d, image.data, image.length, &three) && !three.points.room && three.points.known == 2);
    entropy_done(e, &one);
    entropy_done(e, &three);
    CHECK(entropy_begin(e, 0, d, image.data, image.length, &three) && three.points.room && three.points.known == 6);
    entropy_done(e, &three);
    check_counts(e, 0, 1, 0);
    entropy_destroy(e);
    photo_free(image);
    jpeg_decoder_free(d);
}

static void test_budget(void)
{
    pst_bytes photos[PHOTOS];
    struct jpeg_decoder *d = jpeg_decoder_create();
    uint64_t before = 0;
    photos_make(photos, PHOTOS);
    for (uint64_t budget = 0; budget < 12000; budget += 100) {
        struct entropy *e = entropy_made(&plain_class, NULL, PHOTOS, budget);
        uint64_t had = 0;
        for (int pass = 0; pass < 3; pass++)
            for (size_t i = 0; i < PHOTOS; i++) {
                had += ask(e, d, i, photos[i]) && pass == 2;
                CHECK(entropy_bytes(e) <= budget);
            }
        CHECK(had == entropy_count(e).made && had >= before); /* none goes away for another */
        before = had;
        entropy_destroy(e);
    }
    CHECK_INT(before, PHOTOS);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
}

static void test_no_memory(void)
{
    pst_bytes photos[2];
    struct jpeg_decoder *d = jpeg_decoder_create();
    struct entropy *e = NULL;
    pst_error error;
    uint64_t live = mem_live();
    photos_make(photos, 2);
    for (uint64_t n = 0; n < 2; n++) {
        test_fault_arm(FAULT_MEMORY, n, false);
        CHECK_STATUS(entropy_create(&e, &plain_class, NULL, 2, 1 << 20, &error), PST_ENOMEM, &error);
        test_fault_clear();
    }
    e = entropy_made(&plain_class, NULL, 2, 1 << 20);
    uint64_t used = entropy_bytes(e);
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK(!ask(e, d, 0, photos[0]));
    test_fault_clear();
    CHECK_INT(entropy_bytes(e), used);
    CHECK(!ask(e, d, 0, photos[0]));
    CHECK(ask(e, d, 0, photos[0]));
    check_counts(e, 0, 1, 0);
    entropy_destroy(e);
    jpeg_decoder_free(d);
    CHECK(mem_live() < live);
    photos_free(photos, 2);
}

/* ---- From many threads ---- */

struct crowd {
    struct entropy *stored, *made;
    const pst_bytes *photos;
};

static void crowd_run(void *user, unsigned worker)
{
    struct crowd *c = user;
    struct jpeg_decoder *d = jpeg_decoder_create();
    for (uint32_t pass = 0; pass < 12; pass++)
        for (size_t i = 0; i < PHOTOS; i++) {
            size_t at = worker % 4 == 3 ? PHOTOS - 1 - i : i; /* most have the same one at once */
            CHECK(ask(c->stored, d, at, c->photos[at]));
            ask_for(c->made, d, at % 2, c->photos[at], (pass + 1) * 8);
        }
    jpeg_decoder_free(d);
}

static void test_threads(void)
{
    pst_bytes photos[PHOTOS];
    struct album a;
    struct thread_group *g = NULL;
    pst_error e;
    photos_make(photos, PHOTOS);
    album_make(&a, photos, PHOTOS, 1);
    struct crowd c = {entropy_made(&stored_class, &a, PHOTOS, 0), entropy_made(&plain_class, NULL, 2, 1 << 20), photos};
    REQUIRE_OK(thread_group_start(&g, 4, "test", crowd_run, &c, &e), &e);
    thread_group_join(g);
    check_counts(c.stored, PHOTOS, 0, 0);
    check_counts(c.made, 0, PHOTOS, 0);
    struct jpeg_decoder *d = jpeg_decoder_create();
    for (size_t i = 0; i < PHOTOS; i++) {
        ask(c.made, d, i % 2, photos[i]); /* nobody has it any more */
        CHECK_INT(ask_for(c.made, d, i % 2, photos[i], 8), jpeg_points_count(d));
    }
    jpeg_decoder_free(d);
    entropy_destroy(c.stored);
    entropy_destroy(c.made);
    mem_free(a.bytes);
    photos_free(photos, PHOTOS);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"stored", test_stored},       {"several", test_several}, {"stale", test_stale}, {"damaged", test_damaged},
        {"made", test_made},           {"prefix", test_prefix},   {"claim", test_claim}, {"budget", test_budget},
        {"no_memory", test_no_memory}, {"threads", test_threads}, {NULL, NULL}};
    return test_main(argc, argv, tests);
}
