/* wino4.c: the table of the Winograd kernels and the sizes of their memory. */
#include "model/kernels/wino4.h"

#include "base/cpu.h"
#include "model/kernels/wino4_blocks.h"

void wino4_kernels_init(struct wino4_kernels *k, unsigned features)
{
    wino4_kernels_init_c(k);
#if defined(__x86_64__)
    if (features & CPU_AVX2)
        wino4_kernels_init_avx2(k);
    if (features & CPU_AVX512)
        wino4_kernels_init_avx512(k);
#else
    (void)features;
#endif
}

size_t wino4_weights_bytes(size_t ci, size_t co)
{
    return wino4_round(co, WINO4_PANEL) * WINO4_FREQS * ci * sizeof(float);
}

/* Floats of one frequency of the convolution from `ci` channels, in whole vectors of up to 16, to two panels. */
static size_t conv_pitch(size_t ci)
{
    return wino4_pitch(wino4_conv_tiles(ci), wino4_round(ci, 16)) + 2 * WINO4_PANEL_PITCH;
}

size_t wino4_scratch_bytes(size_t ci, size_t co)
{
    size_t forward = conv_pitch(ci), back = conv_pitch(co), tiles = wino4_gradient_tiles(ci, co);
    size_t gradient = wino4_pitch(tiles, wino4_round(ci, 16)) + (co + 15) / 16 * WINO4_PANEL_PITCH;
    size_t most = forward > back ? forward : back, few = WINO4_FEW_ROWS + WINO4_FREQS * (WINO4_FEW_PITCH + WINO4_PANEL_PITCH);
    size_t floats = WINO4_COLUMNS + WINO4_FREQS * (most > gradient ? most : gradient);
    return (floats > few ? floats : few) * sizeof(float);
}
