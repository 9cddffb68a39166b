/* readable.h: formats arbitrary bytes as text that is safe on a terminal and in a report.
 *
 * Nothing here trusts its input: control characters, invalid UTF-8 and marks that reorder text become escapes. */
#ifndef INSPECT_READABLE_H
#define INSPECT_READABLE_H

#include "base/text.h"
#include <penstock/example.h>

/* UTF-8 with no control characters other than tabs and line breaks. */
bool readable_is_text(const void *bytes, size_t length);

/* The bytes as printable UTF-8: "\n", "\x1b", … for what is not; at most `max` characters, then "…". */
void readable_add(struct text *t, const void *bytes, size_t length, size_t max);

void readable_add_count(struct text *t, uint64_t count); /* 1,281,167 */

/* "812 bytes", "110 kB", "1.4 GB": powers of 1000. */
void readable_add_size(struct text *t, uint64_t bytes);

/* One bytes value: quoted text, <jpeg 500×375, 110 kB>, or <1204 bytes: 00 ff 3a …>. `shape` as in image_recognise. */
struct image_shape;
void readable_add_bytes(struct text *t, pst_bytes value, const struct image_shape *shape, size_t max);

/* The values of a feature, long lists elided: "3, 7, 9, … 125 more". */
void readable_add_value(struct text *t, const pst_value *value, const struct image_shape *shape, size_t max_values, size_t max);

/* Characters of a printable text: its columns, near enough for a table. */
size_t readable_width(const char *s);

#endif
