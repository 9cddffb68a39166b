/* test_distil.c: what a student learns from a teacher: gradients against finite differences, formulas, taps in a step. */
#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "train/distil.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

#define N     4
#define WIDTH 5

static void fill(float *values, size_t count, uint64_t seed, double size)
{
    struct random r;
    random_init(&r, seed, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)random_between(&r, -size, size);
}

/* The plain loss is a constant here: its gradient is 0. */
static void check_logits(pst_loss kind, double temperature, double alpha)
{
    struct distil_options o = {.kind = kind, .temperature = temperature, .alpha = alpha};
    float out[N * WIDTH], teacher[N * WIDTH], d[N * WIDTH] = {0}, weights[N] = {1, 0.5f, 2, 0};
    fill(out, N * WIDTH, 1, 3);
    fill(teacher, N * WIDTH, 2, 3);
    distil_logits(&o, 7, out, teacher, weights, N, WIDTH, d);
    for (size_t i = 0; i < N * WIDTH; i++) {
        float kept = out[i], h = 1e-2f;
        out[i] = kept + h;
        double above = distil_logits(&o, 7, out, teacher, weights, N, WIDTH, NULL), step = (double)out[i];
        out[i] = kept - h;
        double below = distil_logits(&o, 7, out, teacher, weights, N, WIDTH, NULL);
        step -= (double)out[i];
        out[i] = kept;
        CHECK_MSG(fabs((above - below) / step - (double)d[i]) < 3e-5, "loss %d, value %zu: gradient %g, difference %g", kind, i, (double)d[i],
                  (above - below) / step);
    }
    /* its own logits: nothing but the plain loss is left */
    CHECK(fabs(distil_logits(&o, 7, out, out, NULL, N, WIDTH, NULL) - alpha * 7) < 1e-9);
}

static void test_logits(void)
{
    check_logits(PST_LOSS_SPARSE, 3, 0.5);
    check_logits(PST_LOSS_CATEGORICAL, 1, 0);
    check_logits(PST_LOSS_BINARY, 2, 0.25);
    check_logits(PST_LOSS_MSE, 3, 0.5);
    /* by hand: T = 2, logits (2, 0) against (0, 0): p = σ(1), q = 1/2 */
    struct distil_options o = {.kind = PST_LOSS_SPARSE, .temperature = 2, .alpha = 0};
    const float student[] = {0, 0}, teacher[] = {2, 0};
    double p = 1 / (1 + exp(-1)), kl = p * log(2 * p) + (1 - p) * log(2 * (1 - p));
    float d[2] = {5, 5};
    CHECK(fabs(distil_logits(&o, 1, student, teacher, NULL, 1, 2, d) - 4 * kl) < 1e-9);
    CHECK(fabs((double)d[0] - 2 * (0.5 - p)) < 1e-6 && fabs((double)d[1] - 2 * (p - 0.5)) < 1e-6);
}

static void check_feature(struct shape student, struct shape teacher)
{
    float values[200], wanted[200], extra[200];
    size_t count = 2 * shape_values(&student);
    fill(values, count, 3, 1);
    fill(wanted, 2 * shape_values(&teacher), 4, 1);
    double loss = distil_feature(&student, &teacher, values, wanted, 2, 10, extra);
    CHECK(loss > 0);
    for (size_t i = 0; i < count; i++) {
        float kept = values[i], h = 1e-3f, other[200];
        values[i] = kept + h;
        double above = distil_feature(&student, &teacher, values, wanted, 2, 1, other), step = (double)values[i];
        values[i] = kept - h;
        double below = distil_feature(&student, &teacher, values, wanted, 2, 1, other);
        step -= (double)values[i];
        values[i] = kept;
        CHECK_MSG(fabs(10 * (above - below) / step - (double)extra[i]) < 1e-4, "value %zu: gradient %g, difference %g", i, (double)extra[i],
                  10 * (above - below) / step);
    }
}

static void test_features(void)
{
    struct shape a = {3, 3, 4, 5}, b = {3, 3, 4, 2}, c = {1, 1, 1, 9}, d = {3, 4, 3, 5};
    CHECK(distil_comparable(&a, &b) && !distil_comparable(&a, &d) && !distil_comparable(&a, &c) && distil_comparable(&c, &c));
    check_feature(a, a);
    check_feature(a, b);
    check_feature(c, c);
}

/* ---- Taps ---- */

#define TEXT "conv 6 3 relu pad=same bias=true | conv 8 3 pad=same bias=false | batchnorm | relu | maxpool 2 | flatten | dense 4"
#define SIDE 8

static float images[N * SIDE * SIDE * 3];
static int64_t labels[N] = {0, 1, 2, 3};

