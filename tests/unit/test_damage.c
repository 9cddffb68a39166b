/* test_damage.c: policies and the log; and that one damaged record costs one record, whatever bit it is. */
#include "record_fixture.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/memory.h"
#include "record/damage.h"
#include "record/index.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

static void test_policy_parse(void)
{
    static const char *const bad[] = {"",          "skipp",    "skip:",     "skip:0",   "skip:-1",
                                      "skip:1.5",  "skip:0%",  "skip:101%", "skip:x",   "ski",
                                      "skip:20 %", "skip:1e3", "error:20",  "skip:.5%", "skip: 5"};
    pst_policy p;
    pst_error error;
    CHECK_INT(pst_policy_parse(&p, "error", &error), PST_OK);
    CHECK(!p.skip);
    CHECK_INT(pst_policy_parse(&p, "Skip", &error), PST_OK);
    CHECK(p.skip && p.max_records == 0 && p.max_share == 0);
    CHECK_INT(pst_policy_parse(&p, "skip:20", &error), PST_OK);
    CHECK(p.skip && p.max_records == 20 && p.max_share == 0);
    CHECK_INT(pst_policy_parse(&p, "skip:0.5%", &error), PST_OK);
    CHECK(p.skip && p.max_records == 0 && p.max_share > 0.00499 && p.max_share < 0.00501);
    CHECK_INT(pst_policy_parse(&p, "skip:100%", &error), PST_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CHECK_MSG(pst_policy_parse(&p, bad[i], &error) == PST_EINVAL, "\"%s\" was taken", bad[i]);
}

static pst_status add(pst_damage_log *log, pst_cause cause, uint64_t record, pst_error *error)
{
    pst_damage d = {.cause = cause, .path = "a.tfrecord", .record = record, .offset = record * 100, .bytes = 100};
    return pst_damage_log_add(log, &d, "detail", error);
}

/* A list keeps copies, shares the strings of neighbours, and sorts by turn. */
static void test_list(void)
{
    struct damage_list l = {0};
    char path[] = "a.tfrecord", op[] = "decode", why[] = "cut off";
    for (uint64_t i = 0; i < 100; i++) {
        struct damage_item item = {.damage = {.path = path, .op = i % 2 ? op : NULL, .record = i}, .at = i % 3};
        item.why = i % 5 ? why : NULL;
        REQUIRE(damage_list_add(&l, &item) == PST_OK);
    }
    memset(path, 'x', sizeof(path) - 1);
    memset(op, 'x', sizeof(op) - 1);
    memset(why, 'x', sizeof(why) - 1);
    damage_list_sort(&l);
    CHECK_INT(l.count, 100);
    for (size_t i = 0; i < l.count; i++) {
        const struct damage_item *item = &l.items[i];
        CHECK_INT(item->at, i < 34 ? 0 : i < 67 ? 1 : 2); /* 34, 33 and 33 of them */
        CHECK_INT(item->damage.record, i < 34 ? 3 * i : i < 67 ? 3 * (i - 34) + 1 : 3 * (i - 67) + 2);
        CHECK_STR(item->damage.path, "a.tfrecord");
        CHECK_STR(item->damage.op, item->damage.record % 2 ? "decode" : "");
        CHECK(item->damage.record % 5 ? strcmp(item->why, "cut off") == 0 : item->why == NULL);
        CHECK(item->damage.path == l.items[0].damage.path);
    }
    damage_list_clear(&l);
    CHECK_INT(l.count, 0);
    damage_list_finish(&l);
    for (uint64_t n = 0; n < 2; n++) { /* the items, the text */
        test_fault_arm(FAULT_MEMORY, n, false);
        CHECK_INT(damage_list_add(&l, &(struct damage_item){.damage = {.path = "a"}}), PST_ENOMEM);
        test_fault_clear();
        CHECK_INT(l.count, 0);
        damage_list_finish(&l);
    }
}

static void test_log_names_the_operation(void)
{
    pst_error error;
    pst_damage d = {.cause = PST_CAUSE_IMAGE, .path = "a.jpg", .record = 1, .offset = 2, .op = "decode"};
    for (int i = 0; i < 3; i++) { /* not tolerated; tolerated; spent */
        pst_damage_log *log = fixture_log(i == 0 ? "error" : "skip:1");
        error = (pst_error){0};
        if (i == 2)
            CHECK_INT(pst_damage_log_add(log, &(pst_damage){.cause = PST_CAUSE_VALUE}, "", NULL), PST_OK);
        CHECK_STATUS(pst_damage_log_add(log, &d, "cut off", &error), i == 1 ? PST_OK : PST_ECORRUPT, &error);
        CHECK_STR(error.op, i == 1 ? "" : "decode");
        CHECK_STR(pst_damage_log_place(log, i == 2).op, "decode");
        CHECK_STR(pst_damage_log_place(log, i == 2 ? 0 : 1).op, ""); /* none was named; there is none */
        pst_damage_log_destroy(log);
    }
    d = damage_of_error(PST_CAUSE_VALUE, &error);
    CHECK(d.cause == PST_CAUSE_VALUE && d.record == 1 && d.offset == 2 && strcmp(d.path, "a.jpg") == 0 &&
          strcmp(d.op, "decode") == 0);
}

static void test_log_budgets(void)
{
    pst_error error;
    pst_damage_log *log = fixture_log("error");
    CHECK_STATUS(add(log, PST_CAUSE_DATA_CRC, 7, &error), PST_ECORRUPT, &error);
    CHECK_INT(error.record, 7);
    CHECK_INT(error.offset, 700);
    CHECK_STR(error.path, "a.tfrecord");
    CHECK_STR(error.message, "data crc: detail");
    pst_damage_log_destroy(log);

    log = fixture_log("skip:3");
    for (uint64_t i = 0; i < 3; i++)
        CHECK_INT(add(log, PST_CAUSE_LENGTH_CRC, i, &error), PST_OK);
    CHECK_STATUS(add(log, PST_CAUSE_TOO_LARGE, 3, &error), PST_ELIMIT, &error);
    CHECK_INT(pst_damage_log_count(log, PST_CAUSE_LENGTH_CRC), 3);
    CHECK_INT(pst_damage_log_count(log, PST_CAUSE_TOO_LARGE), 1);
    CHECK_INT(pst_damage_log_total(log), 4);
    pst_damage_log_destroy(log);

    log = fixture_log("skip:1%");
    for (uint64_t i = 0; i < 9; i++) {
        pst_damage_log_seen(log, 100);
        CHECK_INT(add(log, PST_CAUSE_IMAGE, i, &error), PST_OK); /* below 1000 records a share is not judged */
        CHECK_INT(add(log, PST_CAUSE_IMAGE, i, &error), PST_OK);
    }
    CHECK_STATUS(pst_damage_log_finish(log, &error), PST_ECORRUPT, &error); /* but at the end it is */
    pst_damage_log_seen(log, 100);
    CHECK_STATUS(add(log, PST_CAUSE_IMAGE, 9, &error), PST_ECORRUPT, &error);
    pst_damage_log_seen(log, 1000);
    CHECK_INT(add(log, PST_CAUSE_IMAGE, 10, &error), PST_OK);
    CHECK_INT(pst_damage_log_finish(log, &error), PST_OK);
    pst_damage_log_destroy(log);
}

static void *add_many(void *user)
{
    for (uint64_t i = 0; i < 1000; i++) {
        pst_damage d = {.cause = i % PST_CAUSES, .path = i % 2 ? "x" : "y", .record = i};
        pst_damage_log_seen(user, 1);
        CHECK_INT(pst_damage_log_add(user, &d, "", NULL), PST_OK);
    }
    return NULL;
}

static void test_log_threads(void)
{
    pthread_t threads[4];
    pst_damage_log *log = fixture_log("skip");
    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, add_many, log) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(pst_damage_log_total(log), 4000);
    CHECK_INT(pst_damage_log_places(log), 1000);
    pst_damage d = pst_damage_log_place(log, 999);
    CHECK(strcmp(d.path, d.record % 2 ? "x" : "y") == 0);
    CHECK_INT(pst_damage_log_place(log, 1000).cause, PST_CAUSES);
    pst_damage_log_destroy(log);
}

