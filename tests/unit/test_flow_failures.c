/* test_flow_failures.c: what goes wrong in a pipeline: when it is told, whom and which element it names, and what damage that
 * is tolerated costs. */
#include "flow_chains.h"

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
        pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = workers, .prefetch = 8});
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
        pst_position at = position_of(&cursor);
        CHECK_INT(at.next, 11);
        at.next++; /* past it */
        cursor = cursor_at(at);
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
    pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2, .prefetch = 2});
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
    pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 3, .prefetch = 8});
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
    pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ECORRUPT, &e);
    CHECK_INT(t.count, 3);
    CHECK_STR(e.op, "bulk");
    CHECK_STR(e.path, "ids.bin"); /* where the field is that it reads */
    CHECK_INT(e.record, 30);
    CHECK_INT(e.offset, 3000);
    CHECK_STR(e.message, "no bulk in 30");
    CHECK_STR(pst_damage_log_place(pst_pipeline_damage(p), 0).path, "ids.bin");
    CHECK_INT(pst_damage_log_total(pst_pipeline_damage(p)), 1);
    pst_pipeline_destroy(p);
}

static pst_status op_failing_later(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100}, e));
    TRY(add_noise(p, 2, e));
    TRY(add_noise(p, 2, e));
    TRY(add_bulk(p, 31, 1, e));
    return add_batch(p, 10, false, e);
}

/* Operations between do not hide which field of the source it was. */
static void test_origin_of_a_field(void)
{
    static const struct chain_case c = {"failing", .build = op_failing_later};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ECORRUPT, &e);
    CHECK_STR(e.path, "ids.bin");
    pst_pipeline_destroy(p);
}

static pst_status streamed_op_failing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100, .stream = true}, e));
    TRY(add_shuffle(p, 1000, 0, e));
    TRY(add_bulk(p, 31, 1, e));
    return add_batch(p, 10, false, e);
}

static pst_status failing_behind_a_cache(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 100, .stream = true}, e));
    TRY(add_cache(p, 1 << 20, e));
    TRY(add_bulk(p, 31, 1, e));
    return add_batch(p, 10, false, e);
}

static pst_status streamed_disagreeing(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 30, .uneven_pictures = 17, .stream = true}, e));
    return add_batch(p, 5, false, e);
}

/* An element of a stream keeps its place, through buffers and caches. */
static void test_streams_know_the_place(void)
{
    static const struct chain_case runs[] = {{"shuffled", .build = streamed_op_failing},
                                             {"cached", .build = failing_behind_a_cache},
                                             {"disagreeing", .build = streamed_disagreeing}};
    for (size_t r = 0; r < 3; r++)
        for (int again = 0; again < 2; again++) {
            struct trace t = {0};
            pst_error e;
            pst_cursor start;
            pst_pipeline *p = made(&runs[r], (pst_pipeline_options){.workers = 2});
            REQUIRE(p);
            REQUIRE_OK(pst_pipeline_tell(p, &start, &e), &e);
            if (again) { /* now the cache has it */
                CHECK(run_on(p, &t, 1, 100, &e) < 0);
                REQUIRE_OK(pst_pipeline_seek(p, &start, &e), &e);
            }
            CHECK_STATUS(run_on(p, &t, 1, 100, &e), r < 2 ? PST_ECORRUPT : PST_ETYPE, &e);
            CHECK_STR(e.op, r < 2 ? "bulk" : "batch");
            CHECK_STR(e.path, "samples.bin");
            CHECK_MSG(r < 2 ? e.record % 31 == 30 : e.record == 17, "%s: record %d", runs[r].name, (int)e.record);
            CHECK_INT(e.offset, 100 * e.record);
            pst_pipeline_destroy(p);
        }
}

/* Fails at its byte 7. */
static pst_status picky_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                            pst_error *reterr)
{
    (void)config, (void)worker, (void)ctx, (void)in, (void)out;
    return pst_fail_at(reterr, PST_ECORRUPT, NULL, PST_NOWHERE, 7, "not nice");
}

static const pst_op_class picky_class = {
    .size = sizeof(pst_op_class), .name = "picky", .config_size = 1, .plan = noise_plan, .run = picky_run};

