/* together.c: see steps.h. Signs of life are small hidden files or objects in OUT, which every process of the job sees: where parts can be written, signs
 * can. A process that cannot write its sign packs all the same. The sign of one that failed stays for the first one, unless all have failed. */
#include "pack/steps.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/thread.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/remote/remote.h"
#include "io/walk.h"
#include "pack/disk.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SIGN_SIZE 128
#define BEATS     3 /* signs within the patience of those who wait, at least */
#define FAILED    "failed"
#define MADE      " made" /* the process has made OUT */
#define SLICE_MS  100     /* between two looks at whether the caller wants to stop */

/* Hidden, and named as ranks are: from 0. */
static char *sign_path(const char *out, uint32_t part, uint32_t parts)
{
    char name[64];
    snprintf(name, sizeof(name), ".rank-%" PRIu32 "-of-%" PRIu32, part - 1, parts);
    return file_join(out, name);
}

static bool is_sign(const char *name)
{
    uint32_t rank, ranks;
    int length = 0;
    return sscanf(name, ".rank-%" SCNu32 "-of-%" SCNu32 "%n", &rank, &ranks, &length) == 2 && !name[length];
}

struct found_signs {
    const char *out;
    struct path_list paths;
};

static pst_status note_sign(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct found_signs *f = user;
    (void)folder_fd;
    if (!is_sign(entry->d_name))
        return PST_OK;
    char *path = file_join(f->out, entry->d_name);
    pst_status st = path ? path_list_add(&f->paths, path, reterr) : fail_memory(reterr, "packing together");
    mem_free(path);
    return st;
}

/* The signs in OUT, of any number of ranks; path_list_finish them. */
static pst_status find_signs(struct path_list *ret, const char *out, pst_error *reterr)
{
    struct found_signs f = {.out = out};
    pst_status st = walk_names(out, note_sign, &f, reterr);
    *ret = f.paths;
    return st == PST_ENOTFOUND ? PST_OK : st;
}

/* ---- Giving signs ---- */

