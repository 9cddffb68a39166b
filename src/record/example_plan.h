/* example_plan.h: a schema prepared for parsing: where the values of each feature go, and how a feature is found by its key.
 *
 * Records repeat the order of their features, so each feature remembers which one followed it last time; a key is compared
 * with that guess before it is looked up. A plan belongs to one parser and thus to one thread. */
#ifndef RECORD_EXAMPLE_PLAN_H
#define RECORD_EXAMPLE_PLAN_H

#include "record/feature.h"
#include "record/schema.h"

struct planned {
    uint64_t head, head_mask; /* the name's first eight bytes, and which of them it has */
    const char *name;
    size_t name_length;
    uint32_t next;      /* the feature that followed this one in the last record */
    pst_kind kind;      /* declared */
    pst_layout layout;  /* declared */
    uint64_t product;   /* number of number of number of number of values of the shape, or of an inner row */
    bool optional;      /* may be missing: has a default, or becomes an empty row */
    pst_value fallback; /* the default at its full size, or no values */
    struct feature_values found;
};

enum plan_use { PLAN_FEATURES, PLAN_LISTS }; /* Features: a default replaces a missing one; FeatureLists: a default only allows
                                                it to be missing */

struct plan {
    enum plan_use use;
    pst_schema *schema; /* a copy */
    struct planned *features;
    size_t count;
    struct planned *last; /* feature found last; features + count before the first, whose `next` starts a record */
    void *fallbacks;      /* defaults of one value, repeated over their shapes */
    pst_limits limits;    /* with the defaults filled in */
    struct wire_trouble trouble;
    pst_bytes trouble_name; /* the feature with the error; NULL: outside of any feature */
};

/* `schema` may be NULL: no features. */
pst_status plan_init(struct plan *p, const pst_schema *schema, const pst_limits *limits, enum plan_use use, pst_error *reterr);
void plan_finish(struct plan *p);

/* Clears the values of the last record. */
static inline void plan_begin(struct plan *p)
{
    for (size_t i = 0; i < p->count; i++)
        feature_reset(&p->features[i].found);
    p->last = p->features + p->count;
    p->trouble_name = (pst_bytes){0};
}

struct planned *plan_look_up(struct plan *p, const uint8_t *key, size_t length);

/* The feature named [key, key + length), or NULL. `end` bounds what may be read. */
static inline struct planned *plan_find(struct plan *p, const uint8_t *key, size_t length, const uint8_t *end)
{
    struct planned *guess = p->features + p->last->next;
    if (length == guess->name_length && end - key >= 8 && ((le64(key) ^ guess->head) & guess->head_mask) == 0 &&
        (length <= 8 || memcmp(key + 8, guess->name + 8, length - 8) == 0)) {
        p->last = guess;
        return guess;
    }
    return plan_look_up(p, key, length);
}

/* Counts an entry of the map against max_features. */
static inline bool plan_admit_entry(struct plan *p, size_t *entries, const uint8_t *at)
{
    if (++*entries > p->limits.max_features)
        return wire_fail(&p->trouble, PST_ELIMIT, at, "over %zu features; raise max_features to read it",
                         p->limits.max_features);
    return true;
}

/* Writes the name of a feature for an error: shortened and without control characters. Returns `buffer`. */
#define PLAN_NAME_BYTES 72
char *plan_show_name(pst_bytes name, char buffer[static PLAN_NAME_BYTES]);

/* Converts the error found while reading `message` (such as "Example"), which starts at `start`, to the caller's error. */
pst_status plan_fail(const struct plan *p, const char *message, const uint8_t *start, pst_error *reterr);

/* Returns true when `count` values of `kind` match the declaration. */
static inline bool planned_accepts(const struct planned *f, pst_kind kind, uint64_t count)
{
    return kind == f->kind &&
           (f->layout == PST_FIXED ? count == f->product : f->layout == PST_VARIABLE || count % f->product == 0);
}

/* Fails with the reason for a mismatch. `where` is a prefix: "" or "step 3: ". */
pst_status plan_refuse(const struct plan *p, const struct planned *f, pst_kind kind, uint64_t count, const char *where,
                       pst_error *reterr);
/* Fails because a feature without a default is missing. */
pst_status plan_refuse_missing(const struct plan *p, const struct planned *f, pst_error *reterr);

#endif
