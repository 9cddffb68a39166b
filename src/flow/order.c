/* order.c: index algebra. Each step is a function from a position after it to a position before it; composed from the last
 * to the first they map an element of the result to an element of the source.
 *
 * A pass counts how often the steps before a position have been completed: the epoch at the end of the chain, times the
 * repetitions on the way to the front. It keys shuffles and the random streams of the elements, so that passes differ.
 * Streams have the same steps; stream_filters.c runs them one element at a time. */
#include "flow/order.h"

#include "base/bitmap.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "flow/resample.h"

#include <inttypes.h>
#include <string.h>

void order_init(struct order *o, uint64_t source)
{
    *o = (struct order){.source = source, .batch = SIZE_MAX, .elements = source, .batches = source};
    o->streamed = source == ORDER_UNKNOWN;
}

void order_finish(struct order *o)
{
    mem_free(o->steps);
    *o = (struct order){0};
}

static bool is_counted(uint64_t n)
{
    return n < ORDER_UNKNOWN;
}

static pst_status repeat_length(uint64_t inner, int64_t count, uint64_t *ret, pst_error *reterr)
{
    if (count == 0 || inner == 0)
        *ret = 0;
    else if (count < 0)
        *ret = ORDER_ENDLESS; /* of a stream that turns out to be empty, too: it then ends at once */
    else if (!is_counted(inner))
        *ret = inner;
    else if (__builtin_mul_overflow(inner, (uint64_t)count, ret) || *ret > INT64_MAX)
        return pst_fail(reterr, PST_EINVAL,
                        "repeat: %" PRIu64 " elements %" PRId64 " times are too many to number; -1 is endless", inner, count);
    return PST_OK;
}

static uint64_t shift_of(const struct order_step *s)
{
    return s->shift ? s->shift : s->size;
}

/* A batch begins every `shift` elements; the last ones may have fewer elements than the others. */
static pst_status batch_length(const struct order_step *s, uint64_t *ret, pst_error *reterr)
{
    uint64_t n = s->inner, span;
    if (s->size == 0)
        return pst_fail(reterr, PST_EINVAL, "a size of 0; expected at least 1");
    if (__builtin_mul_overflow(s->size - 1, s->stride ? s->stride : 1, &span) || span >= INT64_MAX || shift_of(s) > INT64_MAX)
        return pst_fail(reterr, PST_EINVAL, "%" PRIu64 " elements with a stride of %" PRIu64 " are too many to number", s->size,
                        s->stride);
    if (s->key)
        *ret = n > 0 ? ORDER_UNKNOWN : 0;
    else if (is_counted(n) && s->drop_remainder)
        *ret = n > span ? (n - span - 1) / shift_of(s) + 1 : 0;
    else if (is_counted(n))
        *ret = n / shift_of(s) + (n % shift_of(s) > 0);
    return PST_OK;
}

static pst_status step_length(const struct order_step *s, uint64_t *ret, pst_error *reterr)
{
    uint64_t n = s->inner, count = (uint64_t)s->count;
    *ret = n;
    switch (s->kind) {
    case ORDER_SHUFFLE:
    case ORDER_NUMBER:
        break;
    case ORDER_FILTER:
        *ret = s->bits ? bitmap_ones(s->bits) : n;
        break;
    case ORDER_RESAMPLE:
        *ret = resample_length(s->resample);
        break;
    case ORDER_REPEAT:
        return repeat_length(n, s->count, ret, reterr);
    case ORDER_TAKE:
        if (s->count >= 0 && (count < n || n == ORDER_ENDLESS))
            *ret = n == ORDER_UNKNOWN && count > 0 ? ORDER_UNKNOWN : count;
        break;
    case ORDER_SKIP:
        if (s->count < 0)
            *ret = 0;
        else if (is_counted(n))
            *ret = count < n ? n - count : 0;
        break;
    case ORDER_SHARD:
        if (s->shards == 0 || s->shard >= s->shards)
            return pst_fail(reterr, PST_EINVAL, "number %" PRIu64 " of %" PRIu64 " shard%s; they are numbered from 0", s->shard,
                            s->shards, s->shards == 1 ? "" : "s");
        if (is_counted(n))
            *ret = n > s->shard ? (n - s->shard - 1) / s->shards + 1 : 0;
        break;
    case ORDER_BATCH:
        return batch_length(s, ret, reterr);
    case ORDER_UNIQUE:
        *ret = is_counted(n) && n > 0 ? ORDER_UNKNOWN : n;
        break;
    }
    return PST_OK;
}

