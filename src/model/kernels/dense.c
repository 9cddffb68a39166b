/* dense.c: which kernels run dense layers. */
#include "model/kernels/dense.h"

#include "base/cpu.h"

#ifdef __x86_64__
extern const struct dense_kernels dense_kernels_avx2, dense_kernels_avx512;
#endif

const struct dense_kernels *dense_kernels(unsigned features)
{
#ifdef __x86_64__
    if (features & CPU_AVX512)
        return &dense_kernels_avx512;
    if (features & CPU_AVX2)
        return &dense_kernels_avx2;
#endif
    (void)features;
    return NULL;
}
