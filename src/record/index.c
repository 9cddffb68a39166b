/* index.c: the .pidx format, written and read; docs/formats.md has it byte by byte.
 *
 * Promises: a successfully opened index has ascending, disjoint entries inside the shard it describes, whichever program
 * wrote the file. The fingerprint shows whether it belongs to a given shard; index_find.c locates indexes. */
#include "record/index.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/memory.h"
#include "base/secret.h"
#include "io/file.h"
#include "io/publish.h"
#include "record/frame.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC        "PSTIDX1\n"
#define VERSION      1u
#define HEADER       64u
#define SECTION      32u /* bytes of a section's line in the table */
#define MAX_SECTIONS 1024u

enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_HEADER = 12,
    AT_SECTIONS = 16,
    AT_RECORDS = 24,
    AT_SHARD_BYTES = 32,
    AT_FINGERPRINT = 40,
    AT_FILE_BYTES = 48,
    AT_CHECKSUM = 56
};
enum { SECTION_TAG = 0, SECTION_OFFSET = 8, SECTION_LENGTH = 16, SECTION_CHECKSUM = 24 };

#define COPIED_BYTES ((size_t)64 << 10) /* an index, or a JPEG section, up to this size is copied, not mapped */

#define SAMPLES      16u
#define SAMPLE_BYTES ((size_t)4096)
#define ONE_REQUEST  ((uint64_t)8 << 20) /* a remote shard of this size is fetched whole */

_Static_assert(sizeof(struct index_entry) == 16, "entries are used as they lie in the file");

pst_status index_builder_add(struct index_builder *b, uint64_t offset, uint64_t length, pst_error *reterr)
{
    if (mem_grow((void **)&b->entries, &b->capacity, b->count + 1, sizeof(*b->entries)) < 0)
        return fail_memory(reterr, "allocating an index of %zu records", b->count + 1);
    b->entries[b->count++] = (struct index_entry){offset, length};
    return PST_OK;
}

void index_builder_finish(struct index_builder *b)
{
    mem_free(b->entries);
    *b = (struct index_builder){0};
}

void index_announce(int fd, uint64_t size)
{
    if (!file_is_remote(fd))
        return;
    if (size <= ONE_REQUEST) {
        file_fetch(fd, 0, (size_t)size);
        return;
    }
    for (unsigned i = 0; i < SAMPLES; i++)
        file_fetch(fd, i == SAMPLES - 1 ? size - SAMPLE_BYTES : i * ((size - SAMPLE_BYTES) / (SAMPLES - 1)), SAMPLE_BYTES);
}

bool index_saves_samples(uint64_t bytes)
{
    return bytes > ONE_REQUEST;
}

void index_set_version(struct index *x, const char *version)
{
    bool used = *version && index_saves_samples(x->shard_bytes);
    x->version = used ? version : NULL;
    x->version_length = used ? strlen(version) : 0;
}

bool index_is_of_version(const struct index *x, const char *version, uint64_t bytes)
{
    return *version && x->version && x->shard_bytes == bytes && strlen(version) == x->version_length &&
           memcmp(version, x->version, x->version_length) == 0;
}

pst_status index_fingerprint(int fd, const char *path, uint64_t *ret_size, uint64_t *ret_fingerprint, pst_error *reterr)
{
    struct file_info info;
    size_t used = 0, got, expected;
    pst_status st = file_fstat(fd, path, &info, reterr);
    if (st < 0)
        return st;
    uint8_t *sample = mem_alloc(SAMPLES * SAMPLE_BYTES);
    if (!sample)
        return fail_memory_at(reterr, path, "taking the fingerprint");
    expected = info.size < SAMPLES * SAMPLE_BYTES ? (size_t)info.size : SAMPLES * SAMPLE_BYTES;
    if (info.size <= SAMPLES * SAMPLE_BYTES) {
        st = file_read_at(fd, path, sample, (size_t)info.size, 0, &used, reterr);
    } else {
        uint64_t step = (info.size - SAMPLE_BYTES) / (SAMPLES - 1);
        for (unsigned i = 0; i < SAMPLES && st == PST_OK; i++) {
            uint64_t offset = i == SAMPLES - 1 ? info.size - SAMPLE_BYTES : i * step;
            st = file_read_at(fd, path, sample + used, SAMPLE_BYTES, offset, &got, reterr);
            used += st == PST_OK ? got : 0;
        }
    }
    if (st == PST_OK && used < expected)
        st = pst_fail_at(reterr, PST_ESTALE, path, PST_NOWHERE, PST_NOWHERE,
                         "became shorter while it was read: it had %" PRIu64 " bytes; open it again", info.size);
    if (st == PST_OK) {
        *ret_size = info.size;
        *ret_fingerprint = hash_bytes(sample, used, info.size);
    }
    mem_free(sample);
    return st;
}

