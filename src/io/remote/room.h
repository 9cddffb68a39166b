/* room.h: counts the bytes of a cache folder, for all processes that share it, and removes copies when there is no room.
 *
 * Bytes are taken before they are written and given back if they are not. The number lies in a file of the folder that every
 * process maps; a process that finds the folder unused counts the files again, since one that was killed gives nothing back:
 * the number may be too high, never too low. */
#ifndef IO_REMOTE_ROOM_H
#define IO_REMOTE_ROOM_H

#include "io/remote/fork.h"
#include <penstock/base.h>
#include <penstock/store.h>

#include <sys/types.h>

struct room {
    char *folder; /* NULL: no cache */
    uint64_t most;
    bool evict; /* copies that no process has open, those first that were not used for longest */
};
#define ROOM_UNLIMITED UINT64_MAX

/* Takes room for so many bytes; false: there is none. Without a limit nothing is counted. */
bool room_take(const struct room *r, uint64_t bytes);
void room_give(const struct room *r, uint64_t bytes);

/* Holds a copy, by its descriptor, as long as it is open. Waits for an eviction that is under way. */
int room_hold(int map_fd);
/* Locks a range of a file against other descriptors, also of this process; `type`: F_RDLCK, F_WRLCK, F_UNLCK. Returns 0 or -1 with errno. */
int room_lock(int fd, short type, off_t first, off_t count, bool wait);

/* In the child of a fork: holds a copy, whose map is mapped, by a description of its own. Locks belong to descriptions, which descriptors and mappings keep open:
 * those of a process would otherwise last as long as its children. Without /proc everything stays as it is. */
void room_hold_again(int map_fd, void *map, size_t map_bytes);

/* Lists the copies in a folder, least recently used first; mem_free the list. */
pst_status room_copies(const char *folder, pst_store_copy **ret, size_t *ret_count, pst_error *reterr);
/* Removes a copy that no process has open; returns the bytes that this frees. */
uint64_t room_evict(const char *folder, const char *key);
/* The same, and gives the room to the processes that use the folder. */
uint64_t room_remove(const char *folder, const char *key);
/* Returns the bytes that the folder's copies occupy. */
uint64_t room_folder_bytes(const char *folder);

#endif
