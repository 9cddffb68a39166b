/* expr.c: expressions from text to nodes, and their types. */
#include "lang/expr.h"

#include "base/error.h"
#include "base/text.h"
#include "io/parse_number.h"
#include "lang/script.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Reading ---- */

struct reader {
    struct expr *e;
    struct script script;
    size_t at;
    unsigned depth;
    pst_error *reterr;
};

static const struct function {
    const char *name;
    unsigned args;
} functions[EXPR_FUNCTIONS] = {
    [EXPR_ABS] = {"abs", 1},       [EXPR_SQRT] = {"sqrt", 1},   [EXPR_EXP] = {"exp", 1},     [EXPR_LOG] = {"log", 1},
    [EXPR_FLOOR] = {"floor", 1},   [EXPR_CEIL] = {"ceil", 1},   [EXPR_ROUND] = {"round", 1}, [EXPR_INT_OF] = {"int", 1},
    [EXPR_FLOAT_OF] = {"float", 1}, [EXPR_MIN] = {"min", 2},     [EXPR_MAX] = {"max", 2},     [EXPR_LEN] = {"len", 1},
    [EXPR_SUM] = {"sum", 1},       [EXPR_MEAN] = {"mean", 1},   [EXPR_LEAST] = {"min", 1},   [EXPR_MOST] = {"max", 1},
    [EXPR_ANY] = {"any", 1},       [EXPR_ALL] = {"all", 1},
};

static pst_status fail(struct reader *r, size_t begin, size_t end, const char *what)
{
    return script_fail(&r->script, begin, end, PST_EINVAL, r->reterr, "%s", what);
}

static bool in_name(char c)
{
    return is_letter(c) || is_digit(c) || c == '_';
}

static void skip_blanks(struct reader *r)
{
    while (strchr(" \t\r\n", r->script.text[r->at]) && r->script.text[r->at])
        r->at++;
}

/* Takes the operator or word if it is next. */
static bool take(struct reader *r, const char *what)
{
    size_t n = strlen(what);
    skip_blanks(r);
    const char *text = r->script.text + r->at;
    if (strncmp(text, what, n) != 0 || (is_letter(*what) && in_name(text[n])))
        return false;
    r->at += n;
    return true;
}

static pst_status push(struct reader *r, const struct expr_node *n, uint32_t *ret)
{
    struct expr *e = r->e;
    if (e->count == EXPR_MAX_NODES)
        return script_fail(&r->script, n->begin, n->end, PST_ELIMIT, r->reterr, "an expression has at most %d parts",
                           EXPR_MAX_NODES);
    e->nodes[e->count] = *n;
    *ret = (uint32_t)e->count++;
    return PST_OK;
}

static pst_status push_pair(struct reader *r, enum expr_kind kind, uint32_t left, uint32_t right, uint32_t *ret)
{
    struct expr_node n = {.kind = kind, .left = left, .right = right};
    n.begin = r->e->nodes[left].begin;
    n.end = right == EXPR_NONE ? r->at : r->e->nodes[right].end;
    return push(r, &n, ret);
}

static pst_status read_or(struct reader *r, uint32_t *ret);
static pst_status read_sign(struct reader *r, uint32_t *ret);

static pst_status read_number(struct reader *r, uint32_t *ret)
{
    const char *text = r->script.text + r->at;
    size_t n = 0;
    bool real = false;
    while (is_digit(text[n]) || text[n] == '.' || text[n] == 'e' || text[n] == 'E' ||
           (n > 0 && (text[n - 1] == 'e' || text[n - 1] == 'E') && (text[n] == '-' || text[n] == '+'))) {
        real |= !is_digit(text[n]);
        n++;
    }
    struct expr_node node = {.kind = real ? EXPR_REAL : EXPR_NUMBER, .begin = r->at, .end = r->at + n};
    r->at += n;
    if (real ? !number_float(text, n, &node.real) : !number_int(text, n, &node.number))
        return fail(r, node.begin, node.end, real ? "this is not a number" : "this number does not fit in 64 bits");
    return push(r, &node, ret);
}

