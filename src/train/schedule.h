/* schedule.h: the learning rate as a function of the step, and of the losses for PST_SCHEDULE_PLATEAU. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <penstock/train.h>

/* State that a checkpoint keeps. */
struct schedule_state {
    double factor; /* of PST_SCHEDULE_PLATEAU; starts as 1 */
    double best;   /* starts as infinity */
    uint64_t wait; /* epochs without improvement */
};

/* The learning rate of update `step` (0 is the first). Defaults are filled in already. */
double schedule_rate(const pst_train_options *o, const struct schedule_state *s, uint64_t step);
/* After an epoch with this monitored loss. */
void schedule_epoch(const pst_train_options *o, struct schedule_state *s, double loss);

#endif
