/* test_entropy.c: the JPEG section of an index: whole, damaged and hostile; made from shards of every kind. */
#include "entropy_fixture.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/memory.h"
#include "codec/jpeg/decoder.h"
#include "record/entropy_section.h"
#include "record/frame.h"
#include "record/index.h"
#include "record/index_find.h"

#include <fcntl.h>
#include <penstock/inspect.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY sizeof(struct entropy_entry)

/* ---- Sections made by hand ---- */

struct small_jpeg {
    uint64_t record;
    uint32_t points;
};

/* Records 0, 2 and 5 hold one, two and three JPEGs. */
static const struct small_jpeg small[] = {{0, 3}, {2, 2}, {2, 4}, {5, 2}, {5, 2}, {5, 7}};
#define SMALL (sizeof(small) / sizeof(*small))

static struct jpeg_point point_of(size_t jpeg, size_t i)
{
    return (struct jpeg_point){{(uint16_t)(jpeg * 1000 + i), (uint16_t)i}, {(int16_t)jpeg, (int16_t) - (int)i, 7}};
}

static void add_small(struct entropy_builder *b, size_t jpeg, uint64_t record)
{
    void *entries = b->entries, *points = b->points;
    if (mem_grow(&entries, &b->capacity, b->count + 1, ENTRY) < 0 ||
        mem_grow(&points, &b->point_capacity, b->point_count + small[jpeg].points, sizeof(*b->points)) < 0)
        abort();
    b->entries = entries;
    b->points = points;
    b->entries[b->count++] = (struct entropy_entry){.record = record,
                                                    .offset = (uint32_t)jpeg * 10,
                                                    .length = 100 + (uint32_t)jpeg,
                                                    .hash = jpeg * 77,
                                                    .first = b->point_count,
                                                    .count = small[jpeg].points};
    for (size_t i = 0; i < small[jpeg].points; i++)
        b->points[b->point_count++] = point_of(jpeg, i);
    b->sums.jpegs++;
    b->sums.bytes += 100;
}

/* The section of the table above. mem_free() it. */
static uint8_t *small_section(size_t *ret_length)
{
    struct entropy_builder b = {0};
    uint8_t *bytes = NULL;
    pst_error e;
    for (size_t i = 0; i < SMALL; i++)
        add_small(&b, i, small[i].record);
    b.sums.foreign = 4;
    b.sums.damaged = 1;
    b.sums.jpegs += 5;
    if (entropy_builder_bytes(&b, &bytes, ret_length, &e) < 0)
        abort();
    entropy_builder_finish(&b);
    return bytes;
}

/* Every entry of an open section that can be had is one of the table's, with its points. Returns how many. */
static size_t check_small(const struct entropy_section *s)
{
    size_t had = 0;
    for (uint64_t record = 0; record < 8; record++) {
        size_t n = 0;
        const struct entropy_entry *e = entropy_section_find(s, record, &n);
        CHECK((e == NULL) == (n == 0));
        for (size_t k = 0; k < n; k++) {
            struct jpeg_points points;
            if (!entropy_section_points(s, &e[k], &points))
                continue;
            size_t jpeg = e[k].hash / 77;
            bool same = jpeg < SMALL && e[k].hash % 77 == 0 && small[jpeg].record == record && e[k].length == 100 + jpeg &&
                        points.count == small[jpeg].points && points.step == JPEG_POINT_STEP;
            for (size_t i = 0; same && i < points.count; i++) {
                struct jpeg_point want = point_of(jpeg, i);
                same = memcmp(&points.point[i], &want, sizeof(want)) == 0;
            }
            CHECK_MSG(same, "record %llu: a wrong entry passes for right", (unsigned long long)record);
            had++;
        }
    }
    return had;
}

static void test_round_trip(void)
{
    size_t length = 0, n = 9;
    uint8_t *bytes = small_section(&length);
    struct entropy_section s;
    REQUIRE(entropy_section_open(&s, bytes, length));
    CHECK_INT(s.count, SMALL);
    CHECK_INT(s.sums.jpegs, SMALL + 5);
    CHECK_INT(s.sums.foreign, 4);
    CHECK_INT(s.sums.damaged, 1);
    CHECK_INT(length, 64 + SMALL * ENTRY + s.point_count * 10);
    CHECK_INT(check_small(&s), SMALL);
    CHECK(!entropy_section_find(&s, 1, &n) && n == 0);
    CHECK(!entropy_section_find(&s, UINT64_MAX, &n) && n == 0);
    CHECK(entropy_section_find(&s, 5, &n) && n == 3);
    mem_free(bytes);
}

