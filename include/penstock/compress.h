/* compress.h: smaller and faster networks from trained ones. */
#ifndef PENSTOCK_COMPRESS_H
#define PENSTOCK_COMPRESS_H

#include <penstock/network.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Quantisation after training ---- */

/* How the range of a value is chosen from those that occur. */
typedef enum pst_calibration {
    PST_CALIBRATION_AUTO = 0,   /* PST_CALIBRATION_MSE. */
    PST_CALIBRATION_MINMAX,     /* Everything that occurs. */
    PST_CALIBRATION_PERCENTILE, /* All but a share of the values at either end. */
    PST_CALIBRATION_ENTROPY,    /* The range whose 256 levels lose the least information (Kullback–Leibler divergence). */
    PST_CALIBRATION_MSE         /* The range with the least mean squared error. */
} pst_calibration;

/* How far pst_quantize is. Returns false to stop it: PST_ECANCELLED. */
typedef bool (*pst_quantize_fn)(void *user, uint64_t samples, uint64_t of);

/* How a network is quantised. A member that is 0 has its default. */
typedef struct pst_quantize_options {
    size_t size;                 /* sizeof(pst_quantize_options). */
    pst_weights_format format;   /* The format; PST_WEIGHTS_FLOAT32: PST_WEIGHTS_QUANTIZED. */
    pst_calibration calibration; /* PST_WEIGHTS_QUANTIZED: how ranges are chosen. */
    double percentile;           /* PST_CALIBRATION_PERCENTILE: the share of values to cover at either end; 0: 0.9999. */
    uint64_t samples;            /* Samples to calibrate with; 0: 512, or all where the pipeline has fewer. */
    unsigned weight_bits; /* PST_WEIGHTS_QUANTIZED: 7 (weights within ±63, faster without VNNI) or 8 (within ±127); 0: 7. */
    bool no_choice;       /* Do not measure which layers are faster in float32: all run as integers. */
    bool no_correction;   /* Do not correct biases by the mean error that rounding the weights causes. */
    const pst_fields *fields; /* The fields of the pipeline; NULL: found as the network's record says. */
    pst_quantize_fn progress; /* Called after every batch; NULL: none. */
    void *user;               /* Handed to `progress`. */
} pst_quantize_options;

/* Makes a quantised network. Batch normalisation is folded. `calibration` delivers samples as the network takes them; labels
 * are not needed. It may be NULL for formats other than PST_WEIGHTS_QUANTIZED, and for a network that was trained for int8
 * (pst_trainer_prepare_qat), which has its ranges. `options` may be NULL. PST_EINVAL: there are no samples, or a weight or a
 * value is not finite. */
PST_API pst_status pst_quantize(pst_network **ret, const pst_network *from, pst_pipeline *calibration,
                                const pst_quantize_options *options, pst_error *reterr);

/* ---- Fewer channels ---- */

/* Makes a smaller network: the least important channels go until at most the given share of the operations is left. Channels
 * that an addition ties together go together; a quarter of each layer stays. The result is an ordinary model with smaller
 * layers, and usually needs some training. PST_ELIMIT: it cannot be made so small. PST_EINVAL: `from` is quantised. */
PST_API pst_status pst_shrink(pst_network **ret, const pst_network *from, const pst_shrink_options *options, pst_error *reterr);

/* ---- All steps ---- */

/* A network on the way: its quality, its size and its speed. */
typedef struct pst_compress_variant {
    size_t size;                /* sizeof(pst_compress_variant). */
    char name[64];              /* What was done: "original", "channels 50 %", "zeros 50 %", "int8". */
    bool accepted;              /* Whether it is within the bound, and the next step continues from it. */
    double accuracy, loss;      /* On the validation data. */
    uint64_t parameters;        /* The number of parameters… */
    uint64_t nonzero;           /* …and how many of them are not zero. */
    uint64_t file_bytes;        /* Bytes of the folder that pst_network_save writes. */
    uint64_t flops;             /* Multiplications and additions for one sample. */
    double latency1, latency64; /* Seconds of one prediction of 1 and of 64 samples: the median of several. */
    uint64_t memory;            /* Bytes of weights, activations and workspaces of a predictor. */
} pst_compress_variant;

/* Called during training (`run` is not NULL) and after each variant (`variant` is not NULL). `what` names the variant. Returns
 * true to save and stop. */
typedef bool (*pst_compress_fn)(void *user, const char *what, const pst_run_progress *run, const pst_compress_variant *variant);

