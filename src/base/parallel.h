/* parallel.h: runs numbered tasks on several threads, with progress on the caller's thread.
 *
 * Tasks are taken in order. When some fail, the error is that of the lowest-numbered task, for any number of workers: a
 * failure only stops further tasks from being taken. */
#ifndef BASE_PARALLEL_H
#define BASE_PARALLEL_H

#include <penstock/base.h>
#include <stdatomic.h>

/* Counters that workers report to the caller's thread, and the caller's request to stop. */
struct meter {
    _Atomic uint64_t records, bytes;
    atomic_bool cancelled;
};

/* PST_ECANCELLED once the caller asked to stop. */
pst_status meter_add(struct meter *m, uint64_t records, uint64_t bytes, pst_error *reterr);

struct parallel {
    size_t tasks;
    unsigned workers; /* 0: the cores this process may use */
    pst_status (*run)(void *user, size_t task, struct meter *meter, pst_error *reterr);
    void *user;
    const char *name; /* of the threads; NULL: "penstock" */
    bool here;        /* tasks run on the caller's thread where one worker is enough or no thread can be started */
    const char *stage;
    uint64_t total; /* records, for the progress; 0: unknown */
    pst_progress_fn progress;
    void *progress_user;
};

pst_status parallel_run(const struct parallel *p, pst_error *reterr);

/* Calls fn(user, i) for every i < count on up to `threads` threads, without progress; on the caller's thread if no other can
 * be started. */
pst_status parallel_each(size_t count, unsigned threads, pst_status (*fn)(void *user, size_t i, pst_error *reterr), void *user,
                         pst_error *reterr);

#endif
