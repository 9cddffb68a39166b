/* test_resize.c: every level of the resize kernels against the C reference; `--bench` times them instead.
 *
 * Inputs end where their memory ends, so that a sanitizer catches a load beyond a row; outputs lie between canaries. */
#include "base/clock.h"
#include "base/random.h"
#include "harness.h"
#include "image/resize_kernels.h"
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Random pixels in rows `gap` bytes apart; the last row ends with the memory. */
static pst_image random_image(struct random *r, uint32_t width, uint32_t height, uint32_t channels, size_t gap)
{
    pst_image image = {.width = width, .height = height, .channels = channels, .stride = (size_t)width * channels + gap};
    size_t n = image.stride * (height - 1) + (size_t)width * channels;
    image.pixels = allocate(n);
    bool extreme = random_below(r, 4) == 0; /* only 0 and 255: sums reach their bounds */
    for (size_t i = 0; i < n; i++)
        image.pixels[i] = (uint8_t)(extreme ? 0 - random_below(r, 2) : random_u64(r));
    return image;
}

struct plan {
    struct resize_axis x, y;
    void *x_memory, *y_memory, *scratch;
};

static struct plan plan_make(const pst_image *in, uint32_t width, uint32_t height, pst_filter filter)
{
    struct plan p;
    p.x_memory = allocate(resize_axis_bytes(in->width, width, filter));
    p.y_memory = allocate(resize_axis_bytes(in->height, height, filter));
    resize_axis_init(&p.x, in->width, width, filter, p.x_memory);
    resize_axis_init(&p.y, in->height, height, filter, p.y_memory);
    p.scratch = allocate(resize_scratch_bytes(&p.x, &p.y, in->channels));
    return p;
}

static void plan_free(struct plan *p)
{
    free(p->scratch);
    free(p->y_memory);
    free(p->x_memory);
}

/* Runs one level into rows `gap` bytes apart and returns the whole block, canaries included. */
static uint8_t *run_level(const struct level *l, const pst_image *in, struct plan *p, size_t gap, size_t *ret_size)
{
    struct resize_kernels kernels;
    resize_kernels_init(&kernels, l->features);
    pst_image out = {.width = p->x.out, .height = p->y.out, .channels = in->channels};
    out.stride = (size_t)out.width * out.channels + gap;
    *ret_size = 64 + out.stride * out.height + 64;
    uint8_t *block = allocate(*ret_size);
    memset(block, CANARY, *ret_size);
    out.pixels = block + 64;
    resize_run_with(&kernels, in, &out, &p->x, &p->y, p->scratch);
    size_t used = (size_t)out.width * out.channels, broken = 0;
    for (size_t i = 0; i < *ret_size; i++) {
        bool inside = i >= 64 && i < 64 + out.stride * out.height && (i - 64) % out.stride < used;
        broken += !inside && block[i] != CANARY;
    }
    CHECK_MSG(broken == 0, "%s: %u × %u × %u to %u × %u wrote %zu bytes outside the image", l->name, in->width, in->height,
              in->channels, p->x.out, p->y.out, broken);
    return block;
}

static void check_levels(struct random *r, uint32_t from_w, uint32_t from_h, uint32_t to_w, uint32_t to_h, uint32_t channels,
                         pst_filter filter)
{
    pst_image in = random_image(r, from_w, from_h, channels, random_below(r, 20));
    struct plan p = plan_make(&in, to_w, to_h, filter);
    size_t gap = random_below(r, 20), size;
    uint8_t *want = run_level(&levels[0], &in, &p, gap, &size);
    for (size_t i = 1; i < LEVELS; i++) {
        if (!runs_here(&levels[i]))
            continue;
        uint8_t *got = run_level(&levels[i], &in, &p, gap, &size);
        CHECK_MSG(memcmp(got, want, size) == 0, "%s differs from C: %u × %u × %u to %u × %u", levels[i].name, from_w, from_h,
                  channels, to_w, to_h);
        free(got);
    }
    free(want);
    plan_free(&p);
    free(in.pixels);
}