/* The record's place, and which byte of it; an element that is in no file has a number. */
static void test_bytes_of_a_field(void)
{
    pst_error e;
    pst_batch *b = NULL;
    pst_pipeline *p = NULL;
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(add_samples(p, (struct sample_config){.count = 9}, &e), &e);
    REQUIRE_OK(add_count(p, &op_skip.op, 4, &e), &e);
    REQUIRE_OK(pst_pipeline_add_op(p, &picky_class, NULL, &e), &e);
    CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECORRUPT, &e);
    CHECK_STR(e.path, "samples.bin");
    CHECK_INT(e.offset, 400);
    CHECK_STR(e.message, "not nice (byte 7 of the field)");
    p = pst_pipeline_destroy(p);

    float numbers[4 * 8] = {0};
    const pst_tensor vector = {.dtype = PST_DTYPE_F32, .rank = 2, .shape = {4, 8}, .data = numbers};
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_add_arrays(p, &(const char *){"vector"}, &vector, 1, &e), &e);
    REQUIRE_OK(add_count(p, &op_skip.op, 2, &e), &e);
    REQUIRE_OK(pst_pipeline_add_op(p, &picky_class, NULL, &e), &e);
    CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECORRUPT, &e);
    CHECK_STR(e.op, "picky");
    CHECK_STR(e.path, "");
    CHECK_INT(e.offset, 7);
    CHECK_INT(e.record, 2);
    CHECK_STR(e.message, "not nice");
    pst_pipeline_destroy(p);
}

/* Damaged elements are left out, batches get smaller, nothing else moves. */
static void test_skip(void)
{
    static const struct chain_case c = {"skipping", .build = op_failing, .skip = true};
    for (unsigned workers = 1; workers < 4; workers++) {
        pst_error e;
        pst_stats stats = {.size = sizeof(stats)};
        pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = workers});
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
        CHECK_INT(pst_damage_log_count(pst_pipeline_damage(p), PST_CAUSE_VALUE), 3); /* the second epoch is no news */
        pst_pipeline_destroy(p);
    }
}

/* Refuses every third element with the status of its config. */
static pst_status refusing_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                               pst_error *reterr)
{
    (void)worker;
    if (ctx->sample % 3 == 2)
        return pst_fail(reterr, *(const pst_status *)config, "not this one");
    memcpy(out[2].data, in[2].data, 8 * sizeof(float));
    return PST_OK;
}

static const pst_op_class refusing_class = {.size = sizeof(pst_op_class),
                                            .name = "refusing",
                                            .config_size = sizeof(pst_status),
                                            .plan = noise_plan,
                                            .run = refusing_run};

/* An element on which an operation fails is bad, and left out. Memory, a cancel and foreign data are not the element's fault.
 * PST_SKIP leaves it out without a word. */
static void test_what_is_skipped(void)
{
    static const pst_status skipped[] = {PST_ECORRUPT,     PST_ETYPE,  PST_ENOTFOUND, PST_ELIMIT,
                                         PST_EUNSUPPORTED, PST_EINVAL, PST_EIO,       PST_SKIP};
    static const pst_status fatal[] = {PST_ENOMEM, PST_ESTALE, PST_ECANCELLED};
    enum { SKIPPED = sizeof(skipped) / sizeof(skipped[0]), FATAL = sizeof(fatal) / sizeof(fatal[0]) };
    for (size_t i = 0; i < SKIPPED + FATAL; i++) {
        pst_error e;
        pst_batch *b = NULL;
        pst_pipeline *p = NULL;
        pst_pipeline_options o = {.size = sizeof(o), .bad = "skip"};
        pst_status status = i < SKIPPED ? skipped[i] : fatal[i - SKIPPED];
        REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
        REQUIRE_OK(add_samples(p, (struct sample_config){.count = 9}, &e), &e);
        REQUIRE_OK(pst_pipeline_add_op(p, &refusing_class, &status, &e), &e);
        REQUIRE_OK(add_batch(p, 9, false, &e), &e);
        CHECK_STATUS(pst_pipeline_next(p, &b, &e), i < SKIPPED ? PST_OK : status, &e);
        CHECK_INT(b ? pst_batch_size(b) : 0, i < SKIPPED ? 6 : 0);
        CHECK_INT(pst_damage_log_count(pst_pipeline_damage(p), PST_CAUSE_VALUE), i < SKIPPED && status != PST_SKIP ? 3 : 0);
        pst_batch_unref(b);
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
        pst_pipeline_options o = {.size = sizeof(o), .workers = workers, .prefetch = 9, .bad = "skip:2"};
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
    pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_ETYPE, &e);
    CHECK_INT(t.count, 3);
    CHECK_STR(e.op, "batch");
    CHECK_STR(e.path, "samples.bin");
    CHECK_INT(e.record, 17);
    CHECK(strstr(e.message, "\"picture\"") && strstr(e.message, "[4,2]") && strstr(e.message, "[3,2]") &&
          strstr(e.message, "resize"));
    pst_pipeline_destroy(p);
}

