/* uring.h: io_uring, for reads.c alone. */
#ifndef IO_URING_H
#define IO_URING_H

#include "io/reads.h"

struct uring;

/* NULL: this build or this system has none (denied, too old), or memory is short. */
struct uring *uring_create(unsigned depth);
void uring_destroy(struct uring *u); /* NULL ok; nothing may be in flight */
/* Prepares a read of what `q` still lacks. False: the ring is full. */
bool uring_add(struct uring *u, struct read_request *q);
/* Starts what was prepared and, if asked, waits until something has ended. Returns 0 or an errno. */
int uring_enter(struct uring *u, bool wait);
/* The next read that has ended: bytes, or a negative errno. NULL: none right now. */
struct read_request *uring_ended(struct uring *u, int *ret_result);

#endif
