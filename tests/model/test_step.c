/* test_step.c: the planned step: fast blocks against the reference in double, any number of threads, small batches, memory. */
#include "base/cpu.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "model/arena_plan.h"
#include "model/block.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 7

static struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 3};

static const char *const models[] = {
    "conv 8 3 relu pad=same | maxpool 2 pad=1 | conv 8 3 relu pad=same | maxpool 2 pad=same | flatten | dense 4",
    "conv 8 3 relu | maxpool 2 | flatten | dense 10",
    "conv 16 3 relu pad=same | conv 32 3 relu6 pad=same | maxpool 2 | conv 24 3 pad=same | flatten | dense 10",
    "conv 16 3 pad=same bias=false | batchnorm | relu | conv 16 3 pad=same bias=false | batchnorm | relu6 | globalavgpool | dense 5",
    "conv 16 3 pad=same bias=false | batchnorm | relu | repeat 2 ( residual relu ( conv 16 3 pad=same bias=false | batchnorm | relu | "
    "conv 16 3 pad=same bias=false | batchnorm ) ) | residual relu ( conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | "
    "conv 32 3 pad=same bias=false | batchnorm ) | globalavgpool | dense 10",
    "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6 | dwconv 3 pad=same bias=false | batchnorm | relu6 | conv 32 1 "
    "bias=false | batchnorm | relu6 | dwconv 3 stride=2 pad=same bias=false | batchnorm | relu6 | conv 48 1 bias=false | batchnorm | relu6 "
    "| globalavgpool | dense 10",
    "conv 9 3 tanh | concat ( conv 5 1 )( conv 7 3 relu pad=same | maxpool 3 stride=1 pad=same ) | dropout 0.3 | avgpool 2 | flatten | "
    "layernorm | dense 12 gelu | dense 3",
    "conv 8 3 relu | globalavgpool | concat ( dense 21 )( dense 7 relu bias=false ) | dense 3",
    "residual ( conv 3 3 relu pad=same ) | maxpool 2 | conv 20 3 relu | maxpool 2 | flatten | dense 4 softmax",
    /* gradients of sums that may, or may not, lie in the same memory as those of their terms */
    "conv 8 3 pad=same relu | residual ( conv 8 3 pad=same ) | residual relu ( conv 8 3 pad=same | conv 8 1 ) | residual ( conv 8 1 | conv 8 3 pad=same relu )"
    "( conv 8 1 | relu6 ) | residual ( conv 8 3 pad=same | residual relu ( conv 8 1 )( conv 8 3 pad=same relu ) )( conv 8 1 ) | globalavgpool | dense 5",
    "conv 8 3 pad=same bias=false | batchnorm | concat ( residual ( conv 8 3 pad=same relu | conv 8 1 bias=false | batchnorm ) | relu )( conv 8 1 ) | "
    "residual ( conv 16 3 pad=same | residual ( conv 16 1 | conv 16 1 ) )( residual ( conv 16 1 | conv 16 1 ) | conv 16 1 relu ) | globalavgpool | dense 5",
    /* groups, few and many; dilation, also wider than what is left of the image; both with everything that is fused */
    "conv 16 3 pad=same relu | conv 32 3 groups=4 pad=same bias=false | batchnorm | relu | conv 32 3 groups=2 pad=same relu | maxpool 2 | "
    "residual ( conv 32 3 groups=2 dilation=4 pad=same bias=false | batchnorm ) | relu | conv 64 3 groups=32 pad=same | conv 64 3 groups=64 pad=same bias=false | batchnorm | relu6 | "
    "conv 48 1 groups=16 | globalavgpool | dense 5",
    "conv 16 3 dilation=2 relu | maxpool 2 | residual ( dwconv 3 dilation=3 pad=same bias=false | batchnorm | relu | conv 16 1 groups=4 )( conv 16 1 ) | "
    "conv 16 3 groups=4 stride=2 pad=same relu | conv 8 2 stride=2 dilation=2 pad=same | flatten | dense 4",
};
#define MODELS (sizeof(models) / sizeof(models[0]))

struct run {
    struct graph *graph;
    size_t values, outs;
    double *out, *grads;
};

