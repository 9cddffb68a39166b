/* test_flow_stats.c: what a pipeline says of itself: the plan, caches, statistics, stalls. */
#include "base/random.h"
#include "base/thread.h"
#include "flow/element_cache.h"
#include "flow/runner.h"
#include "flow_chains.h"

#include <unistd.h>

static void test_describe(void)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        pst_error e;
        char *words = NULL, *json = NULL;
        pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 2, .world = 2, .rank = 1});
        REQUIRE(p);
        REQUIRE_OK(pst_pipeline_describe(p, false, &words, &e), &e);
        REQUIRE_OK(pst_pipeline_describe(p, true, &json, &e), &e);
        CHECK(strstr(words, "samples") && strstr(words, "\norder ") && strstr(words, "\nworkers "));
        CHECK(json[0] == '{' && strstr(json, "\"workers\": 2"));
        mem_free(words);
        mem_free(json);
        pst_pipeline_destroy(p);
    }
}

static void test_cache_hits(void)
{
    static const struct {
        const char *name;
        pst_status (*build)(pst_pipeline *p, pst_error *e);
        uint64_t elements, loads;
    } runs[] = {{"indexed", cached, 60, 60}, {"streamed", streamed_cached, 40, 40}};
    for (size_t i = 0; i < 2; i++) {
        struct chain_case c = {runs[i].name, .build = runs[i].build};
        struct trace t = {0};
        pst_error e;
        pst_stats stats = {.size = sizeof(stats)};
        pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2, .prefetch = 1});
        REQUIRE(p);
        run_sound(p, &t, 3, 99, c.name);
        REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
        CHECK_INT(stats.samples, 3 * runs[i].elements);
        CHECK_INT(atomic_load(&last_sample_source->loads), runs[i].loads);
        CHECK(stats.cache_hits >= 2 * runs[i].elements);
        CHECK(atomic_load(&last_sample_source->opened) <= 1);
        pst_pipeline_destroy(p);
    }
}

/* What did not fit is not tried again and again. */
static void test_full_cache(void)
{
    static const struct chain_case c = {"little", .build = cached_little};
    struct trace t = {0};
    pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    run_sound(p, &t, 2, 99, c.name);
    uint64_t bytes = cache_bytes(p->plan->cache), kept = cache_elements(p->plan->cache);
    size_t steps = t.count;
    run_sound(p, &t, 3, 99, c.name);
    CHECK_INT(t.count - steps, 3 * 10); /* 9 batches and an end */
    CHECK_INT(cache_bytes(p->plan->cache), bytes);
    CHECK_INT(cache_elements(p->plan->cache), kept);
    CHECK(kept > 5 && kept < 60);
    pst_pipeline_destroy(p);
}

static void test_stats(void)
{
    pst_error e;
    struct trace t = {0};
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = made(&cases[6], (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e); /* before everything */
    CHECK_INT(stats.batches, 0);
    run_sound(p, &t, 2, 99, cases[6].name);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    CHECK_INT(stats.batches, 8);
    CHECK_INT(stats.samples, 128);
    CHECK_INT(stats.stages, 7);
    CHECK_STR(stats.stage[0].name, "read");
    CHECK_STR(stats.stage[1].name, "bulk");
    CHECK_STR(stats.stage[6].name, "batch");
    CHECK(stats.stage[1].calls >= 128 && stats.stage[1].ns > 0);
    CHECK_INT(stats.workers, 2);
    CHECK(stats.ram_used > 0 && stats.bytes > 0 && stats.read_bytes > 0 && !stats.stalled);
    CHECK(strstr(stats.workers_reason, "asked") != NULL);
    pst_stats old = {.size = offsetof(pst_stats, read_bytes)}; /* a caller who knows less of the struct */
    REQUIRE_OK(pst_pipeline_stats(p, &old, &e), &e);
    CHECK(old.batches == 8 && old.read_bytes == 0);
    pst_pipeline_destroy(p);
}

static void test_read_bytes(void)
{
    pst_error e;
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    pst_stats stats = {.size = sizeof(stats)};
    REQUIRE_OK(pst_pipeline_parse(&p, "range 100 | batch 10", &(pst_pipeline_options){.size = sizeof(pst_pipeline_options)}, &e), &e);
    while (pst_pipeline_next(p, &batch, &e) == PST_OK)
        batch = pst_batch_unref(batch);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    CHECK(stats.read_bytes >= 800 && stats.read_bytes % 8 == 0 && stats.read_bytes <= 80000); /* workers are ahead */
    CHECK_INT(stats.bytes, 800);
    pst_pipeline_destroy(p);
}

#define SLEEP_NS 2000000

static pst_status sleep_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                            pst_error *reterr)
{
    nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
    return noise_run(config, worker, ctx, in, out, reterr);
}

