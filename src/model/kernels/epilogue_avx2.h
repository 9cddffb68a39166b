/* epilogue_avx2.h: the epilogues of convolutions over a run of pixels of one row, up to 16 channels wide, from a buffer of
 * values that lie GEMM_PANEL apart. Sums are taken in float within a run and added in double. */
#ifndef MODEL_KERNELS_EPILOGUE_AVX2_H
#define MODEL_KERNELS_EPILOGUE_AVX2_H

#include "model/kernels/epilogue.h"
#include "model/kernels/number_avx2.h"

/* Where a run lies: pixels (y, x), (y, x + step), … of an image, channels from `first` on. */
struct epilogue_run {
    size_t image, y, x, step, count;
    size_t first, channels; /* up to 8 per vector */
};

GEMM_INLINE __m256 epilogue_load(const float *p, bool whole, __m256i lanes)
{
    return whole ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, lanes);
}

/* NaN stays NaN. */
GEMM_INLINE __m256 epilogue_clamp(__m256 v, __m256 low, __m256 high)
{
    return _mm256_min_ps(high, _mm256_max_ps(low, v));
}

GEMM_INLINE void epilogue_add_sums(__m256 v, size_t channels, double *to)
{
    float values[8];
    if (channels >= 8) {
        __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(v)), high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
        _mm256_storeu_pd(to, _mm256_add_pd(_mm256_loadu_pd(to), low));
        _mm256_storeu_pd(to + 4, _mm256_add_pd(_mm256_loadu_pd(to + 4), high));
        return;
    }
    _mm256_storeu_ps(values, v);
    for (size_t k = 0; k < channels; k++)
        to[k] += (double)values[k];
}

/* Where a run begins; NULL: absent. */
GEMM_INLINE const void *epilogue_numbers(const struct conv_numbers *e, enum number n, const struct epilogue_run *r)
{
    const struct conv_strides *s = &e->strides;
    return e->data ? number_from(e->data, n, r->image * s->image + r->y * s->row + r->x * s->pixel + r->first) : NULL;
}

/* Eight channels (`whole`) or fewer; values `pitch` apart. */
GEMM_INLINE void epilogue_vector(const struct conv_job *j, enum conv_epilogue kind, enum number number, bool whole,
                                 const struct epilogue_run *r, const float *value, size_t pitch)
{
    const __m256i lanes = gemm_lanes(r->channels);
    const __m256 zero = _mm256_setzero_ps(), low = _mm256_set1_ps(j->low), high = _mm256_set1_ps(j->high);
    const __m256 shift = j->shift ? epilogue_load(j->shift + r->first, whole, lanes) : zero;
    const __m256 bias = j->bias ? epilogue_load(j->bias + r->first, whole, lanes) : zero;
    const struct conv_strides *s = &j->out_strides;
    const float *mask = j->mask.data ? extra_pixel(&j->mask, r->image, r->y, r->x) + r->first : NULL;
    const void *add = epilogue_numbers(&j->add, number, r), *z = epilogue_numbers(&j->z, number, r);
    void *out = number_at(j->out, number, r->image * s->image + r->y * s->row + r->x * s->pixel + r->first);
    const size_t next = r->step * s->pixel, next_add = r->step * j->add.strides.pixel, next_mask = r->step * j->mask.strides.pixel;
    const size_t next_z = r->step * j->z.strides.pixel;
    const bool sums = j->sum && kind != CONV_CLAMP;
    __m256 sum = zero, sum2 = zero;
    for (size_t p = 0; p < r->count; p++, value += pitch) {
        __m256 v = _mm256_loadu_ps(value);
        if (kind == CONV_RAW && sums) {
            __m256 d = _mm256_sub_ps(v, shift);
            sum = _mm256_add_ps(sum, d);
            sum2 = _mm256_fmadd_ps(d, d, sum2);
        } else if (kind == CONV_CLAMP) {
            v = _mm256_add_ps(v, bias);
            if (add)
                v = _mm256_add_ps(v, number_load8(add, number, p * next_add, whole, r->channels));
            v = epilogue_clamp(v, low, high);
        } else if (kind == CONV_GRADIENT) {
            if (add)
                v = _mm256_add_ps(v, number_load8(add, number, p * next_add, whole, r->channels));
            if (mask) {
                __m256 m = epilogue_load(mask + p * next_mask, whole, lanes);
                v = _mm256_and_ps(v, _mm256_and_ps(_mm256_cmp_ps(m, low, _CMP_GT_OQ), _mm256_cmp_ps(m, high, _CMP_LT_OQ)));
            }
            if (sums) {
                sum = _mm256_add_ps(sum, v);
                sum2 = _mm256_fmadd_ps(v, _mm256_sub_ps(number_load8(z, number, p * next_z, whole, r->channels), shift), sum2);
            }
        }
        number_store8(out, number, p * next, v, whole, r->channels);
    }
    if (sums) {
        epilogue_add_sums(sum, r->channels, j->sum + r->first);
        epilogue_add_sums(sum2, r->channels, j->sum2 + r->first);
    }
}

