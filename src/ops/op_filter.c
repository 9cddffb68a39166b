/* op_filter.c: the declaration of `filter`; the engine carries it out. */
#include "ops/op_decl.h"

struct config {
    const char *expr;
};

static const pst_param params[] = {
    {"expr", PST_PARAM_STRING, offsetof(struct config, expr), NULL, 0, 0, NULL,
     "an expression over the fields, as in \"label < 10\"; see `expr`"},
    {0},
};

static const char *filter(const void *config)
{
    return ((const struct config *)config)->expr;
}

const struct op_decl op_filter = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "filter",
            .doc =
                "Keeps the elements for which an expression is true, and leaves out the others. All elements are tested once, "
                "in "
                "parallel, before the first batch; the result, one bit per element, is stored beside the data (or in the cache "
                "folder) and used again until the data (their size and samples of their bytes) or the operations before it "
                "change. So the order stays an index: a shuffle "
                "after it is exact, seeking takes no time, and elements that are left out are not read. Put it before shuffle "
                "and "
                "repeat. The elements of a stream are tested as they come, in every epoch. With an index, if a random operation before it changes the field, the value of "
                "the first epoch decides. `expr` describes expressions.",
            .example = "range 100 | filter \"value % 10 == 3\" | shuffle | batch 4",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_ORDER,
    .filter = filter,
};
