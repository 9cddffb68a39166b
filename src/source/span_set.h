/* span_set.h: many files, each cut into spans, under one numbering: what csv, lines, records and tar have in common.
 *
 * A source of this kind begins with a struct span_set. It says how a file is cut (struct span_class) and how a span becomes
 * an element; files, indexes, mappings, streams, and places for errors are handled here. Plain files are mapped and read in
 * any order; if one file is compressed or a pipe, all files are a stream. */
#ifndef SOURCE_SPAN_SET_H
#define SOURCE_SPAN_SET_H

#include "io/cold.h"
#include "io/walk.h"
#include "source/source.h"
#include "source/span_index.h"
#include <stdatomic.h>

enum span_io { SPAN_IO_AUTO, SPAN_IO_MAP, SPAN_IO_READ };
extern const char *const span_io_names[]; /* for a parameter */
#define SPAN_IO_DOC                                                                                                            \
    "map: views of the mapped files; read: one system call per element, for files that another program may truncate "          \
    "while they are read; auto: map"

enum span_found {
    SPAN_FOUND,
    SPAN_MORE, /* the data ends too early, but the file does not */
    SPAN_END   /* there are no more spans in this file */
};

/* A piece of a file in memory. */
struct span_window {
    const char *path;
    const uint8_t *data;
    size_t length;
    uint64_t offset; /* of `data` in the (uncompressed) file */
    bool ended;      /* the file ends with it */
};

struct span_file;

struct span_class {
    const char *kind;                 /* "rows": the spans in words, and the name of the index */
    const char *const *extensions;    /* files that a folder stands for; each also with .gz, .zst, .zlib after it */
    /* Looks at the beginning of the first file that is not empty, to settle what the parameters leave open. SPAN_MORE: call
     * it again with more of it. Optional. */
    pst_status (*look)(void *source, const struct span_window *head, enum span_found *ret, pst_error *reterr);
    size_t look_bytes; /* that it is given at first; 0: 64 KiB */
    bool in_lines;     /* a span is of lines of text: errors name the line */
    bool binary;       /* any bytes may begin a file: a compressed one is told by its name alone */
    /* Finds the first span at or after the window's beginning; `begin` and `end` count from there. */
    pst_status (*cut)(void *source, void *room, const struct span_window *w, size_t *ret_begin, size_t *ret_end,
                      enum span_found *ret, pst_error *reterr);
    /* Scans a plain file, where that is faster than cutting all of it. Optional. */
    pst_status (*scan)(void *source, int fd, const char *path, struct span_builder *b, uint64_t *ret_end, pst_error *reterr);
    /* Turns a span into the fields of an element; views stay valid until the next call with the same room. Errors need not
     * name the place. `w` holds the span only. */
    pst_status (*parse)(const void *source, void *room, const struct span_window *w, pst_tensor *out, pst_error *reterr);
    /* Counts the spans of a plain file whose spans have a fixed length, and says where the first begins. Optional: they fill
     * the file between header and footer. */
    pst_status (*measure)(void *source, int fd, const char *path, struct span_file *file, pst_error *reterr);
    void (*room_stop)(void *room); /* optional */
    size_t room_size;              /* zeroed memory, one per worker and stream */
};

struct span_lines;

struct span_file {
    _Atomic(const uint8_t *) data; /* mapped; NULL: to be read */
    struct mapping mapping;
    int fd; /* -1: mapped, empty, or opened for every read */
    uint64_t first, count, bytes, fingerprint;
    uint64_t base; /* of spans of fixed length: where the first begins */
    struct span_index index;
    _Atomic(struct span_lines *) lines; /* see span_lines.c; NULL: no line was asked for */
};

struct span_stream;

