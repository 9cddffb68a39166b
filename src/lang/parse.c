/* parse.c: from text to nodes. Words are taken apart in lexer.c and bound to parameters in args.c.
 *
 * A file is found relative to the one that includes it, and its parentheses are balanced within it: a ) at the top of a file
 * does not close what the including text opened. */
#include "base/error.h"
#include "base/memory.h"
#include "base/nearest.h"
#include "io/file.h"
#include "lang/parse.h"
#include "lang/lexer.h"

#include <stdio.h>
#include <string.h>

#define MAX_INCLUSIONS 16 /* files that include each other */
#define MAX_SCRIPT     ((size_t)1 << 20)
#define MAX_CLASSES    255 /* that suggestions are taken from */

#define NOWHERE SIZE_MAX /* no place in the text */

/* ---- Classes ---- */

static bool find_class(const struct language *l, const char *name, size_t length, struct lang_class *ret)
{
    for (size_t i = 0; l->at(i, ret); i++)
        if (strncmp(ret->name, name, length) == 0 && ret->name[length] == '\0')
            return true;
    return false;
}

static const char *nearest_class(const struct language *l, const char *name)
{
    const char *names[MAX_CLASSES + 1];
    struct lang_class class;
    size_t count = 0;
    for (; count < MAX_CLASSES && l->at(count, &class); count++)
        names[count] = class.name;
    names[count] = NULL;
    return text_nearest(name, names);
}

static pst_status fail_class(const struct language *l, const struct script *s, const struct word *w, pst_error *reterr)
{
    struct lang_class class;
    char name[41];
    size_t length = word_name_length(w->value);
    bool called = length > 0 && w->value[length] == '('; /* name(…), which not every class takes */
    snprintf(name, sizeof(name), "%.*s", called ? (int)(length < 40 ? length : 40) : 40, w->value);
    if (w->name || w->value[0] == '(')
        return script_fail(s, w->begin, w->end, PST_EINVAL, reterr, "the name of %s comes first, %s after it", l->a_one,
                           w->name ? "its arguments" : "its (");
    if (called && find_class(l, w->value, length, &class) && class.max_children == 0)
        return script_fail(s, w->begin, w->end, PST_EINVAL, reterr, "%s takes no ( ); write arguments after a blank",
                           class.name);
    const char *nearest = nearest_class(l, name);
    if (nearest)
        return script_fail(s, w->begin, w->end, PST_EINVAL, reterr, "there is no %s %s; did you mean %s?", l->one, name,
                           nearest);
    return script_fail(s, w->begin, w->end, PST_EINVAL, reterr, "there is no %s %s; %s", l->one, name, l->listing);
}

/* ---- Files ---- */

/* A file that is being read, and those that include it. */
struct inclusion {
    const struct inclusion *outer;
    char *path; /* absolute; owned */
    size_t depth;
};

/* Returns the path as the including file means it; mem_free. */
static char *resolve(const char *includer, const char *path)
{
    size_t folder = includer ? (size_t)(file_base(includer) - includer) : 0;
    return mem_format("%.*s%s", file_is_anchored(path) ? 0 : (int)folder, includer ? includer : "", path);
}

static pst_status check_inclusion(const struct inclusion *i, pst_error *reterr)
{
    if (i->depth > MAX_INCLUSIONS)
        return pst_fail(reterr, PST_ELIMIT, "more than %d files include each other", MAX_INCLUSIONS);
    for (const struct inclusion *outer = i->outer; outer; outer = outer->outer)
        if (strcmp(outer->path, i->path) == 0)
            return pst_fail(reterr, PST_EINVAL, "it includes itself through this file");
    return PST_OK;
}

/* Whether the path, as it is written, leads below the folder. */
static bool is_below(const char *folder, const char *path)
{
    size_t n = strlen(folder);
    if (n == 0 || strncmp(path, folder, n) != 0 || (folder[n - 1] != '/' && path[n] != '/'))
        return false;
    for (const char *s = strstr(path + n, ".."); s; s = strstr(s + 2, ".."))
        if ((s == path + n || s[-1] == '/') && (s[2] == '/' || s[2] == '\0'))
            return false;
    return true;
}

static pst_status load_file(struct lang_tree *t, const char *path, pst_error *reterr)
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
        return tree_push_script(t, (char *)text, kept, reterr);
    mem_free(text);
    mem_free(kept);
    return kept ? pst_fail(reterr, PST_EINVAL, "it has a NUL byte: it is not text") : fail_memory(reterr, "reading a file");
}

