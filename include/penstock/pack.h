/* pack.h: files, arrays and tables in, shards of tf.train.Example out.
 *
 * The output is a function of the sources and the options alone: the number of workers, interruptions and repeated runs do not
 * affect it. Each shard appears whole or not at all; the same call after an interruption resumes where it stopped. */
#ifndef PENSTOCK_PACK_H
#define PENSTOCK_PACK_H

#include <penstock/base.h>
#include <penstock/image.h>
#include <penstock/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How data are packed. A member that is 0 has its default. */
typedef struct pst_pack_options {
    size_t size; /* sizeof(pst_pack_options). */
    /* The sources. */
    const char *from;    /* The kind: "folder", "list", "csv", "tar", "npy", "hdf5", "text", "tfrecord"; NULL: inferred from the
                            path. */
    const char *columns; /* The columns of a csv, "name:kind,…" with the kinds int, float and string; NULL: inferred from the
                            whole table. */
    char delimiter;      /* The delimiter of a csv or a list; 0: inferred. */
    bool no_header;      /* The csv has no header; its columns are called c0, c1, … */
    /* The output. */
    const char *name;     /* The name of the dataset; NULL: that of the output folder. */
    const char *version;  /* Its version; NULL: "1.0.0". */
    const char *features; /* Renames features and leaves them out: "image=picture,label=class,key="; NULL: image, label, key,
                             width and height. */
    uint32_t shards;      /* The number of shards; 0: as `shard_size` says. */
    uint64_t shard_size;  /* The size of a shard in bytes, approximately; 0: 256 MiB. */
    const char *split;    /* The splits, "train=0.9,val=0.1", by a hash of the key; NULL: everything in "train". */
    bool shuffle;         /* Stores the records in random order. */
    uint64_t seed;        /* The seed of `shuffle` and `augment`. */
    pst_compression compression; /* The compression of the shards; PST_COMPRESSION_AUTO: none. */
    int level;                   /* The level of the compression; 0: its default. */
    /* Images. Without any of these options their bytes are stored unchanged. */
    const char *resize;      /* The size: "256" for the short side, "320x240" for exactly width × height; NULL: unchanged. */
    pst_image_format format; /* The format; PST_IMAGE_UNKNOWN: that of the source, also of resized images. */
    int quality;             /* The quality, 1 to 100; 0: 90. */
    uint32_t channels;       /* The channels: 1 gray, 3 RGB; 0: as in the source. */
    uint32_t augment;        /* The number of augmented copies that are stored with each original. */
    /* The run. */
    unsigned workers; /* The number of threads; 0: one per core that this process may use. */
    const char *bad;  /* What happens to items that cannot be read or decoded: "error", "skip", "skip:20", "skip:0.5%"; NULL:
                         "error". */
    bool force;       /* Replaces what another command packed into the folder. */
    bool no_sync;     /* Does not wait until the data are on the disk: faster, and incomplete if the machine fails. */
    pst_progress_fn progress; /* Receives progress; NULL: nothing does. */
    void *user;               /* The first argument of `progress`. */
    bool entropy;             /* Stores in the indexes where decoding may begin inside of JPEGs; not for compressed shards. */
    /* Packing by many processes: each writes one part of the shards, one call joins them. The result is that of one process. */
    uint32_t part;  /* This call writes only part `part` of `parts` (from 1), into OUT/part-00003-of-00064, in a store into OUT; 0: everything. */
    uint32_t parts; /* The number of parts. */
    bool join;      /* Moves the shards of all parts into OUT and completes the dataset. */
    double patience; /* The parts are packed at the same time, by the processes of one job: part 1 waits for the others and joins, and its report is
                        that of the whole. Seconds without a sign of life after which it gives a part up; 0: parts and join are separate calls. */
    const char *job; /* With `patience`: a name that all processes of this job have and no other job has, so that failures of earlier jobs are told from its
                        own; NULL: unknown. */
} pst_pack_options;

/* An item that was skipped. */
typedef struct pst_pack_skip {
    const char *key; /* Which item. */
    const char *why; /* Why it was skipped. */
} pst_pack_skip;

/* A split that was written. */
typedef struct pst_pack_split {
    const char *name; /* Its name. */
    uint64_t records; /* The number of its records. */
    uint64_t bytes;   /* The size of its shards. */
    uint64_t shards;  /* The number of its shards. */
} pst_pack_split;

/* The result of packing. It belongs to the library, which may append members. */
typedef struct pst_pack_report {
    uint64_t records;            /* The number of records in all shards. */
    uint64_t bytes;              /* The size of all shards. */
    uint64_t source_bytes;       /* The size of the sources. */
    uint64_t resumed_shards;     /* Shards that an earlier run had completed. */
    bool up_to_date;             /* The same command had finished already: nothing was done. */
    double seconds;              /* The time that it took. */
    size_t classes;              /* The number of classes; 0: the sources have none. */
    size_t splits;               /* The number of splits… */
    const pst_pack_split *split; /* …and the splits. */
    size_t skips;                /* The number of skipped items that are listed… */
    const pst_pack_skip *skip;   /* …and the items. */
    size_t notes;                /* The number of notes for the user… */
    const char *const *note;     /* …and the notes, such as "x.csv.gz was unpacked to a temporary file first". */
} pst_pack_report;

/* Packs `count` sources into the folder `out`. `options` may be NULL. `ret` may be NULL; otherwise release `*ret` with
 * pst_pack_report_destroy. PST_EEXIST: the folder holds something else. PST_ENOTFOUND from a join: a part is not complete.
 * PST_ECANCELLED: `progress` asked to stop; the same call resumes. */
PST_API pst_status pst_pack(const char *const *sources, size_t count, const char *out, const pst_pack_options *options,
                            pst_pack_report **ret, pst_error *reterr);
/* Frees a report. Accepts NULL; returns NULL. */
PST_API pst_pack_report *pst_pack_report_destroy(pst_pack_report *report);

#ifdef __cplusplus
}
#endif
#endif
