/* test_shuffle.c: whether what a pipeline delivers is well mixed: chi-square over what comes out, for the exact shuffle, the
 * windowed one and the buffer of a stream. That orders are permutations, and what the permutation itself is worth, is tested
 * with the rooms that make them.
 *
 * Seeds are fixed: each test passes always or never, and a bound of 5 deviations leaves no luck. */
#include "cursor.h"
#include "harness.h"

#include <math.h>
#include <penstock/pipeline.h>
#include <penstock/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many deviations chi-square is above what chance gives. */
static double excess(const uint32_t *counts, size_t cells, double expected, double freedom)
{
    double x = 0;
    for (size_t i = 0; i < cells; i++)
        x += (counts[i] - expected) * (counts[i] - expected) / expected;
    return (x - freedom) / sqrt(2 * freedom);
}

#define CHECK_CHANCE(z, what) CHECK_MSG(fabs(z) < 5, "%s: %.1f deviations off", what, z)

static pst_pipeline *opened(const char *text)
{
    pst_pipeline_options o = {.size = sizeof(o), .seed = 17, .workers = 2};
    pst_pipeline *p = NULL;
    pst_error e = {0};
    if (!CHECK_MSG(pst_pipeline_parse(&p, text, &o, &e) == PST_OK, "%s: %s", text, e.message))
        abort();
    return p;
}

/* The numbers of an epoch in the order they come in: those of `range`, or the first eight bytes of records. */
static void deliver(pst_pipeline *p, uint64_t *order, size_t count)
{
    pst_batch *b = NULL;
    pst_error e = {0};
    size_t n = 0;
    pst_status st;
    while ((st = pst_pipeline_next(p, &b, &e)) == PST_OK) {
        const pst_tensor *t = pst_batch_at(b, 0);
        for (size_t i = 0; i < pst_batch_size(b) && n < count; i++, n++) {
            if (t->dtype == PST_DTYPE_BYTES)
                memcpy(&order[n], ((const pst_bytes *)t->data)[i].data, sizeof(order[n]));
            else
                order[n] = (uint64_t)((const int64_t *)t->data)[i];
        }
        b = pst_batch_unref(b);
    }
    if (!CHECK_MSG(st == PST_END && n == count, "%zu elements of %zu: %s", n, count, e.message))
        abort();
}

/* Records of 32 bytes that begin with their number. */
static void write_numbers(const char *path, uint64_t count, pst_compression compression)
{
    pst_writer_options o = {.size = sizeof(o), .compression = compression, .no_sync = true};
    pst_writer *w;
    pst_error e = {0};
    pst_status st = pst_writer_open(&w, path, &o, &e);
    for (uint64_t i = 0; i < count && st == PST_OK; i++) {
        uint64_t record[4] = {i, i * i, i ^ 0x55, 1};
        st = pst_writer_write(w, record, sizeof(record), &e);
    }
    if (st == PST_OK)
        st = pst_writer_commit(w, &e);
    if (!CHECK_STATUS(st, PST_OK, &e))
        abort();
    pst_writer_close(w);
}

/* ---- The exact shuffle ---- */

/* Data sorted by class, the worst case: every part of the epoch has every class as often, in each epoch and over all of them.
 */
static void test_classes(void)
{
    enum { N = 60000, CLASSES = 50, PARTS = 40, EPOCHS = 20 };
    static uint64_t order[N];
    static uint32_t one[PARTS * CLASSES], all[PARTS * CLASSES];
    pst_pipeline *p = opened("range 60000 | shuffle | batch 100");
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        memset(one, 0, sizeof(one));
        deliver(p, order, N);
        for (size_t i = 0; i < N; i++)
            one[i * PARTS / N * CLASSES + order[i] * CLASSES / N]++;
        for (size_t i = 0; i < PARTS * CLASSES; i++)
            all[i] += one[i];
        CHECK_CHANCE(excess(one, PARTS * CLASSES, (double)N / PARTS / CLASSES, (PARTS - 1) * (CLASSES - 1)), "one epoch");
    }
    CHECK_CHANCE(excess(all, PARTS * CLASSES, (double)N * EPOCHS / PARTS / CLASSES, (PARTS - 1) * (CLASSES - 1)), "all epochs");
    pst_pipeline_destroy(p);
}

