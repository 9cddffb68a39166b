/* test_monitor.c: the socket of a running pipeline and its reader, and traces: answers, refusals, every failure. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"

#include <penstock/monitor.h>
#include <penstock/report.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static pst_pipeline *open_pipeline(const char *folder, uint64_t trace, pst_status *ret_status)
{
    pst_pipeline_options o = {.size = sizeof(o), .workers = 2, .monitor = folder, .trace = trace};
    pst_pipeline *p = NULL;
    pst_error error;
    *ret_status = pst_pipeline_parse(&p, "range 1000 | batch 10", &o, &error);
    if (*ret_status == PST_OK)
        *ret_status = pst_pipeline_start(p, &error);
    return p;
}

static pst_status take(pst_pipeline *p, size_t count)
{
    pst_status st = PST_OK;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        pst_batch *b = NULL;
        st = pst_pipeline_next(p, &b, NULL);
        pst_batch_unref(b);
    }
    return st;
}

static size_t list(const char *folder, char path[512])
{
    char **paths = NULL;
    size_t count = 0;
    CHECK_INT(pst_monitor_list(&paths, &count, folder, NULL), PST_OK);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, 512, "%s", paths[i]);
        pst_free(paths[i]);
    }
    pst_free(paths);
    return count;
}

static void statistics_are_read(void)
{
    const char *folder = test_path("mon");
    char path[512];
    pst_status st;
    pst_pipeline *p = open_pipeline(folder, 0, &st);
    pst_pipeline *q = open_pipeline(folder, 0, &st); /* a second one of the same process */
    pst_monitor_view v = {.size = sizeof(v)};
    pst_stats s = {.size = sizeof(s)};
    REQUIRE(st == PST_OK);
    CHECK_INT(take(p, 7), PST_OK);
    CHECK_INT(list(folder, path), 2);
    q = pst_pipeline_destroy(q);
    REQUIRE(list(folder, path) == 1);
    REQUIRE(pst_monitor_read(&v, path, 5, NULL) == PST_OK);
    pst_pipeline_stats(p, &s, NULL);
    CHECK_INT(v.pid, getpid());
    CHECK_INT(v.world, 1);
    CHECK_INT(v.stats.samples, 70);
    CHECK_INT(v.stats.batches, 7);
    CHECK_INT(v.stats.stages, s.stages);
    CHECK_STR(v.stats.stage[1].name, s.stage[1].name);
    CHECK_INT(v.stats.workers, s.workers);
    CHECK(v.seconds > 0 && strstr(v.pipeline, "| batch 10"));
    pst_pipeline_destroy(p);
    CHECK_INT(list(folder, path), 0);
    CHECK_INT(pst_monitor_read(&v, path, 1, NULL), PST_ENOTFOUND);
    CHECK_INT(list(test_path("absent"), path), 0);
}

static void *read_again_and_again(void *user)
{
    pst_monitor_view v = {.size = sizeof(v)};
    for (int i = 0; i < 50; i++)
        pst_monitor_read(&v, user, 5, NULL);
    return NULL;
}

static void readers_do_not_disturb(void)
{
    const char *folder = test_path("busy");
    char path[512];
    pst_status st;
    pthread_t thread[2];
    pst_pipeline *p = open_pipeline(folder, 0, &st);
    REQUIRE(st == PST_OK && list(folder, path) == 1);
    for (int i = 0; i < 2; i++)
        REQUIRE(pthread_create(&thread[i], NULL, read_again_and_again, path) == 0);
    for (int i = 0; i < 5; i++)
        CHECK_INT(take(p, 101), PST_END);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    pst_pipeline_destroy(p);
}

static void wrong_folders_are_refused(void)
{
    char folder[512], longer[300];
    pst_status st;
    snprintf(folder, sizeof(folder), "%s", test_path("open"));
    REQUIRE(mkdir(folder, 0700) == 0 && chmod(folder, 0777) == 0);
    pst_pipeline_destroy(open_pipeline(folder, 0, &st));
    CHECK_INT(st, PST_EINVAL);
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    snprintf(folder, sizeof(folder), "%s/%.100s", test_folder(), longer);
    pst_pipeline_destroy(open_pipeline(folder, 0, &st));
    CHECK_INT(st, PST_EINVAL); /* no room for the name of a socket */
    pst_pipeline_destroy(open_pipeline(test_path("no/such/folder"), 0, &st));
    CHECK_INT(st, PST_EIO);
}

/* Serves `answer` once at `path`. */
struct liar {
    int fd;
    const char *answer;
};

static void *lie(void *user)
{
    struct liar *l = user;
    int client = accept(l->fd, NULL, NULL);
    if (client >= 0) {
        (void)!write(client, l->answer, strlen(l->answer));
        close(client);
    }
    return NULL;
}

