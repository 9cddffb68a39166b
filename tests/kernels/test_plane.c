/* test_plane.c: every level of the plane kernels against the C reference, and that against floating point; `--bench` times
 * them instead.
 *
 * Inputs end where their memory ends, so that a sanitizer catches a load beyond a row; outputs lie between canaries. */
#include "base/clock.h"
#include "base/random.h"
#include "harness.h"
#include "image/convert.h"
#include "image/plane_kernels.h"
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A resize ---- */

struct axis {
    struct plane_span span;
    struct plane_axis plan;
    void *memory;
};

static struct axis axis_make(struct plane_span span, uint32_t out, pst_filter filter, uint32_t begin, uint32_t count,
                             bool along)
{
    struct axis a = {.span = span, .memory = allocate(plane_axis_bytes(&span, out, filter, count))};
    plane_axis_init(&a.plan, &span, out, filter, begin, count, along, a.memory);
    return a;
}

/* Halves, quarters or whole samples of up to `most`. */
static struct plane_span random_span(struct random *r, uint32_t most)
{
    uint32_t part = 1u << random_below(r, 5), size = 1 + (uint32_t)random_below(r, most);
    uint32_t low = (uint32_t)random_below(r, (uint64_t)size * part),
             high = low + 1 + (uint32_t)random_below(r, size * part - low);
    return (struct plane_span){(double)low / part, (double)high / part, size};
}

struct plane {
    uint8_t *pixels;
    uint32_t width, height;
    size_t stride;
};

/* The last row ends with the memory. */
static struct plane random_plane(struct random *r, uint32_t width, uint32_t height)
{
    struct plane p = {.width = width, .height = height, .stride = width + random_below(r, 20)};
    size_t n = p.stride * (height - 1) + width;
    p.pixels = allocate(n);
    bool extreme = random_below(r, 4) == 0; /* only 0 and 255: sums reach their bounds */
    for (size_t i = 0; i < n; i++)
        p.pixels[i] = (uint8_t)(extreme ? 0 - random_below(r, 2) : random_u64(r));
    return p;
}

/* Only the samples that are read are there. */
static uint8_t *resize(const struct level *l, const struct plane *in, const struct plane_axis *x, const struct plane_axis *y)
{
    struct plane_kernels kernels;
    struct plane_walk walk;
    plane_kernels_init(&kernels, l->features);
    size_t stride = x->in, pitch = x->out + PLANE_PADDING;
    uint8_t *part = allocate(stride * y->in), *out = allocate((size_t)x->out * y->out), *row = allocate(pitch + 64);
    void *scratch = allocate(plane_scratch_bytes(x, y));
    for (uint32_t i = 0; i < y->in; i++)
        memcpy(part + i * stride, in->pixels + (y->begin + i) * in->stride + x->begin, x->in);
    plane_walk_init_with(&walk, &kernels, part, stride, x, y, scratch);
    for (uint32_t i = 0; i < y->out; i++) {
        memset(row, CANARY, pitch + 64);
        plane_walk_row(&walk, row);
        memcpy(out + (size_t)i * x->out, row, x->out);
        size_t broken = 0;
        for (size_t k = 0; k < 64; k++)
            broken += row[pitch + k] != CANARY;
        CHECK_MSG(broken == 0, "%s wrote %zu bytes behind the padding", l->name, broken);
    }
    free(scratch);
    free(row);
    free(part);
    return out;
}

static void check_levels(struct random *r, struct plane_span across, struct plane_span down, uint32_t width, uint32_t height,
                         pst_filter filter)
{
    struct plane in = random_plane(r, across.size, down.size);
    struct axis x = axis_make(across, width, filter, 0, width, true), y = axis_make(down, height, filter, 0, height, false);
    CHECK(x.plan.begin >= (uint32_t)across.low && x.plan.begin + x.plan.in <= across.size);
    CHECK(x.plan.begin + x.plan.in <= (uint32_t)ceil(across.high));
    uint8_t *want = resize(&levels[0], &in, &x.plan, &y.plan);
    for (size_t i = 1; i < LEVELS; i++) {
        if (!runs_here(&levels[i]))
            continue;
        uint8_t *got = resize(&levels[i], &in, &x.plan, &y.plan);
        CHECK_MSG(memcmp(got, want, (size_t)width * height) == 0,
                  "%s differs from C: [%g, %g) × [%g, %g) to %u × %u, filter %d", levels[i].name, across.low, across.high,
                  down.low, down.high, width, height, (int)filter);
        free(got);
    }
    free(want);
    free(x.memory);
    free(y.memory);
    free(in.pixels);
}