static void test_names(void)
{
    for (int c = 0; c < PST_CAUSES; c++)
        CHECK_MSG(strcmp(pst_cause_name(c), "unknown") != 0, "cause %d has no name", c);
    CHECK_STR(pst_cause_name(PST_CAUSE_LENGTH_CRC), "length crc");
}

/* ---- One damaged record costs one record ---- */

#define ALL ((1u << FIXTURE_RECORDS) - 1)

/* Random access to every record of the shard: a bit for each whose content comes out right, by its true ordinal. */
static uint32_t read_shard(const struct fixture *f, const pst_shard_options *options, bool built)
{
    pst_shard *s;
    pst_error error;
    uint32_t mask = 0;
    if (!CHECK_STATUS(pst_shard_open(&s, test_path("d"), options, &error), PST_OK, &error))
        return 0;
    CHECK_INT(pst_shard_index_built(s), built);
    for (uint64_t i = 0; i < pst_shard_count(s); i++) {
        uint8_t data[512];
        uint64_t offset, told;
        size_t length;
        pst_shard_locate(s, i, &offset, &told);
        pst_status st = pst_shard_read(s, i, data, sizeof(data), &length, &error);
        if (st == PST_OK) {
            size_t record = fixture_record_at(f, offset);
            CHECK(offset == f->offsets[record] && length == fixture_lengths[record] && fixture_equal(data, length, record));
            mask |= 1u << record;
        } else {
            CHECK_STATUS(st, PST_ECORRUPT, &error);
            CHECK_INT(error.record, i);
            CHECK_INT(error.offset, offset);
        }
    }
    pst_shard_close(s);
    return mask;
}