/* Parts that workers made, one behind the other, are the whole. */
static void test_append(void)
{
    struct entropy_builder whole = {0}, part = {0};
    size_t length = 0, joined = 0;
    uint8_t *want = small_section(&length), *got = NULL;
    pst_error e;
    for (size_t i = 0; i < SMALL; i++) {
        entropy_builder_reset(&part);
        add_small(&part, i, 0);
        REQUIRE_OK(entropy_builder_append(&whole, &part, small[i].record, &e), &e);
    }
    entropy_builder_reset(&part);
    part.sums = (struct entropy_sums){.jpegs = 5, .foreign = 4, .damaged = 1};
    REQUIRE_OK(entropy_builder_append(&whole, &part, 9, &e), &e);
    REQUIRE_OK(entropy_builder_bytes(&whole, &got, &joined, &e), &e);
    CHECK(joined == length && memcmp(got, want, length) == 0);
    mem_free(got);
    mem_free(want);
    entropy_builder_finish(&part);
    entropy_builder_finish(&whole);
}

/* Any single bit, any cut: what is touched is not used, and only that. */
static void test_damage(void)
{
    size_t length = 0;
    uint8_t *bytes = small_section(&length);
    struct entropy_section s;
    for (size_t bit = 0; bit < length * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        bool open = entropy_section_open(&s, bytes, length);
        CHECK(open == (bit / 8 >= 64));
        if (open) /* a record's number decides what is found, too */
            CHECK_MSG(check_small(&s) < SMALL, "bit %zu was not noticed", bit);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++) {
        uint8_t *rest = malloc(cut + 1); /* so that reading behind it shows */
        memcpy(rest, bytes, cut);
        CHECK(!entropy_section_open(&s, rest, cut));
        free(rest);
    }
    mem_free(bytes);
}

static void seal_header(uint8_t *bytes)
{
    put_le64(bytes + 56, hash_bytes(bytes, 56, 0));
}

/* Numbers that lie, with checksums that are right. */
static void test_hostile(void)
{
    static const uint64_t lies[] = {7,
                                    1 << 20,
                                    UINT32_MAX,
                                    UINT64_MAX / 48,
                                    UINT64_MAX / 48 + 1,
                                    UINT64_MAX / 10 + 1,
                                    UINT64_MAX / 2,
                                    UINT64_MAX - 1,
                                    UINT64_MAX};
    size_t length = 0;
    struct entropy_section s;
    for (size_t i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
        uint8_t *bytes = small_section(&length);
        put_le64(bytes + 8, lies[i]);
        seal_header(bytes);
        CHECK(!entropy_section_open(&s, bytes, length));
        mem_free(bytes);
        bytes = small_section(&length);
        put_le64(bytes + 16, lies[i] + 20);
        seal_header(bytes);
        CHECK(!entropy_section_open(&s, bytes, length) || lies[i] + 20 <= 20);
        mem_free(bytes);

        bytes = small_section(&length);
        REQUIRE(entropy_section_open(&s, bytes, length));
        struct entropy_entry *e = (struct entropy_entry *)(void *)(bytes + 64);
        struct jpeg_points points;
        e->first = lies[i] + 20;
        CHECK(!entropy_section_points(&s, e, &points) || e->first < 20);
        e->first = 0;
        e->count = (uint32_t)lies[i] + 20;
        CHECK(!entropy_section_points(&s, e, &points));
        CHECK(!entropy_section_view(&s, e, &points) || e->count <= s.point_count);
        e->first = s.point_count - 1; /* the last point, and what follows it */
        e->count = 2;
        CHECK(!entropy_section_view(&s, e, &points));
        e->count = 1;
        CHECK(entropy_section_view(&s, e, &points) && points.count == 1);
        mem_free(bytes);
    }
    uint8_t *bytes = small_section(&length);
    put_le32(bytes, JPEG_POINT_STEP * 2); /* a later version's */
    seal_header(bytes);
    CHECK(!entropy_section_open(&s, bytes, length));
    mem_free(bytes);
    /* Records in no order: nothing is promised but an end. */
    bytes = small_section(&length);
    REQUIRE(entropy_section_open(&s, bytes, length));
    for (size_t i = 0; i < SMALL; i++)
        put_le64(bytes + 64 + i * ENTRY, (i * 5 + 3) % 7);
    CHECK_INT(check_small(&s), 0);
    mem_free(bytes);
}

