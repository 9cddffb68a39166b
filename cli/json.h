/* json.h: writes one JSON value to a stream, on one line, with the commas in the right places. */
#ifndef CLI_JSON_H
#define CLI_JSON_H

#include <penstock/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    bool comma; /* before the next value */
};

/* `key` is NULL inside arrays and at the top. Invalid UTF-8 in strings becomes U+FFFD. */
void json_begin_object(struct json *j, const char *key);
void json_end_object(struct json *j);
void json_begin_array(struct json *j, const char *key);
void json_end_array(struct json *j);
void json_string(struct json *j, const char *key, const char *value); /* NULL: null */
void json_bytes(struct json *j, const char *key, const void *data, size_t length);
void json_uint(struct json *j, const char *key, uint64_t value);
void json_int(struct json *j, const char *key, int64_t value);
void json_number(struct json *j, const char *key, double value); /* shortest that reads back; not finite: null */
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
void json_raw(struct json *j, const char *key, const char *value); /* JSON already; its line breaks go */
void json_error(struct json *j, const char *key, const pst_error *error); /* {status, message, path, record, offset} */

#endif
