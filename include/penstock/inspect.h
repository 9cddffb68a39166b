/* inspect.h: what a set of shards contains, whether it is sound, and how to save what is left of a damaged one. */
#ifndef PENSTOCK_INSPECT_H
#define PENSTOCK_INSPECT_H

#include <penstock/base.h>
#include <penstock/example.h>
#include <penstock/image.h>
#include <penstock/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Finding files ---- */

/* Expands folders and patterns to files, local or in a store, in the order of `paths`. A folder stands for all files below it, sorted
 * by name; hidden ones are left out. A file stands for itself. `*ret` is an array of `*ret_count` strings in one block; release it
 * with pst_free. PST_ENOTFOUND: a path does not exist, or stands for no file; the message names it. */
PST_API pst_status pst_files_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr);

/* Expands folders and patterns to shards, sorted by name. A folder stands for everything in it that looks like a TFRecord or an
 * event file, or else for those one or two levels below. A file stands for itself; an index or labels.txt among shards is left
 * out. `*ret` is an array of `*ret_count` strings in one block; release it with pst_free. PST_ENOTFOUND: nothing was found; the
 * message names the pattern. */
PST_API pst_status pst_shards_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr);

/* ---- Inspecting ---- */

/* How shards are inspected. A member that is 0 has its default. */
typedef struct pst_inspect_options {
    size_t size;               /* sizeof(pst_inspect_options). */
    bool verify;               /* Reads every record, checks every checksum and decodes every image. */
    uint64_t sample;           /* The number of records to parse, spread evenly; 0: 100,000. Verifying parses all, and so does a
                                  compressed shard. */
    const char *image_feature; /* The feature with the images; NULL: the bytes feature whose values are images. */
    const char *label_feature; /* The feature with the labels; NULL: "label", or the only int64 or bytes feature like one. */
    unsigned workers;      /* The number of threads; 0: one per core that this process may use. Does not affect the result. */
    const char *cache_dir; /* The folder for indexes of shards in read-only folders; NULL: memory. */
    uint64_t max_record_bytes; /* The largest record; 0: PST_MAX_RECORD_BYTES. */
    pst_progress_fn progress;  /* Receives progress; NULL: nothing does. */
    void *user;                /* The first argument of `progress`. */
    bool allow_missing;        /* Accepts that a folder or a pattern lacks shards of a numbered set, as in x-00000-of-00008. */
} pst_inspect_options;

/* One shard. */
typedef struct pst_inspect_shard {
    const char *path;            /* The file. */
    pst_compression compression; /* Its compression. */
    uint64_t records;            /* The number of its sound records, as far as it is known. */
    uint64_t bytes;              /* Its size. */
    uint64_t damaged;            /* The number of places with damage. */
    uint64_t fingerprint;        /* A hash of its size and of samples of its bytes. */
    bool indexed;                /* It has an index. */
    pst_index_place index_place; /* Where the index is. */
    bool index_built;            /* This call built the index: it was missing or stale. */
    bool entropy;                /* The index also says where decoding may begin inside of JPEGs. */
} pst_inspect_shard;

/* A feature, or a tag of an event file. Control characters in names and previews are escaped. */
typedef struct pst_inspect_feature {
    const char *name;    /* The name; it occurs twice, with two kinds, if records disagree. */
    pst_kind kind;       /* The kind of its values. */
    pst_layout layout;   /* Its layout; PST_RAGGED: a feature list of a SequenceExample, counted over all steps. */
    uint64_t present;    /* The number of records that have it. */
    uint64_t min_count;  /* The smallest number of values per record… */
    uint64_t max_count;  /* …and the largest. */
    uint64_t min_bytes;  /* The length of the shortest bytes value… */
    uint64_t max_bytes;  /* …and of the longest. */
    double min, max;     /* The smallest and the largest finite number; NaN if there is none. */
    double mean;         /* The mean of the finite numbers; NaN if there is none. */
    bool image;          /* Its values are images. */
    bool text;           /* Its values are UTF-8. */
    uint64_t nonfinite;  /* The number of values that are NaN or infinite. */
    const char *preview; /* The first value; "" if there is none. */
} pst_inspect_feature;

/* One class. */
typedef struct pst_inspect_class {
    int64_t label;    /* The label; of a bytes label, its place in the order of names. */
    const char *name; /* The name, from labels.txt or the bytes label; "" if it is not known. */
    uint64_t records; /* The number of its records; a record with several labels counts for each. */
} pst_inspect_class;

#define PST_INSPECT_FORMATS 16 /* room for formats in pst_inspect_images */

/* All images together. */
typedef struct pst_inspect_images {
    uint64_t count;                             /* The number of images. */
    uint64_t by_format[PST_INSPECT_FORMATS];    /* The number of images per pst_image_format. */
    uint64_t by_channels[5];                    /* The number of images per number of channels. */
    uint32_t min_width, max_width;              /* The smallest and the largest width. */
    uint32_t min_height, max_height;            /* The smallest and the largest height. */
    double mean_width, mean_height, mean_bytes; /* The mean width, height and encoded size. */
} pst_inspect_images;

