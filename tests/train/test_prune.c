/* test_prune.c: pruning: the schedules by their formulas, which weights go, that none comes back, and that checkpoints continue. */
#include "base/memory.h"
#include "base/random.h"
#include "export/safetensors.h"
#include "harness.h"
#include "train/checkpoint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Values of initial + (final − initial) · (1 − (1 − p)³), computed by hand. */
static void test_schedule(void)
{
    pst_prune_options o = {.sparsity = 0.8, .initial = 0.1, .begin = 10, .end = 110, .every = 20, .power = 3};
    CHECK(fabs(prune_schedule(&o, 10) - 0.1) < 1e-12);
    CHECK(fabs(prune_schedule(&o, 30) - 0.4416) < 1e-12);
    CHECK(fabs(prune_schedule(&o, 60) - 0.7125) < 1e-12);
    CHECK(fabs(prune_schedule(&o, 110) - 0.8) < 1e-12 && fabs(prune_schedule(&o, 999) - 0.8) < 1e-12);
    CHECK(!prune_is_due(&o, 0) && prune_is_due(&o, 10) && !prune_is_due(&o, 11) && prune_is_due(&o, 30) && prune_is_due(&o, 110));
    CHECK(!prune_is_due(&o, 130));
    o.end = 105; /* the last choice is made whatever the frequency */
    CHECK(prune_is_due(&o, 105) && !prune_is_due(&o, 110));
    o = (pst_prune_options){.sparsity = 0.5, .schedule = PST_PRUNE_CONSTANT, .begin = 5, .every = 2};
    CHECK(prune_schedule(&o, 1) == 0.5 && !prune_is_due(&o, 4) && prune_is_due(&o, 5) && !prune_is_due(&o, 6) && prune_is_due(&o, 1000001));
}

/* ---- Training ---- */

#define SAMPLES 16
#define SIDE    6

static float images[SAMPLES * SIDE * SIDE * 5];
static int64_t classes[SAMPLES];
static pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {SAMPLES, SIDE, SIDE, 5}, .data = images};
static pst_tensor target = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {SAMPLES}, .data = classes};
static const pst_samples samples = {.size = sizeof(samples), .input = &input, .target = &target};
static const char text[] = "conv 8 3 relu pad=same | dwconv 3 pad=same | conv 16 3 pad=same bias=false | batchnorm | relu | globalavgpool | dense 4";

struct rig {
    pst_model *model;
    pst_trainer *trainer;
};

static struct rig make(pst_train_options o, const pst_prune_options *prune)
{
    pst_error error;
    struct rig r = {0};
    struct random random;
    random_init(&random, 4, 0, 0, 0);
    for (size_t i = 0; i < SAMPLES; i++)
        classes[i] = (int64_t)(i % 4);
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++)
        images[i] = (float)random_unit(&random);
    o.size = sizeof(o);
    o.batch = SAMPLES;
    o.loss = PST_LOSS_SPARSE;
    o.rate = 0.01;
    o.seed = 5;
    o.prune = prune;
    CHECK_STATUS(pst_model_parse(&r.model, text, &(pst_shape){.rank = 3, .size = {SIDE, SIDE, 5}}, &error), PST_OK, &error);
    CHECK_STATUS(pst_trainer_create(&r.trainer, r.model, &o, &error), PST_OK, &error);
    return r;
}

static void finish(struct rig *r)
{
    pst_trainer_destroy(r->trainer);
    pst_model_destroy(r->model);
}

static void train(struct rig *r, int steps)
{
    pst_error error;
    for (int i = 0; i < steps; i++)
        CHECK_STATUS(pst_trainer_step(r->trainer, &samples, NULL, &error), PST_OK, &error);
}

static size_t find(const struct rig *r, const char *name)
{
    for (size_t i = 0; i < r->model->graph->param_count; i++)
        if (strcmp(r->model->graph->params[i].name, name) == 0)
            return i;
    CHECK_MSG(false, "no parameter %s", name);
    return 0;
}

