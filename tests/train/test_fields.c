/* test_fields.c: the fields that training keeps of a pipeline; metrics over the caller's batches. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"
#include <penstock/train.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES 24

static float values[SAMPLES * 2], other[SAMPLES], weights[SAMPLES];
static int64_t labels[SAMPLES];

static void make_data(void)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        values[2 * i] = (float)(i % 5) - 2;
        values[2 * i + 1] = (float)(i % 7) - 3;
        labels[i] = (int64_t)(i * i % 3);
        weights[i] = 1;
    }
}

static pst_status open_pipeline(pst_pipeline **ret, pst_error *error)
{
    static const char *const names[] = {"x", "other", "label", "w"};
    const pst_tensor arrays[] = {{.dtype = PST_DTYPE_F32, .rank = 2, .shape = {SAMPLES, 2}, .data = values},
                                 {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {SAMPLES}, .data = other},
                                 {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {SAMPLES}, .data = labels},
                                 {.dtype = PST_DTYPE_F32, .rank = 1, .shape = {SAMPLES}, .data = weights}};
    pst_pipeline_options o = {.size = sizeof(o), .workers = 1};
    make_data();
    pst_status st = pst_pipeline_create(ret, &o, error);
    if (st == PST_OK)
        st = pst_pipeline_add_arrays(*ret, names, arrays, 4, error);
    return st == PST_OK ? pst_pipeline_add(*ret, "batch", "8", error) : st;
}

/* The names of the fields of a pipeline that keeps what these arguments say, and its cursor. */
static void check_kept(const char *input, const char *target, bool needs, const char *weight, const char *want, pst_cursor *ret)
{
    pst_pipeline *p = NULL;
    pst_error error;
    char text[80] = "";
    REQUIRE_OK(open_pipeline(&p, &error), &error);
    REQUIRE_OK(pst_fields_keep(p, input, target, needs, weight, &error), &error);
    REQUIRE_OK(pst_pipeline_tell(p, ret, &error), &error);
    const pst_spec *spec = pst_pipeline_spec(p);
    for (size_t i = 0; i < spec->count; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ", spec->field[i].name);
    CHECK_MSG(strcmp(text, want) == 0, "%s instead of %s", text, want);
    pst_batch *batch = NULL;
    REQUIRE_OK(pst_pipeline_next(p, &batch, &error), &error);
    CHECK(memcmp(pst_batch_get(batch, "x")->data, values, 16 * sizeof(float)) == 0);
    pst_batch_unref(batch);
    CHECK_STATUS(pst_fields_keep(p, NULL, NULL, false, NULL, &error), PST_EINVAL, &error); /* it is planned */
    pst_pipeline_destroy(p);
}

static void test_kept(void)
{
    pst_cursor all, some;
    check_kept("nothing", NULL, true, NULL, "x other label w ", &all); /* nothing fits: all fields stay */
    check_kept("x", NULL, true, NULL, "x label ", &some);
    CHECK(all.size == some.size && memcmp(all.bytes, some.bytes, all.size) == 0);
    check_kept(NULL, NULL, true, NULL, "x label ", &some); /* the field with the most dimensions */
    check_kept("x", NULL, true, "w", "x label w ", &some);
    check_kept("x", "other", true, NULL, "x other ", &some);
    check_kept("x", "none", false, NULL, "x ", &some);
    check_kept("x", "none", true, NULL, "x other label w ", &some);
    check_kept("x", NULL, true, "none", "x other label w ", &some);
    CHECK(memcmp(all.bytes, some.bytes, all.size) == 0);
}

static pst_status judge(pst_model **model, pst_trainer **t, pst_metrics **m, pst_evaluation *ret, pst_error *error)
{
    static const size_t first[] = {0, 8, 13, SAMPLES};
    pst_train_options o = {.size = sizeof(o), .batch = SAMPLES, .loss = PST_LOSS_SPARSE, .threads = 1};
    pst_status st = pst_model_parse(model, "dense 3", &(pst_shape){.rank = 1, .size = {2}}, error);
    if (st == PST_OK)
        st = pst_trainer_create(t, *model, &o, error);
    if (st == PST_OK)
        st = pst_metrics_create(m, *t, error);
    for (size_t i = 0; st == PST_OK && i < 3; i++) {
        size_t count = first[i + 1] - first[i];
        pst_tensor x = {.dtype = PST_DTYPE_F32, .rank = 2, .shape = {count, 2}, .data = values + 2 * first[i]};
        pst_tensor y = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {count}, .data = labels + first[i]};
        st = pst_metrics_add(*m, *t, &(pst_samples){.size = sizeof(pst_samples), .input = &x, .target = &y}, NULL, error);
    }
    return st == PST_OK ? pst_metrics_result(*m, ret, error) : st;
}

