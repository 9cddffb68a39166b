/* comm.c: see comm.h: the queue of posted work and the thread that does it. */
#include "dist/comm_inside.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define IDLE_MS     50
#define PAUSE_NS    50000
#define SHORT_LOOKS 200 /* looks without a sleep while a caller waits */

/* ---- Failures ---- */

bool comm_is_broken(pst_comm *c)
{
    pthread_mutex_lock(&c->lock);
    bool broken = c->status < 0;
    pthread_mutex_unlock(&c->lock);
    return broken;
}

const char *comm_rank_text(const pst_comm *c, unsigned rank, char *buffer, size_t size)
{
    if (c->ranks && c->ranks[rank].pid)
        snprintf(buffer, size, "rank %u (process %llu on %s)", rank, (unsigned long long)c->ranks[rank].pid, c->ranks[rank].host);
    else
        snprintf(buffer, size, "rank %u", rank);
    return buffer;
}

pst_status comm_fail(pst_comm *c, pst_status status, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pthread_mutex_lock(&c->lock);
    bool first = c->status >= 0, ready = c->ready;
    if (first)
        c->status = pst_fail(&c->error, status, "%s", text);
    pst_error error = c->error;
    pthread_cond_broadcast(&c->completed_more);
    pthread_mutex_unlock(&c->lock);
    if (first && ready && c->options.failed) {
        c->options.failed(c->options.user, &error);
        life_end_silent(c); /* after the message: a launcher ends the other ranks at once */
        if (c->transport && c->transport->abort)
            c->transport->abort(c->state, 1);
    }
    return error.status;
}

/* ---- Messages ---- */

/* Transports count the bytes of a message in an int. */
static bool check_length(pst_comm *c, size_t bytes)
{
    if (bytes > TRANSPORT_MOST)
        comm_fail(c, PST_ELIMIT, "a message of %zu bytes; the longest has %zu", bytes, TRANSPORT_MOST);
    return bytes <= TRANSPORT_MOST;
}

void comm_send(pst_comm *c, unsigned to, int tag, const void *data, size_t bytes, void **ret)
{
    char why[160] = "", name[128];
    *ret = NULL;
    if (!check_length(c, bytes))
        return;
    pthread_mutex_lock(&c->lock);
    c->sent += bytes;
    pthread_mutex_unlock(&c->lock);
    if (c->transport->send(c->state, to, tag, data, bytes, ret, why, sizeof(why)) < 0) {
        *ret = NULL;
        comm_fail(c, PST_EIO, "sending to %s: %s", comm_rank_text(c, to, name, sizeof(name)), why);
    }
}

void comm_receive(pst_comm *c, unsigned from, int tag, void *data, size_t bytes, void **ret)
{
    char why[160] = "", name[128];
    *ret = NULL;
    if (check_length(c, bytes) && c->transport->receive(c->state, from, tag, data, bytes, ret, why, sizeof(why)) < 0) {
        *ret = NULL;
        comm_fail(c, PST_EIO, "receiving from %s: %s", comm_rank_text(c, from, name, sizeof(name)), why);
    }
}

bool comm_test(pst_comm *c, void **requests, size_t count)
{
    char why[160] = "";
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        int done = requests[i] ? c->transport->test(c->state, &requests[i], why, sizeof(why)) : 1;
        if (done < 0)
            comm_fail(c, PST_EIO, "a rank is lost: %s", why);
        all &= done > 0;
    }
    return all;
}

