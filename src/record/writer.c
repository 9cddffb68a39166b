/* writer.c: records into a shard that appears whole, with its index, or not at all.
 *
 * Promises: nothing appears under the shard's name before the commit; the shard is published before its index, so that no
 * index exists without its shard. Small records are gathered in a buffer, large ones are written from the caller's memory. A
 * failed write is final: the commit refuses. codec compresses and io publishes. */
#include "base/error.h"
#include "base/memory.h"
#include "codec/stream.h"
#include "io/file.h"
#include "io/publish.h"
#include "record/frame.h"
#include "record/index.h"
#include "base/options.h"

#include <string.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define LARGE_RECORD (BUFFER_BYTES / 4) /* from here on copying costs more than a system call */

struct pst_writer {
    pst_writer_options options;
    struct publish publish;
    struct compressor *compressor; /* NULL: none */
    uint8_t *buffer;
    size_t filled;
    uint64_t stream_bytes; /* of framed records, those in the buffer included */
    uint64_t file_bytes;   /* written to the file */
    uint64_t count;
    struct index_builder index;
    bool failed, committed;
};

pst_status pst_writer_open(pst_writer **ret, const char *path, const pst_writer_options *options, pst_error *reterr)
{
    pst_writer *w = mem_zalloc(sizeof(*w));
    if (!w)
        goto no_memory;
    w->publish.fd = -1;
    pst_status st = options_take(&w->options, sizeof(w->options), options, reterr);
    if (st < 0)
        goto fail;
    w->buffer = mem_aligned(BUFFER_BYTES);
    if (!w->buffer)
        goto no_memory;
    if (w->options.compression != PST_COMPRESSION_NONE && w->options.compression != PST_COMPRESSION_AUTO)
        st = compressor_create(&w->compressor, w->options.compression, w->options.level, reterr);
    if (st == PST_OK)
        st = publish_open(&w->publish, path, w->options.overwrite, reterr);
    if (st < 0)
        goto fail;
    *ret = w;
    return PST_OK;
no_memory:
    st = fail_memory_at(reterr, path, "creating the shard");
fail:
    pst_writer_close(w);
    return st;
}

static pst_status write_out(void *user, const void *data, size_t length, pst_error *reterr)
{
    pst_writer *w = user;
    pst_status st = file_write_at(w->publish.fd, w->publish.path, data, length, w->file_bytes, reterr);
    if (st == PST_OK)
        w->file_bytes += length;
    return st;
}

/* Writes the buffer and, after it, `data` without copying it. */
static pst_status flush_with(pst_writer *w, const void *data, size_t length, pst_error *reterr)
{
    struct iovec pieces[] = {{w->buffer, w->filled}, {(void *)(uintptr_t)data, length}};
    size_t bytes = w->filled + length;
    pst_status st = PST_OK;
    w->filled = 0;
    if (!w->compressor) {
        st = file_writev_at(w->publish.fd, w->publish.path, pieces, 2, w->file_bytes, reterr);
        w->file_bytes += bytes;
        return st;
    }
    for (int i = 0; i < 2 && st == PST_OK; i++)
        if (pieces[i].iov_len)
            st = compressor_run(w->compressor, pieces[i].iov_base, pieces[i].iov_len, false, write_out, w, reterr);
    return st;
}

static pst_status write_record(pst_writer *w, const void *data, size_t length, pst_error *reterr)
{
    bool large = length >= LARGE_RECORD;
    size_t buffered = FRAME_BYTES + (large ? 0 : length);
    pst_status st = PST_OK;
    if (!w->compressor && !w->options.no_index)
        st = index_builder_add(&w->index, w->stream_bytes, length, reterr);
    if (st == PST_OK && buffered > BUFFER_BYTES - w->filled)
        st = flush_with(w, NULL, 0, reterr);
    if (st < 0)
        return st;

    frame_put_header(w->buffer + w->filled, length);
    w->filled += FRAME_HEADER;
    if (large)
        st = flush_with(w, data, length, reterr);
    else if (length)
        memcpy(w->buffer + w->filled, data, length);
    w->filled += large ? 0 : length;
    frame_put_footer(w->buffer + w->filled, data, length);
    w->filled += FRAME_FOOTER;
    w->stream_bytes += FRAME_BYTES + (uint64_t)length;
    return st;
}

static pst_status refuse(const pst_writer *w, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_EINVAL, w->publish.path, w->count, PST_NOWHERE,
                       w->committed ? "the shard was committed already; only close it"
                                    : "an earlier write failed; only close it");
}

pst_status pst_writer_write(pst_writer *w, const void *data, size_t length, pst_error *reterr)
{
    if (w->failed || w->committed)
        return refuse(w, reterr);
    pst_status st = write_record(w, data, length, reterr);
    w->failed = st < 0;
    w->count += st == PST_OK;
    return st;
}

uint64_t pst_writer_count(const pst_writer *w)
{
    return w->count;
}

static pst_status commit_index(pst_writer *w, uint64_t bytes, uint64_t fingerprint, pst_error *reterr)
{
    char *path = index_sidecar_path(w->publish.path);
    if (!path)
        return fail_memory_at(reterr, w->publish.path, "naming the index");
    struct index x = {
        .entries = w->index.entries, .count = w->index.count, .shard_bytes = bytes, .fingerprint = fingerprint};
    index_set_version(&x, w->publish.version);
    pst_status st = index_publish(path, &x, !w->options.no_sync, reterr);
    mem_free(path);
    return st;
}

static pst_status commit(pst_writer *w, pst_error *reterr)
{
    bool indexed = !w->compressor && !w->options.no_index;
    uint64_t bytes, fingerprint;
    pst_status st = flush_with(w, NULL, 0, reterr);
    if (st == PST_OK && w->compressor)
        st = compressor_run(w->compressor, NULL, 0, true, write_out, w, reterr);
    if (st == PST_OK && indexed)
        st = index_fingerprint(w->publish.fd, w->publish.path, &bytes, &fingerprint, reterr);
    if (st == PST_OK)
        st = publish_commit(&w->publish, !w->options.no_sync, reterr);
    if (st == PST_OK && indexed)
        st = commit_index(w, bytes, fingerprint, reterr);
    return st;
}

pst_status pst_writer_commit(pst_writer *w, pst_error *reterr)
{
    if (w->failed || w->committed)
        return refuse(w, reterr);
    pst_status st = commit(w, reterr);
    w->failed = st < 0;
    w->committed = st == PST_OK;
    return st;
}

pst_writer *pst_writer_close(pst_writer *w)
{
    if (!w)
        return NULL;
    publish_discard(&w->publish);
    compressor_destroy(w->compressor);
    index_builder_finish(&w->index);
    mem_free(w->buffer);
    mem_free(w);
    return NULL;
}
