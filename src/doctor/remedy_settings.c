/* remedy_settings.c: remedies that change an option or the text of the pipeline; the data stays as it is. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void vary(struct pst_doctor *d, struct remedy *r)
{
    draft_copy(&r->variant, &d->now);
    r->has_variant = true;
}

static pst_status or_memory(const void *p, pst_error *reterr)
{
    return p ? PST_OK : fail_memory(reterr, "describing a remedy");
}

/* ---- Workers ---- */

static pst_status find_more_workers(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    const struct costs *c = &d->costs;
    double cores = d->limits.cores, waits = c->cpu_us > 0 ? (c->cpu_us + c->blocked_us) / c->cpu_us : 1;
    unsigned useful = (unsigned)ceil(cores * (waits < 8 ? waits : 8) - 0.25);
    if (d->now.options.workers == 0 || d->run.workers >= useful || d->contended)
        return PST_SKIP; /* chosen by the pipeline itself, or enough */
    vary(d, r);
    r->variant.options.workers = useful;
    pst_status st = remedy_probe(d, r, reterr);
    if (st == PST_SKIP) { /* no time is left: by the costs */
        struct costs after = *c;
        after.workers = useful;
        remedy_costs(d, r, &after);
        snprintf(r->basis, sizeof(r->basis), "costs per sample of the present run, divided among more workers");
    } else if (st < 0) {
        return st;
    }
    r->flaw = true;
    r->cause = d->run.workers == 1 ? "single-worker" : "worker-limit";
    snprintf(r->title, sizeof(r->title), "use %u workers instead of %u, or leave --workers out: they are chosen and adapted", useful, d->run.workers);
    snprintf(r->risk, sizeof(r->risk), "none: the number of workers does not affect the output");
    r->ram_bytes = (double)(useful - d->run.workers) * (1 << 20);
    r->command = mem_format("--workers %u", useful);
    return or_memory(r->command, reterr);
}

/* ---- Batches ---- */

static pst_status find_larger_batch(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    size_t at = draft_find(&d->now, "batch", 0);
    uint64_t batch = d->facts.batch, after = d->run.out_bytes > 16384 ? 64 : 256;
    double handing = batch ? d->limits.handoff_us / (double)batch : 0;
    if (batch >= 64 || batch == 0 || after <= batch || handing < 0.02 * d->costs.cpu_us)
        return PST_SKIP; /* handing over costs next to nothing */
    vary(d, r);
    if (at == DRAFT_NONE)
        draft_insert(&r->variant, r->variant.count, "batch %llu", (unsigned long long)after);
    else
        draft_set(&r->variant, at, "batch %llu", (unsigned long long)after);
    pst_status st = remedy_probe(d, r, reterr);
    if (st != PST_OK)
        return st;
    remedy_text(d, r, &r->variant);
    r->flaw = handing > 0.08 * d->costs.cpu_us;
    r->least = 1.25;
    r->cause = "tiny-batch";
    snprintf(r->title, sizeof(r->title), "put %llu samples into a batch instead of %llu", (unsigned long long)after, (unsigned long long)batch);
    snprintf(r->risk, sizeof(r->risk), "a larger batch changes the training: the learning rate may have to grow with it");
    return or_memory(r->pipeline, reterr);
}

/* Whether the RAM budget decides how many batches are prepared ahead. */
static bool is_starved(const struct pst_doctor *d)
{
    return strstr(d->run.prefetch_reason, "RAM budget") || d->facts.ram_limits;
}

/* Memory for as many batches ahead as even out what single samples cost. */
static double ring_bytes(const struct pst_doctor *d)
{
    uint64_t batch = d->facts.batch_bytes ? d->facts.batch_bytes : (uint64_t)(d->run.out_bytes * (double)d->facts.batch);
    return 10.0 * (double)batch + 32e6;
}

/* Whether the machine has that much to give; the default budget is half of what is free. */
static bool has_room(const struct pst_doctor *d)
{
    return ring_bytes(d) < 0.5 * (double)(d->options.memory ? d->options.memory : d->limits.memory_available);
}

/* The share of the time that both sides wait, in turns: a longer ring gives it back. */
static double lost_in_turns(const struct trial *t)
{
    double lost = fmin(t->worker_wait, t->wait_share);
    return lost >= 0.04 + 0.08 * t->delay ? lost : 0; /* where others have the cores, both sides wait */
}

