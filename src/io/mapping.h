/* mapping.h: files mapped for reading, and a guard for files that other processes truncate.
 *
 * Accessing a mapped page that the file no longer has raises SIGBUS, which kills the process. Where pst_guard_install was
 * called, the page and all pages after it become zeros instead, and the mapping is broken from then on. So code that uses
 * mapped bytes calls mapping_broken after the last use and before the result is used: true means that zeros may be among
 * them. */
#ifndef IO_MAPPING_H
#define IO_MAPPING_H

#include <penstock/base.h>
#include <stdatomic.h>

struct mapping_slot { /* in a table that the signal handler searches */
    _Atomic bool taken, broken;
    _Atomic uint32_t version; /* changes before and after the two below do */
    _Atomic uintptr_t begin;  /* 0: not in use */
    _Atomic size_t length;
};

struct mapping { /* zeroed: none */
    const uint8_t *data;
    size_t length;
    struct mapping_slot *slot;
};

/* Maps the first `length` (> 0) bytes of the file. */
pst_status mapping_open(struct mapping *ret, int fd, const char *path, size_t length, pst_error *reterr);
/* The same for a remote file of which only parts are here: bytes may be used once file_is_here. */
pst_status mapping_open_sparse(struct mapping *ret, int fd, const char *path, size_t length, pst_error *reterr);
void mapping_close(struct mapping *m); /* zeroed ok; leaves it zeroed */

extern _Atomic uint32_t mapping_breaks; /* number of mappings of this process that have broken */

/* Returns whether any mapping broke: a cheap check before mapping_broken, called after the bytes were used. */
static inline bool mapping_any_broken(void)
{
    atomic_thread_fence(memory_order_acquire); /* the bytes are read before the flag */
    return __builtin_expect(atomic_load_explicit(&mapping_breaks, memory_order_relaxed) != 0, 0);
}

static inline bool mapping_broken(const struct mapping *m)
{
    return mapping_any_broken() && m->slot && atomic_load_explicit(&m->slot->broken, memory_order_acquire);
}

/* The error of a broken mapping: PST_ESTALE where the file at `path` is shorter now, PST_EIO where storage failed. */
pst_status mapping_fail(const struct mapping *m, const char *path, uint64_t record, uint64_t offset, pst_error *reterr);

#endif
