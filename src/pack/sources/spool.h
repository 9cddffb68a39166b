/* spool.h: a source file as bytes that can be read at any offset.
 *
 * A plain file is read directly. Input without offsets (standard input, compressed files, deflated members of an archive) is
 * first unpacked to a temporary file in the output folder, which is removed with the spool. */
#ifndef PACK_SOURCES_SPOOL_H
#define PACK_SOURCES_SPOOL_H

#include "io/publish.h"
#include "pack/pack_source.h"

struct zip_member;

struct spool {
    int fd;
    const char *path; /* its name in messages; in the source's arena */
    uint64_t size;
    bool owns_fd;
    struct publish temp; /* temp.temp_path names the unpacked copy, if there is one */
    bool unpacked;
};

/* The kind of the uncompressed bytes. Text may begin with bytes that look like a zlib header, so for text the name must
 * indicate it too. For records, the data before damage is kept if the policy skips damage. */
enum spool_content { SPOOL_TEXT, SPOOL_BINARY, SPOOL_RECORDS };

/* Opens `path` ("-": standard input), mixes it into the source's fingerprint, and unpacks it where necessary (a note says
 * so). Zero-initialise `sp` first; spool_close accepts it half-open. */
pst_status spool_open(struct spool *sp, struct pack_source *s, const struct pack_opening *o, const char *path,
                      enum spool_content content, pst_error *reterr);

/* A deflated member of the archive `from`, unpacked and checked. */
pst_status spool_inflate(struct spool *sp, const struct spool *from, const struct zip_member *m, const char *name,
                         const struct pack_opening *o, pst_error *reterr);

/* An empty temporary file that the caller fills by spool_append. */
pst_status spool_create(struct spool *sp, const char *name, const struct pack_opening *o, pst_error *reterr);
pst_status spool_append(struct spool *sp, const void *data, size_t length, const struct pack_opening *o, pst_error *reterr);

void spool_close(struct spool *sp);

/* A list of spools that are closed together. Entries keep their address. */
struct spools {
    struct spool **list;
    size_t count, capacity;
};
struct spool *spools_add(struct spools *l); /* zeroed; NULL: out of memory */
void spools_close(struct spools *l);

#endif
