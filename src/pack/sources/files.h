/* files.h: items that are one image file each, as named by folders and lists. */
#ifndef PACK_SOURCES_FILES_H
#define PACK_SOURCES_FILES_H

#include "pack/pack_source.h"

#define FILES_NO_LABEL INT64_MIN

union file_label {
    int64_t number; /* of the class */
    float real;     /* where the field `label` is float */
};

struct file_item {
    const char *key; /* path below its root; the source's arena */
    uint64_t size;   /* FILES_MISSING: it could not be found */
    union file_label label;
    uint32_t root;
};

#define FILES_MISSING UINT64_MAX

struct file_root {
    const char *path; /* "": keys are paths as they are */
    unsigned split;
};

struct files {
    struct file_item *items;
    size_t capacity;
    struct file_root *roots;
    size_t root_count, root_capacity;
};

/* Makes `s->state`, and the fields: image, and label when `labelled`, of float where `real`. */
pst_status files_create(struct pack_source *s, bool labelled, bool real, pst_error *reterr);
/* Copies `path`, or takes it as it is when it lives in the source's arena already. */
pst_status files_add_root(struct pack_source *s, const char *path, unsigned split, pst_error *reterr);
/* Adds a file of the newest root: reads its size and adds it to the fingerprint. `path` is its location. */
pst_status files_add(struct pack_source *s, const char *path, const char *key, union file_label label, pst_error *reterr);

/* Shared by the classes folder and list. */
void files_close(struct pack_source *s);
const char *files_key(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES]);
uint64_t files_estimate(const struct pack_source *s, uint64_t i);
unsigned files_split(const struct pack_source *s, uint64_t i);
pst_status files_load(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr);
void files_worker_finish(void *worker);

struct files_worker {
    struct text path;
    union file_label label;
};

#endif