static size_t zeros(const struct rig *r, const char *name)
{
    size_t p = find(r, name), n = 0;
    for (size_t i = 0; i < r->model->graph->params[p].count; i++)
        n += pst_trainer_values(r->trainer, p)[i] == 0;
    return n;
}

/* Each layer has its own share, some have none, and the mean of the weights has the same zeros. */
static void test_shares(void)
{
    const char *exclude[] = {"dense_*"}, *layers[] = {"conv_2"};
    const double share[] = {0.75};
    pst_prune_options o = {.size = sizeof(o), .sparsity = 0.5, .schedule = PST_PRUNE_CONSTANT, .exclude = exclude, .exclude_count = 1,
                           .layers = layers, .layer_sparsity = share, .layer_count = 1};
    struct rig r = make((pst_train_options){.ema = 0.9}, &o);
    train(&r, 3);
    CHECK_INT(zeros(&r, "conv_1/kernel"), 9 * 5 * 8 / 2);
    CHECK_INT(zeros(&r, "conv_2/kernel"), 9 * 8 * 16 * 3 / 4);
    CHECK_INT(zeros(&r, "dense_1/kernel"), 0);
    CHECK_INT(zeros(&r, "dwconv_1/kernel"), 0);
    CHECK(fabs(pst_trainer_sparsity(r.trainer) - (180. + 864) / (360 + 1152)) < 1e-12);
    const struct graph_param *p = &r.model->graph->params[find(&r, "conv_2/kernel")];
    const float *mean = optimizer_state(r.trainer->optimizer, 2) + p->offset, *w = r.trainer->params + p->offset;
    for (size_t i = 0; i < p->count; i++)
        CHECK((mean[i] == 0) == (w[i] == 0));
    finish(&r);
}

static const float *sorting;

static int by_magnitude(const void *a, const void *b)
{
    size_t i = *(const size_t *)a, k = *(const size_t *)b;
    float x = fabsf(sorting[i]), y = fabsf(sorting[k]);
    return x > y ? -1 : x < y ? 1 : i < k ? -1 : 1;
}

/* The smallest go: compared with a sort. */
static void test_choice(void)
{
    pst_prune_options o = {.size = sizeof(o), .sparsity = 0.3, .schedule = PST_PRUNE_CONSTANT};
    struct rig r = make((pst_train_options){0}, NULL), pruned = make((pst_train_options){0}, &o);
    size_t p = find(&r, "conv_2/kernel"), count = r.model->graph->params[p].count, order[9 * 8 * 16], keep = (size_t)nearbyint(0.7 * (double)count);
    float *w = pst_trainer_values(r.trainer, p);
    w[5] = w[6] = w[7] = -w[8]; /* equal ones: the first stay */
    memcpy(pst_trainer_values(pruned.trainer, p), w, count * sizeof(float));
    prune_weights(pruned.trainer->prune, step_team(pruned.trainer->step), 0, pruned.trainer->params, NULL);
    sorting = w;
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    qsort(order, count, sizeof(order[0]), by_magnitude);
    for (size_t i = 0; i < count; i++) {
        float got = pst_trainer_values(pruned.trainer, p)[order[i]];
        CHECK(got == (i < keep ? w[order[i]] : 0));
    }
    finish(&r);
    finish(&pruned);
}

/* Whatever the optimiser does, a weight that has become zero stays zero; the last choice reaches the final share. */
static void test_never_grows_back(void)
{
    pst_prune_options o = {.size = sizeof(o), .sparsity = 0.8, .begin = 2, .end = 11, .every = 3};
    for (int kind = PST_OPTIMIZER_ADAM; kind <= PST_OPTIMIZER_LION; kind++) {
        struct rig r = make((pst_train_options){.optimizer = (pst_optimizer)kind, .momentum = 0.9, .weight_decay = 0.01, .clip_norm = 1}, &o);
        size_t p = find(&r, "conv_2/kernel"), count = r.model->graph->params[p].count, before = 0;
        bool gone[9 * 8 * 16] = {false};
        for (int step = 1; step <= 16; step++) {
            train(&r, 1);
            const float *w = pst_trainer_values(r.trainer, p);
            for (size_t i = 0; i < count; i++) {
                CHECK_MSG(!gone[i] || w[i] == 0, "optimiser %d, step %d: weight %zu has come back", kind, step, i);
                gone[i] |= w[i] == 0;
            }
            size_t now = zeros(&r, "conv_2/kernel");
            CHECK(now >= before && (step >= 2 || now == 0));
            before = now;
        }
        CHECK_INT(before, (long long)count - (long long)nearbyint(0.2 * (double)count));
        finish(&r);
    }
}