void comm_pause(pst_comm *c)
{
    static _Thread_local unsigned looks;
    life_look(c);
    int code = atomic_load(&c->abort_code);
    if (code && c->transport->abort)
        c->transport->abort(c->state, code);
    if (atomic_load(&c->waited_for) && ++looks % SHORT_LOOKS) {
        sched_yield();
        return;
    }
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

bool comm_finish(pst_comm *c, void **requests, size_t count)
{
    while (!comm_test(c, requests, count)) {
        if (comm_is_broken(c))
            return false;
        comm_pause(c);
    }
    return !comm_is_broken(c);
}

/* ---- Gathers and broadcasts ---- */

/* Sends and receives as many bytes at once, in messages of up to `c->piece`. */
static bool exchange(pst_comm *c, unsigned to, const char *from_here, unsigned from, char *here, size_t bytes)
{
    for (size_t at = 0; at < bytes || at == 0; at += c->piece) {
        size_t now = bytes - at < c->piece ? bytes - at : c->piece;
        void *requests[2] = {NULL, NULL};
        comm_receive(c, from, TAG_GATHER, here + at, now, &requests[0]);
        comm_send(c, to, TAG_GATHER, from_here + at, now, &requests[1]);
        if (!comm_finish(c, requests, 2))
            return false;
    }
    return true;
}

/* In rounds: each rank has the blocks of 1, 2, 4, … ranks from itself on, and fetches as many again. */
static void gather(pst_comm *c, const void *mine, size_t bytes, char *all)
{
    unsigned n = c->size;
    memmove(all, mine, bytes); /* block i: of rank (rank + i) mod n, until the end */
    for (unsigned have = 1; have < n; have *= 2) {
        unsigned fetch = n - have < have ? n - have : have;
        if (!exchange(c, (c->rank + n - have) % n, all, (c->rank + have) % n, all + have * bytes, fetch * bytes))
            return;
    }
    char *turned = mem_alloc(n * bytes + 1);
    if (!turned) {
        comm_fail(c, PST_ENOMEM, "out of memory while gathering from %u ranks", n);
        return;
    }
    for (unsigned i = 0; i < n; i++)
        memcpy(turned + (c->rank + i) % n * bytes, all + i * bytes, bytes);
    memcpy(all, turned, n * bytes);
    mem_free(turned);
}

/* A tree: those that have it send it on. */
static void broadcast(pst_comm *c, char *data, size_t bytes, unsigned root)
{
    unsigned n = c->size, me = (c->rank + n - root) % n;
    for (size_t at = 0; at < bytes || at == 0; at += c->piece) {
        size_t now = bytes - at < c->piece ? bytes - at : c->piece;
        void *request = NULL;
        for (unsigned have = 1; have < n; have *= 2) {
            if (me < have && me + have < n)
                comm_send(c, (me + have + root) % n, TAG_BROADCAST, data + at, now, &request);
            else if (me >= have && me < 2 * have)
                comm_receive(c, (me - have + root) % n, TAG_BROADCAST, data + at, now, &request);
            if (!comm_finish(c, &request, 1))
                return;
        }
        if (bytes == 0)
            return;
    }
}

/* ---- The thread ---- */

struct job *comm_next(pst_comm *c)
{
    pthread_mutex_lock(&c->lock);
    struct job *j = c->begun < c->posted ? &c->queue[c->begun % QUEUE] : NULL;
    pthread_mutex_unlock(&c->lock);
    return j;
}

void comm_complete(pst_comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->completed++;
    pthread_cond_broadcast(&c->completed_more);
    pthread_mutex_unlock(&c->lock);
}

static void run_job(pst_comm *c, struct job *j)
{
    bool broken = comm_is_broken(c);
    c->begun++;
    if (j->kind == JOB_BROADCAST && !broken && c->size > 1)
        broadcast(c, j->all, j->bytes, j->root);
    if (j->kind == JOB_GATHER && !broken) {
        if (c->size > 1)
            gather(c, j->mine, j->bytes, j->all);
        else
            memmove(j->all, j->mine, j->bytes);
        if (!comm_is_broken(c))
            c->dropping = j->go && !j->go(j->user);
    }
    comm_complete(c);
}

/* Waits for work; false: the end. */
static bool await_work(pst_comm *c)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&c->lock);
    if (c->begun == c->posted && !c->ends)
        pthread_cond_timedwait(&c->posted_more, &c->lock, &until);
    bool goes_on = c->begun < c->posted || !c->ends;
    pthread_mutex_unlock(&c->lock);
    return goes_on;
}

static bool join_ranks(pst_comm *c)
{
    char why[160] = "";
    struct life me = {.pid = (uint64_t)getpid()};
    if (c->transport && c->transport->open(&c->state, c->config, &c->rank, &c->size, why, sizeof(why)) < 0) {
        comm_fail(c, PST_EIO, "%s cannot start: %s", c->transport->name, why);
        return false;
    }
    gethostname(me.host, sizeof(me.host) - 1);
    c->ranks = mem_array(c->size, sizeof(*c->ranks));
    pst_error error;
    if (!c->ranks || sums_create(c, &error) < 0) {
        comm_fail(c, PST_ENOMEM, "out of memory while joining %u ranks", c->size);
        return false;
    }
    c->looked = clock_ns();
    life_begin(c);
    if (c->size > 1)
        gather(c, &me, sizeof(me), (char *)c->ranks);
    else
        c->ranks[0] = me;
    return !comm_is_broken(c);
}

