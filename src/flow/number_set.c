/* number_set.c: a hash table with open addressing that only grows. */
#include "flow/number_set.h"

#include "base/hash.h"
#include "base/memory.h"

#define FIRST_SLOTS 64u

/* Where the number is, or would be. */
static uint64_t *find(uint64_t *slots, size_t capacity, uint64_t number)
{
    size_t i = (size_t)hash_combine(number, 0) & (capacity - 1);
    while (slots[i] && slots[i] != number)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

static bool grow(struct number_set *k)
{
    size_t capacity = k->capacity ? 2 * k->capacity : FIRST_SLOTS;
    uint64_t *slots = mem_array(capacity, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < k->capacity; i++)
        if (k->slots[i])
            *find(slots, capacity, k->slots[i]) = k->slots[i];
    mem_free(k->slots);
    k->slots = slots;
    k->capacity = capacity;
    return true;
}

pst_status number_set_add(struct number_set *k, uint64_t number, bool *ret_new)
{
    if (number == 0) {
        *ret_new = !k->zero;
        k->zero = true;
        return PST_OK;
    }
    if (2 * k->count >= k->capacity && !grow(k))
        return PST_ENOMEM;
    uint64_t *slot = find(k->slots, k->capacity, number);
    *ret_new = *slot == 0;
    k->count += *ret_new;
    *slot = number;
    return PST_OK;
}

void number_set_finish(struct number_set *k)
{
    mem_free(k->slots);
    *k = (struct number_set){0};
}
