/* stages.h: the text of a pipeline cut into its stages, for commands that replace the source. */
#ifndef CLI_STAGES_H
#define CLI_STAGES_H

#include <penstock/op.h>
#include <stddef.h>

struct stages {
    char **text; /* each trimmed; owned */
    size_t count;
};

/* Cuts `text` at every | outside of quotes and comments. Returns 0; -1: out of memory; 1: a stage is "@FILE", and such files are not read. */
int stages_cut(struct stages *ret, const char *text);
void stages_finish(struct stages *s); /* Zeroed ok. */
/* Whether the stage is this operation. */
int stage_is(const char *stage, const char *op);
/* The value that the stage gives to parameter `name` of its operation, by name or by place; free it. NULL: none, or out of memory. */
char *stage_argument(const char *stage, const pst_op_class *op, const char *name);
/* The arguments of the stage that operation `op` takes, too; free them. NULL: out of memory. */
char *stage_arguments_for(const char *stage, const char *op);

#endif
