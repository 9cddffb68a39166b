/* model.h: a model as text: layers with shapes, parameters and the plan of its training step.
 *
 *     pst_shape input = {.rank = 3, .size = {32, 32, 3}};
 *     pst_model_parse(&m, "conv 32 3 relu | maxpool 2 | flatten | dense 10", &input, &err);
 *
 * Layers have stable names (conv_1, or name=…) which appear in weight files, errors and options. */
#ifndef PENSTOCK_MODEL_H
#define PENSTOCK_MODEL_H

#include <penstock/base.h>
#include <penstock/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The shape of one sample: {height, width, channels}, or {length} of a vector. */
typedef struct pst_shape {
    uint32_t rank;    /* The number of dimensions: 3 or 1. */
    uint32_t size[3]; /* The dimensions. */
} pst_shape;

typedef struct pst_model pst_model;

/* Builds a model from `text` for samples of shape `input`. `text` is a chain of layers, "@FILE", or the name of a preset
 * ("resnet20", or "resnet20:100" with another number of classes). A mistake in the text is PST_EINVAL with the place and a
 * drawing. */
PST_API pst_status pst_model_parse(pst_model **ret, const char *text, const pst_shape *input, pst_error *reterr);

/* A chain of layers that calls build: alone it is a model, in the parentheses of a layer it is a branch.
 *
 *     pst_layers_add(branch, "conv", "16 3 pad=same", &err);
 *     pst_layers_add_chains(layers, "residual", "relu", &branch, 1, &err);
 *     pst_layers_add(layers, "dense", "10", &err);
 *     pst_model_create(&m, layers, &input, &err);
 *
 * A call that fails leaves the chain as it was. */
typedef struct pst_layers pst_layers;

/* Creates a chain without layers. */
PST_API pst_status pst_layers_create(pst_layers **ret, pst_error *reterr);
/* Appends the layer `kind` with its arguments as text; `args` may be NULL. On PST_EINVAL the place in the error, and the line with the
 * caret, are those of "KIND ARGS". */
PST_API pst_status pst_layers_add(pst_layers *layers, const char *kind, const char *args, pst_error *reterr);
/* Appends the layer `kind` with `count` chains in its parentheses: those of "residual", "concat", "add", "repeat". The chains are copied. */
PST_API pst_status pst_layers_add_chains(pst_layers *layers, const char *kind, const char *args, pst_layers *const *chains, size_t count,
                                         pst_error *reterr);
/* Appends the layers of a text as pst_model_parse takes it: a chain, "@FILE" or the name of a preset. */
PST_API pst_status pst_layers_add_text(pst_layers *layers, const char *text, pst_error *reterr);
/* Returns the layers as text, valid until the next layer is added; "" without layers. */
PST_API const char *pst_layers_text(const pst_layers *layers);
/* Frees the chain and returns NULL. `layers` may be NULL. */
PST_API pst_layers *pst_layers_destroy(pst_layers *layers);
/* Builds the model of a chain, which may be used for further models: the same as pst_model_parse of pst_layers_text, with the same errors. */
PST_API pst_status pst_model_create(pst_model **ret, const pst_layers *layers, const pst_shape *input, pst_error *reterr);

/* Frees the model and returns NULL. `model` may be NULL. */
PST_API pst_model *pst_model_destroy(pst_model *model);
/* Returns the text that the model was built from, with presets replaced by their layers. */
PST_API const char *pst_model_text(const pst_model *model);
/* Returns the shape of one sample of the input. */
PST_API pst_shape pst_model_input(const pst_model *model);
/* Returns the shape of one sample of the result. */
PST_API pst_shape pst_model_output(const pst_model *model);

/* One layer of a model as it is computed: composite layers are already expanded. */
typedef struct pst_model_layer {
    size_t size;         /* sizeof(pst_model_layer), set by the caller. */
    const char *name;    /* The name of the layer. */
    const char *kind;    /* The kind of layer, such as "conv". */
    pst_shape output;    /* The shape of one sample of its result. */
    uint64_t parameters; /* The number of its parameters, moving statistics included. */
    uint64_t flops;      /* Multiplications and additions of the forward pass for one sample. */
} pst_model_layer;
/* Fills `ret` for layer `i`, in the order of computation. Returns false after the last layer. */
PST_API bool pst_model_layer_at(const pst_model *model, size_t i, pst_model_layer *ret);

/* One parameter of a model. */
typedef struct pst_model_param {
    size_t size;       /* sizeof(pst_model_param), set by the caller. */
    const char *name;  /* The name, such as "conv_1/kernel". */
    uint32_t rank;     /* The number of dimensions. */
    uint32_t shape[4]; /* The dimensions. */
    uint64_t count;    /* The number of values. */
    bool fixed;        /* Whether it is never trained: moving statistics. */
} pst_model_param;
/* Fills `ret` for parameter `i`. Returns false after the last parameter. */
PST_API bool pst_model_param_at(const pst_model *model, size_t i, pst_model_param *ret);

/* The plan of a training step. */
typedef struct pst_model_plan {
    size_t size;         /* sizeof(pst_model_plan), set by the caller. */
    uint64_t bytes;      /* Bytes of activations, gradients and workspaces. */
    char *text;          /* One line per group of layers: which implementation runs it and why. Free with pst_free. */
    const char *kernels; /* Set by the caller: a table of kernels as pst_model_tune writes it; NULL: the usual ones. */
} pst_model_plan;
/* Plans a training step of `batch` samples on `threads` threads and fills `ret`. */
PST_API pst_status pst_model_describe(const pst_model *model, size_t batch, unsigned threads, pst_model_plan *ret,
                                      pst_error *reterr);

/* A kind of layer that models can be made of. */
typedef struct pst_layer_doc {
    size_t size;             /* sizeof(pst_layer_doc), set by the caller. */
    const char *name;        /* The name in the text. */
    const char *doc;         /* The description; its first sentence says what the layer computes. */
    const char *example;     /* A whole model that uses it. */
    const pst_param *params; /* The parameters; the list ends with a NULL name. NULL: none. */
    size_t positional;       /* The number of parameters that need no name. */
    size_t min_chains;       /* The smallest number of chains in its parentheses. */
    size_t max_chains;       /* The largest number of chains in its parentheses; 0: it takes none. */
} pst_layer_doc;
/* Fills `ret` for kind `i` of layers. Returns false after the last kind. */
PST_API bool pst_layer_at(size_t i, pst_layer_doc *ret);

/* Fills `*ret_name` and `*ret_doc` for preset `i`. Returns false after the last preset. */
PST_API bool pst_preset_at(size_t i, const char **ret_name, const char **ret_doc);
/* Returns the text of preset `name` ("resnet20" or "resnet20:100") in `*ret`, to be freed with pst_free. PST_ENOTFOUND: there
 * is no such preset. */
PST_API pst_status pst_preset_text(const char *name, char **ret, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
