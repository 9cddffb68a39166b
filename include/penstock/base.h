/* base.h: status codes, the error that the caller owns, progress, versions and memory: what every part of the library shares.
 *
 * Every call that can fail returns a pst_status and takes a `pst_error *reterr`, which may be NULL. The error belongs to the
 * caller, holds no heap memory and is written only on failure. Results are written only on success.
 *
 * A struct whose first member is `size` may grow in later versions. Who provides it sets `size` to sizeof the struct: the
 * caller for options and results, the library for what it hands to callbacks. The other side reads and writes only that many
 * bytes, and members beyond them read as zero. All other structs keep their layout.
 */
#ifndef PENSTOCK_BASE_H
#define PENSTOCK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PST_API               __attribute__((visibility("default")))
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PST_API
#define PST_PRINTF(fmt, args)
#endif

/* ---- Version ---- */

/* The version of these headers. */
#define PST_VERSION_MAJOR 0
#define PST_VERSION_MINOR 1
#define PST_VERSION_PATCH 0
#define PST_VERSION       "0.1.0"

/* Returns the version of the library that is loaded, such as "0.1.0". */
PST_API const char *pst_version(void);

/* ---- Status ---- */

/* Negative values are failures. PST_END and PST_TIMEOUT are results, not failures: no error is written for them. */
typedef enum pst_status {
    PST_OK = 0,            /* The call succeeded. */
    PST_END = 1,           /* Nothing is left: the end of a file, of an epoch or of a stream. */
    PST_TIMEOUT = 2,       /* The time that the caller allowed is up; the call may be repeated. */
    PST_SKIP = 3,          /* An operation's `run` leaves this sample out of its batch. */
    PST_EINVAL = -1,       /* An argument, an option or a text is wrong. */
    PST_ENOMEM = -2,       /* An allocation failed. */
    PST_EIO = -3,          /* The system refused to open, read or write; `sys_errno` has its reason. */
    PST_ECORRUPT = -4,     /* The data contradict their format or their checksum. */
    PST_ELIMIT = -5,       /* The data are well-formed but exceed a limit. */
    PST_EEXIST = -6,       /* The output exists already. */
    PST_ENOTFOUND = -7,    /* A file, a feature, a field or a record does not exist. */
    PST_EUNSUPPORTED = -8, /* This build lacks a library, or the format has a part that the library does not read. */
    PST_ECANCELLED = -9,   /* The caller asked to stop. */
    PST_ETYPE = -10,       /* The data have another type or shape than declared. */
    PST_ESTALE = -11       /* An index, a cursor or a state belongs to other data. */
} pst_status;

/* Returns the name of a status, such as "PST_ECORRUPT". Never returns NULL. */
PST_API const char *pst_status_name(pst_status status);

/* ---- Errors ---- */

#define PST_NOWHERE UINT64_MAX /* a record or an offset that does not apply */

/* Says where and why a call failed. Members that do not apply are empty strings or PST_NOWHERE. */
typedef struct pst_error {
    pst_status status; /* The status that the call returned. */
    int sys_errno;     /* The system's error number, or 0. */
    char op[32];       /* The operation of a pipeline that failed. */
    char path[192];    /* The file; of a longer path the end, after "…". */
    uint64_t record;   /* The number of the record in the file, or in the source if there is no file. */
    uint64_t offset;   /* The byte in the file, or in the uncompressed stream of a compressed file. */
    char message[256]; /* What failed, what was expected and found, and what to try; may have several lines. */
} pst_error;

/* Fills `reterr` (NULL is allowed) with `status` and a message in the manner of printf, without a place, and returns `status`,
 * so that a failure is one statement. */
PST_API pst_status pst_fail(pst_error *reterr, pst_status status, const char *format, ...) PST_PRINTF(3, 4);

/* Does the same with a place. `path` may be NULL, `record` and `offset` may be PST_NOWHERE. */
PST_API pst_status pst_fail_at(pst_error *reterr, pst_status status, const char *path, uint64_t record, uint64_t offset,
                               const char *format, ...) PST_PRINTF(6, 7);

/* Writes the error as text for people into `buffer`, which has `size` bytes, and returns `buffer`:
 * "shards/a.tfrecord: record 17 at byte 2650: decode: jpeg: …". The lines of a message stay lines; other control characters,
 * and all of those in names, are escaped (\x1b). The text always ends with a NUL; a text that does not fit is cut. */
PST_API char *pst_error_text(const pst_error *error, char *buffer, size_t size);

/* ---- Memory ---- */

/* Releases memory that the library returned as a plain pointer: texts, encoded images, lists of paths. NULL is allowed. */
PST_API void pst_free(void *memory);

/* ---- Files that become shorter ---- */

/* Installs a handler of SIGBUS, once per process, for files that are cut short while they are mapped.
 *
 * Pipelines map shards, indexes and arrays unless io=read says otherwise. When another program truncates a mapped file, or its
 * storage fails, the next access raises SIGBUS, which kills the process. With the handler, the pipeline ends with an error
 * that names the file (PST_ESTALE, PST_EIO) and delivers nothing of the bytes that were lost. A fault outside of the library's
 * mappings goes to the handler that was installed before. The library never calls this function; the command-line tool and
 * the Python module do. A C program that does not call it should read files that others may truncate with io=read.
 *
 * Returns PST_EIO when the system refuses the handler. */
PST_API pst_status pst_guard_install(pst_error *reterr);

/* ---- Progress ---- */

/* Says whether a call is to stop. It is called now and then while a call reads, searches or waits for a pipe, about ten times
 * per second while it waits, on the thread that does so. `user` is the pointer that the caller gave. Returning true stops the
 * call, which then returns PST_ECANCELLED. */
typedef bool (*pst_stop_fn)(void *user);

/* Says how far a long call has come. The library may append members. */
typedef struct pst_progress {
    const char *stage; /* The present stage, such as "listing" or "packing". */
    uint64_t done;     /* The number of records that are done. */
    uint64_t total;    /* The number of records in all; 0 while it is not known. */
    uint64_t bytes;    /* The number of bytes that are done. */
} pst_progress;

/* Receives progress on the thread that made the call, about ten times per second and once at the end. `user` is the pointer
 * that the caller gave. Returning a value other than 0 cancels the call: it returns PST_ECANCELLED and leaves nothing
 * half-written. */
typedef int (*pst_progress_fn)(void *user, const pst_progress *progress);

#ifdef __cplusplus
}
#endif
#endif
