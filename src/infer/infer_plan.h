/* infer_plan.h: the inside of a plan, for the code that runs it. */
#ifndef INFER_INFER_PLAN_H
#define INFER_INFER_PLAN_H

#include "infer/infer.h"
#include "model/arena_plan.h"
#include "quant/kernels/i8.h"
#include "quant/quant.h"

#define INFER_GROUP 16 /* samples that a worker takes at once, at most; a power of two */
#define INFER_SMALL 2  /* the same where memory matters most */

/* Operations [begin, end), which so many samples at a time go through. */
struct infer_segment {
    size_t begin, end, images;
};

struct infer_plan {
    const struct graph *graph;
    const struct quant_model *quant; /* NULL: float32 */
    struct i8_kernels kernels;       /* that convert the input and the result of a quantised model */
    size_t nodes; /* that run */
    size_t group; /* samples that a worker takes at once */
    struct infer_op *ops;
    size_t count;
    struct infer_segment *segments;
    size_t segment_count;
    struct infer_value *values;
    size_t *value_at;     /* offset of each value in the arena of a worker */
    bool *whole;          /* whether it holds all samples of the worker; otherwise those of a segment's group */
    size_t scratch_at, scratch_bytes, arena_bytes;
};

/* Bytes of one sample. */
size_t infer_value_bytes(const struct infer_plan *p, size_t value);

#endif
