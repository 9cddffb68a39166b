/* labels.c: see labels.h. */
#include "inspect/labels.h"

#include "base/error.h"
#include "base/memory.h"
#include "inspect/feature_table.h"

#include <string.h>

/* ---- Which feature ---- */

/* "label", "image/class/label", "target": names under which a class is stored. */
static bool sounds_like_a_label(const char *name)
{
    static const char *const words[] = {"label",       "labels",   "class",  "class_id", "class_label", "category",
                                        "category_id", "label_id", "target", "y",        NULL};
    const char *last = name;
    for (const char *p = name; *p; p++)
        last = *p == '/' || *p == '.' ? p + 1 : last;
    for (size_t i = 0; words[i]; i++) {
        if (strcmp(last, words[i]) == 0)
            return true;
    }
    return false;
}

static bool could_be_a_label(const struct feature_table *t, size_t i)
{
    const struct feature_stats *s = &t->stats[i];
    if (!s->values || !feature_plain_name(t, i))
        return false;
    return feature_kind(t, i) == PST_INT64 || (feature_kind(t, i) == PST_BYTES && s->texts == s->values);
}

/* The only candidate of a kind; NAME_NONE if there is none or more than one. */
static size_t only_one(const struct feature_table *t, pst_kind kind)
{
    size_t found = NAME_NONE;
    for (size_t i = 0; i < t->keys.count; i++) {
        if (feature_kind(t, i) != kind || !could_be_a_label(t, i) || !sounds_like_a_label(feature_plain_name(t, i)))
            continue;
        if (found != NAME_NONE)
            return NAME_NONE;
        found = i;
    }
    return found;
}

size_t labels_choose(const struct feature_table *t)
{
    static const char plain[2][6] = {{PST_INT64, 'l', 'a', 'b', 'e', 'l'}, {PST_BYTES, 'l', 'a', 'b', 'e', 'l'}};
    for (size_t k = 0; k < 2; k++) {
        size_t i = name_table_find(&t->keys, plain[k], sizeof(plain[k]));
        if (i != NAME_NONE && could_be_a_label(t, i))
            return i;
    }
    size_t number = only_one(t, PST_INT64);
    return number != NAME_NONE ? number : only_one(t, PST_BYTES);
}

/* ---- Counting ---- */

static pst_status count_class(struct class_table *t, const void *key, size_t length, uint64_t times, pst_error *reterr)
{
    if (t->overflow)
        return PST_OK;
    size_t i = name_table_find(&t->keys, key, length);
    if (i == NAME_NONE && (t->keys.count >= CLASSES_MAX || length > CLASS_NAME_LENGTH)) {
        class_table_finish(t);
        t->overflow = true;
        return PST_OK;
    }
    if (i == NAME_NONE) {
        i = t->keys.count;
        if (mem_grow((void **)&t->counts, &t->capacity, i + 1, sizeof(*t->counts)) || name_table_add(&t->keys, key, length))
            return fail_memory(reterr, "allocating %zu classes", i + 1);
        t->counts[i] = 0;
    }
    t->counts[i] += times;
    return PST_OK;
}

pst_status class_table_add(struct class_table *t, const pst_value *value, pst_error *reterr)
{
    const pst_bytes *names = value->data;
    const int64_t *numbers = value->data;
    pst_status st = PST_OK;
    for (size_t i = 0; i < value->count && st == PST_OK && !t->overflow; i++) {
        if (value->kind == PST_BYTES)
            st = count_class(t, names[i].length ? (const char *)names[i].data : "", names[i].length, 1, reterr);
        else
            st = count_class(t, &numbers[i], sizeof(numbers[i]), 1, reterr);
    }
    return st;
}

pst_status class_table_merge(struct class_table *into, const struct class_table *from, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (from->overflow) {
        class_table_finish(into);
        into->overflow = true;
    }
    for (size_t i = 0; i < from->keys.count && st == PST_OK; i++)
        st = count_class(into, name_table_at(&from->keys, i), from->keys.names[i].length, from->counts[i], reterr);
    return st;
}

void class_table_finish(struct class_table *t)
{
    name_table_finish(&t->keys);
    mem_free(t->counts);
    *t = (struct class_table){0};
}

int64_t class_number(const struct class_table *t, size_t i)
{
    int64_t number;
    memcpy(&number, name_table_at(&t->keys, i), sizeof(number));
    return number;
}
