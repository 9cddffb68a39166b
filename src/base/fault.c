/* fault.c: the hook behind fault_hit(). It is one of the library's few mutable globals, and only tests write it. */
#include "base/fault.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic(fault_fn) hook;
static _Atomic(void *) hook_user;

void fault_set(fault_fn fn, void *user)
{
    atomic_store(&hook_user, user);
    atomic_store(&hook, fn);
}

bool fault_hit(enum fault_kind kind, const char *what)
{
    fault_fn fn = atomic_load_explicit(&hook, memory_order_relaxed);
    return fn && fn(atomic_load_explicit(&hook_user, memory_order_relaxed), kind, what);
}
