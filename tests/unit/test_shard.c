/* test_shard.c: random access to the records of a shard through its index: what is read, refused and told. */
#include "shard_fixture.h"

#include "base/fault.h"
#include "base/memory.h"
#include "record/shard.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_read_errors(void)
{
    pst_error error;
    pst_shard *s = NULL;
    uint8_t data[512];
    size_t length = 99;
    pst_shard_options limited = {.size = sizeof(limited), .max_record_bytes = 100, .no_write = true};
    write_fixture(test_path("re"));
    REQUIRE_OK(pst_shard_open(&s, test_path("re"), &limited, &error), &error);
    CHECK_STATUS(pst_shard_read(s, 5, data, sizeof(data), &length, &error), PST_ENOTFOUND, &error);
    CHECK_STATUS(pst_shard_read(s, UINT64_MAX, data, sizeof(data), &length, &error), PST_ENOTFOUND, &error);
    CHECK_STATUS(pst_shard_read(s, 2, data, sizeof(data), &length, &error), PST_ELIMIT, &error);
    CHECK_STATUS(pst_shard_read(s, 0, data, 36, &length, &error), PST_EINVAL, &error);
    CHECK_INT(length, 99);
    CHECK_STATUS(pst_shard_read(s, 1, NULL, 0, &length, &error), PST_OK, &error);
    CHECK_INT(length, 0);
    REQUIRE(truncate(test_path("re"), 60) == 0);
    CHECK_STATUS(pst_shard_read(s, 3, data, sizeof(data), &length, &error), PST_ESTALE, &error);
    pst_shard_close(s);
    limited.max_record_bytes = 120; /* the length of the record */
    write_fixture(test_path("re"));
    REQUIRE_OK(pst_shard_open(&s, test_path("re"), &limited, &error), &error);
    CHECK_STATUS(pst_shard_read(s, 2, data, sizeof(data), &length, &error), PST_OK, &error);
    CHECK_INT(length, 120);
    pst_shard_close(s);
}

static void test_unsupported(void)
{
    pst_error error;
    pst_shard *s = NULL;
    static const pst_compression compressions[] = {PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB, PST_COMPRESSION_ZSTD};
    for (size_t c = 0; c < 3; c++) {
        pst_writer_options w = {.size = sizeof(w), .compression = compressions[c], .no_sync = true, .overwrite = true};
        REQUIRE_OK(fixture_write(test_path("z"), fixture_lengths, FIXTURE_RECORDS, &w, &error), &error);
        CHECK(access(test_path("z.pidx"), F_OK) < 0);
        CHECK_STATUS(pst_shard_open(&s, test_path("z"), NULL, &error), PST_EUNSUPPORTED, &error);
    }
    REQUIRE(mkfifo(test_path("pipe"), 0600) == 0);
    CHECK_STATUS(pst_shard_open(&s, test_path("pipe"), NULL, &error), PST_EUNSUPPORTED, &error);
    CHECK_STATUS(pst_shard_open(&s, test_path("nothing"), NULL, &error), PST_ENOTFOUND, &error);
}

/* The scan hops over large records and walks small ones; both see the same as the writer. */
static void test_scan_sizes(void)
{
    enum { COUNT = 3000 };
    static size_t lengths[COUNT];
    for (int shape = 0; shape < 3; shape++) {
        pst_error error;
        pst_index_report report = {.size = sizeof(report)};
        pst_writer_options w = {.size = sizeof(w), .no_sync = true, .overwrite = true};
        size_t count = shape == 0 ? COUNT : 200;
        for (size_t i = 0; i < count; i++)
            lengths[i] = shape == 0 ? i % 300 : shape == 1 ? 20000 + i : (i % 10 ? i : 300000);
        REQUIRE_OK(fixture_write(test_path("scan"), lengths, count, &w, &error), &error);
        CHECK_STATUS(pst_index_make(test_path("scan"), NULL, false, true, &report, &error), PST_OK, &error);
        CHECK_INT(report.records, count);
    }
}

