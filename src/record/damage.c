/* damage.c: causes, policies, lists of damage, and the log that applies a policy to the damage of any number of threads.
 *
 * Counts are exact; places are kept up to a bound, so that a log of a wholly broken data set stays small. What counts
 * as damage, and how to get past it, is the readers' business. */
#include "record/damage.h"

#include "base/digits.h"
#include "base/error.h"
#include "base/memory.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_PLACES      1000
#define SHARE_FROM_SEEN 1000 /* below this many records a share says little */

struct pst_damage_log {
    pst_policy policy;
    struct damage_sink sink; /* `add` set: everything goes there */
    _Atomic uint64_t seen;
    _Atomic uint64_t counts[PST_CAUSES]; /* written under lock, read anywhere */
    pthread_mutex_t lock;
    struct damage_list places; /* under lock */
};

const char *pst_cause_name(pst_cause cause)
{
    switch (cause) {
    case PST_CAUSE_LENGTH_CRC:
        return "length crc";
    case PST_CAUSE_DATA_CRC:
        return "data crc";
    case PST_CAUSE_TRUNCATED:
        return "truncated";
    case PST_CAUSE_TOO_LARGE:
        return "too large";
    case PST_CAUSE_COMPRESSION:
        return "compression";
    case PST_CAUSE_EXAMPLE:
        return "example";
    case PST_CAUSE_IMAGE:
        return "image";
    case PST_CAUSE_MISSING:
        return "missing";
    case PST_CAUSE_VALUE:
        return "value";
    case PST_CAUSE_INDEX:
        return "index";
    case PST_CAUSES:
        break;
    }
    return "unknown";
}

/* Decimal digits with an optional fraction, independent of the locale. Returns the first character after them. */
static const char *parse_number(const char *s, double *ret, bool *ret_whole)
{
    double value = 0, scale = 1;
    *ret_whole = true;
    for (; *s >= '0' && *s <= '9'; s++)
        value = value * 10 + (*s - '0');
    if (*s == '.') {
        *ret_whole = false;
        for (s++; *s >= '0' && *s <= '9'; s++) {
            scale *= 10;
            value = value * 10 + (*s - '0');
        }
    }
    *ret = value / scale;
    return s;
}

pst_status pst_policy_parse(pst_policy *ret, const char *text, pst_error *reterr)
{
    pst_policy policy = {.skip = true};
    double value;
    bool whole;

    if (strcasecmp(text, "error") == 0) {
        policy.skip = false;
    } else if (strncasecmp(text, "skip:", strlen("skip:")) == 0) {
        const char *budget = text + strlen("skip:"), *end = parse_number(budget, &value, &whole);
        bool digits = *budget >= '0' && *budget <= '9';
        if (digits && strcmp(end, "%") == 0 && value > 0 && value <= 100)
            policy.max_share = value / 100;
        else if (digits && *end == '\0' && whole && value >= 1 && value < 9007199254740992.0) /* exact in a double */
            policy.max_records = (uint64_t)value;
        else
            return pst_fail(reterr, PST_EINVAL,
                            "\"%s\": the budget of skip is a number of records (skip:20) or a share (skip:0.5%%), "
                            "above zero",
                            text);
    } else if (strcasecmp(text, "skip") != 0) {
        return pst_fail(reterr, PST_EINVAL, "unknown damage policy \"%s\": use error, skip, skip:20 or skip:0.5%%", text);
    }
    *ret = policy;
    return PST_OK;
}

/* ---- Lists ---- */

/* Neighbours have most of their strings in common: those are kept once. */
static const char *keep_string(struct damage_list *l, const char *s, const char *last)
{
    return last && strcmp(s, last) == 0 ? last : arena_strndup(&l->text, s, SIZE_MAX);
}

pst_status damage_list_add(struct damage_list *l, const struct damage_item *item)
{
    static const struct damage_item none;
    struct damage_item copy = *item;
    if (mem_grow((void **)&l->items, &l->capacity, l->count + 1, sizeof(*l->items)) < 0)
        return PST_ENOMEM;
    const struct damage_item *last = l->count ? &l->items[l->count - 1] : &none;
    copy.damage.path = keep_string(l, item->damage.path ? item->damage.path : "", last->damage.path);
    copy.damage.op = keep_string(l, item->damage.op ? item->damage.op : "", last->damage.op);
    copy.why = item->why ? keep_string(l, item->why, last->why) : NULL;
    if (!copy.damage.path || !copy.damage.op || (item->why && !copy.why))
        return PST_ENOMEM;
    copy.arrival = l->count;
    l->items[l->count++] = copy;
    return PST_OK;
}

