/* disk.c: see disk.h. The same rules as in io/file.c: every call may be denied by a test, errors name the path. */
#include "pack/disk.h"

#include "base/memory.h"
#include "io/file.h"
#include "io/remote/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

pst_status disk_lock(int *ret_fd, const char *folder, pst_error *reterr)
{
    int fd = -1;
    if (remote_is(folder)) /* stores have no locks */
        return PST_OK;
    pst_status st = file_open_folder(&fd, folder, reterr);
    if (st < 0)
        return st;
    if (!file_denied("flock") && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        file_close(fd);
        return pst_fail_at(reterr, PST_EEXIST, folder, PST_NOWHERE, PST_NOWHERE,
                           "another process is packing into this folder; wait for it, or choose another folder");
    }
    *ret_fd = fd;
    return PST_OK;
}

pst_status disk_remove(const char *path, pst_error *reterr)
{
    if (remote_is(path))
        return remote_remove(path, reterr);
    if ((file_denied("unlink") || unlink(path) < 0) && errno != ENOENT)
        return file_fail(reterr, path, "removing the file", errno);
    return PST_OK;
}

pst_status disk_move(const char *from, const char *to, pst_error *reterr)
{
    if (file_denied("rename") || rename(from, to) < 0)
        return file_fail(reterr, from, "moving the file", errno);
    return PST_OK;
}

void disk_remove_folder(const char *path)
{
    if (!remote_is(path))
        (void)rmdir(path); /* refuses a folder that holds anything */
}

pst_status disk_is_inside(const char *path, const char *folder, bool *ret, pst_error *reterr)
{
    char *inner = NULL, *outer = NULL;
    pst_status st = file_absolute(&inner, path, reterr);
    if (st == PST_OK)
        st = file_absolute(&outer, folder, reterr);
    *ret = false;
    if (st == PST_OK) {
        size_t n = strlen(outer);
        *ret = strncmp(inner, outer, n) == 0 && (inner[n] == '/' || inner[n] == 0 || n == 1);
    }
    mem_free(inner);
    mem_free(outer);
    return st == PST_ENOTFOUND ? PST_OK : st;
}