/* Batches of the caller give what a pass over a pipeline gives. */
static void test_metrics(void)
{
    pst_model *model = NULL;
    pst_trainer *t = NULL;
    pst_metrics *m = NULL;
    pst_pipeline *p = NULL;
    pst_fields fields = {.size = sizeof(fields)};
    pst_evaluation e = {.size = sizeof(e)}, want = {.size = sizeof(want)};
    pst_error error;
    make_data();
    REQUIRE_OK(judge(&model, &t, &m, &e, &error), &error);
    REQUIRE_OK(open_pipeline(&p, &error), &error);
    REQUIRE_OK(pst_fields_find(p, "x", NULL, true, &fields, &error), &error);
    REQUIRE_OK(pst_trainer_evaluate_pipeline(t, p, &fields, &want, &error), &error);
    CHECK_INT(e.samples, SAMPLES);
    CHECK(fabs(e.loss - want.loss) < 1e-12 && e.accuracy == want.accuracy && e.f1 == want.f1 && isnan(e.auc) && e.classes == 3);
    CHECK(memcmp(e.confusion, want.confusion, 9 * sizeof(*e.confusion)) == 0);
    /* A program whose results end earlier. */
    pst_evaluation older = {.size = offsetof(pst_evaluation, confusion), .f1 = -7};
    CHECK_STATUS(pst_trainer_evaluate_pipeline(t, p, &fields, &older, &error), PST_OK, &error);
    CHECK(older.f1 == want.f1 && older.classes == 3 && !older.confusion);
    pst_fields some = {.size = offsetof(pst_fields, width), .width = 77};
    CHECK_STATUS(pst_fields_find(p, "x", NULL, true, &some, &error), PST_OK, &error);
    CHECK(strcmp(some.input, "x") == 0 && some.width == 77);
    CHECK_STATUS(pst_fields_find(p, "x", NULL, true, &(pst_fields){0}, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_metrics_result(m, &want, &error), PST_EINVAL, &error); /* it began anew */
    pst_free(e.confusion);
    pst_free(want.confusion);
    pst_metrics_destroy(m);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
    pst_pipeline_destroy(p);
}

/* Every allocation may fail: an error, and no leak. */
static void test_faults(void)
{
    for (uint64_t n = 0;; n++) {
        uint64_t live = mem_live();
        pst_model *model = NULL;
        pst_trainer *t = NULL;
        pst_metrics *m = NULL;
        pst_pipeline *p = NULL;
        pst_evaluation e = {.size = sizeof(e)};
        pst_error error;
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = open_pipeline(&p, &error);
        if (st == PST_OK)
            st = pst_fields_keep(p, "x", NULL, true, "w", &error);
        if (st == PST_OK)
            st = pst_pipeline_plan(p, &error);
        if (st == PST_OK)
            st = judge(&model, &t, &m, &e, &error);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK(st == PST_OK || !e.confusion);
        if (st == PST_OK)
            pst_free(e.confusion);
        pst_metrics_destroy(m);
        pst_trainer_destroy(t);
        pst_model_destroy(model);
        pst_pipeline_destroy(p);
        CHECK_INT(mem_live(), live);
        if (!reached)
            break;
        CHECK_MSG(st < 0, "fault %d went unnoticed", (int)n);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"fields that are kept", test_kept}, {"metrics over batches", test_metrics}, {"faults", test_faults}, {0}};
    return test_main(argc, argv, tests);
}
