/* ring.h: the batches in the making, in order. Workers take slices of them, the consumer takes them off when they are whole.
 *
 * It is the only buffer between workers and consumer, and its lock the only one they share: taken a few times a slice, never
 * for a sample. */
#ifndef FLOW_RING_H
#define FLOW_RING_H

#include "flow/batch.h"
#include "flow/damage.h"
#include "flow/order.h"
#include "flow/stats.h"
#include <pthread.h>

struct item;

struct entry {
    uint64_t epoch;
    uint64_t after;           /* a cursor's `next` once this one is delivered */
    bool ends_epoch;          /* no batch: the consumer is told PST_END */
    pst_batch *batch;         /* NULL: failed or ends the epoch */
    size_t count;             /* elements asked for */
    struct order_batch where; /* of an index */
    struct item **items;      /* of a stream, `held` of them in batch order */
    size_t held;
    size_t slice; /* elements of a slice */
    size_t slices;
    size_t taken, finished; /* slices; under lock */
    bool ready;             /* under lock */
    uint64_t met;              /* records of a stream that were read until it was opened */
    size_t left_out;           /* elements; under lock */
    struct damage_list damage; /* of its elements, and what a stream found on the way to them; under lock; see flow/damage.h */
    pst_status status;         /* under lock until ready; the next two too */
    size_t failed_at;          /* the earliest element that failed */
    pst_error error;
};

/* Fills the next entry: which batch, which memory. Called by one worker at a time, without the lock. Failure is recorded in
 * the entry. */
typedef void (*ring_open_fn)(void *user, unsigned worker, struct entry *e);

struct ring {
    pthread_mutex_t lock;
    pthread_cond_t room;  /* workers wait here for something to do */
    pthread_cond_t idle;  /* …and those that are not wanted here */
    pthread_cond_t whole; /* the consumer waits here */
    struct entry *entries;
    size_t capacity;
    ring_open_fn open;
    void *user;
    size_t lookahead; /* entries opened before their turn: a stream is read while others decode */

    /* under lock */
    size_t depth;                    /* entries in use at once, <= capacity */
    unsigned active;                 /* workers that are wanted */
    uint64_t head, tail;             /* entries opened, delivered */
    uint64_t taking;                 /* the first entry with slices to take */
    size_t ready;                    /* entries that are whole, not delivered */
    unsigned waiting;                /* workers at `room` */
    bool opening;                    /* a worker is filling entry `head` */
    bool broken;                     /* something failed: nothing is opened any more */
    uint64_t consumer_since;         /* when it began to wait; 0: it does not */
    size_t patience;                 /* entries that must be ready to wake it: waking costs more than a small batch */
    uint64_t popped_ns, interval_ns; /* when it took the last one, and the mean time between two */
    _Atomic bool stopped;            /* read without the lock too */
};

void ring_init(struct ring *r);
void ring_finish(struct ring *r);
/* Empties it and makes room for `capacity` entries. No worker may be around. */
pst_status ring_reset(struct ring *r, size_t capacity, pst_error *reterr);
/* Forgets every entry; `release` gets each of them. */
void ring_clear(struct ring *r, void (*release)(void *user, struct entry *e), void *user);

struct ticket {
    struct entry *entry;
    size_t slice, begin, end; /* elements */
};

/* Where a worker's time went between two slices. */
struct ring_pause {
    uint64_t waited_ns; /* the ring was full */
    uint64_t opened_ns; /* it opened entries */
};

/* A slice to work on. Waits for one; false: stop. */
bool ring_take(struct ring *r, unsigned worker, struct ticket *ret, struct ring_pause *ret_pause);
/* A slice is done with `left_out` elements less; true: it was the last of its entry, which the caller must finish. */
bool ring_return(struct ring *r, const struct ticket *t, size_t left_out);
/* Records a failure of element `at`; the earliest one counts. */
void ring_fail(struct ring *r, struct entry *e, size_t at, const pst_error *error);
/* Notes damage of element `at`, tolerated or not: see damage_note. */
pst_status ring_note(struct ring *r, struct entry *e, size_t at, uint64_t sample, pst_cause cause, const pst_error *error);
/* The entry is whole: the consumer may have it. */
void ring_complete(struct ring *r, struct entry *e);

/* The next entry for the consumer, not yet taken off; NULL: stopped. Waits for it, `*ret_waited_ns` long. `*ret_ready` is how
 * many entries were whole when it came. */
struct entry *ring_peek(struct ring *r, uint64_t *ret_waited_ns, size_t *ret_ready);
/* Waits until a peek would not, at most until `deadline` (of clock_ns); false: it would still. */
#define RING_NO_DEADLINE UINT64_MAX
bool ring_wait(struct ring *r, uint64_t deadline);
void ring_pop(struct ring *r);

/* Makes everybody return: takes and peeks say so. */
void ring_stop(struct ring *r);
void ring_tune(struct ring *r, size_t depth, unsigned active);

#endif
