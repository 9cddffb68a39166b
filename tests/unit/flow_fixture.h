/* flow_fixture.h: a source and operations made for testing the engine. Every field of element i is a function of i;
 * operations add to it, some with randomness. */
#ifndef TESTS_FLOW_FIXTURE_H
#define TESTS_FLOW_FIXTURE_H

#include "base/hash.h"
#include "base/memory.h"
#include "flow/pipeline.h"
#include "ops/ctx.h"
#include "ops/op_list.h"
#include "ops/op_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- The source ---- */

struct sample_config {
    uint64_t count;
    bool stream;
    uint64_t corrupt;         /* every so many-th element does not load (PST_ECORRUPT); 0: none */
    uint64_t fails;           /* this element fails with PST_EIO; 0: none */
    uint64_t fails_at_open;   /* nonzero: opening fails */
    uint64_t uneven_pictures; /* nonzero: `picture` has another shape from this element on */
    uint64_t slow_us;         /* every element takes so long to load */
    uint64_t version;         /* of the data: goes into the fingerprint */
};

struct sample_source {
    struct sample_config config;
    bool need[5];
    pst_damage_log *met; /* of a stream */
    _Atomic uint64_t loads, opened;
};

static struct sample_source *last_sample_source; /* for tests that look inside */

static pst_status sample_open(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    const struct sample_config *c = config;
    if (c->fails_at_open)
        return pst_fail(reterr, PST_ENOTFOUND, "no such samples");
    struct sample_source *s = mem_zalloc(sizeof(*s));
    if (!s)
        return pst_fail(reterr, PST_ENOMEM, "opening samples: out of memory");
    s->config = *c;
    s->met = env->met;
    last_sample_source = s;
    *ret = s;
    return PST_OK;
}

static void sample_close(void *source)
{
    mem_free(source);
}

static void sample_spec(const void *source, pst_spec *ret)
{
    (void)source;
    static const pst_field fields[] = {
        {.name = "id", .dtype = PST_DTYPE_I64, .alias = -1},
        {.name = "text", .dtype = PST_DTYPE_BYTES, .alias = -1},
        {.name = "vector", .dtype = PST_DTYPE_F32, .rank = 1, .shape = {8}, .alias = -1},
        {.name = "tags", .dtype = PST_DTYPE_I32, .rank = 2, .shape = {PST_ANY, 2}, .alias = -1},
        {.name = "picture", .dtype = PST_DTYPE_U8, .rank = 2, .shape = {PST_ANY, PST_ANY}, .alias = -1},
    };
    *ret = (pst_spec){.count = 5, .field = fields};
}

static uint64_t sample_count(const void *source)
{
    const struct sample_source *s = source;
    return s->config.stream ? SOURCE_STREAM : s->config.count;
}

static uint64_t sample_fingerprint(const void *source)
{
    const struct sample_source *s = source;
    return hash_combine(s->config.count, s->config.version);
}

static void sample_need(void *source, const bool *fields)
{
    struct sample_source *s = source;
    memcpy(s->need, fields, sizeof(s->need));
}

static uint64_t sample_bytes_of(const void *source, uint64_t index)
{
    (void)source;
    return 100 + index % 7;
}

static void *sample_values(pst_ctx *ctx, pst_tensor *out, size_t bytes)
{
    return out->data = pst_scratch(ctx, bytes ? bytes : 1);
}

static pst_status sample_fill(const struct sample_source *s, uint64_t i, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    size_t length = i % 11, tags = i % 4, side = s->config.uneven_pictures && i >= s->config.uneven_pictures ? 4 : 3;
    int64_t *id = sample_values(ctx, &out[0], sizeof(*id));
    pst_bytes *text = sample_values(ctx, &out[1], sizeof(*text) + length);
    float *vector = sample_values(ctx, &out[2], 8 * sizeof(*vector));
    int32_t *tag = sample_values(ctx, &out[3], tags * 2 * sizeof(*tag));
    uint8_t *picture = sample_values(ctx, &out[4], side * 2);
    if (!id || !text || !vector || !tag || !picture)
        return pst_fail(reterr, PST_ENOMEM, "loading a sample: out of memory");
    *id = (int64_t)i;
    memset(text + 1, 'a' + (int)(i % 26), length);
    *text = (pst_bytes){(const uint8_t *)(text + 1), length};
    for (int k = 0; k < 8; k++)
        vector[k] = (float)i + (float)k / 8;
    for (size_t k = 0; k < tags * 2; k++)
        tag[k] = (int32_t)(i * 10 + k);
    memset(picture, (int)(i % 256), side * 2);
    out[3].shape[0] = tags;
    out[4].shape[0] = side;
    out[4].shape[1] = 2;
    return PST_OK;
}

