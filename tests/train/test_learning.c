/* test_learning.c: accumulated batches, weights of samples and classes, losses of the caller's own, metrics, limits. */
#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "export/weight_file.h"
#include "harness.h"
#include "train/checkpoint.h"
#include "train/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 24
#define INPUTS  5
#define CLASSES 3

static float values[SAMPLES * INPUTS], wanted[SAMPLES * CLASSES];
static int64_t labels[SAMPLES];

static void make_data(void)
{
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    for (size_t i = 0; i < SAMPLES; i++) {
        labels[i] = (int64_t)(i * i % CLASSES);
        for (size_t k = 0; k < INPUTS; k++)
            values[i * INPUTS + k] = (float)random_between(&r, -1, 1);
        for (size_t k = 0; k < CLASSES; k++)
            wanted[i * CLASSES + k] = (float)random_unit(&r);
    }
}

/* Samples `first` to `first + count`. */
struct part {
    pst_tensor input, target;
    pst_samples samples;
};

static const pst_samples *take(struct part *p, size_t first, size_t count, bool classes)
{
    p->input = (pst_tensor){.dtype = PST_DTYPE_F32, .rank = 2, .shape = {count, INPUTS}, .data = values + first * INPUTS};
    p->target = classes ? (pst_tensor){.dtype = PST_DTYPE_I64, .rank = 1, .shape = {count}, .data = labels + first}
                        : (pst_tensor){.dtype = PST_DTYPE_F32, .rank = 2, .shape = {count, CLASSES}, .data = wanted + first * CLASSES};
    p->samples = (pst_samples){.size = sizeof(p->samples), .input = &p->input, .target = &p->target};
    return &p->samples;
}

struct rig {
    pst_model *model;
    pst_trainer *trainer;
};

static struct rig rig_make(const char *text, pst_train_options o)
{
    struct rig r = {0};
    pst_error error;
    make_data();
    o.size = sizeof(o);
    o.batch = o.batch ? o.batch : SAMPLES;
    o.loss = o.loss ? o.loss : PST_LOSS_SPARSE;
    o.rate = o.rate > 0 ? o.rate : 0.05;
    if (test_check_status(pst_model_parse(&r.model, text, &(pst_shape){.rank = 1, .size = {INPUTS}}, &error), PST_OK, &error, __FILE__, __LINE__,
                          text))
        test_check_status(pst_trainer_create(&r.trainer, r.model, &o, &error), PST_OK, &error, __FILE__, __LINE__, text);
    return r;
}

static void rig_finish(struct rig *r)
{
    pst_trainer_destroy(r->trainer);
    pst_model_destroy(r->model);
}

static double distance(const struct rig *a, const struct rig *b)
{
    double most = 0;
    pst_model_param p = {.size = sizeof(p)};
    for (size_t i = 0; pst_model_param_at(a->model, i, &p); i++)
        for (uint64_t k = 0; k < p.count; k++)
            most = fmax(most, fabs((double)pst_trainer_values(a->trainer, i)[k] - (double)pst_trainer_values(b->trainer, i)[k]));
    return most;
}

static void step(struct rig *r, size_t first, size_t count, bool classes)
{
    struct part p;
    pst_error error;
    CHECK_STATUS(pst_trainer_step(r->trainer, take(&p, first, count, classes), NULL, &error), PST_OK, &error);
}

/* Several batches of any sizes are one step over all of their samples. */
static void test_accumulate(void)
{
    static const size_t sizes[] = {8, 4, 12};
    struct rig a = rig_make("dense 7 relu | dense 3", (pst_train_options){.accumulate = 3, .clip_norm = 0.5}),
               b = rig_make("dense 7 relu | dense 3", (pst_train_options){.clip_norm = 0.5});
    pst_error error;
    for (int k = 0; k < 4; k++) {
        for (size_t i = 0, first = 0; i < 3; first += sizes[i++]) {
            step(&a, first, sizes[i], true);
            CHECK_INT(pst_trainer_steps(a.trainer), k + (i == 2));
        }
        step(&b, 0, SAMPLES, true);
    }
    CHECK_MSG(distance(&a, &b) < 2e-6, "apart by %g", distance(&a, &b));
    step(&a, 0, 8, true);
    CHECK_INT(pst_trainer_steps(a.trainer), 4);
    REQUIRE_OK(pst_trainer_flush(a.trainer, &error), &error);
    CHECK_INT(pst_trainer_steps(a.trainer), 5);
    step(&b, 0, 8, true);
    CHECK_MSG(distance(&a, &b) < 2e-6, "after a flush: apart by %g", distance(&a, &b));
    REQUIRE_OK(pst_trainer_flush(a.trainer, &error), &error);
    CHECK_INT(pst_trainer_steps(a.trainer), 5);
    rig_finish(&a);
    rig_finish(&b);
}

