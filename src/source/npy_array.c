/* npy_array.c: which field type an array has, and its rows as values of that type.
 *
 * bool and uint8 are uint8; int8, int16, uint16 and int32 are int32; uint32 and int64 are int64; floats keep their width; bytes
 * (S) lose the zeros after their end, as in NumPy; text (U) becomes UTF-8. Rows in Fortran order are gathered. uint64 and what
 * npy_parse does not read is refused. */
#include "source/npy_array.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/npy.h"
#include "record/index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES ((size_t)64 << 10)

/* ---- Types ---- */

static pst_dtype dtype_of(char kind, unsigned width)
{
    switch (kind) {
    case 'b':
        return PST_DTYPE_U8;
    case 'u':
        return width == 1 ? PST_DTYPE_U8 : width == 2 ? PST_DTYPE_I32 : width == 4 ? PST_DTYPE_I64 : PST_DTYPE_NONE;
    case 'i':
        return width == 8 ? PST_DTYPE_I64 : PST_DTYPE_I32;
    case 'f':
        return width == 2 ? PST_DTYPE_F16 : width == 4 ? PST_DTYPE_F32 : PST_DTYPE_F64;
    case 'S':
    case 'U':
        return PST_DTYPE_BYTES;
    default:
        return PST_DTYPE_NONE;
    }
}

static enum npy_change change_of(const struct npy_array *a)
{
    if (a->kind == 'S')
        return NPY_STRINGS;
    if (a->kind == 'U')
        return NPY_TEXT;
    if (a->swapped || pst_dtype_size(a->field.dtype) != a->width)
        return NPY_CONVERT;
    bool aligned = !a->data || a->fortran || (uintptr_t)a->data % a->width == 0; /* row_bytes is a multiple of the width */
    return aligned ? NPY_VIEW : NPY_COPY;
}

/* ---- Opening ---- */

static pst_status take_name(struct npy_array *a, pst_error *reterr)
{
    const char *name = file_base(a->path);
    size_t n = strlen(name);
    if (n > 4 && strcmp(name + n - 4, ".npy") == 0)
        n -= 4;
    if (n == 0 || n >= PST_NAME_SIZE)
        return pst_fail_at(reterr, PST_EINVAL, a->path, PST_NOWHERE, PST_NOWHERE,
                           "the file name becomes the field name and must have 1 to %d bytes", PST_NAME_SIZE - 1);
    memcpy(a->field.name, name, n);
    return PST_OK;
}

static pst_status take_shape(struct npy_array *a, const struct npy_header *h, pst_error *reterr)
{
    size_t values = 1, bytes;
    if (h->rank == 0 || h->rank - 1 > PST_MAX_RANK - 1)
        return pst_fail_at(reterr, PST_EINVAL, a->path, PST_NOWHERE, PST_NOWHERE,
                           "has %zu dimensions, expected 1 to %d; the first counts the elements", h->rank, PST_MAX_RANK);
    a->fortran = h->fortran && h->rank > 1;
    a->rows = h->shape[0];
    a->field.rank = (uint32_t)h->rank - 1;
    bool overflow = false;
    for (size_t d = 1; d < h->rank; d++) {
        a->field.shape[d - 1] = h->shape[d];
        overflow |= __builtin_mul_overflow(values, h->shape[d], &values);
    }
    /* An array without elements may have any dimensions. */
    if (overflow || __builtin_mul_overflow(values, (size_t)h->width, &a->row_bytes) ||
        __builtin_mul_overflow(values, sizeof(pst_bytes), &bytes) || a->row_bytes > SIZE_MAX / 4 || bytes > SIZE_MAX / 4)
        return pst_fail_at(reterr, PST_ELIMIT, a->path, PST_NOWHERE, PST_NOWHERE, "has a shape that does not fit in memory");
    a->values = values;
    return PST_OK;
}

static pst_status take_header(struct npy_array *a, const struct npy_header *h, pst_error *reterr)
{
    a->kind = h->kind;
    a->width = h->width;
    a->swapped = h->swapped;
    a->data_offset = h->data_offset;
    a->data = a->mapping.data ? a->mapping.data + h->data_offset : NULL;
    a->field.dtype = dtype_of(h->kind, h->width);
    a->field.alias = -1;
    if (a->field.dtype == PST_DTYPE_NONE)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, a->path, PST_NOWHERE, PST_NOWHERE,
                           "has uint64 values, for which there is no type: save it as int64");
    pst_status st = take_shape(a, h, reterr);
    if (st == PST_OK)
        a->change = change_of(a);
    return st;
}

/* The header is always read, not mapped: a file that is truncated meanwhile is detected as too short. */
static pst_status read_header(struct npy_array *a, int fd, pst_error *reterr)
{
    struct npy_header h;
    size_t want = a->bytes < HEAD_BYTES ? a->bytes : HEAD_BYTES, got = 0;
    uint8_t *head = mem_alloc(want);
    if (!head)
        return pst_fail_at(reterr, PST_ENOMEM, a->path, PST_NOWHERE, PST_NOWHERE, "opening the array: out of memory");
    pst_status st = file_read_at(fd, a->path, head, want, 0, &got, reterr);
    if (st == PST_OK)
        st = npy_parse(&h, head, got, a->bytes, a->path, reterr);
    if (st == PST_OK)
        st = take_header(a, &h, reterr);
    mem_free(head);
    return st;
}

