/* pack.c: pst_pack, the story from top to bottom. Each step is a file of its own; this one only knows their order.
 *
 * Within this room errors always have a place to go: `reterr` is never NULL below pst_pack. */
#include <penstock/pack.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/file.h"
#include "io/publish.h"
#include "pack/disk.h"
#include "pack/steps.h"
#include "pack/report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MOST_TRIES 3

/* Everything that one call holds; zeroed to begin with, let go by job_finish wherever it stopped. */
struct job {
    struct pack_config config;
    struct pack_ticker ticker;
    struct pack_report *report;
    struct pack_source source;
    struct recipe recipe;
    struct pack_plan plan;
    struct pack_state state, whole; /* of this call's folder; of the whole, for a part */
    struct out_shard *shards; /* those that this call writes: a range of the plan's */
    size_t first_shard, shard_count;
    struct bad_budget bad;
    int lock;         /* descriptor, -1: not held */
    bool joined;      /* this is a part of a dataset that is complete already */
    bool made_folder; /* OUT was not there before */
};

static void job_finish(struct job *j, bool failed)
{
    for (size_t i = 0; j->shards && i < j->shard_count; i++) {
        mem_free((void *)(uintptr_t)j->shards[i].path);
        mem_free((void *)(uintptr_t)j->shards[i].note_path);
        text_finish(&j->shards[i].note);
    }
    mem_free(j->shards);
    pack_state_finish(&j->state);
    pack_state_finish(&j->whole);
    pack_plan_finish(&j->plan);
    recipe_finish(&j->recipe);
    pack_source_close(&j->source);                               /* its spools lie in OUT */
    if ((failed || j->joined) && j->made_folder && j->lock >= 0) /* without the lock it is another process's by now */
        disk_remove_folder(j->config.out);
    file_close(j->lock);
    pack_report_destroy(j->report);
    pack_config_finish(&j->config);
}

/* A join may remove the empty folder of a part between two of these calls. */
static pst_status hold_folder(struct job *j, pst_error *reterr)
{
    struct file_info info;
    const char *out = j->config.out;
    pst_status st = PST_ENOTFOUND;
    for (int tries = 0; st == PST_ENOTFOUND && tries < MOST_TRIES; tries++) {
        file_close(j->lock);
        j->lock = -1;
        st = file_make_folder(out, reterr);
        if (st == PST_OK)
            st = disk_lock(&j->lock, out, reterr);
        if (st == PST_OK && j->lock >= 0)
            st = file_stat(out, &info, reterr);
    }
    return st;
}

/* OUT is made, held against other processes, and swept of what killed ones left. */
static pst_status take_folder(struct job *j, pst_error *reterr)
{
    struct file_info info;
    const char *out = j->config.out;
    pst_status st = file_stat(out, &info, reterr);
    j->made_folder = st == PST_ENOTFOUND;
    if (st < 0 && st != PST_ENOTFOUND)
        return st;
    if (st == PST_OK && !info.is_folder)
        return pst_fail_at(reterr, PST_EEXIST, out, PST_NOWHERE, PST_NOWHERE, "is a file; the output must be a folder");
    st = hold_folder(j, reterr);
    return st == PST_OK ? publish_sweep(out, reterr) : st;
}

/* ---- The plan ---- */

/* Bytes of an average record: known from the source, or from a sample when images are to be changed first. */
static pst_status average_bytes(struct job *j, double *ret, pst_error *reterr)
{
    const struct pack_source *s = &j->source;
    *ret = 0;
    if (j->recipe.transforms) {
        pst_status st = pack_sample(&j->plan, &j->recipe, &j->ticker, ret, reterr);
        if (st < 0 || *ret > 0)
            return st;
    }
    double sum = 0, names = 0;
    for (uint64_t i = 0; i < s->count; i++)
        sum += (double)s->class->estimate(s, i);
    for (size_t i = 0; i < j->recipe.count; i++)
        names += (double)j->recipe.features[i].name_length + 10; /* tags and lengths around a feature */
    *ret = sum / (double)s->count + names + 24;
    return PST_OK;
}

