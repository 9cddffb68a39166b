/* known.h: numbers that came before. */
#ifndef FLOW_KNOWN_H
#define FLOW_KNOWN_H

#include <penstock/base.h>

struct known { /* zeroed at first */
    uint64_t *slots;
    size_t count, capacity; /* a power of two */
    bool zero;              /* 0 is in, which marks free slots */
};

/* `*ret_new` is false when it was in before. PST_ENOMEM when there is no room for it. */
pst_status known_add(struct known *k, uint64_t number, bool *ret_new);
void known_finish(struct known *k);

#endif
