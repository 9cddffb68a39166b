/* test_conv.c: every convolution kernel against direct convolution in C: random shapes, strides, paddings, gaps between rows and
 * pixels, every epilogue; AVX-512 against AVX2, whose bits it computes; `--bench [MODEL [avx2]]` times the shapes of usual models instead.
 *
 * Outputs lie between canaries; inputs end where their memory ends, so that a sanitizer catches a load beyond them. Tolerance:
 * the root mean square of the difference is at most TOLERANCE of that of the values. */
#include "base/clock.h"
#include "conv_rig.h"
#include "harness.h"
#include "model/kernel_table.h"
#include "model/kernels/direct.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOLERANCE      4e-6
#define TOLERANCE_CLAMPED 1e-4 /* what a clamp leaves may be small beside the values that were rounded */
#define TOLERANCE_SUMS 2e-5 /* sums of the weight gradient and of batch normalisation */

/* ---- Comparing ---- */

/* Values between pixels and around the result keep their canaries: bit patterns are compared where the reference wrote none. */
static bool same_gaps(const struct answer *want, const struct answer *got)
{
    uint32_t untouched;
    memset(&untouched, CANARY, sizeof(untouched));
    for (size_t i = 0; i < want->count; i++)
        if (memcmp(&want->out[i], &untouched, 4) == 0 && memcmp(&got->out[i], &untouched, 4) != 0)
            return false;
    return true;
}

/* Rounding may swap maxima that are nearly equal. */
static bool same_argmax(const struct answer *want, const struct answer *got)
{
    size_t other = 0;
    for (size_t i = 0; i < want->count; i++)
        other += want->argmax[i] != got->argmax[i];
    return other * 1000 <= want->count;
}

static void check_run(const struct conv_kernel *k, const struct task *t, bool back, size_t pitch)
{
    struct answer want = convolve(&conv_direct_c, t, back, pitch), got = convolve(k, t, back, pitch);
    size_t channels = back ? t->shape.ci : t->shape.co;
    double off = distance(want.out, got.out, want.count), sums = distance_sums(want.sums, got.sums, 2 * channels);
    char what[256];
    snprintf(what, sizeof(what), "%s: %s, epilogue %d, %s, %zu images %zu × %zu to %zu × %zu", k->name, back ? "data gradient" : "forward", (int)t->epilogue,
             name_of(&t->shape), t->images, t->in_h, t->in_w, t->out_h, t->out_w);
    bool clamps = t->epilogue == CONV_CLAMP || t->epilogue == CONV_POOL;
    CHECK_MSG(off < (clamps ? TOLERANCE_CLAMPED : TOLERANCE), "%s: off by %g", what, off);
    CHECK_MSG(sums < TOLERANCE_SUMS, "%s: sums off by %g", what, sums);
    CHECK_MSG(same_gaps(&want, &got), "%s: writes beside the result", what);
    bool only_zeros = t->top >= reach_of(&t->shape) || t->left >= reach_of(&t->shape); /* windows in the padding: rounding decides among zeros */
    CHECK_MSG(t->epilogue != CONV_POOL || only_zeros || same_argmax(&want, &got), "%s: argmax", what);
    answer_free(&want), answer_free(&got);
}

/* In two parts, as threads do it. */
static void finish_parts(const struct conv_kernel *k, const struct conv_shape *s, float *sum, float *ret)
{
    size_t panels = k->gradient_panels(s);
    k->weight_gradient_finish(s, sum, 0, panels / 2, ret);
    k->weight_gradient_finish(s, sum, panels / 2, panels - panels / 2, ret);
}

static float *weight_gradient(const struct conv_kernel *k, const struct task *t)
{
    size_t bytes = k->gradient_bytes(&t->shape);
    float *sum = allocate_aligned(bytes), *ret = allocate(t->shape.size * t->shape.size * t->shape.ci * t->shape.co * sizeof(float));
    void *scratch = allocate_aligned(k->scratch_bytes(&t->shape));
    struct conv_weight_job j = {.shape = t->shape, .images = t->images, .h = t->out_h, .w = t->out_w,
        .in = {t->in.data, t->in.strides, t->in_h, t->in_w, t->top, t->left}, .gradient = {t->dz.data, t->dz.strides}, .sum = sum};
    memset(sum, 0, bytes);
    k->weight_gradient(&j, scratch);
    k->weight_gradient(&j, scratch); /* it adds */
    finish_parts(k, &t->shape, sum, ret);
    free(sum), free(scratch);
    return ret;
}

