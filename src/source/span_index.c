/* span_index.c: finding, making and keeping the index of span_index.h.
 *
 * Promises: an index is used only for the bytes and the form that it was made for; one that cannot be used is never an
 * obstacle, as a scan makes another; one that cannot be kept stays in memory. While it is made for a file, memory does not
 * grow with the number of spans. Leaves to others: what a span is. */
#include "source/span_index.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/publish.h"

#include <inttypes.h>
#include <string.h>

#define MAGIC  "PSTSPAN1"
#define HEADER 128u
/* Offsets within the header. */
#define AT_MAGIC       0
#define AT_WIDTH       8
#define AT_COUNT       16
#define AT_FILE_BYTES  24
#define AT_FINGERPRINT 32
#define AT_FORM        40
#define AT_END         48
#define AT_CONTENT     56  /* checksum of the blocks and the note */
#define AT_NOTE_BYTES  64
#define AT_CHECKSUM    120 /* of the header before it */

#define COPIED_BYTES ((size_t)64 << 10) /* a smaller index is not mapped: mappings are limited */
#define CACHE_NAME   180                /* bytes of the file's name in the name of its cached index */

static size_t block_bytes(unsigned width)
{
    return 8 + (size_t)SPAN_BLOCK * width;
}

/* ---- Building ---- */

struct span_builder {
    const struct span_subject *subject;
    struct publish out; /* fd -1: in memory */
    bool to_file, output_failed;
    bool too_wide; /* a block spans more than 4 bytes hold: once more with 8 */
    unsigned width;
    uint64_t count, base, last, hash;
    uint8_t *data; /* in memory: all blocks; to a file: the current one */
    size_t size, used;
    char *note;
    size_t note_size, note_bytes;
};

/* The current block is full, or the last. */
static pst_status close_block(struct span_builder *b, pst_error *reterr)
{
    size_t whole = block_bytes(b->width);
    uint64_t number = (b->count - 1) / SPAN_BLOCK;
    uint8_t *block = b->data + b->used;
    size_t filled = 8 + (size_t)((b->count - 1) % SPAN_BLOCK + 1) * b->width;
    memset(block + filled, 0, whole - filled);
    b->hash = hash_combine(b->hash, hash_bytes(block, whole, 0));
    if (!b->to_file) {
        b->used += whole;
        return PST_OK;
    }
    pst_status st = file_write_at(b->out.fd, b->out.path, block, whole, HEADER + number * whole, reterr);
    b->output_failed = st < 0;
    return st;
}

pst_status span_builder_add(struct span_builder *b, uint64_t begin, pst_error *reterr)
{
    uint64_t at = b->count % SPAN_BLOCK;
    if (at == 0) {
        pst_status st = b->count ? close_block(b, reterr) : PST_OK;
        if (st < 0)
            return st;
        if (mem_grow((void **)&b->data, &b->size, b->used + block_bytes(b->width), 1) < 0)
            return fail_memory_at(reterr, b->subject->path, "indexing its %s", b->subject->kind);
        b->base = begin;
        put_le64(b->data + b->used, begin);
    }
    uint64_t delta = begin - b->base;
    if (b->width == 4 && delta > UINT32_MAX) {
        b->too_wide = true;
        return pst_fail(reterr, PST_ELIMIT, "offsets need 8 bytes");
    }
    uint8_t *to = b->data + b->used + 8 + at * b->width;
    if (b->width == 4)
        put_le32(to, (uint32_t)delta);
    else
        put_le64(to, delta);
    b->count++;
    return PST_OK;
}

pst_status span_builder_note(struct span_builder *b, const void *note, size_t length, pst_error *reterr)
{
    if (mem_grow((void **)&b->note, &b->note_size, b->note_bytes + length, 1) < 0)
        return fail_memory_at(reterr, b->subject->path, "indexing its %s", b->subject->kind);
    memcpy(b->note + b->note_bytes, note, length);
    b->note_bytes += length;
    return PST_OK;
}

