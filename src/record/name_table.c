/* name_table.c: open addressing with linear probing; at most half of the slots are used. */
#include "record/name_table.h"

#include "base/hash.h"
#include "base/memory.h"

#include <string.h>

#define SMALLEST ((size_t)16)

size_t name_table_find(const struct name_table *t, const void *name, size_t length)
{
    if (t->count == 0)
        return NAME_NONE;
    uint64_t hash = hash_bytes(name, length, 0);
    size_t mask = t->slot_count - 1;
    for (size_t i = hash & mask; t->slots[i]; i = (i + 1) & mask) {
        const struct name *n = &t->names[t->slots[i] - 1];
        if (n->hash == hash && n->length == length && memcmp(t->bytes + n->offset, name, length) == 0)
            return t->slots[i] - 1;
    }
    return NAME_NONE;
}

static void place(struct name_table *t, size_t number)
{
    size_t mask = t->slot_count - 1, i = t->names[number].hash & mask;
    while (t->slots[i])
        i = (i + 1) & mask;
    t->slots[i] = (uint32_t)(number + 1);
}

static int make_room(struct name_table *t, size_t length)
{
    size_t needed;
    void *bytes = t->bytes, *names = t->names;
    if (t->count >= UINT32_MAX / 2 || __builtin_add_overflow(t->used, length, &needed) || needed == SIZE_MAX)
        return -1;
    int failed = mem_grow(&bytes, &t->room, needed + 1, 1);
    t->bytes = bytes;
    if (failed)
        return -1;
    failed = mem_grow(&names, &t->capacity, t->count + 1, sizeof(struct name));
    t->names = names;
    if (failed || (t->count + 1) * 2 <= t->slot_count)
        return failed;

    size_t slot_count = t->slot_count ? t->slot_count * 2 : SMALLEST;
    uint32_t *slots = mem_array(slot_count, sizeof(*slots));
    if (!slots)
        return -1;
    mem_free(t->slots);
    t->slots = slots;
    t->slot_count = slot_count;
    for (size_t i = 0; i < t->count; i++)
        place(t, i);
    return 0;
}

int name_table_add(struct name_table *t, const void *name, size_t length)
{
    if (make_room(t, length) < 0)
        return -1;
    t->names[t->count] = (struct name){t->used, length, hash_bytes(name, length, 0)};
    memcpy(t->bytes + t->used, name, length);
    t->bytes[t->used + length] = '\0';
    t->used += length + 1;
    place(t, t->count++);
    return 0;
}

const char *name_table_at(const struct name_table *t, size_t i)
{
    return t->bytes + t->names[i].offset;
}

void name_table_clear(struct name_table *t)
{
    if (t->slots)
        memset(t->slots, 0, t->slot_count * sizeof(*t->slots));
    t->count = t->used = 0;
}

void name_table_finish(struct name_table *t)
{
    mem_free(t->bytes);
    mem_free(t->names);
    mem_free(t->slots);
    *t = (struct name_table){0};
}
