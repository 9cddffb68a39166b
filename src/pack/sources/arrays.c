/* arrays.c: rows of arrays as features.
 *
 * uint8 rows of a dimension or more are stored as bytes, floats as a float list, integers and bools as int64s, strings
 * as bytes, text as UTF-8. Rows in Fortran order are gathered from blocks of neighbouring rows. Large rows that need no
 * conversion are read straight into the records. Leaves to others: finding the arrays. */
#include "pack/sources/arrays.h"

#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/npy.h"
#include "io/parse_number.h"
#include "pack/report.h"
#include "pack/sources/file_window.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DIRECT_BYTES 16384 /* from here on a read of its own is cheaper than a copy */
#define BLOCK_BYTES  65536 /* of rows in Fortran order that are read together */

struct array_view {
    struct file_window window;
    void *numbers;        /* of a row; or its text */
    uint8_t *block, *row; /* rows in Fortran order, as stored; one of them gathered */
    uint64_t first, rows; /* in the block */
};

pst_status arrays_create(struct pack_source *s, const char *name, pst_error *reterr)
{
    struct arrays *as = s->state = mem_zalloc(sizeof(*as));
    if (as)
        as->name = arena_strndup(&s->arena, file_base(name), strlen(file_base(name)));
    return as && as->name ? PST_OK : fail_memory(reterr, "opening the arrays");
}

/* ---- What an array becomes ---- */

static pst_status measure(struct array *a, const char *name, pst_error *reterr)
{
    uint64_t total = 0;
    a->row_elements = 1;
    for (size_t i = 0; i < a->rank; i++)
        if (__builtin_mul_overflow(a->row_elements, a->shape[i], &a->row_elements))
            return pst_fail(reterr, PST_ECORRUPT, "array %s: its shape overflows", name);
    if (__builtin_mul_overflow(a->row_elements, a->width, &a->row_bytes) || a->row_bytes > PST_MAX_RECORD_BYTES)
        return pst_fail(reterr, PST_ELIMIT, "array %s: a row is more than a record may hold (%" PRIu64 " bytes)", name,
                        PST_MAX_RECORD_BYTES);
    if (a->kind == 'V')
        total = a->rows ? a->ends[a->rows - 1] : 0;
    else if (__builtin_mul_overflow(a->rows, a->row_bytes, &total))
        total = UINT64_MAX;
    if (a->offset > a->file->size || total > a->file->size - a->offset)
        return pst_fail_at(reterr, PST_ECORRUPT, a->file->path, PST_NOWHERE, a->offset,
                           "array %s should take %" PRIu64 " bytes, more than the file has", name, total);
    return PST_OK;
}

static const char *dtype_of(const struct array *a)
{
    static const char *const ints[] = {"int8", "int16", "int32", "int64"}, *const uints[] = {"uint8", "uint16", "uint32",
                                                                                             "int64"};
    unsigned log = a->width == 8 ? 3 : a->width == 4 ? 2 : a->width == 2 ? 1 : 0;
    switch (a->kind) {
    case 'b':
        return "bool";
    case 'i':
        return ints[log];
    case 'u':
        return uints[log]; /* 64 bits: no reader has more than int64 */
    case 'f':
        return "float32";
    default:
        return "string";
    }
}

static bool is_bytes(const struct array *a)
{
    return a->kind == 'S' || a->kind == 'U' || a->kind == 'V' || (a->kind == 'u' && a->width == 1 && a->rank > 0);
}

