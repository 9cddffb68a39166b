/* plane_axis.c: the plan of a plane's resize along one axis: which samples an output sees, with which weights, and both once
 * more in the order in which SIMD takes them.
 *
 * Made for every image, and half as long as the resize itself if it is not made with care: blocks of outputs, tap by tap, in
 * loops that a compiler turns into vector instructions. Single precision from the distance of a sample on; the positions
 * themselves are double. */
#include "image/plane.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define BLOCK 32u /* outputs at a time */

/* Few weights are bytes that add up to 127, the largest that no weight alone exceeds; 127 × 258 is 2^15 but for 2. Where some
 * are negative, the others exceed their sum, which must be less. Many weights would vanish: they get 14 bits. */
struct precision {
    int32_t total;
    uint32_t factor;
};
static const struct precision positive = {127, 258}, any_sign = {105, 312}, many = {16384, 2};

/* A filter over the span; one that antialiases is stretched when shrinking. */
struct shape {
    pst_filter filter;
    double low, scale;
    double support;      /* how far from the centre of an output its samples lie */
    float inverse;       /* of the stretch */
    uint32_t begin, end; /* samples that the span touches */
    uint32_t taps;
    struct precision precision;
};

static uint32_t taps_of(const struct shape *s, const struct plane_span *span, uint32_t out)
{
    bool same = span->high - span->low == out && floor(span->low) == span->low;
    if (s->filter == PST_FILTER_NEAREST || same)
        return 1;
    double width = ceil(2 * s->support); /* an open interval of that length holds at most this many samples */
    return width < s->end - s->begin ? (uint32_t)width : s->end - s->begin;
}

static struct shape shape_of(const struct plane_span *span, uint32_t out, pst_filter filter)
{
    struct shape s = {.filter = filter, .low = span->low, .scale = (span->high - span->low) / out};
    double stretch = s.scale > 1 && filter != PST_FILTER_BILINEAR ? s.scale : 1;
    s.support = filter == PST_FILTER_BICUBIC ? 2 * stretch : filter == PST_FILTER_AREA ? s.scale / 2 + 0.5 : stretch;
    s.inverse = (float)(1 / stretch);
    s.begin = (uint32_t)span->low;
    s.end = (uint32_t)fmin(ceil(span->high), span->size);
    s.taps = taps_of(&s, span, out);
    s.precision = s.taps > PLANE_NARROW ? many : s.taps > 1 && filter == PST_FILTER_BICUBIC ? any_sign : positive;
    return s;
}

/* ---- Memory ---- */

/* Slots of an output in a lane; the fewest at first, then as many as make lanes short enough. */
static uint32_t least_slots(uint32_t taps)
{
    return taps > 8 ? 16 : taps > 4 ? 8 : taps > 2 ? 4 : 2;
}

/* Outputs are taken 32 at a time. */
static size_t lanes_of(uint32_t count, uint32_t slots)
{
    return (count + 31u) / 32u * 2u * (size_t)slots;
}

size_t plane_axis_bytes(const struct plane_span *span, uint32_t out, pst_filter filter, uint32_t count)
{
    struct shape s = shape_of(span, out, filter);
    size_t lanes = s.taps > PLANE_NARROW ? 0 : lanes_of(count, 16);
    return s.taps * (size_t)BLOCK * sizeof(float) + count * (sizeof(uint32_t) + s.taps * sizeof(int16_t)) + 8 +
           lanes * (sizeof(uint32_t) + 32) + 32;
}

/* ---- Weights ---- */

/* A block of outputs; `weight` holds BLOCK values a tap. */
struct block {
    uint32_t begin, count; /* outputs */
    double centre[BLOCK];
    float away[BLOCK]; /* from the centre to that of the first sample */
    float norm[BLOCK];
    float *weight;
};

static void place(const struct shape *s, struct block *b, uint32_t *first)
{
    double reach = s->filter == PST_FILTER_NEAREST || s->taps == 1 ? 0 : 0.5 - s->support;
    double least = s->begin, most = (double)s->end - s->taps;
    for (uint32_t i = 0; i < b->count; i++) {
        double centre = s->low + (b->begin + i + 0.5) * s->scale, at = centre + reach;
        at = at < least ? least : at;
        at = at > most ? most : at;
        first[i] = (uint32_t)(int32_t)at;
        b->centre[i] = centre;
    }
    for (uint32_t i = 0; i < b->count; i++)
        b->away[i] = (float)((int32_t)first[i] + 0.5 - b->centre[i]);
}

