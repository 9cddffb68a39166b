/* damage_judge.h: damage of a pipeline, from where it is found to the report (pst_pipeline_damage).
 *
 * Damage is found in three places: by the source while it is opened, by a stream while it is read ahead, by a worker on an
 * element. It is judged in one place, by the consumer, in the order of delivery (damage_judge). */
#ifndef FLOW_DAMAGE_JUDGE_H
#define FLOW_DAMAGE_JUDGE_H

#include "record/damage.h"
#include <penstock/record.h>

struct entry;

/* Keys of damage that was counted already, so that a later epoch or a seek does not count it again. Zeroed at first. */
struct damage_known {
    uint64_t *slots;
    size_t count, capacity; /* a power of two */
    bool zero;              /* the key 0 is in the set; in `slots`, 0 marks a free slot */
};
/* Adds a key. `*ret_new` is false if it was in the set already. PST_ENOMEM: out of memory. */
pst_status damage_known_add(struct damage_known *k, uint64_t key, bool *ret_new);
void damage_known_finish(struct damage_known *k);

/* The damage account of a pipeline: the log that is its report, the policy, and the damage counted so far. Used by the
 * consumer only. */
struct damage_account {
    pst_policy policy;
    pst_damage_log *log;
    struct damage_known known;
    uint64_t met; /* records of a stream that were reported to the log */
};
pst_status damage_account_init(struct damage_account *a, const pst_policy *policy, pst_error *reterr);
void damage_account_finish(struct damage_account *a); /* a zeroed account is ok */

/* ---- Where it is found ---- */

/* A log for a source that is being opened: damage reported to it is judged at once and counted in `found`. */
struct damage_opening {
    struct damage_account *account;
    const char *op;
    uint64_t found;
    pst_damage_log *log;
};
pst_status damage_opening_init(struct damage_opening *o, struct damage_account *a, const char *op, pst_error *reterr);
void damage_opening_finish(struct damage_opening *o);

/* A log for streams: reported damage waits here until the entry that it belongs to has been opened. One thread at a time. */
struct damage_intake {
    const char *op;
    bool tolerant; /* otherwise the reader stops */
    pst_damage_log *log;
    struct damage_list waiting;
    uint64_t total; /* since the start */
};
pst_status damage_intake_init(struct damage_intake *i, const char *op, bool tolerant, pst_error *reterr);
void damage_intake_finish(struct damage_intake *i);
void damage_intake_drop(struct damage_intake *i);                       /* discards waiting damage: it will be found again */
void damage_intake_hand_over(struct damage_intake *i, struct entry *e); /* the entry's own list must be empty */

/* Return the cause for an element that the source failed to load or that an operation refused; `declared` is the cause
 * declared by the source or operation. PST_CAUSES: the failure is not caused by the data. */
pst_cause damage_of_load(pst_cause declared, pst_status st);
pst_cause damage_of_step(pst_cause declared, pst_status st);
/* Adds the damage of element `at` of the entry, number `sample` of the source. Under the ring's lock. */
pst_status damage_note(struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error);

/* ---- Where it is judged ---- */

/* Counts the damage of an entry and applies the policy, in the order of its samples; damage that a stream found on the way
 * comes first. Fails if the policy does not allow the damage, otherwise with the entry's own failure. */
pst_status damage_judge(struct damage_account *a, struct entry *e, pst_error *reterr);

#endif
