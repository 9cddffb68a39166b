/* secret.h: web addresses in texts that are shown: the query of one may be its signature, and a name and a password may stand
 * before its host. secret.c needs nothing else of this room: the tool compiles it too. */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* Goes through a text byte by byte, from its beginning; zeroed at first. */
struct secret_scan {
    bool query;              /* inside of the query of an address */
    char quote;              /* that is open; 0: none */
    char end;                /* the quote that ends the address; 0: a blank outside of quotes does */
    bool address;            /* inside of an address */
    size_t begin, until;     /* the name and password of the present address */
};
/* Returns whether byte `i` of the text must not be shown. Called for every byte in order. */
bool secret_hides(struct secret_scan *s, const char *text, size_t i);

/* The end of the run of bytes from `i` on that are all shown or all hidden. */
size_t secret_run(struct secret_scan *s, const char *text, size_t i, bool *ret_hidden);
#define SECRET_MARK "\xe2\x80\xa6" /* is shown for a run of hidden ones */

/* The bytes of `path` without its query, if it is a web address; otherwise all of them. */
size_t secret_free_length(const char *path);
/* Copies the text, each secret as "…", into `to`, which has room for SECRET_ROOM(strlen(text)) bytes. */
#define SECRET_ROOM(length) (3 * (length) + 1)
void secret_hide(char *to, const char *text);
/* Whether the text has a secret that is shown: one of stars, or the mark of secret_hide, is none. */
bool secret_shows(const char *text);

/* The same as json_string (json.c) and text_add (text.c), each secret as "…". */
struct json;
struct text;
void json_shown(struct json *j, const char *key, const char *value);
void text_add_shown(struct text *t, const char *s);

#endif
