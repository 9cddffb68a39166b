/* graph_write.h: the text of a changed graph.
 *
 * Every node is written as a layer of its own with its name, so that parameters keep their names whatever is added or left out:
 * repetitions, separable convolutions and the shortcuts that residual makes by itself stand there as what they are. */
#ifndef MODEL_GRAPH_WRITE_H
#define MODEL_GRAPH_WRITE_H

#include "base/text.h"
#include "model/graph.h"

/* Changes while a graph is written; any function may be NULL. */
struct graph_edit {
    void *user;
    /* Whether node `node`, which has one input, is left out. */
    bool (*skip)(void *user, size_t node);
    /* May change the copy of the config of node `node`; its name and activation are already set. */
    void (*change)(void *user, size_t node, void *config);
    /* Appends layers after value `value`, each as "NAME ARGS", separated by " | "; nothing: none. */
    void (*after)(void *user, size_t value, struct text *to);
};

/* The model as text that builds the same graph, changed by `edit` (NULL: not at all). mem_free `*ret`. PST_EUNSUPPORTED: chains cross
 * in a way that text has no form for. */
pst_status graph_write(const struct graph *g, const struct graph_edit *edit, char **ret, pst_error *reterr);

/* The node called `name`; NULL: there is none. */
const struct graph_node *graph_find_node(const struct graph *g, const char *name);

#endif