/* Returns the checksum of header and table, without the checksum itself. */
static uint64_t header_checksum(const uint8_t *file, size_t table_end)
{
    return hash_bytes(file + HEADER, table_end - HEADER, hash_bytes(file, AT_CHECKSUM, 0));
}

/* ---- Writing ---- */

struct section {
    char tag[4];
    const void *data;
    size_t length;
};

static bool is_known(const uint8_t *line)
{
    return memcmp(line + SECTION_TAG, "RECS", 4) == 0 || memcmp(line + SECTION_TAG, "NOTE", 4) == 0 ||
           memcmp(line + SECTION_TAG, "JPEG", 4) == 0 || memcmp(line + SECTION_TAG, "ETAG", 4) == 0;
}

/* In the order of the file; each begins at a multiple of 8. Returns their number. */
static size_t list_sections(const struct index *x, struct section *ret)
{
    size_t n = 0;
    ret[n++] = (struct section){"RECS", x->entries, (size_t)x->count * sizeof(*x->entries)};
    if (x->jpegs)
        ret[n++] = (struct section){"JPEG", x->jpegs, x->jpegs_length};
    if (x->version)
        ret[n++] = (struct section){"ETAG", x->version, x->version_length};
    for (size_t i = 0; i < x->lines; i++) {
        const uint8_t *line = x->file + le32(x->file + AT_HEADER) + i * SECTION;
        uint64_t offset = le64(line + SECTION_OFFSET), length = le64(line + SECTION_LENGTH),
                 size = le64(x->file + AT_FILE_BYTES);
        if (is_known(line) || offset > size || length > size - offset)
            continue;
        ret[n].data = x->file + offset;
        ret[n].length = (size_t)length;
        memcpy(ret[n++].tag, line + SECTION_TAG, 4);
    }
    if (x->note)
        ret[n++] = (struct section){"NOTE", x->note, x->note_length};
    return n;
}

static void put_section(uint8_t *out, const struct section *s, uint64_t offset)
{
    memcpy(out + SECTION_TAG, s->tag, 4);
    put_le64(out + SECTION_OFFSET, offset);
    put_le64(out + SECTION_LENGTH, s->length);
    put_le64(out + SECTION_CHECKSUM, hash_bytes(s->data, s->length, 0));
}

/* Fills in header and table. Returns the size of the whole file. */
static uint64_t put_head(uint8_t *head, const struct index *x, const struct section *sections, size_t count)
{
    size_t table_end = HEADER + count * SECTION;
    uint64_t offset = table_end;
    for (size_t i = 0; i < count; i++) {
        offset = (offset + 7) & ~UINT64_C(7);
        put_section(head + HEADER + i * SECTION, &sections[i], offset);
        offset += sections[i].length;
    }
    memcpy(head + AT_MAGIC, MAGIC, 8);
    put_le32(head + AT_VERSION, VERSION);
    put_le32(head + AT_HEADER, HEADER);
    put_le32(head + AT_SECTIONS, (uint32_t)count);
    put_le64(head + AT_RECORDS, x->count);
    put_le64(head + AT_SHARD_BYTES, x->shard_bytes);
    put_le64(head + AT_FINGERPRINT, x->fingerprint);
    put_le64(head + AT_FILE_BYTES, offset);
    put_le64(head + AT_CHECKSUM, header_checksum(head, table_end));
    return offset;
}

/* Each with the zeros up to the next one. */
static pst_status write_sections(int fd, const char *path, uint8_t *head, const struct section *sections, size_t count,
                                 uint64_t size, pst_error *reterr)
{
    uint8_t zeros[8] = {0};
    pst_status st = file_write_at(fd, path, head, HEADER + count * SECTION, 0, reterr);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        const uint8_t *line = head + HEADER + i * SECTION;
        uint64_t offset = le64(line + SECTION_OFFSET), next = i + 1 < count ? le64(line + SECTION + SECTION_OFFSET) : size;
        struct iovec pieces[] = {{(void *)(uintptr_t)sections[i].data, sections[i].length},
                                 {zeros, (size_t)(next - offset) - sections[i].length}};
        st = file_writev_at(fd, path, pieces, 2, offset, reterr);
    }
    return st;
}

