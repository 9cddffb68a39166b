/* test_source_tfrecord.c: the records of shards through the source: mapped, read, past the page cache and as a stream. */
#include "source_fixture.h"

#include "record_fixture.h"

#include "base/fault.h"
#include "base/random.h"
#include "base/thread.h"
#include "open_files.h"
#include "ops/each.h"
#include "ops/shard_set.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const ios[] = {"auto", "map", "read", "direct"};
#define IOS (sizeof(ios) / sizeof(ios[0]))

/* ---- Data: record `i` of the whole set has content and length of its number ---- */

#define SHARDS 5
static const size_t shard_records[SHARDS] = {40, 0, 3, 200, 57};
#define RECORDS 300

static size_t length_of(uint64_t i)
{
    return i % 29 == 0 ? 0 : i % 53 == 0 ? 150000 : (size_t)(i * 37 % 900);
}

static bool is_record(pst_bytes b, uint64_t i)
{
    return b.length == length_of(i) && fixture_equal(b.data, b.length, i);
}

static void write_shard(const char *path, uint64_t first, size_t count, pst_compression compression)
{
    pst_writer *w;
    pst_error error;
    pst_writer_options options = {
        .size = sizeof(options), .compression = compression, .no_sync = true, .overwrite = true, .no_index = count % 2 == 1};
    if (pst_writer_open(&w, path, &options, &error) < 0)
        abort();
    for (uint64_t i = first; i < first + count; i++) {
        uint8_t *data = malloc(length_of(i) + 1);
        fixture_fill(data, length_of(i), i);
        if (pst_writer_write(w, data, length_of(i), &error) < 0)
            abort();
        free(data);
    }
    if (pst_writer_commit(w, &error) < 0)
        abort();
    pst_writer_close(w);
}

/* A folder with the shards, fresh; the returned path is good for a few calls of test_path. */
static const char *make_shards(const char *name, pst_compression last)
{
    char path[256];
    const char *folder = test_path(name);
    uint64_t first = 0;
    mkdir(folder, 0777);
    for (size_t k = 0; k < SHARDS; k++) {
        snprintf(path, sizeof(path), "%s/x.tfrecord-%05zu-of-%05d", folder, k, SHARDS);
        write_shard(path, first, shard_records[k], k + 1 == SHARDS ? last : PST_COMPRESSION_NONE);
        first += shard_records[k];
    }
    return folder;
}

static struct source_setup setup_for(const char *const *path, const char *io)
{
    struct source_setup s = setup_make(&source_tfrecord);
    setup_words(&s, "paths", path, 1);
    setup_text(&s, "io", io);
    return s;
}

/* ---- Reading ---- */

static void check_record(struct opened *o, uint64_t i)
{
    pst_error error;
    if (CHECK_STATUS(opened_load(o, i, &error), PST_OK, &error))
        CHECK_MSG(is_record(opened_bytes(o, "record"), i), "record %llu is not what was written", (unsigned long long)i);
}

/* Slices of `slice` of the permuted order; every `skip`-th element is announced and does not come. */
static void check_order(struct opened *o, uint64_t count, size_t slice, size_t skip, bool shuffled)
{
    struct permutation p;
    uint64_t index[RECORDS];
    permutation_init(&p, count, 7, slice);
    for (uint64_t begin = 0; begin < count; begin += slice) {
        size_t n = 0;
        for (uint64_t i = begin; i < begin + slice && i < count; i++)
            index[n++] = shuffled ? permutation_at(&p, i) : i;
        opened_ahead(o, index, n);
        for (size_t i = 0; i < n; i++)
            if (!skip || i % skip)
                check_record(o, index[i]);
    }
}

