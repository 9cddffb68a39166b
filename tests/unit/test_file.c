/* test_file.c: whole transfers whatever the kernel gives, and errors that name path and remedy.
 *
 * This program brings its own preadv and pwrite: they can be told to interrupt and to transfer a byte at a time. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"
#include "open_files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool awkward; /* interrupt every other call, transfer at most three bytes */
static unsigned calls;

ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t offset)
{
    if (!awkward)
        return syscall(SYS_preadv, fd, pieces, count, offset, 0);
    if (calls++ % 2) {
        errno = EINTR;
        return -1;
    }
    uint8_t three[3];
    size_t room = 0, given = 0;
    for (int i = 0; i < count; i++)
        room += pieces[i].iov_len;
    ssize_t n = syscall(SYS_pread64, fd, three, room < 3 ? room : 3, offset);
    for (int i = 0; i < count; i++)
        for (size_t k = 0; k < pieces[i].iov_len && n > 0 && given < (size_t)n; k++)
            ((uint8_t *)pieces[i].iov_base)[k] = three[given++];
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    if (awkward && calls++ % 2) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_pwrite64, fd, data, awkward && length > 3 ? 3 : length, offset);
}

static void fill(uint8_t *data, size_t n)
{
    for (size_t i = 0; i < n; i++)
        data[i] = (uint8_t)(i * 131 + (i >> 8));
}

static void transfers(void)
{
    uint8_t data[1000], back[1000] = {0};
    pst_error e;
    size_t got = 0;
    int fd = open(test_path("transfers"), O_RDWR | O_CREAT, 0666);
    REQUIRE(fd >= 0);
    fill(data, sizeof(data));
    REQUIRE_OK(file_write_at(fd, "t", data, 600, 0, &e), &e);
    REQUIRE_OK(file_write_at(fd, "t", data + 600, 400, 600, &e), &e);
    REQUIRE_OK(file_write_at(fd, "t", NULL, 0, 0, &e), &e);
    REQUIRE_OK(file_read_at(fd, "t", back, 1000, 0, &got, &e), &e);
    CHECK_INT(got, 1000);
    CHECK(memcmp(data, back, 1000) == 0);
    REQUIRE_OK(file_read_at(fd, "t", back, 1000, 990, &got, &e), &e);
    CHECK_INT(got, 10);
    CHECK(memcmp(data + 990, back, 10) == 0);
    REQUIRE_OK(file_read_at(fd, "t", back, 1000, 5000, &got, &e), &e);
    CHECK_INT(got, 0);
    CHECK_STATUS(file_read_at(fd, "t", back, 1, UINT64_MAX, &got, &e), PST_EIO, &e);
    CHECK_STATUS(file_write_at(fd, "t", data, 1, UINT64_MAX, &e), PST_EIO, &e);
    close(fd);
}

static void transfers_awkward(void)
{
    awkward = true;
    transfers();
    awkward = false;
}

static void pieces(void)
{
    static const size_t cuts[][4] = {{1, 2, 3, 4}, {0, 10, 0, 90}, {100, 0, 0, 0}, {33, 33, 34, 0}, {7, 90, 200, 200}};
    uint8_t data[300];
    pst_error e;
    fill(data, sizeof(data));
    test_write_file(test_path("pieces"), data, sizeof(data));
    int fd = -1;
    REQUIRE_OK(file_open_read(&fd, test_path("pieces"), &e), &e);
    for (int odd = 0; odd < 2; odd++) {
        awkward = odd;
        for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
            uint8_t back[4][200];
            struct iovec v[4];
            size_t got = 0, want = 0, at = 5;
            for (size_t k = 0; k < 4; k++) {
                v[k] = (struct iovec){back[k], cuts[i][k]};
                want += cuts[i][k];
            }
            want = want < 295 ? want : 295;
            REQUIRE_OK(file_readv_at(fd, "pieces", v, 4, 5, &got, &e), &e);
            CHECK_INT(got, want);
            for (size_t k = 0; k < 4 && at < 5 + want; at += cuts[i][k++]) {
                size_t n = cuts[i][k] < 5 + want - at ? cuts[i][k] : 5 + want - at;
                CHECK(memcmp(back[k], data + at, n) == 0);
            }
        }
    }
    awkward = false;
    file_close(fd);
}

static void errors_name_the_place(void)
{
    pst_error e;
    int fd = -7;
    uint8_t byte;
    size_t got;
    struct file_info info;
    CHECK_STATUS(file_open_read(&fd, test_path("no such"), &e), PST_ENOTFOUND, &e);
    CHECK_INT(fd, -7);
    CHECK_INT(e.sys_errno, ENOENT);
    CHECK(strstr(e.path, "no such") != NULL);
    CHECK_STATUS(file_stat(test_path("no such"), &info, &e), PST_ENOTFOUND, &e);
    test_write_file(test_path("plain"), "x", 1);
    CHECK_STATUS(file_stat(test_path("plain/below"), &info, &e), PST_EIO, &e);
    CHECK_INT(e.sys_errno, ENOTDIR);
    CHECK(strstr(e.message, "is a file") != NULL);
    CHECK_STATUS(file_open_folder(&fd, test_path("plain"), &e), PST_EIO, &e);
    REQUIRE_OK(file_open_read(&fd, test_folder(), &e), &e); /* a folder opens, and tells what it is when read */
    CHECK_STATUS(file_read_at(fd, "folder", &byte, 1, 0, &got, &e), PST_EIO, &e);
    CHECK_INT(e.sys_errno, EISDIR);
    file_close(fd);
    CHECK_STATUS(file_open_read(&fd, test_path("no such"), NULL), PST_ENOTFOUND, NULL); /* nobody wants to know */
}