/* ---- In an index ---- */

static struct index_entry two[] = {{0, 10}, {26, 20}};
#define NOTE "penstock"

static void publish_small(const char *path, struct index *x)
{
    pst_error e;
    *x = (struct index){.entries = two, .count = 2, .shard_bytes = 62, .fingerprint = 9, .note = NOTE, .note_length = 8};
    x->jpegs = small_section(&x->jpegs_length);
    CHECK_STATUS(index_publish(path, x, false, &e), PST_OK, &e);
    mem_free((void *)(uintptr_t)x->jpegs);
}

static void test_index_keeps_sections(void)
{
    struct index x, opened = {0}, again = {0};
    struct entropy_section s;
    pst_error e;
    size_t length, n;
    publish_small(test_path("x"), &x);
    REQUIRE_OK(index_open(&opened, test_path("x"), &e), &e);
    CHECK(opened.jpegs_length == x.jpegs_length && entropy_section_open(&s, opened.jpegs, opened.jpegs_length));
    CHECK_INT(check_small(&s), SMALL);
    CHECK(opened.note_length == 8 && memcmp(opened.note, NOTE, 8) == 0 && opened.count == 2);
    CHECK_STATUS(index_check_sections(&opened, "x", &e), PST_OK, &e);
    index_finish(&opened);

    /* What a later version keeps there stays, whoever writes the index anew. */
    uint8_t *bytes = test_read_file(test_path("x"), &length);
    memcpy(bytes + 64 + 32, "LATR", 4);
    put_le64(bytes + 56, hash_bytes(bytes + 64, 3 * 32, hash_bytes(bytes, 56, 0)));
    test_write_file(test_path("later"), bytes, length);
    REQUIRE_OK(index_open(&opened, test_path("later"), &e), &e);
    CHECK(!opened.jpegs);
    opened.jpegs = small_section(&opened.jpegs_length);
    REQUIRE_OK(index_publish(test_path("both"), &opened, false, &e), &e);
    mem_free((void *)(uintptr_t)opened.jpegs);
    REQUIRE_OK(index_open(&again, test_path("both"), &e), &e);
    CHECK_INT(again.lines, 4);
    CHECK(again.jpegs && again.note_length == 8);
    CHECK_STATUS(index_check_sections(&again, "both", &e), PST_OK, &e);
    n = 0;
    for (size_t i = 0; i < again.lines; i++)
        n += memcmp(again.file + 64 + i * 32, "LATR", 4) == 0;
    CHECK_INT(n, 1);
    index_finish(&again);
    index_finish(&opened);
    free(bytes);
}

/* The section is nobody's obstacle: the index opens, with it or without. */
static void test_index_with_damaged_section(void)
{
    struct index x, opened = {0};
    pst_error e;
    size_t length;
    publish_small(test_path("x"), &x);
    uint8_t *bytes = test_read_file(test_path("x"), &length);
    uint64_t at = le64(bytes + 64 + 32 + 8), until = at + le64(bytes + 64 + 32 + 16);
    REQUIRE(memcmp(bytes + 64 + 32, "JPEG", 4) == 0);
    for (uint64_t i = at; i < until; i += 13) {
        bytes[i] ^= 0x40;
        test_write_file(test_path("y"), bytes, length);
        REQUIRE_OK(index_open(&opened, test_path("y"), &e), &e);
        CHECK(opened.jpegs && opened.note);
        CHECK_STATUS(index_check_sections(&opened, "y", &e), PST_ECORRUPT, &e);
        index_finish(&opened);
        bytes[i] ^= 0x40;
    }
    static const uint64_t places[] = {0, 8, 63, 3, UINT64_MAX, UINT64_MAX - 7};
    for (size_t i = 0; i < 12; i++) {
        uint8_t *line = bytes + 64 + 32;
        uint64_t offset = le64(line + 8), size = le64(line + 16);
        put_le64(line + (i % 2 ? 8 : 16), i % 2 ? places[i / 2] : places[i / 2] + length);
        put_le64(bytes + 56, hash_bytes(bytes + 64, 3 * 32, hash_bytes(bytes, 56, 0)));
        test_write_file(test_path("y"), bytes, length);
        REQUIRE_OK(index_open(&opened, test_path("y"), &e), &e);
        CHECK(!opened.jpegs || opened.jpegs_length <= length);
        index_finish(&opened);
        put_le64(line + 8, offset);
        put_le64(line + 16, size);
    }
    free(bytes);
}

