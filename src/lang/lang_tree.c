/* lang_tree.c: ownership in a tree. A half-built node can be freed, and every call that fails removes what it added. */
#include "lang/parse.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

static void chain_cut(struct lang_tree *t, struct lang_chain *c, size_t nodes);

static void node_free(struct lang_tree *t, struct lang_node *n)
{
    for (size_t i = 0; i < n->child_count; i++) {
        chain_cut(t, &n->children[i], 0);
        mem_free(n->children[i].nodes);
    }
    mem_free(n->children);
    arena_finish(&n->strings);
    mem_free(n->config);
    mem_free(n);
    t->count--;
}

static void chain_cut(struct lang_tree *t, struct lang_chain *c, size_t nodes)
{
    while (c->count > nodes)
        node_free(t, c->nodes[--c->count]);
}

void lang_cut(struct lang_tree *t, size_t nodes, size_t scripts)
{
    chain_cut(t, &t->top, nodes);
    while (t->script_count > scripts) {
        struct script *s = &t->scripts[--t->script_count];
        mem_free(s->text);
        mem_free(s->path);
    }
}

void lang_finish(struct lang_tree *t)
{
    lang_cut(t, 0, 0);
    mem_free(t->top.nodes);
    mem_free(t->scripts);
    *t = (struct lang_tree){0};
}

pst_status tree_push(struct lang_tree *t, const struct language *l, struct lang_chain *to, const struct lang_class *class,
                     pst_error *reterr)
{
    void *nodes = to->nodes;
    if (t->count == LANG_MAX_NODES)
        return pst_fail(reterr, PST_ELIMIT, "%s has at most %d %ss", l->whole, LANG_MAX_NODES, l->one);
    if (mem_grow(&nodes, &to->capacity, to->count + 1, sizeof(*to->nodes)) < 0)
        return fail_memory(reterr, "reading the text");
    to->nodes = nodes;
    struct lang_node *n = mem_zalloc(sizeof(*n));
    if (!n)
        return fail_memory(reterr, "reading the text");
    n->class = *class;
    arena_init(&n->strings);
    n->config = mem_zalloc(class->config_size);
    to->nodes[to->count++] = n;
    t->count++;
    return n->config ? PST_OK : fail_memory(reterr, "reading the text");
}

pst_status tree_push_child(struct lang_node *n, pst_error *reterr)
{
    void *children = n->children;
    if (mem_grow(&children, &n->child_capacity, n->child_count + 1, sizeof(*n->children)) < 0)
        return fail_memory(reterr, "reading the text");
    n->children = children;
    n->children[n->child_count++] = (struct lang_chain){0};
    return PST_OK;
}

pst_status tree_push_script(struct lang_tree *t, char *text, char *path, pst_error *reterr)
{
    void *scripts = t->scripts;
    if (!text || mem_grow(&scripts, &t->script_capacity, t->script_count + 1, sizeof(*t->scripts)) < 0) {
        mem_free(text);
        mem_free(path);
        return fail_memory(reterr, "reading the text");
    }
    t->scripts = scripts;
    t->scripts[t->script_count++] = (struct script){.text = text, .path = path};
    return PST_OK;
}

pst_status lang_add_class(struct lang_tree *t, const struct language *l, const struct lang_class *class, const void *config,
                          pst_error *reterr)
{
    size_t nodes = t->top.count;
    pst_status st = tree_push(t, l, &t->top, class, reterr);
    struct lang_node *n = st == PST_OK ? t->top.nodes[nodes] : NULL;
    if (st == PST_OK && config)
        memcpy(n->config, config, class->config_size);
    else if (st == PST_OK)
        st = args_defaults(class, n->config, &n->strings, reterr);
    const pst_param *missing = config ? NULL : args_missing(class, 0);
    if (st == PST_OK && missing)
        st = pst_fail(reterr, PST_EINVAL, "%s: %s is missing: %s", class->name, missing->name, missing->doc);
    if (st < 0)
        lang_cut(t, nodes, t->script_count);
    return st;
}

/* Chains in parentheses inside each other, and moves every node's script by `scripts`. */
static unsigned settle(struct lang_chain *c, size_t scripts)
{
    unsigned deepest = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct lang_node *n = c->nodes[i];
        n->script += scripts;
        for (size_t k = 0; k < n->child_count; k++) {
            unsigned depth = 1 + settle(&n->children[k], scripts);
            deepest = depth > deepest ? depth : deepest;
        }
    }
    return deepest;
}