static void test_random_spans(void)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (int round = 0; round < 3000; round++) {
        uint32_t most = round % 3 ? 257 : 24;
        check_levels(&r, random_span(&r, most), random_span(&r, most), 1 + (uint32_t)random_below(&r, most),
                     1 + (uint32_t)random_below(&r, round % 7 ? 9 : most), (pst_filter)(round % 5));
    }
}

static struct plane_span whole(uint32_t size)
{
    return (struct plane_span){0, size, size};
}

static void test_every_width(void)
{
    struct random r;
    random_init(&r, 2, 0, 0, 0);
    for (uint32_t n = 1; n <= 257; n++) {
        check_levels(&r, whole(n), whole(3), 258 - n, 2, PST_FILTER_TRIANGLE);
        check_levels(&r, whole(n), whole(5), (n + 1) / 2, 4, PST_FILTER_TRIANGLE);
        check_levels(&r, whole(n), whole(2), n, 3, PST_FILTER_BICUBIC);
        check_levels(&r, whole(2), whole(n), 3, 258 - n, PST_FILTER_TRIANGLE);
    }
    check_levels(&r, whole(10000), whole(7), 3, 2, PST_FILTER_TRIANGLE);
    check_levels(&r, whole(1), whole(2), 10000, 3, PST_FILTER_BICUBIC);
    check_levels(&r, whole(40), whole(10000), 33, 1, PST_FILTER_AREA);
}

/* ---- Accuracy ---- */

/* What a filter makes of sample `k` at `centre`, before it is normalised. */
static double exact_weight(pst_filter filter, double scale, double centre, uint32_t k)
{
    double stretch = scale > 1 && filter != PST_FILTER_BILINEAR ? scale : 1, x = fabs((k + 0.5 - centre) / stretch);
    if (filter == PST_FILTER_AREA)
        return fmax(0, fmin(k + 1, centre + scale / 2) - fmax(k, centre - scale / 2));
    if (filter == PST_FILTER_BICUBIC)
        return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
    return fmax(0, 1 - x);
}

/* How far the weights of an axis are from the filter's, added up: what a sum of them may be off by, of the whole range. */
static double worst_weights(const struct axis *a, uint32_t out, pst_filter filter)
{
    double scale = (a->span.high - a->span.low) / out, worst = 0;
    const struct plane_axis *p = &a->plan;
    double total = 32768.0 / p->factor;
    for (uint32_t i = 0; i < p->out; i++) {
        double centre = a->span.low + (i + 0.5) * scale, sum = 0, off = 0;
        uint32_t begin = (uint32_t)a->span.low, end = (uint32_t)ceil(a->span.high);
        for (uint32_t k = begin; k < end; k++)
            sum += exact_weight(filter, scale, centre, k);
        for (uint32_t k = begin; k < end; k++) {
            uint32_t first = p->begin + p->first[i];
            double got = k >= first && k < first + p->taps ? p->weights[(size_t)i * p->taps + k - first] / total : 0;
            off += fabs(got - exact_weight(filter, scale, centre, k) / sum);
        }
        worst = fmax(worst, off);
    }
    return worst;
}

static void test_accuracy(void)
{
    static const pst_filter weighted[4] = {PST_FILTER_TRIANGLE, PST_FILTER_BILINEAR, PST_FILTER_BICUBIC, PST_FILTER_AREA};
    struct random r;
    random_init(&r, 4, 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        pst_filter filter = weighted[round % 4];
        uint32_t out = 1 + (uint32_t)random_below(&r, 300);
        struct axis a = axis_make(random_span(&r, round % 10 ? 300 : 3000), out, filter, 0, out, true);
        double worst = worst_weights(&a, out, filter), most = 0.7 * a.plan.taps / (a.plan.factor == 2 ? 16384.0 : 100.0);
        CHECK_MSG(worst <= most + 0.001, "[%g, %g) of %u to %u, filter %d, %u taps: weights off by %.4f", a.span.low,
                  a.span.high, a.span.size, out, (int)filter, a.plan.taps, worst);
        free(a.memory);
    }
}

