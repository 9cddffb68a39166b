/* stream_filter.h: internals of the filters of a stream, shared by stream_filters.c and stream_keys.c. */
#ifndef FLOW_STREAM_FILTER_H
#define FLOW_STREAM_FILTER_H

#include "flow/stream_filters.h"
#include "ops/ctx.h"

#include <pthread.h>
#include <stdatomic.h>

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