static void test_groups(void)
{
    pst_prune_options o = {.size = sizeof(o), .group_keep = 2, .group = 4, .schedule = PST_PRUNE_CONSTANT};
    struct rig r = make((pst_train_options){0}, &o);
    train(&r, 4);
    const float *w = pst_trainer_values(r.trainer, find(&r, "conv_2/kernel"));
    for (size_t tap = 0; tap < 9; tap++)
        for (size_t i = 0; i < 8; i += 4)
            for (size_t k = 0; k < 16; k++) {
                size_t kept = 0;
                for (size_t g = 0; g < 4; g++)
                    kept += w[(tap * 8 + i + g) * 16 + k] != 0;
                CHECK_INT(kept, 2);
            }
    CHECK_INT(zeros(&r, "conv_1/kernel"), 9 * 8 * 2); /* five inputs: 2 of 4 go, and the fifth stays */
    finish(&r);
}

/* What is zero at the start stays zero. */
static void test_keep(void)
{
    pst_prune_options o = {.size = sizeof(o), .schedule = PST_PRUNE_KEEP};
    struct rig r = make((pst_train_options){0}, &o);
    float *w = pst_trainer_values(r.trainer, find(&r, "conv_1/kernel"));
    for (size_t i = 0; i < 100; i++)
        w[3 * i] = 0;
    train(&r, 3);
    CHECK_INT(zeros(&r, "conv_1/kernel"), 100);
    CHECK_INT(zeros(&r, "conv_2/kernel"), 0);
    finish(&r);
}

/* ---- Checkpoints ---- */

static long long file_bytes(const char *folder, const char *name)
{
    struct stat s = {0};
    char *path = mem_format("%s/%s", folder, name);
    stat(path, &s);
    mem_free(path);
    return s.st_size;
}

static bool same_weights(const struct rig *a, const struct rig *b)
{
    for (size_t i = 0; i < a->model->graph->param_count; i++)
        if (memcmp(pst_trainer_values(a->trainer, i), pst_trainer_values(b->trainer, i), a->model->graph->params[i].count * sizeof(float)) != 0)
            return false;
    return true;
}

/* A run that is saved and loaded, also within a step of several batches, ends with the same bits; the files hold no zeros. */
static void test_checkpoints(void)
{
    pst_prune_options o = {.size = sizeof(o), .sparsity = 0.9, .end = 8, .every = 2};
    pst_train_options options = {.accumulate = 3, .clip_norm = 0.5, .ema = 0.9};
    pst_error error;
    for (int at = 1; at < 36; at += 7) {
        struct rig straight = make(options, &o), first = make(options, &o), second = make(options, &o), dense = make(options, NULL);
        const char *folder = test_path("pruned");
        train(&straight, 36);
        train(&first, at);
        REQUIRE_OK(pst_trainer_save(first.trainer, folder, &error), &error);
        REQUIRE_OK(pst_trainer_load(second.trainer, folder, &error), &error);
        CHECK(same_weights(&first, &second) && pst_trainer_sparsity(first.trainer) == pst_trainer_sparsity(second.trainer));
        REQUIRE_OK(pst_trainer_load_weights(dense.trainer, folder, NULL, &error), &error);
        train(&second, 36 - at);
        CHECK_MSG(same_weights(&straight, &second), "resumed after %d batches", at);
        if (at > 24) {
            const char *whole = test_path("dense");
            REQUIRE_OK(pst_trainer_save(dense.trainer, whole, &error), &error);
            CHECK(file_bytes(folder, "weights.safetensors") * 2 < file_bytes(whole, "weights.safetensors"));
        }
        finish(&straight);
        finish(&first);
        finish(&second);
        finish(&dense);
    }
}

