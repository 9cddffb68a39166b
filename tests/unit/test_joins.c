/* test_joins.c: pipelines as trees: what is refused before a thread starts, joins by C calls, places of elements in branches, and
 * the stored bits of filters. That joins deliver the right elements is for tests/flow and tests/interop. */
#include "config.h"

#include "harness.h"

#include "base/memory.h"

#include <dirent.h>
#include <inttypes.h>
#include <penstock/pipeline.h>
#include <penstock/record.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Plans the text; returns the status. */
static pst_status planned(const char *text, pst_error *e)
{
    pst_pipeline *p = NULL;
    *e = (pst_error){0};
    pst_status st = pst_pipeline_parse(&p, text, NULL, e);
    if (st == PST_OK)
        st = pst_pipeline_plan(p, e);
    pst_pipeline_destroy(p);
    return st;
}

static void refuses(const char *text, const char *part, int line)
{
    pst_error e;
    uint64_t before = mem_live();
    pst_status st = planned(text, &e);
    test_report(st < 0 && st != PST_ENOMEM, __FILE__, line, "\"%.100s\" gives %s", text, pst_status_name(st));
    test_report(strstr(e.message, part) != NULL, __FILE__, line, "\"%.100s\" gives \"%s\", expected \"%s\"", text, e.message, part);
    test_report(mem_live() == before, __FILE__, line, "\"%.100s\" leaks", text);
}
#define REFUSES(text, part) refuses(text, part, __LINE__)

static void test_hostile(void)
{
    REFUSES("zip (range 3) (range 4)", "both have a field value; add `rename value NAME`");
    REFUSES("zip (range 3) (range 4)\n", "zip (range 3) (range 4)\n^^^");
    REFUSES("zip", "zip takes 1 to 1000 chains in ( )");
    REFUSES("zip ()", "an operation is missing between these");
    REFUSES("zip (range 3", "this ( is not closed");
    REFUSES("zip (range 3) | zip (range 3)", "a source can only be the first operation");
    REFUSES("zip (range 3) (take 3)", "a pipeline begins with a source");
    REFUSES("zip (range 3) (range 4 | frobnicate)", "frobnicate");
    REFUSES("concatenate (range 3) (range 4 | cast f32 value)", "branch 2 has value: float32 there");
    REFUSES("concatenate (range 3) (range 4 | enumerate)", "the first has nothing more, branch 2 has index: int64");
    REFUSES("concatenate (range 3 | batch 2) (range 4)", "put batch after the join");
    REFUSES("concatenate (range 9000000000000000000) (range 9000000000000000000)", "too many elements to number");
    REFUSES("interleave (range 9000000000000000000) (range 9000000000000000000)", "too many elements to number");
    REFUSES("sample (range 3) (range 4) weights=1,0", "the weight of branch 2 is 0");
    REFUSES("sample (range 3) (range 4) weights=1", "has 1 weights for 2 branches");
    REFUSES("sample (range 3) (range 4) weights=1,2,3", "more weights than there are branches (2)");
    REFUSES("sample (range 3) (range 4) weights=1,-2", "weight 2 of");
    REFUSES("sample (range 3) (range 4) weights=1,nan", "weight 2 of");
    REFUSES("sample (range 3) (range 4) weights=1,1e308,", "more weights than");
    REFUSES("sample (range 3) (range 4) weights=1,1e9", "less than 1/2000 of all weights");
    REFUSES("sample (range 3) (range 0)", "branch 2 is empty");
    REFUSES("choose (range 3) (range 4)", "it needs list=");
    REFUSES("choose (range 3) (range 4) list=0,2", "\"2\" is not the number of a branch; there are 0 to 1");
    REFUSES("choose (range 3) (range 4) field=value", "is 1; expected the number of a branch after the first, 0 to 0");
    REFUSES("choose (range 3) (range 4) field=x", "there is no field x");
    REFUSES("interleave (range 3) block=0", "block");
    REFUSES("interleave (tfrecord {}) files=/nowhere/*.x", "nowhere");
    REFUSES("interleave (range 3) files=/etc/*", "the pipeline has no {}");
    REFUSES("concatenate (range 3 | repeat) (range 4) | shuffle", "an endless sequence has no whole to shuffle");
    REFUSES("range 3 | repeat | filter 'value > 1'", "put filter before repeat");
    REFUSES("range 3 | shuffle | filter 'value > 1'", "put filter before shuffle");
    REFUSES("sample (range 9 | shuffle) (range 9) | filter 'value > 1'", "put filter before shuffle");
    REFUSES("range 12 | shuffle | window 2 drop_remainder=true | filter 'max(value) > 8'", "put filter before shuffle");
    REFUSES("concatenate (range 12 | shuffle | batch 2 | unbatch) (range 4) | filter 'value > 1'", "put filter before shuffle");
    REFUSES("zip (range 12 | shuffle | window 2) (range 6 | rename value b) | cache", "put cache into the branches");
    REFUSES("range 12 | unique | filter 'value > \"a\"'", "expected a number, found bytes");
    REFUSES("range 12 | unique | window 2 | filter 'value > 3'", "make one of them with any(…) or all(…)");
    REFUSES("range 12 | unique | batch 2 | filter 'value > 3'", "put it before batch");
    REFUSES("range 3 | filter 'value > '", "the expression ends where a value is expected");
    REFUSES("range 3 | filter 'value > \"a\"'", "expected a number, found bytes");
    REFUSES("range 3 | expr 'value +* 2' x", "expected a value here\nrange 3 | expr 'value +* 2' x\n                       ^");
    REFUSES("range 3 | expr 'frob(value)' x", "there is no such function");
    REFUSES("range 3 | batch 2 | enumerate", "put it before batch");
    REFUSES("zip (range 4 | shuffle) (range 4 | rename value b) | cache", "put cache into the branches");
}