static void work(void *user, unsigned worker)
{
    pst_comm *c = user;
    (void)worker;
    prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL); /* pauses of microseconds are that */
    bool joined = join_ranks(c);
    pthread_mutex_lock(&c->lock);
    c->ready = true;
    pthread_cond_broadcast(&c->completed_more);
    pthread_mutex_unlock(&c->lock);
    while (joined && await_work(c)) {
        struct job *j = comm_next(c);
        uint64_t begin = clock_ns();
        if (j && j->kind == JOB_SUM)
            sums_run(c);
        else if (j)
            run_job(c, j);
        if (j) {
            pthread_mutex_lock(&c->lock);
            c->working += 1e-9 * (double)(clock_ns() - begin);
            pthread_mutex_unlock(&c->lock);
        }
        if (!comm_is_broken(c))
            life_look(c);
        int code = atomic_load(&c->abort_code);
        if (code && c->transport && c->transport->abort)
            c->transport->abort(c->state, code);
    }
    life_end(c);
    if (c->state)
        c->transport->close(c->state, comm_is_broken(c));
}

/* ---- Making ---- */

static void destroy(pst_comm *c)
{
    pthread_mutex_lock(&c->lock);
    c->ends = true;
    pthread_cond_broadcast(&c->posted_more);
    pthread_mutex_unlock(&c->lock);
    thread_group_join(c->thread);
    sums_destroy(c);
    pthread_cond_destroy(&c->posted_more);
    pthread_cond_destroy(&c->completed_more);
    pthread_mutex_destroy(&c->lock);
    mem_free(c->ranks);
    mem_free(c->queue);
    mem_free(c);
}

