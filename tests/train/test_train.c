/* test_train.c: losses against finite differences, optimisers against values computed in double, schedules, and the trainer. */
#include "base/cpu.h"
#include "base/random.h"
#include "harness.h"
#include "model/team.h"
#include "train/trainer.h"

#include <math.h>
#include <penstock/export.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- Losses ---- */

#define N     5
#define WIDTH 4

static double loss_at(const struct loss_options *o, const float *out, const struct loss_target *t, const float *weights)
{
    return loss_compute(o, out, t, weights, N, WIDTH, NULL);
}

static void check_loss(pst_loss kind, double smoothing, bool labels)
{
    struct loss_options o = {.kind = kind, .smoothing = smoothing};
    float out[N * WIDTH], values[N * WIDTH], d[N * WIDTH], weights[N] = {1, 0.5f, 2, 0, 1};
    int64_t label[N] = {0, 3, 1, 2, 3};
    struct loss_target t = {.labels = labels ? label : NULL, .values = values};
    struct random r;
    random_init(&r, 7, 0, 0, 0);
    for (size_t i = 0; i < N * WIDTH; i++) {
        out[i] = (float)random_between(&r, -3, 3);
        values[i] = (float)random_unit(&r);
    }
    loss_compute(&o, out, &t, weights, N, WIDTH, d);
    for (size_t i = 0; i < N * WIDTH; i++) {
        float kept = out[i], h = 1e-2f;
        out[i] = kept + h;
        double above = loss_at(&o, out, &t, weights), step = (double)out[i];
        out[i] = kept - h;
        double below = loss_at(&o, out, &t, weights);
        step -= (double)out[i];
        out[i] = kept;
        CHECK_MSG(fabs((above - below) / step - (double)d[i]) < 2e-5, "loss %d: value %zu: gradient %g, difference %g", kind, i,
                  (double)d[i], (above - below) / step);
    }
}

static void test_gradients(void)
{
    check_loss(PST_LOSS_SPARSE, 0, true);
    check_loss(PST_LOSS_SPARSE, 0.1, true);
    check_loss(PST_LOSS_CATEGORICAL, 0, false);
    check_loss(PST_LOSS_CATEGORICAL, 0.2, false);
    check_loss(PST_LOSS_BINARY, 0, false);
    check_loss(PST_LOSS_BINARY, 0.1, false);
    check_loss(PST_LOSS_MSE, 0, false);
}

/* Closed formulas. */
static void test_loss_values(void)
{
    const float out[] = {1, 2, 3, -1, 0, 1000}, soft[] = {0, 0, 1, 1, 0, 0};
    const int64_t labels[] = {2, 0};
    struct loss_target sparse = {.labels = labels}, dense = {.values = soft};
    double first = log(exp(-2) + exp(-1) + 1);
    CHECK(fabs(loss_compute(&(struct loss_options){.kind = PST_LOSS_SPARSE}, out, &sparse, NULL, 2, 3, NULL) - (first + 1001) / 2) < 1e-9);
    CHECK(fabs(loss_compute(&(struct loss_options){.kind = PST_LOSS_CATEGORICAL}, out, &dense, NULL, 2, 3, NULL) - (first + 1001) / 2) <
          1e-9);
    CHECK(fabs(loss_compute(&(struct loss_options){.kind = PST_LOSS_BINARY}, out, &dense, NULL, 1, 3, NULL) -
               (log1p(exp(1)) + log1p(exp(2)) + log1p(exp(-3))) / 3) < 1e-9);
    CHECK(fabs(loss_compute(&(struct loss_options){.kind = PST_LOSS_MSE}, out, &dense, NULL, 1, 3, NULL) - (1. + 4 + 4) / 3) < 1e-9);
    CHECK_INT(loss_check_labels(labels, 2, 3), 2);
    CHECK_INT(loss_check_labels(labels, 2, 2), 0);
}

/* ---- Optimisers ---- */

