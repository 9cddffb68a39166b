/* safetensors.h: named arrays in a file: 8 bytes of header length, a JSON header, the data. Little-endian.
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
};

struct safetensors {
    struct safetensor *tensors; /* in the order of their data; names are owned */
    size_t count;
};

/* Describes the arrays in `bytes`, which must outlive the result. `path` (NULL: none) is for errors. PST_ECORRUPT, PST_EUNSUPPORTED (unknown type), PST_ENOMEM. */
pst_status safetensors_parse(struct safetensors *ret, const char *path, const void *bytes, size_t length, pst_error *reterr);
void safetensors_finish(struct safetensors *s); /* Zeroed ok. */
/* Returns the array called `name`, or NULL. */
const struct safetensor *safetensors_find(const struct safetensors *s, const char *name);

/* Appends the whole file to `to`: F32 arrays only. `tensors` is sorted by name. */
void safetensors_write(struct text *to, struct safetensor *tensors, size_t count);

/* Bytes of one value of a type; 0: unknown. */
size_t safetensors_width(const char *dtype);

#endif
