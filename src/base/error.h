/* error.h: failures that every room reports in the same words. pst_fail and its kin are in the public header. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <penstock/base.h>

/* PST_ENOMEM: "DOING: out of memory", as in fail_memory(reterr, "opening the shards"). */
pst_status fail_memory(pst_error *reterr, const char *doing);
/* The same for a file: the error names it. */
pst_status fail_memory_at(pst_error *reterr, const char *path, const char *doing);

#endif
