/* network.h: a trained model with its weights in memory: opened from files or taken from a trainer, then evaluated, compressed,
 * saved, exported, or made a predictor.
 *
 *     pst_network_open(&n, "runs/first", NULL, &err);
 *     pst_quantize(&small, n, pipeline, NULL, &err);              penstock/compress.h
 *     pst_network_save(small, "runs/first-int8", false, &err);    a folder that opens as any other
 *
 * A network does not change after it was made; any number of threads may use it. */
#ifndef PENSTOCK_NETWORK_H
#define PENSTOCK_NETWORK_H

#include <penstock/export.h>
#include <penstock/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_network pst_network;

/* How the weights of a network are stored, and what it computes with. */
typedef enum pst_weights_format {
    PST_WEIGHTS_FLOAT32 = 0, /* Float32 throughout. */
    PST_WEIGHTS_BFLOAT16,    /* Kernels are stored as bfloat16 and computed with in float32. */
    PST_WEIGHTS_FLOAT16,     /* Kernels are stored as float16 and computed with in float32. */
    PST_WEIGHTS_INT8,        /* Kernels are stored as int8 with one scale per output channel, and computed with in float32. */
    PST_WEIGHTS_INT4,        /* Kernels are stored in 4 bits with one scale per output channel, and computed with in float32. */
    PST_WEIGHTS_QUANTIZED,   /* Weights and activations are int8, and computed with as integers. */
    PST_WEIGHTS_MIXED        /* Each kernel has the format that pst_compress found for it: 4, 8, 16 or 32 bits; computed with in
                                float32. */
} pst_weights_format;

/* Opens the folder of a run (`checkpoint` is "best", "latest" or a number of steps; NULL: best if there is one, otherwise
 * latest), of one checkpoint, or of a compressed model; or an ONNX file, which has no checkpoints. PST_ECORRUPT: it is damaged.
 * PST_EUNSUPPORTED: written by a newer version, or an ONNX file with operators that no layer computes. */
PST_API pst_status pst_network_open(pst_network **ret, const char *path, const char *checkpoint, pst_error *reterr);
/* Copies the weights that `t` evaluates with, at this moment. `record` (NULL: none) describes the run; it is copied. Its model,
 * input and loss are not read: the trainer has them. */
PST_API pst_status pst_network_of_trainer(pst_network **ret, pst_trainer *t, const pst_run_record *record, pst_error *reterr);
/* Makes a network from the text of a model, the shape of its input and its weights: `values[i]` are those of parameter `i` of
 * the model. Everything is copied. `record` as above, but for its loss, which is taken (PST_LOSS_AUTO: sparse categorical). */
PST_API pst_status pst_network_create(pst_network **ret, const char *model, const pst_shape *input, const float *const *values,
                                      const pst_run_record *record, pst_error *reterr);
/* Frees the network and returns NULL. `n` may be NULL. */
PST_API pst_network *pst_network_destroy(pst_network *n);

/* Returns the model: of a quantised network, the one with batch normalisation folded. It lives as long as the network. */
PST_API const pst_model *pst_network_model(const pst_network *n);
/* Returns the facts about its run: classes, pipelines, loss. They live as long as the network. */
PST_API const pst_run_record *pst_network_record(const pst_network *n);
/* Returns the values of parameter `i` of its model in float32, dequantised where they are stored otherwise; NULL after the last
 * one. */
PST_API const float *pst_network_values(const pst_network *n, size_t i);

/* Facts about a network. */
typedef struct pst_network_info {
    size_t size;               /* sizeof(pst_network_info), set by the caller. */
    pst_weights_format format; /* How its weights are stored. */
    uint64_t parameters;       /* The number of parameters. */
    uint64_t nonzero;          /* How many of them are not zero. */
    uint64_t weight_bytes;     /* Bytes of the weights in a file. */
    uint64_t flops;            /* Multiplications and additions for one sample. */
    size_t layers;             /* Of a quantised network: the number of layers with integer weights. */
    size_t
        float_layers; /* Of a quantised network: how many of them are computed in float32, because that was measured faster. */
} pst_network_info;
/* Fills `ret`. */
PST_API pst_status pst_network_describe(const pst_network *n, pst_network_info *ret, pst_error *reterr);

/* Writes the folder `path`, whole or not at all: weights.safetensors and state.json. pst_network_open and all commands read it.
 * PST_EEXIST: it exists and `overwrite` is false, or it is something else than a checkpoint. */
PST_API pst_status pst_network_save(const pst_network *n, const char *path, bool overwrite, pst_error *reterr);
/* Writes the network to `path`, as pst_trainer_export does. A quantised one becomes ONNX with QuantizeLinear and
 * DequantizeLinear nodes; as safetensors its weights are dequantised. `options` may be NULL: the names of the classes and the
 * preprocessing are the record's. */
PST_API pst_status pst_network_export(const pst_network *n, const char *path, const pst_export_options *options,
                                      pst_error *reterr);

/* Makes a predictor. What it needs is copied. */
PST_API pst_status pst_predictor_of_network(pst_predictor **ret, const pst_network *n, const pst_predict_options *options,
                                            pst_error *reterr);
/* Evaluates the network on one pass over the pipeline, on `threads` threads (0: one per core). `fields` must come from this
 * pipeline; NULL: they are found as the record says. */
PST_API pst_status pst_network_evaluate(const pst_network *n, pst_pipeline *p, const pst_fields *fields, unsigned threads,
                                        pst_evaluation *ret, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
