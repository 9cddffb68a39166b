/* record_fixture.h: small shards with known content, for the tests of src/record. */
#ifndef TESTS_RECORD_FIXTURE_H
#define TESTS_RECORD_FIXTURE_H

#include "harness.h"

#include "codec/stream.h"
#include "record/frame.h"
#include <penstock/record.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#define FIXTURE_RECORDS 5
static const size_t fixture_lengths[FIXTURE_RECORDS] = {37, 0, 120, 1, 300};

/* Bytes that depend on the record and on nothing else. */
static inline void fixture_fill(uint8_t *data, size_t length, uint64_t record)
{
    uint64_t state = record * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < length; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(state >> 56);
    }
}

static inline bool fixture_equal(const uint8_t *data, size_t length, uint64_t record)
{
    uint8_t *want = malloc(length + 1);
    fixture_fill(want, length, record);
    bool equal = memcmp(want, data, length) == 0;
    free(want);
    return equal;
}

struct fixture {
    uint8_t *bytes;
    size_t length;
    size_t offsets[FIXTURE_RECORDS + 1];
};

/* The shard of FIXTURE_RECORDS records as bytes; free(f.bytes). */
static inline struct fixture fixture_make(void)
{
    struct fixture f = {.bytes = malloc(4096)};
    for (size_t i = 0; i < FIXTURE_RECORDS; i++) {
        uint8_t *at = f.bytes + f.length;
        f.offsets[i] = f.length;
        frame_put_header(at, fixture_lengths[i]);
        fixture_fill(at + FRAME_HEADER, fixture_lengths[i], i);
        frame_put_footer(at + FRAME_HEADER + fixture_lengths[i], at + FRAME_HEADER, fixture_lengths[i]);
        f.length += fixture_lengths[i] + FRAME_BYTES;
    }
    f.offsets[FIXTURE_RECORDS] = f.length;
    return f;
}

/* The record that byte `at` of the shard belongs to. */
static inline size_t fixture_record_at(const struct fixture *f, size_t at)
{
    size_t i = 0;
    while (at >= f->offsets[i + 1])
        i++;
    return i;
}

/* Writes records of these lengths (their content from fixture_fill) through the library. */
static inline pst_status fixture_write(const char *path, const size_t *lengths, size_t count, const pst_writer_options *options,
                                       pst_error *error)
{
    pst_writer *w;
    pst_status st = pst_writer_open(&w, path, options, error);
    if (st < 0)
        return st;
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        uint8_t *data = malloc(lengths[i] + 1);
        fixture_fill(data, lengths[i], i);
        st = pst_writer_write(w, data, lengths[i], error);
        free(data);
    }
    if (st == PST_OK)
        st = pst_writer_commit(w, error);
    pst_writer_close(w);
    return st;
}

/* Reads to the end. `*ret_mask` has a bit for each record (< 64) whose content is that of its ordinal; a record with any
 * other content fails the test. Returns the final status. */
static inline pst_status fixture_read(const char *path, const pst_reader_options *options, uint64_t *ret_mask,
                                      uint64_t *ret_count, pst_error *error)
{
    pst_reader *r;
    pst_record record;
    *ret_mask = *ret_count = 0;
    pst_status st = pst_reader_open(&r, path, options, error);
    if (st < 0)
        return st;
    while ((st = pst_reader_next(r, &record, error)) == PST_OK) {
        CHECK_MSG(fixture_equal(record.data, record.length, record.record), "record %llu is not what was written",
                  (unsigned long long)record.record);
        if (record.record < 64)
            *ret_mask |= UINT64_C(1) << record.record;
        ++*ret_count;
    }
    pst_reader_close(r);
    return st;
}

static inline pst_status fixture_put(void *user, const void *data, size_t length, pst_error *reterr)
{
    return fwrite(data, 1, length, user) == length ? PST_OK : pst_fail(reterr, PST_EIO, "fwrite");
}

/* Writes a file of any bytes, compressed. */
static inline void fixture_compress(const char *path, const uint8_t *bytes, size_t length, pst_compression compression)
{
    struct compressor *c = NULL;
    FILE *out = fopen(path, "wb");
    if (!out || compressor_create(&c, compression, 1, NULL) < 0 ||
        compressor_run(c, bytes, length, true, fixture_put, out, NULL) < 0 || fclose(out) != 0)
        abort();
    compressor_destroy(c);
}

static inline pst_damage_log *fixture_log(const char *policy)
{
    pst_policy p;
    pst_damage_log *log = NULL;
    if (pst_policy_parse(&p, policy, NULL) < 0 || pst_damage_log_create(&log, &p, NULL) < 0)
        abort();
    return log;
}

#endif
