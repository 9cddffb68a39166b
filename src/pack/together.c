/* together.c: see steps.h. Signs of life are small hidden files or objects in OUT, which every process of the job sees: where parts can be written, signs
 * can. A process that cannot write its sign packs all the same. */
#include "pack/steps.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/remote/remote.h"
#include "pack/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIGN_SIZE 128
#define BEATS     3 /* signs within the patience of those who wait, at least */
#define FAILED    "failed"

/* Hidden, and named as ranks are: from 0. */
static char *sign_path(const char *out, uint32_t part, uint32_t parts)
{
    char name[64];
    snprintf(name, sizeof(name), ".rank-%" PRIu32 "-of-%" PRIu32, part - 1, parts);
    return file_join(out, name);
}

/* ---- Giving signs ---- */

struct life_sign {
    char *path;
    uint64_t interval_ms;
    struct thread_group *thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running;
    bool stop; /* under lock */
};

static void write_sign(const struct life_sign *l, const char *state, unsigned count)
{
    char host[64] = "", text[SIGN_SIZE];
    pst_error ignored;
    gethostname(host, sizeof(host) - 1);
    int n = snprintf(text, sizeof(text), "%s process %ld on %s %u\n", state, (long)getpid(), host, count);
    (void)publish_bytes(l->path, text, (size_t)n, true, false, &ignored);
}

