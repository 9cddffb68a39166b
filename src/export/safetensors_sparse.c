/* safetensors_sparse.c: arrays without their zeros: a bitmap and the values that are left. See safetensors.h. */
#include "export/safetensors.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"

#include <stdio.h>
#include <string.h>

static const char *const endings[] = {"@bitmap", "@values", "@shape"};
enum { BITMAP, VALUES, SHAPE, PARTS };

static bool is_set(const uint8_t *bitmap, uint64_t i)
{
    return bitmap[i / 8] >> (i % 8) & 1;
}

static uint64_t count_set(const uint8_t *bitmap, uint64_t count)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += is_set(bitmap, i);
    return sum;
}

bool safetensors_split(const struct safetensor *t, struct arena *memory, struct safetensor *list, size_t *count)
{
    size_t width = safetensors_width(t->dtype), length = strlen(t->name) + 8, bytes = (size_t)(t->count + 7) / 8;
    uint64_t kept = count_set(t->bitmap, t->count);
    char *names = arena_alloc(memory, PARTS * length), *values = arena_alloc(memory, (size_t)kept * width + 1);
    uint8_t *shape = arena_alloc(memory, 8 * SAFETENSORS_RANK), *bitmap = arena_alloc(memory, bytes + 1);
    if (!names || !values || !shape || !bitmap)
        return false;
    memcpy(bitmap, t->bitmap, bytes);
    if (t->count % 8)
        bitmap[bytes - 1] &= (uint8_t)((1u << (t->count % 8)) - 1);
    for (uint64_t i = 0, at = 0; i < t->count; i++)
        if (is_set(bitmap, i))
            memcpy(values + width * at++, (const char *)t->data + width * i, width);
    for (uint32_t i = 0; i < t->rank; i++)
        put_le64(shape + 8 * i, t->shape[i]);
    struct safetensor part[PARTS] = {
        [BITMAP] = {.dtype = "U8", .rank = 1, .shape = {bytes}, .count = bytes, .data = bitmap},
        [VALUES] = {.rank = 1, .shape = {kept}, .count = kept, .data = values},
        [SHAPE] = {.dtype = "U64", .rank = 1, .shape = {t->rank}, .count = t->rank, .data = shape},
    };
    memcpy(part[VALUES].dtype, t->dtype, sizeof(t->dtype));
    for (size_t i = 0; i < PARTS; i++) {
        snprintf(names + i * length, length, "%s%s", t->name, endings[i]);
        part[i].name = names + i * length;
        list[(*count)++] = part[i];
    }
    return true;
}

/* ---- Reading ---- */

/* The part of the same array that ends with `ending`; NULL: there is none. */
static const struct safetensor *find_part(const struct safetensors *s, const char *name, size_t length, const char *ending)
{
    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->tensors[i].name, name, length) == 0 && strcmp(s->tensors[i].name + length, ending) == 0)
            return &s->tensors[i];
    return NULL;
}

static bool is_part(const char *name, size_t *ret_length, size_t *ret_part)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < PARTS; i++) {
        size_t n = strlen(endings[i]);
        if (length > n && strcmp(name + length - n, endings[i]) == 0) {
            *ret_length = length - n;
            *ret_part = i;
            return true;
        }
    }
    return false;
}

/* Checks that the parts agree, and describes the whole array. A bitmap of n bytes makes at most 8·n values: memory is bounded by the
 * size of the file. */
static bool describe(const struct safetensor *bitmap, const struct safetensor *values, const struct safetensor *shape, struct safetensor *ret)
{
    if (!values || !shape || strcmp(bitmap->dtype, "U8") != 0 || bitmap->rank != 1 || values->rank != 1 || shape->rank != 1 ||
        strcmp(shape->dtype, "U64") != 0 || shape->count > SAFETENSORS_RANK)
        return false;
    ret->rank = (uint32_t)shape->count;
    ret->count = 1;
    memcpy(ret->dtype, values->dtype, sizeof(ret->dtype));
    for (uint32_t i = 0; i < ret->rank; i++) {
        ret->shape[i] = le64((const uint8_t *)shape->data + 8 * i);
        if (__builtin_mul_overflow(ret->count, ret->shape[i], &ret->count))
            return false;
    }
    return ret->count <= 8 * bitmap->count && (ret->count + 7) / 8 == bitmap->count && count_set(bitmap->data, ret->count) == values->count;
}

static pst_status join(struct safetensors *s, const struct safetensor *bitmap, size_t length, struct safetensor *ret, pst_error *reterr)
{
    const struct safetensor *values = find_part(s, bitmap->name, length, endings[VALUES]);
    const struct safetensor *shape = find_part(s, bitmap->name, length, endings[SHAPE]);
    struct safetensor t = {.bitmap = bitmap->data};
    if (!describe(bitmap, values, shape, &t) || find_part(s, bitmap->name, length, ""))
        return pst_fail(reterr, PST_ECORRUPT, "safetensors: %.80s: bitmap, values and shape do not agree", bitmap->name);
    size_t width = safetensors_width(t.dtype);
    char *data = mem_array((size_t)t.count + 1, width), *name = mem_format("%.*s", (int)length, bitmap->name);
    if (!data || !name) {
        mem_free(data);
        mem_free(name);
        return fail_memory(reterr, "reading safetensors");
    }
    for (uint64_t i = 0, at = 0; i < t.count; i++)
        if (is_set(t.bitmap, i))
            memcpy(data + width * i, (const char *)values->data + width * at++, width);
    t.data = s->owned[s->owned_count++] = data;
    t.name = name;
    *ret = t;
    return PST_OK;
}

/* Replaces the parts by the `n` whole arrays, whose names it takes. */
static bool replace_parts(struct safetensors *s, struct safetensor *whole, size_t n)
{
    bool *gone = mem_array(s->count, sizeof(*gone)); /* all are found before any goes */
    size_t kept = 0, length, part;
    if (!gone)
        return false;
    for (size_t i = 0; i < s->count; i++)
        gone[i] = is_part(s->tensors[i].name, &length, &part) && find_part(s, s->tensors[i].name, length, endings[BITMAP]);
    for (size_t i = 0; i < s->count; i++) {
        if (gone[i])
            mem_free((char *)(uintptr_t)s->tensors[i].name);
        else
            s->tensors[kept++] = s->tensors[i];
    }
    memcpy(s->tensors + kept, whole, n * sizeof(*whole)); /* three arrays make one: there is room */
    s->count = kept + n;
    mem_free(gone);
    return true;
}

pst_status safetensors_join(struct safetensors *s, pst_error *reterr)
{
    size_t sparse = 0, n = 0, length, part;
    for (size_t i = 0; i < s->count; i++)
        sparse += is_part(s->tensors[i].name, &length, &part) && part == BITMAP;
    if (sparse == 0)
        return PST_OK;
    struct safetensor *whole = mem_array(sparse, sizeof(*whole));
    s->owned = mem_array(sparse, sizeof(*s->owned));
    pst_status st = whole && s->owned ? PST_OK : fail_memory(reterr, "reading safetensors");
    for (size_t i = 0; st == PST_OK && i < s->count; i++)
        if (is_part(s->tensors[i].name, &length, &part) && part == BITMAP) {
            st = join(s, &s->tensors[i], length, &whole[n], reterr);
            n += st == PST_OK;
        }
    if (st == PST_OK && !replace_parts(s, whole, n))
        st = fail_memory(reterr, "reading safetensors");
    for (size_t i = 0; st < 0 && i < n; i++)
        mem_free((char *)(uintptr_t)whole[i].name);
    mem_free(whole);
    return st;
}
