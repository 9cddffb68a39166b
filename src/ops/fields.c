/* fields.c: see fields.h. */
#include "ops/fields.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define LISTED 120 /* bytes of names in an error */

char *field_label(const pst_field *f, char buffer[FIELD_LABEL_SIZE])
{
    size_t n = 0;
    for (size_t i = 0; i < PST_NAME_SIZE && f->name[i]; i++) {
        unsigned char c = (unsigned char)f->name[i], next = i + 1 < PST_NAME_SIZE ? (unsigned char)f->name[i + 1] : 0;
        bool wide = c == 0xc2 && next >= 0x80 && next < 0xa0; /* U+0080…9F */
        if (c == '\n')
            n += (size_t)snprintf(buffer + n, FIELD_LABEL_SIZE - n, "\\n");
        else if (c < 0x20 || c == 0x7f || wide)
            n += (size_t)snprintf(buffer + n, FIELD_LABEL_SIZE - n, "\\x%02x", wide ? next : c);
        else
            buffer[n++] = (char)c;
        i += wide;
    }
    buffer[n] = '\0';
    return buffer;
}

/* "image, label, …" */
static void list_names(const pst_spec *in, char *buffer, size_t size)
{
    size_t n = 0;
    buffer[0] = '\0';
    for (size_t i = 0; i < in->count; i++) {
        const char *name = in->field[i].name;
        size_t length = strlen(name) + (i ? 2 : 0);
        if (n + length + sizeof(", \xe2\x80\xa6") > size) {
            snprintf(buffer + n, size - n, "%s\xe2\x80\xa6", i ? ", " : "");
            return;
        }
        n += (size_t)snprintf(buffer + n, size - n, "%s%s", i ? ", " : "", name);
    }
}

pst_status field_find(const pst_spec *in, const char *name, size_t *ret, pst_error *reterr)
{
    const char *nearest = NULL, **names;
    char listed[LISTED];
    int found = pst_spec_find(in, name);
    if (found >= 0) {
        *ret = (size_t)found;
        return PST_OK;
    }
    names = mem_array(in->count + 1, sizeof(*names));
    for (size_t i = 0; names && i < in->count; i++)
        names[i] = in->field[i].name;
    if (names)
        nearest = text_nearest(name, names);
    mem_free(names);
    if (nearest)
        return pst_fail(reterr, PST_ENOTFOUND, "there is no field %.64s; did you mean %s?", name, nearest);
    list_names(in, listed, sizeof(listed));
    return pst_fail(reterr, PST_ENOTFOUND, "there is no field %.64s; available fields: %s", name, listed);
}

pst_status field_prepare(pst_ctx *ctx, pst_tensor *out, uint32_t rank, const uint64_t *shape, pst_error *reterr)
{
    size_t bytes = pst_dtype_size(out->dtype);
    if (out->data)
        return PST_OK;
    for (uint32_t i = 0; i < rank; i++)
        if (__builtin_mul_overflow(bytes, shape[i], &bytes))
            return pst_fail(reterr, PST_ELIMIT, "the result has more values than memory can hold");
    out->data = pst_scratch(ctx, bytes);
    if (!out->data)
        return fail_memory(reterr, "allocating a result of %zu bytes", bytes);
    out->rank = rank;
    memcpy(out->shape, shape, rank * sizeof(*shape));
    return PST_OK;
}
