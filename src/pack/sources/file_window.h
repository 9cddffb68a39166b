/* file_window.h: a worker's view of a file: keeps the bytes read last, so that neighbours cost no further system call. */
#ifndef PACK_SOURCES_FILE_WINDOW_H
#define PACK_SOURCES_FILE_WINDOW_H

#include <penstock/base.h>

struct file_window {
    uint8_t *data;
    size_t length, capacity;
    uint64_t offset; /* of data[0] in the file */
    size_t ahead;    /* length of the last read */
    int fd;          /* the file it is of; meaningless while length is 0 */
};

/* Makes [offset, offset + want) of the file readable, or up to its end (`size`). Sequential reads read ahead, further each
 * time; others read little more than requested. `*ret` is valid until the next call. */
pst_status file_window_get(struct file_window *w, int fd, const char *path, uint64_t size, uint64_t offset, size_t want,
                      const uint8_t **ret, size_t *ret_available, pst_error *reterr);
void file_window_finish(struct file_window *w);

#endif