static pst_status open_file(struct npy_array *a, int *ret_fd, pst_error *reterr)
{
    uint64_t size = 0, content = 0;
    pst_status st = file_open_read(ret_fd, a->path, reterr);
    if (st == PST_OK)
        st = index_fingerprint(*ret_fd, a->path, &size, &content, reterr);
    if (st == PST_OK && (size == 0 || size > SIZE_MAX))
        st = pst_fail_at(reterr, PST_ECORRUPT, a->path, PST_NOWHERE, PST_NOWHERE, "is not an array: it has %" PRIu64 " bytes",
                         size);
    a->bytes = (size_t)size;
    a->fingerprint = hash_bytes(a->field.name, strlen(a->field.name), content);
    return st;
}

pst_status npy_array_open(struct npy_array *a, const char *path, bool mapped, pst_error *reterr)
{
    int fd = -1;
    a->fd = -1;
    a->path = mem_strdup(path);
    if (!a->path)
        return fail_memory_at(reterr, path, "opening the array");
    pst_status st = take_name(a, reterr);
    if (st == PST_OK)
        st = open_file(a, &fd, reterr);
    if (st == PST_OK && mapped)
        st = mapping_open(&a->mapping, fd, path, a->bytes, reterr);
    if (st == PST_OK)
        st = read_header(a, fd, reterr);
    if (st == PST_OK && !mapped) {
        a->fd = fd;
        fd = -1;
    }
    file_close(fd);
    return st;
}

static pst_status take_given_name(struct npy_array *a, const char *path, const char *name, pst_error *reterr)
{
    size_t n = strlen(name);
    a->fd = -1;
    a->path = mem_strdup(path);
    if (!a->path)
        return fail_memory_at(reterr, path, "opening the array");
    if (n == 0 || n >= PST_NAME_SIZE)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "%.64s: the name becomes a field's and must have 1 to %d bytes", name, PST_NAME_SIZE - 1);
    memcpy(a->field.name, name, n);
    return PST_OK;
}

pst_status npy_array_describe(struct npy_array *a, const char *path, const char *name, const struct npy_header *header,
                              pst_error *reterr)
{
    pst_status st = take_given_name(a, path, name, reterr);
    return st == PST_OK ? take_header(a, header, reterr) : st;
}

pst_status npy_array_open_at(struct npy_array *a, const char *path, const char *name, const struct npy_header *header,
                             bool mapped, pst_error *reterr)
{
    int fd = -1;
    pst_status st = take_given_name(a, path, name, reterr);
    if (st == PST_OK)
        st = open_file(a, &fd, reterr);
    if (st == PST_OK && mapped)
        st = mapping_open(&a->mapping, fd, path, a->bytes, reterr);
    if (st == PST_OK)
        st = take_header(a, header, reterr);
    uint64_t whole = 0;
    if (st == PST_OK && (__builtin_mul_overflow(a->rows, (uint64_t)a->row_bytes, &whole) || a->data_offset > a->bytes ||
                         whole > a->bytes - a->data_offset))
        st = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, a->data_offset, "%s ends after the end of the file: it is truncated",
                         name);
    if (st == PST_OK && !mapped) {
        a->fd = fd;
        fd = -1;
    }
    file_close(fd);
    return st;
}

void npy_array_close(struct npy_array *a)
{
    mapping_close(&a->mapping);
    file_close(a->path ? a->fd : -1);
    mem_free(a->path);
}

void npy_array_look(struct npy_array *a)
{
    struct file_info info;
    if (file_stat(a->path, &info, NULL) == PST_OK && info.size < a->bytes)
        atomic_store_explicit(&a->cut, true, memory_order_relaxed);
}

/* ---- Rows ---- */

size_t npy_array_room(const struct npy_array *a)
{
    size_t text = a->change == NPY_TEXT ? a->row_bytes : 0; /* UTF-8 takes no more than UTF-32 */
    return a->change == NPY_VIEW ? 0 : a->values * pst_dtype_size(a->field.dtype) + text;
}

/* `width` bytes in the machine's order, as an unsigned number. */
static uint64_t number_at(const uint8_t *p, unsigned width, bool swapped)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < width; i++)
        v |= (uint64_t)p[swapped ? width - 1 - i : i] << (8 * i);
    return v;
}

/* The sign of a number of `width` bytes, carried up. */
static int64_t extend_sign(uint64_t v, unsigned width)
{
    uint64_t sign = UINT64_C(1) << (8 * width - 1);
    return (int64_t)((v ^ sign) - sign);
}

