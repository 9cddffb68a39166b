/* npy_array.h: one .npy file, mapped, as rows of a field's type. */
#ifndef SOURCE_NPY_ARRAY_H
#define SOURCE_NPY_ARRAY_H

#include <penstock/op.h>
#include <stdatomic.h>

/* How the values of a row become those of the field. */
enum npy_change {
    NPY_VIEW,    /* they are the field's already */
    NPY_COPY,    /* the same, but not where a processor may load them */
    NPY_CONVERT, /* another width or byte order */
    NPY_STRINGS  /* fixed-length bytes */
};

struct npy_array { /* zeroed at first */
    char *path;
    void *mapping;
    size_t mapping_length;
    const uint8_t *data;
    pst_field field; /* of a row */
    uint64_t rows;
    size_t values;    /* of a row */
    size_t row_bytes; /* in the file */
    char kind;        /* as in npy_header */
    unsigned width;
    bool swapped;
    enum npy_change change;
    uint64_t fingerprint;
    _Atomic bool cut; /* the file has become shorter */
};

/* Opens `path`; the field is called like the file, without its ending. */
pst_status npy_array_open(struct npy_array *a, const char *path, pst_error *reterr);
void npy_array_close(struct npy_array *a); /* zeroed and half-opened ok */

/* Bytes that npy_array_row wants for a row; 0: it hands out views. */
size_t npy_array_room(const struct npy_array *a);
/* The values of row `i`: a view of the file, or made in `room`. */
void *npy_array_row(const struct npy_array *a, uint64_t i, void *room);
/* Looks whether the file has been cut short: its mapping must not be touched any more. */
void npy_array_look(struct npy_array *a);

#endif
