/* resize.c: the plan of a resize (which input positions, with which weights) and the walk over the rows.
 *
 * Rows are filtered horizontally when the vertical filter first needs them and kept in a ring that is as high as that
 * filter, rounded to 8 bits in between as Pillow does. Which loops run is decided once, in a table (resize_kernels.h). */
#include "image/resize.h"

#include "base/cpu.h"
#include "image/resize_kernels.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

#define ONE       (1 << RESIZE_BITS)
#define MANY_TAPS 16384 /* up to here weights that are rounded one by one cannot add up to a level above 255 */

/* ---- The plan ---- */

/* A triangle of `in` positions over `out` positions, stretched when shrinking so that every input position counts. */
struct triangle {
    uint32_t in;
    double scale, stretch, inverse; /* input positions an output position; at least 1; 1 / stretch */
};

/* What one output position sees. */
struct window {
    uint32_t first, count;
    double centre, sum;
};

static struct triangle triangle_of(uint32_t in, uint32_t out)
{
    struct triangle t = {.in = in, .scale = (double)in / out};
    t.stretch = t.scale > 1 ? t.scale : 1;
    t.inverse = 1 / t.stretch;
    return t;
}

/* Arithmetic in Pillow's order, for its exact edges. */
static double weight_at(const struct triangle *t, const struct window *w, uint32_t position)
{
    double x = (position - w->centre + 0.5) * t->inverse;
    x = x < 0 ? -x : x;
    return x < 1 ? 1 - x : 0;
}

static struct window window_of(const struct triangle *t, uint32_t i)
{
    const double nothing = 1e-9; /* what rounding leaves of 0: far below one unit of any weight */
    struct window w = {.centre = (i + 0.5) * t->scale};
    double low = w.centre - t->stretch + 0.5, high = w.centre + t->stretch + 0.5;
    uint32_t end = high < t->in ? (uint32_t)high : t->in;
    w.first = low > 0 ? (uint32_t)low : 0;
    for (uint32_t k = w.first; k < end; k++)
        w.sum += weight_at(t, &w, k);
    while (w.first + 1 < end && weight_at(t, &w, w.first) < nothing)
        w.first++;
    while (w.first + 1 < end && weight_at(t, &w, end - 1) < nothing)
        end--;
    w.count = end - w.first;
    return w;
}

/* An open interval of twice the stretch holds at most so many positions. */
static uint32_t taps_of(uint32_t in, uint32_t out, pst_filter filter)
{
    if (filter == PST_FILTER_NEAREST || in == out)
        return 1;
    double width = 2 * triangle_of(in, out).stretch;
    return width < in ? (uint32_t)ceil(width) : in;
}

static uint32_t pitch_of(uint32_t taps)
{
    return (taps + 7) & ~7u;
}

size_t resize_axis_bytes(uint32_t in, uint32_t out, pst_filter filter)
{
    return (size_t)out * (sizeof(uint32_t) + 2 * sizeof(int16_t) * (size_t)pitch_of(taps_of(in, out, filter)));
}

static void put_weight(struct resize_axis *a, uint32_t i, uint32_t t, int32_t weight)
{
    int16_t *pair = a->weights + ((size_t)i * a->pitch + t / 2 * 2) * 2 + t % 2;
    pair[0] = (int16_t)(weight >> 8);
    pair[2] = (int16_t)(weight & 255);
}

/* Pillow adds up the positions instead of multiplying; so do we, to land on the same side of every half. */
static void pick_nearest(struct resize_axis *a)
{
    double scale = (double)a->in / a->out, position = scale * 0.5;
    for (uint32_t i = 0; i < a->out; i++, position += scale) {
        a->first[i] = position < a->in ? (uint32_t)position : a->in - 1;
        put_weight(a, i, 0, ONE);
    }
}

/* Each weight is rounded by itself, as Pillow does. Very many of them would lose their sum and, below one unit, themselves:
 * then the running sum is rounded, and a weight is its step. */
static void fill_weights(struct resize_axis *a, const struct triangle *t, uint32_t i)
{
    struct window w = window_of(t, i);
    assert(w.count <= a->taps);
    a->first[i] = w.first <= a->in - a->taps ? w.first : a->in - a->taps;
    double running = 0;
    int32_t done = 0;
    for (uint32_t k = 0; k < w.count; k++) {
        double weight = weight_at(t, &w, w.first + k) / w.sum * ONE;
        running += weight;
        int32_t rounded = (int32_t)(0.5 + (a->taps > MANY_TAPS ? running - done : weight));
        put_weight(a, i, w.first - a->first[i] + k, rounded);
        done += rounded;
    }
}

