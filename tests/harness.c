/* harness.c: see harness.h. */
#include "harness.h"

#include "base/fault.h"

#include <dirent.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failures; /* of the running test */
static char folder[64];

static struct {
    int kind;
    uint64_t at;
    bool forever;
    _Atomic uint64_t calls;
} fault;

bool test_report(bool ok, const char *file, int line, const char *format, ...)
{
    if (ok)
        return true;
    va_list args;
    va_start(args, format);
    printf("# %s:%d: ", file, line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
    failures++;
    return false;
}

bool test_check_int(long long got, long long want, const char *file, int line, const char *what)
{
    return test_report(got == want, file, line, "%s is %lld, expected %lld", what, got, want);
}

bool test_check_str(const char *got, const char *want, const char *file, int line, const char *what)
{
    return test_report(got && strcmp(got, want) == 0, file, line, "%s is \"%s\", expected \"%s\"", what, got ? got : "(null)", want);
}

bool test_check_status(pst_status got, pst_status want, const pst_error *error, const char *file, int line, const char *what)
{
    char text[512] = "";
    if (got != want && got < 0 && error)
        pst_error_text(error, text, sizeof(text));
    return test_report(got == want, file, line, "%s is %s, expected %s %s", what, pst_status_name(got), pst_status_name(want), text);
}

/* Whether a thread other than the caller can run, or runs. */
static bool is_busy(void)
{
    DIR *tasks = opendir("/proc/self/task");
    bool busy = false;
    for (struct dirent *e; tasks && !busy && (e = readdir(tasks));) {
        char path[300], line[512], *end;
        if (e->d_name[0] == '.' || strtol(e->d_name, NULL, 10) == (long)gettid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/stat", e->d_name);
        FILE *f = fopen(path, "re");
        busy = f && fgets(line, sizeof(line), f) && (end = strrchr(line, ')')) && end[1] && end[2] != 'S'; /* a thread that has ended has no file */
        if (f)
            fclose(f);
    }
    if (tasks)
        closedir(tasks);
    return busy;
}

void test_wait_until_idle(void)
{
    for (int looks = 0, tries = 0; looks < 10 && tries < 100000; tries++) {
        usleep(2000);
        looks = is_busy() ? 0 : looks + 1;
    }
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *where)
{
    (void)st, (void)flag, (void)where;
    return remove(path);
}

const char *test_folder(void)
{
    if (!folder[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(folder, sizeof(folder), "%s/penstock-test-XXXXXX", tmp && strlen(tmp) < 32 ? tmp : "/tmp");
        if (!mkdtemp(folder))
            abort();
    }
    return folder;
}

const char *test_path(const char *name)
{
    static char buffers[8][320];
    static unsigned next;
    char *b = buffers[next++ % 8];
    snprintf(b, sizeof(buffers[0]), "%s/%s", test_folder(), name);
    return b;
}

void test_write_file(const char *path, const void *data, size_t length)
{
    FILE *f = fopen(path, "wb");
    if (!f || (length && fwrite(data, 1, length, f) != length) || fclose(f))
        abort();
}

uint8_t *test_read_file(const char *path, size_t *ret_length)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        abort();
    long n = ftell(f);
    uint8_t *data = malloc((size_t)n + 1);
    rewind(f);
    if (n < 0 || !data || fread(data, 1, (size_t)n, f) != (size_t)n)
        abort();
    fclose(f);
    data[n] = 0;
    *ret_length = (size_t)n;
    return data;
}

static bool fault_answer(void *user, enum fault_kind kind, const char *what)
{
    (void)user, (void)what;
    if ((int)kind != fault.kind)
        return false;
    uint64_t n = atomic_fetch_add(&fault.calls, 1);
    return fault.forever ? n >= fault.at : n == fault.at;
}

void test_fault_arm(int kind, uint64_t n, bool forever)
{
    fault.kind = kind;
    fault.at = n;
    fault.forever = forever;
    atomic_store(&fault.calls, 0);
    fault_set(fault_answer, NULL);
}

uint64_t test_fault_calls(void)
{
    return atomic_load(&fault.calls);
}

void test_fault_clear(void)
{
    fault_set(NULL, NULL);
}

static bool has_name(const struct test *tests, const char *part)
{
    while (tests->name && !strstr(tests->name, part))
        tests++;
    return tests->name != NULL;
}

/* An argument that matches no test would otherwise pass by running nothing. */
static bool names_match(int argc, char **argv, const struct test *tests)
{
    int wrong = 0;
    for (int i = 1; i < argc; i++)
        if (!has_name(tests, argv[i])) {
            fprintf(stderr, "%s: no test has \"%s\" in its name\n", argv[0], argv[i]);
            wrong++;
        }
    if (wrong)
        fprintf(stderr, "the tests are:\n");
    for (const struct test *t = tests; wrong && t->name; t++)
        fprintf(stderr, "  %s\n", t->name);
    return wrong == 0;
}

static bool is_wanted(const struct test *t, int argc, char **argv)
{
    bool wanted = argc < 2;
    for (int i = 1; i < argc; i++)
        wanted |= strstr(t->name, argv[i]) != NULL;
    return wanted;
}

static int run_all(int argc, char **argv, const struct test *tests)
{
    int number = 0, failed = 0;
    for (const struct test *t = tests; t->name; t++) {
        if (!is_wanted(t, argc, argv))
            continue;
        failures = 0;
        t->run();
        printf("%sok %d - %s\n", failures ? "not " : "", ++number, t->name);
        failed += failures != 0;
    }
    printf("1..%d\n", number);
    return failed != 0;
}

int test_main(int argc, char **argv, const struct test *tests)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int code = names_match(argc, argv, tests) ? run_all(argc, argv, tests) : TEST_NO_SUCH_NAME;
    if (folder[0])
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}

#ifdef COUNTS_LINES
void __gcov_dump(void);
#endif

void test_exit(int code)
{
#ifdef COUNTS_LINES
    __gcov_dump();
#endif
    _exit(code);
}
