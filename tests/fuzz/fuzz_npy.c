/* fuzz_npy.c: a header that is taken describes an array inside the file. */
#include "expect.h"

#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t file_size = (uint64_t)size + 1000;
    struct npy_header h;
    pst_error e;
    pst_status st = npy_parse(&h, data, size, file_size, "fuzz.npy", &e);
    if (st != PST_OK) {
        EXPECT(st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
        EXPECT(e.status == st && e.message[0]);
        return 0;
    }
    EXPECT(h.rank <= 8 && h.width > 0 && h.data_offset <= size);
    EXPECT(h.elements <= (file_size - h.data_offset) / h.width);
    uint64_t product = 1;
    for (size_t i = 0; i < h.rank && h.elements; i++)
        product *= h.shape[i];
    EXPECT(h.elements == 0 || product == h.elements);
    return 0;
}
