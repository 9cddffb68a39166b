/* listing.h: what lies in a bucket. */
#ifndef IO_REMOTE_LISTING_H
#define IO_REMOTE_LISTING_H

#include "io/remote/store.h"

struct listed {
    char *path;  /* s3://bucket/key; of a folder without a slash at its end */
    bool folder; /* a common prefix: objects lie below it */
    struct store_facts facts;
};

/* Sees each object and folder of one level, or all objects below it. `l->path` may be taken (and set to NULL). */
typedef pst_status (*listing_visit)(void *user, struct listed *l, pst_error *reterr);

/* Objects whose keys begin with `prefix` ("s3://bucket/a/b"), page after page; `deep` without levels. PST_EUNSUPPORTED for paths
 * that cannot be listed. */
pst_status listing_visit_all(const char *prefix, bool deep, listing_visit visit, void *user, pst_error *reterr);
/* The first page of one level; `*ret_whole`: there is no other. */
pst_status listing_visit_first(const char *prefix, listing_visit visit, void *user, bool *ret_whole, pst_error *reterr);

/* One page as the server writes it; `*ret_token` is the continuation (mem_free it), NULL at the end. */
pst_status listing_read(const char *xml, size_t length, const char *bucket, listing_visit visit, void *user, char **ret_token,
                        pst_error *reterr);

#endif
