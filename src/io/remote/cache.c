/* cache.c: see cache.h. HASH.data is the copy, HASH.map its header and checksums; HASH is of the address, the ETag and the
 * size, so that a changed object never meets an old copy. */
#include "io/remote/cache.h"

#include "base/crc32c.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC "penstock cache 1"

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

bool cache_check(const struct cache *c, size_t block)
{
    uint32_t sum = atomic_load(&c->sums[block]);
    size_t n = cache_block_bytes(c, block), got = 0;
    if (!sum)
        return false;
    uint8_t *bytes = mem_alloc(CACHE_BLOCK);
    bool ok = bytes;
    while (ok && got < n) {
        ssize_t k = pread(c->fd, bytes + got, n - got, (off_t)((uint64_t)block * CACHE_BLOCK + got));
        ok = k > 0 || (k < 0 && errno == EINTR);
        got += k > 0 ? (size_t)k : 0;
    }
    ok = ok && cache_sum(crc32c_extend(0, bytes, n)) == sum;
    mem_free(bytes);
    return ok;
}

/* ---- Private copies ---- */

static pst_status open_private(struct cache *c, const char *path, pst_error *reterr)
{
    c->fd = file_denied("open") ? -1 : open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (c->fd < 0) {
        char name[] = "/tmp/.penstock-XXXXXX";
        c->fd = mkostemp(name, O_CLOEXEC);
        if (c->fd >= 0)
            unlink(name);
    }
    if (c->fd < 0 || ftruncate(c->fd, (off_t)c->size) < 0)
        return file_fail(reterr, path, "making room for a copy in /tmp", errno);
    c->sums = mem_array(c->blocks + 1, sizeof(*c->sums));
    return c->sums ? PST_OK : fail_memory_at(reterr, path, "opening the object");
}

/* ---- Shared copies ---- */

static int open_in(const char *folder, const char *name)
{
    char *path = file_join(folder, name);
    int fd = path && !file_denied("open") ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    mem_free(path);
    return fd;
}

/* Gives new files their size and header; an unknown header starts the copy anew. One process at a time. */
static int set_up(struct cache *c)
{
    struct header want = header_of(c->size), have = {0};
    int failed = flock(c->map_fd, LOCK_EX);
    if (!failed && (pread(c->map_fd, &have, sizeof(have), 0) != sizeof(have) || memcmp(&have, &want, sizeof(want)))) {
        failed = ftruncate(c->map_fd, 0) || ftruncate(c->map_fd, (off_t)c->map_bytes) || ftruncate(c->fd, 0) ||
                 ftruncate(c->fd, (off_t)c->size) || pwrite(c->map_fd, &want, sizeof(want), 0) != sizeof(want);
    }
    (void)flock(c->map_fd, LOCK_UN);
    return failed;
}

static uint64_t key_of(const char *path, const struct store_facts *facts)
{
    uint64_t key = hash_combine(hash_bytes(path, strlen(path), 0), hash_bytes(facts->etag, strlen(facts->etag), facts->size));
    return hash_combine(key, facts->etag[0] ? 0 : (uint64_t)facts->modified);
}

bool cache_is_there(const char *folder, const char *path, const struct store_facts *facts)
{
    struct stat st;
    char *name = mem_format("%s/%016" PRIx64 ".map", folder, key_of(path, facts));
    bool there = name && stat(name, &st) == 0;
    mem_free(name);
    return there;
}

static pst_status open_shared(struct cache *c, const char *folder, const char *path, const struct store_facts *facts,
                              pst_error *reterr)
{
    char name[64];
    uint64_t key = key_of(path, facts);
    pst_status st = file_make_folder(folder, reterr);
    if (st < 0)
        return st;
    snprintf(name, sizeof(name), "%016" PRIx64 ".data", key);
    c->fd = open_in(folder, name);
    snprintf(name, sizeof(name), "%016" PRIx64 ".map", key);
    c->map_fd = open_in(folder, name);
    c->map_bytes = sizeof(struct header) + c->blocks * sizeof(*c->sums);
    if (c->fd < 0 || c->map_fd < 0 || set_up(c))
        return file_fail(reterr, folder, "opening the cache of remote data", errno);
    void *map = file_denied("mmap") ? MAP_FAILED : mmap(NULL, c->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->map_fd, 0);
    if (map == MAP_FAILED)
        return file_fail(reterr, folder, "opening the cache of remote data", errno);
    c->map = map;
    c->sums = (_Atomic uint32_t *)((char *)map + sizeof(struct header));
    return PST_OK;
}

pst_status cache_open(struct cache *c, const char *folder, const char *path, const struct store_facts *facts, pst_error *reterr)
{
    *c = (struct cache){.fd = -1, .map_fd = -1, .size = facts->size};
    c->blocks = (size_t)((facts->size + CACHE_BLOCK - 1) / CACHE_BLOCK);
    pst_status st = folder ? open_shared(c, folder, path, facts, reterr) : open_private(c, path, reterr);
    if (st < 0)
        cache_close(c);
    return st;
}

void cache_close(struct cache *c)
{
    if (c->map)
        munmap(c->map, c->map_bytes);
    else
        mem_free((void *)c->sums);
    file_close(c->fd);
    file_close(c->map_fd);
    *c = (struct cache){.fd = -1, .map_fd = -1};
}

/* ---- One process fetches ---- */

static int lock_blocks(const struct cache *c, short type, size_t first, size_t count)
{
    struct flock l = {.l_type = type,
                      .l_whence = SEEK_SET,
                      .l_start = (off_t)(sizeof(struct header) + first * sizeof(*c->sums)),
                      .l_len = (off_t)(count * sizeof(*c->sums))};
    return fcntl(c->map_fd, F_OFD_SETLK, &l);
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

/* ---- The folder ---- */

static pst_status add_bytes(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct stat st;
    (void)reterr;
    if (fstatat(folder_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        *(uint64_t *)user += (uint64_t)st.st_blocks * 512;
    return PST_OK;
}

uint64_t cache_folder_bytes(const char *folder)
{
    uint64_t bytes = 0;
    (void)walk_names(folder, add_bytes, &bytes, NULL);
    return bytes;
}