/* Flat areas stay what they are, whatever the level, and whatever the filter. */
static void test_flat(void)
{
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    for (int round = 0; round < 1500; round++) {
        struct plane_span span = random_span(&r, round % 20 ? 200 : 2000);
        uint32_t out = 1 + (uint32_t)random_below(&r, 200);
        struct axis a = axis_make(span, out, (pst_filter)(round % 5), 0, out, false);
        bool flat = true;
        for (uint32_t i = 0; i < out; i++) {
            int32_t sum = 0;
            for (uint32_t t = 0; t < a.plan.taps; t++)
                sum += a.plan.weights[(size_t)i * a.plan.taps + t];
            for (int32_t level = 0; level < 256; level++)
                flat &= plane_level(sum * level, a.plan.factor) == level;
            flat &= i == 0 || a.plan.first[i] >= a.plan.first[i - 1];
        }
        CHECK_MSG(flat, "[%g, %g) to %u, filter %d", span.low, span.high, out, round % 5);
        free(a.memory);
    }
}

static void test_nearest(void)
{
    static const uint8_t pixels[5] = {10, 20, 30, 40, 50}, to3[3] = {10, 30, 50}, to4[4] = {20, 20, 30, 30};
    struct plane in = {(uint8_t *)pixels, 5, 1, 5};
    struct axis y = axis_make(whole(1), 1, PST_FILTER_NEAREST, 0, 1, false);
    struct axis x = axis_make(whole(5), 3, PST_FILTER_NEAREST, 0, 3, true);
    for (size_t i = 0; i < LEVELS; i++) {
        if (!runs_here(&levels[i]))
            continue;
        uint8_t *got = resize(&levels[i], &in, &x.plan, &y.plan);
        CHECK(memcmp(got, to3, 3) == 0);
        free(got);
    }
    free(x.memory);
    x = axis_make((struct plane_span){1, 3, 5}, 4, PST_FILTER_NEAREST, 0, 4, true);
    uint8_t *got = resize(&levels[0], &in, &x.plan, &y.plan);
    CHECK(memcmp(got, to4, 4) == 0);
    free(got);
    free(x.memory);
    free(y.memory);
}

/* ---- Parts ---- */

static void test_parts(void)
{
    struct random r;
    random_init(&r, 6, 0, 0, 0);
    for (int round = 0; round < 800; round++) {
        pst_filter filter = (pst_filter)(round % 5);
        struct plane_span across = random_span(&r, 200), down = random_span(&r, 90);
        uint32_t width = 1 + (uint32_t)random_below(&r, 200), height = 1 + (uint32_t)random_below(&r, 50);
        uint32_t left = (uint32_t)random_below(&r, width), top = (uint32_t)random_below(&r, height);
        uint32_t columns = 1 + (uint32_t)random_below(&r, width - left), rows = 1 + (uint32_t)random_below(&r, height - top);
        const struct level *level = &levels[round % LEVELS];
        if (!runs_here(level))
            continue;
        struct plane in = random_plane(&r, across.size, down.size);
        struct axis x = axis_make(across, width, filter, 0, width, true), y = axis_make(down, height, filter, 0, height, false);
        struct axis part_x = axis_make(across, width, filter, left, columns, true);
        struct axis part_y = axis_make(down, height, filter, top, rows, false);
        uint8_t *all = resize(level, &in, &x.plan, &y.plan), *part = resize(level, &in, &part_x.plan, &part_y.plan);
        bool same = true;
        for (uint32_t i = 0; i < rows; i++)
            same &= memcmp(part + (size_t)i * columns, all + (size_t)(top + i) * width + left, columns) == 0;
        CHECK_MSG(same, "filter %d: [%g, %g) × [%g, %g) to %u × %u, %u × %u of it at %u, %u", (int)filter, across.low,
                  across.high, down.low, down.high, width, height, columns, rows, left, top);
        free(part);
        free(all);
        free(part_y.memory);
        free(part_x.memory);
        free(y.memory);
        free(x.memory);
        free(in.pixels);
    }
}

