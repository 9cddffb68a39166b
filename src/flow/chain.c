/* chain.c: pipelines in the language of lang/: its table of classes is the table of operations. */
#include "base/error.h"
#include "base/memory.h"
#include "flow/node.h"
#include "lang/lexer.h"
#include "ops/join_facet.h"
#include "ops/op_decl.h"
#include "source/source.h"

#include <string.h>

#define BRANCH_ORDINALS (UINT32_C(1) << 16) /* of nodes in branches: no chain is that long */

static struct lang_class class_of(const pst_op_class *op)
{
    const struct op_decl *decl = op_decl_of(op);
    const struct join_facet *join = decl ? decl->join : NULL;
    return (struct lang_class){.name = op->name,
                               .params = op->params,
                               .positional = LANG_ALL,
                               .config_size = op->config_size,
                               .min_children = join ? join->min_branches : 0,
                               .max_children = join ? join->max_branches : 0,
                               .owner = op};
}

static bool class_at(size_t i, struct lang_class *ret)
{
    const pst_op_class *op = pst_op_at(i);
    if (op)
        *ret = class_of(op);
    return op != NULL;
}

static const struct language pipelines = {
    .at = class_at,
    .whole = "a pipeline",
    .one = "operation",
    .a_one = "an operation",
    .listing = "`penstock ops` lists them",
};

static void finish_nodes(struct chain *c)
{
    for (size_t i = 0; i < c->count; i++) {
        for (size_t b = 0; b < c->nodes[i].branch_count; b++)
            finish_nodes(&c->nodes[i].branches[b]);
        mem_free(c->nodes[i].branches);
    }
    mem_free(c->nodes);
    c->nodes = NULL;
    c->count = c->capacity = 0;
}

void chain_finish(struct chain *c)
{
    finish_nodes(c);
    lang_finish(&c->tree);
    arena_finish(&c->classes);
    *c = (struct chain){0};
}

const struct join_facet *chain_join(const struct chain *c)
{
    const struct op_decl *decl = c->count ? op_decl_of(c->nodes[0].op) : NULL;
    return decl ? decl->join : NULL;
}

/* A class of a program that was built with an older header ends earlier; the rest reads as zeros. */
#define LEAST_CLASS offsetof(pst_op_class, flags)

static const pst_op_class *whole_class(struct arena *memory, const pst_op_class *op)
{
    pst_op_class *whole = arena_alloc(memory, sizeof(*whole));
    if (!whole)
        return NULL;
    memset(whole, 0, sizeof(*whole));
    memcpy(whole, op, op->size);
    whole->size = sizeof(*whole);
    return whole;
}

static bool follow_nodes(struct chain *root, struct chain *c, const struct lang_chain *from);

static bool follow_branches(struct chain *root, struct node *n)
{
    size_t count = n->written->child_count;
    if (count == 0)
        return true;
    n->branches = mem_array(count, sizeof(*n->branches));
    for (size_t i = 0; n->branches && i < count; i++) {
        n->branches[n->branch_count++].root = root;
        if (!follow_nodes(root, &n->branches[i], &n->written->children[i]))
            return false;
    }
    return n->branches != NULL;
}

/* Adds the nodes of `from` that `c` does not have yet; false: out of memory. */
static bool follow_nodes(struct chain *root, struct chain *c, const struct lang_chain *from)
{
    void *nodes = c->nodes;
    bool whole = mem_grow(&nodes, &c->capacity, from->count, sizeof(*c->nodes)) >= 0;
    c->nodes = nodes;
    while (whole && c->count < from->count) {
        struct lang_node *written = from->nodes[c->count];
        const pst_op_class *op = written->class.owner;
        struct node *n = &c->nodes[c->count];
        *n = (struct node){.op = op,
                           .kind = pst_op_kind_of(op),
                           .written = written,
                           .config = written->config,
                           .strings = &written->strings,
                           .ordinal = c == root ? (uint32_t)c->count : BRANCH_ORDINALS + root->branch_nodes++};
        c->count++;
        whole = follow_branches(root, n);
    }
    return whole;
}

/* After a call that added to the tree and returned `st`: adds its new nodes to the chain, or takes them from the tree. */
static pst_status follow(struct chain *c, size_t scripts, pst_status st, pst_error *reterr)
{
    size_t count = c->count;
    if (st < 0 || follow_nodes(c, c, &c->tree.top))
        return st;
    while (c->count > count) {
        struct node *n = &c->nodes[--c->count];
        for (size_t b = 0; b < n->branch_count; b++)
            finish_nodes(&n->branches[b]);
        mem_free(n->branches);
    }
    lang_cut(&c->tree, count, scripts);
    return fail_memory(reterr, "building a pipeline");
}

