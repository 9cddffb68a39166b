/* damage.h: what the readers of this room share about damage, beyond the public log. */
#ifndef RECORD_DAMAGE_H
#define RECORD_DAMAGE_H

#include <penstock/record.h>

/* True when damage is skipped at least until a budget is spent: only then is looking for the next record worth it. */
bool damage_tolerated(const pst_damage_log *log);

/* pst_damage_log_add with a formatted detail; without a log (NULL) any damage is an error. */
pst_status damage_report(pst_damage_log *log, const pst_damage *damage, pst_error *reterr, const char *format, ...)
    PST_PRINTF(4, 5);

#endif
