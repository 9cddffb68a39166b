/* teacher_logits.c: see teacher_logits.h. */
#include "train/teacher_logits.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC    UINT64_C(0x5449474f4c545350) /* "PSTLOGIT" */
#define MAX_FILE ((size_t)1 << 36)

struct head {
    uint64_t magic, fingerprint, width, count;
};

uint64_t logit_key(const pst_place *place)
{
    uint64_t path = place->path ? hash_bytes(place->path, strlen(place->path), 0) : 0;
    return hash_combine(path, place->record);
}

static int by_key(const void *a, const void *b)
{
    const struct logit_entry *x = a, *y = b;
    return x->key != y->key ? (x->key < y->key ? -1 : 1) : (x->row > y->row) - (x->row < y->row);
}

const float *logit_find(const struct logit_table *t, uint64_t key)
{
    size_t low = 0, high = t->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (t->entries[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->count && t->entries[low].key == key ? t->rows + t->entries[low].row * t->width : NULL;
}

pst_status logit_add(struct logit_table *t, uint64_t key, const float *row, pst_error *reterr)
{
    if (mem_grow((void **)&t->entries, &t->capacity, t->count + 1, sizeof(*t->entries)) < 0 ||
        mem_grow((void **)&t->rows, &t->row_capacity, t->row_count + 1, t->width * sizeof(float)) < 0)
        return fail_memory(reterr, "keeping the teacher's logits");
    memcpy(t->rows + t->row_count * t->width, row, t->width * sizeof(float));
    t->entries[t->count++] = (struct logit_entry){key, t->row_count++};
    return PST_OK;
}

void logit_sort(struct logit_table *t)
{
    size_t kept = 0;
    if (t->count)
        qsort(t->entries, t->count, sizeof(*t->entries), by_key);
    for (size_t i = 0; i < t->count; i++)
        if (i == 0 || t->entries[i].key != t->entries[kept - 1].key)
            t->entries[kept++] = t->entries[i];
    t->count = kept;
}

static size_t file_bytes(const struct head *h)
{
    size_t each, all;
    if (h->width > MAX_FILE || __builtin_mul_overflow(h->count, sizeof(uint64_t) + h->width * sizeof(float), &each) ||
        __builtin_add_overflow(each, sizeof(*h) + sizeof(uint64_t), &all))
        return SIZE_MAX;
    return all;
}

pst_status logit_save(const struct logit_table *t, const char *path, uint64_t fingerprint, pst_error *reterr)
{
    struct head h = {MAGIC, fingerprint, t->width, t->count};
    size_t bytes = file_bytes(&h), row = t->width * sizeof(float);
    char *data = mem_large(bytes), *rows = data + sizeof(h) + t->count * sizeof(uint64_t);
    if (!data)
        return fail_memory(reterr, "storing the teacher's logits");
    memcpy(data, &h, sizeof(h));
    for (size_t i = 0; i < t->count; i++) {
        memcpy(data + sizeof(h) + i * sizeof(uint64_t), &t->entries[i].key, sizeof(uint64_t));
        memcpy(rows + i * row, t->rows + t->entries[i].row * t->width, row);
    }
    uint64_t hash = hash_bytes(data, bytes - sizeof(hash), 0);
    memcpy(data + bytes - sizeof(hash), &hash, sizeof(hash));
    pst_status st = publish_bytes(path, data, bytes, true, true, reterr);
    mem_free(data);
    return st;
}

pst_status logit_load(struct logit_table *t, const char *path, uint64_t fingerprint, pst_error *reterr)
{
    uint8_t *data = NULL;
    size_t length = 0;
    struct head h = {0};
    uint64_t hash = 0;
    pst_status st = file_read_all(&data, &length, path, MAX_FILE, reterr);
    if (st < 0)
        return st == PST_ENOMEM ? st : PST_ENOTFOUND;
    if (length >= sizeof(h) + sizeof(hash)) {
        memcpy(&h, data, sizeof(h));
        memcpy(&hash, data + length - sizeof(hash), sizeof(hash));
    }
    bool fits = h.magic == MAGIC && h.fingerprint == fingerprint && h.width == t->width && file_bytes(&h) == length &&
                hash == hash_bytes(data, length - sizeof(hash), 0);
    t->entries = fits ? mem_array(h.count + 1, sizeof(*t->entries)) : NULL;
    t->rows = fits ? mem_large((h.count + 1) * t->width * sizeof(float)) : NULL;
    if (fits && t->entries && t->rows) {
        for (size_t i = 0; i < h.count; i++) {
            memcpy(&t->entries[i].key, data + sizeof(h) + i * sizeof(uint64_t), sizeof(uint64_t));
            t->entries[i].row = i;
        }
        memcpy(t->rows, data + sizeof(h) + h.count * sizeof(uint64_t), h.count * t->width * sizeof(float));
        t->count = t->row_count = h.count;
        t->capacity = t->row_capacity = h.count + 1;
    }
    mem_free(data);
    return !fits ? PST_ENOTFOUND : t->entries && t->rows ? PST_OK : fail_memory(reterr, "reading the teacher's logits");
}

void logit_finish(struct logit_table *t)
{
    mem_free(t->entries);
    mem_free(t->rows);
    *t = (struct logit_table){.width = t->width};
}
