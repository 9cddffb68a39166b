/* harness.h: a unit test is a table of named functions run by test_main; output is TAP.
 *
 * CHECK and its kin record a failure with the place and go on; REQUIRE leaves the test. `argv` filters by parts of
 * names: every test has a fixed seed and can be replayed alone. A part that no name has lists the names and fails. */
#ifndef TESTS_HARNESS_H
#define TESTS_HARNESS_H

#include <penstock/base.h>

struct test {
    const char *name;
    void (*run)(void);
};

#define TEST_NO_SUCH_NAME 2 /* exit code */

int test_main(int argc, char **argv, const struct test *tests); /* the table ends with a NULL name */
bool test_report(bool ok, const char *file, int line, const char *format, ...) PST_PRINTF(4, 5); /* returns ok */

#define CHECK(condition) test_report((condition), __FILE__, __LINE__, "%s", #condition)
#define CHECK_MSG(condition, ...) test_report((condition), __FILE__, __LINE__, __VA_ARGS__)
#define CHECK_INT(got, want) test_check_int((long long)(got), (long long)(want), __FILE__, __LINE__, #got)
#define CHECK_STR(got, want) test_check_str((got), (want), __FILE__, __LINE__, #got)
#define CHECK_STATUS(got, want, error) test_check_status((got), (want), (error), __FILE__, __LINE__, #got)
#define REQUIRE(condition)                                                                                                       \
    do {                                                                                                                         \
        if (!test_report((condition), __FILE__, __LINE__, "%s", #condition))                                                     \
            return;                                                                                                              \
    } while (0)
#define REQUIRE_OK(call, error)                                                                                                  \
    do {                                                                                                                         \
        if (!test_check_status((call), PST_OK, (error), __FILE__, __LINE__, #call))                                              \
            return;                                                                                                              \
    } while (0)

bool test_check_int(long long got, long long want, const char *file, int line, const char *what);
bool test_check_str(const char *got, const char *want, const char *file, int line, const char *what);
bool test_check_status(pst_status got, pst_status want, const pst_error *error, const char *file, int line, const char *what);

/* A fresh empty folder for this test program, removed at the end of test_main. */
const char *test_folder(void);
/* "<test_folder>/name"; the returned buffer is one of eight used in turn. */
const char *test_path(const char *name);
/* Writes / reads whole files; abort on failure. The bytes are malloc'ed. */
void test_write_file(const char *path, const void *data, size_t length);
uint8_t *test_read_file(const char *path, size_t *ret_length);

/* Waits until every other thread of the process waits for something, at several looks in a row: what was begun is done, however slow the
 * machine is. */
void test_wait_until_idle(void);

/* Faults: makes the `n`th call of a kind (0-based; `forever`: and all after it) fail until cleared; test_fault_calls
 * says how many calls there were since. `kind` is an enum fault_kind. */
void test_fault_arm(int kind, uint64_t n, bool forever);
uint64_t test_fault_calls(void);
void test_fault_clear(void);

/* Ends a forked child like _exit, without the parent's buffers and handlers; in a build that counts lines, the child's lines count. */
_Noreturn void test_exit(int code);

#endif
