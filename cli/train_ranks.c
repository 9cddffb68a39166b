/* train_ranks.c: see train_ranks.h. */
#include "cli/train_ranks.h"
#include "cli/say.h"
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RANKS_SHOWN 64
#define BIND_NONE   1

/* What ranks tell each other about themselves. */
struct place {
    cpu_set_t cores;
    uint32_t threads;
};

/* mpirun drops what it has not yet forwarded of a job that is aborted. */
static void let_messages_arrive(void)
{
    fflush(NULL);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
}

/* Called on a thread of the library; all ranks end afterwards. */
static void on_failure(void *user, const pst_error *error)
{
    const struct train_session *s = user;
    const char *out = s->resume ? s->resume : s->config->out;

    say_failure(s->command, error, false);
    if (out)
        say_try("mpirun ... penstock train --resume %s", out);
    let_messages_arrive();
}

/* "0-3,8". Returns `text`. */
static const char *cores_text(const cpu_set_t *cores, char *text, size_t size)
{
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i < CPU_SETSIZE && used < size; i++) {
        int last = i;

        if (!CPU_ISSET(i, cores))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cores))
            last++;
        used += (size_t)snprintf(text + used, size - used, last > i ? "%s%d-%d" : "%s%d", used ? "," : "", i, last);
        i = last;
    }
    return text;
}

/* Where no launcher has bound the ranks of this machine, each takes its share of the cores. */
static void bind(const struct train_session *s, const struct place *places, struct place *mine)
{
    pst_rank_info me = {.size = sizeof(me)}, other = {.size = sizeof(other)};
    unsigned count = (unsigned)CPU_COUNT(&mine->cores), at = 0;
    cpu_set_t share;

    pst_comm_info(s->comm, pst_comm_rank(s->comm), &me);
    for (unsigned r = 0; r < pst_comm_size(s->comm); r++)
        if (pst_comm_info(s->comm, r, &other) && strcmp(other.host, me.host) == 0 && !CPU_EQUAL(&places[r].cores, &mine->cores))
            return; /* bound */
    if (s->config->bind == BIND_NONE || me.locals < 2 || count < me.locals)
        return;
    CPU_ZERO(&share);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &mine->cores)) {
            if (at >= count * me.local / me.locals && at < count * (me.local + 1) / me.locals)
                CPU_SET(i, &share);
            at++;
        }
    if (sched_setaffinity(0, sizeof(share), &share) == 0)
        mine->cores = share;
}

static void show(const struct train_session *s, const struct place *places)
{
    uint64_t each = s->config->accumulate ? s->config->accumulate : 1, ranks = pst_comm_size(s->comm);
    char cores[256];

    printf("%" PRIu64 " ranks over %s, %" PRIu64 " %s per update%s\n", ranks, pst_comm_name(s->comm), ranks * each,
           plural(ranks * each, "batch", "batches"), s->config->exact_ranks ? ", bits as of one process" : "");
    for (unsigned r = 0; r < ranks && r < RANKS_SHOWN; r++) {
        pst_rank_info i = {.size = sizeof(i)};

        pst_comm_info(s->comm, r, &i);
        printf("  rank %u  process %" PRIu64 " on %s  cores %s\n", r, i.pid, i.host, cores_text(&places[r].cores, cores, sizeof(cores)));
    }
    if (ranks > RANKS_SHOWN)
        printf("  and %" PRIu64 " more\n", ranks - RANKS_SHOWN);
    fflush(stdout);
}

static pst_status introduce(struct train_session *s, pst_error *error)
{
    struct place mine = {.threads = (uint32_t)s->config->threads}, *all = calloc(pst_comm_size(s->comm), sizeof(*all));
    pst_status status = PST_OK;

    if (!all)
        return pst_fail(error, PST_ENOMEM, "out of memory");
    sched_getaffinity(0, sizeof(mine.cores), &mine.cores);
    status = pst_comm_gather(s->comm, &mine, sizeof(mine), all, error);
    if (status == PST_OK) {
        bind(s, all, &mine);
        status = pst_comm_gather(s->comm, &mine, sizeof(mine), all, error);
    }
    if (status == PST_OK && pst_comm_rank(s->comm) == 0 && !s->config->quiet && !s->config->json)
        show(s, all);
    free(all);
    return status;
}

/* ---- Machines ---- */

