/* window.h: where the windows of convolutions and pools lie. */
#ifndef MODEL_WINDOW_H
#define MODEL_WINDOW_H

#include "model/layer.h"

/* Along one axis. */
struct window {
    uint32_t size, stride, dilation;
    uint32_t before; /* zeros before the first value; those after the last follow from `out` */
    uint32_t in, out;
};

/* `pad` is "valid", "same" (out = ceil(in / stride); an odd zero comes after the data, as in TensorFlow) or a number of zeros
 * on either side. */
pst_status window_plan(struct window *ret, const char *pad, uint32_t size, uint32_t stride, uint32_t dilation, uint32_t in,
                       pst_error *reterr);

/* Input position of tap k of output o; false: it lies in the padding. */
static inline bool window_at(const struct window *w, uint32_t o, uint32_t k, uint32_t *ret)
{
    int64_t at = (int64_t)o * w->stride + (int64_t)k * w->dilation - w->before;
    *ret = (uint32_t)at;
    return at >= 0 && at < w->in;
}

#endif
