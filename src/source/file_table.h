/* file_table.h: elements that are one file each, as named by folders and lists: fields image, label (if there are labels)
 * and key. */
#ifndef SOURCE_FILE_TABLE_H
#define SOURCE_FILE_TABLE_H

#include "io/cold.h"
#include "io/walk.h"
#include "source/source.h"

union file_label {
    int64_t number; /* of the class */
    double real;    /* where `real_labels` */
};

struct file_item {
    uint64_t size; /* size when it was checked; FILE_ITEM_MISSING: the file did not exist */
    union file_label label;
    size_t key; /* start of the key within its path */
};

#define FILE_ITEM_MISSING UINT64_MAX

struct file_table { /* zero-initialised by the caller */
    struct path_list paths;
    struct file_item *items; /* one per path */
    size_t capacity;
    bool labelled, real_labels;
    struct path_list classes; /* their names by label; none: labels are numbers */
    uint64_t bytes, fingerprint;
    bool no_image;   /* the images are not used: files are not read */
    uint64_t *marks; /* during file_table_look: the contribution of each file to the fingerprint */
    bool tolerant;   /* a missing file is damage, not an error */
};

void file_table_finish(struct file_table *t);

/* Takes `path` (NULL: out of memory), also on failure. */
pst_status file_table_add(struct file_table *t, char *path, size_t key, union file_label label, pst_error *reterr);
/* Keeps the files for which `kept` is true. */
void file_table_filter(struct file_table *t, const bool *kept);
/* Call after all files are added: reads sizes and times and computes the fingerprint. A missing file is an error, unless
 * damage is tolerated; then loading it fails. */
pst_status file_table_look(struct file_table *t, const struct source_env *env, pst_error *reterr);

struct file_worker { /* zero-initialised by the caller */
    uint8_t *buffer;
    size_t buffer_size;
    pst_bytes image, key;
    struct cold_watch cold;
};

/* Functions shared by all sources whose first member is a file table. */
void file_table_close(void *source); /* NULL ok; frees the source too */
void file_table_spec(const void *source, pst_spec *ret);
uint64_t file_table_count(const void *source);
pst_status file_table_class_names(const void *source, struct path_list *ret, pst_error *reterr);
uint64_t file_table_fingerprint(const void *source);
void file_table_need(void *source, const bool *fields);
void file_table_worker_stop(void *source, void *worker);
void file_table_ahead(void *source, void *worker, const uint64_t *index, size_t count);
pst_status file_table_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
uint64_t file_table_bytes_of(const void *source, uint64_t index);
void file_table_locate(const void *source, uint64_t index, size_t field, struct source_place *ret);

#define FILE_TABLE_SOURCE                                                                                                      \
    .close = file_table_close, .spec = file_table_spec, .class_names = file_table_class_names, .count = file_table_count, .fingerprint = file_table_fingerprint,      \
    .need = file_table_need, .worker_size = sizeof(struct file_worker), .worker_stop = file_table_worker_stop,                 \
    .ahead = file_table_ahead, .load = file_table_load, .cause = PST_CAUSE_MISSING, .bytes_of = file_table_bytes_of,           \
    .locate = file_table_locate

#endif