/* ---- Shards ---- */

static void write_raw(pst_writer *w, const void *data, size_t length)
{
    pst_error e;
    CHECK_STATUS(pst_writer_write(w, data, length, &e), PST_OK, &e);
}

/* 0 one photo, 1 two of them, 2 a record that is one, 3 text, 4 a progressive one, 5 a small one, 6 one that is cut off, 7 no
 * image, 8 one photo. */
#define MIXED        9
#define MIXED_JPEGS  8
#define MIXED_POINTS 5 /* JPEGs that have some */

static void mixed_shard(const char *path)
{
    pst_error e;
    pst_writer *w = NULL;
    pst_builder *b = NULL;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .overwrite = true};
    REQUIRE_OK(pst_writer_open(&w, path, &options, &e), &e);
    REQUIRE_OK(pst_builder_create(&b, &e), &e);
    pst_bytes photos[] = {photo(1), photo(2), photo(3), photo(4)};
    pst_bytes slow = photo_of(jpeg_kind_named("4:2:0 progressive"), 100, 100, 5);
    pst_bytes tiny = photo_of(jpeg_kind_named("4:4:4"), 8, 8, 6), cut = photo(7), text = {(const uint8_t *)"text", 4};
    cut.length = cut.length * 2 / 3;
    photos_write(w, b, &photos[0], 1, 0);
    photos_write(w, b, &photos[1], 2, 1);
    write_raw(w, photos[3].data, photos[3].length);
    write_raw(w, "neither", 7);
    photos_write(w, b, &slow, 1, 4);
    photos_write(w, b, &tiny, 1, 5);
    photos_write(w, b, &cut, 1, 6);
    photos_write(w, b, &text, 1, 7);
    photos_write(w, b, &photos[3], 1, 8);
    REQUIRE_OK(pst_writer_commit(w, &e), &e);
    pst_writer_close(w);
    pst_builder_destroy(b);
    for (size_t i = 0; i < 4; i++)
        photo_free(photos[i]);
    photo_free(slow);
    photo_free(tiny);
    photo_free(cut);
}

/* Every entry of the shard's section is of a JPEG that lies where it says, and its points are those that are found there. */
static void check_entries(const char *path, const char *index_path, size_t expected)
{
    struct index x = {0};
    struct entropy_section s;
    struct jpeg_frame frame;
    struct jpeg_points points;
    pst_error e;
    size_t length;
    uint8_t *shard = test_read_file(path, &length);
    struct jpeg_decoder *d = jpeg_decoder_create();
    REQUIRE_OK(index_open(&x, index_path, &e), &e);
    REQUIRE(x.jpegs && entropy_section_open(&s, x.jpegs, x.jpegs_length));
    CHECK_INT(s.count, expected);
    for (size_t i = 0; i < s.count; i++) {
        const struct entropy_entry *entry = &s.entries[i];
        REQUIRE(entry->record < x.count && entropy_section_points(&s, entry, &points));
        CHECK(i == 0 || entry->record > entry[-1].record ||
              (entry->record == entry[-1].record && entry->offset > entry[-1].offset));
        const uint8_t *jpeg = shard + x.entries[entry->record].offset + FRAME_HEADER + entry->offset;
        CHECK(hash_bytes(jpeg, entry->length, 0) == entry->hash);
        REQUIRE_OK(jpeg_decoder_open(d, jpeg, entry->length, &frame, &e), &e);
        REQUIRE(jpeg_points_count(d) == points.count);
        struct jpeg_point *again = calloc(points.count, sizeof(*again));
        REQUIRE_OK(jpeg_points_find(d, again, &e), &e);
        CHECK(memcmp(again, points.point, points.count * sizeof(*again)) == 0);
        free(again);
    }
    jpeg_decoder_free(d);
    index_finish(&x);
    free(shard);
}

