/* tree.h: adds nodes, children and scripts to a tree; for the parser. */
#ifndef LANG_TREE_H
#define LANG_TREE_H

#include "lang/lang.h"

/* Appends a node with a zeroed config. */
pst_status tree_push(struct lang_tree *t, const struct language *l, struct lang_chain *to, const struct lang_class *class,
                     pst_error *reterr);
/* Appends an empty child. */
pst_status tree_push_child(struct lang_node *n, pst_error *reterr);
/* Takes `text` and `path`, also on failure; `text` may be NULL when memory ran out. */
pst_status tree_push_script(struct lang_tree *t, char *text, char *path, pst_error *reterr);

#endif
