/* batch.c: how a batch is laid out, filled and finished.
 *
 * Fields of a fixed shape have a slot for every element in one aligned block. Bytes and fields whose shape varies are copied
 * into the memory of the slice that delivers them, if the source has not read them there; bytes stay there, the rest is assembled when the last
 * element is stored.
 * Nothing here takes a lock: workers write to different elements. */
#include "flow/batch.h"

#include "base/memory.h"
#include "flow/element.h"

#include <inttypes.h>
#include <string.h>

#define ALIGNMENT ((size_t)64)

static pst_status fail_capacity(uint64_t capacity, const pst_field *f, pst_error *reterr)
{
    return pst_fail(reterr, PST_ELIMIT, "batch: %" PRIu64 " elements of field \"%s\" are more than memory can hold", capacity,
                    f->name);
}

static enum column_kind kind_of(const pst_field *f, const struct batch_style *style)
{
    if (field_is_fixed(f))
        return COLUMN_FIXED;
    if (style && style->loose)
        return COLUMN_LOOSE;
    if (style && style->pad)
        return COLUMN_PADDED;
    for (uint32_t i = 1; i < f->rank; i++)
        if (f->shape[i] == PST_ANY)
            return COLUMN_AGREED;
    return style && style->stacked ? COLUMN_AGREED : COLUMN_RAGGED;
}

