/* test_thread.c: groups of workers start whole or not at all, and can be waited for. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/thread.h"
#include "harness.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

struct shared {
    _Atomic unsigned calls[64];
    _Atomic unsigned total;
    _Atomic bool release;
    char names[64][32];
    bool blocks_interrupt[64];
};

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void note(void *user, unsigned worker)
{
    struct shared *s = user;
    sigset_t set;
    s->calls[worker]++;
    s->total++;
    pthread_getname_np(pthread_self(), s->names[worker], sizeof(s->names[worker]));
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    s->blocks_interrupt[worker] = sigismember(&set, SIGINT) && !sigismember(&set, SIGSEGV);
}

static void hold(void *user, unsigned worker)
{
    struct shared *s = user;
    note(user, worker);
    while (!s->release)
        pause_briefly();
}

static void test_each_once(void)
{
    pst_error e;
    uint64_t before = mem_live();
    for (unsigned count = 0; count <= 20; count += 4) {
        struct shared s = {0};
        struct thread_group *g = NULL;
        REQUIRE_OK(thread_group_start(&g, count, "pst-worker", note, &s, &e), &e);
        CHECK(thread_group_wait(g, UINT32_MAX));
        CHECK(thread_group_wait(g, 0));
        CHECK(thread_group_join(g) == NULL);
        CHECK_INT(s.total, count);
        for (unsigned i = 0; i < count; i++)
            CHECK_INT(s.calls[i], 1);
    }
    CHECK(thread_group_join(NULL) == NULL);
    CHECK_INT(mem_live(), before);
}

static void test_names_and_signals(void)
{
    pst_error e;
    static const char *const given[] = {"pst-worker", "a-name-beyond-the-limit"}, *const want[] = {"pst-worker-11",
                                                                                                   "a-name-beyon-11"};
    sigset_t mine;
    for (int i = 0; i < 2; i++) {
        struct shared s = {0};
        struct thread_group *g = NULL;
        REQUIRE_OK(thread_group_start(&g, 12, given[i], note, &s, &e), &e);
        thread_group_join(g);
        CHECK_STR(s.names[11], want[i]);
        CHECK(s.blocks_interrupt[11]);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mine);
    CHECK(!sigismember(&mine, SIGINT)); /* the caller's own mask is as it was */
}

static void test_wait(void)
{
    pst_error e;
    struct shared s = {0};
    struct thread_group *g = NULL;
    REQUIRE_OK(thread_group_start(&g, 3, "hold", hold, &s, &e), &e);
    CHECK(!thread_group_wait(g, 0));
    uint64_t start = clock_ns();
    CHECK(!thread_group_wait(g, 30));
    CHECK(clock_ns() - start >= 29000000);
    s.release = true;
    CHECK(thread_group_wait(g, 10000));
    CHECK_INT(s.total, 3);
    thread_group_join(g);
}

/* Thread `n` is refused: no worker ran, none is left, and `*ret` is untouched. */
static void test_refused(void)
{
    pst_error e;
    uint64_t before = mem_live();
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t n = 0;; n++) {
            struct shared s = {0};
            struct thread_group *g = NULL;
            test_fault_arm(FAULT_THREAD, n, forever);
            pst_status st = thread_group_start(&g, 5, "w", note, &s, &e);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            if (!hit) {
                CHECK_STATUS(st, PST_OK, &e);
                thread_group_join(g);
                CHECK_INT(s.total, 5);
                CHECK_INT(n, 5);
                break;
            }
            CHECK_STATUS(st, PST_EIO, &e);
            CHECK_INT(e.sys_errno, EAGAIN);
            CHECK_INT(s.total, 0);
            CHECK(g == NULL);
            char want[32];
            snprintf(want, sizeof(want), "thread %d of 5", (int)n + 1);
            CHECK_MSG(strstr(e.message, want) != NULL, "%s", e.message);
        }
    }
    test_fault_arm(FAULT_MEMORY, 0, false);
    struct thread_group *g = NULL;
    CHECK_STATUS(thread_group_start(&g, 5, "w", note, NULL, &e), PST_ENOMEM, &e);
    test_fault_clear();
    test_fault_arm(FAULT_THREAD, 0, false);
    CHECK_INT(thread_group_start(&g, 5, "w", note, NULL, NULL), PST_EIO);
    test_fault_clear();
    CHECK_INT(mem_live(), before);
}

static _Atomic unsigned wrong;

static void first_checksum(void *user, unsigned worker)
{
    (void)user, (void)worker;
    if (crc32c_extend(0, "123456789", 9) != 0xe3069283u)
        wrong++;
}

/* All meet at the first call of the chosen kernel. */
static void test_first_use(void)
{
    pst_error e;
    struct thread_group *g = NULL;
    REQUIRE_OK(thread_group_start(&g, 16, "crc", first_checksum, NULL, &e), &e);
    thread_group_join(g);
    CHECK_INT(wrong, 0);
}

static const struct test tests[] = {
    {"first use of a kernel from many threads", test_first_use},
    {"each worker runs once", test_each_once},
    {"names and signals", test_names_and_signals},
    {"waiting with a limit", test_wait},
    {"a refused thread", test_refused},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
