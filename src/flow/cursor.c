/* cursor.c: where a pipeline is, in four integers, and whose cursor it is.
 *
 * The fingerprint covers what shapes order or content: the data and every operation but `prefetch` and `cache`. Ranks, workers
 * and budgets are free to change between tell and seek, and so is the place of the data. */
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/pipeline.h"
#include "flow/plan.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <string.h>

#define UPPER_HALF (~UINT64_C(0) << 32)

pst_status plan_fingerprint(struct pipeline_plan *p, pst_error *reterr)
{
    const struct chain *c = p->chain;
    const char *name = c->nodes[0].op->name;
    uint64_t data = hash_bytes(name, strlen(name), p->source_class->fingerprint(p->source)), ops = 0;
    for (size_t i = 1; i < c->count; i++) {
        const struct op_decl *decl = op_decl_of(c->nodes[i].op);
        if (decl && decl->resource)
            continue;
        char *text = node_text(&c->nodes[i]);
        if (!text)
            return fail_memory(reterr, "planning");
        ops = hash_bytes(text, strlen(text), ops);
        mem_free(text);
        if (c->nodes[i].op->fingerprint)
            ops = hash_combine(ops, c->nodes[i].op->fingerprint(c->nodes[i].config));
    }
    p->fingerprint = (data & UPPER_HALF) | ops >> 32;
    return PST_OK;
}

pst_status cursor_check(const struct pipeline_plan *p, uint64_t seed, const pst_cursor *c, pst_error *reterr)
{
    uint64_t differs = c->fingerprint ^ p->fingerprint;
    const char *what = differs & UPPER_HALF
                           ? differs << 32 ? "both the data and the operations are others" : "the data are others"
                           : "the operations are others, or have other arguments";
    if (differs)
        return pst_fail(reterr, PST_ESTALE,
                        "the cursor belongs to another pipeline: %s (fingerprint %016" PRIx64 ", here %016" PRIx64 ")", what,
                        c->fingerprint, p->fingerprint);
    if (c->seed != seed)
        return pst_fail(reterr, PST_ESTALE,
                        "the cursor was taken with seed %" PRIu64 ", this pipeline has %" PRIu64 ": the order would be another",
                        c->seed, seed);
    if (p->order.batches < ORDER_UNKNOWN && c->next > p->order.batches)
        return pst_fail(reterr, PST_ESTALE, "the cursor is at batch %" PRIu64 ", an epoch has %" PRIu64, c->next,
                        p->order.batches);
    return PST_OK;
}