/* One training pass; results as doubles. */
static bool run(struct run *r, const char *text, struct step_options o, size_t n)
{
    pst_error error = {0};
    struct step *s = NULL;
    struct random rng;
    const void *result;
    o.batch = o.batch ? o.batch : BATCH;
    o.training = true;
    *r = (struct run){0};
    if (!test_check_status(graph_create(&r->graph, text, &image, &error), PST_OK, &error, __FILE__, __LINE__, text) ||
        !test_check_status(step_create(&s, r->graph, &o, &error), PST_OK, &error, __FILE__, __LINE__, text))
        return false;
    size_t real_size = o.doubles ? sizeof(double) : sizeof(float);
    r->values = r->graph->values;
    r->outs = n * shape_values(step_out_shape(s));
    float *params = malloc(r->values * sizeof(float)), *input = malloc(n * shape_values(&image) * sizeof(float));
    void *block = calloc(r->values, real_size), *grads = calloc(r->values, real_size), *dout = malloc(r->outs * real_size);
    graph_init_params(r->graph, 3, params);
    random_init(&rng, 5, 0, 0, 0);
    for (size_t i = 0; i < n * shape_values(&image); i++)
        input[i] = (float)random_unit(&rng);
    for (size_t i = 0; i < r->values; i++) {
        if (o.doubles)
            ((double *)block)[i] = params[i];
        else
            ((float *)block)[i] = params[i];
    }
    for (size_t i = 0; i < r->outs; i++) {
        float g = (float)random_between(&rng, -1, 1);
        if (o.doubles)
            ((double *)dout)[i] = g;
        else
            ((float *)dout)[i] = g;
    }
    CHECK_STATUS(step_forward(s, input, PST_DTYPE_F32, n, block, true, &result, &error), PST_OK, &error);
    r->out = malloc(r->outs * sizeof(double));
    for (size_t i = 0; i < r->outs; i++)
        r->out[i] = o.doubles ? ((const double *)result)[i] : ((const float *)result)[i];
    step_backward(s, dout, grads);
    r->grads = malloc(2 * r->values * sizeof(double)); /* and parameters, for the moving statistics */
    for (size_t i = 0; i < r->values; i++) {
        r->grads[i] = o.doubles ? ((double *)grads)[i] : ((float *)grads)[i];
        r->grads[r->values + i] = o.doubles ? ((double *)block)[i] : ((float *)block)[i];
    }
    step_destroy(s);
    free(params), free(input), free(block), free(grads), free(dout);
    return true;
}

static void finish(struct run *r)
{
    graph_destroy(r->graph);
    free(r->out);
    free(r->grads);
}

/* Root mean square of the difference over that of the values. */
static double distance(const double *a, const double *b, size_t count)
{
    double difference = 0, size = 1e-30;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += a[i] * a[i];
    }
    return sqrt(difference / size);
}

static void compare(const char *text, const struct run *want, const struct run *got, double tolerance)
{
    double out = distance(want->out, got->out, want->outs);
    CHECK_MSG(out < tolerance, "%s: the result is off by %g", text, out);
    for (size_t i = 0; i < want->graph->param_count; i++) {
        const struct graph_param *p = &want->graph->params[i];
        size_t at = p->offset + (p->layer.fixed ? want->values : 0);
        double off = distance(want->grads + at, got->grads + at, p->count);
        CHECK_MSG(off < tolerance * 20, "%s: %s is off by %g", text, p->name, off);
    }
}

static void test_float_is_near_double(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        struct run want, plain, fast, slow;
        if (!run(&want, models[i], (struct step_options){.doubles = true}, BATCH) ||
            !run(&plain, models[i], (struct step_options){.reference = true}, BATCH) ||
            !run(&slow, models[i], (struct step_options){0}, BATCH) ||
            !run(&fast, models[i], (struct step_options){.features = cpu_features()}, BATCH))
            return;
        compare(models[i], &want, &plain, 3e-6);
        compare(models[i], &want, &slow, 5e-6);
        compare(models[i], &want, &fast, 5e-6);
        finish(&want), finish(&plain), finish(&fast), finish(&slow);
    }
}

/* Gradients of kernels only: others are sums that cancel. */
static void compare_kernels(const char *text, const struct run *want, const struct run *got, double tolerance)
{
    for (size_t i = 0; i < want->graph->param_count; i++) {
        const struct graph_param *p = &want->graph->params[i];
        double off = distance(want->grads + p->offset, got->grads + p->offset, p->count);
        CHECK_MSG(p->layer.rank < 2 || off < tolerance, "%s: %s is off by %g", text, p->name, off);
    }
}

/* Without activations: where one of them switches because of rounding, a whole gradient appears or vanishes. */
static const char *const smooth_models[] = {
    "conv 16 3 stride=2 pad=same bias=false | batchnorm | dwconv 3 pad=same bias=false | batchnorm | conv 32 1 bias=false | batchnorm | "
    "dwconv 3 stride=2 pad=same bias=false | batchnorm | conv 44 1 bias=false | batchnorm | globalavgpool | dense 10",
    "conv 16 3 pad=same bias=false | batchnorm | residual ( conv 16 3 pad=same bias=false | batchnorm | conv 16 3 pad=same bias=false | batchnorm ) "
    "| residual ( conv 32 3 stride=2 pad=same bias=false | batchnorm ) | conv 12 3 | flatten | dense 10",
};

