/* cache.c: see cache.h. HASH.data is the copy, HASH.map its header, checksums and the object's address, for lists of copies. HASH is made of the address, the ETag and the
 * size, so that a changed object never finds an old copy. */
#include "io/remote/cache.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/secret.h"
#include "io/file.h"
#include "io/remote/address.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC       "penstock cache 1"
#define PAGE        4096u
#define FIRST_BYTES ((uint64_t)8 << 20)
#define TRIES       100u

struct header {
    char magic[16];
    uint64_t size, block, sum; /* the last: of the two before it, against torn headers */
    uint8_t unused[24];
};

static struct header header_of(uint64_t size)
{
    struct header h = {.size = size, .block = CACHE_BLOCK};
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    h.sum = hash_bytes(&h, offsetof(struct header, sum), 0);
    return h;
}

size_t cache_block_bytes(const struct cache *c, size_t block)
{
    uint64_t left = c->size - (uint64_t)block * CACHE_BLOCK;
    return left < CACHE_BLOCK ? (size_t)left : CACHE_BLOCK;
}

uint32_t cache_sum(uint32_t crc)
{
    return crc ? crc : 1;
}

static bool read_block(const struct cache *c, size_t block, uint8_t *bytes)
{
    size_t n = cache_block_bytes(c, block), got = 0;
    bool ok = true;
    while (ok && got < n) {
        ssize_t k = pread(c->fd, bytes + got, n - got, (off_t)((uint64_t)block * CACHE_BLOCK + got));
        ok = k > 0 || (k < 0 && errno == EINTR);
        got += k > 0 ? (size_t)k : 0;
    }
    return ok;
}

bool cache_check(const struct cache *c, size_t block)
{
    uint32_t sum = atomic_load(&c->sums[block]);
    if (!sum)
        return false;
    uint8_t *bytes = mem_alloc(CACHE_BLOCK);
    bool ok = bytes && read_block(c, block, bytes) && cache_sum(crc32c_extend(0, bytes, cache_block_bytes(c, block))) == sum;
    mem_free(bytes);
    return ok;
}

bool cache_copy(const struct cache *from, const struct cache *to, size_t block)
{
    uint8_t *bytes = mem_alloc(CACHE_BLOCK);
    bool ok = bytes && read_block(from, block, bytes) &&
              file_write_at(to->fd, "", bytes, cache_block_bytes(to, block), (uint64_t)block * CACHE_BLOCK, NULL) == PST_OK;
    mem_free(bytes);
    return ok;
}

/* ---- Room ---- */

