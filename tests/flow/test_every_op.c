/* test_every_op.c: every operation of the table in the engine, by the public interface alone.
 *
 * A chain is a line of pipeline text. Each runs with 1, 2, 3 and 8 workers, fused and not, from every cursor, up to every
 * cancellation and with every allocation failing: the same bytes, or a clean end. An operation that no chain has fails the
 * first test: its chains, and what they deliver, belong in a file chains/NAME.txt. */
#include "config.h"

#include "base/fault.h"
#include "base/hash.h"
#include "base/memory.h"
#include "chains.h"
#include "data.h"
#include "harness.h"

#include <dirent.h>
#include <pthread.h>
#include <penstock/pipeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The chains ---- */

/* Lines of pipeline text. "arrays" are those of data.h; what is damaged is left out. */
static struct chain_lines chains;

static bool starts_with_arrays(const char *text)
{
    return strncmp(text, "arrays", 6) == 0;
}

static pst_status build(const char *text, const pst_pipeline_options *o, pst_pipeline **ret, pst_error *e)
{
    if (!starts_with_arrays(text))
        return pst_pipeline_parse(ret, text, o, e);
    pst_status st = pst_pipeline_create(ret, o, e);
    if (st == PST_OK)
        st = pst_pipeline_add_arrays(*ret, data_array_names, data_arrays, DATA_ARRAYS, e);
    char rest[256], *save = NULL;
    snprintf(rest, sizeof(rest), "%s", strchr(text, '|') + 1);
    for (char *op = strtok_r(rest, "|", &save); op && st == PST_OK; op = strtok_r(NULL, "|", &save)) {
        op += strspn(op, " ");
        char *args = op + strcspn(op, " ");
        if (*args)
            *args++ = '\0';
        st = pst_pipeline_add(*ret, op, args, e);
    }
    if (st < 0)
        *ret = pst_pipeline_destroy(*ret);
    return st;
}

static pst_pipeline_options options_of(const char *text, unsigned workers)
{
    return (pst_pipeline_options){.size = sizeof(pst_pipeline_options),
                                  .seed = 11,
                                  .ram = UINT64_C(64) << 20,
                                  .workers = workers,
                                  .bad = strstr(text, "damaged") ? "skip" : NULL};
}

static pst_pipeline *made(const char *text, const pst_pipeline_options *o)
{
    pst_pipeline *p = NULL;
    pst_error e = {0};
    CHECK_MSG(build(text, o, &p, &e) == PST_OK, "%s: %s", text, e.message);
    return p;
}

/* ---- What they deliver ---- */

static uint64_t tensor_digest(const pst_tensor *t, size_t size)
{
    uint64_t h = hash_bytes(t->shape, t->rank * sizeof(*t->shape), t->dtype);
    uint64_t values = t->row_splits ? (uint64_t)t->row_splits[size] : 1;
    for (uint32_t d = t->row_splits ? 2 : 0; d < t->rank; d++)
        values *= t->shape[d];
    if (t->row_splits)
        h = hash_bytes(t->row_splits, (size + 1) * sizeof(*t->row_splits), h);
    if (t->dtype != PST_DTYPE_BYTES)
        return hash_bytes(t->data, values * pst_dtype_size(t->dtype), h);
    for (uint64_t i = 0; i < values; i++)
        h = hash_bytes(((const pst_bytes *)t->data)[i].data, ((const pst_bytes *)t->data)[i].length, h + i);
    return h;
}

static uint64_t batch_digest(const pst_batch *b)
{
    uint64_t h = pst_batch_size(b);
    for (size_t i = 0; i < pst_batch_fields(b); i++)
        h = hash_combine(h, tensor_digest(pst_batch_at(b, i), pst_batch_size(b)));
    return h;
}

#define MOST   24 /* steps that are looked at: more than an epoch of most chains, more than two of some */
#define EPOCHS 3
#define END    1 /* of an epoch, where a batch has its digest */

struct trace {
    uint64_t at[MOST];
    size_t count;
};

/* Appends up to `most` steps, at most `epochs` ends. */
static pst_status run_on(pst_pipeline *p, struct trace *t, int epochs, size_t most, pst_error *e)
{
    pst_status st = PST_OK;
    for (size_t i = 0; i < most && epochs > 0 && t->count < MOST; i++) {
        pst_batch *b = NULL;
        st = pst_pipeline_next(p, &b, e);
        if (st < 0)
            return st;
        t->at[t->count++] = st == PST_END ? END : batch_digest(b);
        epochs -= st == PST_END;
        pst_batch_unref(b);
    }
    return st;
}

