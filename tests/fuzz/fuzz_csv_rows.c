/* fuzz_csv_rows.c: the source `csv` over any text: rows by the index of their offsets are the rows of a pipe, and nothing but
 * a bad row fails. The first byte chooses the parameters. */
#include "span_rig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const columns[] = {"", "a:int64=0 b:float c:bytes=x", "a b", "c0:float64=1.5 c1:int32=-1"};
    static const char *const delimiters[] = {"auto", ",", ";", "tab"};
    if (size < 1 || size > 1 << 16)
        return 0;
    struct rig r = rig_make(&source_csv);
    *(const char **)rig_param(&r, "columns") = columns[data[0] & 3];
    *(const char **)rig_param(&r, "delimiter") = delimiters[data[0] >> 2 & 3];
    *(bool *)rig_param(&r, "header") = data[0] & 16;
    if (data[0] & 32)
        *(uint64_t *)rig_param(&r, "max_record") = 64;
    if (size >= 4 && (memcmp(data + 1, "\x1f\x8b\x08", 3) == 0 || memcmp(data + 1, "\x28\xb5\x2f", 3) == 0))
        return 0; /* a compressed stream is not an index */
    rig_compare(&r, data + 1, size - 1);
    return 0;
}
