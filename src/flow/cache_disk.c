/* cache_disk.c: see cache_disk.h.
 *
 * A part has a header, elements at multiples of 16 bytes, and a table of them with checksums. The header and the table are
 * checked when the part is opened, an element whenever it is read: whatever a machine made of a file, nothing wrong is used.
 * Inside an element, bytes are given by their place in the element instead of a pointer. */
#include "flow/cache_disk.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/mapping.h"
#include "io/publish.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC       UINT64_C(0x3154524150545350) /* "PSTPART1" */
#define ALIGNMENT   ((size_t)16)
#define FIRST_SLOTS 1024
#define SUFFIX      ".part"
#define MOST_LENGTH 64

struct part_header {
    uint64_t magic, key[2];
    uint64_t elements, table; /* number of elements; offset of their table */
    uint32_t table_crc, header_crc;
    uint64_t unused[2];
};

struct part_entry {
    uint64_t index;
    uint64_t back;        /* bytes from the block, which its prefix precedes, to this entry */
    uint64_t size;        /* of the block */
    uint32_t crc, unused; /* of prefix and block */
};

struct part {
    struct mapping map;
    const struct part_entry *entries;
    uint64_t count;
};

/* Elements of one worker that are not in a file yet. */
struct pending {
    _Alignas(64) uint8_t *data;
    size_t used, room;
    struct part_entry *entries;
    size_t count, capacity;
};

struct cache_disk {
    char *folder;
    uint64_t key[2];
    size_t prefix, part_bytes;
    uint64_t slots, budget;
    bool grows;
    _Atomic(const struct part_entry *) *table; /* NULL: the element is not there */
    struct pending *pending;
    unsigned workers;
    _Atomic uint64_t elements, bytes, length;
    _Atomic bool full; /* nothing is stored any more */
    pthread_mutex_t lock;
    struct part **parts; /* under lock */
    size_t part_count, part_capacity;
    char note[160];  /* under lock */
    pst_error error; /* under lock: why a part could not be written */
    unsigned serial; /* under lock */
};

static const struct part_entry waiting; /* in the table: the element is in no file yet */

