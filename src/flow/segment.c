/* segment.c: the source that delivers the elements of an inner pipeline.
 *
 * By number: a worker of the outer pipeline opens batch or element k of the inner order, runs the inner program on it and
 * returns views. As a stream: the inner pipeline delivers batches in its order, which are taken apart. Either way the pass
 * over the segment is the epoch of the inner pipeline, so that its shuffles differ from pass to pass. */
#include "flow/segment.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/batch.h"
#include "flow/element.h"
#include "flow/join_plan.h"
#include "flow/pipeline.h"
#include "flow/runner.h"
#include "flow/snapshot.h"
#include "ops/fields.h"
#include "ops/op_decl.h"
#include "ops/spec_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MOST_WORKERS 512 /* the crew's and as many readers */
#define WAIT_SECONDS 0.05 /* how often a wait for the inner pipeline looks for a stop */
#define ALL_ROWS     UINT64_MAX

struct segment {
    const struct segment_config *config;
    pst_pipeline *pipeline;
    const struct pipeline_plan *plan; /* of the pipeline */
    struct file_stop stop;
    pst_damage_log *damage; /* where the damage of the inner pipeline goes */
    pst_spec spec;
    struct snapshot *snapshot; /* not NULL: its elements are read instead */
    struct arena memory;
    uint64_t count; /* SOURCE_STREAM: a stream */
    uint64_t rows;  /* of an element that is split, or of an inner batch */
    pthread_mutex_t lock;
    bool taken[MOST_WORKERS]; /* numbers of workers; under lock */
};

/* ---- Opening ---- */

static pst_status receive_damage(void *user, const pst_damage *damage, const char *why, pst_error *reterr)
{
    struct segment *s = user;
    return pst_damage_log_add(s->damage, damage, why, reterr);
}

