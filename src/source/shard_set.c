/* shard_set.c: opening many shards at once, numbering their records, and keeping an eye on their files.
 *
 * Promises: the result is the same for any number of threads; descriptors and mappings stay within what the system allows.
 * Leaves to others: which records are wanted (shard_reader.c), and shards without random access (tfrecord_stream.c). */
#include "source/shard_set.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "base/text.h"
#include "io/file.h"
#include "io/remote/remote.h"
#include "io/stop.h"
#include "record/find.h"
#include "record/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OPENERS        8u  /* threads; opening mostly waits for storage */
#define REMOTE_OPENERS 64u /* as many as there may be connections for small requests */
#define BUCKETS 8u /* of the table, a shard */
/* Mappings of shards: with those of their indexes they stay below the 65,530 that the system allows a process, and leave some
 * to memory and threads. */
#define MAX_MAPPED 30000u

/* ---- Opening ---- */

/* Half of the descriptors are left to others. */
static bool may_keep_open(struct shard_set *s)
{
    if (atomic_fetch_add(&s->kept, 1) < file_open_limit() / 2)
        return true;
    atomic_fetch_sub(&s->kept, 1);
    return false;
}

static bool may_map(struct shard_set *s, const pst_shard *shard)
{
    if ((s->io != SHARD_IO_AUTO && s->io != SHARD_IO_MAP) || pst_shard_bytes(shard) == 0)
        return false;
    if (s->io == SHARD_IO_AUTO && !file_is_whole(shard_descriptor(shard)))
        return false;
    return atomic_fetch_add(&s->mapped, 1) < MAX_MAPPED || s->io == SHARD_IO_MAP;
}

static pst_status map_shard(struct shard_set *s, struct set_shard *d, pst_error *reterr)
{
    pst_status st = may_map(s, d->shard) ? shard_map(d->shard, &d->mapping, reterr) : PST_OK;
    if (st < 0 && s->io == SHARD_IO_MAP)
        return st;
    atomic_store(&d->data, d->mapping.data);
    if (!d->mapping.data && file_is_remote(shard_descriptor(d->shard))) {
        atomic_store(&s->remote, true);
        atomic_fetch_add(&s->missing, 1);
        if (s->io == SHARD_IO_AUTO && d->bytes && atomic_fetch_add(&s->mapped, 1) < MAX_MAPPED)
            (void)shard_map_sparse(d->shard, &d->sparse, NULL); /* otherwise its records are read */
    }
    if (d->mapping.data || s->io == SHARD_IO_DIRECT || !may_keep_open(s))
        shard_release(d->shard);
    return PST_OK;
}

static void note_stream(struct shard_set *s, size_t k)
{
    size_t lowest = atomic_load(&s->streamed);
    while (k < lowest && !atomic_compare_exchange_weak(&s->streamed, &lowest, k))
        ;
}

/* Only the section's header is looked at. */
static pst_status open_jpegs(struct set_shard *d, pst_error *reterr)
{
    const struct index *x = shard_index(d->shard);
    if (!x->jpegs)
        return PST_OK;
    d->damaged = !entropy_section_open(&d->jpegs, x->jpegs, x->jpegs_length);
    d->states = mem_array(d->damaged ? 1 : (size_t)d->jpegs.count, sizeof(*d->states));
    return d->states ? PST_OK : fail_memory(reterr, "opening the shards");
}

