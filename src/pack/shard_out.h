/* shard_out.h: one shard while it is written: chunks arrive framed and in any order, the file grows in the plan's order.
 *
 * Calls marked "locked" are made by one thread at a time, under the lock of workers.c; the others by the thread that holds the
 * chunk. */
#ifndef PACK_SHARD_OUT_H
#define PACK_SHARD_OUT_H

#include "io/publish.h"
#include "pack/chunk.h"
#include "pack/pack_options.h"
#include "pack/report.h"

/* The report of a finished shard, as text that is stored beside it: a later run that finds the shard complete
 * reports the same as the run that wrote it. */

struct shard_facts {
    uint64_t records, payload; /* bytes without the framing */
    uint64_t skipped;
    uint64_t command; /* that wrote it, see pack_state_command; 0: the note does not say */
    struct pack_images images;
};

/* Appends an item that was left out. */
void note_add_skip(struct text *t, const char *key, const char *why);
/* The whole note: the facts, then the skips collected by note_add_skip. */
void note_write(struct text *t, const struct shard_facts *facts, const struct text *skips);
/* The inverse. PST_ESTALE when the text was not written by note_write. */
pst_status note_read(const char *note, size_t length, struct shard_facts *ret, pst_error *reterr);
/* Adds the skips of a note to the report. */
pst_status note_tell(const struct text *note, struct pack_report *report, pst_error *reterr);

struct compressor;

struct out_shard {
    const char *path;      /* of the final file */
    const char *note_path; /* path of the file stored beside it: its index, or for a compressed shard a hidden note */
    size_t split;
    uint64_t begin, end; /* positions in the split */
    uint64_t command;    /* that it is to be of */
    bool done;           /* complete on disk */
    /* known once it is done */
    struct shard_facts facts;
    uint64_t bytes;
    struct text note;
    /* the rest while it is written; locked */
    bool open;
    uint64_t next;                   /* position of the next chunk to be assigned */
    uint64_t given, placed, written; /* chunks */
    struct chunk *waiting;           /* framed, by sequence, while an earlier one is not */
    uint64_t offset;
    struct index_builder index;
    struct entropy_builder jpegs;
    struct text skips;
    /* used by the thread that writes */
    struct publish file;
    struct compressor *compressor;
    uint64_t file_size; /* of a compressed shard so far */
};

pst_status out_shard_open(struct out_shard *o, const struct pack_config *c, pst_error *reterr); /* locked */
/* Places the chunk after all chunks placed before. Locked. */
pst_status out_shard_place(struct out_shard *o, struct chunk *chunk, pst_error *reterr);
/* Writes a placed chunk: one after the other for a compressed shard, else any number at once. */
pst_status out_shard_write(struct out_shard *o, const struct pack_config *c, const struct chunk *chunk, pst_error *reterr);
/* Call after all chunks are written: publishes the shard, then the file beside it. */
pst_status out_shard_commit(struct out_shard *o, const struct pack_config *c, pst_error *reterr);
void out_shard_finish(struct out_shard *o); /* discards what was not committed; zeroed ok */

/* Checks whether the shard is complete from an earlier run and, if so, reads its note. */
pst_status out_shard_find(struct out_shard *o, const struct pack_config *c, pst_error *reterr);

#endif
