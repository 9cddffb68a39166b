/* test_sequence.c: SequenceExamples, case by case and damaged. */
#include "harness.h"
#include "unit/proto.h"

#include "base/fault.h"
#include "base/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* fuzz_sequence.c: aborts when a promise is broken */

/* "x=[1,2] | y=[3,4,5] 0 1 3": the context, then each list with its splits; a question mark where it was missing. */
static void sequence_is(const char *context_text, const char *lists_text, struct bytes message, const pst_limits *limits,
                        const char *want, int line)
{
    struct out got = {.n = 0};
    pst_error error;
    pst_schema *context = NULL, *lists = NULL;
    pst_sequence_parser *parser = NULL;
    pst_value values[8];
    pst_column columns[8];
    uint8_t *exact = malloc(message.n ? message.n : 1);
    memcpy(exact, message.data, message.n);
    pst_status st = pst_schema_parse(&context, context_text, &error);
    if (st == PST_OK)
        st = pst_schema_parse(&lists, lists_text, &error);
    if (st == PST_OK)
        st = pst_sequence_parser_create(&parser, context, lists, limits, &error);
    for (int round = 0; round < 2 && st == PST_OK; round++) /* the second time with memory that is not fresh */
        st = pst_sequence_parser_parse(parser, exact, message.n, values, columns, &error);
    if (st == PST_OK) {
        out_values(&got, context, values);
        for (size_t i = 0; i < pst_schema_count(lists); i++) {
            out_add(&got, " | %s%s=", pst_schema_feature(lists, i)->name, columns[i].values.present ? "" : "?");
            out_value(&got, &columns[i].values);
            for (size_t k = 0; k <= columns[i].rows; k++)
                out_add(&got, " %" PRId64, columns[i].row_splits[k]);
        }
    } else {
        out_error(&got, st, &error);
    }
    test_report(text_matches(got.text, want), __FILE__, line, "got \"%s\", expected \"%s\"", got.text, want);
    pst_sequence_parser_destroy(parser);
    pst_schema_destroy(lists);
    pst_schema_destroy(context);
    free(exact);
}

#define SEQUENCE(context, lists, message, want) sequence_is(context, lists, message, NULL, want, __LINE__)

static struct bytes context(struct bytes features)
{
    return field(1, features);
}

static struct bytes lists(struct bytes entries)
{
    return field(2, entries);
}

static struct bytes step(struct bytes feature)
{
    return field(1, feature);
}

/* A list as an entry of the map, around its steps. */
static struct bytes list(const char *name, struct bytes steps)
{
    return entry(name, steps);
}

static void test_plain(void)
{
    struct bytes f = join(step(float_list(FLOATS(1, 2))), step(float_list(FLOATS(3, 4))));
    struct bytes i = join(join(step(int64_list(INT64S(5))), step(int64_list(NOTHING))), step(int64_list(INT64S(6, 7))));
    struct bytes s = join(step(bytes_list(one_string("a"))), step(bytes_list(join(one_string("b"), one_string("")))));
    struct bytes message =
        join(context(entry("c", int64_list(INT64S(9)))), lists(join(join(list("f", f), list("i", i)), list("s", s))));
    SEQUENCE("c:int64", "f:float[2] i:int64[*] s:bytes[*]", message,
             "c=[9] | f=[1,2,3,4] 0 2 4 | i=[5,6,7] 0 1 1 3 | s=['a','b',''] 0 1 3");
    SEQUENCE("", "f:float[*,2]", message, " | f=[1,2,3,4] 0 1 2");
    SEQUENCE("c:int64[*] d:bytes=x", "", message, "c=[9] d?=['x']");
    SEQUENCE("", "", NOTHING, "");
}