/* A text in quotes: a string, or with ` the name of a field. */
static pst_status read_quoted(struct reader *r, uint32_t *ret)
{
    const char *text = r->script.text;
    char quote = text[r->at];
    size_t begin = r->at++, n = 0;
    char *to = r->e->strings + r->e->used;
    for (; text[r->at] && text[r->at] != quote; r->at++) {
        if (text[r->at] == '\\' && text[r->at + 1])
            r->at++;
        to[n++] = text[r->at];
    }
    if (!text[r->at])
        return fail(r, begin, begin + 1, "this quote is not closed");
    r->at++;
    to[n] = '\0';
    r->e->used += n + 1;
    struct expr_node node = {.kind = quote == '`' ? EXPR_FIELD : EXPR_STRING, .begin = begin, .end = r->at};
    node.string = (pst_bytes){(const uint8_t *)to, n};
    return push(r, &node, ret);
}

static pst_status read_call(struct reader *r, const char *name, size_t length, size_t begin, uint32_t *ret)
{
    uint32_t arg[2] = {EXPR_NONE, EXPR_NONE};
    unsigned count = 0;
    pst_status st = PST_OK;
    do {
        if (count == 2)
            return fail(r, begin, r->at, "no function has more than 2 arguments");
        st = read_or(r, &arg[count++]);
    } while (st == PST_OK && take(r, ","));
    if (st < 0)
        return st;
    if (!take(r, ")"))
        return fail(r, r->at, r->at + 1, "expected ) or , here");
    struct expr_node n = {.kind = EXPR_FUNCTION, .left = arg[0], .right = arg[1], .begin = begin, .end = r->at};
    for (; n.function < EXPR_FUNCTIONS; n.function++) {
        const struct function *f = &functions[n.function];
        if (strlen(f->name) == length && memcmp(f->name, name, length) == 0 && f->args == count)
            return push(r, &n, ret);
    }
    return fail(r, begin, begin + length,
                "there is no such function with that many arguments; there are abs, sqrt, exp, log, floor, ceil, round, int, float, "
                "min, max, len, sum, mean, any, all");
}

static pst_status read_name(struct reader *r, uint32_t *ret)
{
    const char *text = r->script.text + r->at;
    size_t n = 0, begin = r->at;
    while (in_name(text[n]))
        n++;
    r->at += n;
    static const char *const words[] = {"and", "or", "not", "in", "match"};
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strlen(words[i]) == n && memcmp(words[i], text, n) == 0)
            return fail(r, begin, r->at, "expected a value here");
    if (take(r, "("))
        return read_call(r, text, n, begin, ret);
    struct expr_node node = {.kind = EXPR_FIELD, .begin = begin, .end = begin + n};
    node.number = n == 4 && memcmp(text, "true", 4) == 0;
    if (node.number || (n == 5 && memcmp(text, "false", 5) == 0))
        node.kind = EXPR_NUMBER, node.type = EXPR_BOOL;
    char *name = r->e->strings + r->e->used;
    memcpy(name, text, n);
    name[n] = '\0';
    r->e->used += n + 1;
    node.string = (pst_bytes){(const uint8_t *)name, n};
    return push(r, &node, ret);
}

static pst_status read_primary(struct reader *r, uint32_t *ret)
{
    skip_blanks(r);
    char c = r->script.text[r->at];
    size_t open = r->at;
    if (is_digit(c) || c == '.')
        return read_number(r, ret);
    if (c == '"' || c == '\'' || c == '`')
        return read_quoted(r, ret);
    if (in_name(c))
        return read_name(r, ret);
    if (!take(r, "("))
        return fail(r, r->at, r->at + 1, c ? "expected a value here" : "the expression ends where a value is expected");
    pst_status st = read_or(r, ret);
    if (st == PST_OK && !take(r, ")"))
        return fail(r, open, open + 1, "this ( is not closed");
    return st;
}