static pst_status frozen(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 30}, e));
    TRY(add_noise(p, 2, e));
    TRY(add_cache(p, 0, e));
    return add_batch(p, 5, false, e);
}

static const pst_op_class sly_class = {.size = sizeof(pst_op_class),
                                       .name = "sly",
                                       .config_size = sizeof(int),
                                       .worker_size = sizeof(void *),
                                       .plan = noise_plan,
                                       .start = noise_start,
                                       .run = noise_run,
                                       .stop = noise_stop};

static pst_status slyly_frozen(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 30}, e));
    TRY(pst_pipeline_add_op(p, &sly_class, &(int){2}, e));
    TRY(add_cache(p, 0, e));
    return add_batch(p, 5, false, e);
}

static void test_randomness_in_front_of_a_cache(void)
{
    static const struct chain_case declared = {"frozen", .build = frozen}, undeclared = {"slyly", .build = slyly_frozen};
    struct trace t = {0};
    pst_error e;
    pst_pipeline *p = made(&declared, (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e); /* before anything runs */
    CHECK_STR(e.op, "cache");
    CHECK(strstr(e.message, "move cache before noise") != NULL);
    pst_pipeline_destroy(p);
    p = made(&undeclared, (pst_pipeline_options){.workers = 2});
    REQUIRE(p);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_OK, &e);
    CHECK_STATUS(run_on(p, &t, 1, 100, &e), PST_EINVAL, &e);
    CHECK_INT(t.count, 0);
    CHECK_STR(e.op, "sly");
    CHECK(strstr(e.message, "PST_OP_RANDOM") != NULL);
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
    .size = sizeof(pst_op_class), .name = "odd", .config_size = sizeof(int), .plan = noise_plan, .run = odd_run};

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
        pst_pipeline_options tolerant = {.size = sizeof(tolerant),
                                         .bad = oddity != FAILS_SILENTLY ? "skip" : NULL}; /* no fault of the data */
        REQUIRE_OK(pst_pipeline_create(&p, &tolerant, &e), &e);
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

/* ---- Operations whose plan makes no sense ---- */

enum plan_oddity {
    NO_FIELDS,
    READS_NONE,
    NO_NAME,
    SAME_NAME,
    LONG_NAME,
    NO_TYPE,
    MANY_DIMENSIONS,
    ALIAS_OF_NONE,
    ALIAS_OF_OTHER,
    NO_RUN
};

static pst_status odd_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    (void)reterr;
    pst_spec_pass(in, out);
    pst_field *f = pst_spec_write(out, 2);
    switch (*(const int *)config) {
    case NO_FIELDS:
        out->count = 0;
        break;
    case READS_NONE:
        pst_spec_read(out, in->count);
        break;
    case NO_NAME:
        f->name[0] = '\0';
        break;
    case SAME_NAME:
        strcpy(f->name, "text");
        break;
    case LONG_NAME:
        memset(f->name, 'x', sizeof(f->name));
        break;
    case NO_TYPE:
        f->dtype = (pst_dtype)99;
        break;
    case MANY_DIMENSIONS:
        f->rank = PST_MAX_RANK + 1;
        break;
    case ALIAS_OF_NONE:
        f->alias = (int)in->count;
        break;
    case ALIAS_OF_OTHER:
        f->alias = 0;
        break;
    }
    return PST_OK;
}

