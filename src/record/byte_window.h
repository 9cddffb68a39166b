/* byte_window.h: the bytes of a shard as a sliding window, over a file, a pipe or a compressed stream.
 *
 * The window starts at stream offset `offset`; source_need widens it, source_advance moves its start. Bytes before the
 * window stay readable until the next call that may read. Offsets are those of the uncompressed stream. */
#ifndef RECORD_BYTE_WINDOW_H
#define RECORD_BYTE_WINDOW_H

#include "io/file.h"
#include <penstock/record.h>

#define SOURCE_PIECE   ((size_t)256 << 10) /* one read: stays in the second-level cache until its CRC is computed */
#define SOURCE_UNKNOWN UINT64_MAX          /* size of a stream whose length is not known in advance */

struct decompressor;

struct source {
    int fd;           /* borrowed */
    const char *path; /* borrowed */
    pst_compression compression;
    uint64_t size;     /* size of the stream */
    uint64_t position; /* offset offset offset offset of the next read from a regular file */
    struct file_stop stop; /* checked before every read; set before source_start */
    bool no_zlib;      /* AUTO does not take two bytes for a zlib header, as text may begin with them; set before source_start */
    bool regular;      /* read by offset; otherwise as a pipe */
    size_t piece;      /* minimum size of a read: SOURCE_PIECE, or less where the caller skips a lot */

    uint8_t *buffer;
    size_t capacity, begin, end; /* the window is buffer[begin, end) */
    uint64_t offset;             /* offset offset offset offset of the window's start in the stream */
    bool ended;                  /* the stream ends with the window */

    struct decompressor *decompressor; /* NULL: the stream is the file */
    uint8_t *input;                    /* compressed bytes not yet used are input[input_begin, input_end) */
    size_t input_begin, input_end;
    bool input_ended;
    bool broken;      /* the compressed data is damaged after the window… */
    pst_error damage; /* …in this way */
};

/* `s` is zeroed except for `stop` and `no_zlib`. AUTO is resolved from the first bytes. `fd` and `path` must outlive `s`. */
pst_status source_start(struct source *s, int fd, const char *path, pst_compression compression, pst_error *reterr);
void source_finish(struct source *s); /* zeroed and half-started ok */

/* Widens the window to `want` bytes; it is shorter only where the stream ends. */
pst_status source_need(struct source *s, size_t want, pst_error *reterr);

static inline size_t source_available(const struct source *s)
{
    return s->end - s->begin;
}

/* The window's first byte. */
static inline const uint8_t *source_data(const struct source *s)
{
    return s->buffer + s->begin;
}

static inline void source_advance(struct source *s, size_t n) /* n ≤ available */
{
    s->begin += n;
    s->offset += n;
}

/* Skips `n` bytes, or all that are left. */
pst_status source_skip(struct source *s, uint64_t n, pst_error *reterr);

enum load {
    LOAD_SOUND,
    LOAD_DAMAGED, /* the data does not match its CRC */
    LOAD_CUT      /* the stream ends inside the record */
};

/* Reads the whole record at the window's start, whose header gives `length`, into the window and checks its data. Memory
 * grows with the data that arrives, not with the length that a header claims. */
pst_status source_load(struct source *s, uint64_t length, bool verify, enum load *ret, pst_error *reterr);

#endif