/* The chain of the inner pipeline belongs to the outer one. */
static void close_segment(void *source)
{
    struct segment *s = source;
    if (!s)
        return;
    snapshot_close(s->snapshot);
    if (s->pipeline) {
        s->pipeline->borrows_chain = true;
        pst_pipeline_destroy(s->pipeline);
    }
    arena_finish(&s->memory);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

static pst_status open_pipeline(struct segment *s, uint64_t chunk, pst_error *reterr)
{
    pst_pipeline_options o = s->config->options;
    struct damage_sink sink = {.tolerant = s->config->tolerant, .add = receive_damage, .user = s};
    o.size = sizeof(o);
    o.rank = 0;
    o.world = 1; /* the outer pipeline divides the elements among the ranks */
    o.bad = NULL;
    pst_status st = pst_pipeline_create(&s->pipeline, &o, reterr);
    if (st < 0)
        return st;
    pst_pipeline *p = s->pipeline;
    p->damage.log = pst_damage_log_destroy(p->damage.log);
    p->damage.policy.skip = s->config->tolerant;
    st = damage_log_divert(&p->damage.log, &sink, reterr);
    p->chain = s->config->inner;
    p->chain.chunk = chunk;
    p->borrows_chain = true;
    return st == PST_OK ? pst_pipeline_plan(p, reterr) : st;
}

/* Elements may be so large that only one fits in a batch. */
static pst_status open_inner(struct segment *s, pst_error *reterr)
{
    pst_status st = open_pipeline(s, s->config->inner.chunk, reterr);
    if (st != PST_ELIMIT || s->config->inner.chunk <= 1)
        return st;
    s->pipeline = pst_pipeline_destroy(s->pipeline);
    return open_pipeline(s, 1, reterr);
}

/* ---- The fields ---- */

static pst_status add_field(struct segment *s, const pst_field *f, pst_error *reterr)
{
    pst_field own = *f;
    own.alias = -1;
    return pst_spec_add(&s->spec, &own, reterr);
}

/* Fields without a first dimension cannot be taken apart. */
static pst_status split_field(struct segment *s, const pst_field *f, pst_error *reterr)
{
    char name[FIELD_LABEL_SIZE];
    pst_field row = *f;
    if (f->rank == 0)
        return pst_fail(
            reterr, PST_ETYPE,
            "field \"%s\" is a single value, and unbatch takes fields apart along their first dimension; remove the "
            "field before (drop)",
            field_label(f, name));
    uint64_t rows = f->shape[0];
    if (rows != PST_ANY && s->rows != ALL_ROWS && s->rows != rows)
        return pst_fail(reterr, PST_ETYPE,
                        "field \"%s\" has %" PRIu64 " rows, the ones before it %" PRIu64
                        "; unbatch needs the same number in every field",
                        field_label(f, name), rows, s->rows);
    s->rows = rows != PST_ANY ? rows : s->rows;
    row.rank--;
    memmove(row.shape, f->shape + 1, row.rank * sizeof(*row.shape));
    return add_field(s, &row, reterr);
}

static bool has_varying_rows(const pst_spec *spec)
{
    for (size_t i = 0; i < spec->count; i++)
        if (spec->field[i].shape[0] == PST_ANY)
            return true;
    return false;
}

static pst_status find_spec(struct segment *s, pst_error *reterr)
{
    const pst_spec *element = program_spec(&s->plan->program, s->plan->program.count);
    bool is_whole = s->config->mode == SEGMENT_WHOLE;
    const pst_spec *from = is_whole ? &s->plan->batch : element;
    pst_status st = spec_init(&s->spec, &s->memory, from->count, reterr);
    s->rows = ALL_ROWS;
    for (size_t i = 0; i < from->count && st == PST_OK; i++)
        st = s->config->mode == SEGMENT_SPLIT ? split_field(s, &from->field[i], reterr) : add_field(s, &from->field[i], reterr);
    if (s->config->mode == SEGMENT_SPLIT && has_varying_rows(from))
        s->rows = ALL_ROWS;
    return st;
}

/* ---- The number of elements ---- */

/* Batches of one size can be taken apart by arithmetic; if nothing comes after the batch, the last one may be shorter. */
static uint64_t count_rows(struct segment *s)
{
    const struct order *o = &s->plan->order;
    const struct order_step *batch = &o->steps[o->batch];
    uint64_t rows;
    bool plain = !batch->shift && !batch->key && !batch->pad;
    s->rows = batch->size;
    if (plain && o->batch + 1 == o->count && !batch->drop_remainder)
        return o->elements;
    if (!plain || !(batch->drop_remainder || o->elements % batch->size == 0) ||
        __builtin_mul_overflow(o->batches, batch->size, &rows))
        return SOURCE_STREAM;
    return rows;
}

static uint64_t count_elements(struct segment *s)
{
    const struct order *o = &s->plan->order;
    uint64_t rows;
    if (s->config->stream || s->plan->program.streamed || o->batches >= ORDER_UNKNOWN)
        return SOURCE_STREAM;
    if (s->config->mode == SEGMENT_WHOLE)
        return o->batches;
    if (s->config->mode == SEGMENT_ROWS)
        return count_rows(s);
    if (s->rows == ALL_ROWS || __builtin_mul_overflow(o->elements, s->rows, &rows) || rows > INT64_MAX)
        return SOURCE_STREAM;
    return rows;
}

static pst_status open_snapshot(struct segment *s, pst_error *reterr)
{
    const struct node *cutter = s->config->cutter;
    struct snapshot_request request = {.rule = op_decl_of(cutter->op)->snapshot(cutter->config),
                                       .pipeline = s->pipeline,
                                       .spec = &s->spec,
                                       .tolerant = s->config->tolerant,
                                       .stop = s->stop};
    return snapshot_open(&s->snapshot, &request, reterr);
}

static pst_status prepare(void *source, pst_damage_log *damage, pst_error *reterr)
{
    struct segment *s = source;
    pst_damage_log *later = s->damage;
    if (!s->snapshot)
        return PST_OK;
    s->damage = damage;
    pst_status st = snapshot_complete(s->snapshot, reterr);
    s->damage = later;
    if (st == PST_OK)
        s->count = snapshot_count(s->snapshot);
    return st == PST_EIO || st == PST_EINVAL ? plan_point_node(&s->config->inner, s->config->cutter, st, reterr) : st;
}

static pst_status open_segment(const void *config, const struct source_env *env, void **ret, pst_error *reterr)
{
    struct segment *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "planning");
    pthread_mutex_init(&s->lock, NULL);
    s->config = config;
    s->stop = env->stop;
    s->damage = env->damage;
    pst_status st = open_inner(s, reterr);
    s->damage = env->met;
    if (st == PST_OK) {
        s->plan = s->pipeline->plan;
        batch_pool_keep(s->pipeline->pool, MOST_WORKERS);
        st = find_spec(s, reterr);
        if (st == PST_OK && s->config->mode == SEGMENT_SNAPSHOT)
            st = open_snapshot(s, reterr);
        st = plan_point_node(&s->config->inner, s->config->cutter, st, reterr);
    }
    if (st < 0) {
        close_segment(s);
        return st;
    }
    s->count = s->snapshot ? 0 : count_elements(s);
    *ret = s;
    return PST_OK;
}

