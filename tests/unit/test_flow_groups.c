/* test_flow_groups.c: an operation that computes many elements at once gives what it gives one by one. */
#include "flow_chains.h"

static void test_same_batches(void)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        noise_is_grouped = false;
        struct trace alone = traced(c, (pst_pipeline_options){.workers = 1});
        noise_is_grouped = true;
        for (unsigned workers = 1; workers < 5; workers++) {
            struct trace t = traced(c, (pst_pipeline_options){.workers = workers});
            CHECK_MSG(same(&alone, &t), "%s: %u workers differ", c->name, workers);
        }
    }
    CHECK_INT(noise_wrong, 0);
    CHECK_INT(noise_largest, 16); /* a whole batch of the largest */
    CHECK_INT(noise_alone, 0);
}

static void test_harness(void)
{
    noise_is_grouped = true;
    harness_workers(cases);
    harness_seek(cases);
    harness_cancel(cases);
    CHECK_INT(noise_wrong, 0);
}

static void test_faults(void)
{
    static const struct chain_case few[] = {{"many operations", .build = many_ops}, {"streamed", .build = streamed}, {0}};
    noise_is_grouped = true;
    harness_faults(few, FAULT_MEMORY);
}

static pst_status large(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 200}, e));
    TRY(add_bulk(p, 0, 20000, e)); /* up to 320 KB, 160 KB in the mean */
    TRY(add_noise(p, 2, e));
    return add_batch(p, 100, false, e);
}

static pst_status small(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 200}, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 100, false, e);
}

/* A group ends with the element that exceeds 4 MiB, or with 64 of them. */
static void test_sizes_of_groups(void)
{
    static const struct chain_case little = {"small", .build = small}, much = {"large", .build = large};
    noise_is_grouped = true;
    noise_largest = 0;
    traced(&little, (pst_pipeline_options){.workers = 1});
    CHECK_INT(noise_largest, 64);
    noise_largest = 0;
    traced(&much, (pst_pipeline_options){.workers = 1});
    CHECK_MSG(noise_largest > 20 && noise_largest < 40, "%zu", (size_t)noise_largest);
    CHECK_INT(noise_wrong, 0);
}

static pst_status after_batch(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 30}, e));
    TRY(add_batch(p, 10, false, e));
    return add_noise(p, 2, e);
}

static pst_status joined(pst_pipeline *p, pst_error *e)
{
    static float numbers[30 * 8];
    const pst_tensor vector = {.dtype = PST_DTYPE_F32, .rank = 2, .shape = {30, 8}, .data = numbers};
    pst_pipeline *branch[2] = {NULL, NULL};
    for (size_t i = 0; i < 30 * 8; i++)
        numbers[i] = (float)i;
    for (size_t i = 0; i < 2; i++) {
        TRY(pst_pipeline_create(&branch[i], NULL, e));
        TRY(pst_pipeline_add_arrays(branch[i], &(const char *){"vector"}, &vector, 1, e));
        TRY(add_noise(branch[i], 0, e));
    }
    TRY(pst_pipeline_add_pipelines(p, "concatenate", NULL, branch, 2, e));
    TRY(add_noise(p, 0, e));
    return add_batch(p, 10, false, e);
}

/* In a branch elements are computed alone; after the join they are not. */
static void test_branches(void)
{
    static const struct chain_case c = {"joined", .build = joined}, after = {"after batch", .build = after_batch};
    static const struct chain_case *const both[] = {&c, &after};
    for (size_t i = 0; i < 2; i++) {
        noise_is_grouped = false;
        struct trace alone = traced(both[i], (pst_pipeline_options){.workers = 2});
        noise_is_grouped = true;
        noise_alone = noise_largest = 0;
        struct trace t = traced(both[i], (pst_pipeline_options){.workers = 2});
        CHECK_MSG(same(&alone, &t), "%s differs", both[i]->name);
        CHECK_INT(noise_alone > 0, i == 0);
        CHECK(noise_largest > 1);
    }
    CHECK_INT(noise_wrong, 0);
}

static pst_status failing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100}, e));
    TRY(add_noise(p, 2, e));
    TRY(add_bulk(p, 31, 1, e));
    return add_batch(p, 50, false, e);
}

/* An element that fails after the group is the one that the error names, and the first of them. */
static void test_failure(void)
{
    static const struct chain_case c = {"failing", .build = failing};
    noise_is_grouped = true;
    for (unsigned workers = 1; workers < 4; workers++) {
        struct trace t = {0};
        pst_error e;
        pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = workers});
        REQUIRE(p);
        CHECK_STATUS(run_on(p, &t, 1, 10, &e), PST_ECORRUPT, &e);
        CHECK_INT(t.count, 0);
        CHECK_INT(e.record, 30);
        CHECK_STR(e.op, "bulk");
        pst_pipeline_destroy(p);
    }
}

static const struct test tests[] = {
    {"the same batches as one by one", test_same_batches},
    {"workers, seek and cancel", test_harness},
    {"every allocation may fail", test_faults},
    {"sizes of groups", test_sizes_of_groups},
    {"branches, and after batch", test_branches},
    {"a failure names its element", test_failure},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
