/* remedy_cache.c: samples kept as they are at a place in the chain: in memory, or on a local disk, where later runs find them, too. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <stdio.h>
#include <string.h>

static bool is_random(const struct draft_stage *s)
{
    const pst_op_class *op = pst_op_find(s->name);
    return op && (op->flags & PST_OP_RANDOM);
}

/* Only the stages before `at` are planned, with what they keep on disk as it is. */
bool remedy_repeats(const struct pst_doctor *d, size_t at)
{
    struct draft r;
    pst_pipeline *p = NULL;
    draft_copy(&r, &d->now);
    draft_truncate(&r, at);
    for (size_t i = r.count; i-- > 1 && strcmp(r.stage[i].name, "snapshot") != 0;)
        if (strcmp(r.stage[i].name, "cache") == 0)
            draft_remove(&r, i);
    draft_insert(&r, r.count, "cache");
    bool accepted = draft_open(&r, &p, NULL) == PST_OK && pst_pipeline_plan(p, NULL) == PST_OK;
    pst_pipeline_destroy(p);
    draft_finish(&r);
    return accepted;
}

/* The place for a cache: after everything that is the same in each epoch. Of the operations of the program, only the plan knows which draw. */
static size_t cache_place(const struct pst_doctor *d)
{
    size_t at = 1;
    for (size_t i = 1; i < d->now.count; i++) {
        if (d->now.stage[i].kind == PST_OP_BATCHING || is_random(&d->now.stage[i]))
            break;
        if (d->now.stage[i].kind == PST_OP_SAMPLE)
            at = i + 1;
    }
    while (at > 1 && (d->now.stage[at - 1].kind != PST_OP_SAMPLE || !remedy_repeats(d, at)))
        at--;
    return at;
}

/* What a snapshot keeps needs no cache before it. */
static bool is_kept(const struct pst_doctor *d, size_t at)
{
    return draft_find(&d->now, "snapshot", at) != DRAFT_NONE;
}

static double memory_of(const struct pst_doctor *d)
{
    return (double)(d->options.memory ? d->options.memory : d->limits.memory_available);
}

/* A cache of a given size that does not hold all: the same without the limit. */
static pst_status find_larger_cache(struct pst_doctor *d, struct remedy *r, size_t at, pst_error *reterr)
{
    char *folder = draft_argument(&d->now.stage[at], "path", 1), *size = draft_argument(&d->now.stage[at], "bytes", 0);
    bool limited = !(folder && folder[0]) && (size || d->now.options.ram > 0);
    mem_free(folder);
    mem_free(size);
    if (!limited || !d->sample.folder || !(d->epoch_samples > 0))
        return PST_SKIP;
    draft_copy(&r->variant, &d->sampled); /* whose cache holds the same part of the sample as the present one does of the data */
    draft_set(&r->variant, at + d->sample.taken, "cache");
    r->variant.options.ram = 0;
    r->on_sample = r->warm_epoch = true;
    pst_status st = remedy_probe(d, r, reterr);
    if (st != PST_OK)
        return st;
    char bytes[32];
    r->ram_bytes = r->cache_used / (double)d->sample.count * d->distinct_samples;
    text_bytes((uint64_t)r->ram_bytes, bytes, sizeof(bytes));
    struct draft after;
    draft_copy(&after, &d->now);
    draft_set(&after, at, "cache");
    remedy_text(d, r, &after);
    draft_finish(&after);
    r->rate = d->run.rate * r->warm_gain;
    r->flaw = true;
    r->cause = "ram-limit";
    snprintf(r->title, sizeof(r->title), "give the cache the memory that all samples need: now it holds a part of them");
    snprintf(r->price, sizeof(r->price), "%s more memory", bytes);
    return r->pipeline ? PST_OK : fail_memory(reterr, "describing a remedy");
}

pst_status remedy_fill(struct pst_doctor *d, const struct draft *r, pst_error *reterr)
{
    struct trial t;
    struct trial_request q = {.draft = r, .seconds = 0.02, .whole_epoch = true, .patience = doctor_span(d, 2.5, 6), .stop = doctor_stopped, .user = d};
    pst_error error = {0};
    pst_status st = doctor_has_time(d, d->options.quick ? 2.5 : 6) ? trial_run(&q, &t, &error) : PST_SKIP;
    if (st == PST_ENOMEM || st == PST_ECANCELLED) {
        if (reterr)
            *reterr = error;
        return st;
    }
    return st == PST_OK && !t.partial ? PST_OK : PST_SKIP;
}

/* Tries a cache in `folder`, or in memory if that is NULL. */
static pst_status try_cache(struct pst_doctor *d, struct remedy *r, size_t at, const char *folder, pst_error *reterr)
{
    char *word = folder ? draft_quote(folder) : NULL;
    if (folder && !word)
        return fail_memory(reterr, "trying a remedy");
    draft_copy(&r->variant, d->sample.folder ? &d->sampled : &d->now);
    draft_insert(&r->variant, at + d->sample.taken, folder ? "cache path=%s" : "cache", word);
    mem_free(word);
    r->variant.options.ram = 0;
    r->on_sample = d->sample.folder != NULL;
    r->warm_epoch = true;
    pst_status st = folder ? remedy_fill(d, &r->variant, reterr) : PST_OK;
    return st == PST_OK ? remedy_probe(d, r, reterr) : st;
}

static bool is_after_heavy(const struct pst_doctor *d, size_t at)
{
    size_t heavy = remedy_heavy_end(d);
    return heavy != DRAFT_NONE && heavy <= at;
}

