/* bench_record.c: reading records beside a plain pread loop over the same file, in turns.
 *
 *     bench_record [--rounds N] [--record BYTES] PATH           an existing shard
 *     bench_record [--rounds N] [--record BYTES] --make MIB     a temporary one of that size
 *
 * Every round runs each case once, so that noise of the machine meets all of them; printed are best, median and worst. */
#include <penstock/record.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_ROUNDS 100
#define PIECE      ((size_t)256 << 10)

struct shard {
    const char *path;
    uint64_t bytes, records;
};

static void die(const char *what, const pst_error *error)
{
    char text[512] = "";
    if (error)
        pst_error_text(error, text, sizeof(text));
    fprintf(stderr, "%s %s\n", what, text);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_pread(const struct shard *s, size_t piece)
{
    int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    uint8_t *buffer = aligned_alloc(4096, piece);
    uint64_t offset = 0;
    ssize_t n;
    if (fd < 0 || !buffer)
        die("pread: cannot open", NULL);
    while ((n = pread(fd, buffer, piece, (off_t)offset)) > 0)
        offset += (uint64_t)n;
    if (offset != s->bytes)
        die("pread: short file", NULL);
    free(buffer);
    close(fd);
}

static void run_pread_256k(const struct shard *s)
{
    run_pread(s, PIECE);
}

static void run_pread_1m(const struct shard *s)
{
    run_pread(s, (size_t)1 << 20);
}

static void run_reader_with(const struct shard *s, bool no_verify)
{
    pst_reader *reader;
    pst_record record;
    pst_error error;
    pst_reader_options options = {.size = sizeof(options), .no_verify = no_verify};
    uint64_t records = 0;
    pst_status st = pst_reader_open(&reader, s->path, &options, &error);
    if (st == PST_OK)
        while ((st = pst_reader_next(reader, &record, &error)) == PST_OK)
            records++;
    if (st < 0 || records != s->records)
        die("reader:", &error);
    pst_reader_close(reader);
}

static void run_reader(const struct shard *s)
{
    run_reader_with(s, false);
}

static void run_reader_unverified(const struct shard *s)
{
    run_reader_with(s, true);
}

static void run_shard(const struct shard *s)
{
    pst_shard *shard;
    pst_error error;
    pst_shard_options options = {.size = sizeof(options), .no_write = true};
    size_t length;
    if (pst_shard_open(&shard, s->path, &options, &error) < 0)
        die("shard:", &error);
    uint64_t longest = 0;
    for (uint64_t i = 0; i < pst_shard_count(shard); i++) {
        uint64_t offset, bytes;
        pst_shard_locate(shard, i, &offset, &bytes);
        longest = bytes > longest ? bytes : longest;
    }
    uint8_t *buffer = malloc(longest + 1);
    for (uint64_t i = 0; i < pst_shard_count(shard); i++)
        if (!buffer || pst_shard_read(shard, i, buffer, longest, &length, &error) < 0)
            die("shard:", &error);
    free(buffer);
    pst_shard_close(shard);
}

static void run_index(const struct shard *s)
{
    pst_error error;
    pst_shard_options options = {.size = sizeof(options), .no_write = true};
    pst_index_report report = {.size = sizeof(report)};
    if (pst_index_make(s->path, &options, true, false, &report, &error) < 0 || report.records != s->records)
        die("index:", &error);
}

static const struct {
    const char *name;
    void (*run)(const struct shard *s);
} cases[] = {
    {"pread, 256 KiB pieces", run_pread_256k},     {"pread, 1 MiB pieces", run_pread_1m},  {"reader, verified", run_reader},
    {"reader, unverified", run_reader_unverified}, {"random access, verified", run_shard}, {"index scan", run_index},
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void make_shard(const char *path, uint64_t bytes, size_t record_bytes)
{
    pst_writer *writer;
    pst_error error;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .no_index = true, .overwrite = true};
    uint8_t *data = malloc(record_bytes + 1);
    uint64_t state = 1;
    if (!data || pst_writer_open(&writer, path, &options, &error) < 0)
        die("writer:", &error);
    for (size_t i = 0; i < record_bytes; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(state >> 56);
    }
    double start = now();
    for (uint64_t done = 0; done < bytes; done += record_bytes + 16)
        if (pst_writer_write(writer, data, record_bytes, &error) < 0)
            die("writer:", &error);
    if (pst_writer_commit(writer, &error) < 0)
        die("writer:", &error);
    printf("writer: %.2f GB/s without sync\n", (double)bytes / (now() - start) / 1e9);
    pst_writer_close(writer);
    free(data);
}

static void count_records(struct shard *s)
{
    pst_error error;
    pst_shard_options options = {.size = sizeof(options), .no_write = true};
    pst_index_report report = {.size = sizeof(report)};
    if (pst_index_make(s->path, &options, true, false, &report, &error) < 0)
        die("index:", &error);
    s->bytes = report.bytes;
    s->records = report.records;
}

static void bench(const struct shard *s, int rounds)
{
    static double seconds[CASES][MAX_ROUNDS];
    for (int r = 0; r < rounds; r++)
        for (size_t c = 0; c < CASES; c++) {
            double start = now();
            cases[c].run(s);
            seconds[c][r] = now() - start;
        }
    printf("%" PRIu64 " records, %.1f MB, %d rounds\n%-26s %23s %9s %14s\n", s->records, (double)s->bytes / 1e6, rounds, "",
           "GB/s best median worst", "M rec/s", "median / pread");
    double base = 0;
    for (size_t c = 0; c < CASES; c++) {
        double *t = seconds[c];
        qsort(t, (size_t)rounds, sizeof(*t), by_value);
        double median = t[rounds / 2], gb = (double)s->bytes / 1e9;
        base = c == 0 ? median : base;
        printf("%-26s %9.2f %6.2f %6.2f %9.2f %12.0f %%\n", cases[c].name, gb / t[0], gb / median, gb / t[rounds - 1],
               (double)s->records / median / 1e6, 100 * base / median);
    }
}

int main(int argc, char **argv)
{
    char temporary[] = "/tmp/bench_record-XXXXXX";
    struct shard s = {0};
    size_t record_bytes = 150000;
    uint64_t mib = 0;
    int rounds = 7;
    for (int i = 1; i < argc; i++) {
        if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0)
            rounds = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--record") == 0)
            record_bytes = strtoull(argv[++i], NULL, 10);
        else if (i + 1 < argc && strcmp(argv[i], "--make") == 0)
            mib = strtoull(argv[++i], NULL, 10);
        else
            s.path = argv[i];
    }
    if (rounds < 1 || rounds > MAX_ROUNDS || (!s.path && !mib)) {
        fprintf(stderr, "usage: bench_record [--rounds 1..%d] [--record BYTES] PATH | --make MIB\n", MAX_ROUNDS);
        return 2;
    }
    if (!s.path) {
        int fd = mkstemp(temporary);
        if (fd < 0)
            die("cannot make a temporary file", NULL);
        close(fd);
        s.path = temporary;
        make_shard(s.path, mib << 20, record_bytes);
    }
    count_records(&s);
    bench(&s, rounds);
    if (mib)
        unlink(temporary);
    return 0;
}