/* Who was in a batch together is not more often together again in the next epoch. */
static void test_company(void)
{
    enum { N = 20000, BATCH = 100, BATCHES = N / BATCH, EPOCHS = 30 };
    static uint64_t order[N];
    static uint32_t before[N], now[N];
    double met = 0, expected = (double)(EPOCHS - 1) * BATCHES * (BATCH * (BATCH - 1) / 2.0) * (BATCH - 1) / (N - 1);
    pst_pipeline *p = opened("range 20000 | shuffle | batch 100");
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        deliver(p, order, N);
        for (size_t i = 0; i < N; i++)
            now[order[i]] = (uint32_t)(i / BATCH);
        for (size_t b = 0; b < BATCHES && epoch > 0; b++) {
            uint32_t from[BATCHES] = {0};
            for (size_t i = 0; i < BATCH; i++)
                met += from[before[order[b * BATCH + i]]]++;
        }
        memcpy(before, now, sizeof(now));
    }
    pst_pipeline_destroy(p);
    double z = (met - expected) / sqrt(expected);
    CHECK_CHANCE(z, "pairs that meet again");
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Batches here and there of 10^9 elements: all different, spread over all of them, and no memory that grows with them. */
static void test_billion(void)
{
    enum { PLACES = 20, BATCH = 5000, N = PLACES * BATCH, CELLS = 100 };
    static uint64_t values[N];
    static uint32_t counts[CELLS];
    pst_stats stats = {.size = sizeof(stats)};
    pst_error e = {0};
    pst_cursor cursor;
    pst_pipeline *p = opened("range 1000000000 | shuffle | batch 5000 | prefetch 2");
    REQUIRE_OK(pst_pipeline_tell(p, &cursor, &e), &e);
    for (uint64_t place = 0; place < PLACES; place++) {
        pst_batch *b = NULL;
        pst_position at = position_of(&cursor);
        at.next = place * (1000000000 / BATCH - 1) / (PLACES - 1);
        cursor = cursor_at(at);
        REQUIRE_OK(pst_pipeline_seek(p, &cursor, &e), &e);
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        CHECK_INT(pst_batch_size(b), BATCH);
        memcpy(values + place * BATCH, pst_batch_at(b, 0)->data, BATCH * sizeof(*values));
        pst_batch_unref(b);
    }
    CHECK_STATUS(pst_pipeline_stats(p, &stats, &e), PST_OK, &e);
    CHECK_MSG(stats.ram_used < UINT64_C(4) << 20, "%llu bytes are used", (unsigned long long)stats.ram_used);
    pst_pipeline_destroy(p);
    for (size_t i = 0; i < N; i++)
        counts[values[i] / (1000000000 / CELLS)]++;
    CHECK_CHANCE(excess(counts, CELLS, (double)N / CELLS, CELLS - 1), "values");
    qsort(values, N, sizeof(*values), compare);
    size_t twice = 0;
    for (size_t i = 1; i < N; i++)
        twice += values[i] == values[i - 1];
    CHECK_INT(twice, 0);
}

/* ---- The windowed shuffle: 16 runs of neighbours to a window ---- */

/* 384 KiB are 8192 records of 32 bytes (48 with their framing) to a window, 512 to a run. Where a run goes and where an element
 * stands within its window are both uniform over epochs. */
