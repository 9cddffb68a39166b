/* test_flow.c: the engine as a whole, on a source and operations of its own: the harness over a table of chains, then what
 * failures, damage, ranks, cursors, caches and statistics promise. */
#include "base/thread.h"
#include "flow/cache.h"
#include "flow_fixture.h"
#include "flow_harness.h"

#include <unistd.h>

/* ---- The chains ---- */

static pst_status plain(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 53}, e));
    return add_batch(p, 8, false, e);
}

static pst_status unbatched(pst_pipeline *p, pst_error *e)
{
    return add_samples(p, (struct sample_config){.count = 7}, e);
}

static pst_status shuffled(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 101}, e));
    TRY(add_noise(p, 2, e));
    TRY(add_shuffle(p, 0, 0, e)); /* behind an operation: it moves in front */
    return add_batch(p, 10, true, e);
}

static pst_status windowed(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 101}, e));
    TRY(add_shuffle(p, 0, 3000, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 10, false, e);
}

static pst_status repeated(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 23}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_count(p, &op_repeat, 3, e));
    TRY(add_noise(p, 2, e));
    TRY(add_batch(p, 5, false, e));
    return add_count(p, &op_skip, 2, e); /* batches */
}

static pst_status endless(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 19}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_count(p, &op_repeat, -1, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 4, false, e);
}

static pst_status many_ops(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 64}, e));
    TRY(add_bulk(p, 0, 1000, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_noise(p, 2, e));
    TRY(add_noise(p, 2, e));
    TRY(add_pick(p, "id vector bulk length", e));
    TRY(add_noise(p, 1, e));
    TRY(add_batch(p, 16, false, e));
    return add_noise(p, 1, e); /* behind batch it still works on elements */
}

static pst_status cached(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 60}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_bulk(p, 0, 3, e));
    TRY(add_cache(p, 1 << 20, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 7, false, e);
}

static pst_status cached_little(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 60}, e));
    TRY(add_cache(p, 5000, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 7, false, e);
}

static pst_status streamed(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 53, .stream = true}, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 8, false, e);
}

static pst_status streamed_shuffled(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 53, .stream = true}, e));
    TRY(add_count(p, &op_skip, 3, e));
    TRY(add_shuffle(p, 4000, 0, e));
    TRY(add_noise(p, 2, e));
    TRY(pst_pipeline_add_op(p, &op_shard, &(struct shard_config){.count = 2, .index = 1}, e));
    TRY(add_count(p, &op_repeat, 2, e));
    TRY(add_count(p, &op_take, 40, e));
    TRY(add_batch(p, 4, false, e));
    return add_shuffle(p, 3000, 0, e);
}

static pst_status streamed_cached(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 40, .stream = true}, e));
    TRY(add_shuffle(p, 2000, 0, e));
    TRY(add_bulk(p, 0, 2, e));
    TRY(add_cache(p, 1 << 20, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 6, false, e);
}

static pst_status damaged(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 70, .corrupt = 9}, e));
    TRY(add_shuffle(p, 0, 0, e));
    TRY(add_bulk(p, 11, 5, e));
    TRY(add_noise(p, 2, e));
    return add_batch(p, 3, false, e); /* some batches lose everything */
}

static pst_status empty(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 0}, e));
    TRY(add_shuffle(p, 0, 0, e));
    return add_batch(p, 3, false, e);
}

static const struct chain_case cases[] = {
    {"plain", .build = plain},
    {"unbatched", .build = unbatched},
    {"shuffled", .build = shuffled},
    {"windowed", .build = windowed},
    {"repeated", .build = repeated},
    {"endless", .build = endless},
    {"many operations", .build = many_ops},
    {"cached", .build = cached},
    {"cached in little memory", .build = cached_little},
    {"streamed", .build = streamed},
    {"streamed and shuffled", .build = streamed_shuffled},
    {"streamed and cached", .build = streamed_cached},
    {"damaged", .build = damaged, .skip = true},
    {"empty", .build = empty},
    {0},
};

/* ---- The harness over all of them ---- */

static void test_workers(void)
{
    harness_workers(cases);
    CHECK_INT(atomic_load(&noise_started), 0);
}

static void test_seek(void)
{
    harness_seek(cases);
}

