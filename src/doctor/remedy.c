/* remedy.c: finds the remedies that apply, tries each on a sample or on the data itself, and predicts what it would bring. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define FIRST_TURNS 4
#define LATER_TURNS 4
#define EFFORT_MONEY 5
#define LOADED      0.25 /* share of the CPU time that others take above which clocks are not trusted */

void doctor_remedy_finish(struct remedy *r)
{
    draft_finish(&r->variant);
    mem_free(r->command);
    mem_free(r->pipeline);
    mem_free(r->diff);
    mem_free(r->change.model);
    for (size_t i = 0; i < PICTURES; i++)
        picture_finish(&r->picture[i]);
}

/* ---- Predicting ---- */

static double ratio(double a, double b)
{
    return a > 0 && b > 0 ? a / b : 1;
}

/* Waits for storage after the change: fewer bytes take less, and shards are read in larger pieces than single files. */
static double blocked_after(const struct pst_doctor *d, const struct costs *v, const struct costs *base)
{
    const struct limits *l = &d->limits;
    double blocked = d->costs.blocked_us;
    if (blocked <= 0.1 * d->costs.cpu_us)
        return v->blocked_us < blocked ? v->blocked_us : blocked;
    double factor = ratio(v->read_bytes, base->read_bytes);
    if (d->costs.file_per_element && !v->file_per_element && l->sequential_cold > l->random_cold && l->random_cold > 0)
        factor *= l->random_cold / l->sequential_cold;
    return blocked * (factor < 1 ? factor : 1);
}

/* The costs on the real data, from those of the variant and of the present pipeline on the same sample. */
static struct costs scale_costs(const struct pst_doctor *d, const struct costs *v, const struct costs *base)
{
    struct costs c = *v;
    c.cpu_us = d->costs.cpu_us * ratio(v->cpu_us, base->cpu_us);
    c.read_bytes = d->costs.read_bytes * ratio(v->read_bytes, base->read_bytes);
    c.blocked_us = blocked_after(d, v, base);
    if (v->serial_us > 0 && base->serial_us > 0)
        c.serial_us = d->costs.serial_us * ratio(v->serial_us, base->serial_us);
    return c;
}

/* The rate without waits for storage, from the clock of the trials; on a busy machine from CPU times. */
static double warm_rate(const struct pst_doctor *d, const struct turns *t, const struct costs *c, bool cached)
{
    struct costs free = *c;
    if (cached) /* what is left of the work is handing over, which CPU times do not describe; turns share what others do */
        return d->run.rate * t->gain;
    if (d->run.delay > LOADED || t->after.delay > LOADED || t->before.delay > LOADED) {
        free.blocked_us = t->after.blocked_us;
        free.read_bytes = 0; /* no storage */
        return predict_rate(d, &free);
    }
    return d->run.rate * t->gain;
}

static void predict(struct pst_doctor *d, struct remedy *r, const struct turns *t)
{
    struct costs v = costs_of(d, &t->after, &r->variant), b = costs_of(d, &t->before, &d->now);
    v.file_per_element = b.file_per_element && !r->packed;
    r->costs = scale_costs(d, &v, &b);
    double warm = warm_rate(d, t, &r->costs, r->warm_epoch), rate = warm;
    if (r->costs.blocked_us > 0.1 * r->costs.cpu_us) { /* waits of the storage that the sample does not have */
        double limit = predict_rate(d, &r->costs);
        rate = limit < rate ? limit : rate;
    }
    double bytes = predict_storage(d, &r->costs);
    if (isfinite(bytes) && r->costs.read_bytes > 0 && bytes / r->costs.read_bytes < rate)
        rate = bytes / r->costs.read_bytes;
    r->rate = rate;
    r->warm_gain = ratio(warm, d->run.rate);
    r->low = rate * ratio(t->low, t->gain);
    r->high = rate * ratio(t->high, t->gain);
}

void remedy_costs(struct pst_doctor *d, struct remedy *r, const struct costs *c)
{
    r->costs = *c;
    r->rate = predict_rate(d, c);
    r->warm_gain = ratio(r->rate, d->pipe_rate);
    r->low = r->rate * ratio(d->run.low, d->run.rate);
    r->high = r->rate * ratio(d->run.high, d->run.rate);
}

