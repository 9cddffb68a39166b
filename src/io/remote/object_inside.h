/* object_inside.h: shared by object.c, object_parts.c, object_fetch.c, object_read.c and object_spare.c: objects, and the requests for their blocks.
 *
 * Promises: a block is HERE only after its bytes are in the copy that readers see; a failure reaches every thread that waits for a
 * block of that request, and the next thread that needs the block tries again. Locks: `all.lock` of object_parts.c guards the list of objects, the queues
 * and the threads; an object's lock guards its states. An object's lock may be taken while all.lock is held, those of the pool of blocks and of the
 * cache's room while an object's is, never the other way round. */
#ifndef IO_REMOTE_OBJECT_INSIDE_H
#define IO_REMOTE_OBJECT_INSIDE_H

#include "io/remote/cache.h"
#include "io/remote/object.h"

#include <pthread.h>
#include <stdatomic.h>

enum state {
    ABSENT,
    COMING,
    STORED, /* by an earlier process: to be checked */
    HERE,
    PASSED /* was here, was read, and is absent again */
};
enum urgency { NOW, SOON, SOMETIME };

struct part { /* one request */
    struct object *object;
    size_t first, count;
    size_t done; /* blocks of it that are here already… */
    size_t skipped; /* …and those of them that another request brought */
    enum urgency urgency;
    uint64_t started; /* when the server was asked, nanoseconds; 0: it waits for a connection, or for another process */
    uint64_t taken;   /* bytes of the cache's room; locked */
    size_t touched;   /* blocks of which its twin, which failed, wrote bytes */
    _Atomic uint64_t progress;
    _Atomic bool cancel;
    struct part *twin; /* a second request for the same blocks */
    bool second;       /* it is that second request */
    bool hedged;       /* it has, or had, a twin */
    uint8_t *block;    /* in memory, the one that bytes arrive for */
    bool failed;       /* the other one has failed before… */
    pst_error error;   /* …for this reason */
    struct part *next; /* in the queue, or in the object's list of those under way */
};

struct memory_block { /* locked; the bytes do not change while there are readers */
    uint8_t *bytes;   /* NULL: it is in the file, or nowhere */
    uint32_t read;    /* bytes of it */
    uint32_t readers; /* that copy from it now */
    uint32_t round;   /* the last in which it passed, counted from 1; 0: none */
    bool ahead;       /* it was fetched ahead, and no thread has asked for it yet */
};

struct wish { /* blocks that a thread is about to read */
    size_t first, end;
    struct wish *next;
};

struct object {
    char *path;
    struct store_facts facts;
    struct cache cache;
    struct cache own;         /* a private copy for blocks that arrive after the cache was full; otherwise without a file */
    struct cache mapped_copy; /* in memory, for mappings that find no room on the disk; looked at first; otherwise without a file */
    _Atomic int seen;         /* the descriptor of the copy that readers see: of one of the three */
    _Atomic uint64_t moved;   /* when bytes arrived last; nanoseconds */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *states;
    size_t here;     /* blocks */
    uint32_t round;  /* how often nearly all of it has been read and dropped… */
    size_t passed;   /* …and blocks that passed since */
    bool ended;      /* it is not known yet whether it will be read again */
    struct memory_block *memory; /* of each block; NULL: all are in the cache */
    size_t in_memory;            /* blocks… */
    size_t read, ahead;          /* …those of them that have been read in part, and those that are `ahead`… */
    size_t hand;                 /* …and where one that can be spared is looked for next */
    struct wish *wishes;         /* blocks that are not dropped */
    unsigned mapped;             /* by so many: nothing is dropped any more */
    bool forked;                 /* another process may have the private files, too: nothing of them is dropped */
    struct part *active; /* under way; locked */
    pst_error error;     /* the last failure… */
    uint64_t failures;   /* …and their number */
    uint64_t *failed;    /* by block: the number of the last failure that it was lost with; NULL: there was none */
    bool sequential;
    _Atomic bool all;   /* blocks [from, until) will be read */
    size_t from, until; /* set before `all` is */
    size_t fill;        /* blocks before this one are not absent */
    unsigned refs;    /* users and parts; under all.lock, as all below */
    unsigned users;
    _Atomic uint64_t turn; /* its place in the order in which objects are filled, from 1; 0: not known yet */
    bool filling; /* in the list of those that are filled when connections are idle */
    struct object *next, *fill_next;
};

/* ---- object.c ---- */

void object_free(struct object *o); /* NULL ok */
/* One request for blocks of [first, end), the first of which is absent; NULL: out of memory. One or two that are here between absent ones,
 * such as those that were read when the object was opened, are fetched once more rather than with two requests. Blocks that have
 * passed are fetched if a thread needs them. Locked. */
