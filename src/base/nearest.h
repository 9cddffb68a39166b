/* nearest.h: suggestions for misspelled names, by one rule for the library and the tool. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

/* Returns the candidate that `word` probably means: it differs by few edits, or `word` is its beginning. NULL: none.
 * `candidates` ends with NULL. */
const char *text_nearest(const char *word, const char *const *candidates);

#endif