/* ---- Reading ---- */

struct reader {
    const struct language *language;
    struct lang_tree *tree;
    const struct inclusion *file; /* NULL: the text is not from a file */
    const char *below;            /* the folder whose files may be included; NULL: any */
    size_t number;                /* of the script */
    struct script script;
    bool single;    /* only one stage at the top */
    bool bare;      /* its children are added later */
    unsigned depth; /* parentheses around the stage, those around its file too */
    struct words words;
    struct arena memory; /* of the words of a stage */
    struct word *args;
    size_t count, capacity;
};

/* The chain that a stage belongs to. */
struct level {
    struct lang_chain *chain;
    size_t open; /* its ( ; NOWHERE: it is the whole text */
    size_t bar;  /* the | before the stage; NOWHERE: it is the first */
    bool empty;  /* it may have no stage */
};

static pst_status read_chain(struct reader *r, struct lang_chain *to, size_t open, bool empty, pst_error *reterr);

/* Reads the tree's last script, whose first stages go to `to`. */
static pst_status read_script(struct reader *r, struct lang_chain *to, pst_error *reterr)
{
    r->number = r->tree->script_count - 1;
    r->script = r->tree->scripts[r->number];
    r->words = (struct words){.script = &r->script, .memory = &r->memory};
    arena_init(&r->memory);
    pst_status st = read_chain(r, to, NOWHERE, false, reterr);
    mem_free(r->args);
    arena_finish(&r->memory);
    return st;
}

static pst_status include(struct reader *r, struct lang_chain *to, const struct word *w, pst_error *reterr)
{
    const char *name = w->value + 1;
    struct inclusion file = {.outer = r->file, .depth = r->file ? r->file->depth + 1 : 1};
    pst_error inner = {0};
    char *path = resolve(r->script.path, name);
    pst_status st = !path ? fail_memory(&inner, "naming the file")
                    : r->below && !is_below(r->below, path)
                        ? pst_fail(&inner, PST_EINVAL, "this text may not include files, or none of that folder")
                        : file_absolute(&file.path, path, &inner);
    if (st == PST_OK)
        st = check_inclusion(&file, &inner);
    if (st == PST_OK)
        st = load_file(r->tree, path, &inner);
    if (st < 0) {
        st = script_fail(&r->script, w->begin, w->end, st, reterr, "%.60s cannot be included: %s", name, inner.message);
    } else {
        struct reader included = {.language = r->language, .tree = r->tree, .file = &file, .below = r->below, .depth = r->depth};
        st = read_script(&included, to, reterr);
    }
    mem_free(file.path);
    mem_free(path);
    return st;
}

static pst_status read_args(struct reader *r, pst_error *reterr)
{
    pst_status st;
    for (;; r->count++) {
        void *args = r->args;
        if (mem_grow(&args, &r->capacity, r->count + 1, sizeof(*r->args)) < 0)
            return fail_memory(reterr, "reading the text");
        r->args = args;
        st = words_next(&r->words, &r->args[r->count], reterr);
        if (st != PST_OK)
            return st == PST_END ? PST_OK : st;
    }
}

static pst_status fail_children(const struct reader *r, const struct lang_class *c, size_t begin, size_t end, pst_error *reterr)
{
    char most[32] = "";
    if (c->max_children == LANG_ALL)
        snprintf(most, sizeof(most), " or more");
    else if (c->max_children > c->min_children)
        snprintf(most, sizeof(most), " to %zu", c->max_children);
    return script_fail(&r->script, begin, end, PST_EINVAL, reterr, "%s takes %zu%s chain%s in ( )", c->name, c->min_children,
                       most, c->max_children == 1 ? "" : "s");
}

static pst_status fail_unclosed(const struct reader *r, size_t open, pst_error *reterr)
{
    return script_fail(&r->script, open, open + 1, PST_EINVAL, reterr, "this ( is not closed");
}

/* Whether the last child may be empty: where its class allows that, and no other child is. */
static bool may_be_empty(const struct lang_node *n)
{
    for (size_t i = 0; i + 1 < n->child_count; i++)
        if (n->children[i].count == 0)
            return false;
    return n->class.empty_child;
}