static void test_values(void)
{
    pst_error error;
    const char *folder = make_shards("values", PST_COMPRESSION_NONE);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK_INT(opened_count(&o), RECORDS);
        CHECK_INT(o.spec.count, 1);
        CHECK_STR(o.spec.field[0].name, "record");
        CHECK_INT(o.spec.field[0].dtype, PST_DTYPE_BYTES);
        CHECK_INT(o.spec.field[0].rank, 0);
        for (uint64_t i = 0; i < RECORDS; i++) { /* nobody has announced them */
            check_record(&o, i);
            CHECK_INT(source_tfrecord.bytes_of(o.source, i), length_of(i) + 16);
        }
        for (size_t slice = 1; slice <= RECORDS; slice = slice * 3 + 1) {
            check_order(&o, RECORDS, slice, 0, false);
            check_order(&o, RECORDS, slice, 0, true);
            check_order(&o, RECORDS, slice, 3, true);
        }
        const uint64_t twice[] = {5, 5, 299, 5, 0, 299};
        opened_ahead(&o, twice, 6);
        for (size_t i = 0; i < 6; i++)
            check_record(&o, twice[i]);
        opened_ahead(&o, twice, 6);
        check_record(&o, 17); /* not what was announced */
        check_record(&o, 5);
        opened_close(&o);
    }
}

/* With little memory a slice takes many windows, and records larger than one. */
static void test_small_windows(void)
{
    pst_error error;
    const char *path = test_path("large.tfrecord");
    const size_t lengths[] = {3 << 20, 100, 700000, 700000, 1 << 20, 0, 5 << 20, 1};
    const size_t count = sizeof(lengths) / sizeof(lengths[0]);
    pst_writer_options options = {.size = sizeof(options), .no_sync = true};
    REQUIRE_OK(fixture_write(path, lengths, count, &options, &error), &error);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&path, ios[k]);
        struct opened o;
        s.ram = 1;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        const uint64_t index[] = {7, 6, 0, 5, 1, 3, 2, 4, 0, 6};
        opened_ahead(&o, index, 10);
        for (size_t i = 0; i < 10; i++) {
            REQUIRE_OK(opened_load(&o, index[i], &error), &error);
            pst_bytes b = opened_bytes(&o, "record");
            CHECK(b.length == lengths[index[i]] && fixture_equal(b.data, b.length, index[i]));
        }
        opened_close(&o);
    }
}

/* Shards of very different sizes, many without records. */
static void test_many_shards(void)
{
    pst_error error;
    char path[256];
    const char *folder = test_path("many");
    uint64_t first = 0;
    struct rlimit before, few;
    mkdir(folder, 0777);
    for (size_t k = 0; k < 150; k++) {
        size_t count = k == 70 ? 260 : k % 7 == 0 ? 1 : 0;
        snprintf(path, sizeof(path), "%s/%03zu.tfrecord", folder, k);
        write_shard(path, first, count, PST_COMPRESSION_NONE);
        first += count;
    }
    getrlimit(RLIMIT_NOFILE, &before);
    few = before;
    few.rlim_cur = 48; /* far fewer than shards */
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        struct opened o;
        if (CHECK_STATUS(opened_open(&o, &s, &error), PST_OK, &error)) {
            CHECK_INT(opened_count(&o), first);
            check_order(&o, first, 64, 0, false);
            check_order(&o, first, 100, 0, true);
            opened_close(&o);
        }
    }
    setrlimit(RLIMIT_NOFILE, &before);
}

static void test_one_empty(void)
{
    pst_error error;
    const char *path = test_path("empty.tfrecord");
    test_write_file(path, "", 0);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&path, ios[k]);
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK_INT(opened_count(&o), 0);
        opened_close(&o);
    }
    const char *nowhere = test_path("nowhere*");
    struct source_setup s = setup_for(&nowhere, "auto");
    struct opened o;
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
}

static void test_describe(void)
{
    pst_error error;
    char line[256];
    const char *folder = make_shards("describe", PST_COMPRESSION_NONE);
    static const char *const words[] = {"mapped; index: sidecar", "mapped", "read; index", "read past the page cache"};
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        opened_describe(&o, line, sizeof(line));
        CHECK_MSG(strstr(line, "5 shards, ") == line && strstr(line, words[k]), "\"%s\" does not have \"%s\"", line, words[k]);
        CHECK_MSG((strstr(line, "2 made now") != NULL) == (k == 0), "\"%s\"", line); /* those of an odd number of records */
        opened_describe(&o, line, 10);                                               /* cut, not overrun */
        CHECK_INT(strlen(line), 9);
        opened_close(&o);
    }
}

