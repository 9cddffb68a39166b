/* denormals.h: numbers near 0 that x86 computes with slowly: training counts them as 0, in every thread, so that bits do not depend on who adds. */
#ifndef BASE_DENORMALS_H
#define BASE_DENORMALS_H

#ifdef __SSE__
#include <immintrin.h>
#endif

/* From now on denormals are 0 in this thread. Returns what restores the state. */
static inline unsigned flush_denormals(void)
{
#ifdef __SSE__
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* as operands and as results */
    return before;
#else
    return 0;
#endif
}

static inline void restore_denormals(unsigned before)
{
#ifdef __SSE__
    _mm_setcsr(before);
#else
    (void)before;
#endif
}

#endif
