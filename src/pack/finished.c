/* finished.c: see steps.h. Looking at a shard in a store takes a few round trips: many are looked at at once. */
#include "pack/steps.h"

#include "base/thread.h"
#include "io/remote/remote.h"

#include <stdatomic.h>

#define LOOKERS 32
#define WAIT_MS 100

struct search {
    const struct pack_config *config;
    struct out_shard *shards;
    size_t count;
    _Atomic size_t next;
    _Atomic bool stop;
    pthread_mutex_t lock;
    size_t failed; /* under lock: the first shard that could not be looked at, and why; `count`: none */
    pst_error error;
};

static void look(void *user, unsigned worker)
{
    struct search *s = user;
    pst_error error;
    (void)worker;
    while (!atomic_load(&s->stop)) {
        size_t i = atomic_fetch_add(&s->next, 1);
        if (i >= s->count)
            return;
        if (out_shard_find(&s->shards[i], s->config, &error) == PST_OK)
            continue;
        pthread_mutex_lock(&s->lock);
        if (i < s->failed) {
            s->failed = i;
            s->error = error;
        }
        pthread_mutex_unlock(&s->lock);
        atomic_store(&s->stop, true);
    }
}

static pst_status look_one_by_one(const struct search *s, struct pack_ticker *ticker, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < s->count; i++) {
        st = out_shard_find(&s->shards[i], s->config, reterr);
        if (st == PST_OK)
            st = pack_ticker_tell(ticker, "looking for shards", i, s->count, 0, false, reterr);
    }
    return st;
}

static pst_status look_at_many(struct search *s, struct pack_ticker *ticker, pst_error *reterr)
{
    struct thread_group *group = NULL;
    pst_status st = thread_group_start(&group, LOOKERS < s->count ? LOOKERS : (unsigned)s->count, "pst-find", look, s, reterr);
    while (group && !thread_group_wait(group, WAIT_MS)) {
        size_t at = atomic_load(&s->next);
        if (st == PST_OK)
            st = pack_ticker_tell(ticker, "looking for shards", at < s->count ? at : s->count, s->count, 0, false, reterr);
        if (st < 0)
            atomic_store(&s->stop, true);
    }
    thread_group_join(group);
    return st;
}

pst_status pack_find(const struct pack_config *c, struct out_shard *shards, size_t count, struct pack_ticker *ticker, uint64_t *ret_missing,
                     pst_error *reterr)
{
    struct search s = {.config = c, .shards = shards, .count = count, .failed = count};
    pthread_mutex_init(&s.lock, NULL);
    pst_status st = remote_is(c->out) && count > 1 ? look_at_many(&s, ticker, reterr) : look_one_by_one(&s, ticker, reterr);
    pthread_mutex_destroy(&s.lock);
    if (st == PST_OK && s.failed < count) {
        *reterr = s.error;
        st = s.error.status;
    }
    *ret_missing = count;
    for (size_t i = 0; i < count; i++)
        *ret_missing -= shards[i].done;
    return st;
}
