/* test_thread.c: groups of workers start whole or not at all, and can be waited for; numbered tasks over them. */
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/thread.h"
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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
    CHECK(thread_group_wait(g, 300000));
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

/* ---- Numbered tasks ---- */

/* The third fails at once, the first takes its time. */
static pst_status fail_some(void *user, size_t i, pst_error *reterr)
{
    atomic_fetch_add((_Atomic unsigned *)user, 1);
    for (int n = 0; i == 1 && n < 20; n++)
        pause_briefly();
    return i == 1 || i >= 3 ? pst_fail(reterr, PST_EINVAL, "%zu", i) : PST_OK;
}

static void test_each_task(void)
{
    for (unsigned threads = 1; threads <= 8; threads *= 2) {
        pst_error error;
        _Atomic unsigned calls = 0;
        CHECK_STATUS(parallel_each(100, threads, fail_some, &calls, &error), PST_EINVAL, &error);
        CHECK_STR(error.message, "1");
        CHECK(calls <= 2 + threads); /* nothing new is begun after a failure */
        CHECK_STATUS(parallel_each(1, threads, fail_some, &calls, &error), PST_OK, &error);
        CHECK_STATUS(parallel_each(0, threads, fail_some, &calls, &error), PST_OK, &error);
        CHECK_STATUS(parallel_each(100, threads, fail_some, &calls, NULL), PST_EINVAL, NULL);
    }
}

static pst_status count_here(void *user, size_t i, pst_error *reterr)
{
    (void)i, (void)reterr;
    atomic_fetch_add((_Atomic unsigned *)user, 1);
    return PST_OK;
}

static pst_status count_task(void *user, size_t i, struct meter *meter, pst_error *reterr)
{
    return meter_add(meter, 1, 10, reterr) < 0 ? PST_ECANCELLED : count_here(user, i, reterr);
}

/* Without threads the work is done by the caller where it said so, and refused where it did not. */
static void test_no_threads(void)
{
    pst_error error;
    _Atomic unsigned calls = 0;
    struct parallel p = {.tasks = 7, .workers = 4, .run = count_task, .user = &calls};
    uint64_t before = mem_live();
    test_fault_arm(FAULT_THREAD, 0, true);
    CHECK_STATUS(parallel_each(7, 4, count_here, &calls, &error), PST_OK, &error);
    CHECK_INT(calls, 7);
    CHECK(parallel_run(&p, &error) < 0);
    CHECK_INT(calls, 7);
    test_fault_clear();
    CHECK_STATUS(parallel_run(&p, &error), PST_OK, &error);
    CHECK_INT(calls, 14);
    CHECK_INT(mem_live(), before);
}

static int stop_at_once(void *user, const pst_progress *progress)
{
    (void)user;
    return progress->total == 7;
}

static void test_cancelled(void)
{
    pst_error error;
    _Atomic unsigned calls = 0;
    struct parallel p = {
        .tasks = 7, .workers = 2, .run = count_task, .user = &calls, .total = 7, .progress = stop_at_once, .here = true};
    CHECK_STATUS(parallel_run(&p, &error), PST_ECANCELLED, &error);
}

struct turns {
    int policy, nice_before, nice_after, policy_after;
};

static void take_long_turns(void *user, unsigned worker)
{
    struct turns *t = user;
    (void)worker;
    sched_setscheduler(0, t->policy, &(struct sched_param){0});
    setpriority(PRIO_PROCESS, 0, 7);
    t->nice_before = getpriority(PRIO_PROCESS, 0);
    thread_take_long_turns();
    t->nice_after = getpriority(PRIO_PROCESS, 0);
    t->policy_after = sched_getscheduler(0);
}

/* What the application chose for its threads stays. */
static void test_long_turns(void)
{
    static const int policies[] = {SCHED_OTHER, SCHED_BATCH};
    pst_error error;
    for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        struct turns t = {.policy = policies[i]};
        struct thread_group *g;
        CHECK_STATUS(thread_group_start(&g, 1, "turns", take_long_turns, &t, &error), PST_OK, &error);
        thread_group_join(g);
        CHECK(t.nice_before == 7 && t.nice_after == 7);
        CHECK(t.policy_after == t.policy);
    }
}

static const struct test tests[] = {
    {"long turns leave priority and policy alone", test_long_turns},
    {"first use of a kernel from many threads", test_first_use},
    {"each worker runs once", test_each_once},
    {"names and signals", test_names_and_signals},
    {"waiting with a limit", test_wait},
    {"a refused thread", test_refused},
    {"numbered tasks", test_each_task},
    {"tasks without threads", test_no_threads},
    {"tasks that are cancelled", test_cancelled},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
