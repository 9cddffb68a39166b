/* h5.h: the datasets of an HDF5 file whose first dimension counts the items. libhdf5 is behind h5.c; calls are serialised,
 * as the library is not safe for threads. */
#ifndef IO_H5_H
#define IO_H5_H

#include "io/npy.h"
#include <penstock/example.h>

enum hdf5_rows { HDF5_FIXED, HDF5_STRINGS, HDF5_SEQUENCES }; /* values of fixed width; texts; bytes or numbers, as many as each row has */

struct hdf5_dataset {
    const char *name;         /* the last part of its path; lives as long as the file */
    struct npy_header header; /* kind 'V': bytes of any length; of sequences of numbers, the kind of those; data_offset is valid if it lies in one piece */
    enum hdf5_rows rows;
    bool in_file;      /* its rows lie one after the other in the file, and can be read without libhdf5 */
    size_t item_bytes; /* of one value as hdf5_read stores it */
    struct hdf5_dataset *next;
    struct hdf5_handle *handle; /* of libhdf5 */
};

struct hdf5_file;

/* Opens the file and its datasets: all of the root, or those of the group `selection`, or that one dataset. `shown` is the
 * path for errors. PST_EUNSUPPORTED: this build lacks libhdf5, or a dataset has a type without an equivalent. */
pst_status hdf5_open(struct hdf5_file **ret, const char *path, const char *shown, const char *selection, pst_error *reterr);
struct hdf5_file *hdf5_close(struct hdf5_file *f); /* NULL ok; returns NULL */
struct hdf5_dataset *hdf5_datasets(struct hdf5_file *f); /* the first of a list in the order of their names */
uint64_t hdf5_left_out(const struct hdf5_file *f);       /* groups and links that lead nowhere */

/* Reads rows [from, from + rows) into `block`: values, or char * or struct hdf5_sequence of libhdf5's memory, which
 * hdf5_reclaim releases. */
pst_status hdf5_read(struct hdf5_dataset *d, uint64_t from, uint64_t rows, void *block, pst_error *reterr);
void hdf5_reclaim(struct hdf5_dataset *d, uint64_t rows, void *block);
/* The bytes of value `i` of a block of texts or sequences. */
pst_bytes hdf5_value(const struct hdf5_dataset *d, const void *block, uint64_t i);

#endif