static void test_missing(void)
{
    struct bytes none = lists(list("x", NOTHING));
    SEQUENCE("", "x:float[2]", NOTHING,
             "PST_ENOTFOUND: feature list 'x' (float[2]) is missing; =[] after it in the schema allows that");
    SEQUENCE("", "x:float[2]=[]", NOTHING, " | x?=[] 0");
    SEQUENCE("", "x:float[*] y:int64[*,3]", NOTHING, " | x?=[] 0 | y?=[] 0");
    SEQUENCE("", "x:float[2]", none, " | x=[] 0"); /* a list without steps is there */
    SEQUENCE("", "x:float[2]", lists(field(1, key("x"))), " | x=[] 0");
    SEQUENCE("", "x:float[2]=1", NOTHING, "PST_EINVAL: feature list 'x': a list has no default values; =[] lets it be missing");
    SEQUENCE("x:float=[]", "", NOTHING, "PST_EINVAL: feature 'x': a default of no values; =[] is for feature lists");
    SEQUENCE("c:float", "", NOTHING, "PST_ENOTFOUND: feature 'c' (float) is missing…");
}

static void test_steps(void)
{
    struct bytes f2 = step(float_list(FLOATS(1, 2))), f1 = step(float_list(FLOATS(3))), i = step(int64_list(INT64S(5))),
                 unset = step(NOTHING);
    SEQUENCE("", "x:float[2]", lists(list("x", join(f2, f1))),
             "PST_ETYPE: feature list 'x': step 1: 1 float, the schema says 2 ([2]); [*] takes any number");
    SEQUENCE("", "x:float[*]", lists(list("x", join(join(f2, f1), i))),
             "PST_ETYPE: feature list 'x': step 2: 1 int64, the schema says float[*]");
    SEQUENCE("", "x:float[2]", lists(list("x", join(join(f2, f1), join(f2, i)))),
             "PST_ETYPE: feature list 'x': step 1: 1 float, the schema says 2…"); /* the first that does not fit */
    SEQUENCE("", "x:float[*,2]", lists(list("x", join(f2, f1))),
             "PST_ETYPE: feature list 'x': step 1: 1 float, the schema says rows of 2 ([*,2])");
    SEQUENCE("", "x:float[*]", lists(list("x", join(join(f2, unset), f1))),
             " | x=[1,2,3] 0 2 2 3"); /* unset is an empty row… */
    SEQUENCE("", "x:float[2]", lists(list("x", join(f2, unset))),
             "PST_ETYPE: feature list 'x': step 1: no kind is set, the schema says float[2]"); /* …which a fixed list has not */
    SEQUENCE("", "x:float[0]", lists(list("x", step(float_list(NOTHING)))), " | x=[] 0 0");
    SEQUENCE("", "x:int64[*]", lists(list("x", step(join(float_list(FLOATS(1)), int64_list(join(INT64S(1), INT64S(2))))))),
             " | x=[1,2] 0 2");
}

static void test_merging(void)
{
    struct bytes f1 = step(float_list(FLOATS(1))), f2 = step(float_list(FLOATS(2))), i = step(int64_list(INT64S(5)));
    SEQUENCE("", "x:float", lists(join(list("x", f1), list("x", join(f2, f2)))), " | x=[2,2] 0 1 2"); /* the last wins */
    SEQUENCE("", "x:float", lists(join(list("x", join(f1, i)), list("x", f2))), " | x=[2] 0 1"); /* and only it is judged */
    SEQUENCE("", "x:float", join(lists(list("x", f1)), lists(list("x", f2))), " | x=[2] 0 1");
    SEQUENCE("", "x:float", lists(field(1, join(join(field(2, f1), key("x")), field(2, f2)))),
             " | x=[1,2] 0 1 2"); /* values merge */
    SEQUENCE("c:float", "x:float",
             join(join(lists(list("x", f1)), context(entry("c", float_list(FLOATS(7))))), RAW("\x1a\x01z")),
             "c=[7] | x=[1] 0 1");
    SEQUENCE("", "x:float", lists(list("x", join(join(RAW("\x10\x05"), f1), RAW("\x12\x01z")))),
             " | x=[1] 0 1");                                                                            /* unknown fields */
    SEQUENCE("", "x:float", lists(join(list("other", RAW("\x0a\x7f")), list("x", f1))), " | x=[1] 0 1"); /* not looked at */
}