static float bicubic(float x)
{
    const float a = -0.5f;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* Before they are normalised. */
static void weigh(const struct shape *s, struct block *b, uint32_t t)
{
    float *w = b->weight + (size_t)t * BLOCK, along = (float)t, inverse = s->inverse;
    if (s->filter == PST_FILTER_AREA) { /* what the output covers of the sample */
        float half = (float)(s->scale / 2);
        for (uint32_t i = 0; i < b->count; i++) {
            float x = b->away[i] + along, low = x - 0.5f > -half ? x - 0.5f : -half, high = x + 0.5f < half ? x + 0.5f : half;
            w[i] = high > low ? high - low : 0;
        }
    } else if (s->filter == PST_FILTER_BICUBIC) {
        for (uint32_t i = 0; i < b->count; i++)
            w[i] = bicubic(fabsf((b->away[i] + along) * inverse));
    } else {
        for (uint32_t i = 0; i < b->count; i++) {
            float x = 1 - fabsf((b->away[i] + along) * inverse);
            w[i] = x > 0 ? x : 0;
        }
    }
}

static void normalise(const struct shape *s, struct block *b)
{
    for (uint32_t i = 0; i < b->count; i++)
        b->norm[i] = b->weight[i];
    for (uint32_t t = 1; t < s->taps; t++)
        for (uint32_t i = 0; i < b->count; i++)
            b->norm[i] += b->weight[(size_t)t * BLOCK + i];
    for (uint32_t i = 0; i < b->count; i++)
        b->norm[i] = (float)s->precision.total / b->norm[i];
}

/* Weights are rounded one by one; what is lost or won goes to the largest, so that plain areas stay as they are. */
static void round_weights(const struct shape *s, const struct block *b, int16_t *weights)
{
    const float half = 32768.5f; /* as a sum that is never negative */
    int32_t left[BLOCK], largest[BLOCK] = {0};
    uint32_t where[BLOCK] = {0};
    for (uint32_t i = 0; i < b->count; i++)
        left[i] = s->precision.total;
    for (uint32_t t = 0; t < s->taps; t++) {
        const float *w = b->weight + (size_t)t * BLOCK;
        for (uint32_t i = 0; i < b->count; i++) {
            int32_t weight = (int32_t)(w[i] * b->norm[i] + half) - 32768;
            left[i] -= weight;
            where[i] = weight > largest[i] ? t : where[i];
            largest[i] = weight > largest[i] ? weight : largest[i];
            weights[(size_t)i * s->taps + t] = (int16_t)weight;
        }
    }
    for (uint32_t i = 0; i < b->count; i++)
        weights[(size_t)i * s->taps + where[i]] = (int16_t)(largest[i] + left[i]);
}

static void fill_block(const struct shape *s, struct block *b, uint32_t *first, int16_t *weights)
{
    place(s, b, first);
    if (s->taps == 1) {
        for (uint32_t i = 0; i < b->count; i++)
            weights[i] = (int16_t)s->precision.total;
        return;
    }
    for (uint32_t t = 0; t < s->taps; t++)
        weigh(s, b, t);
    normalise(s, b);
    round_weights(s, b, weights);
}

/* ---- Lanes ---- */

/* Whether the samples of every lane of `per` outputs fit in 16. */
static bool lanes_fit(const struct plane_axis *a, uint32_t per)
{
    for (uint32_t i = 0; i < a->out; i += per) {
        uint32_t last = i + per < a->out ? i + per - 1 : a->out - 1;
        if (a->first[last] - a->first[i] + a->taps > 16)
            return false;
    }
    return true;
}

static void fill_lane(struct plane_axis *a, uint32_t begin, uint32_t per, size_t lane)
{
    uint8_t *picks = a->picks + lane * 16;
    int8_t *factors = a->factors + lane * 16;
    a->lanes[lane] = begin < a->out ? a->first[begin] : 0;
    for (uint32_t k = 0; k < per && begin + k < a->out; k++) {
        const int16_t *w = a->weights + (size_t)(begin + k) * a->taps;
        uint32_t offset = a->first[begin + k] - a->lanes[lane];
        for (uint32_t t = 0; t < a->taps; t++) {
            picks[k * a->slots + t] = (uint8_t)(offset + t);
            factors[k * a->slots + t] = (int8_t)w[t];
        }
    }
}

/* Of 32 outputs the first half of the lanes and the second take turns: they become halves of registers, which are packed
 * together in the end. */
static void fill_lanes(struct plane_axis *a)
{
    uint32_t slots = least_slots(a->taps);
    while (slots < 16 && !lanes_fit(a, 16 / slots))
        slots *= 2;
    uint32_t per = 16 / slots;
    a->slots = slots;
    memset(a->picks, 0, lanes_of(a->out, slots) * 16);
    memset(a->factors, 0, lanes_of(a->out, slots) * 16);
    for (uint32_t i = 0, lane = 0; i < a->out; i += 32)
        for (uint32_t k = 0; k < slots; k++)
            for (uint32_t half = 0; half < 2; half++, lane++)
                fill_lane(a, i + (half * slots + k) * per, per, lane);
}

/* ---- The axis ---- */

void plane_axis_init(struct plane_axis *a, const struct plane_span *span, uint32_t out, pst_filter filter, uint32_t begin,
                     uint32_t count, bool along_rows, void *memory)
{
    assert(span->low >= 0 && span->high > span->low && span->high <= INT32_MAX && span->size >= span->low);
    assert(count > 0 && begin <= out && count <= out - begin);
    struct shape s = shape_of(span, out, filter);
    struct block b = {.weight = memory};
    *a = (struct plane_axis){.out = count, .taps = s.taps, .factor = s.precision.factor};
    a->first = (uint32_t *)(void *)(b.weight + (size_t)s.taps * BLOCK);
    a->weights = (int16_t *)(a->first + count);
    for (uint32_t i = 0; i < count; i += BLOCK) {
        b.begin = begin + i;
        b.count = count - i < BLOCK ? count - i : BLOCK;
        fill_block(&s, &b, a->first + i, a->weights + (size_t)i * s.taps);
    }
    a->begin = a->first[0];
    a->in = a->first[count - 1] + s.taps - a->begin;
    for (uint32_t i = 0; i < count; i++)
        a->first[i] -= a->begin;
    a->copies = s.taps == 1 && filter != PST_FILTER_NEAREST ? a->in == count : false;
    if (!along_rows || s.taps > PLANE_NARROW)
        return;
    a->lanes = (uint32_t *)(void *)(((uintptr_t)(a->weights + (size_t)count * s.taps) + 7) & ~(uintptr_t)7);
    a->factors = (int8_t *)(a->lanes + lanes_of(count, 16));
    a->picks = (uint8_t *)a->factors + lanes_of(count, 16) * 16;
    fill_lanes(a);
}
