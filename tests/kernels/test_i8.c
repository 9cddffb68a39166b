/* test_i8.c: every integer kernel against its plain C meaning, bit by bit: random shapes, tails, strides, paddings, groups, rows in
 * parts, weights of 7 and 8 bits, the largest sums; `--bench` times the shapes of usual models instead.
 *
 * Outputs lie between canaries. Inputs end I8_SLACK bytes before their memory ends, so that a sanitizer catches a load beyond. */
#include "base/clock.h"
#include "base/random.h"
#include "harness.h"
#include "levels.h"
#include "quant/kernels/i8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GUARD 64

static void *allocate_aligned(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!p)
        abort();
    return p;
}

/* ---- One convolution ---- */

struct task {
    struct i8_job job;
    uint8_t *in;
    int8_t *kernel;
    int32_t *bias;
    float *factors;
    size_t kernel_count, in_count, out_count;
    int limit;
};

static void set_weights(struct task *t, struct random *r, bool extreme)
{
    struct i8_shape *s = &t->job.shape;
    for (size_t i = 0; i < t->kernel_count; i++)
        t->kernel[i] = (int8_t)(extreme ? (random_below(r, 2) ? t->limit : -t->limit)
                                        : (int)random_below(r, 2 * (uint64_t)t->limit + 1) - t->limit);
    s->most = 0;
    s->sum = 0;
    for (size_t o = 0; o < s->co; o++) {
        int64_t sum = 0;
        for (size_t i = o; i < t->kernel_count; i += s->co) {
            sum += abs(t->kernel[i]);
            s->most = abs(t->kernel[i]) > s->most ? abs(t->kernel[i]) : s->most;
        }
        s->sum = sum > s->sum ? sum : s->sum;
    }
}

static struct task task_make(struct random *r, const struct i8_shape *shape, size_t most, int limit)
{
    struct task t = {.job = {.shape = *shape, .images = 1 + random_below(r, 6)}, .limit = limit};
    struct i8_job *j = &t.job;
    size_t reach = (shape->size - 1) * shape->dilation + 1, below, after;
    bool extreme = random_below(r, 4) == 0;
    do {
        j->in_h = 1 + random_below(r, most);
        j->in_w = 1 + random_below(r, most);
        bool padded = random_below(r, 3);
        j->top = padded ? random_below(r, reach + 2) : 0;
        j->left = padded ? random_below(r, reach + 2) : 0;
        below = padded ? random_below(r, reach) : 0;
        after = padded ? random_below(r, reach) : 0;
    } while (j->in_h + j->top + below < reach || j->in_w + j->left + after < reach);
    j->h = (j->in_h + j->top + below - reach) / shape->stride + 1;
    j->w = (j->in_w + j->left + after - reach) / shape->stride + 1;
    j->row = random_below(r, 2) ? 0 : random_below(r, j->h);
    j->row_end = random_below(r, 2) ? j->h : j->row + random_below(r, j->h - j->row + 1);
    j->in_zero = (uint8_t)(random_below(r, 2) ? 0 : random_below(r, 256));
    j->zero = (uint8_t)random_below(r, 256);
    j->low = (uint8_t)(random_below(r, 2) ? 0 : random_below(r, 100));
    j->high = (uint8_t)(random_below(r, 2) ? 255 : 100 + random_below(r, 156));
    j->least = random_below(r, 2) ? 0 : -INFINITY;
    j->most = random_below(r, 2) ? 3 : INFINITY;
    t.in_count = j->images * j->in_h * j->in_w * shape->ci;
    t.in = allocate(t.in_count + I8_SLACK);
    for (size_t i = 0; i < t.in_count + I8_SLACK; i++)
        t.in[i] = (uint8_t)(extreme ? (random_below(r, 2) ? 255 : 0) : random_below(r, 256));
    t.kernel_count = shape->size * shape->size * (shape->depthwise ? 1 : shape->ci / shape->groups) * shape->co;
    t.kernel = allocate(t.kernel_count);
    set_weights(&t, r, extreme);
    t.bias = allocate((shape->co + 16) * sizeof(int32_t));
    t.factors = allocate((shape->co + 16) * sizeof(float));
    for (size_t o = 0; o < shape->co + 16; o++) {
        t.bias[o] = (int32_t)random_below(r, 20001) - 10000;
        t.factors[o] = (float)random_between(r, 1e-4, 2e-2);
    }
    t.out_count = j->images * j->h * j->w * shape->co;
    j->in = t.in;
    return t;
}

