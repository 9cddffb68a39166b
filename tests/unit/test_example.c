/* test_example.c: what an Example means, case by case, in bytes written by hand. Hostile input is test_example_hostile.c's. */
#include "harness.h"
#include "unit/proto.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"

/* Parses `message` (in a block of its exact size) and compares values or error, as text. */
static bool parse_is(const char *schema_text, struct bytes message, const pst_limits *limits, const char *want, int line)
{
    struct out got = {.n = 0};
    pst_error error;
    pst_schema *schema = NULL;
    pst_parser *parser = NULL;
    pst_value values[16];
    uint8_t *exact = malloc(message.n ? message.n : 1);
    memcpy(exact, message.data, message.n);
    pst_status st = pst_schema_parse(&schema, schema_text, &error);
    if (st == PST_OK)
        st = pst_parser_create(&parser, schema, limits, &error);
    if (st == PST_OK)
        st = pst_parser_parse(parser, exact, message.n, values, &error);
    if (st == PST_OK)
        out_values(&got, schema, values);
    else
        out_error(&got, st, &error);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    free(exact);
    return test_report(text_matches(got.text, want), __FILE__, line, "got \"%s\", expected \"%s\"", got.text, want);
}

#define PARSES(schema, message, want) parse_is(schema, message, NULL, want, __LINE__)

static void test_kinds(void)
{
    struct bytes all = example(join(
        join(entry("b", bytes_list(join(one_string("hello"), one_string("")))), entry("f", float_list(FLOATS(1.5f, -2, 3)))),
        entry("i", int64_list(INT64S(7, -1, 300, INT64_MIN, INT64_MAX)))));
    PARSES("b:bytes[2] f:float[3] i:int64[5]", all,
           "b=['hello',''] f=[1.5,-2,3] i=[7,-1,300,-9223372036854775808,9223372036854775807]");
    PARSES("i:int64[*] b:bytes[*] f:float[*,3]", all,
           "i=[7,-1,300,-9223372036854775808,9223372036854775807] b=['hello',''] f=[1.5,-2,3]");
    PARSES("", all, "");
    PARSES("", NOTHING, "");
    PARSES("f:float[1,3,1]", all, "f=[1.5,-2,3]");
}

static void test_missing(void)
{
    PARSES("x:float", NOTHING,
           "PST_ENOTFOUND: feature 'x' (float) is missing; give it a default in the schema (=0) or make it variable ([*])");
    PARSES("x:float[2,3]", example(NOTHING), "PST_ENOTFOUND: feature 'x' (float[2,3]) is missing…");
    PARSES("x:float[*] y:bytes[*,2]", NOTHING, "x?=[] y?=[]");
    PARSES("x:float=1.5", NOTHING, "x?=[1.5]");
    PARSES("x:int64[3]=-4", NOTHING, "x?=[-4,-4,-4]");
    PARSES("x:int64[3]=[1,2,3] s:bytes[2]=ab", NOTHING, "x?=[1,2,3] s?=['ab','ab']");
    /* A feature whose kind is unset is missing; a list that is set but empty is present, and no default applies. */
    PARSES("x:float=1.5", example(entry("x", NOTHING)), "x?=[1.5]");
    PARSES("x:float", example(entry("x", NOTHING)), "PST_ENOTFOUND: feature 'x'…");
    PARSES("x:float[*]", example(entry("x", NOTHING)), "x?=[]");
    PARSES("x:float[*]", example(entry("x", float_list(NOTHING))), "x=[]");
    PARSES("x:float=1.5", example(entry("x", float_list(NOTHING))),
           "PST_ETYPE: feature 'x': 0 floats, the schema says 1 (no shape); [*] takes any number");
    PARSES("x:float[0]", example(entry("x", float_list(NOTHING))), "x=[]");
    PARSES("x:int64[*]", example(entry("x", float_list(NOTHING))),
           "PST_ETYPE: feature 'x': 0 floats, the schema says int64[*]");
    PARSES("x:float[*]", example(entry("x", float_list(field(1, NOTHING)))), "x=[]"); /* an empty packed chunk */
    PARSES("x:int64[*]", example(entry("x", int64_list(field(1, NOTHING)))), "x=[]");
    PARSES("x:bytes[*]", example(entry("x", bytes_list(field(1, NOTHING)))), "x=['']"); /* for bytes that is a value */
}

