/* report.h: results as files for people and for other programs: the doctor's answer as one HTML page, scalars for TensorBoard.
 */
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

/* A log of scalars that TensorBoard reads. */
typedef struct pst_scalars pst_scalars;

/* Creates an event file in `folder`, which is made if it does not exist. */
PST_API pst_status pst_scalars_open(pst_scalars **ret, const char *folder, pst_error *reterr);
/* Adds one value. `tag` names the curve, such as "speed/samples_per_s". Values are kept in memory until a flush. */
PST_API void pst_scalars_add(pst_scalars *s, int64_t step, const char *tag, double value);
/* Appends the values so far to the file. */
PST_API pst_status pst_scalars_flush(pst_scalars *s, pst_error *reterr);
/* Flushes and frees, also on failure. Accepts NULL. */
PST_API pst_status pst_scalars_close(pst_scalars *s, pst_error *reterr);

#ifdef __cplusplus
}
#endif
#endif