static pst_status read_power(struct reader *r, uint32_t *ret)
{
    uint32_t left, right;
    pst_status st = read_primary(r, &left);
    if (st < 0 || !take(r, "**")) {
        *ret = left;
        return st;
    }
    st = read_sign(r, &right);
    return st < 0 ? st : push_pair(r, EXPR_POW, left, right, ret);
}

/* Counts what is inside each other; every way around the grammar passes here. */
static pst_status read_sign(struct reader *r, uint32_t *ret)
{
    pst_status st;
    if (r->depth == EXPR_MAX_DEPTH)
        return script_fail(&r->script, r->at, r->at + 1, PST_ELIMIT, r->reterr, "more than %d operators inside each other",
                           EXPR_MAX_DEPTH);
    r->depth++;
    skip_blanks(r);
    size_t begin = r->at;
    if (take(r, "-")) {
        uint32_t operand;
        st = read_sign(r, &operand);
        if (st == PST_OK)
            st = push_pair(r, EXPR_NEG, operand, EXPR_NONE, ret);
        if (st == PST_OK)
            r->e->nodes[*ret].begin = begin;
    } else {
        st = read_power(r, ret);
    }
    r->depth--;
    return st;
}

static pst_status read_term(struct reader *r, uint32_t *ret)
{
    pst_status st = read_sign(r, ret);
    while (st == PST_OK) {
        uint32_t right;
        enum expr_kind kind = take(r, "//")  ? EXPR_FLOOR_DIV
                              : take(r, "/") ? EXPR_DIV
                              : take(r, "%") ? EXPR_MOD
                              : take(r, "*") ? EXPR_MUL
                                             : EXPR_NUMBER;
        if (kind == EXPR_NUMBER)
            break;
        st = read_sign(r, &right);
        if (st == PST_OK)
            st = push_pair(r, kind, *ret, right, ret);
    }
    return st;
}

static pst_status read_sum(struct reader *r, uint32_t *ret)
{
    pst_status st = read_term(r, ret);
    while (st == PST_OK) {
        uint32_t right;
        enum expr_kind kind = take(r, "+") ? EXPR_ADD : take(r, "-") ? EXPR_SUB : EXPR_NUMBER;
        if (kind == EXPR_NUMBER)
            break;
        st = read_term(r, &right);
        if (st == PST_OK)
            st = push_pair(r, kind, *ret, right, ret);
    }
    return st;
}

/* Reads a list of literals; they are linked by `right`. */
static pst_status read_list(struct reader *r, uint32_t *ret)
{
    bool square = take(r, "[");
    uint32_t last = EXPR_NONE;
    if (!square && !take(r, "("))
        return fail(r, r->at, r->at + 1, "expected a list here, such as (1, 2, 3)");
    do {
        uint32_t item;
        skip_blanks(r);
        pst_status st = read_sign(r, &item);
        if (st < 0)
            return st;
        struct expr_node *n = &r->e->nodes[item];
        if (n->kind == EXPR_NEG && r->e->nodes[n->left].kind <= EXPR_REAL) {
            const struct expr_node *of = &r->e->nodes[n->left];
            n->kind = of->kind;
            n->number = (int64_t)(0 - (uint64_t)of->number);
            n->real = -of->real;
        }
        if (n->kind > EXPR_STRING)
            return fail(r, n->begin, n->end, "a list has numbers or texts only");
        n->right = EXPR_NONE;
        if (last == EXPR_NONE)
            *ret = item;
        else
            r->e->nodes[last].right = item;
        last = item;
    } while (take(r, ","));
    return take(r, square ? "]" : ")") ? PST_OK : fail(r, r->at, r->at + 1, "the list is not closed here");
}

