/* infer.h: a folded graph made ready for predictions: planned once, read-only while it runs, shared by any number of callers.
 *
 * The nodes are divided into operations; an ordered list of classes decides which implementation runs which nodes. A caller
 * brings a context: threads and one arena. A batch is divided among the threads by samples, each of which goes through the whole
 * model in small groups, so that activations stay in the caches; what does not divide evenly, such as a batch of one, is divided
 * inside of each layer. A sample's result depends on neither. */
#ifndef INFER_INFER_H
#define INFER_INFER_H

#include "base/text.h"
#include "model/graph.h"

struct quant_model;
struct infer_op;

/* ---- Planning ---- */

struct infer_options {
    unsigned features; /* of the CPU that kernels may use; cpu.h */
    bool logits;       /* leave out a softmax or sigmoid that stands last */
    const struct quant_model *quant; /* of the same graph; must outlive the plan. NULL: float32 */
    bool small;        /* of a quantised model: int8 kernels only */
};

/* How a value between operations is stored. */
struct infer_value {
    size_t bytes;    /* of one number: 4 for float32, 1 for uint8 */
    bool quantised;  /* real = scale · (q − zero), as the quantised model says */
};

/* What a class sees while it plans. */
struct infer_view {
    const struct graph *graph; /* folded */
    const float *params;
    size_t nodes; /* that run */
    const struct infer_options *options;
    const size_t *consumers;    /* of each value */
    struct infer_value *values; /* of each value; set by the plan of its producer. Float32 unless changed */
};

/* One call of an operation: `images` samples. With parts > 1, several workers call it at the same time with the same memory, and
 * each computes its part. */
struct infer_call {
    const struct infer_op *op;
    size_t images;
    const void *in[LAYER_MAX_INPUTS];
    void *out;
    void *scratch; /* op->scratch bytes, 64-byte aligned, the worker's own */
    unsigned part, parts;
};

struct infer_class {
    const char *name;
    /* Number of nodes from `node` on that it takes as one operation; 0: none. */
    size_t (*match)(const struct infer_view *v, size_t node);
    /* Fills in the operation; `state` is freed by `free`, also after a failure. */
    pst_status (*plan)(const struct infer_view *v, struct infer_op *op, pst_error *reterr);
    void (*run)(const struct infer_call *c);
    void (*free)(struct infer_op *op); /* optional */
};

struct infer_op {
    const struct infer_class *class;
    size_t first, count; /* nodes */
    size_t inputs;       /* set by the plan: values that it reads */
    size_t in[LAYER_MAX_INPUTS];
    size_t out; /* value: first + count */
    char why[96];
    size_t scratch;      /* bytes per worker */
    size_t images;       /* fewest images that use the kernel well; 0: 1 */
    size_t weight_bytes; /* that the state holds */
    void *state;         /* read-only while running */
};

extern const struct infer_class infer_sparse, infer_conv, infer_layer;
extern const struct infer_class infer_i8_conv, infer_i8_layer, infer_i8_float; /* of quantised models */

struct infer_plan;

/* `params` are the graph's values. Both are read while planning and running: they must outlive the plan. */
pst_status infer_plan_create(struct infer_plan **ret, const struct graph *g, const float *params, const struct infer_options *o,
                             pst_error *reterr);
struct infer_plan *infer_plan_destroy(struct infer_plan *p); /* NULL ok; returns NULL */
/* The shape of one sample of the result. */
const struct shape *infer_out_shape(const struct infer_plan *p);
/* Bytes of the weights that the operations hold. */
uint64_t infer_weight_bytes(const struct infer_plan *p);
size_t infer_op_count(const struct infer_plan *p);
const struct infer_op *infer_op_at(const struct infer_plan *p, size_t i);
/* One line per operation: its nodes, its class and why. */
void infer_describe(const struct infer_plan *p, struct text *to);

/* ---- Running ---- */

struct infer_context;

/* `threads` at least 1, the caller's included. */
pst_status infer_context_create(struct infer_context **ret, const struct infer_plan *p, unsigned threads, pst_error *reterr);
struct infer_context *infer_context_destroy(struct infer_context *c); /* NULL ok; returns NULL */
/* Bytes of a context. */
uint64_t infer_call_bytes(const struct infer_plan *p, unsigned threads);
/* Computes `n` samples of any number: `input` of type `dtype` (not bytes) to `out`, float32. One call at a time per context. */
void infer_run(struct infer_context *c, const void *input, pst_dtype dtype, size_t n, float *out);

/* The fastest time of each operation so far, in nanoseconds per call of infer_run; measured while `on`. */
void infer_measure(struct infer_context *c, bool on);
uint64_t infer_time(const struct infer_context *c, size_t op);

#endif