static void test_odd_plans(void)
{
    static const char *const messages[] = {"0 fields",
                                           "reads a field that its input does not have",
                                           "needs a name",
                                           "needs a name",
                                           "needs a name",
                                           "has no type",
                                           "dimensions",
                                           "alias of a field that is not there",
                                           "or of another type or shape",
                                           "no run to write it"};
    static const pst_op_class plans = {
        .size = sizeof(pst_op_class), .name = "odd", .config_size = sizeof(int), .plan = odd_plan, .run = odd_run};
    static const pst_op_class no_run = {.size = sizeof(pst_op_class), .name = "odd", .config_size = sizeof(int), .plan = odd_plan};
    for (int oddity = NO_FIELDS; oddity <= NO_RUN; oddity++) {
        pst_error e = {0};
        pst_pipeline *p = NULL;
        REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
        REQUIRE_OK(add_samples(p, (struct sample_config){.count = 20}, &e), &e);
        REQUIRE_OK(pst_pipeline_add_op(p, oddity == NO_RUN ? &no_run : &plans, &oddity, &e), &e);
        CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e);
        CHECK_STR(e.op, "odd");
        CHECK_MSG(strstr(e.message, messages[oddity]) != NULL, "%d: %s", oddity, e.message);
        pst_pipeline_destroy(p);
    }
}

/* Waiting passes over batches that lost all their elements, as `next` does, and leaves a failure to `next`. */
static void test_wait(void)
{
    for (uint64_t budget = 0; budget < 4; budget += 3) {
        pst_error e = {0};
        pst_pipeline *p = NULL;
        pst_batch *b = NULL;
        char policy[32];
        snprintf(policy, sizeof(policy), budget ? "skip:%d" : "skip", (int)budget);
        pst_pipeline_options o = {.size = sizeof(o), .workers = 2, .bad = policy};
        REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
        REQUIRE_OK(add_samples(p, (struct sample_config){.count = 21, .corrupt = 2}, &e), &e); /* every odd one */
        REQUIRE_OK(add_batch(p, 1, false, &e), &e);
        for (int64_t id = 0; id < (budget ? 8 : 22); id += 2) {
            REQUIRE_OK(pst_pipeline_wait(p, 60, &e), &e);
            REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
            CHECK_INT(*(int64_t *)pst_batch_get(b, "id")->data, id);
            b = pst_batch_unref(b);
        }
        CHECK_STATUS(pst_pipeline_wait(p, 60, &e), PST_OK, &e);
        CHECK_STATUS(pst_pipeline_next(p, &b, &e), budget ? PST_ECORRUPT : PST_END, &e);
        CHECK_STATUS(pst_pipeline_wait(p, 60, &e), PST_OK, &e);
        CHECK_INT(pst_damage_log_total(pst_pipeline_damage(p)), budget ? 4 : 10);
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

    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(cached(p, &e), &e);
    REQUIRE_OK(add_cache(p, 1000, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e);
    CHECK_MSG(strstr(e.message, "one cache") && strcmp(e.op, "cache") == 0, "%s", e.message);
    p = pst_pipeline_destroy(p);

    pst_pipeline_options wrong = {.size = sizeof(wrong), .rank = 2, .world = 2};
    CHECK_STATUS(pst_pipeline_create(&p, &wrong, &e), PST_EINVAL, &e);
    pst_pipeline_options little = {.size = sizeof(little), .ram = 5000};
    REQUIRE_OK(pst_pipeline_create(&p, &little, &e), &e);
    REQUIRE_OK(plain(p, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_OK, &e);       /* 8 × 56 bytes, some text, and notes */
    CHECK_STATUS(add_batch(p, 3, false, &e), PST_EINVAL, &e); /* too late */
    p = pst_pipeline_destroy(p);
    little.ram = 4000;
    REQUIRE_OK(pst_pipeline_create(&p, &little, &e), &e);
    REQUIRE_OK(plain(p, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ELIMIT, &e);
    p = pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"a failure comes in its turn", test_failure_in_order},
    {"from the front again after a failure", test_again_after_a_failure},
    {"a failure of the stream comes in its turn", test_stream_failure_in_order},
    {"damage is an error by default", test_damage_is_an_error_by_default},
    {"operations between keep the origin of a field", test_origin_of_a_field},
    {"elements of a stream keep their place", test_streams_know_the_place},
    {"a byte of a field, and elements in no file", test_bytes_of_a_field},
    {"damage that is skipped leaves the rest in place", test_skip},
    {"what is skipped, and what is not", test_what_is_skipped},
    {"a budget for damage is spent in order", test_skip_budget},
    {"shapes that disagree", test_shapes_that_disagree},
    {"randomness in front of a cache is refused", test_randomness_in_front_of_a_cache},
    {"operations that do not keep to the rules", test_odd_operations},
    {"plans that make no sense", test_odd_plans},
    {"waiting passes over empty batches", test_wait},
    {"mistakes show in the plan", test_plan_errors},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