static void other_answers_are_refused(void)
{
    static const char *const answers[] = {"",
                                          "{",
                                          "[]",
                                          "{\"schema\": 2}",
                                          "{\"schema\": 1, \"stages\": 7}",
                                          "{\"schema\": 1, \"stages\": [1, {\"name\": 3}], \"samples\": \"x\"}"};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        struct liar liar = {.fd = socket(AF_UNIX, SOCK_STREAM, 0), .answer = answers[i]};
        pst_monitor_view v = {.size = sizeof(v)};
        pthread_t thread;
        snprintf(address.sun_path, sizeof(address.sun_path), "%s", test_path("liar"));
        unlink(address.sun_path);
        REQUIRE(bind(liar.fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(liar.fd, 1) == 0);
        REQUIRE(pthread_create(&thread, NULL, lie, &liar) == 0);
        CHECK_INT(pst_monitor_read(&v, address.sun_path, 5, NULL), i < 4 ? PST_ECORRUPT : PST_OK);
        pthread_join(thread, NULL);
        CHECK_INT(pst_monitor_read(&v, address.sun_path, 0.05, NULL), PST_TIMEOUT); /* connected, but nobody answers */
        close(liar.fd);
    }
}

static void traces_need_the_option(void)
{
    pst_status st;
    pst_error error;
    pst_pipeline *p = open_pipeline(NULL, 0, &st);
    REQUIRE(st == PST_OK);
    CHECK_INT(pst_pipeline_trace(p, test_path("t.json"), false, &error), PST_EINVAL);
    CHECK(strstr(error.message, "options.trace") != NULL);
    pst_pipeline_destroy(p);
}

static void traces_are_bounded(void)
{
    const char *path = test_path("t.json");
    size_t length;
    pst_status st;
    pst_pipeline *p = open_pipeline(NULL, 1, &st); /* the least: 1024 events per lane */
    REQUIRE(st == PST_OK);
    for (int i = 0; i < 8; i++)
        CHECK_INT(take(p, 101), PST_END);
    CHECK_INT(pst_pipeline_trace(p, path, false, NULL), PST_OK);
    CHECK_INT(pst_pipeline_trace(p, path, false, NULL), PST_EEXIST);
    CHECK_INT(pst_pipeline_trace(p, path, true, NULL), PST_OK);
    free(test_read_file(path, &length));
    CHECK(length > 1000 && length < 3 * 1024 * 200 + 1024 * 300);
    pst_pipeline_destroy(p);
}

static pst_status everything(const char *folder, const char *trace)
{
    pst_status st;
    pst_pipeline *p = open_pipeline(folder, 100, &st);
    if (st == PST_OK)
        st = take(p, 3);
    if (st == PST_OK)
        st = pst_pipeline_trace(p, trace, true, NULL);
    pst_pipeline_destroy(p);
    return st;
}

static void anything_may_fail(void)
{
    static const enum fault_kind kinds[] = {FAULT_MEMORY, FAULT_IO, FAULT_THREAD};
    char folder[512], trace[512];
    snprintf(folder, sizeof(folder), "%s", test_path("faulty"));
    snprintf(trace, sizeof(trace), "%s", test_path("faulty.json"));
    REQUIRE(everything(folder, trace) == PST_OK);
    uint64_t live = mem_live();
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (uint64_t n = 0;; n++) {
            char path[512];
            test_fault_arm(kinds[k], n, false);
            pst_status st = everything(folder, trace);
            bool reached = test_fault_calls() > n;
            test_fault_clear();
            CHECK_MSG(!reached || st <= PST_OK, "fault %zu, call %llu: %d", k, (unsigned long long)n, st);
            CHECK_INT(list(folder, path), 0);
            if (!reached || n > 2000)
                break;
        }
    CHECK_INT(mem_live(), live);
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* While the process has no descriptor for a client that waits, the monitor sleeps; later it answers. */
static void no_descriptors_left(void)
{
    const char *folder = test_path("full");
    char path[512], answer[16] = "";
    pst_status st;
    pst_pipeline *p = open_pipeline(folder, 0, &st);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct rlimit before, none;
    REQUIRE(st == PST_OK && list(folder, path) == 1 && strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    CHECK_INT(take(p, 3), PST_OK);
    CHECK_INT(pst_pipeline_halt(p, 10), PST_OK); /* nothing else computes */
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(fd >= 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = before;
    none.rlim_cur = (rlim_t)fd + 1;
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_INT(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    double begin = cpu_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    CHECK_MSG(cpu_seconds() - begin < 0.1, "the monitor computed for %g of 0.4 seconds", cpu_seconds() - begin);
    CHECK_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK(recv(fd, answer, sizeof(answer) - 1, 0) > 0 && answer[0] == '{');
    close(fd);
    pst_pipeline_destroy(p);
}

static void scalars_are_logged(void)
{
    const char *folder = test_path("logs");
    pst_scalars *s = NULL;
    pst_error error;
    REQUIRE(pst_scalars_open(&s, folder, &error) == PST_OK);
    pst_scalars_add(s, 3, "speed/samples_per_s", 12.5);
    CHECK_INT(pst_scalars_flush(s, &error), PST_OK);
    pst_scalars_add(s, 4, "speed/samples_per_s", 13.5);
    CHECK_INT(pst_scalars_close(s, &error), PST_OK);
    CHECK_INT(pst_scalars_close(NULL, NULL), PST_OK);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){{"statistics are read", statistics_are_read},
                                           {"readers do not disturb", readers_do_not_disturb},
                                           {"wrong folders are refused", wrong_folders_are_refused},
                                           {"other answers are refused", other_answers_are_refused},
                                           {"traces need the option", traces_need_the_option},
                                           {"traces are bounded", traces_are_bounded},
                                           {"anything may fail", anything_may_fail},
                                           {"no descriptors are left", no_descriptors_left},
                                           {"scalars are logged", scalars_are_logged},
                                           {0}});
}
