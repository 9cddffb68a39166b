/* test_walk.c: stable lists from any tree: odd names, links, loops, patterns, failures. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/walk.h"
#include "open_files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_file(const char *name)
{
    pst_error e;
    char folder[512];
    snprintf(folder, sizeof(folder), "%s", test_path(name));
    *strrchr(folder, '/') = 0;
    if (file_make_folder(folder, &e) != PST_OK)
        abort();
    test_write_file(test_path(name), "", 0);
}

/* The list, relative to the test's folder, joined by blanks. */
static const char *text_of(const struct path_list *l)
{
    static char text[8192];
    size_t at = 0, skip = strlen(test_folder()) + 1;
    text[0] = 0;
    for (size_t i = 0; i < l->count; i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? " " : "", l->paths[i] + skip);
    return text;
}

static void files_and_folders(void)
{
    pst_error e;
    struct path_list l = {0};
    static const char *const names[] = {"t/b/2", "t/b/10",    "t/a/1",         "t/a-b/3",       "t/Z",
                                        "t/top", "t/.hidden", "t/.git/config", "t/a/.DS_Store", "t/b/c/d/e"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        make_file(names[i]);
    REQUIRE_OK(walk_files(&l, test_path("t"), true, &e), &e);
    CHECK_STR(text_of(&l), "t/Z t/a-b/3 t/a/1 t/b/10 t/b/2 t/b/c/d/e t/top");
    path_list_finish(&l);
    REQUIRE_OK(walk_files(&l, test_path("t/"), false, &e), &e);
    CHECK_STR(text_of(&l), "t/Z t/top");
    /* A second walk is put behind the first. */
    REQUIRE_OK(walk_folders(&l, test_path("t"), &e), &e);
    CHECK_STR(text_of(&l), "t/Z t/top t/a t/a-b t/b");
    CHECK_STATUS(walk_files(&l, test_path("t/none"), true, &e), PST_ENOTFOUND, &e);
    CHECK(strstr(e.path, "t/none") != NULL);
    CHECK_STATUS(walk_files(&l, test_path("t/top"), true, &e), PST_EIO, &e);
    CHECK_INT(l.count, 5);
    path_list_sort(&l);
    CHECK_STR(text_of(&l), "t/Z t/a t/a-b t/b t/top");
    path_list_finish(&l);
    path_list_finish(&l);
    REQUIRE_OK(file_make_folder(test_path("nothing"), &e), &e);
    REQUIRE_OK(walk_files(&l, test_path("nothing"), true, &e), &e);
    CHECK_INT(l.count, 0);
    path_list_finish(&l);
}

static void odd_names(void)
{
    pst_error e;
    struct path_list l = {0};
    static const char *const names[] = {"odd/line\nbreak", "odd/\xff\xfe not UTF-8", "odd/ blank ", "odd/-rf", "odd/*?[x]"};
    char longest[NAME_MAX + 10] = "odd/";
    memset(longest + 4, 'l', NAME_MAX);
    for (size_t i = 0; i < 5; i++)
        make_file(names[i]);
    make_file(longest);
    REQUIRE_OK(walk_files(&l, test_path("odd"), true, &e), &e);
    CHECK_INT(l.count, 6);
    for (size_t i = 0; i < l.count; i++)
        CHECK(access(l.paths[i], F_OK) == 0);
    path_list_finish(&l);
    /* A name with wildcards that exists stands for itself. */
    REQUIRE_OK(walk_glob(&l, test_path("odd/*?[x]"), &e), &e);
    CHECK_STR(text_of(&l), "odd/*?[x]");
    path_list_finish(&l);
}

static void links(void)
{
    pst_error e;
    struct path_list l = {0};
    make_file("links/real/file");
    make_file("links/elsewhere");
    REQUIRE(symlink("../elsewhere", test_path("links/real/to-file")) == 0);
    REQUIRE(symlink("real", test_path("links/again")) == 0);  /* a second name: told twice */
    REQUIRE(symlink("..", test_path("links/real/up")) == 0);  /* a loop */
    REQUIRE(symlink(".", test_path("links/real/self")) == 0); /* a smaller one */
    REQUIRE(symlink("nowhere", test_path("links/real/broken")) == 0);
    REQUIRE(symlink("circle", test_path("links/real/circle")) == 0);
    REQUIRE(mkfifo(test_path("links/real/fifo"), 0666) == 0);
    REQUIRE_OK(walk_files(&l, test_path("links"), true, &e), &e);
    CHECK_STR(text_of(&l), "links/again/broken links/again/circle links/again/file links/again/to-file links/elsewhere "
                           "links/real/broken links/real/circle links/real/file links/real/to-file");
    path_list_finish(&l);
    REQUIRE_OK(walk_folders(&l, test_path("links"), &e), &e);
    CHECK_STR(text_of(&l), "links/again links/real");
    path_list_finish(&l);
}

/* Deeper than PATH_MAX, and deeper than there are descriptors. */
static void a_deep_tree(void)
{
    enum { DEPTH = 1200 };
    pst_error e;
    struct path_list l = {0};
    char cwd[PATH_MAX];
    REQUIRE(getcwd(cwd, sizeof(cwd)) && mkdir(test_path("deep"), 0777) == 0 && chdir(test_path("deep")) == 0);
    for (int i = 0; i < DEPTH; i++)
        if (mkdir("level", 0777) < 0 || chdir("level") < 0)
            abort();
    test_write_file("bottom", "", 0);
    CHECK(chdir(cwd) == 0);
    pst_status st = walk_files(&l, test_path("deep"), true, &e);
    CHECK_STATUS(st, PST_OK, &e);
    CHECK_INT(l.count, 1);
    int fd = -1;
    if (l.count == 1 && strlen(l.paths[0]) > PATH_MAX)
        CHECK_STATUS(file_open_read(&fd, l.paths[0], &e), PST_OK, &e);
    CHECK(fd >= 0);
    file_close(fd);
    *strrchr(l.paths[0], '/') = 0; /* the harness cannot remove what it cannot name */
    REQUIRE_OK(file_open_folder(&fd, l.paths[0], &e), &e);
    CHECK(fchdir(fd) == 0 && unlink("bottom") == 0);
    for (int i = 0; i < DEPTH; i++)
        if (chdir("..") < 0 || rmdir("level") < 0)
            abort();
    CHECK(chdir(cwd) == 0);
    file_close(fd);
    path_list_finish(&l);
}

static void patterns(void)
{
    static const struct {
        const char *pattern, *want; /* NULL: nothing */
    } cases[] = {
        {"g/*.rec", "g/a.rec g/b.rec"},
        {"g/a.rec", "g/a.rec"},
        {"g/?.rec", "g/a.rec g/b.rec"},
        {"g/[b-z].*", "g/b.rec"},
        {"g/*/x", "g/one/x g/two/x"},
        {"g/*/?", "g/one/x g/one/y g/two/x"},
        {"*/one/y", "g/one/y"},
        {"g/o*/", "g/one/"},
        {"g/*", "g/a.rec g/b.rec g/one g/two"},
        {"g/.*", "g/.hid"},
        {"g//*.rec", "g//a.rec g//b.rec"},
        {"g/*.rec/x", NULL},
        {"g/none*", NULL},
        {"none/*", NULL},
        {"none", NULL},
        {"g/a.rec/*", NULL},
        {"g/[", NULL},
    };
    pst_error e;
    static const char *const names[] = {"g/a.rec", "g/b.rec", "g/one/x", "g/one/y", "g/two/x", "g/.hid"};
    for (size_t i = 0; i < 6; i++)
        make_file(names[i]);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct path_list l = {0};
        /* "*" must not meet the other tests' files: the pattern starts behind the test's folder. */
        pst_status st = walk_glob(&l, test_path(cases[i].pattern), &e);
        CHECK_MSG(st == (cases[i].want ? PST_OK : PST_ENOTFOUND), "%s: %s", cases[i].pattern, pst_status_name(st));
        CHECK_STR(text_of(&l), cases[i].want ? cases[i].want : "");
        path_list_finish(&l);
    }
    char cwd[PATH_MAX];
    struct path_list l = {0};
    REQUIRE(getcwd(cwd, sizeof(cwd)) && chdir(test_path("g")) == 0);
    pst_status st = walk_glob(&l, "*.rec", &e); /* relative, without a folder in front */
    CHECK(chdir(cwd) == 0);
    CHECK_STATUS(st, PST_OK, &e);
    CHECK(l.count == 2 && strcmp(l.paths[0], "a.rec") == 0);
    path_list_finish(&l);
}