/* A kernel whose data gradient comes through the pooling at hand. */
static const struct conv_kernel *pooled_kernel;
static const struct conv_pooled_job *pooled_job;

static void data_through_pool(const struct conv_job *j, void *scratch)
{
    pooled_kernel->pooled_data(j, pooled_job, scratch);
}

static void check_pooled_data(const struct conv_kernel *k, struct task *t, const struct conv_pooled_job *j, size_t pitch)
{
    struct conv_kernel through = *k;
    through.data = data_through_pool;
    pooled_kernel = k;
    pooled_job = j;
    t->epilogue = CONV_GRADIENT;
    check_run(&through, t, true, pitch);
}

/* Un-pools in plain C and compares; the bias's sum, too. */
static void check_pooled(struct random *r, const struct conv_kernel *k, struct task *t, size_t pitch)
{
    size_t co = t->shape.co, ph = t->out_h / 2, pw = t->out_w / 2, bytes = k->gradient_bytes(&t->shape), count = t->images * ph * pw * co;
    if (!ph || !pw || (t->shape.size == 1 && t->top + t->left))
        return;
    struct conv_strides s = {.image = ph * pw * co, .row = pw * co, .pixel = co};
    float *g = random_floats(r, count), *bias = allocate(2 * co * sizeof(float)), *sum = allocate_aligned(bytes);
    uint8_t *argmax = allocate(count);
    void *scratch = allocate_aligned(k->scratch_bytes(&t->shape));
    memset(t->dz.data, 0, t->dz.count * sizeof(float));
    memset(sum, 0, bytes);
    for (size_t c = 0; c < 2 * co; c++)
        bias[c] = 0;
    for (size_t i = 0; i < count; i++) {
        size_t tap = random_below(r, 5), image = i / s.image, y = i % s.image / s.row, x = i % s.row / co, c = i % co;
        argmax[i] = tap == 4 ? 255 : (uint8_t)tap;
        if (tap == 4)
            continue;
        t->dz.data[image * t->dz.strides.image + (2 * y + tap / 2) * t->dz.strides.row + (2 * x + tap % 2) * t->dz.strides.pixel + c] = g[i];
        bias[c] += 2 * g[i];
    }
    float *want = weight_gradient(&conv_direct_c, t), *got = random_floats(r, t->shape.size * t->shape.size * t->shape.ci * co);
    struct conv_pooled_job j = {.shape = t->shape, .images = t->images, .h = t->out_h, .w = t->out_w,
        .in = {t->in.data, t->in.strides, t->in_h, t->in_w, t->top, t->left}, .gradient = {g, s}, .argmax = argmax, .argmax_strides = s,
        .sum = sum, .bias_sum = bias + co};
    k->pooled_weight_gradient(&j, scratch);
    k->pooled_weight_gradient(&j, scratch); /* it adds */
    finish_parts(k, &t->shape, sum, got);
    double off = distance(want, got, t->shape.size * t->shape.size * t->shape.ci * co), off_bias = distance(bias, bias + co, co);
    CHECK_MSG(off < TOLERANCE_SUMS && off_bias < TOLERANCE_SUMS, "%s: pooled weight gradient off by %g, bias by %g: %zu to %zu channels, %zu × %zu",
              k->name, off, off_bias, t->shape.ci, co, t->in_h, t->in_w);
    if (k->takes_pooled_data && k->takes_pooled_data(&t->shape) && t->out_h % 2 + t->out_w % 2 == 0)
        check_pooled_data(k, t, &j, pitch);
    free(g), free(bias), free(sum), free(argmax), free(scratch), free(want), free(got);
}

