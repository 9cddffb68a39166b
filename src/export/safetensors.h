/* safetensors.h: named arrays in a file: 8 bytes of header length, a JSON header, the data. Little-endian.
 *
 * An array with many zeros may be stored as three: NAME@bitmap (U8: bit i % 8 of byte i / 8 is set where value i is stored), NAME@values
 * and NAME@shape (U64). The reader makes the whole array of them.
 *
 * The writer sorts by name, and aligns data to 64 bytes by blanks at the end of the header. The reader takes any order and type; it
 * refuses headers whose offsets overlap, leave gaps, lie outside of the file or contradict the shapes. */
#ifndef EXPORT_SAFETENSORS_H
#define EXPORT_SAFETENSORS_H

#include "base/json_read.h"
#include "base/text.h"

#define SAFETENSORS_RANK 8

struct safetensor {
    const char *name;
    char dtype[8]; /* "F32" */
    uint32_t rank;
    uint64_t shape[SAFETENSORS_RANK];
    uint64_t count;   /* values */
    const void *data; /* may be unaligned when it was read */
    const uint8_t *bitmap; /* of an array that was stored without its zeros; NULL: of others */
};

struct safetensors {
    struct safetensor *tensors; /* in the order of their data; names are owned */
    size_t count;
    void **owned; /* arrays that were made whole */
    size_t owned_count;
};

/* Describes the arrays in `bytes`, which must outlive the result. `path` (NULL: none) is for errors. PST_ECORRUPT, PST_EUNSUPPORTED (unknown type), PST_ENOMEM. */
pst_status safetensors_parse(struct safetensors *ret, const char *path, const void *bytes, size_t length, pst_error *reterr);
void safetensors_finish(struct safetensors *s); /* Zeroed ok. */
/* Returns the array called `name`, or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name);

/* Appends the whole file to `to`. Types are those of safetensors_width. Of an array with a bitmap, only the values whose bit is set are stored. */
void safetensors_write(struct text *to, struct safetensor *tensors, size_t count);

/* Bytes of one value of a type; 0: unknown. */
size_t safetensors_width(const char *dtype);

/* ---- Arrays without their zeros: safetensors_sparse.c ---- */

/* Appends the three arrays of `t` to `list`, which has room for them, with names and values from `memory`. False: out of memory. */
struct arena;
bool safetensors_split(const struct safetensor *t, struct arena *memory, struct safetensor *list, size_t *count);
/* Makes whole arrays of those that were stored without their zeros. */
pst_status safetensors_join(struct safetensors *s, pst_error *reterr);

#endif