static size_t align_up(size_t n)
{
    return (n + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static void stop_storing(struct cache_disk *d, const char *why)
{
    pthread_mutex_lock(&d->lock);
    if (!d->note[0])
        snprintf(d->note, sizeof(d->note), "%s", why);
    atomic_store(&d->full, true);
    pthread_mutex_unlock(&d->lock);
}

/* ---- Parts ---- */

static uint32_t header_crc(struct part_header h)
{
    h.header_crc = 0;
    return crc32c_masked(&h, sizeof(h));
}

/* A part that is not what it should be is left alone: a later version may have made it. */
static bool check_part(const struct cache_disk *d, const struct part_header *h, const uint8_t *data, uint64_t size)
{
    uint64_t bytes;
    if (h->magic != MAGIC || h->key[0] != d->key[0] || h->key[1] != d->key[1] || h->header_crc != header_crc(*h) ||
        __builtin_mul_overflow(h->elements, sizeof(struct part_entry), &bytes) || h->table > size || bytes != size - h->table ||
        h->table % ALIGNMENT || crc32c_masked(data + h->table, (size_t)bytes) != h->table_crc)
        return false;
    const struct part_entry *e = (const struct part_entry *)(const void *)(data + h->table);
    for (uint64_t i = 0; i < h->elements; i++) {
        uint64_t place = h->table + i * sizeof(*e), offset = place - e[i].back;
        if (e[i].back > place || offset % ALIGNMENT || offset < sizeof(*h) + d->prefix || offset > h->table ||
            e[i].size > h->table - offset)
            return false;
    }
    return true;
}

static void part_destroy(struct part *p)
{
    if (p)
        mapping_close(&p->map);
    mem_free(p);
}

static struct part *open_part(struct cache_disk *d, const char *path)
{
    struct stat s;
    struct part *p = mem_zalloc(sizeof(*p));
    int fd = p ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    bool whole = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (size_t)s.st_size >= sizeof(struct part_header) &&
                 mapping_open(&p->map, fd, path, (size_t)s.st_size, NULL) == PST_OK;
    if (fd >= 0)
        close(fd);
    struct part_header h;
    if (whole)
        memcpy(&h, p->map.data, sizeof(h));
    if (whole && check_part(d, &h, p->map.data, p->map.length) && !mapping_broken(&p->map)) {
        p->entries = (const struct part_entry *)(const void *)(p->map.data + h.table);
        p->count = h.elements;
        return p;
    }
    part_destroy(p);
    return NULL;
}

/* Makes room for element `index`; false: there is none. */
static bool reach(struct cache_disk *d, uint64_t index)
{
    if (index < d->slots)
        return true;
    uint64_t slots = index < UINT64_MAX / 4 ? 2 * index + FIRST_SLOTS : 0;
    _Atomic(const struct part_entry *) *table = d->grows && slots ? mem_array((size_t)slots, sizeof(*table)) : NULL;
    if (!table)
        return false;
    memcpy((void *)table, (const void *)d->table, (size_t)d->slots * sizeof(*table));
    mem_free((void *)d->table);
    d->table = table;
    d->slots = slots;
    return true;
}

/* Takes the part, whose elements can be found from now on. */
static bool add_part(struct cache_disk *d, struct part *p)
{
    pthread_mutex_lock(&d->lock);
    bool room = mem_grow((void **)&d->parts, &d->part_capacity, d->part_count + 1, sizeof(*d->parts)) >= 0;
    if (room)
        d->parts[d->part_count++] = p;
    pthread_mutex_unlock(&d->lock);
    for (uint64_t i = 0; room && i < p->count; i++) {
        uint64_t index = p->entries[i].index;
        const struct part_entry *found = reach(d, index) ? atomic_load(&d->table[index]) : &p->entries[i];
        if ((!found || found == &waiting) &&
            atomic_compare_exchange_strong_explicit(&d->table[index], &found, &p->entries[i], memory_order_release,
                                                    memory_order_relaxed))
            atomic_fetch_add_explicit(&d->elements, 1, memory_order_relaxed);
    }
    return room;
}

static bool is_part(const char *name)
{
    size_t n = strlen(name);
    return n > strlen(SUFFIX) && name[0] != '.' && strcmp(name + n - strlen(SUFFIX), SUFFIX) == 0;
}

/* The bytes of all parts, those of other processes too; opens them if `opens`. */
static uint64_t look_around(struct cache_disk *d, bool opens)
{
    DIR *dir = opendir(d->folder);
    uint64_t bytes = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        struct stat s;
        char *path = is_part(e->d_name) ? file_join(d->folder, e->d_name) : NULL;
        if (path && stat(path, &s) == 0)
            bytes += (uint64_t)s.st_size;
        struct part *p = path && opens ? open_part(d, path) : NULL;
        if (p && !add_part(d, p))
            part_destroy(p);
        mem_free(path);
    }
    if (dir)
        closedir(dir);
    atomic_store(&d->bytes, bytes);
    return bytes;
}

/* ---- Storing ---- */

static pst_status write_part(struct cache_disk *d, struct pending *w, const char *path, pst_error *reterr)
{
    struct publish out = {0};
    size_t table = w->count * sizeof(*w->entries);
    struct part_header h = {
        .magic = MAGIC, .key = {d->key[0], d->key[1]}, .elements = w->count, .table = sizeof(h) + align_up(w->used)};
    for (size_t i = 0; i < w->count; i++) /* until now it was the offset */
        w->entries[i].back = h.table + i * sizeof(*w->entries) - w->entries[i].back;
    h.table_crc = crc32c_masked(w->entries, table);
    h.header_crc = header_crc(h);
    pst_status st = publish_open(&out, path, false, reterr);
    if (st == PST_OK)
        st = file_write_at(out.fd, path, &h, sizeof(h), 0, reterr);
    if (st == PST_OK)
        st = file_write_at(out.fd, path, w->data, align_up(w->used), sizeof(h), reterr);
    if (st == PST_OK)
        st = file_write_at(out.fd, path, w->entries, table, h.table, reterr);
    if (st == PST_OK)
        st = publish_commit(&out, true, reterr);
    publish_discard(&out);
    return st;
}

static char *part_path(struct cache_disk *d)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    pthread_mutex_lock(&d->lock);
    unsigned serial = d->serial++;
    pthread_mutex_unlock(&d->lock);
    return mem_format("%s/%" PRIx64 "-%lx-%u" SUFFIX, d->folder, (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                      (unsigned long)getpid(), serial);
}

/* Makes a part of what a worker has. */
static void flush(struct cache_disk *d, struct pending *w)
{
    pst_error error = {0};
    char why[160];
    uint64_t size = sizeof(struct part_header) + align_up(w->used) + w->count * sizeof(*w->entries);
    if (w->count > 0 && !atomic_load(&d->full)) {
        char *path = part_path(d);
        if (look_around(d, false) + size > d->budget) {
            stop_storing(d, "the cache on disk has reached its size (bytes=); the elements that it does not have are computed");
        } else if (!path || write_part(d, w, path, &error) < 0) {
            if (!path)
                fail_memory(&error, "storing elements");
            snprintf(why, sizeof(why), "nothing more is cached: %.120s", error.message);
            stop_storing(d, why);
            pthread_mutex_lock(&d->lock);
            if (d->error.status == PST_OK)
                d->error = error;
            pthread_mutex_unlock(&d->lock);
        } else {
            struct part *p = open_part(d, path);
            if (p && !add_part(d, p))
                part_destroy(p);
            atomic_fetch_add(&d->bytes, size);
        }
        mem_free(path);
    }
    w->used = w->count = 0;
}

/* Replaces pointers by places within the block. */
static void make_relative(uint8_t *block, const pst_spec *spec, const struct field_list *fields)
{
    for (size_t k = 0; k < fields->count; k++) {
        size_t f = fields->number[k];
        if (spec->field[f].dtype != PST_DTYPE_BYTES)
            continue;
        pst_tensor t = element_field(block, spec, fields, k);
        pst_bytes *values = t.data;
        for (size_t i = 0; i < shape_bytes(t.dtype, t.rank, t.shape) / sizeof(*values); i++)
            values[i].data = (const uint8_t *)(uintptr_t)(values[i].data - block);
    }
}

/* Room for one more element; false: there is none. */
static bool make_room(struct cache_disk *d, struct pending *w, size_t size)
{
    if (w->used > 0 && w->used + size > d->part_bytes)
        flush(d, w);
    if (mem_grow((void **)&w->entries, &w->capacity, w->count + 1, sizeof(*w->entries)) < 0)
        return false;
    if (w->used + size <= w->room)
        return true;
    size_t room = size > d->part_bytes ? size : d->part_bytes; /* only an empty one grows */
    uint8_t *data = w->used == 0 || !w->data ? mem_aligned(room) : NULL;
    if (!data)
        return false;
    mem_free(w->data);
    w->data = data;
    w->room = room;
    return true;
}

void cache_disk_keep(struct cache_disk *d, unsigned worker, uint64_t index, const pst_spec *spec,
                     const struct field_list *fields, const pst_tensor *tensors, const void *prefix)
{
    struct pending *w = &d->pending[worker];
    size_t size = element_size(spec, fields, tensors);
    const struct part_entry *none = NULL;
    if (!reach(d, index) || size > d->budget || atomic_load_explicit(&d->full, memory_order_relaxed) ||
        !make_room(d, w, d->prefix + align_up(size)) ||
        !atomic_compare_exchange_strong_explicit(&d->table[index], &none, &waiting, memory_order_relaxed, memory_order_relaxed))
        return;
    uint8_t *begin = w->data + w->used, *block = begin + d->prefix;
    memset(begin, 0, d->prefix + align_up(size)); /* also gaps: no bytes of the process leave it */
    if (d->prefix)
        memcpy(begin, prefix, d->prefix);
    element_pack(block, spec, fields, tensors);
    make_relative(block, spec, fields);
    w->entries[w->count++] = (struct part_entry){.index = index,
                                                 .back = sizeof(struct part_header) + w->used + d->prefix,
                                                 .size = size,
                                                 .crc = crc32c_masked(begin, d->prefix + size)};
    w->used += d->prefix + align_up(size);
}

/* ---- Finding ---- */

void *cache_disk_find(const struct cache_disk *d, uint64_t index)
{
    const struct part_entry *e = index < d->slots ? atomic_load_explicit(&d->table[index], memory_order_acquire) : NULL;
    return e && e != &waiting ? (void *)((uintptr_t)e - (uintptr_t)e->back) : NULL;
}

static bool fix_bytes(pst_tensor *t, const uint8_t *block, size_t size, struct arena *scratch, bool *ret_damaged)
{
    size_t own = shape_bytes(t->dtype, t->rank, t->shape);
    const pst_bytes *stored = t->data;
    pst_bytes *values = arena_alloc(scratch, own ? own : 1);
    for (size_t i = 0; values && i < own / sizeof(*values); i++) {
        uint64_t at = (uint64_t)(uintptr_t)stored[i].data;
        if (at > size || stored[i].length > size - at) {
            *ret_damaged = true;
            return false;
        }
        values[i] = (pst_bytes){block + at, stored[i].length};
    }
    t->data = values;
    return values != NULL;
}

bool cache_disk_view(struct cache_disk *d, uint64_t index, void *block, const pst_spec *spec, const struct field_list *fields,
                     pst_tensor *tensors, struct arena *scratch)
{
    const struct part_entry *e = atomic_load_explicit(&d->table[index], memory_order_acquire);
    bool whole = e && e != &waiting && crc32c_masked((const uint8_t *)block - d->prefix, d->prefix + (size_t)e->size) == e->crc;
    bool damaged = !whole;
    if (whole)
        element_view(block, spec, fields, tensors);
    for (size_t k = 0; k < fields->count && whole; k++)
        if (spec->field[fields->number[k]].dtype == PST_DTYPE_BYTES)
            whole = fix_bytes(&tensors[fields->number[k]], block, (size_t)e->size, scratch, &damaged);
    if (damaged)
        atomic_store_explicit(&d->table[index], NULL, memory_order_relaxed);
    return whole;
}

/* ---- The length of a stream ---- */

uint64_t cache_disk_length(const struct cache_disk *d)
{
    return atomic_load(&d->length);
}

static void read_length(struct cache_disk *d)
{
    char *path = file_join(d->folder, "length"), *end;
    uint8_t *text = NULL;
    size_t n;
    uint64_t value;
    atomic_store(&d->length, UINT64_MAX);
    if (path && file_read_all(&text, &n, path, MOST_LENGTH, NULL) == PST_OK) {
        value = strtoull((char *)text, &end, 10);
        if (end != (char *)text && *end == '\n')
            atomic_store(&d->length, value);
    }
    mem_free(text);
    mem_free(path);
}

pst_status cache_disk_set_length(struct cache_disk *d, uint64_t length, pst_error *reterr)
{
    char text[MOST_LENGTH], *path = file_join(d->folder, "length");
    pst_status st = path ? PST_OK : fail_memory(reterr, "storing a length");
    if (atomic_exchange(&d->length, length) != length && path && !atomic_load(&d->full)) {
        snprintf(text, sizeof(text), "%" PRIu64 "\n", length);
        st = publish_bytes(path, text, strlen(text), true, true, reterr);
    }
    mem_free(path);
    return st;
}

/* ---- The whole ---- */

pst_status cache_disk_settle(struct cache_disk *d, pst_error *reterr)
{
    for (unsigned i = 0; i < d->workers; i++)
        flush(d, &d->pending[i]);
    if (d->error.status < 0 && reterr)
        *reterr = d->error;
    return d->error.status;
}

bool cache_disk_failed(const struct cache_disk *d)
{
    return atomic_load_explicit(&d->full, memory_order_relaxed);
}

size_t cache_disk_parts(struct cache_disk *d)
{
    pthread_mutex_lock(&d->lock);
    size_t count = d->part_count;
    pthread_mutex_unlock(&d->lock);
    return count;
}

uint64_t cache_disk_size(const struct cache_disk *d, uint64_t index)
{
    const struct part_entry *e = index < d->slots ? atomic_load_explicit(&d->table[index], memory_order_acquire) : NULL;
    return e ? e->size : 0;
}

const char *cache_disk_folder(const struct cache_disk *d)
{
    return d->folder;
}

uint64_t cache_disk_bytes(const struct cache_disk *d)
{
    return atomic_load(&d->bytes);
}

uint64_t cache_disk_elements(const struct cache_disk *d)
{
    return atomic_load(&d->elements);
}

void cache_disk_note(struct cache_disk *d, char *buffer, size_t size)
{
    pthread_mutex_lock(&d->lock);
    snprintf(buffer, size, "%s", d->note);
    pthread_mutex_unlock(&d->lock);
}

struct cache_disk *cache_disk_close(struct cache_disk *d)
{
    if (!d)
        return NULL;
    for (unsigned i = 0; d->pending && i < d->workers; i++) {
        flush(d, &d->pending[i]);
        mem_free(d->pending[i].data);
        mem_free(d->pending[i].entries);
    }
    for (size_t i = 0; i < d->part_count; i++)
        part_destroy(d->parts[i]);
    mem_free(d->parts);
    mem_free((void *)d->table);
    mem_free(d->pending);
    mem_free(d->folder);
    pthread_mutex_destroy(&d->lock);
    mem_free(d);
    return NULL;
}

/* Makes the folder and says in it what it is; removes what dead processes left. */
static pst_status prepare(struct cache_disk *d, const char *dir, const char *about, pst_error *reterr)
{
    char name[33], *path;
    snprintf(name, sizeof(name), "%016" PRIx64 "%016" PRIx64, d->key[0], d->key[1]);
    d->folder = file_join(dir, name);
    path = d->folder ? file_join(d->folder, "about.txt") : NULL;
    pst_status st = path ? file_make_folder(dir, reterr) : fail_memory(reterr, "cache");
    if (st == PST_OK)
        st = file_make_folder(d->folder, reterr);
    if (st == PST_OK)
        st = publish_sweep(d->folder, reterr);
    if (st == PST_OK && access(path, F_OK) != 0)
        st = publish_bytes(path, about, strlen(about), true, false, reterr);
    mem_free(path);
    return st;
}

pst_status cache_disk_open(struct cache_disk **ret, const struct cache_disk_request *r, pst_error *reterr)
{
    struct cache_disk *d = mem_zalloc(sizeof(*d));
    if (!d)
        return fail_memory(reterr, "cache");
    pthread_mutex_init(&d->lock, NULL);
    memcpy(d->key, r->key, sizeof(d->key));
    d->slots = r->slots;
    d->grows = r->grows;
    d->budget = r->bytes ? r->bytes : UINT64_MAX / 2;
    d->part_bytes = r->part ? r->part : CACHE_DISK_PART;
    d->prefix = r->prefix;
    d->workers = r->workers;
    d->table = mem_array((size_t)r->slots, sizeof(*d->table));
    d->pending = mem_aligned(r->workers * sizeof(*d->pending));
    if (d->pending)
        memset((void *)d->pending, 0, r->workers * sizeof(*d->pending));
    pst_status st = d->table && d->pending ? prepare(d, r->dir, r->about, reterr) : fail_memory(reterr, "cache");
    if (st < 0) {
        cache_disk_close(d);
        return st;
    }
    read_length(d);
    look_around(d, true);
    *ret = d;
    return PST_OK;
}
