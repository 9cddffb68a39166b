/* test_record.c: what is written is read again: sizes, compressions, pipes, limits; the framing byte by byte. */
#include "record_fixture.h"

#include "base/fault.h"
#include "base/memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_framing(void)
{
    /* One record "abc"; the CRCs were worked out bit by bit, apart from the library. */
    static const uint8_t golden[] = {3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 'a', 'b', 'c', 0x6e, 0x57, 0xf1, 0x21};
    static const uint8_t empty_footer[] = {0xd8, 0xea, 0x82, 0xa2};
    uint8_t frame[32];
    frame_put_header(frame, 0);
    frame_put_footer(frame + FRAME_HEADER, NULL, 0);
    CHECK(memcmp(frame + FRAME_HEADER, empty_footer, 4) == 0);

    pst_error error;
    size_t length;
    pst_writer *w;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true};
    REQUIRE_OK(pst_writer_open(&w, test_path("abc"), &options, &error), &error);
    REQUIRE_OK(pst_writer_write(w, "abc", 3, &error), &error);
    REQUIRE_OK(pst_writer_commit(w, &error), &error);
    pst_writer_close(w);
    uint8_t *bytes = test_read_file(test_path("abc"), &length);
    CHECK_INT(length, 19);
    CHECK(le64(bytes) == 3 && memcmp(bytes + 12, "abc", 3) == 0);
    CHECK(memcmp(bytes, golden, length) == 0);
    free(bytes);
}

static const pst_compression compressions[] = {PST_COMPRESSION_NONE, PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB,
                                               PST_COMPRESSION_ZSTD};
#define COMPRESSIONS (sizeof(compressions) / sizeof(compressions[0]))

/* Sizes around every threshold of reader and writer, in an order that mixes small and large. */
static const size_t sizes[] = {0,       1,      70000, 2,     3,      65535,  65536, 7,      0,  8,       4095,
                               4096,    262128, 12,    65537, 262144, 262129, 16384, 262145, 15, 5000000, 131072,
                               1000000, 4097,   17,    63,    64,     65,     32768, 524288, 0,  300000,  1};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void test_round_trip(void)
{
    for (size_t c = 0; c < COMPRESSIONS; c++) {
        pst_error error;
        uint64_t mask, count, live = mem_live();
        pst_writer_options w = {
            .size = sizeof(w), .compression = compressions[c], .no_sync = true, .overwrite = true, .level = 1};
        pst_reader_options told = {.size = sizeof(told), .compression = compressions[c]}, unverified = {.size = sizeof(told)};
        unverified.no_verify = true;
        REQUIRE_OK(fixture_write(test_path("r"), sizes, SIZES, &w, &error), &error);
        CHECK_STATUS(fixture_read(test_path("r"), NULL, &mask, &count, &error), PST_END, &error);
        CHECK_INT(count, SIZES);
        CHECK_STATUS(fixture_read(test_path("r"), &told, &mask, &count, &error), PST_END, &error);
        CHECK_INT(count, SIZES);
        CHECK_STATUS(fixture_read(test_path("r"), &unverified, &mask, &count, &error), PST_END, &error);
        CHECK_INT(count, SIZES);
        pst_reader *r;
        REQUIRE_OK(pst_reader_open(&r, test_path("r"), NULL, &error), &error);
        CHECK_INT(pst_reader_compression(r), compressions[c]);
        pst_reader_close(r);
        CHECK_INT(mem_live(), live);
    }
}

