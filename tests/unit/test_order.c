/* test_order.c: index algebra against a model that makes every sequence in full, and the division among ranks. */
#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "flow/order.h"
#include "flow/split.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENOUGH 3000 /* elements of an endless sequence that are compared */

/* ---- The model: sequences of (element, pass), made by doing what each operation says ---- */

struct place {
    uint64_t index, pass;
};
struct list {
    struct place *at;
    size_t count, room;
};

static void list_add(struct list *l, struct place p)
{
    if (l->count == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->at = realloc(l->at, l->room * sizeof(*l->at));
        if (!l->at)
            abort();
    }
    l->at[l->count++] = p;
}

static struct list model(const struct order *o, size_t steps, uint64_t pass);

static struct list model_repeat(const struct order *o, size_t steps, uint64_t pass)
{
    const struct order_step *s = &o->steps[steps - 1];
    struct list out = {0};
    uint64_t rounds = s->count < 0 ? UINT64_C(1) << 32 : (uint64_t)s->count;
    for (uint64_t r = 0; r < rounds && (s->count >= 0 || out.count < ENOUGH); r++) {
        struct list in = model(o, steps - 1, pass * rounds + r);
        for (size_t i = 0; i < in.count; i++)
            list_add(&out, in.at[i]);
        free(in.at);
        if (in.count == 0)
            break;
    }
    return out;
}

/* Chunks laid out one after the other in shuffled order, then every window shuffled. */
static struct list model_window(const struct order_step *s, const struct list *in, uint64_t key)
{
    struct list laid = {0}, out = {0};
    struct permutation p;
    uint64_t chunks = (in->count + s->chunk - 1) / s->chunk;
    permutation_init(&p, chunks, s->seed, key);
    for (uint64_t c = 0; c < chunks; c++)
        for (uint64_t i = permutation_at(&p, c) * s->chunk, end = i + s->chunk; i < end && i < in->count; i++)
            list_add(&laid, in->at[i]);
    for (uint64_t begin = 0; begin < laid.count; begin += s->window) {
        uint64_t size = laid.count - begin < s->window ? laid.count - begin : s->window;
        permutation_init(&p, size, hash_combine(s->seed, begin / s->window), key);
        for (uint64_t i = 0; i < size; i++)
            list_add(&out, laid.at[begin + permutation_at(&p, i)]);
    }
    free(laid.at);
    return out;
}

static struct list model_shuffle(const struct order_step *s, const struct list *in, uint64_t pass)
{
    struct list out = {0};
    struct permutation p;
    uint64_t key = s->reshuffle ? pass : 0;
    if (s->chunk)
        return model_window(s, in, key);
    permutation_init(&p, in->count, s->seed, key);
    for (size_t i = 0; i < in->count; i++)
        list_add(&out, in->at[permutation_at(&p, i)]);
    return out;
}

/* The elements behind the first `steps` steps, none of which is a batch. */
static struct list model(const struct order *o, size_t steps, uint64_t pass)
{
    struct list out = {0};
    if (steps == 0) {
        for (uint64_t i = 0; i < o->source; i++)
            list_add(&out, (struct place){i, pass});
        return out;
    }
    const struct order_step *s = &o->steps[steps - 1];
    if (s->kind == ORDER_REPEAT)
        return model_repeat(o, steps, pass);
    struct list in = model(o, steps - 1, pass);
    if (s->kind == ORDER_SHUFFLE && in.count > 0)
        out = model_shuffle(s, &in, pass);
    for (size_t i = 0; i < in.count && s->kind != ORDER_SHUFFLE; i++)
        if ((s->kind == ORDER_TAKE && (s->count < 0 || i < (uint64_t)s->count)) ||
            (s->kind == ORDER_SKIP && s->count >= 0 && i >= (uint64_t)s->count) ||
            (s->kind == ORDER_SHARD && i % s->shards == s->shard))
            list_add(&out, in.at[i]);
    free(in.at);
    return out;
}

/* ---- Comparing ---- */

static bool batch_equals(const struct order *o, struct order_state *state, uint64_t epoch, uint64_t k, const struct list *all)
{
    uint64_t index[64], pass[64], size = o->steps[o->batch].size, begin = k * size;
    struct order_batch b = order_open(o, state, epoch, k);
    uint64_t want = all->count - begin < size ? all->count - begin : size;
    if (b.size != want)
        return false;
    for (uint64_t at = 0; at < want; at += 3) { /* in slices */
        size_t n = want - at < 3 ? (size_t)(want - at) : 3;
        order_elements(o, state, &b, at, n, index + at, pass + at);
    }
    for (uint64_t i = 0; i < want; i++)
        if (index[i] != all->at[begin + i].index || pass[i] != all->at[begin + i].pass)
            return false;
    return true;
}

