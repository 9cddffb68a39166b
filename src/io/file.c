/* file.c: the system calls on storage, made whole.
 *
 * Promises: a transfer is complete or ends at the end of file; a signal never shows; every failure names the path and,
 * where it is known, the remedy. Leaves to others: what the bytes mean, and how a file appears under its name
 * (publish.c). */
#include "io/file.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/memory.h"
#include "io/remote/object.h"
#include "io/remote/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

bool file_denied(const char *call)
{
    if (!fault_hit(FAULT_IO, call))
        return false;
    errno = EIO;
    return true;
}

static const char *remedy(int code)
{
    switch (code) {
    case EACCES:
    case EPERM:
        return "; check the permissions of the file and of its folders";
    case ENOSPC:
    case EDQUOT:
        return "; free some space or choose another disk";
    case EMFILE:
    case ENFILE:
        return "; raise the limit on open files (ulimit -n)";
    case EROFS:
        return "; choose a folder on a writable file system";
    case ENOTDIR:
        return "; a part of the path is a file, where a folder is needed";
    case EISDIR:
        return "; name a file, not a folder";
    case ESPIPE:
        return "; a pipe cannot be read by offset: save it to a file first";
    case ENAMETOOLONG:
        return "; choose a shorter name";
    default:
        return "";
    }
}

pst_status file_fail(pst_error *reterr, const char *path, const char *doing, int code)
{
    char buffer[128];
    pst_status status = code == ENOENT ? PST_ENOTFOUND : code == EEXIST ? PST_EEXIST : PST_EIO;
    /* The GNU strerror_r: unlike strerror it is safe in threads. */
    pst_fail_at(reterr, status, path, PST_NOWHERE, PST_NOWHERE, "%s: %s%s", doing, strerror_r(code, buffer, sizeof(buffer)),
                remedy(code));
    if (reterr)
        reterr->sys_errno = code;
    return status;
}