static void no_permission(void)
{
    pst_error e;
    struct path_list l = {0};
    make_file("closed/inner/file");
    chmod(test_path("closed/inner"), 0);
    if (geteuid() != 0) { /* root may do anything */
        CHECK_STATUS(walk_files(&l, test_path("closed"), true, &e), PST_EIO, &e);
        CHECK(strstr(e.path, "closed/inner") && strstr(e.message, "permission"));
        CHECK_INT(l.count, 0);
    }
    chmod(test_path("closed/inner"), 0777);
    path_list_finish(&l);
}

static void every_fault(void)
{
    pst_error e;
    make_file("f/a/1");
    make_file("f/b/2");
    REQUIRE(symlink("a", test_path("f/link")) == 0);
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
        for (uint64_t n = 0;; n++) {
            uint64_t live = mem_live();
            size_t files = open_files();
            struct path_list l = {0};
            test_fault_arm(kind, n, false);
            pst_status st = walk_files(&l, test_path("f"), true, &e);
            if (st == PST_OK)
                st = walk_folders(&l, test_path("f"), &e);
            if (st == PST_OK)
                st = walk_glob(&l, test_path("f/*/[12]"), &e);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            CHECK_INT(l.count == 9, st == PST_OK);
            path_list_finish(&l);
            CHECK(mem_live() == live && open_files() == files);
            if (!hit) {
                CHECK(n > 3 && st == PST_OK);
                break;
            }
            CHECK_STATUS(st, kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO, &e);
        }
    }
}

static void kept_paths(void)
{
    struct path_list l = {0};
    const char *a = path_list_keep(&l, "a"), *b = path_list_keep(&l, "b");
    CHECK(a && b && a != b);
    CHECK(path_list_keep(&l, "a") == a && path_list_keep(&l, "b") == b);
    CHECK_INT(l.count, 2);
    path_list_finish(&l);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"files and folders, sorted by bytes", files_and_folders},
        {"odd names", odd_names},
        {"links and loops", links},
        {"a tree deeper than PATH_MAX", a_deep_tree},
        {"patterns", patterns},
        {"no permission", no_permission},
        {"a path is kept once", kept_paths},
        {"every fault is an error and leaks nothing", every_fault},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
