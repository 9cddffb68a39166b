/* i8.c: the order in which integer kernels are asked. */
#include "quant/kernels/i8.h"

#include "base/cpu.h"

static const struct {
    const struct i8_kernel *kernel;
    unsigned features; /* that it needs */
    bool large;        /* packed weights are much larger than weights */
} candidates[] = {
#ifdef __x86_64__
    {&i8_gemm_vnni, CPU_VNNI, false}, /* faster than Winograd's with 16-bit products */
    {&i8_depthwise3_vnni, CPU_VNNI, false},
    {&i8_wino4_avx2, CPU_AVX2, true},
    {&i8_depthwise3_avx2, CPU_AVX2, false},
    {&i8_depthwise_avx2, CPU_AVX2, false},
    {&i8_gemm7_avx2, CPU_AVX2, false},
    {&i8_gemm8_avx2, CPU_AVX2, false},
#endif
    {&i8_conv_c, 0, false},
};

const struct i8_kernel *i8_kernel_at(size_t i, unsigned features, bool small)
{
    for (size_t k = 0; k < sizeof(candidates) / sizeof(candidates[0]); k++)
        if ((candidates[k].features & features) == candidates[k].features && !(small && candidates[k].large) && i-- == 0)
            return candidates[k].kernel;
    return NULL;
}

void i8_kernels_init(struct i8_kernels *k, unsigned features)
{
    i8_kernels_c(k);
#ifdef __x86_64__
    if (features & CPU_AVX2)
        i8_kernels_avx2(k);
    if (features & CPU_AVX512)
        i8_kernels_avx512(k);
#else
    (void)features;
#endif
}
