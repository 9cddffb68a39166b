/* npy.h: the header of NumPy's .npy format, versions 1 to 3. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <penstock/base.h>

struct npy_header {
    char kind;      /* 'b' bool, 'i', 'u', 'f', 'S' bytes */
    unsigned width; /* bytes an element */
    bool swapped;   /* big-endian */
    bool fortran;
    size_t rank;
    uint64_t shape[8];
    uint64_t elements;    /* the product, overflow-checked */
    uint64_t data_offset; /* from the start of the .npy */
};

/* `data` is the file's beginning (up to 64 KiB of it); `file_size` bounds the shape. */
pst_status npy_parse(struct npy_header *ret, const void *data, size_t length, uint64_t file_size, const char *path,
                     pst_error *reterr);

#endif
