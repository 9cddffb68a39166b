/* shard.c: random access to an uncompressed shard through its index, and `penstock index`.
 *
 * Promises: a record is read with one system call straight into the caller's buffer, from any number of threads, and only
 * data that matches its header and CRCs is returned: a wrong index is detected here at the latest. */
#include "record/shard.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/file.h"
#include "record/frame.h"
#include "record/index_find.h"
#include "base/options.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

struct pst_shard {
    struct shard_file file;
    struct found_index found;
    bool no_verify;
    uint64_t max_record_bytes;
};

const char *pst_index_place_name(pst_index_place place)
{
    switch (place) {
    case PST_INDEX_SIDECAR:
        return "sidecar";
    case PST_INDEX_CACHE:
        return "cache";
    case PST_INDEX_TEXT:
        return "text";
    case PST_INDEX_MEMORY:
        return "memory";
    }
    return "unknown";
}

static pst_status take_options(pst_shard_options *to, const pst_shard_options *from, pst_error *reterr)
{
    pst_status st = options_take(to, sizeof(*to), from, reterr);
    if (st == PST_OK && to->max_record_bytes == 0)
        to->max_record_bytes = PST_MAX_RECORD_BYTES;
    return st;
}

/* Whatever is wrong with an index that is there, a scan makes another. */
static pst_status find_or_make(struct found_index *ret, struct shard_file *f, const pst_shard_options *o, bool must_keep,
                               pst_error *reterr)
{
    if (index_find(ret, f, o, NULL) != PST_OK)
        return index_make(ret, f, o, must_keep, reterr);
    return index_report_gaps(&ret->index, f->fd, f->path, o->damage, reterr);
}

pst_status pst_shard_open(pst_shard **ret, const char *path, const pst_shard_options *options, pst_error *reterr)
{
    return shard_open(ret, path, options, INDEX_VIEWED, reterr);
}

pst_status shard_open(pst_shard **ret, const char *path, const pst_shard_options *options, enum index_hold hold,
                      pst_error *reterr)
{
    pst_shard_options o = {0};
    pst_status st = take_options(&o, options, reterr);
    if (st < 0)
        return st;
    pst_shard *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory_at(reterr, path, "opening the shard");
    s->no_verify = o.no_verify;
    s->max_record_bytes = o.max_record_bytes;
    s->file.hold = hold;
    st = shard_file_open_trusting(&s->file, path, &o, reterr);
    if (st < 0)
        goto fail;
    st = find_or_make(&s->found, &s->file, &o, false, reterr);
    if (st < 0)
        goto fail;
    *ret = s;
    return PST_OK;
fail:
    pst_shard_close(s);
    return st;
}

pst_shard *pst_shard_close(pst_shard *s)
{
    if (!s)
        return NULL;
    found_index_finish(&s->found);
    shard_file_close(&s->file);
    mem_free(s);
    return NULL;
}

const char *pst_shard_path(const pst_shard *s)
{
    return s->file.path;
}

uint64_t pst_shard_count(const pst_shard *s)
{
    return s->found.index.count;
}

uint64_t pst_shard_bytes(const pst_shard *s)
{
    return s->file.bytes;
}

uint64_t pst_shard_fingerprint(const pst_shard *s)
{
    return s->file.fingerprint;
}

pst_index_place pst_shard_index_place(const pst_shard *s)
{
    return s->found.place;
}

bool pst_shard_index_built(const pst_shard *s)
{
    return s->found.built;
}

void pst_shard_locate(const pst_shard *s, uint64_t i, uint64_t *ret_offset, uint64_t *ret_length)
{
    assert(i < s->found.index.count);
    *ret_offset = s->found.index.entries[i].offset;
    *ret_length = s->found.index.entries[i].length;
}

const struct index_entry *shard_entries(const pst_shard *s)
{
    return s->found.index.entries;
}

const struct index *shard_index(const pst_shard *s)
{
    return &s->found.index;
}

const char *shard_index_path(const pst_shard *s)
{
    return s->found.path;
}

int shard_descriptor(const pst_shard *s)
{
    return s->file.fd;
}

void shard_release(pst_shard *s)
{
    file_close(s->file.fd);
    s->file.fd = -1;
}

/* The shard's descriptor, or another one where it was given back. */
static pst_status borrow_descriptor(const pst_shard *s, int *ret, pst_error *reterr)
{
    *ret = s->file.fd;
    return *ret < 0 ? file_open_read(ret, s->file.path, reterr) : PST_OK;
}

static void return_descriptor(const pst_shard *s, int fd)
{
    if (fd != s->file.fd)
        file_close(fd);
}

