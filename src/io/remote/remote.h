/* remote.h: remote paths behind the calls of file.h, walk.h, mapping.h and publish.h, which are the only users of this header.
 *
 * A remote file is opened as a descriptor of its local copy, which fills as it is read. So every other room reads remote files
 * without knowing it. */
#ifndef IO_REMOTE_REMOTE_H
#define IO_REMOTE_REMOTE_H

#include "io/file.h"
#include "io/walk.h"

#include <stdatomic.h>

/* True for s3://…, https://… and http://…. */
bool remote_is(const char *path);

/* The version of an object that was seen first holds for the whole process: after a change, reading it is PST_ESTALE. */
pst_status remote_open(int *ret_fd, const char *path, pst_error *reterr);
pst_status remote_stat(const char *path, struct file_info *ret, pst_error *reterr);

/* Reads a small object as it is now: pointers such as `latest` change during a run. PST_ELIMIT: it has more than `max` bytes.
 * A zero follows the bytes; mem_free them. */
pst_status remote_read_anew(uint8_t **ret, size_t *ret_length, const char *path, size_t max, pst_error *reterr);

extern _Atomic size_t remote_descriptors; /* that are open: a cheap first check */
struct object;
/* The object behind a descriptor, NULL for local files; valid until the descriptor is closed. */
struct object *remote_find(int fd);
static inline struct object *remote_of(int fd)
{
    return __builtin_expect(atomic_load_explicit(&remote_descriptors, memory_order_relaxed) != 0, 0) ? remote_find(fd) : NULL;
}
/* Puts another copy behind all descriptors of an object, and its descriptor into `*place`. The bytes that readers were told to be
 * there are in both. */
void remote_redirect(struct object *o, _Atomic int *place, int to);
void remote_close(int fd); /* before the descriptor is closed */

/* The walks of walk.h. */
pst_status remote_files(struct path_list *ret, const char *folder, bool recursive, pst_error *reterr);
pst_status remote_folders(struct path_list *ret, const char *folder, pst_error *reterr);
pst_status remote_names(const char *folder, walk_visit visit, void *user, pst_error *reterr);

/* Publishing: a local temporary file first, then an upload. */
pst_status remote_temporary(int *ret_fd, const char *path, pst_error *reterr);
/* `ret_version` (FILE_VERSION bytes): see file_version; "" if there is none. NULL ok. */
pst_status remote_publish(int fd, const char *path, bool overwrite, char *ret_version, pst_error *reterr);
pst_status remote_remove(const char *path, pst_error *reterr);

#endif