static pst_status read_compare(struct reader *r, uint32_t *ret)
{
    static const struct {
        const char *text;
        enum expr_kind kind;
    } operators[] = {{"==", EXPR_EQ}, {"!=", EXPR_NE}, {"<=", EXPR_LE},       {">=", EXPR_GE},
                     {"<", EXPR_LT},  {">", EXPR_GT},  {"match", EXPR_MATCH}, {"in", EXPR_IN}};
    pst_status st = read_sum(r, ret);
    bool negated = st == PST_OK && take(r, "not");
    size_t op = 0;
    uint32_t right;
    while (st == PST_OK && op < sizeof(operators) / sizeof(*operators) && !take(r, operators[op].text))
        op++;
    if (st < 0 || op == sizeof(operators) / sizeof(*operators))
        return st == PST_OK && negated ? fail(r, r->at, r->at + 1, "expected in or match after not") : st;
    if (negated && operators[op].kind != EXPR_IN && operators[op].kind != EXPR_MATCH)
        return fail(r, r->at, r->at + 1, "expected in or match after not");
    st = operators[op].kind == EXPR_IN ? read_list(r, &right) : read_sum(r, &right);
    if (st == PST_OK)
        st = push_pair(r, operators[op].kind, *ret, right, ret);
    return st == PST_OK && negated ? push_pair(r, EXPR_NOT, *ret, EXPR_NONE, ret) : st;
}

static pst_status read_not(struct reader *r, uint32_t *ret)
{
    if (!take(r, "not"))
        return read_compare(r, ret);
    if (r->depth == EXPR_MAX_DEPTH)
        return script_fail(&r->script, r->at, r->at + 1, PST_ELIMIT, r->reterr, "more than %d operators inside each other",
                           EXPR_MAX_DEPTH);
    uint32_t operand;
    r->depth++;
    pst_status st = read_not(r, &operand);
    r->depth--;
    return st < 0 ? st : push_pair(r, EXPR_NOT, operand, EXPR_NONE, ret);
}

static pst_status read_and(struct reader *r, uint32_t *ret)
{
    uint32_t right;
    pst_status st = read_not(r, ret);
    while (st == PST_OK && take(r, "and")) {
        st = read_not(r, &right);
        if (st == PST_OK)
            st = push_pair(r, EXPR_AND, *ret, right, ret);
    }
    return st;
}

static pst_status read_or(struct reader *r, uint32_t *ret)
{
    uint32_t right;
    pst_status st = read_and(r, ret);
    while (st == PST_OK && take(r, "or")) {
        st = read_and(r, &right);
        if (st == PST_OK)
            st = push_pair(r, EXPR_OR, *ret, right, ret);
    }
    return st;
}

pst_status expr_parse(struct expr *ret, const char *text, pst_error *reterr)
{
    struct reader r = {.e = ret, .script = {.text = (char *)text}, .reterr = reterr};
    uint32_t root = 0;
    memset(ret, 0, sizeof(*ret));
    ret->text = text;
    if (strlen(text) > EXPR_MAX_TEXT)
        return pst_fail(reterr, PST_ELIMIT, "an expression has at most %d bytes", EXPR_MAX_TEXT);
    pst_status st = read_or(&r, &root);
    skip_blanks(&r);
    if (st == PST_OK && text[r.at])
        st = fail(&r, r.at, r.at + 1, "expected an operator or the end here");
    ret->root = root;
    return st;
}

/* ---- Types ---- */

struct binder {
    struct expr *e;
    const pst_spec *in;
    void (*read)(void *user, size_t field);
    void *user;
    struct script script;
    pst_error *reterr;
};

static const char *type_name(enum expr_type t)
{
    return t == EXPR_BYTES ? "bytes" : t == EXPR_BOOL ? "true or false" : "a number";
}

static pst_status fail_type(struct binder *b, const struct expr_node *n, const char *expected)
{
    return script_fail(&b->script, n->begin, n->end, PST_ETYPE, b->reterr, "expected %s, found %s", expected,
                       type_name(n->type));
}

