/* test_flow_places.c: which elements a batch has and where they lie, for whoever works on whole batches; workers that do not
 * come back; a list of files that is in no file. */
#include "flow_chains.h"

#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

/* ---- Places ---- */

/* Every element of every batch lies where its `id` says. */
static void check_places(pst_pipeline *p, const char *what, const char *path)
{
    pst_error e;
    pst_batch *b = NULL;
    uint64_t seen = 0;
    while (pst_pipeline_next(p, &b, &e) == PST_OK) {
        const int64_t *id = pst_batch_get(b, "id")->data;
        for (size_t i = 0; i < pst_batch_size(b); i++, seen++) {
            pst_place at;
            REQUIRE_OK(pst_pipeline_locate(p, b, i, &at, &e), &e);
            CHECK_MSG(at.record == (uint64_t)id[i], "%s: element %zu is %d, its place %d", what, i, (int)id[i], (int)at.record);
            if (path) {
                CHECK_STR(at.path, path);
                CHECK_INT(at.offset, 100 * at.record);
            } else {
                CHECK(!at.path);
                CHECK_INT(at.offset, PST_NOWHERE);
            }
        }
        pst_place nothing;
        CHECK_STATUS(pst_pipeline_locate(p, b, pst_batch_size(b), &nothing, &e), PST_EINVAL, &e);
        b = pst_batch_unref(b);
    }
    CHECK_MSG(seen > 50, "%s: %d elements", what, (int)seen);
}

static pst_status damaged_and_shuffled(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 90, .corrupt = 8}, e));
    TRY(add_shuffle(p, 0, 0, e));
    return add_batch(p, 7, false, e);
}

static pst_status streamed_and_refused(pst_pipeline *p, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = 90, .stream = true}, e));
    TRY(add_shuffle(p, 1000, 0, e));
    TRY(add_bulk(p, 9, 1, e)); /* every ninth is left out of its batch */
    return add_batch(p, 7, false, e);
}

static void test_places_of_a_batch(void)
{
    static const struct chain_case runs[] = {{"shuffled, some damaged", .build = damaged_and_shuffled, .skip = true},
                                             {"streamed, some refused", .build = streamed_and_refused, .skip = true}};
    for (size_t r = 0; r < 2; r++)
        for (unsigned workers = 1; workers < 4; workers++) {
            pst_pipeline *p = made(&runs[r], (pst_pipeline_options){.workers = workers});
            REQUIRE(p);
            check_places(p, runs[r].name, "samples.bin");
            check_places(p, runs[r].name, "samples.bin"); /* batches are used again */
            pst_pipeline_destroy(p);
        }
}

static void test_places_in_no_file(void)
{
    int64_t numbers[60];
    pst_error e;
    pst_pipeline *p = NULL, *other = NULL;
    pst_batch *b = NULL;
    pst_place at;
    for (int i = 0; i < 60; i++)
        numbers[i] = i;
    const pst_tensor id = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {60}, .data = numbers};
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_add_arrays(p, &(const char *){"id"}, &id, 1, &e), &e);
    REQUIRE_OK(pst_pipeline_add(p, "shuffle", "", &e), &e);
    REQUIRE_OK(pst_pipeline_add(p, "batch", "8", &e), &e);
    check_places(p, "arrays", NULL);
    REQUIRE_OK(pst_pipeline_parse(&other, "range 10 | batch 5", NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_next(other, &b, &e), &e);
    CHECK_STATUS(pst_pipeline_locate(p, b, 0, &at, &e), PST_EINVAL, &e);
    pst_batch_unref(b);
    pst_pipeline_destroy(other);
    pst_pipeline_destroy(p);
}

/* ---- Workers that do not come back ---- */

static _Atomic int entered, released;

static pst_status stuck_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                            pst_error *reterr)
{
    (void)config, (void)worker, (void)ctx, (void)reterr;
    atomic_fetch_add(&entered, 1);
    while (!atomic_load(&released))
        usleep(1000);
    memcpy(out[2].data, in[2].data, 8 * sizeof(float));
    return PST_OK;
}

static const pst_op_class stuck_class = {
    .size = sizeof(pst_op_class), .name = "stuck", .config_size = 1, .plan = noise_plan, .run = stuck_run};

