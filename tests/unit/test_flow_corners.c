/* test_flow_corners.c: counts of 0, 1 and more than there are, empty sources, batches larger than the data, many ranks, little
 * memory; and streams against indexes: where nothing is shuffled, both give the same batches. */
#include "base/random.h"
#include "base/thread.h"
#include "flow/worker.h"
#include "flow_chains.h"

#include <unistd.h>

/* ---- Streams against indexes ---- */

#define MOST_STEPS 5

struct plan_step {
    const pst_op_class *op;
    int64_t count;
    uint64_t shards, shard;
};

struct plan_of {
    uint64_t elements, batch;
    bool drop;
    size_t steps, at; /* of the batch */
    struct plan_step step[MOST_STEPS];
};

static struct plan_of draw_plan(struct random *r)
{
    static const uint64_t sizes[] = {0, 1, 2, 7, 23};
    static const int64_t counts[] = {0, 1, 2, 5, 22, 23, 24, 1000, INT64_MAX, -1};
    struct plan_of p = {.elements = sizes[random_below(r, 5)], .steps = (size_t)random_below(r, MOST_STEPS + 1)};
    p.batch = 1 + random_below(r, random_below(r, 2) ? 40 : 4);
    p.drop = random_below(r, 2);
    p.at = (size_t)random_below(r, p.steps + 1);
    for (size_t i = 0; i < p.steps; i++) {
        struct plan_step *s = &p.step[i];
        s->count = counts[random_below(r, 10)];
        switch (random_below(r, 4)) {
        case 0:
            s->op = &op_take.op;
            break;
        case 1:
            s->op = &op_skip.op;
            s->count = s->count == INT64_MAX ? 1000 : s->count; /* a stream goes through all of them */
            break;
        case 2:
            s->op = &op_repeat.op;
            s->count = s->count > 5 ? 3 : s->count;
            break;
        default:
            s->op = &op_shard.op;
            s->shards = 1 + random_below(r, 6);
            s->shard = random_below(r, s->shards);
        }
    }
    return p;
}

static pst_status build_plan(pst_pipeline *p, const struct plan_of *c, bool stream, pst_error *e)
{
    TRY(add_samples(p, (struct sample_config){.count = c->elements, .stream = stream}, e));
    for (size_t i = 0; i <= c->steps; i++) {
        const struct plan_step *s = &c->step[i];
        if (i == c->at)
            TRY(add_batch(p, c->batch, c->drop, e));
        if (i == c->steps)
            break;
        TRY(s->op == &op_shard.op
                ? pst_pipeline_add_op(p, s->op, &(struct shard_config){.count = s->shards, .index = s->shard}, e)
                : add_count(p, s->op, s->count, e));
    }
    return PST_OK;
}

static pst_pipeline *open_plan(const struct plan_of *c, bool stream, pst_pipeline_options o)
{
    pst_pipeline *p = NULL;
    pst_error e;
    o.size = sizeof(o);
    o.workers = 2;
    o.ram = 64 << 20;
    if (!CHECK_STATUS(pst_pipeline_create(&p, &o, &e), PST_OK, &e))
        return NULL;
    if (build_plan(p, c, stream, &e) == PST_OK && pst_pipeline_plan(p, &e) == PST_OK)
        return p;
    CHECK_STATUS(e.status, PST_EINVAL, &e); /* more elements than can be numbered, or an empty shard */
    return pst_pipeline_destroy(p);
}

static void name_plan(const struct plan_of *c, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%d", (int)c->elements);
    for (size_t i = 0; i <= c->steps && n < size; i++) {
        if (i == c->at)
            n += (size_t)snprintf(text + n, size - n, " | batch %d%s", (int)c->batch, c->drop ? " drop" : "");
        if (i < c->steps && n < size)
            n += (size_t)snprintf(text + n, size - n, " | %s %lld", c->step[i].op->name,
                                  c->step[i].op == &op_shard.op ? (long long)(10 * c->step[i].shards + c->step[i].shard)
                                                                : (long long)c->step[i].count);
    }
}

