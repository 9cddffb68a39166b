/* hidden.h: strings that core dumps leave out and that are wiped when they are freed: keys of stores. */
#ifndef IO_REMOTE_HIDDEN_H
#define IO_REMOTE_HIDDEN_H

#include <stddef.h>

/* Returns a copy of up to `n` bytes, with a zero after them; hidden_free it. NULL: out of memory. */
char *hidden_copy(const char *s, size_t n);
void hidden_free(char *s); /* NULL ok */

#endif
