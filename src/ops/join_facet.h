/* join_facet.h: the facet of an operation that joins pipelines: where its elements come from, as arithmetic on indices.
 *
 * A join stands at the beginning of a chain and has branches, which are chains. Element k of a join that is `together` has the
 * fields of element k of every branch, side by side. Element k of any other join is one element of one branch; the schedule
 * says which, for any k, without the elements before it. A schedule is the same in every epoch. */
#ifndef OPS_JOIN_FACET_H
#define OPS_JOIN_FACET_H

#include <penstock/op.h>

#define JOIN_ENDLESS      UINT64_MAX /* a length */
#define JOIN_MAX_BRANCHES 1000

/* Properties of the pipeline that a schedule depends on. */
struct join_env {
    uint64_t seed;           /* the pipeline's */
    const uint64_t *choices; /* the values of the field that `index_field` names; NULL: there is none */
    uint64_t choice_count;
};

struct join_facet {
    size_t min_branches, max_branches;
    bool together;
    /* Name of the field of the first branch that chooses among the others, which are then the branches of the schedule; NULL: it is
     * a branch like the others. Optional. */
    const char *(*index_field)(const void *config);
    /* Pattern of the files that the only branch is repeated for; NULL: none. Optional. */
    const char *(*files)(const void *config);
    /* Makes the schedule for branches of these lengths, and computes the number of elements, up to JOIN_ENDLESS. */
    pst_status (*create)(const void *config, const struct join_env *env, const uint64_t *lengths, size_t count, void **ret,
                         uint64_t *ret_length, pst_error *reterr);
    void (*destroy)(void *schedule); /* NULL ok. Optional: without it a schedule needs no memory */
    size_t memo_size;                /* bytes that one thread keeps between calls of `map`, zeroed at first */
    /* Stores branch and position within it for each of `n` positions. Not for joins that are `together`. */
    void (*map)(const void *schedule, void *memo, size_t n, const uint64_t *position, uint32_t *ret_branch, uint64_t *ret_at);
};

#endif
