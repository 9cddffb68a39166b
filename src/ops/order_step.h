/* order_step.h: the step that an operation adds to the order of the elements. flow/order.c composes the steps. */
#ifndef OPS_ORDER_STEP_H
#define OPS_ORDER_STEP_H

#include <stdbool.h>
#include <stdint.h>

enum order_kind {
    ORDER_SHUFFLE,
    ORDER_REPEAT,
    ORDER_TAKE,
    ORDER_SKIP,
    ORDER_SHARD,
    ORDER_BATCH,
    ORDER_NUMBER, /* keeps the order; the element takes its position as number `number` with it */
    ORDER_FILTER  /* keeps the elements whose bits are set */
};

struct bitmap; /* base/bitmap.h */

struct order_step {
    enum order_kind kind;
    int64_t count;          /* repeat, take, skip; as tf.data: -1 is endless, all, nothing */
    uint64_t shards, shard; /* shard */
    uint64_t size;          /* batch */
    bool drop_remainder;    /* batch */
    uint64_t seed;          /* shuffle */
    bool reshuffle;         /* shuffle: a new order for every pass */
    uint64_t chunk;         /* shuffle: elements that stay neighbours until the window is shuffled; 0: exact and global */
    uint64_t window;        /* shuffle: elements of a window, a multiple of `chunk` */
    uint64_t buffer;        /* shuffle of a stream: bytes; 0: `drawn` counts */
    uint64_t drawn;         /* shuffle of a stream: elements to draw from; 0: `buffer` counts */
    uint64_t limit;         /* shuffle of a stream: bytes that `drawn` elements may take; set by the plan */
    unsigned number;        /* number: counted from 0; set by order_push */
    const struct bitmap *bits; /* filter: one per input element; owned by the plan */
    uint64_t inner, outer;  /* number of input and output elements; set by order_push */
};

/* Properties of the pipeline that the step of an operation depends on. */
struct order_env {
    uint64_t seed;          /* the pipeline's */
    uint64_t element_bytes; /* stored size of an element on average, or an estimate; at least 1 */
    unsigned shuffles;      /* steps of kind ORDER_SHUFFLE before this one */
};

#endif