static pst_status open_one(struct shard_set *s, size_t k, pst_error *reterr)
{
    struct set_shard *d = &s->shards[k];
    struct file_info info;
    pst_shard_options options = {.size = sizeof(options),
                                 .cache_dir = s->env->cache_dir,
                                 .max_record_bytes = s->max_record_bytes,
                                 .damage = s->tolerant,
                                 .stop = s->env->stop.asked,
                                 .stop_user = s->env->stop.user};
    enum index_hold hold = s->io == SHARD_IO_READ ? INDEX_COPIED : s->io == SHARD_IO_MAP ? INDEX_MAPPED : INDEX_VIEWED;
    pst_status st = file_stat(s->paths.paths[k], &info, reterr);
    if (st < 0)
        return st;
    /* Opening a pipe and closing it again would end the process that writes to it. */
    st = info.is_regular ? shard_open(&d->shard, s->paths.paths[k], &options, hold, reterr) : PST_EUNSUPPORTED;
    if (st == PST_EUNSUPPORTED) {
        note_stream(s, k);
        return PST_OK;
    }
    if (st < 0)
        return st;
    d->entries = shard_entries(d->shard);
    d->bytes = pst_shard_bytes(d->shard);
    st = open_jpegs(d, reterr);
    return st < 0 ? st : map_shard(s, d, reterr);
}

/* On any thread: each takes over what stops the plan. */
static pst_status open_shard(void *user, size_t k, pst_error *reterr)
{
    struct shard_set *s = user;
    struct file_stop before = stop_set_thread(s->env->stop);
    pst_status st = open_one(s, k, reterr);
    stop_set_thread(before);
    return st;
}

/* ---- Numbering ---- */

/* Damage is reported in the order of the shards, whichever was opened first. */
static pst_status number_records(struct shard_set *s, pst_damage_log *damage, pst_error *reterr)
{
    for (size_t k = 0; k < s->count; k++) {
        struct set_shard *d = &s->shards[k];
        pst_status st = shard_report(d->shard, damage, reterr);
        if (st < 0)
            return st;
        d->first = s->firsts[k] = s->records;
        s->records += pst_shard_count(d->shard);
        s->bytes += pst_shard_bytes(d->shard);
        s->fingerprint = hash_combine(s->fingerprint, pst_shard_fingerprint(d->shard));
    }
    s->firsts[s->count] = s->records;
    return PST_OK;
}

/* Buckets of equal width over the numbers, so that finding a shard is one look, and a short search where shards are small. */
static pst_status make_table(struct shard_set *s, pst_error *reterr)
{
    while (s->records >> s->shift > BUCKETS * (uint64_t)s->count)
        s->shift++;
    size_t buckets = (size_t)(s->records >> s->shift) + 2, k = 0;
    s->table = mem_array(buckets, sizeof(*s->table));
    if (!s->table)
        return fail_memory(reterr, "opening the shards");
    for (size_t b = 0; b < buckets; b++) {
        while (k + 1 < s->count && s->firsts[k + 1] <= (uint64_t)b << s->shift)
            k++;
        s->table[b] = k;
    }
    return PST_OK;
}

static pst_status complete(struct shard_set *s, const struct source_env *env, pst_error *reterr)
{
    s->firsts = mem_array(s->count + 1, sizeof(*s->firsts));
    if (!s->firsts)
        return fail_memory(reterr, "opening the shards");
    pst_status st = number_records(s, env->damage, reterr);
    if (st == PST_OK)
        st = make_table(s, reterr);
    if (st == PST_OK && !env->no_verify) {
        s->verified = mem_array((size_t)(s->records / 64 + 1), sizeof(*s->verified));
        st = s->verified ? PST_OK : fail_memory(reterr, "opening the shards");
    }
    s->exceeds_memory = s->bytes > cpu_memory_available();
    return st;
}

/* ---- Streams ---- */

static void close_shards(struct shard_set *s)
{
    for (size_t k = 0; s->shards && k < s->count; k++) {
        struct set_shard *d = &s->shards[k];
        mapping_close(&d->mapping);
        mapping_close(&d->sparse);
        file_close(d->direct);
        mem_free((void *)d->states);
        pst_shard_close(d->shard);
    }
    mem_free(s->shards);
    s->shards = NULL;
}

