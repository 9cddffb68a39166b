/* test_reads.c: many reads in flight give the bytes of the file, by whichever means. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "io/file.h"
#include "io/reads.h"
#include "open_files.h"

#include <stdlib.h>
#include <string.h>

#define FILE_BYTES ((size_t)300 * 1000 + 17) /* its end is inside a block */
#define PIECE      ((size_t)4096)
#define PIECES     ((FILE_BYTES + PIECE - 1) / PIECE)

static const enum reads_kind kinds[] = {READS_RING, READS_THREADS, READS_PLAIN};

static uint8_t *make_file(const char *path)
{
    uint8_t *data = malloc(FILE_BYTES);
    uint64_t state = 1;
    for (size_t i = 0; i < FILE_BYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        data[i] = (uint8_t)(state >> 56);
    }
    test_write_file(path, data, FILE_BYTES);
    return data;
}

/* All pieces at once, waited for from the last to the first. */
static void read_pieces(enum reads_kind kind, unsigned depth, bool direct)
{
    pst_error error;
    struct reads *r = NULL;
    struct read_request *q = calloc(PIECES, sizeof(*q));
    const char *path = test_path("pieces");
    uint8_t *data = make_file(path), *memory = aligned_alloc(4096, PIECES * PIECE);
    int fd = -1;
    bool is_direct = false;
    CHECK_STATUS(direct ? file_open_direct(&fd, &is_direct, path, &error) : file_open_read(&fd, path, &error), PST_OK, &error);
    REQUIRE_OK(reads_create(&r, kind, depth, &error), &error);
    memset(memory, 0xee, PIECES * PIECE);
    for (size_t i = 0; i < PIECES; i++) {
        q[i] = (struct read_request){.fd = fd, .buffer = memory + i * PIECE, .length = PIECE, .offset = i * PIECE};
        reads_add(r, &q[i]);
    }
    reads_go(r);
    for (size_t i = PIECES; i-- > 0;) {
        reads_wait(r, &q[i]);
        CHECK_INT(q[i].error, 0);
        CHECK_INT(q[i].got, i + 1 < PIECES ? PIECE : FILE_BYTES % PIECE);
    }
    CHECK(memcmp(memory, data, FILE_BYTES) == 0);
    CHECK(memory[FILE_BYTES] == 0xee || direct);
    CHECK(reads_destroy(r) == NULL);
    file_close(fd);
    free(memory);
    free(data);
    free(q);
}

static void test_bytes(void)
{
    for (size_t k = 0; k < 3; k++) {
        for (unsigned depth = 1; depth <= 64; depth *= 8) {
            read_pieces(kinds[k], depth, false);
            read_pieces(kinds[k], depth, true);
        }
    }
}

static void test_beyond_the_end(void)
{
    pst_error error;
    const char *path = test_path("short");
    uint8_t buffer[100];
    int fd = -1;
    test_write_file(path, "0123456789", 10);
    for (size_t k = 0; k < 3; k++) {
        struct reads *r = NULL;
        REQUIRE_OK(file_open_read(&fd, path, &error), &error);
        REQUIRE_OK(reads_create(&r, kinds[k], 4, &error), &error);
        struct read_request inside = {.fd = fd, .buffer = buffer, .length = 50, .offset = 4};
        struct read_request behind = {.fd = fd, .buffer = buffer + 50, .length = 50, .offset = 4000};
        struct read_request closed = {.fd = -1, .buffer = buffer + 50, .length = 50};
        reads_add(r, &inside);
        reads_add(r, &behind);
        reads_add(r, &closed);
        reads_wait(r, &closed);
        reads_wait(r, &behind);
        reads_wait(r, &inside);
        CHECK_INT(inside.got, 6);
        CHECK(memcmp(buffer, "456789", 6) == 0);
        CHECK_INT(behind.got, 0);
        CHECK_INT(behind.error, 0);
        CHECK(closed.error != 0);
        reads_destroy(r);
        file_close(fd);
    }
}

