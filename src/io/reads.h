/* reads.h: many reads of files in flight at once: by io_uring where the system allows it, otherwise by a few threads. */
#ifndef IO_READS_H
#define IO_READS_H

#include <penstock/base.h>
#include <stdatomic.h>

/* One read. The caller keeps it, and the buffer, where they are until it is done. */
struct read_request {
    int fd;
    void *buffer;
    size_t length;
    uint64_t offset;

    _Atomic bool done; /* the rest holds once this is true */
    int error;         /* errno; 0: none */
    size_t got;        /* less than `length` only at the end of the file */

    struct read_request *next; /* of those waiting their turn */
};

enum reads_kind {
    READS_RING,    /* io_uring */
    READS_THREADS, /* a few of them, each reading */
    READS_PLAIN    /* one after the other, when they are waited for */
};

/* Used by one thread at a time. */
struct reads;

/* `best` is tried first, then what comes behind it: PST_ENOMEM is the only failure. At most `depth` reads are in flight. */
pst_status reads_create(struct reads **ret, enum reads_kind best, unsigned depth, pst_error *reterr);
enum reads_kind reads_kind(const struct reads *r);
/* Cancels what has not begun and waits for what has. NULL ok; returns NULL. */
struct reads *reads_destroy(struct reads *r);

/* Queues a read; it begins with the next reads_go or reads_wait. */
void reads_add(struct reads *r, struct read_request *q);
void reads_go(struct reads *r);
/* Until `q`, which was added, is done. */
void reads_wait(struct reads *r, struct read_request *q);
/* Until nothing is queued or in flight: what was queued only is forgotten, never done. */
void reads_cancel(struct reads *r);

#endif
