/* utf8.h: one code point at a time. */
#ifndef CLI_UTF8_H
#define CLI_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The bytes of the code point that starts at `s` (at most `n`), which goes to `*ret`; 0 where that is not valid UTF-8. */
size_t utf8_decode(const char *s, size_t n, uint32_t *ret);
/* Columns of a valid text on a terminal: wide characters count two, combining ones none. */
size_t utf8_columns(const char *s, size_t n);

#endif
