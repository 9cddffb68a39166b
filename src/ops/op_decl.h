/* op_decl.h: the declaration of a built-in operation: its public class, and facets that tell the engine what kind of operation
 * it is. The engine asks for facets; it never compares classes. An operation of the user's has a class alone, and no facets.
 *
 * Facets are consulted while a chain is planned. Nothing looks one up for an element. */
#ifndef OPS_OP_DECL_H
#define OPS_OP_DECL_H

#include "base/arena.h"
#include "ops/order_step.h"
#include <penstock/op.h>
#include <penstock/record.h>

struct image_facet; /* image/image_op.h */

/* Changes no result, only what it costs. */
struct resource_facet {
    enum { RESOURCE_PREFETCH, RESOURCE_CACHE } kind;
    uint64_t (*amount)(const void *config); /* batches, bytes; 0: the engine chooses */
};

/* May have to see records of the source before it can be planned. */
struct schema_facet {
    /* Name of the field whose records a schema has to be inferred from; NULL: the config has a schema. */
    const char *(*missing)(const void *config);
    /* Sets the config's schema from `count` records (at least one, spread over the source); its text is left in `strings`. */
    pst_status (*infer)(void *config, struct arena *strings, const pst_bytes *records, size_t count, pst_error *reterr);
    /* Name of the field whose records the config's own schema is checked against; NULL: there is nothing to check. */
    const char *(*given)(const void *config);
    /* Judges that schema by `count` records (at least one, spread over the source). */
    pst_status (*check)(const void *config, const pst_bytes *records, size_t count, pst_error *reterr);
};

struct op_decl {
    pst_op_class op;
    pst_op_kind kind; /* not PST_OP_SOURCE: those are struct source_class */

    const struct image_facet *image; /* works on images and may join a fused pass */
    /* Is a step of the order, `batch` included. `*ret` is zeroed. */
    void (*order)(const void *config, const struct order_env *env, struct order_step *ret);
    const struct resource_facet *resource;
    const struct schema_facet *schema;
    /* Of the fields of its output, only those are used for which `fields` has true; `run` need not write the others. Called once
     * the whole chain is planned and before any `start`; the array stays valid until the last `stop`. Without the call all
     * fields are used. */
    void (*need)(void *config, const bool *fields);
    /* What the engine chose for it when the whole chain was known, for the plan to show: "quality fast". NULL: nothing. */
    const char *(*choice)(const void *config, const char **ret_reason);
    pst_cause cause; /* what an element that it refuses is counted as; 0: PST_CAUSE_VALUE. Ask op_cause */
};

/* The declaration that `op` is the class of; NULL: it is not built in, or a source. */
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