static void test_cancel_at_every_batch(void)
{
    harness_cancel(cases);
}

static void cancel_later(void *user, unsigned worker)
{
    (void)worker;
    usleep(2000);
    pst_pipeline_cancel(user);
}

static void test_cancel_from_another_thread(void)
{
    static const struct chain_case slow = {"endless", .build = endless};
    for (int round = 0; round < 20; round++) {
        pst_pipeline *p = made(&slow, (pst_options){.workers = 2, .prefetch = 1 + (unsigned)round % 3});
        struct thread_group *g;
        pst_error e;
        pst_status st;
        REQUIRE(p);
        REQUIRE_OK(thread_group_start(&g, 2, "cancel", cancel_later, p, &e), &e);
        do {
            pst_batch *b = NULL;
            st = pst_pipeline_next(p, &b, &e);
            pst_batch_unref(b);
        } while (st >= 0);
        CHECK_STATUS(st, PST_ECANCELLED, &e);
        thread_group_join(g);
        pst_pipeline_destroy(p);
    }
}

static void test_every_allocation_may_fail(void)
{
    harness_faults(cases, FAULT_MEMORY);
}

/* Once every batch of the ring exists and the arenas have grown, hardly anything is allocated any more, and nothing for a
 * sample. */
static void test_steady_state(void)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        pst_error e;
        struct trace t = {0};
        pst_pipeline *p = made(c, (pst_options){.workers = 3, .prefetch = 2});
        REQUIRE(p);
        if (strncmp(c->name, "streamed", 8) == 0) {
            pst_pipeline_destroy(p); /* opens its stream for every epoch, and its items have many sizes */
            continue;
        }
        run_on(p, &t, 12, 400, &e);
        for (int i = 0; i < 4; i++) { /* as many batches as there can be at once */
            pst_batch *held = NULL;
            pst_pipeline_next(p, &held, &e);
            usleep(20000);
            pst_batch_unref(held);
        }
        pst_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
        REQUIRE_OK(pst_pipeline_stats(p, &before, &e), &e);
        test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
        t.count = 0;
        run_on(p, &t, 6, 200, &e);
        uint64_t calls = test_fault_calls();
        test_fault_clear();
        REQUIRE_OK(pst_pipeline_stats(p, &after, &e), &e);
        /* a batch that is cut into other slices may still meet a size that it has no room for */
        CHECK_MSG(calls * 10 <= after.samples - before.samples, "%s: %d allocations for %d samples", c->name, (int)calls,
                  (int)(after.samples - before.samples));
        pst_pipeline_destroy(p);
    }
}

static void test_no_threads(void)
{
    const struct chain_case *c = &cases[0];
    uint64_t live = mem_live();
    for (uint64_t n = 0; n < 4; n++) {
        pst_error e;
        pst_batch *b = NULL;
        pst_pipeline *p = made(c, (pst_options){.workers = 3});
        REQUIRE(p);
        test_fault_arm(FAULT_THREAD, n, true);
        pst_status st = pst_pipeline_next(p, &b, &e);
        test_fault_clear();
        CHECK_STATUS(st, n < 3 ? PST_EIO : PST_OK, &e);
        b = pst_batch_unref(b);
        CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_OK, &e); /* and once there are threads again it goes on */
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
    CHECK_INT(mem_live(), live);
}

/* ---- Failures ---- */

static pst_status failing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100, .fails = 57}, e));
    return add_batch(p, 5, false, e);
}

/* The batches in front of the failure come first, whoever is faster. */
static void test_failure_in_order(void)
{
    static const struct chain_case c = {"failing", .build = failing};
    for (unsigned workers = 1; workers < 6; workers++) {
        struct trace t = {0};
        pst_error e;
        pst_cursor cursor;
        pst_pipeline *p = made(&c, (pst_options){.workers = workers, .prefetch = 8});
        REQUIRE(p);
        CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_EIO, &e);
        CHECK_INT(t.count, 11);
        CHECK_STR(e.op, "samples");
        CHECK_STR(e.path, "samples.bin");
        CHECK_INT(e.record, 57);
        CHECK_INT(e.offset, 5700);
        CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_EIO, &e); /* and again */
        CHECK_INT(t.count, 11);
        REQUIRE_OK(pst_pipeline_tell(p, &cursor, &e), &e);
        CHECK_INT(cursor.next, 11);
        cursor.next++; /* past it */
        REQUIRE_OK(pst_pipeline_seek(p, &cursor, &e), &e);
        CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_END, &e);
        CHECK_INT(t.count, 11 + 8 + 1);
        pst_pipeline_destroy(p);
    }
}

