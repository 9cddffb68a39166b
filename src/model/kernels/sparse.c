/* sparse.c: weights for sparse kernels, and which kernel runs. */
#include "model/kernels/sparse.h"

#include "base/cpu.h"

#ifdef __x86_64__
extern const struct sparse_kernel sparse_kernel_avx2, sparse_kernel_avx512;
#endif

const struct sparse_kernel *sparse_kernel(unsigned features)
{
#ifdef __x86_64__
    if ((features & CPU_AVX2) && (features & CPU_AVX512))
        return &sparse_kernel_avx512;
    if (features & CPU_AVX2)
        return &sparse_kernel_avx2;
#endif
    (void)features;
    return NULL;
}

size_t sparse_count(const float *kernel, size_t ci, size_t co)
{
    size_t count = 0;
    for (size_t i = 0; i < ci * co; i++)
        count += kernel[i] != 0;
    return count;
}

void sparse_pack(const float *kernel, size_t ci, size_t co, size_t block, struct sparse_term *ret, uint32_t *ret_first)
{
    uint32_t count = 0;
    for (size_t o = 0; o < co; o++) {
        ret_first[o] = count;
        for (size_t i = 0; i < ci; i++)
            if (kernel[i * co + o] != 0)
                ret[count++] = (struct sparse_term){.value = kernel[i * co + o], .at = (uint32_t)(i * block)};
    }
    ret_first[co] = count;
}
