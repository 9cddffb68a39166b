/* resize_axis.c: the plan of a resize: which input positions an output position sees, and with which weights.
 *
 * Weights are computed as Pillow does, operation by operation, so that the same halves are rounded the same way. */
#include "image/resize.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define ONE       (1 << RESIZE_BITS)
#define MANY_TAPS 16384 /* up to here weights that are rounded one by one cannot add up to a level above 255 */

/* A filter of `in` positions over `out` positions; one that antialiases is stretched when shrinking, so that every input
 * position counts. */
struct shape {
    pst_filter filter;
    uint32_t in;
    double scale;   /* input positions an output position */
    double stretch; /* at least 1 */
    double inverse; /* 1 / stretch */
    double support; /* how far from the centre of an output its inputs lie */
};

/* By filter: how far it reaches when nothing is shrunk, and whether it is stretched when something is. */
static const struct {
    double radius;
    bool antialiases, blurs;
} traits[] = {
    [PST_FILTER_TRIANGLE] = {1, true, false},   [PST_FILTER_NEAREST] = {1, true, false},
    [PST_FILTER_BILINEAR] = {1, false, false},  [PST_FILTER_BICUBIC] = {2, true, false},
    [PST_FILTER_AREA] = {1, true, false},       [PST_FILTER_KEYSCUBIC] = {2, false, false},
    [PST_FILTER_LANCZOS3] = {3, false, false},  [PST_FILTER_LANCZOS5] = {5, false, false},
    [PST_FILTER_GAUSSIAN] = {1.5, false, true}, [PST_FILTER_MITCHELLCUBIC] = {2, false, true},
};

bool resize_blurs(pst_filter filter)
{
    return traits[filter].blurs;
}

static struct shape shape_of(uint32_t in, uint32_t out, pst_filter filter)
{
    struct shape s = {.filter = filter, .in = in, .scale = (double)in / out};
    s.stretch = s.scale > 1 && traits[filter].antialiases ? s.scale : 1;
    s.inverse = 1 / s.stretch;
    s.support = filter == PST_FILTER_AREA ? s.scale / 2 + 0.5 : traits[filter].radius * s.stretch;
    return s;
}

static bool is_picked(uint32_t in, uint32_t out, pst_filter filter)
{
    return filter == PST_FILTER_NEAREST || (in == out && !traits[filter].blurs);
}

/* Weights of one output before any is dropped. */
static uint32_t most_weights(uint32_t in, uint32_t out, pst_filter filter)
{
    double width = 2 * shape_of(in, out, filter).support + 2;
    return width < in ? (uint32_t)width : in;
}

/* An open interval of twice the support holds at most this many positions. */
static uint32_t taps_of(uint32_t in, uint32_t out, pst_filter filter)
{
    if (is_picked(in, out, filter))
        return 1;
    if (filter == PST_FILTER_AREA && in % out == 0)
        return in / out;
    double width = ceil(2 * shape_of(in, out, filter).support);
    return width < in ? (uint32_t)width : in;
}

static uint32_t pitch_of(uint32_t taps)
{
    return (taps + 7) & ~7u;
}

size_t resize_axis_part_bytes(uint32_t in, uint32_t out, pst_filter filter, uint32_t count)
{
    size_t positions = is_picked(in, out, filter) ? 0 : most_weights(in, out, filter);
    return positions * sizeof(double) +
           (size_t)count * (sizeof(uint32_t) + 2 * sizeof(int16_t) * (size_t)pitch_of(taps_of(in, out, filter)));
}

size_t resize_axis_bytes(uint32_t in, uint32_t out, pst_filter filter)
{
    return resize_axis_part_bytes(in, out, filter, out);
}

static void put_weight(struct resize_axis *a, uint32_t i, uint32_t t, int32_t weight)
{
    int16_t *pair = a->weights + ((size_t)i * a->pitch + t / 2 * 2) * 2 + t % 2;
    pair[0] = (int16_t)(weight >> 8);
    pair[2] = (int16_t)(weight & 255);
}

/* ---- Picked positions ---- */

/* Pillow adds up the positions instead of multiplying; so do we, to land on the same side of every half. */
static void pick_nearest(struct resize_axis *a, uint32_t out, uint32_t begin)
{
    double scale = (double)a->in / out, position = scale * 0.5;
    for (uint32_t i = 0; i < begin + a->out; i++, position += scale)
        if (i >= begin)
            a->first[i - begin] = position < a->in ? (uint32_t)position : a->in - 1;
}

static void pick(struct resize_axis *a, uint32_t out, uint32_t begin)
{
    if (a->in == out)
        for (uint32_t i = 0; i < a->out; i++)
            a->first[i] = begin + i;
    else
        pick_nearest(a, out, begin);
    for (uint32_t i = 0; i < a->out; i++)
        put_weight(a, i, 0, ONE);
}

/* ---- Weighted positions ---- */

/* The inputs of one output position. */
struct window {
    uint32_t first, count;
    double *weights, sum;
};

