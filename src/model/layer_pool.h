/* layer_pool.h: the config of pools. */
#ifndef MODEL_LAYER_POOL_H
#define MODEL_LAYER_POOL_H

#include "model/window.h"

struct pool_config {
    struct layer_config layer;
    uint64_t size, stride; /* stride 0: the size */
    const char *pad;
};

static inline pst_status pool_windows(const struct pool_config *c, const struct shape *in, struct window *rows,
                                      struct window *columns, pst_error *reterr)
{
    uint32_t size = (uint32_t)c->size, stride = (uint32_t)(c->stride ? c->stride : c->size);
    pst_status st = window_plan(rows, c->pad, size, stride, 1, in->h, reterr);
    return st < 0 ? st : window_plan(columns, c->pad, size, stride, 1, in->w, reterr);
}

static inline pst_status pool_shape(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr)
{
    struct window rows, columns;
    (void)inputs;
    if (in->rank != 3)
        return pst_fail(reterr, PST_ETYPE, "a pool takes an image, found a vector of %u; flatten comes after the last pool", in->c);
    pst_status st = pool_windows(config, in, &rows, &columns, reterr);
    if (st == PST_OK)
        *ret = (struct shape){.rank = 3, .h = rows.out, .w = columns.out, .c = in->c};
    return st;
}

#endif
