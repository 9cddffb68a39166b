/* test_many_fields.c: elements with very many fields: tables with a column per feature, from packed records and from memory. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/name_index.h"
#include <penstock/penstock.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 1000
#define ROWS    37

static const char *column(size_t i)
{
    static char names[4][PST_NAME_SIZE];
    static unsigned turn;
    char *name = names[turn++ % 4];
    snprintf(name, PST_NAME_SIZE, "c%04zu", i);
    return name;
}

/* Row `r` has the float r + i / 8 in column i, an int64 in every third, and bytes in every tenth. */
static void add_column(pst_builder *b, size_t r, size_t i, pst_error *e)
{
    float value = (float)r + (float)i / 8;
    int64_t number = (int64_t)(r * 10000 + i);
    pst_bytes text = {(const uint8_t *)column(i), 5};
    if (i % 10 == 0)
        REQUIRE_OK(pst_builder_add_bytes(b, column(i), &text, 1, e), e);
    else if (i % 3 == 0)
        REQUIRE_OK(pst_builder_add_int64s(b, column(i), &number, 1, e), e);
    else
        REQUIRE_OK(pst_builder_add_floats(b, column(i), &value, 1, e), e);
}

static const char *write_table(size_t columns)
{
    const char *path = test_path("table.tfrecord");
    const pst_writer_options options = {.size = sizeof(options), .overwrite = true};
    pst_writer *w;
    pst_builder *b;
    pst_error e;
    if (pst_writer_open(&w, path, &options, &e) < 0 || pst_builder_create(&b, &e) < 0)
        abort();
    for (size_t r = 0; r < ROWS; r++) {
        pst_bytes record;
        pst_builder_reset(b);
        for (size_t i = 0; i < columns; i++)
            add_column(b, r, i, &e);
        if (pst_builder_finish(b, &record, &e) < 0 || pst_writer_write(w, record.data, record.length, &e) < 0)
            abort();
    }
    if (pst_writer_commit(w, &e) < 0)
        abort();
    pst_writer_close(w);
    pst_builder_destroy(b);
    return path;
}

static pst_pipeline *parsed(const char *format, const char *path)
{
    static char text[4096];
    const pst_pipeline_options options = {.size = sizeof(options), .workers = 2, .ram = UINT64_C(1) << 30};
    pst_pipeline *p = NULL;
    pst_error e;
    snprintf(text, sizeof(text), format, path);
    CHECK_STATUS(pst_pipeline_parse(&p, text, &options, &e), PST_OK, &e);
    return p;
}

static bool value_is(const pst_tensor *t, size_t at, size_t r, size_t i)
{
    if (i % 10 == 0) {
        const pst_bytes *text = (const pst_bytes *)t->data + at;
        return t->dtype == PST_DTYPE_BYTES && text->length == 5 && memcmp(text->data, column(i), 5) == 0;
    }
    if (i % 3 == 0)
        return t->dtype == PST_DTYPE_I64 && ((const int64_t *)t->data)[at] == (int64_t)(r * 10000 + i);
    return t->dtype == PST_DTYPE_F32 && ((const float *)t->data)[at] == (float)r + (float)i / 8;
}

static void check_batches(pst_pipeline *p, size_t columns, size_t epochs)
{
    pst_batch *b;
    pst_error e;
    pst_status st;
    size_t row = 0, wrong = 0;
    for (size_t epoch = 0; epoch < epochs; epoch++) {
        while ((st = pst_pipeline_next(p, &b, &e)) == PST_OK) {
            wrong += pst_batch_fields(b) != columns;
            for (size_t i = 0; i < columns; i++) {
                const pst_tensor *t = pst_batch_get(b, column(i));
                for (size_t at = 0; t && at < pst_batch_size(b); at++)
                    wrong += !value_is(t, at, (row + at) % ROWS, i);
                wrong += !t;
            }
            CHECK(pst_batch_get(b, "c") == NULL && pst_batch_get(b, "") == NULL);
            row += pst_batch_size(b);
            b = pst_batch_unref(b);
        }
        CHECK_STATUS(st, PST_END, &e);
    }
    CHECK_INT(row, ROWS * epochs);
    CHECK_INT(wrong, 0);
}

static void test_packed_table(void)
{
    static const char *const chains[] = {"tfrecord %s | example | batch 8", "tfrecord %s | example | cache | batch 8"};
    const char *path = write_table(COLUMNS);
    for (size_t i = 0; i < 2; i++) {
        pst_pipeline *p = parsed(chains[i], path);
        REQUIRE(p);
        check_batches(p, COLUMNS, 2);
        pst_pipeline_destroy(p);
    }
}

