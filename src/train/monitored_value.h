/* monitored_value.h: the monitored value of a run. */
#ifndef TRAIN_MONITORED_VALUE_H
#define TRAIN_MONITORED_VALUE_H

#include <penstock/train.h>

/* Whether the value is one of the training data. `validates`: the run has validation data. */
bool monitors_training(pst_monitor m, bool validates);
/* Whether more of the value is better. */
bool more_is_better(pst_monitor m);
/* Returns the value, negated where more is better: less is always better. */
double monitored_value(pst_monitor m, const pst_run_progress *p, bool validates);

#endif
