/* test_zip.c: archives built here byte by byte: plain and Zip64, comments, every truncation and bit flip. */
#include "harness.h"

#include "base/fault.h"
#include "base/le.h"
#include "base/memory.h"
#include "io/zip.h"
#include "memory_file.h"

#include <stdio.h>
#include <string.h>

struct builder {
    uint8_t data[200000];
    size_t length;
    uint8_t directory[4096];
    size_t directory_length, count;
    bool zip64; /* every number that can be wide is */
};

static void put(uint8_t *at, size_t *length, uint64_t value, size_t bytes)
{
    memcpy(at + *length, &value, bytes); /* little-endian, as the machine */
    *length += bytes;
}

static void put_bytes(uint8_t *at, size_t *length, const void *data, size_t bytes)
{
    memcpy(at + *length, data, bytes);
    *length += bytes;
}

static void member(struct builder *b, const char *name, unsigned flags, unsigned method, const char *stored, uint64_t size)
{
    uint8_t *d = b->directory;
    size_t *n = &b->directory_length, name_length = strlen(name), stored_size = strlen(stored);
    uint64_t local = b->length;
    put(b->data, &b->length, 0x04034b50, 4);
    b->length += 22; /* sizes and CRC are the directory's business */
    put(b->data, &b->length, name_length, 2);
    put(b->data, &b->length, 4, 2);
    put_bytes(b->data, &b->length, name, name_length);
    put(b->data, &b->length, 0x0000cafe, 4); /* an extra field that the directory does not have */
    put_bytes(b->data, &b->length, stored, stored_size);
    put(d, n, 0x02014b50, 4);
    put(d, n, 0, 4);
    put(d, n, flags, 2);
    put(d, n, method, 2);
    put(d, n, 0, 4);
    put(d, n, 0x12345678, 4);
    put(d, n, b->zip64 ? UINT32_MAX : stored_size, 4);
    put(d, n, b->zip64 ? UINT32_MAX : size, 4);
    put(d, n, name_length, 2);
    put(d, n, b->zip64 ? 34 : 0, 2);
    put(d, n, 0, 2);
    put(d, n, 0, 8);
    put(d, n, b->zip64 ? UINT32_MAX : local, 4);
    put_bytes(d, n, name, name_length);
    if (b->zip64) {
        put(d, n, 0x0002cafe, 4); /* another field in front */
        put(d, n, 0, 2);
        put(d, n, 1, 2);
        put(d, n, 24, 2);
        put(d, n, size, 8);
        put(d, n, stored_size, 8);
        put(d, n, local, 8);
    }
    b->count++;
}

static void finish(struct builder *b, size_t comment)
{
    uint8_t *d = b->data;
    size_t *n = &b->length, directory = b->length;
    put_bytes(d, n, b->directory, b->directory_length);
    if (b->zip64) {
        uint64_t end64 = b->length;
        put(d, n, 0x06064b50, 4);
        put(d, n, 44, 8);
        put(d, n, 0, 8);
        put(d, n, 0, 4);
        put(d, n, b->count, 8);
        put(d, n, b->count, 8);
        put(d, n, b->directory_length, 8);
        put(d, n, directory, 8);
        put(d, n, 0x07064b50, 4);
        put(d, n, 0, 4);
        put(d, n, end64, 8);
        put(d, n, 1, 4);
    }
    put(d, n, 0x06054b50, 4);
    put(d, n, 0, 4);
    put(d, n, b->zip64 ? 0xffff : b->count, 2);
    put(d, n, b->zip64 ? 0xffff : b->count, 2);
    put(d, n, b->zip64 ? UINT32_MAX : b->directory_length, 4);
    put(d, n, b->zip64 ? UINT32_MAX : directory, 4);
    put(d, n, comment, 2);
    memset(d + *n, 'c', comment);
    *n += comment;
}

static pst_status read_bytes(struct zip *z, const uint8_t *data, size_t length, pst_error *e)
{
    int fd = memory_file(data, length);
    pst_status st = zip_read(z, fd, "test.zip", e);
    for (size_t i = 0; st == PST_OK && i < z->count; i++)
        CHECK(z->members[i].offset <= length && z->members[i].stored_size <= length - z->members[i].offset);
    close(fd);
    return st;
}

static void sample(struct builder *b, bool zip64, size_t comment)
{
    memset(b, 0, sizeof(*b));
    b->zip64 = zip64;
    member(b, "a.npy", 0, 0, "stored", 6);
    member(b, "folder/", 0, 0, "", 0);
    member(b, "folder/b.npy", 8, 8, "deflated", 5000); /* with a data descriptor, so its flag says */
    finish(b, comment);
}

static void members(void)
{
    static struct builder b;
    pst_error e;
    for (int zip64 = 0; zip64 < 2; zip64++) {
        static const size_t comments[] = {0, 10, 65535};
        for (size_t i = 0; i < 3; i++) {
            struct zip z = {0};
            sample(&b, zip64, comments[i]);
            REQUIRE_OK(read_bytes(&z, b.data, b.length, &e), &e);
            REQUIRE(z.count == 2);
            const struct zip_member *m = z.members;
            CHECK_STR(m[0].name, "a.npy");
            CHECK(!m[0].deflated && m[0].size == 6 && m[0].stored_size == 6 && m[0].crc == 0x12345678);
            CHECK(memcmp(b.data + m[0].offset, "stored", 6) == 0);
            CHECK_STR(m[1].name, "folder/b.npy");
            CHECK(m[1].deflated && m[1].size == 5000 && m[1].stored_size == 8);
            CHECK(memcmp(b.data + m[1].offset, "deflated", 8) == 0);
            zip_finish(&z);
            zip_finish(&z);
        }
    }
    struct zip z = {0};
    memset(&b, 0, sizeof(b));
    finish(&b, 0);
    REQUIRE_OK(read_bytes(&z, b.data, b.length, &e), &e);
    CHECK_INT(z.count, 0);
    zip_finish(&z);
}