static void test_every_size(void)
{
    /* Consecutive sizes put record boundaries at every place of a piece. */
    enum { COUNT = 2000 };
    static size_t lengths[COUNT];
    pst_error error;
    uint64_t mask, count;
    pst_writer_options w = {.size = sizeof(w), .no_sync = true, .overwrite = true};
    for (size_t i = 0; i < COUNT; i++)
        lengths[i] = i < 1000 ? i : 71000 - i;
    REQUIRE_OK(fixture_write(test_path("e"), lengths, 1030, &w, &error), &error);
    CHECK_STATUS(fixture_read(test_path("e"), NULL, &mask, &count, &error), PST_END, &error);
    CHECK_INT(count, 1030);
    for (size_t i = 0; i < COUNT; i++)
        lengths[i] = i % 7 ? i : 0;
    REQUIRE_OK(fixture_write(test_path("e"), lengths, COUNT, &w, &error), &error);
    CHECK_STATUS(fixture_read(test_path("e"), NULL, &mask, &count, &error), PST_END, &error);
    CHECK_INT(count, COUNT);
}

static void test_offsets_and_end(void)
{
    struct fixture f = fixture_make();
    pst_error error;
    pst_reader *r;
    pst_record record;
    test_write_file(test_path("o"), f.bytes, f.length);
    REQUIRE_OK(pst_reader_open(&r, test_path("o"), NULL, &error), &error);
    for (size_t i = 0; i < FIXTURE_RECORDS; i++) {
        REQUIRE_OK(pst_reader_next(r, &record, &error), &error);
        CHECK_INT(record.record, i);
        CHECK_INT(record.offset, f.offsets[i]);
        CHECK_INT(record.length, fixture_lengths[i]);
    }
    CHECK_INT(pst_reader_next(r, &record, &error), PST_END);
    CHECK_INT(pst_reader_next(r, &record, &error), PST_END);
    pst_reader_close(r);
    free(f.bytes);
}

static void test_empty_file(void)
{
    uint64_t mask, count;
    pst_error error;
    pst_reader_options gzip = {.size = sizeof(gzip), .compression = PST_COMPRESSION_GZIP};
    test_write_file(test_path("empty"), "", 0);
    CHECK_STATUS(fixture_read(test_path("empty"), NULL, &mask, &count, &error), PST_END, &error);
    CHECK_INT(count, 0);
    CHECK_STATUS(fixture_read(test_path("empty"), &gzip, &mask, &count, &error), PST_ECORRUPT, &error);
}

