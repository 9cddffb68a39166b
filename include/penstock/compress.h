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
    unsigned weight_bits;        /* PST_WEIGHTS_QUANTIZED: 7 (weights within ±63, faster without VNNI) or 8 (within ±127); 0: 7. */
    bool no_choice;              /* Do not measure which layers are faster in float32: all run as integers. */
    bool no_correction;          /* Do not correct biases by the mean error that rounding the weights causes. */
    const pst_fields *fields;    /* The fields of the pipeline; NULL: found as the network's record says. */
    pst_quantize_fn progress;    /* Called after every batch; NULL: none. */
    void *user;                  /* Handed to `progress`. */
} pst_quantize_options;

/* Makes a quantised network. Batch normalisation is folded. `calibration` delivers samples as the network takes them; labels are not
 * needed. It may be NULL for formats other than PST_WEIGHTS_QUANTIZED, and for a network that was trained for int8 (pst_trainer_prepare_qat), which
 * has its ranges. `options` may be NULL. PST_EINVAL: there are no samples, or a weight or
 * a value is not finite. */
PST_API pst_status pst_quantize(pst_network **ret, const pst_network *from, pst_pipeline *calibration, const pst_quantize_options *options,
                                pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