static uint64_t hash_note(uint64_t hash, const char *note, size_t length)
{
    return length ? hash_combine(hash, hash_bytes(note, length, 0)) : hash;
}

/* After the last block. */
static pst_status close_note(struct span_builder *b, pst_error *reterr)
{
    uint64_t blocks = (b->count + SPAN_BLOCK - 1) / SPAN_BLOCK;
    if (b->note_bytes == 0)
        return PST_OK;
    b->hash = hash_note(b->hash, b->note, b->note_bytes);
    if (!b->to_file) {
        if (mem_grow((void **)&b->data, &b->size, b->used + b->note_bytes, 1) < 0)
            return fail_memory_at(reterr, b->subject->path, "indexing its %s", b->subject->kind);
        memcpy(b->data + b->used, b->note, b->note_bytes);
        return PST_OK;
    }
    pst_status st = file_write_at(b->out.fd, b->out.path, b->note, b->note_bytes, HEADER + blocks * block_bytes(b->width), reterr);
    b->output_failed = st < 0;
    return st;
}

static void make_header(const struct span_builder *b, uint64_t end, uint8_t header[HEADER])
{
    memset(header, 0, HEADER);
    memcpy(header + AT_MAGIC, MAGIC, 8);
    put_le32(header + AT_WIDTH, b->width);
    put_le64(header + AT_COUNT, b->count);
    put_le64(header + AT_FILE_BYTES, b->subject->bytes);
    put_le64(header + AT_FINGERPRINT, b->subject->fingerprint);
    put_le64(header + AT_FORM, b->subject->form);
    put_le64(header + AT_END, end);
    put_le64(header + AT_CONTENT, b->hash);
    put_le64(header + AT_NOTE_BYTES, b->note_bytes);
    put_le64(header + AT_CHECKSUM, hash_bytes(header, AT_CHECKSUM, 0));
}

/* One attempt. With `path` to that file; otherwise to memory, which `ret` takes. */
static pst_status build(struct span_builder *b, const char *path, struct span_index *ret, span_scan scan, void *user,
                        bool *ret_partial, pst_error *reterr)
{
    uint8_t header[HEADER];
    uint64_t end = 0;
    pst_status st = PST_OK;
    b->to_file = path != NULL;
    if (path) {
        st = publish_open(&b->out, path, true, reterr);
        b->output_failed = st < 0;
    }
    if (st == PST_OK)
        st = scan(user, b, &end, ret_partial, reterr);
    if (st == PST_OK && b->count)
        st = close_block(b, reterr);
    if (st == PST_OK)
        st = close_note(b, reterr);
    if (st == PST_OK && path && !*ret_partial) {
        make_header(b, end, header);
        st = file_write_at(b->out.fd, path, header, HEADER, 0, reterr);
        if (st == PST_OK)
            st = publish_commit(&b->out, false, reterr); /* not synced: one that a crash tears fails its checksum */
        b->output_failed = st < 0;
    }
    if (st == PST_OK && !path) {
        *ret = (struct span_index){.blocks = b->data, .count = b->count, .end = end, .width = b->width,
                                   .place = PST_INDEX_MEMORY, .built = true, .memory = b->data, .note_bytes = b->note_bytes,
                                   .note = b->note_bytes ? (const char *)b->data + b->used : NULL};
        b->data = NULL;
    }
    return st;
}

static void builder_reset(struct span_builder *b, unsigned width)
{
    const struct span_subject *subject = b->subject;
    publish_discard(&b->out);
    mem_free(b->data);
    mem_free(b->note);
    *b = (struct span_builder){.subject = subject, .out = {.fd = -1}, .width = width};
}

/* ---- Reading ---- */

static pst_status fail_format(const char *path, const char *what, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ESTALE, path, PST_NOWHERE, PST_NOWHERE, "index: %s; it is made again", what);
}

