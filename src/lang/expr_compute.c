/* expr_compute.c: computes expressions, a chunk of values at a time, so that each operator is a loop over arrays. */
#include "lang/expr.h"

#include "base/cast.h"
#include "base/error.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

union chunk {
    int64_t i[EXPR_CHUNK];
    double f[EXPR_CHUNK];
};

struct run {
    const struct expr *e;
    const pst_tensor *in;
};

static void compute(const struct run *r, const struct expr_node *n, size_t first, size_t count, union chunk *to);

static size_t values_of(const pst_tensor *t)
{
    size_t n = 1;
    for (uint32_t d = 0; d < t->rank; d++)
        n *= (size_t)t->shape[d];
    return n;
}

/* Values that the node has: those of its field, or 1. */
static size_t node_values(const struct run *r, const struct expr_node *n)
{
    return n->field == SIZE_MAX ? 1 : values_of(&r->in[n->field]);
}

/* ---- Bytes ---- */

static pst_bytes bytes_at(const struct run *r, const struct expr_node *n, size_t at)
{
    if (n->kind == EXPR_STRING)
        return n->string;
    return ((const pst_bytes *)r->in[n->number].data)[n->field == SIZE_MAX ? 0 : at];
}

static int compare_bytes(pst_bytes a, pst_bytes b)
{
    size_t n = a.length < b.length ? a.length : b.length;
    int order = n ? memcmp(a.data, b.data, n) : 0;
    return order ? order : a.length < b.length ? -1 : a.length > b.length;
}

/* Whether the character is one of those in [ ], which begins after the [; `*end` is the place after the ]. */
static bool in_class(const uint8_t *p, const uint8_t *pattern_end, uint8_t c, const uint8_t **end)
{
    bool negated = p < pattern_end && (*p == '!' || *p == '^'), found = false;
    p += negated;
    for (const uint8_t *begin = p; p < pattern_end && (*p != ']' || p == begin); p++) {
        if (p + 2 < pattern_end && p[1] == '-' && p[2] != ']') {
            found |= p[0] <= c && c <= p[2];
            p += 2;
        } else {
            found |= *p == c;
        }
    }
    *end = p < pattern_end ? p + 1 : p;
    return found != negated;
}

/* Whether the whole text is like the pattern with * ? [ ]. Goes back to the last * alone: no text takes longer than the product of
 * both lengths. */
static bool is_like(pst_bytes text, pst_bytes pattern)
{
    const uint8_t *t = text.data, *text_end = t + text.length, *p = pattern.data, *pattern_end = p + pattern.length;
    const uint8_t *star = NULL, *star_text = NULL, *next;
    while (t < text_end) {
        bool fits = false;
        next = p + 1;
        if (p < pattern_end && *p == '*') {
            star = ++p;
            star_text = t;
            continue;
        }
        if (p < pattern_end)
            fits = *p == '?' || (*p == '[' ? in_class(p + 1, pattern_end, *t, &next) : *p == *t);
        if (fits) {
            p = next;
            t++;
        } else if (star) {
            p = star;
            t = ++star_text;
        } else {
            return false;
        }
    }
    while (p < pattern_end && *p == '*')
        p++;
    return p == pattern_end;
}

static void compare_texts(const struct run *r, const struct expr_node *n, size_t first, size_t count, int64_t *to)
{
    const struct expr_node *l = &r->e->nodes[n->left], *o = &r->e->nodes[n->right];
    for (size_t k = 0; k < count; k++) {
        pst_bytes a = bytes_at(r, l, first + k), b = bytes_at(r, o, first + k);
        int order = n->kind == EXPR_MATCH ? 0 : compare_bytes(a, b);
        to[k] = n->kind == EXPR_MATCH ? is_like(a, b)
                : n->kind == EXPR_EQ  ? order == 0
                : n->kind == EXPR_NE  ? order != 0
                : n->kind == EXPR_LT  ? order < 0
                : n->kind == EXPR_LE  ? order <= 0
                : n->kind == EXPR_GT  ? order > 0
                                      : order >= 0;
    }
}

/* ---- Numbers ---- */

/* Computes a node as float64 or as int64, whatever its type. */
static void compute_as(const struct run *r, const struct expr_node *n, bool real, size_t first, size_t count, union chunk *to)
{
    bool single = n->field == SIZE_MAX;
    compute(r, n, single ? 0 : first, single ? 1 : count, to);
    if (real && n->type != EXPR_FLOAT)
        for (size_t k = 0; k < (single ? 1 : count); k++)
            to->f[k] = (double)to->i[k];
    for (size_t k = 1; single && k < count; k++)
        to->i[k] = to->i[0];
}

