/* test_quantized.c: quantised models in the inference engine against the plain C meaning of their integers: models and random shapes, every
 * instruction set, any batch and number of threads, every way of computing a layer. */
#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "infer/choose.h"
#include "infer/infer.h"
#include "infer/model_rig.h"
#include "kernels/levels.h"
#include "model/fold.h"
#include "quant/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 20 /* samples */

static const struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 3};

static const char *const models[] = {
    "conv 8 3 relu | maxpool 2 | flatten | dense 10",
    "conv 16 3 relu pad=same | conv 32 3 relu6 pad=same | maxpool 2 | conv 24 3 pad=same | flatten | dense 10 relu | dense 7 softmax",
    "conv 16 3 pad=same bias=false | batchnorm | relu | repeat 2 ( residual relu ( conv 16 3 pad=same bias=false | batchnorm | relu | "
    "conv 16 3 pad=same bias=false | batchnorm ) ) | residual relu ( conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | "
    "conv 32 3 pad=same bias=false | batchnorm ) | globalavgpool | dense 10",
    "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6 | dwconv 3 pad=same bias=false | batchnorm | relu6 | conv 32 1 "
    "bias=false | batchnorm | relu6 | dwconv 3 stride=2 pad=same bias=false | batchnorm | relu6 | conv 48 1 bias=false | batchnorm | relu6 "
    "| globalavgpool | dense 10 softmax",
    "conv 9 3 tanh | concat ( conv 5 1 )( conv 7 3 relu pad=same | maxpool 3 stride=1 pad=same ) | avgpool 2 | flatten | layernorm | dense 12 gelu | dense 3",
    "batchnorm | conv 8 3 relu | batchnorm | sepconv 20 3 pad=same | leaky | globalavgpool",
    "residual ( conv 3 3 relu pad=same ) | maxpool 2 | conv 20 3 | maxpool 2",
    "conv 40 5 relu pad=same | dwconv 3 | conv 64 3 pad=same groups=2 dilation=2 | silu | flatten | dense 4 sigmoid",
};
#define MODELS (sizeof(models) / sizeof(models[0]))

struct rig {
    struct model_rig m;
    struct quant_calibration *calibration;
    struct quant_model *quant;
    float *want; /* by the reference */
    size_t width;
};

static void rig_close(struct rig *r)
{
    quant_unref(r->quant);
    quant_calibration_destroy(r->calibration);
    model_rig_close(&r->m);
    free(r->want);
}

static bool rig_open(struct rig *r, const char *text, const struct shape *input, enum quant_method method, unsigned bits)
{
    pst_error error = {0};
    *r = (struct rig){0};
    bool ok = model_rig_open(&r->m, text, input, MOST);
    struct quant_range *ranges = ok ? calloc(r->m.folded->count + 1, sizeof(*ranges)) : NULL;
    ok = ok && CHECK_STATUS(quant_calibration_create(&r->calibration, r->m.folded, r->m.folded_params, &error), PST_OK, &error) &&
         CHECK_STATUS(quant_calibration_feed(r->calibration, r->m.images, MOST, &error), PST_OK, &error) &&
         CHECK_STATUS(quant_calibration_ranges(r->calibration, method, 0.99, ranges, &error), PST_OK, &error) &&
         CHECK_STATUS(quant_create(&r->quant, r->m.folded, r->m.folded_params, ranges, &(struct quant_options){.weight_bits = bits}, &error), PST_OK,
                      &error) &&
         CHECK_STATUS(quant_correct_biases(r->quant, r->calibration, r->m.folded_params, &error), PST_OK, &error);
    free(ranges);
    if (ok) {
        r->width = shape_values(graph_shape(r->m.folded, r->m.folded->count));
        r->want = malloc(MOST * r->width * sizeof(float));
        ok = CHECK_STATUS(quant_reference(r->quant, r->m.images, MOST, r->want, NULL, &error), PST_OK, &error);
    }
    if (!ok)
        rig_close(r);
    return ok;
}

struct engine {
    struct infer_plan *plan;
    struct infer_context *context;
};

