/* test_convert.c: every level of the row conversions against the C reference; `--bench` times them instead.
 *
 * Inputs end where their memory ends, so that a sanitizer catches a load beyond a row; outputs lie between canaries. */
#include "base/clock.h"
#include "base/random.h"
#include "harness.h"
#include "image/convert_kernels.h"
#include "levels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 64

static uint8_t *random_row(struct random *r, size_t n)
{
    uint8_t *row = allocate(n);
    for (size_t i = 0; i < n; i++)
        row[i] = (uint8_t)random_u64(r);
    return row;
}

/* One row of one level between canaries. */
static uint8_t *run_level(const struct level *l, const struct convert *c, const uint8_t *in, uint32_t width, size_t gap,
                          size_t *ret_size)
{
    struct convert_kernels k;
    size_t value = c->scaled ? sizeof(float) : 1, planes = c->planar ? c->channels : 1;
    size_t row = c->planar ? width : (size_t)width * c->channels, plane = row + gap;
    convert_kernels_init(&k, l->features);
    *ret_size = 2 * MARGIN + planes * plane * value;
    uint8_t *block = allocate(*ret_size), *scratch = allocate(convert_scratch_bytes(c, width));
    memset(block, CANARY, *ret_size);
    convert_row_with(&k, c, in, width, block + MARGIN, plane, scratch);
    size_t broken = 0;
    for (size_t i = 0; i < *ret_size; i++) {
        size_t at = (i - MARGIN) / value;
        bool inside = i >= MARGIN && at / plane < planes && at % plane < row;
        broken += !inside && block[i] != CANARY;
    }
    CHECK_MSG(broken == 0, "%s: width %u, %u channels, planar %d, scaled %d, flips %d wrote %zu bytes outside the row", l->name,
              width, c->channels, c->planar, c->scaled, c->flips, broken);
    free(scratch);
    return block;
}

/* Bit 0 of `kind`: mirrored; 1: planar; 2: scaled. The factors are left in `scale` and `bias`. */
static struct convert random_convert(struct random *r, uint32_t channels, unsigned kind, float *scale, float *bias)
{
    struct convert c;
    for (int i = 0; i < 4; i++) {
        scale[i] = (float)random_between(r, -0.02, 0.02);
        bias[i] = (float)random_between(r, -3, 3);
    }
    convert_init(&c, channels, kind >> 1 & 1, kind >> 2 & 1 ? scale : NULL, bias);
    c.flips = kind & 1;
    c.streams = random_below(r, 2);
    return c;
}

static void check_width(struct random *r, uint32_t width)
{
    for (uint32_t channels = 1; channels <= 4; channels++) {
        uint8_t *in = random_row(r, (size_t)width * channels);
        for (unsigned kind = 0; kind < 8; kind++) {
            float scale[4], bias[4];
            struct convert c = random_convert(r, channels, kind, scale, bias);
            size_t gap = random_below(r, 5), size;
            uint8_t *want = run_level(&levels[0], &c, in, width, gap, &size);
            for (size_t l = 1; l < LEVELS; l++) {
                if (!runs_here(&levels[l]))
                    continue;
                uint8_t *got = run_level(&levels[l], &c, in, width, gap, &size);
                CHECK_MSG(memcmp(got, want, size) == 0,
                          "%s differs from C: width %u, %u channels, planar %d, scaled %d, flips %d", levels[l].name, width,
                          channels, c.planar, c.scaled, c.flips);
                free(got);
            }
            free(want);
        }
        free(in);
    }
}

static void test_every_width(void)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (uint32_t width = 1; width <= 257; width++)
        check_width(&r, width);
    check_width(&r, 4099);
}

