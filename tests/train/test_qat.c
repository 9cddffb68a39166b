/* test_qat.c: models as text again, and training for int8: what the trainer computes with rounded weights and values is what the integers
 * made from it compute; checkpoints continue. */
#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "infer/predictor.h"
#include "model/fold.h"
#include "model/graph_write.h"
#include "quant/calibrate.h"
#include "quant/qat.h"
#include "train/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 16

static const struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 3};

static const char *const models[] = {
    "conv 8 3 relu | maxpool 2 | flatten | dense 10",
    "conv 16 3 relu pad=same | conv 32 3 relu6 pad=same | maxpool 2 | conv 24 3 pad=same | flatten | dense 10 relu | dense 7",
    "conv 16 3 pad=same bias=false | batchnorm | relu | repeat 2 ( residual relu ( conv 16 3 pad=same bias=false | batchnorm | relu | "
    "conv 16 3 pad=same bias=false | batchnorm ) ) | residual relu ( conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | "
    "conv 32 3 pad=same bias=false | batchnorm ) | globalavgpool | dense 10",
    "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6 | dwconv 3 pad=same bias=false | batchnorm | relu6 | conv 32 1 "
    "bias=false | batchnorm | relu6 | dwconv 3 stride=2 pad=same bias=false | batchnorm | relu6 | conv 48 1 bias=false | batchnorm | relu6 "
    "| globalavgpool | dense 10 | softmax",
    "conv 9 3 tanh | concat ( conv 5 1 )( conv 7 3 relu pad=same | maxpool 3 stride=1 pad=same ) | avgpool 2 | flatten | dense 12 gelu | dense 3",
    "conv 8 3 relu | sepconv 20 3 pad=same | leaky | globalavgpool | dense 4",
    "conv 8 3 pad=same | add( conv 8 3 pad=same )( conv 8 1 )( dwconv 3 pad=same ) | dropout 0.2 | globalavgpool | dense 10",
};
#define MODELS (sizeof(models) / sizeof(models[0]))

/* A model that is written layer by layer has the same nodes, names and parameters. */
static void test_text(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        struct graph *a = NULL, *b = NULL;
        char *text = NULL;
        pst_error error;
        REQUIRE_OK(graph_create(&a, models[i], &image, &error), &error);
        REQUIRE_OK(graph_write(a, NULL, &text, &error), &error);
        REQUIRE_OK(graph_create(&b, text, &image, &error), &error);
        CHECK_INT(b->count, a->count);
        CHECK_INT(b->param_count, a->param_count);
        for (size_t n = 0; n < a->count && n < b->count; n++) {
            const struct graph_node *x = &a->nodes[n], *y = &b->nodes[n];
            CHECK_MSG(x->layer == y->layer && shape_equals(&x->out, &y->out) && x->inputs == y->inputs, "%s: node %zu of %s", models[i], n, text);
            CHECK_STR(y->name, x->name);
            for (size_t k = 0; k < x->inputs; k++)
                CHECK_INT(y->input[k], x->input[k]);
        }
        for (size_t p = 0; p < a->param_count && p < b->param_count; p++)
            CHECK_STR(b->params[p].name, a->params[p].name);
        mem_free(text);
        graph_destroy(a);
        graph_destroy(b);
    }
}

/* ---- Rounding ---- */

struct rig {
    struct graph *graph, *folded, *rounded;
    float *params, *folded_params, *rounded_params, *images;
    char *text;
    pst_model *model;
    pst_trainer *trainer;
};

static void rig_close(struct rig *r)
{
    pst_trainer_destroy(r->trainer);
    pst_model_destroy(r->model);
    graph_destroy(r->graph);
    graph_destroy(r->folded);
    graph_destroy(r->rounded);
    mem_free(r->folded_params);
    mem_free(r->rounded_params);
    mem_free(r->text);
    free(r->params);
    free(r->images);
}