pst_status index_publish(const char *path, const struct index *x, bool sync, pst_error *reterr)
{
    struct publish p = {0};
    size_t most = x->lines + 4;
    uint8_t *head = mem_zalloc(HEADER + most * SECTION);
    struct section *sections = mem_array(most, sizeof(*sections));
    pst_status st = head && sections ? publish_open(&p, path, true, reterr) : fail_memory_at(reterr, path, "writing the index");
    if (st == PST_OK) {
        size_t count = list_sections(x, sections);
        uint64_t size = put_head(head, x, sections, count);
        st = write_sections(p.fd, path, head, sections, count, size, reterr);
    }
    if (st == PST_OK)
        st = publish_commit(&p, sync, reterr);
    publish_discard(&p);
    mem_free(sections);
    mem_free(head);
    return st;
}

/* ---- Reading ---- */

static pst_status fail_format(const char *path, pst_error *reterr, const char *what, uint64_t found, uint64_t expected)
{
    return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE,
                       "index: %s is %" PRIu64 ", expected %" PRIu64 "; `penstock index --rebuild` recreates it", what, found,
                       expected);
}

/* Finds the section of that name; `*ret` is unchanged if there is none. A section that extends past the file, or occurs
 * twice, is an error. */
static pst_status find_section(const uint8_t *file, size_t size, const char tag[4], size_t table_end, const uint8_t **ret,
                               size_t *ret_length, const char *path, pst_error *reterr)
{
    const uint8_t *found = NULL;
    for (const uint8_t *line = file + le32(file + AT_HEADER); line < file + table_end; line += SECTION) {
        uint64_t offset = le64(line + SECTION_OFFSET), length = le64(line + SECTION_LENGTH);
        if (memcmp(line + SECTION_TAG, tag, 4) != 0)
            continue;
        if (found)
            return fail_format(path, reterr, "the number of sections of one kind", 2, 1);
        if (offset < table_end || offset > size || length > size - offset)
            return fail_format(path, reterr, "the end of a section", offset + length, size);
        if (offset % 8 != 0)
            return fail_format(path, reterr, "a section's offset modulo 8", offset % 8, 0);
        uint64_t checksum = hash_bytes(file + offset, (size_t)length, 0);
        if (checksum != le64(line + SECTION_CHECKSUM))
            return fail_format(path, reterr, "a section's checksum", checksum, le64(line + SECTION_CHECKSUM));
        *ret = found = file + offset;
        *ret_length = (size_t)length;
    }
    return PST_OK;
}

/* The JPEG section, found and not looked at: it may be longer than all others, and each of its entries vouches for itself. */
static void find_jpegs(struct index *x, const uint8_t *file, size_t size, size_t table_end)
{
    unsigned found = 0;
    for (const uint8_t *line = file + le32(file + AT_HEADER); line < file + table_end; line += SECTION) {
        uint64_t offset = le64(line + SECTION_OFFSET), length = le64(line + SECTION_LENGTH);
        if (memcmp(line + SECTION_TAG, "JPEG", 4) != 0)
            continue;
        bool fits = offset >= table_end && offset <= size && length <= size - offset && offset % 8 == 0;
        const uint8_t *base = x->mapping.data ? x->mapping.data : file;
        x->jpegs = fits && found++ == 0 ? base + offset : NULL;
        x->jpegs_length = x->jpegs ? (size_t)length : 0;
    }
}

pst_status index_check_entries(struct index *x, const char *path, pst_error *reterr)
{
    uint64_t end = 0; /* of the record before */
    x->gaps = 0;
    for (uint64_t i = 0; i < x->count; i++) {
        uint64_t offset = x->entries[i].offset, length = x->entries[i].length;
        if (offset < end || offset > x->shard_bytes || x->shard_bytes - offset < FRAME_BYTES ||
            length > x->shard_bytes - offset - FRAME_BYTES)
            return pst_fail_at(reterr, PST_ECORRUPT, path, i, offset,
                               "index: a record of %" PRIu64 " bytes does not fit between byte %" PRIu64
                               " and the shard's end at %" PRIu64,
                               length, end, x->shard_bytes);
        x->gaps += offset != end;
        end = offset + FRAME_BYTES + length;
    }
    x->gaps += end != x->shard_bytes;
    return PST_OK;
}