static const float start[] = {0.5f, -1.25f, 2.0f, 0.03f};
static const float gradients[3][4] = {{0.1f, -0.2f, 0.3f, 4.0f}, {-0.05f, 0.4f, 0.0f, -2.0f}, {0.7f, 0.1f, -0.9f, 1.0f}};

/* Three steps with a rate of 0.01, computed in double by the formulas of Keras. */
static const struct {
    const char *name;
    struct optimizer_options options;
    double want[4];
} optimizers[] = {
    {"momentum", {.kind = PST_OPTIMIZER_SGD, .momentum = 0.9}, {0.49124, -1.25318, 2.00087, -0.0504}},
    {"lion", {.kind = PST_OPTIMIZER_LION}, {0.49, -1.26, 1.99, 0.02}},
    {"plain", {.kind = PST_OPTIMIZER_SGD}, {0.4925, -1.253, 2.006, 0}},
    {"nesterov", {.kind = PST_OPTIMIZER_NESTEROV, .momentum = 0.9}, {0.484616, -1.255862, 2.006783, -0.07236}},
    {"adam", {.kind = PST_OPTIMIZER_ADAM}, {0.4807043, -1.24781765, 1.98772405, 0.0139323503}},
    {"adamw", {.kind = PST_OPTIMIZER_ADAMW, .weight_decay = 0.1}, {0.479228453, -1.24408773, 1.98175674, 0.0138650936}},
    {"clipped by norm", {.kind = PST_OPTIMIZER_SGD, .momentum = 0.9, .clip_norm = 1}, {0.495185419, -1.25303393, 2.0038979, 0.0150637102}},
    {"clipped by value", {.kind = PST_OPTIMIZER_ADAM, .clip_value = 0.25}, {0.480664812, -1.24473386, 1.9841583, 0.0171685285}},
};

static void test_optimizers(void)
{
    pst_error error;
    struct graph *g = NULL;
    struct team *team = NULL;
    REQUIRE_OK(graph_create(&g, "dense 1", &(struct shape){.rank = 1, .h = 1, .w = 1, .c = 4}, &error), &error);
    REQUIRE_OK(team_create(&team, 2, &error), &error);
    for (size_t i = 0; i < sizeof(optimizers) / sizeof(optimizers[0]); i++)
        for (int level = 0; level < 2; level++) {
            struct optimizer_options o = optimizers[i].options;
            struct optimizer *opt = NULL;
            float *w = calloc(g->values, sizeof(*w)), *d = calloc(g->values, sizeof(*d));
            o.beta1 = 0.9;
            o.beta2 = 0.999;
            o.epsilon = 1e-7;
            o.features = level ? cpu_features() : 0;
            REQUIRE_OK(optimizer_create(&opt, g, &o, &error), &error);
            memcpy(w, start, sizeof(start));
            for (uint64_t t = 1; t <= 3; t++) {
                memcpy(d, gradients[t - 1], sizeof(gradients[0]));
                optimizer_apply(opt, team, t, 0.01, 1, w, d);
            }
            for (size_t k = 0; k < 4; k++)
                CHECK_MSG(fabs((double)w[k] - optimizers[i].want[k]) < 3e-7, "%s, value %zu: %.9g, expected %.9g", optimizers[i].name, k,
                          (double)w[k], optimizers[i].want[k]);
            optimizer_destroy(opt);
            free(w);
            free(d);
        }
    team_destroy(team);
    graph_destroy(g);
}