static void test_fingerprint(void)
{
    pst_error error;
    struct opened o;
    uint64_t prints[3];
    char path[256];
    const char *folders[] = {make_shards("print-a", PST_COMPRESSION_NONE), make_shards("print-b", PST_COMPRESSION_NONE)};
    for (size_t k = 0; k < 2; k++) {
        struct source_setup s = setup_for(&folders[k], "auto");
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        prints[k] = opened_fingerprint(&o);
        opened_close(&o);
    }
    CHECK(prints[0] == prints[1]); /* of the content, not of names and times */
    snprintf(path, sizeof(path), "%s/x.tfrecord-00002-of-00005", folders[0]);
    write_shard(path, 1000, 3, PST_COMPRESSION_NONE);
    struct source_setup s = setup_for(&folders[0], "read");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK(opened_fingerprint(&o) != prints[0]);
    opened_close(&o);
}

/* ---- Damage ---- */

/* Every bit of the fixture's shard is flipped: the record it belongs to is refused, at its place, and no other. */
static void test_flips(void)
{
    pst_error error;
    struct fixture f = fixture_make();
    const char *path = test_path("flips.tfrecord");
    for (size_t at = 0; at < f.length; at += at < 60 ? 1 : 7) {
        pst_writer_options plain = {.size = sizeof(plain), .no_sync = true, .overwrite = true};
        REQUIRE_OK(fixture_write(path, fixture_lengths, FIXTURE_RECORDS, &plain, &error), &error);
        struct source_setup s = setup_for(&path, ios[at % IOS]);
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        uint8_t byte = f.bytes[at] ^ (uint8_t)(1u << at % 8);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        REQUIRE(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1);
        close(fd);
        const uint64_t index[] = {4, 3, 2, 1, 0};
        opened_ahead(&o, index, 5);
        for (size_t i = 0; i < 5; i++) {
            pst_status st = opened_load(&o, index[i], &error);
            if (index[i] != fixture_record_at(&f, at)) {
                CHECK_STATUS(st, PST_OK, &error);
                continue;
            }
            CHECK_STATUS(st, PST_ECORRUPT, &error);
            CHECK_INT(error.record, index[i]);
            CHECK_INT(error.offset, f.offsets[index[i]]);
            CHECK_STR(error.path, path);
        }
        opened_close(&o);
    }
    free(f.bytes);
}

/* Payloads are verified when they are read first, headers always; without verification only headers. */
static void test_verified_once(void)
{
    pst_error error;
    struct fixture f = fixture_make();
    for (size_t k = 0; k < IOS; k++) {
        for (int no_verify = 0; no_verify < 2; no_verify++) {
            const char *path = test_path("once.tfrecord");
            struct opened o;
            pst_writer_options plain = {.size = sizeof(plain), .no_sync = true, .overwrite = true};
            REQUIRE_OK(fixture_write(path, fixture_lengths, FIXTURE_RECORDS, &plain, &error), &error);
            struct source_setup s = setup_for(&path, ios[k]);
            s.no_verify = no_verify;
            REQUIRE_OK(opened_open(&o, &s, &error), &error);
            CHECK_STATUS(opened_load(&o, 2, &error), PST_OK, &error);
            int fd = open(path, O_RDWR | O_CLOEXEC);
            REQUIRE(fd >= 0 && pwrite(fd, "?", 1, (off_t)f.offsets[2] + 50) == 1 &&
                    pwrite(fd, "?", 1, (off_t)f.offsets[4] + 50) == 1);
            CHECK_STATUS(opened_load(&o, 2, &error), PST_OK, &error);
            CHECK_STATUS(opened_load(&o, 4, &error), no_verify ? PST_OK : PST_ECORRUPT, &error);
            CHECK_STATUS(opened_load(&o, 4, &error), no_verify ? PST_OK : PST_ECORRUPT, &error); /* still */
            REQUIRE(pwrite(fd, "?", 1, (off_t)f.offsets[2] + 3) == 1);
            CHECK_STATUS(opened_load(&o, 2, &error), PST_ECORRUPT, &error);
            close(fd);
            opened_close(&o);
        }
    }
    free(f.bytes);
}

