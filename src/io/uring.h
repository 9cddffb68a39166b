/* uring.h: io_uring, used by reads.c only. */
#ifndef IO_URING_H
#define IO_URING_H

#include "io/reads.h"

struct uring;

/* NULL: io_uring is not available (not built in, denied, too old), or out of memory. */
struct uring *uring_create(unsigned depth);
void uring_destroy(struct uring *u); /* NULL ok; nothing may be in flight */
/* Prepares a read of the missing bytes of `q`. False: the ring is full. */
bool uring_add(struct uring *u, struct read_request *q);
/* Starts the prepared reads and, if requested, waits until one has ended. Returns 0 or an errno. */
int uring_enter(struct uring *u, bool wait);
/* Returns the next read that has ended; its result is a number of bytes or a negative errno. NULL: none at the moment. */
struct read_request *uring_ended(struct uring *u, int *ret_result);

#endif