pst_status order_push(struct order *o, const struct order_step *step, pst_error *reterr)
{
    struct order_step s = *step;
    s.inner = o->batches;
    pst_status st = step_length(&s, &s.outer, reterr);
    if (st < 0)
        return st;
    if (s.kind == ORDER_SHUFFLE && s.inner == ORDER_ENDLESS && !o->streamed) /* a stream has a buffer for it */
        return pst_fail(reterr, PST_EINVAL,
                        "shuffle: an endless sequence has no whole to shuffle; put shuffle before repeat");
    if (s.kind == ORDER_BATCH && o->batch != SIZE_MAX)
        return pst_fail(reterr, PST_EINVAL, "the elements are batched already; a chain can have only one batch");
    if (s.kind == ORDER_NUMBER && o->batch != SIZE_MAX)
        return pst_fail(reterr, PST_EINVAL, "elements are numbered before they are batched; put it before batch");
    if (s.kind == ORDER_NUMBER && o->numbers == ORDER_MAX_NUMBERS)
        return pst_fail(reterr, PST_ELIMIT, "a chain numbers its elements at most %d times", ORDER_MAX_NUMBERS);
    if (mem_grow((void **)&o->steps, &o->capacity, o->count + 1, sizeof(*o->steps)) < 0)
        return fail_memory(reterr, "planning the order");
    if (s.kind == ORDER_BATCH)
        o->batch = o->count;
    if (o->batch == SIZE_MAX || s.kind == ORDER_BATCH)
        o->elements = s.kind == ORDER_BATCH ? s.inner : s.outer;
    if (s.kind == ORDER_NUMBER)
        s.number = o->numbers++;
    o->steps[o->count++] = s;
    o->batches = s.outer;
    return PST_OK;
}

/* ---- Parts ---- */

/* The first batch of part h, of `batches` in all: batches * h / parts, without overflow. */
static uint64_t part_begin(uint64_t batches, uint64_t parts, uint64_t h)
{
    return batches / parts * h + batches % parts * h / parts;
}

/* The part that batch `b`, counted along the elements, is in. */
static uint64_t part_of(uint64_t batches, uint64_t parts, uint64_t b)
{
    uint64_t h = (uint64_t)((double)b / (double)batches * (double)parts); /* an estimate, which is corrected */
    h = h < parts ? h : parts - 1;
    while (h > 0 && part_begin(batches, parts, h) > b)
        h--;
    while (h + 1 < parts && part_begin(batches, parts, h + 1) <= b)
        h++;
    return h;
}

/* Batch k of an epoch, counted along the elements: the parts take turns; where some have a batch more, these come last. */
static uint64_t take_turns(const struct order_step *s, uint64_t k)
{
    uint64_t batches = s->outer, rounds = batches / s->parts;
    if (k < rounds * s->parts)
        return part_begin(batches, s->parts, k % s->parts) + k / s->parts;
    k -= rounds * s->parts;
    for (uint64_t h = 0; h < s->parts; h++) {
        uint64_t begin = part_begin(batches, s->parts, h), end = part_begin(batches, s->parts, h + 1);
        if (end - begin > rounds && k-- == 0)
            return end - 1;
    }
    return batches - 1;
}

pst_status order_divide(struct order *o, uint64_t parts, pst_error *reterr)
{
    size_t shuffle = SIZE_MAX;
    if (parts <= 1)
        return PST_OK;
    if (o->streamed || o->batch == SIZE_MAX)
        return pst_fail(reterr, PST_EINVAL, "hosts: a source without an index is read from beginning to end, and has no parts for hosts");
    for (size_t i = 0; i < o->count; i++) {
        const struct order_step *s = &o->steps[i];
        bool plain = s->kind == ORDER_NUMBER || (s->kind == ORDER_SHUFFLE && shuffle == SIZE_MAX && i < o->batch) ||
                     (s->kind == ORDER_BATCH && s->size == shift_of(s) && (s->stride <= 1) && !s->drop_remainder);
        if (!plain)
            return pst_fail(reterr, PST_EINVAL,
                            "hosts: parts for hosts need a source, at most one shuffle before the batch, and a plain batch; take, repeat, filter and others change "
                            "which elements there are");
        shuffle = s->kind == ORDER_SHUFFLE ? i : shuffle;
    }
    struct order_step *batch = &o->steps[o->batch];
    if (batch->outer < parts)
        return pst_fail(reterr, PST_EINVAL, "hosts: %" PRIu64 " batches cannot be divided among %" PRIu64 " hosts", batch->outer, parts);
    batch->parts = parts;
    batch->unit = batch->size;
    if (shuffle != SIZE_MAX) {
        o->steps[shuffle].parts = parts;
        o->steps[shuffle].unit = batch->size;
    }
    return PST_OK;
}

