/* json_read.h: reads one JSON value into a flat list of items; nothing is copied but strings that are asked for.
 *
 * For small files that may be hostile: nesting and the number of items are bounded, every string is valid UTF-8 syntax as far as
 * its quotes and escapes go, and anything after the value is an error. */
#ifndef BASE_JSON_READ_H
#define BASE_JSON_READ_H

#include <penstock/base.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_item {
    enum json_kind kind;
    const char *text; /* of a number, a word or a string's inside (escapes not resolved) */
    size_t length;
    size_t count; /* of an array: items; of an object: keys with their values */
    size_t next;  /* number of the item after this one and everything inside it */
};

struct json_document {
    struct json_item *items; /* 0 is the value; those inside follow; in an object key, value, key, value… */
    size_t count, capacity;
};

/* `text` must outlive the document. PST_ECORRUPT: not JSON; `reterr->offset` is the byte. */
pst_status json_parse(struct json_document *ret, const char *text, size_t length, pst_error *reterr);
void json_finish(struct json_document *d); /* Zeroed ok. */

#define JSON_ABSENT SIZE_MAX
/* Returns the number of the value with this key in object `at`; JSON_ABSENT: none, or `at` is not an object. */
size_t json_find(const struct json_document *d, size_t at, const char *key);
/* Each returns false where the item is absent or of another kind. Whole numbers are exact up to 2^64 − 1. */
bool json_get_uint(const struct json_document *d, size_t at, uint64_t *ret);
bool json_get_number(const struct json_document *d, size_t at, double *ret);
bool json_get_bool(const struct json_document *d, size_t at, bool *ret);
/* Returns the string with its escapes resolved, NUL-terminated; mem_free it. NULL: absent, another kind, or out of memory. */
char *json_get_string(const struct json_document *d, size_t at);

#endif
