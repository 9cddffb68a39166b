/* canonical_text.c: nodes back to text. Two nodes that do the same have the same text, however they were written: parameters in the
 * order of the table, those at their default left out, numbers with the fewest digits that read back as the same. Words with
 * parentheses are quoted where those could open or close a child. */
#include "lang/parse.h"

#include "base/digits.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_float(struct text *t, double v)
{
    char digits[DIGITS_SIZE];
    text_add(t, digits_shortest(v, 1, digits));
}

static void write_bytes(struct text *t, uint64_t v)
{
    static const char units[] = "KMGT";
    size_t unit = 0;
    while (v && v % 1024 == 0 && unit < sizeof(units) - 1) {
        v /= 1024;
        unit++;
    }
    text_addf(t, "%" PRIu64, v);
    if (unit)
        text_add_n(t, &units[unit - 1], 1);
}

static void write_amount(struct text *t, const pst_amount *v)
{
    if (v->bytes == 0) {
        text_addf(t, "%" PRIu64, v->elements);
        return;
    }
    write_bytes(t, v->bytes);
    if (v->bytes % 1024)
        text_add(t, "B"); /* without a unit it would count elements */
}

static void write_choice(struct text *t, const pst_param *p, int choice, unsigned parens)
{
    int count = 0;
    while (p->choices && p->choices[count])
        count++;
    if (choice >= 0 && choice < count)
        word_write(t, p->choices[choice], WORD_FIRST | parens);
    else
        text_addf(t, "%d", choice); /* a config that was made by hand */
}

static void write_floats(struct text *t, const pst_floats *v)
{
    for (size_t i = 0; i < v->count; i++) {
        text_add(t, i ? "," : "");
        write_float(t, v->value[i]);
    }
    if (v->count == 0)
        text_add(t, "\"\"");
}

/* A single value; of a list, element `i`. `parens` is WORD_PARENS or 0. */
static void write_value(struct text *t, const pst_param *p, const void *config, size_t i, bool named, unsigned parens)
{
    const void *v = (const char *)config + p->offset;
    const char *string = p->kind == PST_PARAM_STRINGS  ? ((const pst_strings *)v)->value[i]
                         : p->kind == PST_PARAM_STRING ? *(const char *const *)v
                                                       : NULL;
    switch (p->kind) {
    case PST_PARAM_BOOL:
        text_add(t, *(const bool *)v ? "true" : "false");
        break;
    case PST_PARAM_INT:
        text_addf(t, "%" PRId64, *(const int64_t *)v);
        break;
    case PST_PARAM_UINT:
        text_addf(t, "%" PRIu64, *(const uint64_t *)v);
        break;
    case PST_PARAM_FLOAT:
        write_float(t, *(const double *)v);
        break;
    case PST_PARAM_CHOICE:
        write_choice(t, p, *(const int *)v, parens);
        break;
    case PST_PARAM_BYTES:
        write_bytes(t, *(const uint64_t *)v);
        break;
    case PST_PARAM_SIZE2D:
        text_addf(t, "%" PRIu32, ((const pst_size2d *)v)->width);
        if (((const pst_size2d *)v)->height)
            text_addf(t, "x%" PRIu32, ((const pst_size2d *)v)->height);
        break;
    case PST_PARAM_FLOATS:
        write_floats(t, v);
        break;
    case PST_PARAM_AMOUNT:
        write_amount(t, v);
        break;
    case PST_PARAM_STRING:
    case PST_PARAM_STRINGS:
        word_write(t, string ? string : "", (named ? 0 : WORD_FIRST) | parens);
        break;
    }
}

/* Every value of the parameter, each after a blank. */
static void write_param(struct text *t, const pst_param *p, const void *config, bool named, unsigned parens)
{
    bool list = p->kind == PST_PARAM_STRINGS;
    size_t count = list ? ((const pst_strings *)(const void *)((const char *)config + p->offset))->count : 1;
    for (size_t i = 0; i < count; i++) {
        text_add(t, " ");
        if (named)
            text_addf(t, "%s=", p->name);
        write_value(t, p, config, i, named, parens);
    }
}

static bool is_default(const pst_param *p, const void *config, const void *defaults, struct text *t)
{
    if (!p->fallback)
        return false;
    struct text own = {0}, fallback = {0};
    write_param(&own, p, config, true, 0);
    write_param(&fallback, p, defaults, true, 0);
    bool same = own.length == fallback.length && (own.length == 0 || memcmp(own.data, fallback.data, own.length) == 0);
    t->failed |= own.failed || fallback.failed;
    text_finish(&own);
    text_finish(&fallback);
    return same;
}

/* The parameters that must be given come first and without their names, as people write them: "batch 64". */
static void write_params(struct text *t, const struct lang_node *n, const void *defaults, unsigned parens)
{
    const pst_param *params = n->class.params;
    bool named = false;
    for (const pst_param *p = params; p && p->name; p++) {
        if (is_default(p, n->config, defaults, t)) {
            named = true; /* the place of the next is no longer that of its value */
            continue;
        }
        named |= p->fallback != NULL || (size_t)(p - params) >= n->class.positional;
        write_param(t, p, n->config, named, parens);
        named |= p->kind == PST_PARAM_STRINGS; /* it would take whatever follows */
    }
}

static void write_args(struct text *t, const struct lang_node *n, unsigned parens)
{
    struct arena strings;
    void *defaults = mem_zalloc(n->class.config_size);
    arena_init(&strings);
    t->failed |= !defaults || args_defaults(&n->class, defaults, &strings, NULL) == PST_ENOMEM;
    if (!t->failed)
        write_params(t, n, defaults, parens);
    arena_finish(&strings);
    mem_free(defaults);
}

static void write_node(struct text *t, const struct lang_node *n, bool inside);

static void write_chain(struct text *t, const struct lang_chain *c, bool inside)
{
    for (size_t i = 0; i < c->count && !t->failed; i++) {
        text_add(t, i ? " | " : "");
        write_node(t, c->nodes[i], inside);
    }
}

/* "residual( conv 16 3 | relu )( conv 16 1 )", "repeat 3 ( conv 16 3 )". */
static void write_node(struct text *t, const struct lang_node *n, bool inside)
{
    text_add(t, n->class.name);
    size_t name_end = t->length;
    write_args(t, n, inside || n->class.max_children > 0 ? WORD_PARENS : 0);
    for (size_t i = 0; i < n->child_count && !t->failed; i++) {
        text_add(t, i == 0 && t->length > name_end ? " ( " : "( ");
        write_chain(t, &n->children[i], true);
        text_add(t, n->children[i].count ? " )" : ")");
    }
}

static char *written(struct text *t)
{
    if (!t->failed)
        return t->data;
    text_finish(t);
    return NULL;
}

char *lang_text(const struct lang_node *n)
{
    struct text t = {0};
    write_node(&t, n, false);
    return written(&t);
}

char *lang_chain_text(const struct lang_chain *c)
{
    struct text t = {0};
    write_chain(&t, c, false);
    return written(&t);
}

char *lang_head(const struct lang_node *n)
{
    struct text t = {0};
    text_add(&t, n->class.name);
    write_args(&t, n, n->class.max_children > 0 ? WORD_PARENS : 0);
    return written(&t);
}
