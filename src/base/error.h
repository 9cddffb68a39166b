/* error.h: failures that every room reports with the same text. pst_fail and related functions are in the public header. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <penstock/base.h>

/* PST_ENOMEM: "DOING: out of memory", as in fail_memory(reterr, "opening %zu shards", count). */
pst_status fail_memory(pst_error *reterr, const char *doing, ...) PST_PRINTF(2, 3);
/* The same for a file: the error names it. */
pst_status fail_memory_at(pst_error *reterr, const char *path, const char *doing, ...) PST_PRINTF(3, 4);

#endif
