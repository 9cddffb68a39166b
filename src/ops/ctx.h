/* ctx.h: the element at hand on its worker: who it is, its randomness, its scratch memory. */
#ifndef OPS_CTX_H
#define OPS_CTX_H

#include "base/arena.h"
#include "base/random.h"
#include <penstock/op.h>
#include <penstock/record.h>

struct entropy;

struct pst_ctx {
    uint64_t seed, epoch;    /* of the pipeline; the epoch counts every pass, those of `repeat` too */
    uint64_t sample;         /* the source's number of it: global, the same on every rank */
    struct entropy *entropy; /* indexes of the source's JPEGs; NULL: there are none */
    struct arena scratch;    /* reset by the engine after each element */
    struct random random;    /* through ctx_random: it is keyed by the first draw */
    uint32_t op;             /* ordinal of the operation that `random` is keyed for */
    pst_cause cause;         /* set by a fused pass that fails: that of the operation at fault */
};

/* Before an operation runs: its randomness starts afresh, keyed by its place in the user's chain. */
void ctx_enter(pst_ctx *ctx, uint32_t ordinal);
/* For draws that pst_random does not offer. */
struct random *ctx_random(pst_ctx *ctx);

#endif