/* Reads the chain in parentheses at the place of the reader, and goes to what follows it. */
static pst_status read_child(struct reader *r, const struct level *outer, struct lang_node *n, pst_error *reterr)
{
    size_t open = r->words.at;
    struct word w;
    if (n->child_count == n->class.max_children)
        return fail_children(r, &n->class, open, open + 1, reterr);
    if (r->depth == LANG_MAX_DEPTH)
        return script_fail(&r->script, open, open + 1, PST_ELIMIT, reterr, "more than %d ( ) inside each other",
                           LANG_MAX_DEPTH);
    pst_status st = tree_push_child(n, reterr);
    if (st < 0)
        return st;
    r->depth++;
    r->words.at = open + 1;
    st = read_chain(r, &n->children[n->child_count - 1], open, may_be_empty(n), reterr);
    r->depth--;
    if (st < 0)
        return st;
    r->words.at++;
    r->words.opens = true;
    r->words.inside = outer->open != NOWHERE;
    arena_reset(&r->memory);
    size_t after = r->words.at, named = 0;
    do {
        st = words_next(&r->words, &w, reterr);
        if (st == PST_OK && r->script.text[w.begin] == ')')
            return script_fail(&r->script, w.begin, w.begin + 1, PST_EINVAL, reterr, "this ) closes nothing");
        if (st == PST_OK && !w.name)
            return script_fail(&r->script, w.begin, w.end, PST_EINVAL, reterr,
                               "arguments of %s stand before its ( ), or after it as name=value", n->class.name);
        named += st == PST_OK;
    } while (st == PST_OK);
    if (st == PST_END && named > 0 && r->script.text[r->words.at] == '(')
        return script_fail(&r->script, r->words.at, r->words.at + 1, PST_EINVAL, reterr,
                           "all ( ) of %s stand together, without arguments between them", n->class.name);
    if (st == PST_END && named > 0)
        r->words.at = after; /* reread_args reads them */
    return st == PST_END ? PST_OK : st;
}

/* Reads the arguments of a class with children again, those after the children too: reading the children used their memory. */
static pst_status reread_args(struct reader *r, const struct level *l, const struct word *head, struct lang_node *n,
                              pst_error *reterr)
{
    struct words after = r->words;
    r->words.opens = true;
    r->words.inside = l->open != NOWHERE;
    r->words.at = head->end;
    arena_reset(&r->memory);
    r->count = 0;
    pst_status st = read_args(r, reterr);
    if (st == PST_OK && n->child_count > 0) {
        r->words.at = after.at;
        st = read_args(r, reterr);
    }
    return st;
}

static pst_status read_class(struct reader *r, const struct level *l, const struct lang_class *class, const struct word *head,
                             pst_error *reterr)
{
    pst_error inner = {0};
    pst_status st = tree_push(r->tree, r->language, l->chain, class, &inner);
    if (st < 0)
        return script_fail(&r->script, head->begin, head->end, st, reterr, "%s", inner.message);
    struct lang_node *n = l->chain->nodes[l->chain->count - 1];
    n->script = r->number;
    n->begin = head->begin;
    n->end = r->count ? r->args[r->count - 1].end : head->end;
    while (st == PST_OK && r->script.text[r->words.at] == '(')
        st = read_child(r, l, n, reterr);
    if (st == PST_OK && class->max_children > 0)
        st = reread_args(r, l, head, n, reterr);
    if (st == PST_OK)
        st = args_bind(n, &r->script, head, r->args, r->count, reterr);
    if (st == PST_OK && n->child_count < class->min_children && !r->bare)
        return fail_children(r, class, n->begin, n->end, reterr);
    return st;
}

/* A stage is missing: before the next | or ), or after the last |. */
static pst_status fail_empty(const struct reader *r, const struct level *l, pst_error *reterr)
{
    const char *a_one = r->language->a_one;
    size_t at = r->words.at;
    char c = r->script.text[at];
    if (c == '|')
        return script_fail(&r->script, at, at + 1, PST_EINVAL, reterr, "%s is missing before this", a_one);
    if (c == '\0' && l->open != NOWHERE)
        return fail_unclosed(r, l->open, reterr);
    if (l->bar != NOWHERE)
        return script_fail(&r->script, l->bar, l->bar + 1, PST_EINVAL, reterr, "%s is missing after this", a_one);
    if (l->open != NOWHERE)
        return script_fail(&r->script, l->open, at + 1, PST_EINVAL, reterr, "%s is missing between these", a_one);
    return script_fail(&r->script, 0, 0, PST_EINVAL, reterr, "there is no %s in the text", r->language->one);
}

