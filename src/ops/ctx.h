/* ctx.h: the current element of a worker: its identity, its random stream, its scratch memory. */
#ifndef OPS_CTX_H
#define OPS_CTX_H

#include "base/arena.h"
#include "base/random.h"
#include <penstock/op.h>
#include <penstock/record.h>

struct entropy;

struct pst_ctx {
    uint64_t seed, epoch;    /* of the pipeline; the epoch counts every pass, those of `repeat` too */
    uint64_t sample;         /* its number in the source, or in all sources: global, the same on every rank */
    uint64_t number;         /* its position in the order, for a step that asks for it (ORDER_NUMBER) */
    struct entropy *entropy; /* indexes of the source's JPEGs; NULL: there are none */
    struct arena scratch;    /* reset by the engine after each element */
    struct random random;    /* use ctx_random: it is keyed at the first draw */
    uint32_t op;             /* ordinal of the operation that `random` is keyed for */
    pst_cause cause;         /* set by a failing fused pass: the cause of the operation that failed */
};

/* Call before an operation runs: starts its random stream, keyed by its place in the user's chain. */
void ctx_enter(pst_ctx *ctx, uint32_t ordinal);
/* Returns the random stream, for draws that pst_random does not offer. */
struct random *ctx_random(pst_ctx *ctx);

#endif