static bool is_corrupt(const struct sample_source *s, uint64_t i)
{
    return s->config.corrupt && i % s->config.corrupt == s->config.corrupt - 1;
}

static pst_status sample_check(const struct sample_source *s, uint64_t i, pst_error *reterr)
{
    if (is_corrupt(s, i))
        return pst_fail_at(reterr, PST_ECORRUPT, "samples.bin", i, i * 100, "crc of the data is wrong");
    if (s->config.fails && i == s->config.fails)
        return pst_fail_at(reterr, PST_EIO, "samples.bin", i, i * 100, "the disk is gone");
    return PST_OK;
}

static pst_status sample_load(void *source, void *worker, uint64_t index, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct sample_source *s = source;
    uint64_t *loads = worker; /* of this worker: it must be its own */
    ++*loads;
    atomic_fetch_add(&s->loads, 1);
    if (s->config.slow_us)
        nanosleep(&(struct timespec){.tv_nsec = (long)s->config.slow_us * 1000}, NULL);
    pst_status st = sample_check(s, index, reterr);
    return st < 0 ? st : sample_fill(s, index, ctx, out, reterr);
}

struct sample_stream {
    struct sample_source *source;
    uint64_t next;
};

static pst_status sample_stream_open(void *source, void **ret, pst_error *reterr)
{
    struct sample_stream *t = mem_zalloc(sizeof(*t));
    if (!t)
        return pst_fail(reterr, PST_ENOMEM, "opening the stream: out of memory");
    t->source = source;
    atomic_fetch_add(&t->source->opened, 1);
    *ret = t;
    return PST_OK;
}

static pst_status sample_stream_next(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct sample_stream *t = stream;
    for (; is_corrupt(t->source, t->next) && t->next < t->source->config.count; t->next++) {
        pst_damage d = {.cause = PST_CAUSE_DATA_CRC, .path = "samples.bin", .record = t->next, .offset = t->next * 100};
        pst_status st = pst_damage_log_add(t->source->met, &d, "crc of the data is wrong", reterr);
        if (st < 0)
            return st;
    }
    if (t->next == t->source->config.count)
        return PST_END;
    if (t->source->config.slow_us)
        nanosleep(&(struct timespec){.tv_nsec = (long)t->source->config.slow_us * 1000}, NULL);
    atomic_fetch_add(&t->source->loads, 1);
    pst_status st = sample_check(t->source, t->next, reterr);
    return st < 0 ? st : sample_fill(t->source, t->next++, ctx, out, reterr);
}

static void sample_locate(const void *source, uint64_t index, size_t field, struct source_place *ret)
{
    (void)source;
    *ret = (struct source_place){field == 0 ? "ids.bin" : "samples.bin", index, index * 100};
}

static void sample_stream_locate(const void *stream, struct source_place *ret)
{
    const struct sample_stream *t = stream;
    *ret = (struct source_place){"samples.bin", t->next - 1, (t->next - 1) * 100};
}

static void sample_stream_close(void *stream)
{
    mem_free(stream);
}

static const struct source_class sample_class = {
    .op = {.size = sizeof(pst_op_class), .name = "samples", .config_size = sizeof(struct sample_config)},
    .open = sample_open,
    .close = sample_close,
    .spec = sample_spec,
    .count = sample_count,
    .fingerprint = sample_fingerprint,
    .need = sample_need,
    .worker_size = sizeof(uint64_t),
    .load = sample_load,
    .cause = PST_CAUSE_DATA_CRC,
    .bytes_of = sample_bytes_of,
    .locate = sample_locate,
    .stream_open = sample_stream_open,
    .stream_next = sample_stream_next,
    .stream_locate = sample_stream_locate,
    .stream_close = sample_stream_close,
};

/* ---- Operations ---- */

/* vector → vector plus noise, into place. Has a worker state to see that it is started and stopped. */
static _Atomic int noise_started;

