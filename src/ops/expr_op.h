/* expr_op.h: the config of `expr`, for code that adds it without text: `filter` evaluates its expression with it. */
#ifndef OPS_EXPR_OP_H
#define OPS_EXPR_OP_H

#include "lang/expr.h"
#include "ops/op_decl.h"

struct expr_config {
    const char *expr, *field;
    int dtype; /* 0: that of the result; 1 and more: of the choices of `cast` */
    bool truth; /* the result is 1 for every value that is not 0 */

    /* Set by plan. */
    struct expr parsed;
    size_t number; /* of the field that is written */
    size_t shape;  /* the field whose shape it has; SIZE_MAX: a single value */
    pst_dtype computed;
};

#define EXPR_DTYPE_U8 1

#endif
