/* inspect.h: what is in a set of shards, whether it is sound, and how to save what is left of a damaged one. */
#ifndef PENSTOCK_INSPECT_H
#define PENSTOCK_INSPECT_H

#include <penstock/base.h>
#include <penstock/example.h>
#include <penstock/image.h>
#include <penstock/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_inspect_options {
    size_t size;
    bool verify;              /* read every record, check every CRC, decode every image */
    uint64_t sample;          /* records to parse, spread evenly; 0: 100,000. Verifying, or a compressed shard, parses all. */
    const char *image_feature; /* NULL: the bytes feature whose values are images */
    const char *label_feature; /* NULL: "label", else the only int64 or bytes feature that looks like one */
    unsigned workers;          /* 0: the cores this process may use. The result does not depend on it. */
    const char *cache_dir;     /* where indexes go when a shard's folder is read-only; NULL: memory */
    uint64_t max_record_bytes; /* 0: PST_MAX_RECORD_BYTES */
    pst_progress_fn progress;
    void *user;
    bool allow_missing; /* a folder or pattern may lack shards of a numbered set such as x-00000-of-00008 */
} pst_inspect_options;

typedef struct pst_inspect_shard {
    const char *path;
    pst_compression compression;
    uint64_t records; /* sound, as far as is known */
    uint64_t bytes, damaged;
    uint64_t fingerprint; /* of the file's size and sampled bytes */
    bool indexed;
    pst_index_place index_place;
    bool index_built; /* by this call: it was missing or stale */
    bool entropy;     /* the index also has places inside of JPEGs where decoding may begin */
} pst_inspect_shard;

/* A feature, or a tag of an event file. Names and previews come from the data; what is not printable in them is escaped. */
typedef struct pst_inspect_feature {
    const char *name; /* may occur twice, with two kinds: some records disagree with the others */
    pst_kind kind;
    pst_layout layout; /* PST_RAGGED: a feature list of a SequenceExample, its counts over all steps */
    uint64_t present;              /* records that have it */
    uint64_t min_count, max_count; /* values a record */
    uint64_t min_bytes, max_bytes; /* of bytes values */
    double min, max, mean;         /* of finite numbers; NaN where there is none */
    bool image;                    /* its values are images */
    bool text;                     /* its values are UTF-8 */
    uint64_t nonfinite;            /* values that are NaN or infinite */
    const char *preview;           /* the first value; "" where there is none */
} pst_inspect_feature;

typedef struct pst_inspect_class {
    int64_t label;    /* of a bytes label: its place in the order of names */
    const char *name; /* from labels.txt, or the bytes label; "" where unknown */
    uint64_t records; /* one with several labels counts for each */
} pst_inspect_class;

typedef struct pst_inspect_images {
    uint64_t count;
    uint64_t by_format[PST_IMAGE_FORMATS];
    uint64_t by_channels[5];
    uint32_t min_width, max_width, min_height, max_height;
    double mean_width, mean_height, mean_bytes;
} pst_inspect_images;

typedef enum pst_content {
    PST_CONTENT_EMPTY,    /* no records */
    PST_CONTENT_EXAMPLES, /* tf.train.Example */
    PST_CONTENT_EVENTS,   /* TensorBoard's logs */
    PST_CONTENT_OTHER,
    PST_CONTENT_SEQUENCES /* tf.train.SequenceExample */
} pst_content;
PST_API const char *pst_content_name(pst_content content); /* "examples", … */

typedef struct pst_inspection {
    pst_content content; /* Examples, TensorBoard events, or neither */
    uint64_t records, bytes, parsed; /* parsed: how many records the figures below come from */
    uint64_t fingerprint; /* of all shards in order */
    size_t shards, features, classes;
    const pst_inspect_shard *shard;
    const pst_inspect_feature *feature;
    const pst_inspect_class *class_; /* by label */
    pst_inspect_images images;
    const char *schema; /* as pst_schema_parse reads it; "" if none */
    const char *image_feature, *label_feature; /* the ones chosen; NULL if none */
    const pst_damage_log *damage; /* never NULL */
    bool features_cut;            /* there are more features than are kept */
    bool classes_cut;             /* the label has more values than a class label would: none are kept */
} pst_inspection;

/* Expands folders and globs to shards (a folder: everything that looks like a TFRecord or event file, in it or else one or
 * two levels below), sorted by name. A file stands for itself; an index or labels.txt named among shards is left out.
 * Finding nothing is PST_ENOTFOUND, naming the pattern. `*ret` is an array of `*ret_count` strings in one block; release it
 * with pst_free. */
PST_API pst_status pst_shards_find(char ***ret, size_t *ret_count, const char *const *paths, size_t count, pst_error *reterr);

PST_API pst_status pst_inspect(const char *const *paths, size_t count, const pst_inspect_options *options, pst_inspection **ret,
                               pst_error *reterr);
PST_API pst_inspection *pst_inspection_destroy(pst_inspection *inspection);

/* A contact sheet of `tiles` samples spread evenly over the shards, each with its label, as a PNG of tiles that are
 * `tile_size` pixels wide (0: 24 tiles of 160). Published whole. PST_EUNSUPPORTED where there are no images. */
PST_API pst_status pst_inspect_sheet(const pst_inspection *inspection, const char *png_path, uint32_t tiles, uint32_t tile_size,
                                     pst_error *reterr);

/* The same of pictures that the caller has, below a title and a line of small print (NULL ok). */
typedef struct pst_tile {
    pst_image image;            /* gray, RGB or RGBA; without pixels the tile says "not readable" */
    const char *caption, *note; /* below it, to the left and fainter to the right; NULL: none */
} pst_tile;
PST_API pst_status pst_sheet_write(const char *png_path, const pst_tile *tiles, size_t count, uint32_t tile_size,
                                   const char *title, const char *line, pst_error *reterr);

/* Prints records in readable form through `put` (a line a call, no newline); at most `records` of them. */
typedef void (*pst_put_fn)(void *user, const char *line);
PST_API pst_status pst_inspect_head(const char *path, uint64_t records, pst_put_fn put, void *user, pst_error *reterr);

/* Writes a clean copy of `path`: every record that is whole, none that is not. `log` (NULL ok) says what was lost, and its
 * policy how much may be. Compressed as `path` is, unless `options` (NULL ok) say otherwise. `stop` (NULL ok) is asked on the
 * way: PST_ECANCELLED leaves no copy. */
typedef struct pst_repair_report {
    uint64_t kept, kept_bytes; /* bytes of payloads */
    uint64_t lost_records;     /* places of damage: one may hide several records */
    uint64_t lost_bytes;       /* of the (uncompressed) stream */
} pst_repair_report;
PST_API pst_status pst_repair(const char *path, const char *out, const pst_writer_options *options, pst_damage_log *log,
                              pst_stop_fn stop, void *stop_user, pst_repair_report *ret, pst_error *reterr);

/* Copies the files that describe the shards of folder `from` to folder `to`, where clean copies of them are: features.json,
 * labels.txt and NAME.labels.txt, and with `counts` also dataset_info.json, which is right only when no record was lost. An
 * existing file is PST_EEXIST unless `overwrite`. Stores the number of copies in `ret` (NULL ok). */
PST_API pst_status pst_repair_companions(const char *from, const char *to, bool counts, bool overwrite, size_t *ret,
                                         pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
