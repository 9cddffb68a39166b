/* remote.c: data in object stores and on web servers: how long a request takes, how many bytes one connection brings and how many all of them, and how many
 * small requests are answered per second. Measured with the actual objects, past every cache. */
#include "doctor/doctor.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/remote/address.h"
#include "io/remote/blocks.h"
#include "io/remote/cache.h"
#include "io/remote/settings.h"
#include "io/remote/store.h"
#include "io/remote/tuner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL    4096u
#define PROBES   7u
#define MOST     64u /* connections */
#define WORTH    1.15 /* twice the connections must bring so much to count */

struct fetch {
    const struct survey *survey;
    uint64_t length, until;
    _Atomic uint64_t bytes, requests, next;
    _Atomic bool failed, cancel;
};

static bool discard(void *user, const void *data, size_t length)
{
    struct fetch *f = user;
    (void)data;
    f->bytes += length;
    if (f->length > SMALL && clock_ns() > f->until)
        f->cancel = true; /* a slow store: what arrived so far counts */
    return true;
}

/* Where a request reads: small ones where elements begin, as the survey saw them; large ones part after part of each object, whose
 * size is known since it was opened. */
static struct store_get place(struct fetch *f, uint64_t number)
{
    const struct survey *s = f->survey;
    struct store_get get = {.length = f->length, .sink = discard, .user = f, .cancel = &f->cancel};
    struct file_info info;
    if (f->length <= SMALL && s->count) {
        uint64_t offset = s->item[number % s->count].offset;
        get.path = s->item[number % s->count].path;
        get.offset = offset == PST_NOWHERE ? 0 : offset; /* a file of its own */
        return get;
    }
    get.path = s->file[number % s->file_count];
    uint64_t parts = file_stat(get.path, &info, NULL) == PST_OK ? info.size / f->length : 0;
    get.offset = number / s->file_count % (parts ? parts : 1) * f->length;
    return get;
}

static bool request(struct fetch *f, uint64_t number)
{
    struct store_facts facts = {0};
    struct store_get get = place(f, number);
    bool done = store_get(&get, &facts, NULL) == PST_OK;
    f->requests += done;
    f->failed = f->failed || (!done && !f->cancel);
    return done;
}

static void work(void *user, unsigned worker)
{
    struct fetch *f = user;
    (void)worker;
    while (clock_ns() < f->until && !f->failed && request(f, f->next++))
        ;
}

/* Bytes and requests per second over some connections. */
static bool measure(const struct pst_doctor *d, uint64_t length, unsigned connections, double seconds, double *ret_bytes, double *ret_requests)
{
    struct fetch f = {.survey = &d->survey, .length = length};
    struct thread_group *group = NULL;
    uint64_t begin = clock_ns();
    f.until = begin + (uint64_t)(1e9 * seconds);
    if (thread_group_start(&group, connections, "doctor", work, &f, NULL) < 0)
        return false;
    thread_group_join(group);
    double passed = (double)(clock_ns() - begin) * 1e-9;
    *ret_bytes = passed > 0 ? (double)f.bytes / passed : 0;
    *ret_requests = passed > 0 ? (double)f.requests / passed : 0;
    return !f.failed && f.bytes > 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool measure_latency(const struct pst_doctor *d, double *ret)
{
    double seconds[PROBES];
    struct fetch f = {.survey = &d->survey, .length = 1, .until = UINT64_MAX};
    if (!request(&f, 0)) /* makes the connection */
        return false;
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t begin = clock_ns();
        if (!request(&f, 0))
            return false;
        seconds[i] = (double)(clock_ns() - begin) * 1e-9;
    }
    qsort(seconds, PROBES, sizeof(seconds[0]), by_value);
    *ret = seconds[PROBES / 2];
    return true;
}

bool remote_data(const struct pst_doctor *d)
{
    return d->survey.file_count > 0 && address_is_remote(d->survey.file[0]);
}

uint64_t remote_kept(void)
{
    struct room room;
    settings_cache(&room);
    uint64_t bytes = room.folder ? room_folder_bytes(room.folder) : 0;
    mem_free(room.folder);
    return bytes;
}

