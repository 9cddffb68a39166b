/* doctor_ranks.c: see doctor_ranks.h. The job is this very tool: `mpirun -n 2 penstock train …`, whose second epoch is measured. Everything that it
 * listens on is bound to the loopback interface. */
#include "cli/doctor_ranks.h"

#include "cli/clock.h"
#include "cli/interrupt.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONGEST  90.0 /* seconds; PENSTOCK_RANKS_SECONDS sets another limit */
#define GRACE    2.0  /* seconds between SIGTERM and SIGKILL */
#define MOST_OUT 65536
#define KEY      "\"images_per_s\":"

extern char **environ;

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

/* Loopback only, and more processes than cores where it has to be. What the user has set counts. */
static void set_up_mpi(void)
{
    static const char *const names[][2] = {{"OMPI_MCA_oob_tcp_if_include", "lo"},         {"OMPI_MCA_btl_tcp_if_include", "lo"},
                                           {"OMPI_MCA_rmaps_base_oversubscribe", "1"},    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                           {"HYDRA_IFACE", "lo"},                         {"MPICH_NETWORK_IFACE", "lo"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        setenv(names[i][0], names[i][1], 0);
}

static double longest(void)
{
    const char *text = getenv("PENSTOCK_RANKS_SECONDS");
    double seconds = text ? strtod(text, NULL) : 0;

    return seconds > 0 ? seconds : LONGEST;
}

/* Reads what the job prints until it closes its output; false: that takes too long, or the user wants to stop. */
static bool read_all(int fd, char *out, size_t size, double until)
{
    size_t used = 0;
    ssize_t got = 1;
    struct pollfd p = {.fd = fd, .events = POLLIN};

    while (got > 0 && now_seconds() < until && !interrupt_requested()) {
        if (poll(&p, 1, 100) <= 0)
            continue;
        got = read(fd, out + used, size - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        if (used == size - 1)
            used = size / 2; /* the last lines count */
        out[used] = '\0';
    }
    return got <= 0;
}

static bool start(char *const *arguments, pid_t *ret_pid, int *ret_fd)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int ends[2];
    bool started;

    if (pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); /* it ends as a whole */
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    started = posix_spawnp(ret_pid, arguments[0], &actions, &attributes, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (!started)
        close(ends[0]);
    *ret_fd = ends[0];
    return started;
}

/* Waits until the job has ended; false: it has not until then, or the user wants to stop (`stops`). */
static bool wait_until(pid_t pid, double until, bool stops)
{
    siginfo_t done = {0};

    waitid(P_PID, (id_t)pid, &done, WEXITED | WNOHANG | WNOWAIT); /* it stays, so that its number is not given to another */
    while (!done.si_pid && now_seconds() < until && !(stops && interrupt_requested())) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        waitid(P_PID, (id_t)pid, &done, WEXITED | WNOHANG | WNOWAIT);
    }
    return done.si_pid != 0;
}

/* Ends the job with everything that it started: asks first, so that the launcher can clean up. */
static void end(pid_t pid)
{
    kill(-pid, SIGTERM);
    wait_until(pid, now_seconds() + GRACE, false);
    kill(-pid, SIGKILL);
}

/* Runs the job and returns the rate of its last epoch; 0: it failed. */
static double measure(char *const *arguments)
{
    char *out = malloc(MOST_OUT), *at, *last = NULL;
    pid_t pid;
    int fd, status = 0;
    double rate = 0, until;

    if (out && start(arguments, &pid, &fd)) {
        out[0] = '\0';
        until = now_seconds() + longest();
        if (!read_all(fd, out, MOST_OUT, until) || !wait_until(pid, until, true))
            end(pid); /* also a job that has closed its output and stays */
        close(fd);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        for (at = strstr(out, KEY); at; at = strstr(at + 1, KEY))
            last = at;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && last)
            rate = strtod(last + strlen(KEY), NULL);
    }
    free(out);
    return rate;
}

struct command_line {
    const char *arguments[48];
    size_t count;
    char numbers[8][24];
    size_t used; /* of `numbers` */
};

static void add(struct command_line *l, const char *argument)
{
    l->arguments[l->count++] = argument;
}

static void add_option(struct command_line *l, const char *name, const char *value)
{
    if (!value)
        return;
    add(l, name);
    add(l, value);
}

/* `absent`: what the option is if it is not given. */
static void add_number(struct command_line *l, const char *name, uint64_t value, uint64_t absent)
{
    char *text = l->numbers[l->used];

    if (value == absent)
        return;
    l->used++;
    snprintf(text, sizeof(l->numbers[0]), "%llu", (unsigned long long)value);
    add_option(l, name, text);
}

/* What is said of the pipeline holds for the job, too; its ranks are its own. */
static void add_pipeline_options(struct command_line *l, const struct pipeline_config *c)
{
    add_number(l, "--workers", c->workers, 0);
    add_number(l, "--prefetch", c->prefetch, 0);
    add_number(l, "--ram", c->ram, 0);
    add_number(l, "--seed", c->seed, 0);
    add_option(l, "--bad", c->bad);
    add_option(l, "--cache", c->cache);
    add_option(l, "--plugin", c->plugin);
    if (c->no_fuse)
        add(l, "--no-fuse");
    if (c->no_verify)
        add(l, "--no-verify");
}

pst_status doctor_run_ranks(void *user, const pst_doctor_ranks *job, double *ret_rate, pst_error *reterr)
{
    const char *temp = getenv("TMPDIR");
    char folder[PATH_MAX], run[PATH_MAX + 8], tool[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", tool, sizeof(tool) - 1);
    struct command_line line = {0};

    snprintf(folder, sizeof(folder), "%s/penstock-ranks-XXXXXX", temp && *temp ? temp : "/tmp");
    if (n <= 0 || !mkdtemp(folder))
        return pst_fail(reterr, PST_EUNSUPPORTED, "no temporary folder can be made");
    tool[n] = '\0';
    snprintf(run, sizeof(run), "%s/run", folder);
    if (job->ranks > 1) {
        set_up_mpi();
        add(&line, "mpirun");
        add_number(&line, "-n", job->ranks, 0);
    }
    const char *const rest[] = {tool, "train", job->pipeline, "--model", job->model, "--epochs", "2", "--out", run, "--json"};
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++)
        add(&line, rest[i]);
    add_number(&line, "--steps-per-epoch", job->steps, UINT64_MAX);
    add_pipeline_options(&line, user);
    *ret_rate = measure((char *const *)(uintptr_t)line.arguments);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (interrupt_requested())
        return pst_fail(reterr, PST_ECANCELLED, "interrupted");
    return *ret_rate > 0 ? PST_OK : pst_fail(reterr, PST_EUNSUPPORTED, "mpirun is missing, or the job failed");
}
