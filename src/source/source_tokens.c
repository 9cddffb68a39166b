/* source_tokens.c: `tokens`: windows of an array of tokens, as language models train on. Files are span_set.c's; a window is a
 * span of fixed length. */
#include "source/span_set.h"

#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"
#include "io/npy.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HEAD_BYTES ((size_t)64 << 10) /* of a .npy header, at most */

struct config {
    pst_strings paths;
    uint64_t n, stride;
    const char *next;
    int dtype, to, io;
};

enum stored { STORED_AUTO, STORED_U8, STORED_U16, STORED_U32, STORED_I32, STORED_I64 };
static const char *const stored_names[] = {"auto", "uint8", "uint16", "uint32", "int32", "int64", NULL};
static const unsigned stored_widths[] = {0, 1, 2, 4, 4, 8};
static const char *const to_names[] = {"int64", "int32", NULL};

static const pst_param params[] = {
    {"paths", PST_PARAM_STRINGS, offsetof(struct config, paths), NULL, 0, 0, NULL,
     "files, folders (their .bin and .npy files) or patterns"},
    {"n", PST_PARAM_UINT, offsetof(struct config, n), "1024", 1, (double)(1u << 28), NULL, "tokens of a window"},
    {"stride", PST_PARAM_UINT, offsetof(struct config, stride), "0", 0, 0, NULL,
     "tokens from the beginning of one window to that of the next; 0: n, windows do not overlap"},
    {"next", PST_PARAM_STRING, offsetof(struct config, next), "", 0, 0, NULL,
     "name of a second field: the same window one token later, the labels of a language model; empty: none"},
    {"dtype", PST_PARAM_CHOICE, offsetof(struct config, dtype), "auto", 0, 0, stored_names,
     "the stored type; auto: that of the array in a .npy file, uint16 in any other"},
    {"to", PST_PARAM_CHOICE, offsetof(struct config, to), "int64", 0, 0, to_names, "the type of the fields"},
    {"io", PST_PARAM_CHOICE, offsetof(struct config, io), "auto", 0, 0, span_io_names, SPAN_IO_DOC},
    {0},
};

struct tokens {
    struct span_set set; /* first */
    uint64_t n, stride;
    enum stored stored;
    bool int32;
    size_t count; /* fields */
    pst_field fields[2];
    _Atomic uint64_t longest; /* tokens of the longest file */
};

struct room {
    void *values; /* n + 1 of them; the second field begins with the second */
};

/* ---- Opening ---- */

/* The type of an array, as stored; STORED_AUTO: it is not one of tokens. */
static enum stored type_of(const struct npy_header *h)
{
    for (enum stored s = STORED_U8; s <= STORED_I64; s++)
        if (!h->swapped && h->width == stored_widths[s] && h->kind == (s <= STORED_U32 ? 'u' : 'i'))
            return s;
    return STORED_AUTO;
}

static bool is_npy(const uint8_t *head, size_t length)
{
    return length >= 6 && memcmp(head, "\x93NUMPY", 6) == 0;
}

static pst_status read_npy(const struct span_window *w, uint64_t bytes, struct npy_header *ret, pst_error *reterr)
{
    pst_status st = npy_parse(ret, w->data, w->length, bytes, w->path, reterr);
    if (st == PST_OK && ret->rank != 1)
        st = pst_fail_at(reterr, PST_EINVAL, w->path, PST_NOWHERE, PST_NOWHERE,
                         "the array has %zu dimensions; expected one, of tokens", ret->rank);
    if (st == PST_OK && type_of(ret) == STORED_AUTO)
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, w->path, PST_NOWHERE, PST_NOWHERE,
                         "the array is not of tokens; expected uint8, uint16, uint32, int32 or int64, little-endian");
    return st;
}

static pst_status tokens_look(void *source, const struct span_window *head, enum span_found *ret, pst_error *reterr)
{
    struct tokens *t = source;
    struct npy_header h;
    pst_status st = PST_OK;
    enum stored found = STORED_U16;
    *ret = head->length ? SPAN_FOUND : SPAN_END;
    if (is_npy(head->data, head->length)) {
        st = read_npy(head, UINT64_MAX, &h, reterr);
        found = st == PST_OK ? type_of(&h) : STORED_AUTO;
    }
    if (t->stored == STORED_AUTO)
        t->stored = found;
    unsigned width = stored_widths[t->stored];
    t->set.fixed = t->set.max_bytes = (t->n + t->count - 1) * width;
    t->set.step = t->stride * width;
    return st;
}

