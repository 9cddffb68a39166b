/* stream_filters.c: order operations as filters, each pulling from the one before it.
 *
 * The filters are those of order.c's steps and give the same sequences, except for shuffle: without an index it draws from a
 * buffer that is bounded in bytes and filled in order, so that its result depends only on the data and the seed. Elements
 * that a cache holds are not read again; the stream is opened when the first element that is not in the cache is needed. */
#include "flow/stream_filters.h"

#include "base/error.h"
#include "base/memory.h"
#include "flow/damage_judge.h"
#include "flow/element.h"
#include "flow/locate.h"
#include "lang/expr.h"
#include "ops/ctx.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SHUFFLE_OP (UINT32_MAX - 1) /* a key that no operation has */
#define SLACK      64               /* an item's memory may be larger than twice its size by this */

/* ---- Items ---- */

static void item_destroy(struct element_stream *s, struct item *item)
{
    atomic_fetch_sub_explicit(&s->bytes, item->room, memory_order_relaxed);
    mem_free(item->block);
    mem_free(item);
}

static bool item_resize(struct element_stream *s, struct item *item, size_t size)
{
    if (item->block && item->room >= size && item->room <= 2 * size + SLACK)
        return true;
    void *block = mem_aligned(size);
    if (!block)
        return false;
    mem_free(item->block);
    item->block = block;
    atomic_fetch_add_explicit(&s->bytes, size - item->room, memory_order_relaxed);
    item->room = size;
    return true;
}

struct item *item_create(struct element_stream *s, size_t size)
{
    pthread_mutex_lock(&s->lock);
    struct item *item = s->free;
    if (item)
        s->free = item->next;
    pthread_mutex_unlock(&s->lock);
    if (!item)
        item = mem_zalloc(sizeof(*item));
    if (!item)
        return NULL;
    if (size == 0) {
        atomic_fetch_sub_explicit(&s->bytes, item->room, memory_order_relaxed);
        mem_free(item->block);
        item->block = NULL;
        item->room = 0;
    } else if (!item_resize(s, item, size)) {
        item_destroy(s, item);
        return NULL;
    }
    item->next = NULL;
    return item;
}

void element_stream_release(struct element_stream *s, struct item *list)
{
    if (!list)
        return;
    struct item *last = list;
    while (last->next)
        last = last->next;
    pthread_mutex_lock(&s->lock);
    last->next = s->free;
    s->free = list;
    pthread_mutex_unlock(&s->lock);
}

void item_view(const struct element_stream *s, const struct item *item, pst_tensor *tensors)
{
    const struct program *p = s->program;
    for (size_t k = 0; k < p->need.count; k++)
        tensors[p->need.number[k]] = field_tensor(&p->in.field[p->need.number[k]]);
    element_view(item->block, &p->in, &p->need, tensors);
}

uint64_t element_stream_bytes(const struct element_stream *s)
{
    return atomic_load_explicit(&s->bytes, memory_order_relaxed);
}

/* ---- The source ---- */

static void close_reading(struct element_stream *s)
{
    if (s->reading)
        s->program->source_class->stream_close(s->reading);
    s->reading = NULL;
    s->at = 0;
}

static pst_status open_reading(struct element_stream *s, pst_error *reterr)
{
    const struct program *p = s->program;
    s->damaged = p->intake->total;
    return p->source_class->stream_open(p->source, &s->reading, reterr);
}

static pst_status read_element(struct element_stream *s, uint64_t pass, pst_error *reterr)
{
    const struct program *p = s->program;
    pst_status st = s->reading ? PST_OK : open_reading(s, reterr);
    if (st < 0)
        return st;
    for (size_t f = 0; f < p->in.count; f++)
        s->out[f] = field_tensor(&p->in.field[f]);
    s->ctx.epoch = pass;
    s->ctx.sample = s->at;
    arena_reset(&s->ctx.scratch);
    st = p->source_class->stream_next(s->reading, &s->ctx, s->out, reterr);
    for (size_t k = 0; st == PST_OK && k < p->need.count; k++) {
        size_t f = p->need.number[k];
        if (!tensor_keeps(&p->in.field[f], &s->out[f]))
            st = tensor_refuse(&p->in.field[f], &s->out[f], reterr);
    }
    if (st == PST_OK)
        s->at++;
    uint64_t met = s->at + p->intake->total - s->damaged;
    s->met = met > s->met ? met : s->met;
    return st;
}