/* An index of the sound shard that seems to be of the damaged one: what a large file's sampled fingerprint may miss. It is
 * published once, then only its fingerprint and checksum are set: thousands of new files would cost minutes on a busy disk. */
static void set_true_index(const struct fixture *f, int shard_fd, int index_fd)
{
    enum { TABLE_END = 64 + 32, AT_FINGERPRINT = 40, AT_CHECKSUM = 56 };
    uint8_t head[TABLE_END];
    uint64_t size, fingerprint;
    pst_error error;
    REQUIRE_OK(index_fingerprint(shard_fd, "d", &size, &fingerprint, &error), &error);
    REQUIRE(size == f->length && pread(index_fd, head, sizeof(head), 0) == sizeof(head));
    put_le64(head + AT_FINGERPRINT, fingerprint);
    put_le64(head + AT_CHECKSUM, hash_bytes(head + 64, TABLE_END - 64, hash_bytes(head, AT_CHECKSUM, 0)));
    REQUIRE(pwrite(index_fd, head, sizeof(head), 0) == sizeof(head));
}

/* The shard has one flipped bit, in byte `at`. With `indexed` its true index lies beside it, otherwise none. */
static void check_flip(const struct fixture *f, size_t at, bool indexed)
{
    size_t record = fixture_record_at(f, at), bytes = f->offsets[record + 1] - f->offsets[record];
    bool in_header = at - f->offsets[record] < FRAME_HEADER;
    pst_error error;
    uint64_t mask, count;
    pst_damage_log *log = fixture_log("skip");
    pst_reader_options skip = {.size = sizeof(skip), .damage = log};
    pst_shard_options random = {.size = sizeof(random), .damage = log, .no_write = true};

    CHECK_STATUS(fixture_read(test_path("d"), NULL, &mask, &count, &error), PST_ECORRUPT, &error);
    CHECK_INT(error.record, record);
    CHECK_INT(error.offset, f->offsets[record]);
    CHECK_INT(mask, (1u << record) - 1);

    CHECK_STATUS(fixture_read(test_path("d"), &skip, &mask, &count, &error), PST_END, &error);
    CHECK_INT(mask, ALL & ~(1u << record));
    CHECK_INT(pst_damage_log_total(log), 1);
    pst_damage d = pst_damage_log_place(log, 0);
    CHECK_INT(d.cause, in_header ? PST_CAUSE_LENGTH_CRC : PST_CAUSE_DATA_CRC);
    CHECK_INT(d.record, record);
    CHECK_INT(d.offset, f->offsets[record]);
    CHECK_INT(d.bytes, bytes);
    CHECK_INT(read_shard(f, &random, !indexed), ALL & ~(1u << record));
    CHECK_INT(pst_damage_log_total(log), 1 + (in_header && !indexed)); /* the rebuilt index has a gap */
    pst_damage_log_destroy(log);
}