void order_part(const struct order *o, uint64_t h, uint64_t *ret_first, uint64_t *ret_end)
{
    const struct order_step *batch = &o->steps[o->batch];
    *ret_first = part_begin(batch->outer, batch->parts, h) * batch->unit;
    *ret_end = part_begin(batch->outer, batch->parts, h + 1) * batch->unit;
}

/* Whether a step picks other elements, or others first, in every epoch. */
static bool changes(const struct order_step *s)
{
    return (s->kind == ORDER_SHUFFLE && s->reshuffle) || s->kind == ORDER_RESAMPLE;
}

uint64_t order_reach(const struct order *o)
{
    uint64_t reach = o->source, unit = 1, most;
    bool all = false;
    for (size_t i = 0; i < o->count; i++) {
        const struct order_step *s = &o->steps[i];
        unit = s->kind == ORDER_BATCH ? s->size : unit;
        all |= changes(s);
        if ((!all || s->outer == 0) && !__builtin_mul_overflow(s->outer, unit, &most) && most < reach)
            reach = most;
    }
    return reach;
}

pst_status order_state_init(struct order_state *s, const struct order *o, pst_error *reterr)
{
    s->memos = mem_array(o->count, sizeof(*s->memos));
    return s->memos ? PST_OK : fail_memory(reterr, "starting a worker");
}

void order_state_finish(struct order_state *s)
{
    mem_free(s->memos);
    s->memos = NULL;
}

/* Prepares the permutation of a pass. */
static void memo_pass(struct order_memo *m, const struct order_step *s, uint64_t pass)
{
    uint64_t key = s->reshuffle ? pass : 0;
    if (m->has_pass && m->pass == key)
        return;
    *m = (struct order_memo){.pass = key, .has_pass = true};
    if (s->chunk == 0) {
        permutation_init(&m->all, s->inner, s->seed, key);
        return;
    }
    uint64_t chunks = s->inner / s->chunk + (s->inner % s->chunk > 0);
    permutation_init(&m->all, chunks, s->seed, key);
    m->short_slot = permutation_inverse(&m->all, chunks - 1);
}

static void memo_window(struct order_memo *m, const struct order_step *s, uint64_t window)
{
    if (m->has_window && m->window == window)
        return;
    uint64_t left = s->inner - window * s->window;
    m->window = window;
    m->has_window = true;
    permutation_init(&m->within, left < s->window ? left : s->window, hash_combine(s->seed, window), m->pass);
}

/* Chunks are laid out in shuffled order, then every window of that layout is shuffled in itself. Only the last chunk may be
 * shorter than the others; positions after it move forward by the difference. */
static uint64_t windowed(struct order_memo *m, const struct order_step *s, uint64_t k)
{
    uint64_t window = k / s->window, short_size = s->inner - (m->all.n - 1) * s->chunk;
    memo_window(m, s, window);
    k = window * s->window + permutation_at(&m->within, k - window * s->window);
    uint64_t slot = k / s->chunk, at = k % s->chunk, short_begin = m->short_slot * s->chunk;
    if (k >= short_begin + short_size) {
        k -= short_begin + short_size;
        slot = m->short_slot + 1 + k / s->chunk;
        at = k % s->chunk;
    }
    return permutation_at(&m->all, slot) * s->chunk + at;
}

/* Shuffles within the part of each position, with a key of its own. */
static void shuffle_parts(struct order_memo *m, const struct order_step *s, size_t n, uint64_t *index, const uint64_t *pass)
{
    uint64_t batches = s->inner / s->unit + (s->inner % s->unit > 0), begin = 0, end = 0, h = 0;
    struct order_step part = *s;
    for (size_t i = 0; i < n; i++) {
        if (index[i] < begin || index[i] >= end) { /* a batch is of one part */
            h = part_of(batches, s->parts, index[i] / s->unit);
            begin = part_begin(batches, s->parts, h) * s->unit;
            end = part_begin(batches, s->parts, h + 1) * s->unit;
            end = end < s->inner ? end : s->inner;
            part.inner = end - begin;
            part.seed = hash_combine(s->seed, h);
            m->has_pass &= m->part == h;
        }
        memo_pass(m, &part, pass[i]);
        m->part = h;
        index[i] = begin + (s->chunk ? windowed(m, &part, index[i] - begin) : permutation_at(&m->all, index[i] - begin));
    }
}

