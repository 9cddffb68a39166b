/* test_jpeg_kernels.c: every level of the JPEG decoder's kernels against the C reference; `--bench` times them instead.
 *
 * Rows lie in blocks of exactly the slack that they are promised, so that a sanitizer catches a load beyond; outputs lie
 * between canaries. */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/random.h"
#include "codec/jpeg/kernels.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CANARY 0xa5
#define MARGIN 64

static struct jpeg_kernels c, best;

static void *need(size_t n)
{
    void *p = aligned_alloc(64, (n + 63) / 64 * 64);
    if (!p)
        abort();
    return p;
}

static void fill(struct random *r, uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)random_u64(r);
}

/* ---- The transform ---- */

/* From flat to beyond everything that a file can hold. */
static void random_block(struct random *r, int16_t *block, unsigned kind)
{
    static const int32_t sizes[] = {2, 30, 300, 2048, 32767};
    memset(block, 0, 128);
    size_t n = kind % 3 == 0 ? 8 : kind % 3 == 1 ? 64 : random_below(r, 64);
    for (size_t i = 0; i < n; i++) {
        int32_t most = sizes[kind % 5];
        block[kind % 7 ? i : random_below(r, 64)] = (int16_t)((int32_t)random_below(r, (uint64_t)(2 * most) + 2) - most - 1);
    }
}

static void random_quant(struct random *r, int16_t *quant, unsigned kind)
{
    static const uint32_t sizes[] = {1, 16, 255, 65535};
    for (int i = 0; i < 64; i++)
        quant[i] = (int16_t)(uint16_t)(1 + random_below(r, sizes[kind % 4]));
}

static void test_transform(void)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (unsigned kind = 0; kind < 30000; kind++) {
        int16_t a[64], b[64], quant[64];
        const size_t stride = 16 + random_below(&r, 9);
        uint8_t *want = need(8 * stride + 2 * MARGIN), *got = need(8 * stride + 2 * MARGIN);
        random_block(&r, a, kind);
        random_block(&r, b, kind / 5);
        random_quant(&r, quant, kind / 7);
        memset(want, CANARY, 8 * stride + 2 * MARGIN);
        memset(got, CANARY, 8 * stride + 2 * MARGIN);
        c.transform_pair(a, b, quant, want + MARGIN, stride);
        best.transform_pair(a, b, quant, got + MARGIN, stride);
        bool same = memcmp(want, got, 8 * stride + 2 * MARGIN) == 0;
        CHECK_MSG(same, "block %u differs from C", kind);
        free(want);
        free(got);
        if (!same)
            return;
    }
}

/* The reference against the definition: a transform in floating point is never far away. */
static void test_transform_meaning(void)
{
    static const double cosine[8] = {1, 0.98078528, 0.92387953, 0.83146961, 0.70710678, 0.55557023, 0.38268343, 0.19509032};
    struct random r;
    random_init(&r, 2, 0, 0, 0);
    for (int n = 0; n < 50; n++) {
        int16_t block[64], quant[64];
        uint8_t out[8 * 16];
        for (int i = 0; i < 64; i++) {
            block[i] = (int16_t)((int)random_below(&r, 9) - 4);
            quant[i] = (int16_t)(1 + random_below(&r, 12));
        }
        c.transform_pair(block, block, quant, out, 16);
        for (int y = 0; y < 8; y++)
            for (int x = 0; x < 8; x++) {
                double sum = 128;
                for (int v = 0; v < 8; v++)
                    for (int u = 0; u < 8; u++) {
                        int ax = (2 * x + 1) * u % 32, ay = (2 * y + 1) * v % 32;
                        double cx = ax > 16 ? 32 - ax : ax, cy = ay > 16 ? 32 - ay : ay;
                        double fx = cx > 8 ? -cosine[16 - (int)cx] : cx == 8 ? 0 : cosine[(int)cx];
                        double fy = cy > 8 ? -cosine[16 - (int)cy] : cy == 8 ? 0 : cosine[(int)cy];
                        double scale = (u ? 1 : 0.70710678) * (v ? 1 : 0.70710678) / 4;
                        sum += scale * fx * fy * block[8 * v + u] * quant[8 * v + u];
                    }
                sum = sum < 0 ? 0 : sum > 255 ? 255 : sum;
                double off = sum - out[16 * y + x];
                CHECK_MSG(off < 1.1 && off > -1.1, "%d, %d: %f off", x, y, off);
            }
    }
}

static void test_flat(void)
{
    for (int dc = -32768; dc < 32768; dc += 7)
        for (int q = 1; q < 600; q += 53) {
            int16_t block[64] = {(int16_t)dc}, quant[64] = {(int16_t)q};
            uint8_t out[8 * 16];
            c.transform_pair(block, block, quant, out, 16);
            CHECK_MSG(jpeg_flat(block[0], quant[0]) == out[37], "dc %d, quant %d", dc, q);
        }
}

/* ---- Rows ---- */

struct row { /* with a sample before it, and the slack behind */
    uint8_t *block, *samples;
};

