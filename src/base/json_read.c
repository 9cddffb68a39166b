/* json_read.c: see json_read.h. A recursive descent with a bound on its depth. */
#include "base/json_read.h"

#include "base/digits.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 32
#define MAX_ITEMS ((size_t)1 << 20)

struct reader {
    struct json_document *to;
    const char *begin, *at, *end;
    pst_error *reterr;
};

static pst_status value(struct reader *r, unsigned depth);

static pst_status fail(struct reader *r, const char *expected)
{
    return pst_fail_at(r->reterr, PST_ECORRUPT, NULL, PST_NOWHERE, (uint64_t)(r->at - r->begin), "invalid JSON: expected %s", expected);
}

static void blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t'))
        r->at++;
}

static pst_status add(struct reader *r, enum json_kind kind, size_t *ret)
{
    struct json_document *d = r->to;
    if (d->count == MAX_ITEMS)
        return pst_fail(r->reterr, PST_ELIMIT, "the JSON has more than %zu values", MAX_ITEMS);
    if (mem_grow((void **)&d->items, &d->capacity, d->count + 1, sizeof(*d->items)) < 0)
        return fail_memory(r->reterr, "reading JSON");
    *ret = d->count++;
    d->items[*ret] = (struct json_item){.kind = kind, .text = r->at, .next = d->count};
    return PST_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static pst_status string(struct reader *r)
{
    size_t item;
    if (r->at == r->end || *r->at != '"')
        return fail(r, "a string");
    r->at++;
    pst_status st = add(r, JSON_STRING, &item);
    const char *begin = r->at;
    while (st == PST_OK && r->at < r->end && *r->at != '"') {
        if ((unsigned char)*r->at < 0x20)
            return fail(r, "no control character in a string");
        if (*r->at++ != '\\')
            continue;
        if (r->at == r->end || !strchr("\"\\/bfnrtu", *r->at) || !*r->at)
            return fail(r, "an escape");
        if (*r->at++ == 'u')
            for (int i = 0; i < 4; i++, r->at++)
                if (r->at == r->end || !is_hex(*r->at))
                    return fail(r, "four hexadecimal digits");
    }
    if (st < 0)
        return st;
    if (r->at == r->end)
        return fail(r, "the end of a string");
    r->to->items[item].length = (size_t)(r->at++ - begin);
    return PST_OK;
}

static pst_status number(struct reader *r)
{
    size_t item;
    pst_status st = add(r, JSON_NUMBER, &item);
    const char *begin = r->at;
    while (r->at < r->end && (strchr("+-.eE", *r->at) || (*r->at >= '0' && *r->at <= '9')) && *r->at)
        r->at++;
    char copy[64], *stop;
    size_t n = (size_t)(r->at - begin);
    if (st < 0)
        return st;
    if (n == 0 || n >= sizeof(copy) || *begin == '+' || *begin == '.')
        return fail(r, "a value");
    memcpy(copy, begin, n);
    copy[n] = 0;
    digits_double(copy, &stop);
    if (*stop)
        return fail(r, "a number");
    r->to->items[item].length = n;
    return PST_OK;
}

static pst_status word(struct reader *r)
{
    static const char *const words[] = {"null", "true", "false"};
    size_t item;
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i], n) != 0)
            continue;
        pst_status st = add(r, i ? JSON_BOOL : JSON_NULL, &item);
        if (st == PST_OK)
            r->to->items[item].length = n;
        r->at += n;
        return st;
    }
    return number(r);
}

static pst_status container(struct reader *r, unsigned depth)
{
    bool object = *r->at == '{';
    char close = object ? '}' : ']';
    size_t item;
    pst_status st = add(r, object ? JSON_OBJECT : JSON_ARRAY, &item);
    r->at++;
    blanks(r);
    bool empty = r->at < r->end && *r->at == close;
    while (st == PST_OK && !empty) {
        if (object) {
            blanks(r);
            st = string(r);
            blanks(r);
            if (st == PST_OK && (r->at == r->end || *r->at != ':'))
                st = fail(r, "\":\"");
            r->at++;
        }
        if (st == PST_OK)
            st = value(r, depth + 1);
        if (st < 0)
            return st;
        r->to->items[item].count++;
        blanks(r);
        if (r->at == r->end || (*r->at != ',' && *r->at != close))
            return fail(r, object ? "\",\" or \"}\"" : "\",\" or \"]\"");
        if (*r->at == close)
            break;
        r->at++;
    }
    r->at++;
    if (st == PST_OK)
        r->to->items[item].next = r->to->count;
    return st;
}