static void shuffle_back(struct order_memo *m, const struct order_step *s, size_t n, uint64_t *index, const uint64_t *pass)
{
    if (s->parts > 1) {
        shuffle_parts(m, s, n, index, pass);
        return;
    }
    for (size_t i = 0, end; i < n; i = end) { /* a slice has one pass, or the end of one and the beginning of the next */
        for (end = i + 1; end < n && pass[end] == pass[i]; end++)
            ;
        memo_pass(m, s, pass[i]);
        if (s->chunk == 0)
            permutation_map(&m->all, index + i, end - i);
        for (size_t k = i; s->chunk && k < end; k++)
            index[k] = windowed(m, s, index[k]);
    }
}

static void repeat_back(const struct order_step *s, size_t n, uint64_t *index, uint64_t *pass)
{
    /* a later `take` may still limit an endless one: rounds of different epochs must not overlap */
    uint64_t rounds = s->count < 0 ? UINT64_C(1) << 32 : (uint64_t)s->count;
    for (size_t i = 0; i < n; i++) {
        uint64_t round = is_counted(s->inner) ? index[i] / s->inner : 0; /* what never ends is never repeated */
        index[i] -= round * s->inner;
        pass[i] = pass[i] * rounds + round;
    }
}

/* Maps positions after the step to positions before it. */
static void step_back(const struct order_step *s, struct order_memo *m, size_t n, uint64_t *index, uint64_t *pass,
                      struct order_numbers numbers)
{
    switch (s->kind) {
    case ORDER_SHUFFLE:
        shuffle_back(m, s, n, index, pass);
        break;
    case ORDER_REPEAT:
        repeat_back(s, n, index, pass);
        break;
    case ORDER_SKIP:
        for (size_t i = 0; i < n; i++)
            index[i] += (uint64_t)s->count;
        break;
    case ORDER_SHARD:
        for (size_t i = 0; i < n; i++)
            index[i] = index[i] * s->shards + s->shard;
        break;
    case ORDER_NUMBER:
        if (numbers.at)
            memcpy(numbers.at + s->number * numbers.stride, index, n * sizeof(*index));
        break;
    case ORDER_FILTER:
        bitmap_select_all(s->bits, n, index);
        break;
    case ORDER_RESAMPLE:
        for (size_t i = 0; i < n; i++)
            index[i] = resample_at(s->resample, index[i], &pass[i]);
        break;
    case ORDER_TAKE:
    case ORDER_BATCH:
    case ORDER_UNIQUE: /* only in a stream */
        break;
    }
}

struct order_batch order_open(const struct order *o, struct order_state *s, uint64_t epoch, uint64_t k)
{
    uint64_t pass = epoch;
    for (size_t i = o->count; i-- > o->batch + 1;)
        step_back(&o->steps[i], &s->memos[i], 1, &k, &pass, (struct order_numbers){0});
    const struct order_step *batch = &o->steps[o->batch];
    if (batch->parts > 1)
        k = take_turns(batch, k);
    uint64_t begin = k * shift_of(batch), left = is_counted(batch->inner) ? batch->inner - begin : UINT64_MAX;
    uint64_t stride = batch->stride ? batch->stride : 1, most = (left - 1) / stride + 1;
    return (struct order_batch){
        .pass = pass, .begin = begin, .size = most < batch->size ? most : batch->size, .stride = stride};
}

void order_elements(const struct order *o, struct order_state *s, const struct order_batch *batch, uint64_t first, size_t count,
                    uint64_t *ret_index, uint64_t *ret_pass)
{
    for (size_t i = 0; i < count; i++) {
        ret_index[i] = batch->begin + (first + i) * batch->stride;
        ret_pass[i] = batch->pass;
    }
    for (size_t i = o->batch; i-- > 0;)
        step_back(&o->steps[i], &s->memos[i], count, ret_index, ret_pass, s->numbers);
}

void order_back(const struct order *o, struct order_state *s, size_t count, uint64_t *index, uint64_t *pass)
{
    for (size_t i = o->count; i-- > 0;)
        step_back(&o->steps[i], &s->memos[i], count, index, pass, s->numbers);
}

bool order_is_fixed(const struct order *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (changes(&o->steps[i]))
            return false;
    return true;
}
