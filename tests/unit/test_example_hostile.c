/* test_example_hostile.c: Examples that are damaged, oversized or made to hurt, and memory that runs out.
 *
 * What must hold for any input is said by fuzz_example.c, which aborts when it does not; here it gets every truncation,
 * every flipped bit and many mixtures of an Example that has a bit of everything. */
#include "harness.h"
#include "unit/proto.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"

#include <malloc.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct bytes rich(void)
{
    struct bytes mixed = join(join(RAW("\x0d\x00\x00\x80\x3f"), FLOATS(1, 2)), RAW("\x0d\x00\x00\x00\x40"));
    struct bytes a = entry("x", float_list(FLOATS(1, 2)));
    a = join(a, entry("y", int64_list(RAW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))));
    a = join(a, entry("s", bytes_list(join(one_string("one"), one_string("")))));
    a = join(a, field(1, join(field(2, float_list(mixed)), key("r"))));
    a = join(a, RAW("\x48\x07"));
    struct bytes b = entry("d", int64_list(join(INT64S(1, 300), INT64S(-5))));
    b = join(b, entry("image/encoded", join(int64_list(INT64S(1)), bytes_list(one_string("\xff\xd8\xff")))));
    b = join(b, entry("other", int64_list(INT64S(1, 2, 3))));
    b = join(b, entry("x", float_list(FLOATS(3, 4))));
    return join(join(example(a), RAW("\x52\x02zz")), example(b));
}