pst_status lang_adopt(struct lang_tree *t, const struct language *l, struct lang_node *n, struct lang_tree *from,
                      pst_error *reterr)
{
    void *scripts = t->scripts;
    if (t->count + from->count > LANG_MAX_NODES)
        return pst_fail(reterr, PST_ELIMIT, "%s has at most %d %ss", l->whole, LANG_MAX_NODES, l->one);
    if (settle(&from->top, 0) >= LANG_MAX_DEPTH)
        return pst_fail(reterr, PST_ELIMIT, "more than %d chains inside each other", LANG_MAX_DEPTH);
    if (mem_grow(&scripts, &t->script_capacity, t->script_count + from->script_count + 1, sizeof(*t->scripts)) < 0)
        return fail_memory(reterr, "building a pipeline");
    t->scripts = scripts;
    pst_status st = tree_push_child(n, reterr);
    if (st < 0)
        return st;
    settle(&from->top, t->script_count);
    for (size_t i = 0; i < from->script_count; i++)
        t->scripts[t->script_count++] = from->scripts[i];
    n->children[n->child_count - 1] = from->top;
    t->count += from->count;
    mem_free(from->scripts);
    *from = (struct lang_tree){0};
    return PST_OK;
}

/* The byte of `text` after `columns` characters. */
static size_t byte_of(const char *text, size_t length, size_t columns)
{
    size_t i = 0;
    for (; columns > 0 && i < length; columns--)
        do
            i++;
        while (i < length && ((unsigned char)text[i] & 0xc0) == 0x80);
    return i;
}

/* Whether the drawing shows the error's place in a text of this tree. */
static bool is_pointed(const struct lang_tree *t, const struct drawing *d, const pst_error *error)
{
    for (size_t i = 0; i < t->script_count; i++) {
        const struct script *s = &t->scripts[i];
        size_t length = strlen(s->text), at = (size_t)error->offset;
        if (error->offset > length)
            continue;
        pst_error again = {0};
        memcpy(again.message, error->message, d->at);
        script_draw(s, at, at + byte_of(s->text + at, length - at, d->carets), &again);
        if (strcmp(again.message, error->message) == 0)
            return true;
    }
    return false;
}

/* Finds the place that the drawing of an expression points at in the text of the node: the expression is a whole value there, or a line of one. */
static void find_place(const struct script *s, const struct lang_node *n, const struct drawing *d, size_t *begin, size_t *end)
{
    const char *last = s->text + n->end, *found = s->text + n->begin;
    while (d->length > 0 && (found = memmem(found + 1, (size_t)(last - found - 1), d->line, d->length)) != NULL) {
        const char *after = found + d->length;
        if ((!d->cut_left && !strchr(" \t\r\n='\"", found[-1])) || (!d->cut_right && after < last && !strchr(" \t\r\n'\"", *after)))
            continue;
        *begin = (size_t)(found - s->text) + byte_of(found, d->length, d->column);
        *end = (size_t)(found - s->text) + byte_of(found, d->length, d->column + d->carets);
        *end = *end > *begin ? *end : *begin + 1;
        return;
    }
}

void lang_point(const struct lang_tree *t, const struct lang_node *n, pst_error *reterr)
{
    if (!reterr || reterr->status == PST_ENOMEM || n->end <= n->begin || n->script >= t->script_count)
        return;
    const struct script *s = &t->scripts[n->script];
    size_t begin = n->begin, end = n->end;
    struct drawing d;
    bool drawn = reterr->offset != PST_NOWHERE && reterr->record == PST_NOWHERE && script_find_drawing(reterr->message, &d);
    if (drawn && is_pointed(t, &d, reterr))
        return; /* the innermost node shows the most */
    if (drawn) {
        find_place(s, n, &d, &begin, &end);
        reterr->message[d.at] = '\0';
    }
    if (drawn || (!reterr->path[0] && reterr->record == PST_NOWHERE && reterr->offset == PST_NOWHERE)) {
        pst_error given = *reterr;
        pst_fail_at(reterr, given.status, s->path, PST_NOWHERE, begin, "%s", given.message);
        memcpy(reterr->op, given.op, sizeof(reterr->op));
        reterr->sys_errno = given.sys_errno;
    }
    script_draw(s, begin, end, reterr);
}