static pst_status check_header(struct span_index *x, const struct span_subject *s, const uint8_t *header, size_t size,
                               pst_error *reterr)
{
    if (memcmp(header + AT_MAGIC, MAGIC, 8) != 0 || le64(header + AT_CHECKSUM) != hash_bytes(header, AT_CHECKSUM, 0))
        return fail_format(x->path, "not an index of this version", reterr);
    if (le64(header + AT_FILE_BYTES) != s->bytes || le64(header + AT_FINGERPRINT) != s->fingerprint ||
        le64(header + AT_FORM) != s->form)
        return fail_format(x->path, "made for other data or another form", reterr);
    x->width = le32(header + AT_WIDTH);
    x->count = le64(header + AT_COUNT);
    x->end = le64(header + AT_END);
    if ((x->width != 4 && x->width != 8) || x->end > s->bytes || x->count > s->bytes)
        return fail_format(x->path, "invalid header", reterr);
    uint64_t blocks = x->count / SPAN_BLOCK + (x->count % SPAN_BLOCK != 0), note = le64(header + AT_NOTE_BYTES);
    size -= HEADER;
    if (note > size || (size - note) % block_bytes(x->width) || (size - note) / block_bytes(x->width) != blocks)
        return fail_format(x->path, "wrong size", reterr);
    x->note_bytes = (size_t)note;
    return PST_OK;
}

static pst_status check_content(const struct span_index *x, uint64_t want, pst_error *reterr)
{
    uint64_t hash = 0, blocks = x->count / SPAN_BLOCK + (x->count % SPAN_BLOCK != 0);
    for (uint64_t k = 0; k < blocks; k++)
        hash = hash_combine(hash, hash_bytes(x->blocks + k * block_bytes(x->width), block_bytes(x->width), 0));
    hash = hash_note(hash, x->note, x->note_bytes);
    return hash == want ? PST_OK : fail_format(x->path, "wrong checksum", reterr);
}

/* Takes `path` (NULL: out of memory) on success. */
static pst_status open_file(struct span_index *ret, const struct span_subject *s, char *path, bool copied, pst_error *reterr)
{
    struct span_index x = {.path = path};
    struct file_info info = {0};
    const uint8_t *file = NULL;
    size_t got = 0;
    int fd = -1;
    if (!path)
        return fail_memory_at(reterr, s->path, "finding the index");
    pst_status st = file_open_read(&fd, path, reterr);
    if (st == PST_OK)
        st = file_fstat(fd, path, &info, reterr);
    if (st == PST_OK && (!info.is_regular || info.size < HEADER || info.size > SIZE_MAX))
        st = fail_format(path, "wrong size", reterr);
    if (st == PST_OK && (copied || info.size <= COPIED_BYTES)) {
        x.memory = mem_alloc((size_t)info.size);
        st = x.memory ? file_read_at(fd, path, x.memory, (size_t)info.size, 0, &got, reterr)
                      : fail_memory_at(reterr, path, "opening the index");
        if (st == PST_OK && got < info.size)
            st = fail_format(path, "it became shorter", reterr);
        file = x.memory;
    } else if (st == PST_OK) {
        st = mapping_open(&x.mapping, fd, path, (size_t)info.size, reterr);
        file = x.mapping.data;
    }
    if (st == PST_OK)
        st = check_header(&x, s, file, (size_t)info.size, reterr);
    if (st == PST_OK) {
        x.blocks = file + HEADER;
        x.note = (const char *)file + ((size_t)info.size - x.note_bytes);
        st = check_content(&x, le64(file + AT_CONTENT), reterr);
    }
    if (st == PST_OK && mapping_broken(&x.mapping))
        st = fail_format(path, "it became shorter", reterr);
    file_close(fd);
    if (st == PST_OK) {
        *ret = x;
        return PST_OK;
    }
    x.path = NULL; /* stays the caller's */
    span_index_finish(&x);
    return st;
}

void span_index_finish(struct span_index *x)
{
    mapping_close(&x->mapping);
    mem_free(x->memory);
    mem_free(x->path);
    *x = (struct span_index){0};
}

/* ---- Places ---- */

static char *beside(const struct span_subject *s)
{
    return mem_format("%s.%s.pidx", s->path, s->kind);
}

