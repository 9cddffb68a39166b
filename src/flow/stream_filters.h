/* stream_filters.h: the order operations over a source without an index: one element after the other. The order is the same
 * for any number of workers, because only one worker pulls at a time. */
#ifndef FLOW_STREAM_FILTERS_H
#define FLOW_STREAM_FILTERS_H

#include "flow/element_cache.h"
#include "flow/order.h"
#include "flow/program.h"
#include "ops/ctx.h"

#include <pthread.h>
#include <stdatomic.h>

/* An element taken from the stream, in its own memory. */
struct item {
    struct item *next; /* next item of its batch */
    uint64_t sample;   /* number within the stream */
    uint64_t pass;
    void *block; /* see element.h; NULL: the cache has it */
    size_t size; /* bytes of the element, in `block` or in the cache */
    size_t room; /* capacity of `block` */
    struct source_place place;
    uint64_t numbers[ORDER_MAX_NUMBERS]; /* its positions at the steps that number elements */
};

struct element_stream;

/* Borrows all of its arguments. Once `*stopped` is set, `next` fails with PST_ECANCELLED. */
pst_status element_stream_create(struct element_stream **ret, const struct program *p, const struct order *o, uint64_t seed,
                                 const _Atomic bool *stopped, pst_error *reterr);
struct element_stream *element_stream_destroy(struct element_stream *s); /* NULL ok; returns NULL */

/* Moves to the beginning of an epoch. */
void element_stream_begin(struct element_stream *s, uint64_t epoch);
/* Returns the items of the next batch. One caller at a time. OK, END or < 0. */
pst_status element_stream_next(struct element_stream *s, struct item **ret, pst_error *reterr);
/* Releases a list of items; any thread may call it; NULL ok. */
void element_stream_release(struct element_stream *s, struct item *list);
/* Returns the number of records that were read at least once, damaged ones included. */
uint64_t element_stream_met(const struct element_stream *s);
uint64_t element_stream_bytes(const struct element_stream *s); /* bytes of all items, in buffers and in use */

/* Internals of the filters of a stream, shared by stream_filters.c and stream_keys.c. */

struct key_state;

struct filter {
    const struct order_step *step; /* NULL: the source itself */
    struct filter *inner;
    uint64_t pass;
    uint64_t count; /* elements passed on (take), seen (shard), rounds made (repeat); of the source: its next element */
    bool moving;    /* skip: done skipping; repeat: this round has had elements */
    bool ended;     /* the source */
    struct random random;
    struct item **buffer; /* shuffle */
    size_t buffered, room;
    uint64_t bytes;
    struct key_state *keys; /* stream_keys.c: groups, elements that were seen */
};

struct element_stream {
    const struct program *program;
    const _Atomic bool *stopped; /* the pipeline is stopping */
    struct filter *filters;      /* [0] is the source */
    size_t count;
    pst_ctx ctx;
    void *reading;    /* the source's stream; NULL: not open */
    uint64_t at;      /* the number of the next element */
    uint64_t length;  /* of the stream, once it was read to its end */
    uint64_t damaged; /* of the total of the intake, when `reading` was opened */
    uint64_t met;     /* records, damaged ones too, that were read at least once */
    pst_tensor *out;  /* one per field of the source */
    _Atomic uint64_t bytes;
    pthread_mutex_t lock;
    struct item *free; /* under lock */
};

/* Returns an item with room for `size` bytes; 0: without a block. NULL: out of memory. */
struct item *item_create(struct element_stream *s, size_t size);
/* Returns the bytes that the items of a list take. */
uint64_t item_list_bytes(const struct item *list);
/* Takes the next element, or list of elements, of a filter. OK, END or < 0. */
pst_status filter_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr);
/* Views the fields of the stream's elements that an item has; `tensors` has one per field of the source. */
void item_view(const struct element_stream *s, const struct item *item, pst_tensor *tensors);

/* stream_keys.c */
pst_status window_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr);
pst_status keyed_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr);
pst_status unique_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr);
/* Forgets everything, and releases the items. */
void keys_clear(struct element_stream *s, struct filter *f);
void keys_finish(struct element_stream *s, struct filter *f);

#endif
