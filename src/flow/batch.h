/* batch.h: batches from the inside: how their fields lie in memory, how workers fill them, where they go when released. */
#ifndef FLOW_BATCH_H
#define FLOW_BATCH_H

#include "base/name_index.h"
#include "flow/batch_memory.h"
#include "flow/order.h"
#include "source/source.h"
#include <penstock/pipeline.h>
#include <stdatomic.h>

#define BATCH_MAX_SLICES 64

enum column_kind {
    COLUMN_FIXED,  /* a slot an element, written in place */
    COLUMN_RAGGED, /* only the first dimension varies: rows one after the other, with splits */
    COLUMN_AGREED  /* other dimensions vary: the elements of one batch must agree */
};

struct batch_column {
    pst_field field; /* of one element */
    enum column_kind kind;
    size_t bytes;  /* fixed: of an element's slot */
    size_t offset; /* fixed: of the column in the block */
};

struct batch_layout {
    size_t fields;
    struct batch_column *column; /* one per field */
    struct name_index names;     /* of the columns */
    size_t capacity; /* elements */
    size_t block;    /* bytes of all fixed columns */
    size_t tables;   /* bytes of what is noted of each element */
    bool varies;     /* some field has bytes, or a shape that varies… */
    bool gathers;    /* …and then is put together at the end */
};

/* PST_ELIMIT when a batch cannot be addressed; what was made so far is left to batch_layout_finish. */
pst_status batch_layout_init(struct batch_layout *l, const pst_spec *element, uint64_t capacity, pst_error *reterr);
void batch_layout_finish(struct batch_layout *l); /* accepts a zeroed one */

struct batch_pool;

/* An element of a stream. */
struct batch_origin {
    uint64_t sample;
    struct source_place place; /* its path is the source's */
};

struct pst_batch {
    _Atomic unsigned refs;
    struct batch_pool *pool;
    const struct batch_layout *layout; /* the pool's */
    struct pst_batch *next_free;       /* under the pool's lock */
    size_t size;
    size_t bytes;     /* of data, once finished */
    uint64_t counted; /* of memory, in the pool's sum */
    pst_tensor *tensor; /* one per field */
    uint8_t *block;
    uint8_t *left_out;            /* one an element; set for those that are dropped */
    struct order_batch where;     /* its elements, of an index… */
    struct batch_origin *origins; /* …or of a stream, with those that are dropped; NULL: not of one, or out of memory */
    struct batch_varying {
        pst_tensor *elements; /* as they came, in the slice's memory */
        int64_t *row_splits;
        void *gathered;
        size_t room; /* of `gathered` */
    } * varying;     /* one per field */
    struct batch_memory memory[BATCH_MAX_SLICES]; /* one a slice: nobody waits for anybody */
};

/* ---- Pool ---- */

/* Copies the layout. */
pst_status batch_pool_create(struct batch_pool **ret, const struct batch_layout *layout, pst_error *reterr);
/* No more takes; batches that are out stay valid, the last one takes the pool with it. NULL ok. */
void batch_pool_close(struct batch_pool *pool);
/* The batch has grown: brings the pool's sum up to date. */
void batch_recount(pst_batch *b);
/* How many free batches are worth keeping. */
void batch_pool_keep(struct batch_pool *pool, size_t count);
uint64_t batch_pool_bytes(struct batch_pool *pool); /* of all batches, free and out */
uint64_t batch_pool_mean(struct batch_pool *pool);  /* of one of them; 0: there is none */
/* An empty one with one reference. */
pst_status batch_pool_take(struct batch_pool *pool, pst_batch **ret, pst_error *reterr);

/* ---- Filling: from any worker, each its own elements and its own memory ---- */

static inline uint8_t *batch_slot(const pst_batch *b, size_t field, size_t at)
{
    return b->block + b->layout->column[field].offset + at * b->layout->column[field].bytes;
}

/* Copies a field of element `at`. */
pst_status batch_put(pst_batch *b, size_t slice, size_t field, size_t at, const pst_tensor *t, pst_error *reterr);
/* Element `at` has failed and is left out. */
void batch_leave_out(pst_batch *b, size_t at);
/* All of `count` elements are in, or left out (`left_out` of them): closes gaps and gathers what varies. When elements do not
 * agree (PST_ETYPE), `*ret_at` is the first that differs. */
pst_status batch_finish(pst_batch *b, size_t count, size_t left_out, size_t *ret_at, pst_error *reterr);
/* Where element `at` of a finished batch was before the gaps were closed. */
size_t batch_place_before(const pst_batch *b, size_t at);

#endif