static void flip_every_bit(bool indexed)
{
    struct fixture f = fixture_make();
    struct index_entry entries[FIXTURE_RECORDS];
    pst_error error;
    int index_fd = -1;
    test_write_file(test_path("d"), f.bytes, f.length);
    int fd = open(test_path("d"), O_RDWR | O_CLOEXEC);
    if (indexed) {
        for (size_t i = 0; i < FIXTURE_RECORDS; i++)
            entries[i] = (struct index_entry){f.offsets[i], fixture_lengths[i]};
        struct index x = {.entries = entries, .count = FIXTURE_RECORDS, .shard_bytes = f.length};
        REQUIRE_OK(index_publish(test_path("d.pidx"), &x, false, &error), &error);
        index_fd = open(test_path("d.pidx"), O_RDWR | O_CLOEXEC);
    }
    uint64_t live = mem_live();
    for (size_t at = 0; at < f.length; at++) {
        for (int bit = 0; bit < 8; bit++) {
            uint8_t flipped = f.bytes[at] ^ (uint8_t)(1u << bit);
            REQUIRE(pwrite(fd, &flipped, 1, (off_t)at) == 1);
            if (indexed)
                set_true_index(&f, fd, index_fd);
            check_flip(&f, at, indexed);
            REQUIRE(pwrite(fd, &f.bytes[at], 1, (off_t)at) == 1);
        }
    }
    CHECK_INT(mem_live(), live);
    close(fd);
    if (indexed)
        close(index_fd);
    unlink(test_path("d.pidx"));
    free(f.bytes);
}

static void test_every_bit(void)
{
    flip_every_bit(false);
}

static void test_every_bit_indexed(void)
{
    flip_every_bit(true);
}

static void test_every_truncation(void)
{
    struct fixture f = fixture_make();
    uint64_t live = mem_live();
    for (size_t n = 0; n < f.length; n++) {
        size_t whole = fixture_record_at(&f, n);
        bool clean = n == f.offsets[whole];
        pst_error error;
        uint64_t mask, count;
        pst_damage_log *log = fixture_log("skip");
        pst_reader_options skip = {.size = sizeof(skip), .damage = log};
        pst_shard_options random = {.size = sizeof(random), .damage = log, .no_write = true}, strict = {.size = sizeof(strict)};
        strict.no_write = true;
        test_write_file(test_path("d"), f.bytes, n);
        CHECK_STATUS(fixture_read(test_path("d"), NULL, &mask, &count, &error), clean ? PST_END : PST_ECORRUPT, &error);
        CHECK_INT(mask, (1u << whole) - 1);
        CHECK_STATUS(fixture_read(test_path("d"), &skip, &mask, &count, &error), PST_END, &error);
        CHECK_INT(mask, (1u << whole) - 1);
        CHECK_INT(pst_damage_log_count(log, PST_CAUSE_TRUNCATED), !clean);
        CHECK_INT(pst_damage_log_total(log), !clean);
        if (!clean)
            CHECK_INT(pst_damage_log_place(log, 0).bytes, n - f.offsets[whole]);
        CHECK_INT(read_shard(&f, &random, true), (1u << whole) - 1);
        CHECK_INT(pst_damage_log_count(log, PST_CAUSE_TRUNCATED), 2 * !clean);
        pst_damage_log_destroy(log);
        pst_shard *s = NULL;
        CHECK_STATUS(pst_shard_open(&s, test_path("d"), &strict, &error), clean ? PST_OK : PST_ECORRUPT, &error);
        pst_shard_close(s);
    }
    CHECK_INT(mem_live(), live);
    free(f.bytes);
}

