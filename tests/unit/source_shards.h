/* source_shards.h: shards of known records, and their source: what the tests of `tfrecord` share. */
#ifndef TESTS_SOURCE_SHARDS_H
#define TESTS_SOURCE_SHARDS_H

#include "record_fixture.h"
#include "source_fixture.h"

#include <sys/stat.h>

static const char *const ios[] = {"auto", "map", "read", "direct"};
#define IOS (sizeof(ios) / sizeof(ios[0]))

/* ---- Data: record `i` of the whole set has content and length of its number ---- */

#define SHARDS 5
static const size_t shard_records[SHARDS] = {40, 0, 3, 200, 57};
#define RECORDS 300

static inline size_t length_of(uint64_t i)
{
    return i % 29 == 0 ? 0 : i % 53 == 0 ? 300000 : (size_t)(i * 37 % 900);
}

static inline bool is_record(pst_bytes b, uint64_t i)
{
    return b.length == length_of(i) && fixture_equal(b.data, b.length, i);
}

static inline void write_shard(const char *path, uint64_t first, size_t count, pst_compression compression)
{
    pst_writer *w;
    pst_error error;
    pst_writer_options options = {
        .size = sizeof(options), .compression = compression, .no_sync = true, .overwrite = true, .no_index = count % 2 == 1};
    if (pst_writer_open(&w, path, &options, &error) < 0)
        abort();
    for (uint64_t i = first; i < first + count; i++) {
        uint8_t *data = malloc(length_of(i) + 1);
        fixture_fill(data, length_of(i), i);
        if (pst_writer_write(w, data, length_of(i), &error) < 0)
            abort();
        free(data);
    }
    if (pst_writer_commit(w, &error) < 0)
        abort();
    pst_writer_close(w);
}

/* A folder with the shards, fresh; the returned path is good for a few calls of test_path. */
static inline const char *make_shards(const char *name, pst_compression last)
{
    char path[256];
    const char *folder = test_path(name);
    uint64_t first = 0;
    mkdir(folder, 0777);
    for (size_t k = 0; k < SHARDS; k++) {
        snprintf(path, sizeof(path), "%s/x.tfrecord-%05zu-of-%05d", folder, k, SHARDS);
        write_shard(path, first, shard_records[k], k + 1 == SHARDS ? last : PST_COMPRESSION_NONE);
        first += shard_records[k];
    }
    return folder;
}

static inline struct source_setup setup_for(const char *const *path, const char *io)
{
    struct source_setup s = setup_make(&source_tfrecord);
    setup_words(&s, "paths", path, 1);
    setup_text(&s, "io", io);
    return s;
}

static inline void check_record(struct opened *o, uint64_t i)
{
    pst_error error;
    if (CHECK_STATUS(opened_load(o, i, &error), PST_OK, &error))
        CHECK_MSG(is_record(opened_bytes(o, "record"), i), "record %llu is not what was written", (unsigned long long)i);
}

#endif