static bool engine_open(struct engine *e, const struct rig *r, unsigned features, unsigned threads, bool small)
{
    pst_error error = {0};
    struct infer_options o = {.features = features, .quant = r->quant, .small = small};
    *e = (struct engine){0};
    return CHECK_STATUS(infer_plan_create(&e->plan, r->quant->graph, NULL, &o, &error), PST_OK, &error) &&
           CHECK_STATUS(infer_context_create(&e->context, e->plan, threads, &error), PST_OK, &error);
}

static void engine_close(struct engine *e)
{
    infer_context_destroy(e->context);
    infer_plan_destroy(e->plan);
}

static void set_runs(struct rig *r, enum quant_run run)
{
    for (size_t i = 0; i < r->quant->graph->count; i++)
        r->quant->layers[i].run = r->quant->layers[i].weights ? run : QUANT_RUN_AUTO;
}

static void check_bits(const struct rig *r, const char *text, unsigned features, unsigned threads, bool small, const size_t *batches, size_t count)
{
    struct engine e;
    float *got = malloc(MOST * r->width * sizeof(float));
    if (engine_open(&e, r, features, threads, small))
        for (size_t b = 0; b < count; b++) {
            memset(got, 0xff, MOST * r->width * sizeof(float));
            infer_run(e.context, r->m.images, PST_DTYPE_F32, batches[b], got);
            CHECK_MSG(memcmp(r->want, got, batches[b] * r->width * sizeof(float)) == 0, "%s: features %x, %u threads, %zu samples differ", text, features,
                      threads, batches[b]);
        }
    engine_close(&e);
    free(got);
}

/* ---- Tests ---- */

static void test_models(void)
{
    static const size_t batches[] = {1, 2, 3, 7, 16, 17, MOST};
    for (size_t i = 0; i < MODELS; i++) {
        struct rig r;
        if (!rig_open(&r, models[i], &image, (enum quant_method)(i % 4), i % 2 ? 8 : 7))
            return;
        for (size_t l = 0; l < LEVELS; l++)
            for (int run = QUANT_RUN_AUTO; runs_here(&levels[l]) && run < QUANT_RUN_FLOAT; run++) {
                set_runs(&r, (enum quant_run)run);
                for (unsigned threads = 1; threads <= 3; threads++)
                    if (l > 0 || (run == QUANT_RUN_AUTO && threads == 2)) /* plain C is slow */
                        check_bits(&r, models[i], levels[l].features, threads, threads == 2, batches, sizeof(batches) / sizeof(batches[0]));
            }
        rig_close(&r);
    }
}

static void test_random_models(void)
{
    static const size_t batches[] = {1, 5, MOST};
    struct random rng;
    random_init(&rng, 12, 0, 0, 0);
    for (int round = 0; round < 40; round++) {
        char text[1024] = "";
        size_t at = 0, layers = 1 + random_below(&rng, 5);
        struct shape input = {.rank = 3, .h = 5 + (uint32_t)random_below(&rng, 14), .w = 5 + (uint32_t)random_below(&rng, 14),
                              .c = 1 + (uint32_t)random_below(&rng, 20)};
        for (size_t i = 0; i < layers; i++) {
            static const char *const ends[] = {"", " | relu", " | relu6", " | batchnorm | relu", " | batchnorm", " | silu"};
            unsigned filters = 1 + (unsigned)random_below(&rng, 40), kind = (unsigned)random_below(&rng, 5);
            const char *end = ends[random_below(&rng, 6)];
            if (kind == 0)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "dwconv 3 stride=%u pad=same%s | ", 1 + (unsigned)random_below(&rng, 2), end);
            else if (kind == 1)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "conv %u 1%s | ", filters, end);
            else if (kind == 2)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "residual relu ( conv %u 3 pad=same%s | conv %u 3 stride=%u pad=same ) | ", filters,
                                       end, filters, 1 + (unsigned)random_below(&rng, 2));
            else
                at += (size_t)snprintf(text + at, sizeof(text) - at, "conv %u %u stride=%u pad=same%s | ", filters, 1 + 2 * (unsigned)random_below(&rng, 3),
                                       1 + (unsigned)random_below(&rng, 2), end);
        }
        snprintf(text + at, sizeof(text) - at, "%s | dense %u", random_below(&rng, 2) ? "flatten" : "globalavgpool", 1 + (unsigned)random_below(&rng, 40));
        struct rig r;
        if (!rig_open(&r, text, &input, QUANT_MINMAX, round % 2 ? 7 : 8))
            return;
        check_bits(&r, text, cpu_features(), 2, round % 3 == 0, batches, 3);
        rig_close(&r);
    }
}