/* The bytes of one request, as the library makes them with this latency and rate, once it has seen them. */
static uint64_t tuned_part(const struct remote *r)
{
    struct tuner t = {0};
    struct room room;
    tuner_note(&t, r->latency, (double)TUNER_PART / r->connection - r->latency, TUNER_PART);
    settings_cache(&room);
    bool in_memory = !room.folder;
    mem_free(room.folder);
    return in_memory ? tuner_part_within(tuner_part(&t), r->connections, blocks_most_bytes()) : tuner_part(&t);
}

pst_status remote_measure(struct pst_doctor *d, pst_error *reterr)
{
    struct remote *r = &d->remote;
    double seconds = doctor_span(d, 0.25, 0.6), bytes, requests;
    pst_status st = doctor_tick(d, "measuring the store", reterr);
    if (st < 0 || !measure_latency(d, &r->latency) || !measure(d, TUNER_PART, 1, seconds, &r->connection, &requests))
        return st; /* what cannot be measured is not known: the pipeline itself reports what is wrong */
    r->connections = settings_connections();
    r->part = tuned_part(r);
    if (!measure(d, r->part, r->connections, seconds, &r->present, &requests) || !measure(d, SMALL, r->connections, seconds, &bytes, &r->requests))
        return PST_OK;
    r->most = r->present;
    r->best = r->connections;
    for (unsigned n = 2 * r->connections; n <= MOST && doctor_has_time(d, 2); n *= 2) {
        if (!measure(d, r->part, n, seconds, &bytes, &requests) || bytes < WORTH * r->most)
            break;
        r->most = bytes;
        r->best = n;
    }
    r->known = true;
    return doctor_tick(d, "measuring the store", reterr);
}

/* Connections that bring so many bytes per second, by the bytes of one of them; 0: the store does not deliver so many. */
unsigned remote_connections(const struct pst_doctor *d, double bytes)
{
    const struct remote *r = &d->remote;
    double n = r->connection > 0 ? ceil(bytes / r->connection) : INFINITY;
    if (bytes > r->present) /* the present connections together deliver less than the single one promises */
        n = fmax(n, r->best);
    return bytes <= 1.05 * r->most && n <= MOST ? (n < 1 ? 1 : (unsigned)n) : 0;
}

/* Where later epochs find the data: "cache", "memory", "part" (a cache without room for all of it) or "store". NULL: how much data there is is not known. */
const char *remote_later(const struct pst_doctor *d)
{
    struct room room;
    settings_cache(&room);
    bool folder = room.folder != NULL, roomy = (double)room.most > d->data_bytes || room.most == ROOM_UNLIMITED;
    mem_free(room.folder);
    if (d->remote.cached || (folder && roomy))
        return "cache";
    if (!isfinite(d->data_bytes))
        return NULL;
    return folder ? "part" : d->data_bytes <= (double)blocks_kept_bytes() ? "memory" : "store";
}

const char *remote_later_words(const struct pst_doctor *d)
{
    static const struct {
        const char *later, *words;
    } known[] = {{"cache", "later epochs and later runs read the cache"},
                 {"part", "later epochs fetch what the cache has no room for"},
                 {"memory", "later epochs read copies in memory"}};
    const char *later = remote_later(d);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (later && strcmp(later, known[i].later) == 0)
            return d->remote.cached ? "the cache has all of it already" : known[i].words;
    if (!later)
        return "where later epochs find it is not known, because its size is not";
    return "later epochs fetch most of it again: there is no cache";
}

/* Requests of an epoch that finds nothing in a cache. */
double remote_requests(const struct pst_doctor *d)
{
    const struct remote *r = &d->remote;
    double files = d->survey.files > 0 && d->data_bytes > 0 && d->survey.file_bytes > 0 ? fmax(1, d->data_bytes / ((double)d->survey.file_bytes / (double)d->survey.files)) : 1;
    if (d->survey.file_per_element)
        return d->epoch_samples + ceil(d->epoch_samples / 1000);
    return ceil(d->data_bytes / (double)(r->part ? r->part : TUNER_PART)) + 3 * files; /* facts, the end of the index and the index of each shard */
}