/* ---- What it is ---- */

const struct pipeline_plan *segment_plan(const void *source)
{
    return ((const struct segment *)source)->plan;
}

const pst_pipeline *segment_pipeline(const void *source)
{
    return ((const struct segment *)source)->pipeline;
}

bool segment_is_fixed(const void *source)
{
    const struct segment *s = source;
    return s->snapshot || plan_is_fixed(s->plan);
}

static void spec(const void *source, pst_spec *ret)
{
    *ret = ((const struct segment *)source)->spec;
    ret->engine = NULL;
}

static uint64_t count(const void *source)
{
    return ((const struct segment *)source)->count;
}

static uint64_t fingerprint(const void *source)
{
    const struct segment *s = source;
    return hash_combine(s->plan->fingerprint, (uint64_t)s->config->mode);
}

static void describe(const void *source, char *buffer, size_t size)
{
    const struct segment *s = source;
    const char *op = s->config->cutter->op->name, *why;
    if (s->snapshot) {
        snapshot_describe(s->snapshot, buffer, size);
        return;
    }
    if (s->config->stream)
        why = "a stream, because the data decides";
    else if (s->count != SOURCE_STREAM)
        why = "by their number";
    else if (s->plan->program.streamed)
        why = "a stream, because its source is one";
    else if (s->plan->order.batches >= ORDER_UNKNOWN)
        why = "a stream, because it has no end";
    else
        why = "a stream, because their sizes differ";
    snprintf(buffer, size, "%s of the segment before %s: %s",
             s->config->mode == SEGMENT_WHOLE   ? "batches"
             : s->config->mode == SEGMENT_SPLIT ? "rows of the elements"
                                                : "elements",
             op, why);
}

static pst_status class_names(const void *source, struct path_list *ret, pst_error *reterr)
{
    const struct pipeline_plan *p = segment_plan(source);
    return p->source_class->class_names ? p->source_class->class_names(p->source, ret, reterr) : PST_OK;
}

/* ---- By number ---- */

struct segment_worker {
    struct runner runner;
    struct order_state order;
    struct cell *cell;
    unsigned number;
    bool has_number;
    pst_batch *batch;               /* of the element that was loaded last */
    uint64_t element, element_pass; /* of a split: which element `batch` has */
    bool held;
};

static bool take_number(struct segment *s, struct segment_worker *w)
{
    pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < MOST_WORKERS && !w->has_number; i++) {
        if (s->taken[i])
            continue;
        s->taken[i] = w->has_number = true;
        w->number = i;
    }
    pthread_mutex_unlock(&s->lock);
    return w->has_number;
}

