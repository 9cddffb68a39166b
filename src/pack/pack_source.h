/* pack_source.h: the sources that can be packed. A source turns its paths into a numbered set of items that any thread may load.
 *
 * pack_source.c holds the only list of classes; each is one file. After `open` nothing about a source changes: every call below
 * takes it const, and loading item i does not depend on what was loaded before. */
#ifndef PACK_PACK_SOURCE_H
#define PACK_PACK_SOURCE_H

#include "io/file.h"
#include "pack/pack_options.h"
#include <penstock/example.h>

struct pack_report;
struct pack_ticker;

/* The meaning of a field; it determines how features.json declares it. */
enum pack_role {
    PACK_PLAIN,  /* numbers or bytes, nothing more is known */
    PACK_IMAGE,  /* an encoded image */
    PACK_PIXELS, /* uint8 pixels of the declared shape, as bytes */
    PACK_LABEL,  /* a class number */
    PACK_TEXT,
    PACK_RECORD /* not a feature: the whole serialized record, alone */
};

struct pack_field {
    const char *name;
    enum pack_role role;
    pst_kind kind;
    const char *dtype; /* as NumPy says it: "uint8", "float32", …, "string" */
    size_t rank;
    uint64_t shape[PST_MAX_RANK];
    bool optional; /* some items lack it */
};

/* One field of one item. `data` is valid until the worker's next load. Bytes and floats may instead stay in their file: then
 * `data` is NULL, and `read` reads all `length` bytes of them to their place in the output. */
struct pack_value {
    bool present;
    size_t count;     /* numbers, or bytes of the one bytes value */
    const void *data; /* int64_t[], float[] or bytes */
    pst_status (*read)(const struct pack_value *v, void *buffer, pst_error *reterr);
    size_t length; /* for `read`, as is the rest */
    const void *from;
    const char *path;
    int fd;
    uint64_t offset;
};

/* A file that describes the data and is copied to the output as it is. */
struct pack_carried {
    const char *name;
    const void *data;
    size_t length;
};

struct pack_source {
    const struct pack_source_class *class;
    const struct pack_config *config;
    struct pack_field *fields;
    size_t field_count, field_capacity;
    uint64_t count;                 /* items */
    uint64_t bytes;                 /* size of all source files */
    uint64_t fingerprint;           /* of their names, sizes and times */
    const char *const *class_names; /* by label; NULL: none known */
    size_t class_count;
    const char *const *split_names; /* splits defined by the source; NULL: none */
    size_t split_count;
    struct pack_carried *carried;
    size_t carried_count, carried_capacity;
    bool stores_key; /* the key is meaningful and is stored as a feature */
    void *state;
    struct arena arena; /* names, fields and everything else that lives as long as the source */
};

/* Available to a source while it opens, on the calling thread only. */
struct pack_opening {
    const char *const *paths;
    size_t path_count;
    const char *spool_folder;   /* for temporary copies of input that cannot be read by offset */
    struct pack_report *report; /* notes, and items that are known to be bad already */
    struct pack_ticker *ticker;
};

#define PACK_KEY_BYTES 320

struct pack_source_class {
    const char *name, *doc;
    bool images; /* image options apply; otherwise they are refused */
    /* Reports whether `path` belongs to this class. `info` is NULL if there is no such file: the path may name a part of a
     * file. */
    pst_status (*matches)(const char *path, const struct file_info *info, bool *ret, pst_error *reterr);
    pst_status (*open)(struct pack_source *s, const struct pack_opening *o, pst_error *reterr);
    void (*close)(struct pack_source *s); /* accepts a half-opened source */
    /* The item's name: hashed for splits, stored, and shown. May be written to `buffer`. */
    const char *(*key)(const struct pack_source *s, uint64_t i, char buffer[PACK_KEY_BYTES]);
    uint64_t (*estimate)(const struct pack_source *s, uint64_t i); /* approximate bytes of its record */
    unsigned (*split)(const struct pack_source *s, uint64_t i);    /* index into split_names; NULL when there are none */
    size_t worker_size;                                            /* of a worker's own memory, zeroed */
    pst_status (*load)(const struct pack_source *s, void *worker, uint64_t i, struct pack_value *values, pst_error *reterr);
    void (*worker_finish)(void *worker); /* accepts zeroed */
};

/* Expands globs, recognises the class (all paths must agree) and opens. `*ret` is closed with pack_source_close. */
pst_status pack_source_open(struct pack_source *ret, const struct pack_config *config, const char *const *paths, size_t count,
                            const char *spool_folder, struct pack_report *report, struct pack_ticker *ticker,
                            pst_error *reterr);
void pack_source_close(struct pack_source *s); /* zeroed ok */

/* ---- For the classes ---- */

/* Adds a field; `name` is copied. NULL: out of memory. */
struct pack_field *pack_source_add_field(struct pack_source *s, const char *name, enum pack_role role, pst_kind kind,
                                         const char *dtype);
void pack_source_mix(struct pack_source *s, const void *data, size_t length); /* into the fingerprint */
/* `base`: of the path, only what follows its last slash. The query of an address does not count. */
void pack_source_mix_file(struct pack_source *s, const char *path, bool base, uint64_t size, int64_t mtime_ns);
/* Sets `v` to `length` bytes that are read from `fd` at `offset`. */
void pack_value_in_file(struct pack_value *v, int fd, const char *path, uint64_t offset, size_t length);
bool pack_float_loses(double value); /* float32 moves it by one or more, or makes it infinite */
bool pack_source_is_image_extension(const char *extension); /* "jpg", in any case */
bool pack_source_is_image_name(const char *name);
bool pack_source_has_extension(const char *path,
                               const char *const *extensions); /* any of them, any case, also before .gz, .zst */

extern const struct pack_source_class pack_source_folder, pack_source_list, pack_source_csv, pack_source_tar, pack_source_npy,
    pack_source_hdf5, pack_source_text, pack_source_tfrecord;

#endif
