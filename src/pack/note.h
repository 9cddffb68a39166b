/* note.h: the report of a finished shard, as text that is stored beside it: a later run that finds the shard complete
 * reports the same as the run that wrote it. */
#ifndef PACK_NOTE_H
#define PACK_NOTE_H

#include "pack/chunk.h"
#include "pack/report.h"

struct shard_facts {
    uint64_t records, payload; /* bytes without the framing */
    uint64_t skipped;
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

#endif
