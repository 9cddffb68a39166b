/* record.h: TFRecord files: writing, sequential and random reading, indexes, damage.
 *
 * A shard is one TFRecord file. A reader walks any shard from front to back, compressed or not. A pst_shard gives
 * random access to an uncompressed one through its index. All of them check every CRC unless told otherwise. */
#ifndef PENSTOCK_RECORD_H
#define PENSTOCK_RECORD_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pst_compression {
    PST_COMPRESSION_AUTO = 0, /* reading: recognised from the first bytes; writing: none */
    PST_COMPRESSION_NONE,
    PST_COMPRESSION_GZIP,
    PST_COMPRESSION_ZLIB,
    PST_COMPRESSION_ZSTD
} pst_compression;

/* "auto", "none", "gzip", "zlib", "zstd" in any case; anything else is PST_EINVAL. */
PST_API pst_status pst_compression_parse(pst_compression *ret, const char *name, pst_error *reterr);
PST_API const char *pst_compression_name(pst_compression compression);

#define PST_MAX_RECORD_BYTES (UINT64_C(1) << 30) /* default cap on one record: a CRC protects against accidents, not attackers */

/* ---- Damage: what is wrong with the data, and how much of it is tolerated ---- */

typedef enum pst_cause {
    PST_CAUSE_LENGTH_CRC, /* the length field does not match its CRC: resynchronised behind it */
    PST_CAUSE_DATA_CRC,
    PST_CAUSE_TRUNCATED, /* the file ends inside a record */
    PST_CAUSE_TOO_LARGE, /* over max_record_bytes */
    PST_CAUSE_COMPRESSION,
    PST_CAUSE_EXAMPLE, /* not a tf.train.Example, or not of the schema */
    PST_CAUSE_IMAGE,   /* does not decode */
    PST_CAUSE_MISSING, /* a file that a list names and nobody finds */
    PST_CAUSE_VALUE,   /* an operation of a pipeline refuses it */
    PST_CAUSES
} pst_cause;
PST_API const char *pst_cause_name(pst_cause cause); /* "length crc", … */

typedef struct pst_damage {
    pst_cause cause;
    const char *path; /* owned by the log when read from one */
    uint64_t record, offset;
    uint64_t bytes; /* lost; 0 where unknown */
    const char *op; /* the source or operation of a pipeline that found it; owned as `path` is; NULL or "": none */
} pst_damage;

/* Tolerance. The zeroed struct is "error": the first damage fails. */
typedef struct pst_policy {
    bool skip;            /* skip damaged records… */
    uint64_t max_records; /* …up to this many (0: no limit) */
    double max_share;     /* …and up to this share of the records seen (0: no limit), judged from 1000 records on and at the end */
} pst_policy;

/* "error", "skip", "skip:20" (records), "skip:0.5%". */
PST_API pst_status pst_policy_parse(pst_policy *ret, const char *text, pst_error *reterr);

/* Collects damage from any number of threads and applies the policy. Keeps the first 1000 places, counts all. */
typedef struct pst_damage_log pst_damage_log;
PST_API pst_status pst_damage_log_create(pst_damage_log **ret, const pst_policy *policy, pst_error *reterr);
PST_API pst_damage_log *pst_damage_log_destroy(pst_damage_log *log); /* NULL ok; returns NULL */
/* PST_OK: tolerated, go on. Otherwise `reterr` says what was found, or that the budget is spent. `why` is the detail. */
PST_API pst_status pst_damage_log_add(pst_damage_log *log, const pst_damage *damage, const char *why, pst_error *reterr);
/* Records found, damaged or not: what a share is a share of. Readers and the opening of a shard tell it themselves. */
PST_API void pst_damage_log_seen(pst_damage_log *log, uint64_t records);
PST_API uint64_t pst_damage_log_records(const pst_damage_log *log); /* all that it was told of so */
PST_API pst_status pst_damage_log_finish(pst_damage_log *log, pst_error *reterr); /* the share, judged at the end */
PST_API uint64_t pst_damage_log_count(const pst_damage_log *log, pst_cause cause); /* PST_CAUSES: the sum */
PST_API size_t pst_damage_log_places(const pst_damage_log *log);
PST_API pst_damage pst_damage_log_place(const pst_damage_log *log, size_t i); /* borrowed from the log */

/* ---- Sequential reading ---- */

typedef struct pst_reader_options {
    size_t size; /* sizeof(pst_reader_options) */
    pst_compression compression;
    bool no_verify;            /* trust payloads (lengths are always checked) */
    uint64_t max_record_bytes; /* 0: PST_MAX_RECORD_BYTES */
    pst_damage_log *damage;    /* NULL: damage is an error. Not owned. */
    pst_stop_fn stop;          /* asked while it opens and reads; NULL: nothing stops it */
    void *stop_user;
} pst_reader_options;

typedef struct pst_record {
    const uint8_t *data; /* valid until the next call on the reader */
    size_t length;
    uint64_t record, offset; /* offset of the framing's first byte */
} pst_record;

typedef struct pst_reader pst_reader;
PST_API pst_status pst_reader_open(pst_reader **ret, const char *path, const pst_reader_options *options, pst_error *reterr);
PST_API pst_status pst_reader_next(pst_reader *reader, pst_record *ret, pst_error *reterr); /* OK, END or < 0 */
PST_API pst_compression pst_reader_compression(const pst_reader *reader);
PST_API pst_reader *pst_reader_close(pst_reader *reader); /* NULL ok; returns NULL */

