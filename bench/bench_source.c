/* bench_source.c: what it costs to load a record: small and large ones, in and out of order, mapped, read and past the page
 * cache, from memory and from storage.
 *
 *     bench_source [--small N] [--large N] [--threads N] [--slice N] [--rounds N] FOLDER
 *
 * Makes shards in FOLDER if they are not there: --small records of 190 bytes in 8 files (1,000,000), --large records of
 * 150 KB in 8 files (4000). Every line is the best and the median of the rounds. "load" only asks for the record, "copy"
 * also copies it, as into a batch. Warm passes are told in processor time (of all threads), so that others on the machine show
 * less; cold ones in time that went by. Before cold rounds the files are dropped from the page cache. */
#include "base/memory.h"
#include "base/random.h"
#include "base/thread.h"
#include "source/source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES      8u
#define SMALL      ((size_t)190)
#define LARGE      ((size_t)150 << 10)
#define MAX_ROUNDS 100u

static unsigned threads = 1, rounds = 5;
static size_t slice = 256;

static void die(const char *what, const pst_error *error)
{
    char text[512] = "";
    if (error)
        pst_error_text(error, text, sizeof(text));
    fprintf(stderr, "%s %s\n", what, text);
    exit(1);
}

/* ---- Data ---- */

struct dataset {
    char folder[512];
    uint64_t records;
    size_t length;
};

static void file_name(const struct dataset *d, unsigned k, char *path, size_t size)
{
    snprintf(path, size, "%s/bench.tfrecord-%05u-of-%05u", d->folder, k, FILES);
}

static void make_dataset(struct dataset *d, const char *folder, const char *name, uint64_t records, size_t length)
{
    char path[600];
    pst_error error;
    uint8_t *data = malloc(length);
    d->records = records;
    d->length = length;
    snprintf(d->folder, sizeof(d->folder), "%s/%s-%" PRIu64, folder, name, records);
    mkdir(d->folder, 0777);
    for (unsigned k = 0; k < FILES; k++) {
        pst_writer *w;
        pst_writer_options options = {.size = sizeof(options)};
        file_name(d, k, path, sizeof(path));
        if (access(path, R_OK) == 0)
            continue;
        if (pst_writer_open(&w, path, &options, &error) < 0)
            die("writing:", &error);
        for (uint64_t i = records * k / FILES; i < records * (k + 1) / FILES; i++) {
            uint64_t state = i;
            for (size_t b = 0; b < length; b++)
                data[b] = (uint8_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 56);
            if (pst_writer_write(w, data, length, &error) < 0)
                die("writing:", &error);
        }
        if (pst_writer_commit(w, &error) < 0)
            die("writing:", &error);
        pst_writer_close(w);
    }
    free(data);
}

static void drop_from_cache(const struct dataset *d)
{
    char path[600];
    for (unsigned k = 0; k < FILES; k++) {
        file_name(d, k, path, sizeof(path));
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
            die("dropping the page cache:", NULL);
        close(fd);
    }
}

/* ---- The source ---- */

static void *open_source(const struct dataset *d, const char *io)
{
    uint8_t config[512] = {0};
    const char *path = d->folder;
    pst_damage_log *log;
    pst_error error;
    void *source;
    for (const pst_param *p = source_tfrecord.op.params; p->name; p++) {
        if (p->kind == PST_PARAM_STRINGS)
            *(pst_strings *)(void *)(config + p->offset) = (pst_strings){.count = 1, .value = &path};
        for (int i = 0; p->kind == PST_PARAM_CHOICE && p->choices[i]; i++)
            if (strcmp(p->choices[i], io) == 0)
                *(int *)(void *)(config + p->offset) = i;
    }
    if (pst_damage_log_create(&log, NULL, &error) < 0)
        die("log:", &error);
    struct source_env env = {.ram = UINT64_C(1) << 30, .damage = log, .met = log};
    if (source_tfrecord.open(config, &env, &source, &error) < 0)
        die("open:", &error);
    pst_damage_log_destroy(log); /* only the opening and streams use it */
    return source;
}

struct pass {
    void *source;
    uint64_t records;
    size_t length;
    bool copies;
    const uint64_t *order;
    _Atomic uint64_t next; /* slice */
    _Atomic uint64_t sum;
};

static void work(void *user, unsigned worker)
{
    struct pass *p = user;
    void *state = mem_zalloc(source_tfrecord.worker_size);
    uint64_t sum = 0;
    uint8_t *slots = malloc(64 * p->length);
    pst_error error;
    (void)worker;
    for (;;) {
        uint64_t begin = atomic_fetch_add(&p->next, 1) * slice;
        if (begin >= p->records)
            break;
        const uint64_t *index = p->order + begin;
        size_t n = p->records - begin < slice ? (size_t)(p->records - begin) : slice;
        source_tfrecord.ahead(p->source, state, index, n);
        for (size_t i = 0; i < n; i++) {
            pst_tensor out[1];
            if (source_tfrecord.load(p->source, state, index[i], NULL, out, &error) < 0)
                die("load:", &error);
            const pst_bytes *record = out[0].data;
            if (p->copies)
                memcpy(slots + i % 64 * p->length, record->data, record->length);
            sum += record->data[0];
        }
    }
    atomic_fetch_add(&p->sum, sum);
    source_tfrecord.worker_stop(p->source, state);
    mem_free(state);
    free(slots);
}

