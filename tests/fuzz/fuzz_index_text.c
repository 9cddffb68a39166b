/* fuzz_index_text.c: a text index that opens covers its shard without a gap. The shard's size is that of the seeds, or
 * what the text itself ends with. */
#include "expect.h"
#include "memory_file.h"

#include "record/frame.h"
#include "record/index.h"

#include <stdio.h>
#include <string.h>

static void check(const char *path, uint64_t shard_bytes)
{
    struct index x = {0};
    pst_status st = index_open_text(&x, path, shard_bytes, NULL);
    EXPECT(st == PST_OK || st == PST_ECORRUPT || st == PST_ESTALE || st == PST_ELIMIT);
    if (st != PST_OK)
        return;
    uint64_t end = 0;
    for (uint64_t i = 0; i < x.count; i++) {
        EXPECT(x.entries[i].offset == end);
        end += x.entries[i].length + FRAME_BYTES;
    }
    EXPECT(end == shard_bytes);
    index_finish(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], tail[64] = "";
    unsigned long long offset = 0, bytes = 0;
    int fd = memory_file(data, size);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    check(path, 538);
    for (size_t at = size - (size != 0); at > 0; at--) {
        if (data[at - 1] != '\n')
            continue;
        size_t length = size - at < sizeof(tail) - 1 ? size - at : sizeof(tail) - 1;
        memcpy(tail, data + at, length);
        break;
    }
    if (sscanf(tail, "%18llu %18llu", &offset, &bytes) == 2)
        check(path, offset + bytes);
    close(fd);
    return 0;
}
