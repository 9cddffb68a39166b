/* name_index.c: open addressing with linear probing; at most half of the slots are used. */
#include "base/name_index.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

/* The slot of `name`: where it is, or where it would go. */
static size_t slot_of(const struct name_index *n, const char *names, size_t stride, const char *name)
{
    size_t i = (size_t)hash_bytes(name, strlen(name), 0) & n->mask;
    while (n->slots[i] && strcmp(names + (n->slots[i] - 1u) * stride, name) != 0)
        i = (i + 1) & n->mask;
    return i;
}

size_t name_index_init(struct name_index *n, const char *names, size_t stride, size_t count, bool *ret_whole)
{
    size_t slots = 4, twice = NAME_INDEX_NONE;
    while (slots < 2 * count)
        slots *= 2;
    *n = (struct name_index){.mask = slots - 1};
    n->slots = count > NAME_INDEX_MOST ? NULL : mem_array(slots, sizeof(*n->slots));
    *ret_whole = n->slots != NULL;
    for (size_t i = 0; n->slots && i < count; i++) {
        size_t slot = slot_of(n, names, stride, names + i * stride);
        if (n->slots[slot] == 0)
            n->slots[slot] = (uint16_t)(i + 1);
        else if (twice == NAME_INDEX_NONE)
            twice = i;
    }
    return twice;
}

size_t name_index_find(const struct name_index *n, const char *names, size_t stride, const char *name)
{
    if (!n->slots)
        return NAME_INDEX_NONE;
    size_t slot = slot_of(n, names, stride, name);
    return n->slots[slot] ? n->slots[slot] - 1u : NAME_INDEX_NONE;
}

void name_index_finish(struct name_index *n)
{
    mem_free(n->slots);
    *n = (struct name_index){0};
}