static void disk_full(void)
{
    pst_error e;
    struct rlimit saved, small;
    int fd = open("/dev/full", O_WRONLY);
    REQUIRE(fd >= 0);
    CHECK_STATUS(file_write_at(fd, "full", "abc", 3, 0, &e), PST_EIO, &e);
    CHECK_INT(e.sys_errno, ENOSPC);
    CHECK(strstr(e.message, "space") != NULL);
    close(fd);
    /* The system's own short write: half of it goes in before the limit. */
    fd = open(test_path("limited"), O_RDWR | O_CREAT, 0666);
    REQUIRE(fd >= 0 && getrlimit(RLIMIT_FSIZE, &saved) == 0);
    small = saved;
    small.rlim_cur = 50;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    uint8_t data[100] = {0};
    pst_status st = file_write_at(fd, "limited", data, sizeof(data), 0, &e);
    setrlimit(RLIMIT_FSIZE, &saved);
    CHECK_STATUS(st, PST_EIO, &e);
    CHECK_INT(e.sys_errno, EFBIG);
    close(fd);
}

static void a_pipe_does_not_hang(void)
{
    pst_error e;
    int fd = -1;
    uint8_t byte;
    size_t got;
    REQUIRE(mkfifo(test_path("fifo"), 0666) == 0);
    REQUIRE_OK(file_open_read(&fd, test_path("fifo"), &e), &e);
    CHECK_STATUS(file_read_at(fd, "fifo", &byte, 1, 0, &got, &e), PST_EIO, &e);
    CHECK(strstr(e.message, "pipe") != NULL);
    file_close(fd);
    uint8_t *data = NULL; /* nor does it pass for an empty file */
    CHECK_STATUS(file_read_all(&data, &got, test_path("fifo"), 100, &e), PST_EINVAL, &e);
    mem_free(data);
}

/* io_uring may never come to an end with a descriptor that does not block. */
static void direct_blocks(void)
{
    pst_error e;
    int fd = -1;
    bool direct;
    test_write_file(test_path("direct"), "hello", 5);
    REQUIRE_OK(file_open_direct(&fd, &direct, test_path("direct"), &e), &e);
    CHECK((fcntl(fd, F_GETFL) & (O_NONBLOCK | O_DIRECT)) == (direct ? O_DIRECT : 0));
    file_close(fd);
}

static void info(void)
{
    pst_error e;
    struct file_info i;
    test_write_file(test_path("info"), "12345", 5);
    REQUIRE_OK(file_stat(test_path("info"), &i, &e), &e);
    CHECK(i.size == 5 && i.is_regular && !i.is_folder && i.mtime_ns > 1000000000);
    REQUIRE_OK(file_stat(test_folder(), &i, &e), &e);
    CHECK(i.is_folder && !i.is_regular);
}

static void read_all(void)
{
    pst_error e;
    uint8_t *data = NULL;
    size_t n = 0;
    test_write_file(test_path("all"), "hello", 5);
    REQUIRE_OK(file_read_all(&data, &n, test_path("all"), 5, &e), &e);
    CHECK_INT(n, 5);
    CHECK_STR((char *)data, "hello");
    mem_free(data);
    data = NULL;
    CHECK_STATUS(file_read_all(&data, &n, test_path("all"), 4, &e), PST_ELIMIT, &e);
    CHECK_STATUS(file_read_all(&data, &n, test_path("none"), 4, &e), PST_ENOTFOUND, &e);
    CHECK(data == NULL);
    test_write_file(test_path("empty"), "", 0);
    REQUIRE_OK(file_read_all(&data, &n, test_path("empty"), 0, &e), &e);
    CHECK(n == 0 && data[0] == 0);
    mem_free(data);
}

static void folders(void)
{
    pst_error e;
    struct file_info i;
    REQUIRE_OK(file_make_folder(test_path("a/b//c/d/"), &e), &e);
    REQUIRE_OK(file_make_folder(test_path("a/b/c/d"), &e), &e);
    REQUIRE_OK(file_stat(test_path("a/b/c/d"), &i, &e), &e);
    CHECK(i.is_folder);
    REQUIRE_OK(file_make_folder("/", &e), &e);
    REQUIRE_OK(file_make_folder(".", &e), &e);
    CHECK_STATUS(file_make_folder("", &e), PST_ENOTFOUND, &e);
    test_write_file(test_path("a/file"), "", 0);
    CHECK_STATUS(file_make_folder(test_path("a/file"), &e), PST_EIO, &e);
    CHECK_INT(e.sys_errno, ENOTDIR);
    CHECK_STATUS(file_make_folder(test_path("a/file/below"), &e), PST_EIO, &e);
    CHECK(strstr(e.path, "a/file/below") != NULL);
}

