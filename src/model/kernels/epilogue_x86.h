/* epilogue_x86.h: the epilogues of convolutions over a run of pixels of one row, a vector of channels wide, from a buffer of
 * values that lie GEMM_PANEL apart. Sums are taken in float within a run and added in double. */
#ifndef MODEL_KERNELS_EPILOGUE_X86_H
#define MODEL_KERNELS_EPILOGUE_X86_H

#include "model/kernels/epilogue.h"
#include "model/kernels/vector_x86.h"

/* Where a run lies: pixels (y, x), (y, x + step), … of an image, channels from `first` on. */
struct epilogue_run {
    size_t image, y, x, step, count;
    size_t first, channels; /* up to VEC per vector */
};

GEMM_INLINE vec epilogue_load(const float *p, bool whole, vec_lanes lanes)
{
    return vec_load_lanes(p, whole, lanes);
}

/* NaN stays NaN. */
GEMM_INLINE vec epilogue_clamp(vec v, vec low, vec high)
{
    return vec_min(high, vec_max(low, v));
}

/* to += v, which is added as doubles. */
GEMM_INLINE void epilogue_add_sums(vec v, size_t channels, double *to)
{
    float values[VEC];
    if (channels >= VEC) {
        for (size_t k = 0; k < VEC; k += VEC / 2) {
#ifdef __AVX512F__
            __m512d part = _mm512_cvtps_pd(k ? _mm512_extractf32x8_ps(v, 1) : _mm512_castps512_ps256(v));
#else
            __m256d part = _mm256_cvtps_pd(k ? _mm256_extractf128_ps(v, 1) : _mm256_castps256_ps128(v));
#endif
            VEC_OF(storeu_pd)(to + k, VEC_OF(add_pd)(VEC_OF(loadu_pd)(to + k), part));
        }
        return;
    }
    vec_store(values, v);
    for (size_t k = 0; k < channels; k++)
        to[k] += (double)values[k];
}

/* Where a run begins; NULL: absent. */
GEMM_INLINE const void *epilogue_numbers(const struct conv_numbers *e, enum number n, const struct epilogue_run *r)
{
    const struct conv_strides *s = &e->strides;
    return e->data ? number_from(e->data, n, r->image * s->image + r->y * s->row + r->x * s->pixel + r->first) : NULL;
}

/* Whether whole vectors of `out` are stored past the caches: lines of float32, unless `add` has just read them. */
GEMM_INLINE bool epilogue_streams(const struct conv_job *j)
{
    const struct conv_strides *s = &j->out_strides;
    return VEC_IS_LINE && j->streams && j->number == NUMBER_F32 && (uintptr_t)j->out % 64 == 0 && (s->image | s->row | s->pixel) % VEC == 0 &&
           j->add.data != j->out;
}

/* After the last epilogue of a job: other threads see what was stored past the caches. */
GEMM_INLINE void epilogue_end(const struct conv_job *j)
{
    if (epilogue_streams(j))
        _mm_sfence();
}

/* Values of `out` from number `at` on; `streams`: see epilogue_streams. */
GEMM_INLINE void epilogue_store(void *out, enum number number, size_t at, vec v, bool streams, bool whole, size_t channels)
{
    if (VEC_IS_LINE && number == NUMBER_F32 && whole && streams)
        vec_stream((float *)out + at, v);
    else
        vec_store_number(out, number, at, v, whole, channels);
}

/* What a run reads and writes, and by how much each moves from pixel to pixel. */
struct epilogue_terms {
    const float *mask;
    const void *add, *z;
    void *out;
    size_t next, next_add, next_mask, next_z;
    vec low, high, shift, bias;
    vec_lanes lanes;
    size_t channels;
    bool sums, streams;
};

/* Pixel p of a run, whose value is `v`. */
GEMM_INLINE void epilogue_one(const struct epilogue_terms *t, enum conv_epilogue kind, enum number number, bool whole, size_t p, vec v,
                              vec *sum, vec *sum2)
{
    if (kind == CONV_RAW && t->sums) {
        vec d = vec_sub(v, t->shift);
        *sum = vec_add(*sum, d);
        *sum2 = vec_fma(d, d, *sum2);
    } else if (kind == CONV_CLAMP) {
        v = vec_add(v, t->bias);
        if (t->add)
            v = vec_add(v, vec_load_number(t->add, number, p * t->next_add, whole, t->channels));
        v = epilogue_clamp(v, t->low, t->high);
    } else if (kind == CONV_GRADIENT) {
        if (t->add)
            v = vec_add(v, vec_load_number(t->add, number, p * t->next_add, whole, t->channels));
        if (t->mask) {
            vec m = epilogue_load(t->mask + p * t->next_mask, whole, t->lanes);
            v = vec_keep(v, test_both(vec_more(m, t->low), vec_more(t->high, m)));
        }
        if (t->sums) {
            *sum = vec_add(*sum, v);
            *sum2 = vec_fma(v, vec_sub(vec_load_number(t->z, number, p * t->next_z, whole, t->channels), t->shift), *sum2);
        }
    }
    epilogue_store(t->out, number, p * t->next, v, t->streams, whole, t->channels);
}