/* The cursor of one, behind `at` steps, is as good for the other. */
static void check_resume(const struct plan_of *c, pst_pipeline_options o, const struct trace *whole, size_t at,
                         const char *text)
{
    pst_pipeline *ways[2] = {open_plan(c, false, o), open_plan(c, true, o)};
    pst_cursor cursors[2];
    pst_error e;
    for (int i = 0; i < 2; i++) {
        struct trace t = {0};
        CHECK(run_on(ways[i], &t, 99, at, &e) >= 0);
        CHECK_STATUS(pst_pipeline_tell(ways[i], &cursors[i], &e), PST_OK, &e);
    }
    CHECK_MSG(memcmp(&cursors[0], &cursors[1], sizeof(cursors[0])) == 0, "%s: cursors differ behind step %zu", text, at);
    for (int i = 0; i < 2; i++) {
        struct trace t = {0};
        if (CHECK_STATUS(pst_pipeline_seek(ways[i], &cursors[!i], &e), PST_OK, &e))
            CHECK(run_on(ways[i], &t, 99, whole->count - at, &e) >= 0);
        CHECK_MSG(t.count == whole->count - at && memcmp(t.at, whole->at + at, t.count * sizeof(*t.at)) == 0,
                  "%s, rank %u of %u, uneven %d: the %s differs behind step %zu", text, o.rank, o.world, (int)o.uneven,
                  i ? "stream" : "index", at);
        pst_pipeline_destroy(ways[i]);
    }
}

static void test_streams_and_indexes(void)
{
    for (uint64_t seed = 0; seed < 400; seed++) {
        struct random r;
        char text[256];
        random_init(&r, 7, 0, seed, 0);
        struct plan_of c = draw_plan(&r);
        pst_pipeline_options o = {.world = 1 + (unsigned)random_below(&r, 4), .uneven = (pst_uneven)random_below(&r, 3)};
        o.rank = (unsigned)random_below(&r, o.world);
        name_plan(&c, text, sizeof(text));
        pst_pipeline *index = open_plan(&c, false, o), *stream = open_plan(&c, true, o);
        struct trace a = {0}, b = {0};
        pst_error e;
        if (index && stream) {
            CHECK(run_on(index, &a, 3, 40, &e) >= 0);
            CHECK(run_on(stream, &b, 3, 40, &e) >= 0);
            CHECK_MSG(same(&a, &b), "%s, rank %u of %u, uneven %d: %zu steps and %zu differ", text, o.rank, o.world,
                      (int)o.uneven, a.count, b.count);
            uint64_t length = pst_pipeline_length(index);
            size_t end = 0;
            while (end < a.count && a.at[end] != TRACE_END)
                end++;
            CHECK_MSG(end == length || (end == a.count && length > end), "%s: %zu batches, announced %d", text, end,
                      (int)length);
        }
        if (index && stream)
            check_resume(&c, o, &a, (size_t)random_below(&r, a.count + 1), text);
        pst_pipeline_destroy(index);
        pst_pipeline_destroy(stream);
    }
}

/* ---- Little memory ---- */

/* Whatever the budget is: refused by the plan, or the same batches. */
static void test_little_memory(void)
{
    static const struct {
        const char *name;
        pst_status (*build)(pst_pipeline *p, pst_error *e);
    } runs[] = {{"plain", plain}, {"cached", cached}, {"streamed", streamed}, {"streamed and shuffled", streamed_shuffled}};
    for (size_t i = 0; i < 4; i++) {
        struct chain_case c = {runs[i].name, .build = runs[i].build};
        struct trace want = traced(&c, (pst_pipeline_options){.workers = 2});
        bool ran = false;
        for (uint64_t ram = 1; ram < 8 << 20; ram = ram * 3 / 2 + 1) {
            struct trace t = {0};
            pst_error e;
            pst_pipeline *p = made(&c, (pst_pipeline_options){.workers = 2, .ram = ram});
            REQUIRE(p);
            pst_status st = pst_pipeline_plan(p, &e);
            if (st < 0) {
                CHECK_STATUS(st, PST_ELIMIT, &e);
                CHECK_MSG(!ran, "%s: refused with %d bytes, not with less", c.name, (int)ram);
            } else {
                ran = true;
                CHECK(run_on(p, &t, EPOCHS, MOST, &e) >= 0);
                CHECK_MSG(same(&want, &t), "%s: other batches with %d bytes", c.name, (int)ram);
            }
            pst_pipeline_destroy(p);
        }
        CHECK(ran);
    }
}

/* ---- Elements of a stream ---- */

struct words {
    uint64_t next;
    pst_bytes word;
    int64_t number;
};

