/* test_source_damage.c: damaged shards through the source: what is refused, where, and what it costs. */
#include "source_shards.h"

#include <fcntl.h>
#include <unistd.h>

/* Every bit of the fixture's shard is flipped: the record it belongs to is refused, at its place, and no other. */
static void test_flips(void)
{
    pst_error error;
    struct fixture f = fixture_make();
    const char *path = test_path("flips.tfrecord");
    for (size_t at = 0; at < f.length; at += at < 60 ? 1 : 7) {
        pst_writer_options plain = {.size = sizeof(plain), .no_sync = true, .overwrite = true};
        REQUIRE_OK(fixture_write(path, fixture_lengths, FIXTURE_RECORDS, &plain, &error), &error);
        struct source_setup s = setup_for(&path, ios[at % IOS]);
        struct opened o;
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        uint8_t byte = f.bytes[at] ^ (uint8_t)(1u << at % 8);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        REQUIRE(fd >= 0 && pwrite(fd, &byte, 1, (off_t)at) == 1);
        close(fd);
        const uint64_t index[] = {4, 3, 2, 1, 0};
        opened_ahead(&o, index, 5);
        for (size_t i = 0; i < 5; i++) {
            pst_status st = opened_load(&o, index[i], &error);
            if (index[i] != fixture_record_at(&f, at)) {
                CHECK_STATUS(st, PST_OK, &error);
                continue;
            }
            CHECK_STATUS(st, PST_ECORRUPT, &error);
            CHECK_INT(error.record, index[i]);
            CHECK_INT(error.offset, f.offsets[index[i]]);
            CHECK_STR(error.path, path);
            struct source_place place;
            source_tfrecord.locate(o.source, index[i], 1, &place);
            CHECK_STR(place.path, path);
            CHECK_INT(place.record, index[i]);
            CHECK_INT(place.offset, f.offsets[index[i]]);
        }
        opened_close(&o);
    }
    free(f.bytes);
}

/* Payloads are verified when they are read first, headers always; without verification only headers. */
static void test_verified_once(void)
{
    pst_error error;
    struct fixture f = fixture_make();
    for (size_t k = 0; k < IOS; k++) {
        for (int no_verify = 0; no_verify < 2; no_verify++) {
            const char *path = test_path("once.tfrecord");
            struct opened o;
            pst_writer_options plain = {.size = sizeof(plain), .no_sync = true, .overwrite = true};
            REQUIRE_OK(fixture_write(path, fixture_lengths, FIXTURE_RECORDS, &plain, &error), &error);
            struct source_setup s = setup_for(&path, ios[k]);
            s.no_verify = no_verify;
            REQUIRE_OK(opened_open(&o, &s, &error), &error);
            CHECK_STATUS(opened_load(&o, 2, &error), PST_OK, &error);
            int fd = open(path, O_RDWR | O_CLOEXEC);
            REQUIRE(fd >= 0 && pwrite(fd, "?", 1, (off_t)f.offsets[2] + 50) == 1 &&
                    pwrite(fd, "?", 1, (off_t)f.offsets[4] + 50) == 1);
            CHECK_STATUS(opened_load(&o, 2, &error), PST_OK, &error);
            CHECK_STATUS(opened_load(&o, 4, &error), no_verify ? PST_OK : PST_ECORRUPT, &error);
            CHECK_STATUS(opened_load(&o, 4, &error), no_verify ? PST_OK : PST_ECORRUPT, &error); /* still */
            REQUIRE(pwrite(fd, "?", 1, (off_t)f.offsets[2] + 3) == 1);
            CHECK_STATUS(opened_load(&o, 2, &error), PST_ECORRUPT, &error);
            close(fd);
            opened_close(&o);
        }
    }
    free(f.bytes);
}

/* Two shards with a bad length and no index: told at the opening, in the shards' order. */
static void test_gaps(void)
{
    pst_error error;
    struct opened o;
    struct fixture f = fixture_make();
    char path[2][256];
    const char *folder = test_path("gaps");
    mkdir(folder, 0777);
    for (size_t k = 0; k < 2; k++) {
        snprintf(path[k], sizeof(path[k]), "%s/%c.tfrecord", folder, (char)('a' + k));
        f.bytes[f.offsets[2]] ^= 1;
        test_write_file(path[k], f.bytes, f.length);
        f.bytes[f.offsets[2]] ^= 1;
    }
    struct source_setup s = setup_for(&folder, "auto");
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ECORRUPT, &error);
    CHECK_STR(error.path, path[0]);
    CHECK_INT(error.record, 2);
    CHECK_INT(error.offset, f.offsets[2]);
    s.policy = (pst_policy){.skip = true, .max_records = 1};
    CHECK_STATUS(opened_open(&o, &s, &error), PST_ECORRUPT, &error);
    CHECK_STR(error.path, path[1]);
    s.policy = (pst_policy){.skip = true};
    REQUIRE_OK(opened_open(&o, &s, &error), &error);
    CHECK_INT(opened_count(&o), 2 * (FIXTURE_RECORDS - 1));
    CHECK_INT(pst_damage_log_count(o.log, PST_CAUSE_LENGTH_CRC), 2);
    CHECK_INT(pst_damage_log_places(o.log), 2);
    CHECK_STR(pst_damage_log_place(o.log, 0).path, path[0]);
    static const uint64_t original[] = {0, 1, 3, 4};
    for (uint64_t i = 0; i < 8; i++) {
        REQUIRE_OK(opened_load(&o, i, &error), &error);
        pst_bytes b = opened_bytes(&o, "record");
        CHECK(b.length == fixture_lengths[original[i % 4]] && fixture_equal(b.data, b.length, original[i % 4]));
    }
    opened_close(&o);
    free(f.bytes);
}

static void test_limit(void)
{
    pst_error error;
    const char *folder = make_shards("limit", PST_COMPRESSION_NONE);
    for (size_t k = 0; k < IOS; k++) {
        struct source_setup s = setup_for(&folder, ios[k]);
        struct opened o;
        uint64_t index[] = {52, 53, 54}; /* the middle one has 300,000 bytes */
        setup_text(&s, "max_record", "100K");
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        opened_ahead(&o, index, 3);
        check_record(&o, 52);
        CHECK_STATUS(opened_load(&o, 53, &error), PST_ELIMIT, &error);
        CHECK(strstr(error.message, "max_record") != NULL);
        check_record(&o, 54);
        opened_close(&o);
    }
}

/* A file that others cut: noticed before the mapping is touched behind the new end. */
static void test_cut(void)
{
    pst_error error;
    for (size_t k = 0; k < IOS; k++) {
        const char *path = test_path("cut.tfrecord");
        struct opened o;
        unlink(path);
        write_shard(path, 0, 200, PST_COMPRESSION_NONE);
        struct source_setup s = setup_for(&path, ios[k]);
        REQUIRE_OK(opened_open(&o, &s, &error), &error);
        check_record(&o, 199);
        REQUIRE(truncate(path, 5000) == 0);
        const uint64_t index[] = {1, 199, 2};
        opened_ahead(&o, index, 3);
        check_record(&o, 1);
        CHECK_STATUS(opened_load(&o, 199, &error), PST_ESTALE, &error);
        CHECK_INT(error.record, 199);
        check_record(&o, 2);
        opened_close(&o);
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"flipped bits", test_flips},
        {"verified once", test_verified_once},
        {"gaps are told at the opening", test_gaps},
        {"the limit of a record", test_limit},
        {"a file that is cut", test_cut},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