/* Arrays without zeros: every truncation of bitmap, values or shape is refused, and any number of values is read back. */
static void test_sparse_arrays(void)
{
    pst_error error;
    for (size_t count = 1; count < 40; count++) {
        float x[40];
        uint8_t bits[5] = {0x5a, 0xff, 0, 0x81, 0x3c};
        struct text file = {0};
        struct safetensors s = {0};
        for (size_t i = 0; i < count; i++)
            x[i] = bits[i / 8] >> (i % 8) & 1 ? (float)i + 0.5f : 0;
        struct safetensor t[2] = {{.name = "b", .dtype = "F32", .rank = 2, .shape = {1, count}, .count = count, .data = x, .bitmap = bits},
                                  {.name = "a", .dtype = "F32", .rank = 1, .shape = {1}, .count = 1, .data = x}};
        safetensors_write(&file, t, 2);
        REQUIRE(!file.failed);
        REQUIRE_OK(safetensors_parse(&s, NULL, file.data, file.length, &error), &error);
        const struct safetensor *got = safetensors_find(&s, "b");
        REQUIRE(s.count == 2 && got && got->count == count && got->rank == 2 && got->shape[1] == count && got->bitmap);
        CHECK(memcmp(got->data, x, count * sizeof(float)) == 0);
        safetensors_finish(&s);
        size_t data = 8 + (size_t)(uint8_t)file.data[0] + ((size_t)(uint8_t)file.data[1] << 8); /* the header's length has two bytes here */
        for (size_t i = data + 4; i < file.length; i++) /* after "a": bits of the bitmap, values or shape change */
            for (int bit = 0; bit < 8; bit++) {
                file.data[i] ^= (char)(1 << bit);
                if (safetensors_parse(&s, NULL, file.data, file.length, &error) == PST_OK)
                    safetensors_finish(&s);
                file.data[i] ^= (char)(1 << bit);
            }
        text_finish(&file);
    }
}

static void test_errors(void)
{
    const struct {
        pst_prune_options o;
        const char *says;
    } cases[] = {{{.sparsity = 1}, "less than 1"},
                 {{.sparsity = -0.1}, "0 or more"},
                 {{.sparsity = 0.2, .initial = 0.5, .end = 9}, "grow"},
                 {{.sparsity = 0.2, .begin = 5, .end = 2}, "begins at step 5"},
                 {{.sparsity = 0.2}, "length of the run is not known"},
                 {{.group = 4, .group_keep = 4, .end = 3}, "4 of 4"},
                 {{.sparsity = 0.5, .end = 3, .exclude = (const char *const[]){"nothing"}, .exclude_count = 1}, "no layer"},
                 {{.sparsity = 0.5, .end = 3, .exclude = (const char *const[]){"*"}, .exclude_count = 1}, "left to prune"}};
    pst_model *m = NULL;
    pst_error error;
    REQUIRE_OK(pst_model_parse(&m, text, &(pst_shape){.rank = 3, .size = {SIDE, SIDE, 5}}, &error), &error);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_prune_options p = cases[i].o;
        pst_train_options o = {.size = sizeof(o), .batch = 4, .loss = PST_LOSS_SPARSE, .prune = &p};
        pst_trainer *t = NULL;
        p.size = sizeof(p);
        CHECK_INT(pst_trainer_create(&t, m, &o, &error), PST_EINVAL);
        CHECK_MSG(strstr(error.message, cases[i].says), "%s", error.message);
    }
    pst_model_destroy(m);
}

int main(int argc, char **argv)
{
    static const struct test cases[] = {
        {"schedule", test_schedule}, {"shares", test_shares},           {"choice", test_choice},
        {"groups", test_groups},     {"never_grows_back", test_never_grows_back}, {"keep", test_keep},
        {"checkpoints", test_checkpoints}, {"sparse_arrays", test_sparse_arrays}, {"errors", test_errors}, {0}};
    return test_main(argc, argv, cases);
}
