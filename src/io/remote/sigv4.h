/* sigv4.h: AWS Signature Version 4 of one request. */
#ifndef IO_REMOTE_SIGV4_H
#define IO_REMOTE_SIGV4_H

#include "base/text.h"

#include <time.h>

struct sigv4_key {
    const char *access_key, *secret_key;
    const char *session_token; /* NULL: none */
    const char *region;
};

struct sigv4_request {
    const char *method;
    const char *host;         /* as in the Host header, with a port that is not the default one */
    const char *path;         /* encoded, begins with a slash */
    const char *query;        /* encoded and sorted by name, without the question mark; "" for none */
    const char *payload_hash; /* hexadecimal SHA-256 of the body, or UNSIGNED-PAYLOAD */
};

/* Appends the headers that sign the request, one per line: x-amz-date, x-amz-content-sha256, x-amz-security-token and
 * Authorization. */
void sigv4_sign(struct text *headers, const struct sigv4_request *r, const struct sigv4_key *key, time_t now);

#endif