pst_status arrays_add(struct pack_source *s, const struct pack_opening *o, const char *name, const struct array *a,
                      pst_error *reterr)
{
    struct arrays *as = s->state;
    struct array array = *a;
    pst_status st = measure(&array, name, reterr);
    if (st < 0)
        return st;
    if ((array.kind == 'S' || array.kind == 'U' || array.kind == 'V') && array.rank > 0)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, array.file->path, PST_NOWHERE, PST_NOWHERE,
                           "array %s holds several strings per row; only one is supported", name);
    for (size_t i = 0; i < s->field_count; i++)
        if (strcmp(s->fields[i].name, name) == 0)
            return pst_fail_at(reterr, PST_EINVAL, array.file->path, PST_NOWHERE, PST_NOWHERE,
                               "two arrays are called %s; a feature needs a name of its own", name);
    void *list = as->list;
    if (mem_grow(&list, &as->capacity, s->field_count + 1, sizeof(*as->list)) < 0)
        return fail_memory(reterr, "opening the arrays");
    as->list = list;
    pst_kind kind = is_bytes(&array) ? PST_BYTES : array.kind == 'f' ? PST_FLOAT : PST_INT64;
    enum pack_role role = array.kind == 'u' && kind == PST_BYTES ? PACK_PIXELS : PACK_PLAIN;
    struct pack_field *f = pack_source_add_field(s, name, role, kind, dtype_of(&array));
    if (!f)
        return fail_memory(reterr, "opening the arrays");
    f->rank = array.rank;
    memcpy(f->shape, array.shape, sizeof(f->shape));
    as->list[s->field_count - 1] = array;
    if (array.kind == 'f' && array.width == 8)
        return pack_report_note(o->report, reterr, "%s is float64 and is stored as float32", name);
    if (array.kind == 'u' && array.width == 8)
        return pack_report_note(o->report, reterr, "%s is uint64 and is stored as int64; values above its range are bad items",
                                name);
    return PST_OK;
}

/* Rows that take no bytes are bounded by nothing in the file: a header may claim 2^60 of them. */
static bool only_empty_rows(const struct pack_source *s, const struct arrays *as)
{
    for (size_t i = 0; i < s->field_count; i++)
        if (as->list[i].row_bytes > 0 || as->list[i].kind == 'V')
            return false;
    return s->field_count > 0 && as->list[0].rows > 0;
}

pst_status arrays_settle(struct pack_source *s, pst_error *reterr)
{
    const struct arrays *as = s->state;
    if (only_empty_rows(s, as))
        return pst_fail_at(reterr, PST_EINVAL, as->list[0].file->path, PST_NOWHERE, PST_NOWHERE,
                           "%s has %" PRIu64 " rows without a single value; there is nothing to pack", s->fields[0].name,
                           as->list[0].rows);
    for (size_t i = 1; i < s->field_count; i++)
        if (as->list[i].rows != as->list[0].rows)
            return pst_fail_at(reterr, PST_EINVAL, as->list[i].file->path, PST_NOWHERE, PST_NOWHERE,
                               "%s has %" PRIu64 " rows and %s %" PRIu64 "; name the arrays that belong together, as in %s:%s",
                               s->fields[i].name, as->list[i].rows, s->fields[0].name, as->list[0].rows, as->name,
                               s->fields[0].name);
    s->count = s->field_count ? as->list[0].rows : 0;
    return PST_OK;
}

/* ---- Paths with a selection ---- */

/* Returns where the file's name ends: at the end, or at a colon after one of the extensions. 0: it has none of them. */
static size_t file_length(const char *path, const char *const *extensions)
{
    if (pack_source_has_extension(path, extensions))
        return strlen(path);
    for (const char *colon = strrchr(path, ':'); colon; colon = NULL) {
        size_t n = (size_t)(colon - path);
        char tail[16] = "x";
        size_t keep = n < sizeof(tail) - 2 ? n : sizeof(tail) - 2;
        memcpy(tail + 1, colon - keep, keep);
        tail[1 + keep] = 0;
        if (pack_source_has_extension(tail, extensions))
            return n;
    }
    return 0;
}

pst_status arrays_cut_path(const char *path, const char *const *extensions, char **ret_file, const char **ret_selection,
                           pst_error *reterr)
{
    size_t n = file_length(path, extensions);
    char *file = mem_strndup(path, n ? n : strlen(path));
    if (!file)
        return fail_memory(reterr, "opening the arrays");
    *ret_file = file;
    *ret_selection = n && path[n] == ':' ? path + n + 1 : NULL;
    return PST_OK;
}

bool arrays_matches(const char *path, const char *const *extensions)
{
    return file_length(path, extensions) > 0;
}

/* ---- Loading ---- */