/* Random weights and statistics, calibrated, as a trainer for int8. */
static bool rig_open(struct rig *r, const char *text, pst_train_options o, pst_error *error)
{
    struct quant_calibration *c = NULL;
    struct random rng;
    *r = (struct rig){0};
    random_init(&rng, 9, 0, 0, 0);
    pst_status st = graph_create(&r->graph, text, &image, error);
    if (st < 0)
        return false;
    r->params = malloc((r->graph->values + 16) * sizeof(float));
    r->images = malloc(SAMPLES * shape_values(&image) * sizeof(float));
    graph_init_params(r->graph, 3, r->params);
    for (size_t i = 0; i < r->graph->param_count; i++)
        for (size_t k = 0; r->graph->params[i].layer.rank == 1 && k < r->graph->params[i].count; k++)
            r->params[r->graph->params[i].offset + k] += (float)random_between(&rng, 0, 0.4);
    for (size_t i = 0; i < SAMPLES * shape_values(&image); i++)
        r->images[i] = (float)random_between(&rng, -2, 2);
    st = graph_fold(&r->folded, &r->folded_params, r->graph, r->params, error);
    if (st == PST_OK)
        st = quant_calibration_create(&c, r->folded, r->folded_params, error);
    if (st == PST_OK)
        st = quant_calibration_feed(c, r->images, SAMPLES, error);
    struct quant_range *ranges = calloc(r->folded->count + 1, sizeof(*ranges));
    if (st == PST_OK)
        st = quant_calibration_ranges(c, QUANT_MINMAX, 0, ranges, error);
    if (st == PST_OK)
        st = qat_create(&r->rounded, &r->text, &r->rounded_params, r->folded, r->folded_params, ranges, 7, error);
    o.size = sizeof(o);
    o.batch = SAMPLES;
    o.loss = PST_LOSS_SPARSE;
    if (st == PST_OK)
        st = pst_model_parse(&r->model, r->text, &(pst_shape){.rank = 3, .size = {image.h, image.w, image.c}}, error);
    if (st == PST_OK)
        st = pst_trainer_create(&r->trainer, r->model, &o, error);
    if (st == PST_OK)
        memcpy(r->trainer->params, r->rounded_params, r->rounded->values * sizeof(float));
    free(ranges);
    quant_calibration_destroy(c);
    return st == PST_OK;
}

/* Values between layers are integers of the same scales; sums in float may round the other way once in a while. */
static void test_same_as_integers(void)
{
    for (size_t i = 0; i < MODELS; i++) {
        struct rig r;
        pst_error error = {0};
        struct graph *plain = NULL;
        struct quant_model *q = NULL;
        struct quant_range *ranges = NULL;
        float *params = NULL;
        const float *got = NULL;
        if (!rig_open(&r, models[i], (pst_train_options){0}, &error)) {
            CHECK_MSG(false, "%s: %s", models[i], error.message);
            continue;
        }
        pst_tensor in = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {SAMPLES, image.h, image.w, image.c}, .data = r.images};
        REQUIRE_OK(qat_strip(&plain, &params, &ranges, r.rounded, r.rounded_params, &error), &error);
        CHECK_INT(plain->count, r.folded->count);
        REQUIRE_OK(quant_create(&q, plain, params, ranges, &(struct quant_options){.weight_bits = 7}, &error), &error);
        REQUIRE_OK(trainer_infer(r.trainer, &in, &got, &error), &error);
        size_t width = shape_values(graph_shape(plain, plain->count));
        float *want = malloc(SAMPLES * width * sizeof(float)), *exact = malloc(SAMPLES * width * sizeof(float));
        REQUIRE_OK(quant_reference(q, r.images, SAMPLES, want, NULL, &error), &error);
        if (strcmp(r.model->graph->nodes[r.model->graph->count - 1].layer->name, "softmax") != 0) {
            double most = 0, apart = 0;
            for (size_t k = 0; k < SAMPLES * width; k++) {
                most = fmax(most, fabs((double)want[k]));
                apart = fmax(apart, fabs((double)want[k] - (double)got[k]));
            }
            CHECK_MSG(apart <= 0.02 * most, "%s: %g apart, largest value %g", models[i], apart, most);
        }
        free(want);
        free(exact);
        quant_unref(q);
        graph_destroy(plain);
        mem_free(params);
        mem_free(ranges);
        rig_close(&r);
    }
}