static pst_status value(struct reader *r, unsigned depth)
{
    blanks(r);
    if (r->at == r->end)
        return fail(r, "a value");
    if (depth > MAX_DEPTH)
        return fail(r, "less nesting");
    if (*r->at == '{' || *r->at == '[')
        return container(r, depth);
    return *r->at == '"' ? string(r) : word(r);
}

pst_status json_parse(struct json_document *ret, const char *text, size_t length, pst_error *reterr)
{
    struct json_document d = {0};
    struct reader r = {.to = &d, .begin = text, .at = text, .end = text + length, .reterr = reterr};
    pst_status st = value(&r, 0);
    if (st == PST_OK) {
        blanks(&r);
        if (r.at != r.end)
            st = fail(&r, "the end");
    }
    if (st < 0)
        json_finish(&d);
    else
        *ret = d;
    return st;
}

void json_finish(struct json_document *d)
{
    mem_free(d->items);
    *d = (struct json_document){0};
}

/* ---- Access ---- */

static const struct json_item *item_at(const struct json_document *d, size_t at, enum json_kind kind)
{
    return at < d->count && d->items[at].kind == kind ? &d->items[at] : NULL;
}

size_t json_find(const struct json_document *d, size_t at, const char *key)
{
    const struct json_item *object = item_at(d, at, JSON_OBJECT);
    size_t n = strlen(key), k = at + 1;
    for (size_t i = 0; object && i < object->count; i++, k = d->items[k + 1].next)
        if (d->items[k].length == n && memcmp(d->items[k].text, key, n) == 0)
            return k + 1;
    return JSON_ABSENT;
}

bool json_get_number(const struct json_document *d, size_t at, double *ret)
{
    const struct json_item *item = item_at(d, at, JSON_NUMBER);
    char copy[64];
    if (!item)
        return false;
    memcpy(copy, item->text, item->length);
    copy[item->length] = 0;
    *ret = digits_double(copy, NULL);
    return true;
}

bool json_get_uint(const struct json_document *d, size_t at, uint64_t *ret)
{
    const struct json_item *item = item_at(d, at, JSON_NUMBER);
    uint64_t n = 0;
    for (size_t i = 0; item && i < item->length; i++) {
        char c = item->text[i];
        if (c < '0' || c > '9' || __builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(c - '0'), &n))
            return false;
    }
    if (item)
        *ret = n;
    return item != NULL;
}

bool json_get_bool(const struct json_document *d, size_t at, bool *ret)
{
    const struct json_item *item = item_at(d, at, JSON_BOOL);
    if (item)
        *ret = item->text[0] == 't';
    return item != NULL;
}

static unsigned hex4(const char *s)
{
    char copy[5] = {s[0], s[1], s[2], s[3], 0};
    return (unsigned)strtoul(copy, NULL, 16);
}

static char *put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    } else {
        *to++ = (char)(0xF0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 63));
        *to++ = (char)(0x80 | (c >> 6 & 63));
        *to++ = (char)(0x80 | (c & 63));
    }
    return to;
}

char *json_get_string(const struct json_document *d, size_t at)
{
    static const char from[] = "bfnrt", means[] = "\b\f\n\r\t";
    const struct json_item *item = item_at(d, at, JSON_STRING);
    char *ret = item ? mem_alloc(item->length + 1) : NULL, *to = ret;
    for (const char *s = ret ? item->text : NULL; s && s < item->text + item->length; s++) {
        if (*s != '\\') {
            *to++ = *s;
            continue;
        }
        const char *simple = strchr(from, *++s);
        if (*s != 'u') {
            *to++ = simple ? means[simple - from] : *s;
            continue;
        }
        unsigned c = hex4(s + 1);
        s += 4;
        if (c >= 0xD800 && c < 0xDC00 && item->text + item->length - s > 6 && s[1] == '\\' && s[2] == 'u') {
            c = 0x10000 + ((c & 0x3FF) << 10 | (hex4(s + 3) & 0x3FF));
            s += 6;
        }
        to = put_utf8(to, c ? c : 0xFFFD); /* a NUL would end the string */
    }
    if (ret)
        *to = 0;
    return ret;
}
