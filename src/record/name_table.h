/* name_table.h: a set of names in the order of their arrival, found by content.
 *
 * It copies the names and numbers them from 0. Meant for names that the program chose (a schema, a builder): names from
 * untrusted input are only looked up, never added. */
#ifndef RECORD_NAME_TABLE_H
#define RECORD_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

#define NAME_NONE SIZE_MAX

struct name {
    size_t offset, length; /* in `bytes` */
    uint64_t hash;
};

/* Empty when zeroed. */
struct name_table {
    char *bytes; /* all names, each NUL-terminated */
    size_t used, room;
    struct name *names;
    size_t count, capacity;
    uint32_t *slots; /* number + 1 of the name hashed here, 0: free */
    size_t slot_count;
};

size_t name_table_find(const struct name_table *t, const void *name, size_t length); /* its number, or NAME_NONE */
/* Appends a name that is not in the table yet. -1: out of memory, and the table is unchanged. */
int name_table_add(struct name_table *t, const void *name, size_t length);
const char *name_table_at(const struct name_table *t, size_t i); /* valid until the next add */
void name_table_clear(struct name_table *t);                     /* keeps the memory */
void name_table_finish(struct name_table *t);

#endif
