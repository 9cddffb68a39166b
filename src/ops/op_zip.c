/* op_zip.c: `zip`: the fields of several pipelines side by side. The engine carries it out. */
#include "ops/join_facet.h"
#include "ops/op_decl.h"

struct config {
    char none;
};

static pst_status create(const void *config, const struct join_env *env, const uint64_t *lengths, size_t count, void **ret,
                         uint64_t *ret_length, pst_error *reterr)
{
    uint64_t least = JOIN_ENDLESS;
    (void)config, (void)env, (void)reterr;
    for (size_t i = 0; i < count; i++)
        least = lengths[i] < least ? lengths[i] : least;
    *ret = NULL;
    *ret_length = least;
    return PST_OK;
}

static const struct join_facet join = {
    .min_branches = 1, .max_branches = JOIN_MAX_BRANCHES, .together = true, .create = create};

const struct op_decl op_zip = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "zip",
            .doc = "Joins pipelines side by side: element k has all fields of element k of every pipeline. It ends with the "
                   "shortest. No two pipelines may have a field of the same name; rename or drop one of them.",
            .example = "zip (range 10) (range 5 15 | rename value other) | batch 4",
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_SOURCE,
    .join = &join,
};
