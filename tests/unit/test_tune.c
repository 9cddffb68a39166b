/* test_tune.c: the choices of workers and depth, from measurements made up for the purpose. */
#include "flow/tune_workers.h"
#include "harness.h"

#include <string.h>

static struct pipeline_plan plan_of(size_t block, unsigned threads, uint64_t ram)
{
    struct pipeline_plan p = {.ram = ram, .threads = threads};
    p.program.layout.block = block;
    return p;
}

static void test_first_choice(void)
{
    struct tuner t;
    pst_pipeline_options o = {.size = sizeof(o)};
    struct pipeline_plan small = plan_of(35000, 4, UINT64_C(1) << 30), large = plan_of(40 << 20, 4, UINT64_C(1) << 30);
    tune_init(&t, &small, &o, 2);
    CHECK_INT(t.workers, 2);
    CHECK_INT(t.depth, 32);
    tune_init(&t, &large, &o, 2);
    CHECK_INT(t.depth, 3); /* one more than workers */
    CHECK(strstr(t.workers_reason, "2 cores") != NULL);
    large.ram = 130 << 20; /* three batches: one is the consumer's */
    tune_init(&t, &large, &o, 2);
    CHECK_INT(t.depth, 2);
    CHECK(strstr(t.depth_reason, "RAM") != NULL);
    CHECK(tune_planned(&t, &large, 0) <= large.ram);
}

static void test_asked_for(void)
{
    struct tuner t;
    pst_pipeline_options o = {.size = sizeof(o), .workers = 3, .prefetch = 7};
    struct pipeline_plan p = plan_of(1000, 3, 1 << 30);
    p.prefetch = 9; /* of the chain; the options go first */
    tune_init(&t, &p, &o, 2);
    CHECK_INT(t.workers, 3);
    CHECK_INT(t.depth, 7);
    CHECK(strstr(t.depth_reason, "asked") != NULL);
    struct tune_sample a = {.now_ns = 1000000000}, b = {.now_ns = 2000000000,
                                                        .consumer_wait_ns = 900000000,
                                                        .worker_wait_ns = 1000000000,
                                                        .worker_busy_ns = 1000000000,
                                                        .probed_ns = 100,
                                                        .blocked_ns = 90,
                                                        .batch_bytes = 1000};
    CHECK(!tune_update(&t, &a));
    CHECK(!tune_update(&t, &b)); /* what was asked for stays */
    o.prefetch = 0;
    tune_init(&t, &p, &o, 2);
    CHECK_INT(t.depth, 9);
}

/* A second in which the consumer, the workers (all together) and reads took these shares. */
static bool second(struct tuner *t, double starved, double waiting, double busy, double blocked)
{
    struct tune_sample s = t->last;
    s.now_ns += 1000000000;
    s.consumer_wait_ns += (uint64_t)(starved * 1e9);
    s.worker_wait_ns += (uint64_t)(waiting * 1e9 * t->workers);
    s.worker_busy_ns += (uint64_t)(busy * 1e9 * t->workers);
    s.probed_ns += 1000000;
    s.blocked_ns += (uint64_t)(blocked * 1e6);
    s.batch_bytes = 1 << 20;
    return tune_update(t, &s);
}

static void test_adapts(void)
{
    struct tuner t;
    pst_pipeline_options o = {.size = sizeof(o)};
    struct pipeline_plan p = plan_of(1 << 20, 4, UINT64_C(1) << 30);
    tune_init(&t, &p, &o, 2);
    second(&t, 0, 0, 0, 0); /* the first look only remembers */
    size_t depth = t.depth;
    CHECK(!second(&t, 0.9, 0, 1, 0)); /* all cores busy: nothing to gain */
    CHECK(strstr(t.workers_reason, "busy 100 %") != NULL);
    CHECK(second(&t, 0.9, 0, 1, 0.6)); /* asleep in reads: more of them */
    CHECK_INT(t.workers, 3);
    CHECK(strstr(t.workers_reason, "60 %") != NULL);
    CHECK(second(&t, 0.9, 0, 1, 0.6));
    CHECK_INT(t.workers, 4);
    CHECK(!second(&t, 0.9, 0, 1, 0.6)); /* as many as there are */
    CHECK(second(&t, 0.5, 0, 1, 0.01)); /* the page cache is warm now */
    CHECK_INT(t.workers, 3);
    CHECK(second(&t, 0.3, 0.4, 0.6, 0)); /* both wait in turns: a longer buffer */
    CHECK(t.depth == 2 * depth && strstr(t.depth_reason, "turns"));
    CHECK_INT(t.workers, 2);
    CHECK(!second(&t, 0, 0.9, 0.1, 0)); /* the consumer is the slow one */
    CHECK(strstr(t.workers_reason, "keep up") != NULL);
    tune_init(&t, &p, &o, 2); /* what the workers waited before does not count again */
    second(&t, 0, 0, 0, 0);
    second(&t, 0, 0.9, 0.1, 0);
    depth = t.depth;
    CHECK(!second(&t, 0.9, 0, 1, 0));
    CHECK_INT(t.depth, depth);
}

/* Batches whose size nobody knew turn out larger than the budget has room for. */
static void test_shrinks(void)
{
    struct tuner t;
    pst_pipeline_options o = {.size = sizeof(o)};
    struct pipeline_plan p = plan_of(0, 2, 64 << 20);
    tune_init(&t, &p, &o, 2);
    second(&t, 0, 0, 0, 0);
    struct tune_sample s = t.last;
    s.now_ns += 1000000000;
    s.batch_bytes = 25 << 20;
    CHECK(tune_update(&t, &s));
    CHECK_INT(t.depth, 1);
    CHECK(strstr(t.depth_reason, "RAM") != NULL);
}

static const struct test tests[] = {
    {"the first choice", test_first_choice},
    {"what is asked for stays", test_asked_for},
    {"adapts to what is measured", test_adapts},
    {"shrinks within the budget", test_shrinks},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
