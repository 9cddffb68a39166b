/* lang.h: one language for everything that users write as a chain: pipelines of operations, models of layers.
 *
 *   chain = stage { "|" stage }
 *   stage = "@" file | class { value } { name "=" value } { "(" chain ")" } { name "=" value }
 *
 * Text becomes a tree of nodes, each bound to a class and its config. The table of classes is a parameter. The caller
 * decides which nodes fit together. README.md has the rules of the language. */
#ifndef LANG_LANG_H
#define LANG_LANG_H

#include "base/arena.h"
#include "base/text.h"
#include "lang/script.h"
#include <penstock/op.h>

#define LANG_MAX_NODES 1000 /* in a tree */
#define LANG_MAX_DEPTH 32   /* chains in parentheses inside each other */

#define LANG_ALL SIZE_MAX /* all parameters, or any number of children */

struct lang_class {
    const char *name;
    const pst_param *params; /* may be NULL */
    size_t positional;       /* how many of them take values without a name; the others need name=value */
    size_t config_size;
    size_t min_children, max_children; /* chains in parentheses that it takes */
    bool empty_child;                  /* one of them may be empty: ( ), as in concat and add of models */
    const void *owner;                 /* the caller's own declaration of the class */
};

/* A table of classes and the words that errors use for it. */
struct language {
    bool (*at)(size_t i, struct lang_class *ret); /* class `i`; false: there are fewer */
    const char *whole;                            /* "a pipeline" */
    const char *one, *a_one;                      /* "operation", "an operation" */
    const char *listing;                          /* "`penstock ops` lists them" */
};

struct lang_node;

struct lang_chain {
    struct lang_node **nodes; /* owned; each keeps its address until it is freed */
    size_t count, capacity;
};

struct lang_node {
    struct lang_class class;
    void *config;         /* config_size bytes; owned, strings inside belong to `strings` */
    struct arena strings; /* memory that the config points to */
    size_t script;        /* script of the tree that contains it */
    size_t begin, end;    /* of name and arguments in that script; 0, 0: it came as a class */
    struct lang_chain *children;
    size_t child_count, child_capacity;
};

/* Empty when zeroed. A call that fails leaves it as it was. */
struct lang_tree {
    struct lang_chain top;
    size_t count;           /* nodes in all chains */
    struct script *scripts; /* the texts that nodes came from, for carets */
    size_t script_count, script_capacity;
};

/* Appends a text to the top chain. Errors carry the byte and a line with a caret. */
pst_status lang_parse(struct lang_tree *t, const struct language *l, const char *text, pst_error *reterr);
/* The same for a text from elsewhere: @file includes files below `folder` only; "": none. */
pst_status lang_parse_below(struct lang_tree *t, const struct language *l, const char *text, const char *folder, pst_error *reterr);
/* Whether the text may include files. False is certain. */
bool lang_may_include(const char *text);
/* Appends one node, its arguments as text (NULL: none). The byte and the caret line of an error refer to "NAME ARGS". */
pst_status lang_add(struct lang_tree *t, const struct language *l, const char *name, const char *args, pst_error *reterr);
/* Appends a node without children. Copies the config; memory it points to is borrowed. NULL: defaults for all parameters. */
pst_status lang_add_class(struct lang_tree *t, const struct language *l, const struct lang_class *class, const void *config,
                          pst_error *reterr);
/* The same for a node whose children are added with lang_adopt. */
pst_status lang_add_parent(struct lang_tree *t, const struct language *l, const char *name, const char *args, pst_error *reterr);
/* Makes the whole top chain of `from` a child of node `n` of `t`, and leaves `from` empty. PST_ELIMIT: the tree would be too large
 * or too deep. */
pst_status lang_adopt(struct lang_tree *t, const struct language *l, struct lang_node *n, struct lang_tree *from,
                      pst_error *reterr);
/* Truncates the top chain to `nodes` nodes, and the list of scripts. */
void lang_cut(struct lang_tree *t, size_t nodes, size_t scripts);
void lang_finish(struct lang_tree *t);

/* Returns the node with its children as canonical text ("shuffle seed=7"), which parses to an equal node. mem_free; NULL: out
 * of memory. */
char *lang_text(const struct lang_node *n);
/* Returns the nodes of a chain, of which there is at least one, as lang_text writes them, separated by bars. */
char *lang_chain_text(const struct lang_chain *c);
/* Returns the name and the arguments of the node, as lang_text writes them, without its children. */
char *lang_head(const struct lang_node *n);
/* Adds the line with the caret to an error about `n`, and the place where the error has none. */
void lang_point(const struct lang_tree *t, const struct lang_node *n, pst_error *reterr);

#endif
