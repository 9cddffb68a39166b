/* ring.h: the batches being filled, in order. Workers take slices of them; the consumer removes them when they are complete.
 *
 * It is the only buffer between workers and consumer, and its lock the only one they share: taken a few times per slice,
 * never per sample. */
#ifndef FLOW_RING_H
#define FLOW_RING_H

#include "flow/batch.h"
#include "flow/damage_judge.h"
#include "flow/order.h"
#include "flow/stats.h"
#include <pthread.h>

struct item;

struct entry {
    uint64_t epoch;
    uint64_t after;           /* value of a cursor's `next` after this entry is delivered */
    bool ends_epoch;          /* no batch: the consumer gets PST_END */
    pst_batch *batch;         /* NULL: the entry failed or ends the epoch */
    size_t count;             /* elements of the batch, those left out included */
    struct order_batch where; /* for an index */
    struct item **items;      /* for a stream: `held` items in batch order */
    size_t held;
    size_t slice; /* elements per slice */
    size_t slices;
    size_t taken, finished; /* slices; under lock */
    bool ready;             /* under lock */
    uint64_t met;              /* records of a stream read before the entry was opened */
    size_t left_out;           /* elements; under lock */
    struct damage_list damage; /* damage of its elements, and damage that a stream found on the way to them; under lock; see
                                  flow/damage_judge.h */
    pst_status status;         /* under lock until ready; so are the next two */
    size_t failed_at;          /* the earliest element that failed */
    pst_error error;
};

/* Fills the next entry: the batch and its memory. Called by one worker at a time, without the lock. Failure is recorded in
 * the entry. */
typedef void (*ring_open_fn)(void *user, unsigned worker, struct entry *e);

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t room;  /* workers wait here for something to do */
    pthread_cond_t idle;  /* idle workers that are not wanted wait here */
    pthread_cond_t whole; /* the consumer waits here */
    struct entry *entries;
    size_t capacity;
    ring_open_fn open;
    void *user;
    size_t lookahead; /* entries opened ahead of time: a stream is read while other workers decode */

    /* under lock */
    size_t depth;                    /* entries in use at once, <= capacity */
    unsigned active;                 /* number of workers that should run */
    uint64_t head, tail;             /* entries opened; entries delivered */
    uint64_t taking;                 /* the first entry with slices to take */
    size_t ready;                    /* complete entries that are not delivered yet */
    unsigned waiting;                /* workers that wait at `room` */
    bool opening;                    /* a worker is filling entry `head` */
    bool broken;                     /* something failed: nothing is opened any more */
    uint64_t consumer_since;         /* when the consumer began to wait; 0: it does not wait */
    size_t patience;                 /* entries that must be ready before the consumer is woken: waking costs more than a small
                                        batch */
    uint64_t popped_ns, interval_ns; /* when the consumer took the last entry, and the mean time between two entries */
    _Atomic bool stopped;            /* read without the lock too */
};

void ring_init(struct ring *r);
void ring_finish(struct ring *r);
/* Empties the ring and allocates `capacity` entries. No worker may be running. */
pst_status ring_reset(struct ring *r, size_t capacity, pst_error *reterr);
/* Removes every entry and calls `release` for each. */
void ring_clear(struct ring *r, void (*release)(void *user, struct entry *e), void *user);

struct ticket {
    struct entry *entry;
    size_t slice, begin, end; /* elements [begin, end) of the batch */
};

/* Time that a worker spent between two slices. */
struct ring_pause {
    uint64_t waited_ns; /* waiting because the ring was full */
};

/* Waits for a slice to work on; false: stop. */
bool ring_take(struct ring *r, unsigned worker, struct ticket *ret, struct ring_pause *ret_pause);
/* Returns a finished slice, of which `left_out` elements were left out. True: it was the last slice of its entry, which the
 * caller must finish. */
bool ring_return(struct ring *r, const struct ticket *t, size_t left_out);
/* Records a failure of element `at`; the earliest element is kept. */
void ring_fail(struct ring *r, struct entry *e, size_t at, const pst_error *error);
/* Records damage of element `at`, tolerated or not: see damage_note. */
pst_status ring_note(struct ring *r, struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error);
/* Marks the entry as complete: the consumer may take it. */
void ring_complete(struct ring *r, struct entry *e);

/* Waits for the next entry for the consumer and returns it without removing it; NULL: stopped. `*ret_waited_ns` is the time
 * it waited, `*ret_ready` how many entries were complete at the call. */
struct entry *ring_peek(struct ring *r, uint64_t *ret_waited_ns, size_t *ret_ready);
/* Waits up to `deadline` (of clock_ns) until a peek would not block; false: it still would. */
#define RING_NO_DEADLINE UINT64_MAX
bool ring_wait(struct ring *r, uint64_t deadline);
uint64_t ring_pop(struct ring *r); /* returns the time (of clock_ns) */

/* Stops the ring: ring_take returns false and ring_peek returns NULL on all threads. */
void ring_stop(struct ring *r);
void ring_tune(struct ring *r, size_t depth, unsigned active);

#endif
