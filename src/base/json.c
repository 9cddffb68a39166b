/* json.c: see json.h. */
#include "base/json.h"

#include "base/digits.h"
#include "base/secret.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Strings ---- */

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* `c` is U+0000 to U+009F. */
static size_t escape(unsigned char c, char out[8])
{
    static const char letters[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* pairs: the byte, its letter */
    for (size_t i = 0; letters[i]; i += 2)
        if ((unsigned char)letters[i] == c)
            return (size_t)snprintf(out, 8, "\\%c", letters[i + 1]);
    return (size_t)snprintf(out, 8, "\\u%04x", c);
}

/* What stands between the quotes. */
static void put_escaped(void (*put)(void *to, const char *s, size_t n), void *to, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    char escaped[8];
    for (size_t i = 0; i < n;) {
        size_t run = i;
        while (run < n && is_plain(p[run]))
            run++;
        if (run > i)
            put(to, s + i, run - i);
        i = run;
        if (i == n)
            break;
        bool valid;
        size_t step = utf8_step(p + i, n - i, &valid);
        if (p[i] < 0x80)
            put(to, escaped, escape(p[i], escaped));
        else if (valid && p[i] == 0xc2 && p[i + 1] < 0xa0)
            put(to, escaped, escape(p[i + 1], escaped));
        else if (valid)
            put(to, s + i, step);
        else
            put(to, "\xef\xbf\xbd", 3);
        i += step;
    }
}

void json_quote(void (*put)(void *to, const char *s, size_t n), void *to, const char *s, size_t n)
{
    put(to, "\"", 1);
    put_escaped(put, to, s, n);
    put(to, "\"", 1);
}

/* ---- Containers ---- */

static void put(struct json *j, const char *s)
{
    j->put(j->to, s, strlen(s));
}

static bool has_lines(const struct json *j)
{
    return j->depth > 0 && (j->lines >> (j->depth - 1) & 1);
}

static void new_line(struct json *j, unsigned depth)
{
    put(j, "\n");
    for (unsigned i = 0; i < depth * j->indent; i++)
        put(j, " ");
}

void json_key(struct json *j, const char *key, size_t length)
{
    bool lines = has_lines(j);
    if (j->filled && j->depth > 0)
        put(j, lines ? "," : ", ");
    if (lines)
        new_line(j, j->depth);
    if (key) {
        json_quote(j->put, j->to, key, length);
        put(j, ": ");
    }
    j->filled = true;
    j->keyed = key != NULL;
}

/* The comma and the key before a value. */
static void lead(struct json *j, const char *key)
{
    if (!j->keyed)
        json_key(j, key, key ? strlen(key) : 0);
    j->keyed = false;
}

static void begin(struct json *j, const char *key, const char *bracket)
{
    lead(j, key);
    put(j, bracket);
    j->lines &= ~(UINT64_C(1) << j->depth);
    j->depth++;
    j->filled = false;
}

static void end(struct json *j, const char *bracket)
{
    if (has_lines(j) && j->filled)
        new_line(j, j->depth - 1);
    j->depth--;
    put(j, bracket);
    j->filled = true;
}

void json_begin_object(struct json *j, const char *key)
{
    begin(j, key, "{");
}

void json_end_object(struct json *j)
{
    end(j, "}");
}

void json_begin_array(struct json *j, const char *key)
{
    begin(j, key, "[");
}

void json_end_array(struct json *j)
{
    end(j, "]");
}

void json_lines(struct json *j)
{
    j->lines |= UINT64_C(1) << (j->depth - 1);
}

/* ---- Values ---- */

void json_string(struct json *j, const char *key, const char *value)
{
    if (!value)
        json_null(j, key);
    else
        json_bytes(j, key, value, strlen(value));
}

void json_shown(struct json *j, const char *key, const char *value)
{
    struct secret_scan scan = {0};
    if (!value) {
        json_null(j, key);
        return;
    }
    lead(j, key);
    put(j, "\"");
    for (size_t i = 0, end; value[i]; i = end) {
        bool hidden;
        end = secret_run(&scan, value, i, &hidden);
        if (hidden)
            put(j, SECRET_MARK);
        else
            put_escaped(j->put, j->to, value + i, end - i);
    }
    put(j, "\"");
}

void json_bytes(struct json *j, const char *key, const void *data, size_t length)
{
    lead(j, key);
    json_quote(j->put, j->to, data, length);
}

void json_format(struct json *j, const char *key, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    digits_vprint(text, sizeof(text), format, args);
    va_end(args);
    json_string(j, key, text);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRIu64, value);
    lead(j, key);
    put(j, text);
}

void json_int(struct json *j, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof(text), "%" PRId64, value);
    lead(j, key);
    put(j, text);
}

void json_number(struct json *j, const char *key, double value)
{
    char text[DIGITS_SIZE];
    lead(j, key);
    put(j, isfinite(value) ? digits_shortest(value, 6, text) : "null");
}

void json_bool(struct json *j, const char *key, bool value)
{
    lead(j, key);
    put(j, value ? "true" : "false");
}

void json_null(struct json *j, const char *key)
{
    lead(j, key);
    put(j, "null");
}

void json_raw(struct json *j, const char *key, const char *value)
{
    lead(j, key);
    while (*value) {
        size_t line = strcspn(value, "\n"); /* inside strings line breaks are escaped */
        j->put(j->to, value, line);
        value += line;
        value += strspn(value, "\n ");
    }
}
