/* stream_filters.h: the order operations over a source that has no index: one element after the other, the same for any number of
 * workers because only one of them pulls at a time. */
#ifndef FLOW_STREAM_FILTERS_H
#define FLOW_STREAM_FILTERS_H

#include "flow/cache.h"
#include "flow/order.h"
#include "flow/program.h"

/* An element that was taken out of the stream, in memory of its own. */
struct item {
    struct item *next; /* of its batch */
    uint64_t sample;   /* number within the stream */
    uint64_t pass;
    void *block; /* see element.h; NULL: the cache has it */
    size_t size; /* of the element, in `block` or not */
    size_t room; /* of `block` */
    struct source_place place;
};

struct element_stream;

/* Borrows all of its arguments. Once `*stopped` is set, `next` fails with PST_ECANCELLED. */
pst_status element_stream_create(struct element_stream **ret, const struct program *p, const struct order *o, uint64_t seed,
                                 const _Atomic bool *stopped, pst_error *reterr);
struct element_stream *element_stream_destroy(struct element_stream *s); /* NULL ok; returns NULL */

/* Goes to the beginning of an epoch. */
void element_stream_begin(struct element_stream *s, uint64_t epoch);
/* The items of the next batch. One caller at a time. OK, END or < 0. */
pst_status element_stream_next(struct element_stream *s, struct item **ret, pst_error *reterr);
/* Gives a list of items back; from any thread, NULL ok. */
void element_stream_release(struct element_stream *s, struct item *list);
/* Records that were read at least once, damaged ones too. */
uint64_t element_stream_met(const struct element_stream *s);
uint64_t element_stream_bytes(const struct element_stream *s); /* of all items, in buffers and out */

#endif
