/* monitor.h: looking at running pipelines from another process.
 *
 * A pipeline with options.monitor opens a unix socket "PID-N.sock" in that folder, mode 0600, which only the same user and root
 * can use. Every connection gets one JSON object with the statistics, and is closed. Nothing goes over a network. */
#ifndef PENSTOCK_MONITOR_H
#define PENSTOCK_MONITOR_H

#include <penstock/pipeline.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PST_MONITOR_TEXT 1024 /* bytes of the pipeline's text that a view has */

/* The state of one pipeline at one moment. */
typedef struct pst_monitor_view {
    size_t size;                     /* sizeof(pst_monitor_view); set it before the call. */
    uint64_t pid;                    /* The process. */
    unsigned rank, world;            /* The number of the process among those that share the batches, and how many they are. */
    double seconds;                  /* The time since the pipeline was started. */
    char pipeline[PST_MONITOR_TEXT]; /* The pipeline's text, cut if it is longer. */
    pst_stats stats;                 /* The statistics. */
} pst_monitor_view;

/* Stores the sockets in `folder`, sorted, as `*ret_count` paths in `*ret`; release each of them and the array with pst_free.
 * Sockets of processes that have ended are removed. A folder that does not exist has none. */
PST_API pst_status pst_monitor_list(char ***ret, size_t *ret_count, const char *folder, pst_error *reterr);
/* Reads the state of the pipeline at `socket`, and waits up to `seconds` for it. PST_ENOTFOUND: the pipeline has ended.
 * PST_TIMEOUT: it does not answer. PST_EIO: it may not be read. PST_ECORRUPT: the answer is not one of a pipeline. */
PST_API pst_status pst_monitor_read(pst_monitor_view *ret, const char *socket, double seconds, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