/* A predictor of the trainer computes with the rounded kernels, as the trainer itself does. */
static void test_predictor(void)
{
    struct rig r;
    pst_error error = {0};
    pst_predictor *p = NULL;
    REQUIRE(rig_open(&r, models[1], (pst_train_options){0}, &error));
    pst_tensor in = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {SAMPLES, image.h, image.w, image.c}, .data = r.images};
    pst_predict_options o = {.size = sizeof(o), .output = PST_OUTPUT_LOGITS};
    float want[SAMPLES * 7], got[SAMPLES * 7], plain[SAMPLES * 7];
    REQUIRE_OK(pst_trainer_logits(r.trainer, &in, want, &error), &error);
    REQUIRE_OK(pst_predictor_of_trainer(&p, r.trainer, &o, &error), &error);
    REQUIRE_OK(pst_predictor_run(p, &in, got, &error), &error);
    pst_predictor_destroy(p);
    struct predictor_source unrounded = {.graph = r.trainer->model->graph, .params = r.trainer->params};
    REQUIRE_OK(predictor_create(&p, &unrounded, &o, &error), &error);
    REQUIRE_OK(pst_predictor_run(p, &in, plain, &error), &error);
    double apart = 0, without = 0;
    for (size_t i = 0; i < SAMPLES * 7; i++) {
        apart += fabs((double)want[i] - (double)got[i]);
        without += fabs((double)want[i] - (double)plain[i]);
    }
    CHECK_MSG(apart < 0.1 * without, "%g apart in all, %g with kernels that are not rounded", apart, without);
    pst_predictor_destroy(p);
    rig_close(&r);
}

/* A channel whose weights are all zero, as pruning leaves them, keeps its bias. */
static void test_zero_channel(void)
{
    enum { CHANNELS = 4, COUNT = 9 * CHANNELS };
    float kernel[COUNT], scale[CHANNELS];
    int8_t weights[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        kernel[i] = i % CHANNELS == 2 ? 0 : 0.01f * (float)(i % 7) - 0.03f * (float)(i % CHANNELS);
    quant_weights(kernel, COUNT, CHANNELS, 7, scale, weights);
    CHECK(scale[2] == fminf(scale[0], fminf(scale[1], scale[3])));
    for (size_t i = 2; i < COUNT; i += CHANNELS)
        CHECK_INT(weights[i], 0);
    memset(kernel, 0, sizeof(kernel));
    quant_weights(kernel, COUNT, CHANNELS, 7, scale, weights);
    CHECK(scale[0] > 0 && scale[0] < 1e-3f);
}

/* ---- Training ---- */

static int64_t labels[SAMPLES];

static void train(struct rig *r, int steps, double *ret_loss)
{
    pst_tensor in = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {SAMPLES, image.h, image.w, image.c}, .data = r->images};
    pst_tensor target = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {SAMPLES}, .data = labels};
    pst_samples samples = {.size = sizeof(samples), .input = &in, .target = &target};
    pst_step_result result = {.size = sizeof(result)};
    pst_error error;
    for (size_t i = 0; i < SAMPLES; i++)
        labels[i] = (int64_t)(i % 3);
    for (int i = 0; i < steps; i++)
        CHECK_STATUS(pst_trainer_step(r->trainer, &samples, &result, &error), PST_OK, &error);
    if (ret_loss)
        *ret_loss = result.loss;
}

/* Gradients pass straight through: the loss falls; ranges stay; weights that are zero stay zero beside it; a run that is saved continues. */
static void test_learns(void)
{
    pst_prune_options prune = {.size = sizeof(prune), .sparsity = 0.5, .end = 10, .every = 3};
    pst_train_options o = {.rate = 0.003, .prune = &prune, .threads = 2};
    struct rig a, b;
    pst_error error;
    double first = 0, last = 0;
    REQUIRE(rig_open(&a, models[2], o, &error) && rig_open(&b, models[2], o, &error));
    const struct graph_node *n = graph_find_node(a.rounded, "round_0");
    REQUIRE(n);
    float low = a.trainer->params[a.rounded->params[n->first_param].offset];
    train(&a, 1, &first);
    train(&a, 6, NULL);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("qat"), &error), &error);
    REQUIRE_OK(pst_trainer_load(b.trainer, test_path("qat"), &error), &error);
    train(&a, 30, &last);
    train(&b, 30, NULL);
    CHECK_MSG(last < 0.5 * first, "loss %g, then %g", first, last);
    CHECK(low != 0 && a.trainer->params[a.rounded->params[n->first_param].offset] == low);
    CHECK(fabs(pst_trainer_sparsity(a.trainer) - 0.5) < 0.01);
    CHECK(memcmp(a.trainer->params, b.trainer->params, a.rounded->values * sizeof(float)) == 0);
    rig_close(&a);
    rig_close(&b);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"models as text", test_text},
                                        {"rounded as integers are", test_same_as_integers},
                                        {"a predictor of the trainer", test_predictor},
                                        {"a channel of zeros", test_zero_channel},
                                        {"training for int8", test_learns},
                                        {0}};
    return test_main(argc, argv, tests);
}