static uint64_t now(bool processor)
{
    struct timespec t;
    clock_gettime(processor ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double run_pass(const struct dataset *d, void *source, uint64_t records, bool shuffled, bool copies, uint64_t round,
                       bool cold)
{
    struct thread_group *group;
    struct permutation permutation;
    pst_error error;
    uint64_t *order = malloc(records * sizeof(*order));
    struct pass p = {.source = source, .records = records, .length = d->length, .copies = copies, .order = order};
    permutation_init(&permutation, d->records, 1, round);
    for (uint64_t i = 0; i < records; i++)
        order[i] = shuffled ? permutation_at(&permutation, i) : i;
    uint64_t begin = now(!cold);
    if (thread_group_start(&group, threads, "load", work, &p, &error) < 0)
        die("threads:", &error);
    thread_group_join(group);
    uint64_t end = now(!cold);
    free(order);
    return (double)(end - begin);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void tell(const char *what, double *ns, uint64_t records, size_t length)
{
    qsort(ns, rounds, sizeof(*ns), compare);
    double n = (double)records, best = ns[0], median = ns[rounds / 2];
    printf("%-44s %9.1f %9.1f ns/record   %6.2f %6.2f GB/s\n", what, best / n, median / n, n * (double)length / best,
           n * (double)length / median);
    fflush(stdout);
}

/* Warm: the first pass (with checksums) apart from the later ones. */
static void bench_warm(const struct dataset *d, const char *io, bool shuffled, bool copies)
{
    double first[MAX_ROUNDS], later[MAX_ROUNDS];
    char what[128];
    for (unsigned r = 0; r < rounds; r++) {
        void *source = open_source(d, io);
        first[r] = run_pass(d, source, d->records, shuffled, copies, 2 * r, false);
        later[r] = run_pass(d, source, d->records, shuffled, copies, 2 * r + 1, false);
        source_tfrecord.close(source);
    }
    const char *order = shuffled ? "random" : "in order", *does = copies ? "copy" : "load";
    snprintf(what, sizeof(what), "%zu B, %s, %s, %s, first pass", d->length, io, order, does);
    tell(what, first, d->records, d->length);
    snprintf(what, sizeof(what), "%zu B, %s, %s, %s, later", d->length, io, order, does);
    tell(what, later, d->records, d->length);
}

static void bench_cold(const struct dataset *d, const char *io, bool shuffled, uint64_t records)
{
    double ns[MAX_ROUNDS];
    char what[128];
    for (unsigned r = 0; r < rounds; r++) {
        drop_from_cache(d);
        void *source = open_source(d, io);
        ns[r] = run_pass(d, source, records, shuffled, true, r, true);
        source_tfrecord.close(source);
    }
    snprintf(what, sizeof(what), "%zu B, %s, %s, cold, first pass", d->length, io, shuffled ? "random" : "in order");
    tell(what, ns, records, d->length);
}

static void bench_open(const struct dataset *d)
{
    double ns[MAX_ROUNDS];
    pst_error error;
    for (unsigned r = 0; r < rounds; r++) {
        pst_tensor out[1];
        uint64_t begin = now(false);
        void *source = open_source(d, "auto"), *state = mem_zalloc(source_tfrecord.worker_size);
        if (source_tfrecord.load(source, state, d->records / 3, NULL, out, &error) < 0)
            die("load:", &error);
        ns[r] = (double)(now(false) - begin);
        source_tfrecord.worker_stop(source, state);
        mem_free(state);
        source_tfrecord.close(source);
    }
    qsort(ns, rounds, sizeof(*ns), compare);
    printf("open %" PRIu64 " records to the first one: best %.2f ms, median %.2f ms\n", d->records, ns[0] / 1e6,
           ns[rounds / 2] / 1e6);
}

int main(int argc, char **argv)
{
    uint64_t small = 1000000, large = 4000;
    const char *folder = NULL;
    for (int i = 1; i < argc; i++) {
        uint64_t value = i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : 0;
        if (argv[i][0] != '-') {
            folder = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--small") == 0)
            small = value;
        else if (strcmp(argv[i], "--large") == 0)
            large = value;
        else if (strcmp(argv[i], "--threads") == 0)
            threads = (unsigned)value;
        else if (strcmp(argv[i], "--slice") == 0)
            slice = (size_t)value;
        else if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)(value < MAX_ROUNDS ? value : MAX_ROUNDS);
        i++;
    }
    if (!folder || !threads || !slice || !rounds)
        die("usage: bench_source [--small N] [--large N] [--threads N] [--slice N] [--rounds N] FOLDER", NULL);
    static const char *const ios[] = {"map", "read", "direct"};
    struct dataset d;
    printf("%u threads, slices of %zu, %u rounds; best and median\n", threads, slice, rounds);
    if (small) {
        make_dataset(&d, folder, "small", small, SMALL);
        bench_open(&d);
        for (size_t k = 0; k < 2; k++) {
            bench_warm(&d, ios[k], true, false);
            bench_warm(&d, ios[k], true, true);
            bench_warm(&d, ios[k], false, true);
        }
        for (size_t k = 0; k < 3; k++)
            bench_cold(&d, ios[k], false, d.records);
        for (size_t k = 0; k < 3; k++)
            bench_cold(&d, ios[k], true, d.records / 50);
    }
    if (large) {
        make_dataset(&d, folder, "large", large, LARGE);
        for (size_t k = 0; k < 3; k++)
            bench_warm(&d, ios[k], true, true);
        for (size_t k = 0; k < 3; k++) {
            bench_cold(&d, ios[k], false, d.records);
            bench_cold(&d, ios[k], true, d.records);
        }
    }
    return 0;
}