pst_status batch_layout_init(struct batch_layout *l, const pst_spec *element, uint64_t capacity, const struct batch_style *style,
                             pst_error *reterr)
{
    bool whole = false;
    *l = (struct batch_layout){.fields = element->count, .capacity = (size_t)capacity, .tables = (size_t)capacity};
    l->pad = style ? style->pad : NULL;
    l->column = mem_array(l->fields, sizeof(*l->column));
    for (size_t i = 0; l->column && i < element->count; i++)
        l->column[i].field = element->field[i];
    if (l->column)
        name_index_init(&l->names, l->column[0].field.name, sizeof(*l->column), l->fields, &whole);
    if (!whole)
        return pst_fail(reterr, PST_ENOMEM, "batch: out of memory for %zu fields", l->fields);
    for (size_t i = 0; i < element->count; i++) {
        struct batch_column *c = &l->column[i];
        size_t bytes;
        c->kind = kind_of(&c->field, style);
        l->varies |= c->kind != COLUMN_FIXED || c->field.dtype == PST_DTYPE_BYTES;
        if (c->field.rank == PST_MAX_RANK)
            return pst_fail(reterr, PST_EINVAL, "batch: field \"%s\" has %u dimensions, one more than a batch can have",
                            c->field.name, (unsigned)c->field.rank);
        if (c->kind != COLUMN_FIXED) {
            l->gathers = true;
            if (__builtin_mul_overflow(sizeof(pst_tensor) + sizeof(int64_t), l->capacity + 1, &bytes) ||
                bytes > PTRDIFF_MAX - l->tables)
                return fail_capacity(capacity, &c->field, reterr);
            l->tables += bytes;
            continue;
        }
        c->bytes = shape_bytes(c->field.dtype, c->field.rank, c->field.shape);
        c->offset = l->block;
        if (__builtin_mul_overflow(c->bytes, l->capacity, &bytes) || bytes > PTRDIFF_MAX - ALIGNMENT - l->block)
            return fail_capacity(capacity, &c->field, reterr);
        l->block += (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
    }
    return l->pad ? batch_pad_init(l, reterr) : PST_OK;
}

void batch_layout_finish(struct batch_layout *l)
{
    name_index_finish(&l->names);
    mem_free(l->column);
    *l = (struct batch_layout){0};
}

static pst_status fail_room(size_t bytes, pst_error *reterr)
{
    return pst_fail(reterr, PST_ENOMEM, "batch: out of memory for %zu bytes; try a smaller batch or less prefetch", bytes);
}

/* Copies values, and what they point to if they are bytes, from `t` to `values`. */
static pst_status copy_values(struct batch_memory *s, void *values, const pst_tensor *t, size_t own, pst_error *reterr)
{
    if (own)
        memcpy(values, t->data, own);
    if (t->dtype != PST_DTYPE_BYTES)
        return PST_OK;
    pst_bytes *v = values;
    for (size_t i = 0; i < own / sizeof(*v); i++) {
        if (batch_memory_has(s, v[i].data, v[i].length)) /* the source has put them there */
            continue;
        uint8_t *copy = batch_memory_alloc(s, v[i].length, 1);
        if (!copy)
            return fail_room(v[i].length, reterr);
        if (v[i].length)
            memcpy(copy, v[i].data, v[i].length);
        v[i].data = copy;
    }
    return PST_OK;
}

pst_status batch_put(pst_batch *b, size_t slice, size_t field, size_t at, const pst_tensor *t, pst_error *reterr)
{
    const struct batch_column *c = &b->layout->column[field];
    struct batch_memory *s = &b->memory[slice];
    if (c->kind == COLUMN_FIXED)
        return copy_values(s, batch_slot(b, field, at), t, c->bytes, reterr);
    size_t own = shape_bytes(t->dtype, t->rank, t->shape);
    void *values = own == SIZE_MAX ? NULL : batch_memory_alloc(s, own, ALIGNMENT);
    if (!values)
        return fail_room(own, reterr);
    pst_tensor *element = &b->varying[field].elements[at];
    *element = *t;
    element->data = values;
    return copy_values(s, values, t, own, reterr);
}

void batch_leave_out(pst_batch *b, size_t at)
{
    b->left_out[at] = 1;
}

/* Moves every element that stays to the front. */
static void close_gaps(pst_batch *b, size_t count)
{
    size_t to = 0;
    for (size_t from = 0; from < count; from++) {
        if (b->left_out[from])
            continue;
        for (size_t f = 0; f < b->layout->fields && to != from; f++) {
            if (b->layout->column[f].kind == COLUMN_FIXED)
                memcpy(batch_slot(b, f, to), batch_slot(b, f, from), b->layout->column[f].bytes);
            else
                b->varying[f].elements[to] = b->varying[f].elements[from];
        }
        to++;
    }
}

static pst_status reserve(pst_batch *b, size_t field, size_t bytes, pst_error *reterr)
{
    if (bytes <= b->varying[field].room && b->varying[field].gathered)
        return PST_OK;
    size_t room = bytes < SIZE_MAX / 2 ? bytes + bytes / 4 : bytes; /* the next batch is a little larger, sooner or later */
    void *grown = mem_aligned(room);
    if (!grown)
        return fail_room(bytes, reterr);
    mem_free(b->varying[field].gathered);
    b->varying[field].gathered = grown;
    b->varying[field].room = room;
    return PST_OK;
}

static pst_status gather(pst_batch *b, size_t field, size_t count, size_t *ret_bytes, pst_error *reterr)
{
    const pst_tensor *e = b->varying[field].elements;
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        if (__builtin_add_overflow(total, shape_bytes(e[i].dtype, e[i].rank, e[i].shape), &total))
            return fail_room(SIZE_MAX, reterr);
    pst_status st = reserve(b, field, total, reterr);
    if (st < 0)
        return st;
    uint8_t *to = b->varying[field].gathered;
    for (size_t i = 0; i < count; i++) {
        size_t bytes = shape_bytes(e[i].dtype, e[i].rank, e[i].shape);
        if (bytes)
            memcpy(to, e[i].data, bytes);
        to += bytes;
    }
    *ret_bytes = total;
    return PST_OK;
}

static void split_rows(pst_batch *b, size_t field, size_t count)
{
    int64_t *splits = b->varying[field].row_splits;
    splits[0] = 0;
    for (size_t i = 0; i < count; i++)
        splits[i + 1] = splits[i] + (int64_t)b->varying[field].elements[i].shape[0];
}

static pst_status check_agreement(const pst_batch *b, size_t field, size_t count, size_t *ret_at, pst_error *reterr)
{
    const pst_tensor *e = b->varying[field].elements;
    char first[SHAPE_TEXT_SIZE], other[SHAPE_TEXT_SIZE];
    for (size_t i = 1; i < count; i++) {
        if (shape_equal(e[0].rank, e[0].shape, e[i].shape))
            continue;
        *ret_at = i;
        return pst_fail(reterr, PST_ETYPE,
                        "field \"%s\" is %s here and %s in the first element of the batch; give them one shape before "
                        "batch (resize, crop), or use batch 1",
                        b->layout->column[field].field.name, shape_text(e[i].rank, e[i].shape, other, sizeof(other)),
                        shape_text(e[0].rank, e[0].shape, first, sizeof(first)));
    }
    return PST_OK;
}

static pst_status finish_padded(pst_batch *b, size_t field, size_t *ret_at, pst_error *reterr)
{
    pst_tensor *t = &b->tensor[field];
    size_t bytes;
    pst_status st = batch_pad_shape(b, field, t->shape + 1, ret_at, reterr);
    if (st < 0)
        return st;
    bytes = shape_bytes(t->dtype, t->rank, t->shape);
    st = bytes == SIZE_MAX ? fail_room(bytes, reterr) : reserve(b, field, bytes, reterr);
    if (st < 0)
        return st;
    batch_pad_fill(b, field, t->shape + 1, b->varying[field].gathered);
    t->data = b->varying[field].gathered;
    b->bytes += bytes + payload_bytes(t, bytes);
    return PST_OK;
}

static pst_status finish_column(pst_batch *b, size_t field, size_t *ret_at, pst_error *reterr)
{
    const struct batch_column *c = &b->layout->column[field];
    pst_tensor *t = &b->tensor[field];
    size_t bytes = 0;
    *t = (pst_tensor){.dtype = c->field.dtype, .rank = c->field.rank + 1, .shape = {b->size}};
    memcpy(t->shape + 1, c->field.shape, c->field.rank * sizeof(*t->shape));
    if (c->kind == COLUMN_FIXED) {
        t->data = b->block + c->offset;
        b->bytes += b->size * c->bytes + payload_bytes(t, b->size * c->bytes);
        return PST_OK;
    }
    if (c->kind == COLUMN_LOOSE)
        return PST_OK;
    if (c->kind == COLUMN_PADDED)
        return finish_padded(b, field, ret_at, reterr);
    pst_status st = c->kind == COLUMN_AGREED ? check_agreement(b, field, b->size, ret_at, reterr) : PST_OK;
    if (st == PST_OK)
        st = gather(b, field, b->size, &bytes, reterr);
    if (st < 0)
        return st;
    if (c->kind == COLUMN_RAGGED) {
        split_rows(b, field, b->size);
        t->row_splits = b->varying[field].row_splits;
    } else if (b->size > 0) {
        memcpy(t->shape + 1, b->varying[field].elements[0].shape, c->field.rank * sizeof(*t->shape));
    } else {
        memset(t->shape + 1, 0, c->field.rank * sizeof(*t->shape));
    }
    t->data = b->varying[field].gathered;
    b->bytes += bytes + payload_bytes(t, bytes);
    return PST_OK;
}

size_t batch_place_before(const pst_batch *b, size_t at)
{
    for (size_t place = 0, seen = 0;; place++)
        if (!b->left_out[place] && seen++ == at)
            return place;
}

pst_status batch_finish(pst_batch *b, size_t count, size_t left_out, size_t *ret_at, pst_error *reterr)
{
    pst_status st = PST_OK;
    b->size = count - left_out;
    b->bytes = 0;
    if (left_out)
        close_gaps(b, count);
    for (size_t f = 0; f < b->layout->fields && st == PST_OK; f++)
        st = finish_column(b, f, ret_at, reterr);
    if (left_out && st == PST_ETYPE)
        *ret_at = batch_place_before(b, *ret_at);
    if (b->layout->varies)
        batch_recount(b);
    return st;
}
