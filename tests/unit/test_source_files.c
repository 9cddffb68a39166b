/* test_source_files.c: files as elements: class folders and lists. */
#include "source_fixture.h"

#include "base/thread.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void put(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    test_write_file(path, text, strlen(text));
}

/* Classes bird, cat, dog, empty; five pictures. */
static const char *make_tree(const char *name)
{
    const char *folder = test_path(name);
    mkdir(folder, 0777);
    put(folder, "dog/b.JPG", "dog b");
    put(folder, "dog/deep/er/a.png", "dog a");
    put(folder, "dog/notes.txt", "no picture");
    put(folder, "cat/1.jpeg", "cat one");
    put(folder, "cat/.hidden.jpg", "hidden");
    put(folder, "bird/z.webp", "");
    put(folder, "bird/a.bmp", "bird a");
    put(folder, "empty/readme.md", "nothing");
    put(folder, "stray.jpg", "stray");
    return folder;
}

struct expected {
    const char *key, *content;
    int64_t label;
};

static void check_files(struct opened *o, const struct expected *e, size_t count, bool labelled)
{
    pst_error error;
    CHECK_INT(opened_count(o), count);
    CHECK_INT(o->spec.count, labelled ? 3 : 2);
    for (uint64_t i = 0; i < count && i < opened_count(o); i++) {
        struct source_place at;
        o->class->locate(o->source, i, 1, &at);
        CHECK(strstr(at.path, e[i].key) && at.record == PST_NOWHERE && at.offset == PST_NOWHERE);
        opened_ahead(o, &i, 1);
        if (!CHECK_STATUS(opened_load(o, i, &error), PST_OK, &error))
            continue;
        CHECK_MSG(bytes_are(opened_bytes(o, "key"), e[i].key), "key %d is %.*s", (int)i, (int)opened_bytes(o, "key").length,
                  (const char *)opened_bytes(o, "key").data);
        CHECK_MSG(bytes_are(opened_bytes(o, "image"), e[i].content), "content of %s", e[i].key);
        CHECK_INT(o->class->bytes_of(o->source, i), strlen(e[i].content));
        if (labelled)
            CHECK_INT(*(const int64_t *)opened_field(o, "label")->data, e[i].label);
    }
}

static void test_class_folders(void)
{
    static const struct expected all[] = {{"bird/a.bmp", "bird a", 0},
                                          {"bird/z.webp", "", 0},
                                          {"cat/1.jpeg", "cat one", 1},
                                          {"dog/b.JPG", "dog b", 2},
                                          {"dog/deep/er/a.png", "dog a", 2}};
    static const struct expected plain[] = {{"bird/a.bmp", "bird a", 0},       {"bird/z.webp", "", 0},
                                            {"cat/1.jpeg", "cat one", 0},      {"dog/b.JPG", "dog b", 0},
                                            {"dog/deep/er/a.png", "dog a", 0}, {"stray.jpg", "stray", 0}};
    static const struct expected some[] = {{"dog/b.JPG", "dog b", 2}, {"dog/notes.txt", "no picture", 2}};
    pst_error error;
    struct opened o;
    char line[256];
    const char *folder = make_tree("tree");
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", folder);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, all, 5, true);
    opened_describe(&o, line, sizeof(line));
    CHECK_STR(line, "5 files, 23 B in 4 classes (bird, cat, dog, empty)");
    opened_describe(&o, line, 12);
    CHECK_STR(line, "5 files, 23");
    opened_close(&o);
    setup_text(&s, "extensions", ".txt, jpg");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, some, 2, true);
    opened_close(&o);
    setup_text(&s, "extensions", "*");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 7);
    opened_close(&o);
    setup_text(&s, "extensions", "jpg,jpeg,png,bmp,gif,webp");
    setup_text(&s, "labels", "none");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, plain, 6, false);
    opened_close(&o);
}