pst_status shard_map(const pst_shard *s, struct mapping *ret, pst_error *reterr)
{
    struct file_info info;
    struct mapping mapping = {0};
    pst_status st = mapping_open(&mapping, s->file.fd, s->file.path, (size_t)s->file.bytes, reterr);
    if (st == PST_OK)
        st = file_fstat(s->file.fd, s->file.path, &info, reterr);
    if (st == PST_OK && info.size < s->file.bytes)
        st = pst_fail_at(reterr, PST_ESTALE, s->file.path, PST_NOWHERE, PST_NOWHERE,
                         "became shorter while it was opened: %" PRIu64 " bytes instead of %" PRIu64 "; open it again",
                         info.size, s->file.bytes);
    if (st < 0) {
        mapping_close(&mapping);
        return st;
    }
    *ret = mapping;
    return PST_OK;
}

pst_status shard_map_sparse(const pst_shard *s, struct mapping *ret, pst_error *reterr)
{
    return mapping_open_sparse(ret, s->file.fd, s->file.path, (size_t)s->file.bytes, reterr);
}

pst_status shard_report(const pst_shard *s, pst_damage_log *log, pst_error *reterr)
{
    int fd = -1;
    pst_status st = s->found.index.gaps ? borrow_descriptor(s, &fd, reterr) : PST_OK;
    if (st == PST_OK)
        st = index_report_gaps(&s->found.index, fd, s->file.path, log, reterr);
    if (s->found.index.gaps)
        return_descriptor(s, fd);
    return st;
}

/* Checks the `length` bytes against the framing around them. */
static pst_status check_record(const pst_shard *s, uint64_t i, uint64_t offset, const uint8_t *header, const uint8_t *data,
                               uint64_t length, const uint8_t *footer, bool verify, pst_error *reterr)
{
    uint64_t told;
    if (!frame_get_header(header, &told))
        return pst_fail_at(reterr, PST_ECORRUPT, s->file.path, i, offset,
                           "crc of the length is %08x, stored %08x; `penstock inspect --verify` lists the damage",
                           crc32c_masked(header, 8), le32(header + 8));
    if (told != length)
        return pst_fail_at(reterr, PST_ESTALE, s->file.path, i, offset,
                           "the record has %" PRIu64 " bytes, its index (%s) says %" PRIu64
                           "; `penstock index --rebuild` recreates it",
                           told, pst_index_place_name(s->found.place), length);
    if (!verify)
        return PST_OK;
    uint32_t crc = crc32c_masked(data, (size_t)length);
    if (crc != le32(footer))
        return pst_fail_at(reterr, PST_ECORRUPT, s->file.path, i, offset,
                           "crc of the data is %08x, stored %08x; `penstock inspect --verify` lists the damage", crc,
                           le32(footer));
    return PST_OK;
}

pst_status shard_check(const pst_shard *s, uint64_t i, struct index_entry place, const uint8_t *frame, bool verify,
                       pst_error *reterr)
{
    return check_record(s, i, place.offset, frame, frame + FRAME_HEADER, place.length, frame + FRAME_HEADER + place.length,
                        verify, reterr);
}

pst_status shard_fail_short(const pst_shard *s, uint64_t i, struct index_entry place, uint64_t got, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ESTALE, s->file.path, i, place.offset,
                       "the file became shorter since it was opened: %" PRIu64 " bytes instead of %" PRIu64 "; open it again",
                       got, place.length + FRAME_BYTES);
}

pst_status shard_read_frame(const pst_shard *s, uint64_t i, struct index_entry place, uint8_t *frame, pst_error *reterr)
{
    size_t want = (size_t)place.length + FRAME_BYTES, got = 0;
    int fd;
    pst_status st = borrow_descriptor(s, &fd, reterr);
    if (st < 0)
        return st;
    st = file_read_at(fd, s->file.path, frame, want, place.offset, &got, reterr);
    return_descriptor(s, fd);
    return st == PST_OK && got < want ? shard_fail_short(s, i, place, got, reterr) : st;
}