static int compare_turns(const void *a, const void *b)
{
    const struct damage_item *x = a, *y = b;
    return x->at != y->at ? (x->at > y->at) - (x->at < y->at) : (x->arrival > y->arrival) - (x->arrival < y->arrival);
}

void damage_list_sort(struct damage_list *l)
{
    if (l->count > 1)
        qsort(l->items, l->count, sizeof(*l->items), compare_turns);
}

void damage_list_clear(struct damage_list *l)
{
    l->count = 0;
    arena_reset(&l->text);
}

void damage_list_finish(struct damage_list *l)
{
    mem_free(l->items);
    arena_finish(&l->text);
    *l = (struct damage_list){0};
}

pst_damage damage_of_error(pst_cause cause, const pst_error *error)
{
    return (pst_damage){.cause = cause, .path = error->path, .record = error->record, .offset = error->offset, .op = error->op};
}

/* ---- The log ---- */

pst_status pst_damage_log_create(pst_damage_log **ret, const pst_policy *policy, pst_error *reterr)
{
    pst_policy p = policy ? *policy : (pst_policy){0};
    if (!(p.max_share >= 0 && p.max_share <= 1))
        return pst_fail(reterr, PST_EINVAL, "policy: max_share is %g, expected 0 to 1", p.max_share);
    pst_damage_log *log = mem_zalloc(sizeof(*log));
    if (!log)
        return fail_memory(reterr, "creating a damage log");
    log->policy = p;
    pthread_mutex_init(&log->lock, NULL);
    *ret = log;
    return PST_OK;
}

pst_status damage_log_divert(pst_damage_log **ret, const struct damage_sink *sink, pst_error *reterr)
{
    pst_damage_log *log;
    pst_status st = pst_damage_log_create(&log, &(pst_policy){.skip = sink->tolerant}, reterr);
    if (st < 0)
        return st;
    log->sink = *sink;
    *ret = log;
    return PST_OK;
}

pst_damage_log *pst_damage_log_destroy(pst_damage_log *log)
{
    if (!log)
        return NULL;
    damage_list_finish(&log->places);
    pthread_mutex_destroy(&log->lock);
    mem_free(log);
    return NULL;
}

static pst_status log_keep(pst_damage_log *log, const pst_damage *damage, pst_error *reterr)
{
    if (log->places.count == MAX_PLACES || damage_list_add(&log->places, &(struct damage_item){.damage = *damage}) == PST_OK)
        return PST_OK;
    return pst_fail_at(reterr, PST_ENOMEM, damage->path, damage->record, damage->offset, "logging damage: out of memory");
}

static pst_status cause_status(pst_cause cause)
{
    return cause == PST_CAUSE_TOO_LARGE ? PST_ELIMIT : PST_ECORRUPT;
}

/* Adds to an error of damage which operation found it. */
static pst_status name_op(const pst_damage *d, pst_status st, pst_error *reterr)
{
    if (st < 0 && reterr && d->op && d->op[0])
        snprintf(reterr->op, sizeof(reterr->op), "%s", d->op);
    return st;
}

pst_status damage_fail(const pst_damage *d, const char *why, pst_error *reterr)
{
    pst_status st =
        pst_fail_at(reterr, cause_status(d->cause), d->path, d->record, d->offset, "%s: %s", pst_cause_name(d->cause), why);
    return name_op(d, st, reterr);
}

static bool share_spent(const pst_damage_log *log, uint64_t total)
{
    return log->policy.max_share > 0 && (double)total > log->policy.max_share * (double)atomic_load(&log->seen);
}