static void task_free(struct task *t)
{
    free(t->in), free(t->kernel), free(t->bias), free(t->factors);
}

/* The bytes of the result with canaries around; `reals`: floats. */
static uint8_t *run(const struct task *t, const struct i8_kernel *k, bool reals)
{
    size_t bytes = t->out_count * (reals ? sizeof(float) : 1), biases = (t->job.shape.co + 16) * sizeof(int32_t);
    struct i8_job j = t->job;
    uint8_t *out = allocate_aligned(bytes + 2 * GUARD);
    int32_t *bias = allocate(biases);
    void *weights = allocate_aligned(k->weights_bytes(&j.shape) + I8_SLACK), *scratch = allocate_aligned(k->scratch_bytes(&j));
    memset(out, CANARY, bytes + 2 * GUARD);
    memcpy(bias, t->bias, biases);
    k->pack(&j.shape, t->kernel, j.in_zero, weights, bias);
    j.weights = weights;
    j.bias = bias;
    j.factors = t->factors;
    j.out = reals ? NULL : out + GUARD;
    j.out_real = reals ? (float *)(void *)(out + GUARD) : NULL;
    k->conv(&j, scratch);
    free(bias), free(weights), free(scratch);
    return out;
}

static void compare(const struct task *t, const struct i8_kernel *k)
{
    const struct i8_job *j = &t->job;
    for (int reals = 0; reals < 2; reals++) {
        size_t bytes = t->out_count * (reals ? sizeof(float) : 1) + 2 * GUARD;
        uint8_t *want = run(t, &i8_conv_c, reals), *got = run(t, k, reals);
        size_t at = 0;
        while (at < bytes && want[at] == got[at])
            at++;
        CHECK_MSG(at == bytes, "%s: size %zu stride %zu dilation %zu groups %zu, %zu to %zu channels, %zu × %zu × %zu, rows %zu to %zu, reals %d: byte %zu is %d, want %d",
                  k->name, j->shape.size, j->shape.stride, j->shape.dilation, j->shape.groups, j->shape.ci, j->shape.co, j->images, j->h, j->w,
                  j->row, j->row_end, reals, at, at < bytes ? got[at] : 0, at < bytes ? want[at] : 0);
        free(want), free(got);
    }
}

/* Every kernel of this processor that takes the task. */
static void compare_kernels(const struct task *t)
{
    for (size_t i = 0; i8_kernel_at(i, cpu_features(), false) != &i8_conv_c; i++)
        if (i8_kernel_at(i, cpu_features(), false)->takes(&t->job.shape))
            compare(t, i8_kernel_at(i, cpu_features(), false));
}

static void compare_all(struct random *r, const struct i8_shape *shape, size_t most, int limit)
{
    struct task t = task_make(r, shape, most, limit);
    compare_kernels(&t);
    task_free(&t);
}

static const int limits[] = {63, 127};

static void test_shapes(void)
{
    static const size_t sizes[] = {1, 2, 3, 3, 3, 5};
    struct random r;
    random_init(&r, 16, 0, 0, 0);
    for (int i = 0; i < 240; i++) {
        struct i8_shape s = {.size = sizes[random_below(&r, 6)], .stride = 1 + random_below(&r, 2), .dilation = 1, .groups = 1};
        s.ci = 1 + random_below(&r, 40);
        s.co = 1 + random_below(&r, 40);
        compare_all(&r, &s, 14, limits[i % 2]);
    }
}

static void test_channels(void)
{
    struct random r;
    random_init(&r, 17, 0, 0, 0);
    for (size_t c = 1; c <= 257; c += c < 70 ? 1 : 17) {
        struct i8_shape one = {.size = 1, .stride = 1, .dilation = 1, .groups = 1, .ci = c, .co = 258 - c};
        struct i8_shape three = {.size = 3, .stride = 1, .dilation = 1, .groups = 1, .ci = c, .co = 1 + c % 35};
        compare_all(&r, &one, 5, limits[c % 2]);
        compare_all(&r, &three, 9, limits[c / 2 % 2]);
    }
}

