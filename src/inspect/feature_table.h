/* feature_table.h: statistics of each feature (or event tag) over a number of records. Tables merge: the table of some
 * records, merged with that of the records after them, is the table of all. Sums of fractions depend on how records were
 * divided into tables, so that division must depend only on the data. Not thread-safe. */
#ifndef INSPECT_FEATURE_TABLE_H
#define INSPECT_FEATURE_TABLE_H

#include "record/name_table.h"
#include <penstock/example.h>
#include <penstock/inspect.h>
#include <string.h>

#define FEATURES_MAX        10000u /* maximum number of features; hostile records may have more */
#define FEATURE_NAME_LENGTH 1024u  /* bytes of names that are compared */

struct feature_stats {
    uint64_t present, values;
    uint64_t min_count, max_count;
    uint64_t min_bytes, max_bytes; /* of bytes values */
    uint64_t images, texts;        /* bytes values that are images or text */
    uint64_t finite, nonfinite;    /* numbers */
    double min, max, sum;          /* of the finite ones */
    char *preview;                 /* the first value of the first record that has one; owned */
};

/* A feature is a kind and a name: one name with two kinds is two rows. */
struct feature_table {
    struct name_table keys;      /* kind and place as one byte, then the name */
    struct feature_stats *stats; /* one row per key */
    size_t capacity;
    bool full; /* something was left out */
};

/* Zero-initialise `t` first. One record as walker_walk gives it: from `context` on, values are of feature lists. */
pst_status feature_table_add(struct feature_table *t, const pst_named_value *values, size_t count, size_t context,
                             pst_error *reterr);
/* One number under a name: an event's scalar. */
pst_status feature_table_add_number(struct feature_table *t, const void *name, size_t length, double number, pst_error *reterr);
/* `from` holds later records than `into`; it is left empty. */
pst_status feature_table_merge(struct feature_table *into, struct feature_table *from, pst_error *reterr);
void feature_table_finish(struct feature_table *t);

#define FEATURE_OF_LIST 0x80 /* in the key's first byte, beside the kind */

static inline pst_kind feature_kind(const struct feature_table *t, size_t i)
{
    return (pst_kind)(name_table_at(&t->keys, i)[0] & 0x7f);
}

static inline bool feature_in_list(const struct feature_table *t, size_t i)
{
    return (name_table_at(&t->keys, i)[0] & FEATURE_OF_LIST) != 0;
}

static inline const char *feature_name(const struct feature_table *t, size_t i, size_t *ret_length)
{
    *ret_length = t->keys.names[i].length - 1;
    return name_table_at(&t->keys, i) + 1;
}

/* Its name if that is a plain string; NULL for one with a NUL inside, which no option can name. */
static inline const char *feature_plain_name(const struct feature_table *t, size_t i)
{
    size_t length;
    const char *name = feature_name(t, i, &length);
    return strlen(name) == length ? name : NULL;
}

/* At least half of its values are images. */
static inline bool feature_is_image(const struct feature_stats *s)
{
    return s->images > 0 && s->images >= s->values - s->images;
}

/* The feature called `name` in one record; NULL if it has none. */
const pst_value *feature_of(const pst_named_value *values, size_t count, const char *name);

#endif