struct part *object_ask_once(struct object *o, size_t first, size_t end, enum urgency urgency);
/* Returns whether blocks [first, end) belong to a next epoch that has begun: an eighth of the object has been read again. Then the rest of it is fetched
 * ahead, as in the first. Not sooner: pipelines look ahead into an epoch that may not come. Locked. */
bool object_ask_anew(struct object *o, size_t first, size_t end);
/* Compares blocks that an earlier process stored with their checksums. Locked; unlocks meanwhile. */
void object_check_stored(struct object *o, size_t first, size_t end);
/* The first block of [first, end) that is not here; `end`: all are. Locked. */
size_t object_first_missing(const struct object *o, size_t first, size_t end);
/* Locked. */
void object_mark(struct object *o, size_t first, size_t count, enum state state);

/* ---- object_fetch.c ---- */

/* Bytes per second that a request usually brings, from when the server was asked; 0: none has ended yet. */
double part_usual_rate(void);
/* Fetches the blocks of a part, which become HERE one after the other. */
pst_status part_bring(struct part *p, pst_error *reterr);
/* Marks the next `count` blocks of a part, which are whole, as HERE, and wakes their readers. */
void part_show(struct part *p, size_t count);
/* Returns the number of blocks of which bytes may have been written. */
size_t part_touched(const struct part *p);
/* Gives back the cache's room for blocks that did not arrive. */
void part_give_room(struct part *p);
/* Returns the file that has a block which does not lie in memory. Locked, or while the block is held. */
const struct cache *object_file_of(const struct object *o, size_t i);
/* Keeps the first bytes of the object, which came with its facts. Before others see the object. */
void object_keep_first(struct object *o, const void *bytes, size_t length);

/* ---- object_read.c ---- */

/* Takes a whole block that has arrived in memory, and is shown to readers later; `ahead`: no thread has asked for it. Leaves `*block` NULL. */
void object_attach(struct object *o, size_t i, uint8_t **block, bool ahead);
/* Gives back the memory of a block. Locked. */
void object_release_block(struct object *o, size_t i);
/* Gives back the memory of all blocks. */
void object_release_memory(struct object *o);

/* ---- object_spare.c ---- */

/* Notes that the disk of private copies is full, as a write has shown. */
void spare_note_full(void);
bool spare_disk_is_full(void);
/* Returns whether it was full once: from then on blocks are fetched ahead only if they find memory, and blocks that were read are dropped from the disk, too. */
bool spare_is_short(void);
/* Returns whether a block lies on a disk that was full once, for this process alone, and no request writes it. Locked. */
bool spare_can_punch(const struct object *o, size_t i);
/* Frees the space of a block that was read. Locked. */
void spare_punch(struct object *o, size_t i);
/* Returns memory for a block: from the pool, or from a block that is dropped for it. SOON: from blocks that were read in part or that no thread has asked for.
 * SOMETIME: from the latter, in objects whose turn comes later. NOW: from any block, and past the limit of the pool if there is none. NULL: there is none. */
uint8_t *spare_take(const struct object *o, enum urgency urgency);
/* Returns how many blocks of an object were fetched ahead and can be dropped, up to `most`. Locked. */
size_t spare_ahead(const struct object *o, size_t most);
/* Returns whether so many announced blocks would find memory. */
bool spare_has(size_t count);

/* ---- object_parts.c ---- */

/* Returns the blocks of one request, a power of two: as tuned, and for an object whose blocks lie in memory within the limit of that memory. */
size_t parts_blocks(bool in_memory);
/* Notes a request that needed one attempt; see tuner_note. */
void parts_note(double latency, double transfer, uint64_t bytes);
/* Finds an open object, and takes a reference; NULL: it is not open. With `add`: if it is not, this one is in the list then. */
struct object *parts_find(const char *path, struct object *add);
/* Gives back a reference, and frees the object with the last. */
void parts_release(struct object *o);
/* Removes a user. For an object without users, queued requests are dropped, and those under way end soon. */
void parts_leave(struct object *o);
/* NULL: out of memory. */
struct part *part_make(struct object *o, size_t first, size_t count, enum urgency urgency);
/* Ends a request that is under way: wakes the threads that wait for it, and frees it. */
void part_finish(struct part *p, pst_status st, const pst_error *error);
/* Takes the list. False: no thread could be started; the list stays in the queue. */
bool parts_add(struct part *list);
/* Calls `visit` with each open object until it returns true, with all.lock. */
bool parts_visit(bool (*visit)(struct object *o, void *user), void *user);
/* Resumes fetching ahead: there is memory again. */
void parts_resume(void);
/* Has the rest of the expected bytes of the object fetched when connections are idle, after those of objects for which this was called before. */
void parts_fill(struct object *o);

#endif