static void check_kernel(struct random *r, const struct conv_kernel *k, const struct conv_shape *shape, size_t most)
{
    size_t gap = random_below(r, 2) ? 0 : random_below(r, 9), pitch = random_below(r, 2) ? 0 : random_below(r, 9);
    struct task t = task_make(r, shape, most, gap, false);
    static const enum conv_epilogue forward[3] = {CONV_RAW, CONV_CLAMP, CONV_POOL};
    for (size_t i = 0; i < 3; i++) {
        t.epilogue = forward[i];
        if (t.epilogue != CONV_POOL || conv_dilation(shape) == 1)
            check_run(k, &t, false, pitch);
    }
    t.epilogue = CONV_GRADIENT;
    check_run(k, &t, true, pitch);
    float *want = weight_gradient(&conv_direct_c, &t), *got = weight_gradient(k, &t);
    double off = distance(want, got, weights_of(shape));
    CHECK_MSG(off < TOLERANCE_SUMS, "%s: weight gradient off by %g: %s, %zu × %zu", k->name, off, name_of(shape), t.in_h, t.in_w);
    free(want), free(got);
    task_free(&t);
    if (k->takes_pooled && k->takes_pooled(shape)) {
        t = task_make(r, shape, most, gap, shape->size == 1);
        check_pooled(r, k, &t, pitch);
        task_free(&t);
    }
}

static void check_shape(struct random *r, const struct conv_shape *shape, size_t most)
{
    const struct conv_kernel *k;
    for (size_t i = 0; (k = conv_kernel_at(i, cpu_features())); i++)
        if (k->takes(shape) && k != &conv_direct_c)
            check_kernel(r, k, shape, most);
}

static void test_random_shapes(void)
{
    struct random r;
    random_init(&r, 1, 0, 0, 0);
    for (int round = 0; round < 60; round++) { /* whole vectors */
        size_t in = 16 * (1 + random_below(&r, 3)), out = 16 * (1 + random_below(&r, 3));
        check_shape(&r, &(struct conv_shape){round % 3 ? 3 : 1, 1, round % 4 ? in : 3, out, false, 0, 0}, 14);
    }
    for (int round = 0; round < 300; round++) {
        size_t size = round % 3 == 0 ? 1 : round % 3 == 1 ? 3 : 1 + random_below(&r, 7);
        check_shape(&r, &(struct conv_shape){size, 1 + random_below(&r, 1 + size), 1 + random_below(&r, 40), 1 + random_below(&r, 40), false, 0, 0}, 14);
    }
}

/* Groups of any width, dilation of any distance, also beyond the image: the parts by every kernel that takes them. */
static void test_groups_and_dilation(void)
{
    struct random r;
    random_init(&r, 8, 0, 0, 0);
    for (int round = 0; round < 240; round++) {
        size_t size = round % 4 ? 3 : 1 + random_below(&r, 5), groups = round % 3 ? 2 + random_below(&r, 9) : 1, wide = round % 2 ? 1 + random_below(&r, 6) : 16;
        struct conv_shape s = {.size = size, .stride = 1 + random_below(&r, 2), .groups = groups};
        s.ci = groups * (wide == 16 ? 8 * (1 + random_below(&r, 3)) : wide);
        s.co = groups * (wide == 16 ? 8 * (1 + random_below(&r, 3)) : 1 + random_below(&r, 6));
        s.dilation = s.stride == 1 || groups == 1 ? 1 + random_below(&r, 4) : 1;
        check_shape(&r, &s, 14);
    }
    for (int round = 0; round < 60; round++) {
        size_t channels = 1 + random_below(&r, 40);
        check_shape(&r, &(struct conv_shape){.size = 3, .stride = 1, .ci = channels, .co = channels, .depthwise = true, .dilation = 2 + random_below(&r, 3)}, 14);
    }
    check_shape(&r, &(struct conv_shape){.size = 3, .stride = 1, .ci = 16, .co = 16, .dilation = 2}, 150);
    check_shape(&r, &(struct conv_shape){.size = 3, .stride = 1, .ci = 32, .co = 32, .groups = 2}, 150);
}

