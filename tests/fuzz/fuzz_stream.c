/* fuzz_stream.c: a decompressor fed in pieces always moves on, and says the same as one fed at once.
 * The first byte chooses the compression and the size of the pieces. */
#include "expect.h"

#include "codec/stream.h"

#include <stdbool.h>

#define OUTPUT_MAX ((size_t)1 << 22) /* bombs are cut off here */

struct outcome {
    pst_status status;
    bool at_end;
    size_t length;
    uint64_t sum; /* of the output, by place */
};

static struct outcome run(pst_compression kind, const uint8_t *data, size_t size, size_t in_step, size_t out_step)
{
    struct decompressor *d = NULL;
    struct outcome o = {.status = PST_OK};
    uint8_t *room = malloc(out_step);
    pst_error e;
    EXPECT(decompressor_create(&d, kind, &e) == PST_OK);
    for (size_t at = 0; o.status == PST_OK && o.length < OUTPUT_MAX;) {
        size_t n = size - at < in_step ? size - at : in_step, consumed, produced;
        o.status = decompressor_run(d, data + at, n, &consumed, room, out_step, &produced, &e);
        EXPECT(consumed <= n && produced <= out_step);
        EXPECT(o.status != PST_END || (n == 0 && decompressor_at_end(d)));
        for (size_t i = 0; i < produced; i++)
            o.sum = o.sum * 31 + room[i];
        at += consumed;
        o.length += produced;
        if (o.status == PST_OK && consumed == 0 && produced == 0) {
            EXPECT(n == 0);
            break;
        }
    }
    o.at_end = decompressor_at_end(d);
    decompressor_destroy(d);
    free(room);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    static const pst_compression kinds[] = {PST_COMPRESSION_GZIP, PST_COMPRESSION_ZLIB, PST_COMPRESSION_ZSTD};
    pst_compression kind = kinds[data[0] % 3];
    size_t step = 1 + data[0] / 3;
    data++, size--;
    stream_sniff(data, size);
    struct outcome whole = run(kind, data, size, SIZE_MAX, 1 << 16), pieces = run(kind, data, size, step, step * 7);
    if (whole.length >= OUTPUT_MAX || pieces.length >= OUTPUT_MAX)
        return 0;
    /* libzstd decodes a frame that is there as a whole by another path, which finds more damage. */
    if (kind != PST_COMPRESSION_ZSTD)
        EXPECT(whole.status == pieces.status && whole.at_end == pieces.at_end);
    /* In front of damage a library may hand out a little more or less, as it was fed. */
    if (whole.at_end && pieces.at_end)
        EXPECT(whole.length == pieces.length && whole.sum == pieces.sum);
    return 0;
}