/* Returns the tag of the element that was just read. */
static struct cache_tag tag_of_read(const struct element_stream *s)
{
    const struct program *p = s->program;
    struct cache_tag tag = {.size = element_size(&p->in, &p->need, s->out)};
    if (p->source_class->stream_locate)
        p->source_class->stream_locate(s->reading, &tag.place);
    return tag;
}

static pst_status source_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    const struct program *p = s->program;
    if (atomic_load_explicit(s->stopped, memory_order_relaxed)) /* filling a buffer may take long */
        return pst_fail(reterr, PST_ECANCELLED, "the pipeline was stopped");
    bool looks = p->order_field_count > 0; /* at fields, which the cache does not have */
    const void *kept = p->cache && !looks ? cache_find(p->cache, f->count) : NULL;
    pst_status st = f->ended || (p->cache && f->count == s->length) ? PST_END : PST_OK;
    while (st == PST_OK && !kept && s->at <= f->count)
        st = read_element(s, f->pass, reterr);
    if (st == PST_END) {
        f->ended = true;
        s->length = f->count;
        if (p->cache)
            cache_set_length(p->cache, f->count);
    }
    if (st != PST_OK) {
        if (st < 0 && reterr && !reterr->op[0])
            snprintf(reterr->op, sizeof(reterr->op), "%s", p->source_class->op.name);
        if (st < 0 && reterr && s->reading && !p->source_class->stream_locate && reterr->record == PST_NOWHERE)
            reterr->record = s->at; /* the element that did not come: it is in no file */
        return st;
    }
    struct cache_tag tag = kept ? cache_tag_of(kept) : tag_of_read(s);
    size_t size = (size_t)tag.size;
    struct item *item = size == SIZE_MAX ? NULL : item_create(s, kept ? 0 : size ? size : 1);
    if (!item)
        return pst_fail(reterr, PST_ENOMEM, "%s: out of memory for element %" PRIu64 " of %zu bytes", p->source_class->op.name,
                        f->count, size);
    if (!kept)
        element_pack(item->block, &p->in, &p->need, s->out);
    item->size = size;
    item->place = tag.place;
    item->sample = f->count++;
    item->pass = f->pass;
    *ret = item;
    return PST_OK;
}

/* ---- Filters ---- */

static uint64_t rounds_of(const struct order_step *step)
{
    return step->count < 0 ? UINT64_C(1) << 32 : (uint64_t)step->count; /* as in order.c */
}

static void filter_begin(struct element_stream *s, struct filter *f, uint64_t pass)
{
    for (size_t i = 0; i < f->buffered; i++)
        element_stream_release(s, f->buffer[i]);
    keys_clear(s, f);
    f->pass = pass;
    f->count = f->bytes = f->buffered = 0;
    f->moving = f->ended = false;
    if (!f->step) {
        close_reading(s);
        return;
    }
    if (f->step->kind == ORDER_SHUFFLE)
        random_init(&f->random, f->step->seed, f->step->reshuffle ? pass : 0, 0, SHUFFLE_OP);
    filter_begin(s, f->inner, f->step->kind == ORDER_REPEAT ? pass * rounds_of(f->step) : pass);
}

static pst_status skip_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    pst_status st = f->step->count < 0 ? PST_END : PST_OK;
    for (int64_t i = 0; !f->moving && i < f->step->count && st == PST_OK; i++) {
        struct item *skipped = NULL;
        st = filter_next(s, f->inner, &skipped, reterr);
        element_stream_release(s, skipped);
    }
    f->moving = st == PST_OK;
    return st == PST_OK ? filter_next(s, f->inner, ret, reterr) : st;
}