static pst_status damaged_and_failing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100, .corrupt = 7, .fails = 57}, e));
    TRY(add_shuffle(p, 0, 0, e));
    return add_batch(p, 10, false, e);
}

/* What a batch that failed half-way had left out is forgotten when its memory is used again. */
static void test_again_after_a_failure(void)
{
    static const struct chain_case c = {"failing", .build = damaged_and_failing, .skip = true};
    struct trace first = {0};
    pst_error e;
    pst_cursor start;
    pst_pipeline *p = made(&c, (pst_options){.workers = 2, .prefetch = 2});
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_tell(p, &start, &e), &e);
    CHECK_STATUS(run_on(p, &first, 1, 100, &e), PST_EIO, &e);
    CHECK(first.count > 0);
    for (int i = 0; i < 10; i++) {
        struct trace t = {0};
        REQUIRE_OK(pst_pipeline_seek(p, &start, &e), &e);
        CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_EIO, &e);
        CHECK(same(&first, &t));
    }
    pst_pipeline_destroy(p);
}

static pst_status streamed_failing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100, .fails = 57, .stream = true}, e));
    return add_batch(p, 5, false, e);
}

static void test_stream_failure_in_order(void)
{
    static const struct chain_case c = {"failing", .build = streamed_failing};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&c, (pst_options){.workers = 3, .prefetch = 8});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_EIO, &e);
    CHECK_INT(t.count, 11);
    CHECK_INT(e.record, 57);
    pst_pipeline_destroy(p);
}

static pst_status op_failing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100}, e));
    TRY(add_bulk(p, 31, 1, e));
    return add_batch(p, 10, false, e);
}

static void test_damage_is_an_error_by_default(void)
{
    static const struct chain_case c = {"failing", .build = op_failing};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&c, (pst_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ECORRUPT, &e);
    CHECK_INT(t.count, 3);
    CHECK_STR(e.op, "bulk");
    CHECK(strstr(e.message, "sample 30") != NULL);
    CHECK_INT(pst_damage_log_count(pst_pipeline_damage(p), PST_CAUSES), 1);
    pst_pipeline_destroy(p);
}

/* Damaged elements are left out, batches get smaller, nothing else moves. */
static void test_skip(void)
{
    static const struct chain_case c = {"skipping", .build = op_failing, .skip = true};
    for (unsigned workers = 1; workers < 4; workers++) {
        pst_error e;
        pst_stats stats = {.size = sizeof(stats)};
        pst_pipeline *p = made(&c, (pst_options){.workers = workers});
        REQUIRE(p);
        for (int epoch = 0; epoch < 2; epoch++) {
            pst_batch *b = NULL;
            for (int64_t k = 0; pst_pipeline_next(p, &b, &e) == PST_OK; k++) {
                const int64_t *id = pst_batch_get(b, "id")->data;
                size_t at = 0;
                for (int64_t i = 10 * k; i < 10 * k + 10; i++)
                    if (i % 31 != 30)
                        CHECK_INT(id[at++], i);
                CHECK_INT(pst_batch_size(b), at);
                CHECK_INT(pst_batch_get(b, "bulk")->row_splits[at] > 0, 1);
                b = pst_batch_unref(b);
            }
        }
        REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
        CHECK_INT(stats.skipped, 2 * 3);
        CHECK_INT(stats.samples, 2 * 97);
        CHECK_INT(pst_damage_log_count(pst_pipeline_damage(p), PST_CAUSE_IMAGE), 3); /* the second epoch is no news */
        pst_pipeline_destroy(p);
    }
}