/* Size and fingerprint of what is only read from beginning to end. A pipe has a name and nothing else. */
static pst_status look_at_streams(struct shard_set *s, pst_error *reterr)
{
    for (size_t k = 0; k < s->paths.count; k++) {
        const char *path = s->paths.paths[k];
        struct file_info info;
        uint64_t size = 0, fingerprint = hash_bytes(path, strlen(path), 0);
        int fd = -1;
        pst_status st = file_stat(path, &info, reterr);
        if (st == PST_OK && info.is_regular) {
            st = file_open_read(&fd, path, reterr);
            if (st == PST_OK)
                st = index_fingerprint(fd, path, &size, &fingerprint, reterr);
            file_close(fd);
        }
        if (st < 0)
            return st;
        s->bytes += size;
        s->fingerprint = hash_combine(s->fingerprint, fingerprint);
    }
    return PST_OK;
}

/* ---- The whole ---- */

pst_status shard_set_open(struct shard_set *s, const pst_strings *paths, enum shard_io io, uint64_t max_record_bytes,
                          const struct source_env *env, pst_error *reterr)
{
    const pst_policy skip = {.skip = true};
    pthread_mutex_init(&s->lock, NULL);
    s->io = io;
    s->max_record_bytes = max_record_bytes < UINT64_MAX ? max_record_bytes : UINT64_MAX - 1; /* UINT64_MAX marks a bad place */
    s->env = env;
    s->stop = env->stop;
    s->part_end = UINT64_MAX;
    atomic_init(&s->streamed, SIZE_MAX);
    pst_status st = find_shards(&s->paths, paths->value, paths->count, reterr);
    if (st == PST_OK)
        st = pst_damage_log_create(&s->tolerant, &skip, reterr);
    if (st < 0)
        return st;
    s->shards = mem_array(s->paths.count, sizeof(*s->shards));
    if (!s->shards)
        return fail_memory(reterr, "opening the shards");
    s->count = s->paths.count;
    for (size_t k = 0; k < s->count; k++)
        atomic_init(&s->shards[k].direct, -1);
    bool remote = s->count && remote_is(s->paths.paths[0]);
    st = parallel_each(s->count, remote ? REMOTE_OPENERS : OPENERS, open_shard, s, reterr);
    s->env = NULL;
    if (st < 0)
        return st;
    if (atomic_load(&s->streamed) == SIZE_MAX)
        return complete(s, env, reterr);
    close_shards(s);
    return look_at_streams(s, reterr);
}

void shard_set_close(struct shard_set *s)
{
    close_shards(s);
    path_list_finish(&s->paths);
    mem_free(s->firsts);
    mem_free(s->table);
    mem_free(s->verified);
    pst_damage_log_destroy(s->tolerant);
    pthread_mutex_destroy(&s->lock);
}

/* ---- While it is read ---- */

bool shard_set_entropy(const struct shard_set *s, uint64_t i, struct entropy_home *ret)
{
    const struct set_shard *d = &s->shards[shard_set_find(s, i)];
    if (!d->states)
        return false;
    *ret = (struct entropy_home){.section = d->damaged ? NULL : &d->jpegs, .record = i - d->first, .states = d->states};
    return true;
}

void shard_set_look(struct shard_set *s)
{
    struct file_info info;
    struct set_shard *d = &s->shards[atomic_fetch_add_explicit(&s->looked, 1, memory_order_relaxed) % s->count];
    if (d->mapping.data && file_stat(pst_shard_path(d->shard), &info, NULL) == PST_OK && info.size < d->bytes)
        atomic_store_explicit(&d->data, NULL, memory_order_relaxed);
}

pst_status shard_set_intact(struct shard_set *s, uint64_t i, pst_error *reterr)
{
    struct set_shard *d = &s->shards[shard_set_find(s, i)];
    const struct index *x = shard_index(d->shard);
    uint64_t record = i - d->first;
    if (mapping_broken(&x->mapping))
        return mapping_fail(&x->mapping, shard_index_path(d->shard), record, PST_NOWHERE, reterr);
    const struct mapping *m = d->mapping.data ? &d->mapping : &d->sparse; /* the latter: a remote shard's local copy */
    if (!mapping_broken(m))
        return PST_OK;
    atomic_store_explicit(&d->data, NULL, memory_order_relaxed);
    return mapping_fail(m, pst_shard_path(d->shard), record, d->entries[record].offset, reterr);
}