/* Eight channels or fewer of a run, any epilogue but CONV_POOL. */
static inline void epilogue_run(const struct conv_job *j, const struct epilogue_run *r, const float *value, size_t pitch)
{
#define RUN(kind)                                                                                                               \
    do {                                                                                                                        \
        if (r->channels < 8)                                                                                                    \
            epilogue_vector(j, kind, j->number, false, r, value, pitch);                                                        \
        else if (j->number == NUMBER_F32)                                                                                       \
            epilogue_vector(j, kind, NUMBER_F32, true, r, value, pitch);                                                        \
        else if (j->number == NUMBER_F16)                                                                                       \
            epilogue_vector(j, kind, NUMBER_F16, true, r, value, pitch);                                                        \
        else                                                                                                                    \
            epilogue_vector(j, kind, NUMBER_BF16, true, r, value, pitch);                                                       \
    } while (0)
    if (j->epilogue == CONV_RAW)
        RUN(CONV_RAW);
    else if (j->epilogue == CONV_CLAMP)
        RUN(CONV_CLAMP);
    else
        RUN(CONV_GRADIENT);
#undef RUN
}

/* Numbers 0 to 255 in eight lanes of 32 bits as bytes. */
GEMM_INLINE void epilogue_store_bytes(uint8_t *to, __m256i v, size_t channels)
{
    __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    uint8_t bytes[16];
    if (channels >= 8) {
        _mm_storel_epi64((__m128i *)(void *)to, _mm_packus_epi16(words, words));
        return;
    }
    _mm_storeu_si128((__m128i *)(void *)bytes, _mm_packus_epi16(words, words));
    memcpy(to, bytes, channels);
}

/* CONV_POOL: rows y and y + 1 of a run whose first and last pixels pair up; values of row y + 1 begin at `below`. */
GEMM_INLINE void epilogue_pool_numbers(const struct conv_job *j, enum number number, const struct epilogue_run *r, const float *value,
                                       const float *below, size_t pitch)
{
    const bool whole = r->channels >= 8;
    const __m256i lanes = gemm_lanes(r->channels), blocked = _mm256_set1_epi32(255);
    const __m256 low = _mm256_set1_ps(j->low), high = _mm256_set1_ps(j->high);
    const __m256 bias = j->bias ? epilogue_load(j->bias + r->first, whole, lanes) : _mm256_setzero_ps();
    const struct conv_strides *s = &j->out_strides, *t = &j->argmax_strides;
    void *out = number_at(j->out, number, r->image * s->image + r->y / 2 * s->row + r->x / 2 * s->pixel + r->first);
    uint8_t *argmax = !j->argmax ? NULL : j->argmax + r->image * t->image + r->y / 2 * t->row + r->x / 2 * t->pixel + r->first;
    for (size_t p = 0; p + 1 < r->count; p += 2) {
        const float *taps[4] = {value + p * pitch, value + (p + 1) * pitch, below + p * pitch, below + (p + 1) * pitch};
        __m256 best = epilogue_clamp(_mm256_add_ps(_mm256_loadu_ps(taps[0]), bias), low, high);
        __m256i at = _mm256_setzero_si256();
        for (int i = 1; i < 4; i++) {
            __m256 v = epilogue_clamp(_mm256_add_ps(_mm256_loadu_ps(taps[i]), bias), low, high);
            __m256 larger = _mm256_cmp_ps(v, best, _CMP_GT_OQ);
            best = _mm256_blendv_ps(best, v, larger);
            at = _mm256_blendv_epi8(at, _mm256_set1_epi32(i), _mm256_castps_si256(larger));
        }
        __m256 passes = _mm256_and_ps(_mm256_cmp_ps(best, low, _CMP_GT_OQ), _mm256_cmp_ps(best, high, _CMP_LT_OQ));
        number_store8(out, number, p / 2 * s->pixel, best, whole, r->channels);
        if (argmax)
            epilogue_store_bytes(argmax + p / 2 * t->pixel, _mm256_blendv_epi8(blocked, at, _mm256_castps_si256(passes)), r->channels);
    }
}

static inline void epilogue_pool_run(const struct conv_job *j, const struct epilogue_run *r, const float *value, const float *below,
                                     size_t pitch)
{
    if (j->number == NUMBER_F32)
        epilogue_pool_numbers(j, NUMBER_F32, r, value, below, pitch);
    else
        epilogue_pool_numbers(j, j->number, r, value, below, pitch);
}

#endif