static void worker_stop(void *source, void *worker)
{
    struct segment *s = source;
    struct segment_worker *w = worker;
    pst_batch_unref(w->batch);
    if (w->runner.program)
        runner_finish(&w->runner);
    order_state_finish(&w->order);
    mem_free((void *)w->cell);
    pthread_mutex_lock(&s->lock);
    if (w->has_number)
        s->taken[w->number] = false;
    pthread_mutex_unlock(&s->lock);
}

static pst_status worker_start(void *source, void *worker, pst_error *reterr)
{
    struct segment *s = source;
    struct segment_worker *w = worker;
    const struct program *p = &s->plan->program;
    if (s->snapshot) /* it needs no program */
        return PST_OK;
    w->cell = mem_aligned(sizeof(*w->cell));
    if (!w->cell || !take_number(s, w) || w->number >= s->plan->slots)
        return fail_memory(reterr, "starting a worker");
    memset((void *)w->cell, 0, sizeof(*w->cell));
    pst_status st = order_state_init(&w->order, &s->plan->order, reterr);
    if (st == PST_OK)
        st = runner_init(&w->runner, p, w->number, s->pipeline->options.seed, w->cell, reterr);
    if (st == PST_OK)
        w->order.numbers = (struct order_numbers){w->runner.root.numbers, w->runner.root.capacity};
    return st;
}

/* Runs the inner program on `count` elements of `where` from `first`, and finishes them as a batch. */
static pst_status run_inner(struct segment *s, struct segment_worker *w, const struct order_batch *where, uint64_t first,
                            size_t count, pst_ctx *ctx, pst_error *reterr)
{
    pst_error error;
    size_t at;
    ctx->cause = PST_CAUSES;
    w->held = false;
    w->batch = pst_batch_unref(w->batch);
    pst_status st = batch_pool_take(s->pipeline->pool, &w->batch, reterr);
    if (st < 0)
        return st;
    order_elements(&s->plan->order, &w->order, where, first, count, w->runner.root.index, w->runner.root.pass);
    runner_slice(&w->runner, count, &w->batch->memory[0]);
    for (size_t i = 0; i < count && st == PST_OK; i++) {
        struct runner_target to = {.batch = w->batch, .at = i};
        runner_clear_error(&error);
        st = runner_run(&w->runner, i, NULL, &to, &ctx->cause, &error);
    }
    if (st == PST_OK) {
        ctx->cause = PST_CAUSES;
        runner_clear_error(&error);
        st = batch_finish(w->batch, count, 0, &at, &error);
    }
    if (st < 0 && reterr)
        *reterr = error;
    return st;
}

static struct order_batch place_of(const struct segment *s, struct segment_worker *w, uint64_t pass, uint64_t batch)
{
    return order_open(&s->plan->order, &w->order, pass, batch);
}

/* Element `k` of the inner pipeline alone, as the first of a batch. */
static pst_status run_element(struct segment *s, struct segment_worker *w, uint64_t k, pst_ctx *ctx, pst_error *reterr)
{
    uint64_t size = s->plan->order.steps[s->plan->order.batch].size;
    struct order_batch where = place_of(s, w, ctx->epoch, k / size);
    return run_inner(s, w, &where, k % size, 1, ctx, reterr);
}

static pst_status load_row(struct segment *s, struct segment_worker *w, uint64_t k, pst_ctx *ctx, pst_tensor *out,
                           pst_error *reterr)
{
    pst_status st = PST_OK;
    if (!w->held || w->element != k / s->rows || w->element_pass != ctx->epoch)
        st = run_element(s, w, k / s->rows, ctx, reterr);
    if (st != PST_OK)
        return st;
    w->held = true;
    w->element = k / s->rows;
    w->element_pass = ctx->epoch;
    for (size_t f = 0; f < s->spec.count; f++) {
        pst_tensor whole = rows_at(w->batch, f, 0);
        out[f] = rows_split(&whole, k % s->rows);
    }
    return PST_OK;
}

