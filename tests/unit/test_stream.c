/* test_stream.c: compressed streams: round trips under any cuts, members in a row, every truncation and bit flip. */
#include "harness.h"

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/le.h"
#include "base/memory.h"
#include "codec/stream.h"

#include <stdlib.h>
#include <string.h>

static const pst_compression kinds[] = {PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB, PST_COMPRESSION_ZSTD};
#define KINDS 3

struct bytes {
    uint8_t *data;
    size_t length, capacity;
    size_t limit; /* the sink refuses more than this; 0: none */
};

static pst_status collect(void *user, const void *data, size_t length, pst_error *reterr)
{
    struct bytes *b = user;
    if (!length)
        return PST_OK;
    if (b->limit && b->length + length > b->limit)
        return pst_fail(reterr, PST_EIO, "the sink is full");
    if (b->length + length > b->capacity) {
        b->capacity = 2 * (b->length + length);
        b->data = realloc(b->data, b->capacity);
    }
    memcpy(b->data + b->length, data, length);
    b->length += length;
    return PST_OK;
}

static void add(struct bytes *b, const void *data, size_t length)
{
    collect(b, data, length, NULL);
}

/* Text that compresses, with stretches that do not. */
static struct bytes sample(size_t length)
{
    struct bytes b = {.data = malloc(length + 1), .length = length, .capacity = length + 1};
    uint32_t state = 12345;
    for (size_t i = 0; i < length; i++) {
        state = state * 1664525 + 1013904223;
        b.data[i] = (i >> 12) % 3 == 0 ? (uint8_t)(state >> 24) : (uint8_t) "penstock feeds the turbine "[i % 27];
    }
    return b;
}

/* Compresses with a call every `step` bytes. */
static struct bytes compressed(pst_compression kind, int level, const struct bytes *in, size_t step)
{
    struct bytes out = {0};
    struct compressor *c = NULL;
    pst_error e;
    CHECK_STATUS(compressor_create(&c, kind, level, &e), PST_OK, &e);
    for (size_t at = 0; c && at < in->length; at += step) {
        size_t n = in->length - at < step ? in->length - at : step;
        CHECK_STATUS(compressor_run(c, in->data + at, n, false, collect, &out, &e), PST_OK, &e);
    }
    if (c)
        CHECK_STATUS(compressor_run(c, NULL, 0, true, collect, &out, &e), PST_OK, &e);
    compressor_destroy(c);
    return out;
}

/* The whole of a stream as a reader would take it: input and output in pieces of these sizes. PST_OK is a clean end. */
static pst_status decompressed(pst_compression kind, const uint8_t *in, size_t length, size_t in_step, size_t out_step,
                               struct bytes *out, pst_error *e)
{
    struct decompressor *d = NULL;
    uint8_t *room = malloc(out_step);
    pst_status st = decompressor_create(&d, kind, e);
    for (size_t at = 0; st == PST_OK;) {
        size_t n = length - at < in_step ? length - at : in_step, consumed, produced;
        st = decompressor_run(d, in + at, n, &consumed, room, out_step, &produced, e);
        CHECK(consumed <= n && produced <= out_step);
        CHECK(st == PST_OK || produced == 0); /* what precedes an error or the end came before */
        add(out, room, produced);
        at += consumed;
        CHECK(st != PST_END || (n == 0 && decompressor_at_end(d)));
        if (st == PST_OK && n == 0 && produced == 0) {
            CHECK(!decompressor_at_end(d));
            st = pst_fail(e, PST_ECORRUPT, "truncated");
        } else if (st == PST_OK && n && consumed == 0 && produced == 0) {
            CHECK_MSG(false, "no progress");
            st = PST_EINVAL;
        }
    }
    decompressor_destroy(d);
    free(room);
    return st == PST_END ? PST_OK : st;
}

static void check_content(pst_compression kind, const struct bytes *packed, const struct bytes *want, size_t in_step,
                          size_t out_step)
{
    struct bytes got = {0};
    pst_error e;
    CHECK_STATUS(decompressed(kind, packed->data, packed->length, in_step, out_step, &got, &e), PST_OK, &e);
    CHECK_MSG(got.length == want->length && (!want->length || memcmp(got.data, want->data, want->length) == 0),
              "kind %d, %zu bytes in steps of %zu to %zu: differs", (int)kind, want->length, in_step, out_step);
    free(got.data);
}

