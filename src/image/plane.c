/* plane.c: the walk over the rows of a plane, and the table of its kernels.
 *
 * An output row is first filtered down the columns, from the plane as it is, and then along itself: no row is kept, and where
 * images shrink, the second filter sees the fewest rows. */
#include "image/plane.h"

#include "base/cpu.h"
#include "image/plane_kernels.h"

#include <pthread.h>
#include <string.h>

void plane_kernels_init(struct plane_kernels *k, unsigned features)
{
    plane_kernels_init_c(k);
#if defined(__x86_64__)
    if (features & CPU_AVX2)
        plane_kernels_init_avx2(k);
    if (features & CPU_VNNI)
        plane_kernels_init_vnni(k);
#endif
    (void)features;
}

static struct plane_kernels best;
static pthread_once_t chosen = PTHREAD_ONCE_INIT;

static void choose(void)
{
    plane_kernels_init(&best, cpu_features());
}

static size_t table_bytes(const struct plane_axis *y)
{
    return ((size_t)y->taps + 1) * sizeof(uint8_t *);
}

size_t plane_scratch_bytes(const struct plane_axis *x, const struct plane_axis *y)
{
    return table_bytes(y) + x->in + 2 * PLANE_PADDING;
}

void plane_walk_init_with(struct plane_walk *w, const struct plane_kernels *k, const uint8_t *pixels, size_t stride,
                          const struct plane_axis *x, const struct plane_axis *y, void *scratch)
{
    *w = (struct plane_walk){.kernels = k, .x = x, .y = y, .pixels = pixels, .stride = stride, .rows = scratch};
    w->line = (uint8_t *)scratch + table_bytes(y);
    memset(w->line + x->in, 0, 2 * PLANE_PADDING); /* kernels read it, without effect: zeros, not unset memory */
}

void plane_walk_init(struct plane_walk *w, const uint8_t *pixels, size_t stride, const struct plane_axis *x,
                     const struct plane_axis *y, void *scratch)
{
    pthread_once(&chosen, choose);
    plane_walk_init_with(w, &best, pixels, stride, x, y, scratch);
}

void plane_walk_row(struct plane_walk *w, uint8_t *to)
{
    const struct plane_axis *x = w->x, *y = w->y;
    const uint8_t *first = w->pixels + y->first[w->next] * w->stride;
    uint8_t *line = x->copies ? to : w->line;
    if (y->taps == 1) { /* its weight is 1 */
        memcpy(line, first, x->in);
    } else {
        for (uint32_t t = 0; t < y->taps; t++)
            w->rows[t] = first + t * w->stride;
        w->rows[y->taps] = first; /* for pairs; it weighs nothing */
        w->kernels->columns(w->rows, y->weights + (size_t)w->next * y->taps, y->taps, y->factor, line, x->in);
    }
    if (!x->copies)
        w->kernels->rows(line, to, x);
    w->next++;
}

void plane_colour(uint8_t *y_red, uint8_t *cb_green, uint8_t *cr_blue, uint32_t width)
{
    pthread_once(&chosen, choose);
    best.colour(y_red, cb_green, cr_blue, width);
}

void plane_merge(const uint8_t *red, const uint8_t *green, const uint8_t *blue, uint8_t *out, uint32_t width)
{
    pthread_once(&chosen, choose);
    best.merge(red, green, blue, out, width);
}
