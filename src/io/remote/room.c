/* room.c: see room.h. The file "room" of the folder has the number. It is locked shared while a process uses the folder, so that
 * a process that gets it exclusively knows to be alone. A copy is KEY.map and KEY.data; the use of a copy is a lock of the map's bytes
 * [16, 32), shared while it is open, exclusive while it is removed: an open copy is never removed. */
#include "io/remote/room.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/remote/cache.h"
#include "io/walk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define USE_FIRST    16 /* bytes of a map whose lock is its use */
#define USE_COUNT    16
#define COUNT_BYTES  4096
#define TRIES        200u
#define PAUSE_NS     5000000L
#define REST_NS      UINT64_C(1000000000) /* after an eviction that found too little */

struct count {
    _Atomic uint64_t bytes;
    _Atomic uint64_t valid; /* 1: a process has counted to the end since the folder was unused */
};

static struct {
    pthread_mutex_t lock;
    char *folder;
    int fd;
    struct count *count;     /* the mapped file */
    uint64_t rest_until;     /* nanoseconds */
} present = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* Puts another description of the same file, with a shared lock of this range, behind the descriptor and its mapping. */
static void reopen(int fd, off_t first, off_t count, void *map, size_t map_bytes)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int own = open(path, O_RDWR | O_CLOEXEC);
    bool held = own >= 0 && room_lock(own, F_RDLCK, first, count, false) == 0;
    void *again = held ? mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0) : MAP_FAILED;
    if (again != MAP_FAILED && mremap(again, map_bytes, map_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, map) == MAP_FAILED)
        munmap(again, map_bytes);
    else if (again != MAP_FAILED)
        (void)dup3(own, fd, O_CLOEXEC);
    if (own >= 0)
        close(own); /* not file_close, which takes a lock that the fork holds */
}

void room_fork(enum fork_phase phase)
{
    if (phase == FORK_CHILD && present.count)
        reopen(present.fd, 0, 1, present.count, COUNT_BYTES);
    fork_lock(&present.lock, phase);
}

void room_hold_again(int map_fd, void *map, size_t map_bytes)
{
    reopen(map_fd, USE_FIRST, USE_COUNT, map, map_bytes);
}

int room_lock(int fd, short type, off_t first, off_t count, bool wait)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    int failed;
    do
        failed = fcntl(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, &l);
    while (failed && errno == EINTR);
    return failed;
}

int room_hold(int map_fd)
{
    return room_lock(map_fd, F_RDLCK, USE_FIRST, USE_COUNT, true);
}

/* ---- Counting ---- */

