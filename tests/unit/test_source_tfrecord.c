/* test_source_tfrecord.c: the records of shards through the source, in any order, by any means. */
#include "source_shards.h"

#include "base/bitmap.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/random.h"
#include "base/thread.h"
#include "source/shard_reader.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

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

/* Small records with large ones between them that nobody asked for: what is read along with them is not without limit. */
static void test_far_apart(void)
{
    enum { PAIRS = 200, BUDGET = 2 << 20 };
    pst_error error;
    size_t lengths[2 * PAIRS];
    struct record_place places[PAIRS];
    struct shard_set set = {0};
    struct direct_reader d = {0};
    pst_damage_log *log = fixture_log("error");
    const char *path = test_path("apart.tfrecord");
    const pst_strings paths = {.count = 1, .value = &path};
    const struct source_env env = {.damage = log, .met = log};
    pst_writer_options options = {.size = sizeof(options), .no_sync = true};
    for (size_t i = 0; i < 2 * PAIRS; i++)
        lengths[i] = i % 2 ? 60000 : 100;
    REQUIRE_OK(fixture_write(path, lengths, 2 * PAIRS, &options, &error), &error);
    REQUIRE_OK(shard_set_open(&set, &paths, SHARD_IO_DIRECT, 1 << 20, &env, &error), &error);
    for (size_t i = 0; i < PAIRS; i++)
        places[i] = (struct record_place){.index = 2 * i, .offset = set.shards[0].entries[2 * i].offset, .length = 100};
    REQUIRE(direct_reader_begin(&d, &set, places, PAIRS, BUDGET));
    for (size_t i = 0; i < PAIRS; i++) {
        const uint8_t *frame;
        REQUIRE_OK(direct_reader_frame(&d, i, &frame, &error), &error);
        CHECK(fixture_equal(frame + FRAME_HEADER, 100, 2 * i));
        CHECK_MSG(direct_reader_memory(&d) < 3 * BUDGET, "%zu bytes", direct_reader_memory(&d));
    }
    direct_reader_finish(&d);
    shard_set_close(&set);
    pst_damage_log_destroy(log);
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

#define LATER UINT64_C(3600000000000) /* an hour, in nanoseconds */

/* Memory that is offered to a reader. */
static struct {
    uint8_t bytes[4 << 20];
    size_t used;
} offered;

static void *take_offered(void *memory, size_t size)
{
    (void)memory;
    uint8_t *at = offered.bytes + offered.used;
    if (size > sizeof(offered.bytes) - offered.used)
        return NULL;
    offered.used += size;
    return at;
}

static bool is_offered(const void *p)
{
    return (const uint8_t *)p >= offered.bytes && (const uint8_t *)p < offered.bytes + offered.used;
}

/* What is not in memory is asked for ahead, or read past the page cache where memory would never hold it: the same bytes. */
static void test_cold(void)
{
    pst_error error;
    const char *folder = make_shards("cold", PST_COMPRESSION_NONE);
    pst_strings paths = {.count = 1, .value = &folder};
    pst_damage_log *log = fixture_log("error");
    struct source_env env = {.damage = log};
    for (int io = SHARD_IO_AUTO; io <= SHARD_IO_READ; io++) {
        for (int exceeds = 0; exceeds < 2; exceeds++) {
            struct shard_set s = {0};
            struct shard_reader r = {0};
            pst_bytes record;
            REQUIRE_OK(shard_set_open(&s, &paths, (enum shard_io)io, PST_MAX_RECORD_BYTES, &env, &error), &error);
            s.exceeds_memory = exceeds;
            for (int pass = 0; pass < 4; pass++) { /* all at once and in parts, in order and out of it */
                size_t slice = pass < 2 ? RECORDS : 60;
                uint64_t index[RECORDS];
                for (uint64_t i = 0; i < RECORDS; i++)
                    index[i] = pass % 2 ? i * 37 % RECORDS : i;
                for (size_t begin = 0; begin < RECORDS; begin += slice) {
                    r.cold = (struct cold_watch){.asked_ns = clock_ns() + LATER, .cold = true}; /* it does not look again */
                    r.room = &(const struct source_room){.take = take_offered};
                    offered.used = 0;
                    shard_reader_ahead(&r, &s, 0, index + begin, slice);
                    CHECK_INT(r.direct, io == SHARD_IO_AUTO && exceeds && slice == RECORDS); /* for a megabyte and more */
                    for (size_t i = begin; i < begin + slice; i++) {
                        CHECK_STATUS(shard_reader_load(&r, &s, index[i], &record, &error), PST_OK, &error);
                        CHECK(is_record(record, index[i]));
                        CHECK(is_offered(record.data) == (io == SHARD_IO_READ)); /* other records are in memory, or are read many at once */
                    }
                }
            }
            shard_reader_finish(&r);
            shard_set_close(&s);
        }
    }
    pst_damage_log_destroy(log);
    struct cold_watch w = {0};
    bool renewed = false;
    CHECK(!cold_watch_look(&w, &renewed) && renewed);
    w.asked_ns += LATER;
    CHECK(!cold_watch_look(&w, &renewed) && !renewed);
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

/* ---- Threads ---- */

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

/* ---- What a filter keeps ---- */

#define KEPT_STEP 7

/* Small records far apart are copied when they are first read, whoever reads them: then the file is not needed any more. */
static void test_kept(void)
{
    pst_error error;
    const char *path = test_path("kept.tfrecord");
    size_t lengths[RECORDS];
    uint64_t words[RECORDS / 64 + 1] = {0}, rank[RECORDS / BITMAP_BLOCK + 2], kept[RECORDS], n = 0;
    uint32_t hint[4];
    for (uint64_t i = 0; i < RECORDS; i++) {
        lengths[i] = i * 37 % 400;
        if (i % KEPT_STEP == 2) {
            words[i / 64] |= UINT64_C(1) << i % 64;
            kept[n++] = i;
        }
    }
    pst_writer_options options = {.size = sizeof(options), .no_sync = true};
    REQUIRE_OK(fixture_write(path, lengths, RECORDS, &options, &error), &error);
    struct bitmap only = {.words = words, .rank = rank, .hint = hint, .count = RECORDS, .ones = n};
    CHECK_INT(bitmap_fill_rank(words, RECORDS, rank), n);
    bitmap_fill_hint(rank, RECORDS, n, hint);
    struct source_setup s = setup_for(&path, "map");
    struct opened o;
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(source_tfrecord.keep(o.source, &only, 1000), 0); /* too little memory */
    CHECK(source_tfrecord.keep(o.source, &only, 1 << 20) > n * 200);
    CHECK_INT(source_tfrecord.worker_start(o.source, o.worker, &error), PST_OK);
    for (int pass = 0; pass < 3; pass++) {
        opened_ahead(&o, kept, (size_t)n);
        for (size_t i = 0; i < n; i++) {
            CHECK_INT(opened_load(&o, kept[i], &error), PST_OK);
            pst_bytes b = opened_bytes(&o, "record");
            CHECK_MSG(b.length == lengths[kept[i]] && fixture_equal(b.data, b.length, kept[i]), "pass %d, record %d", pass, (int)kept[i]);
        }
        if (pass != 1)
            continue;
        int fd = open(path, O_WRONLY); /* what is read from the file from now on is not a record */
        CHECK(fd >= 0 && write(fd, words, sizeof(words)) == (ssize_t)sizeof(words));
        close(fd);
    }
    CHECK_INT(opened_load(&o, 0, &error), PST_ECORRUPT); /* is not kept */
    opened_close(&o);
}

/* ---- Faults ---- */

/* Announces slices and loads a part of each; what succeeds must be right. */
static pst_status use_slices(const void *user)
{
    struct opened o;
    pst_error error;
    pst_status st = opened_open(&o, user, &error), first = st;
    if (st < 0)
        return st;
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

static void test_faults(void)
{
    const char *folder = make_shards("faults", PST_COMPRESSION_NONE);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        fail_all(use_slices, &s);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"values in any order, by any means", test_values},
        {"small windows", test_small_windows},
        {"far apart", test_far_apart},
        {"many shards, few descriptors", test_many_shards},
        {"nothing in it", test_one_empty},
        {"what is not in memory", test_cold},
        {"in words", test_describe},
        {"fingerprint", test_fingerprint},
        {"what the system denies", test_denied},
        {"threads", test_threads},
        {"what a filter keeps", test_kept},
        {"faults", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