static void test_damage(void)
{
    SEQUENCE("", "x:float", lists(list("x", RAW("\x0a\x7f"))),
             "PST_ECORRUPT: feature list 'x', byte 11 of the SequenceExample: a field of 127 bytes where 0 are left…");
    SEQUENCE("", "x:float", lists(list("x", RAW("\x0b\x0c"))),
             "PST_ECORRUPT: feature list 'x', byte 9 of the SequenceExample: a group…");
    SEQUENCE("c:float", "", context(entry("c", RAW("\x12\x05"))),
             "PST_ECORRUPT: feature 'c', byte 11 of the SequenceExample: a field of 5…");
    SEQUENCE("", "x:float", RAW("\x12\x05"),
             "PST_ECORRUPT: byte 2 of the SequenceExample: a field of 5 bytes where 0 are left…");
}

static void test_limits(void)
{
    struct bytes f = step(float_list(FLOATS(1, 2))), unset = step(NOTHING);
    sequence_is("", "x:float[*]", lists(list("x", join(f, f))), &(pst_limits){sizeof(pst_limits), 0, 4}, " | x=[1,2,1,2] 0 2 4",
                __LINE__);
    sequence_is(
        "", "x:float[*]", lists(list("x", join(f, f))), &(pst_limits){sizeof(pst_limits), 0, 3},
        "PST_ELIMIT: feature list 'x', byte 25 of the SequenceExample: over 3 steps or values; raise max_values to read it",
        __LINE__);
    sequence_is("", "x:float[*]", lists(list("x", join(unset, unset))), &(pst_limits){sizeof(pst_limits), 0, 1},
                "PST_ELIMIT: feature list 'x'…", __LINE__);
    sequence_is("", "x:float[*]", lists(join(list("y", f), list("x", f))), &(pst_limits){sizeof(pst_limits), 1, 0},
                "PST_ELIMIT: byte 23 of the SequenceExample: over 1 features…", __LINE__);
}

static struct bytes rich(void)
{
    struct bytes f = join(step(float_list(FLOATS(1, 2))), step(float_list(join(FLOATS(3), RAW("\x0d\0\0\x80\x3f")))));
    struct bytes i = join(join(step(int64_list(INT64S(5, -6))), step(NOTHING)), RAW("\x48\x01"));
    return join(join(context(join(entry("c", int64_list(INT64S(300))), entry("d", bytes_list(one_string("x"))))),
                     lists(join(list("f", f), field(1, join(field(2, i), key("i")))))),
                lists(join(list("s", step(bytes_list(one_string("abc")))), list("f", f))));
}

static void test_every_fault(void)
{
    struct bytes m = rich();
    CHECK(m.n > 80);
    for (size_t n = 0; n <= m.n; n++) {
        uint8_t *exact = malloc(n ? n : 1);
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

static pst_status parse_once(const struct bytes *m, pst_error *error)
{
    pst_schema *c = NULL, *l = NULL;
    pst_sequence_parser *parser = NULL;
    pst_value values[2];
    pst_column columns[3];
    pst_status st = pst_schema_parse(&c, "c:int64 d:bytes", error);
    if (st == PST_OK)
        st = pst_schema_parse(&l, "f:float[2] i:int64[*] s:bytes[*]", error);
    if (st == PST_OK)
        st = pst_sequence_parser_create(&parser, c, l, NULL, error);
    if (st == PST_OK)
        st = pst_sequence_parser_parse(parser, m->data, m->n, values, columns, error);
    pst_sequence_parser_destroy(parser);
    pst_schema_destroy(l);
    pst_schema_destroy(c);
    return st;
}

static void test_memory_faults(void)
{
    struct bytes m = rich();
    pst_status st = PST_ENOMEM;
    uint64_t n = 0;
    for (; st != PST_OK && n < 300; n++) {
        pst_error error;
        uint64_t before = mem_live();
        test_fault_arm(FAULT_MEMORY, n, false);
        st = parse_once(&m, &error);
        test_fault_clear();
        CHECK_INT(mem_live(), before);
        if (st != PST_OK)
            REQUIRE(st == PST_ENOMEM && strstr(error.message, "out of memory"));
    }
    CHECK_STATUS(st, PST_OK, NULL);
    CHECK(n > 20);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"context and lists", test_plain},
        {"missing lists", test_missing},
        {"steps", test_steps},
        {"merging and doubles", test_merging},
        {"damage", test_damage},
        {"limits", test_limits},
        {"every truncation, every flipped bit", test_every_fault},
        {"every allocation fails once", test_memory_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
