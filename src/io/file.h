/* file.h: files by descriptor. Whole reads and writes (EINTR and short transfers are handled here), 64-bit offsets,
 * paths of any length for reading, errors with the path and errno's text. Every system call asks
 * fault_hit(FAULT_IO, name) first. */
#ifndef IO_FILE_H
#define IO_FILE_H

#include <penstock/base.h>
#include <sys/types.h>
#include <sys/uio.h>

struct file_info {
    uint64_t size;
    int64_t mtime_ns;
    bool is_folder, is_regular;
};

/* PST_ENOTFOUND when there is no such file, PST_EIO otherwise, with what to try where that is known. */
pst_status file_open_read(int *ret_fd, const char *path, pst_error *reterr);
/* Opens an existing file for writing; publish.h creates files. */
pst_status file_open_update(int *ret_fd, const char *path, pst_error *reterr);
pst_status file_open_folder(int *ret_fd, const char *path, pst_error *reterr);
pst_status file_stat(const char *path, struct file_info *ret, pst_error *reterr);
pst_status file_fstat(int fd, const char *path, struct file_info *ret, pst_error *reterr);

/* Reads until `length` bytes or the end of file; `*ret_got` tells how many. */
pst_status file_read_at(int fd, const char *path, void *buffer, size_t length, uint64_t offset, size_t *ret_got,
                        pst_error *reterr);
/* The same scattered over `count` (≤ 8) pieces; `pieces` is used up. */
pst_status file_readv_at(int fd, const char *path, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got,
                         pst_error *reterr);
/* What may end a long read or wait; zeroed: nothing. */
struct file_stop {
    pst_stop_fn asked;
    void *user;
};
/* PST_ECANCELLED when it is asked for. */
pst_status file_check_stop(const struct file_stop *stop, const char *path, pst_error *reterr);
/* From a pipe, terminal or socket: waits for data, then reads what there is, up to `length`; 0 is its end. */
pst_status file_read_some(int fd, const char *path, void *buffer, size_t length, const struct file_stop *stop, size_t *ret_got,
                          pst_error *reterr);
pst_status file_write_at(int fd, const char *path, const void *data, size_t length, uint64_t offset, pst_error *reterr);
/* The same gathered from `count` (≤ 8) pieces; `pieces` is used up. */
pst_status file_writev_at(int fd, const char *path, struct iovec *pieces, int count, uint64_t offset, pst_error *reterr);
/* A whole small file; PST_ELIMIT above `max` bytes. `*ret` is NUL-terminated one past its length; mem_free it. */
pst_status file_read_all(uint8_t **ret, size_t *ret_length, const char *path, size_t max, pst_error *reterr);
void file_close(int fd); /* for reading; -1 ok */

/* Hints: they cannot fail. */

/* The file is read from front to back: the system reads further ahead. */
void file_expect_sequential(int fd);
/* These bytes are needed soon: starts reading what is not in memory, and does not wait. */
void file_fetch(int fd, uint64_t offset, size_t length);
void file_fetch_mapped(const void *begin, size_t length);
/* Whether this byte of a mapping is in memory. Of files that belong to others the system always says so. */
bool file_is_resident(const void *at);

/* Opens for reads that go past the system's cache: buffer, offset and length in multiples of FILE_DIRECT_ALIGNMENT. On a
 * file system without them it opens as usual, and `*ret_direct` is false. */
#define FILE_DIRECT_ALIGNMENT ((size_t)4096)
pst_status file_open_direct(int *ret_fd, bool *ret_direct, const char *path, pst_error *reterr);
/* How many files this process may have open at once. */
size_t file_open_limit(void);

/* Creates the folder and its parents. */
pst_status file_make_folder(const char *path, pst_error *reterr);
char *file_join(const char *folder, const char *name); /* mem_free; NULL: out of memory */
const char *file_base(const char *path);               /* behind the last slash */
/* The one absolute path of an existing file, links resolved; mem_free it. */
pst_status file_absolute(char **ret, const char *path, pst_error *reterr);

/* For whoever makes a system call on storage: true when a test wants `call` to fail, with errno set as if it had. */
bool file_denied(const char *call);
/* The error of a failed call: ENOENT is PST_ENOTFOUND, EEXIST PST_EEXIST, anything else PST_EIO; with errno's text and
 * what to try. `doing` is a participle: "reading". */
pst_status file_fail(pst_error *reterr, const char *path, const char *doing, int code);

#endif