/* The batches of an epoch, from the last to the first: none needs the one before it. */
static void compare_epoch(const struct order *o, uint64_t epoch, const char *what)
{
    struct list all = model(o, o->batch, epoch);
    const struct order_step *batch = &o->steps[o->batch];
    struct order_state state;
    uint64_t batches = batch->drop_remainder ? all.count / batch->size : (all.count + batch->size - 1) / batch->size;
    bool same = true;
    if (o->batches == ORDER_ENDLESS)
        batches = batches < 20 ? batches : 20;
    else
        CHECK_MSG(o->batches == batches, "%s: %llu batches, the model has %llu", what, (unsigned long long)o->batches,
                  (unsigned long long)batches);
    REQUIRE_OK(order_state_init(&state, o, NULL), NULL);
    for (uint64_t k = batches; k-- > 0 && same;)
        same = batch_equals(o, &state, epoch, k, &all);
    CHECK_MSG(same, "%s: epoch %llu differs from the model", what, (unsigned long long)epoch);
    order_state_finish(&state);
    free(all.at);
}

static struct order_step random_step(struct random *r)
{
    struct order_step s = {.kind = (enum order_kind)random_below(r, ORDER_BATCH)};
    static const int64_t counts[] = {-1, 0, 1, 2, 3, 7, 20, 50};
    s.count = counts[random_below(r, 8)];
    if (s.kind == ORDER_TAKE && s.count == 0)
        s.count = 30;
    if (s.kind == ORDER_SKIP && s.count > 7)
        s.count = 1;
    if (s.kind == ORDER_REPEAT)
        s.count = (int64_t)random_below(r, 5) - 1;
    s.shards = 1 + random_below(r, 4);
    s.shard = random_below(r, s.shards);
    s.seed = random_below(r, 5);
    s.reshuffle = random_below(r, 4) > 0;
    if (random_below(r, 2)) {
        s.chunk = 1 + random_below(r, 6);
        s.window = s.chunk * (1 + random_below(r, 4));
    }
    return s;
}

static void test_random_chains(void)
{
    struct random r;
    random_init(&r, 11, 0, 0, 0);
    for (int round = 0; round < 2000; round++) {
        struct order o;
        char what[32];
        pst_status st = PST_OK;
        snprintf(what, sizeof(what), "chain %d", round);
        order_init(&o, random_below(&r, 8) ? 1 + random_below(&r, 60) : 0);
        for (uint64_t i = random_below(&r, 5); i > 0; i--) {
            struct order_step s = random_step(&r);
            st = order_push(&o, &s, NULL); /* a shuffle behind an endless repeat is refused, and left out */
        }
        struct order_step batch = {.kind = ORDER_BATCH, .size = 1 + random_below(&r, 9), .drop_remainder = random_below(&r, 2)};
        st = order_push(&o, &batch, NULL);
        CHECK_INT(st, PST_OK);
        for (uint64_t epoch = 0; epoch < 3; epoch++)
            compare_epoch(&o, epoch, what);
        order_finish(&o);
    }
}

/* ---- Semantics that users know ---- */

static void push(struct order *o, struct order_step s)
{
    pst_error e;
    CHECK_STATUS(order_push(o, &s, &e), PST_OK, &e);
}

/* "0 1 2 | 3 4": the elements of an epoch, batches apart. */
static const char *written(const struct order *o, uint64_t epoch)
{
    static char text[512];
    struct order_state state;
    size_t n = 0;
    text[0] = '\0';
    if (order_state_init(&state, o, NULL) < 0)
        abort();
    for (uint64_t k = 0; k < o->batches && k < 12; k++) {
        uint64_t index[16], pass[16];
        struct order_batch b = order_open(o, &state, epoch, k);
        order_elements(o, &state, &b, 0, (size_t)b.size, index, pass);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s", k ? " |" : "");
        for (size_t i = 0; i < b.size; i++)
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%d", n ? " " : "", (int)index[i]);
    }
    order_state_finish(&state);
    return text;
}

