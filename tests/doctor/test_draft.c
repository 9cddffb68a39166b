/* test_draft.c: pipelines as lists of stages: cutting, editing, arguments, building. */
#include "base/fault.h"
#include "base/memory.h"
#include "doctor/draft.h"
#include "doctor/tree.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

static struct draft read_draft(const char *text)
{
    struct draft d = {0};
    pst_error error = {0};
    CHECK_STATUS(draft_parse(&d, text, NULL, NULL, &error), PST_OK, &error);
    return d;
}

static void check_text(const struct draft *d, const char *want)
{
    char *text = draft_text(d);
    CHECK_STR(text, want);
    mem_free(text);
}

static void test_cut(void)
{
    struct draft d = read_draft("  folder 'a | b'  |shuffle seed=7|\n batch 4 ");
    CHECK_INT(d.count, 3);
    CHECK_STR(d.stage[0].name, "folder");
    CHECK_INT(d.stage[0].kind, PST_OP_SOURCE);
    CHECK_INT(d.stage[1].kind, PST_OP_ORDER);
    CHECK_INT(d.stage[2].kind, PST_OP_BATCHING);
    check_text(&d, "folder 'a | b' | shuffle seed=7 | batch 4");
    draft_finish(&d);
    d = read_draft("zip (range 3 | take 2) (range 4) | batch 2");
    CHECK_INT(d.count, 2);
    CHECK_STR(d.stage[0].name, "zip");
    draft_finish(&d);
}

static void test_files_and_comments(void)
{
    test_write_file(test_path("p.pst"), "range 10 # numbers\n| shuffle", 28);
    char text[600];
    snprintf(text, sizeof(text), "@%s | batch 2", test_path("p.pst"));
    struct draft d = read_draft(text);
    check_text(&d, "range start=10 | shuffle | batch 2");
    draft_finish(&d);
    pst_error error = {0};
    CHECK_STATUS(draft_parse(&d, "@/does/not/exist | batch 2", NULL, NULL, &error), PST_ENOTFOUND, &error);
}

static void test_edit(void)
{
    struct draft d = read_draft("range 10 | batch 2"), copy;
    draft_insert(&d, 1, "shuffle seed=%d", 3);
    draft_set(&d, 2, "batch %d", 5);
    check_text(&d, "range 10 | shuffle seed=3 | batch 5");
    draft_copy(&copy, &d);
    draft_remove(&copy, 1);
    check_text(&copy, "range 10 | batch 5");
    draft_truncate(&d, 1);
    check_text(&d, "range 10");
    CHECK_INT(draft_find(&copy, "batch", 0), 1);
    CHECK(draft_find(&copy, "batch", 2) == DRAFT_NONE);
    draft_finish(&d);
    draft_finish(&copy);
}

static void check_argument(const char *text, const char *name, size_t position, const char *want)
{
    struct draft d = read_draft(text);
    char *got = draft_argument(&d.stage[0], name, position);
    CHECK_MSG(want ? got && strcmp(got, want) == 0 : !got, "%s of %s is %s", name, text, got ? got : "absent");
    mem_free(got);
    draft_finish(&d);
}

static void test_arguments(void)
{
    check_argument("resize 224 bicubic short=5", "size", 0, "224");
    check_argument("resize 224 bicubic short=5", "method", 1, "bicubic");
    check_argument("resize 224 bicubic short=5", "short", 2, "5");
    check_argument("resize fit=pad 224", "size", 0, "224");
    check_argument("folder \"a b=\\\"c\"", "path", 0, "a b=\"c");
    check_argument("folder path='x y'", "path", 0, "x y");
    check_argument("shuffle", "seed", SIZE_MAX, NULL);
}

static void test_quote(void)
{
    static const char *const words[] = {"plain/path", "two words", "a|b", "q\"uote\\", "k=v", "#x", "", "(x)", "@x", NULL};
    for (size_t i = 0; words[i]; i++) {
        char *quoted = draft_quote(words[i]);
        struct draft d = {0};
        char text[100];
        snprintf(text, sizeof(text), "folder %s", quoted);
        if (draft_parse(&d, text, NULL, NULL, NULL) == PST_OK) {
            char *got = draft_argument(&d.stage[0], "path", 0);
            CHECK_STR(got, words[i]);
            mem_free(got);
        }
        draft_finish(&d);
        mem_free(quoted);
    }
}

