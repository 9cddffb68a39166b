/* chain.c: from text, or call by call, to the list of nodes.
 *
 *   pipeline  = stage { "|" stage }
 *   stage     = "@" file | operation { value } { name "=" value }
 *
 * Words are taken apart in words.c and bound to parameters in args.c. A file is found relative to the one that includes it. */
#include "flow/node.h"

#include "base/memory.h"
#include "base/text.h"
#include "flow/args.h"
#include "flow/words.h"
#include "io/file.h"

#include <stdio.h>
#include <string.h>

#define MAX_DEPTH  16 /* files that include each other */
#define MAX_SCRIPT ((size_t)1 << 20)

/* ---- Nodes and scripts ---- */

static void node_finish(struct node *n)
{
    if (n->strings)
        arena_finish(n->strings);
    mem_free(n->strings);
    mem_free(n->config);
}

/* Back to what it was when it had so many. */
static void cut(struct chain *c, size_t nodes, size_t scripts)
{
    while (c->count > nodes)
        node_finish(&c->nodes[--c->count]);
    while (c->script_count > scripts) {
        struct script *s = &c->scripts[--c->script_count];
        mem_free(s->text);
        mem_free(s->path);
    }
}

void chain_finish(struct chain *c)
{
    cut(c, 0, 0);
    mem_free(c->nodes);
    mem_free(c->scripts);
    *c = (struct chain){0};
}

static pst_status fail_memory(pst_error *reterr)
{
    return pst_fail(reterr, PST_ENOMEM, "building a pipeline: out of memory");
}

/* A new last node with a zeroed config. */
static pst_status push_node(struct chain *c, const pst_op_class *op, pst_error *reterr)
{
    void *nodes = c->nodes;
    if (c->count == CHAIN_MAX_NODES)
        return pst_fail(reterr, PST_ELIMIT, "a pipeline has at most %d operations", CHAIN_MAX_NODES);
    if (mem_grow(&nodes, &c->capacity, c->count + 1, sizeof(*c->nodes)) < 0)
        return fail_memory(reterr);
    c->nodes = nodes;
    struct node *n = &c->nodes[c->count];
    *n = (struct node){.op = op, .kind = pst_op_kind_of(op), .ordinal = (uint32_t)c->count};
    c->count++;
    n->config = mem_zalloc(op->config_size);
    n->strings = mem_zalloc(sizeof(*n->strings));
    if (!n->config || !n->strings)
        return fail_memory(reterr);
    arena_init(n->strings);
    return PST_OK;
}

/* Takes `text` and `path`, also on failure; either may be NULL for want of memory. */
static pst_status push_script(struct chain *c, char *text, char *path, pst_error *reterr)
{
    void *scripts = c->scripts;
    if (!text || mem_grow(&scripts, &c->script_capacity, c->script_count + 1, sizeof(*c->scripts)) < 0) {
        mem_free(text);
        mem_free(path);
        return fail_memory(reterr);
    }
    c->scripts = scripts;
    c->scripts[c->script_count++] = (struct script){.text = text, .path = path};
    return PST_OK;
}

/* ---- Files ---- */

/* A file that is being read, and those that include it. */
struct inclusion {
    const struct inclusion *outer;
    char *path; /* absolute; owned */
    size_t depth;
};

/* The path as the including file means it; mem_free. */
static char *resolve(const char *includer, const char *path)
{
    size_t folder = includer ? (size_t)(file_base(includer) - includer) : 0;
    return mem_format("%.*s%s", path[0] == '/' ? 0 : (int)folder, includer ? includer : "", path);
}

static pst_status check_inclusion(const struct inclusion *i, pst_error *reterr)
{
    if (i->depth > MAX_DEPTH)
        return pst_fail(reterr, PST_ELIMIT, "more than %d files include each other", MAX_DEPTH);
    for (const struct inclusion *outer = i->outer; outer; outer = outer->outer)
        if (strcmp(outer->path, i->path) == 0)
            return pst_fail(reterr, PST_EINVAL, "it includes itself, by way of this");
    return PST_OK;
}

