/* cursor.c: the position of a pipeline, as numbers and as bytes, and which pipeline a cursor belongs to.
 *
 * The fingerprint covers everything that affects order or content: the data and every operation but `prefetch` and `cache`.
 * Ranks, workers and budgets are free to change between tell and seek, and so is the place of the data. */
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/pipeline.h"
#include "flow/plan.h"
#include "flow/segment.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <string.h>

#define UPPER_HALF (~UINT64_C(0) << 32)

/* Adds an operation and its arguments, and what its config has beyond them. */
static pst_status hash_node(const struct node *n, uint64_t *hash, pst_error *reterr)
{
    char *text = lang_head(n->written);
    if (!text)
        return fail_memory(reterr, "planning");
    *hash = hash_bytes(text, strlen(text), *hash);
    mem_free(text);
    if (n->op->fingerprint)
        *hash = hash_combine(*hash, n->op->fingerprint(n->config));
    return PST_OK;
}

/* Adds the first `count` operations of the chain, branches first. A source's arguments are not among them: its data are. */
static pst_status hash_ops(const struct pipeline_plan *p, size_t count, uint64_t *hash, pst_error *reterr)
{
    const struct chain *c = p->chain;
    pst_status st = p->join ? hash_node(&c->nodes[0], hash, reterr) : PST_OK;
    for (size_t b = 0; p->join && b < p->join->count && st == PST_OK; b++) {
        const struct pipeline_plan *branch = p->join->branches[b].plan;
        *hash = hash_combine(*hash, branch->chain->count);
        st = hash_ops(branch, branch->chain->count, hash, reterr);
    }
    for (size_t i = 1; i < count && st == PST_OK; i++) {
        const struct op_decl *decl = op_decl_of(c->nodes[i].op);
        if (!decl || !decl->resource)
            st = hash_node(&c->nodes[i], hash, reterr);
    }
    return st;
}

pst_status plan_hash(const struct pipeline_plan *p, size_t count, uint64_t *ret_data, uint64_t *ret_ops, pst_error *reterr)
{
    const char *name = p->chain->nodes[0].op->name;
    *ret_data = hash_bytes(name, strlen(name), p->source_class->fingerprint(p->source));
    *ret_ops = 0;
    if (p->source_class->inner) { /* it has data and operations of its own */
        *ret_data = p->source_class->inner(p->source)->fingerprint;
        *ret_ops = hash_combine(p->source_class->fingerprint(p->source), 1);
    }
    return hash_ops(p, count, ret_ops, reterr);
}

pst_status plan_fingerprint(struct pipeline_plan *p, pst_error *reterr)
{
    uint64_t data, ops;
    pst_status st = plan_hash(p, p->chain->count, &data, &ops, reterr);
    if (st == PST_OK && p->order.batch != SIZE_MAX && p->order.steps[p->order.batch].parts > 1) /* another order of the same operations */
        ops = hash_combine(ops, p->order.steps[p->order.batch].parts);
    p->fingerprint = (data & UPPER_HALF) | ops >> 32;
    return st;
}

pst_status cursor_check(const struct pipeline_plan *p, uint64_t seed, const pst_position *at, pst_error *reterr)
{
    uint64_t differs = at->fingerprint ^ p->fingerprint;
    const char *what = differs & UPPER_HALF
                           ? differs << 32 ? "both the data and the operations are others" : "the data are others"
                           : "the operations are others, or have other arguments";
    if (differs)
        return pst_fail(reterr, PST_ESTALE,
                        "the cursor belongs to another pipeline: %s (fingerprint %016" PRIx64 ", here %016" PRIx64 ")", what,
                        at->fingerprint, p->fingerprint);
    if (at->seed != seed)
        return pst_fail(reterr, PST_ESTALE,
                        "the cursor was taken with seed %" PRIu64 ", this pipeline has %" PRIu64 ": the order would differ",
                        at->seed, seed);
    if (p->order.batches < ORDER_UNKNOWN && at->next > p->order.batches)
        return pst_fail(reterr, PST_ESTALE, "the cursor is at batch %" PRIu64 ", an epoch has %" PRIu64, at->next,
                        p->order.batches);
    return PST_OK;
}

/* ---- As bytes ---- */

/* "PSTC", the version of the layout, then fingerprint, seed, epoch and next, all little-endian. A later version may append. */
#define MAGIC      UINT32_C(0x43545350)
#define VERSION    1u
#define LEAST_SIZE (2 * sizeof(uint32_t) + 4 * sizeof(uint64_t))

static void put(uint8_t *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get(const uint8_t *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value |= (uint64_t)from[i] << 8 * i;
    return value;
}

void pst_cursor_set(pst_cursor *ret, const pst_position *position)
{
    const uint64_t numbers[4] = {position->fingerprint, position->seed, position->epoch, position->next};
    memset(ret, 0, sizeof(*ret));
    ret->size = LEAST_SIZE;
    put(ret->bytes, MAGIC, 4);
    put(ret->bytes + 4, VERSION, 4);
    for (size_t i = 0; i < 4; i++)
        put(ret->bytes + 8 + 8 * i, numbers[i], 8);
}

pst_status pst_cursor_get(const pst_cursor *cursor, pst_position *ret, pst_error *reterr)
{
    if (cursor->size < LEAST_SIZE || cursor->size > sizeof(cursor->bytes) || get(cursor->bytes, 4) != MAGIC)
        return pst_fail(reterr, PST_EINVAL, "these %zu bytes are not a cursor; expected those of a saved place of a pipeline",
                        cursor->size);
    if (get(cursor->bytes + 4, 4) != VERSION || cursor->size != LEAST_SIZE)
        return pst_fail(reterr, PST_EUNSUPPORTED, "the cursor has layout %u; this library reads layout %u",
                        (unsigned)get(cursor->bytes + 4, 4), VERSION);
    *ret = (pst_position){.fingerprint = get(cursor->bytes + 8, 8),
                          .seed = get(cursor->bytes + 16, 8),
                          .epoch = get(cursor->bytes + 24, 8),
                          .next = get(cursor->bytes + 32, 8)};
    return PST_OK;
}