/* How a network is compressed. A member that is 0 has its default: the step is left out. */
typedef struct pst_compress_options {
    size_t size;                /* sizeof(pst_compress_options). */
    double flops;               /* Remove channels until this share of the operations is left. */
    pst_channel_norm norm;      /* Which channels go first. */
    double sparsity;            /* Set this share of the weights to zero while training… */
    unsigned group_keep, group; /* …or `group_keep` of each `group` inputs. */
    const char *const *exclude; /* Names of layers, or of their parameters: no weight is set to zero there, and no channel goes, nor one that
                                   is tied to them. They are quantised like others. * stands for any part. */
    size_t exclude_count;       /* The number of names. */
    pst_weights_format format;  /* Quantise to this format in the end; PST_WEIGHTS_FLOAT32: do not. */
    bool qat;        /* PST_WEIGHTS_QUANTIZED: train for int8 first; otherwise only if the bound is missed without. */
    bool bounded;    /* Whether `max_loss` counts. */
    double max_loss; /* The accuracy that may be lost, as a share: 0.005 is half a percentage point. A step that loses more is
                        repeated with less, then left out. */
    uint64_t epochs; /* Epochs of training after each step; 0: 2. */
    uint64_t steps_per_epoch; /* Updates per epoch; 0: with the data. */
    double rate;              /* The learning rate, which falls along a cosine; 0: 3e-4. */
    uint64_t seed;            /* The seed of training. */
    unsigned threads;         /* Threads; 0: one per core. */
    const char *out; /* A folder for the runs of training, which continue there after an interruption. Required for training. */
    uint64_t save_every; /* Updates between checkpoints; 0: after each epoch. */
    bool search;   /* Find a share of zeros for each layer: measure how sensitive each is, then take from where it costs the
                      least. */
    double budget; /* Seconds for the measurements of `search` and of PST_WEIGHTS_MIXED together; 0: 300. */
    const char *input_field, *target_field; /* Fields of the pipelines; NULL: as the network's record says. */
    pst_compress_fn progress;               /* NULL: none. */
    void *user;                             /* Handed to `progress`. */
    double bits; /* PST_WEIGHTS_MIXED: the mean bits per weight to reach, 4 to 32, if `budget` suffices to measure them; 0: 6.
                    Bits go where that costs the least. */
    pst_calibration calibration; /* PST_WEIGHTS_QUANTIZED: how ranges are chosen… */
    double percentile;           /* …as in pst_quantize_options… */
    uint64_t samples;            /* …and from how many samples; 0: 512. */
    unsigned weight_bits;        /* PST_WEIGHTS_QUANTIZED: 7 or 8 bits of the kernels; 0: 7, and 8 where that loses too much. */
} pst_compress_options;

/* A layer of the result. */
typedef struct pst_compress_layer {
    size_t size;      /* sizeof(pst_compress_layer). */
    char name[80];    /* Its name in the model. */
    uint64_t weights; /* The values of its kernel… */
    uint64_t nonzero; /* …and how many of them are not zero. */
    unsigned bits;    /* Bits in which each is stored: 4, 8, 16 or 32. */
} pst_compress_layer;

/* What was tried and what came out. */
typedef struct pst_compress_result {
    size_t size;                    /* sizeof(pst_compress_result), set by the caller. */
    pst_compress_variant *variants; /* Read with pst_compress_variant_at; free with pst_free. */
    size_t count;                   /* The number of variants. */
    size_t chosen;                  /* The result's number; 0: nothing could be accepted. */
    bool stopped;                   /* Whether `progress` asked to stop. */
    pst_compress_layer *layers;     /* Read with pst_compress_layer_at. Free with pst_free. */
    size_t layer_count;             /* The number of layers. */
} pst_compress_result;

/* Compresses a network in steps: channels, zeros, integers, each followed by training on `training` and judged on `validation`.
 * The same call with the same `out` continues after an interruption, and ends with the same weights. `training` may be NULL:
 * nothing is trained, and quantisation is calibrated with `validation`. `*ret` is the network of the last accepted step; NULL
 * if stopped. */
PST_API pst_status pst_compress(pst_network **ret, const pst_network *from, pst_pipeline *training, pst_pipeline *validation,
                                const pst_compress_options *options, pst_compress_result *result, pst_error *reterr);
/* Describes variant `i`, in the order of the steps; the first is the original. Returns false if there is none. `ret->size` must
 * be set. */
PST_API bool pst_compress_variant_at(const pst_compress_result *result, size_t i, pst_compress_variant *ret);
/* Describes layer `i` of those of the chosen network that have kernels. Returns false if there is none. `ret->size` must be
 * set. */
PST_API bool pst_compress_layer_at(const pst_compress_result *result, size_t i, pst_compress_layer *ret);
/* Writes the result as one HTML page: accuracy against speed, and the table. `title` names the model. */
PST_API pst_status pst_compress_report(const pst_compress_result *result, const char *title, const char *path,
                                       pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