/* Windows that are larger than anything, and lengths that overflow. */
static void test_huge(void)
{
    pst_error e;
    REFUSES("range 10 | window 10000000000000", "window");
    REFUSES("range 10 | window 0", "window");
    REFUSES("range 9000000000000000000 | window 1000000000 drop_remainder=true | batch 4", "budget");
    REFUSES("range 9000000000000000000 | window 1000000000 stride=1000000000000000 | batch 4", "too many to number");
    REFUSES("range 10 | window 1000000000000 | batch 4", "window");
    REFUSES("range 10 | window 3 shift=10000000000000000", "shift");
    REFUSES("range 10 | window 1000000000 stride=1000000000000000 | batch 4", "too many to number");
    REFUSES("range 9000000000000000000 | repeat 3 | batch 2", "too many to number");
    REFUSES("range 9000000000000000000 | batch 1000000000 drop_remainder=true", "budget");
#ifdef HAVE_HDF5
    REFUSES("hdf5 s3://bucket/x.h5:/train | batch 2", "HDF5 is read from local files only");
#endif
    REFUSES("range 10 | cache path=https://host/x | batch 2", "a cache needs a folder on a local disk");
    REFUSES("range 10 | batch 2 | unbatch | snapshot s3://bucket/x | batch 2", "a snapshot needs a folder on a local disk");
    REFUSES("range 10 | repeat | snapshot kept | batch 2", "put snapshot before repeat");
    CHECK_STATUS(planned("range 10 | window 1000000000 | batch 4", &e), PST_OK, &e); /* one of 10 */
}

