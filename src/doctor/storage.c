/* storage.c: the storage of the actual files: from front to back and by single samples, from the page cache and past it, one read at a
 * time and several. Direct reads leave the page cache alone, so that measuring does not slow down the training that runs. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/thread.h"
#include "io/file.h"

#include <stdatomic.h>
#include <string.h>

#define BLOCK   ((size_t)1 << 20)
#define DEEP    8
#define LONGEST 0.25 /* seconds per measurement */

struct reads {
    const struct survey *survey;
    bool direct, sequential;
    size_t length;          /* of a random read */
    uint64_t until;
    _Atomic uint64_t bytes, next;
    _Atomic bool plain; /* a file could not be opened for direct reads */
};

/* Reads one file from the front, or one sample somewhere; returns the bytes. */
static size_t read_one(struct reads *r, uint64_t number, uint8_t *buffer)
{
    const struct survey *s = r->survey;
    const struct survey_item *item = &s->item[(number * 2654435761u) % s->count];
    const char *path = r->sequential ? s->file[number % s->file_count] : item->path;
    size_t got = 0, sum = 0, align = FILE_DIRECT_ALIGNMENT;
    bool direct = false;
    int fd = -1;
    pst_status st = r->direct ? file_open_direct(&fd, &direct, path, NULL) : file_open_read(&fd, path, NULL);
    if (r->direct && !direct)
        r->plain = true;
    uint64_t offset = r->sequential || item->offset == PST_NOWHERE ? 0 : item->offset / align * align;
    size_t length = r->sequential ? BLOCK : (r->length + align - 1) / align * align;
    length = length > BLOCK ? BLOCK : length;
    while (st == PST_OK) {
        st = file_read_at(fd, path, buffer, length, offset, &got, NULL);
        sum += st == PST_OK ? got : 0;
        offset += got;
        if (!r->sequential || got < length || clock_ns() > r->until)
            break;
    }
    file_close(fd);
    return sum;
}

static void work(void *user, unsigned worker)
{
    struct reads *r = user;
    uint8_t *buffer = mem_large(BLOCK);
    (void)worker;
    while (buffer && clock_ns() < r->until) {
        size_t n = read_one(r, r->next++, buffer);
        r->bytes += n;
        if (n == 0)
            break;
    }
    mem_free(buffer);
}

static double measure(const struct pst_doctor *d, bool direct, bool sequential, unsigned threads, bool *ret_plain)
{
    double seconds = doctor_span(d, 0.08, LONGEST);
    struct reads r = {.survey = &d->survey, .direct = direct, .sequential = sequential, .length = (size_t)d->survey.mean_bytes + 1};
    struct thread_group *group = NULL;
    uint64_t begin = clock_ns();
    r.until = begin + (uint64_t)(1e9 * seconds);
    if (thread_group_start(&group, threads, "doctor", work, &r, NULL) < 0)
        return 0;
    thread_group_join(group);
    *ret_plain = r.plain;
    double passed = (double)(clock_ns() - begin) * 1e-9;
    return passed > 0 ? (double)r.bytes / passed : 0;
}

pst_status storage_measure(struct pst_doctor *d, pst_error *reterr)
{
    struct limits *l = &d->limits;
    bool plain = false;
    if (!d->survey.count || !d->survey.file_count)
        return PST_OK;
    if (remote_data(d))
        return remote_measure(d, reterr);
    pst_status st = doctor_tick(d, "measuring the storage", reterr);
    if (st < 0)
        return st;
    l->random_cold = measure(d, true, false, 1, &plain);
    l->random_cold_deep = measure(d, true, false, DEEP, &plain);
    l->deep = DEEP;
    l->sequential_cold = measure(d, true, true, 2, &plain);
    l->cold_known = !plain;
    bool unused;
    l->random_warm = measure(d, false, false, 1, &unused);
    l->sequential_warm = measure(d, false, true, 1, &unused);
    return PST_OK;
}