/* A layer in float32 differs by one level at most. The result of these models is stored in integers. */
static void test_float_layers(void)
{
    static const char *const singles[] = {"conv 16 3 relu pad=same | maxpool 1", "conv 40 3 pad=same | maxpool 1", "conv 24 1 relu6 | maxpool 1",
                                          "dwconv 3 relu pad=same | maxpool 1", "conv 16 5 stride=2 | maxpool 1", "flatten | dense 33 | concat ( dropout 0.1 )( dropout 0.1 )"};
    for (size_t i = 0; i < sizeof(singles) / sizeof(singles[0]); i++) {
        struct rig r;
        struct engine e;
        size_t off = 0;
        if (!rig_open(&r, singles[i], &image, QUANT_MINMAX, 7))
            return;
        float *got = malloc(MOST * r.width * sizeof(float)), scale = r.quant->values[r.quant->graph->count].scale;
        set_runs(&r, QUANT_RUN_FLOAT);
        CHECK(r.quant->values[r.quant->graph->count].form == QUANT_U8);
        for (unsigned threads = 1; threads < 3; threads++) {
            if (engine_open(&e, &r, cpu_features(), threads, false)) {
                infer_run(e.context, r.m.images, PST_DTYPE_F32, MOST, got);
                for (size_t k = 0; k < MOST * r.width; k++) {
                    float levels_off = fabsf(got[k] - r.want[k]) / scale;
                    off += levels_off > 0.5f;
                    CHECK_MSG(levels_off < 1.01f, "%s: value %zu is off by %g levels", singles[i], k, (double)levels_off);
                }
                CHECK_MSG(off * 50 < MOST * r.width, "%s: %zu of %zu values are off by a level", singles[i], off, MOST * r.width);
            }
            engine_close(&e);
        }
        free(got);
        rig_close(&r);
    }
}

static void test_inputs_of_any_type(void)
{
    struct rig r;
    struct engine e;
    if (!rig_open(&r, models[2], &image, QUANT_MINMAX, 7))
        return;
    size_t values = MOST * shape_values(&image);
    float *whole = malloc(values * sizeof(float)), *want = malloc(MOST * r.width * sizeof(float)), *got = malloc(MOST * r.width * sizeof(float));
    uint8_t *bytes = malloc(values);
    for (size_t i = 0; i < values; i++)
        whole[i] = bytes[i] = (uint8_t)(i * 7 % 256);
    if (engine_open(&e, &r, cpu_features(), 3, false)) {
        infer_run(e.context, whole, PST_DTYPE_F32, MOST, want);
        for (size_t n = 1; n <= MOST; n += 3) {
            infer_run(e.context, bytes, PST_DTYPE_U8, n, got);
            CHECK_MSG(memcmp(want, got, n * r.width * sizeof(float)) == 0, "%zu samples of bytes differ", n);
        }
    }
    engine_close(&e);
    free(whole), free(want), free(got), free(bytes);
    rig_close(&r);
}