/* Values and gradients stored in 16 bits: rounding of 2^-11 or 2^-8 per stored value. */
static void test_16_bits_are_near(void)
{
    size_t smooth = sizeof(smooth_models) / sizeof(smooth_models[0]);
    for (size_t k = 0; k < MODELS + smooth; k++) {
        const char *text = k < smooth ? smooth_models[k] : models[k - smooth];
        struct step_options o = {.features = cpu_features()}, half = o, brain = o;
        struct run want, f16, bf16;
        half.store = NUMBER_F16;
        brain.store = NUMBER_BF16;
        if (!run(&want, text, o, BATCH) || !run(&f16, text, half, BATCH) || !run(&bf16, text, brain, BATCH))
            return;
        if (k < smooth) {
            compare_kernels(text, &want, &f16, 2e-2);
            compare_kernels(text, &want, &bf16, 1.6e-1);
        }
        CHECK(distance(want.out, f16.out, want.outs) < 4e-3 && distance(want.out, bf16.out, want.outs) < 3e-2);
        finish(&want), finish(&f16), finish(&bf16);
    }
}

/* Recomputed activations: the same bits. */
static void test_recompute(void)
{
    for (size_t i = 0; i < MODELS; i++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            struct step_options o = {.features = cpu_features(), .threads = threads}, again = o;
            struct run want, got;
            again.recompute = true;
            if (!run(&want, models[i], o, BATCH) || !run(&got, models[i], again, BATCH))
                return;
            CHECK_MSG(memcmp(want.grads, got.grads, 2 * want.values * sizeof(double)) == 0, "%s: recomputing changes gradients", models[i]);
            finish(&want), finish(&got);
        }
}

static void test_16_bits_take_less(void)
{
    pst_error error = {0};
    struct graph *g = NULL;
    struct step *step[2] = {NULL};
    struct step_options o = {.batch = 16, .training = true, .features = cpu_features()};
    if (!(o.features & CPU_AVX2))
        return; /* the portable kernels store float32 */
    struct shape input = {.rank = 3, .h = 96, .w = 96, .c = 3};
    CHECK_STATUS(graph_create(&g, "conv 16 3 pad=same bias=false | batchnorm | relu | repeat 3 ( dwconv 3 pad=same bias=false | batchnorm | relu "
                                  "| conv 16 1 bias=false | batchnorm | relu ) | globalavgpool | dense 10", &input, &error), PST_OK, &error);
    CHECK_STATUS(step_create(&step[0], g, &o, &error), PST_OK, &error);
    o.recompute = true;
    CHECK_STATUS(step_create(&step[1], g, &o, &error), PST_OK, &error);
    CHECK_MSG(step_bytes(step[1]) < 0.8 * (double)step_bytes(step[0]), "%llu bytes with recomputing, %llu without",
              (unsigned long long)step_bytes(step[1]), (unsigned long long)step_bytes(step[0]));
    step_destroy(step[1]);
    o.recompute = false;
    o.store = NUMBER_F16;
    CHECK_STATUS(step_create(&step[1], g, &o, &error), PST_OK, &error);
    CHECK_MSG(step_value_bytes(step[1]) <= 0.6 * (double)step_value_bytes(step[0]), "%llu bytes of values and gradients, %llu in float32",
              (unsigned long long)step_value_bytes(step[1]), (unsigned long long)step_value_bytes(step[0]));
    CHECK(step_bytes(step[1]) < step_bytes(step[0]));
    step_destroy(step[0]), step_destroy(step[1]), graph_destroy(g);
}

static void test_threads_do_not_matter(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        struct run one, other;
        if (!run(&one, models[i], (struct step_options){.features = cpu_features(), .threads = 1}, BATCH))
            return;
        for (unsigned threads = 2; threads < 6; threads++) {
            if (!run(&other, models[i], (struct step_options){.features = cpu_features(), .threads = threads}, BATCH))
                return;
            CHECK_MSG(memcmp(one.out, other.out, one.outs * sizeof(double)) == 0 &&
                          memcmp(one.grads, other.grads, 2 * one.values * sizeof(double)) == 0,
                      "%s: %u threads give other bits", models[i], threads);
            finish(&other);
        }
        finish(&one);
    }
}

