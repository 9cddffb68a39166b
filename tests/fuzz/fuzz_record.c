/* fuzz_record.c: whatever a shard holds, every byte of it is delivered or reported lost, reading ends, and an index scan
 * finds the records that the reader finds. Each input is also read with most of its CRCs made right. */
#include "expect.h"
#include "memory_file.h"

#include "record/frame.h"
#include "record/index.h"

#include <string.h>

struct shard {
    int fd;
    char path[64];
    const uint8_t *data;
    size_t size;
};

static void expect_record(const struct shard *s, const pst_record *r, bool verified)
{
    uint64_t length;
    EXPECT(r->offset <= s->size && s->size - r->offset >= FRAME_BYTES && r->length <= s->size - r->offset - FRAME_BYTES);
    const uint8_t *frame = s->data + r->offset;
    EXPECT(frame_get_header(frame, &length) && length == r->length);
    EXPECT(memcmp(r->data, frame + FRAME_HEADER, r->length) == 0);
    EXPECT(!verified || crc32c_masked(r->data, r->length) == le32(frame + FRAME_HEADER + length));
}

/* What the log says was lost, as long as it kept all places. */
static uint64_t lost_bytes(const pst_damage_log *log)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < pst_damage_log_places(log); i++)
        bytes += pst_damage_log_place(log, i).bytes;
    return bytes;
}

static void read_tolerantly(const struct shard *s, bool verify, const struct index *index)
{
    pst_policy policy = {.skip = true};
    pst_damage_log *log = NULL;
    pst_reader *r = NULL;
    pst_record record;
    uint64_t records = 0, bytes = 0;
    EXPECT(pst_damage_log_create(&log, &policy, NULL) == PST_OK);
    pst_reader_options options = {
        .size = sizeof(options), .compression = PST_COMPRESSION_NONE, .no_verify = !verify, .damage = log};
    pst_status st = pst_reader_open(&r, s->path, &options, NULL);
    EXPECT(st == PST_OK);
    while ((st = pst_reader_next(r, &record, NULL)) == PST_OK) {
        expect_record(s, &record, verify);
        if (!verify) {
            EXPECT(records < index->count);
            EXPECT(index->entries[records].offset == record.offset && index->entries[records].length == record.length);
        }
        records++;
        bytes += record.length + FRAME_BYTES;
    }
    EXPECT(st == PST_END);
    EXPECT(verify || records == index->count);
    if (pst_damage_log_total(log) == pst_damage_log_places(log))
        EXPECT(bytes + lost_bytes(log) == s->size);
    pst_reader_close(r);
    pst_damage_log_destroy(log);
}

static void read_strictly(const struct shard *s)
{
    pst_reader *r = NULL;
    pst_record record;
    pst_error error;
    pst_reader_options options = {.size = sizeof(options), .max_record_bytes = 1 << 20};
    pst_status st = pst_reader_open(&r, s->path, &options, &error);
    while (st == PST_OK)
        st = pst_reader_next(r, &record, &error);
    EXPECT(st == PST_END || st == PST_ECORRUPT || st == PST_ELIMIT || st == PST_EUNSUPPORTED);
    pst_reader_close(r);
}

static void check(const uint8_t *data, size_t size)
{
    struct shard s = {.fd = memory_file(data, size), .data = data, .size = size};
    struct index index = {0};
    snprintf(s.path, sizeof(s.path), "/proc/self/fd/%d", s.fd);
    EXPECT(index_scan(&index, s.fd, s.path, PST_MAX_RECORD_BYTES, NULL, NULL) == PST_OK);
    read_tolerantly(&s, false, &index);
    read_tolerantly(&s, true, &index);
    read_strictly(&s);
    index_finish(&index);
    close(s.fd);
}

/* Follows the lengths, cut down to what is there, and makes their CRCs right; here and there it leaves one as it is. */
static void seal(uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= FRAME_BYTES;) {
        size_t length = (size_t)(le64(data + at) % (size - at - FRAME_BYTES + 1));
        uint8_t *payload = data + at + FRAME_HEADER, mark = data[at + 8];
        if (mark % 16 != 0)
            frame_put_header(data + at, length);
        if (mark % 16 != 1)
            frame_put_footer(payload + length, payload, length);
        at += length + FRAME_BYTES;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    uint8_t *sealed = malloc(size + 1);
    memcpy(sealed, data, size);
    seal(sealed, size);
    check(sealed, size);
    free(sealed);
    return 0;
}
