/* names.h: a set of names that becomes a numbering: sorted by bytes, each once. */
#ifndef IO_NAMES_H
#define IO_NAMES_H

#include "base/arena.h"
#include <penstock/base.h>

struct names {
    const char **names;
    size_t count, capacity;
    size_t sorted; /* the first of them are in order, each once */
};

/* Copies the name into `arena`, unless it is known to be there. Returns 0, or -1 when out of memory. */
int names_add(struct names *n, struct arena *arena, const char *name, size_t length);
/* Sorts and drops doubles; from then on names_find works. */
void names_number(struct names *n);
int64_t names_find(const struct names *n, const char *name, size_t length); /* -1: not among them */
/* The numbered names as an array that lives in `arena`. NULL: out of memory. */
const char *const *names_keep(const struct names *n, struct arena *arena);
void names_finish(struct names *n);

#endif
