/* record.h: TFRecord files: writing, sequential and random reading, indexes, damage.
 *
 * A shard is one TFRecord file. A reader goes through any shard from the first record to the last, compressed or not. A
 * pst_shard gives random access to an uncompressed one through its index. All of them verify every checksum unless told
 * otherwise. */
#ifndef PENSTOCK_RECORD_H
#define PENSTOCK_RECORD_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a shard is compressed. */
typedef enum pst_compression {
    PST_COMPRESSION_AUTO = 0, /* Readers recognise it from the first bytes; writers do not compress. */
    PST_COMPRESSION_NONE,     /* The shard is not compressed. */
    PST_COMPRESSION_GZIP,     /* The shard is one stream of gzip. */
    PST_COMPRESSION_ZLIB,     /* The shard is one stream of zlib. */
    PST_COMPRESSION_ZSTD      /* The shard is one stream of Zstandard. */
} pst_compression;

/* Stores the compression called "auto", "none", "gzip", "zlib" or "zstd", in any case. PST_EINVAL: there is no such
 * compression. */
PST_API pst_status pst_compression_parse(pst_compression *ret, const char *name, pst_error *reterr);
/* Returns the name of a compression. */
PST_API const char *pst_compression_name(pst_compression compression);

#define PST_MAX_RECORD_BYTES (UINT64_C(1) << 30) /* default limit of one record: a checksum protects against accidents only */

/* ---- Damage: what is wrong with the data, and how much of it is tolerated ---- */

/* What is wrong with data. */
typedef enum pst_cause {
    PST_CAUSE_LENGTH_CRC,  /* A length does not match its checksum; reading resumes at the next sound record. */
    PST_CAUSE_DATA_CRC,    /* A payload does not match its checksum. */
    PST_CAUSE_TRUNCATED,   /* The file ends inside of a record. */
    PST_CAUSE_TOO_LARGE,   /* A record exceeds max_record_bytes. */
    PST_CAUSE_COMPRESSION, /* The compressed stream is damaged. */
    PST_CAUSE_EXAMPLE,     /* A record is not a tf.train.Example, or does not match the schema. */
    PST_CAUSE_IMAGE,       /* An image does not decode. */
    PST_CAUSE_MISSING,     /* A listed file does not exist. */
    PST_CAUSE_VALUE,       /* An operation of a pipeline refuses an element. */
    PST_CAUSE_INDEX,       /* A record is sound, but its index stores something wrong about it. */
    PST_CAUSES             /* The number of causes of this version. */
} pst_cause;

/* Returns the name of a cause, such as "length crc". */
PST_API const char *pst_cause_name(pst_cause cause);

/* One place with damage. */
typedef struct pst_damage {
    pst_cause cause;  /* What is wrong. */
    const char *path; /* The file; of a place in a log it belongs to the log. */
    uint64_t record;  /* The number of the record, or PST_NOWHERE. */
    uint64_t offset;  /* The byte at which the damage begins, or PST_NOWHERE. */
    uint64_t bytes;   /* The bytes that are lost; 0 if that is not known. */
    const char *op;   /* The source or operation of a pipeline that found it, owned like `path`; NULL or "": none. */
} pst_damage;

/* How much damage is tolerated. Zeroed: none; the first damage is an error. */
typedef struct pst_policy {
    bool skip;            /* Skips damaged records… */
    uint64_t max_records; /* …up to this number; 0: no limit… */
    double max_share; /* …and up to this share of the records seen, judged from 1000 records on and at the end; 0: no limit. */
} pst_policy;

/* Stores the policy that a text describes: "error", "skip", "skip:20" (records) or "skip:0.5%". PST_EINVAL: it is none of
 * these. */
PST_API pst_status pst_policy_parse(pst_policy *ret, const char *text, pst_error *reterr);

/* Collects damage from any number of threads and applies a policy. Keeps the first 1000 places and counts all. */
typedef struct pst_damage_log pst_damage_log;

/* Creates an empty log. `policy` may be NULL, which tolerates nothing. */
PST_API pst_status pst_damage_log_create(pst_damage_log **ret, const pst_policy *policy, pst_error *reterr);
/* Frees a log. Accepts NULL; returns NULL. */
PST_API pst_damage_log *pst_damage_log_destroy(pst_damage_log *log);
/* Adds damage with the detail `why`. PST_OK: it is tolerated. Otherwise `reterr` says what was found, or that the policy allows
 * no more. */
PST_API pst_status pst_damage_log_add(pst_damage_log *log, const pst_damage *damage, const char *why, pst_error *reterr);
/* Adds to the number of records that were seen, damaged or not, of which a share is judged. Readers and shards do this by
 * themselves. */