/* In compressed shards a flip is found, or changes nothing; nothing but sound records comes out; a cut is always found. */
static void test_compressed_damage(void)
{
    static const pst_compression compressions[] = {PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB, PST_COMPRESSION_ZSTD};
    for (size_t c = 0; c < 3; c++) {
        pst_error error;
        uint64_t mask, count, live = mem_live();
        size_t length;
        pst_writer_options w = {.size = sizeof(w), .compression = compressions[c], .no_sync = true, .overwrite = true};
        pst_reader_options strict = {.size = sizeof(strict), .compression = compressions[c]};
        REQUIRE_OK(fixture_write(test_path("z"), fixture_lengths, FIXTURE_RECORDS, &w, &error), &error);
        uint8_t *bytes = test_read_file(test_path("z"), &length);
        for (size_t at = 0; at < length; at++) {
            pst_damage_log *log = fixture_log("skip");
            pst_reader_options skip = {.size = sizeof(skip), .compression = compressions[c], .damage = log};
            test_write_file(test_path("z"), bytes, at);
            CHECK_STATUS(fixture_read(test_path("z"), &strict, &mask, &count, &error), PST_ECORRUPT, &error);
            CHECK_STATUS(fixture_read(test_path("z"), &skip, &mask, &count, &error), PST_END, &error);
            CHECK_INT(pst_damage_log_count(log, PST_CAUSE_COMPRESSION), 1);
            CHECK_INT(pst_damage_log_total(log), 1);
            bytes[at] ^= (uint8_t)(1u << at % 8);
            test_write_file(test_path("z"), bytes, length);
            pst_status st = fixture_read(test_path("z"), &strict, &mask, &count, &error);
            CHECK_MSG(st < 0 || (st == PST_END && mask == ALL), "flip at %zu: %s", at, pst_status_name(st));
            bytes[at] ^= (uint8_t)(1u << at % 8);
            pst_damage_log_destroy(log);
        }
        free(bytes);
        CHECK_INT(mem_live(), live);
    }
}

