/* test_schema.c: schemas from declarations, from text and from data. */
#include "harness.h"
#include "unit/proto.h"

#include "base/fault.h"
#include "base/memory.h"

#include <locale.h>

/* Parses `text` and writes it again; or the error. */
static void text_is(const char *text, const char *want, int line)
{
    char got[1024];
    pst_error error;
    pst_schema *schema = NULL;
    pst_status st = pst_schema_parse(&schema, text, &error);
    if (st == PST_OK)
        pst_schema_text(schema, got, sizeof(got));
    else
        snprintf(got, sizeof(got), "%s: %s", pst_status_name(st), error.message);
    test_report(text_matches(got, want), __FILE__, line, "got \"%s\", expected \"%s\"", got, want);
    pst_schema_destroy(schema);
}

#define SAME(text)             text_is(text, text, __LINE__)
#define READS(text, want)      text_is(text, want, __LINE__)
#define REFUSES(text, message) text_is(text, "PST_EINVAL: " message, __LINE__)

static void test_round_trip(void)
{
    SAME("");
    SAME("image:bytes label:int64 x:float[32] tags:bytes[*] boxes:float[*,4] w:float=1.5");
    SAME("image/encoded:bytes a.b-c_d+e@f:float[2,3,4] q:int64[*,1,2,3,4,5,6,7,8]");
    SAME("x:float[3]=[1,2,3] y:int64[2]=[-9223372036854775808,9223372036854775807] z:bytes[2]=[a,b]");
    SAME("x:float[2]=[] n:float=nan i:float=-inf t:float=1.4013e-45 m:float=3.4028235e+38 o:float=0.1 p:float=16777216 "
         "q:float=0.112682186");
    SAME("\"\":bytes \"a b\":bytes \"a:b\":float \"q\\\"\\\\\":int64 \"tab\\x09\":bytes gr\xc3\xb6\xc3\x9f"
         "e:float \"\\xff\":bytes");
    SAME("s:bytes=plain t:bytes=\"two words\" u:bytes=\"\" v:bytes[2]=[\"\\x00\\xff\",\"[1,2]\"]");
    READS("  x:float \n\t y:int64\r\n", "x:float y:int64");
    READS("x:float[ 2 , 3 ] y:bytes[ *, 4 ]=", "PST_EINVAL: schema text, position 34: the end, expected a default value");
    READS("\"x\":float[ 2 , 3 ]=[ 1 , 2,3 ,4,5,6 ] y:bytes[ * , 4 ]", "x:float[2,3]=[1,2,3,4,5,6] y:bytes[*,4]");
    READS("x:float=1.50000 y:float=0x1p3 z:int64=007 s:bytes=\"p\\x6cain\\n\"",
          "x:float=1.5 y:float=8 z:int64=7 s:bytes=\"plain\\x0a\"");
    READS("x:float=[2] y:float[3]=[4]", "x:float=2 y:float[3]=4");
}

static void test_text_errors(void)
{
    REFUSES("x:aaaaaaaaaaaaaaaaaaaaaaaéb", /* not through a character */
            "schema text, position 3: 'aaaaaaaaaaaaaaaaaaaaaaa', expected the kind: bytes, float or int64");
    REFUSES("x", "schema text, position 2: the end, expected : and a kind after the name");
    REFUSES("x :float", "schema text, position 2: a blank, expected : and a kind after the name");
    REFUSES(":float", "schema text, position 1: ':float', expected the name of a feature");
    REFUSES("x:", "schema text, position 3: the end, expected the kind: bytes, float or int64");
    REFUSES("x:flaot[3]", "schema text, position 3: 'flaot[3]', expected the kind: bytes, float or int64; did you mean float?");
    REFUSES("x:string", "schema text, position 3: 'string', expected the kind: bytes, float or int64");
    REFUSES("x:float[", "schema text, position 9: the end, expected a dimension, or * for any");
    REFUSES("x:float[]", "schema text, position 9: ']', expected a dimension, or * for any");
    REFUSES("x:float[-1]", "schema text, position 9: '-1]', expected a dimension, or * for any");
    REFUSES("x:float[2,*]", "schema text, position 11: '*]', expected a dimension");
    REFUSES("x:float[2", "schema text, position 10: the end, expected , or ] within the shape");
    REFUSES("x:float[18446744073709551616]",
            "schema text, position 9: '18446744073709551616]', expected a dimension below 2^64");
    REFUSES("x:float[1,1,1,1,1,1,1,1,1]",
            "schema text, position 25: '1]', expected ] after the eighth dimension, the last possible");
    REFUSES("x:float[2]y:float", "schema text, position 11: 'y:float', expected a blank before the next feature");
    REFUSES("x:float=one", "schema text, position 9: 'one', expected a float as default");
    REFUSES("x:float=1e39", "schema text, position 9: '1e39', expected a number in the range of float");
    REFUSES("x:float=\"1\"", "schema text, position 9: '\"1\"', expected a float as default");
    REFUSES("x:int64=1.5", "schema text, position 9: '1.5', expected an integer as default");
    REFUSES("x:int64=9223372036854775808",
            "schema text, position 9: '9223372036854775808', expected a number in the range of int64");
    REFUSES("x:int64[2]=[1 2]", "schema text, position 15: '2]', expected , or ] within the default");
    REFUSES("x:int64[2]=[1", "schema text, position 14: the end, expected , or ] within the default");
    REFUSES("\"x:float", "schema text, position 1: '\"x:float', expected a closing quote after it");
    REFUSES("\"\\q\":float", "schema text, position 2: '\\q\":float', expected one of the escapes \\\" \\\\ \\n \\r \\t \\xHH");
    REFUSES("\"\\x4\":float", "schema text, position 2: '\\x4\":float', expected one of the escapes…");
    REFUSES("\"a\\x00\":float", "schema text, position 1: '\"a\\x00\":float', expected a name without \\x00");
    REFUSES("x:float x:int64", "feature 'x' is declared twice");
    REFUSES("x:float[*]=1", "feature 'x': only a fixed feature has a default; a missing [*] is an empty row");
    REFUSES("x:float[3]=[1,2]", "feature 'x': a default of 2 values; its shape takes 1 for all or 3");
    REFUSES("x:float[*,0]", "feature 'x': an inner dimension is 0");
    REFUSES("x:float[4294967296,4294967296]", "feature 'x': its shape has more values than memory could hold");
    REFUSES("x:float[0,4294967296,4294967296,4294967296]=[1,2]",
            "feature 'x': a default of 2 values; its shape takes 1 for all or 0");
}

