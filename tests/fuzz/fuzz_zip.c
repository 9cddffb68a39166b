/* fuzz_zip.c: members lie inside the archive, whatever its directory says. */
#include "expect.h"
#include "memory_file.h"

#include "io/zip.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct zip z = {0};
    pst_error e;
    int fd = memory_file(data, size);
    pst_status st = zip_read(&z, fd, "fuzz.zip", &e);
    EXPECT(st == PST_OK || st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
    EXPECT(st == PST_OK || !z.members);
    for (size_t i = 0; i < z.count; i++) {
        const struct zip_member *m = &z.members[i];
        EXPECT(m->offset <= size && m->stored_size <= size - m->offset);
        EXPECT(m->deflated ? m->size / 1032 <= m->stored_size : m->size == m->stored_size);
        EXPECT(strlen(m->name) <= 65535);
    }
    zip_finish(&z);
    close(fd);
    return 0;
}