/* A shard inside a record: only an index can tell its records from those of the outer shard, and only the right one. */
static void test_nested(void)
{
    enum { NO_INDEX, TRUE_INDEX, STALE_INDEX };
    struct fixture f = fixture_make();
    uint8_t bytes[1024];
    size_t inner = f.length, length = 2 * FRAME_BYTES + inner + 1;
    frame_put_header(bytes, inner);
    memcpy(bytes + FRAME_HEADER, f.bytes, inner);
    frame_put_footer(bytes + FRAME_HEADER + inner, bytes + FRAME_HEADER, inner);
    frame_put_header(bytes + FRAME_BYTES + inner, 1);
    fixture_fill(bytes + length - FRAME_FOOTER - 1, 1, 1);
    frame_put_footer(bytes + length - FRAME_FOOTER, bytes + length - FRAME_FOOTER - 1, 1);
    bytes[3] ^= 1;
    test_write_file(test_path("nested"), bytes, length);
    int fd = open(test_path("nested"), O_RDONLY | O_CLOEXEC);
    for (int kind = NO_INDEX; kind <= STALE_INDEX; kind++) {
        pst_damage_log *log = fixture_log("skip");
        pst_reader_options skip = {.size = sizeof(skip), .damage = log};
        pst_reader *r;
        pst_record record;
        pst_error error;
        uint64_t size, fingerprint, count = 0;
        struct index_entry entries[] = {{0, inner}, {FRAME_BYTES + inner, 1}};
        REQUIRE_OK(index_fingerprint(fd, "nested", &size, &fingerprint, &error), &error);
        struct index x = {
            .entries = entries, .count = 2, .shard_bytes = size, .fingerprint = fingerprint + (kind == STALE_INDEX)};
        if (kind != NO_INDEX)
            REQUIRE_OK(index_publish(test_path("nested.pidx"), &x, false, &error), &error);
        REQUIRE_OK(pst_reader_open(&r, test_path("nested"), &skip, &error), &error);
        while (pst_reader_next(r, &record, &error) == PST_OK)
            count++;
        pst_reader_close(r);
        CHECK_INT(count, kind == TRUE_INDEX ? 1 : FIXTURE_RECORDS + 1);
        CHECK_INT(pst_damage_log_place(log, 0).bytes, kind == TRUE_INDEX ? inner + FRAME_BYTES : FRAME_HEADER);
        pst_damage_log_destroy(log);
    }
    close(fd);
    free(f.bytes);
}

/* Resynchronisation at a distance: records far larger than a piece before, in and behind the damage. */
static void test_resync_large(void)
{
    static const size_t lengths[] = {300000, 100, 1000000, 0, 262144, 70000, 5};
    enum { COUNT = 7 };
    for (size_t victim = 0; victim < COUNT; victim++) {
        for (int compressed = 0; compressed < 2; compressed++) {
            pst_error error;
            uint64_t mask, count, offset = 0;
            size_t length;
            pst_damage_log *log = fixture_log("skip");
            pst_reader_options skip = {.size = sizeof(skip), .damage = log};
            pst_writer_options w = {.size = sizeof(w), .no_sync = true, .overwrite = true, .no_index = true};
            REQUIRE_OK(fixture_write(test_path("big"), lengths, COUNT, &w, &error), &error);
            uint8_t *bytes = test_read_file(test_path("big"), &length);
            for (size_t i = 0; i < victim; i++)
                offset += lengths[i] + FRAME_BYTES;
            bytes[offset + 2] ^= 1;
            if (compressed)
                fixture_compress(test_path("big"), bytes, length, PST_COMPRESSION_GZIP);
            else
                test_write_file(test_path("big"), bytes, length);
            CHECK_STATUS(fixture_read(test_path("big"), &skip, &mask, &count, &error), PST_END, &error);
            CHECK_INT(mask, ((1u << COUNT) - 1) & ~(1u << victim));
            CHECK_INT(pst_damage_log_count(log, PST_CAUSE_LENGTH_CRC), 1);
            CHECK_INT(pst_damage_log_place(log, 0).bytes, lengths[victim] + FRAME_BYTES);
            free(bytes);
            pst_damage_log_destroy(log);
        }
    }
}

/* Headers with sound CRCs whose data is not there, one after the other: each is looked at, none is believed. */
static void test_resync_lures(void)
{
    enum { LURES = 2000, TAIL = 64 };
    static uint8_t bytes[LURES * FRAME_HEADER + TAIL + FRAME_BYTES];
    size_t n = 0;
    pst_error error;
    uint64_t count = 0;
    pst_damage_log *log = fixture_log("skip");
    pst_reader_options skip = {.size = sizeof(skip), .damage = log};
    for (size_t i = 0; i < LURES; i++, n += FRAME_HEADER)
        frame_put_header(bytes + n, sizeof(bytes) - n - FRAME_BYTES - i % 50);
    bytes[0] ^= 1;
    frame_put_header(bytes + n, TAIL);
    fixture_fill(bytes + n + FRAME_HEADER, TAIL, 1);
    frame_put_footer(bytes + n + FRAME_HEADER + TAIL, bytes + n + FRAME_HEADER, TAIL);
    test_write_file(test_path("lures"), bytes, sizeof(bytes));
    uint64_t mask;
    CHECK_STATUS(fixture_read(test_path("lures"), &skip, &mask, &count, &error), PST_END, &error);
    CHECK_INT(count, 1);
    CHECK_INT(mask, 1 << 1);
    CHECK_INT(pst_damage_log_place(log, 0).bytes, LURES * FRAME_HEADER);
    pst_damage_log_destroy(log);
}

