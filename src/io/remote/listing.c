/* listing.c: ListObjectsV2 and the little of its XML that is needed. Everything between two tags is text; entities are
 * resolved; unknown tags are ignored. */
#include "io/remote/listing.h"

#include "base/error.h"
#include "base/memory.h"
#include "io/remote/address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 1000

/* ---- XML ---- */

struct span {
    const char *at;
    size_t length;
};

/* Finds the text between the first <tag> and </tag> of `in`; `*ret_rest` is the rest of it. False: there is none. */
static bool find_tag(struct span in, const char *tag, struct span *ret, struct span *ret_rest)
{
    char open[64], close[64];
    int n = snprintf(open, sizeof(open), "<%s>", tag), m = snprintf(close, sizeof(close), "</%s>", tag);
    const char *begin = memmem(in.at, in.length, open, (size_t)n);
    if (!begin)
        return false;
    begin += n;
    size_t left = in.length - (size_t)(begin - in.at);
    const char *end = memmem(begin, left, close, (size_t)m);
    if (!end)
        return false;
    *ret = (struct span){begin, (size_t)(end - begin)};
    if (ret_rest)
        *ret_rest = (struct span){end + m, left - (size_t)(end - begin) - (size_t)m};
    return true;
}

static void add_code_point(struct text *t, unsigned long c)
{
    char b[4];
    if (c < 0x80) {
        b[0] = (char)c;
        text_add_n(t, b, 1);
    } else if (c < 0x800) {
        b[0] = (char)(0xC0 | c >> 6), b[1] = (char)(0x80 | (c & 63));
        text_add_n(t, b, 2);
    } else if (c < 0x10000) {
        b[0] = (char)(0xE0 | c >> 12), b[1] = (char)(0x80 | (c >> 6 & 63)), b[2] = (char)(0x80 | (c & 63));
        text_add_n(t, b, 3);
    } else if (c < 0x110000) {
        b[0] = (char)(0xF0 | c >> 18), b[1] = (char)(0x80 | (c >> 12 & 63)), b[2] = (char)(0x80 | (c >> 6 & 63));
        b[3] = (char)(0x80 | (c & 63));
        text_add_n(t, b, 4);
    }
}

/* Appends the text with its entities resolved. */
static void add_text(struct text *t, struct span s)
{
    static const struct {
        const char *name;
        char c;
    } known[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < s.length;) {
        size_t step = 0;
        for (size_t k = 0; s.at[i] == '&' && k < sizeof(known) / sizeof(known[0]); k++) {
            size_t n = strlen(known[k].name);
            if (s.length - i >= n && memcmp(s.at + i, known[k].name, n) == 0) {
                text_add_n(t, &known[k].c, 1);
                step = n;
            }
        }
        if (!step && s.length - i > 3 && s.at[i] == '&' && s.at[i + 1] == '#') {
            const char *end = memchr(s.at + i, ';', s.length - i < 12 ? s.length - i : 12);
            bool hex = s.at[i + 2] == 'x';
            if (end) {
                add_code_point(t, strtoul(s.at + i + 2 + hex, NULL, hex ? 16 : 10));
                step = (size_t)(end - (s.at + i)) + 1;
            }
        }
        if (!step) {
            text_add_n(t, s.at + i, 1);
            step = 1;
        }
        i += step;
    }
}

