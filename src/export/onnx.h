/* onnx.h: a model with its weights as an ONNX file: opset 17, IR version 8, weights inline.
 *
 * The graph computes predictions: batch normalisation uses moving statistics, dropout is left out. Nodes are NCHW inside;
 * `nhwc` adds transpositions at the input and the result. The batch dimension "N" is open. */
#ifndef EXPORT_ONNX_H
#define EXPORT_ONNX_H

#include "base/text.h"
#include "model/graph.h"
#include "quant/quant.h"

#define ONNX_INPUT_IMAGE  "images" /* name of the input: (N, C, H, W), or (N, H, W, C) with nhwc */
#define ONNX_INPUT_VECTOR "inputs" /* name of the input of a model that takes vectors: (N, C) */
#define ONNX_OUTPUT       "output"

struct onnx_options {
    bool nhwc;                  /* images are height × width × channels outside */
    const char *const *classes; /* class names, for the metadata "classes" (a JSON array); NULL: none */
    size_t class_count;
    const char *preprocessing; /* text of the pipeline that makes the input, for the metadata "preprocessing"; NULL: none */
    const struct quant_model *quant; /* writes integers with QuantizeLinear and DequantizeLinear; of the same graph; NULL: floats */
    const char *model;         /* text of the model, for the metadata "model"; NULL: none */
};

/* Appends the file to `to`. `params` are the graph's values. PST_EUNSUPPORTED: a layer, or one of its settings, has no ONNX
 * form; PST_ELIMIT: the file would have more than 2 GiB; PST_ENOMEM. */
pst_status onnx_write(struct text *to, const struct graph *g, const float *params, const struct onnx_options *o,
                      pst_error *reterr);

/* Writes the file; it appears whole or not at all. The statuses of onnx_write and publish_bytes. */
pst_status onnx_save(const char *path, const struct graph *g, const float *params, const struct onnx_options *o, bool overwrite,
                     pst_error *reterr);

#endif
