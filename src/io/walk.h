/* walk.h: lists files and folders in a stable order; globs. */
#ifndef IO_WALK_H
#define IO_WALK_H

#include <penstock/base.h>

#include <dirent.h>

struct path_list {
    char **paths; /* each mem_alloc'ed */
    size_t count, capacity;
};

pst_status path_list_add(struct path_list *l, const char *path, pst_error *reterr);
/* Returns the list's copy of `path`, adding it if necessary; NULL: out of memory. Fast if the same path is passed many
 * times. */
const char *path_list_keep(struct path_list *l, const char *path);
void path_list_sort(struct path_list *l); /* by bytes */
void path_list_finish(struct path_list *l);

/* The walks append to `ret` in sorted order; on failure it is unchanged. */

/* Regular files below `folder` (links followed, loops detected), recursively if asked; hidden names left out. A dangling
 * link is listed too, so that opening it reports the error. */
pst_status walk_files(struct path_list *ret, const char *folder, bool recursive, pst_error *reterr);
/* Direct subfolders; hidden names left out. */
pst_status walk_folders(struct path_list *ret, const char *folder, pst_error *reterr);
/* A pattern with * ? [ ]; a path without them, or one that exists literally, matches itself. PST_ENOTFOUND if nothing
 * matches. */
pst_status walk_glob(struct path_list *ret, const char *pattern, pst_error *reterr);

/* Calls `visit` for every name in `folder` but "." and "..", in no order; anything but PST_OK from it ends the walk. */
typedef pst_status (*walk_visit)(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr);
pst_status walk_names(const char *folder, walk_visit visit, void *user, pst_error *reterr);

/* Folders that divide a data set: train/, val/, test/ with the class folders inside. */

bool splits_is_name(const char *name); /* "train", "validation", …, in upper or lower case */
/* Reports whether all folders have the name of a split and contain folders. */
pst_status splits_are(const struct path_list *folders, bool *ret, pst_error *reterr);

#endif
