/* json.c: see json.h. */
#include "cli/json.h"
#include "cli/utf8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void put_quoted(FILE *out, const char *s, size_t n)
{
    fputc('"', out);
    for (size_t i = 0; i < n;) {
        uint32_t c;
        size_t width = utf8_decode(s + i, n - i, &c);

        if (width == 0) {
            fputs("\\ufffd", out);
            width = 1;
        } else if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", (char)c);
        } else if (c == '\n') {
            fputs("\\n", out);
        } else if (c == '\t') {
            fputs("\\t", out);
        } else if (c < 0x20 || (c >= 0x7f && c < 0xa0)) { /* control characters, the 8-bit ones too */
            fprintf(out, "\\u%04x", (unsigned)c);
        } else {
            fwrite(s + i, 1, width, out);
        }
        i += width;
    }
    fputc('"', out);
}

/* The comma and the key before a value. */
static void lead(struct json *j, const char *key)
{
    if (j->comma)
        fputs(", ", j->out);
    if (key) {
        put_quoted(j->out, key, strlen(key));
        fputs(": ", j->out);
    }
    j->comma = true;
}

static void begin(struct json *j, const char *key, char bracket)
{
    lead(j, key);
    fputc(bracket, j->out);
    j->comma = false;
}

static void end(struct json *j, char bracket)
{
    fputc(bracket, j->out);
    j->comma = true;
}

void json_begin_object(struct json *j, const char *key)
{
    begin(j, key, '{');
}

void json_end_object(struct json *j)
{
    end(j, '}');
}

void json_begin_array(struct json *j, const char *key)
{
    begin(j, key, '[');
}

void json_end_array(struct json *j)
{
    end(j, ']');
}

void json_string(struct json *j, const char *key, const char *value)
{
    if (!value)
        json_null(j, key);
    else
        json_bytes(j, key, value, strlen(value));
}

void json_bytes(struct json *j, const char *key, const void *data, size_t length)
{
    lead(j, key);
    put_quoted(j->out, data, length);
}

void json_uint(struct json *j, const char *key, uint64_t value)
{
    lead(j, key);
    fprintf(j->out, "%llu", (unsigned long long)value);
}

void json_int(struct json *j, const char *key, int64_t value)
{
    lead(j, key);
    fprintf(j->out, "%lld", (long long)value);
}

void json_number(struct json *j, const char *key, double value)
{
    char text[32];

    lead(j, key);
    if (!isfinite(value)) {
        fputs("null", j->out);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    fputs(text, j->out);
}

void json_bool(struct json *j, const char *key, bool value)
{
    lead(j, key);
    fputs(value ? "true" : "false", j->out);
}

void json_null(struct json *j, const char *key)
{
    lead(j, key);
    fputs("null", j->out);
}

void json_raw(struct json *j, const char *key, const char *value)
{
    lead(j, key);
    while (*value) {
        size_t line = strcspn(value, "\n"); /* inside of strings line breaks are escaped */

        fwrite(value, 1, line, j->out);
        value += line;
        value += strspn(value, "\n ");
    }
}

void json_error(struct json *j, const char *key, const pst_error *error)
{
    json_begin_object(j, key);
    json_string(j, "status", pst_status_name(error->status));
    json_string(j, "message", error->message);
    if (error->path[0])
        json_string(j, "path", error->path);
    if (error->record != PST_NOWHERE)
        json_uint(j, "record", error->record);
    if (error->offset != PST_NOWHERE)
        json_uint(j, "offset", error->offset);
    json_end_object(j);
}