enum { MANY = 30000, LARGE = 4000, SMALL = 100, BUFFER = 200000 };

static pst_status words_open(void *user, void **ret, pst_error *reterr)
{
    struct words *w = user;
    (void)reterr;
    w->next = 0;
    *ret = w;
    return PST_OK;
}

/* Now and then a long one. */
static pst_status words_next(void *pass, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    static const uint8_t letters[LARGE];
    struct words *w = pass;
    (void)ctx, (void)reterr;
    if (w->next == MANY)
        return PST_END;
    w->word = (pst_bytes){letters, w->next % 50 ? SMALL : LARGE};
    w->number = (int64_t)w->next++;
    out[0].data = &w->word;
    out[1].data = &w->number;
    return PST_OK;
}

static pst_generator words_of(struct words *w)
{
    static const pst_field fields[] = {{.name = "word", .dtype = PST_DTYPE_BYTES}, {.name = "number", .dtype = PST_DTYPE_I64}};
    return (pst_generator){.size = sizeof(pst_generator),
                           .spec = {.count = 2, .field = fields},
                           .open = words_open,
                           .next = words_next,
                           .user = w};
}

/* A shuffle buffer stays within its bytes, although its elements are of many sizes and their memory is used again. */
static void test_buffer_bytes(void)
{
    struct words w;
    pst_generator g = words_of(&w);
    pst_pipeline *p = NULL;
    pst_error e;
    uint64_t most = 0;
    pst_pipeline_options o = {.size = sizeof(o), .workers = 1, .prefetch = 1};
    REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
    REQUIRE_OK(pst_pipeline_add_generator(p, &g, &e), &e);
    REQUIRE_OK(add_shuffle(p, BUFFER, 0, &e), &e);
    REQUIRE_OK(add_batch(p, 10, false, &e), &e);
    for (pst_batch *b = NULL; pst_pipeline_next(p, &b, &e) == PST_OK; b = pst_batch_unref(b)) {
        uint64_t bytes = crew_stream_bytes(p->crew);
        most = bytes > most ? bytes : most;
    }
    CHECK_MSG(most < 2 * BUFFER, "%d bytes for a buffer of %d", (int)most, (int)BUFFER);
    CHECK(most > BUFFER / 2);
    pst_pipeline_destroy(p);
}

/* Opens the words with a shuffle buffer of `elements` and a budget. */
static void counted_buffer(pst_pipeline **ret, pst_generator *g, uint64_t elements, uint64_t ram)
{
    pst_error e;
    pst_pipeline_options o = {.size = sizeof(o), .workers = 1, .prefetch = 1, .ram = ram};
    struct shuffle_config config = {.seed = 3, .reshuffle = true, .buffer = {.elements = elements}};
    REQUIRE_OK(pst_pipeline_create(ret, &o, &e), &e);
    REQUIRE_OK(pst_pipeline_add_generator(*ret, g, &e), &e);
    REQUIRE_OK(pst_pipeline_add_op(*ret, &op_shuffle.op, &config, &e), &e);
    REQUIRE_OK(add_batch(*ret, 1, false, &e), &e);
}

/* A buffer of n elements: nothing comes more than n - 1 places early, and something comes that early. */
static void test_buffer_elements(void)
{
    enum { ELEMENTS = 8 };
    struct words w;
    pst_generator g = words_of(&w);
    pst_error e;
    int64_t early = 0, place = 0;
    pst_pipeline *p = NULL;
    counted_buffer(&p, &g, ELEMENTS, UINT64_C(1) << 30);
    for (pst_batch *b = NULL; pst_pipeline_next(p, &b, &e) == PST_OK; b = pst_batch_unref(b), place++) {
        int64_t number = *(const int64_t *)pst_batch_get(b, "number")->data;
        early = number - place > early ? number - place : early;
    }
    CHECK_INT(place, MANY);
    CHECK_INT(early, ELEMENTS - 1);
    pst_pipeline_destroy(p);

    pst_batch *b = NULL;
    counted_buffer(&p, &g, MANY, 100000); /* fewer bytes than the words have */
    pst_status st = PST_OK;
    while (st == PST_OK) {
        st = pst_pipeline_next(p, &b, &e);
        b = pst_batch_unref(b);
    }
    CHECK_STATUS(st, PST_ELIMIT, &e);
    pst_pipeline_destroy(p);
}

