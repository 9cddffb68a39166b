/* test_flow.c: the engine as a whole: what is in a batch, and the harness over a table of chains. */
#include "base/thread.h"
#include "flow_chains.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
        pst_pipeline *p = made(&slow, (pst_pipeline_options){.workers = 2, .prefetch = 1 + (unsigned)round % 3});
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
        pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 3, .prefetch = 2});
        REQUIRE(p);
        if (strncmp(c->name, "streamed", 8) == 0) {
            pst_pipeline_destroy(p); /* opens its stream for every epoch, and its items have many sizes */
            continue;
        }
        run_sound(p, &t, 12, 400, c->name);
        for (int i = 0; i < 4; i++) { /* as many batches as there can be at once */
            pst_batch *held = NULL;
            CHECK(pst_pipeline_next(p, &held, &e) >= 0);
            test_wait_until_idle();
            pst_batch_unref(held);
        }
        pst_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
        REQUIRE_OK(pst_pipeline_stats(p, &before, &e), &e);
        test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
        t.count = 0;
        run_sound(p, &t, 6, 200, c->name);
        uint64_t calls = test_fault_calls();
        test_fault_clear();
        REQUIRE_OK(pst_pipeline_stats(p, &after, &e), &e);
        CHECK_MSG(after.samples > before.samples || t.count == 6, "%s: nothing ran", c->name);
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
        pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 3});
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

/* ---- Batches ---- */

/* Held batches never change, may be written to, and outlive the pipeline. */
static void test_held_batches(void)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        pst_batch *held[MOST];
        uint64_t digest[MOST], live = mem_live();
        size_t n = 0, changed = 0;
        pst_error e;
        pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 3, .prefetch = 3});
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
    pst_pipeline *p = made(&cases[0], (pst_pipeline_options){.workers = 2});
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
    pst_pipeline *p =
        made(&cases[6], (pst_pipeline_options){.workers = 1}); /* many operations: keeps id, vector, bulk, length */
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_plan(p, &e), &e);
    for (size_t f = 0; f < 5; f++)
        CHECK_INT(last_sample_source->need[f], f == 0 || f == 2);
    p = pst_pipeline_destroy(p);
    static const struct {
        const char *keep;
        bool noise; /* reads the vector, and writes it */
        unsigned need;
    } runs[] = {
        {"vector", false, 1 << 2}, {"vector", true, 1 << 2}, {"text", true, 1 << 1}, {"id tags", true, 1 << 0 | 1 << 3}};
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
        REQUIRE_OK(add_samples(p, (struct sample_config){.count = 5}, &e), &e);
        if (runs[i].noise)
            REQUIRE_OK(add_noise(p, 2, &e), &e);
        REQUIRE_OK(add_pick(p, runs[i].keep, &e), &e);
        REQUIRE_OK(pst_pipeline_plan(p, &e), &e);
        for (size_t f = 0; f < 5; f++)
            CHECK_MSG(last_sample_source->need[f] == (runs[i].need >> f & 1), "keep %s: field %zu", runs[i].keep, f);
        p = pst_pipeline_destroy(p);
    }
}

/* While the consumer works on the last batches of an epoch, the first of the next are being made. */
static void test_epoch_boundary(void)
{
    pst_error e;
    pst_batch *b = NULL;
    pst_stats stats = {.size = sizeof(stats)};
    pst_pipeline *p = made(&cases[0], (pst_pipeline_options){.workers = 2, .prefetch = 4});
    REQUIRE(p);
    for (int i = 0; i < 7; i++, b = pst_batch_unref(b))
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    test_wait_until_idle();
    CHECK_INT(pst_pipeline_next(p, &b, &e), PST_END);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    uint64_t waited = stats.consumer_wait_ns;
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
    CHECK_INT(stats.consumer_wait_ns, waited);
    pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

/* A pipe that nobody writes to: a cancelled pipeline ends, and so does one that is only destroyed. */
static void test_awaited_pipe(void)
{
    pst_error e;
    char text[512];
    const char *fifo = test_path("awaited");
    REQUIRE(mkfifo(fifo, 0600) == 0);
    int writer = open(fifo, O_RDWR | O_CLOEXEC);
    REQUIRE(writer >= 0);
    for (int cancels = 0; cancels < 2; cancels++) {
        pst_pipeline *p = NULL;
        pst_batch *b = NULL;
        pst_pipeline_options options = {.size = sizeof(options), .workers = 2};
        snprintf(text, sizeof(text), "tfrecord %s | batch 4", fifo);
        REQUIRE_OK(pst_pipeline_parse(&p, text, &options, &e), &e);
        CHECK_STATUS(pst_pipeline_wait(p, 0.2, &e), PST_TIMEOUT, &e);
        if (cancels) {
            pst_pipeline_cancel(p);
            CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECANCELLED, &e);
        }
        pst_pipeline_destroy(p); /* would wait for ever */
    }
    close(writer);
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
    {"held batches never change and outlive the pipeline", test_held_batches},
    {"fields that nobody needs are not loaded", test_unneeded_fields},
    {"no stall between epochs", test_epoch_boundary},
    {"a pipe that is awaited", test_awaited_pipe},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