/* A checkpoint within a step continues with the same bits; a trainer with other steps refuses it. */
static void test_accumulate_saved(void)
{
    const pst_train_options o = {.accumulate = 3, .ema = 0.9};
    struct rig a = rig_make("dense 7 relu | dropout 0.3 | dense 3", o), b = rig_make("dense 7 relu | dropout 0.3 | dense 3", o),
               c = rig_make("dense 7 relu | dropout 0.3 | dense 3", (pst_train_options){.accumulate = 2, .ema = 0.9});
    pst_error error;
    for (size_t i = 0; i < 5; i++)
        step(&a, i * 4, 4, true);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("within"), &error), &error);
    REQUIRE_OK(pst_trainer_load(b.trainer, test_path("within"), &error), &error);
    CHECK_STATUS(pst_trainer_load(c.trainer, test_path("within"), &error), PST_ETYPE, &error);
    for (size_t i = 0; i < 4; i++) {
        step(&a, i * 4, 4, true);
        step(&b, i * 4, 4, true);
    }
    CHECK_INT(pst_trainer_steps(b.trainer), 3);
    CHECK(distance(&a, &b) == 0);
    rig_finish(&a);
    rig_finish(&b);
    rig_finish(&c);
}

static void test_class_weights(void)
{
    const double weights[CLASSES] = {0.5, 2, 0}, wrong[CLASSES] = {1, -1, 1};
    struct rig a = rig_make("dense 3", (pst_train_options){.class_weights = weights, .class_count = CLASSES}), b = rig_make("dense 3", (pst_train_options){0});
    struct part p;
    pst_error error;
    pst_trainer *t = NULL;
    float each[SAMPLES];
    for (size_t i = 0; i < SAMPLES; i++)
        each[i] = (float)weights[labels[i]];
    pst_step_result x = {.size = sizeof(x)}, y = {.size = sizeof(y)};
    REQUIRE_OK(pst_trainer_step(a.trainer, take(&p, 0, SAMPLES, true), &x, &error), &error);
    p.samples.weights = each;
    REQUIRE_OK(pst_trainer_step(b.trainer, &p.samples, &y, &error), &error);
    CHECK(x.loss == y.loss && distance(&a, &b) == 0);
    p.samples.weights = NULL;
    REQUIRE_OK(pst_trainer_evaluate(a.trainer, &p.samples, &x, &error), &error);
    REQUIRE_OK(pst_trainer_evaluate(b.trainer, &p.samples, &y, &error), &error);
    CHECK(x.loss == y.loss); /* not when evaluating */
    pst_train_options o = {.size = sizeof(o), .batch = 1, .loss = PST_LOSS_SPARSE, .class_weights = weights, .class_count = 2};
    CHECK_STATUS(pst_trainer_create(&t, a.model, &o, &error), PST_EINVAL, &error);
    o.class_count = CLASSES;
    o.class_weights = wrong;
    CHECK_STATUS(pst_trainer_create(&t, a.model, &o, &error), PST_EINVAL, &error);
    o.loss = PST_LOSS_MSE;
    CHECK_STATUS(pst_trainer_create(&t, a.model, &o, &error), PST_EINVAL, &error);
    rig_finish(&a);
    rig_finish(&b);
}

/* Mean squared error once more, as a caller would write it. */
static double own_loss(void *user, const pst_samples *samples, const float *out, size_t n, size_t width, float *gradient)
{
    const float *y = samples->target->data;
    double sum = 0;
    ++*(int *)user;
    for (size_t i = 0; i < n * width; i++) {
        double d = (double)out[i] - (double)y[i];
        sum += d * d;
        if (gradient)
            gradient[i] = (float)(2 * d / (double)(n * width));
    }
    return sum / (double)(n * width);
}