static void test_random_sizes(void)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (int round = 0; round < 1200; round++) {
        uint32_t side[4];
        for (int i = 0; i < 4; i++)
            side[i] = 1 + (uint32_t)random_below(&r, round % 3 ? 257 : 24);
        check_levels(&r, side[0], side[1], side[2], side[3], 1 + round % 4, (pst_filter)(round % 10));
    }
}

static void test_every_width(void)
{
    struct random r;
    random_init(&r, 2, 0, 0, 0);
    for (uint32_t n = 1; n <= 257; n++) {
        check_levels(&r, n, 3, 258 - n, 2, 3, PST_FILTER_TRIANGLE);
        check_levels(&r, n, 5, (n + 1) / 2, 4, 1 + n % 4, PST_FILTER_TRIANGLE);
        check_levels(&r, 2, n, 3, 258 - n, 1 + n % 4, PST_FILTER_TRIANGLE);
    }
}

static void test_extremes(void)
{
    struct random r;
    random_init(&r, 3, 0, 0, 0);
    check_levels(&r, 10000, 1, 1, 1, 3, PST_FILTER_TRIANGLE);
    check_levels(&r, 1, 10000, 1, 1, 3, PST_FILTER_TRIANGLE);
    check_levels(&r, 10000, 7, 3, 2, 4, PST_FILTER_TRIANGLE);
    check_levels(&r, 1, 1, 10000, 3, 3, PST_FILTER_TRIANGLE);
    check_levels(&r, 1, 2, 3, 10000, 1, PST_FILTER_TRIANGLE);
    check_levels(&r, 9999, 3, 10000, 1, 1, PST_FILTER_TRIANGLE);
}

static bool has_negative_weights(pst_filter filter)
{
    return filter == PST_FILTER_BICUBIC || (filter >= PST_FILTER_KEYSCUBIC && filter != PST_FILTER_GAUSSIAN);
}

/* The promises of struct resize_axis, for every pair of small sizes and some large ones. */
static void check_axis(uint32_t in, uint32_t out, pst_filter filter)
{
    struct resize_axis a;
    void *memory = allocate(resize_axis_bytes(in, out, filter));
    resize_axis_init(&a, in, out, filter, memory);
    bool fine = a.taps >= 1 && a.taps <= in && a.pitch >= a.taps && a.pitch % 8 == 0;
    for (uint32_t i = 0; i < out; i++) {
        int64_t sum = 0;
        for (uint32_t t = 0; t < a.pitch; t++) {
            int32_t w = resize_weight(resize_weights(&a, i), t);
            fine &= (w >= 0 || has_negative_weights(filter)) && (t < a.taps || w == 0);
            sum += w;
        }
        fine &= 255 * sum + (1 << (RESIZE_BITS - 1)) < INT64_C(256) << RESIZE_BITS;  /* no level above 255… */
        fine &= 255 * sum + (1 << (RESIZE_BITS - 1)) >= INT64_C(255) << RESIZE_BITS; /* …and white stays white */
        fine &= a.first[i] <= in - a.taps && (i == 0 || a.first[i] >= a.first[i - 1]);
    }
    CHECK_MSG(fine, "axis %u to %u, filter %d breaks its promises", in, out, (int)filter);
    free(memory);
}

static void test_axis(void)
{
    for (uint32_t in = 1; in <= 64; in++)
        for (uint32_t out = 1; out <= 64; out++)
            for (int filter = PST_FILTER_TRIANGLE; filter <= PST_FILTER_MITCHELLCUBIC; filter++)
                check_axis(in, out, (pst_filter)filter);
    static const uint32_t sizes[] = {1, 2, 3, 49, 98, 224, 375, 500, 1000, 9999, 10000, 65535, 200000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++)
            for (int filter = PST_FILTER_TRIANGLE; filter <= PST_FILTER_MITCHELLCUBIC; filter++)
                check_axis(sizes[i], sizes[k], (pst_filter)filter);
}

