/* spool.c: see spool.h. Memory is bounded whatever the input claims; a decompression bomb at most fills the disk and ends
 * with that error. */
#include "pack/sources/spool.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "codec/stream.h"
#include "io/file.h"
#include "io/remote/remote.h"
#include "io/zip.h"
#include "pack/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define IN_BYTES  ((size_t)256 << 10)
#define OUT_BYTES ((size_t)1 << 20)
#define HEAD      16

pst_status spool_create(struct spool *sp, const char *name, const struct pack_opening *o, pst_error *reterr)
{
    char *path = file_join(o->spool_folder, ".penstock-spool");
    if (!path)
        return fail_memory_at(reterr, name, "unpacking it");
    pst_status st = publish_open(&sp->temp, path, true, reterr);
    mem_free(path);
    if (st < 0)
        return st;
    sp->unpacked = true;
    sp->fd = sp->temp.fd;
    sp->path = name;
    return PST_OK;
}

pst_status spool_append(struct spool *sp, const void *data, size_t length, const struct pack_opening *o, pst_error *reterr)
{
    pst_status st = file_write_at(sp->fd, sp->temp.temp_path, data, length, sp->size, reterr);
    if (st < 0)
        return st;
    sp->size += length;
    return pack_ticker_tell(o->ticker, "unpacking", 0, 0, sp->size, false, reterr);
}

/* ---- Whole streams ---- */

/* Where compressed or piped bytes come from. */
struct feed {
    int fd;
    const char *path;
    bool pipe;
    uint64_t offset, hash;
    struct pack_ticker *ticker;
};

/* A pst_stop_fn. */
static bool is_cancelled(void *user)
{
    const struct feed *f = user;
    return pack_ticker_tell(f->ticker, "unpacking", 0, 0, f->offset, false, NULL) < 0;
}

static pst_status feed_read(struct feed *f, void *buffer, size_t length, size_t *ret_got, pst_error *reterr)
{
    if (!f->pipe) {
        pst_status st = file_read_at(f->fd, f->path, buffer, length, f->offset, ret_got, reterr);
        f->offset += st < 0 ? 0 : *ret_got;
        return st;
    }
    struct file_stop stop = {is_cancelled, f};
    size_t got = 0, some = 1;
    while (got < length && some > 0) {
        pst_status st = file_read_some(f->fd, f->path, (char *)buffer + got, length - got, &stop, &some, reterr);
        if (st < 0)
            return st;
        got += some;
    }
    f->hash = hash_bytes(buffer, got, f->hash);
    f->offset += got;
    *ret_got = got;
    return PST_OK;
}

/* Pushes `length` bytes (0 at the end) through the decompressor into the spool. */
static pst_status unpack_piece(struct spool *sp, struct decompressor *d, const uint8_t *in, size_t length, uint8_t *out,
                               const struct pack_opening *o, pst_error *reterr)
{
    for (;;) {
        size_t consumed = 0, produced = 0;
        pst_status st = decompressor_run(d, in, length, &consumed, out, OUT_BYTES, &produced, reterr);
        if (st >= 0 && produced) {
            pst_status written = spool_append(sp, out, produced, o, reterr);
            if (written < 0)
                return written;
        }
        if (st != PST_OK)
            return st == PST_END ? PST_OK : pst_fail_at(reterr, st, sp->path, PST_NOWHERE, sp->size, "%s", reterr->message);
        in += consumed;
        length -= consumed;
        if (length == 0 && produced < OUT_BYTES)
            return PST_OK;
    }
}

static pst_status copy_stream(struct spool *sp, struct feed *f, pst_compression compression, uint8_t *in, size_t got,
                              uint8_t *out, const struct pack_opening *o, pst_error *reterr)
{
    struct decompressor *d = NULL;
    pst_status st = compression == PST_COMPRESSION_NONE ? PST_OK : decompressor_create(&d, compression, reterr);
    while (st == PST_OK) {
        st = d ? unpack_piece(sp, d, in, got, out, o, reterr) : spool_append(sp, in, got, o, reterr);
        if (got == 0)
            break;
        if (st == PST_OK)
            st = feed_read(f, in, IN_BYTES, &got, reterr);
    }
    if (st == PST_OK && d && !decompressor_at_end(d))
        st = pst_fail_at(reterr, PST_ECORRUPT, f->path, PST_NOWHERE, f->offset,
                         "the %s stream ends in its middle: the file is cut short", pst_compression_name(compression));
    decompressor_destroy(d);
    return st;
}

