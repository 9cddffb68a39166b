/* layer.h: what a layer is. One static declaration per layer feeds the model text, the C and Python calls and docs/layers.md.
 *
 * A layer file holds its parameters, its shape rule, and forward and backward side by side: the C reference that every faster
 * kernel is compared with. Activations are NHWC with the batch first; kernels of convolutions are HWIO, of dense layers
 * (in, out). Composite layers (sepconv, residual, repeat) have no kernels: the graph expands them. */
#ifndef MODEL_LAYER_H
#define MODEL_LAYER_H

#include <penstock/op.h>

struct graph_builder;
struct lang_node;
struct step;

#define LAYER_MAX_PARAMS 4
#define LAYER_MAX_INPUTS 16

/* The first member of every config. */
struct layer_config {
    const char *name; /* of the layer, as the user gave it; "" or NULL: none */
};

/* Shape of one sample. A vector has rank 1 and h = w = 1. */
struct shape {
    uint32_t rank; /* 3: an image h × w × c; 1: a vector of c */
    uint32_t h, w, c;
};

static inline size_t shape_values(const struct shape *s)
{
    return (size_t)s->h * s->w * s->c;
}

static inline bool shape_equals(const struct shape *a, const struct shape *b)
{
    return a->rank == b->rank && a->h == b->h && a->w == b->w && a->c == b->c;
}

enum param_init { INIT_ZEROS, INIT_ONES, INIT_GLOROT_UNIFORM };

/* A parameter of a layer: `conv_1/kernel`. */
struct layer_param {
    const char *name;
    uint32_t rank;
    uint32_t shape[4];
    enum param_init init;
    uint64_t fan_in, fan_out; /* of INIT_GLOROT_UNIFORM */
    bool fixed;               /* not trained: moving statistics */
    double momentum;          /* of moving statistics: the share that a step keeps */
};

/* One call of a layer's kernel. Pointers are to `real` values unless stated; backward writes every result, it adds to none. */
struct layer_call {
    const void *config;
    size_t n;     /* samples */
    size_t first; /* number of the first one within the batch */
    size_t inputs;
    const struct shape *in_shape; /* one per input */
    struct shape out_shape;
    const void *in[LAYER_MAX_INPUTS];
    void *out;        /* forward: written; backward: as forward left it */
    const void *dout; /* backward: the gradient of `out` */
    void *din[LAYER_MAX_INPUTS]; /* backward: written; NULL: not needed */
    void *param[LAYER_MAX_PARAMS]; /* const but for moving statistics, which a training forward pass updates */
    double *statistic[LAYER_MAX_PARAMS]; /* where statistics of the batch go; NULL: the moving statistics are updated at once */
    void *dparam[LAYER_MAX_PARAMS];
    void *saved; /* `saved_bytes`: from forward to backward */
    void (*share)(struct step *s, double *sums, size_t count, double *rows); /* of a layer with statistics: see step_share_sums */
    struct step *step; /* for `share` */
    bool training;
    uint64_t key; /* of random numbers: seed, step and node */
};

struct layer_class {
    const char *name;
    const char *doc;     /* first sentence: what it computes */
    const char *example; /* a whole model */
    const pst_param *params;
    size_t positional; /* how many of them need no name= */
    size_t config_size;
    size_t min_children, max_children; /* chains in parentheses */
    bool empty_child; /* one of them may be empty: the layer's input itself */
    /* Composite layers: adds primitive nodes for the layer and its children, from value `in` on. NULL: the layer is a node. */
    pst_status (*build)(struct graph_builder *b, const struct lang_node *n, size_t in, size_t *ret, pst_error *reterr);
    /* The activation of the config, which becomes a node of its own. NULL: none. */
    int (*activation)(const void *config);
    /* The shape of the result. Errors name what was expected and found. */
    pst_status (*shape)(const void *config, const struct shape *in, size_t inputs, struct shape *ret, pst_error *reterr);
    /* Describes the parameters; returns how many. NULL: none. */
    size_t (*parameters)(const void *config, const struct shape *in, struct layer_param ret[LAYER_MAX_PARAMS]);
    /* Bytes that forward leaves for backward, for n samples of reals of `real_size` bytes. NULL: none. */
    size_t (*saved_bytes)(const void *config, const struct shape *in, size_t n, size_t real_size);
    void (*forward)(const struct layer_call *c);
    void (*backward)(const struct layer_call *c);
    /* Multiplications and additions of the forward pass for one sample. NULL: too few to count. */
    uint64_t (*flops)(const void *config, const struct shape *in, const struct shape *out);
    bool whole_batch; /* a call takes the whole batch: it computes statistics over it */
};

#endif