static void test_counts(void)
{
    static const struct {
        struct order_step steps[3];
        const char *want;
    } cases[] = {
        {{{.kind = ORDER_TAKE, .count = 4}}, "0 1 2 | 3"},
        {{{.kind = ORDER_TAKE, .count = -1}}, "0 1 2 | 3 4 5 | 6"},
        {{{.kind = ORDER_TAKE, .count = 99}}, "0 1 2 | 3 4 5 | 6"},
        {{{.kind = ORDER_SKIP, .count = 5}}, "5 6"},
        {{{.kind = ORDER_SKIP, .count = -1}}, ""},
        {{{.kind = ORDER_SKIP, .count = 7}}, ""},
        {{{.kind = ORDER_SHARD, .shards = 3, .shard = 1}}, "1 4"},
        {{{.kind = ORDER_SHARD, .shards = 9, .shard = 8}}, ""},
        {{{.kind = ORDER_REPEAT, .count = 0}}, ""},
        {{{.kind = ORDER_SKIP, .count = 5}, {.kind = ORDER_REPEAT, .count = 3}}, "5 6 5 | 6 5 6"},
        {{{.kind = ORDER_SKIP, .count = 5}, {.kind = ORDER_REPEAT, .count = -1}, {.kind = ORDER_TAKE, .count = 5}},
         "5 6 5 | 6 5"},
        {{{.kind = ORDER_SKIP, .count = -1}, {.kind = ORDER_REPEAT, .count = -1}}, ""},
        {{{.kind = ORDER_BATCH, .size = 3}, {.kind = ORDER_SKIP, .count = 1}}, "3 4 5 | 6"},
        {{{.kind = ORDER_BATCH, .size = 3}, {.kind = ORDER_REPEAT, .count = 2}, {.kind = ORDER_TAKE, .count = 4}},
         "0 1 2 | 3 4 5 | 6 | 0 1 2"},
        {{{.kind = ORDER_BATCH, .size = 3, .drop_remainder = true}, {.kind = ORDER_SHARD, .shards = 2, .shard = 1}}, "3 4 5"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct order o;
        order_init(&o, 7);
        for (size_t k = 0; k < 3 && (cases[i].steps[k].kind || cases[i].steps[k].count); k++)
            push(&o, cases[i].steps[k]);
        if (o.batch == SIZE_MAX)
            push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 3});
        CHECK_STR(written(&o, 0), cases[i].want);
        order_finish(&o);
    }
}

/* Which of 100 elements can come, in whatever epoch. */
static void test_reach(void)
{
    static const struct {
        struct order_step steps[4];
        uint64_t reach;
    } cases[] = {
        {{{.kind = ORDER_BATCH, .size = 7}}, 100},
        {{{.kind = ORDER_BATCH, .size = 7, .drop_remainder = true}}, 98},
        {{{.kind = ORDER_TAKE, .count = 30}, {.kind = ORDER_REPEAT, .count = 5}, {.kind = ORDER_BATCH, .size = 4}}, 30},
        {{{.kind = ORDER_REPEAT, .count = -1}, {.kind = ORDER_BATCH, .size = 4}, {.kind = ORDER_TAKE, .count = 3}}, 12},
        {{{.kind = ORDER_SHARD, .shards = 8, .shard = 1}, {.kind = ORDER_SKIP, .count = 3}, {.kind = ORDER_BATCH, .size = 1}},
         10},
        {{{.kind = ORDER_SHUFFLE, .reshuffle = true}, {.kind = ORDER_TAKE, .count = 30}, {.kind = ORDER_BATCH, .size = 4}},
         100},
        {{{.kind = ORDER_SHUFFLE}, {.kind = ORDER_TAKE, .count = 30}, {.kind = ORDER_BATCH, .size = 4}}, 30},
        {{{.kind = ORDER_SHUFFLE, .reshuffle = true}, {.kind = ORDER_SKIP, .count = -1}, {.kind = ORDER_BATCH, .size = 4}}, 0},
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct order o;
        pst_error e;
        order_init(&o, 100);
        for (size_t i = 0; i < 4 && o.batch == SIZE_MAX; i++)
            CHECK_STATUS(order_push(&o, &cases[c].steps[i], &e), PST_OK, &e);
        if (c == 3)
            CHECK_STATUS(order_push(&o, &cases[c].steps[2], &e), PST_OK, &e);
        CHECK_MSG(order_reach(&o) == cases[c].reach, "case %zu: %d", c, (int)order_reach(&o));
        order_finish(&o);
    }
}