static void test_open(void)
{
    struct draft d = read_draft("range 10 | batch 4");
    pst_pipeline *p = NULL;
    pst_error error = {0};
    REQUIRE_OK(draft_open(&d, &p, &error), &error);
    CHECK_STATUS(pst_pipeline_plan(p, &error), PST_OK, &error);
    CHECK_INT(pst_pipeline_batch_size(p), 4);
    pst_pipeline_destroy(p);
    draft_set(&d, 1, "no_such_operation");
    CHECK_STATUS(draft_open(&d, &p, &error), PST_EINVAL, &error);
    draft_finish(&d);
}

/* Every allocation fails once: an edit that failed makes the draft unusable, and nothing is leaked. */
static void test_faults(void)
{
    for (uint64_t n = 0; n < 200; n++) {
        uint64_t live = mem_live();
        struct draft d = {0};
        pst_error error = {0};
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = draft_parse(&d, "range 10 | shuffle | batch 4", NULL, NULL, &error);
        if (st == PST_OK) {
            draft_insert(&d, 1, "take %d", 5);
            pst_pipeline *p = NULL;
            st = draft_open(&d, &p, &error);
            pst_pipeline_destroy(p);
        }
        bool armed = test_fault_calls() <= n;
        test_fault_clear();
        CHECK_MSG(st == PST_OK || st == PST_ENOMEM, "allocation %llu: %s", (unsigned long long)n, pst_status_name(st));
        draft_finish(&d);
        CHECK_INT(mem_live(), live);
        if (armed)
            return;
    }
}