static void test_deep(void)
{
    char text[4096] = "";
    for (int i = 0; i < 31; i++)
        strcat(text, "concatenate (");
    strcat(text, "range 3");
    for (int i = 0; i < 31; i++)
        strcat(text, ")");
    pst_error e;
    CHECK_STATUS(planned(text, &e), PST_OK, &e);
    for (int i = 0; i < 200; i++)
        memcpy(text + 13 * i, "concatenate (", 14);
    REFUSES(text, "more than 32 ( ) inside each other");
    char deep[1200] = "range 3 | filter '";
    for (int i = 0; i < 100; i++)
        strcat(deep, "(");
    strcat(deep, "value");
    for (int i = 0; i < 100; i++)
        strcat(deep, ")");
    strcat(deep, "'");
    REFUSES(deep, "more than 64 operators inside each other");
    char many[20000] = "concatenate";
    for (int i = 0; i < 1001; i++)
        strcat(many, " (range 1)");
    REFUSES(many, "1000");
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static void test_files(void)
{
    REQUIRE(chdir(test_folder()) == 0);
    write_file("a.pipe", "zip (@b.pipe) (range 3)");
    write_file("b.pipe", "concatenate (range 2) (@a.pipe)");
    REFUSES("@a.pipe", "it includes itself through this file");
    write_file("b.pipe", "range 5 | rename value b | frobnicate");
    REFUSES("@a.pipe | batch 2", "frobnicate");
    write_file("b.pipe", "range 5 | rename value b");
    pst_error e;
    CHECK_STATUS(planned("@a.pipe | batch 2", &e), PST_OK, &e);
}

/* The values of field `field` of one epoch, as text. */
static void values(pst_pipeline *p, const char *field, char *to, size_t size, int line)
{
    pst_batch *b;
    pst_error e = {0};
    pst_status st;
    size_t n = 0;
    to[0] = '\0';
    while ((st = pst_pipeline_next(p, &b, &e)) == PST_OK) {
        const pst_tensor *t = pst_batch_get(b, field);
        for (size_t i = 0; t && i < pst_batch_size(b) && n < size; i++)
            n += (size_t)snprintf(to + n, size - n, "%s%" PRId64, n ? " " : "", ((const int64_t *)t->data)[i]);
        pst_batch_unref(b);
    }
    test_report(st == PST_END, __FILE__, line, "the epoch ends with %s: %s", pst_status_name(st), e.message);
}

static pst_pipeline *made(const char *text)
{
    pst_pipeline *p = NULL;
    pst_error e = {0};
    CHECK_STATUS(pst_pipeline_parse(&p, text, NULL, &e), PST_OK, &e);
    return p;
}

static void test_calls(void)
{
    char got[256];
    pst_error e = {0};
    int64_t data[] = {7, 8, 9};
    const char *name = "value";
    pst_tensor array = {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {3}, .data = data};
    pst_pipeline *p = NULL, *branches[3] = {made("range 3 | filter 'value != 1'"), NULL, made("zip (range 2)")};
    CHECK_STATUS(pst_pipeline_create(&branches[1], NULL, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add_arrays(branches[1], &name, &array, 1, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_create(&p, NULL, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "range", NULL, branches, 3, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "zip", NULL, branches, 0, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", "x=1", branches, 3, &e), PST_EINVAL, &e);
    pst_pipeline *itself[] = {p, branches[0]}, *twice[] = {branches[0], branches[1], branches[0]};
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", NULL, itself, 1, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", NULL, itself, 2, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", NULL, twice, 3, &e), PST_EINVAL, &e);
    CHECK(strstr(e.message, "pipeline 2 is part of the join already") != NULL);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", NULL, branches, 3, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add(p, "batch", "4", &e), PST_OK, &e);
    values(p, "value", got, sizeof(got), __LINE__);
    CHECK_STR(got, "0 2 7 8 9 0 1");
    pst_pipeline_destroy(p);
}

static void test_empty_branch(void)
{
    pst_error e = {0};
    pst_pipeline *p = NULL, *branch[2] = {made("range 3"), NULL};
    CHECK_STATUS(pst_pipeline_create(&branch[1], NULL, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_create(&p, NULL, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", NULL, branch, 2, &e), PST_EINVAL, &e);
    CHECK_STATUS(pst_pipeline_add(p, "range", "3", &e), PST_OK, &e); /* it is as it was */
    CHECK_STATUS(pst_pipeline_plan(p, &e), PST_OK, &e);
    CHECK_STATUS(pst_pipeline_add_pipelines(p, "concatenate", NULL, branch, 2, &e), PST_EINVAL, &e);
    pst_pipeline_destroy(p);
    pst_pipeline_destroy(branch[0]);
    pst_pipeline_destroy(branch[1]);
}

static void make_shard(const char *path, int first, int count)
{
    pst_writer *w = NULL;
    pst_error e = {0};
    REQUIRE_OK(pst_writer_open(&w, path, NULL, &e), &e);
    for (int i = 0; i < count; i++) {
        char text[16];
        int n = snprintf(text, sizeof(text), "%d", first + i);
        REQUIRE_OK(pst_writer_write(w, text, (size_t)n, &e), &e);
    }
    REQUIRE_OK(pst_writer_commit(w, &e), &e);
    pst_writer_close(w);
}

static int stored_filters(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, ".penstock-filter-", 17) == 0;
    if (d)
        closedir(d);
    return n;
}

static void test_stored_bits(void)
{
    const char *text = "tfrecord set | filter 'record match \"*3\"' | expr 'len(record)' n | drop record | batch 9";
    char got[256];
    REQUIRE(chdir(test_folder()) == 0);
    mkdir("set", 0755);
    make_shard("set/a.tfrecord", 0, 120);
    for (int run = 0; run < 2; run++) {
        pst_pipeline *p = made(text);
        values(p, "n", got, sizeof(got), __LINE__);
        CHECK_STR(got, "1 2 2 2 2 2 2 2 2 2 3 3");
        pst_pipeline_destroy(p);
        CHECK_INT(stored_filters("set"), 1);
    }
    make_shard("set/b.tfrecord", 1000, 14); /* other data: other bits */
    pst_pipeline *p = made(text);
    values(p, "n", got, sizeof(got), __LINE__);
    CHECK_STR(got, "1 2 2 2 2 2 2 2 2 2 3 3 4 4");
    pst_pipeline_destroy(p);
    CHECK_INT(stored_filters("set"), 2);
}

static void test_places(void)
{
    pst_pipeline *p = made("concatenate (range 2 | expr 'value' n | drop value) (tfrecord set | expr 'len(record)' n | drop record) | "
                           "skip 1 | batch 3");
    pst_batch *b = NULL;
    pst_error e = {0};
    pst_place at;
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    REQUIRE_OK(pst_pipeline_locate(p, b, 0, &at, &e), &e);
    CHECK(at.path == NULL && at.record == 1);
    REQUIRE_OK(pst_pipeline_locate(p, b, 2, &at, &e), &e);
    CHECK(at.path && strstr(at.path, "a.tfrecord") && at.record == 1);
    b = pst_batch_unref(b);
    pst_pipeline_destroy(p);
    p = made("zip (tfrecord set | take 3) (range 5 9) | batch 3"); /* the place is that of the first branch */
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    REQUIRE_OK(pst_pipeline_locate(p, b, 1, &at, &e), &e);
    CHECK(at.path && strstr(at.path, "a.tfrecord") && at.record == 1);
    pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

/* Caches of branches are memory of the whole. */
static void test_memory_of_branches(void)
{
    uint64_t planned[2] = {0};
    for (int i = 0; i < 2; i++) {
        pst_pipeline *p = made(i ? "concatenate (range 90000 | cache 3M) (range 90000 | cache 2M) | batch 4"
                                 : "concatenate (range 90000) (range 90000) | batch 4");
        pst_stats stats = {.size = sizeof(stats)};
        pst_batch *b = NULL;
        pst_error e = {0};
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        REQUIRE_OK(pst_pipeline_stats(p, &stats, &e), &e);
        planned[i] = stats.ram_planned;
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
    CHECK_MSG(planned[1] >= planned[0] + 5000000 && planned[1] < planned[0] + 6000000, "%d and %d bytes", (int)planned[0],
              (int)planned[1]);
}

/* Every kind of operation that makes batches: what comes after it takes those, not single elements. */
static void test_batches_of_batches(void)
{
    static const struct {
        const char *text, *shape;
    } cases[] = {{"range 12 | batch 3 | batch 2", "2 3"},
                 {"range 12 | batch 2 | rebatch 3 | batch 2", "2 3"},
                 {"range 12 | bucket value boundaries=6 sizes=3 | unbatch | batch 4", "4"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char got[64] = "";
        size_t n = 0;
        pst_error e = {0};
        pst_batch *b = NULL;
        pst_pipeline *p = made(cases[i].text);
        REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
        const pst_tensor *t = pst_batch_get(b, "value");
        for (uint32_t k = 0; k < t->rank; k++)
            n += (size_t)snprintf(got + n, sizeof(got) - n, "%s%" PRIu64, k ? " " : "", t->shape[k]);
        CHECK_STR(got, cases[i].shape);
        pst_batch_unref(b);
        pst_pipeline_destroy(p);
    }
}

static void test_many_branches_in_words(void)
{
    char text[256] = "zip", *words = NULL;
    pst_error e = {0};
    for (int i = 0; i < 9; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), " (range 4 | rename value v%d)", i);
    pst_pipeline *p = made(text);
    REQUIRE_OK(pst_pipeline_describe(p, false, &words, &e), &e);
    const char *line = strstr(words, "\nworker ");
    size_t shown = 0;
    for (const char *at = line; at && (at = strstr(at, "(read")); at++)
        shown++;
    CHECK_INT(shown, 8);
    CHECK(line && strstr(line, "and 1 more zip"));
    pst_free(words);
    pst_pipeline_destroy(p);
}

static pst_status draw_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    (void)config, (void)reterr;
    pst_spec_pass(in, out);
    pst_spec_write(out, 0);
    return PST_OK;
}

static pst_status draw_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out, pst_error *reterr)
{
    (void)config, (void)worker, (void)in, (void)reterr;
    *(int64_t *)out[0].data = (int64_t)(pst_random(ctx) % 1000);
    return PST_OK;
}

/* Random numbers belong to the operation's place in the tree, also in branches. They are frozen: a run that goes on with a newer
 * version sees the same ones. */
static void test_random_numbers_of_branches(void)
{
    static const pst_op_class draw = {
        .size = sizeof(pst_op_class), .name = "draw", .plan = draw_plan, .run = draw_run, .flags = PST_OP_RANDOM};
    char got[64];
    pst_error e = {0};
    pst_pipeline *p = NULL, *branches[2] = {made("range 3"), made("range 3")};
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(pst_pipeline_add_op(branches[i], &draw, NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_create(&p, &(pst_pipeline_options){.size = sizeof(pst_pipeline_options), .seed = 7}, &e), &e);
    REQUIRE_OK(pst_pipeline_add_pipelines(p, "concatenate", NULL, branches, 2, &e), &e);
    REQUIRE_OK(pst_pipeline_add(p, "batch", "6", &e), &e);
    values(p, "value", got, sizeof(got), __LINE__);
    CHECK_STR(got, "371 103 356 280 661 297");
    pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"mistakes are found before a thread starts", test_hostile},
    {"huge windows are refused", test_huge},
    {"deep nesting has limits with names", test_deep},
    {"files in branches", test_files},
    {"joins by calls", test_calls},
    {"an empty branch", test_empty_branch},
    {"the bits of a filter are stored, and belong to the data", test_stored_bits},
    {"places of elements in branches", test_places},
    {"memory of branches", test_memory_of_branches},
    {"batches of batches", test_batches_of_batches},
    {"many branches in words", test_many_branches_in_words},
    {"random numbers of branches", test_random_numbers_of_branches},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