static void init_conditions(pst_comm *c)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->posted_more, &monotonic);
    pthread_cond_init(&c->completed_more, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

pst_status comm_create(pst_comm **ret, const struct transport *transport, void *config, const pst_comm_options *options, pst_error *reterr)
{
    pst_comm *c = mem_zalloc(sizeof(*c));
    if (!c)
        return fail_memory(reterr, "joining the ranks");
    init_conditions(c);
    c->transport = transport;
    c->config = config;
    c->size = 1;
    c->piece = TRANSPORT_MOST / 16;
    if (options)
        c->options = *options;
    c->options.timeout = c->options.timeout > 0 ? c->options.timeout : 20;
    c->queue = mem_array(QUEUE, sizeof(*c->queue));
    pst_status st = c->queue ? PST_OK : fail_memory(reterr, "joining the ranks");
    if (st == PST_OK)
        st = thread_group_start(&c->thread, 1, "pst-comm", work, c, reterr);
    if (st < 0)
        c->thread = NULL;
    pthread_mutex_lock(&c->lock);
    while (st == PST_OK && !c->ready)
        pthread_cond_wait(&c->completed_more, &c->lock);
    if (st == PST_OK && c->status < 0) {
        st = c->status;
        if (reterr)
            *reterr = c->error;
    }
    pthread_mutex_unlock(&c->lock);
    if (st < 0)
        destroy(c);
    else
        *ret = c;
    return st;
}

pst_comm *pst_comm_close(pst_comm *c)
{
    if (!c)
        return NULL;
    (void)pst_comm_barrier(c, NULL); /* so that no rank takes the end of another for a loss */
    destroy(c);
    return NULL;
}

void pst_comm_abort(pst_comm *c, int code)
{
    if (!c || c->size < 2)
        return;
    atomic_store(&c->abort_code, code ? code : 1);
    while (c->transport->abort) /* the thread ends this process with all others */
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

/* ---- Posting ---- */

static void post(pst_comm *c, const struct job *job)
{
    pthread_mutex_lock(&c->lock);
    while (c->posted - c->completed == QUEUE)
        pthread_cond_wait(&c->completed_more, &c->lock);
    c->queue[c->posted % QUEUE] = *job;
    c->posted++;
    pthread_cond_signal(&c->posted_more);
    pthread_mutex_unlock(&c->lock);
}

void comm_post_sum(pst_comm *c, float *const *leaves, size_t count_leaves, float *to, size_t count, enum comm_number number)
{
    struct job j = {.kind = JOB_SUM, .leaves = count_leaves, .to = to, .count = count, .number = number};
    memcpy(j.leaf, leaves, count_leaves * sizeof(*leaves));
    if (count)
        post(c, &j);
}

void comm_post_gather(pst_comm *c, const void *mine, size_t bytes, void *all, bool (*go)(void *user), void *user)
{
    post(c, &(struct job){.kind = JOB_GATHER, .mine = mine, .bytes = bytes, .all = all, .go = go, .user = user});
}

uint64_t comm_posted(pst_comm *c)
{
    pthread_mutex_lock(&c->lock);
    uint64_t posted = c->posted;
    pthread_mutex_unlock(&c->lock);
    return posted;
}

pst_status comm_wait(pst_comm *c, pst_error *reterr)
{
    return comm_wait_for(c, comm_posted(c), reterr);
}

pst_status comm_wait_for(pst_comm *c, uint64_t count, pst_error *reterr)
{
    uint64_t begin = clock_ns();
    atomic_store(&c->waited_for, true);
    pthread_mutex_lock(&c->lock);
    while (c->completed < count) /* after a failure, too: what is begun may still be written to */
        pthread_cond_wait(&c->completed_more, &c->lock);
    pst_status st = c->status;
    if (st < 0 && reterr)
        *reterr = c->error;
    c->awaited += 1e-9 * (double)(clock_ns() - begin);
    pthread_mutex_unlock(&c->lock);
    atomic_store(&c->waited_for, false);
    return st;
}

struct comm_times comm_times(pst_comm *c)
{
    pthread_mutex_lock(&c->lock);
    struct comm_times t = {.working = c->working, .awaited = c->awaited, .bytes = c->sent};
    pthread_mutex_unlock(&c->lock);
    return t;
}

/* ---- The public face ---- */

unsigned pst_comm_rank(const pst_comm *c)
{
    return c ? c->rank : 0;
}

unsigned pst_comm_size(const pst_comm *c)
{
    return c ? c->size : 1;
}

const char *pst_comm_name(const pst_comm *c)
{
    return c->transport ? c->transport->name : "one process";
}

bool pst_comm_info(const pst_comm *c, unsigned rank, pst_rank_info *ret)
{
    if (rank >= c->size || result_check(ret, NULL) < 0)
        return false;
    pst_rank_info found = {.pid = c->ranks[rank].pid};
    memcpy(found.host, c->ranks[rank].host, sizeof(found.host));
    for (unsigned i = 0; i < c->size; i++)
        if (strcmp(c->ranks[i].host, found.host) == 0) {
            found.local += i < rank;
            found.locals++;
        }
    result_give(ret, &found, sizeof(found));
    return true;
}

pst_status pst_comm_barrier(pst_comm *c, pst_error *reterr)
{
    char mine = 0, *all = mem_alloc(c->size);
    if (!all)
        return fail_memory(reterr, "waiting for the ranks");
    comm_post_gather(c, &mine, 1, all, NULL, NULL);
    pst_status st = comm_wait(c, reterr);
    mem_free(all);
    return st;
}

pst_status pst_comm_sum(pst_comm *c, float *values, size_t count, pst_error *reterr)
{
    if (count)
        post(c, &(struct job){.kind = JOB_SUM, .always = true, .leaf = {values}, .leaves = 1, .to = values, .count = count});
    return comm_wait(c, reterr);
}

pst_status pst_comm_broadcast(pst_comm *c, void *data, size_t bytes, unsigned root, pst_error *reterr)
{
    if (root >= c->size)
        return pst_fail(reterr, PST_EINVAL, "there is no rank %u; the last is %u", root, c->size - 1);
    post(c, &(struct job){.kind = JOB_BROADCAST, .all = data, .bytes = bytes, .root = root});
    return comm_wait(c, reterr);
}

pst_status pst_comm_gather(pst_comm *c, const void *mine, size_t bytes, void *all, pst_error *reterr)
{
    comm_post_gather(c, mine, bytes, all, NULL, NULL);
    return comm_wait(c, reterr);
}
