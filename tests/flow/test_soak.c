/* test_soak.c: pipelines of every source used for a long time the way programs use them: epochs, seeks, batches that are held,
 * cancellation from another thread, being given up half way. Memory settles, threads and descriptors come back.
 *
 *     test_soak                  six seconds, as in the test run
 *     test_soak --minutes 60     for as long, with a line a minute (a tenth of the time, if that is less)
 *
 * The actions follow from a fixed seed; only how many of them there are depends on time. */
#include "cursor.h"
#include "data.h"
#include "harness.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"

#include <dirent.h>
#include <math.h>
#include <penstock/pipeline.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* their own memory grows with what was ever freed */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static double seconds = 6;

/* Those of "damaged" and "cut" leave out what is broken. */
static const char *const chains[] = {
    "tfrecord shards | shuffle | example | decode | random_resized_crop 16 | flip | normalize imagenet | batch 4",
    "tfrecord shards io=read | example | drop image | shuffle window=2K | batch 3",
    "tfrecord shards io=direct | example | select label tags boxes | batch 4 | prefetch 3",
    "tfrecord zipped | shuffle 4K | example | drop image | repeat 2 | batch 4",
    "tfrecord zipped | example | decode | resize 12 | cache 1M | shuffle 8K | batch 5",
    "tfrecord damaged | shuffle | example | decode | resize 9 | batch 3",
    "tfrecord cut missing=allow | example | drop image | batch 3",
    "folder photos | shuffle | decode | resize 20x16 | random_crop 12 | batch 5",
    "folder photos | cache 1500 | decode | center_crop 10 | batch 4",
    "files photos.csv | shuffle | decode | center_crop 8 | batch 3",
    "npy images.npy | shuffle | rename images image | flip | normalize | layout nchw | batch 4",
    "range 1000 | shuffle | shard 3 1 | repeat 3 | batch 64",
    "arrays | shuffle | cast f16 vector | batch 3",
};
#define CHAINS  (sizeof(chains) / sizeof(chains[0]))
#define WORKERS 2
#define LONG    3  /* chains[0], [3] and [5] are also open the whole time */
#define HELD    24 /* batches that the program keeps */

static const size_t long_chains[LONG] = {0, 3, 5};

/* ---- What the process holds ---- */

struct usage {
    double rss_mib;
    int threads, files;
};

static int entries(const char *path)
{
    int n = -3; /* ".", "..", and of descriptors the folder's own; for threads it is added again */
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static struct usage usage_now(void)
{
    struct usage u = {.threads = entries("/proc/self/task") + 1, .files = entries("/proc/self/fd")};
    unsigned long size, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &size, &resident) != 2)
        abort();
    fclose(f);
    u.rss_mib = (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
    return u;
}

/* A joined thread leaves the list a moment later. */
static struct usage settled_usage(int threads)
{
    struct usage u = usage_now();
    for (int i = 0; i < 60000 && u.threads > threads; i++) {
        usleep(1000);
        u = usage_now();
    }
    return u;
}

/* ---- What a program does ---- */

struct soak {
    struct random random;
    pst_pipeline *open[LONG]; /* for the whole time */
    pst_batch *held[HELD];
    uint64_t epochs, batches, seeks, cancels, pipelines, skipped;
};

static uint64_t below(struct soak *s, uint64_t n)
{
    return random_below(&s->random, n);
}

static pst_pipeline *opened(struct soak *s, size_t chain)
{
    const char *text = chains[chain];
    pst_pipeline_options o = {.size = sizeof(o),
                              .seed = chain,
                              .ram = UINT64_C(64) << 20,
                              .workers = WORKERS,
                              .prefetch = 3,
                              .bad = strstr(text, "damaged") || strstr(text, "cut") ? "skip" : NULL};
    pst_pipeline *p = NULL;
    pst_error e = {0};
    pst_status st;
    if (strncmp(text, "arrays", 6) == 0) {
        st = pst_pipeline_create(&p, &o, &e);
        if (st == PST_OK)
            st = pst_pipeline_add_arrays(p, data_array_names, data_arrays, DATA_ARRAYS, &e);
        if (st == PST_OK)
            st = pst_pipeline_add(p, "shuffle", "", &e);
        if (st == PST_OK)
            st = pst_pipeline_add(p, "cast", "f16 vector", &e);
        if (st == PST_OK)
            st = pst_pipeline_add(p, "batch", "3", &e);
    } else {
        st = pst_pipeline_parse(&p, text, &o, &e);
    }
    if (!CHECK_MSG(st == PST_OK, "%s: %s", text, e.message))
        abort();
    s->pipelines++;
    return p;
}

