/* chain.c: pipelines in the language of lang/: its table of classes is the table of operations. */
#include "base/error.h"
#include "base/memory.h"
#include "flow/node.h"
#include "lang/words.h"

#include <string.h>

static struct lang_class class_of(const pst_op_class *op)
{
    return (struct lang_class){
        .name = op->name, .params = op->params, .positional = LANG_ALL, .config_size = op->config_size, .owner = op};
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

void chain_finish(struct chain *c)
{
    lang_finish(&c->tree);
    mem_free(c->nodes);
    arena_finish(&c->classes);
    *c = (struct chain){0};
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

/* After a call that added to the tree and returned `st`: adds its new nodes to the chain, or takes them from the tree. */
static pst_status follow(struct chain *c, size_t scripts, pst_status st, pst_error *reterr)
{
    const struct lang_chain *top = &c->tree.top;
    void *nodes = c->nodes;
    if (st < 0)
        return st;
    if (mem_grow(&nodes, &c->capacity, top->count, sizeof(*c->nodes)) < 0) {
        lang_cut(&c->tree, c->count, scripts);
        return fail_memory(reterr, "building a pipeline");
    }
    c->nodes = nodes;
    for (; c->count < top->count; c->count++) {
        struct lang_node *written = top->nodes[c->count];
        const pst_op_class *op = written->class.owner;
        c->nodes[c->count] = (struct node){.op = op,
                                           .kind = pst_op_kind_of(op),
                                           .written = written,
                                           .config = written->config,
                                           .strings = &written->strings,
                                           .ordinal = (uint32_t)c->count};
    }
    return PST_OK;
}

pst_status chain_parse(struct chain *c, const char *text, pst_error *reterr)
{
    size_t scripts = c->tree.script_count;
    return follow(c, scripts, lang_parse(&c->tree, &pipelines, text, reterr), reterr);
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

char *node_text(const struct node *n)
{
    return lang_text(n->written);
}

void node_point(const struct chain *c, const struct node *n, pst_error *reterr)
{
    lang_point(&c->tree, n->written, reterr);
}