static pst_status noise_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    (void)config;
    int f = pst_spec_find(in, "vector");
    if (f < 0)
        return pst_fail(reterr, PST_EINVAL, "noise needs a field \"vector\"");
    pst_spec_pass(in, out);
    pst_spec_read(out, (size_t)f);
    pst_spec_write(out, (size_t)f);
    return PST_OK;
}

static pst_status noise_start(const void *config, void *worker, pst_error *reterr)
{
    (void)config;
    void **state = worker;
    *state = mem_alloc(100);
    if (!*state)
        return pst_fail(reterr, PST_ENOMEM, "noise: out of memory");
    atomic_fetch_add(&noise_started, 1);
    return PST_OK;
}

static void noise_stop(const void *config, void *worker)
{
    (void)config;
    void **state = worker;
    atomic_fetch_sub(&noise_started, *state != NULL);
    mem_free(*state);
}

static pst_status noise_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                            pst_error *reterr)
{
    int f = *(const int *)config;
    (void)worker, (void)reterr;
    for (int k = 0; k < 8; k++)
        ((float *)out[f].data)[k] = ((const float *)in[f].data)[k] + (float)pst_random_unit(ctx);
    return PST_OK;
}

static const pst_op_class noise_class = {
    .size = sizeof(pst_op_class),
    .name = "noise",
    .config_size = sizeof(int), /* the number of the field */
    .worker_size = sizeof(void *),
    .plan = noise_plan,
    .start = noise_start,
    .run = noise_run,
    .stop = noise_stop,
    .flags = PST_OP_RANDOM,
};

/* The same, computed for many elements at once. */
struct grouped_noise {
    void *memory; /* as that of noise */
    size_t prepared, ran;
    struct {
        float in[8], out[8];
    } waiting[64];
};

static bool noise_is_grouped;                             /* which of the two add_noise takes */
static _Atomic size_t noise_largest, noise_alone, noise_wrong; /* groups, elements without one, and what broke the rules */

static pst_status grouped_prepare(const void *config, void *worker, pst_ctx *ctx, size_t place, const pst_tensor *in,
                                  pst_error *reterr)
{
    struct grouped_noise *w = worker;
    const float *vector = in[*(const int *)config].data;
    (void)reterr;
    if (place == 0)
        w->prepared = w->ran = 0;
    atomic_fetch_add(&noise_wrong, place != w->prepared || place >= 64 || w->ran > 0);
    for (int k = 0; k < 8; k++) {
        w->waiting[place % 64].in[k] = vector[k];
        w->waiting[place % 64].out[k] = vector[k] + (float)pst_random_unit(ctx);
    }
    w->prepared = place + 1;
    for (size_t most = atomic_load(&noise_largest); place + 1 > most;)
        if (atomic_compare_exchange_weak(&noise_largest, &most, place + 1))
            break;
    return PST_OK;
}

static pst_status grouped_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                              pst_error *reterr)
{
    struct grouped_noise *w = worker;
    int f = *(const int *)config;
    if (w->ran == w->prepared) {
        atomic_fetch_add(&noise_alone, 1);
        return noise_run(config, worker, ctx, in, out, reterr);
    }
    atomic_fetch_add(&noise_wrong, memcmp(in[f].data, w->waiting[w->ran].in, sizeof(w->waiting[0].in)) != 0);
    memcpy(out[f].data, w->waiting[w->ran++].out, sizeof(w->waiting[0].out));
    return PST_OK;
}

static const pst_op_class grouped_noise_class = {
    .size = sizeof(pst_op_class),
    .name = "noise",
    .config_size = sizeof(int),
    .worker_size = sizeof(struct grouped_noise),
    .plan = noise_plan,
    .start = noise_start,
    .run = grouped_run,
    .stop = noise_stop,
    .flags = PST_OP_RANDOM,
    .prepare = grouped_prepare,
};

/* Adds `bulk`, bytes of varying number in scratch memory, and `length`, an int64 in place. Fails where told. */
struct bulk_config {
    uint64_t corrupt; /* every so many-th element is PST_ECORRUPT; 0: none */
    uint64_t factor;  /* of the number of bytes */
};

static pst_status bulk_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    static const pst_field added[] = {{.name = "bulk", .dtype = PST_DTYPE_U8, .rank = 1, .shape = {PST_ANY}, .alias = -1},
                                      {.name = "length", .dtype = PST_DTYPE_I64, .alias = -1}};
    (void)config;
    pst_spec_pass(in, out);
    pst_spec_read(out, 0);
    pst_status st = pst_spec_add(out, &added[0], reterr);
    return st < 0 ? st : pst_spec_add(out, &added[1], reterr);
}

