/* each.h: the same for every number, over threads: how sources open thousands of files. */
#ifndef SOURCE_EACH_H
#define SOURCE_EACH_H

#include <penstock/base.h>

/* Calls fn(user, i) for every i < count, on up to `threads` threads, and waits; on the caller's own where none can be had.
 * Numbers are taken in order, and a failure ends the taking: the error is that of the lowest that fails, always. */
pst_status each_run(size_t count, unsigned threads, pst_status (*fn)(void *user, size_t i, pst_error *reterr), void *user,
                    pst_error *reterr);

#endif