static pst_status load(void *source, void *worker, uint64_t k, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct segment *s = source;
    struct segment_worker *w = worker;
    ctx->cause = PST_CAUSE_VALUE;
    if (s->snapshot)
        return snapshot_load(s->snapshot, k, ctx, out, reterr);
    if (s->config->mode == SEGMENT_SPLIT)
        return load_row(s, w, k, ctx, out, reterr);
    struct order_batch where;
    pst_status st;
    if (s->config->mode == SEGMENT_WHOLE) {
        where = place_of(s, w, ctx->epoch, k);
        st = run_inner(s, w, &where, 0, (size_t)where.size, ctx, reterr);
    } else {
        st = run_element(s, w, k, ctx, reterr);
    }
    for (size_t f = 0; f < s->spec.count && st == PST_OK; f++)
        out[f] = s->config->mode == SEGMENT_WHOLE ? *pst_batch_at(w->batch, f) : rows_at(w->batch, f, 0);
    return st;
}

static uint64_t bytes_of(const void *source, uint64_t k)
{
    const struct segment *s = source;
    return s->snapshot ? snapshot_bytes_of(s->snapshot, k) : 0;
}

static void locate(const void *source, uint64_t k, size_t field, struct source_place *ret)
{
    const struct segment *s = source;
    const struct pipeline_plan *p = s->plan;
    struct order_state state = {0};
    const struct program *program = &p->program;
    uint64_t size = p->order.steps[p->order.batch].size, index, pass, sample;
    size_t whole = SOURCE_WHOLE;
    uint64_t element = s->config->mode == SEGMENT_SPLIT ? k / s->rows : k;
    (void)field;
    if (s->snapshot) {
        *ret = (struct source_place){snapshot_folder(s->snapshot), k, PST_NOWHERE};
        return;
    }
    if (order_state_init(&state, &p->order, NULL) < 0)
        return;
    bool is_whole = s->config->mode == SEGMENT_WHOLE;
    struct order_batch where = order_open(&p->order, &state, 0, is_whole ? k : element / size);
    order_elements(&p->order, &state, &where, is_whole ? 0 : element % size, 1, &index, &pass);
    order_state_finish(&state);
    if (join_resolve(&program, &index, &pass, &whole, &sample, NULL) == PST_OK && program->source_class->locate)
        program->source_class->locate(program->source, index, whole, ret);
}

/* ---- As a stream ---- */

struct segment_stream {
    struct segment *segment;
    bool begun;
    pst_batch *batch;
    size_t at;          /* next element of the batch; of a split: the present one… */
    bool opened;        /* …which was counted… */
    uint64_t row, rows; /* …its next row, and how many it has */
    size_t last;        /* the element that was delivered last */
};

static pst_status stream_open(void *source, void **ret, pst_error *reterr)
{
    struct segment_stream *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "starting the stream");
    t->segment = source;
    *ret = t;
    return PST_OK;
}

static void stream_close(void *stream)
{
    struct segment_stream *t = stream;
    pst_batch_unref(t->batch);
    mem_free(t);
}

/* Moves the inner pipeline to the beginning of a pass, unless it is there. */
static pst_status begin(struct segment *s, uint64_t pass, pst_error *reterr)
{
    pst_pipeline *p = s->pipeline;
    pst_cursor cursor;
    if (p->epoch == pass && p->next == 0 && p->failed == PST_OK)
        return PST_OK;
    pst_cursor_set(&cursor, &(pst_position){.fingerprint = s->plan->fingerprint, .seed = p->options.seed, .epoch = pass});
    return pst_pipeline_seek(p, &cursor, reterr);
}