static void test_own_loss(void)
{
    int calls = 0;
    struct rig a = rig_make("dense 4 tanh | dense 3 sigmoid", (pst_train_options){.loss = PST_LOSS_CUSTOM, .loss_fn = own_loss, .loss_user = &calls}),
               b = rig_make("dense 4 tanh | dense 3 sigmoid", (pst_train_options){.loss = PST_LOSS_MSE}),
               none = rig_make("dense 4 tanh | dense 3 sigmoid", (pst_train_options){.loss = PST_LOSS_CUSTOM});
    struct part p;
    pst_error error;
    pst_step_result x = {.size = sizeof(x)}, y = {.size = sizeof(y)};
    for (int i = 0; i < 5; i++) {
        step(&a, 0, SAMPLES, false);
        step(&b, 0, SAMPLES, false);
    }
    CHECK_MSG(distance(&a, &b) < 1e-6, "apart by %g", distance(&a, &b));
    REQUIRE_OK(pst_trainer_evaluate(a.trainer, take(&p, 0, SAMPLES, false), &x, &error), &error);
    REQUIRE_OK(pst_trainer_evaluate(b.trainer, &p.samples, &y, &error), &error);
    CHECK(fabs(x.loss - y.loss) < 1e-6 && calls == 6);
    CHECK_STATUS(pst_trainer_step(none.trainer, &p.samples, NULL, &error), PST_EINVAL, &error);
    rig_finish(&a);
    rig_finish(&b);
    rig_finish(&none);
}

/* Gradients may be changed between their computation and the update. */
static void test_own_gradients(void)
{
    struct rig a = rig_make("dense 3", (pst_train_options){.optimizer = PST_OPTIMIZER_SGD});
    struct part p;
    pst_error error;
    REQUIRE_OK(pst_trainer_compute(a.trainer, take(&p, 0, SAMPLES, true), NULL, &error), &error);
    float before = pst_trainer_values(a.trainer, 0)[0], bias = pst_trainer_values(a.trainer, 1)[0], gradient = pst_trainer_gradients(a.trainer, 1)[0];
    pst_trainer_gradients(a.trainer, 0)[0] = 2;
    REQUIRE_OK(pst_trainer_apply(a.trainer, &error), &error);
    CHECK(pst_trainer_values(a.trainer, 0)[0] == before - 0.05f * 2.f);
    CHECK(fabsf(pst_trainer_values(a.trainer, 1)[0] - (bias - 0.05f * gradient)) < 1e-7f);
    pst_trainer_set_rate(a.trainer, 0.5);
    REQUIRE_OK(pst_trainer_compute(a.trainer, &p.samples, NULL, &error), &error);
    before = pst_trainer_values(a.trainer, 0)[0];
    pst_trainer_gradients(a.trainer, 0)[0] = 1;
    REQUIRE_OK(pst_trainer_apply(a.trainer, &error), &error);
    CHECK(pst_trainer_values(a.trainer, 0)[0] == before - 0.5f);
    rig_finish(&a);
}

/* Against the definition: pairs in the right order. */
static void test_auc(void)
{
    struct random r;
    random_init(&r, 9, 0, 0, 0);
    for (int round = 0; round < 50; round++) {
        struct score s[40];
        size_t n = 2 + (size_t)random_below(&r, 38);
        double pairs = 0, right = 0;
        for (size_t i = 0; i < n; i++)
            s[i] = (struct score){.value = (float)random_below(&r, 12), .positive = random_below(&r, 3) == 0};
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < n; k++)
                if (s[i].positive && !s[k].positive) {
                    pairs++;
                    right += s[i].value > s[k].value ? 1 : s[i].value == s[k].value ? 0.5 : 0;
                }
        double found = metrics_auc(s, n);
        CHECK(pairs > 0 ? fabs(found - right / pairs) < 1e-12 : isnan(found));
    }
    CHECK(metrics_f1(3, 2) == 0.75 && metrics_f1(0, 0) == 0 && metrics_f1(5, 0) == 1);
}

