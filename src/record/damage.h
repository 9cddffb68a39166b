/* damage.h: damage, beyond the public log: what readers need from a log, and lists of damage that waits to be judged.
 *
 * All damage (a record, a range of a shard, a file, an image, an element that an operation refuses) is described by a
 * pst_damage: cause, place (path, record, offset, bytes) and the operation that found it (op). */
#ifndef RECORD_DAMAGE_H
#define RECORD_DAMAGE_H

#include "base/arena.h"
#include <penstock/record.h>

/* ---- Lists ---- */

struct damage_item {
    pst_damage damage;
    const char *why; /* the detail; NULL: there is none */
    uint64_t key;    /* equal for the same damage, whenever it is found */
    uint64_t at;     /* position in the order of judging */
    size_t arrival;  /* set by the list */
};

/* Copies of damage in the order of their arrival, with their strings. Zeroed at first; one thread at a time. */
struct damage_list {
    struct damage_item *items;
    size_t count, capacity;
    struct arena text;
};

pst_status damage_list_add(struct damage_list *l, const struct damage_item *item); /* PST_ENOMEM: the list is unchanged */
void damage_list_sort(struct damage_list *l);                                      /* by `at`; equal values by arrival */
void damage_list_clear(struct damage_list *l);                                     /* keeps its memory */
void damage_list_finish(struct damage_list *l);

/* Returns the damage that an error describes; borrows its strings. */
pst_damage damage_of_error(pst_cause cause, const pst_error *error);

/* ---- Logs ---- */

/* Returns true when damage is skipped, at least until a budget is exhausted: only then does it pay to search for the next
 * record. */
bool damage_tolerated(const pst_damage_log *log);

/* Fails with the error for damage that is not tolerated. */
pst_status damage_fail(const pst_damage *damage, const char *why, pst_error *reterr);

/* Returns whether more records are damaged than the policy allows. */
bool damage_spent(const pst_damage_log *log);

/* A log that stores and judges nothing: damage is passed to `add`, whose result is returned to the reader; records seen are
 * not counted. */
struct damage_sink {
    bool tolerant; /* whether readers search for the next valid record */
    pst_status (*add)(void *user, const pst_damage *damage, const char *why, pst_error *reterr);
    void *user;
};
pst_status damage_log_divert(pst_damage_log **ret, const struct damage_sink *sink, pst_error *reterr);

/* pst_damage_log_add with a formatted detail; without a log (NULL) any damage is an error. */
pst_status damage_report(pst_damage_log *log, const pst_damage *damage, pst_error *reterr, const char *format, ...)
    PST_PRINTF(4, 5);

#endif