/* Too few batches ahead: workers and consumer wait in turns, and none of them would have to. */
static pst_status find_prefetch(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    const struct trial *t = isfinite(d->step.wait_share) ? &d->together : &d->run;
    size_t at = draft_find(&d->now, "prefetch", 0);
    double lost = lost_in_turns(&d->run), evened = lost_in_turns(t);
    bool starved = is_starved(d), given = at != DRAFT_NONE || d->now.options.prefetch > 0;
    if ((!starved && !given) || (starved && !has_room(d)) || d->run.prefetch > 4 || !(evened > 0))
        return PST_SKIP;
    vary(d, r);
    if (at != DRAFT_NONE)
        draft_remove(&r->variant, at);
    r->variant.options.prefetch = 0;
    r->variant.options.ram = 0;
    struct costs c = d->costs;
    remedy_costs(d, r, &c);
    double most = predict_rate(d, &c) / (1 - lost);
    r->rate = d->pipe_rate / (1 - lost) < most ? d->pipe_rate / (1 - lost) : most;
    r->warm_gain = r->rate / d->pipe_rate;
    r->low = d->pipe_rate;
    r->high = r->rate * 1.1;
    path_note(d, r, &d->run, &d->run); /* the work stays the same */
    r->evened = evened;
    r->flaw = true;
    r->least = 1.04;
    r->cause = starved ? "ram-limit" : "no-prefetch";
    double ram = ring_bytes(d);
    char size[32];
    text_bytes((uint64_t)ram, size, sizeof(size));
    if (starved)
        snprintf(r->title, sizeof(r->title), "give the pipeline memory for batches ahead (about %s), or make batches smaller", size);
    else
        snprintf(r->title, sizeof(r->title), "prepare more batches ahead: leave the prefetch depth to the pipeline");
    snprintf(r->basis, sizeof(r->basis), "workers waited %.0f %% and the consumer %.0f %% of the time, in turns", 100 * t->worker_wait,
             100 * t->wait_share);
    r->ram_bytes = ram;
    if (at != DRAFT_NONE)
        remedy_text(d, r, &r->variant);
    r->command = starved ? mem_format("--ram %.0fM", ceil(ram / 1048576)) : mem_format("leave out --prefetch");
    return or_memory(r->command, reterr);
}

#define CACHED_BATCH (4 << 20)  /* bytes of a batch that stays in the processor's cache until it is used */
#define LARGE_BATCH  (16 << 20) /* …and of one that does not */
#define LARGE_COUNT  256

/* Half as many samples, and again, until a batch stays in the cache. */
static uint64_t cached_batch(const struct pst_doctor *d)
{
    uint64_t n = d->facts.batch;
    while (n > 32 && (double)n * d->run.out_bytes > CACHED_BATCH)
        n /= 2;
    return n;
}

/* Large batches that are written as fast as the memory takes them, or of which it has room for two at most. */
static pst_status find_smaller_batch(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    size_t at = draft_find(&d->now, "batch", 0);
    uint64_t batch = d->facts.batch, after = cached_batch(d);
    double bytes = (double)batch * d->run.out_bytes;
    bool tight = is_starved(d) && d->run.prefetch <= 2 && batch >= 64;
    bool written = batch >= LARGE_COUNT && bytes > LARGE_BATCH && d->run.out_bytes * d->run.rate > 0.05 * d->limits.memory_bandwidth;
    if (at == DRAFT_NONE || after >= batch || (!tight && !written))
        return PST_SKIP;
    vary(d, r);
    draft_set(&r->variant, at, "batch %llu", (unsigned long long)after);
    pst_status st = remedy_probe(d, r, reterr);
    if (st != PST_OK)
        return st;
    remedy_text(d, r, &r->variant);
    r->flaw = !tight || !has_room(d); /* where there is more memory, the budget is the cause */
    r->least = 1.25;
    r->cause = "large-batch";
    char size[32];
    text_bytes((uint64_t)bytes, size, sizeof(size));
    snprintf(r->title, sizeof(r->title), "put %llu samples into a batch instead of %llu: %s go through memory, fewer stay in the processor's cache",
             (unsigned long long)after, (unsigned long long)batch, size);
    snprintf(r->risk, sizeof(r->risk), "a smaller batch changes the training; several of them can be summed up before the weights change");
    return or_memory(r->pipeline, reterr);
}

/* ---- The text ---- */

/* The pixels of both qualities after the first operation that gives them a size: the mean PSNR over some samples; 0: they cannot be compared. */
static double compare_quality(const struct pst_doctor *d, const struct draft *fast, struct picture *picture)
{
    const struct draft *const of[2] = {&d->now, fast};
    pst_pipeline *p[2] = {NULL, NULL};
    pst_batch *b[2] = {NULL, NULL};
    double psnr = 0;
    for (int i = 0; i < 2; i++) {
        struct draft r;
        draft_copy(&r, of[i]);
        draft_truncate(&r, remedy_sized(d) + 1);
        for (size_t k = r.count; k-- > 1;)
            if (r.stage[k].kind != PST_OP_SAMPLE)
                draft_remove(&r, k);
        draft_insert(&r, r.count, "batch 16");
        if (draft_open(&r, &p[i], NULL) < 0 || pst_pipeline_next(p[i], &b[i], NULL) != PST_OK)
            b[i] = NULL;
        draft_finish(&r);
    }
    if (b[0] && b[1])
        psnr = remedy_psnr(pst_batch_get(b[0], "image"), pst_batch_get(b[1], "image"));
    for (size_t i = 0; i < PICTURES && psnr > 0; i++)
        picture_of_tensors(&picture[i], pst_batch_get(b[0], "image"), pst_batch_get(b[1], "image"), i);
    for (int i = 0; i < 2; i++) {
        pst_batch_unref(b[i]);
        pst_pipeline_destroy(p[i]);
    }
    return psnr;
}