static pst_status read_stage(struct reader *r, const struct level *l, pst_error *reterr)
{
    struct lang_class class = {0};
    struct word head;
    arena_reset(&r->memory);
    size_t name = words_peek_name(&r->words);
    const char *begin = r->script.text + r->words.at;
    r->words.inside = l->open != NOWHERE;
    r->words.opens = begin[name] == '(' && find_class(r->language, begin, name, &class) && class.max_children > 0;
    pst_status st = words_next(&r->words, &head, reterr);
    if (st == PST_END && l->empty && l->bar == NOWHERE && r->script.text[r->words.at] == ')')
        return PST_OK;
    if (st != PST_OK)
        return st == PST_END ? fail_empty(r, l, reterr) : st;
    bool file = *begin == '@';
    if (!file && (head.name || !find_class(r->language, head.value, strlen(head.value), &class)))
        return fail_class(r->language, &r->script, &head, reterr);
    r->words.opens = !file && class.max_children > 0;
    r->count = 0;
    st = read_args(r, reterr);
    if (st < 0)
        return st;
    if (!file)
        return read_class(r, l, &class, &head, reterr);
    if (r->count > 0)
        return script_fail(&r->script, r->args[0].begin, r->args[r->count - 1].end, PST_EINVAL, reterr,
                           "a file takes no arguments");
    return include(r, l->chain, &head, reterr);
}

/* Up to the end of the text, or to the ) that closes the ( at `open`. */
static pst_status read_chain(struct reader *r, struct lang_chain *to, size_t open, bool empty, pst_error *reterr)
{
    struct level l = {.chain = to, .open = open, .bar = NOWHERE, .empty = empty};
    for (;;) {
        pst_status st = read_stage(r, &l, reterr);
        if (st < 0)
            return st;
        size_t at = r->words.at;
        if (r->script.text[at] == '\0')
            return open == NOWHERE ? PST_OK : fail_unclosed(r, open, reterr);
        if (r->script.text[at] == ')')
            return PST_OK;
        if (r->single && open == NOWHERE)
            return script_fail(&r->script, at, at + 1, PST_EINVAL, reterr,
                               "one %s per call; quote | where it is part of a value", r->language->one);
        l.bar = at;
        r->words.at = at + 1;
    }
}

/* ---- From outside ---- */

/* Takes `text` and `path`. */
static pst_status read_from(struct reader *r, char *text, char *path, pst_error *reterr)
{
    struct lang_tree *t = r->tree;
    size_t nodes = t->top.count, scripts = t->script_count;
    pst_status st = tree_push_script(t, text, path, reterr);
    if (st == PST_OK)
        st = read_script(r, &t->top, reterr);
    if (st < 0)
        lang_cut(t, nodes, scripts);
    return st;
}

/* Takes `text`; NULL: out of memory. */
static pst_status read_text(struct lang_tree *t, const struct language *l, char *text, bool single, bool bare, pst_error *reterr)
{
    struct reader r = {.language = l, .tree = t, .single = single, .bare = bare};
    return read_from(&r, text, NULL, reterr);
}

pst_status lang_parse(struct lang_tree *t, const struct language *l, const char *text, pst_error *reterr)
{
    return read_text(t, l, mem_strdup(text), false, false, reterr);
}

pst_status lang_parse_below(struct lang_tree *t, const struct language *l, const char *text, const char *folder, pst_error *reterr)
{
    struct reader r = {.language = l, .tree = t, .below = folder};
    char *path = mem_format("%s/", folder);
    if (!path)
        return fail_memory(reterr, "reading the text");
    return read_from(&r, mem_strdup(text), path, reterr);
}

bool lang_may_include(const char *text)
{
    for (const char *s = strchr(text, '@'); s; s = strchr(s + 1, '@'))
        if (s == text || strchr(" \t\r\n\v\f|(", s[-1]))
            return true;
    return false;
}

static pst_status add_one(struct lang_tree *t, const struct language *l, const char *name, const char *args, bool bare,
                          pst_error *reterr)
{
    if (!word_is_name(name, strlen(name)))
        return pst_fail(reterr, PST_EINVAL, "\"%.40s\" is not the name of %s; %s", name, l->a_one, l->listing);
    return read_text(t, l, mem_format("%s%s%s", name, args ? " " : "", args ? args : ""), true, bare, reterr);
}

pst_status lang_add(struct lang_tree *t, const struct language *l, const char *name, const char *args, pst_error *reterr)
{
    return add_one(t, l, name, args, false, reterr);
}

pst_status lang_add_parent(struct lang_tree *t, const struct language *l, const char *name, const char *args, pst_error *reterr)
{
    return add_one(t, l, name, args, true, reterr);
}
