/* kernels.c: the table of kernels, chosen once. */
#include "codec/jpeg/kernels.h"

#include "base/cpu.h"

#include <pthread.h>

void jpeg_kernels_init(struct jpeg_kernels *k, unsigned features)
{
    jpeg_kernels_init_runs_c(k);
    jpeg_kernels_init_transforms_c(k);
    jpeg_kernels_init_colours_c(k);
#if defined(__x86_64__)
    if (features & CPU_AVX2) { /* with BMI2 */
        jpeg_kernels_init_runs_bmi2(k);
        jpeg_kernels_init_transforms_avx2(k);
        jpeg_kernels_init_colours_avx2(k);
    }
#endif
    (void)features;
}

static struct jpeg_kernels best;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void choose(void)
{
    jpeg_kernels_init(&best, cpu_features());
}

const struct jpeg_kernels *jpeg_kernels(void)
{
    pthread_once(&chosen, choose);
    return &best;
}
