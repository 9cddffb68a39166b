/* names.h: a set of names and their numbers: sorted by bytes, without duplicates. */
#ifndef IO_NAMES_H
#define IO_NAMES_H

#include "base/arena.h"
#include <penstock/base.h>

struct names {
    const char **names;
    size_t count, capacity;
    size_t sorted; /* this many names are sorted and without duplicates */
};

/* Copies the name into `arena`, unless it is known to be in the set. Returns 0, or -1 when out of memory. */
int names_add(struct names *n, struct arena *arena, const char *name, size_t length);
/* Sorts and removes duplicates; names_find works after this call. */
void names_number(struct names *n);
int64_t names_find(const struct names *n, const char *name, size_t length); /* -1: not found */
/* The numbered names as an array that lives in `arena`. NULL: out of memory. */
const char *const *names_keep(const struct names *n, struct arena *arena);
void names_finish(struct names *n);

#endif