static void test_folder_refused(void)
{
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = make_tree("refused");
    struct source_setup s = setup_make(&source_folder);
    snprintf(path, sizeof(path), "%s/nowhere", folder);
    setup_text(&s, "path", path);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    snprintf(path, sizeof(path), "%s/cat", folder); /* files, no folders */
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    CHECK(strstr(error.message, "labels=none") != NULL);
    setup_text(&s, "path", folder);
    setup_text(&s, "extensions", "tiff");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    setup_text(&s, "extensions", "*");
    setup_text(&s, "subset", "training");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    setup_text(&s, "validation_split", "0.1");
    setup_text(&s, "subset", "validation");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error); /* a tenth of seven */
}

/* Keeps which of the files were there, by their key. */
static uint64_t keys_of(const struct source_setup *s, size_t *ret_count)
{
    pst_error error;
    struct opened o;
    uint64_t mask = 0;
    if (!CHECK_STATUS(opened_open(&o, s, &error), PST_OK, &error))
        return 0;
    *ret_count = opened_count(&o);
    int last = -1;
    for (uint64_t i = 0; i < *ret_count; i++) {
        CHECK_STATUS(opened_load(&o, i, &error), PST_OK, &error);
        int n = atoi((const char *)opened_bytes(&o, "key").data + 2);
        CHECK(n > last); /* the order stays */
        last = n;
        mask |= UINT64_C(1) << n;
    }
    opened_close(&o);
    return mask;
}

static void test_split(void)
{
    const char *folder = test_path("split");
    uint64_t all = (UINT64_C(1) << 60) - 1, masks[3];
    size_t training, validation;
    mkdir(folder, 0777);
    for (int i = 0; i < 60; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%c/%02d.jpg", (char)('a' + i / 15), i);
        put(folder, name, name);
    }
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", folder);
    setup_text(&s, "validation_split", "0.33"); /* 19.8: rounded down */
    for (int seed = 0; seed < 3; seed++) {
        char text[8];
        snprintf(text, sizeof(text), "%d", seed);
        setup_text(&s, "seed", text);
        setup_text(&s, "subset", "training");
        uint64_t t = keys_of(&s, &training);
        setup_text(&s, "subset", "validation");
        masks[seed] = keys_of(&s, &validation);
        CHECK_INT(training, 41);
        CHECK_INT(validation, 19);
        CHECK((t & masks[seed]) == 0 && (t | masks[seed]) == all);
        for (int class = 0; class < 4; class ++) /* shuffled, not the tail of the listing */
            CHECK(masks[seed] >> (15 * class) & 0x7fff);
    }
    CHECK(masks[0] != masks[1] && masks[1] != masks[2] && masks[0] != masks[2]);
    CHECK_MSG(masks[0] == UINT64_C(0x5502031400cdf40), "%#llx: splits are for ever", (unsigned long long)masks[0]);
    setup_text(&s, "subset", "all");
    CHECK(keys_of(&s, &training) == all);
}

static void test_folder_changes(void)
{
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = make_tree("changes");
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", folder);
    uint64_t print = fingerprint_of(&s);
    CHECK(fingerprint_of(&s) == print);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    const struct timespec times[2] = {{1, 2}, {3, 4}};
    snprintf(path, sizeof(path), "%s/bird/a.bmp", folder);
    REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0);
    CHECK(fingerprint_of(&s) != print); /* the same name and size */
    print = fingerprint_of(&s);
    put(folder, "cat/1.jpeg", "the cat has grown since it was looked at");
    REQUIRE_OK(opened_load(&o, 2, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "image"), "the cat has grown since it was looked at"));
    put(folder, "cat/1.jpeg", "c");
    REQUIRE_OK(opened_load(&o, 2, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "image"), "c"));
    snprintf(path, sizeof(path), "%s/cat/1.jpeg", folder);
    REQUIRE(truncate(path, (off_t)2 << 30) == 0); /* it has grown beyond what is read */
    CHECK_STATUS(opened_load(&o, 2, &error), PST_ELIMIT, &error);
    CHECK_STR(error.path, path);
    unlink(path);
    CHECK_STATUS(opened_load(&o, 2, &error), PST_ENOTFOUND, &error);
    CHECK_STR(error.path, path);
    o.class->need(o.source, (const bool[]){false, true, true}); /* without the image nobody opens the file */
    REQUIRE_OK(opened_load(&o, 2, &error), &error);
    CHECK(bytes_are(opened_bytes(&o, "key"), "cat/1.jpeg"));
    opened_close(&o);
    CHECK(fingerprint_of(&s) != print);
}

