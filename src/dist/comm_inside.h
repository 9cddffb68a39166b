/* comm_inside.h: the inside of a communicator, shared by its thread (comm.c), its sums (comm_sum.c) and its signs of life
 * (comm_life.c). Everything but the queue belongs to the communication thread. */
#ifndef DIST_COMM_INSIDE_H
#define DIST_COMM_INSIDE_H

#include "base/thread.h"
#include "dist/comm.h"

#include <stdatomic.h>

#define QUEUE       512               /* posted work at most; more waits */
#define PIECE_FLOATS ((size_t)1 << 18) /* values of all leaves of a piece of a sum */
#define SLOTS       2                 /* pieces under way at a time */

enum tag { TAG_LIFE = 1, TAG_GATHER, TAG_BROADCAST, TAG_SCATTER, TAG_SUMS = TAG_SCATTER + SLOTS };

enum job_kind { JOB_SUM, JOB_GATHER, JOB_BROADCAST };

struct job {
    enum job_kind kind;
    /* A sum. */
    float *leaf[COMM_MOST_LEAVES], *to;
    size_t leaves, count, issued, done; /* values that pieces were begun of, and that are complete */
    enum comm_number number;
    bool always; /* whatever a gather said before */
    /* A gather or broadcast. */
    const void *mine;
    void *all;
    size_t bytes;
    unsigned root;
    bool (*go)(void *user);
    void *user;
};

/* A piece of a sum: leaves go to the owners of its chunks, then sums come back. */
struct slot {
    enum { SLOT_IDLE, SLOT_SCATTER, SLOT_SUMS } state;
    struct job *job;
    size_t first, count;
    void **requests; /* 2 per rank */
    char *in, *out;  /* messages */
    float *work;     /* values of the chunk that is ours, leaf by leaf */
};

struct life {
    uint64_t pid;
    char host[64];
};

struct pst_comm {
    const struct transport *transport;
    void *state, *config;
    pst_comm_options options;
    unsigned rank, size;
    struct life *ranks;
    struct thread_group *thread;
    void *plugin; /* dlopen's */
    pthread_mutex_t lock;
    pthread_cond_t posted_more, completed_more;
    struct job *queue;
    uint64_t posted, completed; /* under lock */
    bool ends, ready;           /* under lock */
    pst_status status;          /* under lock: of the first failure */
    pst_error error;            /* under lock */
    double awaited, working;    /* under lock */
    uint64_t sent;              /* bytes; under lock */
    size_t piece;               /* bytes of one message of gathers and broadcasts; tests set less, before anything is posted */
    atomic_bool waited_for;     /* a caller waits: messages are worth a core */
    atomic_int abort_code;      /* not 0: end all ranks */
    /* Of the thread. */
    uint64_t begun; /* work that it has taken from the queue */
    uint64_t pieces; /* begun; piece k is in slot k mod SLOTS on every rank */
    bool dropping;  /* a gather said that sums are not wanted */
    struct slot slots[SLOTS];
    uint64_t looked, beaten; /* times in ns */
    double silent;           /* seconds since the last sign of life of the rank before this one, while this process ran */
    void *life_in, *life_out;
    uint64_t life_heard, life_said;
};

/* Marks the communicator as broken; the first call counts. Calls `failed` and ends all ranks where that is set. Returns the status. */
pst_status comm_fail(pst_comm *c, pst_status status, const char *format, ...) PST_PRINTF(3, 4);
bool comm_is_broken(pst_comm *c);
/* "rank 2 (process 4711 on node-3)". Returns `buffer`. */
const char *comm_rank_text(const pst_comm *c, unsigned rank, char *buffer, size_t size);

/* Starts messages; a failure breaks the communicator. */
void comm_send(pst_comm *c, unsigned to, int tag, const void *data, size_t bytes, void **ret);
void comm_receive(pst_comm *c, unsigned from, int tag, void *data, size_t bytes, void **ret);
/* Returns whether all of the requests are complete. */
bool comm_test(pst_comm *c, void **requests, size_t count);
/* Waits for all of them; false: the communicator is broken. */
bool comm_finish(pst_comm *c, void **requests, size_t count);
/* Between two looks at messages: signs of life, and a pause that is short while a caller waits. */
void comm_pause(pst_comm *c);

/* comm_life.c */
void life_begin(pst_comm *c);
void life_look(pst_comm *c);
void life_end_silent(const pst_comm *c); /* kills a silent rank of this machine that is stopped */
void life_end(pst_comm *c);

/* comm_sum.c */
pst_status sums_create(pst_comm *c, pst_error *reterr);
void sums_destroy(pst_comm *c);
/* Works on the sums at the front of the queue until another kind of work or nothing is next. */
void sums_run(pst_comm *c);
/* The oldest work that has not begun; NULL: none. Of the thread. */
struct job *comm_next(pst_comm *c);
/* The oldest work that is begun is complete. */
void comm_complete(pst_comm *c);

#endif
