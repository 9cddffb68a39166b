/* chains.h: the chains of test_every_op.c, from files: one line of pipeline text each, and what some of them deliver.
 *
 *     # a comment
 *     npy x.npy | take 2 | cast i32 x | batch 2
 *       x: int32 [2,3] -2 -2 -2 -2 -2 -1
 *
 * Indented lines are fields of the first batch: type, shape and values, floating point with nine digits, bytes in quotes. */
#ifndef TESTS_FLOW_CHAINS_H
#define TESTS_FLOW_CHAINS_H

#include <penstock/pipeline.h>

struct chain_line {
    char *text;
    char *fields;     /* the indented lines behind it; NULL: there are none */
    const char *file; /* where it stands */
};

/* Zeroed is empty. */
struct chain_lines {
    struct chain_line *at;
    size_t count;
    char **files;
    size_t file_count;
};

/* Every FOLDER/NAME.txt, in the order of their names. Aborts where something cannot be read. */
void chains_read(struct chain_lines *c, const char *folder);
void chains_finish(struct chain_lines *c);

/* Reports a field of the batch that is not what the file says; returns whether all of them are. */
bool chain_line_check(const struct chain_line *line, const pst_batch *b);

#endif
