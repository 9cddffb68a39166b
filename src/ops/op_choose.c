/* op_choose.c: `choose`: the next element comes from the pipeline that a list or a field names. */
#include "base/error.h"
#include "base/memory.h"
#include "io/parse_number.h"
#include "ops/block_schedule.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <string.h>

struct config {
    const char *list, *field;
    int stop;
};

static const char *const stops[] = {"first", "all", NULL};
static const pst_param params[] = {
    {"list", PST_PARAM_STRING, offsetof(struct config, list), "", 0, 0, NULL,
     "numbers of the pipelines, from 0, as in 0,1,1; the list is used again and again"},
    {"field", PST_PARAM_STRING, offsetof(struct config, field), "", 0, 0, NULL,
     "field of the first pipeline that has the numbers of the others, from 0; it ends with that pipeline"},
    {"stop", PST_PARAM_CHOICE, offsetof(struct config, stop), "first", 0, 0, stops,
     "first: ends when a pipeline that is chosen is used up; all: leaves out such choices and ends when all are used up"},
    {0},
};

struct schedule {
    bool listed;
    struct block_schedule blocks; /* listed */
    uint64_t count;               /* otherwise: the choices */
    uint32_t *branch;
    uint64_t *at;
};

static void destroy(void *schedule)
{
    struct schedule *s = schedule;
    if (!s)
        return;
    mem_free(s->branch);
    mem_free(s->at);
    mem_free(s);
}

static pst_status read_list(struct block_schedule *s, const char *text, pst_error *reterr)
{
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        int64_t branch;
        if (!number_int(at, length, &branch) || branch < 0 || (uint64_t)branch >= s->branches)
            return pst_fail(reterr, PST_EINVAL, "list=%.60s: \"%.*s\" is not the number of a branch; there are 0 to %zu", text,
                            length < 20 ? (int)length : 20, at, s->branches - 1);
        if (s->block == BLOCK_MAX)
            return pst_fail(reterr, PST_ELIMIT, "the list has more than %d numbers; put them into a field", BLOCK_MAX);
        s->order[s->block++] = (uint16_t)branch;
        at += length;
        if (!*at)
            return PST_OK;
    }
}

static pst_status create_listed(struct schedule *s, const struct config *c, const uint64_t *lengths, size_t count,
                                uint64_t *ret_length, pst_error *reterr)
{
    struct block_memo *memo = mem_zalloc(sizeof(*memo));
    s->listed = true;
    s->blocks.branches = count;
    s->blocks.stop = c->stop ? BLOCK_STOP_ALL : BLOCK_STOP_FIRST;
    memcpy(s->blocks.length, lengths, count * sizeof(*lengths));
    pst_status st = memo ? read_list(&s->blocks, c->list, reterr) : fail_memory(reterr, "planning");
    if (st == PST_OK)
        block_schedule_init(&s->blocks, memo, ret_length);
    mem_free(memo);
    return st;
}

static pst_status create_chosen(struct schedule *s, const struct config *c, const struct join_env *env, const uint64_t *lengths,
                                size_t count, uint64_t *ret_length, pst_error *reterr)
{
    uint64_t *used = mem_array(count, sizeof(*used));
    s->branch = mem_array(env->choice_count, sizeof(*s->branch));
    s->at = mem_array(env->choice_count, sizeof(*s->at));
    pst_status st = used && s->branch && s->at ? PST_OK : fail_memory(reterr, "planning");
    for (uint64_t i = 0; i < env->choice_count && st == PST_OK; i++) {
        uint64_t branch = env->choices[i];
        if (branch >= count)
            st = pst_fail(reterr, PST_EINVAL,
                          "field %.40s of element %" PRIu64 " is %" PRId64 "; expected the number of a branch after the first, 0 to %zu",
                          c->field, i, (int64_t)branch, count - 1);
        else if (used[branch] < lengths[branch])
            s->branch[s->count] = (uint32_t)branch, s->at[s->count++] = used[branch]++;
        else if (!c->stop)
            break;
    }
    mem_free(used);
    *ret_length = s->count;
    return st;
}

static pst_status create(const void *config, const struct join_env *env, const uint64_t *lengths, size_t count, void **ret,
                         uint64_t *ret_length, pst_error *reterr)
{
    const struct config *c = config;
    struct schedule *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "planning");
    pst_status st;
    if (!*c->list == !*c->field)
        st = pst_fail(reterr, PST_EINVAL, "it needs list= (numbers of the branches) or field= (a field of the first branch), and not both");
    else if (*c->list)
        st = create_listed(s, c, lengths, count, ret_length, reterr);
    else
        st = create_chosen(s, c, env, lengths, count, ret_length, reterr);
    if (st < 0)
        destroy(s);
    else
        *ret = s;
    return st;
}

static void map(const void *schedule, void *memo, size_t n, const uint64_t *position, uint32_t *ret_branch, uint64_t *ret_at)
{
    const struct schedule *s = schedule;
    if (s->listed) {
        block_schedule_map(&s->blocks, memo, n, position, ret_branch, ret_at);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t at = position[i];
        ret_branch[i] = s->branch[at];
        ret_at[i] = s->at[at];
    }
}

static const char *index_field(const void *config)
{
    const struct config *c = config;
    return *c->field && !*c->list ? c->field : NULL;
}

static const struct join_facet join = {.min_branches = 2,
                                       .max_branches = JOIN_MAX_BRANCHES,
                                       .index_field = index_field,
                                       .create = create,
                                       .destroy = destroy,
                                       .memo_size = sizeof(struct block_memo),
                                       .map = map};

const struct op_decl op_choose = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "choose",
            .doc = "Takes the next element from the pipeline that a list of numbers names, again and again, or that a field of the "
                   "first pipeline names. The other pipelines must have the same fields.",
            .example = "choose (range 10) (range 100 110) list=0,1,1 | batch 4",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_SOURCE,
    .join = &join,
};
