/* npy.h: the header of NumPy's .npy format, versions 1 to 3; text and rows that are not stored as they are used. */
#ifndef IO_NPY_H
#define IO_NPY_H

#include <penstock/base.h>

struct npy_header {
    char kind;      /* 'b' bool, 'i', 'u', 'f', 'S' bytes, 'U' UTF-32 text */
    unsigned width; /* bytes per element */
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

/* Writes a 'U' element of `width` bytes as UTF-8, without the zeros after its end; `to` has room for `width` bytes. Returns
 * false for a value that is not a character: a surrogate, or above U+10FFFF. */
bool npy_text(const uint8_t *from, size_t width, bool swapped, uint8_t *to, size_t *ret_length);

/* Copies a row of an array in Fortran order to `to`, in C order. `first` is the row's first element, `stride` the bytes from
 * there to the next one along the row's first dimension. A row has up to 8 dimensions. */
void npy_gather(uint8_t *to, const uint8_t *first, size_t width, const uint64_t *shape, size_t rank, size_t stride);

#endif