/* Many values: every level of instructions and number of threads gives the same bits. */
static void test_optimizer_levels(void)
{
    pst_error error;
    struct graph *g = NULL;
    REQUIRE_OK(graph_create(&g, "dense 300 | dense 7", &(struct shape){.rank = 1, .h = 1, .w = 1, .c = 101}, &error), &error);
    size_t bytes = g->values * sizeof(float);
    float *w[2] = {malloc(bytes), malloc(bytes)}, *d = malloc(bytes);
    for (int kind = PST_OPTIMIZER_ADAM; kind <= PST_OPTIMIZER_LION; kind++) {
        for (int level = 0; level < 2; level++) {
            struct optimizer_options o = {.kind = (pst_optimizer)kind, .momentum = 0.9, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-7,
                                          .weight_decay = 0.01, .clip_norm = 1, .ema = 0.9, .features = level ? cpu_features() : 0};
            struct optimizer *opt = NULL;
            struct team *team = NULL;
            struct random r;
            REQUIRE_OK(optimizer_create(&opt, g, &o, &error), &error);
            REQUIRE_OK(team_create(&team, level ? 3 : 1, &error), &error);
            graph_init_params(g, 1, w[level]);
            random_init(&r, 3, 0, 0, 0);
            for (uint64_t t = 1; t <= 4; t++) {
                for (size_t i = 0; i < g->values; i++)
                    d[i] = (float)random_between(&r, -1, 1);
                CHECK(optimizer_apply(opt, team, t, 0.01, 1, w[level], d) > 1);
            }
            team_destroy(team);
            optimizer_destroy(opt);
        }
        for (size_t i = 0; i < g->param_count; i++)
            CHECK(memcmp(w[0] + g->params[i].offset, w[1] + g->params[i].offset, g->params[i].count * sizeof(float)) == 0);
    }
    free(w[0]);
    free(w[1]);
    free(d);
    graph_destroy(g);
}

/* ---- Schedules ---- */

static double rate_at(pst_train_options o, uint64_t step)
{
    struct schedule_state s = {.factor = 1, .best = INFINITY};
    return schedule_rate(&o, &s, step);
}

static void test_schedules(void)
{
    pst_train_options o = {.rate = 1, .gamma = 0.5, .schedule_every = 10, .total_steps = 100, .plateau_patience = 2, .min_rate = 0.1};
    CHECK(rate_at(o, 1000) == 1);
    o.warmup_steps = 4;
    CHECK(rate_at(o, 0) == 0.25 && rate_at(o, 3) == 1 && rate_at(o, 4) == 1);
    o.warmup_steps = 0;
    o.schedule = PST_SCHEDULE_STEP;
    CHECK(rate_at(o, 9) == 1 && rate_at(o, 10) == 0.5 && rate_at(o, 25) == 0.25);
    o.schedule = PST_SCHEDULE_COSINE;
    CHECK(rate_at(o, 0) == 1 && fabs(rate_at(o, 50) - 0.55) < 1e-12 && fabs(rate_at(o, 100) - 0.1) < 1e-12 && rate_at(o, 500) == rate_at(o, 100));
    o.schedule = PST_SCHEDULE_ONE_CYCLE;
    CHECK(fabs(rate_at(o, 0) - 0.04) < 1e-12 && fabs(rate_at(o, 30) - 1) < 1e-12 && rate_at(o, 100) < 1e-5);
    o.schedule = PST_SCHEDULE_PLATEAU;
    struct schedule_state s = {.factor = 1, .best = INFINITY};
    const double losses[] = {3, 2, 2.5, 2.1, 1, 1, 1};
    const double want[] = {1, 1, 1, 0.5, 0.5, 0.5, 0.25};
    for (size_t i = 0; i < 7; i++) {
        schedule_epoch(&o, &s, losses[i]);
        CHECK(schedule_rate(&o, &s, 0) == want[i]);
    }
}

/* ---- The trainer ---- */

#define SAMPLES 24
#define SIDE    8

static float images[SAMPLES * SIDE * SIDE * 3];
static int64_t classes[SAMPLES];

/* Class k has its brightest spot in row k. */
static void make_data(void)
{
    struct random r;
    random_init(&r, 11, 0, 0, 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        classes[i] = (int64_t)(i % 4);
        for (size_t k = 0; k < SIDE * SIDE * 3; k++)
            images[i * SIDE * SIDE * 3 + k] = (float)random_unit(&r) + (k / (SIDE * 3) / 2 == i % 4 ? 1 : 0);
    }
}

static pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {SAMPLES, SIDE, SIDE, 3}, .data = images};
static pst_tensor target = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {SAMPLES}, .data = classes};
static const pst_samples samples = {.size = sizeof(samples), .input = &input, .target = &target};
static const char small[] = "conv 8 3 relu pad=same | maxpool 2 | conv 16 3 pad=same bias=false | batchnorm | relu | globalavgpool | dropout 0.1 | dense 4";

static pst_trainer *make_trainer(pst_model **ret_model, const char *text, pst_train_options o)
{
    pst_error error;
    pst_trainer *t = NULL;
    o.size = sizeof(o);
    o.batch = SAMPLES;
    o.loss = o.loss ? o.loss : PST_LOSS_SPARSE;
    make_data();
    if (test_check_status(pst_model_parse(ret_model, text, &(pst_shape){.rank = 3, .size = {SIDE, SIDE, 3}}, &error), PST_OK, &error,
                          __FILE__, __LINE__, text))
        test_check_status(pst_trainer_create(&t, *ret_model, &o, &error), PST_OK, &error, __FILE__, __LINE__, text);
    return t;
}

static void test_learns(void)
{
    pst_error error;
    pst_step_result r = {.size = sizeof(r)}, first = {.size = sizeof(first)};
    pst_model *model = NULL;
    pst_trainer *t = make_trainer(&model, small, (pst_train_options){.rate = 0.02, .threads = 2});
    REQUIRE(t != NULL);
    REQUIRE_OK(pst_trainer_step(t, &samples, &first, &error), &error);
    for (int i = 0; i < 60; i++)
        REQUIRE_OK(pst_trainer_step(t, &samples, &r, &error), &error);
    CHECK_MSG(r.loss < 0.3 * first.loss && r.correct > 20, "loss %g, then %g; %d right", first.loss, r.loss, (int)r.correct);
    CHECK_INT(pst_trainer_steps(t), 61);
    CHECK(r.rate == 0.02 && r.samples == SAMPLES && r.correct_top5 == SAMPLES);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
}

static void test_threads(void)
{
    pst_model *model[3] = {0};
    pst_trainer *t[3];
    pst_error error;
    for (unsigned i = 0; i < 3; i++) {
        t[i] = make_trainer(&model[i], small, (pst_train_options){.threads = i + 1, .clip_norm = 0.1, .ema = 0.9});
        REQUIRE(t[i] != NULL);
        for (int k = 0; k < 5; k++)
            REQUIRE_OK(pst_trainer_step(t[i], &samples, NULL, &error), &error);
    }
    for (size_t p = 0; pst_trainer_values(t[0], p); p++)
        for (unsigned i = 1; i < 3; i++)
            CHECK(memcmp(pst_trainer_values(t[0], p), pst_trainer_values(t[i], p), model[0]->graph->params[p].count * sizeof(float)) == 0);
    for (unsigned i = 0; i < 3; i++) {
        pst_trainer_destroy(t[i]);
        pst_model_destroy(model[i]);
    }
}

static void test_freeze(void)
{
    static const char *const names[] = {"conv_*"}, *const wrong[] = {"conv_9"};
    pst_error error;
    pst_model *model = NULL;
    pst_trainer *t = make_trainer(&model, small, (pst_train_options){.freeze = names, .freeze_count = 1}), *none = NULL;
    REQUIRE(t != NULL);
    float before = pst_trainer_values(t, 0)[0];
    size_t dense = model->graph->param_count - 2;
    float head = pst_trainer_values(t, dense)[0];
    REQUIRE_OK(pst_trainer_step(t, &samples, NULL, &error), &error);
    CHECK(pst_trainer_values(t, 0)[0] == before && pst_trainer_values(t, dense)[0] != head);
    pst_train_options o = {.size = sizeof(o), .batch = 1, .loss = PST_LOSS_SPARSE, .freeze = wrong, .freeze_count = 1};
    CHECK_STATUS(pst_trainer_create(&none, model, &o, &error), PST_EINVAL, &error);
    CHECK(strstr(error.message, "conv_9") != NULL);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
}

