/* join_plan.h: a join of pipelines, planned: its branches, each with its own order and program, and the schedule.
 *
 * To the rest of the plan a join is a source (`join_source`): it has fields, a number of elements and a fingerprint. Workers
 * read it through lanes (lane.h), because an element depends on the pass, too.
 *
 * The number of an element ("sample") is that of the source's element it came from, with the sources of all branches numbered
 * one after the other; an element of a join that is `together` has the number of its first branch. */
#ifndef FLOW_JOIN_PLAN_H
#define FLOW_JOIN_PLAN_H

#include "ops/join_facet.h"
#include "source/source.h"

struct chain;
struct node;
struct pipeline_plan;
struct order;
struct program;

struct join_branch {
    struct pipeline_plan *plan;
    const struct order *order;
    struct program *program;
    size_t first_field;    /* together: number of its first field in the join; otherwise 0 */
    uint64_t first_number; /* of its elements */
};

/* Branches that were made from one, for every file of a list. */
struct join_file_list {
    struct chain *chains;
    size_t count;
};

struct join {
    const pst_op_class *op;
    const struct join_facet *facet;
    void *schedule;
    struct join_branch *branches;
    size_t count;
    uint64_t length;      /* elements; JOIN_ENDLESS */
    uint64_t numbers;     /* elements of all sources */
    bool fixed;           /* the element at a position is the same in every pass */
    bool has_together;    /* it, or a join in a branch */
    pst_spec spec;        /* memory of the plan */
    struct join_file_list files;
    uint64_t choices;     /* hash of what the first branch chooses */
    uint64_t gaps;        /* damage that was found while opening */
};

extern const struct source_class join_source; /* its sources are struct join; open, load and streams are unused */

/* join_files.c: makes a chain of the node's only branch for every file that matches the pattern, with its path for {}. */
pst_status join_files(struct join_file_list *ret, const struct node *n, const char *pattern, pst_error *reterr);
void join_files_finish(struct join_file_list *f); /* half-built and zeroed ok */

struct join *join_destroy(struct join *j); /* NULL ok; returns NULL */

/* Finds what element `*index` of pass `*pass` of the order's source is: the program of the source it comes from and its number
 * there. `field` is the field in question or SOURCE_WHOLE, and becomes that of the source. `*ret_sample` is its number in the
 * whole tree. Allocates: for errors, not for every element. */
pst_status join_resolve(const struct program **program, uint64_t *index, uint64_t *pass, size_t *field, uint64_t *ret_sample,
                        pst_error *reterr);

#endif