/* Every shape has kernels that use the instructions at hand; stride with dilation is left to plain C. */
static void test_parts_have_kernels(void)
{
    static const struct conv_shape shapes[] = {
        {.size = 3, .stride = 1, .ci = 64, .co = 64, .groups = 8}, {.size = 3, .stride = 2, .ci = 24, .co = 48, .groups = 12},
        {.size = 1, .stride = 1, .ci = 6, .co = 9, .groups = 3},   {.size = 3, .stride = 1, .ci = 5, .co = 7, .dilation = 3},
        {.size = 3, .stride = 1, .ci = 9, .co = 9, .depthwise = true, .dilation = 2},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct conv_kernel *k = conv_kernel_find(&shapes[i], cpu_features());
        CHECK_MSG(!(cpu_features() & CPU_AVX2) || strstr(k->name, "in parts"), "%s by %s", name_of(&shapes[i]), k->name);
    }
    CHECK_STR(conv_kernel_find(&(struct conv_shape){.size = 3, .stride = 2, .ci = 16, .co = 16, .dilation = 2}, cpu_features())->name, "direct (C)");
}

static void test_depthwise(void)
{
    struct random r;
    random_init(&r, 2, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        size_t channels = 1 + random_below(&r, 40);
        check_shape(&r, &(struct conv_shape){3, 1 + random_below(&r, 2), channels, channels, true, 0, 0}, 14);
    }
}

/* 1 × 1 with as many channels as gradients through pooling take, and more. */
static void test_points(void)
{
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    for (int round = 0; round < 60; round++)
        check_shape(&r, &(struct conv_shape){1, 1, 1 + random_below(&r, round % 2 ? 64 : 140), round % 3 ? 64 : 1 + random_below(&r, 70), false, 0, 0}, 12);
}

/* Rows that are longer than what a kernel takes at once. */
static void test_wide_images(void)
{
    struct random r;
    random_init(&r, 3, 0, 0, 0);
    for (int round = 0; round < 12; round++) {
        check_shape(&r, &(struct conv_shape){3, 1 + round % 2, 3, 9 + round, false, 0, 0}, 230);
        check_shape(&r, &(struct conv_shape){3, 1, 1 + (size_t)round % 4, 5 + 3 * round, false, 0, 0}, 140);
        check_shape(&r, &(struct conv_shape){1, 1, 5 + round, 11, false, 0, 0}, 120);
        check_shape(&r, &(struct conv_shape){3, 1 + round % 2, 9 + round, 9 + round, true, 0, 0}, 160);
    }
}

#ifdef __x86_64__
/* Whether two kernels give the same bits for a task, in every pass; of the result, what lies between pixels too. */
static bool same_bits(const struct conv_kernel *a, const struct conv_kernel *b, struct task *t, enum conv_epilogue epilogue, size_t pitch)
{
    bool back = epilogue == CONV_GRADIENT;
    t->epilogue = epilogue;
    struct answer x = convolve(a, t, back, pitch), y = convolve(b, t, back, pitch);
    bool same = memcmp(x.out, y.out, x.count * sizeof(float)) == 0 && memcmp(x.argmax, y.argmax, x.count) == 0 &&
                memcmp(x.sums, y.sums, 2 * (back ? t->shape.ci : t->shape.co) * sizeof(double)) == 0;
    answer_free(&x), answer_free(&y);
    return same;
}

static void check_bits(struct random *r, const struct conv_kernel *a, const struct conv_kernel *b, const struct conv_shape *s, size_t most)
{
    struct task t = task_make(r, s, most, random_below(r, 2), false);
    size_t pitch = random_below(r, 2);
    bool same = b->takes(s);
    for (int i = 0; i < 4; i++)
        same &= (i == 2 && conv_dilation(s) > 1) || same_bits(a, b, &t, (const enum conv_epilogue[]){CONV_RAW, CONV_CLAMP, CONV_POOL, CONV_GRADIENT}[i], pitch);
    float *x = weight_gradient(a, &t), *y = weight_gradient(b, &t);
    same &= memcmp(x, y, weights_of(s) * sizeof(float)) == 0;
    CHECK_MSG(same, "%s: other bits than %s: %s, %zu × %zu", b->name, a->name, name_of(s), t.in_h, t.in_w);
    free(x), free(y);
    task_free(&t);
}