pst_status shard_set_direct(struct shard_set *s, size_t k, int *ret_fd, bool *ret_owned, pst_error *reterr)
{
    struct set_shard *d = &s->shards[k];
    bool direct;
    pst_status st = PST_OK;
    *ret_owned = false;
    *ret_fd = atomic_load_explicit(&d->direct, memory_order_acquire);
    if (*ret_fd >= 0)
        return PST_OK;
    pthread_mutex_lock(&s->lock);
    *ret_fd = atomic_load_explicit(&d->direct, memory_order_relaxed);
    if (*ret_fd < 0) {
        st = file_open_direct(ret_fd, &direct, pst_shard_path(d->shard), reterr);
        *ret_owned = st == PST_OK && !may_keep_open(s);
        if (st == PST_OK && !*ret_owned)
            atomic_store_explicit(&d->direct, *ret_fd, memory_order_release);
    }
    pthread_mutex_unlock(&s->lock);
    return st;
}

/* ---- In words ---- */

static void describe_io(const struct shard_set *s, char *buffer, size_t size)
{
    size_t mapped = 0;
    for (size_t k = 0; k < s->count; k++)
        mapped += s->shards[k].mapping.data || pst_shard_bytes(s->shards[k].shard) == 0;
    if (s->io == SHARD_IO_DIRECT)
        snprintf(buffer, size, "read past the page cache");
    else if (s->remote)
        snprintf(buffer, size, "remote, %zu of them here", mapped);
    else if (s->io == SHARD_IO_READ || mapped == 0)
        snprintf(buffer, size, "read%s", s->io == SHARD_IO_READ ? "" : " (the system maps none of them)");
    else if (mapped < s->count)
        snprintf(buffer, size, "%zu mapped and %zu read (the system maps no more)", mapped, s->count - mapped);
    else
        snprintf(buffer, size, "mapped%s",
                 s->io == SHARD_IO_AUTO && s->exceeds_memory
                     ? " (more than memory holds: what is not in it is read past the page cache)"
                     : "");
}

void shard_set_describe(const struct shard_set *s, char *buffer, size_t size)
{
    char bytes[32], io[128], index[128] = "";
    size_t places[PST_INDEX_MEMORY + 1] = {0}, built = 0, n = 0;
    text_bytes(s->bytes, bytes, sizeof(bytes));
    if (!s->shards) {
        snprintf(buffer, size, "%zu shard%s, %s, read from beginning to end: %s is compressed or a pipe", s->paths.count,
                 s->paths.count == 1 ? "" : "s", bytes, file_base(s->paths.paths[s->streamed]));
        return;
    }
    for (size_t k = 0; k < s->count; k++) {
        places[pst_shard_index_place(s->shards[k].shard)]++;
        built += pst_shard_index_built(s->shards[k].shard);
    }
    for (size_t p = 0; p <= PST_INDEX_MEMORY; p++) {
        if (places[p] == 0 || n >= sizeof(index))
            continue;
        n += (size_t)snprintf(index + n, sizeof(index) - n, "%s%s", n ? ", " : "", pst_index_place_name((pst_index_place)p));
        if (places[p] < s->count && n < sizeof(index))
            n += (size_t)snprintf(index + n, sizeof(index) - n, " %zu", places[p]);
    }
    if (built && n < sizeof(index))
        snprintf(index + n, sizeof(index) - n, "; %zu made now", built);
    describe_io(s, io, sizeof(io));
    snprintf(buffer, size, "%zu shard%s, %s, %s; index: %s", s->count, s->count == 1 ? "" : "s", bytes, io, index);
}
