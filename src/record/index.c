/* index.c: the .pidx format, written and read; docs/formats.md has it byte by byte.
 *
 * Promises: an index that opens has rising, disjoint entries inside the shard it speaks of, whoever wrote the file.
 * Whether that shard is the one at hand is the fingerprint's answer; where indexes lie is index_find.c's. */
#include "record/index.h"

#include "base/hash.h"
#include "base/le.h"
#include "base/memory.h"
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

#define COPIED_BYTES ((size_t)64 << 10) /* an index up to this size is copied, not mapped */

#define SAMPLES      16u
#define SAMPLE_BYTES ((size_t)4096)

_Static_assert(sizeof(struct index_entry) == 16, "entries are used as they lie in the file");

pst_status index_builder_add(struct index_builder *b, uint64_t offset, uint64_t length, pst_error *reterr)
{
    if (mem_grow((void **)&b->entries, &b->capacity, b->count + 1, sizeof(*b->entries)) < 0)
        return pst_fail(reterr, PST_ENOMEM, "out of memory for an index of %zu records", b->count + 1);
    b->entries[b->count++] = (struct index_entry){offset, length};
    return PST_OK;
}

void index_builder_finish(struct index_builder *b)
{
    mem_free(b->entries);
    *b = (struct index_builder){0};
}

pst_status index_fingerprint(int fd, const char *path, uint64_t *ret_size, uint64_t *ret_fingerprint, pst_error *reterr)
{
    struct file_info info;
    size_t used = 0, got;
    pst_status st = file_fstat(fd, path, &info, reterr);
    if (st < 0)
        return st;
    uint8_t *sample = mem_alloc(SAMPLES * SAMPLE_BYTES);
    if (!sample)
        return pst_fail_at(reterr, PST_ENOMEM, path, PST_NOWHERE, PST_NOWHERE, "taking the fingerprint: out of memory");
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
    if (st == PST_OK) {
        *ret_size = info.size;
        *ret_fingerprint = hash_bytes(sample, used, info.size);
    }
    mem_free(sample);
    return st;
}

/* Of header and table, without the checksum itself. */
static uint64_t header_checksum(const uint8_t *file, size_t table_end)
{
    return hash_bytes(file + HEADER, table_end - HEADER, hash_bytes(file, AT_CHECKSUM, 0));
}

static void put_section(uint8_t *out, const char tag[4], uint64_t offset, const void *data, size_t length)
{
    memcpy(out + SECTION_TAG, tag, 4);
    put_le64(out + SECTION_OFFSET, offset);
    put_le64(out + SECTION_LENGTH, length);
    put_le64(out + SECTION_CHECKSUM, hash_bytes(data, length, 0));
}

pst_status index_publish(const char *path, const struct index_entry *entries, uint64_t count, uint64_t shard_bytes,
                         uint64_t fingerprint, const char *note, size_t note_length, bool sync, pst_error *reterr)
{
    uint8_t head[HEADER + 2 * SECTION] = {0};
    uint32_t sections = note ? 2 : 1;
    size_t table_end = HEADER + sections * SECTION, recs_length = (size_t)count * sizeof(*entries);
    struct publish p = {0};

    memcpy(head + AT_MAGIC, MAGIC, 8);
    put_le32(head + AT_VERSION, VERSION);
    put_le32(head + AT_HEADER, HEADER);
    put_le32(head + AT_SECTIONS, sections);
    put_le64(head + AT_RECORDS, count);
    put_le64(head + AT_SHARD_BYTES, shard_bytes);
    put_le64(head + AT_FINGERPRINT, fingerprint);
    put_le64(head + AT_FILE_BYTES, table_end + recs_length + (note ? note_length : 0));
    put_section(head + HEADER, "RECS", table_end, entries, recs_length);
    if (note)
        put_section(head + HEADER + SECTION, "NOTE", table_end + recs_length, note, note_length);
    put_le64(head + AT_CHECKSUM, header_checksum(head, table_end));

    struct iovec pieces[] = {
        {head, table_end}, {(void *)(uintptr_t)entries, recs_length}, {(void *)(uintptr_t)note, note_length}};
    pst_status st = publish_open(&p, path, true, reterr);
    if (st == PST_OK)
        st = file_writev_at(p.fd, path, pieces, note ? 3 : 2, 0, reterr);
    if (st == PST_OK)
        st = publish_commit(&p, sync, reterr);
    publish_discard(&p);
    return st;
}

static pst_status fail_format(const char *path, pst_error *reterr, const char *what, uint64_t found, uint64_t expected)
{
    return pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE,
                       "index: %s is %" PRIu64 ", expected %" PRIu64 "; `penstock index --rebuild` makes it anew", what, found,
                       expected);
}

/* The section of that name, left as it is if there is none. One that reaches out of the file, or comes twice, is an error. */
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
    size_t table_end = 0, recs_length = 0, note_length = 0;
    const uint8_t *recs = NULL, *note = NULL;
    pst_status st = read_header(x, file, size, &table_end, path, reterr);
    if (st == PST_OK)
        st = find_section(file, size, "RECS", table_end, &recs, &recs_length, path, reterr);
    if (st == PST_OK)
        st = find_section(file, size, "NOTE", table_end, &note, &note_length, path, reterr);
    if (st < 0)
        return st;
    if (!recs || recs_length % sizeof(*x->entries) || recs_length / sizeof(*x->entries) != x->count)
        return fail_format(path, reterr, "the number of entries", recs_length / sizeof(*x->entries), x->count);
    x->entries = (const void *)recs; /* aligned: the file in memory is, and so is the section */
    x->note = (const char *)note;
    x->note_length = note_length;
    return index_check_entries(x, path, reterr);
}

/* The whole file, mapped or copied. A process may have some 60,000 mappings, and thousands of shards have small indexes. */
static pst_status bring_in(struct index *x, int fd, const char *path, size_t size, pst_error *reterr)
{
    size_t got = 0;
    if (size > COPIED_BYTES && file_map(&x->mapping, fd, path, size, NULL) == PST_OK) {
        x->mapping_length = size;
        return PST_OK;
    }
    x->memory = mem_alloc(size);
    if (!x->memory)
        return pst_fail_at(reterr, PST_ENOMEM, path, PST_NOWHERE, PST_NOWHERE, "opening the index: out of memory");
    pst_status st = file_read_at(fd, path, x->memory, size, 0, &got, reterr);
    return st == PST_OK && got < size ? fail_format(path, reterr, "the size of the file", got, size) : st;
}

pst_status index_open(struct index *ret, const char *path, pst_error *reterr)
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
    st = bring_in(&x, fd, path, (size_t)info.size, reterr);
    if (st == PST_OK)
        st = read_index(&x, x.mapping ? x.mapping : x.memory, (size_t)info.size, path, reterr);
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
    file_unmap(x->mapping, x->mapping_length);
    mem_free(x->memory);
    *x = (struct index){0};
}

uint64_t index_next(const struct index *x, uint64_t offset)
{
    uint64_t low = 0, high = x->count; /* entries before `low` are at or before `offset`, those from `high` on behind it */
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
    return mem_format("%s.pidx", shard_path);
}