/* Writes to what it holds, as it may, then lets go of it or of an older one. */
static void keep(struct soak *s, pst_batch *b)
{
    pst_batch **place = &s->held[below(s, HELD)];
    for (size_t i = 0; i < pst_batch_fields(b); i++) {
        const pst_tensor *t = pst_batch_at(b, i);
        if (t->dtype != PST_DTYPE_BYTES && t->data && !t->row_splits && pst_batch_size(b) > 0)
            memset(t->data, 0x5a, pst_dtype_size(t->dtype));
    }
    if (below(s, 3) == 0) {
        pst_batch_unref(*place);
        *place = pst_batch_ref(b);
    }
    pst_batch_unref(b);
}

static void steps(struct soak *s, pst_pipeline *p, uint64_t count)
{
    pst_error e = {0};
    for (uint64_t i = 0; i < count; i++) {
        pst_batch *b = NULL;
        pst_status st = pst_pipeline_next(p, &b, &e);
        if (!CHECK_MSG(st >= 0, "%s: %s", e.op, e.message))
            return;
        s->epochs += st == PST_END;
        s->batches += st == PST_OK;
        if (st == PST_OK)
            keep(s, b);
    }
}

/* Back to where it was, or to an epoch far ahead. */
static void jump(struct soak *s, pst_pipeline *p)
{
    pst_cursor cursor;
    pst_error e = {0};
    CHECK_STATUS(pst_pipeline_tell(p, &cursor, &e), PST_OK, &e);
    steps(s, p, below(s, 6));
    pst_position at = position_of(&cursor);
    if (below(s, 2))
        at.epoch += below(s, 1000);
    cursor = cursor_at(at);
    CHECK_STATUS(pst_pipeline_seek(p, &cursor, &e), PST_OK, &e);
    s->seeks++;
}

static void *cancel_soon(void *pipeline)
{
    usleep(200);
    pst_pipeline_cancel(pipeline);
    return NULL;
}

static void cancel(struct soak *s, pst_pipeline *p)
{
    pthread_t other;
    pst_error e = {0};
    pst_status st = PST_OK;
    if (pthread_create(&other, NULL, cancel_soon, p) != 0)
        abort();
    while (st >= 0) {
        pst_batch *b = NULL;
        st = pst_pipeline_next(p, &b, &e);
        pst_batch_unref(b);
    }
    CHECK_STATUS(st, PST_ECANCELLED, &e);
    pthread_join(other, NULL);
    s->cancels++;
}

/* One pipeline after the other, from opening to some end, while the long ones go on. */
static void cycle(struct soak *s)
{
    for (size_t c = 0; c < CHAINS; c++) {
        pst_pipeline *p = opened(s, c), *lasting = s->open[below(s, LONG)];
        pst_stats stats = {.size = sizeof(stats)};
        steps(s, p, below(s, 40));
        if (below(s, 2))
            jump(s, p);
        steps(s, p, below(s, 12));
        steps(s, lasting, below(s, 20));
        if (below(s, 4) == 0)
            jump(s, lasting);
        if (below(s, 3) == 0)
            cancel(s, p);
        if (pst_pipeline_stats(p, &stats, NULL) == PST_OK)
            s->skipped += stats.skipped;
        pst_pipeline_destroy(p); /* some of its batches live on */
    }
}

/* ---- The test ---- */

static void let_go(struct soak *s)
{
    for (size_t i = 0; i < HELD; i++)
        s->held[i] = pst_batch_unref(s->held[i]);
}