static void test_refusals(void)
{
    pst_error e;
    struct order o;
    order_init(&o, 10);
    CHECK_STATUS(order_push(&o, &(struct order_step){.kind = ORDER_SHARD, .shards = 2, .shard = 2}, &e), PST_EINVAL, &e);
    CHECK_STATUS(order_push(&o, &(struct order_step){.kind = ORDER_SHARD}, &e), PST_EINVAL, &e);
    CHECK_STATUS(order_push(&o, &(struct order_step){.kind = ORDER_BATCH}, &e), PST_EINVAL, &e);
    CHECK_STATUS(order_push(&o, &(struct order_step){.kind = ORDER_REPEAT, .count = INT64_MAX}, &e), PST_EINVAL, &e);
    push(&o, (struct order_step){.kind = ORDER_REPEAT, .count = -1});
    CHECK_STATUS(order_push(&o, &(struct order_step){.kind = ORDER_SHUFFLE}, &e), PST_EINVAL, &e);
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 2});
    CHECK_STATUS(order_push(&o, &(struct order_step){.kind = ORDER_BATCH, .size = 2}, &e), PST_EINVAL, &e);
    CHECK_INT(o.count, 2);
    order_finish(&o);
}

/* ---- Shuffling ---- */

static void test_shuffle_is_exact(void)
{
    static const uint64_t windows[][2] = {{0, 0}, {7, 28}, {1, 16}, {100, 100}, {1000, 4000}};
    for (size_t w = 0; w < 5; w++) {
        enum { N = 997 };
        struct order o;
        struct order_state state;
        uint64_t index[N], pass[N], moved = 0;
        order_init(&o, N);
        push(&o, (struct order_step){
                     .kind = ORDER_SHUFFLE, .seed = 5, .reshuffle = true, .chunk = windows[w][0], .window = windows[w][1]});
        push(&o, (struct order_step){.kind = ORDER_BATCH, .size = N});
        REQUIRE_OK(order_state_init(&state, &o, NULL), NULL);
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            bool seen[N] = {0}, twice = false;
            struct order_batch b = order_open(&o, &state, epoch, 0);
            order_elements(&o, &state, &b, 0, N, index, pass);
            for (size_t i = 0; i < N; i++) {
                twice |= index[i] >= N || seen[index[i]];
                seen[index[i] % N] = true;
                moved += index[i] != i;
            }
            CHECK_MSG(!twice, "window %zu: every element comes once", w);
        }
        CHECK_MSG(moved > 4 * N * 9 / 10, "window %zu: only %d elements moved", w, (int)moved);
        order_state_finish(&state);
        order_finish(&o);
    }
}

/* A window holds the runs of neighbours it is made of: that is what slow storage is promised. */
static void test_windows_stay_local(void)
{
    enum { CHUNK = 10, WINDOW = 40, N = 1000 };
    struct order o;
    struct order_state state;
    uint64_t index[WINDOW], pass[WINDOW];
    order_init(&o, N);
    push(&o, (struct order_step){.kind = ORDER_SHUFFLE, .seed = 1, .chunk = CHUNK, .window = WINDOW});
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = WINDOW});
    REQUIRE_OK(order_state_init(&state, &o, NULL), NULL);
    for (uint64_t k = 0; k < N / WINDOW; k++) {
        bool chunk[N / CHUNK] = {0};
        int chunks = 0;
        struct order_batch b = order_open(&o, &state, 0, k);
        order_elements(&o, &state, &b, 0, WINDOW, index, pass);
        for (size_t i = 0; i < WINDOW; i++) {
            chunks += !chunk[index[i] / CHUNK];
            chunk[index[i] / CHUNK] = true;
        }
        CHECK_INT(chunks, WINDOW / CHUNK);
    }
    order_state_finish(&state);
    order_finish(&o);
}

/* Passes differ, unless told not to; those of a repeat too. */
static void test_passes(void)
{
    struct order o;
    order_init(&o, 8);
    push(&o, (struct order_step){.kind = ORDER_SHUFFLE, .seed = 3, .reshuffle = true});
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 8});
    push(&o, (struct order_step){.kind = ORDER_REPEAT, .count = 2});
    char first[512];
    strcpy(first, written(&o, 0));
    CHECK(strncmp(first, strchr(first, '|') + 2, 15) != 0);
    CHECK(strcmp(first, written(&o, 1)) != 0);
    CHECK_STR(written(&o, 0), first);
    order_finish(&o);
    order_init(&o, 8);
    push(&o, (struct order_step){.kind = ORDER_SHUFFLE, .seed = 3});
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 8});
    push(&o, (struct order_step){.kind = ORDER_REPEAT, .count = 2});
    strcpy(first, written(&o, 0));
    CHECK(strncmp(first, strchr(first, '|') + 2, 15) == 0);
    CHECK_STR(written(&o, 1), first);
    order_finish(&o);
}