/* A remedy that cannot be run is skipped: only what ends the whole examination is an error. */
static pst_status run_turns(struct pst_doctor *d, struct remedy *r, size_t rounds, struct turns *ret, pst_error *reterr)
{
    struct turns_request q = {.before = r->on_sample ? &d->sampled : &d->now, .after = &r->variant, .warm_epoch = r->warm_epoch,
                              .whole = r->warm_epoch && !r->first_epoch, .rounds = rounds, .seconds = doctor_span(d, 0.09, 0.18)};
    pst_error error = {0};
    pst_status st = doctor_has_time(d, 2) ? doctor_turns(d, &q, &r->probed, ret, &error) : PST_SKIP;
    if (st != PST_ENOMEM && st != PST_ECANCELLED)
        return st == PST_OK ? PST_OK : PST_SKIP;
    if (reterr)
        *reterr = error;
    return st;
}

pst_status remedy_probe(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct turns t;
    pst_status st = run_turns(d, r, d->options.quick ? 3 : r->warm_epoch ? FIRST_TURNS : 7, &t, reterr);
    if (st != PST_OK)
        return st;
    predict(d, r, &t);
    path_note(d, r, &t.before, &t.after);
    if (!r->basis[0])
        snprintf(r->basis, sizeof(r->basis), r->on_sample ? "brief runs in turns on %llu samples in the new form" : "brief runs in turns: %llu samples",
                 (unsigned long long)(r->on_sample ? d->sample.count : t.after.samples));
    r->ram_bytes = r->ram_bytes > 0 ? r->ram_bytes
                   : t.after.ram_planned > d->run.ram_planned ? (double)(t.after.ram_planned - d->run.ram_planned)
                                                              : 0;
    r->out_bytes = t.after.out_bytes;
    r->cache_used = t.after.ram_used > t.before.ram_used ? (double)(t.after.ram_used - t.before.ram_used) : 0;
    r->has_variant = true;
    return PST_OK;
}

/* Cached samples are delivered as fast as the memory allows, which other machines on the same processor change for seconds: some of their turns come
 * later. */
static pst_status probe_again(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct turns t;
    double before = r->warm_gain;
    bool limited = r->rate < 0.99 * d->run.rate * before; /* by a disk */
    if (!r->probed.count || !r->has_variant || !r->warm_epoch || r->first_epoch || d->options.quick || limited)
        return PST_OK;
    pst_status st = run_turns(d, r, LATER_TURNS, &t, reterr);
    if (st != PST_OK)
        return st < 0 ? st : PST_OK;
    r->warm_gain = t.gain;
    r->rate = d->run.rate * t.gain;
    r->low = d->run.rate * t.low;
    r->high = d->run.rate * t.high;
    return PST_OK;
}

/* ---- Words ---- */

char *remedy_shell(const char *word)
{
    struct text t = {0};
    text_add_shell(&t, word);
    if (t.failed)
        text_finish(&t);
    return t.data;
}

const char *remedy_stage_words(const struct draft_stage *s, char buffer[64])
{
    snprintf(buffer, 64, strlen(s->text) > 56 ? "%.52s …" : "%s", s->text);
    return buffer;
}

char *remedy_source(const struct pst_doctor *d)
{
    const struct draft_stage *s = &d->now.stage[0];
    struct text t = {0};
    size_t most = strcmp(s->name, "tfrecord") == 0 ? 64 : 1;
    for (size_t i = 0; i < most; i++) {
        char *word = draft_argument(s, "path", i), *shell = word ? remedy_shell(word) : NULL;
        if (!word)
            break;
        text_addf(&t, "%s%s", i ? " " : "", shell ? shell : "");
        t.failed |= !shell;
        mem_free(word);
        mem_free(shell);
    }
    if (t.failed)
        text_finish(&t);
    return t.data ? t.data : mem_strdup("DATA");
}