/* A budget is spent at the same batch for any number of workers. */
static void test_skip_budget(void)
{
    for (unsigned workers = 1; workers < 6; workers++) {
        pst_pipeline *p = NULL;
        struct trace t = {0};
        pst_error e;
        pst_options o = {.size = sizeof(o), .workers = workers, .prefetch = 9, .bad = {.skip = true, .max_records = 2}};
        REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
        REQUIRE_OK(op_failing(p, &e), &e);
        CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ECORRUPT, &e);
        CHECK_INT(t.count, 9); /* 30, 61, and 92 is one too many */
        CHECK(strstr(e.message, "allows 2") != NULL);
        CHECK_STR(e.op, "bulk");
        pst_pipeline_destroy(p);
    }
}

static pst_status disagreeing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 30, .uneven_pictures = 17}, e));
    return add_batch(p, 5, false, e);
}

static void test_shapes_that_disagree(void)
{
    static const struct chain_case c = {"disagreeing", .build = disagreeing};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&c, (pst_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ETYPE, &e);
    CHECK_INT(t.count, 3);
    CHECK(strstr(e.message, "sample 17") && strstr(e.message, "\"picture\"") && strstr(e.message, "[4,2]") &&
          strstr(e.message, "[3,2]") && strstr(e.message, "resize"));
    pst_pipeline_destroy(p);
}

static pst_status frozen(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 30}, e));
    TRY(add_noise(p, 2, e));
    TRY(add_cache(p, 0, e));
    return add_batch(p, 5, false, e);
}

static void test_randomness_in_front_of_a_cache(void)
{
    static const struct chain_case c = {"frozen", .build = frozen};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&c, (pst_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_EINVAL, &e);
    CHECK_INT(t.count, 0);
    CHECK_STR(e.op, "noise");
    pst_pipeline_destroy(p);
}

/* vector → vector, in ways that its class does not promise. */
enum oddity { POINTS_ELSEWHERE, FAILS_SILENTLY, ENDS, CHANGES_SHAPE };

static pst_status odd_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                          pst_error *reterr)
{
    (void)worker, (void)ctx, (void)reterr;
    switch (*(const int *)config) {
    case POINTS_ELSEWHERE:
        out[2].data = in[2].data;
        return PST_OK;
    case FAILS_SILENTLY:
        return PST_EUNSUPPORTED;
    case ENDS:
        return PST_END;
    default:
        out[2].shape[0] = 7;
        return PST_OK;
    }
}

static const pst_op_class odd_class = {
    .abi = PST_OP_ABI, .name = "odd", .config_size = sizeof(int), .plan = noise_plan, .run = odd_run};

