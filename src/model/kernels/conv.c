/* conv.c: the order in which convolution kernels are asked. */
#include "model/kernels/conv.h"

#include "base/cpu.h"
#include "model/kernels/direct.h"

#include <string.h>

static const struct {
    const struct conv_kernel *kernel;
    unsigned features; /* that it needs */
} candidates[] = {
#ifdef __x86_64__
    {&conv_wino4_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_wino4_few_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_wino4_avx2, CPU_AVX2},
    {&conv_wino4_few_avx2, CPU_AVX2},
    {&conv_direct_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_direct_avx2, CPU_AVX2},
    {&conv_depthwise_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_depthwise_avx2, CPU_AVX2},
    {&conv_wino4_apart_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_wino4_apart_avx2, CPU_AVX2},
    {&conv_direct_apart_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_direct_apart_avx2, CPU_AVX2},
    {&conv_depthwise_apart_avx512, CPU_AVX2 | CPU_AVX512},
    {&conv_depthwise_apart_avx2, CPU_AVX2},
#endif
    {&conv_wino4_c, 0},
    {&conv_direct_c, 0},
};

const struct conv_kernel *conv_kernel_at(size_t i, unsigned features)
{
    for (size_t k = 0; k < sizeof(candidates) / sizeof(candidates[0]); k++)
        if ((candidates[k].features & features) == candidates[k].features && i-- == 0)
            return candidates[k].kernel;
    return NULL;
}

bool conv_kernel_is(const struct conv_kernel *k, const char *name)
{
    static const char wide[] = " (avx512)";
    const char *own = strstr(k->name, wide), *other = strstr(name, wide);
    size_t length = own ? (size_t)(own - k->name) : strlen(k->name);
    return length == (other ? (size_t)(other - name) : strlen(name)) && memcmp(k->name, name, length) == 0;
}

/* Whether a wider one before candidate `k` computes the same. */
static bool is_narrow(size_t k, const struct conv_shape *s, unsigned features)
{
    for (size_t i = 0; i < k; i++)
        if ((candidates[i].features & features) == candidates[i].features && candidates[i].kernel->takes(s) &&
            conv_kernel_is(candidates[i].kernel, candidates[k].kernel->name))
            return true;
    return false;
}

const struct conv_kernel *conv_kernel_rival(size_t i, const struct conv_shape *s, unsigned features)
{
    bool fast = false; /* one for special instructions takes the shape */
    for (size_t k = 0; k < sizeof(candidates) / sizeof(candidates[0]); k++) {
        if ((candidates[k].features & features) != candidates[k].features || !candidates[k].kernel->takes(s) || (fast && !candidates[k].features) ||
            is_narrow(k, s, features))
            continue;
        fast |= candidates[k].features != 0;
        if (i-- == 0)
            return candidates[k].kernel;
    }
    return NULL;
}

const struct conv_kernel *conv_kernel_find(const struct conv_shape *s, unsigned features)
{
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++)
        if ((candidates[i].features & features) == candidates[i].features && candidates[i].kernel->takes(s))
            return candidates[i].kernel;
    return NULL;
}
