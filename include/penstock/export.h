/* export.h: trained models as files for other programs: ONNX and safetensors. */
#ifndef PENSTOCK_EXPORT_H
#define PENSTOCK_EXPORT_H

#include <penstock/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The format of an exported model. */
typedef enum pst_export_format {
    PST_EXPORT_AUTO = 0,   /* By the ending of the file's name: .onnx or .safetensors. */
    PST_EXPORT_ONNX,       /* The whole model: opset 17, IR version 8, weights inline, open batch dimension. */
    PST_EXPORT_SAFETENSORS /* The weights by name, float32. */
} pst_export_format;

/* How a model is exported. A member that is 0 has its default. */
typedef struct pst_export_options {
    size_t size;                /* sizeof(pst_export_options). */
    pst_export_format format;   /* The format. */
    bool nhwc;                  /* ONNX: the input and an image result are (N, H, W, C) instead of (N, C, H, W). */
    const char *const *classes; /* ONNX: names of the classes, kept as metadata "classes", a JSON array; NULL: none. */
    size_t class_count;         /* The number of names. */
    const char *preprocessing;  /* ONNX: text of the pipeline that makes the input, kept as metadata; NULL: none. */
    bool overwrite;             /* Replace a file that exists. */
} pst_export_options;

/* Writes the model of `t` with its weights to `path`, whole or not at all; with a moving mean of the weights, writes that mean.
 * PST_EINVAL: the ending of the name is unknown. PST_EEXIST: the file exists. PST_EUNSUPPORTED: a layer has no ONNX form.
 * PST_ELIMIT: an ONNX file would have more than 2 GiB. `options` may be NULL. */
PST_API pst_status pst_trainer_export(pst_trainer *t, const char *path, const pst_export_options *options, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
