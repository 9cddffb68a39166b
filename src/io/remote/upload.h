/* upload.h: a local file becomes an object, whole or not at all. */
#ifndef IO_REMOTE_UPLOAD_H
#define IO_REMOTE_UPLOAD_H

#include "io/remote/http.h"

/* Stores the whole file as `path`. Without `overwrite`, an object that is there is PST_EEXIST. Large files are sent in parts; a
 * failure leaves nothing behind. `ret_etag` is that of the object; "": the store sent none. */
pst_status upload_file(int fd, const char *path, bool overwrite, char ret_etag[HTTP_ETAG], pst_error *reterr);

#endif