/* AVX-512 computes the bits of AVX2, so that a run may go on on either. */
static void test_vector_width_does_not_matter(void)
{
    static const enum number stores[] = {NUMBER_F32, NUMBER_F16, NUMBER_BF16};
    if (!(cpu_features() & CPU_AVX512))
        return;
    for (size_t i = 0; i < 3 * MODELS; i++) {
        struct step_options wide = {.features = cpu_features(), .store = stores[i % 3]}, narrow = wide;
        struct run want, got;
        narrow.features = CPU_AVX2;
        if (!run(&want, models[i / 3], narrow, BATCH) || !run(&got, models[i / 3], wide, BATCH))
            return;
        CHECK_MSG(memcmp(want.out, got.out, want.outs * sizeof(double)) == 0 &&
                      memcmp(want.grads, got.grads, 2 * want.values * sizeof(double)) == 0,
                  "%s: AVX-512 gives other bits than AVX2, stored as %d", models[i / 3], (int)stores[i % 3]);
        finish(&want), finish(&got);
    }
}

/* Fewer samples than planned: as if planned for them. */
static void test_small_batches(void)
{
    for (size_t i = 0; i < MODELS; i++)
        for (size_t n = 1; n < BATCH; n += 2) {
            struct run want, got;
            if (!run(&want, models[i], (struct step_options){.doubles = true, .batch = n}, n) ||
                !run(&got, models[i], (struct step_options){.features = cpu_features(), .threads = 2}, n))
                return;
            compare(models[i], &want, &got, n == 1 ? 1e-3 : 2e-5); /* one sample: batch norm divides by next to nothing */
            finish(&want), finish(&got);
        }
}

/* Images whose convolutions do not fit into a strip. */
static void test_large_images(void)
{
    static const char *const large[] = {
        "conv 32 3 relu | maxpool 2 | dwconv 3 relu pad=same | conv 40 1 relu | maxpool 2 | flatten | dense 3",
        "conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | conv 32 1 bias=false | batchnorm | relu6 | globalavgpool | dense 3",
        "conv 32 3 relu pad=same | dwconv 3 relu pad=same | conv 32 3 relu pad=same | globalavgpool | dense 3", /* tensors that are stored past the caches */
        "conv 24 5 relu pad=9 | conv 30 1 relu | conv 8 3 stride=2 | globalavgpool | dense 3",
    };
    struct shape usual = image;
    image = (struct shape){.rank = 3, .h = 131, .w = 153, .c = 3};
    for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
        struct run want, got;
        if (!run(&want, large[i], (struct step_options){.doubles = true, .batch = 2}, 2) ||
            !run(&got, large[i], (struct step_options){.features = cpu_features(), .batch = 2, .threads = 2}, 2))
            break;
        compare(large[i], &want, &got, 2e-5);
        finish(&want), finish(&got);
    }
    image = usual;
}

static void test_every_allocation_may_fail(void)
{
    for (size_t i = 0; i < MODELS; i++)
        for (uint64_t n = 0;; n++) {
            pst_error error = {0};
            struct graph *g = NULL;
            struct step *s = NULL;
            uint64_t live = mem_live();
            test_fault_arm(FAULT_MEMORY, n, false);
            pst_status st = graph_create(&g, models[i], &image, &error);
            if (st == PST_OK)
                st = step_create(&s, g, &(struct step_options){.batch = 2, .threads = 2, .training = true}, &error);
            bool failed = test_fault_calls() > n;
            test_fault_clear();
            CHECK(failed ? st == PST_ENOMEM : st == PST_OK);
            step_destroy(s);
            graph_destroy(g);
            CHECK_INT(mem_live(), live);
            if (!failed)
                break;
        }
}

/* Where buffers lie follows from their sizes and lifetimes, not from the addresses at which their offsets are stored. */
static void test_addresses_do_not_matter(void)
{
    static const size_t lives[4][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}};
    size_t up[4], down[4], bytes[2] = {0, 1};
    for (int turn = 0; turn < 2; turn++) {
        struct arena_plan p = {0};
        for (size_t i = 0; i < 4; i++)
            REQUIRE(arena_plan_add(&p, turn ? &down[3 - i] : &up[i], 64, lives[i][0], lives[i][1]));
        REQUIRE(arena_plan_solve(&p, &bytes[turn]));
        arena_plan_finish(&p);
    }
    CHECK_INT(bytes[0], bytes[1]);
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(up[i], down[3 - i]);
}

static const struct test tests[] = {
    {"addresses do not matter", test_addresses_do_not_matter},
    {"float is near double", test_float_is_near_double},
    {"16 bits are near", test_16_bits_are_near},
    {"recomputed activations", test_recompute},
    {"16 bits take less", test_16_bits_take_less},
    {"threads do not matter", test_threads_do_not_matter},
    {"the width of vectors does not matter", test_vector_width_does_not_matter},
    {"small batches", test_small_batches},
    {"large images", test_large_images},
    {"every allocation may fail", test_every_allocation_may_fail},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
