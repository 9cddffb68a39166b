/* source_range.c: `range`: numbers, for trying things out. */
#include "source/source.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>

#define NO_STOP "-9223372036854775808"

struct config {
    int64_t start, stop, step;
};

static const pst_param params[] = {
    {"start", PST_PARAM_INT, offsetof(struct config, start), "0", 0, 0, NULL,
     "the first number; if it is the only argument, it is the stop"},
    {"stop", PST_PARAM_INT, offsetof(struct config, stop), NO_STOP, 0, 0, NULL, "the end, not included"},
    {"step", PST_PARAM_INT, offsetof(struct config, step), "1", 0, 0, NULL, "difference between two numbers; may be negative"},
    {0},
};

struct range {
    int64_t start, step;
    uint64_t count;
};

/* Unsigned: the distance may be more than an int64 holds. */
static uint64_t count_of(const struct config *c)
{
    if (c->step > 0 ? c->start >= c->stop : c->start <= c->stop)
        return 0;
    uint64_t distance = c->step > 0 ? (uint64_t)c->stop - (uint64_t)c->start : (uint64_t)c->start - (uint64_t)c->stop;
    uint64_t step = c->step > 0 ? (uint64_t)c->step : 0 - (uint64_t)c->step;
    return (distance - 1) / step + 1;
}

static pst_status range_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    struct config c = *(const struct config *)config;
    (void)env;
    if (c.stop == INT64_MIN) {
        c.stop = c.start;
        c.start = 0;
    }
    if (c.step == 0)
        return pst_fail(reterr, PST_EINVAL, "the step is 0: the range would never end");
    uint64_t count = count_of(&c);
    if (count > INT64_MAX)
        return pst_fail(reterr, PST_ELIMIT, "%" PRIu64 " numbers, at most %" PRId64 " are counted", count, INT64_MAX);
    struct range *r = mem_zalloc(sizeof(*r));
    if (!r)
        return fail_memory(reterr, "opening the range");
    *r = (struct range){.start = c.start, .step = c.step, .count = count};
    *ret = r;
    return PST_OK;
}

static void range_close(void *source)
{
    mem_free(source);
}

static void range_spec(const void *source, pst_spec *ret)
{
    static const pst_field value = {.name = "value", .dtype = PST_DTYPE_I64, .alias = -1};
    (void)source;
    *ret = (pst_spec){.count = 1, .field = &value};
}

static uint64_t range_count(const void *source)
{
    return ((const struct range *)source)->count;
}

static uint64_t range_fingerprint(const void *source)
{
    const struct range *r = source;
    return hash_combine(hash_combine((uint64_t)r->start, (uint64_t)r->step), r->count);
}

static int64_t value_at(const struct range *r, uint64_t index)
{
    return (int64_t)((uint64_t)r->start + (uint64_t)r->step * index);
}

static void range_describe(const void *source, char *buffer, size_t size)
{
    const struct range *r = source;
    if (r->count == 0)
        snprintf(buffer, size, "no numbers");
    else
        snprintf(buffer, size, "numbers from %" PRId64 " to %" PRId64, r->start, value_at(r, r->count - 1));
}

static pst_status range_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    int64_t *value = worker;
    (void)ctx, (void)reterr;
    *value = value_at(source, index);
    out[0].data = value;
    return PST_OK;
}

const struct source_class source_range = {
    .op = {.size = sizeof(pst_op_class),
           .name = "range",
           .doc = "Whole numbers from start up to, but not including, stop, in the field value.",
           .example = "range 10 | shuffle | batch 4",
           .params = params,
           .config_size = sizeof(struct config)},
    .open = range_open,
    .close = range_close,
    .spec = range_spec,
    .count = range_count,
    .fingerprint = range_fingerprint,
    .describe = range_describe,
    .worker_size = sizeof(int64_t),
    .load = range_load,
};
