/* direct.h: direct convolution kernels. */
#ifndef MODEL_KERNELS_DIRECT_H
#define MODEL_KERNELS_DIRECT_H

#include "model/kernels/conv.h"

extern const struct conv_kernel conv_direct_c, conv_wino4_c, conv_wino4_avx2;
#ifdef __x86_64__
extern const struct conv_kernel conv_direct_avx2, conv_depthwise_avx2, conv_wino4_few_avx2;
extern const struct conv_kernel conv_wino4_avx512, conv_wino4_few_avx512;
extern const struct conv_kernel conv_direct_avx512, conv_depthwise_avx512;

/* The same for convolutions with groups or dilation (conv_apart.c). */
extern const struct conv_kernel conv_wino4_apart_avx2, conv_direct_apart_avx2, conv_depthwise_apart_avx2;
extern const struct conv_kernel conv_wino4_apart_avx512, conv_direct_apart_avx512, conv_depthwise_apart_avx512;

/* Depthwise 3 × 3 with CONV_CLAMP and no addition, without copies, for predictions; weights as the depthwise kernel of the same instruction
 * set packs them. The takes functions look at shape, sizes and padding only. */
bool conv_depthwise_clamp_takes_avx2(const struct conv_job *j);
void conv_depthwise_clamp_avx2(const struct conv_job *j);
bool conv_depthwise_clamp_takes_avx512(const struct conv_job *j);
void conv_depthwise_clamp_avx512(const struct conv_job *j);

/* Gradients through 2 × 2 pooling; weights and sums as conv_direct_avx2 lays them out. */
bool conv_pooled_takes_avx2(const struct conv_shape *s);
bool conv_pooled_takes_data_avx2(const struct conv_shape *s);
void conv_pooled_data_avx2(const struct conv_job *d, const struct conv_pooled_job *j, void *scratch);
size_t conv_pooled_scratch_avx2(void);
void conv_pooled_gradient_avx2(const struct conv_pooled_job *j, void *scratch);
bool conv_pooled_takes_avx512(const struct conv_shape *s);
bool conv_pooled_takes_data_avx512(const struct conv_shape *s);
void conv_pooled_data_avx512(const struct conv_job *d, const struct conv_pooled_job *j, void *scratch);
size_t conv_pooled_scratch_avx512(void);
void conv_pooled_gradient_avx512(const struct conv_pooled_job *j, void *scratch);
#endif

#endif
