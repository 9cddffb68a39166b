/* predict.h: a trained model that computes predictions: fused, planned once, without allocation per call, for any number of
 * callers.
 *
 *     pst_predictor_open(&p, "runs/first", &(pst_predict_options){.size = sizeof(pst_predict_options)}, &err);
 *     pst_predictor_run(p, &images, out, &err);      from any thread
 *
 * A sample's result does not depend on the batch it is in, on the number of threads, or on other callers. */
#ifndef PENSTOCK_PREDICT_H
#define PENSTOCK_PREDICT_H

#include <penstock/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The values that a predictor stores. */
typedef enum pst_output {
    PST_OUTPUT_MODEL = 0,    /* The result of the model as it is written. */
    PST_OUTPUT_LOGITS,       /* The same without a softmax or sigmoid at its end. */
    PST_OUTPUT_SOFTMAX,      /* The softmax of the logits. */
    PST_OUTPUT_SIGMOID,      /* The sigmoid of each logit. */
    PST_OUTPUT_PROBABILITIES /* The softmax, or the sigmoid for one result or a run that was trained with PST_LOSS_BINARY; the
                                result as it is for PST_LOSS_MSE. */
} pst_output;

/* The arithmetic of a predictor. */
typedef enum pst_precision {
    PST_PRECISION_AUTO = 0, /* As the model was stored. */
    PST_PRECISION_FP32,     /* Float32. A quantised model is dequantised. */
    PST_PRECISION_INT8      /* Int8 where that is faster, as the model says. PST_ETYPE: the model is not quantised. */
} pst_precision;

/* How a predictor is made. A member that is 0 has its default. */
typedef struct pst_predict_options {
    size_t size;             /* sizeof(pst_predict_options). */
    unsigned threads;        /* Threads per call, the caller's included; 0: one per core. Does not affect the result. */
    pst_output output;       /* The values to store. */
    pst_precision precision; /* The arithmetic. */
    bool portable;           /* Use no kernels for special instruction sets. */
    bool small;              /* Of a quantised model: int8 kernels only, which need the least memory. */
    const char *checkpoint;  /* Of a run folder: "best", "latest" or a number of steps; NULL: best, otherwise latest. */
} pst_predict_options;

typedef struct pst_predictor pst_predictor;

/* Makes a predictor from a model and its parameters: `values[i]` are those of pst_model_param_at(model, i). Both are copied. */
PST_API pst_status pst_predictor_create(pst_predictor **ret, const pst_model *model, const float *const *values,
                                        const pst_predict_options *options, pst_error *reterr);
/* Makes a predictor from files: everything that pst_network_open opens. */
PST_API pst_status pst_predictor_open(pst_predictor **ret, const char *path, const pst_predict_options *options,
                                      pst_error *reterr);
/* Makes a predictor from the weights that `t` evaluates with, at this moment. They are copied. */
PST_API pst_status pst_predictor_of_trainer(pst_predictor **ret, pst_trainer *t, const pst_predict_options *options,
                                            pst_error *reterr);
/* Frees the predictor and returns NULL. No call may be running. `p` may be NULL. */
PST_API pst_predictor *pst_predictor_destroy(pst_predictor *p);

/* Returns the shape of one sample of the input. */
PST_API pst_shape pst_predictor_input(const pst_predictor *p);
/* Returns the shape of one sample of the result. */
PST_API pst_shape pst_predictor_output(const pst_predictor *p);
/* Computes the results of the samples of `input` (the first dimension is the batch, of any size; any numeric type) into `out`
 * (samples × output values). Any number of threads may call it at the same time. Memory is allocated only when more calls run
 * at once than ever before. */
PST_API pst_status pst_predictor_run(pst_predictor *p, const pst_tensor *input, float *out, pst_error *reterr);

/* The plan of a predictor. */
typedef struct pst_predictor_plan {
    size_t size;           /* sizeof(pst_predictor_plan), set by the caller. */
    uint64_t weight_bytes; /* Bytes of the weights, as kernels read them. */
    uint64_t call_bytes;   /* Bytes of activations and workspaces, per call that runs at the same time. */
    char *text;            /* One line per group of layers: which kernel runs it and what is fused. Free with pst_free. */
} pst_predictor_plan;
/* Fills `ret`. */
PST_API pst_status pst_predictor_describe(const pst_predictor *p, pst_predictor_plan *ret, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
