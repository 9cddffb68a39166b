/* suggest.h: suggests the name that the user probably meant. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include <stddef.h>

/* The candidate nearest to `word` (insertions, deletions, swaps and substitutions), NULL if none is near. */
const char *suggest(const char *word, const char *const *candidates, size_t count);

#endif