static bool accepts_zlib(const char *path, enum spool_content content)
{
    size_t n = strlen(path);
    return content != SPOOL_TEXT || (n > 3 && strcmp(path + n - 3, ".zz") == 0) ||
           (n > 5 && strcmp(path + n - 5, ".zlib") == 0);
}

/* Unpacks what `f` gives, unless it is a plain file already: then nothing happens and `*ret_plain` is set. */
static pst_status unpack(struct spool *sp, struct pack_source *s, struct feed *f, const char *path, enum spool_content content,
                         const struct pack_opening *o, bool *ret_plain, pst_error *reterr)
{
    pst_status st;
    size_t got = 0;
    uint8_t *in = mem_alloc(IN_BYTES), *out = mem_alloc(OUT_BYTES);
    if (!in || !out) {
        st = fail_memory_at(reterr, path, "unpacking it");
        goto done;
    }
    st = feed_read(f, in, f->pipe ? IN_BYTES : HEAD, &got, reterr);
    if (st < 0)
        goto done;
    pst_compression compression = stream_sniff(in, got < HEAD ? got : HEAD);
    if (compression == PST_COMPRESSION_ZLIB && !accepts_zlib(path, content))
        compression = PST_COMPRESSION_NONE;
    *ret_plain = compression == PST_COMPRESSION_NONE && !f->pipe;
    if (*ret_plain)
        goto done;
    st = spool_create(sp, sp->path, o, reterr);
    if (st == PST_OK)
        st = copy_stream(sp, f, compression, in, got, out, o, reterr);
    if (st == PST_ECORRUPT && content == SPOOL_RECORDS && s->config->bad.skip)
        st = pack_report_skip(o->report, sp->path, strlen(sp->path), reterr->message, strlen(reterr->message), reterr);
    if (st == PST_OK)
        st = pack_report_note(o->report, reterr, "%s was %s to a temporary file first (%" PRIu64 " bytes)", sp->path,
                              compression == PST_COMPRESSION_NONE ? "copied" : "unpacked", sp->size);
done:
    mem_free(in);
    mem_free(out);
    return st;
}

pst_status spool_open(struct spool *sp, struct pack_source *s, const struct pack_opening *o, const char *path,
                      enum spool_content content, pst_error *reterr)
{
    struct feed f = {.fd = STDIN_FILENO, .path = path, .pipe = strcmp(path, "-") == 0, .ticker = o->ticker};
    struct file_info info = {0};
    bool plain = false;
    pst_status st = PST_OK;
    *sp = (struct spool){.fd = -1, .temp.fd = -1};
    sp->path = f.pipe ? "standard input" : arena_strndup(&s->arena, path, strlen(path));
    if (!sp->path)
        return fail_memory_at(reterr, path, "unpacking it");
    if (!f.pipe) {
        f.fd = -1;
        st = file_open_read(&f.fd, path, reterr);
        if (st == PST_OK)
            st = remote_is(path) ? file_stat(path, &info, reterr) /* the time of the object, not of its copy */ : file_fstat(f.fd, path, &info, reterr);
        if (st == PST_OK && !info.is_regular)
            st = pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                             info.is_folder ? "is a folder, where a file is expected"
                                            : "is not a regular file; pipe it in as -");
    }
    if (st == PST_OK)
        st = unpack(sp, s, &f, path, content, o, &plain, reterr);
    if (st == PST_OK && plain) {
        sp->fd = f.fd;
        sp->owns_fd = true;
        sp->size = info.size;
    } else if (!f.pipe) {
        file_close(f.fd);
    }
    if (st < 0) {
        spool_close(sp);
        return st;
    }
    if (f.pipe)
        pack_source_mix_file(s, "-", false, f.offset, (int64_t)f.hash);
    else
        pack_source_mix_file(s, path, true, info.size, info.mtime_ns);
    return PST_OK;
}

/* ---- Members of archives ---- */