static pst_status bind_field(struct binder *b, struct expr_node *n)
{
    int found = pst_spec_find(b->in, (const char *)n->string.data);
    if (found < 0) {
        const char *names[65] = {0}, *nearest;
        for (size_t i = 0; i < b->in->count && i < 64; i++)
            names[i] = b->in->field[i].name;
        nearest = text_nearest((const char *)n->string.data, names);
        return script_fail(&b->script, n->begin, n->end, PST_ENOTFOUND, b->reterr, "there is no field %.40s%s%.40s%s",
                           (const char *)n->string.data, nearest ? "; did you mean " : "", nearest ? nearest : "",
                           nearest ? "?" : "");
    }
    const pst_field *f = &b->in->field[found];
    n->type = f->dtype == PST_DTYPE_BYTES                                                                      ? EXPR_BYTES
              : f->dtype == PST_DTYPE_U8 || f->dtype == PST_DTYPE_I32 || f->dtype == PST_DTYPE_I64 ? EXPR_INT
                                                                                                               : EXPR_FLOAT;
    n->number = found;
    n->field = f->rank ? (size_t)found : SIZE_MAX;
    b->read(b->user, (size_t)found);
    return PST_OK;
}

/* The result has the shape of the operand that has many values; both must agree if both have. */
static pst_status join_shapes(struct binder *b, struct expr_node *n, const struct expr_node *l, const struct expr_node *r)
{
    n->field = l->field != SIZE_MAX ? l->field : r ? r->field : SIZE_MAX;
    if (!r || l->field == SIZE_MAX || r->field == SIZE_MAX || l->field == r->field)
        return PST_OK;
    const pst_field *x = &b->in->field[l->field], *y = &b->in->field[r->field];
    bool same = x->rank == y->rank;
    for (uint32_t d = 0; same && d < x->rank; d++)
        same = x->shape[d] == y->shape[d] || x->shape[d] == PST_ANY || y->shape[d] == PST_ANY;
    return same ? PST_OK
                : script_fail(&b->script, n->begin, n->end, PST_ETYPE, b->reterr, "fields %s and %s have different shapes",
                              x->name, y->name);
}

static pst_status bind_function(struct binder *b, struct expr_node *n, const struct expr_node *l, const struct expr_node *r)
{
    if (n->function == EXPR_LEN) {
        n->type = EXPR_INT;
        n->field = l->type == EXPR_BYTES ? l->field : SIZE_MAX;
        return PST_OK;
    }
    if (l->type == EXPR_BYTES)
        return fail_type(b, l, "a number");
    if (r && r->type == EXPR_BYTES)
        return fail_type(b, r, "a number");
    bool real = l->type == EXPR_FLOAT || (r && r->type == EXPR_FLOAT);
    switch (n->function) {
    case EXPR_SQRT:
    case EXPR_EXP:
    case EXPR_LOG:
    case EXPR_MEAN:
    case EXPR_FLOAT_OF:
        n->type = EXPR_FLOAT;
        break;
    case EXPR_INT_OF:
        n->type = EXPR_INT;
        break;
    case EXPR_ANY:
    case EXPR_ALL:
        n->type = EXPR_BOOL;
        break;
    default:
        n->type = real ? EXPR_FLOAT : EXPR_INT;
    }
    if (n->function < EXPR_LEN)
        return join_shapes(b, n, l, r);
    n->field = SIZE_MAX;
    return PST_OK;
}

static pst_status bind_list(struct binder *b, const struct expr_node *l, const struct expr_node *list)
{
    for (const struct expr_node *n = list;; n = &b->e->nodes[n->right]) {
        if ((n->kind == EXPR_STRING) != (l->type == EXPR_BYTES))
            return script_fail(&b->script, n->begin, n->end, PST_ETYPE, b->reterr, "expected %s, as before `in`",
                               l->type == EXPR_BYTES ? "a text in quotes" : "a number");
        if (n->right == EXPR_NONE)
            return PST_OK;
    }
}