/* AVX-512 computes the bits of AVX2. */
static void test_same_bits(void)
{
    struct random r;
    random_init(&r, 6, 0, 0, 0);
    if (!(cpu_features() & CPU_AVX512))
        return;
    for (int round = 0; round < 80; round++) {
        size_t size = round % 2 ? 1 : 3, channels = 16 * (1 + random_below(&r, 4));
        check_bits(&r, &conv_direct_avx2, &conv_direct_avx512,
                   &(struct conv_shape){size, 1 + random_below(&r, 2), 1 + random_below(&r, 70), round % 3 ? channels : 1 + random_below(&r, 70), false, 0, 0}, 40);
        check_bits(&r, &conv_depthwise_avx2, &conv_depthwise_avx512, &(struct conv_shape){3, 1 + random_below(&r, 2), channels, channels, true, 0, 0}, 40);
        check_bits(&r, &conv_direct_apart_avx2, &conv_direct_apart_avx512,
                   &(struct conv_shape){.size = 3, .stride = 1, .ci = channels, .co = channels, .groups = 4, .dilation = 1 + random_below(&r, 2)}, 40);
        check_bits(&r, &conv_wino4_apart_avx2, &conv_wino4_apart_avx512,
                   &(struct conv_shape){.size = 3, .stride = 1, .ci = 32, .co = channels, .groups = 1 + random_below(&r, 2), .dilation = 2}, 40);
    }
}

static void in_place_avx2(const struct conv_job *j, void *scratch)
{
    (void)scratch;
    conv_depthwise_clamp_avx2(j);
}

static void in_place_avx512(const struct conv_job *j, void *scratch)
{
    (void)scratch;
    conv_depthwise_clamp_avx512(j);
}

/* Depthwise layers of predictions, which copy nothing: AVX2 beside plain C, AVX-512 with the bits of AVX2. */
static void test_in_place(void)
{
    struct random r;
    struct conv_kernel narrow = conv_depthwise_avx2, wide = conv_depthwise_avx512;
    narrow.conv = in_place_avx2;
    wide.conv = in_place_avx512;
    random_init(&r, 7, 0, 0, 0);
    for (int taken = 0; (cpu_features() & CPU_AVX2) && taken < 100;) {
        size_t n = 16 * (1 + random_below(&r, 4));
        struct task t = task_make(&r, &(struct conv_shape){3, 1 + random_below(&r, 2), n, n, true, 0, 0}, 20, random_below(&r, 2), false);
        struct conv_job j = {.shape = t.shape, .h = t.out_h, .w = t.out_w, .epilogue = CONV_CLAMP, .in = {.h = t.in_h, .w = t.in_w, .top = t.top, .left = t.left}};
        t.epilogue = CONV_CLAMP;
        t.with_add = false;
        if (conv_depthwise_clamp_takes_avx2(&j) && ++taken) {
            check_run(&narrow, &t, false, taken % 2);
            CHECK_MSG(!(cpu_features() & CPU_AVX512) || (conv_depthwise_clamp_takes_avx512(&j) && same_bits(&narrow, &wide, &t, CONV_CLAMP, taken % 2)),
                      "in place: other bits with AVX-512: stride %zu, %zu channels, %zu × %zu", t.shape.stride, n, t.in_h, t.in_w);
        }
        task_free(&t);
    }
}
#endif

/* ---- Timing ---- */

struct bench {
    const char *model;
    size_t size, stride, side, ci, co;
    bool depthwise, pool;
    size_t groups, dilation;
};