static pst_status bulk_run(const void *config, void *worker, pst_ctx *ctx, const pst_tensor *in, pst_tensor *out,
                           pst_error *reterr)
{
    const struct bulk_config *c = config;
    uint64_t id = (uint64_t) * (const int64_t *)in[0].data, bytes = id % 17 * c->factor;
    (void)worker;
    if (c->corrupt && id % c->corrupt == c->corrupt - 1)
        return pst_fail(reterr, PST_ECORRUPT, "no bulk in %d", (int)id);
    pst_tensor *bulk = NULL, *length = NULL;
    for (size_t f = 0; !length; f++) { /* the first new ones are ours */
        if (out[f].dtype == PST_DTYPE_U8 && out[f].rank == 1)
            bulk = &out[f], length = &out[f + 1];
    }
    bulk->shape[0] = bytes;
    bulk->data = pst_scratch(ctx, bytes ? bytes : 1);
    if (!bulk->data)
        return pst_fail(reterr, PST_ENOMEM, "bulk: out of memory");
    memset(bulk->data, (int)(id % 256), bytes);
    *(int64_t *)length->data = (int64_t)bytes;
    return PST_OK;
}

static const pst_op_class bulk_class = {.size = sizeof(pst_op_class),
                                        .name = "bulk",
                                        .config_size = sizeof(struct bulk_config),
                                        .plan = bulk_plan,
                                        .run = bulk_run};

/* Keeps `id`, `vector` and what it is told; needs no run. */
static pst_status pick_plan(void *config, const pst_spec *in, pst_spec *out, pst_error *reterr)
{
    const char *names = config;
    pst_status st = PST_OK;
    for (size_t i = 0; i < in->count && st == PST_OK; i++)
        if (strstr(names, in->field[i].name))
            st = pst_spec_keep(out, in, i, reterr);
    return st;
}

static const pst_op_class pick_class = {.size = sizeof(pst_op_class), .name = "pick", .config_size = 64, .plan = pick_plan};

/* ---- Chains ---- */

#define TRY(call)                                                                                                              \
    do {                                                                                                                       \
        pst_status st_ = (call);                                                                                               \
        if (st_ < 0)                                                                                                           \
            return st_;                                                                                                        \
    } while (0)

static inline pst_status add_samples(pst_pipeline *p, struct sample_config c, pst_error *e)
{
    return pipeline_add_source(p, &sample_class, &c, e);
}

/* `buffer` and `window` are bytes. */
static inline pst_status add_shuffle(pst_pipeline *p, uint64_t buffer, uint64_t window, pst_error *e)
{
    return pst_pipeline_add_op(p, &op_shuffle.op,
                               &(struct shuffle_config){
                                   .seed = -1, .reshuffle = true, .buffer = {.bytes = buffer}, .window = {.bytes = window}},
                               e);
}

static inline pst_status add_count(pst_pipeline *p, const pst_op_class *op, int64_t count, pst_error *e)
{
    return pst_pipeline_add_op(p, op, &(struct count_config){.count = count}, e);
}

static inline pst_status add_batch(pst_pipeline *p, uint64_t size, bool drop_remainder, pst_error *e)
{
    return pst_pipeline_add_op(p, &op_batch.op, &(struct batch_config){.size = size, .drop_remainder = drop_remainder}, e);
}

static inline pst_status add_noise(pst_pipeline *p, int field, pst_error *e)
{
    return pst_pipeline_add_op(p, noise_is_grouped ? &grouped_noise_class : &noise_class, &field, e);
}

static inline pst_status add_bulk(pst_pipeline *p, uint64_t corrupt, uint64_t factor, pst_error *e)
{
    return pst_pipeline_add_op(p, &bulk_class, &(struct bulk_config){.corrupt = corrupt, .factor = factor}, e);
}

static inline pst_status add_pick(pst_pipeline *p, const char *names, pst_error *e)
{
    char config[64] = "";
    snprintf(config, sizeof(config), "%s", names);
    return pst_pipeline_add_op(p, &pick_class, config, e);
}

static inline pst_status add_cache(pst_pipeline *p, uint64_t bytes, pst_error *e)
{
    return pst_pipeline_add_op(p, &op_cache.op, &(struct cache_config){.bytes = bytes}, e);
}

#endif