/* So many lures, each of so many bytes, that believing them all would take for ever: the reader gives the rest up. */
static void test_resync_gives_up(void)
{
    size_t length = (size_t)6 << 20;
    uint8_t *bytes = malloc(length);
    pst_error error;
    uint64_t mask, count;
    pst_damage_log *log = fixture_log("skip");
    pst_reader_options skip = {.size = sizeof(skip), .damage = log};
    memset(bytes, 0xff, length);
    for (size_t n = 0; n + length / 2 < length; n += FRAME_HEADER)
        frame_put_header(bytes + n, length / 2 - FRAME_BYTES);
    bytes[0] ^= 1;
    test_write_file(test_path("lures"), bytes, length);
    CHECK_STATUS(fixture_read(test_path("lures"), &skip, &mask, &count, &error), PST_END, &error);
    CHECK_INT(count, 0);
    CHECK_INT(pst_damage_log_total(log), 1);
    CHECK_INT(pst_damage_log_place(log, 0).bytes, length);
    pst_damage_log_destroy(log);
    free(bytes);
}

/* The budget stops a reader, for good; a reader without a log stops at the first damage, and stays there. */
static void test_reader_budget(void)
{
    struct fixture f = fixture_make();
    pst_error error;
    uint64_t mask, count;
    pst_reader *r;
    pst_record record;
    pst_damage_log *log = fixture_log("skip:1");
    pst_reader_options options = {.size = sizeof(options), .damage = log};
    f.bytes[f.offsets[0] + 20] ^= 4;
    f.bytes[f.offsets[3] + 12] ^= 4;
    test_write_file(test_path("b"), f.bytes, f.length);
    CHECK_STATUS(fixture_read(test_path("b"), &options, &mask, &count, &error), PST_ECORRUPT, &error);
    CHECK_INT(mask, 1 << 1 | 1 << 2);
    CHECK_INT(error.record, 3);
    pst_damage_log_destroy(log);
    REQUIRE_OK(pst_reader_open(&r, test_path("b"), NULL, &error), &error);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(pst_reader_next(r, &record, &error), PST_ECORRUPT, &error);
        CHECK_INT(error.record, 0);
    }
    pst_reader_close(r);
    options.damage = NULL;
    options.no_verify = true;
    REQUIRE_OK(pst_reader_open(&r, test_path("b"), &options, &error), &error);
    for (int i = 0; i < FIXTURE_RECORDS; i++)
        CHECK_STATUS(pst_reader_next(r, &record, &error), PST_OK, &error);
    pst_reader_close(r);
    free(f.bytes);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"policies as text", test_policy_parse},
        {"budgets", test_log_budgets},
        {"lists of damage", test_list},
        {"the log names the operation", test_log_names_the_operation},
        {"one log, many threads", test_log_threads},
        {"names", test_names},
        {"every bit flipped", test_every_bit},
        {"every bit flipped, with an index", test_every_bit_indexed},
        {"cut at every byte", test_every_truncation},
        {"compressed shards, flipped and cut", test_compressed_damage},
        {"a shard inside a record", test_nested},
        {"resync among large records", test_resync_large},
        {"resync among lures", test_resync_lures},
        {"resync gives up on a flood of lures", test_resync_gives_up},
        {"budgets stop a reader", test_reader_budget},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