static void test_mistakes(void)
{
    pst_error error;
    pst_model *model = NULL;
    pst_trainer *t = make_trainer(&model, small, (pst_train_options){0});
    REQUIRE(t != NULL);
    classes[7] = 4;
    CHECK_STATUS(pst_trainer_step(t, &samples, NULL, &error), PST_EINVAL, &error);
    CHECK(error.record == 7 && strstr(error.message, "label 4") && strstr(error.message, "0 to 3"));
    make_data();
    CHECK_STR(model->graph->params[2].name, "conv_2/kernel");
    pst_trainer_values(t, 2)[0] = NAN;
    float kept = pst_trainer_values(t, 0)[0];
    CHECK_STATUS(pst_trainer_step(t, &samples, NULL, &error), PST_ETYPE, &error);
    CHECK_MSG(strstr(error.message, "conv_2/kernel") != NULL, "%s", error.message);
    CHECK(pst_trainer_values(t, 0)[0] == kept);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
}

static void test_predict(void)
{
    pst_error error;
    float p[SAMPLES * 4], logits[SAMPLES * 4];
    pst_model *model = NULL;
    pst_trainer *t = make_trainer(&model, small, (pst_train_options){0});
    REQUIRE(t != NULL);
    REQUIRE_OK(pst_trainer_predict(t, &input, true, p, &error), &error);
    REQUIRE_OK(pst_trainer_predict(t, &input, false, logits, &error), &error);
    for (size_t i = 0; i < SAMPLES; i++) {
        double sum = 0, normal = 0;
        for (size_t k = 0; k < 4; k++) {
            sum += (double)p[4 * i + k];
            normal += exp((double)logits[4 * i + k]);
        }
        CHECK(fabs(sum - 1) < 1e-6 && fabs((double)p[4 * i] - exp((double)logits[4 * i]) / normal) < 1e-6);
    }
    pst_trainer_destroy(t);
    pst_model_destroy(model);
}

static void test_loss_choice(void)
{
    static const struct {
        const char *model;
        bool labels;
        pst_loss want;
    } rows[] = {{"flatten | dense 4", true, PST_LOSS_SPARSE},        {"flatten | dense 1", true, PST_LOSS_BINARY},
                {"flatten | dense 4", false, PST_LOSS_MSE},          {"flatten | dense 4 softmax", false, PST_LOSS_CATEGORICAL},
                {"flatten | dense 4 sigmoid", false, PST_LOSS_BINARY}, {"flatten | dense 4 softmax", true, PST_LOSS_SPARSE}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pst_error error;
        pst_model *m = NULL;
        pst_fields f = {.size = sizeof(f), .labels = rows[i].labels};
        REQUIRE_OK(pst_model_parse(&m, rows[i].model, &(pst_shape){.rank = 3, .size = {SIDE, SIDE, 3}}, &error), &error);
        CHECK_INT(pst_loss_choose(m, &f), rows[i].want);
        pst_model_destroy(m);
    }
}

static void test_presets(void)
{
    const char *name, *doc;
    pst_error error;
    pst_model *m = NULL;
    for (size_t i = 0; pst_preset_at(i, &name, &doc); i++) {
        REQUIRE_OK(pst_model_parse(&m, name, &(pst_shape){.rank = 3, .size = {64, 64, 3}}, &error), &error);
        CHECK_INT(pst_model_output(m).size[0], 10);
        m = pst_model_destroy(m);
    }
    REQUIRE_OK(pst_model_parse(&m, "resnet20:100", &(pst_shape){.rank = 3, .size = {32, 32, 3}}, &error), &error);
    CHECK_INT(pst_model_output(m).size[0], 100);
    uint64_t parameters = 0;
    pst_model_layer l = {.size = sizeof(l)};
    for (size_t i = 0; pst_model_layer_at(m, i, &l); i++)
        parameters += l.parameters;
    CHECK_INT(parameters, 272474 + 90 * 65 + 2 * (16 * 7 + 32 * 7 + 64 * 7)); /* with moving statistics, and more classes */
    pst_model_destroy(m);
    m = NULL;
    CHECK_STATUS(pst_model_parse(&m, "resnet20:0", &(pst_shape){.rank = 3, .size = {32, 32, 3}}, &error), PST_EINVAL, &error);
}

