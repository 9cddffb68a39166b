/* window.c: see window.h. */
#include "model/window.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PAD 65535

static bool pad_number(const char *text, uint64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    *ret = strtoull(text, &end, 10);
    return *end == '\0' && *ret <= MAX_PAD;
}

pst_status window_plan(struct window *ret, const char *pad, uint32_t size, uint32_t stride, uint32_t dilation, uint32_t in,
                       pst_error *reterr)
{
    uint64_t reach = (uint64_t)(size - 1) * dilation + 1, each = 0;
    struct window w = {.size = size, .stride = stride, .dilation = dilation, .in = in};
    if (strcmp(pad, "same") == 0) {
        w.out = (in + stride - 1) / stride;
        uint64_t needed = (uint64_t)(w.out - 1) * stride + reach;
        w.before = needed > in ? (uint32_t)((needed - in) / 2) : 0;
    } else if (strcmp(pad, "valid") == 0 || pad_number(pad, &each)) {
        if (in + 2 * each < reach)
            return pst_fail(reterr, PST_EINVAL,
                            "a window of %" PRIu64 " does not fit into %u values; use pad=same, a smaller window, or fewer pools",
                            reach, in);
        w.before = (uint32_t)each;
        w.out = (uint32_t)((in + 2 * each - reach) / stride + 1);
    } else {
        return pst_fail(reterr, PST_EINVAL, "pad=%s; expected same, valid or a number from 0 to %d", pad, MAX_PAD);
    }
    *ret = w;
    return PST_OK;
}