static void round_trips(void)
{
    static const size_t lengths[] = {0, 1, 100, 131071, 131072, 131073, 262144, 600000};
    for (size_t k = 0; k < KINDS; k++) {
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            struct bytes in = sample(lengths[i]), packed = compressed(kinds[k], 0, &in, 70001);
            check_content(kinds[k], &packed, &in, 4096, 65536);
            check_content(kinds[k], &packed, &in, SIZE_MAX, 1 << 20);
            CHECK(lengths[i] < 1000 || packed.length < lengths[i]);
            free(in.data);
            free(packed.data);
        }
    }
}

static void a_byte_at_a_time(void)
{
    struct bytes in = sample(20000);
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes packed = compressed(kinds[k], 0, &in, 1);
        check_content(kinds[k], &packed, &in, 1, 1);
        check_content(kinds[k], &packed, &in, 1, 1000);
        check_content(kinds[k], &packed, &in, 1000, 1);
        free(packed.data);
    }
    free(in.data);
}

static void output_does_not_depend_on_cuts(void)
{
    static const size_t steps[] = {1, 1000, 131071, 131072, 131073, SIZE_MAX};
    struct bytes in = sample(400000);
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes first = {0};
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
            struct bytes packed = compressed(kinds[k], 1, &in, steps[i]);
            if (i)
                CHECK(packed.length == first.length && memcmp(packed.data, first.data, first.length) == 0);
            else
                first = packed;
            if (i)
                free(packed.data);
        }
        free(first.data);
    }
    free(in.data);
}

static void gzip_header_is_fixed(void)
{
    struct bytes in = sample(100), packed = compressed(PST_COMPRESSION_GZIP, 0, &in, 100);
    static const uint8_t header[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
    CHECK(packed.length > 18 && memcmp(packed.data, header, sizeof(header)) == 0);
    free(packed.data);
    free(in.data);
}

static void levels(void)
{
    static const struct {
        pst_compression kind;
        int level;
        pst_status want;
    } cases[] = {
        {PST_COMPRESSION_GZIP, 1, PST_OK},      {PST_COMPRESSION_GZIP, 9, PST_OK},     {PST_COMPRESSION_GZIP, 10, PST_EINVAL},
        {PST_COMPRESSION_ZLIB, -1, PST_EINVAL}, {PST_COMPRESSION_ZSTD, 19, PST_OK},    {PST_COMPRESSION_ZSTD, -5, PST_OK},
        {PST_COMPRESSION_ZSTD, 23, PST_EINVAL}, {PST_COMPRESSION_NONE, 0, PST_EINVAL}, {PST_COMPRESSION_AUTO, 0, PST_EINVAL},
        {(pst_compression)77, 0, PST_EINVAL},
    };
    pst_error e;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct compressor *c = NULL;
        CHECK_STATUS(compressor_create(&c, cases[i].kind, cases[i].level, &e), cases[i].want, &e);
        compressor_destroy(c);
    }
    struct decompressor *d = NULL;
    CHECK_STATUS(decompressor_create(&d, PST_COMPRESSION_NONE, &e), PST_EINVAL, &e);
    decompressor_destroy(d);
}

/* What follows a member, all read with steps of 1 and of much. */
static void behind_a_member(void)
{
    static const uint8_t zeros[600], garbage[] = "garbage", padded_garbage[] = "\0\0\0x";
    struct bytes in = sample(3000), twice = {0};
    pst_error e;
    add(&twice, in.data, in.length);
    add(&twice, in.data, in.length);
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes one = compressed(kinds[k], 0, &in, 500);
        bool concatenates = kinds[k] != PST_COMPRESSION_ZLIB;
        struct bytes padded = {0};
        add(&padded, zeros, 100);
        add(&padded, one.data, one.length);
        const struct {
            const uint8_t *data;
            size_t length;
            pst_status want;
            const struct bytes *content;
        } tails[] = {
            {zeros, sizeof(zeros), PST_OK, &in},
            {garbage, sizeof(garbage) - 1, PST_ECORRUPT, &in},
            {padded_garbage, 4, PST_ECORRUPT, &in},
            {one.data, one.length, concatenates ? PST_OK : PST_ECORRUPT, concatenates ? &twice : &in},
            {padded.data, padded.length, concatenates ? PST_OK : PST_ECORRUPT, concatenates ? &twice : &in},
            {one.data, one.length - 1, PST_ECORRUPT, NULL},
            {one.data, 1, PST_ECORRUPT, &in},
        };
        for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
            for (size_t step = 1; step < 10000; step += 9998) {
                struct bytes whole = {0}, got = {0};
                add(&whole, one.data, one.length);
                add(&whole, tails[i].data, tails[i].length);
                CHECK_STATUS(decompressed(kinds[k], whole.data, whole.length, step, step, &got, &e), tails[i].want, &e);
                /* What precedes the damage is handed out. */
                if (tails[i].content)
                    CHECK(got.length == tails[i].content->length && memcmp(got.data, tails[i].content->data, got.length) == 0);
                free(whole.data);
                free(got.data);
            }
        }
        free(one.data);
        free(padded.data);
    }
    free(in.data);
    free(twice.data);
}