/* In a block of its exact size, so that a byte read too far is seen. */
static void feed(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, data, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void test_truncated(void)
{
    struct bytes m = rich();
    for (size_t n = 0; n <= m.n; n++)
        feed(m.data, n);
    CHECK(m.n > 150);
}

static void test_flipped(void)
{
    struct bytes m = rich();
    for (size_t bit = 0; bit < m.n * 8; bit++) {
        m.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        feed(m.data, m.n);
        m.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK(m.n > 150);
}

/* Bytes replaced, removed, doubled and swapped, several at once. */
static void test_mutated(void)
{
    struct random r;
    random_init(&r, 5, 0, 0, 0);
    for (int round = 0; round < 6000; round++) {
        struct bytes m = rich();
        for (uint64_t k = 1 + random_below(&r, 4); k > 0; k--) {
            size_t at = random_below(&r, m.n), n = 1 + random_below(&r, 16);
            n = n < m.n - at ? n : m.n - at;
            switch (random_below(&r, 4)) {
            case 0:
                m.data[at] = (uint8_t)random_u64(&r);
                break;
            case 1:
                memmove(m.data + at, m.data + at + n, m.n - at - n);
                m.n -= n;
                break;
            case 2:
                memmove(m.data + at + n, m.data + at, m.n - at);
                m.n += n;
                break;
            default:
                m.data[at] = m.data[random_below(&r, m.n)];
            }
            if (m.n == 0)
                break;
        }
        feed(m.data, m.n);
    }
}

/* A parser that is warm: what it allocates from now on is due to the input. */
struct warm {
    pst_schema *schema;
    pst_parser *parser;
};

static void warm_up(struct warm *w)
{
    pst_error error;
    pst_value values[3];
    const pst_named_value *named;
    size_t count;
    struct bytes m = example(join(entry("x", float_list(FLOATS(1))), entry("y", int64_list(INT64S(1)))));
    REQUIRE_OK(pst_schema_parse(&w->schema, "x:float[*] y:int64[*] s:bytes[*]", &error), &error);
    REQUIRE_OK(pst_parser_create(&w->parser, w->schema, NULL, &error), &error);
    REQUIRE_OK(pst_parser_parse(w->parser, m.data, m.n, values, &error), &error);
    REQUIRE_OK(pst_parser_walk(w->parser, m.data, m.n, &named, &count, &error), &error);
}

static void cool_down(struct warm *w)
{
    pst_parser_destroy(w->parser);
    pst_schema_destroy(w->schema);
}

/* Refused with `want`, and without a single allocation. */
static void refuse(struct bytes message, pst_status want, const char *text, int line)
{
    struct warm w = {0};
    pst_error error;
    pst_value values[3];
    const pst_named_value *named;
    size_t count;
    warm_up(&w);
    test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
    pst_status parsed = pst_parser_parse(w.parser, message.data, message.n, values, &error);
    test_report(parsed == want && strstr(error.message, text), __FILE__, line, "%s: %s", pst_status_name(parsed),
                error.message);
    pst_status walked = pst_parser_walk(w.parser, message.data, message.n, &named, &count, &error);
    test_report(walked == want, __FILE__, line, "walk: %s: %s", pst_status_name(walked), error.message);
    test_report(test_fault_calls() == 0, __FILE__, line, "%" PRIu64 " allocations", test_fault_calls());
    test_fault_clear();
    cool_down(&w);
}

static void test_length_bombs(void)
{
    struct bytes top = varint(UINT64_C(1) << 63), most = RAW("\xff\xff\xff\xff\x7f"); /* 2^63; 2^35 - 1 */
    struct bytes values = varint(4000000000u), big = RAW("\xff\xff\xff\xff\x07"),
                 pad = RAW("abcdefgh"); /* 10^9 floats; 2^31 - 1 */
    refuse(join(RAW("\x0a"), join(top, pad)), PST_ECORRUPT, "a length of over 5 bytes", __LINE__);
    refuse(join(RAW("\x0a"), join(most, pad)), PST_ECORRUPT, "a field of 34359738367 bytes where 8 are left", __LINE__);
    refuse(example(join(RAW("\x0a"), join(top, pad))), PST_ECORRUPT, "a length of over 5 bytes", __LINE__);
    refuse(example(field(1, join(RAW("\x0a"), join(big, pad)))), PST_ECORRUPT, "a field of 2147483647 bytes", __LINE__);
    refuse(example(field(1, join(key("x"), join(RAW("\x12"), join(big, pad))))), PST_ECORRUPT, "a field of 2147483647",
           __LINE__);
    refuse(example(entry("x", join(RAW("\x12"), join(big, pad)))), PST_ECORRUPT, "a field of 2147483647 bytes", __LINE__);
    refuse(example(entry("x", float_list(join(RAW("\x0a"), join(values, pad))))), PST_ECORRUPT, "a field of 4000000000",
           __LINE__);
    refuse(example(entry("y", int64_list(join(RAW("\x0a"), join(values, pad))))), PST_ECORRUPT, "a field of 4000000000",
           __LINE__);
    refuse(example(entry("s", bytes_list(join(RAW("\x0a"), join(values, pad))))), PST_ECORRUPT, "a field of 4000000000",
           __LINE__);
    refuse(example(entry("y", int64_list(field(1, RAW("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"))))), PST_ECORRUPT,
           "cut short", __LINE__);
}

/* A message whose innermost `length` bytes are large, with the headers around them; free(ret.block). */
struct large {
    uint8_t *block, *data;
    size_t n;
};

static struct large large(struct bytes repeated, size_t length)
{
    struct large m = {.block = malloc(length + 64), .n = length};
    m.data = m.block + 64;
    for (size_t i = 0; i < length; i++)
        m.data[i] = repeated.data[i % repeated.n];
    return m;
}

/* Puts the header of a field around all of it, behind `before`. */
static void wrap(struct large *m, struct bytes before, unsigned number)
{
    struct bytes header = join(before, join(varint(number << 3 | 2), varint(m->n)));
    if (m->data - m->block < (ptrdiff_t)header.n)
        abort();
    m->data -= header.n;
    memcpy(m->data, header.data, header.n);
    m->n += header.n;
}

/* A length in more bytes than needed, chosen so that its first bytes, read as a whole length, would fit the entry. */
static void test_misleading_lengths(void)
{
    static const struct {
        uint8_t length[3];
        size_t length_bytes, filler;
    } cases[] = {{{0x88, 0x00}, 2, 125}, {{0x88, 0x80, 0x00}, 3, 16380}};
    struct bytes feature = float_list(FLOATS(1)); /* 8 bytes */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct large m = large(RAW("z"), cases[i].filler);
        struct warm w = {0};
        pst_error error;
        pst_value values[3];
        struct bytes value = join(join(RAW("\x12"), raw(cases[i].length, cases[i].length_bytes)), feature);
        wrap(&m, join(key("x"), value), 9);
        wrap(&m, NOTHING, 1);
        wrap(&m, NOTHING, 1);
        warm_up(&w);
        REQUIRE_OK(pst_parser_parse(w.parser, m.data, m.n, values, &error), &error);
        CHECK(values[0].count == 1);
        cool_down(&w);
        free(m.block);
    }
}

static void test_feature_bomb(void)
{
    struct large bomb = large(RAW("\x0a\x00"), 2000000); /* a million entries, the shortest there are */
    struct warm w = {0};
    pst_error error;
    pst_value values[3];
    const pst_named_value *named;
    pst_inference *inference;
    size_t count;
    wrap(&bomb, NOTHING, 1);
    warm_up(&w);
    test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
    CHECK_STATUS(pst_parser_parse(w.parser, bomb.data, bomb.n, values, &error), PST_ELIMIT, &error);
    CHECK(strstr(error.message, "over 100000 features; raise max_features") != NULL);
    CHECK_INT(test_fault_calls(), 0);
    test_fault_clear();
    CHECK_STATUS(pst_parser_walk(w.parser, bomb.data, bomb.n, &named, &count, &error), PST_ELIMIT, &error);
    REQUIRE_OK(pst_inference_create(&inference, NULL, &error), &error);
    CHECK_STATUS(pst_inference_add(inference, bomb.data, bomb.n, &error), PST_ELIMIT, &error);
    pst_inference_destroy(inference);
    cool_down(&w);
    free(bomb.block);
}

/* Many different names: the walk must not become quadratic, nor the inference. */
static void test_many_names(void)
{
    enum { NAMES = 90000 };
    pst_error error;
    pst_builder *builder;
    pst_inference *inference;
    pst_schema *schema;
    pst_bytes message;
    char name[32];
    REQUIRE_OK(pst_builder_create(&builder, &error), &error);
    REQUIRE_OK(pst_inference_create(&inference, NULL, &error), &error);
    for (int part = 0; part < 2; part++) {
        pst_builder_reset(builder);
        for (uint64_t i = 0; i < NAMES / 2; i++) {
            snprintf(name, sizeof(name), "%" PRIu64, (i * 2 + (uint64_t)part) * 7919 % NAMES);
            REQUIRE_OK(pst_builder_add_int64s(builder, name, (int64_t[]){1}, 1, &error), &error);
        }
        REQUIRE_OK(pst_builder_finish(builder, &message, &error), &error);
        REQUIRE_OK(pst_inference_add(inference, message.data, message.length, &error), &error);
    }
    REQUIRE_OK(pst_inference_schema(inference, &schema, &error), &error);
    CHECK_INT(pst_schema_count(schema), NAMES);
    CHECK_STR(pst_schema_feature(schema, 0)->name, "0");
    CHECK_STR(pst_schema_feature(schema, 1)->name, "1");
    CHECK_STR(pst_schema_feature(schema, 2)->name, "10");
    CHECK_INT(pst_schema_feature(schema, 2)->layout, PST_VARIABLE); /* it is in one of two Examples */
    CHECK_INT(pst_schema_find(schema, "89999"), 88888);
    /* The names of all Examples together count against the limit. */
    pst_builder_reset(builder);
    for (uint64_t i = 0; i < 20000; i++) {
        snprintf(name, sizeof(name), "new %" PRIu64, i);
        REQUIRE_OK(pst_builder_add_int64s(builder, name, (int64_t[]){1}, 1, &error), &error);
    }
    REQUIRE_OK(pst_builder_finish(builder, &message, &error), &error);
    CHECK_STATUS(pst_inference_add(inference, message.data, message.length, &error), PST_ELIMIT, &error);
    pst_schema_destroy(schema);
    pst_inference_destroy(inference);
    pst_builder_destroy(builder);
}

/* What a parser holds after an input is bounded by a small multiple of the input. */
static void test_amplification(void)
{
    enum { INPUT = 1 << 20 };
    for (int strings = 0; strings < 2; strings++) {
        struct warm w = {0};
        pst_error error;
        pst_value values[3];
        const pst_named_value *named;
        size_t count;
        struct large m = large(strings ? RAW("\x0a\x00") : RAW("\x01"), INPUT); /* empty strings; integers of one byte */
        if (!strings)
            wrap(&m, NOTHING, 1);
        wrap(&m, NOTHING, strings ? 1 : 3);
        wrap(&m, key(strings ? "s" : "y"), 2);
        wrap(&m, NOTHING, 1);
        wrap(&m, NOTHING, 1);
        warm_up(&w);
        size_t before = mallinfo2().uordblks + mallinfo2().hblkhd;
        REQUIRE_OK(pst_parser_parse(w.parser, m.data, m.n, values, &error), &error);
        CHECK_INT(values[strings ? 2 : 1].count, strings ? INPUT / 2 : INPUT);
        REQUIRE_OK(pst_parser_walk(w.parser, m.data, m.n, &named, &count, &error), &error);
        size_t after = mallinfo2().uordblks + mallinfo2().hblkhd;
        CHECK_MSG(after - before <= (size_t)20 * INPUT, "%zu bytes held for an input of %d", after - before, INPUT);
        cool_down(&w);
        free(m.block);
    }
}

/* Everything once; ends at the first failure. */
static pst_status use_everything(pst_error *error)
{
    struct bytes m = rich(), n = example(entry("another", bytes_list(one_string("name"))));
    pst_schema *schema = NULL, *inferred = NULL;
    pst_parser *parser = NULL;
    pst_inference *inference = NULL;
    pst_value values[4];
    pst_column columns[4];
    const pst_named_value *named;
    size_t count;
    pst_status st = pst_schema_parse(&schema, "x:float[2] s:bytes[*] r:float[*,2] w:bytes[2]=\"a b\"", error);
    if (st == PST_OK)
        st = pst_parser_create(&parser, schema, NULL, error);
    if (st == PST_OK)
        st = pst_parser_parse(parser, m.data, m.n, values, error);
    if (st == PST_OK)
        st = pst_parser_walk(parser, m.data, m.n, &named, &count, error);
    if (st == PST_OK)
        st = pst_parser_parse_batch(parser, (pst_bytes[]){{m.data, m.n}, {m.data, m.n}}, 2, columns, error);
    if (st == PST_OK)
        st = pst_inference_create(&inference, NULL, error);
    if (st == PST_OK)
        st = pst_inference_add(inference, m.data, m.n, error);
    if (st == PST_OK)
        st = pst_inference_add(inference, n.data, n.n, error);
    if (st == PST_OK)
        st = pst_inference_schema(inference, &inferred, error);
    pst_schema_destroy(inferred);
    pst_inference_destroy(inference);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    return st;
}

static void test_memory_faults(void)
{
    for (int forever = 0; forever < 2; forever++) {
        pst_status st = PST_ENOMEM;
        uint64_t n = 0;
        for (; st != PST_OK && n < 1000; n++) {
            pst_error error;
            uint64_t before = mem_live();
            test_fault_arm(FAULT_MEMORY, n, forever);
            st = use_everything(&error);
            test_fault_clear();
            CHECK_INT(mem_live(), before);
            if (st != PST_OK)
                REQUIRE(st == PST_ENOMEM && strstr(error.message, "out of memory"));
        }
        CHECK_MSG(n > 20, "only %" PRIu64 " allocations", n);
        CHECK_STATUS(st, PST_OK, NULL);
    }
}

/* After a failed allocation the same parser works. */
static void test_recovers(void)
{
    struct bytes m = rich();
    struct warm w = {0};
    pst_error error;
    pst_value values[3];
    warm_up(&w);
    test_fault_arm(FAULT_MEMORY, 0, true);
    CHECK_STATUS(pst_parser_parse(w.parser, m.data, m.n, values, &error), PST_ENOMEM, &error);
    test_fault_clear();
    REQUIRE_OK(pst_parser_parse(w.parser, m.data, m.n, values, &error), &error);
    CHECK_INT(values[2].count, 2);
    cool_down(&w);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"truncated at every byte", test_truncated},
        {"every bit flipped", test_flipped},
        {"mutated", test_mutated},
        {"lengths beyond the input", test_length_bombs},
        {"lengths that mislead", test_misleading_lengths},
        {"a million features", test_feature_bomb},
        {"90,000 names", test_many_names},
        {"memory held against input", test_amplification},
        {"every allocation fails once", test_memory_faults},
        {"a parser recovers", test_recovers},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