/* Two results per sample: AUC and F1 are means over them, by hand. */
static void test_metrics(void)
{
    const float out[] = {2, -1, -1, 1, 0.5f, 3, -2, -3}, y[] = {1, 0, 0, 1, 0, 0, 1, 0};
    struct loss_target t = {.values = y};
    struct metrics m;
    pst_evaluation e = {.size = sizeof(e)};
    pst_step_result r = {.size = sizeof(r)};
    pst_error error;
    REQUIRE_OK(metrics_init(&m, PST_LOSS_BINARY, 2, &error), &error);
    metrics_batch(PST_LOSS_BINARY, out, &t, 4, 2, &r);
    REQUIRE_OK(metrics_add(&m, out, &t, 2, &r, &error), &error);
    REQUIRE_OK(metrics_result(&m, &e, &error), &error);
    /* first: scores 2 −1 0.5 −2, positives 2 and −2; second: −1 1 3 −3, positive 1 */
    CHECK(fabs(e.auc - (0.5 + 2. / 3) / 2) < 1e-12);
    CHECK(fabs(e.f1 - (2. / (2 + 2) + 2. / (2 + 1)) / 2) < 1e-12);
    CHECK(e.accuracy == 0.5 && isnan(e.mae) && isnan(e.r2));
    metrics_finish(&m);
    const float z[] = {3, 1, 0, 0, 2, 1, 0, 0, 5};
    const int64_t l[] = {0, 2, 2};
    struct loss_target classes = {.labels = l};
    REQUIRE_OK(metrics_init(&m, PST_LOSS_SPARSE, 3, &error), &error);
    metrics_batch(PST_LOSS_SPARSE, z, &classes, 3, 3, &r);
    REQUIRE_OK(metrics_add(&m, z, &classes, 3, &r, &error), &error);
    REQUIRE_OK(metrics_result(&m, &e, &error), &error);
    CHECK(fabs(e.f1 - (1 + 0 + 2. / 3) / 3) < 1e-12 && isnan(e.auc));
    mem_free(e.confusion);
    metrics_finish(&m);
    /* R² around each result's own mean; one mean for both would give almost 1 */
    const float found[] = {0, 1005, 1, 1015, 2, 1005}, truth[] = {0, 1000, 1, 1010, 3, 1000};
    struct loss_target numbers = {.values = truth};
    REQUIRE_OK(metrics_init(&m, PST_LOSS_MSE, 2, &error), &error);
    metrics_batch(PST_LOSS_MSE, found, &numbers, 3, 2, &r);
    REQUIRE_OK(metrics_add(&m, found, &numbers, 2, &r, &error), &error);
    REQUIRE_OK(metrics_result(&m, &e, &error), &error);
    double first = 1 - 1 / (14. / 3), second = 1 - 75 / (200. / 3);
    CHECK_MSG(fabs(e.r2 - (first + second) / 2) < 1e-9, "r2 %.9g", e.r2);
    metrics_finish(&m);
}

/* Batches whose buffers could not be counted are refused, not allocated. */
static void test_absurd(void)
{
    static const size_t batches[] = {SIZE_MAX, SIZE_MAX / 8, (size_t)1 << 62, (size_t)1 << 40};
    struct rig a = rig_make("dense 3", (pst_train_options){0});
    pst_error error;
    pst_model *m = NULL;
    for (size_t i = 0; i < sizeof(batches) / sizeof(batches[0]); i++) {
        pst_trainer *t = NULL;
        pst_train_options o = {.size = sizeof(o), .batch = batches[i], .loss = PST_LOSS_SPARSE};
        CHECK_STATUS(pst_trainer_create(&t, a.model, &o, &error), PST_ELIMIT, &error);
        CHECK(t == NULL && strstr(error.message, "smaller batch") != NULL);
    }
    CHECK_STATUS(pst_model_parse(&m, "flatten | dense 3", &(pst_shape){.rank = 3, .size = {UINT32_MAX, UINT32_MAX, UINT32_MAX}}, &error), PST_ELIMIT,
                 &error);
    rig_finish(&a);
}

static void flip(const char *folder, const char *name)
{
    char path[512];
    size_t length;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    uint8_t *bytes = test_read_file(path, &length);
    bytes[length - 2] ^= 1;
    test_write_file(path, bytes, length);
    free(bytes);
}

/* Weights of a damaged checkpoint are not taken, whichever file is damaged; the message names the file. */
static void test_damaged_weights(void)
{
    static const char *const names[] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
    for (size_t i = 0; i < 3; i++) {
        struct rig a = rig_make("dense 4 | dense 3", (pst_train_options){.ema = 0.5, .seed = 1}),
                   b = rig_make("dense 4 | dense 3", (pst_train_options){.seed = 2}),
                   same = rig_make("dense 4 | dense 3", (pst_train_options){.seed = 2});
        char path[300];
        pst_error error;
        snprintf(path, sizeof(path), "%s%zu", test_path("damaged"), i);
        step(&a, 0, SAMPLES, true);
        REQUIRE_OK(pst_trainer_save(a.trainer, path, &error), &error);
        flip(path, names[i]);
        CHECK_STATUS(pst_trainer_load_weights(b.trainer, path, NULL, &error), PST_ECORRUPT, &error);
        CHECK_MSG(strstr(error.path, names[i]) != NULL, "%s: %s", error.path, error.message);
        CHECK(distance(&b, &same) == 0);
        rig_finish(&a);
        rig_finish(&b);
        rig_finish(&same);
    }
}

