/* op_decl.h: the declaration of a built-in operation: its public class, and facets that describe to the engine what kind of
 * operation it is. The engine reads facets; it never compares classes. A user-defined operation has only a class and no
 * facets.
 *
 * Facets are read while a chain is planned, never per element. */
#ifndef OPS_OP_DECL_H
#define OPS_OP_DECL_H

#include "base/arena.h"
#include "ops/order_step.h"
#include <penstock/op.h>
#include <penstock/record.h>

struct image_facet; /* image/image_op.h */
struct join_facet;  /* join_facet.h */

/* Does not affect the output, only its cost. */
struct resource_facet {
    enum { RESOURCE_PREFETCH, RESOURCE_CACHE } kind;
    uint64_t (*amount)(const void *config); /* batches, bytes; 0: the engine chooses */
    const char *(*folder)(const void *config); /* of a cache: where it is on disk; NULL: in memory. Optional */
};

/* For operations that may need records of the source before they can be planned. */
struct schema_facet {
    /* Name of the field whose records a schema has to be inferred from; NULL: the config has a schema. */
    const char *(*missing)(const void *config);
    /* Sets the config's schema from `count` records (at least one, spread over the source); its text is stored in `strings`. */
    pst_status (*infer)(void *config, struct arena *strings, const pst_bytes *records, size_t count, pst_error *reterr);
    /* Name of the field whose records the config's own schema is checked against; NULL: there is nothing to check. */
    const char *(*given)(const void *config);
    /* Checks that schema against `count` records (at least one, spread over the source). */
    pst_status (*check)(const void *config, const pst_bytes *records, size_t count, pst_error *reterr);
};

/* Where an operation divides a chain into segments (flow/cut.c): what comes before is planned by itself, and its elements, or
 * its batches, are the elements of the segment after it. */
enum op_cut {
    CUT_NONE,
    CUT_SNAPSHOT, /* stores what comes before, and reads it */
    CUT_GATHER,  /* makes batches; if there are batches already, these become elements */
    CUT_WINDOW,  /* makes stacks of elements, which are elements */
    CUT_UNBATCH, /* takes batches, or elements with a first dimension, apart */
    CUT_REBATCH, /* takes them apart and makes batches */
    CUT_KEYED,   /* makes batches, and the data decides which */
    CUT_STREAM   /* the data decides which elements stay */
};

/* Where `snapshot` stores elements. */
struct snapshot_rule {
    const char *path;
    uint64_t bytes; /* of a shard */
};

struct op_decl {
    pst_op_class op;
    pst_op_kind kind; /* PST_OP_SOURCE only for joins: all others are struct source_class */

    const struct image_facet *image; /* works on images and may join a fused pass */
    const struct join_facet *join;   /* begins a chain and takes pipelines as branches */
    /* Set for a step of the order, `batch` included. `*ret` is zeroed by the caller. */
    void (*order)(const void *config, const struct order_env *env, struct order_step *ret);
    enum op_cut cut;
    const struct snapshot_rule *(*snapshot)(const void *config); /* set with CUT_SNAPSHOT */
    /* Set for an operation that draws elements by their class. */
    const struct resample_rule *(*resample)(const void *config, uint64_t pipeline_seed, uint64_t *ret_seed);
    bool reorders; /* the order differs from epoch to epoch */
    /* Returns the expression that decides which elements are kept; set for an operation that keeps some of them. */
    const char *(*filter)(const void *config);
    const struct resource_facet *resource;
    const struct schema_facet *schema;
    /* Only the output fields for which `fields` is true are used; `run` need not write the others. Called once the whole
     * chain is planned and before any `start`; the array stays valid until the last `stop`. Without the call all fields are
     * used. */
    void (*need)(void *config, const bool *fields);
    /* Returns what the engine chose for the operation once the whole chain was known, shown in the plan: "quality fast".
     * NULL: nothing. */
    const char *(*choice)(const void *config, const char **ret_reason);
    pst_cause cause; /* cause counted for an element that it refuses; 0: PST_CAUSE_VALUE. Use op_cause to read it */
};

/* Returns the declaration whose class is `op`; NULL: it is not built in, or is a source. */
const struct op_decl *op_decl_of(const pst_op_class *op);

/* `d` may be NULL. */
static inline pst_cause op_cause(const struct op_decl *d)
{
    return d && d->cause ? d->cause : PST_CAUSE_VALUE;
}

static inline const struct image_facet *op_image(const struct op_decl *d)
{
    return d ? d->image : NULL;
}

#endif
