/* store.h: requests to a store, signed, repeated when they fail for reasons that pass, and translated into our errors. */
#ifndef IO_REMOTE_STORE_H
#define IO_REMOTE_STORE_H

#include "io/remote/http.h"

struct store_ask {
    const char *method;
    const char *path;    /* s3://…, https://… */
    const char *query;   /* encoded and sorted; NULL: none */
    const char *headers; /* one per line; NULL: none */
    const void *body;
    size_t body_length;
    const _Atomic bool *cancel;
};

/* Performs the request until it succeeds or fails for good. `c` has the answer; http_call_finish it also after a failure. */
pst_status store_ask(struct http_call *c, const struct store_ask *ask, pst_error *reterr);

/* The facts of an object. */
struct store_facts {
    bool known;
    uint64_t size;
    int64_t modified;
    char etag[HTTP_ETAG]; /* "": the server sends none */
};

/* Stores the version of an object that an ETag stands for, without its quotes. False: it stands for none; see file_version. */
bool store_version(const char *path, const char *etag, char ret[HTTP_ETAG]);

/* Reads [offset, offset + length) of an object, fewer bytes at its end, and passes them to `sink` in order, each once: a broken
 * transfer is resumed at the byte it reached. Facts that are known must still be true (PST_ESTALE);
 * otherwise they are filled in. `*progress` counts the bytes that arrived. */
struct store_get {
    const char *path;
    uint64_t offset, length;
    http_sink sink;
    void *user;
    const _Atomic bool *cancel;
    _Atomic uint64_t *progress; /* NULL: not counted */
    double *ret_latency;        /* seconds; 0 if there was more than one attempt. NULL ok */
};
pst_status store_get(const struct store_get *get, struct store_facts *facts, pst_error *reterr);
/* A sink that keeps the bytes: `bytes` has room for the length that is asked for. */
struct store_kept {
    uint8_t *bytes;
    size_t length;
};
bool store_keep(void *user, const void *data, size_t length);

/* Takes a request from the budget of repetitions; false: it is used up. */
bool store_may_repeat(void);

/* Stores how many requests this process has made, and how many of them repeated another. */
void store_count(uint64_t *ret_requests, uint64_t *ret_repeated);

#endif