static pst_status add_bytes(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct stat st;
    (void)reterr;
    if (fstatat(folder_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        *(uint64_t *)user += (uint64_t)st.st_blocks * 512;
    return PST_OK;
}

static pst_status count_bytes(const char *folder, uint64_t *ret)
{
    *ret = 0;
    return walk_names(folder, add_bytes, ret, NULL);
}

uint64_t room_folder_bytes(const char *folder)
{
    uint64_t bytes;
    (void)count_bytes(folder, &bytes);
    return bytes;
}

static void forget(void)
{
    if (present.count)
        munmap(present.count, COUNT_BYTES);
    file_close(present.fd);
    mem_free(present.folder);
    present.count = NULL;
    present.folder = NULL;
    present.fd = -1;
}

/* Locked. */
static bool open_count(const char *folder)
{
    struct stat st;
    char *name = file_make_folder(folder, NULL) == PST_OK ? file_join(folder, "room") : NULL;
    present.fd = name && !file_denied("open") ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    mem_free(name);
    present.folder = mem_strdup(folder);
    bool ok = present.fd >= 0 && present.folder && fstat(present.fd, &st) == 0 &&
              (st.st_size >= COUNT_BYTES || ftruncate(present.fd, COUNT_BYTES) == 0) &&
              (fallocate(present.fd, 0, 0, COUNT_BYTES) == 0 || (errno != ENOSPC && errno != EDQUOT));
    void *map = ok && !file_denied("mmap") ? mmap(NULL, COUNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, present.fd, 0) : MAP_FAILED;
    present.count = map == MAP_FAILED ? NULL : map;
    return present.count != NULL;
}

/* Locks the number as used, after a process that is alone has counted. One that was waited for may have ended before it had counted:
 * then the number is not valid, and the next process that is alone counts. Locked. */
static bool hold_count(const char *folder)
{
    for (unsigned tries = 0; tries < TRIES; tries++) {
        bool alone = room_lock(present.fd, F_WRLCK, 0, 1, false) == 0;
        if (!alone && room_lock(present.fd, F_RDLCK, 0, 1, true))
            return false;
        if (alone) {
            uint64_t bytes;
            atomic_store(&present.count->valid, 0);
            if (count_bytes(folder, &bytes) < 0)
                return false;
            atomic_store(&present.count->bytes, bytes);
            atomic_store(&present.count->valid, 1);
            return room_lock(present.fd, F_RDLCK, 0, 1, true) == 0; /* others may come now */
        }
        if (atomic_load(&present.count->valid))
            return true;
        (void)room_lock(present.fd, F_UNLCK, 0, 1, false);
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
    return false;
}

/* Opens the number of the folder. Locked. */
static bool look_at(const char *folder)
{
    if (present.count && strcmp(present.folder, folder) == 0)
        return true;
    forget();
    bool ok = open_count(folder) && hold_count(folder);
    if (!ok)
        forget();
    return ok;
}

/* ---- Eviction ---- */

struct copies {
    const char *folder;
    pst_store_copy *items;
    size_t count, capacity;
    bool whole; /* read their maps, too */
};

/* Reads from the map of a copy whether it is in use, and its address. Takes no lock: a process that opens the copy would have to wait for it, and one that
 * evicts would pass it over. */
static void look_into(pst_store_copy *copy, int folder_fd, const char *name)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = USE_FIRST, .l_len = USE_COUNT};
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    copy->in_use = fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type != F_UNLCK;
    cache_read_address(fd, copy->size_whole, copy->address, sizeof(copy->address));
    file_close(fd);
}

static pst_status note_copy(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr)
{
    struct copies *c = user;
    struct stat map, data = {0};
    pst_store_copy copy = {0};
    char name[32];
    size_t n = strlen(entry->d_name);
    if (n != 20 || strcmp(entry->d_name + 16, ".map") || fstatat(folder_fd, entry->d_name, &map, AT_SYMLINK_NOFOLLOW) < 0)
        return PST_OK;
    memcpy(copy.key, entry->d_name, 16);
    snprintf(name, sizeof(name), "%s.data", copy.key);
    (void)fstatat(folder_fd, name, &data, AT_SYMLINK_NOFOLLOW);
    copy.bytes = (uint64_t)(map.st_blocks + data.st_blocks) * 512;
    copy.size_whole = (uint64_t)data.st_size;
    copy.used = (int64_t)map.st_mtim.tv_sec * 1000000000 + map.st_mtim.tv_nsec;
    if (c->whole)
        look_into(&copy, folder_fd, entry->d_name);
    if (mem_grow((void **)&c->items, &c->capacity, c->count + 1, sizeof(*c->items)) < 0)
        return fail_memory_at(reterr, c->folder, "listing the cache");
    c->items[c->count++] = copy;
    return PST_OK;
}

static int by_use(const void *a, const void *b)
{
    const pst_store_copy *x = a, *y = b;
    return x->used < y->used ? -1 : x->used > y->used;
}

/* `used` is in nanoseconds. */
static pst_status find_copies(struct copies *c, pst_error *reterr)
{
    pst_status st = walk_names(c->folder, note_copy, c, reterr);
    if (c->count)
        qsort(c->items, c->count, sizeof(*c->items), by_use);
    return st;
}

pst_status room_copies(const char *folder, pst_store_copy **ret, size_t *ret_count, pst_error *reterr)
{
    struct copies c = {.folder = folder, .whole = true};
    pst_status st = find_copies(&c, reterr);
    if (st < 0) {
        mem_free(c.items);
        return st;
    }
    for (size_t i = 0; i < c.count; i++)
        c.items[i].used /= 1000000000;
    *ret = c.items;
    *ret_count = c.count;
    return PST_OK;
}

/* The data go first: a map that is left alone starts anew. */
uint64_t room_evict(const char *folder, const char *key)
{
    struct stat map_info, data_info;
    uint64_t freed = 0;
    char *map = mem_format("%s/%s.map", folder, key), *data = mem_format("%s/%s.data", folder, key);
    int fd = map && data ? open(map, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0 && room_lock(fd, F_WRLCK, USE_FIRST, USE_COUNT, false) == 0 && fstat(fd, &map_info) == 0 && map_info.st_nlink > 0) {
        uint64_t bytes = stat(data, &data_info) == 0 ? (uint64_t)data_info.st_blocks * 512 : 0;
        if (unlink(data) == 0 || errno == ENOENT)
            freed += bytes;
        if (unlink(map) == 0)
            freed += (uint64_t)map_info.st_blocks * 512;
    }
    file_close(fd);
    mem_free(map);
    mem_free(data);
    return freed;
}

static void subtract(struct count *c, uint64_t bytes)
{
    uint64_t now = atomic_load(&c->bytes);
    while (!atomic_compare_exchange_weak(&c->bytes, &now, now > bytes ? now - bytes : 0))
        ;
}

/* The number of a folder, where there is one. While the descriptor is open, no process counts the folder again. */
static struct count *borrow_count(const char *folder, int *ret_fd)
{
    struct stat st;
    char *name = file_join(folder, "room");
    *ret_fd = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    mem_free(name);
    bool ok = *ret_fd >= 0 && fstat(*ret_fd, &st) == 0 && st.st_size >= COUNT_BYTES && room_lock(*ret_fd, F_RDLCK, 0, 1, true) == 0;
    void *map = ok ? mmap(NULL, COUNT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, *ret_fd, 0) : MAP_FAILED;
    return map == MAP_FAILED ? NULL : map;
}

uint64_t room_remove(const char *folder, const char *key)
{
    int fd = -1;
    pthread_mutex_lock(&present.lock);
    bool ours = present.count && strcmp(present.folder, folder) == 0;
    struct count *count = ours ? present.count : borrow_count(folder, &fd);
    uint64_t freed = room_evict(folder, key);
    if (count)
        subtract(count, freed);
    if (count && !ours)
        munmap(count, COUNT_BYTES);
    file_close(fd);
    pthread_mutex_unlock(&present.lock);
    return freed;
}

/* Removes copies until there is room. One process at a time; after waiting for another one there may be room at once. Locked. */
static void make_room(const struct room *r, uint64_t bytes)
{
    struct copies c = {.folder = r->folder};
    if (clock_ns() < present.rest_until || room_lock(present.fd, F_WRLCK, 1, 1, true))
        return;
    uint64_t goal = r->most - bytes;
    if (atomic_load(&present.count->bytes) > goal)
        (void)find_copies(&c, NULL);
    for (size_t i = 0; i < c.count && atomic_load(&present.count->bytes) > goal; i++)
        subtract(present.count, room_evict(r->folder, c.items[i].key));
    mem_free(c.items);
    if (atomic_load(&present.count->bytes) > goal)
        present.rest_until = clock_ns() + REST_NS;
    (void)room_lock(present.fd, F_UNLCK, 1, 1, false);
}

/* ---- Taking ---- */

/* Locked. */
static bool take(uint64_t bytes, uint64_t most)
{
    uint64_t now = atomic_load(&present.count->bytes);
    while (now <= most - bytes)
        if (atomic_compare_exchange_weak(&present.count->bytes, &now, now + bytes))
            return true;
    return false;
}

bool room_take(const struct room *r, uint64_t bytes)
{
    if (r->most == ROOM_UNLIMITED || bytes == 0)
        return true;
    if (bytes > r->most)
        return false;
    pthread_mutex_lock(&present.lock);
    bool ok = look_at(r->folder);
    bool taken = ok && take(bytes, r->most);
    if (ok && !taken && r->evict) {
        make_room(r, bytes);
        taken = take(bytes, r->most);
    }
    pthread_mutex_unlock(&present.lock);
    return taken;
}

void room_give(const struct room *r, uint64_t bytes)
{
    if (r->most == ROOM_UNLIMITED || bytes == 0)
        return;
    pthread_mutex_lock(&present.lock);
    if (present.count && strcmp(present.folder, r->folder) == 0)
        subtract(present.count, bytes);
    pthread_mutex_unlock(&present.lock);
}