static void test_cut_text(void)
{
    const char *text = "image:bytes \"\xc3\xa9 \xc3\xa9\":int64 x:float[32]";
    pst_error error;
    pst_schema *schema, *again;
    char buffer[64];
    REQUIRE_OK(pst_schema_parse(&schema, text, &error), &error);
    for (size_t size = 1; size <= strlen(text) + 1; size++) {
        memset(buffer, '#', sizeof(buffer));
        CHECK(pst_schema_text(schema, buffer, size) == buffer);
        REQUIRE(memchr(buffer, '\0', size) != NULL && buffer[size] == '#');
        if (size > strlen(text))
            CHECK_STR(buffer, text);
        else if (size > 5)
            CHECK_STATUS(pst_schema_parse(&again, buffer, &error), PST_EINVAL, &error);
    }
    CHECK(pst_schema_text(schema, NULL, 0) == NULL);
    pst_schema_destroy(schema);
}

/* Numbers are the same in a locale with a decimal comma. */
static void test_locale(void)
{
    static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "fr_FR", NULL};
    bool found = false;
    for (size_t i = 0; with_comma[i] && !found; i++)
        found = setlocale(LC_ALL, with_comma[i]) != NULL;
    SAME("w:float=1.5 v:float=0.1");
    setlocale(LC_ALL, "C");
}

static void create_is(const pst_feature *features, size_t count, const char *want, int line)
{
    char got[512];
    pst_error error;
    pst_schema *schema = NULL;
    pst_status st = pst_schema_create(&schema, features, count, &error);
    if (st == PST_OK)
        pst_schema_text(schema, got, sizeof(got));
    else
        snprintf(got, sizeof(got), "%s: %s", pst_status_name(st), error.message);
    test_report(text_matches(got, want), __FILE__, line, "got \"%s\", expected \"%s\"", got, want);
    pst_schema_destroy(schema);
}

static void test_create(void)
{
    float half = 0.5f;
    int64_t whole = 3;
    pst_feature f = {.name = "x", .kind = PST_FLOAT};
    create_is(NULL, 0, "", __LINE__);
    create_is(&f, 1, "x:float", __LINE__);
    f.layout = PST_RAGGED;
    create_is(&f, 1, "x:float[*]", __LINE__); /* rows of single values */
    f.layout = PST_VARIABLE;
    f.rank = 1;
    create_is(&f, 1, "PST_EINVAL: feature 'x': a variable feature has no shape; ragged has an inner one", __LINE__);
    f.layout = (pst_layout)9;
    create_is(&f, 1, "PST_EINVAL: feature 'x': invalid layout 9; expected fixed, variable or ragged", __LINE__);
    f = (pst_feature){.name = "x", .kind = PST_FLOAT, .rank = 9};
    create_is(&f, 1, "PST_EINVAL: feature 'x': 9 dimensions, at most 8 are possible", __LINE__);
    f = (pst_feature){.name = "x", .kind = (pst_kind)7};
    create_is(&f, 1, "PST_EINVAL: feature 'x': invalid kind 7; expected bytes, float or int64", __LINE__);
    f = (pst_feature){.kind = PST_FLOAT};
    create_is(&f, 1, "PST_EINVAL: feature 0 of the schema has no name", __LINE__);
    f = (pst_feature){
        .name = "x", .kind = PST_FLOAT, .has_default = true, .fallback = {.kind = PST_INT64, .count = 1, .data = &whole}};
    create_is(&f, 1, "PST_EINVAL: feature 'x': the default is int64, the feature float", __LINE__);
    f.fallback = (pst_value){.count = 1};
    create_is(&f, 1, "PST_EINVAL: feature 'x': the default's data is NULL", __LINE__);
    f.fallback.data = &half;
    create_is(&f, 1, "x:float=0.5", __LINE__);
}

