/* test_publish.c: a file appears whole or not at all, whatever fails, and nothing is left behind. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/publish.h"
#include "open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool holds(const char *path, const char *text)
{
    size_t n = 0;
    if (access(path, F_OK) < 0)
        return false;
    uint8_t *data = test_read_file(path, &n);
    bool same = n == strlen(text) && memcmp(data, text, n) == 0;
    free(data);
    return same;
}

/* Names in `folder` other than "." and "..". */
static size_t count_names(const char *folder)
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));)
        count += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (dir)
        closedir(dir);
    return count;
}

static const char *fresh_folder(const char *name)
{
    const char *path = test_path(name);
    if (mkdir(path, 0777) < 0)
        abort();
    return path;
}

static void whole_or_absent(void)
{
    pst_error e;
    struct publish p = {0};
    fresh_folder("whole");
    const char *path = test_path("whole/file");
    REQUIRE_OK(publish_open(&p, path, false, &e), &e);
    REQUIRE_OK(file_write_at(p.fd, path, "text", 4, 0, &e), &e);
    CHECK(access(path, F_OK) < 0);
    CHECK_INT(count_names(test_path("whole")), 1);
    CHECK(strncmp(file_base(p.temp_path), ".file.tmp-", 10) == 0);
    REQUIRE_OK(publish_commit(&p, true, &e), &e);
    publish_discard(&p);
    CHECK(holds(path, "text"));
    CHECK_INT(count_names(test_path("whole")), 1);

    REQUIRE_OK(publish_open(&p, test_path("whole/other"), false, &e), &e);
    publish_discard(&p);
    publish_discard(&p);
    CHECK_INT(count_names(test_path("whole")), 1);
    struct publish zero = {0};
    publish_discard(&zero); /* must not close descriptor 0 */
    CHECK(fcntl(0, F_GETFD) >= 0 || errno == EBADF);
}

static void an_existing_file_stays(void)
{
    pst_error e;
    struct publish p = {0};
    fresh_folder("exists");
    const char *path = test_path("exists/file");
    test_write_file(path, "old", 3);
    CHECK_STATUS(publish_open(&p, path, false, &e), PST_EEXIST, &e);
    CHECK(strstr(e.path, "exists/file") && strstr(e.message, "replace"));
    CHECK_STATUS(publish_bytes(path, "new", 3, false, true, &e), PST_EEXIST, &e);
    CHECK(holds(path, "old"));
    REQUIRE_OK(publish_bytes(path, "new", 3, true, true, &e), &e);
    CHECK(holds(path, "new"));
    /* A link that leads nowhere is a file too. */
    REQUIRE(symlink("nowhere", test_path("exists/link")) == 0);
    CHECK_STATUS(publish_bytes(test_path("exists/link"), "new", 3, false, false, &e), PST_EEXIST, &e);
    CHECK_INT(count_names(test_path("exists")), 2);
}

/* The file appears between open and commit; with renameat2 and, by a fault, with link. */
static void a_file_that_appeared_stays(void)
{
    pst_error e;
    fresh_folder("appears");
    const char *path = test_path("appears/file");
    for (int fallback = 0; fallback < 2; fallback++) {
        struct publish p = {0};
        REQUIRE_OK(publish_open(&p, path, false, &e), &e);
        test_write_file(path, "other", 5);
        test_fault_arm(FAULT_IO, fallback ? 1 : UINT64_MAX, false); /* call 0 is close, call 1 renameat2 */
        pst_status st = publish_commit(&p, false, &e);
        test_fault_clear();
        CHECK_STATUS(st, PST_EEXIST, &e);
        publish_discard(&p);
        CHECK(holds(path, "other"));
        CHECK_INT(count_names(test_path("appears")), 1);
        unlink(path);
    }
    struct publish p = {0};
    REQUIRE_OK(publish_open(&p, path, false, &e), &e);
    REQUIRE_OK(file_write_at(p.fd, path, "mine", 4, 0, &e), &e);
    test_fault_arm(FAULT_IO, 1, false);
    pst_status st = publish_commit(&p, false, &e);
    test_fault_clear();
    CHECK_STATUS(st, PST_OK, &e);
    publish_discard(&p);
    CHECK(holds(path, "mine"));
    CHECK_INT(count_names(test_path("appears")), 1);
}