static struct trace traced(const char *text, pst_pipeline_options o)
{
    struct trace t = {0};
    pst_error e = {0};
    pst_pipeline *p = made(text, &o);
    if (p)
        CHECK_MSG(run_on(p, &t, EPOCHS, MOST, &e) >= 0, "%s: %s %s", text, e.op, e.message);
    pst_pipeline_destroy(p);
    return t;
}

static bool same(const struct trace *a, const struct trace *b)
{
    return a->count == b->count && memcmp(a->at, b->at, a->count * sizeof(*a->at)) == 0;
}

/* Whether `part` is in `whole` from step `at` on. */
static bool starts_with(const struct trace *whole, size_t at, const struct trace *part)
{
    return at + part->count <= whole->count && memcmp(part->at, whole->at + at, part->count * sizeof(*part->at)) == 0;
}

/* ---- What they hold on to ---- */

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

struct held {
    uint64_t memory;
    int files;
};

/* Threads of this process while no pipeline exists. Measured once: after a pipeline is destroyed, the threads of its closed
 * rings stay in the list until the kernel removes them, and a count taken then would be too high. */
static int idle_threads;

static struct held held_now(void)
{
    return (struct held){mem_live(), entries("/proc/self/fd")};
}

/* Waits up to `tries` milliseconds until there are no more than `threads`. Returns the lowest count seen. */
static int threads_settle(int threads, int tries)
{
    int lowest = entries("/proc/self/task");
    for (int now = lowest; tries > 0 && now > threads; tries--) {
        usleep(1000);
        now = entries("/proc/self/task");
        lowest = now < lowest ? now : lowest;
    }
    return lowest;
}

static void check_nothing_kept(const char *text, const struct held *before)
{
    struct held now = held_now();
    int threads = threads_settle(idle_threads, 200000);
    CHECK_MSG(now.memory == before->memory, "%s: %d blocks of memory are left", text, (int)(now.memory - before->memory));
    CHECK_MSG(now.files == before->files, "%s: %d open files, %d before", text, now.files, before->files);
    CHECK_MSG(threads <= idle_threads, "%s: %d threads are left", text, threads - idle_threads);
}

/* ---- The tests ---- */

static bool has_op(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = text; at; at = strchr(at, '|')) {
        at += strspn(at, "| ");
        if (strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == '\0'))
            return true;
    }
    return false;
}

static void test_table_is_covered(void)
{
    const pst_op_class *op;
    for (size_t i = 0; (op = pst_op_at(i)) != NULL; i++) {
        bool found = false;
#ifndef HAVE_HDF5
        found = strcmp(op->name, "hdf5") == 0;
#endif
        for (size_t c = 0; c < chains.count && !found; c++)
            found = has_op(chains.at[c].text, op->name);
        CHECK_MSG(found, "operation %s is in no chain: add tests/flow/chains/%s.txt", op->name, op->name);
    }
}

/* The first batch is what the file says, fused or not. */
static void test_vectors(void)
{
    size_t checked = 0;
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        for (int no_fuse = 0; no_fuse < 2 && chains.at[c].fields; no_fuse++) {
            pst_pipeline_options o = options_of(text, 1);
            pst_batch *b = NULL;
            pst_error e = {0};
            o.no_fuse = no_fuse;
            pst_pipeline *p = made(text, &o);
            REQUIRE(p != NULL);
            CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_OK, &e);
            checked += b && chain_line_check(&chains.at[c], b);
            pst_batch_unref(b);
            pst_pipeline_destroy(p);
        }
    }
    CHECK_MSG(checked >= 20, "only %zu batches were compared", checked);
}

static void test_workers(void)
{
    static const unsigned workers[] = {1, 2, 3, 8};
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        struct held before = held_now();
        struct trace want = traced(text, options_of(text, 1)), got;
        CHECK_MSG(want.count > 3, "%s: only %zu steps", text, want.count);
        for (size_t w = 0; w < 4; w++)
            for (int how = 0; how < 4; how++) {
                pst_pipeline_options o = options_of(text, workers[w]);
                o.no_fuse = how & 1;
                o.prefetch = how & 2 ? 1 : 0;
                got = traced(text, o);
                CHECK_MSG(same(&want, &got), "%s: %u workers%s differ from 1", text, workers[w], how & 1 ? ", not fused," : "");
            }
        check_nothing_kept(text, &before);
    }
}

#define STEPS_AFTER_SEEK 3