/* Images of a pixel or a few: where windows are pixels, all images are one row, unless there are strides. */
static void test_small_images(void)
{
    struct random r;
    random_init(&r, 25, 0, 0, 0);
    for (int i = 0; i < 120; i++) {
        struct i8_shape s = {.size = 1, .stride = 1 + random_below(&r, 3), .dilation = 1, .groups = 1, .ci = 1 + random_below(&r, 70), .co = 1 + random_below(&r, 70)};
        compare_all(&r, &s, 1 + random_below(&r, 2), limits[i % 2]);
    }
}

/* Several vectors of output channels, whole and not, and pixels beyond one block. */
static void test_many_channels(void)
{
    struct random r;
    random_init(&r, 24, 0, 0, 0);
    for (size_t co = 31; co <= 145; co += 1 + random_below(&r, 5)) {
        struct i8_shape s = {.size = 1 + random_below(&r, 3), .stride = 1 + random_below(&r, 2), .dilation = 1, .groups = 1, .ci = 1 + random_below(&r, 70), .co = co};
        compare_all(&r, &s, 14, limits[co % 2]);
    }
}

static void test_dilation_and_groups(void)
{
    struct random r;
    random_init(&r, 18, 0, 0, 0);
    for (int i = 0; i < 80; i++) {
        size_t groups = 1 + random_below(&r, 4);
        struct i8_shape s = {.size = 1 + random_below(&r, 3), .stride = 1 + random_below(&r, 3), .dilation = 1 + random_below(&r, 3), .groups = groups};
        s.ci = groups * (1 + random_below(&r, 9));
        s.co = groups * (1 + random_below(&r, 20));
        compare_all(&r, &s, 12, limits[i % 2]);
    }
}

static void test_depthwise(void)
{
    struct random r;
    random_init(&r, 19, 0, 0, 0);
    for (int i = 0; i < 120; i++) {
        struct i8_shape s = {.size = 1 + random_below(&r, 5), .stride = 1 + random_below(&r, 2), .dilation = 1, .groups = 1, .depthwise = true};
        s.ci = s.co = 1 + random_below(&r, 70);
        compare_all(&r, &s, 13, limits[i % 2]);
    }
    for (size_t i = 0; i < 96; i++) { /* one, two and four pixels of a vector, and channels beyond whole ones */
        static const size_t channels[] = {16, 32, 64, 65, 100, 128};
        struct i8_shape s = {.size = 3, .stride = 1 + i % 2, .dilation = 1, .groups = 1, .depthwise = true, .ci = channels[i / 2 % 6], .co = channels[i / 2 % 6]};
        compare_all(&r, &s, 13, limits[i / 12 % 2]);
    }
}

/* The largest inputs and weights there are, with sums that leave 32 bits inside of the transforms. */
static void test_extremes(void)
{
    struct random r;
    random_init(&r, 20, 0, 0, 0);
    for (int i = 0; i < 4; i++) {
        struct i8_shape s = {.size = 3, .stride = 1, .dilation = 1, .groups = 1, .ci = 112, .co = 17};
        struct task t = task_make(&r, &s, 12, 127);
        memset(t.in, 255, t.in_count);
        for (size_t k = 0; k < t.kernel_count; k++)
            t.kernel[k] = (int8_t)(i % 2 ? 127 : -127);
        t.job.shape.most = 127;
        t.job.shape.sum = 9 * 112 * 127;
        for (size_t o = 0; o < s.co; o++)
            t.factors[o] = 6e-6f;
        compare_kernels(&t);
        task_free(&t);
    }
}

/* ---- The others ---- */

static uint8_t *random_bytes(struct random *r, size_t count)
{
    uint8_t *p = allocate(count);
    for (size_t i = 0; i < count; i++)
        p[i] = (uint8_t)random_below(r, 256);
    return p;
}