static pst_status endless_next(void *pass, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    ((struct words *)pass)->next = 7;
    return words_next(pass, ctx, out, reterr);
}

static void cancel_soon(void *user, unsigned worker)
{
    (void)worker;
    usleep(20000);
    pst_pipeline_cancel(user);
}

/* Nobody waits for a stream that is passed over, or for a buffer that is not full yet. */
static void test_cancel_a_long_way(void)
{
    for (int way = 0; way < 2; way++) {
        struct words w;
        pst_generator g = words_of(&w);
        pst_pipeline *p = NULL;
        pst_error e;
        pst_batch *b = NULL;
        struct thread_group *group;
        pst_pipeline_options o = {.size = sizeof(o), .workers = 2, .ram = UINT64_C(1) << 50};
        g.next = endless_next;
        REQUIRE_OK(pst_pipeline_create(&p, &o, &e), &e);
        REQUIRE_OK(pst_pipeline_add_generator(p, &g, &e), &e);
        REQUIRE_OK(add_count(p, &op_skip.op, INT64_MAX, &e), &e);
        REQUIRE_OK(add_shuffle(p, UINT64_C(1) << 40, 0, &e), &e);
        REQUIRE_OK(add_batch(p, 10, false, &e), &e);
        if (way == 1) { /* destroyed without a word */
            REQUIRE_OK(pst_pipeline_start(p, &e), &e);
        } else {
            REQUIRE_OK(thread_group_start(&group, 1, "cancel", cancel_soon, p, &e), &e);
            CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ECANCELLED, &e);
            thread_group_join(group);
        }
        pst_pipeline_destroy(p);
    }
}

static int odd_way;

static pst_status odd_next(void *pass, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    pst_status st = words_next(pass, ctx, out, reterr);
    if (((struct words *)pass)->next == 4) {
        if (odd_way == 0)
            out[1].rank = 1, out[1].shape[0] = 1000;
        else if (odd_way == 1)
            out[1].data = NULL;
        else
            out[1].dtype = PST_DTYPE_F64;
    }
    return st;
}

/* What a generator brings is compared with what it announced. */
static void test_odd_elements(void)
{
    static const char *const says[] = {"planned as [] and came as [1000]", "without data",
                                       "planned as int64 [] and came as float64 []"};
    for (odd_way = 0; odd_way < 3; odd_way++) {
        struct words w;
        pst_generator g = words_of(&w);
        pst_pipeline *p = NULL;
        pst_error e;
        pst_batch *b = NULL;
        g.next = odd_next;
        REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
        REQUIRE_OK(pst_pipeline_add_generator(p, &g, &e), &e);
        REQUIRE_OK(add_batch(p, 10, false, &e), &e);
        CHECK_STATUS(pst_pipeline_next(p, &b, &e), PST_ETYPE, &e);
        CHECK_STR(e.op, "generator");
        CHECK_MSG(strstr(e.message, says[odd_way]) != NULL, "%s", e.message);
        pst_pipeline_destroy(p);
    }
}

/* A window of more bytes than can be counted. */
static void test_huge_window(void)
{
    uint8_t bytes[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    const pst_tensor t = {.dtype = PST_DTYPE_U8, .rank = 1, .shape = {10}, .data = bytes};
    pst_pipeline *p = NULL;
    pst_error e;
    pst_batch *b = NULL;
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    REQUIRE_OK(pst_pipeline_add_arrays(p, &(const char *){"x"}, &t, 1, &e), &e);
    REQUIRE_OK(add_shuffle(p, 0, UINT64_MAX, &e), &e);
    REQUIRE_OK(add_batch(p, 10, false, &e), &e);
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    int sum = 0;
    for (int i = 0; i < 10; i++)
        sum += 1 << ((const uint8_t *)pst_batch_get(b, "x")->data)[i];
    CHECK_INT(sum, 1023);
    pst_batch_unref(b);
    pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"streams and indexes give the same batches", test_streams_and_indexes},
    {"little memory", test_little_memory},
    {"a buffer keeps to its bytes", test_buffer_bytes},
    {"a shuffle buffer of a number of elements", test_buffer_elements},
    {"a long way is left when nobody waits", test_cancel_a_long_way},
    {"a generator that does not keep its word", test_odd_elements},
    {"a window of more bytes than can be counted", test_huge_window},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