/* ---- Mixed precision ---- */

static void test_mixed_learns(void)
{
    static const pst_mixed kinds[] = {PST_MIXED_NONE, PST_MIXED_FLOAT16, PST_MIXED_BFLOAT16};
    double losses[3];
    for (size_t k = 0; k < 3; k++) {
        pst_error error;
        pst_step_result r = {.size = sizeof(r)};
        pst_model *model = NULL;
        pst_trainer *t = make_trainer(&model, small, (pst_train_options){.rate = 0.02, .threads = 2, .mixed = kinds[k]});
        for (size_t i = 0; t && i < 30; i++)
            CHECK_STATUS(pst_trainer_step(t, &samples, &r, &error), PST_OK, &error);
        losses[k] = r.loss;
        CHECK(pst_trainer_loss_scale(t, NULL) == (kinds[k] == PST_MIXED_FLOAT16 ? 32768 : 1));
        pst_trainer_destroy(t);
        pst_model_destroy(model);
    }
    CHECK_MSG(losses[0] < 0.3 && losses[1] < 0.35 && losses[2] < 0.4, "losses %g, float16 %g, bfloat16 %g", losses[0], losses[1], losses[2]);
}

static void test_recompute(void)
{
    float after[2];
    for (size_t k = 0; k < 2; k++) {
        pst_error error;
        pst_model *model = NULL;
        pst_trainer *t = make_trainer(&model, small, (pst_train_options){.rate = 0.02, .threads = 2, .recompute = k == 1});
        for (size_t i = 0; t && i < 5; i++)
            CHECK_STATUS(pst_trainer_step(t, &samples, NULL, &error), PST_OK, &error);
        after[k] = t ? pst_trainer_values(t, 0)[0] : 0;
        pst_trainer_destroy(t);
        pst_model_destroy(model);
    }
    CHECK(memcmp(&after[0], &after[1], sizeof(float)) == 0);
}

static float steepness; /* of the loss below */

static double linear_loss(void *user, const pst_samples *s, const float *out, size_t n, size_t width, float *dout)
{
    (void)user, (void)s, (void)out;
    for (size_t i = 0; dout && i < n * width; i++)
        dout[i] = steepness;
    return 1;
}

/* Keras: halved and skipped where a gradient is not finite; doubled after 2000 finite steps in a row. */
static void test_loss_scale(void)
{
    pst_error error;
    pst_step_result r = {.size = sizeof(r)};
    pst_model *model = NULL;
    uint64_t skipped;
    pst_trainer *t = make_trainer(&model, "flatten | dense 1", (pst_train_options){.loss = PST_LOSS_CUSTOM, .loss_fn = linear_loss,
                                                                                   .optimizer = PST_OPTIMIZER_SGD, .mixed = PST_MIXED_FLOAT16});
    float before = t ? pst_trainer_values(t, 0)[0] : 0;
    steepness = 1e35f;
    CHECK_STATUS(pst_trainer_step(t, &samples, &r, &error), PST_OK, &error);
    CHECK(!r.updated && pst_trainer_steps(t) == 0 && pst_trainer_values(t, 0)[0] == before);
    CHECK(pst_trainer_loss_scale(t, &skipped) == 16384 && skipped == 1);
    steepness = 1e-3f;
    for (size_t i = 0; i < 1999; i++)
        CHECK_STATUS(pst_trainer_step(t, &samples, &r, &error), PST_OK, &error);
    CHECK(pst_trainer_loss_scale(t, &skipped) == 16384 && skipped == 1 && r.updated && pst_trainer_steps(t) == 1999);
    CHECK_STATUS(pst_trainer_step(t, &samples, &r, &error), PST_OK, &error);
    CHECK(pst_trainer_loss_scale(t, NULL) == 32768);
    double moved = (double)(before - pst_trainer_values(t, 0)[0]), sum = 0; /* the scale has been divided out */
    for (size_t i = 0; i < SAMPLES; i++)
        sum += (double)images[i * SIDE * SIDE * 3];
    CHECK_MSG(fabs(moved - 2000 * 1e-3 * 1e-3 * sum) < 0.01 * moved, "moved %g", moved);
    /* a scale of exactly 1 is kept by a checkpoint; gradients that are never finite end the run */
    pst_trainer *again = NULL;
    pst_train_options o = {.size = sizeof(o), .batch = SAMPLES, .loss = PST_LOSS_CUSTOM, .loss_fn = linear_loss, .optimizer = PST_OPTIMIZER_SGD,
                           .mixed = PST_MIXED_FLOAT16, .threads = 1};
    const char *path = test_path("scale");
    steepness = INFINITY;
    for (size_t i = 0; i < 15; i++)
        CHECK_STATUS(pst_trainer_step(t, &samples, &r, &error), PST_OK, &error);
    CHECK(pst_trainer_loss_scale(t, NULL) == 1);
    CHECK_STATUS(pst_trainer_save(t, path, &error), PST_OK, &error);
    CHECK_STATUS(pst_trainer_create(&again, model, &o, &error), PST_OK, &error);
    CHECK_STATUS(pst_trainer_load(again, path, &error), PST_OK, &error);
    CHECK(pst_trainer_loss_scale(again, NULL) == 1);
    pst_status st = PST_OK;
    for (size_t i = 0; i < 100 && st == PST_OK; i++)
        st = pst_trainer_step(t, &samples, &r, &error);
    CHECK_STATUS(st, PST_ETYPE, &error);
    CHECK(strstr(error.message, "loss scale") != NULL);
    pst_trainer_destroy(again);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
}

