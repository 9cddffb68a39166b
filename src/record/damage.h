/* damage.h: what the readers of this room share about damage, beyond the public log. */
#ifndef RECORD_DAMAGE_H
#define RECORD_DAMAGE_H

#include <penstock/record.h>

/* True when damage is skipped at least until a budget is spent: only then is looking for the next record worth it. */
bool damage_tolerated(const pst_damage_log *log);

/* The error that damage is where none is tolerated. */
pst_status damage_fail(const pst_damage *damage, const char *why, pst_error *reterr);

/* More records are damaged than the policy allows. */
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