static void test_odd_operations(void)
{
    static const struct {
        pst_status status;
        const char *message;
    } want[] = {
        {PST_OK, ""}, {PST_EUNSUPPORTED, "did not say why"}, {PST_EINVAL, "returned PST_END"}, {PST_ETYPE, "came as [7]"}};
    for (int oddity = POINTS_ELSEWHERE; oddity <= CHANGES_SHAPE; oddity++) {
        pst_error e = {0};
        pst_batch *b = NULL;
        pst_pipeline *p = NULL;
        REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
        REQUIRE_OK(add_samples(p, (struct sample_config){.count = 20}, &e), &e);
        REQUIRE_OK(pst_pipeline_add_op(p, &odd_class, &oddity, &e), &e);
        REQUIRE_OK(add_batch(p, 10, false, &e), &e);
        CHECK_STATUS(pst_pipeline_next(p, &b, &e), want[oddity].status, &e);
        CHECK_MSG(strstr(e.message, want[oddity].message) != NULL, "%s", e.message);
        if (b)
            CHECK(((float *)pst_batch_get(b, "vector")->data)[8 * 9] == 9.0f);
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
}

static void test_plan_errors(void)
{
    pst_error e;
    pst_pipeline *p = NULL;
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e); /* empty */
    REQUIRE_OK(add_batch(p, 3, false, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e); /* no source */
    p = pst_pipeline_destroy(p);

    static const struct sample_config missing = {.fails_at_open = 1};
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(add_samples(p, missing, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ENOTFOUND, &e);
    CHECK_STR(e.op, "samples");
    CHECK(pst_pipeline_spec(p) == NULL);
    p = pst_pipeline_destroy(p);

    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(add_samples(p, (struct sample_config){.count = 5}, &e), &e);
    REQUIRE_OK(add_pick(p, "id", &e), &e);
    REQUIRE_OK(add_noise(p, 0, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e); /* its field is gone */
    CHECK_STR(e.op, "noise");
    p = pst_pipeline_destroy(p);

    pst_options wrong = {.size = sizeof(wrong), .rank = 2, .world = 2};
    CHECK_STATUS(pst_pipeline_create(&p, &wrong, &e), PST_EINVAL, &e);
    pst_options little = {.size = sizeof(little), .ram = 1000};
    REQUIRE_OK(pst_pipeline_create(&p, &little, &e), &e);
    REQUIRE_OK(plain(p, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_OK, &e);       /* 8 × 56 bytes and some text */
    CHECK_STATUS(add_batch(p, 3, false, &e), PST_EINVAL, &e); /* too late */
    p = pst_pipeline_destroy(p);
    little.ram = 500;
    REQUIRE_OK(pst_pipeline_create(&p, &little, &e), &e);
    REQUIRE_OK(plain(p, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ELIMIT, &e);
    p = pst_pipeline_destroy(p);
}

/* ---- Batches ---- */

/* Held batches never change, may be written to, and outlive the pipeline. */
static void test_held_batches(void)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        pst_batch *held[MOST];
        uint64_t digest[MOST], live = mem_live();
        size_t n = 0, changed = 0;
        pst_error e;
        pst_pipeline *p = made(c, (pst_options){.workers = 3, .prefetch = 3});
        REQUIRE(p);
        for (int i = 0; i < MOST; i++) {
            pst_batch *b = NULL;
            if (pst_pipeline_next(p, &b, &e) != PST_OK)
                continue;
            if (i % 3 == 1) { /* scribbled on and given back: nobody may notice */
                const pst_tensor *t = pst_batch_get(b, "id");
                memset(t->data, 0xee, pst_batch_size(b) * sizeof(int64_t));
                pst_batch_unref(b);
                continue;
            }
            for (size_t f = 0; f < pst_batch_fields(b); f++)
                changed += (uintptr_t)pst_batch_at(b, f)->data % 64 != 0;
            digest[n] = batch_digest(b);
            held[n++] = pst_batch_ref(b);
            pst_batch_unref(b);
        }
        CHECK_MSG(changed == 0, "%s: fields not aligned", c->name);
        for (size_t i = 0; i < n / 2; i++) {
            changed += batch_digest(held[i]) != digest[i];
            pst_batch_unref(held[i]);
        }
        pst_pipeline_destroy(p);
        for (size_t i = n / 2; i < n; i++) {
            changed += batch_digest(held[i]) != digest[i];
            CHECK_STR(pst_batch_name(held[i], 0), "id");
            pst_batch_unref(held[i]);
        }
        CHECK_MSG(changed == 0, "%s: %zu batches changed while held", c->name, changed);
        CHECK_INT(mem_live(), live);
    }
}

static void test_contents(void)
{
    pst_error e;
    pst_pipeline *p = made(&cases[0], (pst_options){.workers = 2});
    REQUIRE(p);
    char text[256];
    REQUIRE_OK(pst_pipeline_plan(p, &e), &e);
    CHECK_STR(pst_spec_text(pst_pipeline_spec(p), text, sizeof(text)),
              "id: int64 [?], text: bytes [?], vector: float32 [?,8], tags: int32 [?,?,2], picture: uint8 [?,?,?]");
    CHECK_INT(pst_pipeline_length(p), 7);
    int64_t i = 0;
    for (pst_batch *b = NULL; pst_pipeline_next(p, &b, &e) == PST_OK; b = pst_batch_unref(b)) {
        const pst_tensor *id = pst_batch_get(b, "id"), *string = pst_batch_get(b, "text"), *vector = pst_batch_get(b, "vector");
        const pst_tensor *tags = pst_batch_get(b, "tags"), *picture = pst_batch_get(b, "picture");
        CHECK_INT(id->rank, 1);
        CHECK_INT(id->shape[0], pst_batch_size(b));
        CHECK_INT(tags->rank, 3);
        CHECK(tags->shape[1] == PST_ANY && tags->shape[2] == 2);
        CHECK_INT(picture->shape[1], 3);
        CHECK(!vector->row_splits && !picture->row_splits && pst_batch_get(b, "nothing") == NULL);
        for (size_t k = 0; k < pst_batch_size(b); k++, i++) {
            const pst_bytes *s = (const pst_bytes *)string->data + k;
            CHECK_INT(((int64_t *)id->data)[k], i);
            CHECK_INT(s->length, i % 11);
            CHECK(s->length == 0 || s->data[0] == 'a' + i % 26);
            CHECK(((float *)vector->data)[8 * k + 7] == (float)i + 7.0f / 8);
            CHECK_INT(tags->row_splits[k + 1] - tags->row_splits[k], i % 4);
            if (i % 4)
                CHECK_INT(((int32_t *)tags->data)[2 * tags->row_splits[k + 1] - 1], i * 10 + i % 4 * 2 - 1);
            CHECK_INT(((uint8_t *)picture->data)[6 * k + 5], i % 256);
        }
    }
    CHECK_INT(i, 53);
    pst_pipeline_destroy(p);
}

static void test_unneeded_fields(void)
{
    pst_error e;
    pst_pipeline *p = made(&cases[6], (pst_options){.workers = 1}); /* many operations: keeps id, vector, bulk, length */
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_plan(p, &e), &e);
    CHECK_INT(last_sample_source->need, 1 << 0 | 1 << 2);
    pst_pipeline_destroy(p);
}

static void test_describe(void)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        pst_error e;
        char *words = NULL, *json = NULL;
        pst_pipeline *p = made(c, (pst_options){.workers = 2, .world = 2, .rank = 1});
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

/* ---- Epochs, ranks, cursors ---- */

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
        pst_pipeline *p = made(&c, (pst_options){.workers = 2, .prefetch = 1});
        REQUIRE(p);
        run_on(p, &t, 3, 99, &e);
        REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
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
    pst_error e;
    pst_pipeline *p = made(&c, (pst_options){.workers = 2});
    REQUIRE(p);
    run_on(p, &t, 2, 99, &e);
    uint64_t bytes = cache_bytes(p->plan->cache), kept = cache_elements(p->plan->cache);
    run_on(p, &t, 3, 99, &e);
    CHECK_INT(cache_bytes(p->plan->cache), bytes);
    CHECK_INT(cache_elements(p->plan->cache), kept);
    CHECK(kept > 5 && kept < 60);
    pst_pipeline_destroy(p);
}

/* The trace of each rank, the way a training job with so many of them sees it. */
static size_t run_ranks(const struct chain_case *c, unsigned world, pst_uneven uneven, const pst_cursor *from, size_t steps,
                        int64_t *ids, pst_cursor *ret)
{
    size_t n = 0;
    pst_error e;
    for (unsigned rank = 0; rank < world; rank++) {
        pst_pipeline *p = made(c, (pst_options){.workers = 2, .rank = rank, .world = world, .uneven = uneven});
        if (!p || (from && !CHECK_STATUS(pst_pipeline_seek(p, from, &e), PST_OK, &e)))
            return 0;
        pst_batch *b = NULL;
        for (size_t i = 0; i < steps && pst_pipeline_next(p, &b, &e) == PST_OK; i++) {
            for (size_t k = 0; k < pst_batch_size(b); k++)
                ids[n++] = ((const int64_t *)pst_batch_get(b, "id")->data)[k];
            b = pst_batch_unref(b);
        }
        CHECK_STATUS(pst_pipeline_tell(p, ret, &e), PST_OK, &e);
        pst_pipeline_destroy(p);
    }
    return n;
}

static void test_ranks(void)
{
    static const struct chain_case runs[] = {{"shuffled", .build = windowed}, {"streamed", .build = streamed}};
    for (size_t r = 0; r < 2; r++)
        for (unsigned world = 1; world < 5; world++)
            for (int uneven = 0; uneven < 3; uneven++) {
                int64_t ids[400];
                int times[128] = {0}, most = 0, none = 0;
                size_t elements = r ? 53 : 101, batches = r ? 7 : 11;
                pst_cursor cursor;
                size_t n = run_ranks(&runs[r], world, (pst_uneven)uneven, NULL, SIZE_MAX, ids, &cursor);
                for (size_t i = 0; i < n; i++)
                    times[ids[i]]++;
                for (size_t i = 0; i < elements; i++) {
                    most = times[i] > most ? times[i] : most;
                    none += times[i] == 0;
                }
                if (uneven == PST_UNEVEN_ALLOW || batches % world == 0)
                    CHECK_MSG(n == elements && most == 1 && none == 0, "%s, %u ranks: %zu elements", runs[r].name, world, n);
                else if (uneven == PST_UNEVEN_PAD)
                    CHECK_MSG(n > elements && none == 0, "%s, %u ranks, padded: %d missing", runs[r].name, world, none);
                else
                    CHECK_MSG(n < elements && most == 1, "%s, %u ranks, cut: %zu elements", runs[r].name, world, n);
                CHECK_INT(cursor.epoch, 1);
            }
}

/* Four ranks go a few steps, three go on, then one: together they see every element once. */
static void test_resume_with_other_ranks(void)
{
    static const struct chain_case runs[] = {{"shuffled", .build = windowed}, {"streamed", .build = streamed}};
    for (size_t r = 0; r < 2; r++) {
        int64_t ids[400];
        int times[128] = {0};
        size_t elements = r ? 53 : 101, n = 0;
        pst_cursor a = {0}, b = {0}, c = {0};
        n += run_ranks(&runs[r], 4, PST_UNEVEN_PAD, NULL, 1, ids + n, &a);
        CHECK_INT(a.next, 4);
        n += run_ranks(&runs[r], 2, PST_UNEVEN_PAD, &a, 1, ids + n, &b);
        CHECK_INT(b.next, 6);
        n += run_ranks(&runs[r], 1, PST_UNEVEN_PAD, &b, SIZE_MAX, ids + n, &c);
        CHECK_INT(c.epoch, 1);
        CHECK_INT(n, elements);
        for (size_t i = 0; i < n; i++)
            times[ids[i]]++;
        for (size_t i = 0; i < elements; i++)
            CHECK_INT(times[i], 1);
    }
}

static void test_foreign_cursors(void)
{
    pst_error e;
    pst_cursor mine, other;
    pst_pipeline *p = made(&cases[2], (pst_options){.workers = 1}), *q = made(&cases[3], (pst_options){.workers = 1});
    REQUIRE(p && q);
    REQUIRE_OK(pst_pipeline_tell(p, &mine, &e), &e);
    REQUIRE_OK(pst_pipeline_tell(q, &other, &e), &e);
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    CHECK(strstr(e.message, "operations") && !strstr(e.message, "data"));
    other = mine;
    other.seed++;
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    CHECK(strstr(e.message, "seed 43") != NULL);
    other = mine;
    other.next = 11;
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    q = pst_pipeline_destroy(q);
    pst_options o = {.size = sizeof(o), .seed = 42};
    REQUIRE_OK(pst_pipeline_create(&q, &o, &e), &e);
    REQUIRE_OK(add_samples(q, (struct sample_config){.count = 101, .version = 2}, &e), &e);
    REQUIRE_OK(add_noise(q, 2, &e), &e);
    REQUIRE_OK(add_cache(q, 1000, &e), &e); /* neither of these two matters */
    REQUIRE_OK(add_shuffle(q, 0, 0, &e), &e);
    REQUIRE_OK(add_batch(q, 10, true, &e), &e);
    REQUIRE_OK(pst_pipeline_add_op(q, &op_prefetch, &(struct prefetch_config){.depth = 2}, &e), &e);
    REQUIRE_OK(pst_pipeline_tell(q, &other, &e), &e);
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    CHECK(strstr(e.message, "data are others") && !strstr(e.message, "operations"));
    pst_pipeline_destroy(p);
    pst_pipeline_destroy(q);
}

/* While the consumer works on the last batches of an epoch, the first of the next are being made. */
static void test_epoch_boundary(void)
{
    pst_error e;
    pst_batch *b = NULL;
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = made(&cases[0], (pst_options){.workers = 2, .prefetch = 4});
    REQUIRE(p);
    for (int i = 0; i < 7; i++, b = pst_batch_unref(b))
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    usleep(100000);
    CHECK_INT(pst_pipeline_next(p, &b, &e), PST_END);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    uint64_t waited = stats.consumer_wait_ns;
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    CHECK_INT(stats.consumer_wait_ns, waited);
    pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

/* ---- Statistics ---- */

static void test_stats(void)
{
    pst_error e;
    struct trace t = {0};
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = made(&cases[6], (pst_options){.workers = 2});
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e); /* before everything */
    CHECK_INT(stats.batches, 0);
    run_on(p, &t, 2, 99, &e);
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

static pst_status slow(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 4, .slow_us = 100000}, e));
    return add_batch(p, 2, false, e);
}