/* Stages that choose samples move before those that compute images; what their branches have in common leaves the joins. */
static void test_reorder(void)
{
    static const struct {
        const char *before, *after; /* NULL: stays */
        unsigned choices, shuffles, hoisted;
    } cases[] = {
        {"tfrecord a | example | decode | resize 64 | shuffle 9 | batch 2", "tfrecord a | shuffle 9 | example | decode | resize 64 | batch 2", 0, 1, 0},
        {"tfrecord a | example | decode | resize 64 | filter 'label == 3' | batch 2", "tfrecord a | example | filter 'label == 3' | decode | resize 64 | batch 2", 1, 0, 0},
        {"tfrecord a | example | decode | filter 'mean(image) > 3' | batch 2", NULL, 0, 0, 0},
        {"tfrecord a | example | decode field=photo | filter 'photo_size > 3' | batch 2", "tfrecord a | example | filter 'photo_size > 3' | decode field=photo | batch 2", 1, 0, 0},
        {"tfrecord a | example | decode | unique | batch 2", NULL, 0, 0, 0},
        {"tfrecord a | example | expr label 'label + 1' | filter 'label == 3' | batch 2", NULL, 0, 0, 0},
        {"concatenate (tfrecord a | example | decode | resize 8) (tfrecord b | example | decode | resize 8) | unique label | batch 2",
         "concatenate (tfrecord a | example) (tfrecord b | example) | unique label | decode | resize 8 | batch 2", 1, 0, 2},
        {"sample (tfrecord a | example | decode | resize 8) (tfrecord b | example | decode | crop 8) weights=0.7,0.3 | unique label | batch 2", NULL, 0, 0, 0},
        {"sample (tfrecord 'a (1)' | example | decode | flip) (tfrecord b | example | resize 9 | flip) weights=0.7,0.3 | unique label | batch 2",
         "sample (tfrecord 'a (1)' | example | decode) (tfrecord b | example | resize 9) weights=0.7,0.3 | unique label | flip | batch 2", 1, 0, 1},
        {"zip (folder a | decode | resize 8) (npy b.npy) | filter 'label == 1' | batch 2", "zip (folder a) (npy b.npy) | filter 'label == 1' | decode | resize 8 | batch 2", 1, 0, 2},
        {"choose (concatenate (folder a | decode) (folder b | decode)) (folder c | decode) by=x | unique label | batch 2",
         "choose (concatenate (folder a) (folder b)) (folder c) by=x | unique label | decode | batch 2", 1, 0, 2},
        {"csv a.csv.gz | cast f32 x | scale 2 field=x | filter 'label == 3' | batch 2",
         "csv a.csv.gz | filter 'label == 3' | cast f32 x | scale 2 field=x | batch 2", 1, 0, 0},
        {"csv a.csv.gz | cast f32 x | filter 'x > 3' | batch 2", NULL, 0, 0, 0},
        {"concatenate (npy a.npy | cast f32 x) (npy b.npy | cast f32 x) | unique label | batch 2", NULL, 0, 0, 0},
        {"concatenate (folder a | decode | normalize) (folder b | decode | normalize) | unique label",
         "concatenate (folder a) (folder b) | unique label | decode | normalize", 1, 0, 2},
        {"interleave (tfrecord a | example | decode) (tfrecord b | example | decode) cycle=2 | unique label",
         "interleave (tfrecord a | example) (tfrecord b | example) cycle=2 | unique label | decode", 1, 0, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct draft d = read_draft(cases[i].before);
        struct tree_moves m;
        tree_reorder(&d, &m);
        if (cases[i].after || m.choices + m.shuffles == 0) {
            CHECK_INT(m.choices, cases[i].choices);
            CHECK_INT(m.shuffles, cases[i].shuffles);
        }
        if (cases[i].after) {
            CHECK_INT(m.hoisted, cases[i].hoisted);
            check_text(&d, cases[i].after);
        } else {
            CHECK_MSG(m.choices + m.shuffles == 0, "%s is changed", cases[i].before);
        }
        draft_finish(&d);
    }
    struct draft d = read_draft("concatenate (folder a | decode) (folder b | decode) | unique label | batch 2");
    for (uint64_t n = 0; n < 200; n++) { /* every allocation may fail */
        struct draft copy;
        struct tree_moves m;
        uint64_t live = mem_live();
        draft_copy(&copy, &d);
        test_fault_arm(FAULT_MEMORY, n, false);
        tree_reorder(&copy, &m);
        bool armed = test_fault_calls() <= n;
        test_fault_clear();
        draft_finish(&copy);
        CHECK_INT(mem_live(), live);
        if (armed)
            break;
    }
    draft_finish(&d);
}

/* What the pipeline keeps on disk belongs to the stages before it: with others, it would be kept a second time. */
static void test_stored(void)
{
    char *path = mem_strdup(test_path("kept"));
    char text[1200];
    snprintf(text, sizeof(text), "range 100 | shuffle | snapshot %s | take 50 | cache path=%s | batch 4", path, path);
    struct draft d = read_draft(text), copy;
    pst_pipeline *p = NULL;
    pst_error error = {0};
    CHECK(draft_stores(&d));
    draft_copy(&copy, &d);
    CHECK_STATUS(draft_open(&copy, &p, &error), PST_OK, &error);
    pst_pipeline_destroy(p);
    draft_set(&copy, 5, "batch 8");
    CHECK_STATUS(draft_open(&copy, &p, &error), PST_OK, &error);
    pst_pipeline_destroy(p);
    draft_set(&copy, 3, "take 40"); /* before the cache */
    CHECK_STATUS(draft_open(&copy, &p, &error), PST_EUNSUPPORTED, &error);
    draft_remove(&copy, 4);
    CHECK_STATUS(draft_open(&copy, &p, &error), PST_OK, &error);
    pst_pipeline_destroy(p);
    draft_insert(&copy, 1, "cache");
    CHECK_STATUS(draft_open(&copy, &p, &error), PST_EUNSUPPORTED, &error);
    draft_truncate(&copy, 2);
    CHECK(!draft_stores(&copy));
    draft_finish(&copy);
    draft_finish(&d);
    d = read_draft("range 100 | cache | batch 4");
    CHECK(!draft_stores(&d));
    draft_finish(&d);
    mem_free(path);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"a text is cut at its bars", test_cut},
                                        {"comments and files are read by the library", test_files_and_comments},
                                        {"stages are edited", test_edit},
                                        {"arguments are found by name and position", test_arguments},
                                        {"quoted words are read back", test_quote},
                                        {"a draft becomes a pipeline", test_open},
                                        {"stages that choose come first, in trees, too", test_reorder},
                                        {"what is kept on disk stays as it is", test_stored},
                                        {"every allocation may fail", test_faults},
                                        {NULL, NULL}};
    return test_main(argc, argv, tests);
}
