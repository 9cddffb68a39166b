/* zip.h: the members of a zip archive (such as .npz) from its central directory, Zip64 included. */
#ifndef IO_ZIP_H
#define IO_ZIP_H

#include <penstock/base.h>

struct zip_member {
    char *name;
    uint64_t offset; /* of the member's data */
    uint64_t stored_size, size;
    uint32_t crc;
    bool deflated; /* otherwise stored without compression */
};

struct zip {
    struct zip_member *members;
    size_t count;
};

pst_status zip_read(struct zip *ret, int fd, const char *path, pst_error *reterr);
void zip_finish(struct zip *z);

#endif
