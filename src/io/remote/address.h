/* address.h: where an object lies: s3://bucket/key, https://host/path, http://host/path; and its URL. */
#ifndef IO_REMOTE_ADDRESS_H
#define IO_REMOTE_ADDRESS_H

#include "base/text.h"
#include <penstock/base.h>

struct address {
    bool s3;
    char *bucket; /* of s3 */
    char *key;    /* of s3, as it is; of http: everything after the host, encoded as the user wrote it */
    char *host;   /* of http: "https://host:port" */
};

/* True for a path that begins with s3://, https:// or http://. */
bool address_is_remote(const char *path);
/* Zeroes `ret` first. */
pst_status address_parse(struct address *ret, const char *path, pst_error *reterr);
void address_finish(struct address *a);

/* A hash of the address without the parameters of its signature: the same for every signature, another one for every other parameter. */
uint64_t address_hash_unsigned(const char *path);

/* Percent-encodes all but letters, digits and -_.~ (and / if `slashes`), as signatures want it. */
void address_encode(struct text *t, const char *s, size_t n, bool slashes);

#endif