/* Two shards with a bad length and no index: told at the opening, in the shards' order. */
static void test_gaps(void)
{
    pst_error error;
    struct opened o;
    struct fixture f = fixture_make();
    char path[2][256];
    const char *folder = test_path("gaps");
    mkdir(folder, 0777);
    for (size_t k = 0; k < 2; k++) {
        snprintf(path[k], sizeof(path[k]), "%s/%c.tfrecord", folder, (char)('a' + k));
        f.bytes[f.offsets[2]] ^= 1;
        test_write_file(path[k], f.bytes, f.length);
        f.bytes[f.offsets[2]] ^= 1;
    }
    struct source_setup s = setup_for(&folder, "auto");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ECORRUPT, &error);
    CHECK_STR(error.path, path[0]);
    CHECK_INT(error.record, 2);
    CHECK_INT(error.offset, f.offsets[2]);
    s.policy = (pst_policy){.skip = true, .max_records = 1};
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ECORRUPT, &error);
    CHECK_STR(error.path, path[1]);
    s.policy = (pst_policy){.skip = true};
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 2 * (FIXTURE_RECORDS - 1));
    CHECK_INT(pst_damage_log_count(o.log, PST_CAUSE_LENGTH_CRC), 2);
    CHECK_INT(pst_damage_log_places(o.log), 2);
    CHECK_STR(pst_damage_log_place(o.log, 0).path, path[0]);
    static const uint64_t original[] = {0, 1, 3, 4};
    for (uint64_t i = 0; i < 8; i++) {
        REQUIRE_OK(opened_load(&o, i, &error), &error);
        pst_bytes b = opened_bytes(&o, "record");
        CHECK(b.length == fixture_lengths[original[i % 4]] && fixture_equal(b.data, b.length, original[i % 4]));
    }
    opened_close(&o);
    free(f.bytes);
}

static void test_limit(void)
{
    pst_error error;
    const char *folder = make_shards("limit", PST_COMPRESSION_NONE);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        struct opened o;
        uint64_t index[] = {52, 53, 54}; /* the middle one has 150,000 bytes */
        setup_text(&s, "max_record", "100K");
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        opened_ahead(&o, index, 3);
        check_record(&o, 52);
        CHECK_STATUS(opened_load(&o, 53, &error), PST_ELIMIT, &error);
        CHECK(strstr(error.message, "max_record") != NULL);
        check_record(&o, 54);
        opened_close(&o);
    }
}

/* A file that others cut: noticed before the mapping is touched behind the new end. */
static void test_cut(void)
{
    pst_error error;
    for (size_t k = 0; k < IOS; k++) {
        const char *path = test_path("cut.tfrecord");
        struct opened o;
        unlink(path);
        write_shard(path, 0, 200, PST_COMPRESSION_NONE);
        struct source_setup s = setup_for(&path, ios[k]);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        check_record(&o, 199);
        REQUIRE(truncate(path, 5000) == 0);
        const uint64_t index[] = {1, 199, 2};
        opened_ahead(&o, index, 3);
        check_record(&o, 1);
        CHECK_STATUS(opened_load(&o, 199, &error), PST_ESTALE, &error);
        CHECK_INT(error.record, 199);
        check_record(&o, 2);
        opened_close(&o);
    }
}

/* ---- What the system denies ---- */

static bool deny(void *user, enum fault_kind kind, const char *what)
{
    return kind == FAULT_IO && strcmp(what, user) == 0;
}

