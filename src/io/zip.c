/* zip.c: a zip archive's central directory, read and checked as a whole.
 *
 * Promises: every reported member has its data inside the file, before the directory, and sizes that are possible for its
 * method; names are keys, free of NUL. Leaves to others: inflating, and comparing the CRC. The directory is authoritative:
 * local headers are used only to find where the data starts, so data descriptors need not be read. */
#include "io/zip.h"

#include "base/error.h"
#include "base/le.h"
#include "base/memory.h"
#include "io/file.h"

#include <inttypes.h>
#include <string.h>

#define END_SIGNATURE     0x06054b50u
#define END_BYTES         22u
#define END64_SIGNATURE   0x06064b50u
#define END64_BYTES       56u
#define LOCATOR_SIGNATURE 0x07064b50u
#define LOCATOR_BYTES     20u
#define ENTRY_SIGNATURE   0x02014b50u
#define ENTRY_BYTES       46u
#define LOCAL_SIGNATURE   0x04034b50u
#define LOCAL_BYTES       30u
#define COMMENT_MAX       65535u
#define ZIP64_EXTRA       1u
#define METHOD_DEFLATE    8u
#define DIRECTORY_MAX     ((uint64_t)256 << 20)
#define DEFLATE_RATIO     1032u /* 258 bytes for two bits: nothing deflated grows further */

struct source {
    int fd;
    const char *path;
    uint64_t size;
};

struct directory {
    uint64_t offset, size, count;
};

static pst_status corrupt(const struct source *s, uint64_t offset, const char *what, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_ECORRUPT, s->path, PST_NOWHERE, offset, "zip: %s", what);
}

static pst_status read_exactly(const struct source *s, void *buffer, size_t length, uint64_t offset, pst_error *reterr)
{
    size_t got = 0;
    if (offset > s->size || length > s->size - offset)
        return corrupt(s, offset, "an offset past the end of the file: truncated or damaged", reterr);
    pst_status st = file_read_at(s->fd, s->path, buffer, length, offset, &got, reterr);
    return st == PST_OK && got < length ? corrupt(s, offset, "the file became shorter while it was read", reterr) : st;
}

/* ---- The end record ---- */

static pst_status read_end64(const struct source *s, uint64_t end, struct directory *ret, pst_error *reterr)
{
    uint8_t locator[LOCATOR_BYTES], e[END64_BYTES];
    if (end < LOCATOR_BYTES)
        return PST_OK;
    pst_status st = read_exactly(s, locator, sizeof(locator), end - LOCATOR_BYTES, reterr);
    if (st != PST_OK || le32(locator) != LOCATOR_SIGNATURE)
        return st;
    uint64_t at = le64(locator + 8);
    st = read_exactly(s, e, sizeof(e), at, reterr);
    if (st != PST_OK)
        return st;
    if (le32(e) != END64_SIGNATURE)
        return corrupt(s, at, "no Zip64 end record where its locator points", reterr);
    *ret = (struct directory){.offset = le64(e + 48), .size = le64(e + 40), .count = le64(e + 32)};
    return PST_OK;
}

/* `e` is the end record, found at `end`. */
static pst_status read_end(const struct source *s, const uint8_t *e, uint64_t end, struct directory *ret, pst_error *reterr)
{
    struct directory d = {.offset = le32(e + 16), .size = le32(e + 12), .count = le16(e + 10)};
    pst_status st = read_end64(s, end, &d, reterr);
    if (st != PST_OK)
        return st;
    uint16_t disk = le16(e + 4);
    if (disk != 0 && disk != 0xffff)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, s->path, PST_NOWHERE, end,
                           "zip: one part of an archive in several; join the parts first");
    if (d.offset > end || d.size > end - d.offset || d.count > d.size / ENTRY_BYTES)
        return corrupt(s, end, "a directory that does not fit into the file: truncated or damaged", reterr);
    if (d.size > DIRECTORY_MAX)
        return pst_fail_at(reterr, PST_ELIMIT, s->path, PST_NOWHERE, end,
                           "zip: a directory of %" PRIu64 " bytes; at most %" PRIu64 " are accepted", d.size, DIRECTORY_MAX);
    *ret = d;
    return PST_OK;
}

