/* reads.h: many file reads in flight at once: with io_uring where the system allows it, otherwise with a few threads. */
#ifndef IO_READS_H
#define IO_READS_H

#include <penstock/base.h>
#include <stdatomic.h>

/* One read. The caller must not move it or the buffer until it is done. */
struct read_request {
    int fd;
    void *buffer;
    size_t length;
    uint64_t offset;

    _Atomic bool done; /* the fields below are valid once this is true */
    int error;         /* errno; 0: none */
    size_t got;        /* less than `length` only at the end of the file */

    struct read_request *next; /* next queued request */
};

enum reads_kind {
    READS_RING,    /* io_uring */
    READS_THREADS, /* a few of them, each reading */
    READS_PLAIN    /* one after the other, inside reads_wait */
};

/* Used by one thread at a time. */
struct reads;

/* Tries `best` first, then the kinds after it; PST_ENOMEM is the only failure. At most `depth` reads are in flight. */
pst_status reads_create(struct reads **ret, enum reads_kind best, unsigned depth, pst_error *reterr);
enum reads_kind reads_kind(const struct reads *r);
/* Cancels reads that have not begun and waits for the others. NULL ok; returns NULL. */
struct reads *reads_destroy(struct reads *r);

/* Queues a read; it begins with the next reads_go or reads_wait. */
void reads_add(struct reads *r, struct read_request *q);
void reads_go(struct reads *r);
/* Waits until `q`, which was added before, is done. */
void reads_wait(struct reads *r, struct read_request *q);
/* Waits until no read is queued or in flight; reads that were only queued are dropped and never done. */
void reads_cancel(struct reads *r);

#endif
