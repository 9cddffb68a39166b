/* op_sample.c: `sample`: pipelines mixed at random, in given proportions. */
#include "base/error.h"
#include "base/memory.h"
#include "io/parse_number.h"
#include "ops/block_schedule.h"
#include "ops/op_decl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

struct config {
    const char *weights;
    int64_t seed;
    int stop;
};

static const char *const stops[] = {"first", "all", NULL};
static const pst_param params[] = {
    {"weights", PST_PARAM_STRING, offsetof(struct config, weights), "", 0, 0, NULL,
     "share of each pipeline, as in 0.7,0.3; only their ratios matter; empty: equal shares"},
    {"seed", PST_PARAM_INT, offsetof(struct config, seed), "-1", -1, INFINITY, NULL,
     "seed of the mixture; -1: the pipeline's seed"},
    {"stop", PST_PARAM_CHOICE, offsetof(struct config, stop), "first", 0, 0, stops,
     "first: ends when the first pipeline is used up, and keeps the shares to the end; all: ends when all are used up"},
    {0},
};

/* Reads the weights; `*ret_sum` is their sum. */
static pst_status read_weights(const char *text, size_t count, double *ret, double *ret_sum, pst_error *reterr)
{
    const char *at = text;
    *ret_sum = 0;
    for (size_t b = 0; b < count; b++) {
        size_t length = strcspn(at, ",");
        ret[b] = 1;
        if (*text && length == 0)
            return pst_fail(reterr, PST_EINVAL, "weights=%.60s has %zu weights for %zu branches", text, b, count);
        if (*text && !(number_float(at, length, &ret[b]) && isfinite(ret[b]) && ret[b] >= 0))
            return pst_fail(reterr, PST_EINVAL, "weight %zu of weights=%.60s is not a number that is larger than 0", b + 1, text);
        if (ret[b] == 0)
            return pst_fail(reterr, PST_EINVAL, "the weight of branch %zu is 0: it would never be used; leave the branch out",
                            b + 1);
        *ret_sum += ret[b];
        at += length + (at[length] == ',');
    }
    if (*at || (*text && at[-1] == ','))
        return pst_fail(reterr, PST_EINVAL, "weights=%.60s has more weights than there are branches (%zu)", text, count);
    return isfinite(*ret_sum) ? PST_OK : pst_fail(reterr, PST_EINVAL, "the weights are too large");
}

/* The smallest block in which all shares are whole numbers; BLOCK_MAX if there is none. */
static size_t find_size(const double *weight, double sum, size_t count)
{
    for (size_t size = count; size < BLOCK_MAX; size++) {
        bool whole = true;
        for (size_t b = 0; b < count && whole; b++) {
            double share = weight[b] / sum * (double)size;
            whole = share > 0.5 && fabs(share - round(share)) < 1e-9 * (double)size;
        }
        if (whole)
            return size;
    }
    return BLOCK_MAX;
}

/* Gives each branch its places; what rounding down leaves goes to those that lost most. */
static pst_status fill_block(struct block_schedule *s, const double *weight, double sum, pst_error *reterr)
{
    size_t places[BLOCK_MAX], total = 0, n = 0;
    for (size_t b = 0; b < s->branches; b++) {
        double share = weight[b] / sum * (double)s->block;
        if (share < 0.5)
            return pst_fail(reterr, PST_EINVAL, "the weight of branch %zu is less than 1/%d of all weights; give it more",
                            b + 1, 2 * BLOCK_MAX);
        places[b] = s->block < BLOCK_MAX ? (size_t)round(share) : (size_t)fmax(1, floor(share));
        total += places[b];
    }
    for (; total < s->block; total++) {
        size_t most = 0;
        for (size_t b = 1; b < s->branches; b++)
            if (weight[b] / sum * (double)s->block - (double)places[b] >
                weight[most] / sum * (double)s->block - (double)places[most])
                most = b;
        places[most]++;
    }
    for (; total > s->block; total--) {
        size_t most = 0;
        for (size_t b = 1; b < s->branches; b++)
            most = places[b] > places[most] ? b : most;
        places[most]--;
    }
    for (size_t b = 0; b < s->branches; b++)
        for (size_t i = 0; i < places[b]; i++)
            s->order[n++] = (uint16_t)b;
    return PST_OK;
}

static pst_status prepare(struct block_schedule *s, const struct config *c, const uint64_t *lengths, pst_error *reterr)
{
    double weight[BLOCK_MAX], sum;
    pst_status st = read_weights(c->weights, s->branches, weight, &sum, reterr);
    if (st < 0)
        return st;
    for (size_t b = 0; b < s->branches; b++)
        if (lengths[b] == 0)
            return pst_fail(reterr, PST_EINVAL, "branch %zu is empty; leave it out", b + 1);
    s->block = find_size(weight, sum, s->branches);
    return fill_block(s, weight, sum, reterr);
}

static pst_status create(const void *config, const struct join_env *env, const uint64_t *lengths, size_t count, void **ret,
                         uint64_t *ret_length, pst_error *reterr)
{
    const struct config *c = config;
    struct block_schedule *s = mem_zalloc(sizeof(*s));
    struct block_memo *memo = mem_zalloc(sizeof(*memo));
    pst_status st = s && memo ? PST_OK : fail_memory(reterr, "planning");
    if (st == PST_OK) {
        s->branches = count;
        s->shuffled = true;
        s->seed = c->seed >= 0 ? (uint64_t)c->seed : env->seed;
        s->stop = c->stop ? BLOCK_STOP_ALL : BLOCK_STOP_FIRST;
        memcpy(s->length, lengths, count * sizeof(*lengths));
        st = prepare(s, c, lengths, reterr);
    }
    if (st == PST_OK)
        block_schedule_init(s, memo, ret_length);
    mem_free(memo);
    if (st < 0)
        mem_free(s);
    else
        *ret = s;
    return st;
}

static const struct join_facet join = {.min_branches = 1,
                                       .max_branches = JOIN_MAX_BRANCHES,
                                       .create = create,
                                       .destroy = mem_free,
                                       .memo_size = sizeof(struct block_memo),
                                       .map = block_schedule_map};

const struct op_decl op_sample = {
    .op =
        {
            .size = sizeof(pst_op_class),
            .name = "sample",
            .doc = "Mixes pipelines at random, in given proportions. The mixture is drawn in blocks of up to 1000 elements: each "
                   "block holds every pipeline exactly in proportion, in random order, so that the shares are exact and the "
                   "place of every element can be computed. Elements of one pipeline keep their order; shuffle the pipelines, or "
                   "repeat them, before they are mixed. They must have the same fields.",
            .example = "sample (range 70 | shuffle) (range 1000 1030 | shuffle) weights=0.7,0.3 seed=3 | batch 10",
            .params = params,
            .config_size = sizeof(struct config),
        },
    .kind = PST_OP_SOURCE,
    .join = &join,
};