static struct row random_row(struct random *r, size_t n)
{
    struct row row = {.block = need(64 + n + JPEG_ROW_SLACK)};
    row.samples = row.block + 64;
    fill(r, row.block, 64 + n + JPEG_ROW_SLACK);
    return row;
}

enum kind { WIDEN, WIDEN_BETWEEN, UPPER, LOWER, RGB, RGBA, KINDS };

static size_t run(const struct jpeg_kernels *k, enum kind kind, const struct row rows[3], uint8_t *out, size_t n)
{
    const uint8_t *a = rows[0].samples, *b = rows[1].samples, *d = rows[2].samples;
    switch (kind) {
    case WIDEN:
        k->widen(a, out, n);
        return 2 * n;
    case WIDEN_BETWEEN:
        k->widen_between(a, b, out, n);
        return 2 * n;
    case UPPER:
    case LOWER:
        k->between(a, b, out, n, kind == UPPER);
        return n;
    default:
        k->colour[kind - RGB](a, b, d, out, n);
        return n * (kind == RGB ? 3 : 4);
    }
}

static void check_row(struct random *r, enum kind kind, size_t n)
{
    struct row rows[3] = {random_row(r, n), random_row(r, n), random_row(r, n)};
    size_t size = MARGIN + 4 * n + JPEG_ROW_SLACK;
    uint8_t *want = need(size), *got = need(size);
    memset(want, CANARY, size);
    memset(got, CANARY, size);
    size_t used = run(&c, kind, rows, want + MARGIN, n);
    run(&best, kind, rows, got + MARGIN, n);
    CHECK_MSG(memcmp(want, got, MARGIN + used) == 0, "kind %d, %zu samples: differs from C", kind, n);
    size_t slack = kind < RGB ? JPEG_ROW_SLACK : 0, beyond = 0;
    for (size_t i = MARGIN + used + slack; i < size; i++)
        beyond += got[i] != CANARY;
    CHECK_MSG(beyond == 0, "kind %d, %zu samples: wrote beyond the slack", kind, n);
    for (int i = 0; i < 3; i++)
        free(rows[i].block);
    free(want);
    free(got);
}

static void test_rows(void)
{
    struct random r;
    random_init(&r, 3, 0, 0, 0);
    for (enum kind kind = WIDEN; kind < KINDS; kind++)
        for (size_t n = 1; n <= 257; n++)
            check_row(&r, kind, n);
}

/* Every colour. */
static void test_colours(void)
{
    uint8_t y[256], cb[256], cr[256], want[768], got[768];
    for (int i = 0; i < 256; i++)
        y[i] = (uint8_t)(i * 37);
    for (int blue = 0; blue < 256; blue++)
        for (int red = 0; red < 256; red++) {
            memset(cb, blue, 256);
            memset(cr, red, 256);
            c.colour[0](y, cb, cr, want, 256);
            best.colour[0](y, cb, cr, got, 256);
            CHECK_MSG(memcmp(want, got, sizeof(want)) == 0, "cb %d, cr %d", blue, red);
        }
}

/* ---- Speed ---- */

static void bench(void)
{
    struct random r;
    static int16_t blocks[64][64], quant[64];
    static uint8_t out[8 * 1024];
    random_init(&r, 4, 0, 0, 0);
    for (int i = 0; i < 64; i++)
        random_block(&r, blocks[i], 2);
    random_quant(&r, quant, 1);
    for (int level = 0; level < 2; level++) {
        const struct jpeg_kernels *k = level ? &best : &c;
        uint64_t least = UINT64_MAX;
        for (int round = 0; round < 200; round++) {
            uint64_t begin = clock_ns();
            for (int i = 0; i < 64; i += 2)
                k->transform_pair(blocks[i], blocks[i + 1], quant, out + 16 * (i / 2), 1024);
            uint64_t took = clock_ns() - begin;
            least = took < least ? took : least;
        }
        printf("%s: %.1f ns a block\n", level ? "best" : "c", (double)least / 64);
        for (enum kind kind = WIDEN; kind < KINDS; kind++) {
            struct row rows[3] = {random_row(&r, 512), random_row(&r, 512), random_row(&r, 512)};
            least = UINT64_MAX;
            for (int round = 0; round < 500; round++) {
                uint64_t begin = clock_ns();
                for (int i = 0; i < 20; i++)
                    run(k, kind, rows, out, 512);
                uint64_t took = clock_ns() - begin;
                least = took < least ? took : least;
            }
            printf("%s: kind %d: %.3f ns a sample\n", level ? "best" : "c", kind, (double)least / 20 / 512);
            for (int i = 0; i < 3; i++)
                free(rows[i].block);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"transform", test_transform}, {"transform meaning", test_transform_meaning},
                                        {"flat", test_flat},           {"rows", test_rows},
                                        {"colours", test_colours},     {NULL, NULL}};
    jpeg_kernels_init(&c, 0);
    jpeg_kernels_init(&best, cpu_features());
    if (argc > 1 && strcmp(argv[1], "--bench") == 0) {
        bench();
        return 0;
    }
    return test_main(argc, argv, tests);
}
