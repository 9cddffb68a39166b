/* safetensors.c: see safetensors.h. */
#include "export/safetensors.h"

#include "base/arena.h"
#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER ((uint64_t)100 << 20) /* as the reference reader has it */
#define ALIGNMENT  64

size_t safetensors_width(const char *dtype)
{
    static const struct {
        const char *name;
        size_t width;
    } known[] = {{"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F64", 8}, {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
                 {"U8", 1},  {"BOOL", 1}, {"U16", 2}, {"U32", 4}, {"U64", 8}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, dtype) == 0)
            return known[i].width;
    return 0;
}

static pst_status fail_header(pst_error *reterr, const char *name, const char *what)
{
    return pst_fail(reterr, PST_ECORRUPT, "safetensors: %.80s: %s", name ? name : "header", what);
}

static pst_status read_shape(struct safetensor *t, const struct json_document *d, size_t at, pst_error *reterr)
{
    if (at == JSON_ABSENT || d->items[at].kind != JSON_ARRAY)
        return fail_header(reterr, t->name, "has no shape");
    if (d->items[at].count > SAFETENSORS_RANK)
        return fail_header(reterr, t->name, "has more than 8 dimensions");
    t->rank = (uint32_t)d->items[at].count;
    t->count = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!json_get_uint(d, at + 1 + i, &t->shape[i]) || __builtin_mul_overflow(t->count, t->shape[i], &t->count))
            return fail_header(reterr, t->name, "has an invalid shape");
    return PST_OK;
}

/* `data` is what follows the header, `room` bytes. */
static pst_status read_tensor(struct safetensor *t, const struct json_document *d, size_t at, const uint8_t *data, uint64_t room,
                              pst_error *reterr)
{
    uint64_t begin, end, bytes;
    size_t type = json_find(d, at, "dtype");
    if (type == JSON_ABSENT || d->items[type].kind != JSON_STRING || d->items[type].length >= sizeof(t->dtype))
        return fail_header(reterr, t->name, "has no known dtype");
    memcpy(t->dtype, d->items[type].text, d->items[type].length); /* the rest is zero */
    size_t width = safetensors_width(t->dtype), offsets = json_find(d, at, "data_offsets");
    if (width == 0)
        return pst_fail(reterr, PST_EUNSUPPORTED, "safetensors: %.80s is of type %s, which is not read", t->name, t->dtype);
    pst_status st = read_shape(t, d, json_find(d, at, "shape"), reterr);
    if (st < 0)
        return st;
    if (offsets == JSON_ABSENT || d->items[offsets].kind != JSON_ARRAY || d->items[offsets].count != 2 ||
        !json_get_uint(d, offsets + 1, &begin) || !json_get_uint(d, offsets + 2, &end))
        return fail_header(reterr, t->name, "has no data_offsets");
    if (begin > end || end > room || __builtin_mul_overflow(t->count, (uint64_t)width, &bytes) || end - begin != bytes)
        return fail_header(reterr, t->name, "has data_offsets that contradict its shape or the size of the file");
    t->data = data + begin;
    return PST_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->data != y->data)
        return (uintptr_t)x->data < (uintptr_t)y->data ? -1 : 1;
    return x->count != y->count ? (x->count < y->count ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensor *)a)->name, ((const struct safetensor *)b)->name);
}

static pst_status check_layout(struct safetensors *s, const uint8_t *data, uint64_t room, pst_error *reterr)
{
    const uint8_t *at = data;
    if (s->count > 1)
        qsort(s->tensors, s->count, sizeof(*s->tensors), by_name);
    for (size_t i = 1; i < s->count; i++)
        if (strcmp(s->tensors[i - 1].name, s->tensors[i].name) == 0)
            return fail_header(reterr, s->tensors[i].name, "is there twice");
    if (s->count > 1)
        qsort(s->tensors, s->count, sizeof(*s->tensors), by_place);
    for (size_t i = 0; i < s->count; i++) {
        if ((const uint8_t *)s->tensors[i].data != at)
            return fail_header(reterr, s->tensors[i].name, "overlaps another array, or a gap lies before it");
        at += s->tensors[i].count * safetensors_width(s->tensors[i].dtype);
    }
    return at == data + room ? PST_OK : fail_header(reterr, NULL, "bytes that belong to no array at the end of the file");
}

