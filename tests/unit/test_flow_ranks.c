/* test_flow_ranks.c: several ranks, and cursors. */
#include "flow_chains.h"

/* The trace of each rank, the way a training job with so many of them sees it. */
static size_t run_ranks(const struct chain_case *c, unsigned world, pst_uneven uneven, const pst_cursor *from, size_t steps,
                        int64_t *ids, pst_cursor *ret)
{
    size_t n = 0;
    pst_error e;
    for (unsigned rank = 0; rank < world; rank++) {
        pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 2, .rank = rank, .world = world, .uneven = uneven});
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
                CHECK_INT(position_of(&cursor).epoch, 1);
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
        CHECK_INT(position_of(&a).next, 4);
        n += run_ranks(&runs[r], 2, PST_UNEVEN_PAD, &a, 1, ids + n, &b);
        CHECK_INT(position_of(&b).next, 6);
        n += run_ranks(&runs[r], 1, PST_UNEVEN_PAD, &b, SIZE_MAX, ids + n, &c);
        CHECK_INT(position_of(&c).epoch, 1);
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
    pst_pipeline *p = made(&cases[2], (pst_pipeline_options){.workers = 1}),
                 *q = made(&cases[3], (pst_pipeline_options){.workers = 1});
    REQUIRE(p && q);
    REQUIRE_OK(pst_pipeline_tell(p, &mine, &e), &e);
    REQUIRE_OK(pst_pipeline_tell(q, &other, &e), &e);
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    CHECK(strstr(e.message, "operations") && !strstr(e.message, "data"));
    pst_position at = position_of(&mine);
    at.seed++;
    other = cursor_at(at);
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    CHECK(strstr(e.message, "seed 43") != NULL);
    at = position_of(&mine);
    at.next = 11;
    other = cursor_at(at);
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    q = pst_pipeline_destroy(q);
    pst_pipeline_options o = {.size = sizeof(o), .seed = 42};
    REQUIRE_OK(pst_pipeline_create(&q, &o, &e), &e);
    REQUIRE_OK(add_samples(q, (struct sample_config){.count = 101, .version = 2}, &e), &e);
    REQUIRE_OK(add_cache(q, 1000, &e), &e); /* makes no difference */
    REQUIRE_OK(add_noise(q, 2, &e), &e);
    REQUIRE_OK(add_shuffle(q, 0, 0, &e), &e);
    REQUIRE_OK(add_batch(q, 10, true, &e), &e);
    REQUIRE_OK(pst_pipeline_add_op(q, &op_prefetch.op, &(struct prefetch_config){.depth = 2}, &e), &e);
    REQUIRE_OK(pst_pipeline_tell(q, &other, &e), &e);
    CHECK_STATUS(pst_pipeline_seek(p, &other, &e), PST_ESTALE, &e);
    CHECK(strstr(e.message, "data are others") && !strstr(e.message, "operations"));
    pst_pipeline_destroy(p);
    pst_pipeline_destroy(q);
}

/* Cursors are bytes that a program stores: they mean the same everywhere, and others are refused. */
static void test_cursor_bytes(void)
{
    static const uint8_t want[40] = {'P', 'S', 'T', 'C', 1, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 42, 0, 0, 0,
                                     0,   0,   0,   0,   3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0,  0, 0, 0};
    pst_error e;
    pst_cursor c = cursor_at((pst_position){.fingerprint = UINT64_C(0x0102030405060708), .seed = 42, .epoch = 3, .next = 256});
    pst_position at;
    CHECK_INT(c.size, sizeof(want));
    CHECK(memcmp(c.bytes, want, sizeof(want)) == 0);
    REQUIRE_OK(pst_cursor_get(&c, &at, &e), &e);
    CHECK(at.fingerprint == UINT64_C(0x0102030405060708) && at.seed == 42 && at.epoch == 3 && at.next == 256);
    for (size_t size = 0; size < sizeof(want); size++) {
        c.size = size;
        CHECK_STATUS(pst_cursor_get(&c, &at, &e), PST_EINVAL, &e);
    }
    c.size = PST_CURSOR_BYTES + 1;
    CHECK_STATUS(pst_cursor_get(&c, &at, &e), PST_EINVAL, &e);
    c.size = sizeof(want) + 1; /* as a later version may write it */
    CHECK_STATUS(pst_cursor_get(&c, &at, &e), PST_EUNSUPPORTED, &e);
    c.size = sizeof(want);
    c.bytes[4] = 2;
    CHECK_STATUS(pst_cursor_get(&c, &at, &e), PST_EUNSUPPORTED, &e);
    c.bytes[4] = 1;
    c.bytes[0] = 'p';
    pst_pipeline *p = made(&cases[2], (pst_pipeline_options){.workers = 1});
    REQUIRE(p);
    CHECK_STATUS(pst_pipeline_seek(p, &c, &e), PST_EINVAL, &e);
    pst_pipeline_destroy(p);
}

static uint64_t bulk_fingerprint(const void *config)
{
    return ((const struct bulk_config *)config)->factor;
}

static uint64_t fingerprint_with(const pst_op_class *op, const void *config)
{
    pst_error e;
    pst_cursor c = {0};
    pst_pipeline *p = NULL;
    CHECK_STATUS(pst_pipeline_create(&p, NULL, &e), PST_OK, &e);
    CHECK_STATUS(add_samples(p, (struct sample_config){.count = 5}, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add_op(p, op, config, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_tell(p, &c, &e), PST_OK, &e);
    pst_pipeline_destroy(p);
    return position_of(&c).fingerprint;
}

/* Parameters are covered by the table; what it does not name, the operation's own hash covers. */
static void test_fingerprint_of_custom_operations(void)
{
    static const pst_param params[] = {
        {"factor", PST_PARAM_UINT, offsetof(struct bulk_config, factor), "1", 0, 0, NULL, "of the number of bytes"}, {0}};
    pst_op_class named = bulk_class, hashed = bulk_class;
    named.params = params;
    hashed.fingerprint = bulk_fingerprint;
    const pst_op_class *ops[] = {&bulk_class, &named, &hashed};
    for (size_t i = 0; i < 3; i++) {
        const struct bulk_config one = {.factor = 1}, two = {.factor = 2};
        CHECK_INT(fingerprint_with(ops[i], &one) == fingerprint_with(ops[i], &one), 1);
        CHECK_MSG((fingerprint_with(ops[i], &one) != fingerprint_with(ops[i], &two)) == (i > 0), "operation %zu", i);
    }
}

static const struct test tests[] = {
    {"ranks", test_ranks},
    {"resume with other ranks", test_resume_with_other_ranks},
    {"foreign cursors are refused", test_foreign_cursors},
    {"cursors as bytes", test_cursor_bytes},
    {"a fingerprint covers custom operations", test_fingerprint_of_custom_operations},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