/* Seeks to step `at` of the trace `want`: the steps after it are those of the trace, all of them. */
static void check_seek(const char *text, const char *which, pst_pipeline *p, const pst_cursor *cursor, const struct trace *want,
                       size_t at)
{
    struct trace got = {0};
    pst_error e = {0};
    size_t steps = want->count - at < STEPS_AFTER_SEEK ? want->count - at : STEPS_AFTER_SEEK;
    CHECK_STATUS(pst_pipeline_seek(p, cursor, &e), PST_OK, &e);
    CHECK_MSG(run_on(p, &got, EPOCHS, steps, &e) >= 0, "%s: %s", text, e.message);
    CHECK_MSG(got.count == steps && memcmp(got.at, want->at + at, steps * sizeof(*got.at)) == 0,
              "%s: %s differs after step %zu", text, which, at);
}

/* A pipeline that seeks to where another one stopped delivers what that one would have. */
static void test_seek(void)
{
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        pst_pipeline_options o = options_of(text, 2);
        struct trace want = traced(text, o), ignored = {0};
        pst_error e = {0};
        pst_pipeline *teller = made(text, &o), *jumper = made(text, &o);
        REQUIRE(teller && jumper);
        for (size_t at = 0; at < want.count; at++) {
            pst_cursor cursor;
            pst_pipeline *fresh = made(text, &o);
            REQUIRE(fresh != NULL);
            REQUIRE_OK(pst_pipeline_tell(teller, &cursor, &e), &e);
            check_seek(text, "a fresh pipeline", fresh, &cursor, &want, at);
            check_seek(text, "a second seek", jumper, &cursor, &want, at);
            pst_pipeline_destroy(fresh);
            ignored.count = 0;
            CHECK_MSG(run_on(teller, &ignored, 1, 1, &e) >= 0, "%s: %s", text, e.message);
        }
        pst_pipeline_destroy(teller);
        pst_pipeline_destroy(jumper);
    }
}

/* ---- By number ---- */

/* The epoch and the number of each step of a trace; an end has the number of batches of its epoch. */
struct address {
    uint64_t epoch, k;
};

static void number_steps(const struct trace *t, struct address *ret)
{
    struct address at = {0, 0};
    for (size_t i = 0; i < t->count; i++) {
        ret[i] = at;
        at = t->at[i] == END ? (struct address){at.epoch + 1, 0} : (struct address){at.epoch, at.k + 1};
    }
}

#define READERS 3

struct reading {
    const char *text;
    pst_pipeline *p;
    const struct trace *want;
    size_t first; /* every READERS-th step from here on, the last one first */
    _Atomic int wrong, streams, read;
};

static void read_step(struct reading *r, size_t i, const struct address *at)
{
    pst_batch *b = NULL;
    pst_error e = {0};
    pst_status st = pst_pipeline_at(r->p, at->epoch, at->k, &b, &e);
    r->streams += st == PST_EUNSUPPORTED && strstr(e.message, "stream");
    if (st == PST_OK && batch_digest(b) == r->want->at[i])
        r->read++;
    else
        r->wrong += st != PST_EUNSUPPORTED && !(r->want->at[i] == END && st == PST_EINVAL && strstr(e.message, "an epoch has"));
    pst_batch_unref(b);
}

static void *read_steps(void *user)
{
    struct reading *r = user;
    struct address at[MOST];
    number_steps(r->want, at);
    for (size_t i = r->want->count; i-- > 0;)
        if (i % READERS == r->first)
            read_step(r, i, &at[i]);
    return NULL;
}

/* Every batch by its number, from several threads, the last one first, beside the crew, whose position stays as it is. */
static void test_by_number(void)
{
    size_t indexed = 0, streams = 0;
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        struct held before = held_now();
        struct trace want = traced(text, options_of(text, 1)), got = {0};
        pst_pipeline_options o = options_of(text, 2);
        pst_pipeline *p = made(text, &o);
        pst_error e = {0};
        struct reading r[READERS];
        pthread_t threads[READERS];
        REQUIRE(p != NULL);
        CHECK_MSG(run_on(p, &got, 1, 1, &e) >= 0, "%s: %s", text, e.message);
        for (size_t t = 0; t < READERS; t++) {
            r[t] = (struct reading){.text = text, .p = p, .want = &want, .first = t};
            REQUIRE(pthread_create(&threads[t], NULL, read_steps, &r[t]) == 0);
        }
        int wrong = 0, met = 0;
        for (size_t t = 0; t < READERS; t++) {
            pthread_join(threads[t], NULL);
            wrong += r[t].wrong;
            met += r[t].streams;
        }
        CHECK_MSG(wrong == 0, "%s: %d of %zu batches differ by their number", text, wrong, want.count);
        CHECK_MSG(met == 0 || met == (int)want.count, "%s: %d of %zu batches are of a stream", text, met, want.count);
        CHECK_MSG(run_on(p, &got, EPOCHS, 2, &e) >= 0 && starts_with(&want, 0, &got), "%s: the position has changed", text);
        pst_pipeline_destroy(p);
        check_nothing_kept(text, &before);
        indexed += met == 0;
        streams += met > 0;
    }
    CHECK_MSG(indexed > 60 && streams > 15, "%zu chains have an index, %zu are streams", indexed, streams);
}