/* A comment that holds what looks like an end record of its own. */
static void a_comment_that_lies(void)
{
    static struct builder b;
    struct zip z = {0};
    pst_error e;
    sample(&b, false, 100);
    memcpy(b.data + b.length - 60, "PK\5\6", 4);
    memset(b.data + b.length - 56, 0, 18);
    REQUIRE_OK(read_bytes(&z, b.data, b.length, &e), &e);
    CHECK_INT(z.count, 2);
    zip_finish(&z);
}

static void refused(void)
{
    static const struct {
        unsigned flags, method;
        const char *stored;
        uint64_t size;
        pst_status want;
        const char *message;
    } cases[] = {
        {1, 0, "x", 1, PST_EUNSUPPORTED, "name is encrypted"},
        {0x41, 8, "x", 1, PST_EUNSUPPORTED, "encrypted"},
        {0, 12, "x", 1, PST_EUNSUPPORTED, "name is compressed by method 12"},
        {0, 0, "x", 2, PST_ECORRUPT, "claims 2 bytes out of 1"},
        {0, 8, "x", 1032, PST_OK, ""},
        {0, 8, "x", 4000000000, PST_ECORRUPT, "claims 4000000000"},
        {0, 8, "x", UINT32_MAX, PST_ECORRUPT, "claims"},
        {0, 8, "x", UINT64_MAX, PST_ECORRUPT, "claims"},
    };
    static struct builder b;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zip z = {0};
        pst_error e = {0};
        memset(&b, 0, sizeof(b));
        b.zip64 = cases[i].size == UINT64_MAX;
        member(&b, "first", 0, 0, "", 0);
        member(&b, "name", cases[i].flags, cases[i].method, cases[i].stored, cases[i].size);
        finish(&b, 0);
        CHECK_STATUS(read_bytes(&z, b.data, b.length, &e), cases[i].want, &e);
        CHECK_MSG(strstr(e.message, cases[i].message) != NULL, "%zu: %s", i, e.message);
        zip_finish(&z);
    }
}

static void places_outside(void)
{
    static struct builder b;
    static const struct {
        int from_end; /* where in the end record, the directory… */
        uint32_t value;
    } cases[] = {{-6, 0x7fffffff}, {-6, 0xfffffffe}, {-10, 0x7fffffff}, {-12, 0xfffe}, {-6, 0}, {-18, 3}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct zip z = {0};
        pst_error e = {0};
        sample(&b, false, 0);
        size_t width = cases[i].from_end == -12 || cases[i].from_end == -18 ? 2 : 4;
        memcpy(b.data + b.length + cases[i].from_end, &cases[i].value, width);
        pst_status st = read_bytes(&z, b.data, b.length, &e);
        CHECK_MSG(st == PST_ECORRUPT || st == PST_EUNSUPPORTED, "%zu: %s", i, pst_status_name(st));
        zip_finish(&z);
    }
    struct zip z = {0};
    pst_error e = {0};
    memset(&b, 0, sizeof(b));
    member(&b, "name", 0, 0, "x", 1);
    b.directory[42] = 0xff; /* the local header's place */
    finish(&b, 0);
    CHECK_STATUS(read_bytes(&z, b.data, b.length, &e), PST_ECORRUPT, &e);
    CHECK_STATUS(read_bytes(&z, (const uint8_t *)"not a zip, but long enough to be one", 36, &e), PST_ECORRUPT, &e);
    CHECK_STATUS(read_bytes(&z, (const uint8_t *)"", 0, &e), PST_ECORRUPT, &e);
}

static void every_truncation_and_flip(void)
{
    static struct builder b;
    for (int zip64 = 0; zip64 < 2; zip64++) {
        sample(&b, zip64, 5);
        for (size_t n = 0; n < b.length; n++) {
            struct zip z = {0};
            pst_error e = {0};
            CHECK_STATUS(read_bytes(&z, b.data, n, &e), PST_ECORRUPT, &e);
            zip_finish(&z);
        }
        for (size_t bit = 0; bit < 8 * b.length; bit++) {
            struct zip z = {0};
            pst_error e = {0};
            b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            pst_status st = read_bytes(&z, b.data, b.length, &e);
            CHECK(st == PST_OK || st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
            zip_finish(&z);
            b.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void every_fault(void)
{
    static struct builder b;
    pst_error e;
    sample(&b, true, 0);
    for (int kind = FAULT_MEMORY; kind <= FAULT_IO; kind++) {
        for (uint64_t n = 0;; n++) {
            struct zip z = {0};
            uint64_t live = mem_live();
            test_fault_arm(kind, n, false);
            pst_status st = read_bytes(&z, b.data, b.length, &e);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            zip_finish(&z);
            CHECK_INT(mem_live(), live);
            if (!hit) {
                CHECK(n > 3 && st == PST_OK);
                break;
            }
            CHECK_STATUS(st, kind == FAULT_MEMORY ? PST_ENOMEM : PST_EIO, &e);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"members, plain and Zip64", members},
        {"a comment that lies", a_comment_that_lies},
        {"refused members", refused},
        {"places outside the file", places_outside},
        {"every truncation and bit flip", every_truncation_and_flip},
        {"every fault is an error and leaks nothing", every_fault},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
