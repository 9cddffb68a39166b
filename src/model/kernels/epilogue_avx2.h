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

/* What a run reads and writes, and by how much each moves from pixel to pixel. */
struct epilogue_terms {
    const float *mask;
    const void *add, *z;
    void *out;
    size_t next, next_add, next_mask, next_z;
    __m256 low, high, shift, bias;
    __m256i lanes;
    size_t channels;
    bool sums;
};

/* Pixel p of a run, whose value is `v`. */
GEMM_INLINE void epilogue_one(const struct epilogue_terms *t, enum conv_epilogue kind, enum number number, bool whole, size_t p, __m256 v,
                              __m256 *sum, __m256 *sum2)
{
    if (kind == CONV_RAW && t->sums) {
        __m256 d = _mm256_sub_ps(v, t->shift);
        *sum = _mm256_add_ps(*sum, d);
        *sum2 = _mm256_fmadd_ps(d, d, *sum2);
    } else if (kind == CONV_CLAMP) {
        v = _mm256_add_ps(v, t->bias);
        if (t->add)
            v = _mm256_add_ps(v, number_load8(t->add, number, p * t->next_add, whole, t->channels));
        v = epilogue_clamp(v, t->low, t->high);
    } else if (kind == CONV_GRADIENT) {
        if (t->add)
            v = _mm256_add_ps(v, number_load8(t->add, number, p * t->next_add, whole, t->channels));
        if (t->mask) {
            __m256 m = epilogue_load(t->mask + p * t->next_mask, whole, t->lanes);
            v = _mm256_and_ps(v, _mm256_and_ps(_mm256_cmp_ps(m, t->low, _CMP_GT_OQ), _mm256_cmp_ps(m, t->high, _CMP_LT_OQ)));
        }
        if (t->sums) {
            *sum = _mm256_add_ps(*sum, v);
            *sum2 = _mm256_fmadd_ps(v, _mm256_sub_ps(number_load8(t->z, number, p * t->next_z, whole, t->channels), t->shift), *sum2);
        }
    }
    number_store8(t->out, number, p * t->next, v, whole, t->channels);
}

GEMM_INLINE struct epilogue_terms epilogue_terms_make(const struct conv_job *j, enum conv_epilogue kind, enum number number, bool whole,
                                                      const struct epilogue_run *r)
{
    const __m256i lanes = gemm_lanes(r->channels);
    const __m256 zero = _mm256_setzero_ps();
    const struct conv_strides *s = &j->out_strides;
    return (struct epilogue_terms){.mask = j->mask.data ? extra_pixel(&j->mask, r->image, r->y, r->x) + r->first : NULL,
                                   .add = epilogue_numbers(&j->add, number, r),
                                   .z = epilogue_numbers(&j->z, number, r),
                                   .out = number_at(j->out, number, r->image * s->image + r->y * s->row + r->x * s->pixel + r->first),
                                   .next = r->step * s->pixel,
                                   .next_add = r->step * j->add.strides.pixel,
                                   .next_mask = r->step * j->mask.strides.pixel,
                                   .next_z = r->step * j->z.strides.pixel,
                                   .low = _mm256_set1_ps(j->low),
                                   .high = _mm256_set1_ps(j->high),
                                   .shift = j->shift ? epilogue_load(j->shift + r->first, whole, lanes) : zero,
                                   .bias = j->bias ? epilogue_load(j->bias + r->first, whole, lanes) : zero,
                                   .lanes = lanes,
                                   .channels = r->channels,
                                   .sums = j->sum && kind != CONV_CLAMP};
}

/* Eight channels (`whole`) or fewer; values `pitch` apart. Two sums take turns: each addition waits for the one before it. */
GEMM_INLINE void epilogue_vector(const struct conv_job *j, enum conv_epilogue kind, enum number number, bool whole,
                                 const struct epilogue_run *r, const float *value, size_t pitch)
{
    const struct epilogue_terms t = epilogue_terms_make(j, kind, number, whole, r);
    const __m256 zero = _mm256_setzero_ps();
    __m256 sum[2] = {zero, zero}, sum2[2] = {zero, zero};
    size_t p = 0;
    for (; p + 2 <= r->count; p += 2, value += 2 * pitch) {
        epilogue_one(&t, kind, number, whole, p, _mm256_loadu_ps(value), &sum[0], &sum2[0]);
        epilogue_one(&t, kind, number, whole, p + 1, _mm256_loadu_ps(value + pitch), &sum[1], &sum2[1]);
    }
    if (p < r->count)
        epilogue_one(&t, kind, number, whole, p, _mm256_loadu_ps(value), &sum[0], &sum2[0]);
    if (t.sums) {
        epilogue_add_sums(_mm256_add_ps(sum[0], sum[1]), r->channels, j->sum + r->first);
        epilogue_add_sums(_mm256_add_ps(sum2[0], sum2[1]), r->channels, j->sum2 + r->first);
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
    const __m256i one = _mm256_set1_epi32(1), two = _mm256_set1_epi32(2);
    for (size_t p = 0; p + 1 < r->count; p += 2) { /* rounding of a sum with the bias does not change which is larger, but for ties */
        __m256 a = _mm256_loadu_ps(value + p * pitch), b = _mm256_loadu_ps(value + (p + 1) * pitch);
        __m256 c = _mm256_loadu_ps(below + p * pitch), d = _mm256_loadu_ps(below + (p + 1) * pitch);
        __m256 upper = _mm256_max_ps(a, b), lower = _mm256_max_ps(c, d), best = _mm256_add_ps(_mm256_max_ps(upper, lower), bias);
        number_store8(out, number, p / 2 * s->pixel, epilogue_clamp(best, low, high), whole, r->channels);
        if (!argmax)
            continue;
        __m256i right = _mm256_castps_si256(_mm256_cmp_ps(b, a, _CMP_GT_OQ)), right_below = _mm256_castps_si256(_mm256_cmp_ps(d, c, _CMP_GT_OQ));
        __m256i under = _mm256_castps_si256(_mm256_cmp_ps(lower, upper, _CMP_GT_OQ));
        __m256i at = _mm256_or_si256(_mm256_and_si256(_mm256_blendv_epi8(right, right_below, under), one), _mm256_and_si256(under, two));
        __m256 passes = _mm256_and_ps(_mm256_cmp_ps(best, low, _CMP_GT_OQ), _mm256_cmp_ps(best, high, _CMP_LT_OQ));
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