static void *zlib_alloc(void *user, unsigned items, unsigned size)
{
    (void)user;
    return mem_array(items, size);
}

static void zlib_free(void *user, void *p)
{
    (void)user;
    mem_free(p);
}

static pst_status bad_member(const struct spool *from, const struct zip_member *m, const char *what, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECORRUPT, from->path, PST_NOWHERE, m->offset, "member %s: %s", m->name, what);
}

static pst_status inflate_all(struct spool *sp, const struct spool *from, const struct zip_member *m, z_stream *z, uint8_t *in,
                              uint8_t *out, const struct pack_opening *o, pst_error *reterr)
{
    uint64_t taken = 0;
    uLong crc = crc32(0, NULL, 0);
    for (int end = Z_OK; end != Z_STREAM_END;) {
        if (z->avail_in == 0 && taken < m->stored_size) {
            size_t want = m->stored_size - taken < IN_BYTES ? (size_t)(m->stored_size - taken) : IN_BYTES, got = 0;
            pst_status st = file_read_at(from->fd, from->path, in, want, m->offset + taken, &got, reterr);
            if (st < 0)
                return st;
            if (got == 0)
                return bad_member(from, m, "its data ends too early", reterr);
            taken += got;
            z->next_in = in;
            z->avail_in = (uInt)got;
        }
        z->next_out = out;
        z->avail_out = OUT_BYTES;
        end = inflate(z, Z_NO_FLUSH);
        if (end == Z_MEM_ERROR)
            return fail_memory_at(reterr, from->path, "unpacking it");
        size_t produced = OUT_BYTES - z->avail_out;
        if (end == Z_BUF_ERROR && taken == m->stored_size)
            return bad_member(from, m, "its data ends too early", reterr);
        if ((end != Z_OK && end != Z_STREAM_END && end != Z_BUF_ERROR) || produced > m->size - sp->size)
            return bad_member(from, m, "its deflated data is damaged", reterr);
        crc = crc32(crc, out, (uInt)produced);
        pst_status st = spool_append(sp, out, produced, o, reterr);
        if (st < 0)
            return st;
    }
    if (sp->size != m->size || crc != m->crc)
        return bad_member(from, m, "its size or CRC does not match its directory entry", reterr);
    return PST_OK;
}

pst_status spool_inflate(struct spool *sp, const struct spool *from, const struct zip_member *m, const char *name,
                         const struct pack_opening *o, pst_error *reterr)
{
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    *sp = (struct spool){.fd = -1, .temp.fd = -1};
    uint8_t *in = mem_alloc(IN_BYTES), *out = mem_alloc(OUT_BYTES);
    bool started = in && out && inflateInit2(&z, -MAX_WBITS) == Z_OK;
    pst_status st = started ? spool_create(sp, name, o, reterr) : fail_memory_at(reterr, from->path, "unpacking it");
    if (st == PST_OK)
        st = inflate_all(sp, from, m, &z, in, out, o, reterr);
    if (st == PST_OK)
        st = pack_report_note(o->report, reterr, "%s was unpacked to a temporary file first (%" PRIu64 " bytes)", name,
                              sp->size);
    if (started)
        inflateEnd(&z);
    mem_free(in);
    mem_free(out);
    if (st < 0)
        spool_close(sp);
    return st;
}

void spool_close(struct spool *sp)
{
    if (sp->owns_fd)
        file_close(sp->fd);
    if (sp->unpacked)
        publish_discard(&sp->temp);
    *sp = (struct spool){.fd = -1, .temp.fd = -1};
}

struct spool *spools_add(struct spools *l)
{
    void *list = l->list;
    struct spool *sp = mem_zalloc(sizeof(*sp));
    if (!sp || mem_grow(&list, &l->capacity, l->count + 1, sizeof(*l->list)) < 0) {
        mem_free(sp);
        return NULL;
    }
    l->list = list;
    l->list[l->count++] = sp;
    sp->fd = sp->temp.fd = -1;
    return sp;
}

void spools_close(struct spools *l)
{
    for (size_t i = 0; i < l->count; i++) {
        spool_close(l->list[i]);
        mem_free(l->list[i]);
    }
    mem_free(l->list);
    *l = (struct spools){0};
}
