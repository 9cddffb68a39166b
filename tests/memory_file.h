/* memory_file.h: bytes as a file that has no name. */
#ifndef TESTS_MEMORY_FILE_H
#define TESTS_MEMORY_FILE_H

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* A descriptor on a copy of `data`; the caller closes it. Aborts when there is none to be had. */
static inline int memory_file(const void *data, size_t length)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    for (size_t at = 0; at < length;) {
        ssize_t n = pwrite(fd, (const char *)data + at, length - at, (off_t)at);
        if (n <= 0)
            abort();
        at += (size_t)n;
    }
    return fd;
}

#endif