PST_API void pst_damage_log_seen(pst_damage_log *log, uint64_t records);
/* Returns the number of records that were seen. */
PST_API uint64_t pst_damage_log_records(const pst_damage_log *log);
/* Judges the share at the end. Fails if it exceeds the policy. */
PST_API pst_status pst_damage_log_finish(pst_damage_log *log, pst_error *reterr);
/* Returns the number of times that `cause` was found. */
PST_API uint64_t pst_damage_log_count(const pst_damage_log *log, pst_cause cause);
/* Returns the number of times that anything was found. */
PST_API uint64_t pst_damage_log_total(const pst_damage_log *log);
/* Returns the number of places that were kept. */
PST_API size_t pst_damage_log_places(const pst_damage_log *log);
/* Returns place `i`; its path is valid as long as the log. */
PST_API pst_damage pst_damage_log_place(const pst_damage_log *log, size_t i);

/* ---- Sequential reading ---- */

/* How a shard is read. A member that is 0 has its default. */
typedef struct pst_reader_options {
    size_t size;                 /* sizeof(pst_reader_options). */
    pst_compression compression; /* The compression; PST_COMPRESSION_AUTO recognises it. */
    bool no_verify;              /* Does not check the checksums of payloads; lengths are always checked. */
    uint64_t max_record_bytes;   /* The largest record; 0: PST_MAX_RECORD_BYTES. */
    pst_damage_log *damage;      /* Receives damage and decides whether it is tolerated; NULL: damage is an error. Not owned. */
    pst_stop_fn stop;            /* Is asked while the reader opens and reads; NULL: nothing stops it. */
    void *stop_user;             /* The argument of `stop`. */
} pst_reader_options;

/* One record. */
typedef struct pst_record {
    const uint8_t *data; /* The payload, valid until the next call on the reader. */
    size_t length;       /* Its length. */
    uint64_t record;     /* The number of the record in the file. */
    uint64_t offset;     /* The byte at which the record, with its header, begins. */
} pst_record;

typedef struct pst_reader pst_reader;

/* Opens a shard for reading from the first record to the last. `options` may be NULL. */
PST_API pst_status pst_reader_open(pst_reader **ret, const char *path, const pst_reader_options *options, pst_error *reterr);
/* Stores the next record. Returns PST_OK, PST_END after the last one, or a failure. */
PST_API pst_status pst_reader_next(pst_reader *reader, pst_record *ret, pst_error *reterr);
/* Returns the compression of the file. */
PST_API pst_compression pst_reader_compression(const pst_reader *reader);
/* Closes a reader. Accepts NULL; returns NULL. */
PST_API pst_reader *pst_reader_close(pst_reader *reader);

/* ---- Random access ---- */

/* Where an index is. */
typedef enum pst_index_place {
    PST_INDEX_SIDECAR, /* It is in the file X.pidx beside the shard. */
    PST_INDEX_CACHE,   /* It is in the cache folder, as the folder of the shard is not writable. */
    PST_INDEX_TEXT,    /* It is a text index of DALI or tfrecord2idx beside the shard. */
    PST_INDEX_MEMORY   /* It is in memory, made by a scan. */
} pst_index_place;

/* Returns the name of a place, such as "sidecar". */
PST_API const char *pst_index_place_name(pst_index_place place);

/* How a shard is opened for random access. A member that is 0 has its default. */
typedef struct pst_shard_options {
    size_t size;               /* sizeof(pst_shard_options). */
    bool no_verify;            /* Does not check the checksums of payloads. */
    bool no_write;             /* Never writes an index: where none is found, a scan makes one in memory. */
    const char *cache_dir;     /* The folder for indexes of shards in read-only folders; NULL: memory. */
    uint64_t max_record_bytes; /* The largest record; 0: PST_MAX_RECORD_BYTES. */
    pst_damage_log *damage;    /* Receives, at every opening, stretches that hold no sound record; NULL: they are an error. */
    pst_stop_fn stop;          /* Is asked while the shard is scanned for its index; NULL: nothing stops it. */
    void *stop_user;           /* The argument of `stop`. */
} pst_shard_options;

typedef struct pst_shard pst_shard;

/* Opens a shard and its index; a missing or stale index is built by one scan and kept. `options` may be NULL. PST_EUNSUPPORTED:
 * the shard is compressed and has no random access; the message says what to do. PST_ESTALE: it was written to during the
 * scan. */
PST_API pst_status pst_shard_open(pst_shard **ret, const char *path, const pst_shard_options *options, pst_error *reterr);
/* Closes a shard. Accepts NULL; returns NULL. */
PST_API pst_shard *pst_shard_close(pst_shard *shard);
/* Returns the path, valid as long as the shard. */
PST_API const char *pst_shard_path(const pst_shard *shard);
/* Returns the number of records. */
PST_API uint64_t pst_shard_count(const pst_shard *shard);
/* Returns the size of the file. */
PST_API uint64_t pst_shard_bytes(const pst_shard *shard);
/* Returns a hash of the size and of samples of the bytes. */
PST_API uint64_t pst_shard_fingerprint(const pst_shard *shard);
/* Returns where the index is. */
PST_API pst_index_place pst_shard_index_place(const pst_shard *shard);
/* Returns whether this opening built the index, as it was missing or stale. */
PST_API bool pst_shard_index_built(const pst_shard *shard);
/* Stores the byte at which record `i`, with its header, begins, and the length of its payload. `i` must be less than the number
 * of records. */
