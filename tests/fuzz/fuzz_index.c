/* fuzz_index.c: an index that opens speaks only of places inside its shard and of a note inside itself. Each input is
 * tried as it is and with its sizes and checksums made right. */
#include "expect.h"
#include "memory_file.h"

#include "base/hash.h"
#include "record/frame.h"
#include "record/index.h"

#include <string.h>

static void check(const uint8_t *data, size_t size)
{
    struct index x = {0};
    char path[64];
    int fd = memory_file(data, size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    pst_status st = index_open(&x, path, NULL);
    EXPECT(st == PST_OK || st == PST_ECORRUPT);
    uint64_t end = 0, gaps = 0, sum = 0;
    for (uint64_t i = 0; i < x.count; i++) {
        EXPECT(x.entries[i].offset >= end && x.entries[i].offset <= x.shard_bytes);
        gaps += x.entries[i].offset != end;
        end = x.entries[i].offset + x.entries[i].length + FRAME_BYTES;
        EXPECT(end > x.entries[i].offset && end <= x.shard_bytes);
        EXPECT(index_next(&x, x.entries[i].offset) > x.entries[i].offset);
    }
    EXPECT(x.gaps == gaps + (end != x.shard_bytes));
    for (size_t i = 0; i < x.note_length; i++)
        sum += (uint8_t)x.note[i]; /* readable */
    EXPECT(sum <= x.note_length * 255);
    index_finish(&x);
    close(fd);
}

static void seal(uint8_t *data, size_t size)
{
    uint64_t header = le32(data + 12), table = header + UINT64_C(32) * le32(data + 16);
    memcpy(data, "PSTIDX1\n", 8);
    put_le64(data + 48, size);
    if (header < 64 || table > size)
        return;
    for (uint8_t *line = data + header; line < data + table; line += 32) {
        uint64_t offset = le64(line + 8), length = le64(line + 16);
        if (offset >= table && offset <= size && length <= size - offset)
            put_le64(line + 24, hash_bytes(data + offset, (size_t)length, 0));
    }
    put_le64(data + 56, hash_bytes(data + 64, (size_t)table - 64, hash_bytes(data, 56, 0)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check(data, size);
    if (size < 64)
        return 0;
    uint8_t *sealed = malloc(size);
    memcpy(sealed, data, size);
    seal(sealed, size);
    check(sealed, size);
    free(sealed);
    return 0;
}
