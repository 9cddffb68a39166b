/* publish_folder.h: a flat folder of files that appears whole or not at all, and symbolic links that change in one step.
 *
 * The files are written into a hidden folder beside the final one (".NAME.writing"), which takes its place by one rename. A crash
 * leaves at most the hidden folder, which the next attempt removes. One process at a time may write to a name.
 *
 * Object stores have neither folders nor links nor renames. There the files are written under their final names, so that the
 * last one says that all are there; a folder that is replaced is removed first; a link is an object that holds the name. */
#ifndef IO_PUBLISH_FOLDER_H
#define IO_PUBLISH_FOLDER_H

#include <penstock/base.h>

/* Makes an empty hidden folder for `path`; `*ret` is its path (of a store: `path`), mem_free it. */
pst_status publish_folder_open(char **ret, const char *path, pst_error *reterr);
/* Renames the hidden folder to `path`, replacing a folder that is there, and makes the change durable. */
pst_status publish_folder_commit(const char *hidden, const char *path, pst_error *reterr);
/* Removes a flat folder with its files; a folder that does not exist is fine. Failures are not reported. */
void publish_folder_remove(const char *path);
/* Makes `path` a symbolic link to `target` (a name in the same folder), replacing a link that is there. */
pst_status publish_link(const char *path, const char *target, pst_error *reterr);
/* The path that a link of a store leads to; of any other path, and of links of the file system, which follows them itself, a
 * copy. mem_free it; NULL: out of memory. */
char *publish_follow(const char *path);

#endif