/* ---- Colours ---- */

/* All of them, at every level, and against the equations of JFIF. */
static void test_colours(void)
{
    enum { ROW = 256 };
    uint8_t rows[LEVELS][3][ROW + PLANE_PADDING];
    double worst = 0;
    for (unsigned cb = 0; cb < 256; cb++)
        for (unsigned cr = 0; cr < 256; cr++) {
            for (size_t i = 0; i < LEVELS; i++) {
                struct plane_kernels kernels;
                if (!runs_here(&levels[i]))
                    continue;
                plane_kernels_init(&kernels, levels[i].features);
                for (unsigned y = 0; y < ROW; y++)
                    rows[i][0][y] = (uint8_t)y;
                memset(rows[i][1], (int)cb, ROW);
                memset(rows[i][2], (int)cr, ROW);
                kernels.colour(rows[i][0], rows[i][1], rows[i][2], ROW);
                for (int c = 0; c < 3; c++)
                    CHECK_MSG(memcmp(rows[i][c], rows[0][c], ROW) == 0, "%s: Cb %u, Cr %u", levels[i].name, cb, cr);
            }
            for (unsigned y = 0; y < ROW; y += 15) {
                double rgb[3] = {y + 1.402 * ((int)cr - 128), y - 0.344136 * ((int)cb - 128) - 0.714136 * ((int)cr - 128),
                                 y + 1.772 * ((int)cb - 128)};
                for (int c = 0; c < 3; c++)
                    worst = fmax(worst, fabs(fmin(255, fmax(0, rgb[c])) - rows[0][c][y]));
            }
        }
    CHECK_MSG(worst < 0.51, "%.3f levels", worst);
}

static void test_merge(void)
{
    struct random r;
    random_init(&r, 8, 0, 0, 0);
    for (uint32_t n = 1; n <= 257; n++) {
        uint8_t planes[3][257 + PLANE_PADDING], want[3 * 257 + 64], got[3 * 257 + 64];
        for (size_t i = 0; i < sizeof(planes); i++)
            planes[i % 3][i / 3] = (uint8_t)random_u64(&r);
        for (size_t i = 0; i < LEVELS; i++) {
            struct plane_kernels kernels;
            uint8_t *to = i ? got : want;
            if (!runs_here(&levels[i]))
                continue;
            plane_kernels_init(&kernels, levels[i].features);
            memset(to, CANARY, sizeof(got));
            kernels.merge(planes[0], planes[1], planes[2], to, n);
            CHECK_MSG(memcmp(to, want, sizeof(want)) == 0, "%s: %u pixels", levels[i].name, n);
        }
        CHECK(want[0] == planes[0][0] && want[3 * n - 1] == planes[2][n - 1] && want[3 * n] == CANARY);
    }
}

/* ---- Timing ---- */

/* One image: `side` × `side` luma samples, the colours `every` times coarser, to 224 × 224. */
struct work {
    uint32_t side, every;
    uint8_t *planes[3];
    struct axis x[2], y[2]; /* of luma, of colours */
    void *scratch;
    uint8_t *rows[3], *pixels;
    float *floats;
    struct convert convert;
};

enum { TO = 224, AXES = 1, RESIZE = 2, COLOUR = 4, CONVERT = 8 };

static void work_axes(struct work *w)
{
    for (uint32_t k = 0; k < (w->every > 1 ? 2u : 1u); k++) {
        plane_axis_init(&w->x[k].plan, &w->x[k].span, TO, PST_FILTER_TRIANGLE, 0, TO, true, w->x[k].memory);
        plane_axis_init(&w->y[k].plan, &w->y[k].span, TO, PST_FILTER_TRIANGLE, 0, TO, false, w->y[k].memory);
    }
}

