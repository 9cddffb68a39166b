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
    SHARD_IO_AUTO,  /* mapped where possible; data that would not fit in the page cache and is not in it bypasses it */
    SHARD_IO_MAP,   /* mapped, or an error */
    SHARD_IO_READ,  /* one system call per record */
    SHARD_IO_DIRECT /* bypasses the page cache */
};

struct set_shard {
    _Atomic(const uint8_t *) data; /* mapped; NULL: to be read */
    const struct index_entry *entries;
    uint64_t first; /* number of its first record among all records */
    uint64_t bytes; /* size of the file when it was opened */
    pst_shard *shard;
    struct mapping mapping;       /* the mapping behind `data`, kept until the set is closed */
    struct mapping sparse;        /* of a remote shard that is not whole: becomes `data` when it is */
    _Atomic bool expected;        /* it and those after it are being fetched ahead */
    _Atomic int direct;           /* descriptor for reads that bypass the page cache; -1: none yet */
    struct entropy_section jpegs; /* JPEG section of its index */
    bool damaged;                 /* …which is damaged */
    _Atomic uint32_t *states;     /* see jpeg_points.h; NULL: its index has no such section */
};

struct shard_set {
    struct path_list paths;
    struct set_shard *shards;
    size_t count;
    uint64_t *firsts; /* count + 1 values: the first record of each shard, and the total number of records */
    uint64_t records, bytes, fingerprint;
    uint64_t max_record_bytes;
    enum shard_io io;
    bool exceeds_memory;        /* the page cache could never hold it */
    _Atomic bool remote;        /* some shards are not here yet: they are fetched as they are read */
    _Atomic uint64_t *verified; /* one bit per record, set after its data matched its CRC; NULL: not verified */
    uint64_t part_first, part_end; /* the records of this machine's part: shards of others are not fetched ahead */
    size_t *table;              /* record number >> shift → the first shard that may contain it */
    unsigned shift;
    _Atomic size_t mapped;    /* number of requested mappings */
    _Atomic size_t missing;   /* remote shards that are not whole */
    _Atomic size_t kept;      /* number of descriptors that stay open */
    _Atomic size_t looked;    /* number of shards whose size was checked again */
    pthread_mutex_t lock;     /* for opening `direct` */
    struct file_stop stop;    /* set by the engine */
    pst_damage_log *tolerant; /* log for damage that was reported before */

    _Atomic size_t streamed;      /* the first shard without random access; SIZE_MAX: none, the set is complete */
    const struct source_env *env; /* while opening */
};

/* Finds and opens the shards, several at a time. If one has no random access, the set only has `paths`, `streamed`, `bytes`,
 * `fingerprint` and `tolerant`. `s` is zeroed by the caller; call shard_set_close also after a failure. */
pst_status shard_set_open(struct shard_set *s, const pst_strings *paths, enum shard_io io, uint64_t max_record_bytes,
                          const struct source_env *env, pst_error *reterr);
void shard_set_close(struct shard_set *s);

/* Returns the shard that contains record `i` < records. */
static inline size_t shard_set_find(const struct shard_set *s, uint64_t i)
{
    size_t low = s->table[i >> s->shift], high = s->table[(i >> s->shift) + 1];
    while (low < high) { /* find the last shard that begins at or before `i` */
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

/* Implements source_class.entropy. */
bool shard_set_entropy(const struct shard_set *s, uint64_t i, struct entropy_home *ret);

/* Checks whether one of the shards, a different one at each call, was truncated. Then its mapping is dropped, because
 * accessing it past the new end raises SIGBUS; reads report the error. Between two checks the guard (io/mapping.h) handles
 * it. */
void shard_set_look(struct shard_set *s);
/* Implements source_class.intact. */
pst_status shard_set_intact(struct shard_set *s, uint64_t i, pst_error *reterr);
/* Returns a descriptor of shard `k` for reads that bypass the page cache. `*ret_owned`: the caller closes it. */
pst_status shard_set_direct(struct shard_set *s, size_t k, int *ret_fd, bool *ret_owned, pst_error *reterr);
/* Writes a line such as "8 shards, 1.5 GiB, mapped; index: sidecar". */
void shard_set_describe(const struct shard_set *s, char *buffer, size_t size);

#endif