static void beat(void *user, unsigned worker)
{
    struct life_sign *l = user;
    (void)worker;
    pthread_mutex_lock(&l->lock);
    for (unsigned count = 0; !l->stop; count++) {
        struct timespec until;
        pthread_mutex_unlock(&l->lock);
        write_sign(l, "packing", count);
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += (time_t)(l->interval_ms / 1000);
        until.tv_nsec += (long)(l->interval_ms % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_mutex_lock(&l->lock);
        if (!l->stop)
            pthread_cond_timedwait(&l->changed, &l->lock, &until);
    }
    pthread_mutex_unlock(&l->lock);
}

/* Requests cost money: a store gets as few signs as the patience allows. */
static pst_status life_sign_start(struct life_sign *l, const char *out, const pst_pack_options *o, pst_error *reterr)
{
    double most = remote_is(out) ? 3600e3 : 1e3, ms = o->patience * 1e3 / BEATS;
    l->interval_ms = (uint64_t)(ms < 1 ? 1 : ms < most ? ms : most);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    l->path = sign_path(out, o->part, o->parts);
    pst_status st = l->path ? file_make_folder(out, reterr) : fail_memory(reterr, "packing together");
    if (st == PST_OK)
        st = thread_group_start(&l->thread, 1, "pst-sign", beat, l, reterr);
    l->running = st == PST_OK;
    return st;
}

static void life_sign_stop(struct life_sign *l, bool failed)
{
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_cond_signal(&l->changed);
    pthread_mutex_unlock(&l->lock);
    thread_group_join(l->thread);
    if (l->running && failed)
        write_sign(l, FAILED, 0);
    else if (l->running)
        (void)disk_remove(l->path, &(pst_error){0});
    mem_free(l->path);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

/* ---- Watching signs ---- */

/* The line of a sign; "": there is none. */
static pst_status read_sign(const char *path, char sign[SIGN_SIZE])
{
    uint8_t *data = NULL;
    size_t length = 0;
    pst_error error;
    pst_status st = remote_is(path) ? remote_read_anew(&data, &length, path, SIGN_SIZE, &error) : file_read_all(&data, &length, path, SIGN_SIZE, &error);
    sign[0] = 0;
    if (st == PST_OK)
        snprintf(sign, SIGN_SIZE, "%.*s", (int)strcspn((const char *)data, "\n"), (const char *)data);
    mem_free(data);
    return st == PST_ENOMEM ? st : PST_OK;
}

static bool has_failed(const char *sign)
{
    return strncmp(sign, FAILED " ", sizeof(FAILED)) == 0;
}

/* Removes what an earlier run has left. */
static pst_status clear_failures(const char *out, uint32_t parts, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (uint32_t i = 1; st == PST_OK && i <= parts; i++) {
        char sign[SIGN_SIZE], *path = sign_path(out, i, parts);
        st = path ? read_sign(path, sign) : PST_ENOMEM;
        if (st == PST_OK && has_failed(sign))
            (void)disk_remove(path, &(pst_error){0});
        mem_free(path);
    }
    return st == PST_ENOMEM ? fail_memory(reterr, "packing together") : st;
}

/* "rank 3 (process 4711 on node-2)". */
static const char *name_rank(uint32_t part, const char *sign, char *text, size_t size)
{
    char word[16], host[80];
    long pid;
    if (sscanf(sign, "%15s process %ld on %79s", word, &pid, host) == 3)
        snprintf(text, size, "rank %" PRIu32 " (process %ld on %s)", part - 1, pid, host);
    else
        snprintf(text, size, "rank %" PRIu32, part - 1);
    return text;
}

static pst_status wait_for_part(const char *folder, const char *path, uint32_t part, const pst_pack_options *o, pst_error *reterr)
{
    char last[SIGN_SIZE] = "", sign[SIGN_SIZE], name[160];
    uint64_t changed = clock_ns();
    bool complete = false;
    pst_status st = pack_state_complete(folder, &complete, reterr);
    while (st == PST_OK && !complete) {
        double silent = (double)(clock_ns() - changed) * 1e-9;
        st = read_sign(path, sign);
        if (st < 0)
            return fail_memory(reterr, "packing together");
        if (has_failed(sign))
            return pst_fail(reterr, PST_EIO, "%s has failed; run the same command again when its cause is mended",
                            name_rank(part, sign, name, sizeof(name)));
        if (strcmp(sign, last) != 0) {
            memcpy(last, sign, sizeof(last));
            changed = clock_ns();
        } else if (silent > o->patience * (last[0] ? 1 : 2)) {
            return pst_fail(reterr, PST_EIO,
                            "%s gives no sign of life for %.0f s: it is stopped, was killed or has not begun; run the same command again, it resumes",
                            name_rank(part, last, name, sizeof(name)), silent);
        }
        if (o->progress && o->progress(o->user, &(pst_progress){.stage = "waiting for parts", .done = part - 1, .total = o->parts}))
            return pst_fail(reterr, PST_ECANCELLED, "interrupted");
        nanosleep(remote_is(path) ? &(struct timespec){.tv_sec = 1} : &(struct timespec){.tv_nsec = 100000000}, NULL);
        st = pack_state_complete(folder, &complete, reterr);
    }
    return st;
}

static pst_status wait_for_parts(const char *out, const pst_pack_options *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (uint32_t i = 1; st == PST_OK && i <= o->parts; i++) {
        char *folder = pack_part_folder(out, i, o->parts), *path = sign_path(out, i, o->parts);
        st = folder && path ? wait_for_part(folder, path, i, o, reterr) : fail_memory(reterr, "packing together");
        mem_free(folder);
        mem_free(path);
    }
    return st;
}

/* ---- All of it ---- */

pst_status pack_together(const char *const *sources, size_t count, const char *out, const pst_pack_options *options, pst_pack_report **ret,
                         pst_error *reterr)
{
    pst_pack_options o = *options;
    pst_pack_report *report = NULL;
    struct life_sign life = {0};
    bool joined = false;
    pst_status st = o.part == 1 ? clear_failures(out, o.parts, reterr) : PST_OK;
    if (st < 0)
        return st;
    pst_error ignored;
    (void)life_sign_start(&life, out, &o, &ignored);
    o.patience = 0;
    st = pst_pack(sources, count, out, &o, &report, reterr);
    life_sign_stop(&life, st < 0);
    if (st == PST_OK && o.part == 1 && !o.force)
        st = pack_state_complete(out, &joined, reterr);
    if (st == PST_OK && o.part == 1) {
        report = pst_pack_report_destroy(report);
        st = joined ? PST_OK : wait_for_parts(out, options, reterr);
        o.part = o.parts = 0;
        o.join = true;
        if (st == PST_OK)
            st = pst_pack(sources, count, out, &o, &report, reterr);
    }
    if (st == PST_OK && ret)
        *ret = report;
    else
        pst_pack_report_destroy(report);
    return st;
}