/* Element 10^9 - 1 of a shuffled, repeated, sharded sequence is computed at once. */
static void test_no_memory(void)
{
    struct order o;
    struct order_state state;
    uint64_t index, pass, live = mem_live();
    order_init(&o, 1000000000);
    push(&o, (struct order_step){.kind = ORDER_SHUFFLE, .seed = 3, .reshuffle = true});
    push(&o, (struct order_step){.kind = ORDER_REPEAT, .count = 1000});
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 1});
    REQUIRE_OK(order_state_init(&state, &o, NULL), NULL);
    CHECK_INT(mem_live() - live, 2);
    struct order_batch b = order_open(&o, &state, 2, 999999999999);
    order_elements(&o, &state, &b, 0, 1, &index, &pass);
    CHECK_INT(pass, 2 * 1000 + 999);
    CHECK(index < 1000000000);
    order_state_finish(&state);
    order_finish(&o);
}

/* ---- Ranks ---- */

static void test_ranks(void)
{
    for (uint64_t batches = 0; batches < 14; batches++)
        for (unsigned world = 1; world < 6; world++)
            for (uint64_t base = 0; base <= batches; base++)
                for (int uneven = 0; uneven < 3; uneven++) {
                    int times[16] = {0};
                    uint64_t least = UINT64_MAX, most = 0, left = batches - base;
                    for (unsigned rank = 0; rank < world; rank++) {
                        struct split s = {.rank = rank, .world = world, .uneven = (pst_uneven)uneven};
                        uint64_t steps = split_steps(&s, batches, base);
                        for (uint64_t i = 0; i < steps; i++)
                            times[split_batch(&s, batches, base, i)]++;
                        least = steps < least ? steps : least;
                        most = steps > most ? steps : most;
                    }
                    uint64_t sum = 0, missing = 0;
                    for (uint64_t i = 0; i < batches; i++) {
                        sum += (uint64_t)times[i];
                        missing += i >= base && times[i] == 0;
                    }
                    CHECK(uneven == PST_UNEVEN_ALLOW ? most - least <= 1 : most == least);
                    CHECK_INT(missing, uneven == PST_UNEVEN_DROP ? left % world : 0);
                    CHECK_INT(sum, uneven == PST_UNEVEN_ALLOW  ? left
                                   : uneven == PST_UNEVEN_DROP ? left / world * world
                                                               : (left + world - 1) / world * world);
                }
}

/* Some ranks go a few steps, others in another number go on: nothing is lost, nothing comes twice. */
static void test_changing_ranks(void)
{
    struct random r;
    random_init(&r, 2, 0, 0, 0);
    for (int round = 0; round < 500; round++) {
        uint64_t batches = random_below(&r, 40), next = 0;
        int times[40] = {0};
        while (next < batches) {
            unsigned world = 1 + (unsigned)random_below(&r, 6);
            uint64_t steps = 1 + random_below(&r, 4), after = next;
            for (unsigned rank = 0; rank < world; rank++) {
                struct split s = {.rank = rank, .world = world, .uneven = PST_UNEVEN_ALLOW};
                uint64_t mine = split_steps(&s, batches, next);
                for (uint64_t i = 0; i < mine && i < steps; i++)
                    times[split_batch(&s, batches, next, i)]++;
                after = split_after(&s, batches, next, steps);
            }
            next = after;
        }
        for (uint64_t i = 0; i < batches; i++)
            CHECK_INT(times[i], 1);
    }
}

/* ---- Parts for hosts ---- */

static uint64_t part_begin_of(uint64_t batches, uint64_t parts, uint64_t h)
{
    return batches * h / parts;
}

