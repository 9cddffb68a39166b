/* graph.h: a model as primitive nodes in the order of computation.
 *
 * Text or calls make a tree of layers; building expands composite layers (sepconv, residual, repeat, an activation inside of a
 * layer) and infers shapes, so that every mistake is found before memory is allocated. Value 0 is the input of the model, value
 * i + 1 the result of node i. Node i reads values ≤ i only. */
#ifndef MODEL_GRAPH_H
#define MODEL_GRAPH_H

#include "lang/lang.h"
#include "model/layer.h"

#define GRAPH_MAX_NODES  4096
#define GRAPH_NAME_SIZE  80
#define GRAPH_ALIGNMENT  16 /* parameters begin at multiples of this many values */

struct graph_param {
    char name[GRAPH_NAME_SIZE + 24]; /* "conv_1/kernel" */
    struct layer_param layer;
    size_t node;
    size_t offset, count; /* values within the block of all parameters */
};

struct graph_node {
    const struct layer_class *layer;
    const void *config; /* the graph's */
    char name[GRAPH_NAME_SIZE];
    const struct lang_node *written; /* the layer in the text that it comes from, for errors; NULL: none */
    size_t inputs;
    size_t input[LAYER_MAX_INPUTS]; /* values */
    struct shape in[LAYER_MAX_INPUTS], out;
    size_t first_param, params;
};

struct graph {
    struct lang_tree tree;
    struct arena memory; /* configs of nodes that the text does not contain */
    struct shape input;
    struct graph_node *nodes;
    size_t count, capacity;
    struct graph_param *params;
    size_t param_count, param_capacity;
    size_t values; /* of all parameters, padding between them included */
};

/* The language of models: a tree of layers. */
extern const struct language model_language;

/* Builds from text; presets are text with a name (preset.h). */
pst_status graph_create(struct graph **ret, const char *text, const struct shape *input, pst_error *reterr);
/* An empty graph, for callers that add nodes themselves (graph_add); it has no text until graph_write makes one. */
pst_status graph_begin(struct graph **ret, const struct shape *input, pst_error *reterr);
struct graph *graph_destroy(struct graph *g); /* NULL ok; returns NULL */

/* The shape of value `v`. */
static inline const struct shape *graph_shape(const struct graph *g, size_t v)
{
    return v ? &g->nodes[v - 1].out : &g->input;
}

/* Start values of all parameters: a function of the seed and of each parameter's name. */
void graph_init_params(const struct graph *g, uint64_t seed, float *params);

/* The model as one line of text that builds the same graph. mem_free; NULL: out of memory. */
char *graph_text(const struct graph *g);

/* ---- For layers that build others ---- */

struct graph_builder {
    struct graph *graph;
    size_t *counters; /* names given so far, by layer_number */
    const struct lang_node *written;
    const char *prefix; /* names of nodes inside of a composite layer */
};

/* Adds a node; `name` NULL: counted. The config is borrowed. */
pst_status graph_add(struct graph_builder *b, const struct layer_class *layer, const void *config, const char *name,
                     const size_t *inputs, size_t count, size_t *ret, pst_error *reterr);
/* Adds the nodes of a chain. */
pst_status graph_add_chain(struct graph_builder *b, const struct lang_chain *chain, size_t in, size_t *ret, pst_error *reterr);
/* Adds the node of an activation; ACT_NONE adds none. */
pst_status graph_add_activation(struct graph_builder *b, int activation, size_t in, size_t *ret, pst_error *reterr);
/* The name of the layer that is being built: the user's, or counted. */
pst_status graph_name(struct graph_builder *b, const struct layer_class *layer, const void *config, char ret[GRAPH_NAME_SIZE],
                      pst_error *reterr);

#endif
