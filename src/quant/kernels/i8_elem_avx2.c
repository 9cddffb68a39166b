/* i8_elem_avx2.c: sums, maxima and conversions, 8 to 32 values at a time. What is left goes to the reference. */
#include "quant/kernels/i8.h"

#include <immintrin.h>
#include <string.h>

static struct i8_kernels plain(void)
{
    struct i8_kernels k;
    i8_kernels_c(&k);
    return k;
}

#define FAR 1024.f

/* Rounded values as integers; NaN becomes 0, as in the reference. */
static inline __m256i to_integers(__m256 x)
{
    x = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
    x = _mm256_min_ps(_mm256_max_ps(x, _mm256_set1_ps(-FAR)), _mm256_set1_ps(FAR));
    return _mm256_cvtps_epi32(x);
}

static inline __m128i to_bytes(__m256i a, __m256i b, uint8_t zero)
{
    __m256i x = _mm256_adds_epi16(_mm256_packs_epi32(a, b), _mm256_set1_epi16(zero));
    x = _mm256_permute4x64_epi64(x, 0xd8);
    return _mm_packus_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}

static inline __m256 term(const struct i8_add *a, size_t k, size_t i)
{
    __m256i q = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(a->in[k] + i)));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(q, _mm256_set1_epi32(a->zeros[k]))), _mm256_set1_ps(a->factors[k]));
}

static inline __m256i add_8(const struct i8_add *a, size_t i)
{
    __m256 sum = term(a, 0, i);
    for (size_t k = 1; k < a->terms; k++)
        sum = _mm256_add_ps(sum, term(a, k, i));
    return to_integers(sum);
}

static void add(const struct i8_add *a, size_t count, uint8_t *out)
{
    const __m128i low = _mm_set1_epi8((char)a->low), high = _mm_set1_epi8((char)a->high);
    size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m128i q = to_bytes(add_8(a, i), add_8(a, i + 8), a->zero);
        _mm_storeu_si128((void *)(out + i), _mm_min_epu8(_mm_max_epu8(q, low), high));
    }
    struct i8_add rest = *a;
    for (size_t k = 0; k < a->terms; k++)
        rest.in[k] += i;
    if (i < count)
        plain().add(&rest, count - i, out + i);
}

static void quantise(const float *in, size_t count, float scale, uint8_t zero, uint8_t *out)
{
    const __m256 s = _mm256_set1_ps(scale);
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm_storeu_si128((void *)(out + i), to_bytes(to_integers(_mm256_div_ps(_mm256_loadu_ps(in + i), s)),
                                                     to_integers(_mm256_div_ps(_mm256_loadu_ps(in + i + 8), s)), zero));
    if (i < count)
        plain().quantise(in + i, count - i, scale, zero, out + i);
}

static void dequantise(const uint8_t *in, size_t count, float scale, uint8_t zero, float *out)
{
    const __m256i z = _mm256_set1_epi32(zero);
    size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256i q = _mm256_sub_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(in + i))), z);
        _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(q)));
    }
    if (i < count)
        plain().dequantise(in + i, count - i, scale, zero, out + i);
}

static void max_into(uint8_t *out, const uint8_t *in, size_t count)
{
    size_t i = 0;
    for (; i + 16 <= count; i += 16)
        _mm_storeu_si128((void *)(out + i),
                         _mm_max_epu8(_mm_loadu_si128((const void *)(out + i)), _mm_loadu_si128((const void *)(in + i))));
    for (; i < count; i++)
        out[i] = in[i] > out[i] ? in[i] : out[i];
}

/* Windows of 2 × 2 pixels without padding, of channels in sixteens. */
static void maxpool_2(const struct i8_pool *p)
{
    size_t c = p->channels, row = p->in_w * c;
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = p->row; y < p->row_end; y++) {
            const uint8_t *in = p->in + (n * p->in_h + 2 * y) * row;
            uint8_t *out = p->out + (n * p->h + y) * p->w * c;
            for (size_t x = 0; x < p->w; x++, in += 2 * c, out += c)
                for (size_t i = 0; i < c; i += 16) {
                    __m128i a = _mm_max_epu8(_mm_loadu_si128((const void *)(in + i)), _mm_loadu_si128((const void *)(in + c + i)));
                    __m128i b = _mm_max_epu8(_mm_loadu_si128((const void *)(in + row + i)), _mm_loadu_si128((const void *)(in + row + c + i)));
                    _mm_storeu_si128((void *)(out + i), _mm_max_epu8(a, b));
                }
        }
}

static void maxpool(const struct i8_pool *p)
{
    bool inside = p->top == 0 && p->left == 0 && (p->h - 1) * p->stride + p->size <= p->in_h && (p->w - 1) * p->stride + p->size <= p->in_w;
    if (!inside) {
        plain().maxpool(p);
        return;
    }
    if (p->size == 2 && p->stride == 2 && p->channels % 16 == 0) {
        maxpool_2(p);
        return;
    }
    for (size_t n = 0; n < p->images; n++)
        for (size_t y = p->row; y < p->row_end; y++)
            for (size_t x = 0; x < p->w; x++) {
                const uint8_t *in = p->in + ((n * p->in_h + y * p->stride) * p->in_w + x * p->stride) * p->channels;
                uint8_t *out = p->out + ((n * p->h + y) * p->w + x) * p->channels;
                memcpy(out, in, p->channels);
                for (size_t tap = 1; tap < p->size * p->size; tap++)
                    max_into(out, in + (tap / p->size * p->in_w + tap % p->size) * p->channels, p->channels);
            }
}

#define MOST_PIXELS 4096 /* whose sum fits 32 bits, and a float exactly */

static void globalavgpool(const struct i8_pool *p)
{
    size_t pixels = p->in_h * p->in_w, c = p->channels;
    float factor = p->in_scale / (p->out_scale * (float)pixels);
    if (pixels > MOST_PIXELS || c % 16) {
        plain().globalavgpool(p);
        return;
    }
    for (size_t n = 0; n < p->images; n++)
        for (size_t k = 0; k < c; k += 16) {
            const uint8_t *in = p->in + n * pixels * c + k;
            __m256i a = _mm256_set1_epi32(-(int)pixels * p->in_zero), b = a;
            for (size_t i = 0; i < pixels; i++, in += c) {
                a = _mm256_add_epi32(a, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)in)));
                b = _mm256_add_epi32(b, _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(in + 8))));
            }
            __m256 f = _mm256_set1_ps(factor);
            a = to_integers(_mm256_mul_ps(_mm256_cvtepi32_ps(a), f));
            b = to_integers(_mm256_mul_ps(_mm256_cvtepi32_ps(b), f));
            _mm_storeu_si128((void *)(p->out + n * c + k), to_bytes(a, b, p->zero));
        }
}

void i8_kernels_avx2(struct i8_kernels *k)
{
    *k = (struct i8_kernels){.add = add, .maxpool = maxpool, .globalavgpool = globalavgpool, .quantise = quantise, .dequantise = dequantise};
}