/* Applies the policy to damage that was counted as the `total`th. */
static pst_status judge(const pst_damage_log *log, uint64_t total, const pst_damage *d, const char *why, pst_error *reterr)
{
    if (!log->policy.skip)
        return damage_fail(d, why, reterr);
    if (damage_spent(log))
        return pst_fail_at(reterr, cause_status(d->cause), d->path, d->record, d->offset,
                           "%" PRIu64 " damaged records, the policy allows %" PRIu64 "; the last: %s: %s", total,
                           log->policy.max_records, pst_cause_name(d->cause), why);
    if (atomic_load(&log->seen) >= SHARE_FROM_SEEN && share_spent(log, total))
        return pst_fail_at(reterr, cause_status(d->cause), d->path, d->record, d->offset,
                           "%" PRIu64 " of %" PRIu64 " records are damaged, the policy allows %g %%; the last: %s: %s", total,
                           pst_damage_log_records(log), log->policy.max_share * 100, pst_cause_name(d->cause), why);
    return PST_OK;
}

pst_status pst_damage_log_add(pst_damage_log *log, const pst_damage *damage, const char *why, pst_error *reterr)
{
    if ((unsigned)damage->cause >= PST_CAUSES)
        return pst_fail(reterr, PST_EINVAL, "damage log: invalid cause %d", (int)damage->cause);
    if (log->sink.add)
        return log->sink.add(log->sink.user, damage, why, reterr);
    pthread_mutex_lock(&log->lock);
    log->counts[damage->cause]++;
    uint64_t total = pst_damage_log_total(log);
    pst_status st = log_keep(log, damage, reterr);
    pthread_mutex_unlock(&log->lock);
    if (st == PST_OK)
        st = judge(log, total, damage, why, reterr);
    return name_op(damage, st, reterr);
}

void pst_damage_log_seen(pst_damage_log *log, uint64_t records)
{
    atomic_fetch_add_explicit(&log->seen, records, memory_order_relaxed);
}

uint64_t pst_damage_log_records(const pst_damage_log *log)
{
    return atomic_load(&log->seen);
}

pst_status pst_damage_log_finish(pst_damage_log *log, pst_error *reterr)
{
    uint64_t total = pst_damage_log_total(log);
    if (total == 0 || !share_spent(log, total))
        return PST_OK;
    return pst_fail(reterr, PST_ECORRUPT, "%" PRIu64 " of %" PRIu64 " records are damaged, the policy allows %g %%", total,
                    pst_damage_log_records(log), log->policy.max_share * 100);
}

uint64_t pst_damage_log_count(const pst_damage_log *log, pst_cause cause)
{
    return (unsigned)cause < PST_CAUSES ? atomic_load(&log->counts[cause]) : 0;
}

uint64_t pst_damage_log_total(const pst_damage_log *log)
{
    uint64_t sum = 0;
    for (int i = 0; i < PST_CAUSES; i++)
        sum += atomic_load(&log->counts[i]);
    return sum;
}

size_t pst_damage_log_places(const pst_damage_log *log)
{
    pst_damage_log *l = (pst_damage_log *)log; /* only the lock changes */
    pthread_mutex_lock(&l->lock);
    size_t n = l->places.count;
    pthread_mutex_unlock(&l->lock);
    return n;
}

pst_damage pst_damage_log_place(const pst_damage_log *log, size_t i)
{
    pst_damage_log *l = (pst_damage_log *)log;
    pst_damage place = {.cause = PST_CAUSES, .path = "", .record = PST_NOWHERE, .offset = PST_NOWHERE, .op = ""};
    pthread_mutex_lock(&l->lock);
    if (i < l->places.count)
        place = l->places.items[i].damage;
    pthread_mutex_unlock(&l->lock);
    return place;
}

bool damage_tolerated(const pst_damage_log *log)
{
    return log && log->policy.skip;
}

bool damage_spent(const pst_damage_log *log)
{
    return log->policy.max_records && pst_damage_log_total(log) > log->policy.max_records;
}

pst_status damage_report(pst_damage_log *log, const pst_damage *damage, pst_error *reterr, const char *format, ...)
{
    char why[192];
    va_list args;
    va_start(args, format);
    digits_vprint(why, sizeof(why), format, args);
    va_end(args);
    return log ? pst_damage_log_add(log, damage, why, reterr) : damage_fail(damage, why, reterr);
}