static void test_list(void)
{
    static const struct expected named[] = {
        {"cat/1.jpeg", "cat one", 1}, {"dog/b.JPG", "dog b", 2}, {"bird/a.bmp", "bird a", 0}};
    static const struct expected numbered[] = {{"dog/b.JPG", "dog b", -7}, {"cat/1.jpeg", "cat one", 12}};
    static const struct expected mixed[] = {{"dog/b.JPG", "dog b", 0}, {"cat/1.jpeg", "cat one", 1}};
    static const struct expected plain[] = {{"dog/notes.txt", "no picture", 0}, {"empty/readme.md", "nothing", 0}};
    pst_error error;
    struct opened o;
    char path[512], line[128];
    const char *folder = make_tree("listed");
    struct source_setup s = setup_make(&source_files);
    snprintf(path, sizeof(path), "%s/list.csv", folder);
    setup_text(&s, "list", path);
    static const char *const texts[] = {("\xef\xbb\xbf"
                                         "cat/1.jpeg,cat\ndog/b.JPG,dog\n\nbird/a.bmp,bird\n"),
                                        "label;image\r\ncat;\"cat/1.jpeg\"\r\ndog;dog/b.JPG\r\nbird;bird/a.bmp",
                                        "cat/1.jpeg cat\ndog/b.JPG dog\nbird/a.bmp bird\n"};
    for (size_t i = 0; i < 3; i++) {
        put(folder, "list.csv", texts[i]);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        check_files(&o, named, 3, true);
        CHECK_STR(opened_describe(&o, line, sizeof(line)), "3 files, 18 B; labels by name, 3 classes");
        opened_close(&o);
    }
    put(folder, "list.csv", "dog/b.JPG,-7\ncat/1.jpeg,12\n");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, numbered, 2, true);
    opened_close(&o);
    put(folder, "list.csv", "dog/b.JPG,7\ncat/1.jpeg,x\n"); /* not all are numbers: all are names */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, mixed, 2, true);
    opened_close(&o);
    char absolute[600], text[700];
    snprintf(absolute, sizeof(absolute), "%s/cat/1.jpeg", folder);
    snprintf(text, sizeof(text), "%s\n", absolute);
    put(folder, "sub/list.csv", text);
    struct source_setup elsewhere = s;
    snprintf(text, sizeof(text), "%s/sub/list.csv", folder);
    setup_text(&elsewhere, "list", text);
    REQUIRE_OK(opened_open(&o, &elsewhere, &error), &error);
    check_files(&o, (const struct expected[]){{absolute, "cat one", 0}}, 1, false);
    opened_close(&o);
    put(folder, "list.csv", "dog/notes.txt\nempty/readme.md\n"); /* no pictures: any files will do */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, plain, 2, false);
    opened_close(&o);
    put(folder, "sub/other.txt", "1.jpeg\n");
    snprintf(path, sizeof(path), "%s/sub/other.txt", folder);
    snprintf(line, sizeof(line), "%s/cat", folder);
    setup_text(&s, "root", line);
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    check_files(&o, (const struct expected[]){{"1.jpeg", "cat one", 0}}, 1, false);
    opened_close(&o);
}

