/* schema_text.c: schemas as text, both ways.
 *
 *   schema  = { feature } separated by blanks
 *   feature = name ":" kind [ "[" dimension { "," dimension } "]" ] [ "=" default ]
 *   default = value | "[" [ value { "," value } ] "]"
 *
 * The first dimension may be "*". Names and bytes are bare words or quoted strings with \" \\ \n \r \t \xHH. What
 * pst_schema_text writes, pst_schema_parse reads back as an equal schema. Meaning (shapes, doubles, defaults that do
 * not fit) is checked by pst_schema_create. */
#include "record/schema.h"

#include "base/digits.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "base/text.h"
#include "record/feature.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 24 /* bytes of the text that an error shows */

/* Numbers are written with a point, whatever the program's locale says. */
struct c_numbers {
    locale_t c, before;
};

static void c_numbers_enter(struct c_numbers *n)
{
    n->c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    n->before = uselocale(n->c);
}

static void c_numbers_leave(struct c_numbers *n)
{
    uselocale(n->before);
    if (n->c)
        freelocale(n->c);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_bare(char c)
{
    return (unsigned char)c > 0x20 && c != 0x7f && !strchr("\"':[]=,\\", c);
}

/* ---- Reading ---- */

struct reader {
    const char *text, *p;
    struct arena memory; /* names and defaults until the schema has copied them */
    pst_feature *features;
    size_t count, capacity;
    pst_error *reterr;
};

static pst_status fail_at(struct reader *r, const char *at, const char *expected)
{
    size_t n = 0;
    while (n < SHOWN && at[n] && !is_blank(at[n]))
        n++;
    if (n == SHOWN)
        while (n > 0 && ((unsigned char)at[n] & 0xc0) == 0x80)
            n--; /* not through a character */
    if (n == 0)
        return pst_fail(r->reterr, PST_EINVAL, "schema text, position %zu: %s, expected %s", (size_t)(at - r->text) + 1,
                        *at ? "a blank" : "the end", expected);
    return pst_fail(r->reterr, PST_EINVAL, "schema text, position %zu: '%.*s', expected %s", (size_t)(at - r->text) + 1, (int)n,
                    at, expected);
}

static void skip_blanks(struct reader *r)
{
    while (is_blank(*r->p))
        r->p++;
}

static size_t bare_length(const char *p)
{
    size_t n = 0;
    while (is_bare(p[n]))
        n++;
    return n;
}

static int hex_digit(char c)
{
    const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Returns the byte that an escape stands for and moves past it; -1 if it is not an escape. */
static int unescape(const char **p)
{
    static const char letters[] = "\"\"\\\\n\nr\rt\t"; /* pairs: the letter, its byte */
    const char *at = *p + 1;
    if (*at == 'x') {
        int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
        if (low < 0)
            return -1;
        *p = at + 3;
        return high << 4 | low;
    }
    for (size_t i = 0; letters[i]; i += 2) {
        if (letters[i] == *at) {
            *p = at + 1;
            return (unsigned char)letters[i + 1];
        }
    }
    return -1;
}

static pst_status read_quoted(struct reader *r, pst_bytes *ret)
{
    const char *start = r->p++, *close = r->p;
    while (*close && *close != '"')
        close += *close == '\\' && close[1] ? 2 : 1;
    if (!*close)
        return fail_at(r, start, "a closing quote after it");
    uint8_t *out = arena_alloc(&r->memory, (size_t)(close - r->p) + 1);
    size_t n = 0;
    if (!out)
        return fail_memory(r->reterr, "reading the schema");
    while (r->p < close) {
        const char *at = r->p;
        int c = *at == '\\' ? unescape(&r->p) : (unsigned char)*r->p++;
        if (c < 0)
            return fail_at(r, at, "one of the escapes \\\" \\\\ \\n \\r \\t \\xHH");
        out[n++] = (uint8_t)c;
    }
    r->p++;
    out[n] = '\0';
    *ret = (pst_bytes){out, n};
    return PST_OK;
}

/* A bare word or a quoted string; NUL-terminated. */
static pst_status read_string(struct reader *r, pst_bytes *ret, const char *expected)
{
    if (*r->p == '"')
        return read_quoted(r, ret);
    size_t n = bare_length(r->p);
    if (n == 0)
        return fail_at(r, r->p, expected);
    char *copy = arena_strndup(&r->memory, r->p, n);
    if (!copy)
        return fail_memory(r->reterr, "reading the schema");
    r->p += n;
    *ret = (pst_bytes){(const uint8_t *)copy, n};
    return PST_OK;
}

static pst_status read_kind(struct reader *r, pst_kind *ret)
{
    static const char *const names[] = {"bytes", "float", "int64", NULL};
    char word[16] = "", expected[80];
    size_t n = bare_length(r->p);
    for (int i = 0; names[i]; i++) {
        if (n == strlen(names[i]) && memcmp(r->p, names[i], n) == 0) {
            *ret = (pst_kind)(PST_BYTES + i);
            r->p += n;
            return PST_OK;
        }
    }
    if (n < sizeof(word))
        memcpy(word, r->p, n);
    const char *nearest = text_nearest(word, names);
    snprintf(expected, sizeof(expected), "the kind: bytes, float or int64%s%s%s", nearest ? "; did you mean " : "",
             nearest ? nearest : "", nearest ? "?" : "");
    return fail_at(r, r->p, expected);
}

static pst_status read_dimension(struct reader *r, pst_feature *f)
{
    char *end;
    if (f->rank == PST_MAX_RANK)
        return fail_at(r, r->p, "] after the eighth dimension, the last possible");
    if (*r->p < '0' || *r->p > '9')
        return fail_at(r, r->p, f->rank || f->layout != PST_FIXED ? "a dimension" : "a dimension, or * for any");
    errno = 0;
    f->shape[f->rank] = strtoull(r->p, &end, 10);
    if (errno)
        return fail_at(r, r->p, "a dimension below 2^64");
    f->rank++;
    r->p = end;
    return PST_OK;
}

static pst_status read_shape(struct reader *r, pst_feature *f)
{
    pst_status st = PST_OK;
    r->p++; /* [ */
    skip_blanks(r);
    if (*r->p == '*') {
        f->layout = PST_VARIABLE;
        r->p++;
    } else {
        st = read_dimension(r, f);
    }
    for (skip_blanks(r); st == PST_OK && *r->p == ','; skip_blanks(r)) {
        r->p++;
        skip_blanks(r);
        if (f->layout == PST_VARIABLE)
            f->layout = PST_RAGGED;
        st = read_dimension(r, f);
    }
    if (st < 0)
        return st;
    if (*r->p != ']')
        return fail_at(r, r->p, ", or ] within the shape");
    r->p++;
    return PST_OK;
}

/* Reads one value of the feature's kind into `ret`, which has room for any. */
static pst_status read_value(struct reader *r, pst_kind kind, void *ret)
{
    const char *start = r->p;
    char *end = NULL;
    pst_bytes string = {0};
    pst_status st = read_string(r, &string, "a default value");
    if (st < 0)
        return st;
    if (kind == PST_BYTES) {
        memcpy(ret, &string, sizeof(string));
        return PST_OK;
    }
    const char *word = (const char *)string.data;
    errno = 0;
    if (kind == PST_FLOAT) {
        float value = digits_float(word, &end);
        memcpy(ret, &value, sizeof(value));
        if (errno == ERANGE && (value > 1 || value < -1))
            return fail_at(r, start, "a number in the range of float");
    } else {
        int64_t value = strtoll(word, &end, 10);
        memcpy(ret, &value, sizeof(value));
        if (errno == ERANGE)
            return fail_at(r, start, "a number in the range of int64");
    }
    if (*start == '"' || end == word || *end)
        return fail_at(r, start, kind == PST_FLOAT ? "a float as default" : "an integer as default");
    return PST_OK;
}

static pst_status add_default_value(struct reader *r, pst_feature *f, size_t *room)
{
    size_t size = kind_size(f->kind), count = f->fallback.count;
    char *values = (char *)f->fallback.data;
    if (count == *room) {
        *room = count ? count * 2 : 1;
        values = arena_alloc(&r->memory, *room * size);
        if (!values)
            return fail_memory(r->reterr, "reading the schema");
        if (count > 0)
            memcpy(values, f->fallback.data, count * size);
        f->fallback.data = values;
    }
    pst_status st = read_value(r, f->kind, values + count * size);
    f->fallback.count += st == PST_OK;
    return st;
}

static pst_status read_default(struct reader *r, pst_feature *f)
{
    size_t room = 0;
    pst_status st;
    f->has_default = true;
    f->fallback.kind = f->kind;
    if (*++r->p != '[') /* after = */
        return add_default_value(r, f, &room);
    r->p++;
    skip_blanks(r);
    for (bool more = *r->p != ']'; more;) {
        st = add_default_value(r, f, &room);
        if (st < 0)
            return st;
        skip_blanks(r);
        more = *r->p == ',';
        if (more) {
            r->p++;
            skip_blanks(r);
        }
    }
    if (*r->p != ']')
        return fail_at(r, r->p, ", or ] within the default");
    r->p++;
    return PST_OK;
}

static pst_status read_feature(struct reader *r)
{
    pst_feature f = {0};
    pst_bytes name;
    const char *start = r->p;
    pst_status st = read_string(r, &name, "the name of a feature");
    if (st < 0)
        return st;
    if (memchr(name.data, '\0', name.length))
        return fail_at(r, start, "a name without \\x00");
    f.name = (const char *)name.data;
    if (*r->p != ':')
        return fail_at(r, r->p, ": and a kind after the name");
    r->p++;
    st = read_kind(r, &f.kind);
    if (st == PST_OK && *r->p == '[')
        st = read_shape(r, &f);
    if (st == PST_OK && *r->p == '=')
        st = read_default(r, &f);
    if (st < 0)
        return st;
    if (*r->p && !is_blank(*r->p))
        return fail_at(r, r->p, "a blank before the next feature");
    void *features = r->features;
    if (mem_grow(&features, &r->capacity, r->count + 1, sizeof(f)) < 0)
        return fail_memory(r->reterr, "reading the schema");
    r->features = features;
    r->features[r->count++] = f;
    return PST_OK;
}

pst_status pst_schema_parse(pst_schema **ret, const char *text, pst_error *reterr)
{
    struct reader r = {.text = text, .p = text, .reterr = reterr};
    struct c_numbers numbers;
    pst_status st = PST_OK;
    arena_init(&r.memory);
    c_numbers_enter(&numbers);
    while (st == PST_OK) {
        skip_blanks(&r);
        if (!*r.p)
            break;
        st = read_feature(&r);
    }
    c_numbers_leave(&numbers);
    if (st == PST_OK)
        st = pst_schema_create(ret, r.features, r.count, reterr);
    mem_free(r.features);
    arena_finish(&r.memory);
    return st;
}

/* ---- Writing ---- */

struct writer {
    char *buffer;
    size_t size, length; /* length counts on beyond size */
};

static void put(struct writer *w, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, w->length++)
        if (w->length < w->size)
            w->buffer[w->length] = s[i];
}

static void put_text(struct writer *w, const char *s)
{
    put(w, s, strlen(s));
}

static void put_string(struct writer *w, const char *s, size_t n)
{
    bool utf8 = text_is_utf8(s, n), bare = utf8 && n > 0;
    char escape[8];
    for (size_t i = 0; i < n; i++)
        bare &= is_bare(s[i]);
    if (bare) {
        put(w, s, n);
        return;
    }
    put_text(w, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\')
            snprintf(escape, sizeof(escape), "\\%c", c);
        else if (c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8))
            snprintf(escape, sizeof(escape), "\\x%02x", c);
        else
            snprintf(escape, sizeof(escape), "%c", c);
        put_text(w, escape);
    }
    put_text(w, "\"");
}

