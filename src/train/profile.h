/* profile.h: how long the parts of training steps take: sums, and the spans of the first steps for a trace. */
#ifndef TRAIN_PROFILE_H
#define TRAIN_PROFILE_H

#include "model/step.h"
#include <penstock/train.h>

enum profile_part { PART_FORWARD, PART_LOSS, PART_BACKWARD, PART_UPDATE, PARTS };

struct profile_span {
    uint64_t begin, length; /* nanoseconds since measuring began */
};

struct profile {
    bool on;
    uint64_t began, steps, samples;
    uint64_t sum[PARTS];
    size_t blocks;
    struct profile_span *spans; /* steps × (PARTS + 2 · blocks) */
    size_t kept, room;          /* steps */
    uint64_t *seen;             /* totals of the blocks after the last step: forward, then backward */
};

/* `marks` are the times at which the parts began, and the end of the last one. */
void profile_step(struct profile *p, struct step *s, const uint64_t marks[PARTS + 1], size_t samples);
void profile_finish(struct profile *p); /* zeroed ok */

#endif
