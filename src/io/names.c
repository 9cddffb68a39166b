/* names.c: see names.h. A million labels of a thousand classes take no more memory than a few thousand names. */
#include "io/names.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

#define FEW 256

int names_add(struct names *n, struct arena *arena, const char *name, size_t length)
{
    if (names_find(n, name, length) >= 0)
        return 0;
    if (n->count - n->sorted >= FEW + n->sorted)
        names_number(n);
    void *names = n->names;
    char *copy = arena_strndup(arena, name, length);
    if (!copy || mem_grow(&names, &n->capacity, n->count + 1, sizeof(*n->names)) < 0)
        return -1;
    n->names = names;
    n->names[n->count++] = copy;
    return 0;
}

void names_number(struct names *n)
{
    size_t kept = 0;
    if (n->count)
        qsort(n->names, n->count, sizeof(*n->names), text_compare);
    for (size_t i = 0; i < n->count; i++)
        if (kept == 0 || strcmp(n->names[kept - 1], n->names[i]))
            n->names[kept++] = n->names[i];
    n->count = n->sorted = kept;
}

int64_t names_find(const struct names *n, const char *name, size_t length)
{
    size_t low = 0, high = n->sorted;
    length = strnlen(name, length); /* a name ends at a NUL here too: names_add kept no more of it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strncmp(name, n->names[middle], length);
        if (order == 0)
            order = n->names[middle][length] ? -1 : 0;
        if (order == 0)
            return (int64_t)middle;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return -1;
}

const char *const *names_keep(const struct names *n, struct arena *arena)
{
    const char **copy = arena_alloc(arena, (n->count + 1) * sizeof(*copy));
    for (size_t i = 0; copy && i < n->count; i++)
        copy[i] = n->names[i];
    return copy;
}

void names_finish(struct names *n)
{
    mem_free(n->names);
    *n = (struct names){0};
}
