/* file.h: files by descriptor. Whole reads and writes (EINTR and short transfers are handled here), 64-bit offsets,
 * paths of any length for reading, s3://… and https://… as well as local ones (remote/), errors with the path and errno's text. Every system call asks
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

/* PST_ENOTFOUND when there is no such file, PST_EIO otherwise, with a remedy where one is known. */
pst_status file_open_read(int *ret_fd, const char *path, pst_error *reterr);
/* Opens an existing file for writing; publish.h creates files. */
pst_status file_open_update(int *ret_fd, const char *path, pst_error *reterr);
pst_status file_open_folder(int *ret_fd, const char *path, pst_error *reterr);
pst_status file_stat(const char *path, struct file_info *ret, pst_error *reterr);
pst_status file_fstat(int fd, const char *path, struct file_info *ret, pst_error *reterr);

/* Reads up to `length` bytes or the end of file; `*ret_got` is the number read. */
pst_status file_read_at(int fd, const char *path, void *buffer, size_t length, uint64_t offset, size_t *ret_got,
                        pst_error *reterr);
/* file_read_at, scattered over `count` (≤ 8) pieces; `pieces` is modified. */
pst_status file_readv_at(int fd, const char *path, struct iovec *pieces, int count, uint64_t offset, size_t *ret_got,
                         pst_error *reterr);
/* A condition that ends a long read or wait; zeroed: none. */
struct file_stop {
    pst_stop_fn asked;
    void *user;
};
/* Returns PST_ECANCELLED when a stop is requested. */
pst_status file_check_stop(const struct file_stop *stop, const char *path, pst_error *reterr);
/* From a pipe, terminal or socket: waits for data, then reads the available bytes, up to `length`; 0 means the end. */
pst_status file_read_some(int fd, const char *path, void *buffer, size_t length, const struct file_stop *stop, size_t *ret_got,
                          pst_error *reterr);
pst_status file_write_at(int fd, const char *path, const void *data, size_t length, uint64_t offset, pst_error *reterr);
/* The same, gathered from `count` (≤ 8) pieces; `pieces` is modified. */
pst_status file_writev_at(int fd, const char *path, struct iovec *pieces, int count, uint64_t offset, pst_error *reterr);
/* Reads a whole small file; PST_ELIMIT above `max` bytes. `*ret` is NUL-terminated one past its length; mem_free it. */
pst_status file_read_all(uint8_t **ret, size_t *ret_length, const char *path, size_t max, pst_error *reterr);
void file_close(int fd); /* for reading; -1 ok */

/* Hints: they cannot fail. */

/* The file is read from beginning to end: the system reads further ahead. */
void file_expect_sequential(int fd);
/* Starts reading bytes that are needed soon and not in memory yet; does not wait. */
void file_fetch(int fd, uint64_t offset, size_t length);
/* A remote file: its copy here fills as it is read. */
bool file_is_remote(int fd);
/* Stores the version of a remote file: two of the same version have the same bytes. False: it is not an object in a bucket, or has no usable ETag. Web
 * servers make their ETags of times and sizes, which proves nothing. */
#define FILE_VERSION 128
bool file_version(int fd, char ret[FILE_VERSION]);
/* False while parts of a remote file are missing here: mapping it would fetch all of it first. */
bool file_is_whole(int fd);
bool file_is_here(int fd); /* the same, and cheap: blocks that an earlier process stored and no process has used yet do not count */
/* All of a remote file will be read: parts that no thread waits for are fetched when connections are idle. */
void file_expect(int fd, uint64_t offset, uint64_t length);
/* Returns how many bytes of the files that are read after this one are worth expecting: at least 128 MiB. */
uint64_t file_expect_bytes(int fd);
void file_fetch_mapped(const void *begin, size_t length);
/* Returns whether this byte of a mapping is in memory. For files of other users the system always returns true. */
bool file_is_resident(const void *at);

/* Drops a file from the page cache and returns whether this range of it is gone. It stays if it was written a moment ago, if others map it, and on file
 * systems that keep their files in memory. The whole file, because large pages of which a part is named stay. */
bool file_drop(int fd, uint64_t offset, size_t length);
bool file_is_in_memory(int fd); /* the file system keeps its files in memory only */

/* Opens for reads that bypass the page cache: buffer, offset and length are multiples of FILE_DIRECT_ALIGNMENT. On a file
 * system without direct reads it opens normally, and `*ret_direct` is false. */
#define FILE_DIRECT_ALIGNMENT ((size_t)4096)
pst_status file_open_direct(int *ret_fd, bool *ret_direct, const char *path, pst_error *reterr);
/* Returns how many files this process may have open at once. */
size_t file_open_limit(void);

/* Creates the folder and its parents. */
pst_status file_make_folder(const char *path, pst_error *reterr);
char *file_join(const char *folder, const char *name); /* mem_free; NULL: out of memory */
/* Whether the path means the same wherever it is named: it begins with a slash, or is remote. */
bool file_is_anchored(const char *path);
const char *file_base(const char *path);               /* the part after the last slash */
/* Returns the absolute path of an existing file with links resolved; release with mem_free. */
pst_status file_absolute(char **ret, const char *path, pst_error *reterr);

/* Called before every system call on storage: true when a test makes `call` fail, with errno set as if it had. */
bool file_denied(const char *call);
/* The error of a failed call: ENOENT is PST_ENOTFOUND, EEXIST PST_EEXIST, anything else PST_EIO; with errno's text and a
 * remedy. `doing` is a participle: "reading". */
pst_status file_fail(pst_error *reterr, const char *path, const char *doing, int code);

#endif
