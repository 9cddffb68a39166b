/* utf8.h: one character of UTF-8 at a time. Needs nothing but the C library. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Returns how many bytes the character at `s` takes (n > 0). If it is not well-formed, `*valid` is false and the result is
 * the longest valid prefix of a character there: the part that one U+FFFD replaces, as the Unicode standard recommends. */
size_t utf8_step(const unsigned char *s, size_t n, bool *valid);

#endif
