/* onnx_import.h: ONNX files as models of ours, with their weights.
 *
 * The nodes of the file are translated to layers, one function per operator (onnx_operators.c); the graph of layers is then written as text
 * (model/graph_write.h), so that an imported model is a model like any other. Images are height × width × channels here: kernels change
 * their order, transpositions and reshapes only change what is known about the order of axes (onnx_axes.c), and nothing is left of them. */
#ifndef EXPORT_ONNX_IMPORT_H
#define EXPORT_ONNX_IMPORT_H

#include "model/graph.h"
#include "quant/quant.h"
#include <penstock/base.h>

struct onnx_model {
    char *text;          /* of the model */
    struct graph *graph; /* of the text */
    float *params;       /* the graph's values */
    struct quant_model *quant; /* of a file in 8-bit integers: `params` are dequantised; NULL: floats */
    char *classes;       /* metadata "classes": a JSON array; NULL: none */
    char *preprocessing; /* metadata "preprocessing": the text of a pipeline; NULL: none */
};

/* Whether a path names an ONNX file: by its ending, and because it is not a folder. */
bool onnx_is_file(const char *path);

/* PST_ECORRUPT: the file is damaged, or its graph makes no sense. PST_EUNSUPPORTED: an operator, or the way it is used, has no layer.
 * PST_ELIMIT: too large. Errors name the file and the node. */
pst_status onnx_import(struct onnx_model *ret, const char *path, pst_error *reterr);
/* The same for bytes. `path` is for errors and for external data; NULL: none. */
pst_status onnx_import_bytes(struct onnx_model *ret, const char *path, const uint8_t *bytes, size_t length, pst_error *reterr);
void onnx_model_finish(struct onnx_model *m); /* Zeroed ok. */

#endif