static void watch(void *user, unsigned worker)
{
    pst_stats stats = {.size = sizeof(stats)};
    pst_error e;
    (void)worker;
    usleep(60000);
    CHECK_STATUS(pst_pipeline_stats(user, &stats, &e), PST_OK, &e);
    CHECK_MSG(stats.stalled && strstr(stats.stall, "\"read\""), "%s", stats.stall);
}

static void test_stall(void)
{
    static const struct chain_case c = {"slow", .build = slow};
    pst_error e;
    pst_batch *b = NULL;
    struct thread_group *g;
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = made(&c, (pst_options){.workers = 1, .stall_seconds = 0.02});
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_start(p, &e), &e);
    REQUIRE_OK(thread_group_start(&g, 1, "watch", watch, p, &e), &e);
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    pst_batch_unref(b);
    thread_group_join(g);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    CHECK(!stats.stalled); /* it is over */
    pst_pipeline_destroy(p);
}

/* Everybody asks at once, while it runs, seeks and ends. */
static void ask(void *user, unsigned worker)
{
    pst_stats stats = {.size = sizeof(stats)};
    (void)worker;
    for (int i = 0; i < 300; i++) {
        pst_pipeline_stats(user, &stats, NULL);
        usleep(50);
    }
}

static void test_stats_from_other_threads(void)
{
    pst_error e;
    struct thread_group *g;
    pst_pipeline *p = made(&cases[11], (pst_options){0});
    REQUIRE(p);
    REQUIRE_OK(thread_group_start(&g, 2, "ask", ask, p, &e), &e);
    for (int i = 0; i < 5; i++) {
        struct trace t = {0};
        pst_cursor c;
        CHECK(run_on(p, &t, 2, 99, &e) >= 0);
        CHECK_STATUS(pst_pipeline_tell(p, &c, &e), PST_OK, &e);
        CHECK_STATUS(pst_pipeline_seek(p, &c, &e), PST_OK, &e);
    }
    thread_group_join(g);
    pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"what is in a batch", test_contents},
    {"any number of workers, any prefetch: the same bytes", test_workers},
    {"seek to every batch", test_seek},
    {"cancel at every batch, destroy at every batch", test_cancel_at_every_batch},
    {"cancel from other threads", test_cancel_from_another_thread},
    {"every allocation may fail", test_every_allocation_may_fail},
    {"nothing is allocated for a sample", test_steady_state},
    {"no threads to be had", test_no_threads},
    {"a failure comes in its turn", test_failure_in_order},
    {"from the front again after a failure", test_again_after_a_failure},
    {"a failure of the stream comes in its turn", test_stream_failure_in_order},
    {"damage is an error by default", test_damage_is_an_error_by_default},
    {"damage that is skipped leaves the rest in place", test_skip},
    {"a budget for damage is spent in order", test_skip_budget},
    {"shapes that disagree", test_shapes_that_disagree},
    {"randomness in front of a cache is refused", test_randomness_in_front_of_a_cache},
    {"operations that do not keep to the rules", test_odd_operations},
    {"mistakes show in the plan", test_plan_errors},
    {"held batches never change and outlive the pipeline", test_held_batches},
    {"fields that nobody needs are not loaded", test_unneeded_fields},
    {"the plan in words and as JSON", test_describe},
    {"a cache is hit by every later pass", test_cache_hits},
    {"a full cache stays as it is", test_full_cache},
    {"ranks", test_ranks},
    {"resume with other ranks", test_resume_with_other_ranks},
    {"foreign cursors are refused", test_foreign_cursors},
    {"no stall between epochs", test_epoch_boundary},
    {"statistics", test_stats},
    {"a stall is named", test_stall},
    {"statistics from other threads", test_stats_from_other_threads},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
