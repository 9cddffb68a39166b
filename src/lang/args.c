/* args.c: text into typed, checked parameters. The same code reads defaults and what users write. */
#include "lang/parse.h"

#include "base/digits.h"
#include "base/error.h"
#include "base/nearest.h"
#include "io/parse_number.h"

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
        digits_print(buffer, size, " from %g to %.15g", p->min, p->max);
    else
        digits_print(buffer, size, " of at %s %.15g", low ? "least" : "most", low ? p->min : p->max);
    return buffer;
}

static bool in_range(const pst_param *p, double v)
{
    return (p->min == 0 && p->max == 0) || (v >= p->min && v <= p->max);
}

static pst_status fail_value(const struct lang_class *class, const pst_param *p, const char *value, const char *expected,
                             pst_error *reterr)
{
    char range[64];
    return pst_fail(reterr, PST_EINVAL, "%s: %s is %s%.40s%s; expected %s%s", class->name, p->name, value[0] ? "" : "empty",
                    value, strlen(value) > 40 ? "\xe2\x80\xa6" : "", expected, range_text(p, range, sizeof(range)));
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

/* One number, up to `,` or the end. */
static bool read_float(const char *s, const char **ret_end, double *ret)
{
    size_t length = strcspn(s, ",");
    *ret_end = s + length;
    return strspn(s, "0123456789+-.eE") >= length && number_float(s, length, ret) && isfinite(*ret); /* no inf, no nan */
}

static pst_status set_float(const struct lang_class *class, const pst_param *p, const char *value, double *to,
                            pst_error *reterr)
{
    const char *end;
    if (!read_float(value, &end, to) || *end || !in_range(p, *to))
        return fail_value(class, p, value, "a number", reterr);
    return PST_OK;
}

static pst_status set_floats(const struct lang_class *class, const pst_param *p, const char *value, pst_floats *to,
                             pst_error *reterr)
{
    pst_floats v = {0};
    const char *at = value;
    for (bool more = *value; more; at++) {
        double *next = &v.value[v.count++];
        if (!read_float(at, &at, next) || !in_range(p, *next) || (*at && v.count == sizeof(v.value) / sizeof(v.value[0])))
            return fail_value(class, p, value, "up to 8 numbers as in 0.5,0.5,0.5", reterr);
        more = *at;
    }
    *to = v;
    return PST_OK;
}

static pst_status set_size2d(const struct lang_class *class, const pst_param *p, const char *value, pst_size2d *to,
                             pst_error *reterr)
{
    uint64_t width, height = 0;
    const char *end;
    bool ok = read_uint(value, &end, &width) && width <= UINT32_MAX && in_range(p, (double)width);
    if (ok && *end == 'x')
        ok =
            read_uint(end + 1, &end, &height) && width > 0 && height > 0 && height <= UINT32_MAX && in_range(p, (double)height);
    if (!ok || *end)
        return fail_value(class, p, value, "a size such as 224 or 320x240 (width x height)", reterr);
    *to = (pst_size2d){.width = (uint32_t)width, .height = (uint32_t)height};
    return PST_OK;
}

/* Digits alone count elements; bytes have a unit. */
static pst_status set_amount(const struct lang_class *class, const pst_param *p, const char *value, pst_amount *to,
                             pst_error *reterr)
{
    pst_amount v = {0};
    const char *end;
    bool digits = value[0] && value[strspn(value, "0123456789")] == '\0';
    bool ok = digits ? read_uint(value, &end, &v.elements) : text_parse_bytes(&v.bytes, value, NULL) == PST_OK;
    if (!ok || !in_range(p, (double)(v.bytes ? v.bytes : v.elements)))
        return fail_value(class, p, value, "a number of elements such as 1000, or of bytes such as 64M or 1.5GiB", reterr);
    *to = v;
    return PST_OK;
}

static pst_status set_choice(const struct lang_class *class, const pst_param *p, const char *value, int *to, pst_error *reterr)
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
        return pst_fail(reterr, PST_EINVAL, "%s: %s cannot be %.40s; did you mean %s?", class->name, p->name, value, nearest);
    list_names(p->choices, names, sizeof(names));
    return pst_fail(reterr, PST_EINVAL, "%s: %s cannot be %.40s; expected %s", class->name, p->name, value, names);
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
        return fail_memory(reterr, "reading arguments");
    list[to->count++] = copy;
    to->value = list;
    return PST_OK;
}