/* What a filter makes of position `k` for output `i`, in floating point and before it is normalised. */
static double exact_weight(pst_filter filter, double scale, uint32_t i, uint32_t k)
{
    bool stretches = filter != PST_FILTER_BILINEAR && filter <= PST_FILTER_AREA;
    double stretch = scale > 1 && stretches ? scale : 1, x = fabs((k + 0.5 - (i + 0.5) * scale) / stretch);
    double radius = filter == PST_FILTER_LANCZOS3 ? 3 : 5, angle = 3.14159265358979323846 * x;
    if (filter == PST_FILTER_LANCZOS3 || filter == PST_FILTER_LANCZOS5)
        return x < 1e-9 ? 1 : x < radius ? sin(angle) / angle * sin(angle / radius) / (angle / radius) : 0;
    if (filter == PST_FILTER_GAUSSIAN) /* a deviation of 0.5, up to three of them */
        return x < 1.5 ? exp(-x * x / (2 * 0.5 * 0.5)) : 0;
    if (filter == PST_FILTER_MITCHELLCUBIC) /* B = C = 1/3 */
        return x < 1   ? (7 * x * x * x - 12 * x * x + 16.0 / 3) / 6
               : x < 2 ? (-7.0 / 3 * x * x * x + 12 * x * x - 20 * x + 32.0 / 3) / 6
                       : 0;
    if (filter == PST_FILTER_AREA)
        return fmax(0, fmin(k + 1, (i + 1) * scale) - fmax(k, i * scale));
    if (filter == PST_FILTER_BICUBIC || filter == PST_FILTER_KEYSCUBIC)
        return x < 1 ? 1.5 * x * x * x - 2.5 * x * x + 1 : x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
    return fmax(0, 1 - x);
}

/* One row against the same filter in floating point. */
static void check_row(uint32_t n, uint32_t to, pst_filter filter, struct random *r)
{
    pst_image in = random_image(r, n, 1, 1, 0);
    struct plan p = plan_make(&in, to, 1, filter);
    size_t size;
    uint8_t *block = run_level(&levels[0], &in, &p, 0, &size);
    double scale = (double)n / to, worst = 0;
    for (uint32_t i = 0; i < to; i++) {
        double sum = 0, weights = 0;
        for (uint32_t k = 0; k < n; k++) {
            double w = exact_weight(filter, scale, i, k);
            sum += w * in.pixels[k];
            weights += w;
        }
        worst = fmax(worst, fabs(fmin(255, fmax(0, sum / weights)) - block[64 + i]));
    }
    CHECK_MSG(worst <= 0.51, "%u to %u, filter %d: %.3f levels from the exact value", n, to, (int)filter, worst);
    free(block);
    plan_free(&p);
    free(in.pixels);
}

static void test_accuracy(void)
{
    static const pst_filter accurate[] = {PST_FILTER_TRIANGLE, PST_FILTER_BILINEAR,  PST_FILTER_BICUBIC,
                                          PST_FILTER_AREA,     PST_FILTER_KEYSCUBIC, PST_FILTER_LANCZOS3,
                                          PST_FILTER_LANCZOS5, PST_FILTER_GAUSSIAN,  PST_FILTER_MITCHELLCUBIC};
    const int filters = sizeof(accurate) / sizeof(accurate[0]);
    struct random r;
    random_init(&r, 4, 0, 0, 0);
    for (int round = 0; round < 700; round++)
        check_row(1 + (uint32_t)random_below(&r, 300), 1 + (uint32_t)random_below(&r, 300), accurate[round % filters], &r);
    for (int i = 0; i < filters; i++) {
        check_row(10000, 1, accurate[i], &r);
        check_row(100000, 3, accurate[i], &r);
        check_row(1, 10000, accurate[i], &r);
        check_row(20, 60, accurate[i], &r);
        check_row(60, 20, accurate[i], &r);
    }
}

