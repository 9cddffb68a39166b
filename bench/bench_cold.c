/* bench_cold.c: data that is not in memory: a whole pipeline over TFRecords, against what the storage gives.
 *
 *     bench_cold [--rounds N] [--seconds S] [--pipeline TEXT] FILE…
 *
 * TEXT follows `tfrecord FILE… io=…`; "{order}" in it becomes nothing, `shuffle window=64M` or `shuffle`. Without it: raw
 * images of 224 × 224 × 3 bytes in Examples, in batches of 64. Before every run the files are dropped from the page cache, and
 * that they are gone is checked. The storage's limit is the same files read in pieces of 1 MiB by 8 threads past the page
 * cache, in order or in random order; what they bring through the page cache is shown beside it. Cases take turns, round by
 * round; a run lasts to the end of the files or S seconds (3). Prints a Markdown table: GB of the files a second, best, median,
 * worst, and the share of the limit (medians). Before all that, the same pipeline from memory: what the rest of it can take. */
#include "base/clock.h"
#include "base/random.h"

#include <fcntl.h>
#include <penstock/pipeline.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE      ((size_t)1 << 20)
#define READERS    8
#define MAX_ROUNDS 50
#define TEXT_SIZE  16384

static const char *pipeline = "{order} | example 'image:bytes label:int64' | decode format=raw shape=224x224x3 | batch 64";
static char **files;
static size_t file_count;
static uint64_t *begins; /* of each file among the pieces, and behind the last */
static unsigned rounds = 5;
static double seconds = 3;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_cold: %s: %s\n", what, why);
    exit(1);
}

static double since(uint64_t begin)
{
    return 1e-9 * (double)(clock_ns() - begin);
}

/* ---- The page cache ---- */

static double resident_share(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0)
        die(path, "cannot be read");
    size_t pages = ((size_t)st.st_size + 4095) / 4096, here = 0;
    unsigned char *in = malloc(pages);
    void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (!in || map == MAP_FAILED || mincore(map, (size_t)st.st_size, in) != 0)
        die(path, "its pages cannot be counted");
    for (size_t i = 0; i < pages; i++)
        here += in[i] & 1;
    munmap(map, (size_t)st.st_size);
    free(in);
    close(fd);
    return (double)here / (double)pages;
}

