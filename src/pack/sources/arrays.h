/* arrays.h: arrays in files whose first dimension counts the items: NumPy and HDF5. */
#ifndef PACK_SOURCES_ARRAYS_H
#define PACK_SOURCES_ARRAYS_H

#include "pack/sources/spool.h"

struct array {
    const struct spool *file;
    uint64_t offset; /* of the first row */
    char kind;       /* 'b' bool, 'i', 'u', 'f', 'S' bytes of fixed width, 'U' UTF-32 text, 'V' bytes of any length */
    unsigned width;  /* bytes per element */
    bool swapped;
    bool fortran; /* the first dimension changes fastest */
    uint64_t rows;
    size_t rank; /* of a row */
    uint64_t shape[PST_MAX_RANK];
    const uint64_t *ends;             /* of 'V': where row i ends, counted from `offset` */
    uint64_t row_elements, row_bytes; /* set by arrays_add */
};

struct arrays {
    struct array *list; /* as many as the source has fields */
    size_t capacity;
    struct spools files;
    const char *name; /* keys: NAME#ROW */
};

pst_status arrays_create(struct pack_source *s, const char *name, pst_error *reterr); /* makes s->state */
/* Adds a feature. Its place in the file is checked. */
pst_status arrays_add(struct pack_source *s, const struct pack_opening *o, const char *name, const struct array *a,
                      pst_error *reterr);
/* Call after all arrays are added: they must have the same number of rows. */
pst_status arrays_settle(struct pack_source *s, pst_error *reterr);

/* Splits "file.h5:/path" after an extension; the selection is NULL if there is none. `*ret_file` is mem_free'd. */
pst_status arrays_cut_path(const char *path, const char *const *extensions, char **ret_file, const char **ret_selection,
                           pst_error *reterr);
bool arrays_matches(const char *path, const char *const *extensions);

/* Shared by the classes npy and hdf5. */
void arrays_close(struct pack_source *s);
const char *arrays_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES]);
uint64_t arrays_estimate(const struct pack_source *s, uint64_t i);
pst_status arrays_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr);
void arrays_worker_finish(void *worker);

struct arrays_worker {
    struct array_view *views; /* one per array */
    size_t count;
};

#endif