static pst_status set_string(const char *value, const char **to, struct arena *strings, pst_error *reterr)
{
    const char *copy = arena_strndup(strings, value, SIZE_MAX);
    if (!copy)
        return fail_memory(reterr, "reading arguments");
    *to = copy;
    return PST_OK;
}

static pst_status set_value(const struct lang_class *class, const pst_param *p, const char *value, void *config,
                            struct arena *strings, pst_error *reterr)
{
    void *to = (char *)config + p->offset;
    const char *end;
    switch (p->kind) {
    case PST_PARAM_BOOL:
        return read_bool(value, to) ? PST_OK : fail_value(class, p, value, "true or false", reterr);
    case PST_PARAM_INT:
        if (read_int(value, to) && in_range(p, (double)*(int64_t *)to))
            return PST_OK;
        return fail_value(class, p, value, "a whole number", reterr);
    case PST_PARAM_UINT:
        if (read_uint(value, &end, to) && !*end && in_range(p, (double)*(uint64_t *)to))
            return PST_OK;
        return fail_value(class, p, value, p->max > 0 ? "a whole number" : "a whole number of 0 or more", reterr);
    case PST_PARAM_FLOAT:
        return set_float(class, p, value, to, reterr);
    case PST_PARAM_STRING:
        return set_string(value, to, strings, reterr);
    case PST_PARAM_CHOICE:
        return set_choice(class, p, value, to, reterr);
    case PST_PARAM_BYTES:
        if (text_parse_bytes(to, value, NULL) == PST_OK && in_range(p, (double)*(uint64_t *)to))
            return PST_OK;
        return fail_value(class, p, value, "a number of bytes such as 64M or 1.5GiB", reterr);
    case PST_PARAM_SIZE2D:
        return set_size2d(class, p, value, to, reterr);
    case PST_PARAM_FLOATS:
        return set_floats(class, p, value, to, reterr);
    case PST_PARAM_STRINGS:
        return add_string(value, to, strings, reterr);
    case PST_PARAM_AMOUNT:
        return set_amount(class, p, value, to, reterr);
    }
    return pst_fail(reterr, PST_EINVAL, "%s: parameter %s has the unknown kind %d", class->name, p->name, (int)p->kind);
}

pst_status args_defaults(const struct lang_class *class, void *config, struct arena *strings, pst_error *reterr)
{
    size_t count = 0;
    for (const pst_param *p = class->params; p && p->name; p++) {
        bool nothing = !p->fallback || (p->kind == PST_PARAM_STRINGS && p->fallback[0] == '\0');
        pst_status st = nothing ? PST_OK : set_value(class, p, p->fallback, config, strings, reterr);
        if (st < 0)
            return st;
        if (++count > ARGS_MAX_PARAMS)
            return pst_fail(reterr, PST_EINVAL, "%s has more than %d parameters", class->name, ARGS_MAX_PARAMS);
    }
    return PST_OK;
}

const pst_param *args_missing(const struct lang_class *class, uint64_t given)
{
    for (const pst_param *p = class->params; p && p->name; p++, given >>= 1)
        if (!p->fallback && !(given & 1))
            return p;
    return NULL;
}

/* ---- Binding ---- */

struct binding {
    struct lang_node *node;
    const struct script *script;
    uint64_t given; /* parameters that have been set; bit i for parameter i */
    pst_error *reterr;
};

static size_t param_count(const struct lang_class *class)
{
    size_t n = 0;
    while (class->params && class->params[n].name)
        n++;
    return n;
}

static const pst_param *find_param(const struct lang_class *class, const char *name)
{
    for (const pst_param *p = class->params; p && p->name; p++)
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
    const struct lang_class *class = &b->node->class;
    const char *names[ARGS_MAX_PARAMS + 1] = {NULL}, *nearest;
    char message[200], listed[96];
    for (size_t i = 0; i < param_count(class); i++)
        names[i] = class->params[i].name;
    nearest = text_nearest(w->name, names);
    list_names(names, listed, sizeof(listed));
    if (nearest)
        snprintf(message, sizeof(message), "%s has no parameter %.40s; did you mean %s?", class->name, w->name, nearest);
    else if (names[0])
        snprintf(message, sizeof(message), "%s has no parameter %.40s; it has %s", class->name, w->name, listed);
    else
        snprintf(message, sizeof(message), "%s takes no arguments", class->name);
    return script_fail(b->script, w->begin, w->value_begin - 1, PST_EINVAL, b->reterr, "%s", message);
}