/* Names of classes are kept with the weights. */
static void test_class_names(void)
{
    static const char *const names[] = {"ant", "bee", "cat"};
    struct rig a = rig_make("dense 3", (pst_train_options){0});
    pst_run_record *r = NULL;
    pst_error error;
    REQUIRE_OK(pst_trainer_set_classes(a.trainer, names, 3, &error), &error);
    REQUIRE_OK(pst_trainer_save(a.trainer, test_path("named"), &error), &error);
    REQUIRE_OK(pst_run_record_read(&r, test_path("named"), NULL, &error), &error);
    CHECK(r->class_count == 3 && strcmp(r->classes[1], "bee") == 0);
    CHECK_STR(r->instructions, pst_trainer_instructions(a.trainer));
    CHECK(r->threads > 0 && r->batches_per_step == 1);
    pst_run_record_destroy(r);
    rig_finish(&a);
}

/* ---- Weights of other programs ---- */

static void add_array(struct text *header, struct text *data, const char *name, const char *dtype, const char *shape, const void *bytes_of, size_t bytes)
{
    text_addf(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%zu,%zu]}", header->length ? "," : "{", name, dtype, shape,
              data->length, data->length + bytes);
    text_add_n(data, bytes_of, bytes);
}

static const char *write_arrays(struct text *header, struct text *data, const char *name)
{
    const char *path = test_path(name);
    struct text file = {0};
    uint64_t length;
    text_add(header, "}");
    length = header->length;
    text_add_n(&file, (const char *)&length, sizeof(length));
    text_add_n(&file, header->data, header->length);
    text_add_n(&file, data->data, data->length);
    test_write_file(path, file.data, file.length);
    text_finish(&file);
    text_finish(header);
    text_finish(data);
    return path;
}

/* PyTorch: kernels are OIHW and (out, in), the rows after a flattened image go channel by channel, half numbers are converted. */
static void test_torch_names(void)
{
    struct text header = {0}, data = {0};
    float kernel[2 * 3 * 2 * 2], dense[2 * 8];
    const uint16_t half[2] = {0x3c00, 0xc000}, brain[2] = {0x3f80, 0xc000}; /* 1, −2 */
    const double wide[2] = {0.5, 4};
    pst_error error;
    pst_model *m = NULL;
    pst_trainer *t = NULL;
    size_t loaded = 0;
    for (size_t i = 0; i < 24; i++)
        kernel[i] = (float)i;
    for (size_t i = 0; i < 16; i++)
        dense[i] = (float)(100 + i);
    add_array(&header, &data, "features.0.weight", "F32", "[2,3,2,2]", kernel, sizeof(kernel));
    add_array(&header, &data, "features.0.bias", "F16", "[2]", half, sizeof(half));
    add_array(&header, &data, "features.1.running_mean", "F64", "[2]", wide, sizeof(wide));
    add_array(&header, &data, "features.1.running_var", "F64", "[2]", wide, sizeof(wide));
    add_array(&header, &data, "features.1.weight", "F64", "[2]", wide, sizeof(wide));
    add_array(&header, &data, "features.1.bias", "BF16", "[2]", brain, sizeof(brain));
    add_array(&header, &data, "fc.weight", "F32", "[2,8]", dense, sizeof(dense));
    add_array(&header, &data, "fc.bias", "F16", "[2]", half, sizeof(half));
    const char *path = write_arrays(&header, &data, "torch.safetensors");
    pst_train_options o = {.size = sizeof(o), .batch = 1, .loss = PST_LOSS_SPARSE};
    REQUIRE_OK(pst_model_parse(&m, "conv 2 2 | batchnorm | flatten | dropout 0.5 | relu | dense 2", &(pst_shape){.rank = 3, .size = {3, 3, 3}}, &error), &error);
    REQUIRE_OK(pst_trainer_create(&t, m, &o, &error), &error);
    REQUIRE_OK(pst_trainer_load_weights(t, path, &loaded, &error), &error);
    CHECK_INT(loaded, 8);
    const float *k = pst_trainer_values(t, 0), *d = pst_trainer_values(t, 6);
    for (size_t y = 0; y < 2; y++)
        for (size_t x = 0; x < 2; x++)
            for (size_t i = 0; i < 3; i++)
                for (size_t out = 0; out < 2; out++)
                    CHECK(k[((y * 2 + x) * 3 + i) * 2 + out] == kernel[((out * 3 + i) * 2 + y) * 2 + x]);
    for (size_t p = 0; p < 4; p++) /* pixels */
        for (size_t c = 0; c < 2; c++)
            for (size_t out = 0; out < 2; out++)
                CHECK(d[(p * 2 + c) * 2 + out] == dense[out * 8 + c * 4 + p]);
    CHECK(pst_trainer_values(t, 1)[1] == -2.f && pst_trainer_values(t, 2)[0] == 0.5f && pst_trainer_values(t, 3)[1] == -2.f);
    CHECK(pst_trainer_values(t, 4)[1] == 4.f && pst_trainer_values(t, 5)[0] == 0.5f && pst_trainer_values(t, 7)[0] == 1.f);
    for (uint64_t n = 0;; n++) { /* every allocation and every call on storage may fail */
        uint64_t live = mem_live();
        test_fault_arm(n % 2 ? FAULT_IO : FAULT_MEMORY, n / 2, false);
        pst_status st = pst_trainer_load_weights(t, path, &loaded, &error);
        bool reached = test_fault_calls() > n / 2;
        test_fault_clear();
        CHECK_INT(mem_live(), live);
        if (!reached && n > 60)
            break;
        CHECK(st < 0 || !reached || n % 2);
    }
    pst_trainer_destroy(t);
    pst_model_destroy(m);
}

