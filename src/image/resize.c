/* resize.c: the walk over the rows of a resize, and the table of kernels.
 *
 * Input rows are filtered horizontally when the vertical filter first needs them and kept in a ring that is as high as that
 * filter, rounded to 8 bits in between as Pillow does. Which loops run is decided once, in a table (resize_kernels.h). */
#include "image/resize.h"

#include "base/cpu.h"
#include "image/resize_kernels.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

/* ---- The table ---- */

void resize_kernels_init(struct resize_kernels *k, unsigned features)
{
    resize_kernels_init_c(k);
#if defined(__x86_64__)
    if (features & CPU_AVX2)
        resize_kernels_init_avx2(k);
    if (features & CPU_VNNI)
        resize_kernels_init_vnni(k);
#endif
    (void)features;
}

static struct resize_kernels best;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void choose(void)
{
    resize_kernels_init(&best, cpu_features());
}

/* ---- Scratch ---- */

/* Rows are filtered several at once: those of a window and the next ones that are filtered with them. */
static size_t ring_rows(const struct resize_axis *y)
{
    return (size_t)y->taps + RESIZE_ROWS - 1;
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

/* ---- The walk ---- */

static void walk_init(struct resize_walk *w, const struct resize_kernels *k, const pst_image *in, const struct resize_axis *x,
                      const struct resize_axis *y, void *scratch)
{
    assert(in->width == x->in && in->height == y->in && in->channels >= 1 && in->channels <= 4);
    size_t n = (size_t)x->out * in->channels;
    *w = (struct resize_walk){.kernels = k, .x = x, .y = y, .in = *in, .rows = scratch};
    w->ring = (uint8_t *)scratch + table_bytes(y);
    w->pitch = ring_pitch(x, in->channels);
    w->capacity = ring_rows(y);
    for (size_t r = 0; r < w->capacity; r++)
        memset(w->ring + r * w->pitch + n, 0,
               w->pitch - n); /* kernels read the padding, without effect: zeros, not unset memory */
}

static void pick_columns(const uint8_t *in, uint8_t *out, const struct resize_axis *x, unsigned channels)
{
    for (uint32_t i = 0; i < x->out; i++)
        for (unsigned c = 0; c < channels; c++)
            out[(size_t)i * channels + c] = in[(size_t)x->first[i] * channels + c];
}

static void filter_rows(struct resize_walk *w, unsigned rows)
{
    const uint8_t *in[RESIZE_ROWS];
    uint8_t *out[RESIZE_ROWS];
    for (unsigned r = 0; r < rows; r++) {
        in[r] = w->in.pixels + (w->ready + r) * w->in.stride;
        out[r] = w->ring + (w->ready + r) % w->capacity * w->pitch;
    }
    if (w->x->taps > 1)
        w->kernels->horizontal[w->in.channels](in, out, rows, w->x);
    else
        for (unsigned r = 0; r < rows; r++)
            pick_columns(in[r], out[r], w->x, w->in.channels);
    w->ready += rows;
}

/* Filters rows up to `end` at least; beyond it where the next window follows without a gap. */
static void filter_up_to(struct resize_walk *w, size_t end)
{
    bool last = w->next + 1 == w->y->out;
    size_t most = last || w->y->first[w->next + 1] > end ? end : w->in.height;
    while (w->ready < end) {
        size_t left = most - w->ready;
        filter_rows(w, left < RESIZE_ROWS ? (unsigned)left : RESIZE_ROWS);
    }
}

void resize_walk_row(struct resize_walk *w, uint8_t *to)
{
    const struct resize_axis *y = w->y;
    size_t first = y->first[w->next], n = (size_t)w->x->out * w->in.channels;
    if (w->ready < first)
        w->ready = first;
    filter_up_to(w, first + y->taps);
    if (y->taps == 1) {
        memcpy(to, w->ring + first % w->capacity * w->pitch, n);
    } else {
        size_t at = first % w->capacity;
        for (uint32_t t = 0; t < y->taps; t++, at = at + 1 == w->capacity ? 0 : at + 1)
            w->rows[t] = w->ring + at * w->pitch;
        w->rows[y->taps] = w->rows[0];
        w->kernels->vertical(w->rows, resize_weights(y, w->next), y->taps, to, n);
    }
    w->next++;
}

void resize_walk_init(struct resize_walk *w, const pst_image *in, const struct resize_axis *x, const struct resize_axis *y,
                      void *scratch)
{
    pthread_once(&chosen, choose);
    walk_init(w, &best, in, x, y, scratch);
}

void resize_run_with(const struct resize_kernels *k, const pst_image *in, pst_image *out, const struct resize_axis *x,
                     const struct resize_axis *y, void *scratch)
{
    assert(out->width == x->out && out->height == y->out && in->channels == out->channels);
    struct resize_walk w;
    walk_init(&w, k, in, x, y, scratch);
    for (uint32_t i = 0; i < y->out; i++)
        resize_walk_row(&w, out->pixels + i * out->stride);
}

void resize_run(const pst_image *in, pst_image *out, const struct resize_axis *x, const struct resize_axis *y, void *scratch)
{
    pthread_once(&chosen, choose);
    resize_run_with(&best, in, out, x, y, scratch);
}