char *remedy_out(const struct pst_doctor *d, const char *suffix)
{
    char *path = draft_argument(&d->now.stage[0], "path", 0);
    char *name = mem_strdup(path ? path : "data");
    mem_free(path);
    if (!name)
        return NULL;
    for (size_t n = strlen(name); n > 1 && name[n - 1] == '/'; n--)
        name[n - 1] = '\0';
    char *star = strpbrk(name, "*?[");
    if (star) { /* a pattern: beside its folder */
        *star = '\0';
        char *slash = strrchr(name, '/');
        *(slash ? slash : name) = '\0';
    }
    const char *base = file_base(name[0] ? name : "data");
    char *dot = strrchr(base, '.');
    if (dot && dot > base)
        *dot = '\0';
    char *out = mem_format("%s-%s", strcmp(base, "..") == 0 || strcmp(base, ".") == 0 || !base[0] ? "data" : base, suffix);
    mem_free(name);
    return out;
}

static void add_range(struct text *t, const char *mark, const struct draft *d, size_t begin, size_t end)
{
    if (begin >= end)
        return;
    text_add(t, mark);
    for (size_t i = begin; i < end; i++)
        text_addf(t, "%s%s", i > begin ? " | " : "", d->stage[i].text);
    text_add(t, "\n");
}

void remedy_text(struct pst_doctor *d, struct remedy *r, const struct draft *after)
{
    const struct draft *a = &d->now, *b = after;
    struct text t = {0};
    size_t first = 0, last = 0;
    while (first < a->count && first < b->count && strcmp(a->stage[first].text, b->stage[first].text) == 0)
        first++;
    while (last < a->count - first && last < b->count - first &&
           strcmp(a->stage[a->count - 1 - last].text, b->stage[b->count - 1 - last].text) == 0)
        last++;
    add_range(&t, "- ", a, first, a->count - last);
    add_range(&t, "+ ", b, first, b->count - last);
    r->pipeline = draft_text(b);
    r->diff = t.failed ? NULL : t.data;
    if (t.failed)
        text_finish(&t);
}

/* ---- Parts of pipelines ---- */

/* Reads the first number of a size: "224", "320x240" (the smaller one). */
static uint32_t side_in(const char *text)
{
    unsigned a = 0, b = 0;
    int n = text ? sscanf(text, "%ux%u", &a, &b) : 0;
    return n == 2 ? (a < b ? a : b) : n == 1 ? a : 0;
}

static uint32_t side_of(const struct draft_stage *s)
{
    const pst_op_class *op = s->custom ? NULL : pst_op_find(s->name);
    bool sized = op && op->flags & PST_OP_SIZES;
    char *size = sized ? draft_argument(s, "size", 0) : NULL, *side = sized ? draft_argument(s, "short", SIZE_MAX) : NULL;
    uint32_t n = side ? side_in(side) : side_in(size);
    mem_free(size);
    mem_free(side);
    return n;
}

size_t remedy_sized(const struct pst_doctor *d)
{
    size_t decode = draft_find(&d->now, "decode", 0);
    for (size_t i = decode == DRAFT_NONE ? d->now.count : decode + 1; i < d->now.count; i++)
        if (side_of(&d->now.stage[i]) > 0)
            return i;
    return DRAFT_NONE;
}

uint32_t remedy_side(const struct pst_doctor *d, bool *ret_random)
{
    size_t at = remedy_sized(d);
    const pst_op_class *op = at == DRAFT_NONE ? NULL : pst_op_find(d->now.stage[at].name);
    *ret_random = op && op->flags & PST_OP_RANDOM;
    return at == DRAFT_NONE ? 0 : side_of(&d->now.stage[at]);
}

double remedy_psnr(const pst_tensor *a, const pst_tensor *b)
{
    double sum = 0;
    size_t n = 1;
    if (!a || !b || a->dtype != PST_DTYPE_U8 || b->dtype != PST_DTYPE_U8 || a->rank != b->rank || a->row_splits || b->row_splits)
        return 0;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->shape[i] != b->shape[i])
            return 0;
        n *= (size_t)a->shape[i];
    }
    for (size_t i = 0; i < n; i++) {
        double e = (double)((const uint8_t *)a->data)[i] - ((const uint8_t *)b->data)[i];
        sum += e * e;
    }
    return sum > 0 ? 10 * log10(255.0 * 255.0 * (double)n / sum) : 99;
}

