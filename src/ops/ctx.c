/* ctx.c: what an operation may use while it runs: random numbers of the current element, and memory until the element is
 * done. */
#include "ops/ctx.h"

#include <stdint.h>

#define ALIGNMENT ((uintptr_t)64)

void ctx_enter(pst_ctx *ctx, uint32_t ordinal)
{
    ctx->op = ordinal;
    ctx->random.counter = 0; /* the rest is derived by the first draw: most operations never make one */
    ctx->random.left = 0;
}

struct random *ctx_random(pst_ctx *ctx)
{
    if (ctx->random.counter == 0)
        random_init(&ctx->random, ctx->seed, ctx->epoch, ctx->sample, ctx->op);
    return &ctx->random;
}

uint64_t pst_random(pst_ctx *ctx)
{
    return random_u64(ctx_random(ctx));
}

double pst_random_unit(pst_ctx *ctx)
{
    return random_unit(ctx_random(ctx));
}

void *pst_scratch(pst_ctx *ctx, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT)
        return NULL;
    char *block = arena_alloc(&ctx->scratch, size + ALIGNMENT - 1);
    return block ? block + (-(uintptr_t)block & (ALIGNMENT - 1)) : NULL;
}