static void zstd_frames(void)
{
    static const uint8_t skippable[] = {0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'x', 'y', 'z'};
    struct bytes in = sample(1000), packed = compressed(PST_COMPRESSION_ZSTD, 0, &in, 1000), whole = {0};
    add(&whole, skippable, sizeof(skippable));
    add(&whole, packed.data, packed.length);
    add(&whole, skippable, sizeof(skippable));
    check_content(PST_COMPRESSION_ZSTD, &whole, &in, 1, 7);
    check_content(PST_COMPRESSION_ZSTD, &whole, &in, 5000, 5000);
    CHECK_INT(stream_sniff(whole.data, 12), PST_COMPRESSION_ZSTD);
    /* A frame of ten bytes that asks for a window of 2 GiB: refused, not allocated. */
    static const uint8_t greedy[] = {0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0x00, 0x00, 0x00};
    struct bytes got = {0};
    pst_error e;
    CHECK_STATUS(decompressed(PST_COMPRESSION_ZSTD, greedy, sizeof(greedy), 100, 100, &got, &e), PST_ELIMIT, &e);
    free(got.data);
    free(in.data);
    free(packed.data);
    free(whole.data);
}

static void every_truncation_and_flip(void)
{
    struct bytes in = sample(200);
    pst_error e;
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes packed = compressed(kinds[k], 0, &in, 200);
        for (size_t n = 0; n < packed.length; n++) {
            struct bytes got = {0};
            CHECK_STATUS(decompressed(kinds[k], packed.data, n, 50, 64, &got, &e), PST_ECORRUPT, &e);
            free(got.data);
        }
        size_t harmless = 0;
        for (size_t bit = 0; bit < 8 * packed.length; bit++) {
            struct bytes got = {0};
            packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            pst_status st = decompressed(kinds[k], packed.data, packed.length, 50, 64, &got, &e);
            packed.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
            if (st == PST_OK) { /* a flip that passes must change nothing: time, system, reserved bits of a header */
                harmless++;
                CHECK(got.length == in.length && memcmp(got.data, in.data, in.length) == 0);
            } else {
                CHECK(st == PST_ECORRUPT || st == PST_ELIMIT || st == PST_EUNSUPPORTED);
            }
            free(got.data);
        }
        CHECK_MSG(harmless <= 70, "kind %d: %zu flips went unnoticed", (int)kinds[k], harmless);
        free(packed.data);
    }
    free(in.data);
}

/* 64 MiB of zeros are written and read in bounded memory. */
static void bombs_stay_bounded(void)
{
    static uint8_t zeros[1 << 20], room[1 << 16];
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes packed = {0};
        struct compressor *c = NULL;
        struct decompressor *d = NULL;
        pst_error e;
        REQUIRE_OK(compressor_create(&c, kinds[k], 1, &e), &e);
        for (int i = 0; i < 64; i++)
            REQUIRE_OK(compressor_run(c, zeros, sizeof(zeros), i == 63, collect, &packed, &e), &e);
        compressor_destroy(c);
        REQUIRE_OK(decompressor_create(&d, kinds[k], &e), &e);
        uint64_t live = mem_live(), total = 0;
        pst_status st = PST_OK;
        for (size_t at = 0; st == PST_OK;) {
            size_t consumed, produced;
            st = decompressor_run(d, packed.data + at, packed.length - at, &consumed, room, sizeof(room), &produced, &e);
            at += consumed;
            total += produced;
        }
        CHECK_STATUS(st, PST_END, &e);
        CHECK_INT(total, 64 << 20);
        CHECK(mem_live() <= live + 1); /* zlib's window, once */
        decompressor_destroy(d);
        free(packed.data);
    }
}

static void errors_repeat(void)
{
    struct decompressor *d = NULL;
    pst_error e = {0};
    uint8_t room[10];
    size_t consumed, produced;
    REQUIRE_OK(decompressor_create(&d, PST_COMPRESSION_GZIP, &e), &e);
    for (int i = 0; i < 3; i++) {
        CHECK_STATUS(decompressor_run(d, "not gzip", 8, &consumed, room, 10, &produced, &e), PST_ECORRUPT, &e);
        CHECK(strstr(e.message, "gzip") != NULL);
        CHECK(!decompressor_at_end(d));
    }
    d = decompressor_destroy(d);
    CHECK(d == NULL);
    CHECK(compressor_destroy(NULL) == NULL);
}