/* The next batch of the inner pipeline; ends early when the outer one is stopped. */
static pst_status pull(struct segment_stream *t, uint64_t pass, pst_error *reterr)
{
    struct segment *s = t->segment;
    pst_status st = t->begun ? PST_OK : begin(s, pass, reterr);
    if (st < 0)
        return st;
    t->begun = true;
    t->batch = pst_batch_unref(t->batch);
    t->at = 0;
    do {
        st = file_check_stop(&s->stop, NULL, reterr);
        if (st == PST_OK)
            st = pst_pipeline_wait(s->pipeline, WAIT_SECONDS, reterr);
    } while (st == PST_TIMEOUT);
    return st == PST_OK ? pst_pipeline_next(s->pipeline, &t->batch, reterr) : st;
}

/* The number of rows of an element that is to be split. */
static pst_status count_split(const struct segment_stream *t, uint64_t *ret, pst_error *reterr)
{
    const struct segment *s = t->segment;
    for (size_t f = 0; f < s->spec.count; f++) {
        pst_tensor whole = rows_at(t->batch, f, t->at);
        if (f > 0 && whole.shape[0] != *ret)
            return pst_fail(reterr, PST_ETYPE,
                            "field \"%s\" has %" PRIu64 " rows here, the ones before it %" PRIu64
                            "; unbatch needs the same number in every field",
                            s->spec.field[f].name, whole.shape[0], *ret);
        *ret = whole.shape[0];
    }
    return PST_OK;
}

static pst_status next_row(struct segment_stream *t, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    pst_status st = PST_OK;
    while (st == PST_OK && (!t->opened || t->row == t->rows)) {
        t->at += t->opened;
        t->opened = false;
        t->row = t->rows = 0;
        while (st == PST_OK && (!t->batch || t->at == pst_batch_size(t->batch)))
            st = pull(t, ctx->epoch, reterr);
        if (st == PST_OK)
            st = count_split(t, &t->rows, reterr);
        t->opened = st == PST_OK;
    }
    for (size_t f = 0; f < t->segment->spec.count && st == PST_OK; f++) {
        pst_tensor whole = rows_at(t->batch, f, t->at);
        out[f] = rows_split(&whole, t->row);
    }
    t->last = t->at;
    t->row += st == PST_OK;
    return st;
}

static pst_status stream_next(void *stream, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct segment_stream *t = stream;
    const struct segment *s = t->segment;
    pst_status st = PST_OK;
    if (s->config->mode == SEGMENT_SPLIT)
        return next_row(t, ctx, out, reterr);
    bool is_whole = s->config->mode == SEGMENT_WHOLE;
    while (st == PST_OK && (!t->batch || t->at >= (is_whole ? 1 : pst_batch_size(t->batch))))
        st = pull(t, ctx->epoch, reterr);
    for (size_t f = 0; f < s->spec.count && st == PST_OK; f++)
        out[f] = is_whole ? *pst_batch_at(t->batch, f) : rows_at(t->batch, f, t->at);
    t->last = t->at;
    t->at += st == PST_OK;
    return st;
}

static void stream_locate(const void *stream, struct source_place *ret)
{
    const struct segment_stream *t = stream;
    pst_place place;
    if (t->batch && pst_pipeline_locate(t->segment->pipeline, t->batch, t->last, &place, NULL) == PST_OK)
        *ret = (struct source_place){place.path, place.record, place.offset};
}

const struct source_class source_segment = {
    .op = {.size = sizeof(pst_op_class), .name = "segment", .doc = "The part of the chain before it."},
    .open = open_segment,
    .close = close_segment,
    .spec = spec,
    .prepare = prepare,
    .count = count,
    .fingerprint = fingerprint,
    .describe = describe,
    .class_names = class_names,
    .inner = segment_plan,
    .is_fixed = segment_is_fixed,
    .worker_size = sizeof(struct segment_worker),
    .worker_start = worker_start,
    .worker_stop = worker_stop,
    .load = load,
    .bytes_of = bytes_of,
    .locate = locate,
    .sets_cause = true,
    .stream_open = stream_open,
    .stream_next = stream_next,
    .stream_locate = stream_locate,
    .stream_close = stream_close,
};