/* How many shards each split has: as asked, as planned before, or from the size. */
static pst_status divide(struct job *j, pst_error *reterr)
{
    const pst_pack_options *o = &j->config.options;
    double average = 0;
    pst_status st = PST_OK;
    bool planned = true;
    uint64_t shards = 0;
    for (size_t i = 0; i < j->plan.split_count; i++)
        planned &= pack_state_shards(&j->state, j->plan.splits[i].name, &shards);
    if (!o->shards && !planned)
        st = average_bytes(j, &average, reterr);
    for (size_t i = 0; st == PST_OK && i < j->plan.split_count; i++) {
        const struct plan_split *s = &j->plan.splits[i];
        double wanted = ceil(average * (double)s->count / (double)o->shard_size);
        shards = o->shards ? o->shards : wanted < 99999 ? (uint64_t)wanted : 99999;
        if (planned)
            pack_state_shards(&j->state, s->name, &shards);
        pack_plan_divide(&j->plan, i, shards);
        if (s->count == 0)
            st = pack_report_note(j->report, reterr, "the split %s is empty, so it has no shard", s->name);
        else if (o->shards > s->shards)
            st = pack_report_note(j->report, reterr,
                                  "the split %s has %" PRIu64 " record%s, so it has as many shards instead of %" PRIu32, s->name,
                                  s->count, s->count == 1 ? "" : "s", o->shards);
    }
    return st;
}

static pst_status list_shards(struct job *j, pst_error *reterr)
{
    bool compressed = j->config.options.compression != PST_COMPRESSION_NONE;
    size_t end;
    pack_part_range(&j->plan, &j->first_shard, &end);
    j->shards = mem_array(end - j->first_shard, sizeof(*j->shards));
    if (!j->shards)
        return fail_memory(reterr, "planning the shards");
    j->shard_count = end - j->first_shard;
    for (size_t i = 0; i < j->shard_count; i++) {
        struct out_shard *o = &j->shards[i];
        char *name = pack_plan_shard_name(&j->plan, j->first_shard + i);
        char *note = name ? mem_format("%s%s%s", compressed ? "." : "", name, compressed ? PACK_NOTE_SUFFIX : ".pidx") : NULL;
        o->command = pack_state_command(&j->state);
        o->split = pack_plan_shard(&j->plan, j->first_shard + i, &o->begin, &o->end);
        o->path = name ? file_join(j->config.shard_folder, name) : NULL;
        o->note_path = note ? file_join(j->config.shard_folder, note) : NULL;
        mem_free(name);
        mem_free(note);
        if (!o->path || !o->note_path)
            return fail_memory(reterr, "planning the shards");
    }
    return PST_OK;
}

/* ---- What is there, and what may be missing ---- */

/* Finds the shards that an earlier run of this command completed. */
static pst_status find_shards(struct job *j, uint64_t *ret_missing, pst_error *reterr)
{
    pst_status st = PST_OK;
    *ret_missing = j->shard_count;
    if (j->state.found || j->whole.found || j->config.options.join)
        st = pack_find(&j->config, j->shards, j->shard_count, &j->ticker, ret_missing, reterr);
    j->report->public.resumed_shards = j->shard_count - *ret_missing;
    return st;
}

static pst_status open_budget(struct job *j, pst_error *reterr)
{
    const pst_policy *policy = &j->config.bad;
    struct bad_budget *b = &j->bad;
    b->skip = policy->skip;
    b->allowed = policy->skip ? UINT64_MAX : 0;
    b->found = j->report->public.skips;
    for (size_t i = 0; i < j->shard_count; i++)
        b->found += j->shards[i].facts.skipped;
    if (policy->skip && policy->max_records)
        b->allowed = policy->max_records;
    double share = floor(policy->max_share * (double)j->source.count);
    if (policy->skip && policy->max_share > 0 && share < (double)b->allowed)
        b->allowed = (uint64_t)share;
    if (b->found > b->allowed)
        return pst_fail_at(reterr, PST_ECORRUPT, j->config.out, PST_NOWHERE, PST_NOWHERE,
                           "%" PRIu64 " bad items are left out so far, more than the %" PRIu64 " allowed", b->found,
                           b->allowed);
    return PST_OK;
}