static void drop(void)
{
    for (size_t i = 0; i < file_count; i++) {
        int fd = open(files[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
            die(files[i], "cannot be dropped from the page cache");
        close(fd);
        if (resident_share(files[i]) > 0.01)
            die(files[i], "stays in the page cache: another process uses it");
    }
}

/* ---- The limit ---- */

struct scan {
    bool direct;
    struct permutation order; /* of the pieces; n is 0: as they lie */
    uint64_t pieces, begun;
    _Atomic uint64_t next, bytes;
};

static void *scan_some(void *user)
{
    struct scan *s = user;
    uint8_t *memory = aligned_alloc(4096, PIECE);
    int *fds = calloc(file_count, sizeof(*fds));
    if (!memory || !fds)
        die("reading", "out of memory");
    for (size_t i = 0; i < file_count; i++) {
        fds[i] = open(files[i], O_RDONLY | O_CLOEXEC | (s->direct ? O_DIRECT : 0));
        if (fds[i] < 0)
            die(files[i], "cannot be opened past the page cache");
    }
    for (uint64_t k; (k = atomic_fetch_add(&s->next, 1)) < s->pieces && since(s->begun) < seconds;) {
        uint64_t piece = s->order.n ? permutation_at(&s->order, k) : k;
        size_t file = 0;
        while (begins[file + 1] <= piece)
            file++;
        ssize_t got = pread(fds[file], memory, PIECE, (off_t)((piece - begins[file]) * PIECE));
        if (got < 0)
            die(files[file], "cannot be read");
        atomic_fetch_add(&s->bytes, (uint64_t)got);
    }
    for (size_t i = 0; i < file_count; i++)
        close(fds[i]);
    free(fds);
    free(memory);
    return NULL;
}

/* GB/s. */
static double scan(bool direct, bool shuffled, unsigned round)
{
    struct scan s = {.direct = direct, .pieces = begins[file_count], .begun = clock_ns()};
    pthread_t thread[READERS];
    if (shuffled)
        permutation_init(&s.order, s.pieces, 3, round);
    for (unsigned i = 0; i < READERS; i++)
        if (pthread_create(&thread[i], NULL, scan_some, &s) != 0)
            die("reading", "no thread");
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(thread[i], NULL);
    return 1e-9 * (double)s.bytes / since(s.begun);
}

/* ---- The pipeline ---- */

static char *text_of(const char *io, const char *order)
{
    static char text[TEXT_SIZE];
    size_t n = (size_t)snprintf(text, sizeof(text), "tfrecord");
    for (size_t i = 0; i < file_count && n < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, " '%s'", files[i]);
    const char *mark = strstr(pipeline, "{order}"), *rest = mark ? mark + strlen("{order}") : pipeline;
    if (n < sizeof(text))
        n += (size_t)snprintf(text + n, sizeof(text) - n, " io=%s%s%s%s%s", io, order[0] ? " | " : "", order, mark ? "" : " | ",
                              rest);
    if (n >= sizeof(text))
        die("the pipeline", "too many files");
    return text;
}

/* GB of the files a second, from opening to the last batch, or as far as it comes in time. */
static double run(const char *io, const char *order, unsigned round)
{
    pst_pipeline_options o = {.size = sizeof(o), .seed = round};
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = NULL;
    pst_batch *b = NULL;
    pst_error e = {0};
    uint64_t begin = clock_ns();
    pst_status st = pst_pipeline_parse(&p, text_of(io, order), &o, &e);
    while (st == PST_OK && since(begin) < seconds) {
        st = pst_pipeline_next(p, &b, &e);
        b = pst_batch_unref(b);
    }
    double took = since(begin);
    if (st < 0 || pst_pipeline_stats(p, &stats, &e) < 0)
        die(text_of(io, order), e.message);
    uint64_t bytes = 0;
    for (size_t i = 0; i < stats.stages; i++)
        if (strcmp(stats.stage[i].name, "read") == 0)
            bytes = stats.stage[i].bytes;
    pst_pipeline_destroy(p);
    return 1e-9 * (double)(bytes ? bytes : stats.read_bytes) / took;
}

/* ---- The table ---- */

enum kind { LIMIT, BUFFERED, PIPELINE };

static const struct {
    enum kind kind;
    const char *io, *order, *name;
} cases[] = {
    {LIMIT, "", "", "storage: 8 threads, 1 MiB, O_DIRECT, in order"},
    {BUFFERED, "", "", "page cache: 8 threads, 1 MiB, in order"},
    {PIPELINE, "auto", "", "pipeline in order, io=auto"},
    {PIPELINE, "map", "", "pipeline in order, io=map"},
    {PIPELINE, "read", "", "pipeline in order, io=read"},
    {PIPELINE, "direct", "", "pipeline in order, io=direct"},
    {LIMIT, "", "shuffle", "storage: 8 threads, 1 MiB, O_DIRECT, random"},
    {PIPELINE, "auto", "shuffle window=64M", "shuffle window=64M, io=auto"},
    {PIPELINE, "direct", "shuffle window=64M", "shuffle window=64M, io=direct"},
    {PIPELINE, "auto", "shuffle", "exact shuffle, io=auto"},
    {PIPELINE, "direct", "shuffle", "exact shuffle, io=direct"},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static double results[CASES][MAX_ROUNDS];

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static void print_table(void)
{
    double limit = 0;
    printf("| | best | median | worst | of the limit |\n|---|---|---|---|---|\n");
    for (size_t c = 0; c < CASES; c++) {
        qsort(results[c], rounds, sizeof(results[c][0]), compare);
        double median = results[c][rounds / 2];
        if (cases[c].kind == LIMIT)
            limit = median;
        printf("| %s | %.2f | %.2f | %.2f | %.0f %% |\n", cases[c].name, results[c][0], median, results[c][rounds - 1],
               100 * median / limit);
    }
}

static void measure(void)
{
    double limit = seconds;
    seconds = 1e9; /* all of it, however slow */
    (void)scan(false, false, 0);
    seconds = limit;
    (void)run("map", "", 0); /* an index that was missing is made */
    printf("From memory: %.2f GB/s in order, %.2f shuffled.\n\n", run("map", "", 0), run("map", "shuffle", 0));
    for (unsigned r = 0; r < rounds; r++)
        for (size_t c = 0; c < CASES; c++) {
            drop();
            results[c][r] = cases[c].kind == PIPELINE   ? run(cases[c].io, cases[c].order, r)
                            : cases[c].kind == BUFFERED ? scan(false, false, r)
                                                        : scan(true, cases[c].order[0] != '\0', r);
            fprintf(stderr, "round %u: %-48s %.2f GB/s\n", r, cases[c].name, results[c][r]);
        }
    print_table();
}

int main(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--rounds") == 0)
            rounds = (unsigned)strtoul(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            seconds = strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--pipeline") == 0)
            pipeline = argv[i + 1];
    }
    files = argv + i;
    file_count = i < argc ? (size_t)(argc - i) : 0;
    begins = calloc(file_count + 1, sizeof(*begins));
    if (!file_count || !begins || rounds == 0 || rounds > MAX_ROUNDS)
        die("usage", "bench_cold [--rounds N] [--seconds S] [--pipeline TEXT] FILE…");
    for (size_t f = 0; f < file_count; f++) {
        struct stat st;
        if (stat(files[f], &st) != 0)
            die(files[f], "is not there");
        begins[f + 1] = begins[f] + ((uint64_t)st.st_size + PIECE - 1) / PIECE;
    }
    measure();
    free(begins);
    return 0;
}
