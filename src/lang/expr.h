/* expr.h: expressions over the fields of an element: `label < 10 and name match "n0*"`, `image / 255`.
 *
 *   expr = or;  or = and { "or" and };  and = not { "and" not };  not = "not" not | compare
 *   compare = sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "match") sum | ["not"] "in" list ]
 *   list = ("(" | "[") literal { "," literal } (")" | "]")
 *   sum = term { ("+" | "-") term };  term = sign { ("*" | "/" | "//" | "%") sign };  sign = "-" sign | power
 *   power = primary [ "**" sign ];  primary = number | string | "true" | "false" | field | function "(" … ")" | "(" expr ")"
 *
 * with the meaning that Python gives them. An expression is computed value by value; a single value goes with every value of a
 * field that has many. Whole numbers are int64 and wrap around, others are float64. Names of fields that are not names are
 * written in back quotes. */
#ifndef LANG_EXPR_H
#define LANG_EXPR_H

#include <penstock/op.h>

#define EXPR_MAX_DEPTH 64   /* of operators and parentheses inside each other */
#define EXPR_MAX_NODES 200  /* of an expression */
#define EXPR_MAX_TEXT  1000 /* bytes of an expression */

enum expr_type { EXPR_BOOL, EXPR_INT, EXPR_FLOAT, EXPR_BYTES };

struct expr;

/* Parses a text, which must live as long as the expression. Errors have the text with a caret. Nothing is allocated. */
pst_status expr_parse(struct expr *ret, const char *text, pst_error *reterr);
/* Finds the fields of `in`, calls `read` for each, and checks types. `*ret_type` is that of the result; `*ret_shape` has the number
 * of the field whose shape it has, or SIZE_MAX: a single value. */
pst_status expr_bind(struct expr *e, const pst_spec *in, void (*read)(void *user, size_t field), void *user,
                     enum expr_type *ret_type, size_t *ret_shape, pst_error *reterr);

/* Computes the values [first, first + count) of a bound expression for the element `in`. count <= EXPR_CHUNK. `to` has room for
 * `count` values of 8 bytes: int64_t for EXPR_BOOL (0, 1) and EXPR_INT, double for EXPR_FLOAT. */
#define EXPR_CHUNK 256
pst_status expr_compute(const struct expr *e, const pst_tensor *in, size_t first, size_t count, void *to, pst_error *reterr);
/* Checks that all fields that are used value by value have `values` values, or 1. Call before expr_compute. */
pst_status expr_check(const struct expr *e, const pst_tensor *in, size_t *ret_values, pst_error *reterr);

/* ---- Between expr.c and expr_compute.c ---- */

enum expr_kind {
    EXPR_NUMBER, EXPR_REAL, EXPR_STRING, EXPR_FIELD,
    EXPR_NEG, EXPR_NOT,
    EXPR_ADD, EXPR_SUB, EXPR_MUL, EXPR_DIV, EXPR_FLOOR_DIV, EXPR_MOD, EXPR_POW,
    EXPR_EQ, EXPR_NE, EXPR_LT, EXPR_LE, EXPR_GT, EXPR_GE, EXPR_MATCH, EXPR_IN,
    EXPR_AND, EXPR_OR,
    EXPR_FUNCTION
};

enum expr_function {
    EXPR_ABS, EXPR_SQRT, EXPR_EXP, EXPR_LOG, EXPR_FLOOR, EXPR_CEIL, EXPR_ROUND, EXPR_INT_OF, EXPR_FLOAT_OF,
    EXPR_MIN, EXPR_MAX, /* of two */
    EXPR_LEN, EXPR_SUM, EXPR_MEAN, EXPR_LEAST, EXPR_MOST, EXPR_ANY, EXPR_ALL, /* of all values of one */
    EXPR_FUNCTIONS
};

struct expr_node {
    enum expr_kind kind;
    enum expr_type type; /* set by expr_bind */
    enum expr_function function;
    uint32_t left, right; /* operands; of a list: the next literal (right), EXPR_NONE at its end */
    int64_t number;
    double real;
    pst_bytes string;  /* or the name of a field */
    size_t begin, end; /* in the text */
    unsigned depth;
    size_t field;      /* set by expr_bind; of operators: the field whose shape the result has, SIZE_MAX: a single value */
};

#define EXPR_NONE UINT32_MAX

struct expr {
    struct expr_node nodes[EXPR_MAX_NODES]; /* an operator comes after its operands */
    size_t count, root;
    const char *text;
    char strings[2 * EXPR_MAX_TEXT + 2]; /* texts and names, each with a NUL */
    size_t used;
};

#endif
