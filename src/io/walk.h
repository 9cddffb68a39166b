/* walk.h: which files there are: folders in a stable order, globs. */
#ifndef IO_WALK_H
#define IO_WALK_H

#include <dirent.h>
#include <penstock/base.h>

struct path_list {
    char **paths; /* each mem_alloc'ed */
    size_t count, capacity;
};

pst_status path_list_add(struct path_list *l, const char *path, pst_error *reterr);
/* The list's copy of `path`, which it gets if it has none; NULL: out of memory. Quick where the same path comes many times. */
const char *path_list_keep(struct path_list *l, const char *path);
void path_list_sort(struct path_list *l); /* by bytes */
void path_list_finish(struct path_list *l);

/* The walks add to `ret` in sorted order behind what it holds; on failure it is left as it was. */

/* Regular files below `folder` (links followed, loops detected), recursively if asked; hidden names left out. A link that
 * leads nowhere is listed too, so that whoever opens it can tell. */
pst_status walk_files(struct path_list *ret, const char *folder, bool recursive, pst_error *reterr);
/* Direct subfolders; hidden names left out. */
pst_status walk_folders(struct path_list *ret, const char *folder, pst_error *reterr);
/* A pattern with * ? [ ]; a path without them, or one that exists as it is written, stands for itself. Nothing found is
 * PST_ENOTFOUND. */
pst_status walk_glob(struct path_list *ret, const char *pattern, pst_error *reterr);

/* Calls `visit` for every name in `folder` but "." and "..", in no order; anything but PST_OK from it ends the walk. */
typedef pst_status (*walk_visit)(void *user, int folder_fd, const struct dirent *entry, pst_error *reterr);
pst_status walk_names(const char *folder, walk_visit visit, void *user, pst_error *reterr);

#endif
