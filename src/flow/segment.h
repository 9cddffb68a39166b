/* segment.h: a part of a chain as the source of the part after it.
 *
 * A chain is one segment until an operation takes whole batches for elements, takes elements apart, or lets the data decide
 * what comes together (cut.c). What comes before such an operation is planned as a pipeline of its own. Where its elements
 * can be computed by their number, the workers of the outer pipeline do that; otherwise it runs with workers of its own, and
 * is a stream. */
#ifndef FLOW_SEGMENT_H
#define FLOW_SEGMENT_H

#include "flow/node.h"
#include "source/source.h"

enum segment_mode {
    SEGMENT_ROWS,  /* an element is an element of the inner pipeline, batched there or not */
    SEGMENT_WHOLE, /* an element is a batch of the inner pipeline */
    SEGMENT_SNAPSHOT, /* an element is one of the inner pipeline, stored in a folder (snapshot.h) */
    SEGMENT_SPLIT  /* an element is a row of an element of the inner pipeline */
};

/* The config of source_segment. Everything that it points to outlives the source. */
struct segment_config {
    struct chain inner; /* a view of the nodes before the cut; owned by the outer chain */
    pst_pipeline_options options;
    enum segment_mode mode;
    bool stream;               /* the data decides: never by number */
    bool tolerant;             /* damage is left out and reported */
    const struct node *cutter; /* the operation that made the cut */
};

extern const struct source_class source_segment;

/* Returns the plan of the inner pipeline. */
struct pipeline_plan;
const struct pipeline_plan *segment_plan(const void *source);
const pst_pipeline *segment_pipeline(const void *source);
bool segment_is_fixed(const void *source); /* the element with a number is the same in every pass */

/* cut.c: divides `chain` at its last cut. `*ret_outer` is what comes after it, with a source_segment as its source; its nodes
 * and the config are allocated in `memory`. Without a cut `*ret_outer` is a view of the whole chain. */
pst_status segment_cut(const struct chain *chain, const pst_pipeline_options *options, bool tolerant, struct arena *memory,
                       struct chain *ret_outer, pst_error *reterr);

#endif
