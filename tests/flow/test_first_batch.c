/* test_first_batch.c: a large data set begins at once: with indexes beside its shards, opening reads these and no record. What is compared is
 * the processor time with an index and that of the scan which makes one, both here and now, so that the speed of the machine does not matter. */
#include "harness.h"

#include <penstock/pipeline.h>
#include <penstock/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECORDS 1000000u
#define SHARDS  8u
#define ROUNDS  7

static void write_shards(const char *folder, uint64_t records, bool with_index)
{
    pst_writer_options o = {.size = sizeof(o), .no_sync = true, .no_index = !with_index};
    pst_error e = {0};
    pst_status st = mkdir(folder, 0755) == 0 ? PST_OK : PST_EIO;
    for (uint64_t s = 0; s < SHARDS && st == PST_OK; s++) {
        pst_writer *w;
        char path[400];
        snprintf(path, sizeof(path), "%s/a.tfrecord-%05u-of-%05u", folder, (unsigned)s, SHARDS);
        st = pst_writer_open(&w, path, &o, &e);
        for (uint64_t i = records * s / SHARDS; i < records * (s + 1) / SHARDS && st == PST_OK; i++) {
            uint64_t record[4] = {i, ~i, i * 3, 7};
            st = pst_writer_write(w, record, 8 + i % 25, &e);
        }
        if (st == PST_OK)
            st = pst_writer_commit(w, &e);
        pst_writer_close(w);
    }
    if (!CHECK_STATUS(st, PST_OK, &e))
        abort();
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Processor time from nothing to the first shuffled batch: the least of several, as a process that starts sees it. */
static double first_batch(const char *folder, int rounds)
{
    char text[512];
    double best = 1e9;
    snprintf(text, sizeof(text), "tfrecord %s | shuffle | batch 64", folder);
    for (int i = 0; i < rounds; i++) {
        pst_pipeline *p = NULL;
        pst_batch *b = NULL;
        pst_error e = {0};
        double begin = cpu_seconds();
        pst_pipeline_options o = {.size = sizeof(o), .workers = 1}; /* many would prepare many batches meanwhile */
        pst_status st = pst_pipeline_parse(&p, text, &o, &e);
        if (st == PST_OK)
            st = pst_pipeline_next(p, &b, &e);
        double took = cpu_seconds() - begin;
        CHECK_STATUS(st, PST_OK, &e);
        CHECK_INT(st == PST_OK ? pst_batch_size(b) : 0, 64);
        CHECK_INT(pst_pipeline_length(p), RECORDS / 64);
        best = took < best ? took : best;
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
    return best;
}

static unsigned count_indexes(const char *folder)
{
    unsigned count = 0;
    for (unsigned s = 0; s < SHARDS; s++) {
        char path[400];
        snprintf(path, sizeof(path), "%s/a.tfrecord-%05u-of-%05u.pidx", folder, s, SHARDS);
        count += access(path, R_OK) == 0;
    }
    return count;
}

/* Without an index, the first run makes it; the next ones have it, and so have all where the shards came with one. */
static void test_million(void)
{
    char bare[300], indexed[300];
    snprintf(bare, sizeof(bare), "%s", test_path("bare"));
    snprintf(indexed, sizeof(indexed), "%s", test_path("million"));
    write_shards(bare, RECORDS, false);
    write_shards(indexed, RECORDS, true);
    CHECK_INT(count_indexes(bare), 0);
    CHECK_INT(count_indexes(indexed), SHARDS);
    double scan = first_batch(bare, 1), later = first_batch(bare, ROUNDS), best = first_batch(indexed, ROUNDS);
    CHECK_INT(count_indexes(bare), SHARDS);
    printf("# %u records in %u shards, CPU time to the first shuffled batch: %.1f ms with an index, least of %d; %.0f ms for the scan that makes one, then "
           "%.1f ms\n", RECORDS, SHARDS, 1e3 * best, ROUNDS, 1e3 * scan, 1e3 * later);
    CHECK_MSG(best < scan / 2, "%.4f s with an index, %.4f s for the scan", best, scan);
    CHECK_MSG(later < scan / 2, "%.4f s once there is an index, %.4f s for the scan", later, scan);
}

static const struct test tests[] = {
    {"the first of a million records", test_million},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
