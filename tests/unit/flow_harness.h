/* flow_harness.h: one harness for chains of every kind: any number of workers, any prefetch, fused or not, a seek to every
 * batch, a cancel at every batch and a failure of every allocation give the same bytes, or a clean end.
 *
 * A digest of a batch covers all of its data: two runs that deliver the same digests delivered the same bytes. */
#ifndef TESTS_FLOW_HARNESS_H
#define TESTS_FLOW_HARNESS_H

#include "base/fault.h"
#include "base/hash.h"
#include "base/memory.h"
#include "cursor.h"
#include "harness.h"
#include <penstock/pipeline.h>

#include <string.h>

#define EPOCHS 3  /* that a trace has… */
#define MOST   60 /* …within so many steps */

struct chain_case {
    const char *name;
    pst_status (*build)(pst_pipeline *p, pst_error *e); /* NULL: from the text */
    const char *text;
    bool skip; /* damage */
};             /* a table of them ends with a NULL name */

/* ---- Digests ---- */

static inline uint64_t tensor_digest(const pst_tensor *t, size_t size)
{
    uint64_t h = hash_bytes(t->shape, t->rank * sizeof(*t->shape), t->dtype), values = 1;
    for (uint32_t d = t->row_splits ? 2 : 0; d < t->rank; d++)
        values *= t->shape[d];
    if (t->row_splits) {
        h = hash_bytes(t->row_splits, (size + 1) * sizeof(*t->row_splits), h);
        values *= (uint64_t)t->row_splits[size];
    }
    if (t->dtype != PST_DTYPE_BYTES)
        return hash_bytes(t->data, values * pst_dtype_size(t->dtype), h);
    for (uint64_t i = 0; i < values; i++)
        h = hash_bytes(((const pst_bytes *)t->data)[i].data, ((const pst_bytes *)t->data)[i].length, h);
    return h;
}

static inline uint64_t batch_digest(const pst_batch *b)
{
    uint64_t h = pst_batch_size(b);
    for (size_t i = 0; i < pst_batch_fields(b); i++)
        h = hash_combine(h, tensor_digest(pst_batch_at(b, i), pst_batch_size(b)));
    return h;
}

/* What a run delivers: a digest a batch, 1 for the end of an epoch. */
struct trace {
    uint64_t at[4096];
    size_t count;
};

#define TRACE_END 1

/* ---- Running ---- */

/* Destroys what it could not build. */
static inline pst_status chain_build(const struct chain_case *c, const pst_pipeline_options *o, pst_pipeline **ret,
                                     pst_error *e)
{
    pst_pipeline *p = NULL;
    if (c->text)
        return pst_pipeline_parse(ret, c->text, o, e);
    pst_status st = pst_pipeline_create(&p, o, e);
    if (st == PST_OK)
        st = c->build(p, e);
    if (st < 0)
        pst_pipeline_destroy(p);
    else
        *ret = p;
    return st;
}

static inline pst_pipeline *made(const struct chain_case *c, pst_pipeline_options o)
{
    pst_pipeline *p = NULL;
    pst_error e;
    o.size = sizeof(o);
    o.seed = 42;
    o.ram = o.ram ? o.ram : 64 << 20;
    o.bad = c->skip ? "skip" : o.bad;
    if (!CHECK_STATUS(chain_build(c, &o, &p, &e), PST_OK, &e))
        return NULL;
    return p;
}

/* Appends up to `most` steps to the trace, up to `epochs` of them ends of epochs. */
static inline pst_status run_on(pst_pipeline *p, struct trace *t, int epochs, size_t most, pst_error *e)
{
    pst_status st = PST_OK;
    for (size_t i = 0; i < most && epochs > 0; i++) {
        pst_batch *b = NULL;
        if (t->count == sizeof(t->at) / sizeof(t->at[0]))
            return pst_fail(e, PST_ELIMIT, "the trace is full");
        st = pst_pipeline_next(p, &b, e);
        if (st < 0)
            return st;
        t->at[t->count++] = st == PST_END ? TRACE_END : batch_digest(b);
        epochs -= st == PST_END;
        pst_batch_unref(b);
    }
    return st;
}

