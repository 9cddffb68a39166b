/* spec.c: types by name and size, and the small helpers for `plan`. */
#include "ops/fields.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {
    [PST_DTYPE_NONE] = {"none", 0},     [PST_DTYPE_BYTES] = {"bytes", sizeof(pst_bytes)},
    [PST_DTYPE_U8] = {"uint8", 1},      [PST_DTYPE_I32] = {"int32", 4},
    [PST_DTYPE_I64] = {"int64", 8},     [PST_DTYPE_F16] = {"float16", 2},
    [PST_DTYPE_BF16] = {"bfloat16", 2}, [PST_DTYPE_F32] = {"float32", 4},
    [PST_DTYPE_F64] = {"float64", 8},
};

static size_t known(pst_dtype dtype)
{
    return (size_t)dtype < sizeof(dtypes) / sizeof(dtypes[0]) ? (size_t)dtype : PST_DTYPE_NONE;
}

const char *pst_dtype_name(pst_dtype dtype)
{
    return dtypes[known(dtype)].name;
}

size_t pst_dtype_size(pst_dtype dtype)
{
    return dtypes[known(dtype)].size;
}

int pst_spec_find(const pst_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->count; i++)
        if (strncmp(spec->field[i].name, name, PST_NAME_SIZE) == 0)
            return (int)i;
    return -1;
}

void pst_spec_pass(const pst_spec *in, pst_spec *ret_out)
{
    *ret_out = *in;
    ret_out->reads = 0;
    for (size_t i = 0; i < in->count; i++)
        ret_out->field[i].alias = (int)i;
}

/* Text into a buffer that may be too small; `length` counts on. */
struct line {
    char *buffer;
    size_t size, length;
};

static void PST_PRINTF(2, 3) add(struct line *l, const char *format, ...)
{
    va_list args;
    size_t room = l->length < l->size ? l->size - l->length : 0;
    va_start(args, format);
    int n = vsnprintf(room ? l->buffer + l->length : NULL, room, format, args);
    va_end(args);
    l->length += n > 0 ? (size_t)n : 0;
}

char *pst_spec_text(const pst_spec *spec, char *buffer, size_t size)
{
    static const char more[] = "\xe2\x80\xa6";
    struct line l = {.buffer = buffer, .size = size};
    char name[FIELD_LABEL_SIZE];
    size_t fits = 0; /* as much as leaves room for the ellipsis */
    if (size == 0)
        return buffer;
    buffer[0] = '\0';
    for (size_t i = 0; i < spec->count; i++) {
        const pst_field *f = &spec->field[i];
        add(&l, "%s%s: %s", i ? ", " : "", field_label(f, name), pst_dtype_name(f->dtype));
        for (uint32_t d = 0; d < f->rank && d < PST_MAX_RANK; d++) {
            add(&l, "%s", d ? "," : " [");
            if (f->shape[d] == PST_ANY)
                add(&l, "?");
            else
                add(&l, "%" PRIu64, f->shape[d]);
        }
        add(&l, "%s", f->rank ? "]" : "");
        if (l.length + sizeof(more) <= size)
            fits = l.length;
    }
    if (l.length >= size)
        snprintf(buffer + fits, size - fits, "%s", size >= sizeof(more) ? more : "");
    return buffer;
}