static double bicubic(double x)
{
    const double a = -0.5;
    if (x < 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double lanczos(double x, double radius)
{
    const double pi = 3.14159265358979323846;
    if (x < 1e-3)
        return 1;
    return x < radius ? radius * sin(pi * x) * sin(pi * x / radius) / (pi * pi * x * x) : 0;
}

/* A deviation of a third of its radius. */
static double gaussian(double x)
{
    return x < 1.5 ? exp(-2 * x * x) : 0;
}

static double mitchell(double x)
{
    if (x < 1)
        return (7.0 / 6 * x - 2) * x * x + 8.0 / 9;
    return x < 2 ? ((-7.0 / 18 * x + 2) * x - 10.0 / 3) * x + 16.0 / 9 : 0;
}

/* How much of position `k` the interval covers. */
static double covered(double low, double high, uint32_t k)
{
    double begin = low > k ? low : k, end = high < (double)k + 1 ? high : (double)k + 1;
    return end > begin ? end - begin : 0;
}

static double weight_at(const struct shape *s, uint32_t i, double centre, uint32_t k)
{
    if (s->filter == PST_FILTER_AREA)
        return covered(i * s->scale, (i + 1.0) * s->scale, k);
    double x = (k - centre + 0.5) * s->inverse;
    x = x < 0 ? -x : x;
    switch (s->filter) {
    case PST_FILTER_BICUBIC:
    case PST_FILTER_KEYSCUBIC:
        return bicubic(x);
    case PST_FILTER_LANCZOS3:
        return lanczos(x, 3);
    case PST_FILTER_LANCZOS5:
        return lanczos(x, 5);
    case PST_FILTER_GAUSSIAN:
        return gaussian(x);
    case PST_FILTER_MITCHELLCUBIC:
        return mitchell(x);
    default:
        return x < 1 ? 1 - x : 0;
    }
}

/* `weights` has room for most_weights. At an edge of its support a filter is 0: positions there are dropped, as far as `taps`
 * asks for it and no further, so that windows never move back. */
static struct window window_of(const struct shape *s, uint32_t i, uint32_t taps, double *weights)
{
    const double nothing = 1e-9; /* what rounding leaves of 0: far below one unit of any weight */
    double centre = (i + 0.5) * s->scale, low = centre - s->support + 0.5, high = centre + s->support + 0.5;
    uint32_t end = high < s->in ? (uint32_t)high : s->in;
    struct window w = {.first = low > 0 ? (uint32_t)low : 0, .weights = weights};
    w.count = end - w.first;
    for (uint32_t k = 0; k < w.count; k++) {
        weights[k] = weight_at(s, i, centre, w.first + k);
        w.sum += weights[k];
    }
    while (w.count > taps && fabs(w.weights[w.count - 1]) < nothing)
        w.count--;
    for (; w.count > taps && fabs(w.weights[0]) < nothing; w.weights++, w.first++)
        w.count--;
    return w;
}

static int32_t rounded(double weight)
{
    return (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
}

/* Each weight is rounded by itself, as Pillow does. Very many of them would lose their sum and, below one unit, themselves:
 * then the running sum is rounded, and a weight is its step. */
static void fill_weights(struct resize_axis *a, uint32_t i, const struct window *w)
{
    assert(w->count <= a->taps);
    a->first[i] = w->first <= a->in - a->taps ? w->first : a->in - a->taps;
    double running = 0;
    int32_t done = 0;
    for (uint32_t k = 0; k < w->count; k++) {
        double weight = w->weights[k] / w->sum * ONE;
        running += weight;
        int32_t step = rounded(a->taps > MANY_TAPS ? running - done : weight);
        put_weight(a, i, w->first - a->first[i] + k, step);
        done += step;
    }
}

/* ---- The axis ---- */

void resize_axis_init_part(struct resize_axis *a, uint32_t in, uint32_t out, pst_filter filter, uint32_t begin, uint32_t count,
                           void *memory)
{
    assert(in > 0 && out > 0 && in <= INT32_MAX && out <= INT32_MAX);
    assert(count > 0 && begin <= out && count <= out - begin);
    bool picked = is_picked(in, out, filter);
    double *raw = memory;
    a->in = in;
    a->out = count;
    a->taps = taps_of(in, out, filter);
    a->pitch = pitch_of(a->taps);
    a->first = (uint32_t *)(void *)(raw + (picked ? 0 : most_weights(in, out, filter)));
    a->weights = (int16_t *)(a->first + count);
    memset(a->weights, 0, (size_t)count * a->pitch * 2 * sizeof(int16_t));
    if (picked) {
        pick(a, out, begin);
        return;
    }
    struct shape s = shape_of(in, out, filter);
    for (uint32_t i = 0; i < count; i++) {
        struct window w = window_of(&s, begin + i, a->taps, raw);
        fill_weights(a, i, &w);
    }
}

void resize_axis_init(struct resize_axis *a, uint32_t in, uint32_t out, pst_filter filter, void *memory)
{
    resize_axis_init_part(a, in, out, filter, 0, out, memory);
}

static void reverse_weights(struct resize_axis *a, uint32_t i)
{
    const int16_t *w = resize_weights(a, i);
    for (uint32_t t = 0, u = a->taps - 1; t < u; t++, u--) {
        int32_t kept = resize_weight(w, t);
        put_weight(a, i, t, resize_weight(w, u));
        put_weight(a, i, u, kept);
    }
}

static void swap_outputs(struct resize_axis *a, uint32_t i, uint32_t k)
{
    int16_t *one = a->weights + (size_t)i * a->pitch * 2, *other = a->weights + (size_t)k * a->pitch * 2;
    uint32_t first = a->first[i];
    a->first[i] = a->first[k];
    a->first[k] = first;
    for (uint32_t t = 0; t < a->pitch * 2; t++) {
        int16_t weight = one[t];
        one[t] = other[t];
        other[t] = weight;
    }
}

void resize_axis_mirror(struct resize_axis *a)
{
    for (uint32_t i = 0; i < a->out; i++) {
        a->first[i] = a->in - a->taps - a->first[i];
        reverse_weights(a, i);
    }
    for (uint32_t i = 0; i < a->out / 2; i++)
        swap_outputs(a, i, a->out - 1 - i);
}

uint32_t resize_axis_narrow(struct resize_axis *a)
{
    uint32_t begin = a->first[0];
    a->in = a->first[a->out - 1] + a->taps - begin;
    for (uint32_t i = 0; i < a->out; i++)
        a->first[i] -= begin;
    return begin;
}