struct life_sign {
    char *path;
    uint64_t job; /* see job_of */
    bool made;    /* OUT was not there before */
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
    int n = snprintf(text, sizeof(text), "%s process %ld on %s %u job %016" PRIx64 "%s\n", state, (long)getpid(), host, count, l->job, l->made ? MADE : "");
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

/* Distinguishes the present job from others; 0: the caller does not say which it is. */
static uint64_t job_of(const pst_pack_options *o)
{
    return o->job && *o->job ? hash_bytes(o->job, strlen(o->job), 0) : 0;
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
    struct file_info info;
    l->job = job_of(o);
    l->made = file_stat(out, &info, NULL) == PST_ENOTFOUND;
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

static bool has_made(const char *sign)
{
    size_t n = strlen(sign), m = strlen(MADE);
    return n > m && strcmp(sign + n - m, MADE) == 0;
}

/* Whether a sign is one of the job; where the job is not known, none is. */
static bool is_of_job(const char *sign, uint64_t job)
{
    const char *at = strstr(sign, " job ");
    uint64_t is = 0;
    return job && at && sscanf(at, " job %16" SCNx64, &is) == 1 && is == job;
}

/* Removes the failures that an earlier run has left. */
static pst_status clear_failures(const char *out, const pst_pack_options *o, pst_error *reterr)
{
    struct path_list signs = {0};
    pst_status st = find_signs(&signs, out, reterr);
    for (size_t i = 0; st == PST_OK && i < signs.count; i++) {
        char sign[SIGN_SIZE];
        st = read_sign(signs.paths[i], sign);
        if (st == PST_OK && has_failed(sign) && !is_of_job(sign, job_of(o)))
            (void)disk_remove(signs.paths[i], &(pst_error){0});
    }
    path_list_finish(&signs);
    return st == PST_ENOMEM ? fail_memory(reterr, "packing together") : PST_OK; /* what is wrong with OUT is told by packing into it */
}

/* After a join nobody waits for signs. */
static void clear_signs(const char *out)
{
    struct path_list signs = {0};
    pst_error ignored;
    (void)find_signs(&signs, out, &ignored);
    for (size_t i = 0; i < signs.count; i++)
        (void)disk_remove(signs.paths[i], &ignored);
    path_list_finish(&signs);
}

/* Where all ranks have failed, such as for a wrong name of the source, nothing stays of them. */
static void clear_after_all(const char *out, uint32_t parts)
{
    struct path_list signs = {0};
    pst_error ignored;
    bool all = find_signs(&signs, out, &ignored) == PST_OK && signs.count == parts, made = false;
    for (size_t i = 0; all && i < signs.count; i++) {
        char sign[SIGN_SIZE];
        all = read_sign(signs.paths[i], sign) == PST_OK && has_failed(sign);
        made |= has_made(sign);
    }
    for (size_t i = 0; all && i < signs.count; i++)
        (void)disk_remove(signs.paths[i], &ignored);
    if (all && made)
        disk_remove_folder(out);
    path_list_finish(&signs);
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

struct watched { /* one part */
    char *folder, *path; /* the path is that of its sign */
    char last[SIGN_SIZE];
    uint64_t changed;
    bool complete;
};

static pst_status watch(struct watched *w, uint32_t part, const pst_pack_options *o, pst_error *reterr)
{
    char sign[SIGN_SIZE], name[160];
    pst_status st = pack_state_complete(w->folder, &w->complete, reterr);
    if (st < 0 || w->complete)
        return st;
    if (read_sign(w->path, sign) < 0)
        return fail_memory(reterr, "packing together");
    if (has_failed(sign))
        return pst_fail(reterr, PST_EIO, "%s has failed; run the same command again when its cause is mended", name_rank(part, sign, name, sizeof(name)));
    if (strcmp(sign, w->last) != 0) {
        memcpy(w->last, sign, sizeof(w->last));
        w->changed = clock_ns();
        return PST_OK;
    }
    double silent = (double)(clock_ns() - w->changed) * 1e-9;
    if (silent > o->patience * (w->last[0] ? 1 : 2))
        return pst_fail(reterr, PST_EIO,
                        "%s gives no sign of life for %.0f s: it is stopped, was killed or has not begun; run the same command again, it resumes",
                        name_rank(part, w->last, name, sizeof(name)), silent);
    return PST_OK;
}

/* Between two rounds. A store gets up to 20 requests per second, two for each part that is not complete. */
static pst_status pause_round(bool remote, uint32_t complete, const pst_pack_options *o, pst_error *reterr)
{
    uint64_t most = (uint64_t)(o->patience * 1e3 / BEATS), ms = remote ? (uint64_t)(o->parts - complete) * 100 : SLICE_MS;
    ms = remote && ms < 1000 ? 1000 : ms;
    ms = ms < most ? ms : most;
    for (uint64_t slept = 0; slept == 0 || slept < ms; slept += SLICE_MS) {
        if (o->progress && o->progress(o->user, &(pst_progress){.stage = "waiting for parts", .done = complete, .total = o->parts}))
            return pst_fail(reterr, PST_ECANCELLED, "interrupted");
        nanosleep(&(struct timespec){.tv_nsec = SLICE_MS * 1000000L}, NULL);
    }
    return PST_OK;
}

/* Visits all parts in each round: one that has failed is noticed while others still pack. */
static pst_status watch_parts(struct watched *parts, bool remote, const pst_pack_options *o, pst_error *reterr)
{
    pst_status st = PST_OK;
    uint32_t complete = 0;
    while (st == PST_OK && complete < o->parts) {
        complete = 0;
        for (uint32_t i = 0; st == PST_OK && i < o->parts; i++) {
            if (!parts[i].complete)
                st = watch(&parts[i], i + 1, o, reterr);
            complete += parts[i].complete;
        }
        if (st == PST_OK && complete < o->parts)
            st = pause_round(remote, complete, o, reterr);
    }
    return st;
}

static pst_status wait_for_parts(const char *out, const pst_pack_options *o, pst_error *reterr)
{
    struct watched *parts = mem_array(o->parts, sizeof(*parts));
    pst_status st = parts ? PST_OK : fail_memory(reterr, "packing together");
    for (uint32_t i = 0; st == PST_OK && i < o->parts; i++) {
        parts[i].folder = pack_part_folder(out, i + 1, o->parts);
        parts[i].path = sign_path(out, i + 1, o->parts);
        parts[i].changed = clock_ns();
        if (!parts[i].folder || !parts[i].path)
            st = fail_memory(reterr, "packing together");
    }
    if (st == PST_OK)
        st = watch_parts(parts, remote_is(out), o, reterr);
    for (uint32_t i = 0; parts && i < o->parts; i++) {
        mem_free(parts[i].folder);
        mem_free(parts[i].path);
    }
    mem_free(parts);
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
    pst_status st = o.part == 1 ? clear_failures(out, &o, reterr) : PST_OK;
    if (st < 0)
        return st;
    pst_error ignored;
    (void)life_sign_start(&life, out, &o, &ignored);
    o.patience = 0;
    st = pst_pack(sources, count, out, &o, &report, reterr);
    life_sign_stop(&life, st < 0);
    if (st < 0)
        clear_after_all(out, o.parts);
    if (st == PST_OK && o.part == 1 && !o.force)
        st = pack_state_complete(out, &joined, reterr);
    if (st == PST_OK && o.part == 1) {
        report = pst_pack_report_destroy(report);
        st = joined ? PST_OK : wait_for_parts(out, options, reterr);
        o.part = o.parts = 0;
        o.join = true;
        if (st == PST_OK)
            st = pst_pack(sources, count, out, &o, &report, reterr);
        if (st == PST_OK)
            clear_signs(out);
    }
    if (st == PST_OK && ret)
        *ret = report;
    else
        pst_pack_report_destroy(report);
    return st;
}