GEMM_INLINE struct epilogue_terms epilogue_terms_make(const struct conv_job *j, enum conv_epilogue kind, enum number number, bool whole,
                                                      const struct epilogue_run *r)
{
    const vec_lanes lanes = vec_first(r->channels);
    const vec zero = vec_zero();
    const struct conv_strides *s = &j->out_strides;
    return (struct epilogue_terms){.mask = j->mask.data ? extra_pixel(&j->mask, r->image, r->y, r->x) + r->first : NULL,
                                   .add = epilogue_numbers(&j->add, number, r),
                                   .z = epilogue_numbers(&j->z, number, r),
                                   .out = number_at(j->out, number, r->image * s->image + r->y * s->row + r->x * s->pixel + r->first),
                                   .next = r->step * s->pixel,
                                   .next_add = r->step * j->add.strides.pixel,
                                   .next_mask = r->step * j->mask.strides.pixel,
                                   .next_z = r->step * j->z.strides.pixel,
                                   .low = vec_set(j->low),
                                   .high = vec_set(j->high),
                                   .shift = j->shift ? epilogue_load(j->shift + r->first, whole, lanes) : zero,
                                   .bias = j->bias ? epilogue_load(j->bias + r->first, whole, lanes) : zero,
                                   .lanes = lanes,
                                   .channels = r->channels,
                                   .sums = j->sum && kind != CONV_CLAMP,
                                   .streams = epilogue_streams(j)};
}

/* A vector of channels (`whole`) or fewer; values `pitch` apart. Two sums take turns: each addition waits for the one before it. */
GEMM_INLINE void epilogue_vector(const struct conv_job *j, enum conv_epilogue kind, enum number number, bool whole,
                                 const struct epilogue_run *r, const float *value, size_t pitch)
{
    const struct epilogue_terms t = epilogue_terms_make(j, kind, number, whole, r);
    const vec zero = vec_zero();
    vec sum[2] = {zero, zero}, sum2[2] = {zero, zero};
    size_t p = 0;
    for (; p + 2 <= r->count; p += 2, value += 2 * pitch) {
        epilogue_one(&t, kind, number, whole, p, vec_load(value), &sum[0], &sum2[0]);
        epilogue_one(&t, kind, number, whole, p + 1, vec_load(value + pitch), &sum[1], &sum2[1]);
    }
    if (p < r->count)
        epilogue_one(&t, kind, number, whole, p, vec_load(value), &sum[0], &sum2[0]);
    if (t.sums) {
        epilogue_add_sums(vec_add(sum[0], sum[1]), r->channels, j->sum + r->first);
        epilogue_add_sums(vec_add(sum2[0], sum2[1]), r->channels, j->sum2 + r->first);
    }
}

/* A vector of channels or fewer of a run, any epilogue but CONV_POOL. */
static inline void epilogue_run(const struct conv_job *j, const struct epilogue_run *r, const float *value, size_t pitch)
{
#define RUN(kind)                                                                                                               \
    do {                                                                                                                        \
        if (r->channels < VEC)                                                                                                  \
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

/* CONV_POOL: rows y and y + 1 of a run whose first and last pixels pair up; values of row y + 1 begin at `below`. */
GEMM_INLINE void epilogue_pool_numbers(const struct conv_job *j, enum number number, const struct epilogue_run *r, const float *value,
                                       const float *below, size_t pitch)
{
    const bool whole = r->channels >= VEC, streams = epilogue_streams(j);
    const vec_lanes lanes = vec_first(r->channels);
    const vec low = vec_set(j->low), high = vec_set(j->high);
    const vec bias = j->bias ? epilogue_load(j->bias + r->first, whole, lanes) : vec_zero();
    const struct conv_strides *s = &j->out_strides, *t = &j->argmax_strides;
    void *out = number_at(j->out, number, r->image * s->image + r->y / 2 * s->row + r->x / 2 * s->pixel + r->first);
    uint8_t *argmax = !j->argmax ? NULL : j->argmax + r->image * t->image + r->y / 2 * t->row + r->x / 2 * t->pixel + r->first;
    for (size_t p = 0; p + 1 < r->count; p += 2) { /* rounding of a sum with the bias does not change which is larger, but for ties */
        vec a = vec_load(value + p * pitch), b = vec_load(value + (p + 1) * pitch);
        vec c = vec_load(below + p * pitch), d = vec_load(below + (p + 1) * pitch);
        vec upper = vec_max(a, b), lower = vec_max(c, d), best = vec_add(vec_max(upper, lower), bias);
        epilogue_store(out, number, p / 2 * s->pixel, epilogue_clamp(best, low, high), streams, whole, r->channels);
        if (!argmax)
            continue;
        vec_test under = vec_more(lower, upper), right = test_choose(under, vec_more(d, c), vec_more(b, a));
        vec_test passes = test_both(vec_more(best, low), vec_more(high, best));
        vec_store_place(argmax + p / 2 * t->pixel, right, under, passes, whole, r->channels);
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
