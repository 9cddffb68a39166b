/* elem.c: which level of the passes over pixels runs. */
#include "model/kernels/elem.h"

#include "base/cpu.h"

extern const struct elem_kernels elem_kernels_c;
#ifdef __x86_64__
extern const struct elem_kernels elem_kernels_avx2, elem_kernels_avx512;
#endif

const struct elem_kernels *elem_kernels(unsigned features)
{
#ifdef __x86_64__
    if (features & CPU_AVX512)
        return &elem_kernels_avx512;
    if (features & CPU_AVX2)
        return &elem_kernels_avx2;
#endif
    (void)features;
    return &elem_kernels_c;
}