/* Whatever is under way, the memory is free when cancel returns. */
static void test_cancel(void)
{
    pst_error error;
    const char *path = test_path("cancel");
    uint8_t *data = make_file(path);
    uint64_t live = mem_live();
    size_t files = open_files();
    for (size_t k = 0; k < 3; k++) {
        struct reads *r = NULL;
        struct read_request *q = calloc(PIECES, sizeof(*q));
        uint8_t *memory = malloc(PIECES * PIECE);
        int fd = -1;
        REQUIRE_OK(file_open_read(&fd, path, &error), &error);
        REQUIRE_OK(reads_create(&r, kinds[k], 8, &error), &error);
        for (size_t i = 0; i < PIECES; i++) {
            q[i] = (struct read_request){.fd = fd, .buffer = memory + i * PIECE, .length = PIECE, .offset = i * PIECE};
            reads_add(r, &q[i]);
        }
        reads_go(r);
        reads_wait(r, &q[3]);
        reads_cancel(r);
        memset(q, 0, PIECES * sizeof(*q));
        memset(memory, 0, PIECES * PIECE);
        q[0] = (struct read_request){.fd = fd, .buffer = memory, .length = PIECE, .offset = 0};
        reads_add(r, &q[0]);
        reads_wait(r, &q[0]); /* it still works */
        CHECK(memcmp(memory, data, PIECE) == 0);
        reads_add(r, &q[0]);
        reads_go(r);
        reads_destroy(r);
        free(memory);
        free(q);
        file_close(fd);
    }
    free(data);
    CHECK_INT(mem_live(), live);
    CHECK_INT(open_files(), files);
}

struct denial {
    const char *call;
    enum fault_kind kind;
};

static bool deny(void *user, enum fault_kind kind, const char *what)
{
    const struct denial *d = user;
    return kind == d->kind && (!d->call || strcmp(what, d->call) == 0);
}

static void test_denied(void)
{
    pst_error error;
    struct reads *r = NULL;
    struct denial ring = {"io_uring_setup", FAULT_IO}, thread = {NULL, FAULT_THREAD};
    fault_set(deny, &ring);
    REQUIRE_OK(reads_create(&r, READS_RING, 8, &error), &error);
    CHECK_INT(reads_kind(r), READS_THREADS);
    r = reads_destroy(r);
    fault_set(deny, &thread);
    REQUIRE_OK(reads_create(&r, READS_THREADS, 8, &error), &error);
    CHECK_INT(reads_kind(r), READS_PLAIN);
    r = reads_destroy(r);
    fault_set(NULL, NULL);
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK_STATUS(reads_create(&r, READS_RING, 8, &error), PST_ENOMEM, &error);
    test_fault_clear();
}

/* A read that the system fails says so, and is the only one. */
static void test_failures(void)
{
    pst_error error;
    const char *path = test_path("failing");
    uint8_t *data = make_file(path), *memory = malloc(8 * PIECE);
    for (size_t k = 0; k < 3; k++) {
        for (uint64_t n = 0; n < 8; n++) {
            struct reads *r = NULL;
            struct read_request q[8];
            int fd = -1, failed = 0;
            REQUIRE_OK(file_open_read(&fd, path, &error), &error);
            REQUIRE_OK(reads_create(&r, kinds[k], 8, &error), &error);
            test_fault_arm(FAULT_IO, n, false);
            for (size_t i = 0; i < 8; i++) {
                q[i] = (struct read_request){.fd = fd, .buffer = memory + i * PIECE, .length = PIECE, .offset = i * PIECE};
                reads_add(r, &q[i]);
            }
            for (size_t i = 0; i < 8; i++) {
                reads_wait(r, &q[i]);
                failed += q[i].error != 0;
                CHECK(q[i].error || memcmp(memory + i * PIECE, data + i * PIECE, PIECE) == 0);
            }
            test_fault_clear();
            CHECK_INT(failed, 1);
            reads_destroy(r);
            file_close(fd);
        }
    }
    free(memory);
    free(data);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"the same bytes by any means", test_bytes},
        {"beyond the end", test_beyond_the_end},
        {"cancelling", test_cancel},
        {"what is denied is replaced", test_denied},
        {"failures", test_failures},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