/* Nothing of what a schema was made from is needed afterwards. */
static void test_copies(void)
{
    pst_error error;
    pst_schema *schema;
    char name[] = "name", text[] = "default";
    char buffer[64];
    pst_bytes value = {(const uint8_t *)text, 7};
    pst_feature f = {.name = name, .kind = PST_BYTES, .has_default = true, .fallback = {PST_BYTES, false, 1, &value}};
    REQUIRE_OK(pst_schema_create(&schema, &f, 1, &error), &error);
    memset(name, 'x', 4);
    memset(text, 'x', 7);
    value = (pst_bytes){0};
    CHECK_STR(pst_schema_text(schema, buffer, sizeof(buffer)), "name:bytes=default");
    CHECK_INT(pst_schema_find(schema, "name"), 0);
    CHECK_INT(pst_schema_find(schema, "nam"), -1);
    CHECK(pst_schema_feature(schema, 1) == NULL);
    CHECK(pst_schema_destroy(schema) == NULL);
    CHECK(pst_schema_destroy(NULL) == NULL);
}

/* A default that takes memory of its own: each allocation may fail. */
static void test_large_default(void)
{
    static uint8_t large[1 << 17];
    pst_bytes value = {large, sizeof(large)};
    pst_feature f = {.name = "x", .kind = PST_BYTES, .has_default = true, .fallback = {PST_BYTES, false, 1, &value}};
    uint64_t n = 0;
    for (bool reached = true; reached; n++) {
        pst_schema *schema = NULL;
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = pst_schema_create(&schema, &f, 1, NULL);
        reached = test_fault_calls() > n;
        test_fault_clear();
        CHECK_MSG(st == (reached ? PST_ENOMEM : PST_OK), "call %d: %s", (int)n, pst_status_name(st));
        pst_schema_destroy(schema);
    }
    CHECK_MSG(n > 3, "%d calls", (int)n);
}

static void test_many(void)
{
    enum { COUNT = 5000 };
    static pst_feature features[COUNT];
    static char names[COUNT][16];
    pst_error error;
    pst_schema *schema;
    for (int i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof(names[i]), "feature/%d", i);
        features[i] = (pst_feature){.name = names[i], .kind = PST_INT64};
    }
    REQUIRE_OK(pst_schema_create(&schema, features, COUNT, &error), &error);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(pst_schema_find(schema, names[i]) == i);
    CHECK_INT(pst_schema_find(schema, "feature/5000"), -1);
    pst_schema_destroy(schema);
}

/* ---- Inference ---- */

static void infer_is(size_t count, const struct bytes *examples, const char *want, int line)
{
    char got[512];
    pst_error error;
    pst_inference *inference;
    pst_schema *schema = NULL;
    REQUIRE_OK(pst_inference_create(&inference, NULL, &error), &error);
    pst_status st = PST_OK;
    for (size_t i = 0; i < count && st == PST_OK; i++)
        st = pst_inference_add(inference, examples[i].data, examples[i].n, &error);
    if (st == PST_OK)
        st = pst_inference_schema(inference, &schema, &error);
    if (st == PST_OK)
        pst_schema_text(schema, got, sizeof(got));
    else
        snprintf(got, sizeof(got), "%s: %s", pst_status_name(st), error.message);
    test_report(text_matches(got, want), __FILE__, line, "got \"%s\", expected \"%s\"", got, want);
    pst_schema_destroy(schema);
    pst_inference_destroy(inference);
}

#define INFERS(want, ...)                                                                                                      \
    infer_is(sizeof((struct bytes[]){__VA_ARGS__}) / sizeof(struct bytes), (struct bytes[]){__VA_ARGS__}, want, __LINE__)