static void test_nearest(void)
{
    static const uint8_t pixels[5] = {10, 20, 30, 40, 50}, to3[3] = {10, 30, 50};
    static const uint8_t to10[10] = {10, 10, 20, 20, 30, 30, 40, 40, 50, 50};
    pst_image in = {.pixels = (uint8_t *)pixels, .width = 5, .height = 1, .channels = 1, .stride = 5};
    size_t size;
    struct plan p = plan_make(&in, 3, 1, PST_FILTER_NEAREST);
    uint8_t *block = run_level(&levels[0], &in, &p, 0, &size);
    CHECK(memcmp(block + 64, to3, 3) == 0);
    free(block);
    plan_free(&p);
    p = plan_make(&in, 10, 1, PST_FILTER_NEAREST);
    block = run_level(&levels[0], &in, &p, 0, &size);
    CHECK(memcmp(block + 64, to10, 10) == 0);
    free(block);
    plan_free(&p);
}

/* ---- Parts ---- */

/* A range of outputs of one axis, reading only what it needs of an image: as in the whole result. */
struct part_axis {
    struct resize_axis axis;
    void *memory;
    uint32_t begin, count, from;
};

static struct part_axis part_of(struct random *r, uint32_t in, uint32_t out, pst_filter filter)
{
    struct part_axis p = {.begin = (uint32_t)random_below(r, out)};
    p.count = 1 + (uint32_t)random_below(r, out - p.begin);
    p.memory = allocate(resize_axis_part_bytes(in, out, filter, p.count));
    resize_axis_init_part(&p.axis, in, out, filter, p.begin, p.count, p.memory);
    p.from = resize_axis_narrow(&p.axis);
    return p;
}

static void check_part(struct random *r, const pst_image *in, const pst_image *whole, pst_filter filter)
{
    struct part_axis x = part_of(r, in->width, whole->width, filter), y = part_of(r, in->height, whole->height, filter);
    pst_image view = *in, part = {.width = x.count, .height = y.count, .channels = in->channels};
    CHECK(x.from + x.axis.in <= in->width && y.from + y.axis.in <= in->height);
    view.pixels += y.from * in->stride + x.from * in->channels;
    view.width = x.axis.in;
    view.height = y.axis.in;
    part.stride = (size_t)x.count * in->channels;
    part.pixels = allocate(part.stride * y.count);
    void *scratch = allocate(resize_scratch_bytes(&x.axis, &y.axis, in->channels));
    resize_run(&view, &part, &x.axis, &y.axis, scratch);
    bool same = true;
    for (uint32_t i = 0; i < y.count; i++)
        same &= memcmp(part.pixels + i * part.stride, whole->pixels + (y.begin + i) * whole->stride + x.begin * in->channels,
                       part.stride) == 0;
    CHECK_MSG(same, "filter %d: %u × %u to %u × %u, %u × %u of it at %u, %u", (int)filter, in->width, in->height, whole->width,
              whole->height, x.count, y.count, x.begin, y.begin);
    free(scratch);
    free(part.pixels);
    free(x.memory);
    free(y.memory);
}

static void test_parts(void)
{
    struct random r;
    random_init(&r, 6, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        pst_filter filter = (pst_filter)(round % 10);
        pst_image in =
            random_image(&r, 1 + (uint32_t)random_below(&r, 90), 1 + (uint32_t)random_below(&r, 90), 1 + round % 4, 0);
        pst_image out = {
            .width = 1 + (uint32_t)random_below(&r, 90), .height = 1 + (uint32_t)random_below(&r, 90), .channels = in.channels};
        struct plan p = plan_make(&in, out.width, out.height, filter);
        out.stride = (size_t)out.width * out.channels;
        out.pixels = allocate(out.stride * out.height);
        resize_run(&in, &out, &p.x, &p.y, p.scratch);
        for (int i = 0; i < 4; i++)
            check_part(&r, &in, &out, filter);
        plan_free(&p);
        free(out.pixels);
        free(in.pixels);
    }
}

static void mirror(pst_image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        for (uint32_t x = 0; x < image->width / 2; x++)
            for (uint32_t c = 0; c < image->channels; c++) {
                uint8_t *row = image->pixels + y * image->stride, *a = row + x * image->channels + c;
                uint8_t *b = row + (image->width - 1 - x) * image->channels + c, kept = *a;
                *a = *b;
                *b = kept;
            }
}