/* Measuring changes nothing, and every layer has its row. */
static void test_measured(void)
{
    struct rig a = rig_make("dense 7 relu | dense 3", (pst_train_options){0}), b = rig_make("dense 7 relu | dense 3", (pst_train_options){0});
    pst_error error;
    pst_train_stats all = {.size = sizeof(all)};
    pst_layer_stats l = {.size = sizeof(l)};
    size_t layers = 0;
    double passes = 0;
    CHECK(!pst_trainer_stats(a.trainer, &all) && pst_trainer_write_trace(a.trainer, test_path("trace.json"), &error) == PST_EINVAL);
    REQUIRE_OK(pst_trainer_measure(a.trainer, true, &error), &error);
    for (int i = 0; i < 4; i++) {
        step(&a, 0, SAMPLES, true);
        step(&b, 0, SAMPLES, true);
    }
    REQUIRE_OK(pst_trainer_measure(a.trainer, false, &error), &error);
    step(&a, 0, SAMPLES, true);
    step(&b, 0, SAMPLES, true);
    CHECK(distance(&a, &b) == 0);
    REQUIRE(pst_trainer_stats(a.trainer, &all));
    CHECK(all.steps == 4 && all.samples == SAMPLES && all.forward > 0 && all.backward > 0 && all.update > 0);
    for (size_t i = 0; pst_trainer_stats_at(a.trainer, i, &l); i++) {
        layers += l.layers;
        passes += l.forward + l.backward;
        CHECK(l.forward_bytes > 0 && l.backward_bytes > l.forward_bytes && l.implementation && l.why);
    }
    CHECK_INT(layers, 3);
    CHECK(passes > 0 && passes <= all.forward + all.backward);
    REQUIRE_OK(pst_trainer_write_trace(a.trainer, test_path("trace.json"), &error), &error);
    size_t length;
    char *text = (char *)test_read_file(test_path("trace.json"), &length);
    CHECK(strstr(text, "traceEvents") && strstr(text, "dense_1") && strstr(text, "backward"));
    free(text);
    rig_finish(&a);
    rig_finish(&b);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"several batches per step", test_accumulate},
                                        {"a checkpoint within a step", test_accumulate_saved},
                                        {"weights of classes", test_class_weights},
                                        {"a loss of one's own", test_own_loss},
                                        {"gradients changed before the update", test_own_gradients},
                                        {"AUC", test_auc},
                                        {"metrics by hand", test_metrics},
                                        {"absurd batches", test_absurd},
                                        {"weights of damaged checkpoints", test_damaged_weights},
                                        {"names of classes", test_class_names},
                                        {"weights with PyTorch's names", test_torch_names},
                                        {"steps are measured", test_measured},
                                        {0}};
    return test_main(argc, argv, tests);
}
