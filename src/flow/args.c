/* args.c: text into typed, checked parameters. The same code reads defaults and what users write. */
#include "flow/args.h"

#include "base/text.h"
#include "io/number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- What is wrong ---- */

/* " of at least 1"; nothing where any number will do. */
static const char *range_text(const pst_param *p, char *buffer, size_t size)
{
    bool low = p->min > -INFINITY, high = p->max < INFINITY;
    if ((p->min == 0 && p->max == 0) || (!low && !high))
        return "";
    if (low && high)
        snprintf(buffer, size, " from %g to %.15g", p->min, p->max);
    else
        snprintf(buffer, size, " of at %s %.15g", low ? "least" : "most", low ? p->min : p->max);
    return buffer;
}

static bool in_range(const pst_param *p, double v)
{
    return (p->min == 0 && p->max == 0) || (v >= p->min && v <= p->max);
}

static pst_status fail_value(const pst_op_class *op, const pst_param *p, const char *value, const char *expected,
                             pst_error *reterr)
{
    char range[64];
    return pst_fail(reterr, PST_EINVAL, "%s: %s is %s%.40s%s; expected %s%s", op->name, p->name, value[0] ? "" : "empty", value,
                    strlen(value) > 40 ? "\xe2\x80\xa6" : "", expected, range_text(p, range, sizeof(range)));
}

static pst_status fail_memory(pst_error *reterr)
{
    return pst_fail(reterr, PST_ENOMEM, "reading arguments: out of memory");
}

/* "a, b, c" of names that end with NULL; what does not fit is an ellipsis. */
static void list_names(const char *const *names, char *buffer, size_t size)
{
    size_t n = 0;
    buffer[0] = '\0';
    for (; *names; names++) {
        if (n + strlen(*names) + sizeof(", \xe2\x80\xa6") + 2 > size) {
            snprintf(buffer + n, size - n, "%s\xe2\x80\xa6", n ? ", " : "");
            return;
        }
        n += (size_t)snprintf(buffer + n, size - n, "%s%s", n ? ", " : "", *names);
    }
}

/* ---- Values ---- */

static bool read_bool(const char *s, bool *ret)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1", NULL};
    for (size_t i = 0; words[i]; i++) {
        if (strcmp(s, words[i]) == 0) {
            *ret = i % 2;
            return true;
        }
    }
    return false;
}

static bool read_uint(const char *s, const char **ret_end, uint64_t *ret)
{
    uint64_t v = 0;
    const char *p = s;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    *ret = v;
    *ret_end = p;
    return p > s;
}