static void test_open_errors(void)
{
    pst_error error;
    pst_reader *r = NULL;
    pst_reader_options bad_size = {.size = 0}, bad_compression = {.size = sizeof(bad_compression), .compression = 99};
    CHECK_STATUS(pst_reader_open(&r, test_path("absent"), NULL, &error), PST_ENOTFOUND, &error);
    CHECK(strstr(error.path, "absent") != NULL);
    CHECK_STATUS(pst_reader_open(&r, test_folder(), NULL, &error), PST_EINVAL, &error);
    test_write_file(test_path("x"), "", 0);
    CHECK_STATUS(pst_reader_open(&r, test_path("x"), &bad_size, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_reader_open(&r, test_path("x"), &bad_compression, &error), PST_EINVAL, &error);
    CHECK(r == NULL);
}

static void test_compression_names(void)
{
    pst_compression c = PST_COMPRESSION_AUTO;
    pst_error error;
    CHECK_INT(pst_compression_parse(&c, "GZIP", &error), PST_OK);
    CHECK_INT(c, PST_COMPRESSION_GZIP);
    CHECK_STATUS(pst_compression_parse(&c, "gzipp", &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_compression_parse(&c, "", &error), PST_EINVAL, &error);
    CHECK_INT(c, PST_COMPRESSION_GZIP);
    CHECK_STR(pst_compression_name(PST_COMPRESSION_ZSTD), "zstd");
    CHECK_STR(pst_compression_name((pst_compression)77), "unknown");
}

/* A plain shard whose first length looks like the start of a compressed file. */
static void test_lookalike_lengths(void)
{
    static const size_t lookalikes[] = {0x88b1f, 0x9c78, 0x178, 0x9c78 + 0x20000};
    for (size_t i = 0; i < sizeof(lookalikes) / sizeof(lookalikes[0]); i++) {
        pst_error error;
        uint64_t mask, count;
        pst_writer_options w = {.size = sizeof(w), .no_sync = true, .overwrite = true};
        REQUIRE_OK(fixture_write(test_path("l"), &lookalikes[i], 1, &w, &error), &error);
        CHECK_STATUS(fixture_read(test_path("l"), NULL, &mask, &count, &error), PST_END, &error);
        CHECK_INT(count, 1);
    }
}

struct feeder {
    const char *path;
    const uint8_t *bytes;
    size_t length, piece;
};

static void *feed(void *user)
{
    const struct feeder *f = user;
    size_t done = 0;
    usleep(2000); /* the reader waits for its writer */
    int fd = open(f->path, O_WRONLY | O_CLOEXEC);
    while (fd >= 0 && done < f->length) {
        size_t step = f->length - done < f->piece ? f->length - done : f->piece;
        ssize_t n = write(fd, f->bytes + done, step);
        if (n <= 0)
            break;
        done += (size_t)n;
        if (step < 10)
            usleep(200);
    }
    close(fd);
    return NULL;
}

/* Writes come in pieces; after a pause when they are small, so that a read gets one at a time. */
static void read_pipe(const size_t *lengths, size_t records, size_t piece)
{
    for (size_t c = 0; c < COMPRESSIONS; c++) {
        pst_error error;
        pthread_t thread;
        uint64_t mask, count;
        size_t length;
        pst_writer_options w = {.size = sizeof(w), .compression = compressions[c], .no_sync = true, .overwrite = true};
        REQUIRE_OK(fixture_write(test_path("p"), lengths, records, &w, &error), &error);
        uint8_t *bytes = test_read_file(test_path("p"), &length);
        unlink(test_path("fifo"));
        REQUIRE(mkfifo(test_path("fifo"), 0600) == 0);
        struct feeder feeder = {test_path("fifo"), bytes, length, piece};
        REQUIRE(pthread_create(&thread, NULL, feed, &feeder) == 0);
        CHECK_STATUS(fixture_read(test_path("fifo"), NULL, &mask, &count, &error), PST_END, &error);
        CHECK_INT(count, records);
        pthread_join(thread, NULL);
        free(bytes);
    }
}

static void test_pipe(void)
{
    static const size_t large[] = {5, 0, 100000, 70, 300000, 1}, small[] = {5, 0, 11};
    read_pipe(large, 6, 7777);
    read_pipe(small, 3, 1);
}

/* Headers that speak of more than there is, or more than is allowed, cost no memory. */
static void test_claims(void)
{
    static const uint64_t claims[] = {UINT64_MAX,        UINT64_MAX - 15, UINT64_C(1) << 63, (UINT64_C(1) << 30) + 1,
                                      UINT64_C(1) << 30, 600000000};
#ifndef SANITIZED /* they need address space of their own */
    struct rlimit old, tight;
    getrlimit(RLIMIT_AS, &old);
    tight = old;
    tight.rlim_cur = (rlim_t)512 << 20;
    setrlimit(RLIMIT_AS, &tight);
#endif
    for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        for (size_t c = 0; c < COMPRESSIONS; c++) {
            bool over = claims[i] > PST_MAX_RECORD_BYTES;
            uint8_t bytes[100] = {0};
            uint64_t mask, count;
            pst_error error;
            pst_damage_log *log = fixture_log("skip");
            pst_reader_options skip = {.size = sizeof(skip), .damage = log, .compression = compressions[c]};
            pst_reader_options strict = {.size = sizeof(strict), .compression = compressions[c]};
            frame_put_header(bytes, claims[i]);
            if (compressions[c] == PST_COMPRESSION_NONE)
                test_write_file(test_path("claim"), bytes, sizeof(bytes));
            else
                fixture_compress(test_path("claim"), bytes, sizeof(bytes), compressions[c]);
            CHECK_STATUS(fixture_read(test_path("claim"), &strict, &mask, &count, &error), over ? PST_ELIMIT : PST_ECORRUPT,
                         &error);
            CHECK_INT(error.record, 0);
            CHECK_INT(error.offset, 0);
            CHECK_STATUS(fixture_read(test_path("claim"), &skip, &mask, &count, &error), PST_END, &error);
            CHECK_INT(pst_damage_log_count(log, over ? PST_CAUSE_TOO_LARGE : PST_CAUSE_TRUNCATED), 1);
            CHECK_INT(pst_damage_log_total(log), 1);
            CHECK_INT(pst_damage_log_place(log, 0).bytes, 100);
            pst_damage_log_destroy(log);
        }
    }
#ifndef SANITIZED /* they need address space of their own */
    setrlimit(RLIMIT_AS, &old);
#endif
}

/* A record over the caller's limit is passed over; the ones behind it are read. */
static void test_limit(void)
{
    static const size_t lengths[] = {10, 1000, 20, 100000, 30};
    for (size_t c = 0; c < COMPRESSIONS; c++) {
        pst_error error;
        uint64_t mask, count;
        pst_damage_log *log = fixture_log("skip");
        pst_writer_options w = {.size = sizeof(w), .compression = compressions[c], .no_sync = true, .overwrite = true};
        pst_reader_options strict = {.size = sizeof(strict), .max_record_bytes = 999};
        pst_reader_options skip = {.size = sizeof(skip), .max_record_bytes = 999, .damage = log};
        REQUIRE_OK(fixture_write(test_path("limit"), lengths, 5, &w, &error), &error);
        CHECK_STATUS(fixture_read(test_path("limit"), &strict, &mask, &count, &error), PST_ELIMIT, &error);
        CHECK_INT(count, 1);
        CHECK_INT(error.record, 1);
        CHECK_INT(error.offset, 26);
        CHECK_STATUS(fixture_read(test_path("limit"), &skip, &mask, &count, &error), PST_END, &error);
        CHECK_INT(mask, 1 << 0 | 1 << 2 | 1 << 4);
        CHECK_INT(pst_damage_log_count(log, PST_CAUSE_TOO_LARGE), 2);
        CHECK_INT(pst_damage_log_place(log, 0).bytes, 1016);
        pst_damage_log_destroy(log);
    }
}

static pst_status read_all(const char *path)
{
    pst_error error;
    uint64_t mask, count;
    pst_status st = fixture_read(path, NULL, &mask, &count, &error);
    if (st == PST_END)
        CHECK_INT(count, 6);
    return st;
}

static void test_faults(void)
{
    static const size_t lengths[] = {5, 0, 100000, 70, 300000, 1};
    for (size_t c = 0; c < COMPRESSIONS; c++) {
        pst_error error;
        pst_writer_options w = {.size = sizeof(w), .compression = compressions[c], .no_sync = true, .overwrite = true};
        REQUIRE_OK(fixture_write(test_path("f"), lengths, 6, &w, &error), &error);
        for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
            for (int forever = 0; forever < 2; forever++) {
                uint64_t live = mem_live();
                bool hit = true;
                for (uint64_t n = 0; hit; n++) {
                    test_fault_arm(kind, n, forever);
                    pst_status st = read_all(test_path("f"));
                    hit = test_fault_calls() > n;
                    test_fault_clear();
                    CHECK_MSG(!hit || st == (kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO), "fault %d/%llu: %s", kind,
                              (unsigned long long)n, pst_status_name(st));
                    CHECK_INT(mem_live(), live);
                }
                CHECK_STATUS(read_all(test_path("f")), PST_END, NULL);
            }
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"framing", test_framing},
        {"round trip of many sizes, all compressions", test_round_trip},
        {"every size", test_every_size},
        {"offsets, ordinals and the end", test_offsets_and_end},
        {"empty file", test_empty_file},
        {"open errors", test_open_errors},
        {"compression names", test_compression_names},
        {"lengths that look like compressed files", test_lookalike_lengths},
        {"pipes", test_pipe},
        {"claims cost no memory", test_claims},
        {"records over the limit", test_limit},
        {"every allocation and every I/O call may fail", test_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
