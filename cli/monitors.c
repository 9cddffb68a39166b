/* monitors.c: see monitors.h. */
#include "cli/monitors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_SECONDS 1.0

const char *monitor_folder(char *buffer, size_t size)
{
    const char *given = getenv("PENSTOCK_MONITOR"), *runtime = getenv("XDG_RUNTIME_DIR");
    int n;

    if (given && given[0] == '/')
        n = snprintf(buffer, size, "%s", given);
    else if (runtime && runtime[0] == '/')
        n = snprintf(buffer, size, "%s/penstock", runtime);
    else
        n = snprintf(buffer, size, "/tmp/penstock-%lu", (unsigned long)geteuid());
    return n >= 0 && (size_t)n < size ? buffer : NULL;
}

const char *monitor_wanted(char *buffer, size_t size, bool wanted)
{
    const char *given = getenv("PENSTOCK_MONITOR");

    return wanted || (given && given[0] && strcmp(given, "0") != 0) ? monitor_folder(buffer, size) : NULL;
}

static const struct monitored *seen(const struct monitors *m, const char *socket)
{
    for (size_t i = 0; i < m->count; i++)
        if (strcmp(m->items[i].socket, socket) == 0)
            return &m->items[i];
    return NULL;
}

/* The ranks of a job side by side, in their order. */
static int by_rank(const void *a, const void *b)
{
    const pst_monitor_view *x = &((const struct monitored *)a)->now, *y = &((const struct monitored *)b)->now;

    if (x->world != y->world)
        return x->world < y->world ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

pst_status monitors_look(struct monitors *m, const char *folder, pst_error *reterr)
{
    struct monitors found = {.items = calloc(MOST_MONITORS, sizeof(*found.items))};
    char **paths = NULL;
    size_t count = 0;
    pst_status status =
        found.items ? pst_monitor_list(&paths, &count, folder, reterr) : pst_fail(reterr, PST_ENOMEM, "out of memory");

    for (size_t i = 0; status == PST_OK && i < count && found.count < MOST_MONITORS; i++) {
        struct monitored *one = &found.items[found.count];
        const struct monitored *old;

        if (snprintf(one->socket, sizeof(one->socket), "%s", paths[i]) >= (int)sizeof(one->socket))
            continue;
        one->now.size = sizeof(one->now);
        if (pst_monitor_read(&one->now, paths[i], ANSWER_SECONDS, NULL) != PST_OK)
            continue; /* it has just ended, or belongs to another user */
        old = seen(m, paths[i]);
        if (old && old->now.stats.samples <= one->now.stats.samples)
            one->before = old->now;
        found.count++;
    }
    for (size_t i = 0; i < count; i++)
        pst_free(paths[i]);
    pst_free(paths);
    if (found.count)
        qsort(found.items, found.count, sizeof(*found.items), by_rank);
    monitors_finish(m);
    *m = found;
    return status;
}

void monitors_finish(struct monitors *m)
{
    free(m->items);
    *m = (struct monitors){0};
}

static double share(double part, double all)
{
    return all > 0 ? part / all : 0;
}

struct monitor_rates monitor_rates(const struct monitored *m)
{
    const pst_stats *a = &m->before.stats, *b = &m->now.stats; /* `before` is zeroed where there is none */
    double seconds = m->now.seconds - m->before.seconds, all = 0;
    double busy = (double)(b->worker_busy_ns - a->worker_busy_ns), idle = (double)(b->worker_wait_ns - a->worker_wait_ns);
    struct monitor_rates r = {.samples = share((double)(b->samples - a->samples), seconds),
                              .batches = share((double)(b->batches - a->batches), seconds),
                              .read_bytes = share((double)(b->read_bytes - a->read_bytes), seconds),
                              .wait_share = share((double)(b->consumer_wait_ns - a->consumer_wait_ns) * 1e-9, seconds),
                              .busy_share = share(busy, busy + idle)};

    r.wait_share = r.wait_share > 1 ? 1 : r.wait_share;
    for (size_t i = 0; i < b->stages; i++)
        all += (double)(b->stage[i].ns - a->stage[i].ns);
    for (size_t i = 0; i < b->stages; i++) {
        r.stage_share[i] = share((double)(b->stage[i].ns - a->stage[i].ns), all);
        r.slowest = r.stage_share[i] > r.stage_share[r.slowest] ? i : r.slowest;
    }
    return r;
}

const char *monitor_verdict(const struct monitor_rates *r)
{
    return r->wait_share > 0.20 ? "input-bound" : r->wait_share >= 0.05 ? "balanced" : "consumer-bound";
}