static pst_status read_header(struct index *x, const uint8_t *file, size_t size, size_t *ret_table_end, const char *path,
                              pst_error *reterr)
{
    if (memcmp(file + AT_MAGIC, MAGIC, 8) != 0)
        return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, 0,
                           "index: does not start with PSTIDX1: not an index, or one of "
                           "another version");
    uint32_t header = le32(file + AT_HEADER), sections = le32(file + AT_SECTIONS);
    if (le32(file + AT_VERSION) < VERSION)
        return fail_format(path, reterr, "the version", le32(file + AT_VERSION), VERSION);
    if (header < HEADER || header > size)
        return fail_format(path, reterr, "the header's size", header, HEADER);
    if (sections > MAX_SECTIONS || sections > (size - header) / SECTION)
        return fail_format(path, reterr, "the number of sections", sections, (size - header) / SECTION);
    if (le64(file + AT_FILE_BYTES) != size)
        return fail_format(path, reterr, "the size of the file", size, le64(file + AT_FILE_BYTES));
    size_t table_end = header + (size_t)sections * SECTION;
    uint64_t checksum = header_checksum(file, table_end);
    if (checksum != le64(file + AT_CHECKSUM))
        return fail_format(path, reterr, "the header's checksum", checksum, le64(file + AT_CHECKSUM));
    x->count = le64(file + AT_RECORDS);
    x->shard_bytes = le64(file + AT_SHARD_BYTES);
    x->fingerprint = le64(file + AT_FINGERPRINT);
    *ret_table_end = table_end;
    return PST_OK;
}

static pst_status read_index(struct index *x, const uint8_t *file, size_t size, const char *path, pst_error *reterr)
{
    size_t table_end = 0, recs_length = 0, note_length = 0, version_length = 0;
    const uint8_t *recs = NULL, *note = NULL, *version = NULL;
    pst_status st = read_header(x, file, size, &table_end, path, reterr);
    if (st == PST_OK)
        st = find_section(file, size, "RECS", table_end, &recs, &recs_length, path, reterr);
    if (st == PST_OK)
        st = find_section(file, size, "NOTE", table_end, &note, &note_length, path, reterr);
    if (st == PST_OK)
        st = find_section(file, size, "ETAG", table_end, &version, &version_length, path, reterr);
    if (st < 0)
        return st;
    if (!recs || recs_length % sizeof(*x->entries) || recs_length / sizeof(*x->entries) != x->count)
        return fail_format(path, reterr, "the number of entries", recs_length / sizeof(*x->entries), x->count);
    x->entries = (const void *)recs; /* aligned: the file in memory is, and so is the section */
    x->note = (const char *)note;
    x->note_length = note_length;
    x->version = (const char *)version;
    x->version_length = version_length;
    x->file = file;
    x->lines = le32(file + AT_SECTIONS);
    find_jpegs(x, file, size, table_end);
    return index_check_entries(x, path, reterr);
}

/* Reads [begin, end) of the file to the same place in memory. */
static pst_status read_range(struct index *x, int fd, const char *path, size_t begin, size_t end, pst_error *reterr)
{
    size_t got = 0;
    pst_status st = file_read_at(fd, path, (uint8_t *)x->memory + begin, end - begin, begin, &got, reterr);
    return st == PST_OK && got < end - begin ? fail_format(path, reterr, "the size of the file", begin + got, end) : st;
}

/* The header, and the table as far as the file has it. `*ret_end`: of both. */
static pst_status read_table(struct index *x, int fd, const char *path, size_t size, size_t *ret_end, pst_error *reterr)
{
    pst_status st = read_range(x, fd, path, 0, HEADER, reterr);
    if (st < 0)
        return st;
    const uint8_t *head = x->memory;
    size_t header = le32(head + AT_HEADER), sections = le32(head + AT_SECTIONS);
    bool fits = header >= HEADER && header <= size && sections <= MAX_SECTIONS && sections <= (size - header) / SECTION;
    *ret_end = fits ? header + sections * SECTION : HEADER;
    return read_range(x, fd, path, HEADER, *ret_end, reterr);
}

