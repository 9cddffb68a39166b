/* op_concatenate.c: `concatenate`: one pipeline after the other. */
#include "base/error.h"
#include "base/memory.h"
#include "ops/join_facet.h"
#include "ops/op_decl.h"

struct config {
    char none;
};

struct schedule {
    size_t count;
    uint64_t end[]; /* where each branch ends */
};

static pst_status create(const void *config, const struct join_env *env, const uint64_t *lengths, size_t count, void **ret,
                         uint64_t *ret_length, pst_error *reterr)
{
    struct schedule *s = mem_zalloc(sizeof(*s) + count * sizeof(*s->end));
    uint64_t end = 0;
    (void)config, (void)env;
    if (!s)
        return fail_memory(reterr, "planning");
    s->count = count;
    for (size_t i = 0; i < count; i++) {
        if (end == JOIN_ENDLESS || lengths[i] == JOIN_ENDLESS) {
            end = JOIN_ENDLESS; /* branches after an endless one never come */
        } else if (__builtin_add_overflow(end, lengths[i], &end) || end > INT64_MAX) {
            mem_free(s);
            return pst_fail(reterr, PST_EINVAL, "the branches together have too many elements to number");
        }
        s->end[i] = end;
    }
    *ret = s;
    *ret_length = end;
    return PST_OK;
}

/* The first branch that ends after `position`. */
static size_t find(const struct schedule *s, uint64_t position)
{
    size_t low = 0, high = s->count - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->end[middle] > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void map(const void *schedule, void *memo, size_t n, const uint64_t *position, uint32_t *ret_branch, uint64_t *ret_at)
{
    const struct schedule *s = schedule;
    (void)memo;
    for (size_t i = 0; i < n; i++) {
        size_t branch = find(s, position[i]);
        ret_branch[i] = (uint32_t)branch;
        ret_at[i] = position[i] - (branch ? s->end[branch - 1] : 0);
    }
}

static const struct join_facet join = {
    .min_branches = 1, .max_branches = JOIN_MAX_BRANCHES, .create = create, .destroy = mem_free, .map = map};

const struct op_decl op_concatenate = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "concatenate",
            .doc = "Joins pipelines one after the other. They must have the same fields, of the same types, in the same order.",
            .example = "concatenate (range 3) (range 10 12) | batch 4",
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_SOURCE,
    .join = &join,
};
