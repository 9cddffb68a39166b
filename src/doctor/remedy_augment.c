/* remedy_augment.c: `offline-augment`: a heavy operation that draws random numbers, computed a few times per sample and stored. Heavy operations that
 * give the same results in every epoch need no such thing: a cache after them keeps the results (remedy_cache.c). */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define VARIANTS 4 /* of each sample */

const struct stage_cost *remedy_heavy(const struct pst_doctor *d)
{
    static const char *const kinds[] = {"function", "python", "augment", "other"};
    double total = 0;
    const struct stage_cost *most = NULL;
    for (size_t i = 0; i < d->stages; i++) {
        const struct stage_cost *s = &d->stage[i];
        bool candidate = false;
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
            candidate |= strcmp(s->kind, kinds[k]) == 0;
        total += s->us;
        if (candidate && (!most || s->us > most->us))
            most = s;
    }
    bool parallel = most && !d->contended && !(most->python && d->costs.blocked_us > 0.5 * most->us);
    return parallel && most->us > 0.5 * total ? most : NULL;
}

size_t remedy_heavy_end(const struct pst_doctor *d)
{
    const struct stage_cost *heavy = remedy_heavy(d);
    for (size_t i = d->now.count; heavy && i-- > 1;)
        if (d->now.stage[i].kind == PST_OP_SAMPLE && costs_has_op(heavy->name, d->now.stage[i].name))
            return i + 1;
    return DRAFT_NONE;
}

/* Where the stored results go: before the first stage that draws, each sample is repeated; after the heavy one, it is stored. */
struct place {
    size_t first, end;
};

static bool find_place(const struct pst_doctor *d, struct place *ret)
{
    size_t end = remedy_heavy_end(d);
    if (end == DRAFT_NONE)
        return false;
    for (size_t i = end; i < d->now.count; i++)
        if (d->now.stage[i].kind == PST_OP_ORDER && strcmp(d->now.stage[i].name, "shuffle") != 0)
            return false; /* it would count the variants, not the samples */
    for (size_t i = 1; i < end; i++)
        if (d->now.stage[i].kind == PST_OP_SAMPLE && !remedy_repeats(d, i + 1)) {
            *ret = (struct place){.first = i, .end = end};
            return true;
        }
    return false;
}

/* Stores `variants` results per sample in `folder`. What was shuffled before is shuffled after it: stored elements keep their order. */
static void store_results(const struct place *at, struct draft *r, const char *folder, unsigned variants)
{
    size_t end = at->end, first = at->first;
    char *shuffle = NULL;
    for (size_t i = at->end; i-- > 1;)
        if (strcmp(r->stage[i].name, "shuffle") == 0) {
            mem_free(shuffle);
            shuffle = mem_strdup(r->stage[i].text);
            r->failed |= !shuffle;
            draft_remove(r, i);
            end--;
            first -= i < at->first;
        }
    if (shuffle)
        draft_insert(r, end, "%s", shuffle);
    draft_insert(r, end, "snapshot %s", folder);
    if (variants > 1)
        draft_insert(r, first, "repeat %u", variants);
    mem_free(shuffle);
}

/* One result per element of the sample is stored and read: the rate does not depend on the number of variants. */
static pst_status try_stored(struct pst_doctor *d, struct remedy *r, const struct place *at, double *ret_each, pst_error *reterr)
{
    if (!d->sample.folder)
        return PST_SKIP;
    char *folder = file_join(d->sample.folder, "results"), *word = folder ? draft_quote(folder) : NULL;
    pst_status st = word ? PST_OK : fail_memory(reterr, "trying a remedy");
    if (st == PST_OK) {
        draft_copy(&r->variant, &d->sampled);
        store_results(&(struct place){.first = at->first + d->sample.taken, .end = at->end + d->sample.taken}, &r->variant, word, 1);
        r->on_sample = true;
        st = remedy_fill(d, &r->variant, reterr);
    }
    if (st == PST_OK)
        st = remedy_probe(d, r, reterr);
    *ret_each = st == PST_OK ? remedy_stored_bytes(folder) / (double)d->sample.count : 0;
    mem_free(folder);
    mem_free(word);
    return st;
}

void remedy_without_heavy(struct pst_doctor *d, struct remedy *r)
{
    const struct stage_cost *heavy = remedy_heavy(d);
    struct costs c = d->costs;
    double all = c.cpu_us + c.blocked_us, share = fmin(heavy->us / fmax(all, heavy->us), 0.99);
    c.cpu_us *= 1 - share;
    c.blocked_us *= 1 - share;
    remedy_costs(d, r, &c);
    r->upper = true;
    snprintf(r->basis, sizeof(r->basis), "the costs without the stage: an upper bound");
}

/* The pipeline that stores its results, and what that takes. */
static pst_status describe(struct pst_doctor *d, struct remedy *r, const struct place *at, double each, pst_error *reterr)
{
    char *out = remedy_out(d, "augmented"), *word = out ? draft_quote(out) : NULL, bytes[32], name[64];
    const struct draft_stage *heavy = &d->now.stage[at->end - 1];
    if (word) {
        struct draft after;
        draft_copy(&after, &d->now);
        store_results(at, &after, word, VARIANTS);
        remedy_text(d, r, &after);
        draft_finish(&after);
    }
    mem_free(out);
    mem_free(word);
    if (!r->pipeline)
        return fail_memory(reterr, "describing a remedy");
    r->flaw = true;
    r->cause = "heavy-augmentation";
    r->disk_bytes = VARIANTS * each * d->epoch_samples;
    r->seconds = VARIANTS * d->epoch_samples / d->pipe_rate;
    r->ram_bytes = 0;
    remedy_limit_by_disk(d, r, each);
    text_bytes((uint64_t)r->disk_bytes, bytes, sizeof(bytes));
    snprintf(r->title, sizeof(r->title), "compute \"%s\" %u times per sample, once, and store the results: all epochs read them", remedy_stage_words(heavy, name), VARIANTS);
    snprintf(r->price, sizeof(r->price), "%s on disk, about %s once", bytes, FIGURE_TIME(r->seconds));
    snprintf(r->risk, sizeof(r->risk), "the same %u variants every time: a little less variety. An epoch has all of them: train a quarter as many epochs", VARIANTS);
    return PST_OK;
}

static pst_status find_offline_augment(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct place at;
    double each = 0;
    if (!(d->epoch_samples > 0) || !find_place(d, &at))
        return PST_SKIP;
    pst_status st = try_stored(d, r, &at, &each, reterr);
    if (st < 0)
        return st;
    if (st == PST_SKIP) {
        draft_finish(&r->variant);
        r->on_sample = false;
        remedy_without_heavy(d, r);
        each = d->run.out_bytes;
    }
    return describe(d, r, &at, each, reterr);
}

const struct remedy_class remedy_augment[] = {
    {"offline-augment", 3, find_offline_augment, GROUP_DATA},
    {0},
};
