/* index.h: the sidecar index X.pidx: the position of each record of a shard, and the fingerprint of the shard. Format:
 * docs/formats.md. */
#ifndef RECORD_INDEX_H
#define RECORD_INDEX_H

#include "io/file.h"
#include "io/mapping.h"
#include <penstock/record.h>

struct index_entry {
    uint64_t offset, length; /* offset of the frame; length of the payload */
};

/* How the content of an index file is held. A mapped part may change or disappear whenever another process writes to the
 * file. */
enum index_hold {
    INDEX_VIEWED, /* in memory, except for a long JPEG section, which is mapped */
    INDEX_COPIED, /* all in memory */
    INDEX_MAPPED  /* all mapped, where the file is not small */
};

/* An index in memory or mapped. Entries are sorted by offset and lie inside the shard; mapped entries did when they were
 * checked. */
struct index {
    const struct index_entry *entries;
    uint64_t count;
    uint64_t gaps; /* ranges of the shard that belong to no entry: damage */
    uint64_t shard_bytes, fingerprint;
    const char *note; /* the NOTE section: text that pack stores with the shard (the items it skipped); NULL if none */
    size_t note_length;
    const char *version; /* the ETAG section: which version of an object in a store (file_version) it was made from; NULL if none */
    size_t version_length;
    const void *jpegs; /* the JPEG section, unchecked; see entropy_section.h. NULL if none */
    size_t jpegs_length;
    const uint8_t *file; /* the file that it was read from, with `lines` entries in its section table; NULL: none */
    size_t lines;
    void *memory;           /* owned heap block: the file, or the part of it that is not mapped */
    struct mapping mapping; /* mapping of the whole file; zeroed: not mapped */
};

/* An index that is built while writing or scanning. */
struct index_builder {
    struct index_entry *entries;
    size_t count, capacity;
};
pst_status index_builder_add(struct index_builder *b, uint64_t offset, uint64_t length, pst_error *reterr);
void index_builder_finish(struct index_builder *b);

/* Whether a remote shard of this size is larger than one request: its samples are requests of their own. */
bool index_saves_samples(uint64_t bytes);
/* Notes the version of the shard's object ("": it has none; see file_version), where that saves samples: of large shards. The text lives as long as
 * `x` is used. */
void index_set_version(struct index *x, const char *version);
/* Whether `x` notes this version, of an object of that size: then it was made from these bytes. */
bool index_is_of_version(const struct index *x, const char *version, uint64_t bytes);

/* Asks a store at once for all that index_fingerprint will read. */
void index_announce(int fd, uint64_t size);
/* Computes the fingerprint from the size and sampled content of the shard: equal files have equal fingerprints, independent
 * of name and time. */
pst_status index_fingerprint(int fd, const char *path, uint64_t *ret_size, uint64_t *ret_fingerprint, pst_error *reterr);

/* Serialises and publishes `path`: entries, note, JPEGs, and the sections that other programs stored in the file that `x`
 * was read from. */
pst_status index_publish(const char *path, const struct index *x, bool sync, pst_error *reterr);
/* Opens and checks an index file: header, checksum, order and bounds of all entries. Not yet compared with a shard. The JPEG
 * section may be long: it is only located. One that does not lie inside the file is ignored. */
pst_status index_open_as(struct index *ret, const char *path, enum index_hold hold, pst_error *reterr);
pst_status index_open(struct index *ret, const char *path, pst_error *reterr); /* INDEX_VIEWED */
/* Opens a tfrecord2idx text index with one `offset size` per line. It has no fingerprint; PST_ESTALE if it does not cover
 * the shard from its first to its last byte. */
pst_status index_open_text(struct index *ret, const char *path, uint64_t shard_bytes, pst_error *reterr);
void index_finish(struct index *x); /* zeroed ok; leaves it zeroed */
/* Checks the checksums of all sections, including the JPEG section. */
pst_status index_check_sections(const struct index *x, const char *path, pst_error *reterr);

/* Checks that entries are sorted, do not overlap and lie inside the shard; PST_ECORRUPT names the first that does not.
 * Counts the gaps. */
pst_status index_check_entries(struct index *x, const char *path, pst_error *reterr);

/* Returns the offset of the first entry after `offset`, or the end of the shard. */
uint64_t index_next(const struct index *x, uint64_t offset);

/* Builds an index from the headers of an uncompressed shard in one pass. Where a length fails its CRC, it resumes at the
 * next valid record (resync.h, up to `max_record_bytes`). The result is the same as from index_open. `stop` may be NULL. */
pst_status index_scan(struct index *ret, int fd, const char *path, uint64_t max_record_bytes, const struct file_stop *stop,
                      pst_error *reterr);

/* Reports whether a gap begins with the header of a record that fits the shard: the index was made before those bytes
 * changed. */
pst_status index_is_outdated(const struct index *x, int fd, const char *path, bool *ret, pst_error *reterr);

/* Counts the entries as seen and reports every gap. `log` as in pst_shard_options: NULL makes a gap an error. */
pst_status index_report_gaps(const struct index *x, int fd, const char *path, pst_damage_log *log, pst_error *reterr);

/* Returns X.pidx for X; the caller releases it with mem_free. */
char *index_sidecar_path(const char *shard_path);

#endif