/* How many machines the ranks are on. Parts for hosts need as many ranks on each, numbered one machine after the other. */
static pst_status count_hosts(const pst_comm *comm, uint64_t *ret, pst_error *error)
{
    pst_rank_info first = {.size = sizeof(first)}, before = {.size = sizeof(before)}, i = {.size = sizeof(i)};
    unsigned hosts = 0, ranks = pst_comm_size(comm);

    pst_comm_info(comm, 0, &first);
    for (unsigned r = 0; r < ranks; r++) {
        pst_comm_info(comm, r, &i);
        if (i.locals != first.locals)
            return pst_fail(error, PST_EINVAL, "--hosts auto: %s has %u ranks and %s has %u; start as many on each machine, or leave --hosts out", first.host,
                            first.locals, i.host, i.locals);
        if (i.local != r % i.locals || (i.local && strcmp(i.host, before.host) != 0))
            return pst_fail(error, PST_EINVAL, "--hosts auto: the ranks take turns over the machines; have them numbered one machine after the other (Open MPI: "
                                               "--map-by slot, Slurm: --distribution=block), or leave --hosts out");
        hosts += i.local == 0;
        before = i;
    }
    *ret = hosts;
    return PST_OK;
}

/* The run is recorded with the number: a resume on other machines has the same order. */
static pst_status record_hosts(struct train_session *s, pst_error *error)
{
    s->own_arguments = calloc(s->argument_count + 1, sizeof(*s->own_arguments));
    if (!s->own_arguments)
        return pst_fail(error, PST_ENOMEM, "out of memory");
    snprintf(s->hosts_text, sizeof(s->hosts_text), "--hosts=%" PRIu64, s->pipeline.hosts);
    for (size_t i = 0; i < s->argument_count; i++) {
        bool apart = i > 0 && strcmp(s->arguments[i - 1], "--hosts") == 0 && strcmp(s->arguments[i], "auto") == 0;

        s->own_arguments[i] = apart ? strchr(s->hosts_text, '=') + 1 : strcmp(s->arguments[i], "--hosts=auto") == 0 ? s->hosts_text : s->arguments[i];
    }
    s->arguments = s->own_arguments;
    return PST_OK;
}

static pst_status find_hosts(struct train_session *s, pst_error *error)
{
    pst_status status = PST_OK;

    if (s->pipeline.hosts)
        return PST_OK;
    s->pipeline.hosts = 1;
    if (s->comm)
        status = count_hosts(s->comm, &s->pipeline.hosts, error);
    return status == PST_OK ? record_hosts(s, error) : status;
}

/* ---- Opening and closing ---- */

int ranks_open(struct train_session *s)
{
    const struct train_config *c = s->config;
    pst_launch launch = {.size = sizeof(launch)};
    pst_comm_options o = {.size = sizeof(o), .plugin = getenv("PENSTOCK_PLUGIN"), .timeout = c->rank_timeout, .failed = on_failure, .user = s};
    pst_error error;

    if (!pst_launch_find(&launch))
        return c->pipeline.world == 1 && find_hosts(s, &error) < 0 ? say_failure(s->command, &error, c->json) : EXIT_DONE;
    if (c->pipeline.world > 1 && (c->pipeline.world != launch.ranks || c->pipeline.rank != launch.rank))
        return say_usage(s->command, "--rank %" PRIu64 " --world %" PRIu64 " contradict %s, which says rank %u of %u; leave them out", c->pipeline.rank,
                         c->pipeline.world, launch.launcher, launch.rank, launch.ranks);
    if (pst_comm_open(&s->comm, &o, &error) < 0 || introduce(s, &error) < 0 || find_hosts(s, &error) < 0)
        return say_failure(s->command, &error, c->json);
    s->pipeline.rank = pst_comm_rank(s->comm);
    s->pipeline.world = pst_comm_size(s->comm);
    s->pipeline.rank_given = true;
    s->pipeline.uneven = c->sync_norm ? PST_UNEVEN_DROP : PST_UNEVEN_ALLOW;
    s->silent = s->pipeline.rank > 0;
    return EXIT_DONE;
}

uint64_t ranks_agree(const struct train_session *s, uint64_t number)
{
    if (s->comm)
        (void)pst_comm_broadcast(s->comm, &number, sizeof(number), 0, NULL);
    return number;
}

bool ranks_waiting(const struct train_session *s, int code)
{
    return s->comm && code != EXIT_DONE && !s->together;
}

void ranks_close(struct train_session *s, int code)
{
    if (ranks_waiting(s, code)) {
        pst_rank_info me = {.size = sizeof(me)};

        pst_comm_info(s->comm, pst_comm_rank(s->comm), &me);
        say_note("rank %u (process %" PRIu64 " on %s) ends the job", pst_comm_rank(s->comm), me.pid, me.host);
        let_messages_arrive();
        pst_comm_abort(s->comm, code);
    }
    s->comm = pst_comm_close(s->comm);
}

int ranks_divide(const struct command *command, struct train_config *c, uint64_t total)
{
    pst_launch launch = {.size = sizeof(launch), .ranks = 1};
    uint64_t ranks = pst_launch_find(&launch) ? launch.ranks : 1;

    if (total % ranks)
        return say_usage(command, "the run takes %" PRIu64 " batches per update, which %" PRIu64 " ranks cannot share evenly; use a divisor of %" PRIu64
                                  " as the number of ranks", total, ranks, total);
    c->accumulate = total / ranks;
    return EXIT_DONE;
}