/* run_on where nothing may fail. Returns whether nothing did. */
static inline bool run_sound(pst_pipeline *p, struct trace *t, int epochs, size_t most, const char *name)
{
    pst_error e = {0};
    pst_status st = run_on(p, t, epochs, most, &e);
    return CHECK_MSG(st >= 0, "%s: step %zu: %s: %s %s", name, t->count, pst_status_name(st), e.op, e.message);
}

static inline bool same(const struct trace *a, const struct trace *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof(*a->at)) == 0;
}

/* Whether `part` is in `whole` from step `at` on. */
static inline bool starts_with(const struct trace *whole, size_t at, const struct trace *part)
{
    return at + part->count <= whole->count && memcmp(part->at, whole->at + at, part->count * sizeof(*part->at)) == 0;
}

static inline struct trace traced(const struct chain_case *c, pst_pipeline_options o)
{
    static struct trace t;
    pst_pipeline *p = made(c, o);
    t.count = 0;
    if (p)
        run_sound(p, &t, EPOCHS, MOST, c->name);
    pst_pipeline_destroy(p);
    return t;
}

/* Any number of workers, any prefetch, fused or not. */
static inline void harness_workers(const struct chain_case *cases)
{
    static const struct {
        unsigned workers, prefetch;
        bool no_fuse;
    } ways[] = {{1, 0, false}, {1, 2, true},  {2, 1, false}, {2, 5, true},
                {3, 2, false}, {8, 0, false}, {8, 3, true},  {0, 0, false}};
    for (const struct chain_case *c = cases; c->name; c++) {
        uint64_t live = mem_live();
        struct trace first = traced(c, (pst_pipeline_options){.workers = 1, .prefetch = 1});
        CHECK_MSG(first.count > 2, "%s: only %zu steps", c->name, first.count);
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            pst_pipeline_options o = {.workers = ways[i].workers, .prefetch = ways[i].prefetch, .no_fuse = ways[i].no_fuse};
            struct trace t = traced(c, o);
            CHECK_MSG(same(&first, &t), "%s: %u workers, prefetch %u%s differ", c->name, o.workers, o.prefetch,
                      o.no_fuse ? ", not fused" : "");
        }
        CHECK_MSG(mem_live() == live, "%s: %d blocks leaked", c->name, (int)(mem_live() - live));
    }
}

#define STEPS_AFTER_SEEK 4

/* Seeks to step `at` of the trace `whole`: the steps after it are those of the trace, all of them. */
static inline void check_seek(const struct chain_case *c, pst_pipeline *p, const pst_cursor *cursor, const struct trace *whole,
                              size_t at)
{
    static struct trace t;
    pst_error e = {0};
    size_t steps = whole->count - at < STEPS_AFTER_SEEK ? whole->count - at : STEPS_AFTER_SEEK;
    t.count = 0;
    REQUIRE_OK(pst_pipeline_seek(p, cursor, &e), &e);
    run_sound(p, &t, EPOCHS, steps, c->name);
    CHECK_MSG(t.count == steps && memcmp(t.at, whole->at + at, steps * sizeof(*t.at)) == 0, "%s: differs after step %zu",
              c->name, at);
}

/* A pipeline is taken to where another one was after every number of steps. */
static inline void harness_seek(const struct chain_case *cases)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        struct trace whole = traced(c, (pst_pipeline_options){.workers = 2});
        pst_error e;
        pst_pipeline *teller = made(c, (pst_pipeline_options){.workers = 3}),
                     *again = made(c, (pst_pipeline_options){.workers = 2});
        REQUIRE(teller && again);
        struct trace t = {0};
        for (size_t at = 0; at <= whole.count; at++) {
            pst_cursor cursor;
            REQUIRE_OK(pst_pipeline_tell(teller, &cursor, &e), &e);
            pst_pipeline *fresh = made(c, (pst_pipeline_options){.workers = 2, .prefetch = 1});
            REQUIRE(fresh);
            check_seek(c, again, &cursor, &whole, at);
            check_seek(c, fresh, &cursor, &whole, at);
            pst_pipeline_destroy(fresh);
            t.count = 0;
            run_sound(teller, &t, 1, 1, c->name);
        }
        pst_pipeline_destroy(teller);
        pst_pipeline_destroy(again);
    }
}