static const struct bench benches[] = {
    {"S1, S2 first", 3, 1, 224, 3, 32, false, true, 1, 1}, {"S2", 3, 1, 112, 32, 32, true, false, 1, 1},  {"S2", 1, 1, 112, 32, 64, false, true, 1, 1},
    {"M first", 3, 2, 96, 3, 16, false, false, 1, 1},      {"M", 3, 1, 48, 16, 16, true, false, 1, 1},    {"M", 1, 1, 48, 16, 32, false, false, 1, 1},
    {"M", 3, 2, 48, 32, 32, true, false, 1, 1},            {"M", 1, 1, 24, 32, 64, false, false, 1, 1},   {"M", 3, 1, 24, 64, 64, true, false, 1, 1},
    {"M", 1, 1, 24, 64, 64, false, false, 1, 1},           {"M", 1, 1, 12, 128, 128, false, false, 1, 1}, {"M", 3, 1, 12, 128, 128, true, false, 1, 1},
    {"M", 3, 1, 6, 256, 256, true, false, 1, 1},           {"M", 1, 1, 6, 256, 256, false, false, 1, 1},  {"M", 3, 2, 6, 256, 256, true, false, 1, 1},
    {"M", 1, 1, 3, 512, 512, false, false, 1, 1},          {"R first", 3, 1, 32, 3, 16, false, false, 1, 1},
    {"R", 3, 2, 32, 16, 32, false, false, 1, 1},           {"R", 3, 2, 16, 32, 64, false, false, 1, 1},   {"R", 1, 2, 32, 16, 32, false, false, 1, 1},
    {"R", 3, 1, 32, 16, 16, false, false, 1, 1},           {"R", 3, 1, 8, 64, 64, false, false, 1, 1},
    {"groups", 3, 1, 32, 64, 64, false, false, 2, 1}, {"groups", 3, 1, 32, 64, 64, false, false, 4, 1}, {"groups", 3, 1, 32, 64, 64, false, false, 8, 1},
    {"groups", 3, 1, 32, 64, 64, false, false, 16, 1}, {"groups", 3, 1, 14, 256, 256, false, false, 32, 1}, {"groups", 3, 2, 32, 64, 64, false, false, 4, 1},
    {"groups", 1, 1, 32, 64, 64, false, false, 4, 1}, {"groups", 3, 1, 32, 64, 128, false, false, 64, 1},
    {"dilation", 3, 1, 32, 64, 64, false, false, 1, 2}, {"dilation", 3, 1, 32, 64, 64, false, false, 1, 4}, {"dilation", 3, 1, 32, 64, 64, true, false, 1, 2},
    {"dilation", 3, 1, 64, 16, 16, false, false, 1, 2}, {"both", 3, 1, 32, 64, 64, false, false, 4, 2},
};

/* Multiply-adds of 8 lanes, twice per cycle: measured on registers. */
static double peak_gflops(void);

struct timing {
    const struct conv_kernel *kernel;
    struct conv_job forward, back;
    struct conv_weight_job weight;
    struct conv_pooled_job pooled;
    void *scratch;
};