static void test_kind_and_count(void)
{
    struct bytes x = example(entry("x", float_list(FLOATS(1, 2, 3))));
    PARSES("x:float[4]", x, "PST_ETYPE: feature 'x': 3 floats, the schema says 4 ([4]); [*] takes any number");
    PARSES("x:float[2,2]", x, "PST_ETYPE: feature 'x': 3 floats, the schema says 4 ([2,2]); [*] takes any number");
    PARSES("x:float", x, "PST_ETYPE: feature 'x': 3 floats, the schema says 1 (no shape); [*] takes any number");
    PARSES("x:int64[3]", x, "PST_ETYPE: feature 'x': 3 floats, the schema says int64[3]");
    PARSES("x:bytes[*]", x, "PST_ETYPE: feature 'x': 3 floats, the schema says bytes[*]");
    PARSES("x:float[*,2]", x, "PST_ETYPE: feature 'x': 3 floats, the schema says rows of 2 ([*,2])");
    PARSES("x:float[*,3]", x, "x=[1,2,3]");
    PARSES("y:bytes", example(entry("y", bytes_list(join(one_string("a"), one_string("b"))))),
           "PST_ETYPE: feature 'y': 2 byte strings, the schema says 1 (no shape)…");
    PARSES("y:bytes", example(entry("y", int64_list(INT64S(1)))), "PST_ETYPE: feature 'y': 1 int64, the schema says bytes");
}

static void test_entries(void)
{
    struct bytes f = float_list(FLOATS(1)), more = float_list(FLOATS(2, 3)), x = key("x");
    PARSES("x:float", example(field(1, join(field(2, f), x))), "x=[1]");                              /* value first */
    PARSES("x:float[*]", example(field(1, join(join(x, field(2, f)), field(2, more)))), "x=[1,2,3]"); /* values merge */
    PARSES("x:float[*]", example(field(1, join(join(field(2, f), x), field(2, more)))), "x=[1,2,3]"); /* around the key */
    PARSES("x:float[*] y:float[*]", example(field(1, join(join(key("y"), field(2, f)), x))), "x=[1] y?=[]"); /* the last key */
    PARSES("\"\":float x:float[*]", example(field(1, field(2, f))), "=[1] x?=[]");                           /* no key: "" */
    PARSES("x:float[*]", example(field(1, x)), "x?=[]");                                                     /* no value */
    PARSES("\"\":float[*]", example(field(1, NOTHING)), "?=[]");                                             /* neither */
    PARSES("x:float", example(field(1, join(join(RAW("\x08\x05"), x), field(2, f)))), "x=[1]"); /* key of another wire type */
}

static void test_oneof(void)
{
    struct bytes f = float_list(FLOATS(1)), i = int64_list(INT64S(5, 6)), b = bytes_list(one_string("s"));
    PARSES("x:int64[2]", example(entry("x", join(f, i))), "x=[5,6]"); /* the last kind wins */
    PARSES("x:float", example(entry("x", join(f, i))), "PST_ETYPE: feature 'x': 2 int64s, the schema says float");
    PARSES("x:int64[*]", example(entry("x", join(i, i))), "x=[5,6,5,6]");      /* the same kind merges */
    PARSES("x:int64[*]", example(entry("x", join(join(i, f), i))), "x=[5,6]"); /* and starts afresh after another */
    PARSES("x:bytes[*]", example(entry("x", join(join(b, b), join(i, b)))), "x=['s']");
    PARSES("x:float[*]", example(entry("x", join(i, float_list(NOTHING)))), "x=[]"); /* empty counts as set */
    PARSES("x:float[*]", example(entry("x", join(f, RAW("\x08\x01")))), "x=[1]");    /* field 1 as a varint sets nothing */
}