/* What the records are. */
typedef enum pst_content {
    PST_CONTENT_EMPTY,    /* There are no records. */
    PST_CONTENT_EXAMPLES, /* They are tf.train.Examples. */
    PST_CONTENT_EVENTS,   /* They are logs of TensorBoard. */
    PST_CONTENT_OTHER,    /* They are something else. */
    PST_CONTENT_SEQUENCES /* They are tf.train.SequenceExamples. */
} pst_content;

/* Returns the name of a content, such as "examples". */
PST_API const char *pst_content_name(pst_content content);

/* The result of an inspection. It belongs to the library, which may append members. */
typedef struct pst_inspection {
    pst_content content;                /* What the records are. */
    uint64_t records;                   /* The number of records. */
    uint64_t bytes;                     /* The size of all shards. */
    uint64_t parsed;                    /* The number of records that the figures below come from. */
    uint64_t fingerprint;               /* A hash of all shards, in order. */
    size_t shards, features, classes;   /* The lengths of the three lists. */
    const pst_inspect_shard *shard;     /* The shards. */
    const pst_inspect_feature *feature; /* The features. */
    const pst_inspect_class *class_;    /* The classes, by label. */
    pst_inspect_images images;          /* The images. */
    const char *schema;                 /* The schema as pst_schema_parse reads it; "" if there is none. */
    const char *image_feature;          /* The feature with the images; NULL if there is none. */
    const char *label_feature;          /* The feature with the labels; NULL if there is none. */
    const pst_damage_log *damage;       /* The damage; never NULL. */
    bool features_cut;                  /* There are more features than are listed. */
    bool classes_cut;                   /* The label has more values than a class label would: no classes are listed. */
} pst_inspection;

/* Inspects the shards that `count` paths stand for, as in pst_shards_find. `options` may be NULL. */
PST_API pst_status pst_inspect(const char *const *paths, size_t count, const pst_inspect_options *options, pst_inspection **ret,
                               pst_error *reterr);
/* Frees an inspection. Accepts NULL; returns NULL. */
PST_API pst_inspection *pst_inspection_destroy(pst_inspection *inspection);

/* Receives one line, without a newline. `user` is the pointer that the caller gave. */
typedef void (*pst_put_fn)(void *user, const char *line);
/* Prints up to `records` records of a shard in readable form through `put`, one call per line. */
PST_API pst_status pst_inspect_head(const char *path, uint64_t records, pst_put_fn put, void *user, pst_error *reterr);

/* ---- Contact sheets ---- */

/* Writes a PNG with `tiles` samples, spread evenly over the shards, each with its label, in tiles that are `tile_size` pixels
 * wide; 0 means 24 tiles of 160 pixels. The file appears whole. PST_EUNSUPPORTED: there are no images. */
PST_API pst_status pst_inspect_sheet(const pst_inspection *inspection, const char *png_path, uint32_t tiles, uint32_t tile_size,
                                     pst_error *reterr);

/* A picture of a contact sheet. */
typedef struct pst_tile {
    pst_image image;     /* The picture: gray, RGB or RGBA; without pixels the tile says "not readable". */
    const char *caption; /* The text below it on the left; NULL: none. */
    const char *note;    /* The fainter text on the right; NULL: none. */
} pst_tile;

/* Writes a PNG with `count` pictures of the caller, below a title and a line of small print, which may be NULL. */
PST_API pst_status pst_sheet_write(const char *png_path, const pst_tile *tiles, size_t count, uint32_t tile_size,
                                   const char *title, const char *line, pst_error *reterr);

/* ---- Repairing ---- */

/* What a repair kept and lost. */
typedef struct pst_repair_report {
    size_t size;           /* sizeof(pst_repair_report); set it before the call. */
    uint64_t kept;         /* The number of records that were kept. */
    uint64_t kept_bytes;   /* The size of their payloads. */
    uint64_t lost_records; /* The number of places with damage; one place may hide several records. */
    uint64_t lost_bytes;   /* The bytes that were lost, of the uncompressed stream. */
} pst_repair_report;

/* Writes a clean copy of `path` to `out`: every record that is whole, and no other. `log` lists what was lost, and its policy
 * limits how much may be; NULL: everything is tolerated. The copy is compressed like the original unless `options` says
 * otherwise. `stop` is asked on the way, with `stop_user` as its argument. `log`, `options`, `stop` and `ret` may be NULL.
 * PST_ECANCELLED: `stop` asked to stop; there is no copy. */
PST_API pst_status pst_repair(const char *path, const char *out, const pst_writer_options *options, pst_damage_log *log,
                              pst_stop_fn stop, void *stop_user, pst_repair_report *ret, pst_error *reterr);

/* Copies the files that describe the shards of folder `from` to folder `to`, where clean copies of the shards are:
 * features.json, labels.txt and NAME.labels.txt; with `counts` also dataset_info.json, which is right only if no record was
 * lost. Stores the number of copies in `ret`, which may be NULL. PST_EEXIST: a file exists, and `overwrite` is false. */
PST_API pst_status pst_repair_companions(const char *from, const char *to, bool counts, bool overwrite, size_t *ret,
                                         pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