/* Measured choices change no bit as long as they are integers. */
static void test_choice(void)
{
    struct rig r;
    pst_error error = {0};
    size_t chosen = 0;
    static const size_t batches[] = {1, MOST};
    if (!rig_open(&r, models[2], &image, QUANT_MINMAX, 7))
        return;
    CHECK_STATUS(infer_choose(r.quant, r.m.images, MOST, &error), PST_OK, &error);
    for (size_t i = 0; i < r.quant->graph->count; i++) {
        chosen += r.quant->layers[i].run != QUANT_RUN_AUTO;
        CHECK((r.quant->layers[i].run != QUANT_RUN_AUTO) == (r.quant->layers[i].weights != NULL));
        if (r.quant->layers[i].run == QUANT_RUN_FLOAT)
            r.quant->layers[i].run = QUANT_RUN_AUTO;
    }
    CHECK_INT(chosen, 9);
    check_bits(&r, models[2], cpu_features(), 2, false, batches, 2);
    rig_close(&r);
}

/* The mean of the results is nearer to the float model's with corrected biases. */
static void test_correction(void)
{
    struct rig r;
    pst_error error = {0};
    struct infer_plan *plan = NULL;
    struct infer_context *context = NULL;
    if (!rig_open(&r, "conv 12 3 relu pad=same | conv 8 1 | maxpool 1", &image, QUANT_MINMAX, 7))
        return;
    size_t count = MOST * r.width, channels = 8;
    float *real = malloc(count * sizeof(float)), *plain = malloc(count * sizeof(float));
    struct infer_options o = {.features = cpu_features()};
    struct quant_range *ranges = calloc(r.m.folded->count + 1, sizeof(*ranges));
    struct quant_model *q = NULL;
    CHECK_STATUS(infer_plan_create(&plan, r.m.folded, r.m.folded_params, &o, &error), PST_OK, &error);
    CHECK_STATUS(infer_context_create(&context, plan, 1, &error), PST_OK, &error);
    infer_run(context, r.m.images, PST_DTYPE_F32, MOST, real);
    quant_calibration_ranges(r.calibration, QUANT_MINMAX, 0, ranges, &error);
    CHECK_STATUS(quant_create(&q, r.m.folded, r.m.folded_params, ranges, NULL, &error), PST_OK, &error);
    CHECK_STATUS(quant_reference(q, r.m.images, MOST, plain, NULL, &error), PST_OK, &error);
    double before = 0, after = 0;
    for (size_t c = 0; c < channels; c++) {
        double a = 0, b = 0;
        for (size_t i = c; i < count; i += channels) {
            a += (double)plain[i] - (double)real[i];
            b += (double)r.want[i] - (double)real[i];
        }
        before += fabs(a);
        after += fabs(b);
    }
    CHECK_MSG(after < before, "the mean is off by %g with corrected biases, by %g without", after / (double)count, before / (double)count);
    quant_unref(q);
    infer_context_destroy(context);
    infer_plan_destroy(plan);
    free(real), free(plain), free(ranges);
    rig_close(&r);
}

static void test_every_allocation_may_fail(void)
{
    struct rig r;
    if (!rig_open(&r, models[4], &image, QUANT_MINMAX, 7))
        return;
    for (uint64_t n = 0;; n++) {
        pst_error error = {0};
        struct infer_plan *plan = NULL;
        struct infer_context *context = NULL;
        struct infer_options o = {.features = cpu_features(), .quant = r.quant};
        uint64_t live = mem_live();
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = infer_plan_create(&plan, r.quant->graph, NULL, &o, &error);
        if (st == PST_OK)
            st = infer_context_create(&context, plan, 2, &error);
        bool failed = test_fault_calls() > n;
        test_fault_clear();
        CHECK_MSG(failed ? st == PST_ENOMEM : st == PST_OK, "allocation %llu: %s", (unsigned long long)n, error.message);
        infer_context_destroy(context);
        infer_plan_destroy(plan);
        CHECK_INT(mem_live(), live);
        if (!failed)
            break;
    }
    rig_close(&r);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"models, every instruction set, batches and threads", test_models},
                                        {"random models", test_random_models},
                                        {"layers in float32", test_float_layers},
                                        {"inputs of any type", test_inputs_of_any_type},
                                        {"measured choice", test_choice},
                                        {"corrected biases", test_correction},
                                        {"every allocation may fail", test_every_allocation_may_fail},
                                        {0}};
    return test_main(argc, argv, tests);
}
