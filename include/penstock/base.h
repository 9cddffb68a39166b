/* base.h: what every part of the library shares: status codes, the caller-owned error, progress.
 *
 * Every fallible call returns a pst_status and takes a `pst_error *` that may be NULL. The error lives with the
 * caller, holds no heap memory and is written only on failure. */
#ifndef PENSTOCK_BASE_H
#define PENSTOCK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PST_API __attribute__((visibility("default")))
#if defined(__GNUC__)
#define PST_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define PST_PRINTF(fmt, args)
#endif

#define PST_NOWHERE UINT64_MAX /* a record or offset that does not apply */

typedef enum pst_status {
    PST_OK = 0,
    PST_END = 1,           /* nothing left; not an error */
    PST_SKIP = 3,          /* from an operation's run: leave this sample out of its batch; not an error */
    PST_EINVAL = -1,       /* an argument, option or text is wrong */
    PST_ENOMEM = -2,       /* an allocation failed */
    PST_EIO = -3,          /* the system refused a read, write, open…; sys_errno says why */
    PST_ECORRUPT = -4,     /* the data contradicts its format or checksum */
    PST_ELIMIT = -5,       /* well-formed, but over a limit that the caller can raise */
    PST_EEXIST = -6,       /* the output is there already */
    PST_ENOTFOUND = -7,    /* no such file, feature, record */
    PST_EUNSUPPORTED = -8, /* this build lacks a library, or the format has a part that is not read */
    PST_ECANCELLED = -9,   /* the caller asked to stop */
    PST_ETYPE = -10,       /* the data has another type or shape than declared */
    PST_ESTALE = -11       /* an index or state that belongs to other data */
} pst_status;

/* Where and why a call failed. Fields that do not apply are empty strings or PST_NOWHERE. */
typedef struct pst_error {
    pst_status status;
    int sys_errno;
    char op[32];
    char path[192];    /* a longer path keeps its end, behind "…" */
    uint64_t record;   /* ordinal within the file; without one, within the source */
    uint64_t offset;   /* byte within the file (within the uncompressed stream where it is compressed) */
    char message[256]; /* what failed, expected and found, what to try */
} pst_error;

/* The name of a status: "PST_ECORRUPT". Never NULL. */
PST_API const char *pst_status_name(pst_status status);

/* Fills `reterr` (NULL ok) and returns `status`, so that a failure is one statement. Clears the place. */
PST_API pst_status pst_fail(pst_error *reterr, pst_status status, const char *format, ...) PST_PRINTF(3, 4);

/* The same, with the place. `path` may be NULL, `record` and `offset` PST_NOWHERE. */
PST_API pst_status pst_fail_at(pst_error *reterr, pst_status status, const char *path, uint64_t record, uint64_t offset,
                               const char *format, ...) PST_PRINTF(6, 7);

/* One line for people: "shards/a.tfrecord: record 17 at byte 2650: decode: jpeg: …". Always NUL-terminated; returns `buffer`. */
PST_API char *pst_error_text(const pst_error *error, char *buffer, size_t size);

/* The library's version, "0.1.0". */
PST_API const char *pst_version(void);

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

/* Asked now and then while a call reads, searches or waits for a pipe, about ten times a second while it waits, on the thread
 * that does so. Returns true to stop: the call then returns PST_ECANCELLED. */
typedef bool (*pst_stop_fn)(void *user);

/* How far a long call is. Delivered on the thread that made the call, about ten times a second and once at the end. */
typedef struct pst_progress {
    const char *stage; /* "listing", "packing", … */
    uint64_t done, total; /* records; total 0 while unknown */
    uint64_t bytes;
} pst_progress;

/* Returns nonzero to cancel: the call then returns PST_ECANCELLED with nothing half-written. */
typedef int (*pst_progress_fn)(void *user, const pst_progress *progress);

#ifdef __cplusplus
}
#endif
#endif