/* open(2) for paths of any length: the kernel takes less than PATH_MAX bytes at once, a longer path is entered in strides. */
static int open_path(const char *path, int flags)
{
    int folder = AT_FDCWD, fd = -1;
    char stride[PATH_MAX];
    for (size_t left = strlen(path); left >= PATH_MAX;) {
        size_t n = PATH_MAX - 1;
        while (n && path[n] != '/')
            n--;
        memcpy(stride, path, n);
        stride[n] = 0; /* n = 0, no slash at all: openat says ENOENT for the empty name, which misleads */
        int next = n ? openat(folder, stride, O_PATH | O_DIRECTORY | O_CLOEXEC) : (errno = ENAMETOOLONG, -1);
        if (next < 0)
            goto done;
        file_close(folder);
        folder = next;
        while (path[n] == '/')
            n++;
        path += n;
        left -= n;
    }
    do
        fd = openat(folder, *path ? path : ".", flags | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
done:;
    int code = errno;
    file_close(folder);
    errno = code;
    return fd;
}

pst_status file_open_read(int *ret_fd, const char *path, pst_error *reterr)
{
    if (remote_is(path))
        return remote_open(ret_fd, path, reterr);
    /* Without O_NONBLOCK a FIFO among the data would wait for its writer for ever. */
    int fd = file_denied("open") ? -1 : open_path(path, O_RDONLY | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return file_fail(reterr, path, "opening", errno);
    *ret_fd = fd;
    return PST_OK;
}

pst_status file_open_update(int *ret_fd, const char *path, pst_error *reterr)
{
    int fd = file_denied("open") ? -1 : open_path(path, O_WRONLY | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return file_fail(reterr, path, "opening", errno);
    *ret_fd = fd;
    return PST_OK;
}

pst_status file_open_folder(int *ret_fd, const char *path, pst_error *reterr)
{
    int fd = file_denied("open") ? -1 : open_path(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return file_fail(reterr, path, "opening the folder", errno);
    *ret_fd = fd;
    return PST_OK;
}

static void describe(struct file_info *ret, const struct stat *st)
{
    ret->size = (uint64_t)st->st_size;
    ret->mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    ret->is_folder = S_ISDIR(st->st_mode);
    ret->is_regular = S_ISREG(st->st_mode);
}

pst_status file_fstat(int fd, const char *path, struct file_info *ret, pst_error *reterr)
{
    struct stat st;
    if (file_denied("fstat") || fstat(fd, &st) < 0)
        return file_fail(reterr, path, "looking at the file", errno);
    describe(ret, &st);
    return PST_OK;
}

pst_status file_stat(const char *path, struct file_info *ret, pst_error *reterr)
{
    struct stat st;
    if (remote_is(path))
        return remote_stat(path, ret, reterr);
    int failed = file_denied("stat") ? -1 : stat(path, &st);
    if (failed && errno == ENAMETOOLONG) {
        int fd = open_path(path, O_PATH);
        failed = fd < 0 ? -1 : fstat(fd, &st);
        file_close(fd);
    }
    if (failed)
        return file_fail(reterr, path, "looking for the file", errno);
    describe(ret, &st);
    return PST_OK;
}

/* Takes `n` bytes from the front of the pieces, and the pieces that are empty then: a transfer may end inside any. */
static void use_up(struct iovec **pieces, int *count, size_t n)
{
    while (*count && n >= (*pieces)->iov_len) {
        n -= (*pieces)->iov_len;
        (*pieces)++, (*count)--;
    }
    if (n) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + n;
        (*pieces)->iov_len -= n;
    }
}

pst_status file_readv_at(int fd, const char *path, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got,
                         pst_error *reterr)
{
    size_t got = 0;
    struct object *remote = remote_of(fd);
    pst_error local;
    if (remote) {
        bool in_file = false;
        pst_status st = object_read(remote, pieces, count, offset, ret_got, &in_file, reterr ? reterr : &local);
        if (st < 0 || !in_file)
            return st;
    }
    for (;;) {
        use_up(&pieces, &count, 0);
        if (!count)
            break;
        if (offset + got > INT64_MAX)
            return file_fail(reterr, path, "reading", EOVERFLOW);
        ssize_t n = file_denied("pread") ? -1 : preadv(fd, pieces, count, (off_t)(offset + got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return file_fail(reterr, path, "reading", errno);
        if (n == 0)
            break;
        got += (size_t)n;
        use_up(&pieces, &count, (size_t)n);
    }
    *ret_got = got;
    return PST_OK;
}

pst_status file_read_at(int fd, const char *path, void *buffer, size_t length, uint64_t offset, size_t *ret_got,
                        pst_error *reterr)
{
    struct iovec piece = {buffer, length};
    return file_readv_at(fd, path, &piece, 1, offset, ret_got, reterr);
}

pst_status file_check_stop(const struct file_stop *stop, const char *path, pst_error *reterr)
{
    return stop->asked && stop->asked(stop->user)
               ? pst_fail_at(reterr, PST_ECANCELLED, path, PST_NOWHERE, PST_NOWHERE, "stopped while it was read")
               : PST_OK;
}

#define STOP_MS 100 /* between two looks at what may end a wait */

pst_status file_read_some(int fd, const char *path, void *buffer, size_t length, const struct file_stop *stop, size_t *ret_got,
                          pst_error *reterr)
{
    for (;;) {
        /* The descriptor does not block; without the wait a FIFO whose writer is still to come would look ended. */
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        pst_status st = file_check_stop(stop, path, reterr);
        if (st < 0)
            return st;
        int ready = file_denied("read") ? -1 : poll(&wait, 1, stop->asked ? STOP_MS : -1);
        if (ready == 0)
            continue;
        ssize_t n = ready < 0 ? -1 : read(fd, buffer, length);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n < 0)
            return file_fail(reterr, path, "reading", errno);
        *ret_got = (size_t)n;
        return PST_OK;
    }
}

pst_status file_writev_at(int fd, const char *path, struct iovec *pieces, int count, uint64_t offset, pst_error *reterr)
{
    for (;;) {
        use_up(&pieces, &count, 0);
        if (!count)
            return PST_OK;
        if (offset > INT64_MAX)
            return file_fail(reterr, path, "writing", EFBIG);
        ssize_t n = file_denied("pwrite") ? -1 : pwritev(fd, pieces, count, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) /* no progress without an error is a full device on some file systems */
            return file_fail(reterr, path, "writing", n < 0 ? errno : ENOSPC);
        offset += (size_t)n;
        use_up(&pieces, &count, (size_t)n);
    }
}

pst_status file_write_at(int fd, const char *path, const void *data, size_t length, uint64_t offset, pst_error *reterr)
{
    struct iovec piece = {(void *)(uintptr_t)data, length}; /* iovec has one type for both directions */
    return file_writev_at(fd, path, &piece, 1, offset, reterr);
}

pst_status file_read_all(uint8_t **ret, size_t *ret_length, const char *path, size_t max, pst_error *reterr)
{
    int fd = -1;
    struct file_info info;
    uint8_t *data = NULL;
    size_t got = 0;
    pst_status st = file_open_read(&fd, path, reterr);
    if (st == PST_OK)
        st = file_fstat(fd, path, &info, reterr);
    if (st != PST_OK)
        goto done;
    if (!info.is_regular && !info.is_folder) { /* its size says nothing: it would pass for an empty file */
        st = pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "not a regular file; save it as one first");
        goto done;
    }
    if (info.size > max) {
        st = pst_fail_at(reterr, PST_ELIMIT, path, PST_NOWHERE, PST_NOWHERE, "%llu bytes, at most %zu are expected",
                         (unsigned long long)info.size, max);
        goto done;
    }
    data = mem_alloc((size_t)info.size + 1);
    if (!data) {
        st = fail_memory_at(reterr, path, "reading %llu bytes", (unsigned long long)info.size);
        goto done;
    }
    st = file_read_at(fd, path, data, (size_t)info.size, 0, &got, reterr);
    if (st != PST_OK)
        goto done;
    data[got] = 0;
    *ret = data;
    *ret_length = got;
    data = NULL;
done:
    mem_free(data);
    file_close(fd);
    return st;
}

void file_close(int fd)
{
    if (remote_of(fd))
        remote_close(fd);
    if (fd >= 0)
        close(fd); /* nothing was written through it: its error can mean nothing */
}

void file_expect_sequential(int fd)
{
    struct object *remote = remote_of(fd);
    if (remote)
        object_expect_sequential(remote);
    else
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

/* One request reads no more than the device's read-ahead, 128 KiB by default: the rest would be dropped. */
#define FETCH_PIECE ((size_t)128 << 10)

bool file_is_remote(int fd)
{
    return remote_of(fd) != NULL;
}

bool file_version(int fd, char ret[FILE_VERSION])
{
    const struct object *remote = remote_of(fd);
    return remote && object_version(remote, ret);
}

bool file_is_whole(int fd)
{
    struct object *remote = remote_of(fd);
    return !remote || object_is_whole(remote);
}

bool file_is_here(int fd)
{
    struct object *remote = remote_of(fd);
    return !remote || object_is_here(remote);
}

void file_expect(int fd, uint64_t offset, uint64_t length)
{
    struct object *remote = remote_of(fd);
    if (remote)
        object_expect(remote, offset, length);
}

uint64_t file_expect_bytes(int fd)
{
    return object_expect_bytes(remote_of(fd));
}

void file_fetch(int fd, uint64_t offset, size_t length)
{
    struct object *remote = remote_of(fd);
    if (remote) {
        object_fetch(remote, offset, length);
        return;
    }
    for (size_t done = 0; done < length; done += FETCH_PIECE) {
        size_t n = length - done < FETCH_PIECE ? length - done : FETCH_PIECE;
        (void)posix_fadvise(fd, (off_t)(offset + done), (off_t)n, POSIX_FADV_WILLNEED);
    }
}

void file_fetch_mapped(const void *begin, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), lead = (uintptr_t)begin & (page - 1);
    char *at = (char *)(uintptr_t)begin - lead;
    length += lead;
    for (size_t done = 0; done < length; done += FETCH_PIECE) {
        size_t n = length - done < FETCH_PIECE ? length - done : FETCH_PIECE;
        (void)madvise(at + done, n, MADV_WILLNEED);
    }
}

bool file_is_resident(const void *at)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char resident = 1;
    (void)mincore((void *)((uintptr_t)at & ~(uintptr_t)(page - 1)), 1, &resident);
    return resident & 1;
}

bool file_drop(int fd, uint64_t offset, size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), lead = (size_t)(offset % page), size = length + lead;
    if (remote_of(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        return false;
    char *at = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, (off_t)(offset - lead));
    if (at == MAP_FAILED)
        return false;
    bool resident = file_is_resident(at) || file_is_resident(at + size - 1);
    (void)munmap(at, size);
    return !resident;
}

bool file_is_in_memory(int fd)
{
    struct statfs s;
    return !remote_of(fd) && fstatfs(fd, &s) == 0 && (s.f_type == TMPFS_MAGIC || s.f_type == RAMFS_MAGIC || s.f_type == HUGETLBFS_MAGIC);
}

pst_status file_open_direct(int *ret_fd, bool *ret_direct, const char *path, pst_error *reterr)
{
    if (remote_is(path)) {
        *ret_direct = false;
        return remote_open(ret_fd, path, reterr);
    }
    int fd = file_denied("open") ? -1 : open_path(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_DIRECT);
    *ret_direct = fd >= 0;
    if (fd < 0 && errno == EINVAL) {
        pst_status st = file_open_read(&fd, path, reterr);
        if (st < 0)
            return st;
    }
    if (fd < 0)
        return file_fail(reterr, path, "opening", errno);
    /* On some kernels and file systems io_uring answers EAGAIN for a descriptor that does not block, again and again. */
    int flags = fcntl(fd, F_GETFL);
    if (flags >= 0)
        (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
    *ret_fd = fd;
    return PST_OK;
}

size_t file_open_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? (size_t)limit.rlim_cur : SIZE_MAX;
}

static pst_status make_one(const char *path, const char *whole, pst_error *reterr)
{
    struct file_info info;
    if (!file_denied("mkdir") && mkdir(path, 0777) == 0)
        return PST_OK;
    if (errno != EEXIST)
        return file_fail(reterr, whole, "making the folder", errno);
    pst_status st = file_stat(path, &info, reterr);
    return st == PST_OK && !info.is_folder ? file_fail(reterr, whole, "making the folder", ENOTDIR) : st;
}

pst_status file_make_folder(const char *path, pst_error *reterr)
{
    pst_status st = PST_OK;
    if (remote_is(path))
        return PST_OK; /* stores have no folders */
    char *copy = mem_strdup(path);
    if (!copy)
        return fail_memory_at(reterr, path, "making the folder");
    for (char *at = copy; st == PST_OK && *at; at++) {
        if (*at != '/' || at == copy || at[-1] == '/')
            continue;
        *at = 0;
        st = make_one(copy, path, reterr);
        *at = '/';
    }
    if (st == PST_OK)
        st = make_one(copy, path, reterr);
    mem_free(copy);
    return st;
}

char *file_join(const char *folder, const char *name)
{
    size_t n = strlen(folder);
    return mem_format("%s%s%s", folder, n && folder[n - 1] != '/' ? "/" : "", name);
}

bool file_is_anchored(const char *path)
{
    return *path == '/' || remote_is(path);
}

const char *file_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

pst_status file_absolute(char **ret, const char *path, pst_error *reterr)
{
    char resolved[PATH_MAX];
    if (remote_is(path)) {
        *ret = mem_strdup(path);
        return *ret ? PST_OK : fail_memory_at(reterr, path, "resolving the path");
    }
    if (file_denied("realpath") || !realpath(path, resolved))
        return file_fail(reterr, path, "resolving the path", errno);
    char *copy = mem_strdup(resolved);
    if (!copy)
        return fail_memory_at(reterr, path, "resolving the path");
    *ret = copy;
    return PST_OK;
}