static pst_status read_header(struct safetensors *s, const struct json_document *d, const uint8_t *data, uint64_t room,
                              pst_error *reterr)
{
    if (d->items[0].kind != JSON_OBJECT)
        return fail_header(reterr, NULL, "is not an object");
    s->tensors = mem_array(d->items[0].count + 1, sizeof(*s->tensors));
    if (!s->tensors)
        return fail_memory(reterr, "reading safetensors");
    pst_status st = PST_OK;
    for (size_t i = 0, key = 1; st == PST_OK && i < d->items[0].count; i++, key = d->items[key + 1].next) {
        char *name = json_get_string(d, key);
        if (!name)
            return fail_memory(reterr, "reading safetensors");
        if (strcmp(name, "__metadata__") == 0) {
            mem_free(name);
            continue;
        }
        struct safetensor *t = &s->tensors[s->count++];
        t->name = name;
        st = read_tensor(t, d, key + 1, data, room, reterr);
    }
    return st == PST_OK ? check_layout(s, data, room, reterr) : st;
}

static pst_status parse(struct safetensors *ret, const void *bytes, size_t length, pst_error *reterr)
{
    const uint8_t *b = bytes;
    struct json_document d = {0};
    struct safetensors s = {0};
    uint64_t header = length >= 8 ? le64(b) : 0;
    if (length < 8 || header < 2 || header > length - 8 || header > MAX_HEADER)
        return fail_header(reterr, NULL, "its length contradicts the size of the file");
    pst_status st = json_parse(&d, (const char *)b + 8, (size_t)header, reterr);
    if (st == PST_OK)
        st = read_header(&s, &d, b + 8 + header, length - 8 - header, reterr);
    json_finish(&d);
    if (st == PST_OK)
        st = safetensors_join(&s, reterr);
    if (st < 0)
        safetensors_finish(&s);
    else
        *ret = s;
    return st;
}

pst_status safetensors_parse(struct safetensors *ret, const char *path, const void *bytes, size_t length, pst_error *reterr)
{
    pst_status st = parse(ret, bytes, length, reterr);
    if (st < 0 && path && reterr) {
        pst_error inner = *reterr;
        pst_fail_at(reterr, st, path, PST_NOWHERE, inner.offset, "%s", inner.message);
    }
    return st;
}

void safetensors_finish(struct safetensors *s)
{
    for (size_t i = 0; i < s->count; i++)
        mem_free((char *)(uintptr_t)s->tensors[i].name);
    for (size_t i = 0; i < s->owned_count; i++)
        mem_free(s->owned[i]);
    mem_free(s->owned);
    mem_free(s->tensors);
    *s = (struct safetensors){0};
}

const struct safetensor *safetensors_find(const struct safetensors *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i];
    return NULL;
}

static void write_all(struct text *to, struct safetensor *tensors, size_t count)
{
    uint64_t at = 0;
    size_t begin = to->length;
    if (count > 1)
        qsort(tensors, count, sizeof(*tensors), by_name);
    text_add_n(to, "\0\0\0\0\0\0\0\0", 8);
    text_add(to, "{");
    for (size_t i = 0; i < count; i++) {
        const struct safetensor *t = &tensors[i];
        uint64_t bytes = t->count * safetensors_width(t->dtype);
        text_add(to, i ? "," : "");
        text_add_json(to, t->name, strlen(t->name));
        text_addf(to, ":{\"dtype\":\"%s\",\"shape\":[", t->dtype);
        for (uint32_t k = 0; k < t->rank; k++)
            text_addf(to, "%s%" PRIu64, k ? "," : "", t->shape[k]);
        text_addf(to, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
        at += bytes;
    }
    text_add(to, "}");
    while (!to->failed && (to->length - begin) % ALIGNMENT)
        text_add(to, " ");
    if (!to->failed)
        put_le64(to->data + begin, to->length - begin - 8);
    for (size_t i = 0; i < count; i++)
        text_add_n(to, tensors[i].data, tensors[i].count * safetensors_width(tensors[i].dtype));
}

void safetensors_write(struct text *to, struct safetensor *tensors, size_t count)
{
    struct arena memory;
    struct safetensor *list = mem_array(3 * count + 1, sizeof(*list));
    size_t n = 0;
    arena_init(&memory);
    to->failed |= !list;
    for (size_t i = 0; !to->failed && i < count; i++) {
        if (!tensors[i].bitmap)
            list[n++] = tensors[i];
        else
            to->failed |= !safetensors_split(&tensors[i], &memory, list, &n);
    }
    if (!to->failed)
        write_all(to, list, n);
    arena_finish(&memory);
    mem_free(list);
}
