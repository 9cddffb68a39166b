/* upload.h: a local file becomes an object, whole or not at all. */
#ifndef IO_REMOTE_UPLOAD_H
#define IO_REMOTE_UPLOAD_H

#include <penstock/base.h>

/* Stores the whole file as `path`. Without `overwrite`, an object that is there is PST_EEXIST. Large files are sent in parts; a
 * failure leaves nothing behind. */
pst_status upload_file(int fd, const char *path, bool overwrite, pst_error *reterr);

#endif