static void test_make(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    mixed_shard(test_path("m"));
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, false, 2, NULL, NULL, &r, &e), &e);
    CHECK(r.written && r.bytes > 0 && r.points > MIXED_POINTS);
    CHECK_INT(r.jpegs, MIXED_JPEGS);
    CHECK_INT(r.indexed, MIXED_POINTS);
    CHECK_INT(r.foreign, 1);
    CHECK_INT(r.small, 1);
    CHECK_INT(r.damaged, 1);
    CHECK_INT(r.bad_records, 0);
    check_entries(test_path("m"), test_path("m.pidx"), MIXED_POINTS);
    pst_entropy_report again = {.size = sizeof(again)};
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, false, 2, NULL, NULL, &again, &e), &e);
    CHECK(!again.written);
    CHECK(again.jpegs == r.jpegs && again.points == r.points && again.bytes == r.bytes && again.jpeg_bytes == r.jpeg_bytes &&
          again.indexed == r.indexed && again.small == r.small && again.foreign == r.foreign && again.damaged == r.damaged);
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, true, 1, NULL, NULL, &again, &e), &e);
    CHECK(again.written);
    /* Making the index anew is no reason to look through all JPEGs again. */
    pst_index_report index = {.size = sizeof(index)};
    REQUIRE_OK(pst_index_make(test_path("m"), NULL, true, false, &index, &e), &e);
    CHECK(index.written);
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, false, 1, NULL, NULL, &again, &e), &e);
    CHECK(!again.written);
    REQUIRE_OK(pst_index_make(test_path("m"), NULL, false, true, &index, &e), &e);
}

static void test_make_damaged(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    pst_index_report index = {.size = sizeof(index)};
    size_t length;
    mixed_shard(test_path("m"));
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, false, 2, NULL, NULL, &r, &e), &e);
    /* A damaged section is found by a check, and made anew. */
    uint8_t *bytes = test_read_file(test_path("m.pidx"), &length);
    bytes[le64(bytes + 64 + 32 + 8) + 200] ^= 1;
    test_write_file(test_path("m.pidx"), bytes, length);
    free(bytes);
    CHECK_STATUS(pst_index_make(test_path("m"), NULL, false, true, &index, &e), PST_ECORRUPT, &e);
    REQUIRE_OK(pst_index_make(test_path("m"), NULL, false, false, &index, &e), &e);
    CHECK(!index.written);
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, false, 2, NULL, NULL, &r, &e), &e);
    CHECK(r.written);
    /* A record whose checksum is wrong is not looked into. */
    bytes = test_read_file(test_path("m"), &length);
    bytes[200] ^= 1;
    test_write_file(test_path("m"), bytes, length);
    free(bytes);
    REQUIRE_OK(pst_index_entropy(test_path("m"), NULL, false, 2, NULL, NULL, &r, &e), &e);
    CHECK(r.written && r.bad_records == 1);
    CHECK_INT(r.indexed, MIXED_POINTS - 1);
    check_entries(test_path("m"), test_path("m.pidx"), MIXED_POINTS - 1);
}

static void test_workers(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    size_t first_length = 0, length;
    uint8_t *first = NULL;
    photo_shard(test_path("w"), 40, 100);
    for (unsigned workers = 1; workers <= 8; workers += workers) {
        REQUIRE_OK(pst_index_entropy(test_path("w"), NULL, true, workers, NULL, NULL, &r, &e), &e);
        uint8_t *bytes = test_read_file(test_path("w.pidx"), &length);
        CHECK(!first || (length == first_length && memcmp(bytes, first, length) == 0));
        free(first);
        first = bytes;
        first_length = length;
    }
    CHECK_INT(r.indexed, 40);
    free(first);
}

static int cancel(void *user, const pst_progress *now)
{
    (void)now;
    ++*(int *)user;
    return 1;
}

static void test_cancel(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    struct index x = {0};
    int calls = 0;
    photo_shard(test_path("c"), 20, 7);
    CHECK_STATUS(pst_index_entropy(test_path("c"), NULL, false, 2, cancel, &calls, &r, &e), PST_ECANCELLED, &e);
    CHECK(calls > 0);
    REQUIRE_OK(index_open(&x, test_path("c.pidx"), &e), &e);
    CHECK(!x.jpegs);
    index_finish(&x);
}