/* ---- The report ---- */

static pst_status fill_report(struct job *j, pst_error *reterr)
{
    pst_pack_report *r = &j->report->public;
    pst_status st = PST_OK;
    j->report->splits = mem_array(j->plan.split_count, sizeof(*j->report->splits));
    if (!j->report->splits)
        return fail_memory(reterr, "planning the shards");
    for (size_t i = 0; st == PST_OK && i < j->plan.split_count; i++) {
        pst_pack_split *s = &j->report->splits[i];
        const struct plan_split *p = &j->plan.splits[i];
        s->name = arena_strndup(&j->report->arena, p->name, strlen(p->name));
        if (!s->name)
            return fail_memory(reterr, "planning the shards");
        for (size_t k = 0; st == PST_OK && k < j->shard_count; k++) {
            const struct out_shard *o = &j->shards[k];
            if (o->split != i)
                continue;
            s->shards++;
            s->records += o->facts.records;
            s->bytes += o->bytes;
            st = note_tell(&o->note, j->report, reterr);
        }
        r->records += s->records;
        r->bytes += s->bytes;
    }
    r->split = j->report->splits;
    r->splits = j->plan.split_count;
    r->classes = j->source.class_count;
    r->source_bytes = j->source.bytes;
    return st;
}

/* ---- All of it ---- */

/* In a store, another part may have begun between two looks: then the second one finds its state. */
static pst_status open_whole(struct job *j, pst_error *reterr)
{
    pst_status st = pack_state_open(&j->whole, &j->source, j->config.whole, false, reterr);
    if (st != PST_EEXIST || !pack_parts_share(&j->config))
        return st;
    pack_state_finish(&j->whole);
    return pack_state_open(&j->whole, &j->source, j->config.whole, false, reterr);
}

/* A part also looks at the folder of the whole: what a join would refuse is refused before hours of work. */
static pst_status open_state(struct job *j, pst_error *reterr)
{
    const struct pack_config *c = &j->config;
    pst_status st = pack_state_open(&j->state, &j->source, c->out, c->options.force, reterr);
    if (st == PST_OK && c->options.part && !c->options.force) {
        st = open_whole(j, reterr);
        j->joined = st == PST_OK && j->whole.complete;
    }
    return st;
}

/* Parts whose shards go straight to their place note there which command they are of, before the first of them. */
static pst_status begin(struct job *j, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (pack_parts_share(&j->config) && !j->whole.found)
        st = pack_state_begin(&j->whole, &j->plan, reterr);
    return st == PST_OK ? pack_state_begin(&j->state, &j->plan, reterr) : st;
}

/* Determines what is to be done and what exists already: everything before the first byte is written. */
static pst_status prepare(struct job *j, const char *const *sources, size_t count, const char *out,
                          const pst_pack_options *options, pst_error *reterr)
{
    pst_status st = pack_config_init(&j->config, out, options, reterr);
    if (st < 0)
        return st;
    j->ticker = (struct pack_ticker){.fn = j->config.options.progress, .user = j->config.options.user};
    st = pack_report_create(&j->report, reterr);
    if (st == PST_OK)
        st = take_folder(j, reterr);
    if (st == PST_OK)
        st = pack_source_open(&j->source, &j->config, sources, count, j->config.out, j->report, &j->ticker, reterr);
    if (st == PST_OK)
        st = recipe_init(&j->recipe, &j->source, reterr);
    if (st == PST_OK)
        st = pack_plan_init(&j->plan, &j->source, reterr);
    if (st == PST_OK)
        st = open_state(j, reterr);
    if (st == PST_OK)
        st = divide(j, reterr);
    return st == PST_OK ? list_shards(j, reterr) : st;
}