static pst_status load_file(struct chain *c, const char *path, pst_error *reterr)
{
    struct file_info info = {0};
    uint8_t *text = NULL;
    size_t length = 0;
    pst_status st = file_stat(path, &info, reterr);
    if (st == PST_OK && !info.is_regular) /* a pipe could keep us waiting for ever */
        return pst_fail(reterr, PST_EINVAL, "it is not a regular file");
    if (st == PST_OK)
        st = file_read_all(&text, &length, path, MAX_SCRIPT, reterr);
    if (st < 0)
        return st;
    char *kept = mem_strdup(path);
    if (kept && !memchr(text, '\0', length))
        return push_script(c, (char *)text, kept, reterr);
    mem_free(text);
    mem_free(kept);
    return kept ? pst_fail(reterr, PST_EINVAL, "it has a NUL byte: it is not text") : fail_memory(reterr);
}

/* ---- Reading ---- */

struct reader {
    struct chain *chain;
    const struct inclusion *inside; /* NULL: not in a file */
    size_t number;                  /* of the script */
    struct script script;
    struct words words;
    struct arena memory; /* of the words of a stage */
    struct word *args;
    size_t count, capacity;
    size_t bar; /* in front of the stage */
};

#define NO_BAR SIZE_MAX

static pst_status read_script(struct chain *c, const struct inclusion *inside, bool single, pst_error *reterr);

static pst_status include(struct reader *r, const struct word *w, pst_error *reterr)
{
    const char *name = w->value + 1;
    struct inclusion inside = {.outer = r->inside, .depth = r->inside ? r->inside->depth + 1 : 1};
    pst_error inner = {0};
    char *path = resolve(r->script.path, name);
    pst_status st = path ? file_absolute(&inside.path, path, &inner) : fail_memory(&inner);
    if (st == PST_OK)
        st = check_inclusion(&inside, &inner);
    if (st == PST_OK)
        st = load_file(r->chain, path, &inner);
    if (st < 0)
        st = script_fail(&r->script, w->begin, w->end, st, reterr, "%.60s cannot be included: %s", name, inner.message);
    else
        st = read_script(r->chain, &inside, false, reterr);
    mem_free(inside.path);
    mem_free(path);
    return st;
}

static pst_status fail_operation(const struct script *s, const struct word *w, pst_error *reterr)
{
    const char *names[256], *nearest;
    size_t count = 0;
    if (w->name)
        return script_fail(s, w->begin, w->end, PST_EINVAL, reterr,
                           "the name of an operation comes first, its arguments behind it");
    for (; count < 255 && pst_op_at(count); count++)
        names[count] = pst_op_at(count)->name;
    names[count] = NULL;
    nearest = text_nearest(w->value, names);
    if (nearest)
        return script_fail(s, w->begin, w->end, PST_EINVAL, reterr, "there is no operation %.40s; did you mean %s?", w->value,
                           nearest);
    return script_fail(s, w->begin, w->end, PST_EINVAL, reterr, "there is no operation %.40s; `penstock ops` lists them",
                       w->value);
}

static pst_status read_args(struct reader *r, pst_error *reterr)
{
    pst_status st;
    for (r->count = 0;; r->count++) {
        void *args = r->args;
        if (mem_grow(&args, &r->capacity, r->count + 1, sizeof(*r->args)) < 0)
            return fail_memory(reterr);
        r->args = args;
        st = words_next(&r->words, &r->args[r->count], reterr);
        if (st != PST_OK)
            return st == PST_END ? PST_OK : st;
    }
}

static pst_status read_operation(struct reader *r, const struct word *w, pst_error *reterr)
{
    const pst_op_class *op = w->name ? NULL : pst_op_find(w->value);
    if (!op)
        return fail_operation(&r->script, w, reterr);
    pst_error inner = {0};
    pst_status st = push_node(r->chain, op, &inner);
    if (st < 0)
        return script_fail(&r->script, w->begin, w->end, st, reterr, "%s", inner.message);
    struct node *n = &r->chain->nodes[r->chain->count - 1];
    n->script = r->number;
    n->text_begin = w->begin;
    n->text_end = r->count ? r->args[r->count - 1].end : w->end;
    return args_bind(n, &r->script, w, r->args, r->count, reterr);
}

/* An operation is missing: in front of the next | or behind the last one. */
static pst_status fail_empty(const struct reader *r, pst_error *reterr)
{
    size_t at = r->words.at;
    if (r->script.text[at] == '|')
        return script_fail(&r->script, at, at + 1, PST_EINVAL, reterr, "an operation is missing in front of this");
    if (r->bar == NO_BAR)
        return script_fail(&r->script, 0, 0, PST_EINVAL, reterr, "there is no operation in the text");
    return script_fail(&r->script, r->bar, r->bar + 1, PST_EINVAL, reterr, "an operation is missing behind this");
}

