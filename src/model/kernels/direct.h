/* direct.h: direct convolution kernels. */
#ifndef MODEL_KERNELS_DIRECT_H
#define MODEL_KERNELS_DIRECT_H

#include "model/kernels/conv.h"

extern const struct conv_kernel conv_direct_c, conv_wino4;
#ifdef __x86_64__
extern const struct conv_kernel conv_direct_avx2, conv_depthwise_avx2;
#endif

#endif