static double best_seconds(const struct timing *t, int what)
{
    double best = 1e9, total = 0;
    for (int i = 0; i < 200 && (total < 0.1 || i < 3); i++) {
        uint64_t begin = clock_ns();
        if (what == 0)
            t->kernel->conv(&t->forward, t->scratch);
        else if (what == 1)
            t->kernel->data(&t->back, t->scratch);
        else if (what == 2)
            t->kernel->weight_gradient(&t->weight, t->scratch);
        else if (what == 3)
            t->kernel->pooled_weight_gradient(&t->pooled, t->scratch);
        else
            t->kernel->pooled_data(&t->back, &t->pooled, t->scratch);
        double seconds = (double)(clock_ns() - begin) * 1e-9;
        total += seconds;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static void bench_kernel(const struct bench *b, const struct conv_shape *shape, const struct conv_kernel *k, double peak)
{
    struct random r;
    random_init(&r, 4, 0, 0, 0);
    const struct conv_shape s = *shape;
    size_t out = (b->side + b->stride - 1) / b->stride, larger = b->side * b->side * b->ci, z = out * out * b->co;
    size_t images = (192 << 10) / ((larger > z ? larger : z) * 4);
    images = images ? images : 1;
    size_t before = b->stride == 1 ? b->size / 2 * conv_dilation(&s) : 0;
    struct tensor in = tensor_make(&r, images, b->side, b->side, b->ci, 0), dz = tensor_make(&r, images, out, out, b->co, 0);
    struct tensor din = tensor_make(&r, images, b->side, b->side, b->ci, 0), to = tensor_make(&r, images, out, out, b->co, 0);
    struct tensor zs = tensor_make(&r, images, b->side, b->side, b->ci, 0);
    float *hwio = random_floats(&r, b->size * b->size * b->ci * b->co), *packed = allocate_aligned(k->weights_bytes(&s));
    float *packed_back = allocate_aligned(k->weights_bytes(&s)), *sum = allocate_aligned(k->gradient_bytes(&s));
    double *sums = allocate(4 * (b->ci + b->co) * sizeof(double));
    uint8_t *argmax = allocate(to.count);
    memset(sums, 0, 4 * (b->ci + b->co) * sizeof(double));
    memset(sum, 0, k->gradient_bytes(&s));
    k->weights(&s, hwio, packed);
    k->weights_back(&s, hwio, packed_back);
    struct conv_strides pooled = {.image = out / 2 * (out / 2) * b->co, .row = out / 2 * b->co, .pixel = b->co};
    struct timing t = {.kernel = k, .scratch = allocate_aligned(k->scratch_bytes(&s))};
    t.forward = (struct conv_job){.shape = s, .images = images, .h = out, .w = out, .in = {in.data, in.strides, b->side, b->side, before, before},
        .weights = packed, .epilogue = b->pool ? CONV_POOL : CONV_RAW, .out = to.data, .out_strides = b->pool ? pooled : to.strides,
        .sum = sums, .sum2 = sums + b->co, .low = 0, .high = INFINITY, .argmax = argmax, .argmax_strides = pooled};
    t.back = (struct conv_job){.shape = s, .images = images, .h = b->side, .w = b->side, .in = {dz.data, dz.strides, out, out, before, before},
        .weights = packed_back, .epilogue = CONV_GRADIENT, .out = din.data, .out_strides = din.strides, .sum = sums, .sum2 = sums + b->ci,
        .low = 0, .high = INFINITY, .mask = {in.data, in.strides}, .z = {zs.data, zs.strides}};
    t.weight = (struct conv_weight_job){.shape = s, .images = images, .h = out, .w = out, .in = t.forward.in, .gradient = {dz.data, dz.strides}, .sum = sum};
    t.pooled = (struct conv_pooled_job){.shape = s, .images = images, .h = out, .w = out, .in = t.forward.in, .gradient = {dz.data, pooled}, .argmax = argmax,
        .argmax_strides = pooled, .sum = sum};
    double flops = 2e-9 * (double)(images * out * out * weights_of(&s));
    printf("%-13s %zux%zu%s/%zu g%-2zu d%zu %3zu: %3zu -> %3zu  %-31s", b->model, b->size, b->size, b->depthwise ? " dw" : "   ", b->stride, conv_groups(&s), conv_dilation(&s),
           b->side, b->ci, b->co, k->name);
    static const char *const names[5] = {"forward", "data", "weights", "pooled weights", "pooled data"};
    bool through = b->pool && k->takes_pooled && k->takes_pooled(&s), data = through && k->takes_pooled_data && k->takes_pooled_data(&s);
    for (int what = 0; what < (data ? 5 : through ? 4 : 3); what++) {
        double rate = flops / best_seconds(&t, what);
        printf("  %s %6.1f GFLOP/s %3.0f %%", names[what], rate, 100 * rate / peak);
    }
    printf("\n");
    free(in.data), free(dz.data), free(din.data), free(to.data), free(zs.data), free(hwio), free(packed), free(packed_back), free(sum);
    free(sums), free(argmax), free(t.scratch);
}

/* The chosen kernel comes first. */
static void bench_shape(const struct bench *b, double peak)
{
    struct conv_shape s = {b->size, b->stride, b->ci, b->co, b->depthwise, b->groups, b->dilation};
    const struct conv_kernel *k;
    for (size_t i = 0; (k = conv_kernel_rival(i, &s, cpu_features())); i++)
        bench_kernel(b, &s, k, peak);
}

static int bench(const char *only)
{
    double peak = peak_gflops();
    printf("FMA peak %.1f GFLOP/s\n", peak);
    for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
        if (!only || strstr(benches[i].model, only))
            bench_shape(&benches[i], peak);
    return 0;
}

#ifdef __x86_64__
#include <immintrin.h>

__attribute__((target("avx2,fma"))) static double peak_avx2(void)
{
    double best = 0;
    for (int round = 0; round < 20; round++) {
        __m256 acc[10], x = _mm256_set1_ps(0.5f);
        for (int i = 0; i < 10; i++)
            acc[i] = _mm256_set1_ps((float)i);
        uint64_t begin = clock_ns();
        for (int n = 0; n < 200000; n++) {
#pragma GCC unroll 10
            for (int i = 0; i < 10; i++)
                acc[i] = _mm256_fmadd_ps(acc[i], x, x);
            __asm__ volatile("" : "+x"(x));
        }
        double rate = 200000.0 * 10 * 16 / (double)(clock_ns() - begin);
        float sink[8];
        for (int i = 0; i < 10; i++) {
            _mm256_storeu_ps(sink, acc[i]);
            best = isnan(sink[0]) ? 0 : best;
        }
        best = rate > best ? rate : best;
    }
    return best;
}

static double peak_gflops(void)
{
    return cpu_features() & CPU_AVX2 ? peak_avx2() : 1;
}
#else
static double peak_gflops(void)
{
    return 1; /* no kernels of its own: shares are not meaningful */
}
#endif

/* The kernel of a line of a table, which another machine may have written. */
static const char *chosen(const char *line, unsigned features)
{
    struct kernel_table t = {0};
    pst_error error = {0};
    CHECK_STATUS(kernel_table_parse(&t, line, features, &error), PST_OK, &error);
    const char *name = t.count ? t.list[0].kernel->name : "none";
    kernel_table_finish(&t);
    return name;
}

/* A table names kernels, not widths of vectors: each machine takes its own, and tuning compares no two of one kernel. */
static void test_names(void)
{
    const struct conv_shape shape = {3, 1, 32, 32, false, 0, 0};
    const struct conv_kernel *k, *other;
    const unsigned all = cpu_features(), wide = CPU_AVX2 | CPU_AVX512;
    for (size_t i = 0; (k = conv_kernel_rival(i, &shape, all)); i++)
        for (size_t j = 0; j < i && (other = conv_kernel_rival(j, &shape, all)); j++)
            CHECK_MSG(!conv_kernel_is(k, other->name), "%s and %s are rivals", k->name, other->name);
    CHECK_STR(chosen("conv 3x3 stride=1 32->32 at 8x8: direct (C)", all), "direct (C)");
    if (all & CPU_AVX2)
        CHECK_STR(chosen("conv 3x3 stride=1 32->32 at 8x8: direct (avx512)", CPU_AVX2), "direct");
    if ((all & wide) == wide)
        CHECK_STR(chosen("conv 3x3 stride=1 32->32 at 8x8: direct", wide), "direct (avx512)");
    CHECK_STR(chosen("conv 3x3 stride=1 32->32 at 8x8: dire", all), "none");
}

static const struct test tests[] = {
    {"names", test_names},
    {"random shapes", test_random_shapes},
    {"depthwise", test_depthwise},
    {"groups and dilation", test_groups_and_dilation},
    {"parts have kernels", test_parts_have_kernels},
    {"points", test_points},
    {"wide images", test_wide_images},
#ifdef __x86_64__
    {"AVX-512 computes the bits of AVX2", test_same_bits},
    {"depthwise layers of predictions", test_in_place},
#endif
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 3 && strcmp(argv[3], "avx2") == 0)
        cpu_set_mask(CPU_AVX2);
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench(argc > 2 ? argv[2] : NULL);
    return test_main(argc, argv, tests);
}
