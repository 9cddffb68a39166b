/* file_window.c: see file_window.h. */
#include "pack/sources/file_window.h"

#include "base/memory.h"
#include "io/file.h"

#include <inttypes.h>

#define LEAST ((size_t)1 << 10)
#define MOST  ((size_t)256 << 10)

pst_status file_window_get(struct file_window *w, int fd, const char *path, uint64_t size, uint64_t offset, size_t want,
                      const uint8_t **ret, size_t *ret_available, pst_error *reterr)
{
    uint64_t left = offset < size ? size - offset : 0;
    if (want > left)
        want = (size_t)left;
    bool near = w->fd == fd && offset >= w->offset && offset - w->offset <= w->length;
    size_t inside = near ? w->length - (size_t)(offset - w->offset) : 0;
    if (inside < want || !w->data) {
        w->ahead = !near || !w->ahead ? LEAST : w->ahead < MOST ? w->ahead * 2 : MOST;
        size_t length = want > w->ahead ? want : w->ahead < left ? w->ahead : (size_t)left, got = 0;
        if (length >= w->capacity) {
            mem_free(w->data);
            *w = (struct file_window){.capacity = length + 1, .ahead = w->ahead};
            w->data = mem_alloc(w->capacity);
            if (!w->data) {
                *w = (struct file_window){0};
                return pst_fail_at(reterr, PST_ENOMEM, path, PST_NOWHERE, offset, "out of memory reading %zu bytes", length);
            }
        }
        w->length = 0;
        pst_status st = file_read_at(fd, path, w->data, length, offset, &got, reterr);
        if (st < 0)
            return st;
        if (got < want)
            return pst_fail_at(reterr, PST_ESTALE, path, PST_NOWHERE, offset,
                               "ends at byte %" PRIu64 ", %" PRIu64
                               " when it was opened: it was changed while it was packed; run again",
                               offset + got, size);
        w->fd = fd;
        w->offset = offset;
        w->length = inside = got;
    }
    *ret = w->data + (offset - w->offset);
    *ret_available = inside;
    return PST_OK;
}

void file_window_finish(struct file_window *w)
{
    mem_free(w->data);
    *w = (struct file_window){0};
}