/* A caller of an older or newer version has smaller or larger structs. */
static void test_sizes(void)
{
    struct {
        pst_train_options o;
        char more[16];
    } larger = {.o = {.size = sizeof(larger), .batch = 2, .loss = PST_LOSS_SPARSE}};
    pst_train_options smaller = {.size = offsetof(pst_train_options, label_smoothing), .batch = 2, .loss = PST_LOSS_SPARSE, .label_smoothing = 7};
    pst_export_options o = {.size = 3};
    pst_model *model = NULL;
    pst_trainer *t = NULL;
    pst_error error;
    REQUIRE_OK(pst_model_parse(&model, "flatten | dense 3", &(pst_shape){.rank = 3, .size = {SIDE, SIDE, 3}}, &error), &error);
    CHECK_STATUS(pst_trainer_create(&t, model, &larger.o, &error), PST_OK, &error);
    t = pst_trainer_destroy(t);
    CHECK_STATUS(pst_trainer_create(&t, model, &smaller, &error), PST_OK, &error);
    CHECK_INT(pst_trainer_export(t, test_path("x.onnx"), &o, &error), PST_EINVAL);
    o.size = offsetof(pst_export_options, format) + sizeof(o.format);
    CHECK_STATUS(pst_trainer_export(t, test_path("x.onnx"), &o, &error), PST_OK, &error);
    t = pst_trainer_destroy(t);
    smaller.size = 0;
    CHECK_INT(pst_trainer_create(&t, model, &smaller, &error), PST_EINVAL);
    pst_model_destroy(model);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"gradients of losses", test_gradients},
                                        {"values of losses", test_loss_values},
                                        {"optimisers", test_optimizers},
                                        {"optimisers: instructions and threads", test_optimizer_levels},
                                        {"schedules", test_schedules},
                                        {"a trainer learns", test_learns},
                                        {"any number of threads", test_threads},
                                        {"frozen layers", test_freeze},
                                        {"labels out of range and values that are not finite", test_mistakes},
                                        {"predictions", test_predict},
                                        {"choice of the loss", test_loss_choice},
                                        {"presets", test_presets},
                                        {"mixed precision", test_mixed_learns},
                                        {"recomputed activations", test_recompute},
                                        {"loss scale", test_loss_scale},
                                        {"sizes of structs", test_sizes},
                                        {0}};
    return test_main(argc, argv, tests);
}