/* The last columns are numbers that no mask of 64 bits holds. */
static void test_last_columns(void)
{
    pst_pipeline *p =
        parsed("tfrecord %s | example | cast f64 field=c0998 | one_hot 7 field=c0900 | select c0998", write_table(COLUMNS));
    pst_batch *b;
    pst_error e;
    REQUIRE(p);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ETYPE, &e); /* c0900 has bytes */
    pst_pipeline_destroy(p);
    p = parsed("tfrecord %s | example | cast f64 field=c0998 | rename c0999 last | select last c0998 | batch 5",
               write_table(COLUMNS));
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    CHECK_INT(pst_batch_fields(b), 2);
    CHECK(((const double *)pst_batch_get(b, "c0998")->data)[4] == 4 + 998 / 8.0);
    CHECK_INT(((const int64_t *)pst_batch_get(b, "last")->data)[4], 40999);
    b = pst_batch_unref(b);
    pst_pipeline_destroy(p);
    p = parsed("tfrecord %s | example | drop c0000 c0999 | batch 5", write_table(COLUMNS));
    REQUIRE(p);
    REQUIRE_OK(pst_pipeline_plan(p, &e), &e);
    CHECK_INT(pst_pipeline_spec(p)->count, COLUMNS - 2);
    CHECK_INT(pst_spec_find(pst_pipeline_spec(p), "c0998"), 997);
    pst_pipeline_destroy(p);
}

/* ---- Arrays ---- */

static const char *names[PST_MAX_FIELDS + 1];
static pst_tensor arrays[PST_MAX_FIELDS + 1];

static pst_pipeline *of_arrays(size_t count, pst_status want)
{
    static int32_t values[ROWS];
    const pst_pipeline_options options = {.size = sizeof(options), .workers = 2, .ram = UINT64_C(1) << 30};
    pst_pipeline *p = NULL;
    pst_error e;
    for (size_t i = 0; i < count; i++) {
        names[i] = strdup(column(i));
        arrays[i] = (pst_tensor){.dtype = PST_DTYPE_I32, .rank = 1, .shape = {ROWS}, .data = values};
    }
    for (size_t r = 0; r < ROWS; r++)
        values[r] = (int32_t)r;
    CHECK_STATUS(pst_pipeline_create(&p, &options, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add_arrays(p, names, arrays, count, &e), want, &e);
    for (size_t i = 0; i < count; i++)
        free((void *)names[i]);
    return p;
}

/* Doubles the last field and adds one: an operation of the program's own. */
static pst_status twice_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    const pst_field added = {.name = "added", .dtype = PST_DTYPE_I32, .alias = -1};
    *(size_t *)config = in->count - 1;
    pst_spec_pass(in, out);
    pst_spec_read(out, in->count - 1);
    pst_spec_write(out, in->count - 1)->dtype = PST_DTYPE_I64;
    return pst_spec_add(out, &added, reterr);
}

static pst_status twice_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                            pst_error *reterr)
{
    size_t last = *(const size_t *)config;
    (void)worker, (void)ctx, (void)reterr;
    *(int64_t *)out[last].data = 2 * (int64_t) * (const int32_t *)in[last].data;
    *(int32_t *)out[last + 1].data = -*(const int32_t *)in[last].data;
    return PST_OK;
}

static const pst_op_class twice = {
    .size = sizeof(pst_op_class), .name = "twice", .config_size = sizeof(size_t), .plan = twice_plan, .run = twice_run};

static void test_arrays(void)
{
    pst_pipeline *p = of_arrays(PST_MAX_FIELDS - 1, PST_OK);
    pst_batch *b;
    pst_error e;
    REQUIRE_OK(pst_pipeline_add_op(p, &twice, &(size_t){0}, &e), &e);
    REQUIRE_OK(pst_pipeline_add(p, "batch", "37", &e), &e);
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    CHECK_INT(pst_batch_fields(b), PST_MAX_FIELDS);
    size_t wrong = 0;
    for (size_t i = 0; i < PST_MAX_FIELDS; i++) {
        const pst_tensor *t = i + 1 < PST_MAX_FIELDS ? pst_batch_get(b, column(i)) : pst_batch_get(b, "added");
        for (int r = 0; t && r < ROWS; r++)
            wrong += i + 2 == PST_MAX_FIELDS ? ((const int64_t *)t->data)[r] != 2 * r
                                             : ((const int32_t *)t->data)[r] != (i + 1 == PST_MAX_FIELDS ? -r : r);
        wrong += !t || t != pst_batch_at(b, i);
    }
    CHECK_INT(wrong, 0);
    b = pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

static void test_limit(void)
{
    pst_error e;
    pst_pipeline_destroy(of_arrays(PST_MAX_FIELDS + 1, PST_EINVAL));
    pst_pipeline *p = parsed("tfrecord %s | example | batch 8", write_table(PST_MAX_FIELDS + 1));
    REQUIRE(p);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ELIMIT, &e);
    CHECK(strstr(e.message, "4097 features, an element has at most 4096 fields; name those that you need") != NULL);
    pst_pipeline_destroy(p);
    p = of_arrays(PST_MAX_FIELDS, PST_OK);
    REQUIRE_OK(pst_pipeline_add_op(p, &twice, &(size_t){0}, &e), &e);
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_ELIMIT, &e);
    CHECK(strstr(e.message, "4096") != NULL);
    pst_pipeline_destroy(p);
}

