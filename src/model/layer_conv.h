/* layer_conv.h: the config of convolutions, for the graph and for the kernels that replace the reference. */
#ifndef MODEL_LAYER_CONV_H
#define MODEL_LAYER_CONV_H

#include "model/layer_activation.h"
#include "model/window.h"

struct conv_config {
    struct layer_config layer;
    uint64_t filters, size, stride, dilation, groups;
    const char *pad;
    int activation; /* enum activation; the graph makes a layer of it */
    bool bias;
};

static inline pst_status conv_windows(const struct conv_config *c, const struct shape *in, struct window *rows,
                                      struct window *columns, pst_error *reterr)
{
    uint32_t size = (uint32_t)c->size, stride = (uint32_t)c->stride, dilation = (uint32_t)c->dilation;
    pst_status st = window_plan(rows, c->pad, size, stride, dilation, in->h, reterr);
    return st < 0 ? st : window_plan(columns, c->pad, size, stride, dilation, in->w, reterr);
}

#endif