/* Cancelled, or destroyed without a word, after every number of steps. */
static inline void harness_cancel(const struct chain_case *cases)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        for (size_t at = 0; at < 12; at++) {
            struct trace t = {0};
            pst_error e;
            pst_batch *b = NULL;
            pst_pipeline *p = made(c, (pst_pipeline_options){.workers = 3});
            REQUIRE(p);
            run_sound(p, &t, 9, at, c->name);
            pst_pipeline_cancel(p);
            CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECANCELLED, &e);
            CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECANCELLED, &e);
            pst_pipeline_destroy(p);
            p = made(c, (pst_pipeline_options){.workers = 2}); /* and without a word */
            REQUIRE(p);
            run_sound(p, &t, 9, at, c->name);
            pst_pipeline_destroy(p);
        }
    }
}

/* Runs a short piece of everything. Returns the status; PST_OK: it made no difference. */
static inline pst_status run_with_faults(const struct chain_case *c, const struct trace *want, pst_error *e)
{
    pst_pipeline *p = NULL;
    pst_pipeline_options o = {
        .size = sizeof(o), .seed = 42, .ram = 64 << 20, .workers = 2, .prefetch = 2, .bad = c->skip ? "skip" : NULL};
    struct trace t = {0};
    char *words = NULL;
    pst_cursor cursor;
    pst_status st = chain_build(c, &o, &p, e);
    if (st == PST_OK)
        st = pst_pipeline_describe(p, false, &words, e);
    mem_free(words);
    if (st == PST_OK)
        st = run_on(p, &t, 2, 15, e);
    CHECK_MSG(starts_with(want, 0, &t), "%s: other batches than without faults", c->name);
    if (st >= 0)
        st = pst_pipeline_tell(p, &cursor, e);
    if (st == PST_OK)
        st = pst_pipeline_seek(p, &cursor, e);
    if (st == PST_OK) {
        struct trace more = {0};
        st = run_on(p, &more, 1, 2, e);
        CHECK_MSG(starts_with(want, t.count, &more), "%s: after a seek other batches than without faults", c->name);
    }
    pst_pipeline_destroy(p);
    return st;
}

/* Every call of a kind (enum fault_kind) fails in turn, once, and every fourth of them from then on: the same batches, or a
 * failure that says what it is, and nothing is left behind. */
static inline void harness_faults(const struct chain_case *cases, int kind)
{
    for (const struct chain_case *c = cases; c->name; c++) {
        struct trace want = traced(c, (pst_pipeline_options){.workers = 1});
        uint64_t live = mem_live(), n = 0;
        for (bool reached = true; reached && n < 2000; n++) {
            for (int forever = 0; forever < (n % 4 == 0 ? 2 : 1); forever++) {
                pst_error e = {0};
                test_fault_arm(kind, n, forever);
                pst_status st = run_with_faults(c, &want, &e);
                reached = test_fault_calls() > n;
                test_fault_clear();
                if (st < 0)
                    CHECK_MSG((kind != FAULT_MEMORY || st == PST_ENOMEM) && e.status == st && e.message[0],
                              "%s: call %d: %s %s", c->name, (int)n, pst_status_name(st), e.message);
                CHECK_MSG(mem_live() == live, "%s: call %d: %d blocks leaked", c->name, (int)n, (int)(mem_live() - live));
                live = mem_live();
            }
        }
        CHECK_MSG(kind != FAULT_MEMORY || n > 20, "%s: only %d calls", c->name, (int)n);
    }
}

#endif