/* ---- Random access ---- */

typedef enum pst_index_place {
    PST_INDEX_SIDECAR, /* X.pidx beside the shard */
    PST_INDEX_CACHE,   /* in the cache folder, as the shard's own is not writable */
    PST_INDEX_TEXT,    /* a DALI / tfrecord2idx text index found beside the shard */
    PST_INDEX_MEMORY   /* nowhere: made by a scan, gone with the shard */
} pst_index_place;
PST_API const char *pst_index_place_name(pst_index_place place);

typedef struct pst_shard_options {
    size_t size;
    bool no_verify;
    bool no_write;             /* never write an index: scan into memory if none is found */
    const char *cache_dir;     /* where an index goes when the shard's folder is read-only; NULL: memory */
    uint64_t max_record_bytes; /* 0: PST_MAX_RECORD_BYTES */
    pst_damage_log *damage;    /* for stretches that hold no sound record, at every opening; NULL: they are an error */
    pst_stop_fn stop;          /* asked while the shard is scanned for its index; NULL: nothing stops it */
    void *stop_user;
} pst_shard_options;

typedef struct pst_shard pst_shard;
/* Opens a shard and its index; a missing or stale index is built by one scan and kept. A compressed shard has no
 * random access: PST_EUNSUPPORTED says so, and what to do. PST_ESTALE: it was written to while it was scanned. */
PST_API pst_status pst_shard_open(pst_shard **ret, const char *path, const pst_shard_options *options, pst_error *reterr);
PST_API pst_shard *pst_shard_close(pst_shard *shard); /* NULL ok; returns NULL */
PST_API const char *pst_shard_path(const pst_shard *shard);
PST_API uint64_t pst_shard_count(const pst_shard *shard);
PST_API uint64_t pst_shard_bytes(const pst_shard *shard); /* of the file */
PST_API uint64_t pst_shard_fingerprint(const pst_shard *shard);
PST_API pst_index_place pst_shard_index_place(const pst_shard *shard);
PST_API bool pst_shard_index_built(const pst_shard *shard); /* by this open: it was missing or stale */
/* Where record `i` lies: its framing's first byte and its payload's length. `i` must be < count. */
PST_API void pst_shard_locate(const pst_shard *shard, uint64_t i, uint64_t *ret_offset, uint64_t *ret_length);
/* Reads record `i` straight into `buffer` (its length bytes) and verifies it. Safe from any number of threads. */
PST_API pst_status pst_shard_read(const pst_shard *shard, uint64_t i, void *buffer, size_t capacity, size_t *ret_length,
                                  pst_error *reterr);

/* What `penstock index` does for one shard: `check` only compares an existing index with a full scan, its
 * entropy index with the JPEGs. An index that is made and
 * can be kept neither beside the shard nor in the cache folder is an error, unless `no_write` asks for it. */
typedef struct pst_index_report {
    uint64_t records, bytes, fingerprint;
    pst_index_place place;
    bool written; /* false: it was there and right */
    char path[512];
} pst_index_report;
PST_API pst_status pst_index_make(const char *path, const pst_shard_options *options, bool rebuild, bool check,
                                  pst_index_report *ret, pst_error *reterr);

/* What `penstock index --entropy` does for one shard: finds its JPEGs (in the bytes of Examples, or records that are one) and
 * keeps in the index where decoding may begin inside of them. An index that has that already is left alone unless `rebuild`.
 * `workers` 0: the cores this process may use. PST_ECANCELLED leaves the index as it was. */
typedef struct pst_entropy_report {
    uint64_t jpegs, jpeg_bytes; /* found */
    uint64_t indexed, points;   /* JPEGs that have points, and how many those are */
    uint64_t small;             /* JPEGs that need none: there is no place behind the first to begin at */
    uint64_t foreign;           /* …that are left to libjpeg-turbo: progressive, CMYK, … */
    uint64_t damaged;
    uint64_t bytes;             /* that this takes in the index */
    uint64_t bad_records;       /* whose checksum is wrong: not looked into; known only when `written` */
    bool written;
} pst_entropy_report;
PST_API pst_status pst_index_entropy(const char *path, const pst_shard_options *options, bool rebuild, unsigned workers,
                                     pst_progress_fn progress, void *user, pst_entropy_report *ret, pst_error *reterr);

/* ---- Writing ---- */

typedef struct pst_writer_options {
    size_t size;
    pst_compression compression;
    int level;      /* of the compression; 0: its default */
    bool no_sync;   /* publish without fsync: faster, and lost or torn if the machine fails */
    bool no_index;  /* no sidecar (a compressed shard never has one) */
    bool overwrite; /* replace an existing regular file; PST_EEXIST for anything else, and without it */
} pst_writer_options;

typedef struct pst_writer pst_writer;
/* Writes to a temporary file in the same folder; nothing appears under `path` before pst_writer_commit. */
PST_API pst_status pst_writer_open(pst_writer **ret, const char *path, const pst_writer_options *options, pst_error *reterr);
PST_API pst_status pst_writer_write(pst_writer *writer, const void *data, size_t length, pst_error *reterr);
PST_API uint64_t pst_writer_count(const pst_writer *writer);
/* Publishes the shard, then its index; then only close. When only the index fails, the shard is there and whole. */
PST_API pst_status pst_writer_commit(pst_writer *writer, pst_error *reterr);
PST_API pst_writer *pst_writer_close(pst_writer *writer); /* NULL ok; discards what was not committed; returns NULL */

#ifdef __cplusplus
}
#endif
#endif
