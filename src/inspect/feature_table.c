/* feature_table.c: see feature_table.h. */
#include "inspect/feature_table.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "inspect/images.h"
#include "inspect/readable.h"

#include <math.h>
#include <string.h>

#define PREVIEW_CHARACTERS 40

/* The row of a key, made on first sight; NULL in `*ret`: there are too many already. */
static pst_status row_of(struct feature_table *t, const char *key, size_t length, struct feature_stats **ret, pst_error *reterr)
{
    size_t i = name_table_find(&t->keys, key, length);
    *ret = NULL;
    if (i == NAME_NONE && t->keys.count >= FEATURES_MAX) {
        t->full = true;
        return PST_OK;
    }
    if (i == NAME_NONE) {
        i = t->keys.count;
        if (mem_grow((void **)&t->stats, &t->capacity, i + 1, sizeof(*t->stats)) || name_table_add(&t->keys, key, length))
            return fail_memory(reterr, "allocating the figures of %zu features", i + 1);
        t->stats[i] =
            (struct feature_stats){.min_count = UINT64_MAX, .min_bytes = UINT64_MAX, .min = INFINITY, .max = -INFINITY};
    }
    *ret = &t->stats[i];
    return PST_OK;
}

static pst_status row_of_name(struct feature_table *t, int tag, const void *name, size_t length, struct feature_stats **ret,
                              pst_error *reterr)
{
    char key[1 + FEATURE_NAME_LENGTH];
    length = length < FEATURE_NAME_LENGTH ? length : FEATURE_NAME_LENGTH;
    key[0] = (char)tag;
    if (length)
        memcpy(key + 1, name, length);
    return row_of(t, key, 1 + length, ret, reterr);
}

static void add_number(struct feature_stats *s, double number)
{
    if (!isfinite(number)) {
        s->nonfinite++;
        return;
    }
    s->finite++;
    s->sum += number;
    s->min = number < s->min ? number : s->min;
    s->max = number > s->max ? number : s->max;
}

static void add_numbers(struct feature_stats *s, const pst_value *value)
{
    const int64_t *whole = value->data;
    for (size_t i = 0; i < value->count && value->kind == PST_INT64; i++)
        add_number(s, (double)whole[i]);
    for (size_t i = 0; i < value->count && value->kind == PST_FLOAT; i++) {
        float number;
        memcpy(&number, (const char *)value->data + i * sizeof(number), sizeof(number));
        add_number(s, (double)number);
    }
}

static void add_bytes(struct feature_stats *s, const pst_value *value, const struct image_shape *shape)
{
    const pst_bytes *bytes = value->data;
    for (size_t i = 0; i < value->count; i++) {
        pst_image_info info;
        s->min_bytes = bytes[i].length < s->min_bytes ? bytes[i].length : s->min_bytes;
        s->max_bytes = bytes[i].length > s->max_bytes ? bytes[i].length : s->max_bytes;
        if (image_recognise(bytes[i], shape, &info))
            s->images++;
        else if (readable_is_text(bytes[i].data, bytes[i].length))
            s->texts++;
    }
}

static pst_status add_preview(struct feature_stats *s, const pst_value *value, const struct image_shape *shape,
                              pst_error *reterr)
{
    if (s->preview || !value->count)
        return PST_OK;
    struct text t = {0};
    readable_add_value(&t, value, shape, 1, PREVIEW_CHARACTERS);
    if (t.failed || !t.data) {
        text_finish(&t);
        return fail_memory(reterr, "allocating the preview of a value");
    }
    s->preview = t.data; /* from mem_alloc's family: freed as such */
    return PST_OK;
}

static void add_counts(struct feature_stats *s, size_t count)
{
    s->present++;
    s->values += count;
    s->min_count = count < s->min_count ? count : s->min_count;
    s->max_count = count > s->max_count ? count : s->max_count;
}

pst_status feature_table_add(struct feature_table *t, const pst_named_value *values, size_t count, size_t context,
                             pst_error *reterr)
{
    struct image_shape shape = image_shape_find(values, count);
    for (size_t i = 0; i < count; i++) {
        const pst_value *value = &values[i].value;
        if (!value->present)
            continue;
        struct feature_stats *s;
        int tag = value->kind | (i < context ? 0 : FEATURE_OF_LIST);
        pst_status st = row_of_name(t, tag, values[i].name.data, values[i].name.length, &s, reterr);
        if (st < 0)
            return st;
        if (!s)
            continue;
        add_counts(s, value->count);
        if (value->kind == PST_BYTES)
            add_bytes(s, value, &shape);
        else
            add_numbers(s, value);
        st = add_preview(s, value, &shape, reterr);
        if (st < 0)
            return st;
    }
    return PST_OK;
}

pst_status feature_table_add_number(struct feature_table *t, const void *name, size_t length, double number, pst_error *reterr)
{
    struct feature_stats *s;
    pst_status st = row_of_name(t, PST_FLOAT, name, length, &s, reterr);
    if (st < 0 || !s)
        return st;
    add_counts(s, 1);
    add_number(s, number);
    return PST_OK;
}

static void merge_stats(struct feature_stats *into, struct feature_stats *from)
{
    into->present += from->present;
    into->values += from->values;
    into->min_count = from->min_count < into->min_count ? from->min_count : into->min_count;
    into->max_count = from->max_count > into->max_count ? from->max_count : into->max_count;
    into->min_bytes = from->min_bytes < into->min_bytes ? from->min_bytes : into->min_bytes;
    into->max_bytes = from->max_bytes > into->max_bytes ? from->max_bytes : into->max_bytes;
    into->images += from->images;
    into->texts += from->texts;
    into->finite += from->finite;
    into->nonfinite += from->nonfinite;
    into->min = from->min < into->min ? from->min : into->min;
    into->max = from->max > into->max ? from->max : into->max;
    into->sum += from->sum;
    if (!into->preview) {
        into->preview = from->preview;
        from->preview = NULL;
    }
}

pst_status feature_table_merge(struct feature_table *into, struct feature_table *from, pst_error *reterr)
{
    pst_status st = PST_OK;
    for (size_t i = 0; i < from->keys.count && st == PST_OK; i++) {
        struct feature_stats *s;
        st = row_of(into, name_table_at(&from->keys, i), from->keys.names[i].length, &s, reterr);
        if (st == PST_OK && s)
            merge_stats(s, &from->stats[i]);
    }
    into->full |= from->full;
    feature_table_finish(from);
    return st;
}

void feature_table_finish(struct feature_table *t)
{
    for (size_t i = 0; i < t->keys.count; i++)
        mem_free(t->stats[i].preview);
    mem_free(t->stats);
    name_table_finish(&t->keys);
    *t = (struct feature_table){0};
}

const pst_value *feature_of(const pst_named_value *values, size_t count, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = count; i-- > 0;) { /* the last of a repeated key wins */
        if (values[i].name.length == length && memcmp(values[i].name.data, name, length) == 0)
            return values[i].value.present ? &values[i].value : NULL;
    }
    return NULL;
}
