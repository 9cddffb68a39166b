/* tar_sample.h: samples of WebDataset archives: which members become which fields, and one sample's members found in memory. */
#ifndef SOURCE_TAR_SAMPLE_H
#define SOURCE_TAR_SAMPLE_H

#include "base/arena.h"
#include "io/names.h"
#include "io/tar.h"
#include "source/span_set.h"

enum tar_type { TAR_BYTES, TAR_INT64, TAR_FLOAT, TAR_FOLDER };

struct tar_field {
    char name[PST_NAME_SIZE];
    const char **extensions; /* any of them; the first that a sample has. NULL: the sample's key, or its folder's number */
    size_t extension_count;
    enum tar_type type;
    bool optional;
};

#define TAR_MOST_FOLDERS 65536u

struct tar_schema { /* zeroed at first */
    struct tar_field *fields;
    size_t count, capacity;
    pst_field *planned; /* the same for the engine */
    struct names folders; /* in which the samples lie, numbered: the classes of a TAR_FOLDER field; empty: there is none */
    const char *crowded;  /* an archive with more folders than are numbered; NULL: there is none */
    struct arena memory;
};
void tar_schema_finish(struct tar_schema *s);

/* Reads `fields`: "image=jpg,png label=cls:int64 caption=txt?". */
pst_status tar_schema_declare(struct tar_schema *s, const char *text, pst_error *reterr);
/* Infers the fields from the samples in `head`. SPAN_MORE: not even one sample is whole. */
pst_status tar_schema_learn(struct tar_schema *s, const struct span_window *head, enum span_found *ret, pst_error *reterr);
/* Takes the folders of all samples from the indexes of the archives. `inferred`: where the samples have images and no label, and lie in
 * several folders, adds the field label. */
pst_status tar_schema_number_folders(struct tar_schema *s, const struct span_set *set, bool inferred, pst_error *reterr);
pst_status tar_schema_settle(struct tar_schema *s, pst_error *reterr);

/* Splits DIR/NAME.EXT.EXT at the first dot of its last part: the key is the name before it. Returns false for members that
 * belong to no sample: without a dot, hidden, or __NAME__. */
bool tar_split_name(const char *name, size_t *ret_key_length, const char **ret_extension);

/* A worker's state. */
struct tar_room {
    struct tar_walk *walk;
    char *key;
    size_t key_size;
    union tar_value {
        pst_bytes bytes;
        int64_t whole;
        float real;
    } *values; /* one per field */
};
void tar_room_stop(void *room);

/* Finds the members of the sample at the window's beginning, up to the first of another key. */
pst_status tar_sample_cut(struct tar_room *room, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                          enum span_found *ret, pst_error *reterr);
pst_status tar_sample_parse(const struct tar_schema *s, struct tar_room *room, const struct span_window *w, pst_tensor *out,
                            pst_error *reterr);
/* The spans of a plain archive, by its headers. Notes the names of the folders of samples, each with a NUL; "" where a sample lies in none. */
pst_status tar_sample_scan(int fd, const char *path, const struct file_stop *stop, struct span_builder *b, uint64_t *ret_end,
                           pst_error *reterr);

#endif
