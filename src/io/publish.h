/* publish.h: a file that appears whole or not at all.
 *
 * Written under a temporary name in the same folder (".NAME.tmp-PID-N"), then fsync, rename, fsync of the folder. A crash
 * leaves at most a temporary file, which publish_sweep removes. Threads may write to the descriptor at once. */
#ifndef IO_PUBLISH_H
#define IO_PUBLISH_H

#include "io/file.h"

struct publish {
    int fd; /* -1: none */
    char *path, *temp_path;
    char version[FILE_VERSION]; /* after the commit: that of the object, see file_version; "": there is none */
    bool overwrite, remote; /* remote: the temporary file has no name, and is uploaded at the commit */
};

/* Zero-initialise `p` first. Without `overwrite`, an existing `path` is PST_EEXIST, now or at the commit; with it, only a regular
 * file is replaced: a pipe, a device or a symbolic link is PST_EEXIST. */
pst_status publish_open(struct publish *p, const char *path, bool overwrite, pst_error *reterr);
/* A failure removes the temporary file, except if the last step fails, syncing the folder: then `path` is in place although
 * an error is returned. */
pst_status publish_commit(struct publish *p, bool sync, pst_error *reterr);
/* Of a remote file: uploads what is written so far, replacing what is there, and stays open. */
pst_status publish_so_far(struct publish *p, pst_error *reterr);
void publish_discard(struct publish *p); /* after a commit: only frees. Zeroed ok. */

/* Writes a small file in one call. */
pst_status publish_bytes(const char *path, const void *data, size_t length, bool overwrite, bool sync, pst_error *reterr);

/* Removes temporary files of dead processes in `folder`; those of running processes stay, also on other machines if the file
 * system shares locks. */
pst_status publish_sweep(const char *folder, pst_error *reterr);

#endif