pst_status chain_parse(struct chain *c, const char *text, pst_error *reterr)
{
    size_t scripts = c->tree.script_count;
    return follow(c, scripts, lang_parse(&c->tree, &pipelines, text, reterr), reterr);
}

pst_status pst_pipeline_expand(char **ret, const char *text, const char *folder, pst_error *reterr)
{
    struct lang_tree tree = {0};
    if (!lang_may_include(text)) {
        char *same = mem_strdup(text);
        if (!same)
            return fail_memory(reterr, "reading a pipeline");
        *ret = same;
        return PST_OK;
    }
    pst_status st = folder ? lang_parse_below(&tree, &pipelines, text, folder, reterr) : lang_parse(&tree, &pipelines, text, reterr);
    char *whole = st == PST_OK ? lang_chain_text(&tree.top) : NULL;
    lang_finish(&tree);
    if (st < 0)
        return st;
    if (!whole)
        return fail_memory(reterr, "reading a pipeline");
    *ret = whole;
    return PST_OK;
}

pst_status chain_add(struct chain *c, const char *op, const char *args, pst_error *reterr)
{
    size_t scripts = c->tree.script_count;
    return follow(c, scripts, lang_add(&c->tree, &pipelines, op, args, reterr), reterr);
}

pst_status chain_add_class(struct chain *c, const pst_op_class *op, const void *config, pst_error *reterr)
{
    if (op->size < LEAST_CLASS)
        return pst_fail(reterr, PST_EINVAL, "the operation's size is %zu; set it to sizeof(pst_op_class)", op->size);
    if (op->size < sizeof(*op) && !(op = whole_class(&c->classes, op)))
        return fail_memory(reterr, "adding an operation");
    if (!op->name || !word_is_name(op->name, strlen(op->name)))
        return pst_fail(reterr, PST_EINVAL, "invalid name \"%.40s\"; an operation's name has letters, digits and _",
                        op->name ? op->name : "");
    struct lang_class class = class_of(op);
    return follow(c, c->tree.script_count, lang_add_class(&c->tree, &pipelines, &class, config, reterr), reterr);
}

/* Empties a chain whose nodes another tree has taken; copies of classes stay. */
static void forget_nodes(struct chain *c)
{
    finish_nodes(c);
    c->branch_nodes = 0;
}

pst_status chain_add_join(struct chain *c, const char *op, const char *args, struct chain *const *branches, size_t count,
                          pst_error *reterr)
{
    size_t scripts = c->tree.script_count, nodes = c->tree.top.count, taken = 0;
    const pst_op_class *class = pst_op_find(op);
    const struct op_decl *decl = class ? op_decl_of(class) : NULL;
    if (!decl || !decl->join)
        return pst_fail(reterr, PST_EINVAL, "%.40s is not an operation that joins pipelines; try zip or concatenate", op);
    if (count < decl->join->min_branches || count > decl->join->max_branches)
        return pst_fail(reterr, PST_EINVAL, "%s joins %zu to %zu pipelines, not %zu", op, decl->join->min_branches,
                        decl->join->max_branches, count);
    for (size_t i = 0; i < count; i++) {
        bool twice = branches[i] == c;
        for (size_t k = 0; k < i; k++)
            twice |= branches[i] == branches[k];
        if (twice)
            return pst_fail(reterr, PST_EINVAL, "pipeline %zu is part of the join already", i);
    }
    pst_status st = lang_add_parent(&c->tree, &pipelines, op, args, reterr);
    if (st < 0)
        return st;
    struct lang_node *n = c->tree.top.nodes[nodes];
    for (; taken < count && st == PST_OK; taken++)
        st = branches[taken]->count ? lang_adopt(&c->tree, &pipelines, n, &branches[taken]->tree, reterr)
                                    : pst_fail(reterr, PST_EINVAL, "pipeline %zu is empty", taken);
    if (st < 0)
        lang_cut(&c->tree, nodes, scripts);
    st = follow(c, scripts, st, reterr);
    for (size_t i = 0; i < taken; i++)
        if (branches[i]->tree.top.count == 0)
            forget_nodes(branches[i]);
    return st;
}

char *node_text(const struct node *n)
{
    return lang_text(n->written);
}

void node_point(const struct chain *c, const struct node *n, pst_error *reterr)
{
    lang_point(c->root ? &c->root->tree : &c->tree, n->written, reterr);
}
