/* parse.h: what the parser is made of: words bound to the parameters of a class (args.c), and a tree that grows (lang_tree.c). */
#ifndef LANG_PARSE_H
#define LANG_PARSE_H

#include "lang/lang.h"
#include "lang/lexer.h"

#define ARGS_MAX_PARAMS 64

/* Sets every parameter that has a default. Strings go to `strings`. */
pst_status args_defaults(const struct lang_class *class, void *config, struct arena *strings, pst_error *reterr);

/* Returns the first parameter that must be given and is not; NULL: none. `given` has bit i set for parameter i. */
const pst_param *args_missing(const struct lang_class *class, uint64_t given);

/* Sets defaults, then the words: values in the order of the parameters, then name=value. `head` is the name of the class:
 * errors that concern no particular word point there. */
pst_status args_bind(struct lang_node *n, const struct script *s, const struct word *head, const struct word *words,
                     size_t count, pst_error *reterr);

/* lang_tree.c: appends a node with a zeroed config. */
pst_status tree_push(struct lang_tree *t, const struct language *l, struct lang_chain *to, const struct lang_class *class,
                     pst_error *reterr);
/* Appends an empty child. */
pst_status tree_push_child(struct lang_node *n, pst_error *reterr);
/* Takes `text` and `path`, also on failure; `text` may be NULL when memory ran out. */
pst_status tree_push_script(struct lang_tree *t, char *text, char *path, pst_error *reterr);

#endif