static pst_status tokens_measure(void *source, int fd, const char *path, struct span_file *file, pst_error *reterr)
{
    struct tokens *t = source;
    struct npy_header h;
    size_t got = 0, want = file->bytes < HEAD_BYTES ? (size_t)file->bytes : HEAD_BYTES;
    unsigned width = stored_widths[t->stored];
    uint64_t all = file->bytes / width;
    uint8_t *head = mem_alloc(want + 1);
    if (!head)
        return fail_memory_at(reterr, path, "opening it");
    pst_status st = file_read_at(fd, path, head, want, 0, &got, reterr);
    if (st == PST_OK && is_npy(head, got)) {
        struct span_window w = {.path = path, .data = head, .length = got};
        st = read_npy(&w, file->bytes, &h, reterr);
        if (st == PST_OK && type_of(&h) != t->stored)
            st = pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "has tokens of type %s, expected %s",
                             stored_names[type_of(&h)], stored_names[t->stored]);
        file->base = st == PST_OK ? h.data_offset : 0;
        all = st == PST_OK ? h.elements : 0;
    } else if (st == PST_OK && file->bytes % width) {
        st = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, file->bytes - file->bytes % width,
                         "%" PRIu64 " bytes are not a whole number of tokens of %u bytes; dtype= sets their type", file->bytes,
                         width);
    }
    mem_free(head);
    uint64_t need = t->n + t->count - 1, longest = atomic_load(&t->longest);
    file->count = all >= need ? (all - need) / t->stride + 1 : 0;
    while (all > longest && !atomic_compare_exchange_weak(&t->longest, &longest, all))
        ;
    return st;
}

/* ---- Windows ---- */

static pst_status fail_token(uint64_t value, size_t i, pst_error *reterr)
{
    return pst_fail(reterr, PST_ECORRUPT, "token %zu of the window is %" PRIu64 ", more than int32 holds; to=int64 reads it",
                    i, value);
}

static void widen(enum stored stored, const uint8_t *from, size_t n, int64_t *to)
{
    switch (stored) {
    case STORED_U8:
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        break;
    case STORED_AUTO:
    case STORED_U16:
        for (size_t i = 0; i < n; i++)
            to[i] = le16(from + 2 * i);
        break;
    case STORED_U32:
        for (size_t i = 0; i < n; i++)
            to[i] = le32(from + 4 * i);
        break;
    case STORED_I32:
        for (size_t i = 0; i < n; i++)
            to[i] = (int32_t)le32(from + 4 * i);
        break;
    case STORED_I64:
        memcpy(to, from, n * 8);
        break;
    }
}

static pst_status narrow(enum stored stored, const uint8_t *from, size_t n, int32_t *to, pst_error *reterr)
{
    uint64_t bad = 0;
    switch (stored) {
    case STORED_U8:
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        break;
    case STORED_AUTO:
    case STORED_U16:
        for (size_t i = 0; i < n; i++)
            to[i] = le16(from + 2 * i);
        break;
    case STORED_U32:
        for (size_t i = 0; i < n; i++) {
            to[i] = (int32_t)le32(from + 4 * i);
            bad |= (uint64_t)(to[i] < 0);
        }
        break;
    case STORED_I32:
        memcpy(to, from, n * 4);
        break;
    case STORED_I64:
        for (size_t i = 0; i < n; i++) {
            int64_t v = (int64_t)le64(from + 8 * i);
            to[i] = (int32_t)v;
            bad |= (uint64_t)(to[i] != v);
        }
        break;
    }
    for (size_t i = 0; bad && i < n; i++) {
        uint64_t v = stored == STORED_U32 ? le32(from + 4 * i) : le64(from + 8 * i);
        if (v > INT32_MAX && (stored == STORED_U32 || (int64_t)v > INT32_MAX || (int64_t)v < INT32_MIN))
            return fail_token(v, i, reterr);
    }
    return PST_OK;
}