static void bad_places(void)
{
    pst_error e;
    struct publish p = {0};
    CHECK_STATUS(publish_open(&p, test_path("missing/file"), true, &e), PST_ENOTFOUND, &e);
    CHECK(strstr(e.message, "folder") != NULL);
    CHECK_STATUS(publish_open(&p, test_path("folder/"), true, &e), PST_EIO, &e);
    fresh_folder("place");
    fresh_folder("place/taken");
    CHECK_STATUS(publish_bytes(test_path("place/taken"), "x", 1, true, false, &e), PST_EIO, &e);
    CHECK_STATUS(publish_bytes(test_path("place/taken"), "x", 1, false, false, &e), PST_EEXIST, &e);
    CHECK_INT(count_names(test_path("place")), 1);
}

static void mode_and_long_names(void)
{
    pst_error e;
    struct stat st;
    fresh_folder("mode");
    mode_t saved = umask(027);
    pst_status status = publish_bytes(test_path("mode/file"), "x", 1, false, false, &e);
    umask(saved);
    REQUIRE(status == PST_OK && stat(test_path("mode/file"), &st) == 0);
    CHECK_INT(st.st_mode & 0777, 0640);
    char name[NAME_MAX + 10] = "mode/";
    memset(name + 5, 'n', NAME_MAX);
    REQUIRE_OK(publish_bytes(test_path(name), "x", 1, false, false, &e), &e);
    CHECK_INT(count_names(test_path("mode")), 2);
}

/* Every Nth call fails, once and for ever: the old or the new content is there, and nothing else. */
static void every_fault(void)
{
    pst_error e;
    char folder[256], path[300];
    snprintf(folder, sizeof(folder), "%s", fresh_folder("faults"));
    snprintf(path, sizeof(path), "%s/file", folder);
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
        for (int variant = 0; variant < 8; variant++) {
            bool overwrite = variant & 1, sync = variant & 2, forever = variant & 4;
            unsigned survived = 0; /* failures that were made good */
            for (uint64_t n = 0;; n++) {
                unlink(path);
                if (overwrite)
                    test_write_file(path, "old", 3);
                uint64_t live = mem_live();
                size_t files = open_files();
                test_fault_arm(kind, n, forever);
                pst_status st = publish_bytes(path, "new content", 11, overwrite, sync, &e);
                bool hit = test_fault_calls() > n;
                test_fault_clear();
                CHECK_INT(mem_live(), live);
                CHECK_INT(open_files(), files);
                bool is_new = holds(path, "new content"), is_old = overwrite ? holds(path, "old") : access(path, F_OK) < 0;
                CHECK_INT(count_names(folder), overwrite || is_new);
                CHECK(is_new || is_old);
                if (st == PST_OK)
                    CHECK(is_new);
                else
                    CHECK_STATUS(st, kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO, &e);
                /* Only syncing the folder may still fail once the file is in place. */
                if (st != PST_OK && is_new)
                    CHECK(sync && (strstr(e.message, "folder") != NULL));
                if (!hit) {
                    CHECK(n > 1 && st == PST_OK);
                    break;
                }
                survived += st == PST_OK;
            }
            /* Without a lock there is the process id, without renameat2 link; nothing else can be done without. */
            CHECK_INT(survived, kind == FAULT_IO && !forever ? 1 + !overwrite : 0);
        }
    }
}

static _Atomic unsigned winners, losers;

