/* tar.h: the members of a tar archive by offset: ustar, pax, GNU long names. Only headers are read. The archive is a file or
 * a piece of one in memory. */
#ifndef IO_TAR_H
#define IO_TAR_H

#include <penstock/base.h>

struct tar_member {
    const char *name; /* valid until the next call */
    uint64_t offset, size; /* of its data */
    uint64_t start;        /* of its first header, extensions included */
};

struct tar_walk;
pst_status tar_walk_open(struct tar_walk **ret, int fd, const char *path, pst_error *reterr); /* `fd` stays the caller's */
/* A walk over memory, which tar_walk_set gives it. */
pst_status tar_walk_create(struct tar_walk **ret, const char *path, pst_error *reterr);
/* Begins again at `data`, which stands at `base` in the archive: offsets count from the archive's beginning. `path` is for
 * errors and must outlive the walk. */
void tar_walk_set(struct tar_walk *w, const char *path, const void *data, size_t length, uint64_t base);
/* Returns whether the last call ended or failed because there was no more data, not because of what the data says. */
bool tar_walk_ran_short(const struct tar_walk *w);
/* Returns whether a global pax header changes the members after it: they cannot be read without it then. */
bool tar_walk_has_globals(const struct tar_walk *w);
/* Regular files only, others are skipped. OK, END or < 0; sizes are checked against the file. */
pst_status tar_walk_next(struct tar_walk *w, struct tar_member *ret, pst_error *reterr);
struct tar_walk *tar_walk_close(struct tar_walk *w);

/* The name of the folder that a member lies in directly; `*ret_length` is 0 where it lies in none. */
const char *tar_folder_of(const char *name, size_t *ret_length);

#endif