void arrays_close(struct pack_source *s)
{
    struct arrays *as = s->state;
    if (!as)
        return;
    mem_free(as->list);
    spools_close(&as->files);
    mem_free(as);
}

const char *arrays_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES])
{
    snprintf(buffer, PACK_KEY_BYTES, "%s#%" PRIu64, ((const struct arrays *)s->state)->name, i);
    return buffer;
}

static void locate(const struct array *a, uint64_t i, uint64_t *ret_offset, size_t *ret_length)
{
    uint64_t begin = a->kind == 'V' ? (i ? a->ends[i - 1] : 0) : i * a->row_bytes;
    *ret_length = (size_t)(a->kind == 'V' ? a->ends[i] - begin : a->row_bytes);
    *ret_offset = a->offset + begin;
}

uint64_t arrays_estimate(const struct pack_source *s, uint64_t i)
{
    const struct arrays *as = s->state;
    uint64_t sum = 0, offset;
    for (size_t k = 0; k < s->field_count; k++) {
        size_t length;
        locate(&as->list[k], i, &offset, &length);
        sum += length;
    }
    return sum;
}

static uint64_t element(const uint8_t *p, unsigned width, bool swapped)
{
    uint64_t v = 0;
    memcpy(&v, p, width);
    return swapped ? __builtin_bswap64(v) >> (64 - 8 * width) : v;
}

static float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023, bits;
    float f;
    if (exponent == 0) { /* zero and subnormal: an exact product */
        f = (float)mantissa * (1.0f / 16777216.0f);
        return sign ? -f : f;
    }
    bits = sign | (exponent == 31 ? 255u << 23 : (exponent + 112) << 23) | mantissa << 13;
    memcpy(&f, &bits, sizeof(f));
    return f;
}

static bool to_floats(float *out, const struct array *a, const uint8_t *in)
{
    for (uint64_t i = 0; i < a->row_elements; i++, in += a->width) {
        uint64_t bits = element(in, a->width, a->swapped);
        uint32_t low = (uint32_t)bits;
        double wide;
        if (a->width == 2) {
            out[i] = half_to_float((uint16_t)bits);
        } else if (a->width == 4) {
            memcpy(&out[i], &low, sizeof(low));
        } else {
            memcpy(&wide, &bits, sizeof(wide));
            if (!number_fits_float(wide))
                return false;
            out[i] = (float)wide;
        }
    }
    return true;
}

static bool to_ints(int64_t *out, const struct array *a, const uint8_t *in)
{
    unsigned unused = 64 - 8 * a->width;
    for (uint64_t i = 0; i < a->row_elements; i++, in += a->width) {
        uint64_t bits = element(in, a->width, a->swapped);
        if (a->kind == 'i') {
            out[i] = (int64_t)(bits << unused) >> unused;
        } else {
            if (bits > INT64_MAX)
                return false;
            out[i] = (int64_t)(a->kind == 'b' ? bits != 0 : bits);
        }
    }
    return true;
}

static pst_status load_numbers(const struct array *a, struct array_view *w, const uint8_t *row, struct pack_value *v,
                               pst_error *reterr)
{
    if (!w->numbers)
        w->numbers = mem_array((size_t)a->row_elements, a->kind == 'f' ? sizeof(float) : sizeof(int64_t));
    if (!w->numbers)
        return fail_memory(reterr, "opening the arrays");
    bool real = a->kind == 'f';
    if (!(real ? to_floats(w->numbers, a, row) : to_ints(w->numbers, a, row)))
        return pst_fail_at(reterr, PST_ETYPE, a->file->path, PST_NOWHERE, PST_NOWHERE, "a %s",
                           real ? "float64 is beyond the range of float32" : "uint64 is above the range of int64");
    *v = (struct pack_value){.present = true, .count = (size_t)a->row_elements, .data = w->numbers};
    return PST_OK;
}

static pst_status load_text(const struct array *a, struct array_view *w, const uint8_t *row, struct pack_value *v,
                            pst_error *reterr)
{
    size_t length = 0;
    if (!w->numbers)
        w->numbers = mem_alloc(a->width);
    if (!w->numbers)
        return fail_memory(reterr, "opening the arrays");
    if (!npy_text(row, a->width, a->swapped, w->numbers, &length))
        return pst_fail_at(reterr, PST_ETYPE, a->file->path, PST_NOWHERE, PST_NOWHERE,
                           "a text has a value that is not a Unicode character");
    *v = (struct pack_value){.present = true, .count = length, .data = w->numbers};
    return PST_OK;
}

