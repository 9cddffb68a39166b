/* i8_strips_vnni.c: convolutions without dilation and groups, by strips of output pixels whose windows are equally far apart.
 *
 * 3 × 3 with stride 1: four inputs of a pixel are spread over a vector once for all windows of a strip that hold the pixel, up to
 * three. Weights as i8_gemm_vnni.h packs them: those of the taps of a row are `inputs` / 4 steps apart. Others: a row of a window
 * is one tap of many inputs. */
#include "quant/kernels/i8_gemm_vnni.h"

#define FEWEST 4 /* pixels of a row */

/* A row of output pixels of a panel. */
struct strip {
    const uint8_t *from; /* the first window */
    size_t pitch, row;   /* bytes from a window, and from a row of inputs, to the next */
    size_t rows, steps;  /* of a window; of a tap */
    size_t at, width;    /* output pixels */
};

/* ---- Tiles of `tile` pixels × `vectors`, windows with rows of `taps` taps ---- */

INLINE void run_tile(const struct strip *s, const struct panel *p, size_t x, const int tile, const int vectors, const int taps)
{
    const size_t pitch = s->pitch, steps = s->steps, tap = steps * (size_t)vectors * 64;
    const uint8_t *from = s->from + x * pitch;
    const int8_t *w = p->weights;
    __m512i acc[SUMS];
    begin_tile(p, acc, tile, vectors);
    for (size_t row = 0; row < s->rows; row++, from += s->row, w += ((size_t)taps - 1) * tap)
        for (size_t step = 0; step < steps; step++, w += (size_t)vectors * 64) {
            const uint8_t *pixel = from + 4 * step;
            __m512i q[3 * WIDEST];
#pragma GCC unroll 12
            for (int i = 0; i < taps * vectors; i++)
                q[i] = _mm512_load_si512(w + (size_t)(i / vectors) * tap + (size_t)(i % vectors) * 64);
#pragma GCC unroll 20
            for (int c = 0; c < tile + taps - 1; c++, pixel += pitch) {
                const __m512i x4 = spread(pixel);
#pragma GCC unroll 12
                for (int i = 0; i < taps * vectors; i++) {
                    int m = c - i / vectors, at = m * vectors + i % vectors;
                    if (m >= 0 && m < tile)
                        acc[at] = _mm512_dpbusd_epi32(acc[at], x4, q[i]);
                }
            }
        }
    finish_tile(p, acc, s->at + x, (size_t)tile, tile, vectors);
}

/* `full` pixels at a time. The last tile may overlap the one before. */
INLINE void run_strip(const struct strip *s, const struct panel *p, const int full, const int half, const int vectors,
                      const int taps)
{
    size_t width = s->width, x = 0;
    for (; x + (size_t)full <= width; x += (size_t)full)
        run_tile(s, p, x, full, vectors, taps);
    if (x < width && (width - x <= (size_t)half || width < (size_t)full)) {
        for (; x + (size_t)half <= width; x += (size_t)half)
            run_tile(s, p, x, half, vectors, taps);
        if (x < width)
            run_tile(s, p, width - (size_t)half, half, vectors, taps);
    } else if (x < width) {
        run_tile(s, p, width - (size_t)full, full, vectors, taps);
    }
}

/* ---- Panels ---- */

typedef void run_panel(const struct strip *s, const struct panel *p);

#define PANEL(name, full, half, vectors, taps)                                                                                 \
    static __attribute__((noinline)) void name(const struct strip *s, const struct panel *p)                                   \
    {                                                                                                                          \
        run_strip(s, p, full, half, vectors, taps);                                                                            \
    }

PANEL(three1, 16, 4, 1, 3)
PANEL(three2, 8, 4, 2, 3)
PANEL(three3, 6, 4, 3, 3)
PANEL(three4, 4, 2, 4, 3)
PANEL(row1, 16, 4, 1, 1)
PANEL(row2, 8, 4, 2, 1)
PANEL(row3, 8, 4, 3, 1)
PANEL(row4, 4, 2, 4, 1)
PANEL(all1, 24, 4, 1, 1) /* all pixels are one row */
PANEL(all2, 12, 4, 2, 1)
PANEL(all3, 8, 4, 3, 1)
PANEL(all4, 6, 3, 4, 1)

static run_panel *const three[WIDEST] = {three1, three2, three3, three4};
static run_panel *const row[WIDEST] = {row1, row2, row3, row4};
static run_panel *const all[WIDEST] = {all1, all2, all3, all4};

static void run_rows(const struct i8_job *j, const struct i8_runs *r, struct strip s, size_t rows, run_panel *const *run)
{
    struct panel p = panel_of(j);
    const int8_t *w = j->weights;
    for (size_t o = 0; o < r->co; o += p.vectors * LANES) {
        w = set_panel(&p, j, r, 0, o, w);
        struct strip strip = s;
        for (size_t y = 0; y < rows; y++, strip.from += s.row * j->shape.stride, strip.at += s.width)
            run[p.vectors - 1](&strip, &p);
    }
}

/* ---- Jobs ---- */

/* Pixels that lie side by side: where windows are pixels, all of the job's rows of an image, or all images. */
static size_t width_of(const struct i8_job *j, size_t *ret_images)
{
    size_t rows = j->row_end - j->row;
    *ret_images = j->images;
    if (j->shape.size > 1 || j->shape.stride > 1 || j->w != j->in_w || j->h != j->in_h || i8_is_padded(j))
        return j->w;
    if (rows < j->h)
        return rows * j->w;
    *ret_images = 1;
    return j->images * rows * j->w;
}

bool i8_takes_strips(const struct i8_job *j)
{
    const struct i8_shape *s = &j->shape;
    size_t images;
    return s->dilation == 1 && s->groups == 1 && width_of(j, &images) >= FEWEST;
}

void i8_run_strips(const struct i8_job *j, void *scratch)
{
    const struct i8_shape *s = &j->shape;
    const struct i8_runs r = i8_runs_of(s);
    bool padded = i8_is_padded(j), taps = s->size == 3 && s->stride == 1 && s->ci % 4 == 0;
    size_t width = padded ? i8_rows_read(s, j->w) : j->in_w, rows = j->row_end - j->row, images, side = width_of(j, &images);
    uint8_t *copy = (uint8_t *)scratch + i8_offsets_bytes(s);
    run_panel *const *run = taps ? three : side == j->w ? row : all;
    for (size_t n = 0; n < images && rows; n++) {
        const uint8_t *image = j->in + n * j->in_h * j->in_w * s->ci;
        if (padded)
            i8_pad(j, image, copy, n == 0);
        struct strip strip = {.from = padded ? copy : image + j->row * s->stride * width * s->ci,
                              .pitch = s->stride * s->ci,
                              .row = width * s->ci,
                              .rows = s->size,
                              .steps = taps ? r.steps / s->size : r.steps,
                              .at = (n * j->h + j->row) * j->w,
                              .width = side};
        run_rows(j, &r, strip, side == j->w ? rows : 1, run);
    }
}
