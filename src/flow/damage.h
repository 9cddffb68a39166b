/* damage.h: damage of a pipeline on its way from where it is found to the report (pst_pipeline_damage).
 *
 * It is found in three places: by the source while it is opened, by a stream while it is read ahead, by a worker on an element.
 * All of it is judged in one, by the consumer, in the order of delivery (damage_judge). */
#ifndef FLOW_DAMAGE_H
#define FLOW_DAMAGE_H

#include "record/damage.h"
#include <penstock/record.h>

struct entry;

/* Keys of damage that was counted: an epoch later, or after a seek, it is not new. Zeroed at first. */
struct damage_known {
    uint64_t *slots;
    size_t count, capacity; /* a power of two */
    bool zero;              /* 0 is in, which marks free slots */
};
/* `*ret_new` is false when the key was in before. PST_ENOMEM when there is no room for it. */
pst_status damage_known_add(struct damage_known *k, uint64_t key, bool *ret_new);
void damage_known_finish(struct damage_known *k);

/* The books of a pipeline: the log that is its report, the policy, and what was counted. The consumer's. */
struct damage_account {
    pst_policy policy;
    pst_damage_log *log;
    struct damage_known known;
    uint64_t met; /* records of a stream that the log has been told of */
};
pst_status damage_account_init(struct damage_account *a, const pst_policy *policy, pst_error *reterr);
void damage_account_finish(struct damage_account *a); /* accepts zeroed ones */

/* ---- Where it is found ---- */

/* A log for a source that is being opened: what it reports is judged at once, and counted in `found`. */
struct damage_opening {
    struct damage_account *account;
    const char *op;
    uint64_t found;
    pst_damage_log *log;
};
pst_status damage_opening_init(struct damage_opening *o, struct damage_account *a, const char *op, pst_error *reterr);
void damage_opening_finish(struct damage_opening *o);

/* A log for streams: what they report waits here until the entry that it belongs to has been opened. One thread at a time. */
struct damage_intake {
    const char *op;
    bool tolerant; /* otherwise the reader is told to stop */
    pst_damage_log *log;
    struct damage_list waiting;
    uint64_t total; /* ever */
};
pst_status damage_intake_init(struct damage_intake *i, const char *op, bool tolerant, pst_error *reterr);
void damage_intake_finish(struct damage_intake *i);
void damage_intake_drop(struct damage_intake *i);                       /* it will be found again */
void damage_intake_hand_over(struct damage_intake *i, struct entry *e); /* the entry's own list must be empty */

/* The cause of an element that the source does not load, or that an operation refuses; `declared` is what they count it as.
 * PST_CAUSES: it is not the data's fault. */
pst_cause damage_of_load(pst_cause declared, pst_status st);
pst_cause damage_of_step(pst_cause declared, pst_status st);
/* Adds the damage of element `at` of the entry, number `sample` of the source. Under the ring's lock. */
pst_status damage_note(struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error);

/* ---- Where it is judged ---- */

/* Counts what belongs to an entry and applies the policy, in the order of its samples; what a stream found on the way comes
 * first. Fails with what the policy does not allow, or else with the entry's own failure. */
pst_status damage_judge(struct damage_account *a, struct entry *e, pst_error *reterr);

#endif
