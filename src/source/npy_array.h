/* npy_array.h: one .npy file, mapped or read row by row, as rows of a field's type. */
#ifndef SOURCE_NPY_ARRAY_H
#define SOURCE_NPY_ARRAY_H

#include "io/mapping.h"
#include <penstock/op.h>
#include <stdatomic.h>

/* How the values of a row become those of the field. */
enum npy_change {
    NPY_VIEW,    /* they are the field's already */
    NPY_COPY,    /* the same, but not where a processor may load them */
    NPY_CONVERT, /* another width or byte order */
    NPY_STRINGS, /* fixed-length bytes */
    NPY_TEXT     /* UTF-32 text, as UTF-8 */
};

struct npy_array { /* zeroed at first */
    char *path;
    struct mapping mapping;
    int fd;                    /* -1: the file is mapped */
    size_t data_offset, bytes; /* of the first row; of the file */
    const uint8_t *data;       /* the first row; NULL: rows are read */
    pst_field field;           /* of a row */
    uint64_t rows;
    size_t values;    /* of a row */
    size_t row_bytes; /* in the file */
    char kind;        /* as in npy_header */
    unsigned width;
    bool swapped;
    bool fortran; /* rows are gathered: their elements are apart */
    enum npy_change change;
    uint64_t fingerprint;
    _Atomic bool cut; /* the file has become shorter */
};

/* Opens `path`; the field is called like the file, without its ending. `mapped`: otherwise rows are read one by one. */
pst_status npy_array_open(struct npy_array *a, const char *path, bool mapped, pst_error *reterr);
void npy_array_close(struct npy_array *a); /* zeroed and half-opened ok */

/* Bytes that npy_array_row wants for a row; 0: it hands out views. */
size_t npy_array_room(const struct npy_array *a);
/* Bytes that npy_array_row wants for a row as it is stored; 0: it is mapped in one piece. */
size_t npy_array_raw_room(const struct npy_array *a);
/* The values of row `i`: a view of the file or of `raw`, or made in `room`. PST_ESTALE: the file has become shorter.
 * PST_ECORRUPT: text that is not Unicode. */
pst_status npy_array_row(const struct npy_array *a, uint64_t i, void *raw, void *room, void **ret, pst_error *reterr);
pst_status npy_array_fail_short(const struct npy_array *a, uint64_t i, pst_error *reterr);
/* Looks whether the file has been cut short: its mapping must not be touched any more. */
void npy_array_look(struct npy_array *a);

#endif