static void names(void)
{
    static const struct {
        const char *folder, *name, *joined;
    } cases[] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"}, {"", "b", "b"}, {"a//", "b", "a//b"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *joined = file_join(cases[i].folder, cases[i].name);
        CHECK_STR(joined, cases[i].joined);
        mem_free(joined);
    }
    CHECK_STR(file_base("a/b.c"), "b.c");
    CHECK_STR(file_base("b.c"), "b.c");
    CHECK_STR(file_base("/"), "");
    CHECK_STR(file_base("a/"), "");
}

/* A path beyond PATH_MAX, made from inside. */
static void very_long_path(void)
{
    enum { DEPTH = 30, PART = 200 };
    char part[PART + 1], *path = NULL, cwd[PATH_MAX];
    pst_error e;
    memset(part, 'x', PART);
    part[PART] = 0;
    REQUIRE(getcwd(cwd, sizeof(cwd)) && chdir(test_folder()) == 0);
    size_t length = strlen(test_folder());
    path = malloc(length + DEPTH * (PART + 1) + 10);
    memcpy(path, test_folder(), length + 1);
    bool made = true;
    for (int i = 0; i < DEPTH; i++) {
        made &= mkdir(part, 0777) == 0 && chdir(part) == 0;
        strcat(strcat(path, i % 2 ? "//" : "/"), part); /* some slashes doubled, as people write them */
        path = realloc(path, strlen(path) + PART + 16);
    }
    test_write_file("deep", "deep", 4);
    CHECK(made && chdir(cwd) == 0 && strlen(path) > PATH_MAX);
    struct file_info i;
    REQUIRE_OK(file_stat(path, &i, &e), &e);
    CHECK(i.is_folder);
    strcat(path, "/deep");
    uint8_t *data = NULL;
    size_t n;
    REQUIRE_OK(file_stat(path, &i, &e), &e);
    CHECK_INT(i.size, 4);
    REQUIRE_OK(file_read_all(&data, &n, path, 100, &e), &e);
    CHECK_STR((char *)data, "deep");
    mem_free(data);
    strcat(path, "er");
    CHECK_STATUS(file_stat(path, &i, &e), PST_ENOTFOUND, &e);
    *strrchr(path, '/') = 0;
    int fd = -1; /* the harness cannot remove what it cannot name */
    REQUIRE_OK(file_open_folder(&fd, path, &e), &e);
    CHECK(fchdir(fd) == 0 && unlink("deep") == 0);
    for (int k = 0; k < DEPTH; k++)
        CHECK(chdir("..") == 0 && rmdir(part) == 0);
    CHECK(chdir(cwd) == 0);
    file_close(fd);
    free(path);
    char *slashless = malloc(2 * PATH_MAX);
    memset(slashless, 'y', 2 * PATH_MAX - 1);
    slashless[2 * PATH_MAX - 1] = 0;
    CHECK_STATUS(file_stat(slashless, &i, &e), PST_EIO, &e);
    CHECK_INT(e.sys_errno, ENAMETOOLONG);
    free(slashless);
}

static pst_status some_work(pst_error *e)
{
    uint8_t *data = NULL;
    size_t n = 0;
    struct file_info i;
    pst_status st = file_make_folder(test_path("w/x"), e);
    if (st == PST_OK)
        st = file_stat(test_path("w"), &i, e);
    if (st == PST_OK)
        st = file_read_all(&data, &n, test_path("work"), 100, e);
    mem_free(data);
    return st;
}

static void every_fault(void)
{
    pst_error e;
    test_write_file(test_path("work"), "work", 4);
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
        for (uint64_t n = 0;; n++) {
            uint64_t live = mem_live();
            size_t files = open_files();
            test_fault_arm(kind, n, false);
            pst_status st = some_work(&e);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            CHECK(mem_live() == live && open_files() == files);
            if (!hit) {
                CHECK(n > 1 && st == PST_OK);
                break;
            }
            CHECK_STATUS(st, kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO, &e);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"transfers are whole", transfers},
        {"transfers are whole under EINTR and short calls", transfers_awkward},
        {"scattered reads", pieces},
        {"errors name the place", errors_name_the_place},
        {"a full disk", disk_full},
        {"a pipe does not hang", a_pipe_does_not_hang},
        {"a descriptor for direct reads blocks", direct_blocks},
        {"file info", info},
        {"a whole file at once", read_all},
        {"folders with parents", folders},
        {"joining names", names},
        {"a path beyond PATH_MAX", very_long_path},
        {"every fault is an error and leaks nothing", every_fault},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
