/* shard_fixture.h: the fixture's records as a shard with random access, for the tests of indexes and shards. */
#ifndef TESTS_SHARD_FIXTURE_H
#define TESTS_SHARD_FIXTURE_H

#include "record_fixture.h"

static const pst_shard_options no_write = {.size = sizeof(pst_shard_options), .no_write = true};

static inline void write_fixture(const char *path)
{
    struct fixture f = fixture_make();
    test_write_file(path, f.bytes, f.length);
    free(f.bytes);
}

/* Every record of an open fixture shard, by its number. */
static inline void check_records(const pst_shard *s)
{
    CHECK_INT(pst_shard_count(s), FIXTURE_RECORDS);
    for (uint64_t i = 0; i < pst_shard_count(s) && i < FIXTURE_RECORDS; i++) {
        uint8_t data[512];
        size_t length = 0;
        pst_error error;
        CHECK_STATUS(pst_shard_read(s, i, data, sizeof(data), &length, &error), PST_OK, &error);
        CHECK(length == fixture_lengths[i] && fixture_equal(data, length, i));
    }
}

#endif