static void convert(const struct npy_array *a, const uint8_t *row, uint8_t *to)
{
    size_t size = pst_dtype_size(a->field.dtype);
    for (size_t i = 0; i < a->values; i++) {
        uint64_t v = number_at(row + i * a->width, a->width, a->swapped);
        if (a->kind == 'i')
            v = (uint64_t)extend_sign(v, a->width);
        memcpy(to + i * size, &v, size); /* the low bytes: machines are little-endian */
    }
}

static void view_strings(const struct npy_array *a, const uint8_t *row, pst_bytes *to)
{
    for (size_t i = 0; i < a->values; i++) {
        const uint8_t *s = row + i * a->width;
        size_t n = a->width;
        while (n > 0 && s[n - 1] == 0)
            n--;
        to[i] = (pst_bytes){.data = s, .length = n};
    }
}

static pst_status encode_text(const struct npy_array *a, uint64_t i, const uint8_t *row, pst_bytes *to, pst_error *reterr)
{
    uint8_t *text = (uint8_t *)(to + a->values);
    for (size_t k = 0; k < a->values; k++, text += a->width) {
        size_t length = 0;
        if (!npy_text(row + k * a->width, a->width, a->swapped, text, &length))
            return pst_fail_at(reterr, PST_ECORRUPT, a->path, i, PST_NOWHERE,
                               "text number %zu of the row has a value that is not a Unicode character", k);
        to[k] = (pst_bytes){.data = text, .length = length};
    }
    return PST_OK;
}

/* A gathered row and, where it is read, after it its elements in the order of the file. */
size_t npy_array_raw_room(const struct npy_array *a)
{
    return (a->data ? 0 : a->row_bytes) + (a->fortran ? a->row_bytes : 0);
}

static pst_status read_apart(const struct npy_array *a, uint64_t i, uint8_t *to, pst_error *reterr)
{
    for (size_t k = 0; k < a->values; k++) {
        size_t got = 0;
        uint64_t offset = a->data_offset + (i + a->rows * k) * a->width;
        pst_status st = file_read_at(a->fd, a->path, to + k * a->width, a->width, offset, &got, reterr);
        if (st < 0 || got < a->width)
            return st < 0 ? st : npy_array_fail_short(a, i, reterr);
    }
    return PST_OK;
}

static pst_status gather_row(const struct npy_array *a, uint64_t i, uint8_t *raw, const uint8_t **ret, pst_error *reterr)
{
    const uint8_t *first = a->data ? a->data + i * a->width : raw + a->row_bytes;
    size_t stride = a->data ? (size_t)a->rows * a->width : a->width;
    pst_status st = a->data ? PST_OK : read_apart(a, i, raw + a->row_bytes, reterr);
    if (st < 0)
        return st;
    npy_gather(raw, first, a->width, a->field.shape, a->field.rank, stride);
    *ret = raw;
    return PST_OK;
}

static pst_status read_row(const struct npy_array *a, uint64_t i, void *raw, pst_error *reterr)
{
    size_t got = 0;
    uint64_t offset = a->data_offset + i * a->row_bytes;
    pst_status st = file_read_at(a->fd, a->path, raw, a->row_bytes, offset, &got, reterr);
    return st == PST_OK && got < a->row_bytes ? npy_array_fail_short(a, i, reterr) : st;
}

pst_status npy_array_row(const struct npy_array *a, uint64_t i, void *raw, void *room, void **ret, pst_error *reterr)
{
    const uint8_t *row = a->data ? a->data + i * a->row_bytes : raw;
    pst_status st = PST_OK;
    if (a->fortran)
        st = gather_row(a, i, raw, &row, reterr);
    else if (!a->data)
        st = read_row(a, i, raw, reterr);
    return st < 0 ? st : npy_array_convert(a, i, row, room, ret, reterr);
}

pst_status npy_array_convert(const struct npy_array *a, uint64_t i, const uint8_t *row, void *room, void **ret, pst_error *reterr)
{
    pst_status st = PST_OK;
    *ret = a->change == NPY_VIEW ? (void *)(uintptr_t)row : room;
    switch (a->change) {
    case NPY_VIEW:
        break;
    case NPY_COPY:
        memcpy(room, row, a->row_bytes);
        break;
    case NPY_CONVERT:
        convert(a, row, room);
        break;
    case NPY_STRINGS:
        view_strings(a, row, room);
        break;
    case NPY_TEXT:
        st = encode_text(a, i, row, room, reterr);
        break;
    }
    return st;
}

pst_status npy_array_fail_short(const struct npy_array *a, uint64_t i, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ESTALE, a->path, i, PST_NOWHERE,
                       "the file became shorter since it was opened; open it again");
}

/* ---- Several of them ---- */

void array_table_spec(const void *source, pst_spec *ret)
{
    const struct array_table *t = source;
    *ret = (pst_spec){.count = t->count, .field = t->fields};
}

uint64_t array_table_rows(const void *source)
{
    return ((const struct array_table *)source)->rows;
}

uint64_t array_table_fingerprint(const void *source)
{
    return ((const struct array_table *)source)->fingerprint;
}

void array_table_need(void *source, const bool *fields)
{
    ((struct array_table *)source)->need = fields;
}