/* ---- Ranks ---- */

/* Batch `k` of an epoch in a trace; END: the epoch has fewer; 0: the trace does not reach so far. */
static uint64_t step_at(const struct trace *t, const struct address *at, struct address wanted)
{
    for (size_t i = 0; i < t->count; i++)
        if (at[i].epoch == wanted.epoch && (at[i].k == wanted.k || (t->at[i] == END && at[i].k < wanted.k)))
            return t->at[i];
    return 0;
}

/* Compares what a rank delivers with its share of what one rank delivers: from batch `base` of the first epoch on. Returns how
 * many steps were compared. */
static size_t check_rank(const char *text, const struct trace *want, pst_pipeline_options o, const pst_cursor *from, uint64_t base)
{
    struct trace got = {0};
    struct address global[MOST], at[MOST];
    pst_error e = {0};
    size_t compared = 0;
    pst_pipeline *p = made(text, &o);
    if (!p)
        return 0;
    if (from)
        CHECK_STATUS(pst_pipeline_seek(p, from, &e), PST_OK, &e);
    CHECK_MSG(run_on(p, &got, EPOCHS, MOST / o.world + 1, &e) >= 0, "%s: rank %u of %u: %s", text, o.rank, o.world, e.message);
    number_steps(want, global);
    number_steps(&got, at);
    for (size_t i = 0; i < got.count; i++) {
        uint64_t k = (at[i].epoch == 0 ? base : 0) + at[i].k * o.world + o.rank;
        uint64_t expected = step_at(want, global, (struct address){at[i].epoch, k});
        CHECK_MSG(expected == 0 || expected == got.at[i], "%s: rank %u of %u: step %zu is not batch %d of epoch %d", text, o.rank,
                  o.world, i, (int)k, (int)at[i].epoch);
        compared += expected != 0;
    }
    pst_pipeline_destroy(p);
    return compared;
}

/* Ranks 1, 2 and 4 cover the same global order, and two ranks go on where four have stopped. */
static void test_ranks(void)
{
    static const unsigned worlds[] = {1, 2, 4};
    size_t compared = 0, resumed = 0;
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        struct trace want = traced(text, options_of(text, 1)), step = {0};
        pst_pipeline_options o = options_of(text, 2);
        o.uneven = PST_UNEVEN_ALLOW;
        for (size_t w = 0; w < 3; w++)
            for (o.rank = 0, o.world = worlds[w]; o.rank < o.world; o.rank++)
                compared += check_rank(text, &want, o, NULL, 0);
        pst_cursor cursor;
        pst_error e = {0};
        o.rank = 0;
        pst_pipeline *p = made(text, &o);
        REQUIRE(p != NULL);
        CHECK_MSG(run_on(p, &step, 1, 1, &e) >= 0, "%s: %s", text, e.message);
        REQUIRE_OK(pst_pipeline_tell(p, &cursor, &e), &e);
        pst_pipeline_destroy(p);
        pst_position at;
        REQUIRE_OK(pst_cursor_get(&cursor, &at, &e), &e);
        for (o.rank = 0, o.world = 2; o.rank < 2 && at.epoch == 0; o.rank++)
            resumed += check_rank(text, &want, o, &cursor, at.next);
    }
    CHECK_MSG(compared > 40 * chains.count && resumed > 6 * chains.count, "only %zu and %zu steps were compared", compared, resumed);
}

static void test_cancel(void)
{
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        struct held before = held_now();
        pst_pipeline_options o = options_of(text, 3);
        for (size_t at = 0; at < 12; at++) {
            struct trace t = {0};
            pst_error e = {0};
            pst_batch *b = NULL;
            pst_pipeline *p = made(text, &o);
            REQUIRE(p != NULL);
            CHECK_MSG(run_on(p, &t, EPOCHS, at, &e) >= 0, "%s: %s", text, e.message);
            if (at % 2) { /* otherwise it is destroyed while everybody is at work */
                pst_pipeline_cancel(p);
                CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECANCELLED, &e);
            }
            pst_pipeline_destroy(p);
        }
        check_nothing_kept(text, &before);
    }
}

