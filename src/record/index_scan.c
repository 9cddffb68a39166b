/* index_scan.c: builds the index of a shard from its headers, and reports the gaps of an index as damage.
 *
 * Small records are read in blocks. Between large ones the scan skips the data and reads only the headers: that costs one
 * system call per record, and saves reading the data. Data is read only to find the next valid record after a bad length. */
#include "record/index.h"

#include "base/memory.h"
#include "io/file.h"
#include "record/damage.h"
#include "record/frame.h"
#include "record/resync.h"

#include <inttypes.h>

#define HOP_BYTES ((uint64_t)8 << 10) /* mean record size from which a hop is cheaper than the bytes between */

/* The records that lie whole in the window. */
static pst_status scan_window(struct index_builder *b, struct source *s, pst_error *reterr)
{
    uint64_t length;
    pst_status st = PST_OK;
    while (st == PST_OK && source_available(s) >= FRAME_BYTES && frame_get_header(source_data(s), &length) &&
           length <= source_available(s) - FRAME_BYTES) {
        st = index_builder_add(b, s->offset, length, reterr);
        source_advance(s, (size_t)length + FRAME_BYTES);
    }
    return st;
}

/* Handles a record that extends past the window or has an invalid length. PST_END: there is no record after it. */
static pst_status scan_record(struct index_builder *b, struct source *s, struct resync *resync, uint64_t max_record_bytes,
                              pst_error *reterr)
{
    uint64_t length;
    s->piece = s->offset / (b->count + 1) >= HOP_BYTES ? FRAME_HEADER : SOURCE_PIECE;
    pst_status st = source_need(s, FRAME_HEADER, reterr);
    if (st < 0)
        return st;
    if (source_available(s) < FRAME_HEADER)
        return PST_END;
    if (!frame_get_header(source_data(s), &length)) {
        s->piece = SOURCE_PIECE;
        source_advance(s, 1);
        return resync_find(resync, s, max_record_bytes, reterr);
    }
    uint64_t left = s->size - s->offset;
    if (left < FRAME_BYTES || length > left - FRAME_BYTES)
        return PST_END; /* truncated: the gap at the end shows it */
    st = index_builder_add(b, s->offset, length, reterr);
    return st < 0 ? st : source_skip(s, length + FRAME_BYTES, reterr);
}

static pst_status scan(struct index_builder *b, struct source *s, uint64_t max_record_bytes, pst_error *reterr)
{
    struct resync resync = {0};
    for (;;) {
        pst_status st = scan_window(b, s, reterr);
        if (st == PST_OK)
            st = scan_record(b, s, &resync, max_record_bytes, reterr);
        if (st != PST_OK)
            return st == PST_END ? PST_OK : st;
    }
}

pst_status index_scan(struct index *ret, int fd, const char *path, uint64_t max_record_bytes, const struct file_stop *stop,
                      pst_error *reterr)
{
    struct index_builder b = {0};
    struct source s = {.stop = stop ? *stop : (struct file_stop){0}};
    struct index x = {0};
    pst_status st = source_start(&s, fd, path, PST_COMPRESSION_NONE, reterr);
    if (st == PST_OK)
        st = scan(&b, &s, max_record_bytes, reterr);
    if (st == PST_OK)
        st = index_fingerprint(fd, path, &x.shard_bytes, &x.fingerprint, reterr);
    source_finish(&s);
    x.entries = x.memory = b.entries;
    x.count = b.count;
    if (st == PST_OK)
        st = index_check_entries(&x, path, reterr);
    if (st == PST_OK)
        *ret = x;
    else
        index_finish(&x);
    return st;
}

/* A scan takes a record wherever its header is right and its end lies inside the shard. */
static pst_status holds_record(const struct index *x, int fd, const char *path, uint64_t begin, bool *ret, pst_error *reterr)
{
    uint8_t header[FRAME_HEADER];
    uint64_t length = 0, left = x->shard_bytes - begin;
    size_t got = 0;
    pst_status st = file_read_at(fd, path, header, sizeof(header), begin, &got, reterr);
    *ret = st == PST_OK && got == sizeof(header) && frame_get_header(header, &length) && left >= FRAME_BYTES &&
           length <= left - FRAME_BYTES;
    return st;
}

pst_status index_is_outdated(const struct index *x, int fd, const char *path, bool *ret, pst_error *reterr)
{
    uint64_t end = 0, gaps = 0;
    pst_status st = PST_OK;
    *ret = false;
    for (uint64_t i = 0; st == PST_OK && !*ret && gaps < x->gaps; i++) {
        uint64_t next = i < x->count ? x->entries[i].offset : x->shard_bytes;
        if (next != end) {
            st = holds_record(x, fd, path, end, ret, reterr);
            gaps++;
        }
        if (i < x->count)
            end = next + FRAME_BYTES + x->entries[i].length;
    }
    return st;
}

/* Reports the damage in [begin, end), found from the header there as in the scan. */
static pst_status report_gap(const struct index *x, int fd, const char *path, uint64_t record, uint64_t begin, uint64_t end,
                             pst_damage_log *log, pst_error *reterr)
{
    uint8_t header[FRAME_HEADER];
    uint64_t length = 0;
    size_t got;
    pst_damage d = {.path = path, .record = record, .offset = begin, .bytes = end - begin};
    pst_status st = file_read_at(fd, path, header, sizeof(header), begin, &got, reterr);
    if (st < 0)
        return st;
    if (got == sizeof(header) && !frame_get_header(header, &length)) {
        d.cause = PST_CAUSE_LENGTH_CRC;
        return damage_report(log, &d, reterr, "crc of the length is %08x, stored %08x; `penstock repair` saves what is sound",
                             crc32c_masked(header, 8), le32(header + 8));
    }
    d.cause = PST_CAUSE_TRUNCATED;
    return damage_report(log, &d, reterr, "%" PRIu64 " bytes are left; `penstock repair` saves what is sound",
                         x->shard_bytes - begin);
}

pst_status index_report_gaps(const struct index *x, int fd, const char *path, pst_damage_log *log, pst_error *reterr)
{
    uint64_t end = 0, gaps = 0;
    if (log)
        pst_damage_log_seen(log, x->count + x->gaps);
    for (uint64_t i = 0; gaps < x->gaps; i++) {
        uint64_t next = i < x->count ? x->entries[i].offset : x->shard_bytes;
        if (next != end) {
            pst_status st = report_gap(x, fd, path, i + gaps, end, next, log, reterr);
            if (st < 0)
                return st;
            gaps++;
        }
        if (i < x->count)
            end = next + FRAME_BYTES + x->entries[i].length;
    }
    return PST_OK;
}