static int64_t floor_divide(int64_t a, int64_t b)
{
    if (b == 0 || b == -1) /* INT64_MIN / -1 wraps around; what is divided by 0 is 0 */
        return b ? (int64_t)(0 - (uint64_t)a) : 0;
    int64_t q = a / b;
    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t floor_modulo(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    int64_t m = a % b;
    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

#define EACH(value)                                                                                                            \
    do {                                                                                                                       \
        for (size_t k = 0; k < count; k++)                                                                                     \
            value;                                                                                                             \
    } while (0)

static void arithmetic_int(enum expr_kind kind, int64_t *a, const int64_t *b, size_t count)
{
    switch (kind) {
    case EXPR_ADD:
        EACH(a[k] = (int64_t)((uint64_t)a[k] + (uint64_t)b[k]));
        break;
    case EXPR_SUB:
        EACH(a[k] = (int64_t)((uint64_t)a[k] - (uint64_t)b[k]));
        break;
    case EXPR_MUL:
        EACH(a[k] = (int64_t)((uint64_t)a[k] * (uint64_t)b[k]));
        break;
    case EXPR_FLOOR_DIV:
        EACH(a[k] = floor_divide(a[k], b[k]));
        break;
    default:
        EACH(a[k] = floor_modulo(a[k], b[k]));
    }
}

static void arithmetic_float(enum expr_kind kind, double *a, const double *b, size_t count)
{
    switch (kind) {
    case EXPR_ADD:
        EACH(a[k] += b[k]);
        break;
    case EXPR_SUB:
        EACH(a[k] -= b[k]);
        break;
    case EXPR_MUL:
        EACH(a[k] *= b[k]);
        break;
    case EXPR_DIV:
        EACH(a[k] /= b[k]);
        break;
    case EXPR_FLOOR_DIV:
        EACH(a[k] = floor(a[k] / b[k]));
        break;
    case EXPR_MOD:
        EACH(a[k] -= b[k] * floor(a[k] / b[k]));
        break;
    default:
        EACH(a[k] = pow(a[k], b[k]));
    }
}

#define COMPARE(a, b)                                                                                                          \
    switch (kind) {                                                                                                            \
    case EXPR_EQ:                                                                                                              \
        EACH(to[k] = (a)[k] == (b)[k]);                                                                                        \
        break;                                                                                                                 \
    case EXPR_NE:                                                                                                              \
        EACH(to[k] = (a)[k] != (b)[k]);                                                                                        \
        break;                                                                                                                 \
    case EXPR_LT:                                                                                                              \
        EACH(to[k] = (a)[k] < (b)[k]);                                                                                         \
        break;                                                                                                                 \
    case EXPR_LE:                                                                                                              \
        EACH(to[k] = (a)[k] <= (b)[k]);                                                                                        \
        break;                                                                                                                 \
    case EXPR_GT:                                                                                                              \
        EACH(to[k] = (a)[k] > (b)[k]);                                                                                         \
        break;                                                                                                                 \
    default:                                                                                                                   \
        EACH(to[k] = (a)[k] >= (b)[k]);                                                                                        \
    }

static void compare_numbers(enum expr_kind kind, bool real, const union chunk *a, const union chunk *b, size_t count,
                            int64_t *to)
{
    if (real) {
        COMPARE(a->f, b->f)
    } else {
        COMPARE(a->i, b->i)
    }
}

static void compute_in(const struct run *r, const struct expr_node *n, size_t first, size_t count, union chunk *to)
{
    const struct expr_node *l = &r->e->nodes[n->left];
    union chunk value;
    if (l->type != EXPR_BYTES)
        compute_as(r, l, l->type == EXPR_FLOAT, first, count, &value);
    memset(to->i, 0, count * sizeof(*to->i));
    for (uint32_t i = n->right; i != EXPR_NONE; i = r->e->nodes[i].right) {
        const struct expr_node *item = &r->e->nodes[i];
        double real = item->kind == EXPR_REAL ? item->real : (double)item->number;
        for (size_t k = 0; k < count; k++) {
            if (l->type == EXPR_BYTES)
                to->i[k] |= compare_bytes(bytes_at(r, l, first + k), item->string) == 0;
            else if (l->type == EXPR_FLOAT || item->kind == EXPR_REAL)
                to->i[k] |= (l->type == EXPR_FLOAT ? value.f[k] : (double)value.i[k]) == real;
            else
                to->i[k] |= value.i[k] == item->number;
        }
    }
}

static void compute_pair(const struct run *r, const struct expr_node *n, size_t first, size_t count, union chunk *to)
{
    const struct expr_node *l = &r->e->nodes[n->left], *o = &r->e->nodes[n->right];
    bool compares = n->kind >= EXPR_EQ && n->kind <= EXPR_GE, logic = n->kind == EXPR_AND || n->kind == EXPR_OR;
    bool real = compares || logic ? l->type == EXPR_FLOAT || o->type == EXPR_FLOAT : n->type == EXPR_FLOAT;
    union chunk right;
    compute_as(r, l, real, first, count, to);
    compute_as(r, o, real, first, count, &right);
    if (compares) {
        compare_numbers(n->kind, real, to, &right, count, to->i);
    } else if (logic) {
        for (size_t k = 0; k < count; k++) {
            bool a = real ? to->f[k] != 0 : to->i[k] != 0, b = real ? right.f[k] != 0 : right.i[k] != 0;
            to->i[k] = n->kind == EXPR_AND ? a && b : a || b;
        }
    } else if (real) {
        arithmetic_float(n->kind, to->f, right.f, count);
    } else {
        arithmetic_int(n->kind, to->i, right.i, count);
    }
}

/* ---- Functions ---- */

/* The whole number in a float64; the nearest one where there is none. */
static int64_t to_int(double x)
{
    return x >= 9223372036854775807.0 ? INT64_MAX : x <= -9223372036854775808.0 ? INT64_MIN : x == x ? (int64_t)x : 0;
}

static void each_float(enum expr_function f, double *a, size_t count)
{
    for (size_t k = 0; k < count; k++)
        a[k] = f == EXPR_SQRT    ? sqrt(a[k])
               : f == EXPR_EXP   ? exp(a[k])
               : f == EXPR_LOG   ? log(a[k])
               : f == EXPR_FLOOR ? floor(a[k])
               : f == EXPR_CEIL  ? ceil(a[k])
               : f == EXPR_ROUND ? rint(a[k])
               : f == EXPR_ABS   ? fabs(a[k])
                                 : a[k];
}

/* One value from all values of the operand. */
static void reduce(const struct run *r, const struct expr_node *n, union chunk *to)
{
    const struct expr_node *of = &r->e->nodes[n->left];
    size_t values = node_values(r, of);
    bool real = of->type == EXPR_FLOAT || n->function == EXPR_MEAN, first = true;
    double sum = 0, least = INFINITY, most = -INFINITY;
    int64_t total = 0, low = INT64_MAX, high = INT64_MIN;
    bool any = false, all = true;
    union chunk part;
    for (size_t at = 0; at < values; at += EXPR_CHUNK) {
        size_t count = values - at < EXPR_CHUNK ? values - at : EXPR_CHUNK;
        compute_as(r, of, real, at, count, &part);
        for (size_t k = 0; k < count; k++, first = false) {
            bool set = real ? part.f[k] != 0 : part.i[k] != 0;
            any |= set;
            all &= set;
            if (real) {
                sum += part.f[k];
                least = part.f[k] < least ? part.f[k] : least;
                most = part.f[k] > most ? part.f[k] : most;
            } else {
                total = (int64_t)((uint64_t)total + (uint64_t)part.i[k]);
                low = part.i[k] < low ? part.i[k] : low;
                high = part.i[k] > high ? part.i[k] : high;
            }
        }
    }
    if (n->type == EXPR_BOOL)
        to->i[0] = n->function == EXPR_ANY ? any : all;
    else if (n->function == EXPR_LEN)
        to->i[0] = (int64_t)values;
    else if (n->type == EXPR_FLOAT)
        to->f[0] = n->function == EXPR_SUM     ? sum
                   : n->function == EXPR_MEAN  ? (values ? sum / (double)values : 0)
                   : first                     ? 0
                   : n->function == EXPR_LEAST ? least
                                               : most;
    else
        to->i[0] = n->function == EXPR_SUM ? total : first ? 0 : n->function == EXPR_LEAST ? low : high;
}

static void compute_function(const struct run *r, const struct expr_node *n, size_t first, size_t count, union chunk *to)
{
    const struct expr_node *l = &r->e->nodes[n->left];
    union chunk right;
    bool real = l->type == EXPR_FLOAT;
    if (n->function == EXPR_LEN && l->type == EXPR_BYTES) {
        EACH(to->i[k] = (int64_t)bytes_at(r, l, first + k).length);
    } else if (n->function >= EXPR_LEN) {
        reduce(r, n, to);
    } else if (n->function == EXPR_MIN || n->function == EXPR_MAX) {
        real = n->type == EXPR_FLOAT;
        compute_as(r, l, real, first, count, to);
        compute_as(r, &r->e->nodes[n->right], real, first, count, &right);
        bool least = n->function == EXPR_MIN;
        if (real)
            EACH(to->f[k] = (right.f[k] < to->f[k]) == least ? right.f[k] : to->f[k]);
        else
            EACH(to->i[k] = (right.i[k] < to->i[k]) == least ? right.i[k] : to->i[k]);
    } else if (n->type == EXPR_FLOAT) {
        compute_as(r, l, true, first, count, to);
        each_float(n->function, to->f, count);
    } else {
        compute_as(r, l, real, first, count, to);
        if (real)
            EACH(to->i[k] = to_int(to->f[k]));
        else if (n->function == EXPR_ABS)
            EACH(to->i[k] = to->i[k] < 0 ? (int64_t)(0 - (uint64_t)to->i[k]) : to->i[k]);
    }
}

/* ---- The whole ---- */

static void compute(const struct run *r, const struct expr_node *n, size_t first, size_t count, union chunk *to)
{
    const pst_tensor *t;
    switch (n->kind) {
    case EXPR_NUMBER:
        EACH(to->i[k] = n->number);
        return;
    case EXPR_REAL:
        EACH(to->f[k] = n->real);
        return;
    case EXPR_STRING:
        return;
    case EXPR_FIELD:
        t = &r->in[n->number];
        cast_values(to, n->type == EXPR_FLOAT ? PST_DTYPE_F64 : PST_DTYPE_I64,
                    (const uint8_t *)t->data + first * pst_dtype_size(t->dtype), t->dtype, count);
        return;
    case EXPR_NEG:
        compute_as(r, &r->e->nodes[n->left], n->type == EXPR_FLOAT, first, count, to);
        if (n->type == EXPR_FLOAT)
            EACH(to->f[k] = -to->f[k]);
        else
            EACH(to->i[k] = (int64_t)(0 - (uint64_t)to->i[k]));
        return;
    case EXPR_NOT:
        compute_as(r, &r->e->nodes[n->left], false, first, count, to);
        if (r->e->nodes[n->left].type == EXPR_FLOAT)
            EACH(to->i[k] = to->f[k] == 0);
        else
            EACH(to->i[k] = to->i[k] == 0);
        return;
    case EXPR_IN:
        compute_in(r, n, first, count, to);
        return;
    case EXPR_FUNCTION:
        compute_function(r, n, first, count, to);
        return;
    default:
        if (n->kind == EXPR_MATCH || r->e->nodes[n->left].type == EXPR_BYTES)
            compare_texts(r, n, first, count, to->i);
        else
            compute_pair(r, n, first, count, to);
    }
}

pst_status expr_check(const struct expr *e, const pst_tensor *in, size_t *ret_values, pst_error *reterr)
{
    const struct run r = {.e = e, .in = in};
    for (size_t i = 0; i < e->count; i++) {
        const struct expr_node *n = &e->nodes[i];
        if (n->kind < EXPR_NEG || n->field == SIZE_MAX || n->right == EXPR_NONE || n->kind == EXPR_IN || n->kind == EXPR_MATCH)
            continue;
        const struct expr_node *l = &e->nodes[n->left], *o = &e->nodes[n->right];
        size_t a = node_values(&r, l), b = node_values(&r, o);
        if (l->field != SIZE_MAX && o->field != SIZE_MAX && a != b)
            return pst_fail(reterr, PST_ETYPE, "`%.*s` has %zu values and `%.*s` has %zu in this element",
                            (int)(l->end - l->begin < 40 ? l->end - l->begin : 40), e->text + l->begin, a,
                            (int)(o->end - o->begin < 40 ? o->end - o->begin : 40), e->text + o->begin, b);
    }
    *ret_values = node_values(&r, &e->nodes[e->root]);
    return PST_OK;
}

pst_status expr_compute(const struct expr *e, const pst_tensor *in, size_t first, size_t count, void *to, pst_error *reterr)
{
    const struct run r = {.e = e, .in = in};
    union chunk values;
    (void)reterr;
    compute_as(&r, &e->nodes[e->root], e->nodes[e->root].type == EXPR_FLOAT, first, count, &values);
    memcpy(to, &values, count * 8);
    return PST_OK;
}