static pst_status tokens_parse(const void *source, void *room, const struct span_window *w, pst_tensor *out, pst_error *reterr)
{
    const struct tokens *t = source;
    struct room *r = room;
    size_t all = (size_t)t->n + t->count - 1, width = t->int32 ? 4 : 8;
    pst_status st = PST_OK;
    if (!r->values)
        r->values = mem_aligned(all * width);
    if (!r->values)
        return fail_memory(reterr, "reading a window of %zu tokens", all);
    if (t->int32)
        st = narrow(t->stored, w->data, all, r->values, reterr);
    else
        widen(t->stored, w->data, all, r->values);
    out[0].data = r->values;
    if (t->count == 2)
        out[1].data = (uint8_t *)r->values + width;
    return st;
}

static void room_stop(void *room)
{
    mem_free(((struct room *)room)->values);
}

static const char *const extensions[] = {".bin", ".npy", NULL};

static const struct span_class class = {.kind = "windows",
                                        .extensions = extensions,
                                        .binary = true,
                                        .look = tokens_look,
                                        .measure = tokens_measure,
                                        .parse = tokens_parse,
                                        .room_stop = room_stop,
                                        .room_size = sizeof(struct room)};

static void tokens_close(void *source)
{
    if (source)
        span_set_finish(source);
    mem_free(source);
}

static pst_status name_fields(struct tokens *t, const struct config *c, pst_error *reterr)
{
    t->count = c->next[0] ? 2 : 1;
    if (strlen(c->next) >= PST_NAME_SIZE || strcmp(c->next, "tokens") == 0)
        return pst_fail(reterr, PST_EINVAL, "next=%.70s: expected a name of 1 to %d bytes other than tokens", c->next,
                        PST_NAME_SIZE - 1);
    for (size_t i = 0; i < t->count; i++) {
        t->fields[i] = (pst_field){.dtype = t->int32 ? PST_DTYPE_I32 : PST_DTYPE_I64, .rank = 1, .shape = {c->n}, .alias = -1};
        snprintf(t->fields[i].name, sizeof(t->fields[i].name), "%s", i ? c->next : "tokens");
    }
    return PST_OK;
}

static pst_status check_count(const struct tokens *t, pst_error *reterr)
{
    if (t->set.count || t->longest == 0)
        return PST_OK;
    return pst_fail_at(reterr, PST_EINVAL, t->set.paths.paths[0], PST_NOWHERE, PST_NOWHERE,
                       "a window needs %" PRIu64 " tokens%s, and the longest file has %" PRIu64 "; a smaller n= fits",
                       t->n + t->count - 1, t->count == 2 ? " (with the one after it, for next=)" : "", t->longest);
}

static pst_status tokens_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct config *c = config;
    struct tokens *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "opening the tokens");
    t->n = c->n;
    t->stride = c->stride ? c->stride : c->n;
    t->stored = (enum stored)c->dtype;
    t->int32 = c->to;
    t->set.class = &class;
    t->set.io = (enum span_io)c->io;
    t->set.fixed = 1; /* until the first look */
    t->set.unseekable = "windows of tokens need a plain file; decompress it first";
    pst_status st = name_fields(t, c, reterr);
    if (st == PST_OK && t->stride > UINT64_MAX / 16)
        st = pst_fail(reterr, PST_EINVAL, "stride=%" PRIu64 ": too large", t->stride);
    if (st == PST_OK)
        st = span_set_open(&t->set, &c->paths, env, reterr);
    if (st == PST_OK)
        st = check_count(t, reterr);
    if (st < 0) {
        tokens_close(t);
        return st;
    }
    *ret = t;
    return PST_OK;
}

static void tokens_spec(const void *source, pst_spec *ret)
{
    const struct tokens *t = source;
    *ret = (pst_spec){.count = t->count, .field = t->fields};
}

const struct source_class source_tokens = {
    .op = {.size = sizeof(pst_op_class),
           .name = "tokens",
           .doc = "Windows of n tokens from mapped arrays, in the field tokens: what language models train on. A .npy file has one "
                  "dimension; any other file is a plain array of uint16, or what dtype= says. Windows do not reach from one file "
                  "into the next; tokens at the end of a file that fill no window are left out.",
           .example = "tokens train.bin n=1024 next=labels | shuffle | batch 16",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = tokens_open,
    .close = tokens_close,
    .spec = tokens_spec,
    SPAN_SET_SOURCE(sizeof(struct room)),
};
