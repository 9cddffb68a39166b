/* Elements that the program makes, and waiting with a limit. */
#include "harness.h"

#include <penstock/pipeline.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

struct counter {
    int passes, open;
    int64_t elements, fails_at;
    _Atomic bool held; /* no element is made while this is set */
};

struct pass {
    struct counter *counter;
    int64_t next;
    float pair[2];
    pst_bytes word;
};

static struct pass passes[8];

static pst_status open_pass(void *user, void **ret, pst_error *reterr)
{
    struct counter *c = user;
    (void)reterr;
    struct pass *p = &passes[c->passes++ % 8];
    *p = (struct pass){.counter = c};
    c->open++;
    *ret = p;
    return PST_OK;
}

static pst_status next_element(void *user, pst_ctx *ctx, pst_tensor *out, pst_error *reterr)
{
    struct pass *p = user;
    (void)ctx;
    while (atomic_load(&p->counter->held))
        usleep(1000);
    if (p->next == p->counter->fails_at)
        return pst_fail(reterr, PST_EINVAL, "no more of this");
    if (p->next == p->counter->elements)
        return PST_END;
    p->pair[0] = (float)p->next;
    p->pair[1] = (float)p->next / 2;
    p->word = (pst_bytes){.data = (const uint8_t *)"abcdefgh", .length = (size_t)(p->next % 8)};
    out[0].data = p->pair;
    out[1].data = &p->word;
    p->next++;
    return PST_OK;
}

static void close_pass(void *user)
{
    ((struct pass *)user)->counter->open--;
}

static pst_generator generator_of(struct counter *c)
{
    static const pst_field fields[] = {{.name = "pair", .dtype = PST_DTYPE_F32, .rank = 1, .shape = {2}},
                                       {.name = "word", .dtype = PST_DTYPE_BYTES}};
    return (pst_generator){.size = sizeof(pst_generator),
                           .spec = {.count = 2, .field = fields},
                           .open = open_pass,
                           .next = next_element,
                           .close = close_pass,
                           .user = c,
                           .fingerprint = 7};
}

static void make(pst_pipeline **ret, struct counter *c, const char *batch, unsigned workers)
{
    pst_pipeline *p = NULL;
    pst_error e;
    pst_pipeline_options options = {.size = sizeof(options), .workers = workers};
    pst_generator g = generator_of(c);
    REQUIRE_OK(pst_pipeline_create(&p, &options, &e), &e);
    REQUIRE_OK(pst_pipeline_add_generator(p, &g, &e), &e);
    memset(&g, 0, sizeof(g)); /* it is copied */
    REQUIRE_OK(pst_pipeline_add(p, "batch", batch, &e), &e);
    *ret = p;
}

static void test_elements(void)
{
    for (unsigned workers = 1; workers <= 3; workers++) {
        struct counter c = {.elements = 100, .fails_at = -1};
        pst_pipeline *p = NULL;
        make(&p, &c, "8", workers);
        pst_batch *b = NULL;
        pst_error e;
        for (int epoch = 0; epoch < 2; epoch++) {
            int64_t i = 0;
            for (; pst_pipeline_next(p, &b, &e) == PST_OK; b = pst_batch_unref(b))
                for (size_t k = 0; k < pst_batch_size(b); k++, i++) {
                    CHECK(((float *)pst_batch_get(b, "pair")->data)[2 * k + 1] == (float)i / 2);
                    CHECK_INT((int64_t)((pst_bytes *)pst_batch_get(b, "word")->data)[k].length, i % 8);
                }
            CHECK_INT(i, 100);
        }
        CHECK(pst_pipeline_length(p) == PST_NOWHERE);
        pst_pipeline_destroy(p);
        CHECK_INT(c.open, 0);
    }
}

static void test_failures(void)
{
    struct counter c = {.elements = 100, .fails_at = 20};
    pst_pipeline *p = NULL;
    make(&p, &c, "8", 2);
    pst_batch *b = NULL;
    pst_error e;
    int batches = 0;
    pst_status st;
    for (; (st = pst_pipeline_next(p, &b, &e)) == PST_OK; b = pst_batch_unref(b))
        batches++;
    CHECK_INT(st, PST_EINVAL);
    CHECK_INT(batches, 2);
    CHECK_MSG(strstr(e.message, "no more of this"), "%s", e.message);
    pst_pipeline_destroy(p);
    CHECK_INT(c.open, 0);
    pst_generator empty = generator_of(&c);
    empty.spec.count = 0;
    REQUIRE_OK(pst_pipeline_create(&p, NULL, &e), &e);
    CHECK_INT(pst_pipeline_add_generator(p, &empty, &e), PST_EINVAL);
    pst_pipeline_destroy(p);
}

static void test_wait(void)
{
    struct counter c = {.elements = 4, .fails_at = -1, .held = true};
    pst_pipeline *p = NULL;
    make(&p, &c, "2", 1);
    pst_batch *b = NULL;
    pst_error e;
    CHECK_INT(pst_pipeline_wait(p, 0, &e), PST_TIMEOUT); /* starts, and does not stay */
    for (int i = 0; i < 3; i++)
        CHECK_INT(pst_pipeline_wait(p, 0.05, &e), PST_TIMEOUT);
    atomic_store(&c.held, false);
    CHECK_INT(pst_pipeline_wait(p, 1e6, &e), PST_OK);
    CHECK_INT(pst_pipeline_wait(p, 0, &e), PST_OK);
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    b = pst_batch_unref(b);
    CHECK_INT(pst_pipeline_wait(p, 1e30, &e), PST_OK); /* for ever */
    REQUIRE_OK(pst_pipeline_next(p, &b, &e), &e);
    b = pst_batch_unref(b);
    pst_pipeline_cancel(p);
    CHECK_INT(pst_pipeline_wait(p, 1e30, &e), PST_OK); /* `next` would not wait: it fails */
    CHECK_INT(pst_pipeline_next(p, &b, &e), PST_ECANCELLED);
    pst_pipeline_destroy(p);
}

static const struct test tests[] = {
    {"elements in order, pass after pass", test_elements},
    {"failures", test_failures},
    {"waiting with a limit", test_wait},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
