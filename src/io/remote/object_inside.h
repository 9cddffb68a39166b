/* object_inside.h: what object.c and object_parts.c share: an object, its requests, and the queue of all of them.
 *
 * Locks: `object_shared.lock` guards the list of objects, the queue and the threads; an object's lock guards its states. The former is never
 * taken while the latter is held. */
#ifndef IO_REMOTE_OBJECT_INSIDE_H
#define IO_REMOTE_OBJECT_INSIDE_H

#include "io/remote/cache.h"
#include "io/remote/object.h"

#include <pthread.h>

#define PART_BLOCKS  128u /* of one request: 8 MiB */
#define MOST_THREADS 64u

enum state { ABSENT, COMING, STORED /* by an earlier process: to be checked */, HERE };
enum urgency { NOW, SOON, SOMETIME };

struct part { /* one request */
    struct object *object;
    size_t first, count;
    enum urgency urgency;
    uint64_t started; /* nanoseconds; 0: it waits */
    _Atomic uint64_t progress;
    _Atomic bool cancel;
    struct part *twin; /* a second request for the same blocks */
    bool second;       /* it is that second request */
    struct part *next; /* in the queue, or in the object's list of those under way */
};

struct object {
    char *path;
    struct store_facts facts;
    struct cache cache;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *states;
    size_t here;         /* blocks */
    struct part *active; /* under way; locked */
    pst_error error;     /* the last failure… */
    uint64_t failures;   /* …and their number */
    bool sequential;
    _Atomic bool all; /* will be read whole */
    size_t fill;      /* blocks before this one are not absent */
    unsigned refs;    /* users and parts; under the shared lock, as the two below */
    unsigned users;
    struct object *next;
};

struct object_shared {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct object *objects;
    struct part *queue[SOMETIME]; /* by urgency, first come first served */
    unsigned threads, idle, queued; /* the last: parts in the queue */
};
extern struct object_shared object_shared;

void object_release(struct object *o); /* gives back a reference */

/* Changes the states of `count` blocks. Locked. */
void object_mark(struct object *o, size_t first, size_t count, enum state state);
/* Puts the bytes of the first block, which came before the copy was opened, into the copy. */
void object_keep_first(struct object *o, const uint8_t *bytes, size_t length);

/* NULL: there is no memory. */
struct part *part_make(struct object *o, size_t first, size_t count, enum urgency urgency);
/* Takes the list; every part holds a reference to its object from here on. False: no thread could be started. */
bool part_enqueue(struct part *list);
/* Starts threads up to `wanted`, or as many as there may be connections. The shared lock is held. */
void part_start_threads(unsigned wanted, bool small);

#endif