static void test_make(void)
{
    pst_error error;
    pst_index_report report = {.size = sizeof(report)};
    write_fixture(test_path("m"));
    CHECK_STATUS(pst_index_make(test_path("m"), NULL, false, true, &report, &error), PST_ENOTFOUND, &error);
    CHECK_STATUS(pst_index_make(test_path("m"), &no_write, false, false, &report, &error), PST_OK, &error);
    CHECK(!report.written && report.place == PST_INDEX_MEMORY && report.path[0] == '\0');
    CHECK_STATUS(pst_index_make(test_path("m"), NULL, false, false, &report, &error), PST_OK, &error);
    CHECK(report.written && report.place == PST_INDEX_SIDECAR && report.records == 5 && report.bytes == 538);
    CHECK_STATUS(pst_index_make(test_path("m"), NULL, false, false, &report, &error), PST_OK, &error);
    CHECK(!report.written);
    CHECK_STATUS(pst_index_make(test_path("m"), NULL, true, false, &report, &error), PST_OK, &error);
    CHECK(report.written);
}

/* Damage that the index was made around is told at every opening, not only at the first. */
static void test_gaps_are_told(void)
{
    struct fixture f = fixture_make();
    pst_error error;
    f.bytes[f.offsets[1] + 8] ^= 1;
    test_write_file(test_path("g"), f.bytes, f.length - 3);
    for (int i = 0; i < 2; i++) {
        pst_shard *s = NULL;
        pst_damage_log *log = fixture_log("skip");
        pst_shard_options options = {.size = sizeof(options), .damage = log};
        REQUIRE_OK(pst_shard_open(&s, test_path("g"), &options, &error), &error);
        CHECK_INT(pst_shard_index_built(s), i == 0);
        CHECK_INT(pst_shard_count(s), 3);
        CHECK_INT(pst_damage_log_count(log, PST_CAUSE_LENGTH_CRC), 1);
        CHECK_INT(pst_damage_log_count(log, PST_CAUSE_TRUNCATED), 1);
        CHECK_INT(pst_damage_log_place(log, 0).record, 1);
        CHECK_INT(pst_damage_log_place(log, 0).bytes, 16);
        CHECK_INT(pst_damage_log_place(log, 1).record, 4);
        CHECK_INT(pst_damage_log_place(log, 1).offset, f.offsets[4]);
        pst_shard_close(s);
        pst_damage_log_destroy(log);
        s = NULL;
        CHECK_STATUS(pst_shard_open(&s, test_path("g"), NULL, &error), PST_ECORRUPT, &error);
        CHECK_INT(error.record, 1);
        CHECK(s == NULL);
    }
    free(f.bytes);
}

static void *read_often(void *user)
{
    const pst_shard *s = user;
    static const uint64_t strides[] = {1, 7, 11, 13};
    for (uint64_t k = 0; k < 4000; k++) {
        uint8_t data[700];
        size_t length = 0;
        uint64_t i = k * strides[k % 4] % pst_shard_count(s);
        if (pst_shard_read(s, i, data, sizeof(data), &length, NULL) != PST_OK || length != i % 700 ||
            !fixture_equal(data, length, i))
            return user;
    }
    return NULL;
}

static void test_threads(void)
{
    enum { COUNT = 1000, THREADS = 4 };
    static size_t lengths[COUNT];
    pst_error error;
    pst_shard *s;
    pthread_t threads[THREADS];
    pst_writer_options w = {.size = sizeof(w), .no_sync = true, .overwrite = true};
    for (size_t i = 0; i < COUNT; i++)
        lengths[i] = i % 700;
    REQUIRE_OK(fixture_write(test_path("threads"), lengths, COUNT, &w, &error), &error);
    REQUIRE_OK(pst_shard_open(&s, test_path("threads"), NULL, &error), &error);
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, read_often, s) == 0);
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        pthread_join(threads[i], &bad);
        CHECK(bad == NULL);
    }
    pst_shard_close(s);
}