/* The name differs for files of the same name in different folders. */
static pst_status in_cache(char **ret, const struct span_subject *s, const char *cache_dir, pst_error *reterr)
{
    char *absolute = NULL;
    pst_status st = file_absolute(&absolute, s->path, reterr);
    if (st < 0)
        return st;
    char *name = mem_format("%016" PRIx64 "-%.*s.%s.pidx", hash_bytes(absolute, strlen(absolute), 0), CACHE_NAME,
                            file_base(absolute), s->kind);
    *ret = name ? file_join(cache_dir, name) : NULL;
    mem_free(name);
    mem_free(absolute);
    return *ret ? PST_OK : fail_memory_at(reterr, s->path, "finding the index");
}

/* Builds at `path` (NULL: in memory) and opens the result. */
static pst_status make_at(struct span_index *ret, struct span_builder *b, char *path, bool copied, span_scan scan, void *user,
                          bool *ret_partial, pst_error *reterr)
{
    builder_reset(b, 4);
    pst_status st = build(b, path, ret, scan, user, ret_partial, reterr);
    if (st < 0 && b->too_wide) {
        builder_reset(b, 8);
        st = build(b, path, ret, scan, user, ret_partial, reterr);
    }
    if (st == PST_OK && path && !*ret_partial) {
        publish_discard(&b->out);
        st = open_file(ret, b->subject, path, copied, reterr);
        b->output_failed = st < 0;
        ret->built = st == PST_OK;
    }
    return st;
}

static pst_status make(struct span_index *ret, const struct span_subject *s, char *paths[2], bool copied, span_scan scan,
                       void *user, pst_error *reterr)
{
    struct span_builder b = {.subject = s, .out = {.fd = -1}};
    bool partial = false, done = false;
    pst_status st = PST_OK;
    for (int i = 0; i < 2 && !done; i++) {
        if (!paths[i])
            continue;
        st = make_at(ret, &b, paths[i], copied, scan, user, &partial, reterr);
        if (st == PST_OK && !partial) {
            ret->place = i == 0 ? PST_INDEX_SIDECAR : PST_INDEX_CACHE;
            paths[i] = NULL; /* the index has it */
            done = true;
        } else if (partial || !b.output_failed || st == PST_ENOMEM) {
            break;
        }
    }
    if (!done && (partial || st == PST_OK || (b.output_failed && st != PST_ENOMEM)))
        st = make_at(ret, &b, NULL, copied, scan, user, &partial, reterr);
    builder_reset(&b, 4);
    return st;
}

pst_status span_index_open(struct span_index *ret, const struct span_subject *subject, const char *cache_dir, bool copied,
                           span_scan scan, void *user, pst_error *reterr)
{
    char *paths[2] = {beside(subject), NULL};
    pst_status st = paths[0] ? PST_OK : fail_memory_at(reterr, subject->path, "finding the index");
    if (st == PST_OK && cache_dir)
        st = in_cache(&paths[1], subject, cache_dir, reterr);
    bool found = false;
    for (int i = 0; i < 2 && st == PST_OK && !found; i++) {
        if (!paths[i])
            continue;
        pst_error ignored;
        pst_status opened = open_file(ret, subject, paths[i], copied, &ignored);
        if (opened == PST_ENOMEM) {
            st = fail_memory_at(reterr, subject->path, "opening the index");
        } else if (opened == PST_OK) {
            ret->place = i == 0 ? PST_INDEX_SIDECAR : PST_INDEX_CACHE;
            paths[i] = NULL;
            found = true;
        }
    }
    if (st == PST_OK && !found) {
        if (cache_dir && paths[1] && file_make_folder(cache_dir, NULL) < 0) {
            mem_free(paths[1]);
            paths[1] = NULL;
        }
        if (subject->remote) { /* reading does not write to the store */
            mem_free(paths[0]);
            paths[0] = NULL;
        }
        st = make(ret, subject, paths, copied, scan, user, reterr);
    }
    mem_free(paths[0]);
    mem_free(paths[1]);
    return st;
}