static pst_status find_quality_fast(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    size_t at = draft_find(&d->now, "decode", 0);
    bool random;
    if (at == DRAFT_NONE || d->survey.jpeg_share < 0.3 || remedy_side(d, &random) == 0)
        return PST_SKIP;
    char *quality = draft_argument(&d->now.stage[at], "quality", SIZE_MAX);
    bool exact = quality ? strcmp(quality, "exact") == 0 : !random;
    bool auto_quality = !quality;
    mem_free(quality);
    if (!exact)
        return PST_SKIP;
    vary(d, r);
    if (auto_quality) {
        draft_set(&r->variant, at, "%s quality=fast", d->now.stage[at].text);
    } else {
        char *text = mem_strdup(d->now.stage[at].text), *word = text ? strstr(text, "quality=exact") : NULL;
        if (word)
            memcpy(word, "quality=fast ", 13);
        draft_set(&r->variant, at, "%s", text ? text : "");
        mem_free(text);
    }
    pst_status st = remedy_probe(d, r, reterr);
    if (st != PST_OK)
        return st;
    remedy_text(d, r, &r->variant);
    r->psnr = compare_quality(d, &r->variant, r->picture);
    snprintf(r->title, sizeof(r->title), "resize the planes of JPEGs before the conversion to RGB (decode quality=fast)");
    if (r->psnr > 0)
        snprintf(r->price, sizeof(r->price), "pixels differ slightly: %.0f dB PSNR", r->psnr);
    else
        snprintf(r->price, sizeof(r->price), "pixels differ slightly");
    return or_memory(r->pipeline, reterr);
}

/* ---- Fields ---- */

static bool is_used(const struct pst_doctor *d, const struct facts_field *f)
{
    size_t n = strlen(f->name);
    if (!f->varies && f->values == 1)
        return true; /* labels and numbers cost nothing */
    if (strcmp(f->name, "image") == 0)
        return true;
    for (size_t i = 1; i < d->now.count; i++) {
        const struct draft_stage *s = &d->now.stage[i];
        if (strcmp(s->name, "example") == 0 || strcmp(s->name, "select") == 0)
            continue;
        if (s->custom)
            return true; /* it may read any field */
        for (const char *at = strstr(s->text, f->name); at; at = strstr(at + 1, f->name))
            if (!strchr("abcdefghijklmnopqrstuvwxyz_", at[n] ? at[n] : ' '))
                return true;
    }
    return false;
}

static pst_status find_select_fields(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct text keep = {0}, drop = {0};
    size_t at = draft_find(&d->now, "batch", 0);
    for (size_t i = 0; i < d->facts.fields; i++) {
        bool used = is_used(d, &d->facts.field[i]);
        char *word = draft_quote(d->facts.field[i].name);
        text_addf(used ? &keep : &drop, " %s", word ? word : "");
        keep.failed |= !word;
        mem_free(word);
    }
    pst_status st = keep.failed || drop.failed ? fail_memory(reterr, "describing a remedy") : PST_OK;
    if (st == PST_OK && (!keep.data || !drop.data || draft_find(&d->now, "decode", 0) == DRAFT_NONE))
        st = PST_SKIP; /* all are used, or it cannot be known which are */
    if (st == PST_OK) {
        vary(d, r);
        draft_insert(&r->variant, at == DRAFT_NONE ? r->variant.count : at, "select%s", keep.data);
        st = remedy_probe(d, r, reterr);
    }
    if (st == PST_OK && r->out_bytes > 0.97 * d->run.out_bytes)
        st = PST_SKIP; /* what is left out is next to nothing */
    if (st == PST_OK) {
        remedy_text(d, r, &r->variant);
        r->flaw = r->out_bytes < 0.9 * d->run.out_bytes;
        r->cause = "unused-fields";
        snprintf(r->title, sizeof(r->title), "deliver only the fields that training uses; leave out:%.120s", drop.data);
        snprintf(r->risk, sizeof(r->risk), "a field that the training does use would be missing");
    }
    text_finish(&keep);
    text_finish(&drop);
    return st;
}

const struct remedy_class remedy_settings[] = {
    {"more-workers", 1, find_more_workers, GROUP_WORKERS},
    {"prefetch", 1, find_prefetch, GROUP_PREFETCH},
    {"larger-batch", 1, find_larger_batch, GROUP_BATCH},
    {"smaller-batch", 1, find_smaller_batch, GROUP_BATCH},
    {0},
};

const struct remedy_class remedy_texts[] = {
    {"select-fields", 2, find_select_fields, GROUP_FIELDS},
    {"quality-fast", 2, find_quality_fast, GROUP_QUALITY},
    {0},
};
