/* access.h: readers that compute single batches on the threads of callers (pst_pipeline_at). */
#ifndef FLOW_ACCESS_H
#define FLOW_ACCESS_H

#include <penstock/base.h>

struct access; /* the readers of a pipeline; any thread may use them */

/* Up to `readers` calls run at once; further ones wait. */
pst_status access_create(struct access **ret, unsigned readers, pst_error *reterr);
struct access *access_destroy(struct access *a); /* NULL ok; returns NULL. No call may be running. */

#endif
