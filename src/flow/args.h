/* args.h: words bound to the parameters of an operation. */
#ifndef FLOW_ARGS_H
#define FLOW_ARGS_H

#include "flow/node.h"
#include "flow/words.h"

#define ARGS_MAX_PARAMS 64

/* Sets every parameter that has a default. Strings go to `strings`. */
pst_status args_defaults(const pst_op_class *op, void *config, struct arena *strings, pst_error *reterr);

/* The first parameter that must be given and is not; NULL: none. `given` has bit i set for parameter i. */
const pst_param *args_missing(const pst_op_class *op, uint64_t given);

/* Defaults, then the words: values in the order of the parameters, then name=value. `op_word` is the operation's name, where
 * errors point that no word is to blame for. */
pst_status args_bind(struct node *n, const struct script *s, const struct word *op_word, const struct word *words, size_t count,
                     pst_error *reterr);

#endif
