/* monitor.h: the socket at which other processes of the user read a pipeline's statistics. See penstock/monitor.h. */
#ifndef FLOW_MONITOR_H
#define FLOW_MONITOR_H

#include <penstock/pipeline.h>

struct monitor;

/* PST_EIO with the system's reason `error` (errno). */
/* The folder belongs to this user, and no other user may write to it. */
pst_status monitor_check_folder(const char *folder, pst_error *reterr);
pst_status monitor_fail(pst_error *reterr, int error, const char *path, const char *doing);

/* Opens the socket and starts its thread. `text` is copied. The pipeline must outlive the monitor. */
pst_status monitor_start(struct monitor **ret, pst_pipeline *p, const char *folder, const char *text, pst_error *reterr);
struct monitor *monitor_stop(struct monitor *m); /* removes the socket; NULL ok; returns NULL */

#endif
