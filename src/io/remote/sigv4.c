/* sigv4.c: see sigv4.h. Signs the host and the x-amz headers; keeps nothing of the key. */
#include "io/remote/sigv4.h"

#include "io/remote/sha256.h"

#include <stdio.h>
#include <string.h>

#define DATE_SIZE 9  /* 20260131 */
#define TIME_SIZE 17 /* 20260131T235959Z */

static void add_canonical(struct text *t, const struct sigv4_request *r, const struct sigv4_key *key, const char *when,
                          const char *names)
{
    text_addf(t, "%s\n%s\n%s\nhost:%s\nx-amz-content-sha256:%s\nx-amz-date:%s\n", r->method, r->path, r->query, r->host,
              r->payload_hash, when);
    if (key->session_token)
        text_addf(t, "x-amz-security-token:%s\n", key->session_token);
    text_addf(t, "\n%s\n%s", names, r->payload_hash);
}

static void sign(const struct sigv4_key *key, const char *date, const char *to_sign, char ret[SHA256_HEX])
{
    uint8_t digest[SHA256_BYTES];
    struct text first = {.secret = true};
    text_addf(&first, "AWS4%s", key->secret_key);
    memset(digest, 0, sizeof(digest));
    if (!first.failed)
        hmac_sha256(first.data, first.length, date, strlen(date), digest);
    text_finish(&first);
    hmac_sha256(digest, sizeof(digest), key->region, strlen(key->region), digest);
    hmac_sha256(digest, sizeof(digest), "s3", 2, digest);
    hmac_sha256(digest, sizeof(digest), "aws4_request", 12, digest);
    hmac_sha256(digest, sizeof(digest), to_sign, strlen(to_sign), digest);
    sha256_to_hex(digest, ret);
}

void sigv4_sign(struct text *headers, const struct sigv4_request *r, const struct sigv4_key *key, time_t now)
{
    char when[TIME_SIZE], date[DATE_SIZE], hash[SHA256_HEX], signature[SHA256_HEX];
    const char *names = key->session_token ? "host;x-amz-content-sha256;x-amz-date;x-amz-security-token"
                                           : "host;x-amz-content-sha256;x-amz-date";
    struct tm utc;
    struct text canonical = {.secret = true}, to_sign = {0};
    gmtime_r(&now, &utc);
    strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", &utc);
    snprintf(date, sizeof(date), "%.8s", when);
    add_canonical(&canonical, r, key, when, names);
    if (canonical.failed) {
        headers->failed = true;
        text_finish(&canonical);
        return;
    }
    sha256_hex(canonical.data, canonical.length, hash);
    text_addf(&to_sign, "AWS4-HMAC-SHA256\n%s\n%s/%s/s3/aws4_request\n%s", when, date, key->region, hash);
    if (to_sign.failed)
        headers->failed = true;
    else
        sign(key, date, to_sign.data, signature);
    if (!to_sign.failed) {
        text_addf(headers, "x-amz-date: %s\nx-amz-content-sha256: %s\n", when, r->payload_hash);
        if (key->session_token)
            text_addf(headers, "x-amz-security-token: %s\n", key->session_token);
        text_addf(headers,
                  "Authorization: AWS4-HMAC-SHA256 Credential=%s/%s/%s/s3/aws4_request, SignedHeaders=%s, Signature=%s\n",
                  key->access_key, date, key->region, names, signature);
    }
    text_finish(&canonical);
    text_finish(&to_sign);
}
