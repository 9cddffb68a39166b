/* block.h: implementations of one or more nodes. The first class in block_classes that takes the nodes at hand runs them; the
 * reference, which takes every single node, stands last. */
#ifndef MODEL_BLOCK_H
#define MODEL_BLOCK_H

#include "model/step.h"

struct block;

/* Memory of a block: offsets into the step's arena, set by the plan. */
struct block_memory {
    size_t bytes;
    size_t offset;
};

/* What a class sees of the step while it plans and runs. */
struct step_view {
    const struct graph *graph;
    const struct step_options *options;
    size_t nodes; /* that run */
    size_t real_size;
    unsigned lanes;
    const size_t *consumers; /* of each value */
    struct value_form *forms; /* of each value; set by the plan of its producer */
    const struct block *blocks; /* planned so far */
    unsigned features; /* of the CPU that kernels may use */
};

/* One part of a pass; all workers meet after it. */
struct block_phase {
    enum { PHASE_LANES, PHASE_PARTS, PHASE_ONCE } over; /* every lane; as many parts as there are workers; once */
    void (*run)(struct step *s, struct block *b, unsigned i, unsigned count); /* number i of count */
};

#define BLOCK_MAX_PHASES 8

struct block_class {
    const char *name;
    /* Number of nodes from `node` on that it takes as one block; 0: none. Writes why into `why`, for people; also why not, where the
     * layer is one of its own. */
    size_t (*match)(const struct step_view *v, size_t node, char *why, size_t size);
    /* Sets phases and sizes of memory; allocates private state with mem_*. */
    pst_status (*plan)(const struct step_view *v, struct block *b, pst_error *reterr);
    /* Optional: called after every block has been planned, in their order; may still change phases and sizes of memory. */
    void (*settle)(const struct step_view *v, struct block *b);
    /* Optional: what depends on the parameters only. All blocks' run at the same time before the forward phases, one thread each. */
    void (*prepare)(struct step *s, struct block *b);
    void (*free)(struct block *b); /* optional */
};

#define NO_FEATURES "no kernels for this processor" /* why not: a class has only those of instruction sets */

struct block {
    const struct block_class *class;
    size_t first, count; /* nodes */
    char why[96];
    size_t saved_again, work_again; /* offsets of `saved` and `work` when the forward pass is repeated */
    struct block_memory saved;     /* lives from forward to backward */
    struct block_memory work;      /* lives during forward; per lane */
    struct block_memory back_work; /* lives during backward; per lane */
    size_t scratch;                /* bytes of a worker, in either pass: the same for all blocks, so that they stay in the worker's cache */
    struct block_phase forward[BLOCK_MAX_PHASES], backward[BLOCK_MAX_PHASES]; /* each list ends with a NULL run */
    struct block_time time[2];     /* measured: forward, backward */
    void *state;                   /* the class's own */
};

/* How a value is stored. A lazy one is read as y = clamp(scale · (z − centre) + shift, low, high) per channel: batch normalisation and
 * activation are applied by its readers. */
struct value_form {
    bool lazy;
    const float *centre, *scale, *shift;
    float low, high;
    struct block *producer;
    enum number number; /* of the value and of its gradient */
    size_t gradient_in; /* the value whose gradient has the same bytes and lies in the same memory, and is dead when this one changes; 0: none */
    bool on_demand; /* no gradient is stored: the producer asks its only reader for rows of it (block_dense_fill) */
};

/* The number type for a value that a block of the caller's class makes: the step's, where every reader takes it. */
enum number block_number(const struct step_view *v, size_t value);
/* Whether the dense block takes node `node`. */
bool block_dense_reads(const struct step_view *v, size_t node);

extern const struct block_class *const block_classes[]; /* ends with NULL */
extern const struct block_class block_reference, block_conv, block_add, block_dense;

/* In the plan of a dense block, the only reader of `value`: true where the convolution block that made it will ask for the
 * gradient (block_dense_fill). */
bool block_conv_asks(const struct step_view *v, size_t value, struct block *dense);
/* The dense block's kernel for inputs [input, input + inputs) as block_dense_fill takes it. */
size_t block_dense_turned_bytes(const struct block *b, size_t inputs);
void block_dense_turn(struct step *s, struct block *b, size_t input, size_t inputs, float *turned);
/* Gradients of these inputs of `count` samples from `first` on, without gaps. */
void block_dense_fill(struct step *s, struct block *b, size_t first, size_t count, const float *turned, size_t inputs, float *to);

/* ---- For the classes, while running ---- */

struct lane_range {
    size_t first, count; /* samples */
};
const struct value_form *step_form(const struct step *s, size_t value);
struct lane_range step_lane(const struct step *s, unsigned lane);
size_t step_samples(const struct step *s);
size_t step_real_size(const struct step *s);
bool step_is_training(const struct step *s);
bool step_repeats(const struct step *s); /* the forward pass at hand is a repetition: statistics are as the first one left them */
unsigned step_lanes(const struct step *s);
uint64_t step_key(const struct step *s, size_t node);     /* of random numbers */
const struct graph *step_graph(const struct step *s);
void *step_value(struct step *s, size_t value);           /* of the whole batch; of its form's number type */
void *step_gradient(struct step *s, size_t value);        /* NULL: not needed */
bool step_gradient_adds(const struct step *s, const struct block *b, size_t value); /* another block has written to it before */
void *step_param(struct step *s, size_t param);
void *step_param_gradient(struct step *s, size_t param);
void step_share(struct step *s, double *sums, size_t count, double *rows); /* see step_share_sums; from one thread */
double *step_statistic(const struct step *s, size_t param); /* where the batch's goes; NULL: the moving statistic is updated at once */
void *step_saved(struct step *s, const struct block *b);
void *step_work(struct step *s, const struct block *b, bool backward, unsigned lane);
void *step_scratch(struct step *s, unsigned lane); /* that of the worker which runs the lane; holds nothing from one lane or phase to the next */

#endif