PST_API void pst_shard_locate(const pst_shard *shard, uint64_t i, uint64_t *ret_offset, uint64_t *ret_length);
/* Reads record `i` into `buffer`, which has `capacity` bytes, verifies it and stores its length. May be called from any number
 * of threads at once. */
PST_API pst_status pst_shard_read(const pst_shard *shard, uint64_t i, void *buffer, size_t capacity, size_t *ret_length,
                                  pst_error *reterr);

/* ---- Indexes ---- */

/* What pst_index_make found and did. */
typedef struct pst_index_report {
    size_t size;           /* sizeof(pst_index_report); set it before the call. */
    uint64_t records;      /* The number of records. */
    uint64_t bytes;        /* The size of the shard. */
    uint64_t fingerprint;  /* The fingerprint of the shard. */
    pst_index_place place; /* Where the index is. */
    bool written;          /* The index was written; false: it existed and was right. */
    char path[512];        /* The file of the index; "" if it is in memory. */
} pst_index_report;

/* Makes the index of a shard, as `penstock index` does. `rebuild` makes it anew; `check` only compares an existing index with a
 * full scan, and its entropy index with the JPEGs. `options` may be NULL. An index that can be kept neither beside the shard
 * nor in the cache folder is an error unless `no_write` is set. PST_ESTALE: the index does not match the shard. */
PST_API pst_status pst_index_make(const char *path, const pst_shard_options *options, bool rebuild, bool check,
                                  pst_index_report *ret, pst_error *reterr);

/* What pst_index_entropy found and did. */
typedef struct pst_entropy_report {
    size_t size;          /* sizeof(pst_entropy_report); set it before the call. */
    uint64_t jpegs;       /* The number of JPEGs that were found. */
    uint64_t jpeg_bytes;  /* Their size. */
    uint64_t indexed;     /* The number of JPEGs with points. */
    uint64_t points;      /* The number of these points. */
    uint64_t small;       /* The number of JPEGs that need no points: there is only one place to begin at. */
    uint64_t foreign;     /* The number of JPEGs that are left to libjpeg-turbo, such as progressive and CMYK ones. */
    uint64_t damaged;     /* The number of damaged JPEGs. */
    uint64_t bytes;       /* The size of the points in the index. */
    uint64_t bad_records; /* The number of records with a wrong checksum, which are left out; known only if `written`. */
    bool written;         /* The index was written; false: it had the points already. */
} pst_entropy_report;

/* Adds to the index of a shard where decoding may begin inside of its JPEGs, as `penstock index --entropy` does. JPEGs are
 * found in the bytes of Examples, and in records that are one. An index that has the points already is left alone unless
 * `rebuild`. `workers` is the number of threads; 0: one per core that this process may use. `options` and `progress` may be
 * NULL. PST_ECANCELLED: `progress` asked to stop; the index is as before. */
PST_API pst_status pst_index_entropy(const char *path, const pst_shard_options *options, bool rebuild, unsigned workers,
                                     pst_progress_fn progress, void *user, pst_entropy_report *ret, pst_error *reterr);

/* ---- Writing ---- */

/* How a shard is written. A member that is 0 has its default. */
typedef struct pst_writer_options {
    size_t size;                 /* sizeof(pst_writer_options). */
    pst_compression compression; /* The compression; PST_COMPRESSION_AUTO: none. */
    int level;                   /* The level of the compression; 0: its default. */
    bool no_sync;                /* Publishes without fsync: faster, and lost or incomplete if the machine fails. */
    bool no_index;               /* Writes no index beside the shard; a compressed shard never has one. */
    bool overwrite;              /* Replaces an existing file, which is otherwise PST_EEXIST. */
} pst_writer_options;

typedef struct pst_writer pst_writer;

/* Begins a shard in a temporary file in the same folder; nothing appears under `path` before pst_writer_commit. `options` may
 * be NULL. */
PST_API pst_status pst_writer_open(pst_writer **ret, const char *path, const pst_writer_options *options, pst_error *reterr);
/* Appends a record of `length` bytes. */
PST_API pst_status pst_writer_write(pst_writer *writer, const void *data, size_t length, pst_error *reterr);
/* Returns the number of records that were written. */
PST_API uint64_t pst_writer_count(const pst_writer *writer);
/* Publishes the shard, then its index; after it only pst_writer_close is allowed. If only the index fails, the shard is
 * complete. */
PST_API pst_status pst_writer_commit(pst_writer *writer, pst_error *reterr);
/* Closes a writer and discards what was not committed. Accepts NULL; returns NULL. */
PST_API pst_writer *pst_writer_close(pst_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
