/* spec.c: types by name and size, and the functions that `plan` fills a spec with. */
#include "ops/spec_memory.h"

#include "base/digits.h"

#include "ops/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int pst_spec_find(const pst_spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->count; i++)
        if (strncmp(spec->field[i].name, name, PST_NAME_SIZE) == 0)
            return (int)i;
    return -1;
}

/* ---- Specs in the making ---- */

struct pst_spec_memory {
    struct arena *arena;
    pst_field *field;        /* what the spec's own pointer shows read-only */
    size_t capacity, inputs; /* fields there is room for; fields of the input */
    bool misread;            /* a field was declared read that the input does not have */
    bool reads[];            /* one per field of the input */
};

static pst_field *alloc_fields(struct arena *a, size_t count)
{
    return arena_alloc(a, (count ? count : 1) * sizeof(pst_field));
}

pst_status spec_init(pst_spec *spec, struct arena *memory, size_t inputs, pst_error *reterr)
{
    struct pst_spec_memory *m = arena_alloc(memory, sizeof(*m) + inputs * sizeof(*m->reads));
    pst_field *field = alloc_fields(memory, inputs);
    if (!m || !field)
        return pst_fail(reterr, PST_ENOMEM, "planning: out of memory for %zu fields", inputs);
    *m = (struct pst_spec_memory){.arena = memory, .field = field, .capacity = inputs, .inputs = inputs};
    memset(m->reads, 0, inputs * sizeof(*m->reads));
    *spec = (pst_spec){.field = field, .engine = m};
    return PST_OK;
}

bool spec_reads_valid(const pst_spec *spec)
{
    return !spec->engine || !spec->engine->misread;
}

void pst_spec_pass(const pst_spec *in, pst_spec *out)
{
    struct pst_spec_memory *m = out->engine;
    assert(m && in->count <= m->capacity);
    for (size_t i = 0; i < in->count; i++) {
        m->field[i] = in->field[i];
        m->field[i].alias = (int)i;
    }
    out->count = in->count;
    memset(m->reads, 0, m->inputs * sizeof(*m->reads));
}

pst_status pst_spec_add(pst_spec *out, const pst_field *field, pst_error *reterr)
{
    struct pst_spec_memory *m = out->engine;
    if (!m)
        return pst_fail(reterr, PST_EINVAL, "fields are added only to the spec that plan is given");
    if (out->count >= PST_MAX_FIELDS)
        return pst_fail(reterr, PST_ELIMIT, "an element has at most %d fields", PST_MAX_FIELDS);
    if (out->count == m->capacity) {
        size_t capacity = m->capacity < 8 ? 16 : 2 * m->capacity;
        pst_field *grown = alloc_fields(m->arena, capacity);
        if (!grown)
            return pst_fail(reterr, PST_ENOMEM, "planning: out of memory for %zu fields", capacity);
        memcpy(grown, m->field, out->count * sizeof(*grown));
        out->field = m->field = grown;
        m->capacity = capacity;
    }
    m->field[out->count++] = *field;
    return PST_OK;
}

pst_status pst_spec_keep(pst_spec *out, const pst_spec *in, size_t i, pst_error *reterr)
{
    pst_field field = in->field[i];
    field.alias = (int)i;
    return pst_spec_add(out, &field, reterr);
}

void pst_spec_read(pst_spec *out, size_t i)
{
    if (out->engine && i < out->engine->inputs)
        out->engine->reads[i] = true;
    else if (out->engine)
        out->engine->misread = true;
}

bool pst_spec_reads(const pst_spec *out, size_t i)
{
    return out->engine && i < out->engine->inputs && out->engine->reads[i];
}

pst_field *pst_spec_write(pst_spec *out, size_t i)
{
    assert(out->engine && i < out->count);
    pst_field *f = &out->engine->field[i];
    f->alias = -1;
    return f;
}

/* ---- As text ---- */

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
    int n = digits_vprint(room ? l->buffer + l->length : NULL, room, format, args);
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
