/* test_writer.c: a shard appears whole, with its index, or not at all. */
#include "record_fixture.h"

#include "base/fault.h"
#include "base/memory.h"
#include "record/index.h"

#include <dirent.h>
#include <unistd.h>

static const size_t lengths[] = {5, 0, 100000, 70, 300000, 65535, 1};
#define COUNT (sizeof(lengths) / sizeof(lengths[0]))

/* Files of the test folder whose name holds `part`. */
static int files_with(const char *part)
{
    int n = 0;
    DIR *d = opendir(test_folder());
    for (const struct dirent *e; d && (e = readdir(d));)
        n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

static void test_commit(void)
{
    pst_error error;
    pst_writer *w;
    uint64_t mask, count;
    REQUIRE_OK(pst_writer_open(&w, test_path("c"), NULL, &error), &error);
    REQUIRE_OK(pst_writer_write(w, "x", 1, &error), &error);
    CHECK_INT(pst_writer_count(w), 1);
    CHECK(access(test_path("c"), F_OK) < 0);
    REQUIRE_OK(pst_writer_commit(w, &error), &error);
    CHECK(access(test_path("c"), F_OK) == 0 && access(test_path("c.pidx"), F_OK) == 0);
    CHECK_STATUS(pst_writer_commit(w, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_writer_write(w, "x", 1, &error), PST_EINVAL, &error);
    CHECK_INT(pst_writer_count(w), 1);
    CHECK(pst_writer_close(w) == NULL);
    CHECK(pst_writer_close(NULL) == NULL);
    CHECK_INT(files_with(".tmp-"), 0);
    /* a shard of no records is one, too */
    REQUIRE_OK(fixture_write(test_path("none"), lengths, 0, NULL, &error), &error);
    CHECK_STATUS(fixture_read(test_path("none"), NULL, &mask, &count, &error), PST_END, &error);
    pst_shard *s;
    REQUIRE_OK(pst_shard_open(&s, test_path("none"), NULL, &error), &error);
    CHECK(pst_shard_count(s) == 0 && !pst_shard_index_built(s));
    pst_shard_close(s);
}

static void test_discard(void)
{
    pst_error error;
    pst_writer *w;
    REQUIRE_OK(pst_writer_open(&w, test_path("discard"), NULL, &error), &error);
    for (int i = 0; i < 100; i++)
        REQUIRE_OK(pst_writer_write(w, "0123456789", 10, &error), &error);
    pst_writer_close(w);
    CHECK_INT(files_with("discard"), 0);
}

static void test_exists(void)
{
    pst_error error;
    pst_writer *w = NULL;
    size_t length;
    pst_writer_options replace = {.size = sizeof(replace), .overwrite = true, .no_sync = true};
    test_write_file(test_path("there"), "old", 3);
    CHECK_STATUS(pst_writer_open(&w, test_path("there"), NULL, &error), PST_EEXIST, &error);
    CHECK(w == NULL);
    REQUIRE_OK(pst_writer_open(&w, test_path("there"), &replace, &error), &error);
    uint8_t *bytes = test_read_file(test_path("there"), &length);
    CHECK(length == 3 && memcmp(bytes, "old", 3) == 0);
    free(bytes);
    REQUIRE_OK(pst_writer_commit(w, &error), &error);
    pst_writer_close(w);
    bytes = test_read_file(test_path("there"), &length);
    CHECK_INT(length, 0);
    free(bytes);
    CHECK_STATUS(pst_writer_open(&w, test_path("no/such/folder"), NULL, &error), PST_ENOTFOUND, &error);
}

/* The index that is built while writing is the one that a scan makes. */
static void test_index(void)
{
    pst_error error;
    pst_index_report report = {.size = sizeof(report)};
    pst_writer_options with = {.size = sizeof(with), .no_sync = true}, without = {.size = sizeof(without), .no_sync = true};
    without.no_index = true;
    REQUIRE_OK(fixture_write(test_path("with"), lengths, COUNT, &with, &error), &error);
    CHECK_STATUS(pst_index_make(test_path("with"), NULL, false, true, &report, &error), PST_OK, &error);
    CHECK_INT(report.records, COUNT);
    REQUIRE_OK(fixture_write(test_path("without"), lengths, COUNT, &without, &error), &error);
    CHECK(access(test_path("without.pidx"), F_OK) < 0);
    size_t a_length, b_length;
    uint8_t *a = test_read_file(test_path("with"), &a_length), *b = test_read_file(test_path("without"), &b_length);
    CHECK(a_length == b_length && memcmp(a, b, a_length) == 0);
    free(a);
    free(b);
}

static bool count_syncs(void *user, enum fault_kind kind, const char *what)
{
    *(int *)user += kind == FAULT_IO && strcmp(what, "fsync") == 0;
    return false;
}

/* The shard and its index are each synced with their folder, or nothing is. */
static void test_sync(void)
{
    for (int i = 0; i < 4; i++) {
        pst_error error;
        int syncs = 0;
        pst_writer_options o = {.size = sizeof(o), .overwrite = true, .no_sync = i & 1, .no_index = i & 2};
        fault_set(count_syncs, &syncs);
        pst_status st = fixture_write(test_path("synced"), lengths, COUNT, &o, &error);
        fault_set(NULL, NULL);
        CHECK_STATUS(st, PST_OK, &error);
        CHECK_INT(syncs, o.no_sync ? 0 : o.no_index ? 2 : 4);
    }
}

static void test_bad_options(void)
{
    pst_error error;
    pst_writer *w = NULL;
    pst_writer_options level = {.size = sizeof(level), .compression = PST_COMPRESSION_GZIP, .level = 1000};
    pst_writer_options kind = {.size = sizeof(kind), .compression = (pst_compression)55}, size = {.size = 4};
    uint64_t live = mem_live();
    CHECK_STATUS(pst_writer_open(&w, test_path("bad"), &level, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_writer_open(&w, test_path("bad"), &kind, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_writer_open(&w, test_path("bad"), &size, &error), PST_EINVAL, &error);
    CHECK_INT(files_with("bad"), 0);
    CHECK_INT(mem_live(), live);
}

/* A write that failed once is not followed by others, let alone by a commit. */
static void test_failure_is_final(void)
{
    static const uint8_t large[100000];
    pst_error error;
    pst_writer *w;
    REQUIRE_OK(pst_writer_open(&w, test_path("final"), NULL, &error), &error);
    REQUIRE_OK(pst_writer_write(w, large, sizeof(large), &error), &error);
    test_fault_arm(FAULT_IO, 0, false);
    CHECK_STATUS(pst_writer_write(w, large, sizeof(large), &error), PST_EIO, &error);
    test_fault_clear();
    CHECK_STATUS(pst_writer_write(w, large, sizeof(large), &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_writer_commit(w, &error), PST_EINVAL, &error);
    CHECK_INT(pst_writer_count(w), 1);
    pst_writer_close(w);
    CHECK_INT(files_with("final"), 0);
}

/* Each fault in turn, once and for ever: the shard is whole or absent, the index never without its shard. */
static void test_faults(void)
{
    static const pst_compression compressions[] = {PST_COMPRESSION_NONE, PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB,
                                                   PST_COMPRESSION_ZSTD};
    for (size_t run = 0; run < 4 * 2 * 2; run++) {
        pst_writer_options w = {.size = sizeof(w), .compression = compressions[run / 4], .level = 1};
        int kind = run % 4 < 2 ? FAULT_MEMORY : FAULT_IO;
        uint64_t live = mem_live(), mask, count;
        bool hit = true;
        for (uint64_t n = 0; hit; n++) {
            pst_error error;
            test_fault_arm(kind, n, run % 2);
            pst_status st = fixture_write(test_path("f"), lengths, COUNT, &w, &error);
            hit = test_fault_calls() > n;
            test_fault_clear();
            CHECK_INT(mem_live(), live);
            CHECK_INT(files_with(".tmp-"), 0);
            bool shard = access(test_path("f"), F_OK) == 0, index = access(test_path("f.pidx"), F_OK) == 0;
            CHECK(st == PST_OK || (hit && st == (kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO)));
            CHECK(shard || !index);
            CHECK(shard || st < 0);
            if (shard) {
                CHECK_STATUS(fixture_read(test_path("f"), NULL, &mask, &count, &error), PST_END, &error);
                CHECK_INT(count, COUNT);
            }
            unlink(test_path("f"));
            unlink(test_path("f.pidx"));
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"commit", test_commit},
        {"discard", test_discard},
        {"existing files", test_exists},
        {"index built while writing", test_index},
        {"syncing", test_sync},
        {"bad options", test_bad_options},
        {"a failure is final", test_failure_is_final},
        {"every allocation and every I/O call may fail", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