/* The fewest digits that read back as the same float. */
static void put_float(struct writer *w, float value)
{
    char digits[DIGITS_SIZE];
    put_text(w, digits_shortest_float(value, 6, digits));
}

static void put_value(struct writer *w, const pst_value *v, size_t i)
{
    char digits[32];
    if (v->kind == PST_BYTES) {
        const pst_bytes *b = (const pst_bytes *)v->data + i;
        put_string(w, (const char *)b->data, b->length);
    } else if (v->kind == PST_FLOAT) {
        float value;
        memcpy(&value, (const char *)v->data + i * sizeof(value), sizeof(value));
        put_float(w, value);
    } else {
        snprintf(digits, sizeof(digits), "%" PRId64, ((const int64_t *)v->data)[i]);
        put_text(w, digits);
    }
}

static void put_default(struct writer *w, const pst_value *v)
{
    put_text(w, v->count == 1 ? "=" : "=[");
    for (size_t i = 0; i < v->count; i++) {
        put_text(w, i ? "," : "");
        put_value(w, v, i);
    }
    put_text(w, v->count == 1 ? "" : "]");
}

char *pst_schema_text(const pst_schema *schema, char *buffer, size_t size)
{
    static const char cut[] = " \xe2\x80\xa6"; /* a word without its kind: no cut text reads as a schema */
    struct writer w = {buffer, size, 0};
    struct c_numbers numbers;
    char spec[SCHEMA_SPEC_BYTES];
    if (size == 0)
        return buffer;
    c_numbers_enter(&numbers);
    for (size_t i = 0; i < schema->count; i++) {
        const pst_feature *f = &schema->features[i];
        put_text(&w, i ? " " : "");
        put_string(&w, f->name, strlen(f->name));
        put_text(&w, ":");
        put_text(&w, schema_spec(f, spec));
        if (f->has_default)
            put_default(&w, &f->fallback);
    }
    c_numbers_leave(&numbers);
    if (w.length < size) {
        buffer[w.length] = '\0';
        return buffer;
    }
    size_t end = size - 1 > sizeof(cut) - 1 ? size - sizeof(cut) : 0;
    while (end > 0 && ((unsigned char)buffer[end] & 0xc0) == 0x80)
        end--; /* not through a character */
    snprintf(buffer + end, size - end, "%s", end ? cut : "");
    return buffer;
}
