/* stream_filters.h: the order operations over a source without an index: one element after the other. The order is the same
 * for any number of workers, because only one worker pulls at a time. */
#ifndef FLOW_STREAM_FILTERS_H
#define FLOW_STREAM_FILTERS_H

#include "flow/cache.h"
#include "flow/order.h"
#include "flow/program.h"

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

#endif
