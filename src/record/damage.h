/* damage.h: damage, beyond the public log: what readers ask of a log, and lists of damage that waits to be judged.
 *
 * Whatever is damaged (a record, a stretch of a shard, a file, an image, an element that an operation refuses) is a pst_damage:
 * what (cause), where (path, record, offset, bytes) and who found it (op). */
#ifndef RECORD_DAMAGE_H
#define RECORD_DAMAGE_H

#include "base/arena.h"
#include <penstock/record.h>

/* ---- Lists ---- */

struct damage_item {
    pst_damage damage;
    const char *why; /* the detail; NULL: there is none */
    uint64_t key;    /* equal for the same damage, whenever it is found */
    uint64_t at;     /* its turn */
    size_t arrival;  /* set by the list */
};

/* Copies of damage in the order of their arrival, with their strings. Zeroed at first; one thread at a time. */
struct damage_list {
    struct damage_item *items;
    size_t count, capacity;
    struct arena text;
};

pst_status damage_list_add(struct damage_list *l, const struct damage_item *item); /* PST_ENOMEM: it is as it was */
void damage_list_sort(struct damage_list *l);                                      /* by turn; equal turns by arrival */
void damage_list_clear(struct damage_list *l);                                     /* keeps its memory */
void damage_list_finish(struct damage_list *l);

/* Damage as an error describes it; borrows its strings. */
pst_damage damage_of_error(pst_cause cause, const pst_error *error);

/* ---- Logs ---- */

/* True when damage is skipped at least until a budget is spent: only then is looking for the next record worth it. */
bool damage_tolerated(const pst_damage_log *log);

/* Fails with the error that damage is where none is tolerated. */
pst_status damage_fail(const pst_damage *damage, const char *why, pst_error *reterr);

/* Whether more records are damaged than the policy allows. */
bool damage_spent(const pst_damage_log *log);

/* A log that keeps and judges nothing: damage goes to `add`, whose answer is the reader's; what was seen is not counted. */
struct damage_sink {
    bool tolerant; /* whether readers are to look for the next sound record */
    pst_status (*add)(void *user, const pst_damage *damage, const char *why, pst_error *reterr);
    void *user;
};
pst_status damage_log_divert(pst_damage_log **ret, const struct damage_sink *sink, pst_error *reterr);

/* pst_damage_log_add with a formatted detail; without a log (NULL) any damage is an error. */
pst_status damage_report(pst_damage_log *log, const pst_damage *damage, pst_error *reterr, const char *format, ...)
    PST_PRINTF(4, 5);

#endif
