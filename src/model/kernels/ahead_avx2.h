/* ahead_avx2.h: fetches what is read after a call (struct conv_ahead), some cache lines with every tile that is computed: so memory
 * and arithmetic work at the same time. */
#ifndef MODEL_KERNELS_AHEAD_AVX2_H
#define MODEL_KERNELS_AHEAD_AVX2_H

#include "model/kernels/conv.h"
#include "model/kernels/gemm_avx2.h"

#define AHEAD_LINE 64

struct ahead {
    const struct conv_ahead *of;
    size_t number, at; /* which part, and where in it */
    size_t lines;      /* per tile */
};

/* For a call that computes `tiles` tiles. */
GEMM_INLINE struct ahead ahead_make(const struct conv_ahead *of, size_t tiles)
{
    size_t lines = 0;
    for (size_t i = 0; i < CONV_AHEADS && of->data[i]; i++)
        lines += (of->bytes[i] + AHEAD_LINE - 1) / AHEAD_LINE;
    return (struct ahead){.of = of, .lines = tiles ? (lines + tiles - 1) / tiles : 0};
}

GEMM_INLINE void ahead_fetch(struct ahead *a)
{
    for (size_t i = 0; i < a->lines; i++, a->at += AHEAD_LINE) {
        if (a->at >= a->of->bytes[a->number]) {
            a->at = 0;
            if (++a->number == CONV_AHEADS || !a->of->data[a->number]) {
                a->lines = 0;
                return;
            }
        }
        _mm_prefetch((const char *)a->of->data[a->number] + a->at, _MM_HINT_T1);
    }
}

#endif