void remedy_prefix(const struct pst_doctor *d, bool sample, struct draft *ret)
{
    draft_copy(ret, sample ? &d->sampled : &d->now);
    size_t decode = draft_find(ret, "decode", 0); /* after the take of a sample */
    draft_truncate(ret, decode == DRAFT_NONE ? ret->count : decode);
    for (size_t i = ret->count; i-- > 1;)
        if (ret->stage[i].kind != PST_OP_SAMPLE && !(i == 1 && sample && d->sample.taken))
            draft_remove(ret, i);
    draft_insert(ret, ret->count, "batch 64");
    ret->options.prefetch = 0;
    ret->options.workers = 0;
    ret->options.ram = 0;
}

void remedy_repacked(const struct pst_doctor *d, const char *folder, struct draft *ret)
{
    char *word = draft_quote(folder);
    draft_copy(ret, &d->now);
    size_t decode = draft_find(ret, "decode", 0);
    for (size_t i = decode == DRAFT_NONE ? ret->count : decode; i-- > 1;)
        if (ret->stage[i].kind == PST_OP_SAMPLE)
            draft_remove(ret, i);
    draft_set(ret, 0, "tfrecord %s", word ? word : "");
    decode = draft_find(ret, "decode", 0);
    draft_insert(ret, decode == DRAFT_NONE ? 1 : decode, "example");
    ret->failed |= !word;
    mem_free(word);
}

/* ---- All of them ---- */

/* A remedy that needs more disk than the present folder has left takes another disk, too. */
static void check_disk(struct remedy *r)
{
    struct statvfs here;
    if (!(r->disk_bytes > 0) || r->elsewhere || statvfs(".", &here) < 0)
        return;
    double left = (double)here.f_bavail * (double)here.f_frsize;
    size_t used = strlen(r->price);
    char bytes[32];
    if (r->disk_bytes < left)
        return;
    text_bytes((uint64_t)left, bytes, sizeof(bytes));
    snprintf(r->price + used, sizeof(r->price) - used, "%sthe disk here has %s left", used ? "; " : "", bytes);
    r->effort = EFFORT_MONEY;
}

static pst_status find_in(struct pst_doctor *d, const struct remedy_class *table, pst_error *reterr)
{
    for (size_t i = 0; table[i].id && d->remedies < MAX_REMEDIES; i++) {
        struct remedy *r = &d->remedy[d->remedies];
        *r = (struct remedy){.id = table[i].id, .group = table[i].group, .effort = table[i].effort, .available = true, .rate = NAN, .low = NAN, .high = NAN,
                             .measured = NAN, .least = 1.15};
        pst_status st = table[i].find(d, r, reterr);
        if (st == PST_OK) {
            check_disk(r);
            d->remedies++;
            continue;
        }
        doctor_remedy_finish(r);
        *r = (struct remedy){0};
        if (st < 0)
            return st;
    }
    return PST_OK;
}

static pst_status find_in_all(struct pst_doctor *d, const struct remedy_class *const *tables, bool urgent, pst_error *reterr)
{
    pst_status st = PST_OK;
    d->urgent = urgent;
    for (; *tables && st == PST_OK; tables++)
        st = find_in(d, *tables, reterr);
    d->urgent = false;
    return st;
}

/* What may be the remedy is tried while there is time: first the model where its step is the limit, otherwise the pipeline. */
pst_status remedies_find(struct pst_doctor *d, pst_error *reterr)
{
    static const struct remedy_class *const pipeline[] = {remedy_settings, remedy_order, remedy_data, remedy_augment, remedy_cache, remedy_storage, remedy_consumer, NULL};
    static const struct remedy_class *const model[] = {remedy_model, NULL}, *const rest[] = {remedy_machines, remedy_texts, remedy_forms, NULL};
    bool step = d->step.rate < d->pipe_rate;
    pst_status st = doctor_tick(d, "trying remedies", reterr);
    if (st == PST_OK)
        st = find_in_all(d, step ? model : pipeline, !step || d->options.verify, reterr);
    if (st == PST_OK)
        st = find_in_all(d, step ? pipeline : model, false, reterr);
    for (size_t i = 0; i < d->remedies && st == PST_OK; i++)
        st = probe_again(d, &d->remedy[i], reterr);
    return st == PST_OK ? find_in_all(d, rest, false, reterr) : st;
}
