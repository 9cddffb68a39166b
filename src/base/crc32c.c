/* crc32c.c: the reference (slicing by 8) and the choice between it and the kernels.
 *
 * The choice is made at the first call and stored; two threads that do so at once store the same value. */
#include "base/crc32c.h"

#include "base/cpu.h"
#include "base/crc32c_kernels.h"
#include "base/le.h"

#include <pthread.h>
#include <stdatomic.h>

static uint32_t slices[8][256]; /* [k][b]: byte b followed by k zero bytes */
static pthread_once_t slices_filled = PTHREAD_ONCE_INIT;

static void fill_slices(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t v = b;
        for (int bit = 0; bit < 8; bit++)
            v = crc32c_times_x(v);
        slices[0][b] = v;
    }
    for (int k = 1; k < 8; k++)
        for (int b = 0; b < 256; b++)
            slices[k][b] = slices[k - 1][b] >> 8 ^ slices[0][slices[k - 1][b] & 0xff];
}

uint32_t crc32c_c(uint32_t crc, const void *data, size_t length)
{
    const uint8_t *p = data;
    pthread_once(&slices_filled, fill_slices);
    crc = ~crc;
    for (; length >= 8; p += 8, length -= 8) {
        uint32_t a = le32(p) ^ crc, b = le32(p + 4);
        crc = slices[7][a & 0xff] ^ slices[6][a >> 8 & 0xff] ^ slices[5][a >> 16 & 0xff] ^ slices[4][a >> 24] ^
              slices[3][b & 0xff] ^ slices[2][b >> 8 & 0xff] ^ slices[1][b >> 16 & 0xff] ^ slices[0][b >> 24];
    }
    for (; length > 0; p++, length--)
        crc = crc >> 8 ^ slices[0][(crc ^ *p) & 0xff];
    return ~crc;
}

#if defined(__x86_64__)
/* A kernel's preparation is compiled with the kernel's flags: it runs only where the kernel may. */
static crc32c_fn prepared_kernel(unsigned features)
{
    static pthread_once_t sse42 = PTHREAD_ONCE_INIT, avx512 = PTHREAD_ONCE_INIT;
    if (!(features & CPU_SSE42))
        return NULL;
    pthread_once(&sse42, crc32c_sse42_prepare);
    if (!(features & CPU_CLMUL512))
        return crc32c_sse42;
    pthread_once(&avx512, crc32c_avx512_prepare);
    return crc32c_avx512;
}
#else
static crc32c_fn prepared_kernel(unsigned features)
{
    (void)features;
    return NULL;
}
#endif

crc32c_fn crc32c_best(unsigned features)
{
    crc32c_fn kernel = prepared_kernel(features);
    return kernel ? kernel : crc32c_c;
}

static uint32_t choose(uint32_t crc, const void *data, size_t length);
static _Atomic(crc32c_fn) chosen = choose;

static uint32_t choose(uint32_t crc, const void *data, size_t length)
{
    crc32c_fn best = crc32c_best(cpu_features());
    atomic_store_explicit(&chosen, best, memory_order_release);
    return best(crc, data, length);
}

uint32_t crc32c_extend(uint32_t crc, const void *data, size_t length)
{
    return atomic_load_explicit(&chosen, memory_order_acquire)(crc, data, length);
}