static uint64_t in_pages(uint64_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

uint64_t cache_price(const struct cache *c, size_t first, size_t count)
{
    uint64_t bytes = 0;
    for (size_t i = first; c->map_fd >= 0 && i < first + count; i++)
        bytes += atomic_load(&c->sums[i]) ? 0 : in_pages(cache_block_bytes(c, i));
    return bytes;
}

bool cache_is_full(int code)
{
    return code == ENOSPC || code == EDQUOT;
}

/* ---- Private copies ---- */

static struct cache empty_copy(const struct store_facts *facts)
{
    struct cache c = {.fd = -1, .map_fd = -1, .size = facts->size};
    c.blocks = (size_t)((facts->size + CACHE_BLOCK - 1) / CACHE_BLOCK);
    c.map_bytes = sizeof(struct header) + c.blocks * sizeof(*c.sums);
    return c;
}

static pst_status size_private(struct cache *c, const char *path, pst_error *reterr)
{
    if (ftruncate(c->fd, (off_t)c->size) < 0)
        return file_fail(reterr, path, "making room for a copy in /tmp", errno);
    c->sums = mem_array(c->blocks + 1, sizeof(*c->sums));
    return c->sums ? PST_OK : fail_memory_at(reterr, path, "opening the object");
}

static pst_status open_private(struct cache *c, const char *path, pst_error *reterr)
{
    c->fd = file_denied("open") ? -1 : open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (c->fd < 0) {
        char name[] = "/tmp/.penstock-XXXXXX";
        c->fd = mkostemp(name, O_CLOEXEC);
        if (c->fd >= 0)
            unlink(name);
    }
    if (c->fd < 0)
        return file_fail(reterr, path, "making room for a copy in /tmp", errno);
    return size_private(c, path, reterr);
}

pst_status cache_open_memory(struct cache *c, const char *path, const struct store_facts *facts, pst_error *reterr)
{
    *c = empty_copy(facts);
    c->fd = file_denied("open") ? -1 : memfd_create("penstock", MFD_CLOEXEC);
    pst_status st = c->fd < 0 ? file_fail(reterr, path, "making room for a copy in memory", errno) : size_private(c, path, reterr);
    if (st < 0)
        cache_close(c);
    return st;
}

/* ---- Shared copies ---- */

static int open_in(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    int fd = path && !file_denied("open") ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    mem_free(path);
    return fd;
}

/* Gives new files their size and header. An unknown header, or a missing data file, starts the copy anew. One process at a
 * time. */
static int set_up(struct cache *c, const char *path)
{
    size_t length = secret_free_length(path);
    struct header want = header_of(c->size), have = {0};
    struct stat data;
    int failed = room_lock(c->map_fd, F_WRLCK, 0, sizeof(want.magic), true);
    if (!failed && (pread(c->map_fd, &have, sizeof(have), 0) != sizeof(have) || memcmp(&have, &want, sizeof(want)) ||
                    fstat(c->fd, &data) < 0 || (uint64_t)data.st_size != c->size)) {
        failed = ftruncate(c->map_fd, 0) || ftruncate(c->map_fd, (off_t)c->map_bytes) || ftruncate(c->fd, 0) ||
                 ftruncate(c->fd, (off_t)c->size) || pwrite(c->map_fd, path, length, (off_t)c->map_bytes) != (ssize_t)length ||
                 pwrite(c->map_fd, &want, sizeof(want), 0) != sizeof(want);
    }
    failed = failed || (fallocate(c->map_fd, 0, 0, (off_t)c->map_bytes) && cache_is_full(errno)); /* writing to a page that finds no room kills the process */
    (void)room_lock(c->map_fd, F_UNLCK, 0, sizeof(want.magic), false);
    return failed;
}

void cache_read_address(int map_fd, uint64_t size, char *ret, size_t room)
{
    struct stat st;
    off_t from = (off_t)(sizeof(struct header) + (size + CACHE_BLOCK - 1) / CACHE_BLOCK * sizeof(uint32_t));
    ret[0] = 0;
    if (fstat(map_fd, &st) < 0 || st.st_size <= from)
        return;
    size_t length = (size_t)(st.st_size - from), skipped = length < room ? 0 : length - (room - 1);
    ssize_t got = pread(map_fd, ret, length - skipped, from + (off_t)skipped);
    ret[got > 0 ? got : 0] = 0;
}

/* The signature of a web address changes from day to day; with an ETag it is left out of the key. */
static uint64_t key_of(const char *path, const struct store_facts *facts)
{
    uint64_t address = facts->etag[0] ? address_hash_unsigned(path) : hash_bytes(path, strlen(path), 0);
    uint64_t key = hash_combine(address, hash_bytes(facts->etag, strlen(facts->etag), facts->size));
    return hash_combine(key, facts->etag[0] ? 0 : (uint64_t)facts->modified);
}

/* Opens both files and holds them, so that no process removes them. A copy that is being removed at this moment is made again. */
static bool open_files(struct cache *c, const char *folder, uint64_t key)
{
    char name[64];
    for (unsigned tries = 0; tries < TRIES; tries++) {
        struct stat map;
        snprintf(name, sizeof(name), "%016" PRIx64 ".map", key);
        c->map_fd = open_in(folder, name);
        if (c->map_fd < 0 || room_hold(c->map_fd) || fstat(c->map_fd, &map) < 0)
            return false;
        if (map.st_nlink > 0) {
            snprintf(name, sizeof(name), "%016" PRIx64 ".data", key);
            c->fd = open_in(folder, name);
            return c->fd >= 0;
        }
        file_close(c->map_fd);
        c->map_fd = -1;
    }
    errno = EBUSY;
    return false;
}

static pst_status open_shared(struct cache *c, const char *path, const struct store_facts *facts, pst_error *reterr)
{
    const char *folder = c->room.folder;
    pst_status st = file_make_folder(folder, reterr);
    if (st < 0)
        return st;
    if (!open_files(c, folder, key_of(path, facts)) || set_up(c, path))
        return file_fail(reterr, folder, "opening the cache of remote data", errno);
    (void)futimens(c->map_fd, NULL); /* it is used now */
    void *map = file_denied("mmap") ? MAP_FAILED : mmap(NULL, c->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->map_fd, 0);
    if (map == MAP_FAILED)
        return file_fail(reterr, folder, "opening the cache of remote data", errno);
    c->map = map;
    c->sums = (_Atomic uint32_t *)((char *)map + sizeof(struct header));
    return PST_OK;
}

/* Returns whether the folder has a copy, or room for one: for its map and its first 8 MiB, which are given back again: less is not worth a copy. */
static bool find_room(const struct cache *c, const char *path, const struct store_facts *facts)
{
    struct stat st;
    char *name = mem_format("%s/%016" PRIx64 ".map", c->room.folder, key_of(path, facts));
    bool there = name && stat(name, &st) == 0;
    mem_free(name);
    uint64_t first = in_pages(c->size < FIRST_BYTES ? c->size : FIRST_BYTES);
    if (there || !name || c->room.most == ROOM_UNLIMITED)
        return true;
    if (!room_take(&c->room, in_pages(c->map_bytes + secret_free_length(path)) + first))
        return false;
    room_give(&c->room, first);
    return true;
}

pst_status cache_open(struct cache *c, const struct room *room, const char *path, const struct store_facts *facts, pst_error *reterr)
{
    *c = empty_copy(facts);
    if (room && room->folder) {
        c->room = *room;
        c->room.folder = mem_strdup(room->folder);
        if (!c->room.folder)
            return fail_memory_at(reterr, path, "opening the object");
    }
    bool shared = c->room.folder && find_room(c, path, facts);
    pst_error error = {0};
    pst_status st = shared ? open_shared(c, path, facts, &error) : PST_OK;
    if (!shared || (st < 0 && cache_is_full(error.sys_errno))) {
        cache_close(c);
        *c = empty_copy(facts);
        st = open_private(c, path, &error);
    }
    if (st < 0) {
        cache_close(c);
        *reterr = error;
    }
    return st;
}

void cache_close(struct cache *c)
{
    if (c->map) {
        (void)futimens(c->map_fd, NULL); /* it was used until now */
        munmap(c->map, c->map_bytes);
    } else {
        mem_free((void *)c->sums);
    }
    mem_free(c->room.folder);
    file_close(c->fd);
    file_close(c->map_fd);
    *c = (struct cache){.fd = -1, .map_fd = -1};
}

/* ---- Claims ---- */

static int lock_blocks(const struct cache *c, short type, size_t first, size_t count)
{
    return room_lock(c->map_fd, type, (off_t)(sizeof(struct header) + first * sizeof(*c->sums)), (off_t)(count * sizeof(*c->sums)), false);
}

bool cache_claim(const struct cache *c, size_t first, size_t count)
{
    return c->map_fd < 0 || lock_blocks(c, F_WRLCK, first, count) == 0 || (errno != EAGAIN && errno != EACCES);
}

void cache_release(const struct cache *c, size_t first, size_t count)
{
    if (c->map_fd >= 0)
        (void)lock_blocks(c, F_UNLCK, first, count);
}