/* NULL: the test has failed. */
static pst_trainer *make(pst_model **model, pst_train_options o)
{
    pst_trainer *t = NULL;
    pst_error error;
    o.size = sizeof(o);
    o.batch = N;
    o.threads = 2;
    o.loss = PST_LOSS_SPARSE;
    if (!*model)
        CHECK_STATUS(pst_model_parse(model, TEXT, &(pst_shape){.rank = 3, .size = {SIDE, SIDE, 3}}, &error), PST_OK, &error);
    CHECK_STATUS(*model ? pst_trainer_create(&t, *model, &o, &error) : PST_EINVAL, PST_OK, &error);
    return t;
}

/* The gradient of a loss at a tap against finite differences of a kernel before it. */
static void test_taps(void)
{
    static float wanted[N * SIDE * SIDE * 8];
    const char *layers[] = {"relu_2"};
    const float *features[] = {wanted};
    pst_shape shape = {.rank = 3, .size = {SIDE, SIDE, 8}};
    pst_tensor x = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {N, SIDE, SIDE, 3}, .data = images};
    pst_tensor y = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {N}, .data = labels};
    pst_samples s = {.size = sizeof(s), .input = &x, .target = &y};
    pst_step_result r = {.size = sizeof(r)}, plain = {.size = sizeof(plain)};
    pst_error error;
    pst_model *model = NULL;
    fill(images, N * SIDE * SIDE * 3, 5, 1);
    fill(wanted, N * SIDE * SIDE * 8, 6, 1);
    pst_trainer *t = make(&model, (pst_train_options){.seed = 1, .features = layers, .feature_shapes = &shape, .feature_count = 1, .feature_weight = 4});
    pst_trainer *untapped = make(&model, (pst_train_options){.seed = 1});
    if (!t || !untapped)
        return;
    REQUIRE_OK(pst_trainer_compute(untapped, &s, &plain, &error), &error);
    REQUIRE_OK(pst_trainer_compute(t, &s, &r, &error), &error);
    CHECK_MSG(fabs(r.loss - plain.loss) < 1e-5, "without a teacher: %g and %g", r.loss, plain.loss);
    for (size_t i = 0; i < 6 * 9 * 3; i++)
        CHECK(fabsf(pst_trainer_gradients(t, 0)[i] - pst_trainer_gradients(untapped, 0)[i]) < 1e-4f);
    s.features = features;
    REQUIRE_OK(pst_trainer_compute(t, &s, &r, &error), &error);
    CHECK(r.loss > plain.loss + 0.1);
    float *kernel = pst_trainer_values(t, 0), gradient[16];
    memcpy(gradient, pst_trainer_gradients(t, 0), sizeof(gradient));
    for (size_t i = 0; i < 16; i++) {
        float kept = kernel[i], h = 1e-3f;
        kernel[i] = kept + h;
        REQUIRE_OK(pst_trainer_compute(t, &s, &r, &error), &error);
        kernel[i] = kept - h;
        REQUIRE_OK(pst_trainer_compute(t, &s, &plain, &error), &error);
        kernel[i] = kept;
        double difference = (r.loss - plain.loss) / (2 * (double)h);
        CHECK_MSG(fabs(difference - (double)gradient[i]) < 0.02 * (1 + fabs(difference)), "kernel %zu: gradient %g, difference %g", i, (double)gradient[i],
                  difference);
    }
    pst_trainer_destroy(t);
    pst_trainer_destroy(untapped);
    pst_model_destroy(model);
}

static void test_mistakes(void)
{
    const char *none[] = {"relu_9"}, *last[] = {"dense_1"}, *wrong[] = {"relu_1"};
    const char *const *names[] = {none, last, wrong};
    const char *says[] = {"no layer relu_9", "last layer", "same height and width"};
    pst_shape shape = {.rank = 3, .size = {SIDE / 2, SIDE, 8}};
    pst_model *model = NULL;
    pst_error error;
    pst_trainer_destroy(make(&model, (pst_train_options){0}));
    for (size_t i = 0; i < 3; i++) {
        pst_trainer *t = NULL;
        pst_train_options o = {.size = sizeof(o), .batch = N, .loss = PST_LOSS_SPARSE, .features = names[i], .feature_shapes = &shape, .feature_count = 1};
        CHECK_STATUS(pst_trainer_create(&t, model, &o, &error), PST_EINVAL, &error);
        CHECK_MSG(strstr(error.message, says[i]) != NULL, "%s", error.message);
    }
    pst_model_destroy(model);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"logits", test_logits}, {"features", test_features}, {"taps", test_taps}, {"mistakes", test_mistakes}, {0}};
    return test_main(argc, argv, tests);
}