/* A plan that names a field twice, or reads one that is not there. */
static pst_status wrong_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    pst_spec_pass(in, out);
    if (*(size_t *)config == 0)
        pst_spec_read(out, in->count);
    return *(size_t *)config == 0 ? PST_OK : pst_spec_keep(out, in, in->count / 2, reterr);
}

static void test_wrong_plans(void)
{
    static const pst_op_class wrong = {
        .size = sizeof(pst_op_class), .name = "wrong", .config_size = sizeof(size_t), .plan = wrong_plan};
    for (size_t i = 0; i < 2; i++) {
        pst_pipeline *p = of_arrays(300, PST_OK);
        pst_error e;
        REQUIRE_OK(pst_pipeline_add_op(p, &wrong, &i, &e), &e);
        CHECK_STATUS(pst_pipeline_plan(p, &e), PST_EINVAL, &e);
        CHECK_MSG(strstr(e.message, i ? "c0150" : "reads a field") != NULL, "%s", e.message);
        pst_pipeline_destroy(p);
    }
}

/* Every allocation may fail, and leaves nothing behind. */
static void test_faults(void)
{
    uint64_t live = mem_live();
    bool reached = true;
    pst_error e;
    for (uint64_t n = 0; reached; n++) {
        pst_pipeline *p = of_arrays(100, PST_OK);
        pst_batch *b = NULL;
        REQUIRE_OK(pst_pipeline_add_op(p, &twice, &(size_t){0}, &e), &e);
        REQUIRE_OK(pst_pipeline_add(p, "batch", "37", &e), &e);
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = pst_pipeline_plan(p, &e);
        reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK_MSG(reached ? st == PST_ENOMEM || st == PST_OK : st == PST_OK, "fault %d gives %s", (int)n, pst_status_name(st));
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
    CHECK_INT(mem_live(), live);
}

static void test_name_index(void)
{
    static char words[3000][8];
    struct name_index index = {0};
    bool whole;
    CHECK(name_index_find(&index, words[0], 8, "x") == NAME_INDEX_NONE);
    for (size_t i = 0; i < 3000; i++)
        snprintf(words[i], 8, "%zu", i);
    CHECK(name_index_init(&index, words[0], 8, 3000, &whole) == NAME_INDEX_NONE && whole);
    size_t wrong = 0;
    for (size_t i = 0; i < 3000; i++)
        wrong += name_index_find(&index, words[0], 8, words[i]) != i;
    CHECK_INT(wrong, 0);
    CHECK(name_index_find(&index, words[0], 8, "3000") == NAME_INDEX_NONE);
    CHECK(name_index_find(&index, words[0], 8, "") == NAME_INDEX_NONE);
    name_index_finish(&index);
    snprintf(words[2000], 8, "7");
    snprintf(words[2500], 8, "8");
    CHECK(name_index_init(&index, words[0], 8, 3000, &whole) == 2000);
    CHECK_INT(name_index_find(&index, words[0], 8, "7"), 7);
    name_index_finish(&index);
    CHECK(name_index_init(&index, words[0], 8, NAME_INDEX_MOST + 1, &whole) == NAME_INDEX_NONE && !whole);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"a packed table of a thousand columns", test_packed_table},
                                        {"operations on the last columns", test_last_columns},
                                        {"as many arrays as there can be", test_arrays},
                                        {"one more than there can be", test_limit},
                                        {"plans that make no sense", test_wrong_plans},
                                        {"faults while planning", test_faults},
                                        {"names are found by their hash", test_name_index},
                                        {0}};
    return test_main(argc, argv, tests);
}