/* The end record is the last part of the file, except for a comment whose length it contains. */
static pst_status find_directory(const struct source *s, struct directory *ret, pst_error *reterr)
{
    uint64_t tail_bytes = s->size < END_BYTES + COMMENT_MAX ? s->size : END_BYTES + COMMENT_MAX;
    uint64_t tail_offset = s->size - tail_bytes;
    size_t length = (size_t)tail_bytes;
    uint8_t *tail = mem_alloc(length);
    if (!tail)
        return fail_memory_at(reterr, s->path, "zip");
    pst_status st = read_exactly(s, tail, length, tail_offset, reterr);
    for (size_t comment = 0; st == PST_OK; comment++) {
        if (comment + END_BYTES > length) {
            st = corrupt(s, PST_NOWHERE, "no end record: truncated, or not a zip archive", reterr);
            break;
        }
        const uint8_t *e = tail + length - END_BYTES - comment;
        if (le32(e) == END_SIGNATURE && le16(e + 20) == comment) {
            st = read_end(s, e, tail_offset + (uint64_t)(e - tail), ret, reterr);
            break;
        }
    }
    mem_free(tail);
    return st;
}

/* ---- Entries ---- */

/* Fields that overflow in the entry continue in the Zip64 extra field, in this order. False: they should and do not. */
static bool widen(const uint8_t *extra, size_t length, struct zip_member *m)
{
    uint64_t *fields[] = {&m->size, &m->stored_size, &m->offset};
    while (length >= 4) {
        size_t n = le16(extra + 2);
        if (n > length - 4)
            return false;
        if (le16(extra) == ZIP64_EXTRA) {
            const uint8_t *at = extra + 4, *end = at + n;
            for (size_t i = 0; i < 3; i++) {
                if (*fields[i] != UINT32_MAX)
                    continue;
                if (end - at < 8)
                    return false;
                *fields[i] = le64(at);
                at += 8;
            }
            return true;
        }
        extra += 4 + n;
        length -= 4 + n;
    }
    return true; /* without the field 0xffffffff is a number like any other: the bounds decide */
}

static pst_status check_method(const struct source *s, const uint8_t *entry, const struct zip_member *m, pst_error *reterr)
{
    uint16_t flags = le16(entry + 8), method = le16(entry + 10);
    if (flags & 0x2041) /* encrypted, strongly encrypted, local headers masked */
        return pst_fail_at(reterr, PST_EUNSUPPORTED, s->path, PST_NOWHERE, PST_NOWHERE,
                           "zip: %.100s is encrypted; decrypt the archive first", m->name);
    if (method != 0 && method != METHOD_DEFLATE)
        return pst_fail_at(reterr, PST_EUNSUPPORTED, s->path, PST_NOWHERE, PST_NOWHERE,
                           "zip: %.100s is compressed by method %u; repack it stored or deflated", m->name, method);
    if (method == 0 ? m->size != m->stored_size : m->size / DEFLATE_RATIO > m->stored_size)
        return pst_fail_at(reterr, PST_ECORRUPT, s->path, PST_NOWHERE, PST_NOWHERE,
                           "zip: %.100s claims %" PRIu64 " bytes out of %" PRIu64 " stored, which its method cannot yield",
                           m->name, m->size, m->stored_size);
    return PST_OK;
}

