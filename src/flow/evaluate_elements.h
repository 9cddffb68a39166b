/* evaluate_elements.h: values that a plan has to know of every element before it can be made: which elements a filter keeps, which
 * branch `choose` takes. They are computed once, by a pipeline of the operations before them. */
#ifndef FLOW_EVALUATE_ELEMENTS_H
#define FLOW_EVALUATE_ELEMENTS_H

#include "base/bitmap.h"
#include "flow/plan.h"

struct kept_bits {
    struct kept_bits *next;
    struct bitmap map;
    uint64_t *words, *rank;
    uint32_t *hint, *members;
    bool stored; /* read from or written to a file */
};

/* Finds or computes which of the `count` elements before node `i` of the plan's chain its expression keeps. */
pst_status evaluate_filter(struct kept_bits **ret, const struct pipeline_plan *p, size_t i, uint64_t count,
                           const struct plan_env *env, pst_error *reterr);
struct kept_bits *kept_bits_destroy(struct kept_bits *b); /* NULL ok; returns NULL */

/* Computes field `field` of every element of the chain as whole numbers. Release `*ret` with mem_free. */
pst_status evaluate_field(uint64_t **ret, uint64_t *ret_count, const struct chain *c, const char *field, uint64_t ram,
                          const struct plan_env *env, pst_error *reterr);

#endif
