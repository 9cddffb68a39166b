/* upload.c: see upload.h. One PUT for a small file; for a large one the parts of a multipart upload, which the store joins only
 * when all have arrived. */
#include "io/remote/upload.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/parallel.h"
#include "io/file.h"
#include "io/remote/address.h"
#include "io/remote/settings.h"
#include "io/remote/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ONE_PUT    ((uint64_t)32 << 20)
#define PART_BYTES ((uint64_t)16 << 20)
#define MOST_PARTS 10000u

struct upload {
    int fd;
    const char *path;
    uint64_t size, part_bytes;
    char *id; /* of the upload, encoded */
    char (*etags)[HTTP_ETAG];
};

static pst_status read_bytes(int fd, const char *path, uint64_t offset, uint64_t length, uint8_t **ret, pst_error *reterr)
{
    size_t got = 0;
    uint8_t *bytes = mem_alloc((size_t)length + 1);
    pst_status st = bytes ? file_read_at(fd, path, bytes, (size_t)length, offset, &got, reterr)
                          : fail_memory_at(reterr, path, "uploading %" PRIu64 " bytes", length);
    if (st == PST_OK && got < length)
        st = pst_fail_at(reterr, PST_EIO, path, PST_NOWHERE, offset, "the file became shorter while it was uploaded");
    if (st < 0)
        mem_free(bytes);
    else
        *ret = bytes;
    return st;
}

/* ---- Answers that were lost ---- */

struct compare {
    int fd;
    const char *path;
    uint64_t at;
    bool differs;
};

static bool compare_bytes(void *user, const void *data, size_t length)
{
    struct compare *c = user;
    uint8_t *own = NULL;
    c->differs = read_bytes(c->fd, c->path, c->at, length, &own, NULL) < 0 || memcmp(own, data, length) != 0;
    mem_free(own);
    c->at += length;
    return !c->differs;
}

/* Whether the object is there and has the bytes of the file. A store that says that an object exists already may have stored it
 * for an attempt of ours whose answer was lost. */
static bool is_stored(int fd, const char *path, uint64_t size)
{
    struct compare c = {.fd = fd, .path = path};
    struct store_facts facts = {0};
    struct store_get get = {.path = path, .length = size ? size : 1, .sink = compare_bytes, .user = &c};
    return store_get(&get, &facts, NULL) == PST_OK && !c.differs && c.at == size && facts.size == size;
}

static pst_status fail_exists(const char *path, pst_error *reterr)
{
    return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE,
                       "already exists; choose another name, or ask to replace it");
}

static pst_status put_whole(int fd, const char *path, uint64_t size, bool overwrite, char ret_etag[HTTP_ETAG], pst_error *reterr)
{
    uint8_t *bytes = NULL;
    struct http_call c = {0};
    pst_status st = read_bytes(fd, path, 0, size, &bytes, reterr);
    if (st < 0)
        return st;
    st = store_ask(&c,
                   &(struct store_ask){.method = "PUT",
                                       .path = path,
                                       .headers = overwrite ? NULL : "If-None-Match: *\n",
                                       .body = bytes,
                                       .body_length = (size_t)size},
                   reterr);
    if (st == PST_OK)
        memcpy(ret_etag, c.etag, HTTP_ETAG);
    if (st < 0 && !overwrite && c.status == 412)
        st = c.failed && is_stored(fd, path, size) ? PST_OK : fail_exists(path, reterr);
    http_call_finish(&c);
    mem_free(bytes);
    return st;
}

/* ---- Parts ---- */

static pst_status begin(struct upload *u, pst_error *reterr)
{
    struct http_call c = {0};
    struct text id = {0};
    pst_status st = store_ask(&c, &(struct store_ask){.method = "POST", .path = u->path, .query = "uploads="}, reterr);
    const char *at = st == PST_OK && c.text.data ? strstr(c.text.data, "<UploadId>") : NULL;
    if (st == PST_OK && !at)
        st = pst_fail_at(reterr, PST_EIO, u->path, PST_NOWHERE, PST_NOWHERE, "the server did not begin an upload in parts");
    if (st == PST_OK) {
        address_encode(&id, at + 10, strcspn(at + 10, "<"), false);
        st = id.failed ? fail_memory_at(reterr, u->path, "uploading") : PST_OK;
    }
    u->id = id.data;
    http_call_finish(&c);
    return st;
}

static pst_status put_part(void *user, size_t i, pst_error *reterr)
{
    struct upload *u = user;
    uint8_t *bytes = NULL;
    struct http_call c = {0};
    uint64_t offset = i * u->part_bytes, length = u->size - offset < u->part_bytes ? u->size - offset : u->part_bytes;
    char *query = mem_format("partNumber=%zu&uploadId=%s", i + 1, u->id);
    pst_status st =
        query ? read_bytes(u->fd, u->path, offset, length, &bytes, reterr) : fail_memory_at(reterr, u->path, "uploading");
    if (st == PST_OK)
        st = store_ask(
            &c,
            &(struct store_ask){.method = "PUT", .path = u->path, .query = query, .body = bytes, .body_length = (size_t)length},
            reterr);
    if (st == PST_OK && !c.etag[0])
        st = pst_fail_at(reterr, PST_EIO, u->path, PST_NOWHERE, offset, "the server did not confirm a part of the upload");
    if (st == PST_OK)
        memcpy(u->etags[i], c.etag, HTTP_ETAG);
    http_call_finish(&c);
    mem_free(bytes);
    mem_free(query);
    return st;
}

