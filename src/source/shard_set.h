/* shard_set.h: the records of many shards under one numbering, shared by all workers.
 *
 * Shards are mapped where that works: a record is then a view, and loading it costs no system call. Where it does not (more
 * mappings than the system allows), or by the user's choice, records are read. */
#ifndef SOURCE_SHARD_SET_H
#define SOURCE_SHARD_SET_H

#include "io/walk.h"
#include "source/jpeg_points.h"
#include "source/source.h"
#include "record/index.h"
#include <pthread.h>
#include <stdatomic.h>

enum shard_io {
    SHARD_IO_AUTO,  /* mapped where possible; past the page cache what would not fit into it and is not there */
    SHARD_IO_MAP,   /* mapped, or an error */
    SHARD_IO_READ,  /* a system call a record */
    SHARD_IO_DIRECT /* past the page cache */
};

struct set_shard {
    _Atomic(const uint8_t *) data; /* mapped; NULL: to be read */
    const struct index_entry *entries;
    uint64_t first; /* of its records, among all */
    uint64_t bytes; /* of the file, when it was opened */
    pst_shard *shard;
    struct mapping mapping;       /* what `data` was, until the set is closed */
    _Atomic int direct;           /* a descriptor past the page cache; -1: none yet */
    struct entropy_section jpegs; /* of its index */
    bool damaged;                 /* …which nobody can read */
    _Atomic uint32_t *states;     /* as entropy.h has them; NULL: its index has no such section */
};

struct shard_set {
    struct path_list paths;
    struct set_shard *shards;
    size_t count;
    uint64_t *firsts; /* count + 1 of them: the shards' first records, and the number of all */
    uint64_t records, bytes, fingerprint;
    uint64_t max_record_bytes;
    enum shard_io io;
    bool exceeds_memory;        /* the page cache could never hold it */
    _Atomic uint64_t *verified; /* a bit a record, set when its data has matched its CRC; NULL: nobody asks */
    size_t *table;              /* number >> shift → the first shard that may have it */
    unsigned shift;
    _Atomic size_t mapped;    /* mappings that were asked for */
    _Atomic size_t kept;      /* descriptors that stay open */
    _Atomic size_t looked;    /* shards whose size was looked at again */
    pthread_mutex_t lock;     /* for opening `direct` */
    struct file_stop stop;    /* the engine's */
    pst_damage_log *tolerant; /* damage that was told before */

    _Atomic size_t streamed;      /* a shard without random access, the lowest; SIZE_MAX: none, the set is complete */
    const struct source_env *env; /* while opening */
};

/* Finds and opens them, several at a time. When one has no random access, the set only has `paths`, `streamed`, `bytes`,
 * `fingerprint` and `tolerant`. `s` is zeroed; close also what failed to open. */
pst_status shard_set_open(struct shard_set *s, const pst_strings *paths, enum shard_io io, uint64_t max_record_bytes,
                          const struct source_env *env, pst_error *reterr);
void shard_set_close(struct shard_set *s);

/* The shard that has record `i` < records. */
static inline size_t shard_set_find(const struct shard_set *s, uint64_t i)
{
    size_t low = s->table[i >> s->shift], high = s->table[(i >> s->shift) + 1];
    while (low < high) { /* the last that begins at or before `i` */
        size_t middle = high - (high - low) / 2;
        if (s->firsts[middle] <= i)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static inline bool shard_set_must_verify(const struct shard_set *s, uint64_t i)
{
    return s->verified && !(atomic_load_explicit(&s->verified[i / 64], memory_order_relaxed) >> (i % 64) & 1);
}

static inline void shard_set_verified(struct shard_set *s, uint64_t i)
{
    atomic_fetch_or_explicit(&s->verified[i / 64], UINT64_C(1) << (i % 64), memory_order_relaxed);
}

/* As source_class.entropy. */
bool shard_set_entropy(const struct shard_set *s, uint64_t i, struct entropy_home *ret);

/* Looks whether one of the shards, another one at each call, has been cut short. Its mapping is given up then: touching it
 * behind the new end raises SIGBUS. Reading reports what is wrong. Between two looks the guard (io/mapping.h) catches it. */
void shard_set_look(struct shard_set *s);
/* As source_class.intact. */
pst_status shard_set_intact(struct shard_set *s, uint64_t i, pst_error *reterr);
/* A descriptor of shard `k` for reads past the page cache. `*ret_owned`: the caller closes it. */
pst_status shard_set_direct(struct shard_set *s, size_t k, int *ret_fd, bool *ret_owned, pst_error *reterr);
/* "8 shards, 1.5 GiB, mapped; index: sidecar". */
void shard_set_describe(const struct shard_set *s, char *buffer, size_t size);

#endif