static pst_status shard_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    for (;;) {
        struct item *item;
        pst_status st = filter_next(s, f->inner, &item, reterr);
        if (st != PST_OK)
            return st;
        if (f->count++ % f->step->shards == f->step->shard) {
            *ret = item;
            return PST_OK;
        }
        element_stream_release(s, item);
    }
}

/* Passes on the elements for which the expression is true. */
static pst_status expression_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    const struct expr *e = f->step->expr;
    bool real = e->nodes[e->root].type == EXPR_FLOAT;
    for (;;) {
        struct item *item;
        union {
            int64_t whole;
            double real;
        } value = {0};
        size_t values;
        pst_status st = filter_next(s, f->inner, &item, reterr);
        if (st != PST_OK)
            return st;
        item_view(s, item, s->out);
        st = expr_check(e, s->out, &values, reterr);
        if (st == PST_OK)
            st = expr_compute(e, s->out, 0, 1, &value, reterr);
        if (st == PST_OK && (real ? value.real != 0 : value.whole != 0)) {
            *ret = item;
            return PST_OK;
        }
        if (st < 0 && reterr) {
            snprintf(reterr->op, sizeof(reterr->op), "filter");
            locate_error(s->program, SOURCE_WHOLE, item->sample, item, reterr);
        }
        element_stream_release(s, item);
        if (st < 0)
            return st;
    }
}

static pst_status number_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    pst_status st = filter_next(s, f->inner, ret, reterr);
    if (st == PST_OK)
        (*ret)->numbers[f->step->number] = f->count++;
    return st;
}

static pst_status repeat_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    while (f->step->count < 0 || f->count < (uint64_t)f->step->count) {
        pst_status st = filter_next(s, f->inner, ret, reterr);
        if (st != PST_END) {
            f->moving = true;
            return st;
        }
        if (!f->moving)
            return PST_END; /* nothing to repeat */
        f->moving = false;
        f->count++;
        filter_begin(s, f->inner, f->pass * rounds_of(f->step) + f->count);
    }
    return PST_END;
}

uint64_t item_list_bytes(const struct item *list)
{
    uint64_t bytes = 0;
    for (; list; list = list->next)
        bytes += list->size + sizeof(*list);
    return bytes;
}

static bool is_full(const struct filter *f)
{
    return f->step->drawn ? f->buffered >= f->step->drawn : f->bytes >= f->step->buffer;
}

/* Fills the buffer up to its size, then draws one. */
static pst_status shuffle_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    pst_status st = PST_OK;
    while (st == PST_OK && !is_full(f)) {
        struct item *item;
        if (f->step->drawn && f->bytes > f->step->limit)
            return pst_fail(reterr, PST_ELIMIT,
                            "shuffle: %zu of the %" PRIu64 " elements of its buffer fill the budget of %" PRIu64
                            " bytes; try a smaller buffer (buffer=) or a larger budget (ram)",
                            f->buffered, f->step->drawn, f->step->limit);
        if (mem_grow((void **)&f->buffer, &f->room, f->buffered + 1, sizeof(*f->buffer)) < 0)
            return pst_fail(reterr, PST_ENOMEM, "shuffle: out of memory for its buffer; try a smaller one (buffer=)");
        st = filter_next(s, f->inner, &item, reterr);
        if (st != PST_OK)
            break;
        f->buffer[f->buffered++] = item;
        f->bytes += item_list_bytes(item);
    }
    if (st < 0)
        return st;
    if (f->buffered == 0)
        return PST_END;
    size_t drawn = (size_t)random_below(&f->random, f->buffered);
    *ret = f->buffer[drawn];
    f->buffer[drawn] = f->buffer[--f->buffered];
    f->bytes -= item_list_bytes(*ret);
    return PST_OK;
}

