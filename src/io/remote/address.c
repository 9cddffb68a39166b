/* address.c: see address.h. */
#include "io/remote/address.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/secret.h"

#include <string.h>
#include <strings.h>

bool address_is_remote(const char *path)
{
    return strncmp(path, "s3://", 5) == 0 || strncmp(path, "https://", 8) == 0 || strncmp(path, "http://", 7) == 0;
}

static pst_status parse_s3(struct address *ret, const char *path, pst_error *reterr)
{
    const char *bucket = path + 5;
    size_t n = strcspn(bucket, "/");
    if (n < 3 || n > 63 || strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789.-_ABCDEFGHIJKLMNOPQRSTUVWXYZ") < n)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "expected s3://BUCKET/KEY; the name of a bucket has 3 to 63 letters, digits, dots and dashes");
    ret->s3 = true;
    ret->bucket = mem_strndup(bucket, n);
    ret->key = mem_strdup(bucket + n + (bucket[n] == '/'));
    return ret->bucket && ret->key ? PST_OK : fail_memory_at(reterr, path, "reading the address");
}

pst_status address_parse(struct address *ret, const char *path, pst_error *reterr)
{
    *ret = (struct address){0};
    pst_status st;
    if (strncmp(path, "s3://", 5) == 0) {
        st = parse_s3(ret, path, reterr);
    } else {
        const char *host = strstr(path, "://") + 3;
        size_t n = strcspn(host, "/");
        st = n ? PST_OK : pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "the address has no host");
        ret->host = mem_strndup(path, (size_t)(host - path) + n);
        ret->key = mem_strdup(host + n);
        if (st == PST_OK && (!ret->host || !ret->key))
            st = fail_memory_at(reterr, path, "reading the address");
    }
    if (st < 0)
        address_finish(ret);
    return st;
}

void address_finish(struct address *a)
{
    mem_free(a->bucket);
    mem_free(a->key);
    mem_free(a->host);
    *a = (struct address){0};
}

void address_encode(struct text *t, const char *s, size_t n, bool slashes)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-_.~", c)) ||
                     (slashes && c == '/');
        if (plain)
            text_add_n(t, &c, 1);
        else
            text_addf(t, "%%%02X", (unsigned char)c);
    }
}

/* ---- Signatures ---- */

static bool is_among(const char *const *names, const char *name, size_t n)
{
    while (*names && (strlen(*names) != n || strncasecmp(*names, name, n)))
        names++;
    return *names != NULL;
}

/* Whether a parameter is the signature itself. */
static bool is_signature(const char *name, size_t n)
{
    static const char *const names[] = {"X-Amz-Signature", "X-Goog-Signature", "Signature", "sig", NULL};
    return is_among(names, name, n);
}

/* Whether a parameter says who signed, when, what for and until when, where the address has a signature: those of S3 and GCS (both
 * versions), CloudFront and Azure. */
static bool is_of_signature(const char *name, size_t n)
{
    static const char *const names[] = {"AWSAccessKeyId", "GoogleAccessId", "Expires", "Key-Pair-Id", "Policy", "sv", "ss", "srt", "sr", "sp", "spr", "st", "se",
                                        "sip", "si", "sdd", "ses", "skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", NULL};
    return is_signature(name, n) || is_among(names, name, n) || (n > 6 && strncasecmp(name, "X-Amz-", 6) == 0) ||
           (n > 7 && strncasecmp(name, "X-Goog-", 7) == 0);
}

uint64_t address_hash_unsigned(const char *path)
{
    size_t length = secret_free_length(path);
    uint64_t hash = hash_bytes(path, length, 0);
    const char *query = path + length + (path[length] == '?');
    bool is_signed = false;
    for (const char *at = query; *at; at += strcspn(at, "&"), at += *at == '&')
        is_signed |= is_signature(at, strcspn(at, "=&"));
    for (const char *at = query; *at; at += strcspn(at, "&"), at += *at == '&')
        if (!is_signed || !is_of_signature(at, strcspn(at, "=&")))
            hash = hash_combine(hash, hash_bytes(at, strcspn(at, "&"), 0));
    return hash;
}