static int64_t read_time(struct span s)
{
    struct tm t = {0};
    char text[32];
    snprintf(text, sizeof(text), "%.*s", (int)(s.length < 31 ? s.length : 31), s.at);
    if (sscanf(text, "%d-%d-%dT%d:%d:%d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour, &t.tm_min, &t.tm_sec) != 6)
        return 0;
    t.tm_year -= 1900;
    t.tm_mon--;
    return (int64_t)timegm(&t);
}

static pst_status show(const char *bucket, struct span key, struct listed *l, listing_visit visit, void *user,
                       pst_error *reterr)
{
    struct text path = {0};
    text_addf(&path, "s3://%s/", bucket);
    add_text(&path, key);
    while (l->folder && path.length && path.data[path.length - 1] == '/')
        path.data[--path.length] = 0;
    if (path.failed) {
        text_finish(&path);
        return fail_memory(reterr, "listing the objects");
    }
    l->path = path.data;
    pst_status st = visit(user, l, reterr);
    mem_free(l->path);
    return st;
}

static void read_facts(struct span object, struct store_facts *ret)
{
    struct span s;
    if (find_tag(object, "Size", &s, NULL)) {
        char number[24];
        snprintf(number, sizeof(number), "%.*s", (int)(s.length < 23 ? s.length : 23), s.at);
        ret->size = strtoull(number, NULL, 10);
        ret->known = true;
    }
    if (find_tag(object, "LastModified", &s, NULL))
        ret->modified = read_time(s);
    if (find_tag(object, "ETag", &s, NULL)) {
        struct text etag = {0};
        add_text(&etag, s);
        if (etag.length && etag.length < HTTP_ETAG && !etag.failed)
            memcpy(ret->etag, etag.data, etag.length + 1);
        text_finish(&etag);
    }
}

pst_status listing_read(const char *xml, size_t length, const char *bucket, listing_visit visit, void *user, char **ret_token,
                        pst_error *reterr)
{
    struct span all = {xml, length}, rest = all, one, key;
    pst_status st = PST_OK;
    *ret_token = NULL;
    if (!find_tag(all, "IsTruncated", &one, NULL))
        return pst_fail(reterr, PST_ECORRUPT, "the server's answer is not a list of s3://%s; check the endpoint", bucket);
    bool more = one.length == 4 && memcmp(one.at, "true", 4) == 0;
    while (st == PST_OK && find_tag(rest, "Contents", &one, &rest)) {
        struct listed l = {0};
        if (!find_tag(one, "Key", &key, NULL))
            continue;
        read_facts(one, &l.facts);
        st = show(bucket, key, &l, visit, user, reterr);
    }
    rest = all;
    while (st == PST_OK && find_tag(rest, "CommonPrefixes", &one, &rest)) {
        struct listed l = {.folder = true};
        if (find_tag(one, "Prefix", &key, NULL))
            st = show(bucket, key, &l, visit, user, reterr);
    }
    if (st == PST_OK && more) {
        struct text token = {0};
        if (!find_tag(all, "NextContinuationToken", &one, NULL))
            return pst_fail(reterr, PST_ECORRUPT, "the server's list of s3://%s ends early, without a NextContinuationToken",
                            bucket);
        add_text(&token, one);
        if (token.failed) {
            text_finish(&token);
            return fail_memory(reterr, "listing the objects");
        }
        *ret_token = token.data;
    }
    return st;
}

/* ---- Pages ---- */

static void add_query(struct text *t, const char *prefix, bool deep, const char *token)
{
    if (token) {
        text_add(t, "continuation-token=");
        address_encode(t, token, strlen(token), false);
        text_add(t, "&");
    }
    text_addf(t, "%slist-type=2&max-keys=%zu&prefix=", deep ? "" : "delimiter=%2F&", (size_t)PAGE);
    address_encode(t, prefix, strlen(prefix), false);
}

/* `ret_whole`: only the first page, and whether there is no other; NULL: every page. */
static pst_status visit_pages(const char *prefix, bool deep, listing_visit visit, void *user, bool *ret_whole, pst_error *reterr)
{
    struct address a;
    char *token = NULL, *bucket = NULL;
    pst_status st = address_parse(&a, prefix, reterr);
    if (st < 0)
        return st;
    if (!a.s3)
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, prefix, PST_NOWHERE, PST_NOWHERE,
                         "a web server does not list its files; name each of them");
    bucket = st == PST_OK ? mem_format("s3://%s", a.bucket) : NULL;
    if (st == PST_OK && !bucket)
        st = fail_memory_at(reterr, prefix, "listing the objects");
    while (st == PST_OK) {
        struct text query = {0};
        struct http_call c = {0};
        add_query(&query, a.key, deep, token);
        mem_free(token);
        token = NULL;
        st = query.failed ? fail_memory_at(reterr, prefix, "listing the objects")
                          : store_ask(&c, &(struct store_ask){.method = "GET", .path = bucket, .query = query.data}, reterr);
        if (st == PST_OK)
            st = listing_read(c.text.data ? c.text.data : "", c.text.length, a.bucket, visit, user, &token, reterr);
        text_finish(&query);
        http_call_finish(&c);
        if (ret_whole)
            *ret_whole = !token;
        if (!token || ret_whole)
            break;
    }
    mem_free(token);
    mem_free(bucket);
    address_finish(&a);
    return st;
}

pst_status listing_visit_all(const char *prefix, bool deep, listing_visit visit, void *user, pst_error *reterr)
{
    return visit_pages(prefix, deep, visit, user, NULL, reterr);
}

pst_status listing_visit_first(const char *prefix, listing_visit visit, void *user, bool *ret_whole, pst_error *reterr)
{
    return visit_pages(prefix, false, visit, user, ret_whole, reterr);
}
