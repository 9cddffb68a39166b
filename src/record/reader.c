/* reader.c: a shard from beginning to end, compressed or not, from a file or a pipe.
 *
 * Promises: every valid record is delivered, and no other; one damaged record costs one record. A length with a matching CRC
 * is trusted: damaged data is skipped by it, and a record that extends past the end is the last one. Only a length that
 * fails its CRC makes the reader search for the next record, with the sidecar index if there is one for the same bytes, else
 * with resync.h. The damage log decides what is tolerated. */
#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "record/byte_window.h"
#include "record/damage.h"
#include "record/frame.h"
#include "record/index.h"
#include "base/options.h"
#include "record/resync.h"

#include <inttypes.h>

struct pst_reader {
    char *path;
    int fd;
    pst_reader_options options;
    struct source source;
    struct resync resync;
    bool index_tried;
    struct index index; /* the sidecar's; empty unless a bad length made us look, and it fits */
    uint64_t record;    /* ordinal of the next one */
    uint64_t unseen;    /* records found and not yet reported to the damage log */
    pst_status failed;  /* a failure is final… */
    pst_error error;    /* …and returned again */
};

pst_status pst_reader_open(pst_reader **ret, const char *path, const pst_reader_options *options, pst_error *reterr)
{
    pst_reader *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory_at(reterr, path, "opening the shard");
    r->fd = -1;
    pst_status st = options_take(&r->options, sizeof(r->options), options, reterr);
    if (st < 0)
        goto fail;
    if (r->options.max_record_bytes == 0)
        r->options.max_record_bytes = PST_MAX_RECORD_BYTES;
    r->path = mem_strdup(path);
    if (!r->path) {
        st = fail_memory_at(reterr, path, "opening the shard");
        goto fail;
    }
    st = file_open_read(&r->fd, path, reterr);
    if (st < 0)
        goto fail;
    file_expect_sequential(r->fd);
    r->source.stop = (struct file_stop){r->options.stop, r->options.stop_user};
    st = source_start(&r->source, r->fd, r->path, r->options.compression, reterr);
    if (st < 0)
        goto fail;
    *ret = r;
    return PST_OK;
fail:
    pst_reader_close(r);
    return st;
}

static void tell_seen(pst_reader *r)
{
    if (r->options.damage)
        pst_damage_log_seen(r->options.damage, r->unseen);
    r->unseen = 0;
}

pst_reader *pst_reader_close(pst_reader *r)
{
    if (!r)
        return NULL;
    tell_seen(r);
    index_finish(&r->index);
    source_finish(&r->source);
    file_close(r->fd);
    mem_free(r->path);
    mem_free(r);
    return NULL;
}

pst_compression pst_reader_compression(const pst_reader *r)
{
    return r->source.compression;
}

static pst_status deliver(pst_reader *r, size_t length, pst_record *ret)
{
    struct source *s = &r->source;
    *ret = (pst_record){.data = source_data(s) + FRAME_HEADER, .length = length, .record = r->record++, .offset = s->offset};
    r->unseen++;
    source_advance(s, length + FRAME_BYTES);
    return PST_OK;
}

/* Counts the current record as damaged. */
static pst_damage damaged_record(pst_reader *r, pst_cause cause, uint64_t offset, uint64_t bytes)
{
    r->unseen++;
    tell_seen(r);
    return (pst_damage){.cause = cause, .path = r->path, .record = r->record++, .offset = offset, .bytes = bytes};
}

/* The sidecar index, if it describes these very bytes. Whatever is wrong with it, scanning does without. */
static bool find_index(pst_reader *r)
{
    struct source *s = &r->source;
    if (!r->index_tried && s->regular && !s->decompressor) {
        uint64_t size, fingerprint;
        char *path = index_sidecar_path(r->path);
        if (path && index_open(&r->index, path, NULL) == PST_OK) {
            bool same = index_fingerprint(r->fd, r->path, &size, &fingerprint, NULL) == PST_OK && size == s->size &&
                        size == r->index.shard_bytes && fingerprint == r->index.fingerprint;
            if (!same)
                index_finish(&r->index);
        }
        mem_free(path);
    }
    r->index_tried = true;
    return r->index.entries != NULL;
}

/* Behind a length that fails its CRC: the window moves to the next record, or to the end. */
static pst_status pass_bad_length(pst_reader *r, pst_error *reterr)
{
    struct source *s = &r->source;
    uint64_t start = s->offset, next;
    uint32_t found = crc32c_masked(source_data(s), 8), stored = le32(source_data(s) + 8);
    if (damage_tolerated(r->options.damage)) {
        pst_status st;
        if (find_index(r)) {
            next = index_next(&r->index, start);
            st = source_skip(s, next - start, reterr);
        } else {
            source_advance(s, 1);
            st = resync_find(&r->resync, s, r->options.max_record_bytes, reterr);
        }
        if (st < 0)
            return st;
    }
    pst_damage d = damaged_record(r, PST_CAUSE_LENGTH_CRC, start, s->offset - start);
    return damage_report(r->options.damage, &d, reterr,
                         "crc of the length is %08x, stored %08x; `penstock repair` saves what is sound", found, stored);
}

