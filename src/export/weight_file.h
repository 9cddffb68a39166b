/* weight_file.h: arrays with names from a file of any program: safetensors, or HDF5 as Keras writes it.
 *
 * weights_assign finds out which array belongs to which parameter of a graph: by our own names ("conv_1/kernel"), otherwise layer by
 * layer in the order of their names, as Keras ("layers/conv2d_1/vars/0") and PyTorch ("layer1.0.conv1.weight") number them. Layouts
 * are converted: PyTorch's kernels are OIHW and (out, in). Every shape is compared. */
#ifndef EXPORT_WEIGHT_FILE_H
#define EXPORT_WEIGHT_FILE_H

#include "export/safetensors.h"
#include "model/graph.h"

struct weight_file {
    struct safetensors arrays;
    uint8_t *bytes; /* of a safetensors file */
    void **blocks;  /* of HDF5: one per array */
    size_t block_count;
};

pst_status weight_file_open(struct weight_file *ret, const char *path, pst_error *reterr);
void weight_file_finish(struct weight_file *f); /* Zeroed ok. */

/* Fills `f` from an HDF5 file. PST_EUNSUPPORTED: the build lacks libhdf5. */
pst_status weight_file_hdf5(struct weight_file *f, const char *path, pst_error *reterr);

/* Writes the values of all parameters that the file has into `params`, the graph's block; `*ret_loaded` is their number. `head` is a node
 * whose parameters stay as they are, as weights_new_head finds it; SIZE_MAX: none. On failure `params` may have been written to in part. */
pst_status weights_assign(const struct weight_file *f, const struct graph *g, size_t head, float *params, size_t *ret_loaded, pst_error *reterr);
/* Returns the last node with parameters if the file has one of them by our name in another shape, as that of a model with another number
 * of results; otherwise SIZE_MAX. */
size_t weights_new_head(const struct weight_file *f, const struct graph *g);

/* Converts `count` values of a safetensors type to float. False: the type is not one of numbers. */
bool weights_convert(float *to, const void *from, const char *dtype, size_t count);

#endif
