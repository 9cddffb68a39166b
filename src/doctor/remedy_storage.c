/* remedy_storage.c: `faster-storage`: what storage that never lets workers wait would bring; for stores and web servers: more connections, a cache, and what
 * an epoch costs in requests and bytes. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define BRIEF 3.0 /* seconds of an epoch that can be tried */

/* As if reading cost nothing. */
static void predict_unhindered(struct pst_doctor *d, struct remedy *r)
{
    struct costs c = d->costs;
    bool cold = d->cold, binds = d->remote.binds;
    c.blocked_us = 0;
    if (d->run.streamed && d->read_blocked > 0.3)
        c.serial_us *= 1 - d->read_blocked;
    d->cold = d->remote.binds = false;
    remedy_costs(d, r, &c);
    d->cold = cold;
    d->remote.binds = binds;
    r->warm_gain = r->rate / d->pipe_rate;
    r->flaw = true;
}

/* ---- Stores ---- */

/* The bytes per second that training takes: as many as its steps use, or as the pipeline could prepare. */
static double wanted_bytes(const struct pst_doctor *d, const struct remedy *r)
{
    double rate = r->rate;
    if (d->options.wish_rate > 0)
        rate = d->options.wish_rate;
    else if (d->step.rate > 0 && isfinite(d->step.rate))
        rate = d->step.rate < rate ? d->step.rate : rate;
    return rate * d->costs.read_bytes;
}

static void describe_store(struct pst_doctor *d, struct remedy *r)
{
    double bytes = wanted_bytes(d, r);
    unsigned connections = remote_connections(d, bytes);
    char need[32], data[32], most[32];
    text_bytes((uint64_t)bytes, need, sizeof(need));
    text_bytes((uint64_t)d->remote.most, most, sizeof(most));
    if (d->data_bytes >= 0)
        text_bytes((uint64_t)d->data_bytes, data, sizeof(data));
    else
        snprintf(data, sizeof(data), "an unknown number of bytes");
    if (connections > d->remote.connections)
        snprintf(r->title, sizeof(r->title), "fetch %s/s over %u connections instead of %u, or keep the data (%s) in a cache on a local disk", need, connections,
                 d->remote.connections, data);
    else if (connections)
        snprintf(r->title, sizeof(r->title), "keep the data (%s) in a cache on a local disk; %u connections fetch the %s/s that training takes", data, connections, need);
    else
        snprintf(r->title, sizeof(r->title), "keep the data (%s) in a cache on a local disk: training takes %s/s, and one machine gets %s/s from the store at most",
                 data, need, most);
    snprintf(r->price, sizeof(r->price), "%s on disk; an epoch without it takes %s requests and %s", data, FIGURE_COUNT(remote_requests(d)), data);
    r->disk_bytes = d->data_bytes > 0 ? d->data_bytes : 0;
    r->elsewhere = true;
}

/* The first epoch fills the cache, the following ones are measured, where one epoch is brief enough. */
static pst_status try_cached(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    if (!(d->data_bytes > 0) || d->data_bytes / d->remote.present > BRIEF)
        return PST_SKIP;
    draft_copy(&r->variant, &d->now);
    r->warm_epoch = r->first_epoch = true;
    return remedy_probe(d, r, reterr);
}

static pst_status find_remote(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    if (!d->remote.binds && d->read_blocked < 0.3)
        return PST_SKIP;
    pst_status st = try_cached(d, r, reterr);
    if (st < 0)
        return st;
    double warm = r->warm_gain;
    predict_unhindered(d, r);
    r->upper = st == PST_SKIP;
    if (st == PST_OK)
        r->warm_gain = warm;
    if (st == PST_SKIP)
        r->has_variant = false;
    r->cause = "slow-storage";
    r->effort = 2; /* a setting */
    snprintf(r->basis, sizeof(r->basis), "requests of %s ms, %s MB/s per connection and %s MB/s over %u; %s", FIGURE(1e3 * d->remote.latency),
             FIGURE(d->remote.connection / 1e6), FIGURE(d->remote.present / 1e6), d->remote.connections,
             st == PST_OK ? "brief runs after the first epoch" : "the costs without waits for the store: an upper bound");
    describe_store(d, r);
    unsigned connections = remote_connections(d, wanted_bytes(d, r));
    char *again = doctor_command(d, "");
    r->command = !again                                  ? NULL
                 : connections > d->remote.connections ? mem_format("PENSTOCK_CONNECTIONS=%u PENSTOCK_CACHE=penstock-cache %s", connections, again)
                                                       : mem_format("PENSTOCK_CACHE=penstock-cache %s", again);
    mem_free(again);
    return r->command ? PST_OK : fail_memory(reterr, "describing a remedy");
}

/* ---- Disks ---- */

static pst_status find_faster_storage(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    if (d->remote.known)
        return find_remote(d, r, reterr);
    if (d->read_blocked < 0.3 && !d->cold_binds)
        return PST_SKIP;
    predict_unhindered(d, r);
    r->upper = true;
    r->cause = d->cold_binds ? "page-cache" : "slow-storage";
    double need = r->rate * d->costs.read_bytes;
    snprintf(r->title, sizeof(r->title), "put the data on storage that delivers %s MB/s, such as a local NVMe drive", FIGURE(need / 1e6));
    snprintf(r->basis, sizeof(r->basis), "the costs without waits for storage: an upper bound");
    snprintf(r->price, sizeof(r->price), "faster storage, and the time to copy the data");
    return PST_OK;
}

const struct remedy_class remedy_storage[] = {
    {"faster-storage", 5, find_faster_storage, GROUP_NONE},
    {0},
};