static pst_status batch_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    struct item *first = NULL, **link = &first;
    uint64_t n = 0;
    pst_status st = PST_OK;
    for (; n < f->step->size; n++) {
        st = filter_next(s, f->inner, link, reterr);
        if (st != PST_OK)
            break;
        link = &(*link)->next;
    }
    if (st < 0 || n == 0 || (n < f->step->size && f->step->drop_remainder)) {
        *link = NULL;
        element_stream_release(s, first);
        return st;
    }
    *ret = first;
    return PST_OK;
}

pst_status filter_next(struct element_stream *s, struct filter *f, struct item **ret, pst_error *reterr)
{
    if (!f->step)
        return source_next(s, f, ret, reterr);
    switch (f->step->kind) {
    case ORDER_SHUFFLE:
        return shuffle_next(s, f, ret, reterr);
    case ORDER_REPEAT:
        return repeat_next(s, f, ret, reterr);
    case ORDER_TAKE:
        if (f->step->count >= 0 && f->count == (uint64_t)f->step->count)
            return PST_END;
        f->count++;
        return filter_next(s, f->inner, ret, reterr);
    case ORDER_SKIP:
        return skip_next(s, f, ret, reterr);
    case ORDER_SHARD:
        return shard_next(s, f, ret, reterr);
    case ORDER_NUMBER:
        return number_next(s, f, ret, reterr);
    case ORDER_UNIQUE:
        return unique_next(s, f, ret, reterr);
    case ORDER_FILTER:
        return expression_next(s, f, ret, reterr);
    case ORDER_RESAMPLE: /* not for streams */
    case ORDER_BATCH:
        break;
    }
    if (f->step->key)
        return keyed_next(s, f, ret, reterr);
    return f->step->shift ? window_next(s, f, ret, reterr) : batch_next(s, f, ret, reterr);
}

/* ---- The whole ---- */

pst_status element_stream_create(struct element_stream **ret, const struct program *p, const struct order *o, uint64_t seed,
                                 const _Atomic bool *stopped, pst_error *reterr)
{
    struct element_stream *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "starting the stream");
    pthread_mutex_init(&s->lock, NULL);
    s->program = p;
    s->stopped = stopped;
    s->length = p->cache ? cache_length(p->cache) : SOURCE_STREAM;
    s->ctx.seed = seed;
    arena_init(&s->ctx.scratch);
    s->count = o->count + 1;
    s->filters = mem_array(s->count, sizeof(*s->filters));
    s->out = mem_array(p->in.count, sizeof(*s->out));
    if (!s->filters || !s->out) {
        element_stream_destroy(s);
        return fail_memory(reterr, "starting the stream");
    }
    for (size_t i = 0; i < o->count; i++) {
        s->filters[i + 1].step = &o->steps[i];
        s->filters[i + 1].inner = &s->filters[i];
    }
    *ret = s;
    return PST_OK;
}

struct element_stream *element_stream_destroy(struct element_stream *s)
{
    if (!s)
        return NULL;
    close_reading(s);
    for (size_t i = 0; s->filters && i < s->count; i++) {
        for (size_t k = 0; k < s->filters[i].buffered; k++)
            element_stream_release(s, s->filters[i].buffer[k]);
        keys_finish(s, &s->filters[i]);
        mem_free(s->filters[i].buffer);
    }
    while (s->free) {
        struct item *next = s->free->next;
        item_destroy(s, s->free);
        s->free = next;
    }
    mem_free(s->filters);
    mem_free(s->out);
    arena_finish(&s->ctx.scratch);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
    return NULL;
}

void element_stream_begin(struct element_stream *s, uint64_t epoch)
{
    filter_begin(s, &s->filters[s->count - 1], epoch);
}

pst_status element_stream_next(struct element_stream *s, struct item **ret, pst_error *reterr)
{
    return filter_next(s, &s->filters[s->count - 1], ret, reterr);
}

uint64_t element_stream_met(const struct element_stream *s)
{
    return s->met;
}
