/* json.h: writes one JSON value, with commas, line breaks and indentation in the right places.
 *
 * A container has its items on one line, or one per line after json_lines. This file and utf8.h need nothing but the C
 * library: the tool, which sees public headers only, compiles them too. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json {
    void (*put)(void *to, const char *s, size_t n); /* where the text goes */
    void *to;
    unsigned indent; /* spaces per level, for containers with one item per line */
    unsigned depth;  /* containers that are open */
    uint64_t lines;  /* bit i: container i has an item per line */
    bool filled;     /* the innermost container has an item */
    bool keyed;      /* json_key was called for the next value */
};

/* `key` is NULL inside arrays and at the top. Containers nest up to 64 deep. */
void json_begin_object(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_begin_array(struct json *j, const char *key);
void json_end_array(struct json *j);
void json_lines(struct json *j); /* the container that was just begun has an item per line */

void json_string(struct json *j, const char *key, const char *value); /* NULL: null */
void json_bytes(struct json *j, const char *key, const void *data, size_t length);
void json_format(struct json *j, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4))); /* a string of up to 255 bytes */
void json_uint(struct json *j, const char *key, uint64_t value);
void json_int(struct json *j, const char *key, int64_t value);
void json_number(struct json *j, const char *key, double value); /* shortest that reads back; not finite: null */
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);

/* Writes a key for the value that the next call writes with a NULL key. */
void json_key(struct json *j, const char *key, size_t length);
/* Writes a value that is JSON already, without its line breaks and the spaces after them. */
void json_raw(struct json *j, const char *key, const char *value);
/* A string with its quotes. Control characters are escaped, those of terminals (U+007F to U+009F) too; invalid UTF-8 becomes
 * U+FFFD. */
void json_quote(void (*put)(void *to, const char *s, size_t n), void *to, const char *s, size_t n);

#endif
