/* tree.h: the order of stages in a tree of pipelines, changed such that less is computed: stages that decide which samples come, and in
 * which order, move before those that compute pixels. */
#ifndef DOCTOR_TREE_H
#define DOCTOR_TREE_H

#include "doctor/draft.h"

struct tree_moves {
    unsigned shuffles, choices; /* moved stages: shuffles; filters and others that leave samples out */
    unsigned hoisted;           /* stages that left the branches of a join */
    char first[48];             /* the name of the first stage that was moved */
};

/* Reorders `r`. The samples that it delivers stay the same; the order and the draws of random operations may differ. */
void tree_reorder(struct draft *r, struct tree_moves *ret);

#endif