static void test_doubles(void)
{
    struct bytes f = entry("x", float_list(FLOATS(1))), g = entry("x", float_list(FLOATS(2, 3)));
    struct bytes i = entry("x", int64_list(INT64S(5))), unset = entry("x", NOTHING);
    PARSES("x:float[*]", example(join(f, g)), "x=[2,3]");
    PARSES("x:float[*]", example(join(g, f)), "x=[1]");
    PARSES("x:float[*]", join(example(g), example(f)), "x=[1]"); /* concatenated Examples merge */
    PARSES("x:float[*] y:int64", join(example(g), example(entry("y", int64_list(INT64S(4))))), "x=[2,3] y=[4]");
    PARSES("x:float", example(join(i, f)), "x=[1]"); /* only the last is judged */
    PARSES("x:float=7", example(join(f, unset)), "x?=[7]");
    PARSES("x:float", example(join(f, unset)), "PST_ENOTFOUND: feature 'x'…");
    PARSES("x:float", example(join(unset, f)), "x=[1]");
    PARSES("x:float", example(join(entry("x", int64_list(RAW("\x0a\x01\x80"))), f)),
           "PST_ECORRUPT: feature 'x', byte 13 of the Example: a packed varint is cut short…"); /* damage shows anywhere */
}

/* Unknown fields of every wire type, at every level, before and after what is known; and groups there. */
static void test_unknown_fields(void)
{
    const struct bytes unknown[] = {
        RAW("\x48\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* 9: varint */
        RAW("\x49yyyyyyyy"),                                 /* 9: 64-bit */
        RAW("\x4a\x03zzz"),                                  /* 9: length-delimited */
        RAW("\x4dwwww"),                                     /* 9: 32-bit */
        RAW("\x4a\x80\x00"),                                 /* 9: a length of 0 in two bytes */
        RAW("\xf8\xff\xff\xff\x0f\x05"),                     /* 536870911, the highest number */
        RAW("\x09xxxxxxxx"),                                 /* 1 of a wire type that no level knows */
    };
    for (size_t u = 0; u < sizeof(unknown) / sizeof(unknown[0]); u++) {
        for (int after = 0; after < 2; after++) {
            struct bytes around[6]; /* the unknown field at one level of five, or nowhere */
            for (int level = 0; level < 6; level++) {
                struct bytes m = FLOATS(1, 2);
#define WITH(l) (level == (l) ? (after ? join(m, unknown[u]) : join(unknown[u], m)) : m)
                m = float_list(WITH(0));
                m = join(key("x"), field(2, WITH(1)));
                m = field(1, WITH(2));
                m = example(WITH(3));
                around[level] = WITH(4);
#undef WITH
                if (!PARSES("x:float[2]", around[level], "x=[1,2]"))
                    test_report(false, __FILE__, __LINE__, "unknown field %zu at level %d, after %d", u, level, after);
            }
        }
    }
    PARSES("x:float[2]", join(example(NOTHING), RAW("\x4b\x4c")),
           "PST_ECORRUPT: byte 2 of the Example: a group, which is not read…");
    PARSES("x:float[2]", RAW("\x4c"), "PST_ECORRUPT: byte 0 of the Example: a group…");
    PARSES("x:float[2]", example(RAW("\x4b\x4c")), "PST_ECORRUPT: byte 2 of the Example: a group…");
    PARSES("x:float[2]", example(entry("x", RAW("\x4b\x4c"))), "PST_ECORRUPT: feature 'x', byte 9 of the Example: a group…");
    PARSES("x:float[2]", example(entry("x", float_list(RAW("\x4b\x4c")))), "PST_ECORRUPT: feature 'x'…");
    PARSES("", RAW("\x4e"), "PST_ECORRUPT: byte 0 of the Example: wire type 6, which protobuf does not have…");
    PARSES("", RAW("\x4f"), "PST_ECORRUPT: byte 0 of the Example: wire type 7…");
    PARSES("", RAW("\x02\x00"), "PST_ECORRUPT: byte 0 of the Example: field number 0, which protobuf forbids…");
    PARSES("", RAW("\x00"), "PST_ECORRUPT: byte 0 of the Example: field number 0…");
}

static void test_lists(void)
{
    struct bytes one = RAW("\x0d\x00\x00\x80\x3f"), two = RAW("\x0d\x00\x00\x00\x40"); /* 1.0f and 2.0f by themselves */
    struct bytes five = RAW("\x08\x05"), minus = RAW("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    PARSES("x:float[*]", example(entry("x", float_list(join(one, two)))), "x=[1,2]");
    PARSES("x:float[*]", example(entry("x", float_list(join(join(one, FLOATS(3, 4)), join(two, FLOATS(5)))))), "x=[1,3,4,2,5]");
    PARSES("x:float[*]", example(entry("x", float_list(join(FLOATS(3, 4), join(one, FLOATS(5)))))), "x=[3,4,1,5]");
    PARSES("x:int64[*]", example(entry("x", int64_list(join(five, minus)))), "x=[5,-1]");
    PARSES("x:int64[*]", example(entry("x", int64_list(join(join(INT64S(1, 300), minus), INT64S(2))))), "x=[1,300,-1,2]");
    PARSES("x:int64[*]", example(entry("x", int64_list(join(INT64S(1, 2), INT64S(-3))))), "x=[1,2,-3]");
    PARSES("x:float[*]",
           example(entry("x", float_list(RAW("\x0a\x03"
                                             "abc")))),
           "PST_ECORRUPT: feature 'x', byte 13 of the Example: 3 bytes of packed floats, which is not a multiple of 4…");
    PARSES("x:bytes[*]", example(entry("x", bytes_list(RAW("\x08\x05")))), "x=[]"); /* a number in a list of bytes is unknown */
    PARSES("x:int64[*]",
           example(entry("x", int64_list(RAW("\x0d"
                                             "abcd")))),
           "x=[]");
}

static void test_varints(void)
{
    struct bytes nine = RAW("\xff\xff\xff\xff\xff\xff\xff\xff\xff");
#define PACKED(b) example(entry("x", int64_list(field(1, b))))
    PARSES("x:int64", PACKED(join(nine, RAW("\x01"))), "x=[-1]");
    PARSES("x:int64", PACKED(join(nine, RAW("\x02"))), "x=[9223372036854775807]"); /* what is over 64 bits is dropped */
    PARSES("x:int64", PACKED(join(nine, RAW("\x7f"))), "x=[-1]");
    PARSES("x:int64", PACKED(join(nine, RAW("\xff\x01"))),
           "PST_ECORRUPT: feature 'x', byte 13 of the Example: a packed varint of over 10 bytes…");
    PARSES("x:int64", PACKED(nine), "PST_ECORRUPT: feature 'x', byte 21 of the Example: a packed varint is cut short…");
    PARSES("x:int64", PACKED(RAW("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00")), "x=[0]"); /* longer than needed is fine */
    PARSES("x:int64[2]", PACKED(RAW("\x81\x00\x82\x80\x00")), "x=[1,2]");
    PARSES("x:int64", example(entry("x", int64_list(join(RAW("\x08"), join(nine, RAW("\xff\x01")))))),
           "PST_ECORRUPT: feature 'x', byte 12 of the Example: a varint of over 10 bytes…");
    PARSES("", RAW("\x48\x80"), "PST_ECORRUPT: byte 1 of the Example: a varint is cut short…");
    PARSES("", RAW("\x80"), "PST_ECORRUPT: byte 0 of the Example: a tag is cut short…");
    PARSES("", RAW("\xc8\x80\x80\x80\x80\x00\x01"), "PST_ECORRUPT: byte 0 of the Example: a tag of over 5 bytes…");
    PARSES("", RAW("\xc8\x80\x80\x80\x10\x01"), "PST_ECORRUPT: byte 0 of the Example: a tag of over 32 bits…");
    PARSES("", RAW("\x4a\x80\x80\x80\x80\x80\x00"), "PST_ECORRUPT: byte 1 of the Example: a length of over 5 bytes…");
    /* Tags longer than needed: of features, of the entry, of key and value. */
    PARSES("x:int64", RAW("\x8a\x00\x14\x8a\x80\x00\x10\x8a\x80\x80\x00\x01x\x92\x80\x80\x80\x00\x04\x1a\x02\x08\x05"),
           "x=[5]");
#undef PACKED
}

/* Every length of varint, many values each, beside each other: what the builder wrote comes back. */
static void test_varints_round_trip(void)
{
    enum { COUNT = 4000 };
    static int64_t values[COUNT];
    struct random r;
    pst_error error;
    pst_builder *builder;
    pst_schema *schema;
    pst_parser *parser;
    pst_bytes message;
    pst_value value;
    random_init(&r, 11, 0, 0, 0);
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (int64_t)(random_u64(&r) >> random_below(&r, 64));
    REQUIRE_OK(pst_builder_create(&builder, &error), &error);
    REQUIRE_OK(pst_builder_add_int64s(builder, "x", values, COUNT, &error), &error);
    REQUIRE_OK(pst_builder_finish(builder, &message, &error), &error);
    REQUIRE_OK(pst_schema_parse(&schema, "x:int64[*]", &error), &error);
    REQUIRE_OK(pst_parser_create(&parser, schema, NULL, &error), &error);
    REQUIRE_OK(pst_parser_parse(parser, message.data, message.length, &value, &error), &error);
    REQUIRE(value.count == COUNT);
    CHECK(memcmp(value.data, values, sizeof(values)) == 0);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
    pst_builder_destroy(builder);
}

static bool inside(const void *p, const uint8_t *start, size_t length)
{
    return (const uint8_t *)p >= start && (const uint8_t *)p < start + length;
}

static void test_zero_copy(void)
{
    struct bytes message = example(join(join(entry("f", float_list(FLOATS(1, 2))), entry("b", bytes_list(one_string("image")))),
                                        entry("g", float_list(join(FLOATS(1), FLOATS(2))))));
    pst_error error;
    pst_schema *schema;
    pst_parser *parser;
    pst_value v[3];
    REQUIRE_OK(pst_schema_parse(&schema, "f:float[2] b:bytes g:float[2]", &error), &error);
    REQUIRE_OK(pst_parser_create(&parser, schema, NULL, &error), &error);
    REQUIRE_OK(pst_parser_parse(parser, message.data, message.n, v, &error), &error);
    CHECK(inside(v[0].data, message.data, message.n));
    CHECK(inside(((const pst_bytes *)v[1].data)->data, message.data, message.n));
    CHECK(!inside(v[2].data, message.data, message.n)); /* of two chunks */

    CHECK_STATUS(pst_parser_parse(parser, NULL, 0, v, &error), PST_ENOTFOUND, &error); /* an empty record may have no address */

    /* From the second Example on, nothing is allocated. */
    test_fault_arm(FAULT_MEMORY, UINT64_MAX, false);
    REQUIRE_OK(pst_parser_parse(parser, message.data, message.n, v, &error), &error);
    CHECK_INT(test_fault_calls(), 0);
    test_fault_clear();
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
}

static void test_names(void)
{
    struct bytes f = float_list(FLOATS(1)), i = int64_list(INT64S(2));
    PARSES("image/encoded:float image/encodes:int64", example(join(entry("image/encodes", i), entry("image/encoded", f))),
           "image/encoded=[1] image/encodes=[2]"); /* the same first eight bytes */
    PARSES("12345678:float 1234567:int64 123456789:float",
           example(join(join(entry("123456789", f), entry("1234567", i)), entry("12345678", f))),
           "12345678=[1] 1234567=[2] 123456789=[1]");
    PARSES("x:float[*]", example(field(1, join(field(1, RAW("x\0")), field(2, f)))), "x?=[]"); /* "x\0" is not "x" */
    PARSES("x:float[*]", example(field(1, join(field(1, RAW("\xff\xfe")), field(2, f)))),
           "x?=[]"); /* keys need not be UTF-8… */
    PARSES("\"\\xff\\xfe\":float", example(field(1, join(field(1, RAW("\xff\xfe")), field(2, f)))),
           "\xff\xfe=[1]"); /* …nor do names */
    PARSES("\"a\\xff\":float", example(field(1, join(field(1, RAW("a\xff")), field(2, RAW("\x0a"))))),
           "PST_ECORRUPT: feature 'a?', byte 11 of the Example: a length is cut short…");
    struct bytes strange = example(field(1, join(field(1, RAW("a\x1b[0m")), field(2, RAW("\x0a\x7f")))));
    PARSES("\"a\\x1b[0m\":float", strange,
           "PST_ECORRUPT: feature 'a?[0m', byte 15 of the Example: a field of 127 bytes where 0 are left…");
}

/* Features in any order, with undeclared ones among them: guessing what comes next must not change what is found. */
static void test_orders(void)
{
    static const char *const names[] = {"a", "image/encoded", "image/format", "label", "b", "undeclared", "undeclared/too"};
    pst_error error;
    pst_schema *schema;
    pst_parser *parser;
    pst_builder *builder;
    REQUIRE_OK(pst_schema_parse(&schema, "a:int64 b:int64=-1 label:int64[*] image/format:int64 image/encoded:int64", &error),
               &error);
    REQUIRE_OK(pst_parser_create(&parser, schema, NULL, &error), &error);
    REQUIRE_OK(pst_builder_create(&builder, &error), &error);
    for (uint64_t round = 0; round < 2000; round++) {
        struct permutation order;
        pst_bytes message;
        pst_value v[5];
        int64_t values[7];
        bool dropped = round % 5 == 4; /* b and label are missing there */
        permutation_init(&order, 7, 3, round / 3);
        pst_builder_reset(builder);
        for (uint64_t k = 0; k < 7; k++) {
            size_t n = permutation_at(&order, k);
            values[n] = (int64_t)(round * 10 + n);
            if (!dropped || (n != 3 && n != 4))
                REQUIRE_OK(pst_builder_add_int64s(builder, names[n], &values[n], 1, &error), &error);
        }
        REQUIRE_OK(pst_builder_finish(builder, &message, &error), &error);
        REQUIRE_OK(pst_parser_parse(parser, message.data, message.length, v, &error), &error);
        REQUIRE(*(const int64_t *)v[0].data == values[0] && *(const int64_t *)v[3].data == values[2]);
        REQUIRE(*(const int64_t *)v[4].data == values[1]);
        REQUIRE(*(const int64_t *)v[1].data == (dropped ? -1 : values[4]) && v[1].present == !dropped);
        REQUIRE(v[2].count == !dropped && (dropped || *(const int64_t *)v[2].data == values[3]));
    }
    pst_builder_destroy(builder);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
}

static void test_limits(void)
{
    struct bytes two = example(join(entry("x", float_list(FLOATS(1, 2, 3))), entry("y", int64_list(INT64S(1, 2, 3)))));
    parse_is("x:float[*] y:int64[*]", two, &(pst_limits){sizeof(pst_limits), 2, 3}, "x=[1,2,3] y=[1,2,3]", __LINE__);
    parse_is("x:float[*]", two, &(pst_limits){sizeof(pst_limits), 1, 0},
             "PST_ELIMIT: byte 25 of the Example: over 1 features; raise max_features to read it", __LINE__);
    parse_is("x:float[*]", two, &(pst_limits){sizeof(pst_limits), 0, 2},
             "PST_ELIMIT: feature 'x', byte 13 of the Example: over 2 values; raise max_values to read it", __LINE__);
    parse_is("y:int64[*]", two, &(pst_limits){sizeof(pst_limits), 0, 2}, "PST_ELIMIT: feature 'y'…", __LINE__);
    parse_is("x:float[*]", example(entry("x", float_list(join(FLOATS(1, 2), FLOATS(3))))),
             &(pst_limits){sizeof(pst_limits), 0, 2}, "PST_ELIMIT: feature 'x'…", __LINE__);
    parse_is("b:bytes[*]", example(entry("b", bytes_list(join(one_string("a"), one_string("b"))))),
             &(pst_limits){sizeof(pst_limits), 0, 1}, "PST_ELIMIT: feature 'b'…", __LINE__);
    parse_is("x:float[4]", two, &(pst_limits){sizeof(pst_limits), 0, 3},
             "PST_ELIMIT: feature 'x': a shape of 4 values, max_values is 3", __LINE__);
    parse_is("x:float[1152921504606846975]=1", two, NULL, "PST_EINVAL: feature 'x': its shape has more values…", __LINE__);
    parse_is("x:float[288230376151711743]=1", two, NULL, "PST_ELIMIT: feature 'x': a shape of 288230376151711743 values…",
             __LINE__);
    parse_is("x:float=[]", two, NULL, "PST_EINVAL: feature 'x': a default of no values; =[] is for feature lists", __LINE__);
}

static void walk_is(struct bytes message, const char *want, int line)
{
    struct out got = {.n = 0};
    pst_error error;
    pst_parser *parser;
    const pst_named_value *named;
    size_t count;
    REQUIRE_OK(pst_parser_create(&parser, NULL, NULL, &error), &error);
    pst_status st = pst_parser_walk(parser, message.data, message.n, &named, &count, &error);
    if (st < 0)
        out_error(&got, st, &error);
    for (size_t i = 0; st == PST_OK && i < count; i++) {
        out_add(&got, "%s%.*s:%s%s=", i ? " " : "", (int)named[i].name.length, (const char *)named[i].name.data,
                pst_kind_name(named[i].value.kind), named[i].value.present ? "" : "?");
        out_value(&got, &named[i].value);
    }
    test_report(text_matches(got.text, want), __FILE__, line, "got \"%s\", expected \"%s\"", got.text, want);
    pst_parser_destroy(parser);
}

static void test_walk(void)
{
    struct bytes x = entry("x", float_list(FLOATS(1, 2))), y = entry("y", int64_list(INT64S(5))), unset = entry("u", NOTHING);
    struct bytes later = entry("x", bytes_list(one_string("later")));
    walk_is(NOTHING, "", __LINE__);
    walk_is(example(join(join(y, x), unset)), "y:int64=[5] x:float=[1,2] u:none?=[]", __LINE__);
    walk_is(example(join(join(x, y), later)), "y:int64=[5] x:bytes=['later']", __LINE__); /* the last, at its place */
    walk_is(join(example(join(x, unset)), example(join(y, x))), "u:none?=[] y:int64=[5] x:float=[1,2]", __LINE__);
    walk_is(example(field(1, NOTHING)), ":none?=[]", __LINE__);
    walk_is(example(entry("x", float_list(RAW("\x0a\x05")))),
            "PST_ECORRUPT: feature 'x', byte 13 of the Example: a field of 5 bytes where 0 are left…", __LINE__);
}

static void test_batch(void)
{
    struct bytes a =
        example(join(join(entry("x", float_list(FLOATS(1, 2))), entry("t", bytes_list(join(one_string("p"), one_string("q"))))),
                     entry("r", int64_list(INT64S(1, 2, 3, 4)))));
    struct bytes b = example(join(entry("x", float_list(FLOATS(3, 4))), entry("r", int64_list(INT64S(5, 6)))));
    struct bytes c = example(join(entry("w", int64_list(INT64S(9))), entry("t", bytes_list(one_string("s")))));
    pst_bytes batch[] = {{a.data, a.n}, {b.data, b.n}, {c.data, c.n}};
    pst_error error;
    pst_schema *schema;
    pst_parser *parser;
    pst_column columns[4];
    REQUIRE_OK(pst_schema_parse(&schema, "x:float[2]=0.5 w:int64=7 t:bytes[*] r:int64[*,2]", &error), &error);
    REQUIRE_OK(pst_parser_create(&parser, schema, NULL, &error), &error);
    for (int round = 0; round < 2; round++) {
        struct out got = {.n = 0};
        REQUIRE_OK(pst_parser_parse_batch(parser, batch, 3, columns, &error), &error);
        for (size_t i = 0; i < 4; i++) {
            out_value(&got, &columns[i].values);
            for (size_t k = 0; columns[i].row_splits && k <= columns[i].rows; k++)
                out_add(&got, " %" PRId64, columns[i].row_splits[k]);
            out_add(&got, i < 3 ? "; " : "");
            CHECK_INT(columns[i].rows, 3);
        }
        CHECK_STR(got.text, "[1,2,3,4,0.5,0.5]; [7,7,9]; ['p','q','s'] 0 2 2 3; [1,2,3,4,5,6] 0 2 3 3");
    }
    batch[1].length--;
    CHECK_STATUS(pst_parser_parse_batch(parser, batch, 3, columns, &error), PST_ECORRUPT, &error);
    CHECK(text_matches(error.message, "example 1 of the batch: byte 2 of the Example…"));
    REQUIRE_OK(pst_parser_parse_batch(parser, batch, 0, columns, &error), &error);
    CHECK(columns[0].values.count == 0 && columns[2].rows == 0 && columns[2].row_splits[0] == 0);
    pst_parser_destroy(parser);
    pst_schema_destroy(schema);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"kinds", test_kinds},
        {"missing features and defaults", test_missing},
        {"kind and count", test_kind_and_count},
        {"map entries", test_entries},
        {"oneof", test_oneof},
        {"doubles and concatenation", test_doubles},
        {"unknown fields and groups", test_unknown_fields},
        {"packed, unpacked and mixed lists", test_lists},
        {"varints", test_varints},
        {"varints of every length", test_varints_round_trip},
        {"zero copy, and no allocation once warm", test_zero_copy},
        {"names", test_names},
        {"orders of features", test_orders},
        {"limits", test_limits},
        {"walk", test_walk},
        {"batch", test_batch},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