static void a_sink_that_fails(void)
{
    struct bytes in = sample(400000);
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes out = {.limit = 1000};
        struct compressor *c = NULL;
        pst_error e;
        REQUIRE_OK(compressor_create(&c, kinds[k], 0, &e), &e);
        CHECK_STATUS(compressor_run(c, in.data, in.length, true, collect, &out, &e), PST_EIO, &e);
        CHECK_STR(e.message, "the sink is full");
        compressor_destroy(c);
        free(out.data);
    }
    free(in.data);
}

static void sniffing(void)
{
    struct bytes in = sample(1000);
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes packed = compressed(kinds[k], 0, &in, 1000);
        CHECK_INT(stream_sniff(packed.data, 12), kinds[k]);
        CHECK_INT(stream_sniff(packed.data, packed.length), kinds[k]);
        free(packed.data);
        struct bytes none = {0};
        packed = compressed(kinds[k], 0, &none, 1);
        CHECK_INT(stream_sniff(packed.data, packed.length), kinds[k]);
        free(packed.data);
    }
    for (int level = 1; level <= 9; level++) { /* zlib's second byte tells the level */
        struct bytes packed = compressed(PST_COMPRESSION_ZLIB, level, &in, 1000);
        CHECK_INT(stream_sniff(packed.data, 12), PST_COMPRESSION_ZLIB);
        free(packed.data);
    }
    free(in.data);
    CHECK_INT(stream_sniff("", 0), PST_COMPRESSION_NONE);
    CHECK_INT(stream_sniff("plain text, no more", 12), PST_COMPRESSION_NONE);
    CHECK_INT(stream_sniff("\x1f\x8b", 2), PST_COMPRESSION_NONE);
}

/* A TFRecord whose length looks like a magic number is a TFRecord; also one whose first length has lost a bit. */
static void a_record_is_not_compressed(void)
{
    static const uint64_t lengths[] = {0x0178, 0x9c78, 0xda78, 0x5e78, 0x059c78, 0x088b1f, 0xfd2fb528, 0, 1, 150000};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        uint8_t head[12];
        put_le64(head, lengths[i]);
        put_le32(head + 8, crc32c_masked(head, 8));
        CHECK_INT(stream_sniff(head, 12), PST_COMPRESSION_NONE);
        if (lengths[i] == 0x088b1f || lengths[i] == 0xfd2fb528)
            continue; /* with its CRC gone nothing tells these from the real magic */
        for (size_t bit = 64; bit < 96; bit++) {
            head[bit / 8] ^= (uint8_t)(1 << bit % 8);
            CHECK_INT(stream_sniff(head, 12), PST_COMPRESSION_NONE);
            head[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
}

static void every_allocation(void)
{
    struct bytes in = sample(5000);
    pst_error e;
    for (size_t k = 0; k < KINDS; k++) {
        struct bytes packed = compressed(kinds[k], 0, &in, 5000);
        for (uint64_t n = 0;; n++) {
            uint64_t live = mem_live();
            struct bytes out = {0}, back = {0};
            struct compressor *c = NULL;
            test_fault_arm(FAULT_MEMORY, n, false);
            pst_status st = compressor_create(&c, kinds[k], 0, &e);
            if (st == PST_OK)
                st = compressor_run(c, in.data, in.length, true, collect, &out, &e);
            compressor_destroy(c);
            if (st == PST_OK)
                st = decompressed(kinds[k], packed.data, packed.length, 100, 100, &back, &e);
            bool hit = test_fault_calls() > n;
            test_fault_clear();
            CHECK_INT(mem_live(), live);
            free(out.data);
            free(back.data);
            if (!hit) {
                CHECK(n > 2 && st == PST_OK);
                break;
            }
            CHECK_STATUS(st, PST_ENOMEM, &e);
        }
        free(packed.data);
    }
    free(in.data);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"round trips", round_trips},
        {"a byte at a time", a_byte_at_a_time},
        {"output does not depend on the cuts", output_does_not_depend_on_cuts},
        {"the gzip header is fixed", gzip_header_is_fixed},
        {"levels", levels},
        {"what follows a member", behind_a_member},
        {"zstd frames", zstd_frames},
        {"every truncation and bit flip", every_truncation_and_flip},
        {"bombs stay bounded", bombs_stay_bounded},
        {"errors repeat", errors_repeat},
        {"a sink that fails", a_sink_that_fails},
        {"sniffing", sniffing},
        {"a record is not compressed", a_record_is_not_compressed},
        {"every allocation may fail", every_allocation},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