/* Row `i` of an array in Fortran order. Its block has as many neighbours as fit, so that packing in order reads few pieces. */
static pst_status gather(const struct array *a, struct array_view *w, uint64_t i, const uint8_t **ret, pst_error *reterr)
{
    uint64_t most = a->row_bytes && a->row_bytes < BLOCK_BYTES ? BLOCK_BYTES / a->row_bytes : 1;
    if (!w->block) {
        w->block = mem_array((size_t)most, (size_t)a->row_bytes + 1);
        w->row = mem_alloc((size_t)a->row_bytes + 1);
    }
    if (!w->block || !w->row)
        return fail_memory(reterr, "opening the arrays");
    if (i < w->first || i >= w->first + w->rows) {
        uint64_t first = i / most * most, rows = a->rows - first < most ? a->rows - first : most;
        size_t piece = (size_t)rows * a->width, got = 0;
        w->rows = 0;
        for (uint64_t k = 0; k < a->row_elements; k++) {
            uint64_t offset = a->offset + (first + a->rows * k) * a->width;
            pst_status st = file_read_at(a->file->fd, a->file->path, w->block + k * piece, piece, offset, &got, reterr);
            if (st == PST_OK && got < piece)
                st = pst_fail_at(reterr, PST_ESTALE, a->file->path, PST_NOWHERE, offset, "the file became shorter");
            if (st < 0)
                return st;
        }
        w->first = first;
        w->rows = rows;
    }
    npy_gather(w->row, w->block + (i - w->first) * a->width, a->width, a->shape, a->rank, (size_t)w->rows * a->width);
    *ret = w->row;
    return PST_OK;
}

static pst_status load_array(const struct array *a, struct array_view *w, uint64_t i, struct pack_value *v, pst_error *reterr)
{
    uint64_t offset;
    size_t length, available = 0;
    const uint8_t *row = NULL;
    bool as_is = is_bytes(a) || (a->kind == 'f' && a->width == 4 && !a->swapped);
    locate(a, i, &offset, &length);
    if (as_is && a->kind != 'S' && a->kind != 'U' && !a->fortran && length >= DIRECT_BYTES) {
        pack_value_in_file(v, a->file->fd, a->file->path, offset, length);
        v->count = is_bytes(a) ? length : (size_t)a->row_elements;
        return PST_OK;
    }
    pst_status st = a->fortran ? gather(a, w, i, &row, reterr)
                               : file_window_get(&w->window, a->file->fd, a->file->path, a->file->size, offset, length, &row,
                                            &available, reterr);
    if (st < 0)
        return st;
    if (a->kind == 'U')
        return load_text(a, w, row, v, reterr);
    if (!is_bytes(a))
        return load_numbers(a, w, row, v, reterr);
    while (a->kind == 'S' && length && row[length - 1] == 0)
        length--; /* NumPy pads to the width */
    *v = (struct pack_value){.present = true, .count = length, .data = row};
    return PST_OK;
}

pst_status arrays_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr)
{
    const struct arrays *as = s->state;
    struct arrays_worker *w = worker;
    if (!w->views) {
        w->views = mem_array(s->field_count, sizeof(*w->views));
        if (!w->views)
            return fail_memory(reterr, "opening the arrays");
        w->count = s->field_count;
    }
    pst_status st = PST_OK;
    for (size_t k = 0; st == PST_OK && k < s->field_count; k++)
        st = load_array(&as->list[k], &w->views[k], i, &values[k], reterr);
    return st;
}

void arrays_worker_finish(void *worker)
{
    struct arrays_worker *w = worker;
    for (size_t i = 0; i < w->count; i++) {
        file_window_finish(&w->views[i].window);
        mem_free(w->views[i].numbers);
        mem_free(w->views[i].block);
        mem_free(w->views[i].row);
    }
    mem_free(w->views);
}