static void test_denied(void)
{
    pst_error error;
    struct opened o;
    char line[256];
    const char *folder = make_shards("denied", PST_COMPRESSION_NONE);
    struct source_setup s = setup_for(&folder, "auto");
    fault_set(deny, (void *)(uintptr_t) "mmap");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_order(&o, RECORDS, 50, 0, true);
    CHECK_MSG(strstr(opened_describe(&o, line, sizeof(line)), "read (the system maps none") ||
                  strstr(line, "the system maps no more"),
              "\"%s\"", line);
    opened_close(&o);
    setup_text(&s, "io", "map");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EIO, &error);
    fault_set(deny, (void *)(uintptr_t) "io_uring_setup");
    setup_text(&s, "io", "direct");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_order(&o, RECORDS, 50, 0, true);
    check_order(&o, RECORDS, 50, 0, false);
    opened_close(&o);
    fault_set(NULL, NULL);
}

/* ---- Streams ---- */

static uint64_t read_stream(struct opened *o, pst_status *ret, pst_error *reterr)
{
    void *stream = NULL;
    uint64_t count = 0;
    *ret = source_tfrecord.stream_open(o->source, &stream, reterr);
    while (*ret == PST_OK && (*ret = source_tfrecord.stream_next(stream, &o->ctx, o->out, reterr)) == PST_OK) {
        CHECK_MSG(is_record(opened_bytes(o, "record"), count), "record %llu of the stream", (unsigned long long)count);
        count++;
    }
    if (stream)
        source_tfrecord.stream_close(stream);
    return count;
}

static void test_stream(void)
{
    static const pst_compression packings[] = {PST_COMPRESSION_GZIP, PST_COMPRESSION_ZSTD, PST_COMPRESSION_ZLIB};
    pst_error error;
    pst_status st;
    char line[256];
    for (size_t k = 0; k < 3; k++) {
        const char *folder = make_shards("stream", packings[k]);
        struct source_setup s = setup_for(&folder, "auto");
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        CHECK(opened_count(&o) == SOURCE_STREAM);
        opened_describe(&o, line, sizeof(line));
        CHECK_MSG(strstr(line, "5 shards") && strstr(line, "front to back") && strstr(line, "x.tfrecord-00004-of-00005"),
                  "\"%s\"", line);
        for (int pass = 0; pass < 2; pass++) {
            CHECK_INT(read_stream(&o, &st, &error), RECORDS);
            CHECK_STATUS(st, PST_END, &error);
        }
        opened_close(&o);
    }
}

/* A budget for damage is one of the data: passes do not add up. */
static void test_stream_damage(void)
{
    pst_error error;
    pst_status st;
    struct opened o;
    struct fixture f = fixture_make();
    char path[256];
    const char *folder = test_path("torn");
    mkdir(folder, 0777);
    f.bytes[f.offsets[2] + 20] ^= 1;
    snprintf(path, sizeof(path), "%s/a.tfrecord", folder);
    test_write_file(path, f.bytes, f.length);
    f.bytes[f.offsets[2] + 20] ^= 1;
    snprintf(path, sizeof(path), "%s/b.tfrecord.gz", folder);
    fixture_compress(path, f.bytes, f.length, PST_COMPRESSION_GZIP);
    free(f.bytes);
    struct source_setup s = setup_for(&folder, "auto");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    (void)opened_count(&o);
    void *stream = NULL;
    REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
    for (int i = 0; i < 2; i++)
        CHECK_STATUS(source_tfrecord.stream_next(stream, &o.ctx, o.out, &error), PST_OK, &error);
    st = source_tfrecord.stream_next(stream, &o.ctx, o.out, &error);
    CHECK_STATUS(st, PST_ECORRUPT, &error);
    CHECK_INT(error.record, 2);
    source_tfrecord.stream_close(stream);
    opened_close(&o);
    s.policy = (pst_policy){.skip = true, .max_records = 1};
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    for (int pass = 0; pass < 4; pass++) {
        uint64_t count = 0;
        REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
        while ((st = source_tfrecord.stream_next(stream, &o.ctx, o.out, &error)) == PST_OK)
            count++;
        CHECK_STATUS(st, PST_END, &error);
        CHECK_INT(count, 2 * FIXTURE_RECORDS - 1);
        source_tfrecord.stream_close(stream);
    }
    CHECK_INT(pst_damage_log_count(o.log, PST_CAUSES), 1);
    opened_close(&o);
}