static void tell(const struct soak *s, const struct usage *u, double minutes, uint64_t cycles)
{
    printf("# %6.2f min: %llu cycles, %llu pipelines, %llu epochs, %llu batches, %llu seeks, %llu cancelled, %llu skipped; "
           "%.1f MiB, %d threads, %d descriptors\n",
           minutes, (unsigned long long)cycles, (unsigned long long)s->pipelines, (unsigned long long)s->epochs,
           (unsigned long long)s->batches, (unsigned long long)s->seeks, (unsigned long long)s->cancels,
           (unsigned long long)s->skipped, u->rss_mib, u->threads, u->files);
    fflush(stdout);
}

#define LEAST_CYCLES 16 /* also on a slow machine: otherwise there is nothing to compare */

/* The first quarter is warm-up; the peaks of the two halves of what follows are compared. An open pipeline holds at most a
 * file at these moments: a stream is read or at its end. */
static void soak(struct soak *s, const struct usage *before)
{
    uint64_t begin = clock_ns(), cycles = 0;
    double told = 0, every = seconds < 600 ? seconds / 10 : 60, now = 0, done = 0, peak[2] = {0};
    struct usage u = {0};
    while (done < 1) {
        cycle(s);
        cycles++;
        for (size_t i = 0; i < LONG; i++)
            steps(s, s->open[i], 1); /* a pipeline has no workers between a seek and its next batch */
        let_go(s);
        u = settled_usage(before->threads + WORKERS * LONG);
        now = 1e-9 * (double)(clock_ns() - begin);
        done = fmin(now / seconds, (double)cycles / LEAST_CYCLES);
        CHECK_INT(u.threads, before->threads + WORKERS * LONG);
        CHECK_MSG(u.files <= before->files + LONG, "%d descriptors, %d of them before", u.files, before->files);
        if (done >= 0.25) {
            double *p = &peak[done > 0.625];
            *p = u.rss_mib > *p ? u.rss_mib : *p;
        }
        if (now - told >= every) {
            tell(s, &u, now / 60, cycles);
            told = now;
        }
    }
    tell(s, &u, now / 60, cycles);
    printf("# memory: at most %.1f MiB in the first half behind the warm-up, %.1f in the second\n", peak[0], peak[1]);
    if (!SANITIZED && peak[0] > 0)
        CHECK_MSG(peak[1] < peak[0] * 1.05 + 4, "memory grows from %.1f to %.1f MiB", peak[0], peak[1]);
    CHECK(s->skipped > 0 && s->epochs > 0 && s->seeks > 0 && s->cancels > 0);
}

static void test_soak(void)
{
    struct soak *s = calloc(1, sizeof(*s));
    REQUIRE(s != NULL);
    random_init(&s->random, 23, 0, 0, 0);
    pst_pipeline *first = opened(s, 0); /* a sanitizer has a thread of its own, which comes with the first */
    steps(s, first, 1);
    pst_pipeline_destroy(first);
    let_go(s);
    uint64_t live = mem_live();
    struct usage before = usage_now();
    for (size_t i = 0; i < LONG; i++)
        s->open[i] = opened(s, long_chains[i]);
    soak(s, &before);
    for (size_t i = 0; i < LONG; i++)
        pst_pipeline_destroy(s->open[i]);
    struct usage after = settled_usage(before.threads);
    CHECK_INT(mem_live(), live);
    CHECK_INT(after.threads, before.threads);
    CHECK_INT(after.files, before.files);
    free(s);
}

/* A compressed shard that ends in the middle. */
static void make_cut(void)
{
    static const char name[] = "set-train.tfrecord-00000-of-00002";
    char path[96];
    size_t length;
    snprintf(path, sizeof(path), "zipped/%s", name);
    uint8_t *bytes = test_read_file(path, &length);
    snprintf(path, sizeof(path), "cut/%s", name);
    if (mkdir("cut", 0755) != 0)
        abort();
    test_write_file(path, bytes, length * 2 / 3);
    free(bytes);
}

static const struct test tests[] = {
    {"memory settles, threads and descriptors come back", test_soak},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--minutes") == 0) {
        seconds = 60 * strtod(argv[2], NULL);
        argc = 1;
    }
    if (chdir(test_folder()) != 0)
        return 1;
    data_make();
    make_cut();
    return test_main(argc, argv, tests);
}