/* Every element comes once in every epoch; those of a batch are of one part, and the parts take turns. */
static void test_parts(void)
{
    static const uint64_t cases[][5] = {/* elements, batch, parts, chunk, window */
                                        {1000, 8, 2, 0, 0}, {997, 10, 4, 0, 0}, {64, 8, 8, 0, 0}, {1001, 7, 3, 5, 20}, {23, 4, 5, 0, 0}};
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        const uint64_t n = cases[c][0], size = cases[c][1], parts = cases[c][2];
        struct order o;
        struct order_state state;
        uint64_t index[16], pass[16], first[16] = {0}, moved = 0;
        order_init(&o, n);
        push(&o, (struct order_step){.kind = ORDER_SHUFFLE, .seed = 5, .reshuffle = true, .chunk = cases[c][3], .window = cases[c][4]});
        push(&o, (struct order_step){.kind = ORDER_BATCH, .size = size});
        REQUIRE_OK(order_divide(&o, parts, NULL), NULL);
        REQUIRE_OK(order_state_init(&state, &o, NULL), NULL);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            bool seen[1024] = {0}, twice = false, strays = false;
            for (uint64_t k = 0; k < o.batches; k++) {
                struct order_batch b = order_open(&o, &state, epoch, k);
                order_elements(&o, &state, &b, 0, (size_t)b.size, index, pass);
                uint64_t part = 0;
                while (part + 1 < parts && part_begin_of(o.batches, parts, part + 1) * size <= index[0])
                    part++;
                strays |= k < o.batches / parts * parts && part != k % parts;
                for (size_t i = 0; i < b.size; i++) {
                    twice |= index[i] >= n || seen[index[i]];
                    seen[index[i] % n] = true;
                    strays |= index[i] < part_begin_of(o.batches, parts, part) * size || index[i] >= part_begin_of(o.batches, parts, part + 1) * size;
                }
                if (k == 0)
                    moved += epoch > 0 && index[0] != first[0], first[0] = index[0];
            }
            bool all = true;
            for (uint64_t i = 0; i < n; i++)
                all &= seen[i];
            CHECK_MSG(all && !twice, "case %zu, epoch %d: every element comes once", c, (int)epoch);
            CHECK_MSG(!strays, "case %zu, epoch %d: batches stay in their parts", c, (int)epoch);
        }
        CHECK_MSG(moved > 0 || n < 100, "case %zu: epochs differ", c);
        order_state_finish(&state);
        order_finish(&o);
    }
}

static void test_parts_refused(void)
{
    pst_error e;
    struct order o;
    order_init(&o, 100);
    push(&o, (struct order_step){.kind = ORDER_TAKE, .count = 50});
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 10});
    CHECK_STATUS(order_divide(&o, 2, &e), PST_EINVAL, &e);
    order_finish(&o);
    order_init(&o, 100);
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 50});
    CHECK_STATUS(order_divide(&o, 4, &e), PST_EINVAL, &e);
    order_finish(&o);
    order_init(&o, 100);
    push(&o, (struct order_step){.kind = ORDER_BATCH, .size = 10});
    push(&o, (struct order_step){.kind = ORDER_SHUFFLE, .seed = 1});
    CHECK_STATUS(order_divide(&o, 2, &e), PST_EINVAL, &e); /* it would move batches from host to host */
    order_finish(&o);
}

/* The ranks of a host take the turns of one part; all turns are taken once. */
static void test_turns(void)
{
    for (unsigned hosts = 1; hosts <= 4; hosts++)
        for (unsigned each = 1; each <= 3; each++) {
            bool taken[12] = {0};
            for (unsigned rank = 0; rank < hosts * each; rank++) {
                unsigned turn = split_turn(rank, hosts * each, hosts);
                CHECK(turn < hosts * each && !taken[turn]);
                taken[turn] = true;
                CHECK_INT(hosts > 1 ? turn % hosts : 0, hosts > 1 ? rank / each : 0);
            }
        }
}

static const struct test tests[] = {
    {"random chains equal the model", test_random_chains},
    {"take, skip, repeat, shard and batch as users know them", test_counts},
    {"which elements can come", test_reach},
    {"what has no order is refused", test_refusals},
    {"a shuffle is a permutation", test_shuffle_is_exact},
    {"a window is made of runs of neighbours", test_windows_stay_local},
    {"passes are shuffled anew unless told not to", test_passes},
    {"a thousand times 10^9 elements take no memory", test_no_memory},
    {"ranks get as many batches", test_ranks},
    {"another number of ranks goes on where the last one stopped", test_changing_ranks},
    {"hosts get parts, and every element comes once", test_parts},
    {"parts that cannot be made are refused", test_parts_refused},
    {"the ranks of a host take the turns of a part", test_turns},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