/* The mirror of the resized mirror is what the mirrored axis makes of the image. */
static void test_mirror(void)
{
    struct random r;
    random_init(&r, 7, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        pst_image in =
            random_image(&r, 1 + (uint32_t)random_below(&r, 90), 1 + (uint32_t)random_below(&r, 5), 1 + round % 4, 0);
        uint32_t width = 1 + (uint32_t)random_below(&r, 90);
        struct plan p = plan_make(&in, width, 3, (pst_filter)(round % 10));
        size_t size;
        mirror(&in);
        uint8_t *want = run_level(&levels[0], &in, &p, 0, &size);
        mirror(&(pst_image){
            .pixels = want + 64, .width = width, .height = 3, .channels = in.channels, .stride = width * in.channels});
        mirror(&in);
        resize_axis_mirror(&p.x);
        bool rises = true;
        for (uint32_t i = 1; i < width; i++)
            rises &= p.x.first[i] >= p.x.first[i - 1];
        uint8_t *got = run_level(&levels[0], &in, &p, 0, &size);
        CHECK_MSG(rises && memcmp(got, want, size) == 0, "filter %d: %u to %u", round % 10, in.width, width);
        free(got);
        free(want);
        plan_free(&p);
        free(in.pixels);
    }
}

/* ---- Timing ---- */

/* µs for one resize, plan included or not: the best of many, as noise only adds. */
static double time_resize(const struct level *l, const pst_image *in, uint32_t side, bool with_plan)
{
    struct resize_kernels kernels;
    resize_kernels_init(&kernels, l->features);
    pst_image out = {.width = side, .height = side, .channels = in->channels, .stride = (size_t)side * in->channels};
    out.pixels = allocate(out.stride * side);
    struct plan p = plan_make(in, side, side, PST_FILTER_TRIANGLE);
    double best = 1e9;
    for (int round = 0; round < 400; round++) {
        uint64_t start = clock_ns();
        if (with_plan) {
            resize_axis_init(&p.x, in->width, side, PST_FILTER_TRIANGLE, p.x_memory);
            resize_axis_init(&p.y, in->height, side, PST_FILTER_TRIANGLE, p.y_memory);
        }
        resize_run_with(&kernels, in, &out, &p.x, &p.y, p.scratch);
        best = fmin(best, (double)(clock_ns() - start) / 1e3);
    }
    plan_free(&p);
    free(out.pixels);
    return best;
}

static int bench(void)
{
    static const struct {
        uint32_t width, height, channels, side;
    } cases[] = {{500, 375, 3, 224}, {330, 330, 3, 224},   {500, 375, 4, 224},
                 {500, 375, 1, 224}, {2000, 1500, 3, 224}, {32, 32, 3, 224}};
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    printf("%-6s %-14s %8s %10s %12s\n", "level", "from", "to", "µs", "with plan");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_image in = random_image(&r, cases[i].width, cases[i].height, cases[i].channels, 0);
        for (size_t k = 0; k < LEVELS; k++) {
            if (!runs_here(&levels[k]))
                continue;
            char from[32];
            snprintf(from, sizeof(from), "%ux%ux%u", in.width, in.height, in.channels);
            printf("%-6s %-14s %8u %10.1f %12.1f\n", levels[k].name, from, cases[i].side,
                   time_resize(&levels[k], &in, cases[i].side, false), time_resize(&levels[k], &in, cases[i].side, true));
        }
        free(in.pixels);
    }
    return 0;
}

static const struct test tests[] = {
    {"the axis keeps its promises", test_axis},
    {"random sizes, every level", test_random_sizes},
    {"every width and height", test_every_width},
    {"10000 to 1 and back", test_extremes},
    {"the reference against floating point", test_accuracy},
    {"nearest", test_nearest},
    {"parts of the result", test_parts},
    {"mirrored", test_mirror},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench();
    return test_main(argc, argv, tests);
}
