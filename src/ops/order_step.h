/* order_step.h: the step that an operation adds to the order of the elements. flow/order.c composes the steps. */
#ifndef OPS_ORDER_STEP_H
#define OPS_ORDER_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum order_kind {
    ORDER_SHUFFLE,
    ORDER_REPEAT,
    ORDER_TAKE,
    ORDER_SKIP,
    ORDER_SHARD,
    ORDER_BATCH,
    ORDER_NUMBER, /* keeps the order; the element takes its position as number `number` with it */
    ORDER_FILTER, /* keeps the elements whose bits are set */
    ORDER_RESAMPLE, /* draws elements such that classes have their shares */
    ORDER_UNIQUE  /* keeps the first of equal elements; only in a stream */
};

struct bitmap; /* base/bitmap.h */
struct expr;   /* lang/expr.h */

/* How the elements of a batch are brought to one shape: dimensions that vary are filled up at their end. */
struct pad_rule {
    uint64_t multiple;          /* every varying dimension is rounded up to a multiple of this; 0 and 1: it is not */
    uint64_t length;            /* the first dimension, where it varies; 0: that of the longest element */
    double value;               /* written into numbers; bytes are filled up with empty ones */
    const char *values;         /* "labels:-100,weights:1": other values for some fields; "": none */
    const uint64_t *boundaries; /* not NULL: the first dimension is filled up to the end of the batch's bucket… */
    size_t boundary_count;
    const char *field; /* …which the lengths of this field determine */
};

enum key_kind {
    KEY_LENGTH, /* the bucket of the length of a field */
    KEY_VALUE   /* the value of a field */
};

/* Which elements come together in a batch, where the data decides. */
struct key_rule {
    enum key_kind kind;
    size_t field;               /* of the elements before the step */
    const uint64_t *boundaries; /* of KEY_LENGTH: bucket i has the lengths below boundaries[i], from the one before it on */
    const uint64_t *sizes;      /* of KEY_LENGTH: elements per batch, one per bucket: boundary_count + 1 */
    size_t boundary_count;
    uint64_t tokens;         /* not 0: a batch has up to so many values when filled up; `sizes` are limits */
    const size_t *fields;    /* of ORDER_UNIQUE: the fields that are compared… */
    size_t field_count;      /* …and their number */
};

struct resample; /* flow/resample.h */

/* What `resample` asks for. */
struct resample_rule {
    const char *field, *target;
    uint64_t length;
};

struct order_step {
    enum order_kind kind;
    int64_t count;          /* repeat, take, skip; as tf.data: -1 is endless, all, nothing */
    uint64_t shards, shard; /* shard */
    uint64_t size;          /* batch */
    bool drop_remainder;    /* batch */
    uint64_t shift, stride; /* batch: elements between the first elements of two batches, and between two elements of one; 0: as
                               in a plain batch, `size` and 1 */
    const struct pad_rule *pad; /* batch: NULL: elements keep their shapes */
    const struct key_rule *key; /* batch, unique: the data decides; only in a stream */
    uint64_t seed;          /* shuffle */
    bool reshuffle;         /* shuffle: a new order for every pass */
    uint64_t chunk;         /* shuffle: elements that stay neighbours until the window is shuffled; 0: exact and global */
    uint64_t window;        /* shuffle: elements of a window, a multiple of `chunk` */
    uint64_t buffer;        /* shuffle of a stream: bytes; 0: `drawn` counts */
    uint64_t drawn;         /* shuffle of a stream: elements to draw from; 0: `buffer` counts */
    uint64_t limit;         /* shuffle of a stream: bytes that `drawn` elements may take; set by the plan */
    unsigned number;        /* number: counted from 0; set by order_push */
    const struct resample *resample; /* owned by the plan */
    const struct bitmap *bits; /* filter: one per input element; owned by the plan. NULL: in a stream… */
    const struct expr *expr;   /* …where every element is tested as it comes; of the elements before the step */
    uint64_t inner, outer;  /* number of input and output elements; set by order_push */
    uint64_t parts, unit;   /* shuffle, batch: elements stay within one of `parts` parts, which are cut at multiples of `unit`; 0
                               and 1: one part. Set by order_divide */
};

/* Properties of the pipeline that the step of an operation depends on. */
struct order_env {
    uint64_t seed;          /* the pipeline's */
    uint64_t element_bytes; /* stored size of an element on average, or an estimate; at least 1 */
    unsigned shuffles;      /* steps of kind ORDER_SHUFFLE before this one */
};

#endif
