/* onnx_weights.h: kernels and biases of an ONNX file whose graph is that of a folded model, for benchmarks of the same weights. */
#ifndef BENCH_ONNX_WEIGHTS_H
#define BENCH_ONNX_WEIGHTS_H

#include "model/graph.h"

/* Fills `params` of a folded graph by the file's float initialisers k0, k0_bias, k1… in the order of its layers with kernels. */
pst_status onnx_weights_read(const char *path, const struct graph *g, float *params, pst_error *reterr);

#endif