/* The text on the real data, and what both kinds of cache have in common. */
static pst_status describe(struct pst_doctor *d, struct remedy *r, size_t at, const char *folder, pst_error *reterr)
{
    struct draft after;
    draft_copy(&after, &d->now);
    draft_insert(&after, at, folder ? "cache path=%s" : "cache", folder);
    remedy_text(d, r, &after);
    draft_finish(&after);
    r->costs.blocked_us = 0;
    r->costs.read_bytes = 0; /* from the second epoch on */
    r->rate = d->run.rate * r->warm_gain;
    bool reads = d->read_blocked > 0.3 || d->cold_binds || d->remote.binds;
    r->flaw = reads || is_after_heavy(d, at);
    r->cause = !reads ? "heavy-augmentation" : d->cold_binds ? "page-cache" : "slow-storage";
    return r->pipeline ? PST_OK : fail_memory(reterr, "describing a remedy");
}

/* Bytes of a sample in the cache. Where no operation comes after it, these are the bytes that are delivered. */
static double cached_bytes(const struct pst_doctor *d, const struct remedy *r, size_t at)
{
    for (size_t i = at; i < d->now.count; i++)
        if (d->now.stage[i].kind == PST_OP_SAMPLE)
            return r->cache_used / (d->sample.folder ? (double)d->sample.count : (double)d->facts.elements);
    return d->run.out_bytes;
}

static pst_status find_cache_ram(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    bool small = d->facts.elements != PST_NOWHERE && d->facts.elements <= 4096;
    size_t present = draft_find(&d->now, "cache", 1);
    if (present != DRAFT_NONE)
        return find_larger_cache(d, r, present, reterr);
    if (!(d->epoch_samples > 0))
        return PST_SKIP;
    size_t at = cache_place(d);
    if (is_kept(d, at))
        return PST_SKIP;
    pst_status st = d->sample.folder || small ? try_cache(d, r, at, NULL, reterr) : PST_SKIP;
    double each = st == PST_OK ? cached_bytes(d, r, at) : d->run.out_bytes;
    if (st == PST_SKIP && is_after_heavy(d, at)) {
        r->on_sample = r->warm_epoch = false;
        draft_finish(&r->variant);
        remedy_without_heavy(d, r);
    } else if (st != PST_OK) {
        return st;
    }
    r->ram_bytes = each * d->distinct_samples;
    if (r->ram_bytes > 0.5 * memory_of(d))
        return PST_SKIP;
    char bytes[32], words[64];
    text_bytes((uint64_t)r->ram_bytes, bytes, sizeof(bytes));
    snprintf(r->title, sizeof(r->title), "keep the samples in memory after \"%s\": from the second epoch on they are not read or computed again",
             remedy_stage_words(&d->now.stage[at - 1], words));
    snprintf(r->price, sizeof(r->price), "%s of memory; the first epoch is as slow as now", bytes);
    return describe(d, r, at, NULL, reterr);
}

/* ---- On disk ---- */

double remedy_stored_bytes(const char *folder)
{
    pst_cache_info *cache = NULL;
    size_t count = 0;
    double bytes = 0;
    if (pst_cache_list(folder, &cache, &count, NULL) == PST_OK)
        for (size_t i = 0; i < count; i++)
            bytes += (double)cache[i].bytes;
    pst_free(cache);
    return bytes;
}

/* The disk is taken to be as fast as that of the data. */
void remedy_limit_by_disk(struct pst_doctor *d, struct remedy *r, double each)
{
    const struct limits *l = &d->limits;
    double disk = l->random_cold_deep > l->random_cold ? l->random_cold_deep : l->random_cold;
    if (r->disk_bytes < 0.9 * memory_of(d) || !(each > 0) || !(disk > 0) || disk / each > r->rate)
        return;
    r->low *= disk / each / r->rate;
    r->high *= disk / each / r->rate;
    r->rate = disk / each;
}

static pst_status find_cache_disk(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    if (draft_find(&d->now, "cache", 0) != DRAFT_NONE || !d->sample.folder || !(d->epoch_samples > 0))
        return PST_SKIP;
    size_t at = cache_place(d);
    if (is_kept(d, at))
        return PST_SKIP;
    char *folder = file_join(d->sample.folder, "cache"), *out = remedy_out(d, "cache"), *word = out ? draft_quote(out) : NULL;
    pst_status st = folder && word ? try_cache(d, r, at, folder, reterr) : fail_memory(reterr, "trying a remedy");
    double each = st == PST_OK ? remedy_stored_bytes(folder) / (double)d->sample.count : 0;
    r->disk_bytes = each * d->distinct_samples;
    r->ram_bytes = 0;
    if (st == PST_OK && !(each > 0))
        st = PST_SKIP; /* nothing could be kept there */
    if (st == PST_OK)
        st = describe(d, r, at, word, reterr);
    if (st == PST_OK) {
        char bytes[32], words[64];
        remedy_limit_by_disk(d, r, each);
        text_bytes((uint64_t)r->disk_bytes, bytes, sizeof(bytes));
        snprintf(r->title, sizeof(r->title), "keep the samples on a local disk after \"%s\": later epochs and later runs read them there",
                 remedy_stage_words(&d->now.stage[at - 1], words));
        snprintf(r->price, sizeof(r->price), "%s on disk; the first epoch is as slow as now", bytes);
    }
    mem_free(folder);
    mem_free(out);
    mem_free(word);
    return st;
}

const struct remedy_class remedy_cache[] = {
    {"cache-ram", 2, find_cache_ram, GROUP_CACHE},
    {"cache-disk", 3, find_cache_disk, GROUP_CACHE},
    {0},
};