static pst_status bind_operator(struct binder *b, struct expr_node *n, const struct expr_node *l, const struct expr_node *r)
{
    bool bytes = l->type == EXPR_BYTES, real = l->type == EXPR_FLOAT || (r && r->type == EXPR_FLOAT);
    if (n->kind == EXPR_IN) {
        n->type = EXPR_BOOL;
        n->field = l->field;
        return bind_list(b, l, r);
    }
    if (n->kind >= EXPR_EQ && n->kind <= EXPR_GE) {
        n->type = EXPR_BOOL;
        return bytes == (r->type == EXPR_BYTES) ? join_shapes(b, n, l, r) : fail_type(b, r, type_name(l->type));
    }
    if (n->kind == EXPR_MATCH) {
        n->type = EXPR_BOOL;
        if (!bytes || r->kind != EXPR_STRING)
            return bytes ? script_fail(&b->script, r->begin, r->end, PST_ETYPE, b->reterr,
                                       "expected a pattern in quotes, such as \"n0*\"")
                         : fail_type(b, l, "bytes");
        n->field = l->field;
        return PST_OK;
    }
    if (bytes || (r && r->type == EXPR_BYTES))
        return fail_type(b, bytes ? l : r, "a number");
    if (n->kind == EXPR_AND || n->kind == EXPR_OR || n->kind == EXPR_NOT)
        n->type = EXPR_BOOL;
    else
        n->type = n->kind == EXPR_DIV || n->kind == EXPR_POW || real ? EXPR_FLOAT : EXPR_INT;
    return join_shapes(b, n, l, r);
}

/* Computing goes as deep as the tree. */
static pst_status check_depth(struct binder *b, struct expr_node *n, const struct expr_node *l, const struct expr_node *r)
{
    unsigned left = n->kind >= EXPR_NEG ? l->depth : 0, right = r && n->kind != EXPR_IN ? r->depth : 0;
    n->depth = 1 + (left > right ? left : right);
    return n->depth <= EXPR_MAX_DEPTH ? PST_OK
                                      : script_fail(&b->script, n->begin, n->end, PST_ELIMIT, b->reterr,
                                                    "more than %d operators inside each other", EXPR_MAX_DEPTH);
}

pst_status expr_bind(struct expr *e, const pst_spec *in, void (*read)(void *user, size_t field), void *user,
                     enum expr_type *ret_type, size_t *ret_shape, pst_error *reterr)
{
    struct binder b = {.e = e, .in = in, .read = read, .user = user, .script = {.text = (char *)e->text}, .reterr = reterr};
    for (size_t i = 0; i < e->count; i++) {
        struct expr_node *n = &e->nodes[i], *l = &e->nodes[n->kind >= EXPR_NEG ? n->left : 0],
                         *r = n->kind >= EXPR_NEG && n->right != EXPR_NONE ? &e->nodes[n->right] : NULL;
        pst_status st = PST_OK;
        if (n->kind <= EXPR_STRING) {
            n->field = SIZE_MAX;
            n->type = n->kind == EXPR_STRING ? EXPR_BYTES : n->kind == EXPR_REAL ? EXPR_FLOAT : n->type == EXPR_BOOL && n->string.data ? EXPR_BOOL : EXPR_INT;
        } else {
            st = n->kind == EXPR_FIELD      ? bind_field(&b, n)
                 : n->kind == EXPR_FUNCTION ? bind_function(&b, n, l, r)
                                            : bind_operator(&b, n, l, r);
        }
        if (st == PST_OK)
            st = check_depth(&b, n, l, r);
        if (st < 0)
            return st;
    }
    *ret_type = e->nodes[e->root].type;
    *ret_shape = e->nodes[e->root].field;
    return PST_OK;
}