static void work_rows(struct work *w, const struct plane_kernels *k, int stages)
{
    struct plane_walk walk[3];
    for (size_t c = 0; c < 3; c++) {
        size_t kind = c && w->every > 1;
        const struct plane_axis *x = &w->x[kind].plan, *y = &w->y[kind].plan;
        plane_walk_init_with(&walk[c], k, w->planes[c], w->x[kind].span.size, x, y, (uint8_t *)w->scratch + c * 4096);
    }
    for (size_t y = 0; y < TO; y++) {
        for (size_t c = 0; c < 3 && stages & RESIZE; c++)
            plane_walk_row(&walk[c], w->rows[c]);
        if (stages & COLOUR) {
            k->colour(w->rows[0], w->rows[1], w->rows[2], TO);
            k->merge(w->rows[0], w->rows[1], w->rows[2], w->pixels, TO);
        }
        if (stages & CONVERT)
            convert_row(&w->convert, w->pixels, TO, w->floats + y * TO * 3, 0, NULL);
    }
}

static struct work work_make(uint32_t side, uint32_t every)
{
    static const float scale[3] = {0.017f, 0.0175f, 0.0174f}, bias[3] = {-2.1f, -2.0f, -1.8f};
    struct work w = {.side = side, .every = every, .scratch = allocate(3 * 4096), .pixels = allocate(TO * 3)};
    struct random r;
    random_init(&r, 9, 0, 0, 0);
    for (size_t c = 0; c < 3; c++) {
        uint32_t n = c ? (side + every - 1) / every : side;
        w.planes[c] = allocate((size_t)n * n);
        for (size_t i = 0; i < (size_t)n * n; i++)
            w.planes[c][i] = (uint8_t)random_u64(&r);
        w.rows[c] = allocate(TO + PLANE_PADDING);
    }
    for (size_t k = 0; k < 2; k++) {
        uint32_t n = k ? (side + every - 1) / every : side;
        struct plane_span span = {0, (double)side / (k ? every : 1), n};
        w.x[k] = axis_make(span, TO, PST_FILTER_TRIANGLE, 0, TO, true);
        w.y[k] = axis_make(span, TO, PST_FILTER_TRIANGLE, 0, TO, false);
    }
    w.floats = aligned_alloc(64, TO * TO * 3 * sizeof(float));
    convert_init(&w.convert, 3, false, scale, bias);
    return w;
}

static void work_free(struct work *w)
{
    for (size_t c = 0; c < 3; c++) {
        free(w->planes[c]);
        free(w->rows[c]);
    }
    for (size_t k = 0; k < 2; k++) {
        free(w->x[k].memory);
        free(w->y[k].memory);
    }
    free(w->scratch);
    free(w->pixels);
    free(w->floats);
}

/* µs; the best of many, as noise only adds. */
static double time_work(struct work *w, const struct level *l, int stages)
{
    struct plane_kernels kernels;
    double best = 1e9;
    plane_kernels_init(&kernels, l->features);
    for (int round = 0; round < 600; round++) {
        uint64_t start = clock_ns();
        if (stages & AXES)
            work_axes(w);
        if (stages & ~AXES)
            work_rows(w, &kernels, stages);
        best = fmin(best, (double)(clock_ns() - start) / 1e3);
    }
    return best;
}

static int bench(void)
{
    static const struct {
        uint32_t side, every;
    } cases[] = {{330, 1}, {330, 2}, {256, 2}, {500, 1}, {180, 2}};
    printf("%-6s %-6s %-10s %8s %8s %8s %8s %8s\n", "level", "from", "colours", "axes", "resize", "colour", "to f32", "all");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct work w = work_make(cases[i].side, cases[i].every);
        for (size_t k = 0; k < LEVELS; k++)
            if (runs_here(&levels[k]))
                printf("%-6s %-6u 1/%-8u %8.1f %8.1f %8.1f %8.1f %8.1f\n", levels[k].name, w.side, w.every,
                       time_work(&w, &levels[k], AXES), time_work(&w, &levels[k], RESIZE), time_work(&w, &levels[k], COLOUR),
                       time_work(&w, &levels[k], CONVERT), time_work(&w, &levels[k], AXES | RESIZE | COLOUR | CONVERT));
        work_free(&w);
    }
    return 0;
}

static const struct test tests[] = {
    {"random spans", test_random_spans}, {"every width", test_every_width},  {"weights", test_accuracy},
    {"plain areas", test_flat},          {"nearest", test_nearest},          {"parts", test_parts},
    {"colours", test_colours},           {"pixels from planes", test_merge}, {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench();
    return test_main(argc, argv, tests);
}