/* Time is counted where it is spent. */
static void test_stage_times(void)
{
    static const pst_op_class sleepy = {
        .size = sizeof(pst_op_class), .name = "sleepy", .config_size = sizeof(int), .plan = noise_plan, .run = sleep_run};
    for (size_t at = 0; at < 3; at++) {
        pst_error e;
        struct trace t = {0};
        pst_stats stats = {.size = sizeof(stats)};
        pst_pipeline *p = NULL;
        pst_pipeline_options o = {.size = sizeof(o), .workers = 1};
        REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
        REQUIRE_OK(add_samples(p, (struct sample_config){.count = 20}, &e), &e);
        for (size_t i = 0; i < 3; i++)
            REQUIRE_OK(i == at ? pst_pipeline_add_op(p, &sleepy, &(int){2}, &e) : add_noise(p, 2, &e), &e);
        REQUIRE_OK(add_batch(p, 5, false, &e), &e);
        run_sound(p, &t, 1, 99, "sleepy");
        REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
        CHECK_INT(stats.stages, 5);
        CHECK_STR(stats.stage[1 + at].name, "sleepy");
        CHECK_MSG(stats.stage[1 + at].ns > 15 * (uint64_t)SLEEP_NS, "%d ns in 20 elements", (int)stats.stage[1 + at].ns);
        pst_pipeline_destroy(p);
    }
}

/* Memory that is in use was planned for, whatever the elements are made of. */
static void test_memory(void)
{
    for (const struct chain_case *c = cases; c->name; c++)
        for (unsigned prefetch = 1; prefetch < 9; prefetch += 7) {
            pst_error e;
            struct trace t = {0};
            pst_stats stats = {.size = sizeof(stats)};
            pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 3, .prefetch = prefetch});
            REQUIRE(p);
            run_sound(p, &t, 3, 99, c->name);
            REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
            CHECK_MSG(t.count >= 3 && (stats.ram_used > 0) == (c->build != empty), "%s: %zu steps used %d bytes", c->name,
                      t.count, (int)stats.ram_used);
            CHECK_MSG(stats.ram_used <= stats.ram_planned, "%s: %d bytes used, %d planned", c->name, (int)stats.ram_used,
                      (int)stats.ram_planned);
            pst_pipeline_destroy(p);
        }
}

/* What a batch of a stream keeps beside its data, to find its elements again, counts as memory. */
static void test_memory_of_origins(void)
{
    pst_error e;
    pst_pipeline *p = NULL;
    pst_batch *b = NULL;
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(add_samples(p, (struct sample_config){.count = 2000, .stream = true}, &e), &e);
    REQUIRE_OK(add_pick(p, "id", &e), &e);
    REQUIRE_OK(add_batch(p, 1000, false, &e), &e);
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    CHECK_MSG(b->counted >= 1000 * (sizeof(int64_t) + sizeof(struct batch_origin)), "%d bytes", (int)b->counted);
    pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

static pst_status slow(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 4, .slow_us = 100000}, e));
    return add_batch(p, 2, false, e);
}

static pst_status slow_stream(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 4, .slow_us = 100000, .stream = true}, e));
    return add_batch(p, 2, false, e);
}

struct watcher {
    pst_pipeline *pipeline;
    pst_stats stats; /* the first that speak of a stall */
};

static void watch(void *user, unsigned worker)
{
    struct watcher *w = user;
    pst_error e;
    (void)worker;
    for (int i = 0; i < 1000 && !w->stats.stalled; i++) {
        usleep(1000);
        w->stats = (pst_stats){.size = sizeof(w->stats)};
        CHECK_STATUS(pst_pipeline_stats(w->pipeline, &w->stats, &e), PST_OK, &e);
    }
}

static void test_stall(void)
{
    static const struct chain_case runs[] = {{"\"read\"", .build = slow}, {"reading the stream", .build = slow_stream}};
    for (size_t i = 0; i < 2; i++) {
        pst_error e;
        pst_batch *b = NULL;
        struct thread_group *g;
        pst_stats stats = {.size = sizeof(stats)};
        pst_pipeline *p = made(&runs[i], (pst_pipeline_options){.workers = 1, .stall_seconds = 0.02});
        struct watcher watcher = {.pipeline = p};
        REQUIRE(p);
        REQUIRE_OK(pst_pipeline_start(p, &e), &e);
        REQUIRE_OK(thread_group_start(&g, 1, "watch", watch, &watcher, &e), &e);
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        pst_batch_unref(b);
        thread_group_join(g);
        CHECK_MSG(watcher.stats.stalled && strstr(watcher.stats.stall, runs[i].name), "%s", watcher.stats.stall);
        REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
        CHECK(!stats.stalled); /* it is over */
        stats.size = 0;
        CHECK_STATUS(pst_pipeline_stats(p, &stats, &e), PST_EINVAL, &e);
        pst_pipeline_destroy(p);
    }
}

