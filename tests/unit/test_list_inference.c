/* test_list_inference.c: feature lists inferred from SequenceExamples, damaged ones among them. */
#include "base/fault.h"
#include "base/memory.h"
#include "harness.h"
#include "proto.h"
#include "record/list_inference.h"

#include <penstock/example.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* fuzz_list_inference.c: aborts when a promise is broken */

static struct bytes step(struct bytes feature)
{
    return field(1, feature);
}

static struct bytes list(const char *name, struct bytes steps)
{
    return entry(name, steps);
}

/* Lists of every kind; "v" has steps of different lengths, and "e" one without values. */
static struct bytes rich(void)
{
    struct bytes f = join(step(float_list(FLOATS(1, 2))), step(float_list(FLOATS(3, 4))));
    struct bytes v = join(step(int64_list(INT64S(5, -6))), step(int64_list(INT64S(300))));
    struct bytes s = join(step(bytes_list(one_string("abc"))), step(bytes_list(one_string(""))));
    return join(field(1, entry("c", int64_list(INT64S(7)))),
                field(2, join(join(list("f", f), list("v", v)), join(list("s", s), list("e", step(NOTHING))))));
}

static pst_status infer(const struct bytes *m, size_t messages, char text[256], pst_error *error)
{
    struct list_inference inference = {0};
    pst_schema *schema = NULL;
    pst_status st = PST_OK;
    for (size_t i = 0; i < messages && st == PST_OK; i++)
        st = list_inference_add(&inference, m[i].data, m[i].n, error);
    if (st == PST_OK)
        st = list_inference_schema(&inference, &schema, error);
    if (st == PST_OK)
        pst_schema_text(schema, text, 256);
    pst_schema_destroy(schema);
    list_inference_finish(&inference);
    return st;
}

static void test_schema(void)
{
    struct bytes both[] = {rich(), NOTHING};
    char text[256];
    pst_error error = {0};
    REQUIRE_OK(infer(both, 1, text, &error), &error);
    CHECK_STR(text, "f:float[2] v:int64[*] s:bytes");
    REQUIRE_OK(infer(both, 2, text, &error), &error); /* a message without lists */
    CHECK_STR(text, "f:float[2]=[] v:int64[*] s:bytes=[]");
    struct bytes other[] = {rich(), field(2, list("f", step(int64_list(INT64S(1)))))};
    CHECK_STATUS(infer(other, 2, text, &error), PST_ETYPE, &error);
    CHECK(strstr(error.message, "'f' is int64 here, float"));
}

static void test_every_fault(void)
{
    struct bytes m = rich();
    CHECK(m.n > 80);
    for (size_t n = 0; n <= m.n; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer notices a byte read after the last */
        memcpy(exact, m.data, n);
        LLVMFuzzerTestOneInput(exact, n);
        free(exact);
    }
    for (size_t bit = 0; bit < m.n * 8; bit++) {
        uint8_t *exact = malloc(m.n);
        memcpy(exact, m.data, m.n);
        exact[bit / 8] ^= (uint8_t)(1u << bit % 8);
        LLVMFuzzerTestOneInput(exact, m.n);
        free(exact);
    }
}

static void test_memory_faults(void)
{
    struct bytes m = rich();
    pst_status st = PST_ENOMEM;
    uint64_t n = 0;
    for (; st != PST_OK && n < 100; n++) {
        pst_error error = {0};
        char text[256];
        uint64_t before = mem_live();
        test_fault_arm(FAULT_MEMORY, n, false);
        st = infer(&m, 1, text, &error);
        test_fault_clear();
        CHECK_INT(mem_live(), before);
        CHECK(st == PST_OK || (st == PST_ENOMEM && strstr(error.message, "out of memory")));
    }
    CHECK_STATUS(st, PST_OK, NULL);
    CHECK(n > 5);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"schemas", test_schema},
        {"every truncation, every flipped bit", test_every_fault},
        {"every allocation fails once", test_memory_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
