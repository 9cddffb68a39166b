/* test_queue.c: the bounded queue, alone and between threads. */
#include "base/fault.h"
#include "base/memory.h"
#include "base/queue.h"
#include "base/thread.h"
#include "harness.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

static int dropped;

static void count_drop(void *item)
{
    (void)item;
    dropped++;
}

static void test_order(void)
{
    pst_error e;
    struct queue *q = NULL;
    int items[5];
    void *item = NULL;
    REQUIRE_OK(queue_create(&q, 3, &e), &e);
    for (int round = 0; round < 4; round++) { /* the ring wraps */
        for (int i = 0; i < 3; i++)
            CHECK_INT(queue_push(q, &items[i]), PST_OK);
        CHECK_INT(queue_length(q), 3);
        for (int i = 0; i < 2; i++) {
            CHECK_INT(queue_pop(q, &item), PST_OK);
            CHECK(item == &items[i]);
        }
        CHECK_INT(queue_push(q, &items[3]), PST_OK);
        CHECK(queue_pop(q, &item) == PST_OK && item == &items[2]);
        CHECK(queue_pop(q, &item) == PST_OK && item == &items[3]);
    }
    CHECK(queue_destroy(q, NULL) == NULL);
    CHECK(queue_destroy(NULL, count_drop) == NULL);
}

static void test_close(void)
{
    pst_error e;
    struct queue *q = NULL;
    int a, b;
    void *item = NULL;
    REQUIRE_OK(queue_create(&q, 2, &e), &e);
    CHECK_INT(queue_push(q, &a), PST_OK);
    queue_close(q);
    queue_close(q);
    CHECK_INT(queue_push(q, &b), PST_ECANCELLED);
    CHECK(queue_pop(q, &item) == PST_OK && item == &a);
    item = &b;
    CHECK_INT(queue_pop(q, &item), PST_END);
    CHECK(item == &b); /* untouched */
    CHECK_INT(queue_pop(q, &item), PST_END);
    queue_destroy(q, NULL);
}

static void test_drop(void)
{
    pst_error e;
    struct queue *q = NULL;
    int items[4];
    uint64_t before = mem_live();
    REQUIRE_OK(queue_create(&q, 4, &e), &e);
    for (int i = 0; i < 4; i++)
        queue_push(q, &items[i]);
    dropped = 0;
    queue_destroy(q, count_drop);
    CHECK_INT(dropped, 4);
    CHECK_INT(mem_live(), before);
}

static void test_create_fails(void)
{
    pst_error e;
    struct queue *q = NULL;
    uint64_t before = mem_live();
    CHECK_STATUS(queue_create(&q, 0, &e), PST_EINVAL, &e);
    CHECK_STATUS(queue_create(&q, SIZE_MAX / 2, &e), PST_ENOMEM, &e);
    for (uint64_t n = 0;; n++) {
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = queue_create(&q, 10, &e);
        bool hit = test_fault_calls() > n;
        test_fault_clear();
        CHECK_STATUS(st, hit ? PST_ENOMEM : PST_OK, &e);
        if (!hit)
            break;
        CHECK(q == NULL);
    }
    queue_destroy(q, NULL);
    CHECK_INT(mem_live(), before);
}

#define PRODUCERS 3
#define CONSUMERS 3
#define EACH      20000

struct traffic {
    struct queue *q;
    _Atomic unsigned char seen[PRODUCERS * EACH];
    _Atomic uint64_t popped, refused;
    _Atomic unsigned producing;
    _Atomic bool out_of_order;
};

static unsigned char places[PRODUCERS * EACH]; /* items are addresses in here */

static void produce_or_consume(void *user, unsigned worker)
{
    struct traffic *t = user;
    if (worker < PRODUCERS) {
        for (unsigned i = 0; i < EACH; i++)
            if (queue_push(t->q, &places[worker * EACH + i]) != PST_OK)
                t->refused++;
        if (atomic_fetch_sub(&t->producing, 1) == 1)
            queue_close(t->q);
        return;
    }
    void *item;
    size_t last[PRODUCERS] = {0};
    while (queue_pop(t->q, &item) == PST_OK) {
        size_t k = (size_t)((unsigned char *)item - places);
        if (last[k / EACH] > k) /* what one producer pushed stays in order for any one consumer */
            t->out_of_order = true;
        last[k / EACH] = k;
        t->seen[k]++;
        t->popped++;
    }
}

static void run_traffic(size_t capacity)
{
    static struct traffic t;
    pst_error e;
    struct thread_group *g = NULL;
    memset(&t, 0, sizeof(t));
    t.producing = PRODUCERS;
    REQUIRE_OK(queue_create(&t.q, capacity, &e), &e);
    REQUIRE_OK(thread_group_start(&g, PRODUCERS + CONSUMERS, "traffic", produce_or_consume, &t, &e), &e);
    thread_group_join(g);
    CHECK_INT(t.popped, PRODUCERS * EACH);
    CHECK_INT(t.refused, 0);
    CHECK(!t.out_of_order);
    for (int k = 0; k < PRODUCERS * EACH; k++)
        if (t.seen[k] != 1)
            CHECK_MSG(false, "item %d was seen %d times", k, t.seen[k]);
    queue_destroy(t.q, NULL);
}

static void test_traffic(void)
{
    run_traffic(1);
    run_traffic(7);
    run_traffic(1000);
}

struct sleepers {
    struct queue *q;
    bool push;
    _Atomic int ended;
};

static void sleep_in_queue(void *user, unsigned worker)
{
    struct sleepers *s = user;
    void *item = NULL;
    pst_status st = s->push ? queue_push(s->q, &places[worker]) : queue_pop(s->q, &item);
    s->ended += st == (s->push ? PST_ECANCELLED : PST_END);
}

/* Closing wakes whoever waits, on either side. */
static void test_close_wakes(void)
{
    pst_error e;
    for (int push = 0; push < 2; push++) {
        struct sleepers s = {.push = push};
        struct thread_group *g = NULL;
        REQUIRE_OK(queue_create(&s.q, 1, &e), &e);
        if (push)
            queue_push(s.q, &places[0]);
        REQUIRE_OK(thread_group_start(&g, 4, "sleeper", sleep_in_queue, &s, &e), &e);
        CHECK(!thread_group_wait(g, 20));
        queue_close(s.q);
        CHECK(thread_group_wait(g, 10000));
        thread_group_join(g);
        CHECK_INT(s.ended, 4);
        queue_destroy(s.q, NULL);
    }
}

static const struct test tests[] = {
    {"first in, first out", test_order},
    {"closing", test_close},
    {"what is left is dropped", test_drop},
    {"creation fails", test_create_fails},
    {"three producers, three consumers", test_traffic},
    {"closing wakes everyone", test_close_wakes},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
