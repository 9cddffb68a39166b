/* npy_array.h: one .npy file, mapped or read row by row, as rows of a field's type; and what sources of such arrays share. */
#ifndef SOURCE_NPY_ARRAY_H
#define SOURCE_NPY_ARRAY_H

#include "io/mapping.h"
#include "io/npy.h"
#include <penstock/op.h>
#include <stdatomic.h>

/* How the values of a row become those of the field. */
enum npy_change {
    NPY_VIEW,    /* used directly: same type and alignment */
    NPY_COPY,    /* same type, but not aligned: copied */
    NPY_CONVERT, /* another width or byte order */
    NPY_STRINGS, /* fixed-length bytes */
    NPY_TEXT     /* UTF-32 text, as UTF-8 */
};

struct npy_array { /* zero-initialised by the caller */
    char *path;
    struct mapping mapping;
    int fd;                    /* -1: the file is mapped */
    size_t data_offset, bytes; /* offset of the first row; size of the file */
    const uint8_t *data;       /* the first row; NULL: rows are read */
    pst_field field;           /* for one row */
    uint64_t rows;
    size_t values;    /* for one row */
    size_t row_bytes; /* bytes of a row in the file */
    char kind;        /* as in npy_header */
    unsigned width;
    bool swapped;
    bool fortran; /* rows are gathered: their elements are apart */
    enum npy_change change;
    uint64_t fingerprint;
    _Atomic bool cut; /* the file was truncated */
};

/* Opens `path`; the field gets the name of the file without its extension. `mapped` false: rows are read one by one. */
pst_status npy_array_open(struct npy_array *a, const char *path, bool mapped, pst_error *reterr);
/* The same for an array inside another file, whose header is known; the field is called `name`. */
pst_status npy_array_open_at(struct npy_array *a, const char *path, const char *name, const struct npy_header *header,
                             bool mapped, pst_error *reterr);
/* Only the field and the conversion of its rows, which the caller reads. */
pst_status npy_array_describe(struct npy_array *a, const char *path, const char *name, const struct npy_header *header,
                              pst_error *reterr);
void npy_array_close(struct npy_array *a); /* zeroed and half-opened ok */

/* Returns the bytes that npy_array_row needs in `room`; 0: it returns views. */
size_t npy_array_room(const struct npy_array *a);
/* Bytes that npy_array_row wants for a row as it is stored; 0: it is mapped in one piece. */
size_t npy_array_raw_room(const struct npy_array *a);
/* Returns the values of row `i`: a view of the file or of `raw`, or converted in `room`. PST_ESTALE: the file has become
 * shorter. PST_ECORRUPT: text that is not Unicode. */
pst_status npy_array_row(const struct npy_array *a, uint64_t i, void *raw, void *room, void **ret, pst_error *reterr);
/* The same for a row that the caller has read. */
pst_status npy_array_convert(const struct npy_array *a, uint64_t i, const uint8_t *row, void *room, void **ret, pst_error *reterr);
pst_status npy_array_fail_short(const struct npy_array *a, uint64_t i, pst_error *reterr);
/* Checks whether the file was truncated: its mapping must not be accessed any more then. */
void npy_array_look(struct npy_array *a);

/* Arrays with the same number of rows, one field each: the first member of a source. */
struct array_table {
    pst_field *fields; /* owned by the source */
    size_t count;
    uint64_t rows, bytes, fingerprint;
    const bool *need; /* fields that are used; NULL: all */
};
/* Members of a source_class whose source begins with an array_table. */
void array_table_spec(const void *source, pst_spec *ret);
uint64_t array_table_rows(const void *source);
uint64_t array_table_fingerprint(const void *source);
void array_table_need(void *source, const bool *fields);

static inline bool array_table_needs(const struct array_table *t, size_t i)
{
    return !t->need || t->need[i];
}

#endif
