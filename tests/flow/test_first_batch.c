/* test_first_batch.c: a large data set begins at once: with indexes beside its shards, opening reads these and no record. The
 * figure is printed; what is asserted leaves room for a busy machine and for sanitizers. */
#include "harness.h"

#include "base/clock.h"

#include <penstock/pipeline.h>
#include <penstock/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS      1000000u
#define SHARDS       8u
#define ROUNDS       7
#define MOST_SECONDS 5.0

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

/* Seconds from nothing to the first shuffled batch: the best of several, as a process that starts sees it. */
static double first_batch(const char *folder, int rounds)
{
    char text[512];
    double best = 1e9;
    snprintf(text, sizeof(text), "tfrecord %s | shuffle | batch 64", folder);
    for (int i = 0; i < rounds; i++) {
        pst_pipeline *p = NULL;
        pst_batch *b = NULL;
        pst_error e = {0};
        uint64_t begin = clock_ns();
        pst_status st = pst_pipeline_parse(&p, text, NULL, &e);
        if (st == PST_OK)
            st = pst_pipeline_next(p, &b, &e);
        double took = 1e-9 * (double)(clock_ns() - begin);
        CHECK_STATUS(st, PST_OK, &e);
        CHECK_INT(st == PST_OK ? pst_batch_size(b) : 0, 64);
        CHECK_INT(pst_pipeline_length(p), RECORDS / 64);
        best = took < best ? took : best;
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
    return best;
}

static void test_million(void)
{
    char folder[300];
    snprintf(folder, sizeof(folder), "%s", test_path("million"));
    write_shards(folder, RECORDS, true);
    double best = first_batch(folder, ROUNDS);
    printf("# %u records in %u shards with an index: first shuffled batch %.1f ms after opening, best of %d\n", RECORDS, SHARDS,
           1e3 * best, ROUNDS);
    CHECK_MSG(best < MOST_SECONDS, "the first batch came after %.3f s", best);
}

/* Without one, the first run makes it; the second has it. */
static void test_without_index(void)
{
    char folder[300];
    snprintf(folder, sizeof(folder), "%s", test_path("bare"));
    write_shards(folder, RECORDS, false);
    double scan = first_batch(folder, 1), later = first_batch(folder, ROUNDS);
    printf("# without an index: %.0f ms for the scan that makes it, then %.1f ms\n", 1e3 * scan, 1e3 * later);
    CHECK_MSG(later < MOST_SECONDS, "the first batch came after %.3f s", later);
}

static const struct test tests[] = {
    {"the first of a million records", test_million},
    {"an index is made once", test_without_index},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
