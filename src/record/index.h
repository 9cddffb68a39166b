/* index.h: the sidecar index X.pidx: where each record of a shard lies, and whose shard it is. Format: docs/formats.md. */
#ifndef RECORD_INDEX_H
#define RECORD_INDEX_H

#include "io/file.h"
#include "io/mapping.h"
#include <penstock/record.h>

struct index_entry {
    uint64_t offset, length; /* of the framing's first byte; of the payload */
};

/* How the content of an index file is held. What is mapped may change, or go away, whenever others write to the file. */
enum index_hold {
    INDEX_VIEWED, /* in memory, except for a long JPEG section, which is mapped */
    INDEX_COPIED, /* all in memory */
    INDEX_MAPPED  /* all mapped, where the file is not small */
};

/* An index in memory or mapped. Entries rise by offset and lie inside the shard; mapped ones did so when they were checked. */
struct index {
    const struct index_entry *entries;
    uint64_t count;
    uint64_t gaps; /* stretches of the shard that belong to no entry: damage */
    uint64_t shard_bytes, fingerprint;
    const char *note; /* the NOTE section: text that pack keeps with the shard (what it skipped); NULL if none */
    size_t note_length;
    const void *jpegs; /* the JPEG section, which entropy.h reads; nothing of it was looked at. NULL if none */
    size_t jpegs_length;
    const uint8_t *file; /* that it was read from, with its `lines` of the section table; NULL: from none */
    size_t lines;
    void *memory;           /* owned heap block: the file, or what of it is not mapped */
    struct mapping mapping; /* of the whole file; zeroed: nothing is mapped */
};

/* Made while writing or scanning. */
struct index_builder {
    struct index_entry *entries;
    size_t count, capacity;
};
pst_status index_builder_add(struct index_builder *b, uint64_t offset, uint64_t length, pst_error *reterr);
void index_builder_finish(struct index_builder *b);

/* Size and sampled content of the shard: equal files have equal fingerprints, whatever their name or time. */
pst_status index_fingerprint(int fd, const char *path, uint64_t *ret_size, uint64_t *ret_fingerprint, pst_error *reterr);

/* Serialises and publishes `path`: entries, note, JPEGs, and what other programs keep in the file that `x` was read from. */
pst_status index_publish(const char *path, const struct index *x, bool sync, pst_error *reterr);
/* Opens and checks an index file: header, checksum, order and bounds of all entries. Not yet compared with a shard. The JPEG
 * section may be long: it is only found. One that does not lie inside the file is left out. */
pst_status index_open_as(struct index *ret, const char *path, enum index_hold hold, pst_error *reterr);
pst_status index_open(struct index *ret, const char *path, pst_error *reterr); /* INDEX_VIEWED */
/* A tfrecord2idx text index: `offset size` a line. It has no fingerprint; one that does not cover the shard from its first
 * to its last byte is PST_ESTALE. */
pst_status index_open_text(struct index *ret, const char *path, uint64_t shard_bytes, pst_error *reterr);
void index_finish(struct index *x); /* zeroed ok; leaves it zeroed */
/* The checksums of all sections, the JPEG section's too. */
pst_status index_check_sections(const struct index *x, const char *path, pst_error *reterr);

/* Entries rise, do not overlap and lie inside the shard, or PST_ECORRUPT names the first that does not. Counts the gaps. */
pst_status index_check_entries(struct index *x, const char *path, pst_error *reterr);

/* The first entry's offset behind `offset`, or the shard's end. */
uint64_t index_next(const struct index *x, uint64_t offset);

/* One walk over the headers of an uncompressed shard. Where a length fails its CRC the walk goes on at the next sound
 * record (resync.h, up to `max_record_bytes`). Gives what index_open would. `stop` may be NULL. */
pst_status index_scan(struct index *ret, int fd, const char *path, uint64_t max_record_bytes, const struct file_stop *stop,
                      pst_error *reterr);

/* True when a gap begins with the header of a record that fits the shard: the index was made when those bytes were others. */
pst_status index_is_outdated(const struct index *x, int fd, const char *path, bool *ret, pst_error *reterr);

/* Counts the entries as seen and reports every gap. `log` as in pst_shard_options: NULL makes a gap an error. */
pst_status index_report_gaps(const struct index *x, int fd, const char *path, pst_damage_log *log, pst_error *reterr);

/* X → X.pidx, mem_free'd by the caller. */
char *index_sidecar_path(const char *shard_path);

#endif
