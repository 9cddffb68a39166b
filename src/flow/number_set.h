/* number_set.h: numbers that came before. */
#ifndef FLOW_NUMBER_SET_H
#define FLOW_NUMBER_SET_H

#include <penstock/base.h>

struct number_set { /* zeroed at first */
    uint64_t *slots;
    size_t count, capacity; /* a power of two */
    bool zero;              /* 0 is in, which marks free slots */
};

/* `*ret_new` is false when it was in before. PST_ENOMEM when there is no room for it. */
pst_status number_set_add(struct number_set *k, uint64_t number, bool *ret_new);
void number_set_finish(struct number_set *k);

#endif