static void write_pipe(void *user, unsigned worker)
{
    struct fixture f = fixture_make();
    int fd = open(user, O_WRONLY | O_CLOEXEC); /* waits for the reader */
    (void)worker;
    if (fd < 0 || write(fd, f.bytes, f.length) != (ssize_t)f.length)
        abort();
    close(fd);
    free(f.bytes);
}

static void test_pipe(void)
{
    pst_error error;
    struct opened o;
    struct thread_group *writer = NULL;
    void *stream = NULL;
    uint64_t count = 0;
    const char *path = test_path("pipe");
    pst_status st;
    REQUIRE(mkfifo(path, 0666) == 0);
    struct source_setup s = setup_for(&path, "auto");
    REQUIRE_OK(thread_group_start(&writer, 1, "writer", write_pipe, (void *)(uintptr_t)path, &error), &error);
    usleep(20000); /* the writer waits for somebody to open the pipe, who must be the one that reads */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    usleep(20000); /* had the opening woken the writer, it would now find nobody there */
    CHECK(opened_count(&o) == SOURCE_STREAM);
    REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
    while ((st = source_tfrecord.stream_next(stream, &o.ctx, o.out, &error)) == PST_OK) {
        pst_bytes b = opened_bytes(&o, "record");
        CHECK(b.length == fixture_lengths[count] && fixture_equal(b.data, b.length, count));
        count++;
    }
    CHECK_STATUS(st, PST_END, &error);
    CHECK_INT(count, FIXTURE_RECORDS);
    source_tfrecord.stream_close(stream);
    thread_group_join(writer);
    REQUIRE_OK(source_tfrecord.stream_open(o.source, &stream, &error), &error);
    CHECK_STATUS(source_tfrecord.stream_next(stream, &o.ctx, o.out, &error), PST_EUNSUPPORTED, &error);
    source_tfrecord.stream_close(stream);
    opened_close(&o);
}

/* ---- Threads ---- */

/* The third fails at once, the first takes its time. */
static pst_status fail_some(void *user, size_t i, pst_error *reterr)
{
    atomic_fetch_add((_Atomic unsigned *)user, 1);
    if (i == 1)
        usleep(20000);
    return i == 1 || i >= 3 ? pst_fail(reterr, PST_EINVAL, "%zu", i) : PST_OK;
}

static void test_each(void)
{
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        pst_error error;
        _Atomic unsigned calls = 0;
        CHECK_STATUS(each_run(100, threads, fail_some, &calls, &error), PST_EINVAL, &error);
        CHECK_STR(error.message, "1");
        CHECK(calls <= 2 + threads); /* nothing new is begun after a failure */
        CHECK_STATUS(each_run(1, threads, fail_some, &calls, &error), PST_OK, &error);
        CHECK_STATUS(each_run(0, threads, fail_some, &calls, &error), PST_OK, &error);
    }
}

#define THREADS 8

struct crowd {
    struct opened *o;
    _Atomic unsigned wrong;
};

static void load_at_random(void *user, unsigned worker)
{
    struct crowd *c = user;
    struct opened *o = c->o;
    pst_status st;
    pst_tensor out[1] = {0};
    void *w = worker_make(o->class, o->source, &st, NULL);
    struct random random;
    random_init(&random, 1, 2, 3, worker);
    for (int round = 0; st == PST_OK && round < 20; round++) {
        uint64_t index[48];
        for (size_t i = 0; i < 48; i++)
            index[i] = random_below(&random, RECORDS);
        if (round % 4)
            o->class->ahead(o->source, w, index, 48);
        for (size_t i = 0; i < 48; i++) {
            st = o->class->load(o->source, w, index[i], NULL, out, NULL);
            if (st < 0 || !is_record(*(const pst_bytes *)out[0].data, index[i]))
                atomic_fetch_add(&c->wrong, 1);
        }
    }
    if (st < 0)
        atomic_fetch_add(&c->wrong, 1);
    o->class->worker_stop(o->source, w);
    mem_free(w);
}