/* Several threads ask for statistics while a pipeline runs, seeks and ends. */
struct asker {
    pst_pipeline *pipeline;
    atomic_bool over;
    atomic_uint answers, changes, wrong; /* `wrong`: refused, or counts that fell */
};

static void ask(void *user, unsigned worker)
{
    struct asker *a = user;
    pst_stats last = {0};
    (void)worker;
    for (bool over = false; !over;) {
        pst_stats stats = {.size = sizeof(stats)};
        over = atomic_load(&a->over); /* the last answer is that after everything */
        bool sound = pst_pipeline_stats(a->pipeline, &stats, NULL) == PST_OK && stats.samples >= last.samples &&
                     stats.batches >= last.batches && stats.workers <= 256;
        atomic_fetch_add(&a->answers, 1);
        atomic_fetch_add(&a->changes, stats.samples > last.samples);
        atomic_fetch_add(&a->wrong, !sound);
        last = stats;
        usleep(50);
    }
}

static void test_stats_from_other_threads(void)
{
    pst_error e;
    struct thread_group *g;
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = made(&cases[11], (pst_pipeline_options){0});
    struct asker asker = {.pipeline = p};
    REQUIRE(p);
    REQUIRE_OK(thread_group_start(&g, 2, "ask", ask, &asker, &e), &e);
    for (int i = 0; i < 5; i++) {
        struct trace t = {0};
        pst_cursor c;
        run_sound(p, &t, 2, 99, cases[11].name);
        CHECK_INT(t.count, 2 * 8); /* 7 batches and an end */
        CHECK_STATUS(pst_pipeline_tell(p, &c, &e), PST_OK, &e);
        CHECK_STATUS(pst_pipeline_seek(p, &c, &e), PST_OK, &e);
    }
    atomic_store(&asker.over, true);
    thread_group_join(g);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    CHECK_INT(stats.samples, 5 * 2 * 40);
    CHECK_INT(stats.batches, 5 * 2 * 7);
    CHECK_INT(asker.wrong, 0);
    CHECK(asker.answers >= 2 && asker.changes >= 2); /* each thread saw at least that it had run */
    pst_pipeline_destroy(p);
}

static void test_names_fit(void)
{
    static const struct {
        const char *whole, *fits;
        size_t size;
    } names[] = {
        {"decode+resize", "decode+resize", 14},
        {"decode+resize", "decode+\xe2\x80\xa6", 13},
        {"decode+random_resized_crop+flip+normalize+layout", "decode+\xe2\x80\xa6+flip+normalize+layout", 48},
        {"decode+random_resized_crop+flip+normalize+layout", "decode+\xe2\x80\xa6+normalize+layout", 32},
        {"decode+random_resized_crop+flip+normalize+layout", "decode+\xe2\x80\xa6+layout", 18},
        {"decode+random_resized_crop+flip+normalize+layout", "decode+\xe2\x80\xa6", 17},
        {"an_operation_with_a_name_that_goes_on_and_on", "an_operation_with_a_name_tha\xe2\x80\xa6", 32},
    };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        program_fit_name(name, names[i].size, names[i].whole);
        CHECK_STR(name, names[i].fits);
        CHECK(strlen(name) < names[i].size);
    }
}

/* Every period-th element is timed, however the elements are cut into slices. */
static void test_timed_elements(void)
{
    struct random random;
    random_init(&random, 3, 0, 0, 0);
    for (unsigned period = 1; period < 30; period++) {
        struct runner r = {.period = period};
        size_t decided = 0, same = 0;
        for (size_t i = 0, slice = 0; i < 500; i++, slice--) {
            if (slice == 0)
                slice = 1 + random_below(&random, 40), decided = i;
            if (i == decided) {
                same = runner_begin(&r, slice);
                REQUIRE(same >= 1 && same <= slice);
                decided += same;
            }
            CHECK_INT(r.is_timed, i % period == 0);
        }
    }
}

static const struct test tests[] = {
    {"the plan in words and as JSON", test_describe},
    {"a cache is hit by every later pass", test_cache_hits},
    {"a full cache stays as it is", test_full_cache},
    {"statistics", test_stats},
    {"bytes that were read", test_read_bytes},
    {"times of stages", test_stage_times},
    {"which elements are timed", test_timed_elements},
    {"memory is planned", test_memory},
    {"memory of places", test_memory_of_origins},
    {"long names of stages", test_names_fit},
    {"a stall is named", test_stall},
    {"statistics from other threads", test_stats_from_other_threads},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
