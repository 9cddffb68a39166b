/* canon.c: nodes back to text. Two nodes that do the same have the same text, however they were written: parameters in the
 * order of the table, those at their default left out, numbers with the fewest digits that read back as the same. */
#include "flow/args.h"

#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* snprintf writes the locale's decimal point; the language has its own. */
static void write_float(struct text *t, double v)
{
    char digits[64];
    size_t n = 0;
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, v);
        if (strtod(digits, NULL) == v)
            break;
    }
    for (const char *c = digits; *c; c++) {
        if (strchr("0123456789+-e", *c))
            digits[n++] = *c;
        else if (n == 0 || digits[n - 1] != '.')
            digits[n++] = '.';
    }
    text_add_n(t, digits, n);
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

static void write_choice(struct text *t, const pst_param *p, int choice)
{
    int count = 0;
    while (p->choices && p->choices[count])
        count++;
    if (choice >= 0 && choice < count)
        word_write(t, p->choices[choice], true);
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

/* A single value; of a list, element `i`. */
static void write_value(struct text *t, const pst_param *p, const void *config, size_t i, bool named)
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
        write_choice(t, p, *(const int *)v);
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
    case PST_PARAM_STRING:
    case PST_PARAM_STRINGS:
        word_write(t, string ? string : "", !named);
        break;
    }
}

/* Every value of the parameter, each behind a blank. */
static void write_param(struct text *t, const pst_param *p, const void *config, bool named)
{
    bool list = p->kind == PST_PARAM_STRINGS;
    size_t count = list ? ((const pst_strings *)(const void *)((const char *)config + p->offset))->count : 1;
    for (size_t i = 0; i < count; i++) {
        text_add(t, " ");
        if (named)
            text_addf(t, "%s=", p->name);
        write_value(t, p, config, i, named);
    }
}

static bool is_default(const pst_param *p, const void *config, const void *defaults, struct text *t)
{
    if (!p->fallback)
        return false;
    struct text own = {0}, fallback = {0};
    write_param(&own, p, config, true);
    write_param(&fallback, p, defaults, true);
    bool same = own.length == fallback.length && (own.length == 0 || memcmp(own.data, fallback.data, own.length) == 0);
    t->failed |= own.failed || fallback.failed;
    text_finish(&own);
    text_finish(&fallback);
    return same;
}

/* The parameters that must be given come first and without their names, as people write them: "batch 64". */
static void write_params(struct text *t, const struct node *n, const void *defaults)
{
    bool named = false;
    for (const pst_param *p = n->op->params; p && p->name; p++) {
        if (is_default(p, n->config, defaults, t)) {
            named = true; /* the place of the next is no longer that of its value */
            continue;
        }
        named |= p->fallback != NULL;
        write_param(t, p, n->config, named);
        named |= p->kind == PST_PARAM_STRINGS; /* it would take whatever follows */
    }
}

char *node_text(const struct node *n)
{
    struct text t = {0};
    struct arena strings;
    void *defaults = mem_zalloc(n->op->config_size);
    arena_init(&strings);
    t.failed = !defaults || args_defaults(n->op, defaults, &strings, NULL) == PST_ENOMEM;
    text_add(&t, n->op->name);
    if (n->config && !t.failed)
        write_params(&t, n, defaults);
    arena_finish(&strings);
    mem_free(defaults);
    if (!t.failed)
        return t.data;
    text_finish(&t);
    return NULL;
}
