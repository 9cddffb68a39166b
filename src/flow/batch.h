/* batch.h: internals of batches: the memory layout of their fields, how workers fill them, and the pool that they return to. */
#ifndef FLOW_BATCH_H
#define FLOW_BATCH_H

#include "base/name_index.h"
#include "flow/batch_memory.h"
#include "flow/element.h"
#include "flow/order.h"
#include "source/source.h"
#include <penstock/pipeline.h>

#include <stdatomic.h>
#include <string.h>

#define BATCH_MAX_SLICES 64

enum column_kind {
    COLUMN_FIXED,  /* one slot per element, written in place */
    COLUMN_RAGGED, /* only the first dimension varies: rows stored one after the other, with splits */
    COLUMN_AGREED, /* other dimensions vary: the elements of one batch must agree */
    COLUMN_PADDED, /* dimensions vary: elements are filled up to one shape */
    COLUMN_LOOSE   /* dimensions vary: elements stay as they are, for a segment that takes the batch apart */
};

struct batch_column {
    pst_field field; /* the field of one element */
    enum column_kind kind;
    size_t bytes;  /* fixed: size of the slot of one element */
    size_t offset; /* fixed: offset of the column in the block */
    double fill;   /* padded: value of the numbers that are added */
};

struct batch_layout {
    size_t fields;
    struct batch_column *column; /* one per field */
    struct name_index names;     /* index of the column names */
    size_t capacity; /* elements */
    size_t block;    /* bytes of all fixed columns */
    size_t tables;   /* bytes of the per-element tables */
    bool varies;     /* some field holds bytes or has a varying shape… */
    bool gathers;    /* …and is assembled when the batch is finished */
    const struct pad_rule *pad; /* NULL: nothing is filled up. Used while batches are filled only */
    size_t pad_column;          /* the column of the rule's field */
};

/* How fields whose shape varies are stored. */
struct batch_style {
    const struct pad_rule *pad; /* not NULL: filled up */
    bool loose;                 /* one by one */
    bool stacked;               /* the elements of a batch must agree: the batch is an element of another one */
};

/* PST_ELIMIT when a batch would be too large to address. `style` may be NULL. Call batch_layout_finish also after a failure. */
pst_status batch_layout_init(struct batch_layout *l, const pst_spec *element, uint64_t capacity, const struct batch_style *style,
                             pst_error *reterr);
void batch_layout_finish(struct batch_layout *l); /* a zeroed layout is ok */

struct batch_pool;

/* An element of a stream. */
struct batch_origin {
    uint64_t sample;
    struct source_place place; /* its path is owned by the source */
};

struct pst_batch {
    _Atomic unsigned refs;
    struct batch_pool *pool;
    const struct batch_layout *layout; /* owned by the pool */
    struct pst_batch *next_free;       /* under the pool's lock */
    size_t size;
    size_t bytes;     /* bytes of data; set when finished */
    uint64_t counted; /* bytes of memory counted in the pool's total */
    pst_tensor *tensor; /* one per field */
    uint8_t *block;
    uint8_t *left_out;            /* one per element; set for dropped elements */
    struct order_batch where;     /* its elements: positions in an index… */
    struct batch_origin *origins; /* …or elements of a stream, dropped ones included; NULL: not a stream, or out of memory */
    struct batch_varying {
        pst_tensor *elements; /* as delivered by operations, in the slice's memory */
        int64_t *row_splits;
        void *gathered;
        size_t room; /* capacity of `gathered` */
    } * varying;     /* one per field */
    struct batch_memory memory[BATCH_MAX_SLICES]; /* one per slice, so that workers never wait for each other */
};

/* ---- Pool ---- */

/* Copies the layout. */
pst_status batch_pool_create(struct batch_pool **ret, const struct batch_layout *layout, pst_error *reterr);
/* Closes the pool: no batch can be taken any more. Batches in use stay valid; releasing the last one frees the pool. NULL
 * ok. */
void batch_pool_close(struct batch_pool *pool);
/* Updates the pool's total after the batch has grown. */
void batch_recount(pst_batch *b);
/* Sets how many free batches are kept. */
void batch_pool_keep(struct batch_pool *pool, size_t count);
uint64_t batch_pool_bytes(struct batch_pool *pool); /* bytes of all batches, free and in use */
uint64_t batch_pool_mean(struct batch_pool *pool);  /* mean bytes per batch; 0: there is none */
/* Returns an empty batch with one reference. */
pst_status batch_pool_take(struct batch_pool *pool, pst_batch **ret, pst_error *reterr);

/* ---- Filling: called by any worker, each with its own elements and memory ---- */

static inline uint8_t *batch_slot(const pst_batch *b, size_t field, size_t at)
{
    return b->block + b->layout->column[field].offset + at * b->layout->column[field].bytes;
}

/* Copies a field of element `at`. */
pst_status batch_put(pst_batch *b, size_t slice, size_t field, size_t at, const pst_tensor *t, pst_error *reterr);
/* Marks element `at` as failed: it is left out. */
void batch_leave_out(pst_batch *b, size_t at);
/* Finishes the batch once all `count` elements are stored or left out (`left_out` of them): closes gaps and gathers fields
 * of varying size. When elements do not agree (PST_ETYPE), `*ret_at` is the first that differs. */
pst_status batch_finish(pst_batch *b, size_t count, size_t left_out, size_t *ret_at, pst_error *reterr);
/* Returns the position that element `at` of a finished batch had before the gaps were closed. */
size_t batch_place_before(const pst_batch *b, size_t at);

/* ---- Filling up (batch_pad.c) ---- */

/* Sets the values that fill up the columns. PST_EINVAL: the rule is wrong, or names a field that is not there. */
pst_status batch_pad_init(struct batch_layout *l, pst_error *reterr);
/* Stores the shape that all elements of a column get. PST_ETYPE: element `*ret_at` is longer than the rule allows. */
pst_status batch_pad_shape(const pst_batch *b, size_t field, uint64_t *ret_shape, size_t *ret_at, pst_error *reterr);
/* Writes the elements of a column one after the other, each filled up to `shape`. */
void batch_pad_fill(const pst_batch *b, size_t field, const uint64_t *shape, void *to);

/* Views of single elements of a finished batch. */

/* Returns field `f` of element `at`, as a view. */
static inline pst_tensor rows_at(const pst_batch *b, size_t f, size_t at)
{
    const struct batch_column *c = &b->layout->column[f];
    pst_tensor t = field_tensor(&c->field);
    if (c->kind == COLUMN_FIXED) {
        t.data = batch_slot(b, f, at);
        return t;
    }
    if (c->kind == COLUMN_PADDED) {
        memcpy(t.shape, b->tensor[f].shape + 1, t.rank * sizeof(*t.shape));
        t.data = (uint8_t *)b->tensor[f].data + at * shape_bytes(t.dtype, t.rank, t.shape);
        return t;
    }
    return b->varying[f].elements[at];
}

/* Returns row `row` of an element's field. */
static inline pst_tensor rows_split(const pst_tensor *whole, uint64_t row)
{
    pst_tensor t = {.dtype = whole->dtype, .rank = whole->rank - 1};
    memcpy(t.shape, whole->shape + 1, t.rank * sizeof(*t.shape));
    t.data = (uint8_t *)whole->data + row * shape_bytes(t.dtype, t.rank, t.shape);
    return t;
}

#endif
