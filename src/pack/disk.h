/* disk.h: the few calls on storage that only pack needs: locking a folder, removing files, where a path really is. */
#ifndef PACK_DISK_H
#define PACK_DISK_H

#include <penstock/base.h>

/* Holds the folder for this process until `*ret_fd` is closed. PST_EEXIST: another process holds it. If the file system has
 * no locks, nothing is held, and that is not an error. */
pst_status disk_lock(int *ret_fd, const char *folder, pst_error *reterr);
pst_status disk_remove(const char *path, pst_error *reterr); /* a missing file is not an error */
/* Moves a file within one file system. PST_ENOTFOUND: there is none at `from`. */
pst_status disk_move(const char *from, const char *to, pst_error *reterr);
void disk_remove_folder(const char *path); /* if it is empty */
/* Reports whether `path` is inside `folder`, links resolved; false if one of them does not exist. Fails if that cannot be
 * determined. */
pst_status disk_is_inside(const char *path, const char *folder, bool *ret, pst_error *reterr);

#endif
