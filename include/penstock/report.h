/* report.h: results as files for people and for other programs: the doctor's answer as one HTML page, scalars for TensorBoard. */
#ifndef PENSTOCK_REPORT_H
#define PENSTOCK_REPORT_H

#include <penstock/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the HTML page of a doctor's answer and stores it in `*ret`; release it with pst_free. `json` has `length` bytes in the
 * form that docs/doctor.md describes; members that are absent are left out of the page. The page needs no other file, and every
 * string is escaped. PST_ECORRUPT: not JSON. PST_EINVAL: the JSON is not a doctor's answer. */
PST_API pst_status pst_doctor_page(char **ret, const char *json, size_t length, pst_error *reterr);
/* Writes the page of pst_doctor_page to the file `path`, whole or not at all. `overwrite`: replaces a file that exists; without
 * it, an existing file is PST_EEXIST. */
PST_API pst_status pst_doctor_report(const char *path, const char *json, size_t length, bool overwrite, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