/* Joins: every shard must be there once the parts' were moved. */
static pst_status check_joined(const struct job *j, pst_error *reterr)
{
    for (size_t i = 0; i < j->shard_count; i++)
        if (!j->shards[i].done)
            return pst_fail_at(reterr, PST_ECORRUPT, j->shards[i].path, PST_NOWHERE, PST_NOWHERE,
                               "is missing or damaged; pack the part that it belongs to again, then join");
    return PST_OK;
}

/* A policy that skips bad items is not meant to skip all of them. Shards without a record do not stay. */
static pst_status check_outcome(const struct job *j, pst_error *reterr)
{
    for (size_t i = 0; i < j->shard_count; i++)
        if (j->shards[i].facts.records)
            return PST_OK;
    for (size_t i = 0; i < j->shard_count; i++) {
        disk_remove(j->shards[i].path, NULL);
        disk_remove(j->shards[i].note_path, NULL);
    }
    return pst_fail_at(reterr, PST_ECORRUPT, j->config.out, PST_NOWHERE, PST_NOWHERE,
                       "all %" PRIu64 " items are bad; bad=error says why", j->source.count);
}

static pst_status perform(struct job *j, pst_error *reterr)
{
    const pst_pack_options *o = &j->config.options;
    uint64_t missing = 0;
    pst_status st = PST_OK;
    if (o->join && !j->state.complete)
        st = pack_part_gather(&j->state, &j->plan, j->shards, reterr);
    if (st == PST_OK)
        st = find_shards(j, &missing, reterr);
    if (st == PST_OK && o->join)
        st = check_joined(j, reterr);
    if (st == PST_OK)
        st = open_budget(j, reterr);
    if (st < 0)
        return st;
    j->report->public.up_to_date = j->joined || (missing == 0 && j->state.complete);
    if (j->joined)
        return pack_state_tidy(&j->whole, reterr);
    if (j->report->public.up_to_date) {
        st = pack_state_tidy(&j->state, reterr);
        return st == PST_OK && o->join ? pack_part_remove(&j->config, reterr) : st;
    }
    st = begin(j, reterr);
    if (st == PST_OK)
        st = pack_run(&j->plan, &j->recipe, j->shards, j->shard_count, &j->bad, &j->ticker, reterr);
    if (st == PST_OK && !o->part)
        st = check_outcome(j, reterr);
    if (st == PST_OK && !o->part)
        st = pack_meta_publish(&j->plan, &j->recipe, j->shards, reterr);
    if (st == PST_OK && pack_parts_share(&j->config))
        st = pack_state_still(&j->whole, reterr);
    if (st == PST_OK)
        st = pack_state_end(&j->state, &j->plan, reterr);
    return st == PST_OK && o->join ? pack_part_remove(&j->config, reterr) : st;
}

pst_status pst_pack(const char *const *sources, size_t count, const char *out, const pst_pack_options *options,
                    pst_pack_report **ret, pst_error *reterr)
{
    pst_error local;
    pst_pack_options given = {0};
    struct job j = {.lock = -1};
    uint64_t begin = clock_ns();
    reterr = reterr ? reterr : &local;
    if (!out || !*out || (count && !sources))
        return pst_fail(reterr, PST_EINVAL, "pack needs sources and an output folder");
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st == PST_OK && given.part && given.part <= given.parts && given.patience > 0)
        return pack_together(sources, count, out, &given, ret, reterr);
    if (st == PST_OK)
        st = prepare(&j, sources, count, out, options, reterr);
    if (st == PST_OK)
        st = perform(&j, reterr);
    if (st == PST_OK)
        st = fill_report(&j, reterr);
    if (st == PST_OK && ret) {
        j.report->public.seconds = (double)(clock_ns() - begin) * 1e-9;
        *ret = &j.report->public;
        j.report = NULL;
    }
    job_finish(&j, st < 0);
    return st;
}
