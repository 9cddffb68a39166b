/* text.h: growing text, numbers with units, suggestions for misspelled names. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include "base/nearest.h"

#include <penstock/base.h>

/* A growing string. An allocation failure sets `failed` and makes the rest no-ops, so that callers check once. */
struct text {
    char *data; /* NUL-terminated, or NULL while empty */
    size_t length, capacity;
    bool failed;
    bool secret; /* set before anything is added: memory that is given back is wiped */
};

void text_add(struct text *t, const char *s);
void text_add_n(struct text *t, const char *s, size_t n);
void text_addf(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_json(struct text *t, const char *s, size_t n); /* a JSON string, as json_quote writes it */
void text_add_shell(struct text *t, const char *word); /* quoted where a shell would take it for something else */
void text_add_base64(struct text *t, const void *data, size_t length);
void text_put(void *text, const char *s, size_t n); /* text_add_n as writers such as struct json call it */
void text_finish(struct text *t);                            /* frees */

bool text_is_utf8(const void *s, size_t n);

/* "64M", "1.5GiB", "200kB": K/M/G/T are powers of 1024, with or without iB/B. */
pst_status text_parse_bytes(uint64_t *ret, const char *s, pst_error *reterr);
/* Formats a size as "1.5 GiB". Returns `buffer`. */
char *text_bytes(uint64_t bytes, char *buffer, size_t size);

/* Byte order of names as people expect in lists: plain strcmp. For qsort over char *. */
int text_compare(const void *a, const void *b);

#endif