static void flip_bit(const char *path, uint64_t at)
{
    size_t length;
    uint8_t *bytes = test_read_file(path, &length);
    REQUIRE(at < length);
    bytes[at] ^= 1;
    test_write_file(path, bytes, length);
    free(bytes);
}

/* `inspect --verify` finds one wrong place in the index, of this record; record 0: none. The cut-off JPEG is damage, too. */
static void verify_finds(const char *path, uint64_t record, uint64_t offset)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        pst_inspect_options options = {.size = sizeof(options), .verify = true, .workers = workers};
        pst_inspection *n = NULL;
        pst_error e;
        REQUIRE_OK(pst_inspect(&path, 1, &options, &n, &e), &e);
        CHECK_INT(pst_damage_log_count(n->damage, PST_CAUSE_INDEX), record > 0);
        CHECK_INT(pst_damage_log_count(n->damage, PST_CAUSE_DATA_CRC), record == 0);
        pst_damage d = pst_damage_log_place(n->damage, 0);
        CHECK(record == 0 ||
              (d.cause == PST_CAUSE_INDEX && d.record == record && d.offset == offset && strcmp(d.path, path) == 0));
        pst_inspection_destroy(n);
    }
}

/* Points that are not those of their JPEG, with checksums that are right: found by the check. */
static void test_check_points(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    pst_index_report report = {.size = sizeof(report)};
    struct index x;
    struct entropy_section kept;
    struct entropy_builder forged = {0};
    uint8_t *bytes = NULL;
    size_t length = 0;
    const char *path = test_path("checked");
    mixed_shard(path);
    REQUIRE_OK(pst_index_entropy(path, NULL, true, 1, NULL, NULL, &r, &e), &e);
    CHECK_STATUS(pst_index_make(path, NULL, false, true, &report, &e), PST_OK, &e);
    REQUIRE_OK(index_open(&x, test_path("checked.pidx"), &e), &e);
    REQUIRE(entropy_section_open(&kept, x.jpegs, x.jpegs_length) && kept.count > 1);
    forged.entries = (struct entropy_entry *)(uintptr_t)kept.entries;
    forged.count = (size_t)kept.count;
    forged.point_count = (size_t)kept.point_count;
    forged.points = malloc(forged.point_count * sizeof(*forged.points));
    memcpy(forged.points, kept.points, forged.point_count * sizeof(*forged.points));
    forged.points[kept.entries[1].first + 1].dc[0] ^= 4;
    forged.sums = kept.sums;
    REQUIRE_OK(entropy_builder_bytes(&forged, &bytes, &length, &e), &e);
    struct index with = x;
    with.jpegs = bytes;
    with.jpegs_length = length;
    REQUIRE_OK(index_publish(test_path("checked.pidx"), &with, false, &e), &e);
    CHECK_STATUS(pst_index_make(path, NULL, false, true, &report, &e), PST_ESTALE, &e);
    CHECK_INT(e.record, kept.entries[1].record);
    const struct index_entry *first = &x.entries[kept.entries[0].record], *second = &x.entries[kept.entries[1].record];
    verify_finds(path, kept.entries[1].record, second->offset);
    flip_bit(test_path("checked.pidx"), le64(x.file + 64 + 32 + 8) + 200);
    verify_finds(path, PST_NOWHERE, PST_NOWHERE);
    /* The record is damaged, and the index knows its file: the points of that record are not compared. */
    flip_bit(path, first->offset + FRAME_HEADER + kept.entries[0].offset + 200);
    struct shard_file f = {0};
    REQUIRE_OK(shard_file_open(&f, path, &e), &e);
    x.fingerprint = f.fingerprint;
    shard_file_close(&f);
    REQUIRE_OK(index_publish(test_path("checked.pidx"), &x, false, &e), &e);
    CHECK_STATUS(pst_index_make(path, NULL, false, true, &report, &e), PST_OK, &e);
    verify_finds(path, 0, 0);
    index_finish(&x);
    free(forged.points);
    mem_free(bytes);
}

