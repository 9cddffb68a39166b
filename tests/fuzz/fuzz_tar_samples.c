/* fuzz_tar_samples.c: the source `tar` over any archive: samples by the index are the samples of a pipe, and nothing but a bad
 * sample fails. The first byte chooses the fields, and whether every block's checksum is made
 * right. */
#include "span_rig.h"

#define BLOCK 512u

static void seal(uint8_t *block)
{
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < BLOCK; i++)
        sum += i >= 148 && i < 156 ? 0 : block[i];
    char digits[8];
    snprintf(digits, sizeof(digits), "%06o", sum);
    memcpy(block + 148, digits, sizeof(digits));
}

static bool is_zero(const uint8_t *block)
{
    for (size_t i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const fields[] = {"", "txt label=cls:int64?", "image=jpg,png? n=cls:float", "cls key"};
    if (size < 1 || size > 1 << 16)
        return 0;
    struct rig r = rig_make(&source_tar);
    *(const char **)rig_param(&r, "fields") = fields[data[0] & 3];
    uint8_t *sealed = malloc(size);
    memcpy(sealed, data + 1, size - 1);
    for (size_t at = 0; (data[0] & 4) == 0 && at + BLOCK <= size - 1; at += BLOCK)
        if (!is_zero(sealed + at))
            seal(sealed + at);
    bool packed = size >= 5 && (memcmp(sealed, "\x1f\x8b\x08", 3) == 0 || memcmp(sealed, "\x28\xb5\x2f", 3) == 0);
    if (!packed) /* a compressed stream is not an index */
        rig_compare(&r, sealed, size - 1);
    free(sealed);
    return 0;
}