static void test_windows(void)
{
    enum { RUN = 512, WINDOW = 16 * RUN, WINDOWS = 12, N = WINDOWS * WINDOW, RUNS = N / RUN, EPOCHS = 60, PARTS = 16 };
    static uint64_t order[N];
    static uint32_t places[RUNS * WINDOWS], parts[RUNS * PARTS], mixed[WINDOWS * PARTS * 16];
    char text[512];
    write_numbers(test_path("numbers.tfrecord"), N, PST_COMPRESSION_NONE);
    snprintf(text, sizeof(text), "tfrecord %s | shuffle window=384K | batch 256", test_path("numbers.tfrecord"));
    pst_pipeline *p = opened(text);
    double worst = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        int slot[RUNS];
        unsigned runs_in[WINDOWS] = {0};
        memset(slot, -1, sizeof(slot));
        memset(mixed, 0, sizeof(mixed));
        deliver(p, order, N);
        for (size_t i = 0; i < N; i++) {
            size_t run = order[i] / RUN, window = i / WINDOW, part = i % WINDOW * PARTS / WINDOW;
            if (slot[run] < 0) {
                slot[run] = (int)runs_in[window]++;
                places[run * WINDOWS + window]++;
            }
            parts[run * PARTS + part]++;
            mixed[(window * PARTS + part) * 16 + (size_t)slot[run] % 16]++;
        }
        for (size_t w = 0; w < WINDOWS; w++) /* the runs of a window are mixed within it */
            worst = fmax(worst, fabs(excess(mixed + w * PARTS * 16, PARTS * 16, WINDOW / PARTS / 16.0, 15 * (PARTS - 1))));
        for (size_t w = 0; w < WINDOWS && epoch == 0; w++)
            CHECK_INT(runs_in[w], 16);
    }
    pst_pipeline_destroy(p);
    CHECK_MSG(worst < 5.5, "runs within a window: %.1f deviations off", worst); /* of 720 windows */
    CHECK_CHANCE(excess(places, RUNS * WINDOWS, (double)EPOCHS / WINDOWS, (RUNS - 1) * (WINDOWS - 1)), "windows of a run");
    CHECK_CHANCE(excess(parts, RUNS * PARTS, (double)EPOCHS * RUN / PARTS, RUNS * (PARTS - 1)), "parts of a window");
}

/* ---- The buffer of a stream ---- */

/* Every draw takes each of the b elements in the buffer with the same chance, so an element stays for a geometric number of
 * draws. b shows in how early the earliest comes. */
static void test_buffer(void)
{
    enum { N = 60000, CELLS = 20 };
    static uint64_t order[N];
    static uint32_t counts[CELLS];
    char text[512];
    size_t size = 0, stays = 0;
    write_numbers(test_path("numbers.tfrecord.gz"), N, PST_COMPRESSION_GZIP);
    snprintf(text, sizeof(text), "tfrecord %s | shuffle buffer=32K | batch 64", test_path("numbers.tfrecord.gz"));
    pst_pipeline *p = opened(text);
    deliver(p, order, N);
    for (size_t i = 0; i < N; i++)
        if (order[i] >= i + size)
            size = (size_t)order[i] - i + 1;
    printf("# a buffer of 32 KiB holds %zu of these elements of 32 bytes\n", size);
    CHECK_MSG(size > 32768 / 160 && size <= 1024, "it holds %zu", size);
    for (size_t i = 0; i < N; i++) {
        if (order[i] > N - 1 - 20 * size || order[i] < size) /* in front it waited for the buffer, at the end it runs empty */
            continue;
        double stayed = (double)(i + size - 1 - order[i]);        /* draws that took another one */
        double u = 1 - pow(1 - 1.0 / (double)size, stayed + 0.5); /* the middle of its step: nearly uniform */
        counts[u < 1 ? (size_t)(u * CELLS) : CELLS - 1]++;
        stays++;
    }
    CHECK_CHANCE(excess(counts, CELLS, (double)stays / CELLS, CELLS - 1), "how long elements stay");
    /* Whatever remains of the order is local: data sorted by class stays sorted in the large. The plan says so. */
    double moved = 0;
    for (size_t i = 0; i < N; i++)
        moved += fabs((double)order[i] - (double)i) / N;
    CHECK_MSG(moved < 2 * (double)size, "elements move by %.0f on average", moved);
    pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"classes are spread evenly over an epoch", test_classes},
    {"a batch is not together again", test_company},
    {"a billion elements take no memory", test_billion},
    {"windows are uniform, and mixed within", test_windows},
    {"a buffer draws uniformly", test_buffer},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
