/* storage.c: the storage of the actual files: from front to back and by single samples, from the page cache and past it, one read at a
 * time and several. Direct reads leave the page cache alone, so that measuring does not slow down the training that runs; where the file system
 * has none, what is read is dropped from the page cache before. Rates past the cache that cannot be measured are not known; they are never guessed. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/thread.h"
#include "io/file.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#define BLOCK   ((size_t)1 << 20)
#define DEEP    8
#define LONGEST 0.25 /* seconds per measurement */
#define LEAST   12   /* reads of a measurement, however short the examination is… */
#define LATEST  1.5  /* …unless they take as many seconds */

enum past { CACHED, DIRECT, DROPPED };

struct reads {
    const struct survey *survey;
    enum past past;
    bool sequential;
    size_t length; /* of a random read */
    uint64_t until, latest;
    _Atomic uint64_t bytes, next, done, kept; /* kept: ranges that could not be dropped */
    _Atomic bool cached; /* reads come from memory although they should not */
};

static pst_status open_file(struct reads *r, const char *path, int *ret_fd)
{
    bool direct = true;
    pst_status st = r->past == DIRECT ? file_open_direct(ret_fd, &direct, path, NULL) : file_open_read(ret_fd, path, NULL);
    if (st == PST_OK && r->past != CACHED && (!direct || file_is_in_memory(*ret_fd)))
        r->cached = true;
    return st;
}

static bool is_over(const struct reads *r)
{
    uint64_t now = clock_ns();
    return r->cached || now > r->latest || (now > r->until && r->done + r->kept >= LEAST);
}

/* Drops a file before it is read; what the system reads ahead from the front stays. */
static bool is_past(const struct reads *r, int fd, uint64_t offset, size_t length)
{
    return r->past != DROPPED || (r->sequential && offset > 0) || file_drop(fd, offset, length);
}

/* Reads one file from the front, or one sample somewhere; returns the bytes. */
static size_t read_one(struct reads *r, uint64_t number, uint8_t *buffer)
{
    const struct survey *s = r->survey;
    const struct survey_item *item = &s->item[(number * 2654435761u) % s->count];
    const char *path = r->sequential ? s->file[number % s->file_count] : item->path;
    size_t got = 0, sum = 0, align = FILE_DIRECT_ALIGNMENT;
    int fd = -1;
    pst_status st = open_file(r, path, &fd);
    uint64_t offset = r->sequential || item->offset == PST_NOWHERE ? 0 : item->offset / align * align;
    size_t length = r->sequential ? BLOCK : (r->length + align - 1) / align * align;
    length = length > BLOCK ? BLOCK : length;
    while (st == PST_OK && !r->cached) {
        if (!is_past(r, fd, offset, length)) {
            r->kept++;
            break;
        }
        st = file_read_at(fd, path, buffer, length, offset, &got, NULL);
        sum += st == PST_OK ? got : 0;
        offset += got;
        r->done++;
        if (!r->sequential || got < length || is_over(r))
            break;
    }
    file_close(fd);
    return sum;
}

static void work(void *user, unsigned worker)
{
    struct reads *r = user;
    uint8_t *memory = mem_large(BLOCK + FILE_DIRECT_ALIGNMENT);
    uint8_t *buffer = memory ? memory + (FILE_DIRECT_ALIGNMENT - (uintptr_t)memory % FILE_DIRECT_ALIGNMENT) : NULL;
    (void)worker;
    while (buffer && !is_over(r)) {
        uint64_t kept = r->kept;
        size_t n = read_one(r, r->next++, buffer);
        r->bytes += n;
        if (n == 0 && kept == r->kept)
            break;
    }
    mem_free(memory);
}

/* Bytes per second; 0: they could not be read so. */
static double measure(const struct pst_doctor *d, enum past past, bool sequential, unsigned threads)
{
    double seconds = doctor_span(d, 0.08, LONGEST) * (past == CACHED ? 0.3 : 1);
    struct reads r = {.survey = &d->survey, .past = past, .sequential = sequential, .length = (size_t)d->survey.mean_bytes + 1};
    struct thread_group *group = NULL;
    uint64_t begin = clock_ns();
    r.until = begin + (uint64_t)(1e9 * seconds);
    r.latest = begin + (uint64_t)(1e9 * fmax(LATEST, seconds));
    if (thread_group_start(&group, threads, "doctor", work, &r, NULL) < 0)
        return 0;
    thread_group_join(group);
    double passed = (double)(clock_ns() - begin) * 1e-9;
    return passed > 0 && !r.cached && r.kept <= r.done ? (double)r.bytes / passed : 0;
}

/* The better of two: the first may have read from storage. */
static double measure_warm(const struct pst_doctor *d, bool sequential, unsigned threads)
{
    double first = measure(d, CACHED, sequential, threads), second = measure(d, CACHED, sequential, threads);
    return first > second ? first : second;
}

static void measure_cold(struct limits *l, const struct pst_doctor *d, enum past past)
{
    l->random_cold = measure(d, past, false, 1);
    if (!(l->random_cold > 0))
        return;
    l->random_cold_deep = measure(d, past, false, DEEP);
    l->sequential_cold = measure(d, past, true, 2);
    l->cold_known = l->random_cold_deep > 0 && l->sequential_cold > 0;
}

/* Storage is not faster than memory: what the page cache of another layer answers is at most as fast as this one. */
static void bound_cold(struct limits *l, double warm_deep, double warm_files)
{
    if (!l->cold_known)
        l->random_cold = l->random_cold_deep = l->sequential_cold = 0;
    l->random_cold = fmin(l->random_cold, l->random_warm);
    l->random_cold_deep = fmin(l->random_cold_deep, fmax(warm_deep, l->random_warm));
    l->sequential_cold = fmin(l->sequential_cold, fmin(warm_files, l->sequential_warm));
}

pst_status storage_measure(struct pst_doctor *d, pst_error *reterr)
{
    struct limits *l = &d->limits;
    if (!d->survey.count || !d->survey.file_count)
        return PST_OK;
    if (remote_data(d))
        return remote_measure(d, reterr);
    pst_status st = doctor_tick(d, "measuring the storage", reterr);
    if (st < 0)
        return st;
    l->deep = DEEP;
    measure_cold(l, d, DIRECT);
    if (!l->cold_known)
        measure_cold(l, d, DROPPED);
    l->random_warm = measure_warm(d, false, 1);
    l->sequential_warm = measure_warm(d, true, 1);
    bound_cold(l, measure_warm(d, false, DEEP), measure_warm(d, true, 2));
    return PST_OK;
}
