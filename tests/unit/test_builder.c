/* test_builder.c: the bytes of a built Example, exactly, and what a builder refuses. */
#include "harness.h"
#include "unit/proto.h"

#include "base/fault.h"
#include "base/memory.h"

static void finished_is(pst_builder *builder, struct bytes want, int line)
{
    pst_error error;
    pst_bytes got;
    REQUIRE_OK(pst_builder_finish(builder, &got, &error), &error);
    test_report(got.length == want.n && memcmp(got.data, want.data, want.n) == 0, __FILE__, line,
                "%zu bytes, expected %zu others", got.length, want.n);
}

static void test_bytes(void)
{
    pst_error error;
    pst_builder *b;
    pst_bytes strings[] = {{(const uint8_t *)"hello", 5}, {NULL, 0}, {(const uint8_t *)"\0x", 2}};
    float values[] = {1.5f, -0.0f};
    int64_t numbers[] = {0, 127, 128, -1, INT64_MIN};
    REQUIRE_OK(pst_builder_create(&b, &error), &error);
    finished_is(b, RAW("\x0a\x00"), __LINE__); /* no features */
    REQUIRE_OK(pst_builder_add_bytes(b, "b", strings, 3, &error), &error);
    struct bytes entries = entry("b", RAW("\x0a\x0d\x0a\x05hello\x0a\x00\x0a\x02\0x"));
    finished_is(b, example(entries), __LINE__);
    REQUIRE_OK(pst_builder_add_floats(b, "f", values, 2, &error), &error); /* goes on behind what was finished */
    entries = join(entries, entry("f", RAW("\x12\x0a\x0a\x08\0\0\xc0\x3f\0\0\0\x80")));
    REQUIRE_OK(pst_builder_add_int64s(b, "a", numbers, 5, &error), &error); /* the order of the calls, not of the names */
    entries = join(entries, entry("a", RAW("\x1a\x1a\x0a\x18\x00\x7f\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                                           "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01")));
    finished_is(b, example(entries), __LINE__);

    /* Empty lists are set, without a packed chunk. */
    pst_builder_reset(b);
    REQUIRE_OK(pst_builder_add_bytes(b, "b", NULL, 0, &error), &error);
    REQUIRE_OK(pst_builder_add_floats(b, "f", NULL, 0, &error), &error);
    REQUIRE_OK(pst_builder_add_int64s(b, "", NULL, 0, &error), &error);
    finished_is(b, example(join(join(entry("b", RAW("\x0a\x00")), entry("f", RAW("\x12\x00"))), entry("", RAW("\x1a\x00")))),
                __LINE__);
    pst_builder_destroy(b);
}

/* Lengths on both sides of where their own size changes. */
static void test_lengths(void)
{
    static const size_t sizes[] = {0, 1, 100, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 1000};
    static uint8_t payload[70000];
    pst_error error;
    pst_builder *b;
    pst_schema *schema;
    pst_parser *parser;
    pst_bytes message;
    pst_value v[2];
    memset(payload, 'z', sizeof(payload));
    REQUIRE_OK(pst_builder_create(&b, &error), &error);
    REQUIRE_OK(pst_schema_parse(&schema, "image:bytes label:int64", &error), &error);
    REQUIRE_OK(pst_parser_create(&parser, schema, NULL, &error), &error);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pst_builder_reset(b);
        REQUIRE_OK(pst_builder_add_bytes(b, "x", &(pst_bytes){payload, sizes[i]}, 1, &error), &error);
        finished_is(b, example(entry("x", bytes_list(field(1, raw(payload, sizes[i]))))), __LINE__);
    }
    for (size_t n = 16300; n < 16450; n++) {
        pst_builder_reset(b);
        REQUIRE_OK(pst_builder_add_bytes(b, "image", &(pst_bytes){payload, n}, 1, &error), &error);
        REQUIRE_OK(pst_builder_add_int64s(b, "label", &(int64_t){(int64_t)n}, 1, &error), &error);
        REQUIRE_OK(pst_builder_finish(b, &message, &error), &error);
        REQUIRE_OK(pst_parser_parse(parser, message.data, message.length, v, &error), &error);
        REQUIRE(((const pst_bytes *)v[0].data)->length == n && *(const int64_t *)v[1].data == (int64_t)n);
    }
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    pst_builder_destroy(b);
}

static void test_refused(void)
{
    pst_error error;
    pst_builder *b;
    int64_t one = 1;
    pst_bytes huge = {(const uint8_t *)"", (size_t)1 << 31}, wrapping[3] = {{NULL, SIZE_MAX}, {NULL, 2}, {NULL, SIZE_MAX}};
    REQUIRE_OK(pst_builder_create(&b, &error), &error);
    REQUIRE_OK(pst_builder_add_int64s(b, "x", &one, 1, &error), &error);
    CHECK_STATUS(pst_builder_add_int64s(b, "x", &one, 1, &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "feature 'x' was added already");
    CHECK_STATUS(pst_builder_add_floats(b, "x", NULL, 0, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_builder_add_int64s(b, NULL, &one, 1, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_builder_add_int64s(b, "\xff", &one, 1, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_builder_add_int64s(b, "y", NULL, 1, &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_builder_add_bytes(b, "y", &huge, 1, &error), PST_ELIMIT, &error);
    CHECK_STATUS(pst_builder_add_bytes(b, "y", wrapping, 3, &error), PST_ELIMIT, &error);
    CHECK_STATUS(pst_builder_add_floats(b, "y", (const float *)&one, SIZE_MAX / 2, &error), PST_ELIMIT, &error);
    CHECK_STATUS(pst_builder_add_floats(b, "y", (const float *)&one, (size_t)1 << 30, &error), PST_ELIMIT, &error);
    CHECK_STATUS(pst_builder_add_int64s(b, "y", &one, SIZE_MAX, &error), PST_ELIMIT, &error);
    finished_is(b, example(entry("x", int64_list(INT64S(1)))), __LINE__); /* none of these left a trace */
    REQUIRE_OK(pst_builder_add_int64s(b, "y", &one, 1, &error), &error);
    pst_builder_reset(b);
    REQUIRE_OK(pst_builder_add_int64s(b, "x", &one, 1, &error), &error); /* a new Example, the same name */
    pst_builder_allow_any_names(b, true);
    REQUIRE_OK(pst_builder_add_int64s(b, "\xff", &one, 1, &error), &error);
    CHECK_STATUS(pst_builder_add_int64s(b, "\xff", &one, 1, &error), PST_EINVAL, &error);
    pst_builder_reset(b);
    pst_builder_destroy(b);
    CHECK(pst_builder_destroy(NULL) == NULL);
}

static void test_many(void)
{
    enum { FEATURES = 3000 };
    pst_error error;
    pst_builder *b;
    pst_parser *parser;
    const pst_named_value *named;
    pst_bytes message;
    size_t count;
    char name[16];
    REQUIRE_OK(pst_builder_create(&b, &error), &error);
    REQUIRE_OK(pst_parser_create(&parser, NULL, NULL, &error), &error);
    for (int round = 0; round < 3; round++) {
        if (round == 2)
            test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
        pst_builder_reset(b);
        for (int64_t i = 0; i < FEATURES; i++) {
            snprintf(name, sizeof(name), "f%d", (int)i);
            REQUIRE_OK(pst_builder_add_int64s(b, name, &i, 1, &error), &error);
            CHECK_STATUS(pst_builder_add_int64s(b, "f0", &i, 1, &error), PST_EINVAL, &error);
        }
        REQUIRE_OK(pst_builder_finish(b, &message, &error), &error);
    }
    CHECK_INT(test_fault_calls(), 0); /* the memory is reused */
    test_fault_clear();
    REQUIRE_OK(pst_parser_walk(parser, message.data, message.length, &named, &count, &error), &error);
    REQUIRE(count == FEATURES);
    for (size_t i = 0; i < count; i++)
        REQUIRE(*(const int64_t *)named[i].value.data == (int64_t)i);
    pst_parser_destroy(parser);
    pst_builder_destroy(b);
}

static pst_status build_something(pst_error *error)
{
    pst_builder *b = NULL;
    pst_bytes message, text = {(const uint8_t *)"some text that is longer than nothing", 37};
    float values[100] = {0};
    char name[16];
    pst_status st = pst_builder_create(&b, error);
    for (int i = 0; i < 40 && st == PST_OK; i++) {
        snprintf(name, sizeof(name), "feature %d", i);
        st = i % 2 ? pst_builder_add_bytes(b, name, &text, 1, error) : pst_builder_add_floats(b, name, values, 100, error);
    }
    if (st == PST_OK)
        st = pst_builder_finish(b, &message, error);
    pst_builder_destroy(b);
    return st;
}

static void test_memory_faults(void)
{
    pst_status st = PST_ENOMEM;
    uint64_t n = 0;
    for (; st != PST_OK && n < 200; n++) {
        pst_error error;
        uint64_t before = mem_live();
        test_fault_arm(FAULT_MEMORY, n, false);
        st = build_something(&error);
        test_fault_clear();
        CHECK_INT(mem_live(), before);
        if (st != PST_OK)
            REQUIRE(st == PST_ENOMEM && strstr(error.message, "out of memory"));
    }
    CHECK_STATUS(st, PST_OK, NULL);
    CHECK(n > 5);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"bytes", test_bytes},
        {"lengths of lengths", test_lengths},
        {"what is refused", test_refused},
        {"many features, memory reused", test_many},
        {"every allocation fails once", test_memory_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
