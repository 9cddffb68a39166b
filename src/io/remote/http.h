/* http.h: one HTTP request and its answer, by libcurl. Connections are kept and reused.
 *
 * A call is one attempt; store.c repeats it. The only code that knows libcurl. */
#ifndef IO_REMOTE_HTTP_H
#define IO_REMOTE_HTTP_H

#include "base/text.h"
#include "io/remote/fork.h"
#include <penstock/base.h>
#include <stdatomic.h>

#define HTTP_ETAG 128

/* Receives bytes of the body in order; false ends the call. */
typedef bool (*http_sink)(void *user, const void *data, size_t length);

struct http_call {
    /* The request. */
    const char *method;  /* GET, HEAD, PUT, POST, DELETE */
    const char *url;     /* complete, encoded */
    const char *headers; /* one per line; NULL: none */
    bool follow;         /* redirections; a signed request must not be sent elsewhere */
    const void *body;    /* of PUT and POST */
    size_t body_length;
    http_sink sink; /* for the body of a successful answer; NULL: it is kept in `text` */
    void *user;
    double connect_seconds;     /* the longest wait for a connection; 0: a default */
    double first_seconds;       /* the longest wait for the first byte of the answer; 0: a default */
    double stall_seconds;       /* the longest wait between two bytes; 0: a default */
    const _Atomic bool *cancel; /* ends the call when true; NULL: nothing does */

    const char *ca_file;        /* the certificates of trusted authorities; NULL: the system's */
    bool temporary;             /* it is signed with a session token */

    /* The answer. */
    int status; /* 0: none arrived; `text` says why */
    char etag[HTTP_ETAG];
    uint64_t length; /* Content-Length; UINT64_MAX: not told */
    bool ranged;     /* Content-Range was told: bytes [begin, end] of `total` (UINT64_MAX: not told) */
    uint64_t begin, end, total;
    double retry_after; /* seconds; 0: not told */
    int64_t modified;   /* seconds since 1970; 0: not told */
    bool complete;      /* the whole body arrived */
    double latency;     /* of a complete answer: seconds from the request, on an established connection, to the first byte */
    bool untrusted;     /* the server's certificate is not accepted: it will not be next time */
    bool cancelled;
    unsigned failed; /* attempts before this one, as store.c counts them: their answers may have been lost */
    struct text text; /* the body of a failure or of an answer without a sink, or the reason of a failed transfer */
};

/* PST_EUNSUPPORTED: built without libcurl. Otherwise PST_OK, whatever the answer is. */
pst_status http_perform(struct http_call *c, pst_error *reterr);
void http_call_finish(struct http_call *c); /* frees `text` */

#endif
