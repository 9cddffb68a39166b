/* step.h: a graph made ready to run: planned once, then without allocation.
 *
 * The nodes are divided into blocks; an ordered list of block classes (block.h) decides which implementation runs which nodes.
 * A batch is cut into lanes, a fixed number of parts whatever the number of threads; sums over the batch are taken lane by lane
 * and then in the order of the lanes. So results are bit-identical for any number of threads. */
#ifndef MODEL_STEP_H
#define MODEL_STEP_H

#include "base/text.h"
#include "model/graph.h"
#include "model/number.h"
#include "model/team.h"

#define STEP_LANES 4

struct kernel_table;
struct kernel_entry;

struct step_options {
    size_t batch;     /* samples at most */
    unsigned threads; /* 0: 1 */
    unsigned lanes;   /* 0: STEP_LANES */
    bool training;    /* backward will be called */
    bool logits;      /* leave out a softmax or sigmoid that stands last: the loss is computed from logits */
    bool doubles;     /* compute in double, with the reference layers: a yardstick */
    bool reference;   /* use the reference for every node */
    unsigned features; /* CPU features that kernels may use; cpu.h */
    uint64_t seed;     /* of dropout */
    bool recompute;    /* keep few activations and compute the others again in the backward pass: less memory, more time */
    const struct kernel_table *kernels; /* of convolutions, instead of those that are chosen otherwise; used by step_create only. NULL: none */
    bool shared_norm;  /* sums of batch normalisation go through step_share_sums */
    enum number store; /* how values and gradients are stored where blocks can: mixed precision */
};

struct step;

pst_status step_create(struct step **ret, const struct graph *g, const struct step_options *o, pst_error *reterr);
struct step *step_destroy(struct step *s); /* NULL ok; returns NULL */

/* The shape of one sample of the result. */
const struct shape *step_out_shape(const struct step *s);
/* Bytes of activations, gradients and workspaces. */
uint64_t step_bytes(const struct step *s);
/* Bytes of the activations and gradients that are stored, without regard to memory that they share. */
uint64_t step_value_bytes(const struct step *s);

/* Computes the result for `n` ≤ batch samples. `input` is float32, or converted from uint8, float16, bfloat16, int32, int64 or
 * float64; it is read until backward returns. `params` are the graph's values: float, or double where computing in doubles; a
 * training pass updates moving statistics in them. `*ret_out` (n samples) is the step's until the next call. */
pst_status step_forward(struct step *s, const void *input, pst_dtype dtype, size_t n, void *params, bool training,
                        const void **ret_out, pst_error *reterr);
/* Gradients of all trained parameters from the gradient of the result; those of fixed ones are zero. After a training forward. */
void step_backward(struct step *s, const void *dout, void *grads);

/* Called as soon as the gradient of parameter `p` is final, in an order that depends on the graph only; from one thread. */
void step_on_gradient(struct step *s, void (*fn)(void *user, size_t p), void *user);

/* Lists the parameters in the order in which step_on_gradient announces them; `ret` has room for all of the graph's. */
void step_gradient_order(const struct step *s, size_t *ret);

/* Statistics of one batch, for several batches per update that see the same moving statistics, wherever they are computed. */
size_t step_statistic_count(const struct step *s);
/* Training passes store their statistics in `to` (step_statistic_count values) and leave the moving statistics alone. NULL: passes
 * update the moving statistics, as at first. */
void step_keep_statistics(struct step *s, double *to);
/* Updates moving statistics in `params` (floats) by one batch's. */
void step_apply_statistics(const struct step *s, const double *from, float *params);

/* Batch normalisation over several ranks; `shared_norm` of the options must be set. `share` replaces `count` sums over the batch, and the
 * number of rows that they are taken over, by those of all ranks. It is called from one thread at a time, in an order that depends
 * on the graph only. NULL: no others. */
typedef void (*step_share_fn)(void *user, double *sums, size_t count, double *rows);
void step_share_sums(struct step *s, step_share_fn share, void *user);

/* The threads of the step, for work between passes. */
struct team *step_team(struct step *s);
/* Sets the number of training passes so far, which dropout's random numbers depend on: a run that is resumed continues them. */
void step_set_passes(struct step *s, uint64_t passes);
/* After a training forward in float: returns the first sample whose input has a value that is not finite; SIZE_MAX: none. */
size_t step_find_nonfinite_input(struct step *s);
/* After a training forward in float: the name of the first layer whose parameters or result hold a value that is not finite; NULL: none.
 * `*ret_parameter` (NULL: a result) is the name of the parameter. */
const char *step_find_nonfinite(struct step *s, const char **ret_parameter);

struct block_time {
    uint64_t total, best; /* nanoseconds: of all passes, of the fastest */
};
/* Time and work of one block since measuring began. */
struct step_block_times {
    const char *layer;      /* the name of its first node */
    const char *kind, *why; /* the implementation */
    size_t nodes;
    struct block_time forward, backward;
    uint64_t flops; /* of the forward pass, per sample */
};
/* Starts measuring each block's time, from zero; `on` false: stops. */
void step_measure(struct step *s, bool on);
size_t step_block_count(const struct step *s);
struct step_block_times step_block_times(const struct step *s, size_t block);

/* Adds the kernel of each convolution to `to`. Returns false: out of memory. */
bool step_kernels(const struct step *s, struct kernel_table *to);
/* The kernel of one block. Returns false where it is not a convolution. */
bool step_block_kernel(const struct step *s, size_t block, struct kernel_entry *ret);

/* Which implementation runs each block, and why: lines of text. */
void step_describe(const struct step *s, struct text *to);

#endif
