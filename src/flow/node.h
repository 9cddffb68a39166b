/* node.h: the chain as the user wrote it, bound to operations; the common result of text, C calls and bindings. The first node
 * may be a join, whose branches are chains again. */
#ifndef FLOW_NODE_H
#define FLOW_NODE_H

#include "base/arena.h"
#include "lang/lang.h"
#include <penstock/pipeline.h>

struct node {
    const pst_op_class *op;
    pst_op_kind kind;
    const struct lang_node *written; /* node of the chain's tree, which owns config and strings */
    void *config;                    /* config_size bytes */
    struct arena *strings;           /* memory that the config points to */
    uint32_t ordinal;                /* place in the user's chain: keys its randomness, survives rewrites */
    pst_spec in, out;                /* set by the plan, which owns their fields */
    struct chain *branches;          /* a join's; owned by the chain */
    size_t branch_count;
    unsigned number;                 /* set by the plan: which of the numbers of an element it writes; see order.h */
};

/* Empty when zeroed. A call that fails leaves it as it was. */
struct chain {
    const struct chain *root; /* a branch: the chain whose tree has its nodes; NULL: it is the root */
    struct lang_tree tree;    /* empty in a branch */
    struct node *nodes;       /* one per node at the top of the tree, or of the branch */
    size_t count, capacity;
    struct arena classes;  /* copies of classes that are shorter than the library's */
    uint32_t branch_nodes; /* of the root: nodes in all branches */
    bool filters_cut; /* a filter divides the chain: its source is a stream, and it tests elements that were computed before */
    /* Of a segment (segment.h), otherwise 0: */
    uint64_t chunk;      /* elements per batch if the chain does not make batches; 0: 1 */
    bool loose;          /* batches are taken apart: their elements need not agree */
    bool stacked;        /* batches are elements: the elements of each must agree */
    bool ends_in_window; /* its last operation makes the batches */
};

/* Parses text into nodes; see pipeline.h for the language. Errors carry the byte and a line with a caret. The plan checks
 * whether the operations fit together. */
pst_status chain_parse(struct chain *c, const char *text, pst_error *reterr);
/* Adds one operation with its arguments as text (NULL: none). The byte and the caret line of an error refer to "OP ARGS". */
pst_status chain_add(struct chain *c, const char *op, const char *args, pst_error *reterr);
/* Copies the config; the memory that it points to is borrowed. NULL: every parameter has its default. */
pst_status chain_add_class(struct chain *c, const pst_op_class *op, const void *config, pst_error *reterr);
/* Adds a join of the `count` chains, with its arguments as text (NULL: none). Takes their nodes and leaves them empty; after a
 * failure some of them may be empty, too. Copies of classes stay in the chains, which must outlive this one. */
pst_status chain_add_join(struct chain *c, const char *op, const char *args, struct chain *const *branches, size_t count,
                          pst_error *reterr);
void chain_finish(struct chain *c);
/* Returns the join facet of the first node; NULL: the chain begins with a source. */
const struct join_facet *chain_join(const struct chain *c);

/* Returns the node as canonical text ("shuffle seed=7"), which the fingerprint covers and the plan prints. Parsing it gives
 * the same node. Release with mem_free; NULL: out of memory. */
char *node_text(const struct node *n);
/* Adds the line with the caret to an error that a plan step of `n` returned, and the place if the error has none. */
void node_point(const struct chain *c, const struct node *n, pst_error *reterr);

#endif