static void test_places(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    char path[64], folder[320], name[400];
    size_t length;
    pst_shard_options cached = {.size = sizeof(cached), .cache_dir = folder};
    snprintf(folder, sizeof(folder), "%s/cache", test_folder());
    mixed_shard(test_path("m"));
    unlink(test_path("m.pidx"));
    int fd = open(test_path("m"), O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* beside it nothing can be written */
    CHECK_STATUS(pst_index_entropy(path, NULL, false, 1, NULL, NULL, &r, &e), PST_EIO, &e);
    REQUIRE_OK(pst_index_entropy(path, &cached, false, 1, NULL, NULL, &r, &e), &e);
    CHECK(r.written && access(test_path("m.pidx"), F_OK) < 0);
    REQUIRE_OK(pst_index_entropy(path, &cached, false, 1, NULL, NULL, &r, &e), &e);
    CHECK(!r.written);
    close(fd);

    /* A text index has no room for it: the shard gets one of ours. */
    photo_shard(test_path("t"), 3, 0);
    struct index x = {0};
    REQUIRE_OK(index_open(&x, test_path("t.pidx"), &e), &e);
    length = 0;
    for (size_t i = 0; i < x.count; i++)
        length += (size_t)snprintf(name + length, sizeof(name) - length, "%llu %llu\n", (unsigned long long)x.entries[i].offset,
                                   (unsigned long long)x.entries[i].length + FRAME_BYTES);
    index_finish(&x);
    unlink(test_path("t.pidx"));
    test_write_file(test_path("t.idx"), name, length);
    REQUIRE_OK(pst_index_entropy(test_path("t"), NULL, false, 1, NULL, NULL, &r, &e), &e);
    CHECK(r.written);
    check_entries(test_path("t"), test_path("t.pidx"), 3);

    /* Another shard under its name: the section goes with the index. */
    photo_shard(test_path("t2"), 4, 50);
    uint8_t *bytes = test_read_file(test_path("t2"), &length);
    test_write_file(test_path("t"), bytes, length);
    free(bytes);
    REQUIRE_OK(pst_index_entropy(test_path("t"), NULL, false, 1, NULL, NULL, &r, &e), &e);
    CHECK(r.written);
    check_entries(test_path("t"), test_path("t.pidx"), 4);

    test_write_file(test_path("empty"), "", 0);
    REQUIRE_OK(pst_index_entropy(test_path("empty"), NULL, false, 1, NULL, NULL, &r, &e), &e);
    CHECK(!r.written && r.jpegs == 0);
    CHECK_STATUS(pst_index_entropy(test_path("none"), NULL, false, 1, NULL, NULL, &r, &e), PST_ENOTFOUND, &e);
}

/* Whatever fails, the index that is there opens, and nothing is left in memory. */
static void test_faults(void)
{
    pst_error e;
    pst_entropy_report r = {.size = sizeof(r)};
    mixed_shard(test_path("f"));
    uint64_t live = mem_live();
    for (int kind = FAULT_MEMORY; kind <= FAULT_THREAD; kind++) {
        pst_status st = PST_ENOMEM;
        for (uint64_t n = 0; st < 0 && n < 2000; n++) {
            struct index x = {0};
            test_fault_arm(kind, n, false);
            st = pst_index_entropy(test_path("f"), NULL, true, 2, NULL, NULL, &r, &e);
            bool reached = test_fault_calls() > n;
            test_fault_clear();
            CHECK_MSG(mem_live() == live, "kind %d, call %llu: memory is left", kind, (unsigned long long)n);
            if (!reached)
                break;
            st = st == PST_OK ? PST_ENOMEM : st; /* some failures are got over */
            CHECK_STATUS(index_open(&x, test_path("f.pidx"), &e), PST_OK, &e);
            index_finish(&x);
        }
    }
    REQUIRE_OK(pst_index_entropy(test_path("f"), NULL, true, 2, NULL, NULL, &r, &e), &e);
    check_entries(test_path("f"), test_path("f.pidx"), MIXED_POINTS);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"round_trip", test_round_trip},
                                        {"append", test_append},
                                        {"damage", test_damage},
                                        {"hostile", test_hostile},
                                        {"index_keeps_sections", test_index_keeps_sections},
                                        {"index_with_damaged_section", test_index_with_damaged_section},
                                        {"make", test_make},
                                        {"make_damaged", test_make_damaged},
                                        {"workers", test_workers},
                                        {"cancel", test_cancel},
                                        {"check_points", test_check_points},
                                        {"places", test_places},
                                        {"faults", test_faults},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
