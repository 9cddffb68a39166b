/* cast_kernels.h: declarations shared by the cast*.c files only. */
#ifndef BASE_CAST_KERNELS_H
#define BASE_CAST_KERNELS_H

#include <stddef.h>

typedef void (*cast_fn)(void *restrict to, const void *restrict from, size_t count);

/* With AVX2 and F16C. */
void cast_f16_from_f32_avx2(void *restrict to, const void *restrict from, size_t count);
void cast_f16_from_u8_avx2(void *restrict to, const void *restrict from, size_t count);
void cast_f32_from_f16_avx2(void *restrict to, const void *restrict from, size_t count);

#endif