static void race(void *user, unsigned worker)
{
    pst_error e;
    char text[16];
    snprintf(text, sizeof(text), "worker %u", worker);
    pst_status st = publish_bytes(user, text, strlen(text), false, false, &e);
    winners += st == PST_OK;
    losers += st == PST_EEXIST;
}

static void threads_at_once(void)
{
    pst_error e;
    struct thread_group *g = NULL;
    fresh_folder("race");
    for (int round = 0; round < 50; round++) {
        winners = losers = 0;
        unlink(test_path("race/file"));
        REQUIRE_OK(thread_group_start(&g, 4, "race", race, (void *)(uintptr_t)test_path("race/file"), &e), &e);
        g = thread_group_join(g);
        CHECK_INT(winners, 1);
        CHECK_INT(losers, 3);
        CHECK_INT(count_names(test_path("race")), 1);
    }
}

/* A process that is killed in the middle. Returns its id. */
static pid_t killed_writer(const char *path)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct publish p = {0};
        if (publish_open(&p, path, false, NULL) == PST_OK)
            file_write_at(p.fd, path, "half", 4, 0, NULL);
        kill(getpid(), SIGKILL);
    }
    int status;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        abort();
    return pid;
}

static void sweep(void)
{
    pst_error e;
    char name[64];
    struct publish living = {0};
    fresh_folder("sweep");
    pid_t dead = killed_writer(test_path("sweep/shard"));
    CHECK_INT(count_names(test_path("sweep")), 1);
    CHECK(access(test_path("sweep/shard"), F_OK) < 0);

    static const char *const others[] = {
        ".x.tmp-", ".x.tmp-12", ".x.tmp-12-", ".x.tmp-a-1", ".x.tmp-12-1x", ".x.tmp-0-1", ".x.tmp-99999999999999999999-1"};
    size_t kept = 0;
    for (; kept < sizeof(others) / sizeof(others[0]); kept++) {
        snprintf(name, sizeof(name), "sweep/%s", others[kept]);
        test_write_file(test_path(name), "", 0);
    }
    snprintf(name, sizeof(name), "sweep/visible.tmp-%ld-0", (long)dead);
    test_write_file(test_path(name), "", 0);
    snprintf(name, sizeof(name), "sweep/.locked.tmp-%ld-0", (long)dead); /* as a living process on another machine has it */
    test_write_file(test_path(name), "", 0);
    int lock = open(test_path(name), O_RDONLY);
    REQUIRE(lock >= 0 && flock(lock, LOCK_EX) == 0);
    snprintf(name, sizeof(name), "sweep/.a.tmp-7-7.tmp-%ld-12", (long)dead); /* the last mark counts */
    test_write_file(test_path(name), "", 0);
    REQUIRE_OK(publish_open(&living, test_path("sweep/living"), false, &e), &e);

    REQUIRE_OK(publish_sweep(test_path("sweep"), &e), &e);
    CHECK_INT(count_names(test_path("sweep")), kept + 3); /* visible, locked, living */
    REQUIRE_OK(publish_commit(&living, false, &e), &e);
    publish_discard(&living);
    close(lock);
    REQUIRE_OK(publish_sweep(test_path("sweep"), &e), &e);
    CHECK_INT(count_names(test_path("sweep")), kept + 2); /* visible, living */
    CHECK_STATUS(publish_sweep(test_path("sweep/none"), &e), PST_ENOTFOUND, &e);
}

static void a_dead_process_does_not_block(void)
{
    pst_error e;
    fresh_folder("left");
    /* The same process id again: its number moves on. */
    char name[64];
    snprintf(name, sizeof(name), "left/.file.tmp-%ld-0", (long)getpid());
    test_write_file(test_path(name), "left over", 9);
    REQUIRE_OK(publish_bytes(test_path("left/file"), "new", 3, false, true, &e), &e);
    CHECK(holds(test_path("left/file"), "new"));
    CHECK(holds(test_path(name), "left over"));
}

