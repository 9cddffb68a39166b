/* pack.h: files, arrays and tables in, shards of tf.train.Example out.
 *
 * The output is a function of the sources and the options alone: the number of workers, interruptions and reruns do not
 * show in it. Each shard appears whole or not at all; the same call after an interruption goes on where it stopped. */
#ifndef PENSTOCK_PACK_H
#define PENSTOCK_PACK_H

#include <penstock/base.h>
#include <penstock/image.h>
#include <penstock/record.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pst_pack_options {
    size_t size;
    /* what the sources are */
    const char *from;     /* "folder", "list", "csv", "tar", "npy", "hdf5", "text", "tfrecord"; NULL: recognised from the path */
    const char *columns;  /* csv: "name:kind,…" with kinds int, float, string; NULL: inferred from the whole table */
    char delimiter;       /* csv, list: 0 means recognised */
    bool no_header;       /* csv: columns are named c0, c1, … */
    /* what is written */
    const char *name;     /* NULL: the output folder's name */
    const char *version;  /* NULL: "1.0.0" */
    const char *features; /* renames and leaves out: "image=picture,label=class,key=" ; NULL: image, label, key, width, height */
    uint32_t shards;      /* 0: from shard_size */
    uint64_t shard_size;  /* target bytes; 0: 256 MiB */
    const char *split;    /* "train=0.9,val=0.1" by hash of the key; NULL: all in "train" */
    bool shuffle;
    uint64_t seed;        /* of shuffle and augment */
    pst_compression compression;
    int level;
    /* what happens to images; with none of these their bytes are stored untouched */
    const char *resize;        /* "256": the short side; "320x240": exactly width × height */
    pst_image_format format;   /* PST_IMAGE_UNKNOWN: as the source; resized sources keep their format */
    int quality;               /* 0: 90 */
    uint32_t channels;         /* 0: as the source, 1 gray, 3 RGB */
    uint32_t augment;          /* augmented copies stored beside each original */
    /* how it runs */
    unsigned workers; /* 0: the cores this process may use */
    const char *bad;  /* items that cannot be read or decoded: "error", "skip", "skip:20", "skip:0.5%"; NULL: "error" */
    bool force;       /* replace what another command packed there */
    bool no_sync;
    pst_progress_fn progress;
    void *user;
    bool entropy;     /* also keep in the indexes where decoding may begin inside of JPEGs; not of compressed shards */
} pst_pack_options;

typedef struct pst_pack_skip {
    const char *key, *why;
} pst_pack_skip;

typedef struct pst_pack_split {
    const char *name;
    uint64_t records, bytes, shards;
} pst_pack_split;

typedef struct pst_pack_report {
    uint64_t records, bytes; /* written, of all shards */
    uint64_t source_bytes;
    uint64_t resumed_shards; /* found complete from an earlier run */
    bool up_to_date;         /* the same command had finished already: nothing was done */
    double seconds;
    size_t classes;          /* 0: the sources have no classes */
    size_t splits;
    const pst_pack_split *split;
    size_t skips;
    const pst_pack_skip *skip;
    size_t notes;            /* what a user should know: "x.csv.gz was unpacked to a temporary file first", … */
    const char *const *note;
} pst_pack_report;

/* Packs `sources` into the folder `out`. `*ret` (may be NULL) is filled on PST_OK and released by pst_pack_report_destroy. */
PST_API pst_status pst_pack(const char *const *sources, size_t count, const char *out, const pst_pack_options *options,
                            pst_pack_report **ret, pst_error *reterr);
PST_API pst_pack_report *pst_pack_report_destroy(pst_pack_report *report); /* NULL ok; returns NULL */

#ifdef __cplusplus
}
#endif
#endif
