/* fault.h: the places where a test can make a system call fail.
 *
 * Every allocation, system call on storage and thread start of the library asks fault_hit() first. Without a hook that is
 * one relaxed load. Only tests set a hook, to fail the Nth call of a kind. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

enum fault_kind { FAULT_MEMORY, FAULT_IO, FAULT_THREAD };

/* Returns true to make this call fail. `what` is the call: "malloc", "pread", …. Must be thread-safe. */
typedef bool (*fault_fn)(void *user, enum fault_kind kind, const char *what);

/* NULL removes the hook. Only while no library call is running. */
void fault_set(fault_fn fn, void *user);
bool fault_hit(enum fault_kind kind, const char *what);

#endif
