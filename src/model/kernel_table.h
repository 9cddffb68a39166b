/* kernel_table.h: which kernel runs the convolutions of a shape, where that is chosen otherwise than by the order in kernels/conv.c.
 *
 * As text, one line per shape; # begins a comment:
 *
 *     conv 3x3 stride=1 16->32 at 32x32: direct          input -> output channels, height x width of the result
 *     conv 3x3 stride=1 groups=4 dilation=2 16->32 at 32x32: direct in parts
 */
#ifndef MODEL_KERNEL_TABLE_H
#define MODEL_KERNEL_TABLE_H

#include "base/text.h"
#include "model/kernels/conv.h"

struct kernel_key {
    struct conv_shape shape;
    size_t h, w; /* of the result */
};

struct kernel_entry {
    struct kernel_key key;
    const struct conv_kernel *kernel;
};

/* Zero-initialise. */
struct kernel_table {
    struct kernel_entry *list;
    size_t count, capacity;
};

/* Adds the lines of `text` (NULL: none). A kernel that does not exist, does not run with these CPU features or does not take the shape is
 * left out; a line that is not an entry is PST_EINVAL with its number. A name stands for vectors of any width. */
pst_status kernel_table_parse(struct kernel_table *t, const char *text, unsigned features, pst_error *reterr);
/* Replaces the entry of the same key. Returns false: out of memory. */
bool kernel_table_set(struct kernel_table *t, const struct kernel_key *key, const struct conv_kernel *kernel);
/* NULL: it is not in the table. `t` may be NULL. */
const struct conv_kernel *kernel_table_find(const struct kernel_table *t, const struct kernel_key *key);
void kernel_table_print(const struct kernel_table *t, struct text *to);
void kernel_table_finish(struct kernel_table *t);

bool kernel_key_same(const struct kernel_key *a, const struct kernel_key *b);
/* The line of an entry, without its end. */
void kernel_entry_print(const struct kernel_entry *e, struct text *to);

#endif