pst_status pst_shard_read(const pst_shard *s, uint64_t i, void *buffer, size_t capacity, size_t *ret_length, pst_error *reterr)
{
    uint8_t header[FRAME_HEADER], footer[FRAME_FOOTER];
    uint64_t offset, length;
    size_t got = 0;
    if (i >= s->found.index.count)
        return pst_fail_at(reterr, PST_ENOTFOUND, s->file.path, i, PST_NOWHERE, "the shard has %" PRIu64 " records",
                           s->found.index.count);
    pst_shard_locate(s, i, &offset, &length);
    if (length > s->max_record_bytes)
        return pst_fail_at(reterr, PST_ELIMIT, s->file.path, i, offset,
                           "%" PRIu64 " bytes, the limit is %" PRIu64 "; max_record_bytes raises it", length,
                           s->max_record_bytes);
    if (length > capacity)
        return pst_fail_at(reterr, PST_EINVAL, s->file.path, i, offset, "the buffer has %zu bytes, the record %" PRIu64,
                           capacity, length);
    struct iovec pieces[] = {{header, sizeof(header)}, {buffer, (size_t)length}, {footer, sizeof(footer)}};
    int fd;
    pst_status st = borrow_descriptor(s, &fd, reterr);
    if (st < 0)
        return st;
    st = file_readv_at(fd, s->file.path, pieces, 3, offset, &got, reterr);
    return_descriptor(s, fd);
    if (st < 0)
        return st;
    if (got != length + FRAME_BYTES)
        return shard_fail_short(s, i, (struct index_entry){offset, length}, got, reterr);
    st = check_record(s, i, offset, header, buffer, length, footer, !s->no_verify, reterr);
    if (st == PST_OK)
        *ret_length = (size_t)length;
    return st;
}

/* Finds the index and compares it with a scan of the shard. */
static pst_status check_index(struct found_index *ret, struct shard_file *f, const pst_shard_options *o,
                              pst_error *reterr)
{
    struct index scan = {0}, *x = &ret->index;
    struct file_stop stop = {o->stop, o->stop_user};
    pst_status st = index_find(ret, f, o, reterr);
    if (st == PST_OK)
        st = index_scan(&scan, f->fd, f->path, o->max_record_bytes, &stop, reterr);
    if (st < 0)
        return st;
    uint64_t i = 0, common = scan.count < x->count ? scan.count : x->count;
    while (i < common && scan.entries[i].offset == x->entries[i].offset && scan.entries[i].length == x->entries[i].length)
        i++;
    if (i < scan.count || i < x->count)
        st = pst_fail_at(reterr, PST_ESTALE, ret->path, i, PST_NOWHERE,
                         "the index has %" PRIu64 " records, the shard %" PRIu64
                         "; they differ from here on; `penstock index --rebuild` recreates it",
                         x->count, scan.count);
    index_finish(&scan);
    if (st == PST_OK)
        st = index_check_sections(x, ret->path, reterr);
    if (st == PST_OK)
        st = entropy_check(ret, f, o, 1, NULL, NULL, reterr);
    return st < 0 ? st : index_report_gaps(x, f->fd, f->path, o->damage, reterr);
}

/* An index beside a shard in a store that does not note the shard's version, as one that was made elsewhere and copied there, notes it from now on:
 * readers then need no samples. Where that is not allowed, it is of use as it is. Returns whether it was written. */
static bool note_version(const struct found_index *x, const struct shard_file *f, const pst_shard_options *o)
{
    struct index with = x->index;
    if (o->no_write || x->built || x->place != PST_INDEX_SIDECAR || index_is_of_version(&with, f->version, f->bytes))
        return false;
    index_set_version(&with, f->version);
    return with.version && index_publish(x->path, &with, false, NULL) == PST_OK;
}

pst_status pst_index_make(const char *path, const pst_shard_options *options, bool rebuild, bool check, pst_index_report *ret,
                          pst_error *reterr)
{
    pst_shard_options o = {0};
    struct shard_file f = {0};
    struct found_index x = {0};
    pst_status st = take_options(&o, options, reterr);
    if (st == PST_OK)
        st = result_check(ret, reterr);
    if (st < 0)
        return st;
    st = shard_file_open(&f, path, reterr);
    if (st < 0)
        goto done;
    if (check)
        st = check_index(&x, &f, &o, reterr);
    else
        st = rebuild ? index_make(&x, &f, &o, true, reterr) : find_or_make(&x, &f, &o, true, reterr);
    if (st == PST_OK && !check && x.place == PST_INDEX_CACHE && file_is_remote(f.fd)) {
        found_index_finish(&x); /* reading leaves the indexes of a bucket in the cache; asked for, they belong beside the shards */
        x = (struct found_index){0};
        st = index_make(&x, &f, &o, true, reterr);
    }
    if (st < 0)
        goto done;
    pst_index_report report = {.records = x.index.count,
                               .bytes = f.bytes,
                               .fingerprint = f.fingerprint,
                               .place = x.place,
                               .written = (x.built && x.path) || (!check && note_version(&x, &f, &o))};
    snprintf(report.path, sizeof(report.path), "%s", x.path ? x.path : "");
    result_give(ret, &report, sizeof(report));
done:
    found_index_finish(&x);
    shard_file_close(&f);
    return st;
}