/* All of the file but a long JPEG section, which is mapped. Its place in memory stays untouched: it takes none. */
static pst_status view(struct index *x, int fd, const char *path, size_t size, pst_error *reterr)
{
    struct index jpegs = {0};
    size_t end = 0, begin = size, behind = size;
    pst_status st = read_table(x, fd, path, size, &end, reterr);
    if (st < 0)
        return st;
    if (end > HEADER)
        find_jpegs(&jpegs, x->memory, size, end);
    if (jpegs.jpegs_length > COPIED_BYTES && mapping_open(&x->mapping, fd, path, size, NULL) == PST_OK) {
        begin = (size_t)((const uint8_t *)jpegs.jpegs - (const uint8_t *)x->memory);
        behind = begin + jpegs.jpegs_length;
    }
    st = read_range(x, fd, path, end, begin, reterr);
    return st == PST_OK ? read_range(x, fd, path, behind, size, reterr) : st;
}

/* A process may have some 60,000 mappings, and thousands of shards have small indexes: those are copied. */
static pst_status bring_in(struct index *x, int fd, const char *path, size_t size, enum index_hold hold, pst_error *reterr)
{
    if (hold == INDEX_MAPPED && size > COPIED_BYTES && mapping_open(&x->mapping, fd, path, size, NULL) == PST_OK)
        return PST_OK;
    x->memory = mem_alloc(size);
    if (!x->memory)
        return fail_memory_at(reterr, path, "opening the index");
    return hold == INDEX_COPIED || size <= COPIED_BYTES ? read_range(x, fd, path, 0, size, reterr)
                                                        : view(x, fd, path, size, reterr);
}

pst_status index_open(struct index *ret, const char *path, pst_error *reterr)
{
    return index_open_as(ret, path, INDEX_VIEWED, reterr);
}

pst_status index_open_as(struct index *ret, const char *path, enum index_hold hold, pst_error *reterr)
{
    struct index x = {0};
    struct file_info info;
    int fd = -1;
    pst_status st = file_open_read(&fd, path, reterr);
    if (st == PST_OK)
        st = file_fstat(fd, path, &info, reterr);
    if (st < 0)
        goto done;
    if (!info.is_regular || info.size < HEADER || info.size > SIZE_MAX) {
        st = fail_format(path, reterr, "the size of the file", info.is_regular ? info.size : 0, HEADER);
        goto done;
    }
    st = bring_in(&x, fd, path, (size_t)info.size, hold, reterr);
    if (st == PST_OK)
        st = read_index(&x, x.memory ? x.memory : x.mapping.data, (size_t)info.size, path, reterr);
    if (st == PST_OK && mapping_broken(&x.mapping))
        st = mapping_fail(&x.mapping, path, PST_NOWHERE, PST_NOWHERE, reterr);
    if (st == PST_OK)
        *ret = x;
    else
        index_finish(&x);
done:
    file_close(fd);
    return st;
}

void index_finish(struct index *x)
{
    mapping_close(&x->mapping);
    mem_free(x->memory);
    *x = (struct index){0};
}

pst_status index_check_sections(const struct index *x, const char *path, pst_error *reterr)
{
    for (size_t i = 0; i < x->lines; i++) {
        const uint8_t *line = x->file + le32(x->file + AT_HEADER) + i * SECTION;
        uint64_t offset = le64(line + SECTION_OFFSET), length = le64(line + SECTION_LENGTH),
                 size = le64(x->file + AT_FILE_BYTES);
        if (offset > size || length > size - offset)
            return fail_format(path, reterr, "the end of a section", offset + length, size);
        const uint8_t *data = memcmp(line + SECTION_TAG, "JPEG", 4) == 0 && x->jpegs ? x->jpegs : x->file + offset;
        uint64_t checksum = hash_bytes(data, (size_t)length, 0);
        if (checksum != le64(line + SECTION_CHECKSUM))
            return fail_format(path, reterr, "a section's checksum", checksum, le64(line + SECTION_CHECKSUM));
    }
    return mapping_broken(&x->mapping) ? mapping_fail(&x->mapping, path, PST_NOWHERE, PST_NOWHERE, reterr) : PST_OK;
}

uint64_t index_next(const struct index *x, uint64_t offset)
{
    uint64_t low = 0, high = x->count; /* entries before `low` are at or before `offset`, those from `high` on are after it */
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (x->entries[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < x->count ? x->entries[low].offset : x->shard_bytes;
}

char *index_sidecar_path(const char *shard_path)
{
    size_t n = secret_free_length(shard_path); /* the query of a web address stays at its end */
    return mem_format("%.*s.pidx%s", (int)n, shard_path, shard_path + n);
}