/* Turns m->offset from the local header's place into the data's. */
static pst_status find_data(const struct source *s, uint64_t limit, struct zip_member *m, pst_error *reterr)
{
    uint8_t local[LOCAL_BYTES];
    uint64_t at = m->offset;
    pst_status st = read_exactly(s, local, sizeof(local), at, reterr);
    if (st != PST_OK)
        return st;
    if (le32(local) != LOCAL_SIGNATURE)
        return corrupt(s, at, "no member where the directory points", reterr);
    m->offset = at + LOCAL_BYTES + le16(local + 26) + le16(local + 28);
    if (m->offset > limit || m->stored_size > limit - m->offset)
        return pst_fail_at(reterr, PST_ECORRUPT, s->path, PST_NOWHERE, at,
                           "zip: %.100s has %" PRIu64 " bytes at %" PRIu64 ", which reach into the directory at %" PRIu64,
                           m->name, m->stored_size, m->offset, limit);
    return PST_OK;
}

/* Takes one entry off the front of `*at`. Folders add nothing. On failure the name may be left for zip_finish. */
static pst_status take_entry(struct zip *z, size_t *capacity, const struct source *s, const struct directory *d,
                             const uint8_t **at, const uint8_t *end, pst_error *reterr)
{
    const uint8_t *e = *at;
    uint64_t place = d->offset + d->size - (uint64_t)(end - e);
    if ((size_t)(end - e) < ENTRY_BYTES || le32(e) != ENTRY_SIGNATURE)
        return corrupt(s, place, "no directory entry where one is expected", reterr);
    size_t name = le16(e + 28), extra = le16(e + 30), whole = ENTRY_BYTES + name + extra + le16(e + 32);
    if (whole > (size_t)(end - e))
        return corrupt(s, place, "a directory entry that extends past the directory", reterr);
    if (memchr(e + ENTRY_BYTES, 0, name))
        return corrupt(s, place, "a NUL in a member's name", reterr);
    *at += whole;
    if (name && e[ENTRY_BYTES + name - 1] == '/')
        return PST_OK;
    struct zip_member m = {.stored_size = le32(e + 20), .size = le32(e + 24), .offset = le32(e + 42), .crc = le32(e + 16)};
    m.deflated = le16(e + 10) == METHOD_DEFLATE;
    if (!widen(e + ENTRY_BYTES + name, extra, &m))
        return corrupt(s, place, "a directory entry whose extra fields are cut short", reterr);
    m.name = mem_strndup((const char *)e + ENTRY_BYTES, name);
    if (!m.name || mem_grow((void **)&z->members, capacity, z->count + 1, sizeof(m)) < 0) {
        mem_free(m.name);
        return fail_memory_at(reterr, s->path, "zip");
    }
    struct zip_member *kept = &z->members[z->count++];
    *kept = m;
    pst_status st = check_method(s, e, kept, reterr);
    return st == PST_OK ? find_data(s, d->offset, kept, reterr) : st;
}

pst_status zip_read(struct zip *ret, int fd, const char *path, pst_error *reterr)
{
    struct source s = {.fd = fd, .path = path};
    struct directory d = {0};
    struct file_info info;
    struct zip z = {0};
    size_t capacity = 0;
    uint8_t *data = NULL;
    pst_status st = file_fstat(fd, path, &info, reterr);
    if (st != PST_OK)
        return st;
    s.size = info.size;
    st = find_directory(&s, &d, reterr);
    if (st != PST_OK)
        return st;
    data = mem_alloc((size_t)d.size);
    st = data ? read_exactly(&s, data, (size_t)d.size, d.offset, reterr) : fail_memory_at(reterr, s.path, "zip");
    const uint8_t *at = data;
    for (uint64_t i = 0; st == PST_OK && i < d.count; i++)
        st = take_entry(&z, &capacity, &s, &d, &at, data + d.size, reterr);
    mem_free(data);
    if (st == PST_OK)
        *ret = z;
    else
        zip_finish(&z);
    return st;
}

void zip_finish(struct zip *z)
{
    for (size_t i = 0; i < z->count; i++)
        mem_free(z->members[i].name);
    mem_free(z->members);
    *z = (struct zip){0};
}