static void test_threads(void)
{
    pst_error error;
    const char *folder = make_shards("threads", PST_COMPRESSION_NONE);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        struct opened o;
        struct crowd c = {.o = &o};
        struct thread_group *group = NULL;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        REQUIRE_OK(thread_group_start(&group, THREADS, "load", load_at_random, &c, &error), &error);
        thread_group_join(group);
        CHECK_INT(c.wrong, 0);
        opened_close(&o);
    }
}

/* ---- Faults ---- */

/* Opens, announces, loads and closes; what succeeds must be right. */
static pst_status use_source(const char *folder, const char *io)
{
    struct source_setup s = setup_for(&folder, io);
    struct opened o;
    pst_error error;
    pst_status st = opened_open(&o, &s, &error), first = st;
    if (st < 0)
        return st;
    if (opened_count(&o) == SOURCE_STREAM) {
        read_stream(&o, &st, &error);
        opened_close(&o);
        return st < 0 ? st : PST_OK;
    }
    for (uint64_t begin = 0; begin < RECORDS; begin += 100) {
        uint64_t index[100];
        for (size_t i = 0; i < 100; i++)
            index[i] = begin + (i * 37) % 100;
        opened_ahead(&o, index, 100);
        for (size_t i = 0; i < 100; i += 9) {
            st = opened_load(&o, index[i], &error);
            if (st == PST_OK)
                CHECK(is_record(opened_bytes(&o, "record"), index[i]));
            first = first < 0 ? first : st;
        }
    }
    opened_close(&o);
    return first;
}

static void fail_all(const char *folder, const char *io, int kind, bool forever)
{
    uint64_t live = mem_live();
    size_t files = open_files();
    for (uint64_t n = 0;; n++) {
        test_fault_arm(kind, n, forever);
        pst_status st = use_source(folder, io);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK_MSG(st <= 0 && st != PST_ECORRUPT, "%s: fault %d of kind %d gives %s", io, (int)n, kind, pst_status_name(st));
        if (!reached) {
            CHECK_STATUS(st, PST_OK, NULL);
            break;
        }
    }
    CHECK_INT(mem_live(), live);
    CHECK_INT(open_files(), files);
}

static void test_faults(void)
{
    static const int faults[] = {FAULT_MEMORY, FAULT_IO, FAULT_THREAD};
    const char *folder = make_shards("faults", PST_COMPRESSION_NONE), *packed = make_shards("faults-gz", PST_COMPRESSION_GZIP);
    for (size_t i = 0; i < 3; i++) {
        for (int forever = 0; forever < 2; forever++) {
            for (size_t k = 0; k < IOS; k++)
                fail_all(folder, ios[k], faults[i], forever);
            fail_all(packed, "auto", faults[i], forever);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"values in any order, by any means", test_values},
        {"small windows", test_small_windows},
        {"many shards, few descriptors", test_many_shards},
        {"nothing in it", test_one_empty},
        {"in words", test_describe},
        {"fingerprint", test_fingerprint},
        {"flipped bits", test_flips},
        {"verified once", test_verified_once},
        {"gaps are told at the opening", test_gaps},
        {"the limit of a record", test_limit},
        {"a file that is cut", test_cut},
        {"what the system denies", test_denied},
        {"compressed shards are a stream", test_stream},
        {"damage of a stream is told once", test_stream_damage},
        {"a pipe", test_pipe},
        {"the lowest failure", test_each},
        {"threads", test_threads},
        {"faults", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