void resize_axis_init(struct resize_axis *a, uint32_t in, uint32_t out, pst_filter filter, void *memory)
{
    assert(in > 0 && out > 0 && in <= INT32_MAX && out <= INT32_MAX);
    a->in = in;
    a->out = out;
    a->taps = taps_of(in, out, filter);
    a->pitch = pitch_of(a->taps);
    a->first = memory;
    a->weights = (int16_t *)(a->first + out);
    memset(a->weights, 0, (size_t)out * a->pitch * 2 * sizeof(int16_t));
    if (filter == PST_FILTER_NEAREST) {
        pick_nearest(a);
        return;
    }
    struct triangle t = triangle_of(in, out);
    for (uint32_t i = 0; i < out; i++)
        fill_weights(a, &t, i);
}

/* ---- The table ---- */

void resize_kernels_init(struct resize_kernels *k, unsigned features)
{
    resize_kernels_init_c(k);
#if defined(__x86_64__)
    if (features & CPU_AVX2)
        resize_kernels_init_avx2(k);
#endif
    (void)features;
}

static struct resize_kernels best;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void choose(void)
{
    resize_kernels_init(&best, cpu_features());
}

/* ---- The walk ---- */

/* Pairs of rows are filtered together, so the ring holds whole pairs: those of the window and one that it cuts. */
static size_t ring_rows(const struct resize_axis *y)
{
    return ((size_t)y->taps + 3) & ~(size_t)1;
}

static size_t ring_pitch(const struct resize_axis *x, uint32_t channels)
{
    return ((size_t)x->out * channels + RESIZE_PADDING + 63) & ~(size_t)63;
}

static size_t table_bytes(const struct resize_axis *y)
{
    return ((size_t)y->taps + 1) * sizeof(uint8_t *);
}

size_t resize_scratch_bytes(const struct resize_axis *x, const struct resize_axis *y, uint32_t channels)
{
    size_t ring, total;
    if (__builtin_mul_overflow(ring_rows(y), ring_pitch(x, channels), &ring) ||
        __builtin_add_overflow(ring, table_bytes(y), &total))
        return SIZE_MAX;
    return total;
}

static void pick_columns(const uint8_t *in, uint8_t *out, const struct resize_axis *x, unsigned channels)
{
    if (x->in == x->out) {
        memcpy(out, in, (size_t)x->in * channels);
        return;
    }
    for (uint32_t i = 0; i < x->out; i++)
        for (unsigned c = 0; c < channels; c++)
            out[(size_t)i * channels + c] = in[(size_t)x->first[i] * channels + c];
}

static void filter_pair(const struct resize_kernels *k, const pst_image *in, size_t row, uint8_t *out, size_t pitch,
                        const struct resize_axis *x)
{
    unsigned rows = in->height - row < 2 ? 1 : 2;
    const uint8_t *from = in->pixels + row * in->stride;
    if (x->taps > 1) {
        k->horizontal[in->channels](from, in->stride, out, pitch, rows, x);
        return;
    }
    for (unsigned i = 0; i < rows; i++)
        pick_columns(from + i * in->stride, out + i * pitch, x, in->channels);
}

void resize_run_with(const struct resize_kernels *k, const pst_image *in, pst_image *out, const struct resize_axis *x,
                     const struct resize_axis *y, void *scratch)
{
    assert(in->width == x->in && in->height == y->in && out->width == x->out && out->height == y->out);
    assert(in->channels == out->channels && in->channels >= 1 && in->channels <= 4);
    const uint8_t **rows = scratch;
    uint8_t *ring = (uint8_t *)scratch + table_bytes(y);
    size_t pitch = ring_pitch(x, in->channels), capacity = ring_rows(y), n = (size_t)out->width * out->channels;
    size_t ready = 0; /* input rows below it are filtered, or were not needed; even */
    for (size_t r = 0; r < capacity; r++)
        memset(ring + r * pitch + n, 0, pitch - n); /* kernels read the padding, without effect: zeros, not unset memory */
    for (uint32_t i = 0; i < y->out; i++) {
        size_t first = y->first[i], end = first + y->taps;
        if (ready < (first & ~(size_t)1))
            ready = first & ~(size_t)1;
        for (; ready < end; ready += 2)
            filter_pair(k, in, ready, ring + ready % capacity * pitch, pitch, x);
        uint8_t *to = out->pixels + i * out->stride;
        if (y->taps == 1) {
            memcpy(to, ring + first % capacity * pitch, n);
            continue;
        }
        for (uint32_t t = 0; t < y->taps; t++)
            rows[t] = ring + (first + t) % capacity * pitch;
        rows[y->taps] = rows[0];
        k->vertical(rows, resize_weights(y, i), y->taps, to, n);
    }
}

void resize_run(const pst_image *in, pst_image *out, const struct resize_axis *x, const struct resize_axis *y, void *scratch)
{
    pthread_once(&chosen, choose);
    resize_run_with(&best, in, out, x, y, scratch);
}