static void test_list_numbers(void)
{
    static const double want[] = {0.5, -3, 1e300};
    pst_error error;
    struct opened o;
    char path[512], line[128];
    const char *folder = make_tree("list-numbers");
    struct source_setup s = setup_make(&source_files);
    snprintf(path, sizeof(path), "%s/list.csv", folder);
    setup_text(&s, "list", path);
    put(folder, "list.csv", "dog/b.JPG,0.5\ncat/1.jpeg,-3\nbird/a.bmp,1e300\n");
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_STR(opened_describe(&o, line, sizeof(line)), "3 files, 18 B; labels as they are");
    CHECK_INT(o.spec.field[1].dtype, PST_DTYPE_F64);
    for (size_t i = 0; i < 3; i++) {
        REQUIRE_OK(opened_load(&o, i, &error), &error);
        CHECK(*(const double *)o.out[1].data == want[i]);
    }
    opened_close(&o);
    put(folder, "list.csv", "dog/b.JPG,5\ncat/1.jpeg,99999999999999999999\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ETYPE, &error);
    CHECK(strstr(error.message, "99999999999999999999") != NULL);
    put(folder, "list.csv", "dog/b.JPG,007\ncat/1.jpeg,1.5\n"); /* a name among numbers */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(o.spec.field[1].dtype, PST_DTYPE_I64);
    opened_close(&o);
}

static void test_list_refused(void)
{
    pst_error error;
    struct opened o;
    char path[512];
    const char *folder = make_tree("list-refused");
    struct source_setup s = setup_make(&source_files);
    snprintf(path, sizeof(path), "%s/list.csv", folder);
    setup_text(&s, "list", path);
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    put(folder, "list.csv", "\n\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    put(folder, "list.csv", "cat/1.jpeg,1\ndog/b.JPG\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    CHECK_INT(error.record, 1);
    put(folder, "list.csv", "cat/1.jpeg,1\ncat,2\n"); /* a folder */
    CHECK_STATUS(opened_open(&o, &s, &error), PST_EINVAL, &error);
    put(folder, "list.csv", "cat/1.jpeg,1\ncat/2.jpeg,2\ndog/b.JPG,3\n");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ENOTFOUND, &error);
    CHECK(strstr(error.path, "cat/2.jpeg") != NULL);
    s.policy.skip = true; /* then it is a damaged element */
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 3);
    CHECK_STATUS(opened_load(&o, 0, &error), PST_OK, &error);
    CHECK_STATUS(opened_load(&o, 1, &error), PST_ECORRUPT, &error);
    CHECK_STATUS(opened_load(&o, 2, &error), PST_OK, &error);
    opened_close(&o);
}

/* ---- Threads and faults ---- */

struct crowd {
    struct opened *o;
    _Atomic unsigned wrong;
};

static void load_all(void *user, unsigned worker)
{
    struct crowd *c = user;
    const struct source_class *class = c->o->class;
    pst_status st;
    void *w = worker_make(class, c->o->source, &st, NULL);
    for (int round = 0; st == PST_OK && round < 50; round++) {
        for (uint64_t k = 0; st == PST_OK && k < 5; k++) {
            uint64_t i = (k + worker) % 5;
            pst_tensor out[3] = {{0}};
            class->ahead(c->o->source, w, &i, 1);
            st = class->load(c->o->source, w, i, NULL, out, NULL);
        }
    }
    if (st != PST_OK)
        atomic_fetch_add(&c->wrong, 1);
    if (class->worker_stop)
        class->worker_stop(c->o->source, w);
    mem_free(w);
}

static void test_threads(void)
{
    pst_error error;
    struct opened o;
    struct source_setup s = setup_make(&source_folder);
    setup_text(&s, "path", make_tree("crowded"));
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    struct crowd c = {.o = &o};
    struct thread_group *group = NULL;
    REQUIRE_OK(thread_group_start(&group, 8, "load", load_all, &c, &error), &error);
    thread_group_join(group);
    CHECK_INT(c.wrong, 0);
    opened_close(&o);
}

static void test_faults(void)
{
    char list[512];
    const char *folder = make_tree("failing");
    put(folder, "list.csv", "cat/1.jpeg,cat\n\"dog/b.JPG\",dog\n");
    snprintf(list, sizeof(list), "%s/list.csv", folder);
    struct source_setup setups[2] = {setup_make(&source_folder), setup_make(&source_files)};
    setup_text(&setups[0], "path", folder);
    setup_text(&setups[0], "validation_split", "0.4");
    setup_text(&setups[0], "subset", "training");
    setup_text(&setups[1], "list", list);
    for (size_t i = 0; i < 2; i++)
        fail_all(use_elements, &setups[i]);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"folder", test_class_folders},
        {"folder: what is refused", test_folder_refused},
        {"folder: the split", test_split},
        {"folder: files that change", test_folder_changes},
        {"files", test_list},
        {"files: labels that are numbers", test_list_numbers},
        {"files: what is refused", test_list_refused},
        {"threads", test_threads},
        {"faults", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