struct span_set { /* zeroed at first; the first member of a source */
    const struct span_class *class;
    const struct source_env *env; /* while it is opened */
    struct file_stop stop;
    pst_damage_log *met;
    struct path_list paths;
    struct span_file *files;
    uint64_t *firsts; /* the first span of every file, and the number of all */
    uint64_t count, bytes, fingerprint;
    uint64_t form;       /* hash of the parameters that decide where spans begin; set by `look` or before span_set_open */
    uint64_t max_bytes;  /* of a span */
    /* Spans of equal length need no index: `fixed` > 0 bytes each, `step` bytes from one to the next (0: no gap, no overlap),
     * after `header` bytes, before `footer` bytes. */
    uint64_t fixed, step, header, footer;
    size_t classes;         /* folders that number labels; 0: none */
    const char *unseekable; /* not NULL: the source has no streams, and this is why */
    enum span_io io;
    bool streamed;
    size_t stream_reason; /* the first file that is compressed or a pipe */
    bool *begun;          /* files that were read from, as a stream */
    struct span_stream *primed; /* a pipe whose beginning was looked at */
    _Atomic size_t kept;  /* descriptors */
    _Atomic size_t looked;
};

/* Opens the files. The parameters of the set (class, form, max_bytes, fixed, io) are set before. */
pst_status span_set_open(struct span_set *s, const pst_strings *paths, const struct source_env *env, pst_error *reterr);
void span_set_finish(struct span_set *s); /* zeroed and half-opened ok */

/* Adds the files that `paths` name: files, folders, patterns, {000..009}, and - for standard input. */
pst_status span_find_files(struct path_list *ret, const pst_strings *paths, const char *const *extensions, pst_error *reterr);

/* How to read a file: NONE, ZLIB, or AUTO: gzip or zstd if its first bytes say so. */
pst_compression span_compression(const struct span_class *class, const char *path, bool regular);

/* Where a span lies. */
struct span_place {
    size_t file;
    uint64_t index, begin, end;
    const uint8_t *data; /* mapped; NULL: to be read */
};

struct span_worker { /* a worker's state begins with it; then comes the room */
    struct span_place *places;
    size_t count, capacity, next;
    uint8_t *buffer;
    size_t buffer_size;
    struct cold_watch cold;
};
#define SPAN_WORKER_SIZE ((sizeof(struct span_worker) + 63) & ~(size_t)63) /* where the room begins */

/* Functions of a source_class. */
uint64_t span_set_count(const void *source);
uint64_t span_set_fingerprint(const void *source);
void span_set_describe(const void *source, char *buffer, size_t size);
void span_set_worker_stop(void *source, void *worker);
void span_set_ahead(void *source, void *worker, const uint64_t *index, size_t count);
pst_status span_set_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
pst_status span_set_intact(void *source, uint64_t index, pst_error *reterr);
uint64_t span_set_bytes_of(const void *source, uint64_t index);
void span_set_locate(const void *source, uint64_t index, size_t field, struct source_place *ret);
pst_status span_stream_open(void *source, void **ret, pst_error *reterr);
pst_status span_stream_next(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr);
void span_stream_locate(const void *stream, struct source_place *ret);
void span_stream_close(void *stream);

#define SPAN_SET_SOURCE(room)                                                                                                  \
    .count = span_set_count, .fingerprint = span_set_fingerprint, .describe = span_set_describe,                               \
    .worker_size = SPAN_WORKER_SIZE + (room), .worker_stop = span_set_worker_stop, .ahead = span_set_ahead,                    \
    .load = span_set_load, .intact = span_set_intact, .bytes_of = span_set_bytes_of, .locate = span_set_locate,                \
    .stream_open = span_stream_open, .stream_next = span_stream_next, .stream_locate = span_stream_locate,                     \
    .stream_close = span_stream_close, .cause = PST_CAUSE_VALUE

/* The number of the line that begins at byte `offset`, from 1; 0: it is too far from the beginning, or cannot be read. */
uint64_t span_line_at(struct span_file *f, const char *path, uint64_t offset);
void span_lines_finish(struct span_file *f);

/* For span_set.c: passes over one file after another, by the class' `cut`. */
struct span_pass;
pst_status span_pass_open(struct span_pass **ret, struct span_set *s, const char *path, int fd, pst_error *reterr);
struct span_pass *span_pass_close(struct span_pass *p);
/* The next span of the file. OK, END or < 0. */
pst_status span_pass_next(struct span_pass *p, void *room, struct span_window *ret, pst_error *reterr);
/* The beginning of the file, at least `want` bytes of it if it has them. */
pst_status span_pass_head(struct span_pass *p, size_t want, struct span_window *ret, pst_error *reterr);
pst_status span_stream_prime(struct span_set *s, struct span_pass *p, pst_error *reterr); /* takes `p` */

#endif
