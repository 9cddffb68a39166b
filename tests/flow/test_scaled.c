/* test_scaled.c: levels are scaled once: a second operation that does it is refused, wherever the first one stands; and what `normalize`
 * computes from floating-point levels, in numbers. */
#include "harness.h"

#include <math.h>
#include <penstock/pipeline.h>
#include <stdio.h>
#include <string.h>

static float levels[4 * 2 * 3];
static uint8_t bytes[4 * 2 * 3];

static pst_status add_images(pst_pipeline *p, bool floats, pst_error *e)
{
    static const char *const names[] = {"image", "other"};
    const pst_tensor images = {.dtype = floats ? PST_DTYPE_F32 : PST_DTYPE_U8, .rank = 4, .shape = {1, 4, 2, 3}, .data = floats ? (void *)levels : bytes};
    return pst_pipeline_add_arrays(p, names, (const pst_tensor[]){images, images}, 2, e);
}

/* Plans one image of two fields with these operations. */
static pst_status plan(pst_pipeline **ret, bool floats, const char *const *ops, pst_error *e)
{
    pst_pipeline_options o = {.size = sizeof(o)};
    pst_status st = pst_pipeline_create(ret, &o, e);
    if (st == PST_OK)
        st = add_images(*ret, floats, e);
    for (size_t i = 0; st == PST_OK && ops[i]; i++) {
        const char *space = strchr(ops[i], ' ');
        char name[32];
        snprintf(name, sizeof(name), "%.*s", (int)(space ? (size_t)(space - ops[i]) : strlen(ops[i])), ops[i]);
        st = pst_pipeline_add(*ret, name, space, e);
    }
    return st == PST_OK ? pst_pipeline_plan(*ret, e) : st;
}

static void test_twice(void)
{
    static const struct {
        const char *const ops[7];
        bool refused;
    } cases[] = {
        {{"normalize imagenet", "normalize imagenet"}, true},
        {{"normalize", "batch 1"}, false},
        {{"normalize", "normalize field=other", "batch 1"}, false},
        {{"normalize", "resize 8", "flip", "cast f16", "cast f32", "normalize"}, true},
        {{"normalize", "layout nchw", "layout nhwc", "normalize"}, true},
        {{"cast f32", "resize 8", "normalize", "batch 1"}, false},
        {{"normalize", "rename image x", "rename other image", "normalize", "batch 1"}, false},
        {{"normalize", "rename image x", "rename other image", "normalize field=x"}, true},
        {{"normalize", "drop other", "shuffle", "repeat 2", "normalize"}, true},
        {{"normalize", "expr 'image * 255' image", "normalize", "batch 1"}, false},
        {{"normalize", "batch 1", "unbatch", "normalize"}, true},
    };
    for (size_t floats = 0; floats < 2; floats++)
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            pst_pipeline *p = NULL;
            pst_error e = {0};
            pst_status st = plan(&p, floats, cases[i].ops, &e);
            CHECK_MSG(st == (cases[i].refused ? PST_EINVAL : PST_OK), "case %zu: %s", i, e.message);
            if (cases[i].refused)
                CHECK_MSG(strstr(e.message, "has levels that normalize scaled already; leave one of them out") && strcmp(e.op, "normalize") == 0, "case %zu: %s", i,
                          e.message);
            pst_pipeline_destroy(p);
        }
}

static void test_numbers(void)
{
    static const struct {
        const char *op;
        float level, want[3]; /* by channel */
    } cases[] = {
        {"normalize", 51.f, {0.2f, 0.2f, 0.2f}},
        {"normalize -1..1", 63.75f, {-0.5f, -0.5f, -0.5f}},
        {"normalize -1..1", 300.f, {1.3529412f, 1.3529412f, 1.3529412f}},
        {"normalize imagenet", 127.5f, {0.06550218f, 0.1964286f, 0.4177777f}},
        {"normalize imagenet", -0.5f, {-2.1264663f, -2.0444678f, -1.8131590f}},
        {"normalize mean=0.5,0.25,0 std=0.25", 127.5f, {0.f, 1.f, 2.f}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_pipeline *p = NULL;
        pst_batch *b = NULL;
        pst_error e = {0};
        for (size_t k = 0; k < sizeof(levels) / sizeof(levels[0]); k++)
            levels[k] = cases[i].level;
        REQUIRE_OK(plan(&p, true, (const char *const[]){cases[i].op, "batch 1", NULL}, &e), &e);
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        const pst_tensor *t = pst_batch_get(b, "image");
        const float *x = t->data;
        for (size_t k = 0; k < sizeof(levels) / sizeof(levels[0]); k++)
            CHECK_MSG(fabsf(x[k] - cases[i].want[k % 3]) < 1e-6f, "%s of %g: %.8g, not %.8g", cases[i].op, (double)cases[i].level, (double)x[k],
                      (double)cases[i].want[k % 3]);
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"twice", test_twice}, {"in numbers", test_numbers}, {0}};
    return test_main(argc, argv, tests);
}