static bool read_int(const char *s, int64_t *ret)
{
    uint64_t v;
    const char *end;
    bool negative = *s == '-';
    if (!read_uint(s + negative, &end, &v) || *end || v > (uint64_t)INT64_MAX + negative)
        return false;
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* One number in front of `,` or the end. */
static bool read_float(const char *s, const char **ret_end, double *ret)
{
    size_t length = strcspn(s, ",");
    *ret_end = s + length;
    return strspn(s, "0123456789+-.eE") >= length && number_float(s, length, ret) && isfinite(*ret); /* no inf, no nan */
}

static pst_status set_float(const pst_op_class *op, const pst_param *p, const char *value, double *to, pst_error *reterr)
{
    const char *end;
    if (!read_float(value, &end, to) || *end || !in_range(p, *to))
        return fail_value(op, p, value, "a number", reterr);
    return PST_OK;
}

static pst_status set_floats(const pst_op_class *op, const pst_param *p, const char *value, pst_floats *to, pst_error *reterr)
{
    pst_floats v = {0};
    const char *at = value;
    for (bool more = *value; more; at++) {
        double *next = &v.value[v.count++];
        if (!read_float(at, &at, next) || !in_range(p, *next) || (*at && v.count == sizeof(v.value) / sizeof(v.value[0])))
            return fail_value(op, p, value, "up to 8 numbers as in 0.5,0.5,0.5", reterr);
        more = *at;
    }
    *to = v;
    return PST_OK;
}

static pst_status set_size2d(const pst_op_class *op, const pst_param *p, const char *value, pst_size2d *to, pst_error *reterr)
{
    uint64_t width, height = 0;
    const char *end;
    bool ok = read_uint(value, &end, &width) && width <= UINT32_MAX && in_range(p, (double)width);
    if (ok && *end == 'x')
        ok =
            read_uint(end + 1, &end, &height) && width > 0 && height > 0 && height <= UINT32_MAX && in_range(p, (double)height);
    if (!ok || *end)
        return fail_value(op, p, value, "a size such as 224 or 320x240 (width x height)", reterr);
    *to = (pst_size2d){.width = (uint32_t)width, .height = (uint32_t)height};
    return PST_OK;
}

static pst_status set_choice(const pst_op_class *op, const pst_param *p, const char *value, int *to, pst_error *reterr)
{
    char names[96];
    for (int i = 0; p->choices[i]; i++) {
        if (strcmp(value, p->choices[i]) == 0) {
            *to = i;
            return PST_OK;
        }
    }
    const char *nearest = text_nearest(value, p->choices);
    if (nearest)
        return pst_fail(reterr, PST_EINVAL, "%s: %s cannot be %.40s; did you mean %s?", op->name, p->name, value, nearest);
    list_names(p->choices, names, sizeof(names));
    return pst_fail(reterr, PST_EINVAL, "%s: %s cannot be %.40s; expected %s", op->name, p->name, value, names);
}

/* Appends to the list, whose room is the next power of two. */
static pst_status add_string(const char *value, pst_strings *to, struct arena *strings, pst_error *reterr)
{
    const char **list = (const char **)to->value;
    if ((to->count & (to->count - 1)) == 0) {
        list = to->count > SIZE_MAX / 2 / sizeof(*list) ? NULL
                                                        : arena_alloc(strings, (to->count ? 2 * to->count : 1) * sizeof(*list));
        if (list && to->count)
            memcpy(list, to->value, to->count * sizeof(*list));
    }
    const char *copy = list ? arena_strndup(strings, value, SIZE_MAX) : NULL;
    if (!copy)
        return fail_memory(reterr);
    list[to->count++] = copy;
    to->value = list;
    return PST_OK;
}

static pst_status set_string(const char *value, const char **to, struct arena *strings, pst_error *reterr)
{
    const char *copy = arena_strndup(strings, value, SIZE_MAX);
    if (!copy)
        return fail_memory(reterr);
    *to = copy;
    return PST_OK;
}

static pst_status set_value(const pst_op_class *op, const pst_param *p, const char *value, void *config, struct arena *strings,
                            pst_error *reterr)
{
    void *to = (char *)config + p->offset;
    const char *end;
    switch (p->kind) {
    case PST_PARAM_BOOL:
        return read_bool(value, to) ? PST_OK : fail_value(op, p, value, "true or false", reterr);
    case PST_PARAM_INT:
        if (read_int(value, to) && in_range(p, (double)*(int64_t *)to))
            return PST_OK;
        return fail_value(op, p, value, "a whole number", reterr);
    case PST_PARAM_UINT:
        if (read_uint(value, &end, to) && !*end && in_range(p, (double)*(uint64_t *)to))
            return PST_OK;
        return fail_value(op, p, value, p->max > 0 ? "a whole number" : "a whole number of 0 or more", reterr);
    case PST_PARAM_FLOAT:
        return set_float(op, p, value, to, reterr);
    case PST_PARAM_STRING:
        return set_string(value, to, strings, reterr);
    case PST_PARAM_CHOICE:
        return set_choice(op, p, value, to, reterr);
    case PST_PARAM_BYTES:
        if (text_parse_bytes(to, value, NULL) == PST_OK && in_range(p, (double)*(uint64_t *)to))
            return PST_OK;
        return fail_value(op, p, value, "a number of bytes such as 64M or 1.5GiB", reterr);
    case PST_PARAM_SIZE2D:
        return set_size2d(op, p, value, to, reterr);
    case PST_PARAM_FLOATS:
        return set_floats(op, p, value, to, reterr);
    case PST_PARAM_STRINGS:
        return add_string(value, to, strings, reterr);
    }
    return pst_fail(reterr, PST_EINVAL, "%s: parameter %s is of kind %d, which there is not", op->name, p->name, (int)p->kind);
}

pst_status args_defaults(const pst_op_class *op, void *config, struct arena *strings, pst_error *reterr)
{
    size_t count = 0;
    for (const pst_param *p = op->params; p && p->name; p++) {
        bool nothing = !p->fallback || (p->kind == PST_PARAM_STRINGS && p->fallback[0] == '\0');
        pst_status st = nothing ? PST_OK : set_value(op, p, p->fallback, config, strings, reterr);
        if (st < 0)
            return st;
        if (++count > ARGS_MAX_PARAMS)
            return pst_fail(reterr, PST_EINVAL, "%s has more than %d parameters", op->name, ARGS_MAX_PARAMS);
    }
    return PST_OK;
}

const pst_param *args_missing(const pst_op_class *op, uint64_t given)
{
    for (const pst_param *p = op->params; p && p->name; p++, given >>= 1)
        if (!p->fallback && !(given & 1))
            return p;
    return NULL;
}

/* ---- Binding ---- */

struct binding {
    struct node *node;
    const struct script *script;
    uint64_t given; /* parameters that have been set; bit i for parameter i */
    pst_error *reterr;
};

static size_t param_count(const pst_op_class *op)
{
    size_t n = 0;
    while (op->params && op->params[n].name)
        n++;
    return n;
}

static const pst_param *find_param(const pst_op_class *op, const char *name)
{
    for (const pst_param *p = op->params; p && p->name; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static pst_status fail_word(const struct binding *b, const struct word *w, const char *message)
{
    return script_fail(b->script, w->begin, w->end, PST_EINVAL, b->reterr, "%s", message);
}

static pst_status fail_param(const struct binding *b, const struct word *w)
{
    const pst_op_class *op = b->node->op;
    const char *names[ARGS_MAX_PARAMS + 1] = {NULL}, *nearest;
    char message[200], listed[96];
    for (size_t i = 0; i < param_count(op); i++)
        names[i] = op->params[i].name;
    nearest = text_nearest(w->name, names);
    list_names(names, listed, sizeof(listed));
    if (nearest)
        snprintf(message, sizeof(message), "%s has no parameter %.40s; did you mean %s?", op->name, w->name, nearest);
    else if (names[0])
        snprintf(message, sizeof(message), "%s has no parameter %.40s; it has %s", op->name, w->name, listed);
    else
        snprintf(message, sizeof(message), "%s takes no arguments", op->name);
    return script_fail(b->script, w->begin, w->value_begin - 1, PST_EINVAL, b->reterr, "%s", message);
}

static pst_status fail_surplus(const struct binding *b, const struct word *w, size_t params)
{
    char message[128];
    if (params == 0)
        snprintf(message, sizeof(message), "%s takes no arguments", b->node->op->name);
    else
        snprintf(message, sizeof(message), "%s takes %zu argument%s, this is one more", b->node->op->name, params,
                 params > 1 ? "s" : "");
    return fail_word(b, w, message);
}

static pst_status bind_word(struct binding *b, const pst_param *p, const struct word *w)
{
    struct node *n = b->node;
    uint64_t bit = UINT64_C(1) << (p - n->op->params);
    char message[128];
    pst_error inner = {0};
    if ((b->given & bit) && p->kind != PST_PARAM_STRINGS) {
        snprintf(message, sizeof(message), "%s: %s is given twice", n->op->name, p->name);
        return fail_word(b, w, message);
    }
    if (!(b->given & bit) && p->kind == PST_PARAM_STRINGS)
        *(pst_strings *)(void *)((char *)n->config + p->offset) = (pst_strings){0}; /* the first word replaces the default */
    b->given |= bit;
    pst_status st = set_value(n->op, p, w->value, n->config, n->strings, &inner);
    if (st == PST_OK)
        return PST_OK;
    const pst_param *meant = w->name ? NULL : find_param(n->op, w->value);
    if (st == PST_EINVAL && meant) {
        snprintf(message, sizeof(message), "%s: %s has no value; write %s=%s", n->op->name, meant->name, meant->name,
                 meant->kind == PST_PARAM_BOOL ? "true" : "\xe2\x80\xa6");
        return fail_word(b, w, message);
    }
    return script_fail(b->script, w->value_begin, w->end, st, b->reterr, "%s", inner.message);
}

/* Values without a name come first; a list takes all that are left. */
static pst_status bind_words(struct binding *b, const struct word *words, size_t count)
{
    const pst_op_class *op = b->node->op;
    size_t params = param_count(op), next = 0;
    bool named = false;
    for (size_t i = 0; i < count; i++) {
        const struct word *w = &words[i];
        const pst_param *p = w->name ? find_param(op, w->name) : next < params ? &op->params[next] : NULL;
        if (w->name && !p)
            return fail_param(b, w);
        if (!w->name && named)
            return fail_word(b, w, "a value without its name stands behind name=value; which parameter is it?");
        if (!p)
            return fail_surplus(b, w, params);
        pst_status st = bind_word(b, p, w);
        if (st < 0)
            return st;
        named |= w->name != NULL;
        next += p->kind != PST_PARAM_STRINGS;
    }
    return PST_OK;
}

pst_status args_bind(struct node *n, const struct script *s, const struct word *op_word, const struct word *words, size_t count,
                     pst_error *reterr)
{
    struct binding b = {.node = n, .script = s, .reterr = reterr};
    pst_error inner = {0};
    pst_status st = args_defaults(n->op, n->config, n->strings, &inner);
    if (st < 0)
        return script_fail(s, op_word->begin, op_word->end, st, reterr, "%s", inner.message);
    st = bind_words(&b, words, count);
    const pst_param *missing = st < 0 ? NULL : args_missing(n->op, b.given);
    if (missing)
        return script_fail(s, op_word->begin, op_word->end, PST_EINVAL, reterr, "%s: %s is missing: %.70s", n->op->name,
                           missing->name, missing->doc);
    return st;
}