static void test_inference(void)
{
    struct bytes x1 = entry("x", float_list(FLOATS(1))), x2 = entry("x", float_list(FLOATS(1, 2))),
                 xi = entry("x", int64_list(INT64S(1)));
    struct bytes b = entry("b", bytes_list(one_string("s"))), unset = entry("x", NOTHING),
                 empty = entry("x", float_list(NOTHING));
    struct bytes nul = field(1, join(field(1, RAW("a\0b")), field(2, float_list(NOTHING))));
    infer_is(0, NULL, "", __LINE__);
    INFERS("", NOTHING);
    INFERS("x:float", example(x1), example(x1));
    INFERS("x:float[2]", example(x2), example(x2));
    INFERS("x:float[*]", example(x1), example(x2));
    INFERS("b:bytes x:float[2]", example(join(x2, b)), example(join(b, x2))); /* by name */
    INFERS("b:bytes[*] x:float", example(x1), example(join(x1, b)));
    INFERS("b:bytes[*] x:float", example(join(x1, b)), example(x1));
    INFERS("x:float[*]", example(x1), example(unset)); /* unset is missing */
    INFERS("x:float[*]", example(unset), example(x1));
    INFERS("", example(unset));
    INFERS("x:float[*]", example(empty), example(empty)); /* nothing is known of it */
    INFERS("x:float[*]", example(empty), example(x1));
    INFERS("x:float", example(join(xi, x1)), example(x1)); /* of doubles the last */
    struct bytes z = entry("z", bytes_list(one_string("s")));
    INFERS("b:bytes x:float z:bytes", example(join(join(x2, z), join(b, x1)))); /* by name, doubles or not */
    INFERS("PST_ETYPE: feature 'x' is int64 here, float in the Examples before", example(x1), example(xi));
    INFERS("PST_ECORRUPT: byte 1 of the Example: a length is cut short…", example(x1), RAW("\x0a"));
    INFERS("PST_EUNSUPPORTED: feature 'a?b': a name with a NUL byte, which no schema can hold", example(nul));
    INFERS("PST_ETYPE: feature 'x'…", example(join(b, x1)), example(join(entry("a", bytes_list(NOTHING)), xi)));
}

/* An Example that fails changes nothing. */
static void test_inference_after_failure(void)
{
    struct bytes good = example(entry("x", float_list(FLOATS(1)))),
                 bad = example(join(entry("new", float_list(NOTHING)), entry("x", int64_list(INT64S(1)))));
    char text[64];
    pst_error error;
    pst_inference *inference;
    pst_schema *schema;
    REQUIRE_OK(pst_inference_create(&inference, NULL, &error), &error);
    REQUIRE_OK(pst_inference_add(inference, good.data, good.n, &error), &error);
    CHECK_STATUS(pst_inference_add(inference, bad.data, bad.n, &error), PST_ETYPE, &error);
    struct bytes other = example(join(entry("x", float_list(FLOATS(2))), entry("w", float_list(FLOATS(2)))));
    for (uint64_t n = 0; n < 3; n++) { /* a new name: its list, itself, the room for it */
        test_fault_arm(FAULT_MEMORY, n, true);
        pst_status st = pst_inference_add(inference, other.data, other.n, &error);
        test_fault_clear();
        CHECK_STATUS(st, PST_ENOMEM, &error);
    }
    REQUIRE_OK(pst_inference_add(inference, good.data, good.n, &error), &error);
    REQUIRE_OK(pst_inference_schema(inference, &schema, &error), &error);
    CHECK_STR(pst_schema_text(schema, text, sizeof(text)), "x:float");
    pst_schema_destroy(schema);
    pst_inference_destroy(inference);
}

static void test_memory_faults(void)
{
    const char *text =
        "a:float[3]=[1,2,3] \"b c\":bytes[2]=[\"x y\",z] c:int64 d:bytes=\"\" e:float f:float g:float h:float i:float";
    pst_status st = PST_ENOMEM;
    uint64_t n = 0;
    for (; st != PST_OK && n < 200; n++) {
        pst_error error;
        pst_schema *schema = NULL;
        uint64_t before = mem_live();
        test_fault_arm(FAULT_MEMORY, n, false);
        st = pst_schema_parse(&schema, text, &error);
        test_fault_clear();
        CHECK((schema != NULL) == (st == PST_OK));
        pst_schema_destroy(schema);
        CHECK_INT(mem_live(), before);
        if (st != PST_OK)
            REQUIRE(st == PST_ENOMEM && strstr(error.message, "out of memory"));
    }
    CHECK_STATUS(st, PST_OK, NULL);
    CHECK(n > 8);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"text round trip", test_round_trip},
        {"text errors", test_text_errors},
        {"text that is cut", test_cut_text},
        {"text in another locale", test_locale},
        {"declarations", test_create},
        {"a schema owns what it is made of", test_copies},
        {"a large default", test_large_default},
        {"5000 features", test_many},
        {"inference", test_inference},
        {"inference after a failure", test_inference_after_failure},
        {"every allocation fails once", test_memory_faults},
        {NULL, NULL},
    };
    return test_main(argc, argv, tests);
}