static void check_bytes(const char *what, const uint8_t *got, const uint8_t *want, size_t count)
{
    size_t at = 0;
    while (at < count && got[at] == want[at])
        at++;
    CHECK_MSG(at == count, "%s of %zu: byte %zu is %d, want %d", what, count, at, at < count ? got[at] : 0, at < count ? want[at] : 0);
}

static void add_at(unsigned features)
{
    struct i8_kernels c, fast;
    struct random r;
    random_init(&r, 21, 0, 0, 0);
    i8_kernels_c(&c);
    i8_kernels_init(&fast, features);
    for (size_t count = 0; count < 257; count++) {
        struct i8_add a = {.terms = 1 + random_below(&r, 3), .zero = (uint8_t)random_below(&r, 256), .low = (uint8_t)random_below(&r, 50), .high = 200};
        uint8_t *in[3], *want = allocate(count), *got = allocate(count);
        for (size_t k = 0; k < 3; k++) {
            a.in[k] = in[k] = random_bytes(&r, count);
            a.zeros[k] = (uint8_t)random_below(&r, 256);
            a.factors[k] = (float)random_between(&r, 0, count % 7 ? 1 : 1e30);
        }
        c.add(&a, count, want);
        fast.add(&a, count, got);
        check_bytes("add", got, want, count);
        free(in[0]), free(in[1]), free(in[2]), free(want), free(got);
    }
}

static void convert_at(unsigned features)
{
    struct i8_kernels c, fast;
    struct random r;
    random_init(&r, 22, 0, 0, 0);
    i8_kernels_c(&c);
    i8_kernels_init(&fast, features);
    for (size_t count = 0; count < 257; count++) {
        float *x = allocate(count * sizeof(float)), *back = allocate(count * sizeof(float)), *back_c = allocate(count * sizeof(float));
        uint8_t *want = allocate(count), *got = allocate(count), zero = (uint8_t)random_below(&r, 256);
        for (size_t i = 0; i < count; i++)
            x[i] = i % 31 == 7 ? NAN : i % 29 == 5 ? INFINITY : i % 37 == 5 ? -1e30f : (float)random_between(&r, -8, 8);
        c.quantise(x, count, .05f, zero, want);
        fast.quantise(x, count, .05f, zero, got);
        check_bytes("quantise", got, want, count);
        c.dequantise(want, count, .05f, zero, back_c);
        fast.dequantise(want, count, .05f, zero, back);
        check_bytes("dequantise", (uint8_t *)back, (uint8_t *)back_c, count * sizeof(float));
        free(x), free(back), free(back_c), free(want), free(got);
    }
}

static void pool_at(unsigned features)
{
    struct i8_kernels c, fast;
    struct random r;
    random_init(&r, 23, 0, 0, 0);
    i8_kernels_c(&c);
    i8_kernels_init(&fast, features);
    for (int i = 0; i < 200; i++) {
        struct i8_pool p = {.images = 1 + random_below(&r, 2), .in_h = 3 + random_below(&r, 9), .in_w = 3 + random_below(&r, 9),
                            .channels = i % 3 ? 1 + random_below(&r, 40) : 16 * (1 + random_below(&r, 3)), .size = 1 + random_below(&r, 3), .stride = 1 + random_below(&r, 3)};
        bool padded = random_below(&r, 2);
        p.top = padded ? random_below(&r, p.size) : 0;
        p.left = padded ? random_below(&r, p.size) : 0;
        p.h = (p.in_h + p.top - p.size) / p.stride + 1;
        p.w = (p.in_w + p.left - p.size) / p.stride + 1;
        p.row_end = p.h;
        size_t count = p.images * p.h * p.w * p.channels;
        uint8_t *in = random_bytes(&r, p.images * p.in_h * p.in_w * p.channels), *want = allocate(count), *got = allocate(count);
        p.in = in;
        p.out = want;
        c.maxpool(&p);
        p.out = got;
        fast.maxpool(&p);
        check_bytes("maxpool", got, want, count);
        free(in), free(want), free(got);
    }
}

static void at_every_level(void (*run_at)(unsigned features))
{
    for (size_t l = 1; l < LEVELS; l++)
        if (runs_here(&levels[l]))
            run_at(levels[l].features);
}

static void test_add(void)
{
    at_every_level(add_at);
}

