/* comm_life.c: signs of life. Each rank sends one per second to the rank after it, and listens to the one before it. A rank that is
 * stopped, or whose machine is gone, is silent; one that computes for long is not, since the communication thread speaks for it. */
#include "dist/comm_inside.h"

#include "base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BEAT_NS 1000000000u
#define MOST_ADVANCE 0.5 /* seconds between two looks that count: a process that was stopped itself blames no other */

static unsigned before(const pst_comm *c)
{
    return (c->rank + c->size - 1) % c->size;
}

/* Launchers do not end a job with a stopped process: a signal that asks it to end waits until it continues. So a rank of this machine
 * that is stopped is killed; it must run the same program as this process. */
static void end_stopped(const pst_comm *c, unsigned rank)
{
    char path[64], mine[512], its[512], stat[512], *state;
    const struct life *l = &c->ranks[rank];
    if (strcmp(l->host, c->ranks[c->rank].host) != 0 || !l->pid)
        return;
    snprintf(path, sizeof(path), "/proc/%llu/exe", (unsigned long long)l->pid);
    ssize_t a = readlink("/proc/self/exe", mine, sizeof(mine)), b = readlink(path, its, sizeof(its));
    if (a <= 0 || a != b || memcmp(mine, its, (size_t)a) != 0)
        return;
    snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)l->pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(stat, 1, sizeof(stat) - 1, f) : 0;
    stat[n] = 0;
    if (f)
        fclose(f);
    state = strrchr(stat, ')');
    if (state && strlen(state) > 2 && (state[2] == 'T' || state[2] == 't'))
        kill((pid_t)l->pid, SIGKILL);
}

void life_end_silent(const pst_comm *c)
{
    if (c->size > 1 && c->silent > c->options.timeout)
        end_stopped(c, before(c));
}

void life_begin(pst_comm *c)
{
    if (c->size < 2)
        return;
    comm_receive(c, before(c), TAG_LIFE, &c->life_heard, sizeof(c->life_heard), &c->life_in);
}

void life_look(pst_comm *c)
{
    uint64_t now = clock_ns();
    double passed = 1e-9 * (double)(now - c->looked);
    char name[128];
    if (c->size < 2)
        return;
    if (now - c->looked < BEAT_NS / 100)
        return;
    c->looked = now;
    c->silent += passed < MOST_ADVANCE ? passed : MOST_ADVANCE;
    while (c->life_in && comm_test(c, &c->life_in, 1)) {
        if (comm_is_broken(c))
            return;
        c->silent = 0;
        comm_receive(c, before(c), TAG_LIFE, &c->life_heard, sizeof(c->life_heard), &c->life_in);
    }
    if (now - c->beaten >= BEAT_NS && comm_test(c, &c->life_out, 1) && !comm_is_broken(c)) {
        c->beaten = now;
        c->life_said++;
        comm_send(c, (c->rank + 1) % c->size, TAG_LIFE, &c->life_said, sizeof(c->life_said), &c->life_out);
    }
    if (c->silent > c->options.timeout)
        comm_fail(c, PST_EIO, "%s has not answered for %.0f s: it is stopped, or its machine cannot be reached",
                  comm_rank_text(c, before(c), name, sizeof(name)), c->silent);
}

void life_end(pst_comm *c)
{
    if (c->life_in && c->state)
        c->transport->cancel(c->state, &c->life_in);
}