/* A row that comes channel by channel gives what its pixels give. */
static void test_planes(void)
{
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    for (uint32_t width = 1; width <= 130; width++) {
        uint32_t channels = 1 + width % 4;
        uint8_t *in = random_row(&r, (size_t)width * channels), *rows[4];
        for (uint32_t c = 0; c < channels; c++) {
            rows[c] = random_row(&r, width);
            for (uint32_t x = 0; x < width; x++)
                rows[c][x] = in[x * channels + c];
        }
        for (unsigned kind = 0; kind < 4; kind++)
            for (size_t l = 0; l < LEVELS; l++) {
                float scale[4], bias[4];
                struct convert c = random_convert(&r, channels, 2 | (kind & 1) | (kind & 2) << 1, scale, bias);
                struct convert_kernels k;
                size_t size;
                if (!runs_here(&levels[l]))
                    continue;
                convert_kernels_init(&k, levels[l].features);
                uint8_t *want = run_level(&levels[l], &c, in, width, 0, &size), *got = allocate(size),
                        *scratch = allocate(width);
                memset(got, CANARY, size);
                convert_planes_with(&k, &c, (const uint8_t *const *)rows, width, got + MARGIN, width, scratch);
                CHECK_MSG(memcmp(got, want, size) == 0, "%s: width %u, %u channels, scaled %d, flips %d", levels[l].name, width,
                          channels, c.scaled, c.flips);
                free(scratch);
                free(got);
                free(want);
            }
        for (uint32_t c = 0; c < channels; c++)
            free(rows[c]);
        free(in);
    }
}

/* The reference against the definition, value by value. */
static void test_meaning(void)
{
    struct random r;
    size_t size;
    random_init(&r, 2, 0, 0, 0);
    for (uint32_t width = 1; width < 40; width++) {
        uint32_t channels = 1 + width % 4;
        uint8_t *in = random_row(&r, (size_t)width * channels);
        for (unsigned kind = 0; kind < 8; kind++) {
            float scale[4], bias[4];
            struct convert c = random_convert(&r, channels, kind, scale, bias);
            uint8_t *block = run_level(&levels[0], &c, in, width, 0, &size);
            bool fine = true;
            for (uint32_t x = 0; x < width; x++)
                for (uint32_t k = 0; k < channels; k++) {
                    uint8_t from = in[(c.flips ? width - 1 - x : x) * channels + k];
                    size_t at = c.planar ? k * width + x : x * channels + k;
                    float value;
                    memcpy(&value, block + MARGIN + (c.scaled ? at * sizeof(float) : 0), sizeof(value));
                    volatile float product = (float)from * scale[k];
                    fine &= c.scaled ? value == product + bias[k] : block[MARGIN + at] == from;
                }
            CHECK_MSG(fine, "width %u, %u channels, kind %u", width, channels, kind);
            free(block);
        }
        free(in);
    }
}

/* ---- Timing ---- */

/* µs for 224 rows of 224 RGB pixels: the best of many, as noise only adds. */
static double time_rows(const struct level *l, const struct convert *c)
{
    enum { SIDE = 224 };
    struct convert_kernels k;
    struct random r;
    random_init(&r, 3, 0, 0, 0);
    convert_kernels_init(&k, l->features);
    size_t value = c->scaled ? sizeof(float) : 1, row = (size_t)SIDE * (c->planar ? 1 : c->channels) * value;
    uint8_t *in = random_row(&r, (size_t)SIDE * c->channels * SIDE), *out = allocate((size_t)SIDE * SIDE * c->channels * value);
    uint8_t *scratch = allocate(convert_scratch_bytes(c, SIDE));
    double best = 1e9;
    for (int round = 0; round < 1000; round++) {
        uint64_t start = clock_ns();
        for (size_t y = 0; y < SIDE; y++)
            convert_row_with(&k, c, in + y * SIDE * c->channels, SIDE, out + y * row, (size_t)SIDE * SIDE, scratch);
        best = fmin(best, (double)(clock_ns() - start) / 1e3);
    }
    free(scratch);
    free(out);
    free(in);
    return best;
}

static int bench(void)
{
    printf("%-6s %-12s %-8s %6s %10s\n", "level", "layout", "type", "flip", "\xc2\xb5s");
    for (unsigned kind = 0; kind < 8; kind++)
        for (size_t l = 0; l < LEVELS; l++) {
            struct random r;
            float scale[4], bias[4];
            random_init(&r, 4, 0, 0, 0);
            struct convert c = random_convert(&r, 3, kind, scale, bias);
            if (runs_here(&levels[l]))
                printf("%-6s %-12s %-8s %6s %10.1f\n", levels[l].name, c.planar ? "planes" : "pixels",
                       c.scaled ? "float32" : "uint8", c.flips ? "yes" : "no", time_rows(&levels[l], &c));
        }
    return 0;
}

static const struct test tests[] = {
    {"every width, every level", test_every_width},
    {"channel by channel", test_planes},
    {"what each conversion means", test_meaning},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench();
    return test_main(argc, argv, tests);
}
