/* listing.h: lists the objects of a bucket. */
#ifndef IO_REMOTE_LISTING_H
#define IO_REMOTE_LISTING_H

#include "io/remote/store.h"

struct listed {
    char *path;  /* s3://bucket/key; of a folder without a slash at its end */
    bool folder; /* a common prefix: objects lie below it */
    struct store_facts facts;
};

/* Called for each object and folder of one level, or for all objects below it. It may take `l->path` (and set it to NULL). */
typedef pst_status (*listing_visit)(void *user, struct listed *l, pst_error *reterr);

/* Visits the objects whose keys begin with `prefix` ("s3://bucket/a/b"), page after page; `deep`: at all levels. PST_EUNSUPPORTED: the path
 * cannot be listed. */
pst_status listing_visit_all(const char *prefix, bool deep, listing_visit visit, void *user, pst_error *reterr);
/* Visits the first page of one level; `*ret_whole`: there is no other. */
pst_status listing_visit_first(const char *prefix, listing_visit visit, void *user, bool *ret_whole, pst_error *reterr);

/* Reads one page as the server writes it; `*ret_token` is the continuation (mem_free it), NULL at the end. */
pst_status listing_read(const char *xml, size_t length, const char *bucket, listing_visit visit, void *user, char **ret_token,
                        pst_error *reterr);

#endif