/* The ETag of the object, as the answer to the last request of an upload in parts has it: <ETag>&quot;…&quot;</ETag>, or with other quotes. */
static void read_etag(const struct text *answer, char ret[HTTP_ETAG])
{
    static const char *const quotes[] = {"&quot;", "&#34;", "\""};
    const char *at = answer->data ? strstr(answer->data, "<ETag>") : NULL, *end = at ? strstr(at, "</ETag>") : NULL;
    at = end ? at + strlen("<ETag>") : NULL;
    for (size_t i = 0; end && i < sizeof(quotes) / sizeof(quotes[0]); i++) {
        size_t n = strlen(quotes[i]);
        if ((size_t)(end - at) >= 2 * n && strncmp(at, quotes[i], n) == 0 && strncmp(end - n, quotes[i], n) == 0) {
            at += n;
            end -= n;
        }
    }
    size_t length = end ? (size_t)(end - at) : 0;
    if (length >= HTTP_ETAG || (length && memchr(at, '&', length)))
        return;
    if (length)
        memcpy(ret, at, length);
    ret[length] = 0;
}

static pst_status complete(const struct upload *u, size_t parts, bool overwrite, char ret_etag[HTTP_ETAG], pst_error *reterr)
{
    struct text body = {0};
    struct http_call c = {0};
    char *query = mem_format("uploadId=%s", u->id);
    text_add(&body, "<CompleteMultipartUpload>");
    for (size_t i = 0; i < parts; i++)
        text_addf(&body, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", i + 1, u->etags[i]);
    text_add(&body, "</CompleteMultipartUpload>");
    pst_status st = query && !body.failed ? PST_OK : fail_memory_at(reterr, u->path, "uploading");
    if (st == PST_OK)
        st = store_ask(&c,
                       &(struct store_ask){.method = "POST",
                                           .path = u->path,
                                           .query = query,
                                           .headers = overwrite ? NULL : "If-None-Match: *\n",
                                           .body = body.data,
                                           .body_length = body.length},
                       reterr);
    if (st < 0 && c.failed && (c.status == 412 || c.status == 404) && is_stored(u->fd, u->path, u->size))
        st = PST_OK; /* an earlier attempt joined the parts, which ended the upload */
    else if (st < 0 && !overwrite && c.status == 412)
        st = fail_exists(u->path, reterr);
    if (st == PST_OK && c.text.data && strstr(c.text.data, "<Error>")) /* some failures come with the status 200 */
        st = pst_fail_at(reterr, PST_EIO, u->path, PST_NOWHERE, PST_NOWHERE, "the server did not join the parts of the upload");
    if (st == PST_OK && c.status / 100 == 2)
        read_etag(&c.text, ret_etag);
    http_call_finish(&c);
    text_finish(&body);
    mem_free(query);
    return st;
}

static void abandon(const struct upload *u)
{
    struct http_call c = {0};
    char *query = mem_format("uploadId=%s", u->id);
    if (query)
        (void)store_ask(&c, &(struct store_ask){.method = "DELETE", .path = u->path, .query = query}, NULL);
    http_call_finish(&c);
    mem_free(query);
}

static pst_status put_parts(int fd, const char *path, uint64_t size, bool overwrite, char ret_etag[HTTP_ETAG], pst_error *reterr)
{
    struct upload u = {.fd = fd, .path = path, .size = size, .part_bytes = PART_BYTES};
    while (size / u.part_bytes >= MOST_PARTS)
        u.part_bytes *= 2;
    size_t parts = (size_t)((size + u.part_bytes - 1) / u.part_bytes);
    u.etags = mem_array(parts, sizeof(*u.etags));
    pst_status st = u.etags ? begin(&u, reterr) : fail_memory_at(reterr, path, "uploading");
    if (st == PST_OK) {
        unsigned threads = settings_connections() < 4 ? settings_connections() : 4;
        st = parallel_each(parts, threads, put_part, &u, reterr);
        if (st == PST_OK)
            st = complete(&u, parts, overwrite, ret_etag, reterr);
        if (st < 0)
            abandon(&u);
    }
    mem_free(u.id);
    mem_free(u.etags);
    return st;
}

pst_status upload_file(int fd, const char *path, bool overwrite, char ret_etag[HTTP_ETAG], pst_error *reterr)
{
    struct file_info info;
    pst_error local;
    reterr = reterr ? reterr : &local;
    pst_status st = file_fstat(fd, path, &info, reterr);
    if (st == PST_OK && strncmp(path, "s3://", 5))
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                         "a web server cannot be written to; write to a file or to s3://");
    if (st < 0)
        return st;
    return info.size <= ONE_PUT ? put_whole(fd, path, info.size, overwrite, ret_etag, reterr)
                                : put_parts(fd, path, info.size, overwrite, ret_etag, reterr);
}