static void test_conversions(void)
{
    at_every_level(convert_at);
}

static void test_pools(void)
{
    at_every_level(pool_at);
}

/* ---- Bench ---- */

static void bench_one(const struct i8_shape *shape, size_t side, int limit)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    struct task t = task_make(&r, shape, 4, limit);
    struct i8_job *j = &t.job;
    free(t.in);
    j->images = 16;
    j->in_h = j->in_w = side;
    j->top = j->left = shape->stride == 1 ? shape->size / 2 : 0;
    j->h = j->w = (side + shape->stride - 1) / shape->stride;
    j->row = 0;
    j->row_end = j->h;
    t.in_count = j->images * side * side * shape->ci;
    t.out_count = j->images * j->h * j->w * shape->co;
    t.in = random_bytes(&r, t.in_count + I8_SLACK);
    j->in = t.in;
    double macs = (double)t.out_count * (double)(shape->size * shape->size * (shape->depthwise ? 1 : shape->ci));
    for (size_t i = 0; i8_kernel_at(i, cpu_features(), false); i++) {
        const struct i8_kernel *k = i8_kernel_at(i, cpu_features(), false);
        if (k == &i8_conv_c || !k->takes(&j->shape))
            continue;
        int32_t *bias = allocate((shape->co + 16) * sizeof(int32_t));
        void *weights = allocate_aligned(k->weights_bytes(shape) + I8_SLACK), *scratch = allocate_aligned(k->scratch_bytes(j));
        uint8_t *out = allocate_aligned(t.out_count);
        memcpy(bias, t.bias, (shape->co + 16) * sizeof(int32_t));
        k->pack(&j->shape, t.kernel, 0, weights, bias);
        j->weights = weights, j->bias = bias, j->factors = t.factors, j->out = out;
        uint64_t best = UINT64_MAX;
        for (int run_number = 0; run_number < 30; run_number++) {
            uint64_t begin = clock_ns();
            k->conv(j, scratch);
            uint64_t took = clock_ns() - begin;
            best = took < best ? took : best;
        }
        printf("%zux%zu/%zu %3zu->%3zu side %2zu  %-26s %7.1f GMAC/s %8.1f us/image\n", shape->size, shape->size, shape->stride, shape->ci, shape->co,
               side, k->name, macs / (double)best, (double)best / 1e3 / 16);
        free(bias), free(weights), free(scratch), free(out);
    }
    task_free(&t);
}

static int bench(void)
{
    static const struct {
        size_t size, stride, ci, co, side;
        bool depthwise;
    } rows[] = {{3, 1, 16, 16, 32, false}, {3, 1, 32, 32, 16, false}, {3, 1, 64, 64, 8, false},   {3, 1, 32, 32, 32, false}, {3, 1, 64, 64, 16, false},
                {3, 1, 64, 128, 8, false}, {3, 1, 3, 16, 32, false},  {3, 2, 3, 16, 96, false},   {3, 2, 16, 32, 32, false}, {1, 1, 16, 32, 48, false},
                {1, 1, 64, 64, 24, false}, {1, 1, 128, 128, 12, false}, {1, 1, 256, 256, 6, false}, {1, 1, 512, 512, 3, false}, {3, 1, 32, 32, 48, true},
                {3, 2, 32, 32, 48, true},  {3, 1, 256, 256, 6, true}, {3, 1, 512, 512, 3, true}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        bench_one(&(struct i8_shape){.size = rows[i].size, .stride = rows[i].stride, .dilation = 1, .groups = 1, .ci = rows[i].ci, .co = rows[i].co, .depthwise = rows[i].depthwise},
                  rows[i].side, 63);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"random shapes", test_shapes},
                                        {"channels", test_channels},
                                        {"small images", test_small_images},
                                        {"many channels", test_many_channels},
                                        {"dilation and groups", test_dilation_and_groups},
                                        {"depthwise", test_depthwise},
                                        {"extremes", test_extremes},
                                        {"add", test_add},
                                        {"conversions", test_conversions},
                                        {"pools", test_pools},
                                        {0}};
    return argc > 1 && strcmp(argv[1], "--bench") == 0 ? bench() : test_main(argc, argv, tests);
}