/* A short life: built, described, run over the end of an epoch or 12 steps, sought, run again. */
static pst_status live(const char *text, const struct trace *want, pst_error *e)
{
    pst_pipeline_options o = options_of(text, 2);
    pst_pipeline *p = NULL;
    struct trace t = {0}, more = {0};
    char *words = NULL;
    pst_cursor cursor;
    o.prefetch = 2;
    pst_status st = build(text, &o, &p, e);
    if (st == PST_OK)
        st = pst_pipeline_describe(p, false, &words, e);
    mem_free(words);
    if (st == PST_OK)
        st = run_on(p, &t, 1, 12, e);
    CHECK_MSG(starts_with(want, 0, &t), "%s: other batches than without failures", text);
    if (st >= 0)
        st = pst_pipeline_tell(p, &cursor, e);
    if (st == PST_OK)
        st = pst_pipeline_seek(p, &cursor, e);
    if (st == PST_OK)
        st = run_on(p, &more, 1, 1, e);
    CHECK_MSG(starts_with(want, t.count, &more), "%s: after a seek other batches than without failures", text);
    pst_pipeline_destroy(p);
    return st;
}

/* Removes the snapshots, so that the next run makes them. */
static void remove_snapshots(const char *text)
{
    DIR *d = strstr(text, "snapshot ") ? opendir("snap") : NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.')
            CHECK(pst_cache_remove("snap", e->d_name, NULL) == PST_OK);
    if (d)
        closedir(d);
}

static pst_status fail_allocation(const char *text, const struct trace *want, uint64_t n, bool forever)
{
    remove_snapshots(text);
    uint64_t memory = mem_live();
    pst_error e = {0};
    test_fault_arm(FAULT_MEMORY, n, forever);
    pst_status st = live(text, want, &e);
    test_fault_clear();
    CHECK_MSG(st >= 0 || (st == PST_ENOMEM && e.status == PST_ENOMEM && e.message[0]), "%s: allocation %d fails: %s %s", text,
              (int)n, pst_status_name(st), e.message);
    CHECK_MSG(mem_live() == memory, "%s: allocation %d fails: %d blocks are left", text, (int)n, (int)(mem_live() - memory));
    return st;
}

/* Of a chain; where there are more allocations, evenly spread ones fail, beginning at another one in each chain. EVERY_FAULT=1 in the
 * environment fails them all, which takes many minutes. */
#define MOST_FAULTS 120

static void test_every_allocation_may_fail(void)
{
    for (size_t c = 0; c < chains.count; c++) {
        const char *text = chains.at[c].text;
        struct trace want = traced(text, options_of(text, 1));
        pst_error e = {0};
        remove_snapshots(text);
        test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
        CHECK_MSG(live(text, &want, &e) >= 0, "%s: %s", text, e.message);
        uint64_t calls = test_fault_calls(), step = getenv("EVERY_FAULT") ? 1 : calls / MOST_FAULTS + 1;
        test_fault_clear();
        CHECK_MSG(calls > 20, "%s: only %d allocations", text, (int)calls);
        struct held before = held_now();
        CHECK_MSG(fail_allocation(text, &want, 0, true) == PST_ENOMEM, "%s: runs without any memory", text);
        for (uint64_t n = c % step; n < calls; n += step) {
            fail_allocation(text, &want, n, false);
            fail_allocation(text, &want, n, true);
        }
        check_nothing_kept(text, &before);
    }
}

static const struct test tests[] = {
    {"every operation is in a chain", test_table_is_covered},
    {"the first batch has the values that are expected", test_vectors},
    {"workers and fusing do not show", test_workers},
    {"seek at every batch", test_seek},
    {"every batch by its number", test_by_number},
    {"ranks cover one order", test_ranks},
    {"cancel at every batch", test_cancel},
    {"every allocation may fail", test_every_allocation_may_fail},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (chdir(test_folder()) != 0)
        return 1;
    data_make();
    chains_read(&chains, CHAINS_FOLDER);
    traced(chains.at[0].text,
           options_of(chains.at[0].text, 1)); /* a sanitizer has a thread of its own, which comes with the first */
    idle_threads = threads_settle(0, 300);    /* the lowest count of 300 ms */
    int result = test_main(argc, argv, tests);
    chains_finish(&chains);
    return result;
}