static void test_halt(void)
{
    pst_error e;
    pst_batch *b = NULL;
    pst_pipeline *p = NULL;
    pst_cursor start;
    REQUIRE_OK(pst_pipeline_create(&p, &(pst_pipeline_options){.size = sizeof(pst_pipeline_options), .workers = 2}, &e), &e);
    REQUIRE_OK(add_samples(p, (struct sample_config){.count = 40}, &e), &e);
    REQUIRE_OK(pst_pipeline_add_op(p, &stuck_class, NULL, &e), &e);
    REQUIRE_OK(add_batch(p, 4, false, &e), &e);
    REQUIRE_OK(pst_pipeline_tell(p, &start, &e), &e);
    CHECK_STATUS(pst_pipeline_halt(p, 0), PST_OK, NULL); /* nobody is at work yet: it changes nothing */
    REQUIRE_OK(pst_pipeline_start(p, &e), &e);
    while (!atomic_load(&entered))
        usleep(1000);
    CHECK_STATUS(pst_pipeline_halt(p, 0), PST_TIMEOUT, NULL);
    CHECK_STATUS(pst_pipeline_halt(p, 0.02), PST_TIMEOUT, NULL);
    CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECANCELLED, &e);
    atomic_store(&released, 1);
    CHECK_STATUS(pst_pipeline_halt(p, 1e9), PST_OK, NULL);
    REQUIRE_OK(pst_pipeline_seek(p, &start, &e), &e); /* and from the front again */
    size_t count = 0;
    for (; pst_pipeline_next(p, &b, &e) == PST_OK; count++)
        b = pst_batch_unref(b);
    CHECK_INT(count, 10);
    pst_pipeline_destroy(p);
}

/* ---- A list in memory ---- */

static void test_list_in_memory(void)
{
    static char names[3][32] = {"listed, one.txt", "listed \"two\".jpg", "listed;three"};
    const char *paths[3] = {names[0], names[1], names[2]}, *labels[3] = {"dog", "cat", "dog"};
    pst_error e;
    pst_batch *b = NULL;
    pst_pipeline *p = NULL;
    pst_cursor cursor[2];
    REQUIRE(chdir(test_folder()) == 0);
    for (int i = 0; i < 3; i++) {
        FILE *f = fopen(names[i], "w");
        REQUIRE(f && fprintf(f, "number %d", i) > 0 && fclose(f) == 0);
    }
    for (int again = 0; again < 2; again++) {
        REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
        REQUIRE_OK(pst_pipeline_add_files(p, paths, labels, 3, &e), &e);
        REQUIRE_OK(pst_pipeline_add(p, "batch", "3", &e), &e);
        if (again)
            memset(names, 'x', sizeof(names)); /* it was copied */
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        const pst_bytes *data = pst_batch_get(b, "image")->data;
        const int64_t *label = pst_batch_get(b, "label")->data;
        CHECK(data[2].length == 8 && memcmp(data[2].data, "number 2", 8) == 0);
        CHECK(label[0] == 1 && label[1] == 0 && label[2] == 1);
        b = pst_batch_unref(b);
        REQUIRE_OK(pst_pipeline_tell(p, &cursor[again], &e), &e);
        p = pst_pipeline_destroy(p);
    }
    CHECK(position_of(&cursor[0]).fingerprint == position_of(&cursor[1]).fingerprint); /* the same files: a cursor goes on */
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    for (int kind = 0; kind < 4; kind++) { /* a path or a label that is missing or empty */
        const char *some[2] = {"a", "b"}, *others[2] = {"0", "1"};
        (kind < 2 ? some : others)[1] = kind % 2 ? "" : NULL;
        CHECK_STATUS(pst_pipeline_add_files(p, some, others, 2, &e), PST_EINVAL, &e);
        CHECK_INT(e.record, 1);
    }
    REQUIRE_OK(pst_pipeline_add_files(p, NULL, NULL, 0, &e), &e);
    REQUIRE_OK(pst_pipeline_add(p, "batch", "3", &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ENOTFOUND, &e);
    CHECK_STR(e.path, "the program's list");
    pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"the places of a batch's elements", test_places_of_a_batch},
    {"elements that are in no file", test_places_in_no_file},
    {"workers are waited for, but not for ever", test_halt},
    {"a list of files that is in no file", test_list_in_memory},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