static pst_status pass_oversized(pst_reader *r, uint64_t length, pst_error *reterr)
{
    struct source *s = &r->source;
    uint64_t start = s->offset;
    pst_status st = PST_OK;
    if (damage_tolerated(r->options.damage))
        st = source_skip(s, length > UINT64_MAX - FRAME_BYTES ? UINT64_MAX : length + FRAME_BYTES, reterr);
    if (st < 0)
        return st;
    pst_damage d = damaged_record(r, PST_CAUSE_TOO_LARGE, start, s->offset - start);
    return damage_report(r->options.damage, &d, reterr,
                         "%" PRIu64 " bytes, the limit is %" PRIu64 "; max_record_bytes raises it", length,
                         r->options.max_record_bytes);
}

static pst_status pass_bad_data(pst_reader *r, uint64_t length, pst_error *reterr)
{
    struct source *s = &r->source;
    const uint8_t *data = source_data(s) + FRAME_HEADER;
    uint32_t found = crc32c_masked(data, (size_t)length), stored = le32(data + length);
    pst_damage d = damaged_record(r, PST_CAUSE_DATA_CRC, s->offset, length + FRAME_BYTES);
    source_advance(s, (size_t)length + FRAME_BYTES);
    return damage_report(r->options.damage, &d, reterr,
                         "crc of the data is %08x, stored %08x; `penstock repair` saves what is sound", found, stored);
}

/* The stream ends before the record at the window's start does; `needed` is what that record takes, as far as known. */
static pst_status pass_cut(pst_reader *r, uint64_t needed, pst_error *reterr)
{
    struct source *s = &r->source;
    uint64_t start = s->offset;
    pst_status st = source_skip(s, UINT64_MAX, reterr);
    if (st < 0)
        return st;
    if (s->broken) {
        pst_damage d = damaged_record(r, PST_CAUSE_COMPRESSION, start, s->offset - start);
        s->broken = false; /* reported */
        return damage_report(r->options.damage, &d, reterr, "%s", s->damage.message);
    }
    pst_damage d = damaged_record(r, PST_CAUSE_TRUNCATED, start, s->offset - start);
    return damage_report(r->options.damage, &d, reterr,
                         "%" PRIu64 " bytes are left of at least %" PRIu64 "; `penstock repair` "
                         "saves what is sound",
                         s->offset - start, needed);
}

/* The next record where it is not whole and sound in the window already. */
static pst_status find_record(pst_reader *r, pst_record *ret, pst_error *reterr)
{
    struct source *s = &r->source;
    pst_status st;
    do {
        st = source_need(s, FRAME_HEADER, reterr);
        if (st < 0)
            return st;
        size_t available = source_available(s);
        uint64_t length;
        enum load load;
        if (available == 0 && !s->broken)
            return PST_END;
        if (available < FRAME_HEADER) {
            st = pass_cut(r, FRAME_BYTES, reterr);
        } else if (!frame_get_header(source_data(s), &length)) {
            st = pass_bad_length(r, reterr);
        } else if (length > r->options.max_record_bytes) {
            st = pass_oversized(r, length, reterr);
        } else {
            st = source_load(s, length, !r->options.no_verify, &load, reterr);
            if (st < 0)
                return st;
            if (load == LOAD_SOUND)
                return deliver(r, (size_t)length, ret);
            st = load == LOAD_CUT ? pass_cut(r, length + FRAME_BYTES, reterr) : pass_bad_data(r, length, reterr);
        }
    } while (st == PST_OK);
    return st;
}

pst_status pst_reader_next(pst_reader *r, pst_record *ret, pst_error *reterr)
{
    struct source *s = &r->source;
    size_t available = source_available(s);
    uint64_t length;
    pst_status st = r->failed;

    if (st == PST_OK && available >= FRAME_BYTES && frame_get_header(source_data(s), &length) &&
        length <= available - FRAME_BYTES && length <= r->options.max_record_bytes) {
        const uint8_t *data = source_data(s) + FRAME_HEADER;
        if (r->options.no_verify || crc32c_masked(data, (size_t)length) == le32(data + length))
            return deliver(r, (size_t)length, ret);
    }
    if (st == PST_OK) {
        tell_seen(r);
        st = find_record(r, ret, &r->error);
    }
    if (st < 0) {
        r->failed = st;
        if (reterr)
            *reterr = r->error;
    }
    return st;
}
