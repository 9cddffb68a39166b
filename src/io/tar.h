/* tar.h: the members of a tar archive by offset: ustar, pax, GNU long names. Only headers are read. */
#ifndef IO_TAR_H
#define IO_TAR_H

#include <penstock/base.h>

struct tar_member {
    const char *name; /* valid until the next call */
    uint64_t offset, size;
};

struct tar_walk;
pst_status tar_walk_open(struct tar_walk **ret, int fd, const char *path, pst_error *reterr); /* `fd` stays the caller's */
/* Regular files only, others are skipped. OK, END or < 0; sizes are checked against the file. */
pst_status tar_walk_next(struct tar_walk *w, struct tar_member *ret, pst_error *reterr);
struct tar_walk *tar_walk_close(struct tar_walk *w);

#endif