static pst_status fail_surplus(const struct binding *b, const struct word *w, size_t params, size_t places)
{
    const char *name = b->node->class.name;
    char message[128];
    if (params == 0)
        snprintf(message, sizeof(message), "%s takes no arguments", name);
    else if (places < params)
        snprintf(message, sizeof(message), "%s takes %zu value%s without a name, this is one more; write name=value", name,
                 places, places == 1 ? "" : "s");
    else
        snprintf(message, sizeof(message), "%s takes %zu argument%s, this is one more", name, params, params > 1 ? "s" : "");
    return fail_word(b, w, message);
}

static pst_status bind_word(struct binding *b, const pst_param *p, const struct word *w)
{
    struct lang_node *n = b->node;
    uint64_t bit = UINT64_C(1) << (p - n->class.params);
    char message[128];
    pst_error inner = {0};
    if ((b->given & bit) && p->kind != PST_PARAM_STRINGS) {
        snprintf(message, sizeof(message), "%s: %s is given twice", n->class.name, p->name);
        return fail_word(b, w, message);
    }
    if (!(b->given & bit) && p->kind == PST_PARAM_STRINGS)
        *(pst_strings *)(void *)((char *)n->config + p->offset) = (pst_strings){0}; /* the first word replaces the default */
    b->given |= bit;
    pst_status st = set_value(&n->class, p, w->value, n->config, &n->strings, &inner);
    if (st == PST_OK)
        return PST_OK;
    const pst_param *meant = w->name ? NULL : find_param(&n->class, w->value);
    if (st == PST_EINVAL && meant) {
        snprintf(message, sizeof(message), "%s: %s has no value; write %s=%s", n->class.name, meant->name, meant->name,
                 meant->kind == PST_PARAM_BOOL ? "true" : "\xe2\x80\xa6");
        return fail_word(b, w, message);
    }
    return script_fail(b->script, w->value_begin, w->end, st, b->reterr, "%s", inner.message);
}

/* Returns the parameter that can only be meant by a word after name=value: the word is one of its choices, as in
 * `conv 16 3 pad=same relu`. */
static const pst_param *param_of_choice(const struct binding *b, const char *value, size_t places)
{
    for (size_t i = 0; i < places; i++) {
        const pst_param *p = &b->node->class.params[i];
        for (int k = 0; p->kind == PST_PARAM_CHOICE && !(b->given >> i & 1) && p->choices[k]; k++)
            if (strcmp(value, p->choices[k]) == 0)
                return p;
    }
    return NULL;
}

/* Values without a name come first, except words that name a choice; a list takes all that are left. */
static pst_status bind_words(struct binding *b, const struct word *words, size_t count)
{
    const struct lang_class *class = &b->node->class;
    size_t params = param_count(class), next = 0;
    size_t places = class->positional < params ? class->positional : params;
    bool named = false;
    for (size_t i = 0; i < count; i++) {
        const struct word *w = &words[i];
        const pst_param *p = w->name ? find_param(class, w->name) : next < places ? &class->params[next] : NULL;
        if (w->name && !p)
            return fail_param(b, w);
        if (!w->name && named)
            p = param_of_choice(b, w->value, places);
        if (!w->name && named && !p)
            return fail_word(b, w, "a value without a name follows name=value; which parameter is it?");
        if (!p)
            return fail_surplus(b, w, params, places);
        pst_status st = bind_word(b, p, w);
        if (st < 0)
            return st;
        named |= w->name != NULL;
        next += p->kind != PST_PARAM_STRINGS;
    }
    return PST_OK;
}

pst_status args_bind(struct lang_node *n, const struct script *s, const struct word *head, const struct word *words,
                     size_t count, pst_error *reterr)
{
    struct binding b = {.node = n, .script = s, .reterr = reterr};
    pst_error inner = {0};
    pst_status st = args_defaults(&n->class, n->config, &n->strings, &inner);
    if (st < 0)
        return script_fail(s, head->begin, head->end, st, reterr, "%s", inner.message);
    st = bind_words(&b, words, count);
    const pst_param *missing = st < 0 ? NULL : args_missing(&n->class, b.given);
    if (missing)
        return script_fail(s, head->begin, head->end, PST_EINVAL, reterr, "%s: %s is missing: %.70s", n->class.name,
                           missing->name, missing->doc);
    return st;
}
