/* test_entropy_use.c: entropy indexes at work: whose points an image gets, and that nobody can tell from the pixels. */
#include "entropy_fixture.h"
#include "flow_harness.h"

#include "base/le.h"
#include "base/thread.h"
#include "ops/entropy.h"
#include "record/frame.h"
#include "record/index.h"

#include <sys/stat.h>
#include <unistd.h>

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

/* Points that are handed out are those of these bytes, or it says so. Returns whether there were any. */
static bool ask(struct entropy *e, struct jpeg_decoder *d, uint64_t sample, pst_bytes image)
{
    struct jpeg_frame frame;
    struct jpeg_points points;
    pst_error error;
    if (!CHECK_STATUS(jpeg_decoder_open(d, image.data, image.length, &frame, &error), PST_OK, &error))
        return false;
    if (!entropy_points(e, sample, d, image.data, image.length, &points))
        return false;
    size_t count = jpeg_points_count(d);
    struct jpeg_point *want = calloc(count, sizeof(*want));
    bool same = points.step == JPEG_POINT_STEP && points.count == count && jpeg_points_find(d, want, &error) == PST_OK &&
                memcmp(want, points.point, count * sizeof(*want)) == 0;
    CHECK_MSG(same, "sample %llu got the points of another image", (unsigned long long)sample);
    free(want);
    return true;
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

static void seal(struct entropy_entry *e, const struct jpeg_point *points)
{
    e->checksum = hash_bytes(points, e->count * sizeof(*points), hash_bytes(e, offsetof(struct entropy_entry, checksum), 0));
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
    seal(&entries[2], a.section.points + entries[2].first);
    for (int pass = 0; pass < 3; pass++) /* …and then they are made */
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

/* ---- Made on the second sight ---- */

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
    CHECK(ask(e, d, 0, photos[1]));
    CHECK(ask(e, d, 0, photos[0]));
    CHECK(ask(e, d, 0, photos[1]));
    check_counts(e, 0, PHOTOS + 1, 0);
    entropy_refuse(e, 0, photos[0].data, photos[0].length);
    entropy_refuse(e, 0, photos[0].data, photos[0].length);
    CHECK(!ask(e, d, 0, photos[0]) && ask(e, d, 0, photos[1]));
    check_counts(e, 0, PHOTOS + 1, 1);
    CHECK(!ask(e, d, PHOTOS, photos[0]) && !ask(e, d, PHOTOS, photos[0]) && !ask(e, d, UINT64_MAX, photos[0]));
    entropy_destroy(e);
    /* An image that is not sound has none, and one of a single point needs none. */
    pst_bytes cut = {photos[0].data, photos[0].length * 2 / 3}, tiny = photo_of(jpeg_kind_named("4:4:4"), 16, 16, 1);
    e = entropy_made(&plain_class, NULL, 2, 1 << 20);
    for (int pass = 0; pass < 3; pass++)
        CHECK(!ask(e, d, 0, cut) && !ask(e, d, 1, tiny));
    check_counts(e, 0, 0, 0);
    CHECK(entropy_bytes(e) < 200);
    entropy_destroy(e);
    photo_free(tiny);
    jpeg_decoder_free(d);
    photos_free(photos, PHOTOS);
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
    CHECK(!ask(e, d, 0, photos[0]));
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK(!ask(e, d, 0, photos[0]));
    test_fault_clear();
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
    for (int pass = 0; pass < 6; pass++)
        for (size_t i = 0; i < PHOTOS; i++) {
            size_t at = worker % 2 ? PHOTOS - 1 - i : i;
            CHECK(ask(c->stored, d, at, c->photos[at]));
            ask(c->made, d, at % 2, c->photos[at]);
            if (pass == 4 && worker == 0)
                entropy_refuse(c->made, at % 2, c->photos[at].data, c->photos[at].length);
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
    check_counts(c.made, 0, PHOTOS, PHOTOS);
    entropy_destroy(c.stored);
    entropy_destroy(c.made);
    mem_free(a.bytes);
    photos_free(photos, PHOTOS);
}

/* ---- In pipelines ---- */

#define CROP "| shuffle | example \"image:bytes label:int64\" | decode quality="

static const char *const sources[] = {"plain", "indexed", "stale", "spoilt"};
static const char *const chains[] = {
    "exact | random_resized_crop 48 | flip | batch 5",
    "fast | random_resized_crop 48 | flip | batch 5",
    "exact | random_crop 40 | batch 4",
    "fast | resize 64 | center_crop 48 | normalize | batch 8",
};

/* Flips a bit of every so many-th byte from `at` on. */
static void spoil(const char *path, size_t at, size_t step)
{
    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    for (size_t i = at; i < length; i += step)
        bytes[i] ^= 16;
    test_write_file(path, bytes, length);
    free(bytes);
}

/* The same shard four times: without an index, with one, with one whose entries speak of other JPEGs, and with one that is
 * damaged throughout. */
static void make_shards(void)
{
    pst_entropy_report r;
    pst_error e;
    REQUIRE(chdir(test_folder()) == 0);
    for (size_t i = 0; i < 4; i++) {
        char path[64], index[80];
        mkdir(sources[i], 0755);
        snprintf(path, sizeof(path), "%s/a.tfrecord", sources[i]);
        snprintf(index, sizeof(index), "%s.pidx", path);
        photo_shard(path, 12, 0);
        if (i == 0)
            continue;
        REQUIRE_OK(pst_index_entropy(path, NULL, false, 1, NULL, NULL, &r, &e), &e);
        CHECK_INT(r.indexed, 12);
        if (i == 1)
            continue;
        struct index x = {0};
        REQUIRE_OK(index_open(&x, index, &e), &e);
        uint64_t at = (uint64_t)((const uint8_t *)x.jpegs - x.file);
        index_finish(&x);
        if (i == 2) { /* sound, and wrong: the hash of each is another's */
            size_t length;
            uint8_t *bytes = test_read_file(index, &length);
            struct entropy_entry *entries = (struct entropy_entry *)(void *)(bytes + at + 64);
            for (size_t k = 0; k < 12; k++) {
                entries[k].hash++;
                seal(&entries[k], (const struct jpeg_point *)(const void *)(bytes + at + 64 + 12 * 48) + entries[k].first);
            }
            test_write_file(index, bytes, length);
            free(bytes);
        } else {
            spoil(index, (size_t)at + 64 + 12 * 48 + 5, 20);
        }
    }
}

static void chain_text(char *text, size_t size, const char *source, const char *chain)
{
    snprintf(text, size, "tfrecord %s " CROP "%s", source, chain);
}

/* With the index, without it, with a wrong one, by any number of workers, in every epoch. */
static void test_pixels(void)
{
    for (size_t c = 0; c < sizeof(chains) / sizeof(*chains); c++) {
        struct trace want = {0};
        for (size_t s = 0; s < 4; s++) {
            static const unsigned workers[] = {1, 2, 3, 8};
            char text[256];
            chain_text(text, sizeof(text), sources[s], chains[c]);
            const struct chain_case one = {.name = text, .text = text};
            for (size_t w = 0; w < 4; w++) {
                struct trace t = traced(&one, (pst_options){.workers = workers[w]});
                if (want.count == 0)
                    want = t;
                CHECK_MSG(t.count > 4 && same(&want, &t), "%s: %u workers differ", text, workers[w]);
            }
        }
    }
}

static pst_stats run_stats(const char *text, int epochs)
{
    const struct chain_case one = {.name = text, .text = text};
    pst_stats s = {.size = sizeof(s)};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&one, (pst_options){.workers = 2});
    if (!p)
        return s;
    CHECK_MSG(run_on(p, &t, epochs, 99, &e) >= 0, "%s", e.message);
    CHECK_STATUS(pst_pipeline_stats(p, &s, &e), PST_OK, &e);
    pst_pipeline_destroy(p);
    return s;
}

static void test_statistics(void)
{
    static const struct {
        const char *source;
        uint64_t stored, stale; /* of 12 */
    } want[] = {{"plain", 0, 0}, {"indexed", 12, 0}, {"stale", 0, 12}, {"spoilt", 0, 12}};
    char text[256];
    for (size_t i = 0; i < 4; i++) {
        chain_text(text, sizeof(text), want[i].source, chains[0]);
        pst_stats s = run_stats(text, 3);
        CHECK_INT(s.entropy_stored, want[i].stored);
        CHECK_INT(s.entropy_stale, want[i].stale);
        CHECK_INT(s.entropy_made, i == 0 ? 12 : 0); /* what has a section is not made again */
        CHECK(s.ram_used <= s.ram_planned);
    }
    CHECK_INT(run_stats("tfrecord plain | batch 3", 2).entropy_made, 0);
}

/* Elements of a cache, of files, of a repeated epoch. */
static void test_other_sources(void)
{
    char path[64];
    mkdir("files", 0755);
    mkdir("files/a", 0755);
    for (uint32_t i = 0; i < 5; i++) {
        pst_bytes image = photo(i);
        snprintf(path, sizeof(path), "files/a/%u.jpg", i);
        test_write_file(path, image.data, image.length);
        photo_free(image);
    }
    CHECK_INT(run_stats("folder files | decode | random_resized_crop 40 | batch 2", 3).entropy_made, 5);
    CHECK_INT(run_stats("folder files | shuffle | repeat 3 | decode | random_resized_crop 40 | batch 2", 1).entropy_made, 5);
    CHECK_INT(run_stats("folder files | cache | decode | random_resized_crop 40 | batch 2", 3).entropy_made, 5);
    CHECK_INT(run_stats("tfrecord indexed | example \"image:bytes\" | cache | decode | random_resized_crop 40 | batch 2", 2)
                  .entropy_stored,
              12);
    static const struct chain_case cases[] = {
        {"files", .text = "folder files | shuffle | decode | random_resized_crop 40 | batch 2"},
        {"repeat", .text = "folder files | shuffle | repeat 2 | decode quality=exact | random_resized_crop 40 | batch 2"},
        {"cache",
         .text = "tfrecord plain | shuffle | example \"image:bytes\" | cache | decode | random_resized_crop 40 | batch 3"},
        {.name = NULL}};
    harness_workers(cases);
}

static void test_faults(void)
{
    static const struct chain_case cases[] = {
        {"indexed", .text = "tfrecord indexed | take 4 | example \"image:bytes\" | decode | random_resized_crop 24 | batch 2"},
        {"made", .text = "tfrecord plain | take 4 | example \"image:bytes\" | decode | random_resized_crop 24 | batch 2"},
        {.name = NULL}};
    harness_faults(cases, FAULT_MEMORY);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"stored", test_stored},
                                        {"several", test_several},
                                        {"stale", test_stale},
                                        {"damaged", test_damaged},
                                        {"made", test_made},
                                        {"budget", test_budget},
                                        {"no_memory", test_no_memory},
                                        {"threads", test_threads},
                                        {"shards", make_shards}, /* for those below */
                                        {"pixels", test_pixels},
                                        {"statistics", test_statistics},
                                        {"other_sources", test_other_sources},
                                        {"faults", test_faults},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