/* Another machine, to which our process id means nothing, sweeps at the worst moments. */
struct rival {
    const char *call; /* the moment */
    struct publish *p;
    bool stays;   /* the sweep has the lock for longer */
    int fd;       /* …and here it is */
    bool removed; /* its verdict */
};

static bool sweep_as_rival(void *user, enum fault_kind kind, const char *what)
{
    struct rival *r = user;
    if (kind != FAULT_IO || strcmp(what, r->call))
        return false;
    r->call = ""; /* once */
    r->fd = open(r->p->temp_path, O_RDONLY | O_CLOEXEC);
    r->removed = r->fd >= 0 && flock(r->fd, LOCK_EX | LOCK_NB) == 0 && unlink(r->p->temp_path) == 0;
    if (!r->stays)
        close(r->fd);
    return false;
}

static void a_rival_sweep(void)
{
    pst_error e;
    fresh_folder("rival");
    const char *path = test_path("rival/file");
    for (int variant = 0; variant < 4; variant++) {
        struct publish p = {0};
        static const char *const moments[] = {"flock", "flock", "renameat2", "rename"};
        struct rival r = {.call = moments[variant], .p = &p, .stays = variant == 1, .fd = -1};
        fault_set(sweep_as_rival, &r);
        pst_status st = publish_open(&p, path, variant == 3, &e);
        if (st == PST_OK)
            st = file_write_at(p.fd, path, "mine", 4, 0, &e);
        if (st == PST_OK)
            st = publish_commit(&p, false, &e);
        fault_set(NULL, NULL);
        CHECK_STATUS(st, PST_OK, &e);
        publish_discard(&p);
        CHECK_INT(r.removed, variant < 2); /* before the rename the lock is held */
        CHECK(holds(path, "mine"));
        CHECK_INT(count_names(test_path("rival")), 1);
        if (r.stays)
            close(r.fd);
        unlink(path);
    }
}

/* A pipe and links are neither replaced nor removed, also where replacing is asked for. */
static void only_regular_files_are_replaced(void)
{
    static const char *const names[] = {"odd/pipe", "odd/link", "odd/dangling"};
    pst_error e;
    fresh_folder("odd");
    REQUIRE_OK(publish_bytes(test_path("odd/target"), "old", 3, false, false, &e), &e);
    CHECK(mkfifo(test_path("odd/pipe"), 0666) == 0 && symlink("target", test_path("odd/link")) == 0);
    CHECK(symlink("nowhere", test_path("odd/dangling")) == 0);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct stat before, after;
        CHECK(lstat(test_path(names[i]), &before) == 0);
        CHECK_STATUS(publish_bytes(test_path(names[i]), "new", 3, true, false, &e), PST_EEXIST, &e);
        CHECK(strstr(e.message, "not a regular file") != NULL);
        CHECK(lstat(test_path(names[i]), &after) == 0 && before.st_ino == after.st_ino && before.st_mode == after.st_mode);
    }
    CHECK(holds(test_path("odd/target"), "old"));
    CHECK_INT(count_names(test_path("odd")), 4);
    REQUIRE_OK(publish_bytes(test_path("odd/target"), "new", 3, true, false, &e), &e);
    CHECK(holds(test_path("odd/target"), "new"));
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"whole or absent", whole_or_absent},
        {"an existing file stays", an_existing_file_stays},
        {"a file that appeared meanwhile stays", a_file_that_appeared_stays},
        {"places that cannot be", bad_places},
        {"only regular files are replaced", only_regular_files_are_replaced},
        {"mode and long names", mode_and_long_names},
        {"every fault leaves old or new and nothing else", every_fault},
        {"of four threads one wins", threads_at_once},
        {"a sweep removes what the dead left", sweep},
        {"a dead process does not block", a_dead_process_does_not_block},
        {"another machine sweeps meanwhile", a_rival_sweep},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
