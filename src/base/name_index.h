/* name_index.h: finds names that lie in an array of structs by hashing. It stores only numbers: the caller owns the array
 * and passes it to every call. */
#ifndef BASE_NAME_INDEX_H
#define BASE_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_INDEX_NONE SIZE_MAX
#define NAME_INDEX_MOST ((size_t)UINT16_MAX) /* maximum number of names in an index */

/* Empty when zeroed. */
struct name_index {
    uint16_t *slots; /* number + 1 of the name hashed here; 0: free */
    size_t mask;
};

/* Indexes `count` NUL-terminated names that lie `stride` bytes apart. Returns NAME_INDEX_NONE, or the number of the first name
 * that equals an earlier one (the earlier one is found). `*ret_whole` is false when memory ran out. */
size_t name_index_init(struct name_index *n, const char *names, size_t stride, size_t count, bool *ret_whole);
size_t name_index_find(const struct name_index *n, const char *names, size_t stride, const char *name); /* or NAME_INDEX_NONE */
void name_index_finish(struct name_index *n);

#endif