/* Opening with each fault in turn: it works (an index is a convenience) or says why not; nothing leaks either way. */
static void test_faults(void)
{
    char folder[320];
    snprintf(folder, sizeof(folder), "%s/faults", test_folder());
    pst_shard_options cached = {.size = sizeof(cached), .cache_dir = folder};
    write_fixture(test_path("f"));
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
        for (int forever = 0; forever < 2; forever++) {
            uint64_t live = mem_live();
            bool hit = true;
            for (uint64_t n = 0; hit; n++) {
                pst_shard *s = NULL;
                pst_error error;
                uint8_t data[512];
                size_t length;
                unlink(test_path("f.pidx"));
                test_fault_arm(kind, n, forever);
                pst_status st = pst_shard_open(&s, test_path("f"), &cached, &error), got = st;
                if (st == PST_OK)
                    got = pst_shard_read(s, 2, data, sizeof(data), &length, &error);
                hit = test_fault_calls() > n;
                test_fault_clear();
                CHECK(got == PST_OK || (hit && got == (kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO)));
                if (st == PST_OK)
                    check_records(s);
                pst_shard_close(s);
                CHECK_INT(mem_live(), live);
                struct index x = {0};
                st = index_open(&x, test_path("f.pidx"), NULL); /* whole or absent */
                CHECK(st == PST_OK || st == PST_ENOTFOUND);
                index_finish(&x);
            }
        }
    }
}

static void test_released(void)
{
    pst_shard *s = NULL;
    pst_error error;
    write_fixture(test_path("released"));
    REQUIRE_OK(pst_shard_open(&s, test_path("released"), &no_write, &error), &error);
    shard_release(s);
    CHECK_INT(shard_descriptor(s), -1);
    check_records(s);
    pst_shard_close(s);
}

/* Appends a record to the shard when it is looked at for the nth time. */
struct growth {
    int fd, looks;
};

static bool grow(void *user, enum fault_kind kind, const char *what)
{
    struct growth *g = user;
    if (kind == FAULT_IO && strcmp(what, "fstat") == 0 && g->looks-- == 0) {
        uint8_t frame[FRAME_BYTES + 5] = {0};
        frame_put_header(frame, 5);
        frame_put_footer(frame + FRAME_HEADER + 5, frame + FRAME_HEADER, 5);
        if (write(g->fd, frame, sizeof(frame)) != (ssize_t)sizeof(frame))
            abort();
    }
    return false;
}

/* A shard that is still written to: no index may stay behind that speaks of a part of it. */
static void test_growing(void)
{
    char path[300];
    snprintf(path, sizeof(path), "%s", test_path("growing"));
    pst_shard *s = NULL;
    pst_error error;
    for (int looks = 1; looks < 3; looks++) { /* in front of the scan, and behind it */
        write_fixture(path);
        struct growth g = {open(path, O_WRONLY | O_APPEND | O_CLOEXEC), looks};
        fault_set(grow, &g);
        pst_status st = pst_shard_open(&s, path, NULL, &error);
        fault_set(NULL, NULL);
        close(g.fd);
        CHECK_STATUS(st, PST_ESTALE, &error);
        CHECK(strstr(error.message, "written to") != NULL);
        CHECK(access(test_path("growing.pidx"), F_OK) < 0);
        if (st == PST_OK)
            pst_shard_close(s);
        REQUIRE_OK(pst_shard_open(&s, path, NULL, &error), &error);
        CHECK_INT(pst_shard_count(s), FIXTURE_RECORDS + 1);
        pst_shard_close(s);
        unlink(test_path("growing.pidx"));
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"read errors", test_read_errors},
        {"no random access", test_unsupported},
        {"scan of small and large records", test_scan_sizes},
        {"make and check", test_make},
        {"gaps are told", test_gaps_are_told},
        {"a shard that grows", test_growing},
        {"a descriptor given back", test_released},
        {"many threads", test_threads},
        {"every allocation and every I/O call may fail", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