static pst_status read_stage(struct reader *r, pst_error *reterr)
{
    struct word w;
    arena_reset(&r->memory);
    pst_status st = words_next(&r->words, &w, reterr);
    if (st == PST_END)
        return fail_empty(r, reterr);
    if (st == PST_OK)
        st = read_args(r, reterr);
    if (st < 0)
        return st;
    if (r->script.text[w.begin] != '@')
        return read_operation(r, &w, reterr);
    if (r->count > 0)
        return script_fail(&r->script, r->args[0].begin, r->args[r->count - 1].end, PST_EINVAL, reterr,
                           "a file takes no arguments");
    return include(r, &w, reterr);
}

/* Reads the chain's last script. */
static pst_status read_script(struct chain *c, const struct inclusion *inside, bool single, pst_error *reterr)
{
    struct reader r = {.chain = c, .inside = inside, .number = c->script_count - 1, .bar = NO_BAR};
    pst_status st;
    r.script = c->scripts[r.number];
    r.words = (struct words){.script = &r.script, .memory = &r.memory};
    arena_init(&r.memory);
    for (;;) {
        st = read_stage(&r, reterr);
        if (st < 0 || r.script.text[r.words.at] == '\0')
            break;
        if (single) {
            st = script_fail(&r.script, r.words.at, r.words.at + 1, PST_EINVAL, reterr,
                             "one operation a call; quote | where it is part of a value");
            break;
        }
        r.bar = r.words.at++;
    }
    mem_free(r.args);
    arena_finish(&r.memory);
    return st;
}

/* ---- From outside ---- */

/* Takes `text`; NULL: out of memory. */
static pst_status read_text(struct chain *c, char *text, bool single, pst_error *reterr)
{
    size_t nodes = c->count, scripts = c->script_count;
    pst_status st = push_script(c, text, NULL, reterr);
    if (st == PST_OK)
        st = read_script(c, NULL, single, reterr);
    if (st < 0)
        cut(c, nodes, scripts);
    return st;
}

pst_status chain_parse(struct chain *c, const char *text, pst_error *reterr)
{
    return read_text(c, mem_strdup(text), false, reterr);
}

pst_status chain_add(struct chain *c, const char *op, const char *args, pst_error *reterr)
{
    if (!word_is_name(op, strlen(op)))
        return pst_fail(reterr, PST_EINVAL, "\"%.40s\" is not the name of an operation; `penstock ops` lists them", op);
    return read_text(c, mem_format("%s%s%s", op, args ? " " : "", args ? args : ""), true, reterr);
}

pst_status chain_add_class(struct chain *c, const pst_op_class *op, const void *config, pst_error *reterr)
{
    size_t nodes = c->count;
    if (op->abi != PST_OP_ABI)
        return pst_fail(reterr, PST_EINVAL, "an operation of version %u; this library has version %d", op->abi, PST_OP_ABI);
    if (!op->name || !word_is_name(op->name, strlen(op->name)))
        return pst_fail(reterr, PST_EINVAL, "an operation's name has letters, digits and _; \"%.40s\" will not do",
                        op->name ? op->name : "");
    pst_status st = push_node(c, op, reterr);
    if (st == PST_OK && config)
        memcpy(c->nodes[nodes].config, config, op->config_size);
    else if (st == PST_OK)
        st = args_defaults(op, c->nodes[nodes].config, c->nodes[nodes].strings, reterr);
    const pst_param *missing = config ? NULL : args_missing(op, 0);
    if (st == PST_OK && missing)
        st = pst_fail(reterr, PST_EINVAL, "%s: %s is missing: %s", op->name, missing->name, missing->doc);
    if (st < 0)
        cut(c, nodes, c->script_count);
    return st;
}

void node_point(const struct chain *c, const struct node *n, pst_error *reterr)
{
    if (!reterr || reterr->status == PST_ENOMEM || n->text_end <= n->text_begin || n->script >= c->script_count)
        return;
    const struct script *s = &c->scripts[n->script];
    if (!reterr->path[0] && reterr->record == PST_NOWHERE && reterr->offset == PST_NOWHERE) {
        pst_error told = *reterr;
        pst_fail_at(reterr, told.status, s->path, PST_NOWHERE, n->text_begin, "%s", told.message);
        memcpy(reterr->op, told.op, sizeof(reterr->op));
        reterr->sys_errno = told.sys_errno;
    }
    script_draw(s, n->text_begin, n->text_end, reterr);
}
