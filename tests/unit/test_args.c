/* test_args.c: words bound to parameters of every kind, and parameters back to words. */
#include "harness.h"
#include "unit/chain_text.h"

#include <locale.h>
#include <stdio.h>

struct every_kind {
    bool flag;
    int64_t whole;
    uint64_t natural;
    double real;
    const char *string;
    int choice;
    uint64_t bytes;
    pst_size2d size;
    pst_floats floats;
    pst_strings strings;
};

static const char *const colours[] = {"red", "green", "dark blue", NULL};
static const pst_param every_param[] = {
    {"flag", PST_PARAM_BOOL, offsetof(struct every_kind, flag), "true", 0, 0, NULL, "a flag"},
    {"whole", PST_PARAM_INT, offsetof(struct every_kind, whole), "-5", 0, 0, NULL, "an integer"},
    {"natural", PST_PARAM_UINT, offsetof(struct every_kind, natural), "5", 0, 0, NULL, "a natural number"},
    {"real", PST_PARAM_FLOAT, offsetof(struct every_kind, real), "0.5", 0, 1, NULL, "a number"},
    {"string", PST_PARAM_STRING, offsetof(struct every_kind, string), "", 0, 0, NULL, "a string"},
    {"choice", PST_PARAM_CHOICE, offsetof(struct every_kind, choice), "green", 0, 0, colours, "a choice"},
    {"bytes", PST_PARAM_BYTES, offsetof(struct every_kind, bytes), "64M", 0, 0, NULL, "an amount"},
    {"size", PST_PARAM_SIZE2D, offsetof(struct every_kind, size), "224", 1, 10000, NULL, "a size"},
    {"floats", PST_PARAM_FLOATS, offsetof(struct every_kind, floats), "1,2,3", 0, 0, NULL, "some numbers"},
    {"strings", PST_PARAM_STRINGS, offsetof(struct every_kind, strings), "one", 0, 0, NULL, "some strings"},
    {0},
};
static const pst_op_class every_class = {
    .size = sizeof(pst_op_class), .name = "every", .params = every_param, .config_size = sizeof(struct every_kind)};

static const pst_op_class *at_hand; /* the only class of the table */

static bool class_at(size_t i, struct lang_class *ret)
{
    *ret = (struct lang_class){
        .name = at_hand->name, .params = at_hand->params, .positional = LANG_ALL, .config_size = at_hand->config_size};
    return i == 0;
}

static const struct language table = {class_at, "a list", "kind", "a kind", "there is only one"};

/* Reads `text`, which begins with the name of the class. */
static pst_status bind(struct lang_tree *t, const pst_op_class *op, const char *text, pst_error *reterr)
{
    at_hand = op;
    return lang_parse(t, &table, text, reterr);
}

/* The first node as canonical text; free. */
static char *first_text(const struct lang_tree *t)
{
    char *text = lang_text(t->top.nodes[0]), *copy = strdup(text ? text : "(out of memory)");
    mem_free(text);
    return copy;
}

static void kind_reads(const char *text, const char *want, int line)
{
    for (int again = 0; again < 2; again++) {
        struct lang_tree c = {0};
        pst_error error;
        pst_status st = bind(&c, &every_class, again ? want : text, &error);
        char *got = st == PST_OK ? first_text(&c) : strdup(error.message);
        test_report(strcmp(got, want) == 0, __FILE__, line, "\"%s\" reads as \"%s\", expected \"%s\"", again ? want : text, got,
                    want);
        free(got);
        lang_finish(&c);
    }
}

static void kind_refuses(const char *text, const char *want, int line)
{
    struct lang_tree c = {0};
    pst_error error = {0};
    pst_status st = bind(&c, &every_class, text, &error);
    test_report(st == PST_EINVAL, __FILE__, line, "\"%s\" gives %s", text, pst_status_name(st));
    error.message[strcspn(error.message, "\n")] = '\0';
    test_report(strcmp(error.message, want) == 0, __FILE__, line, "\"%s\" gives\n%s\nexpected\n%s", text, error.message, want);
    lang_finish(&c);
}

#define KIND(text, want)         kind_reads(text, want, __LINE__)
#define KIND_SAME(text)          kind_reads(text, text, __LINE__)
#define KIND_REFUSES(text, want) kind_refuses(text, want, __LINE__)

static void test_kinds(void)
{
    struct lang_tree c = {0};
    pst_error error;
    REQUIRE_OK(bind(&c, &every_class, "every", &error), &error);
    const struct every_kind *k = c.top.nodes[0]->config;
    CHECK(k->flag && k->whole == -5 && k->natural == 5 && k->real == 0.5 && k->choice == 1 && k->bytes == 64 << 20);
    CHECK_STR(k->string, "");
    CHECK(k->size.width == 224 && k->size.height == 0);
    CHECK(k->floats.count == 3 && k->floats.value[2] == 3);
    CHECK(k->strings.count == 1 && strcmp(k->strings.value[0], "one") == 0);
    lang_finish(&c);
    REQUIRE_OK(bind(&c, &every_class, "every no 9 0 1e-3 s 'dark blue' 3 320x240 -1,.5 a b c", &error), &error);
    k = c.top.nodes[0]->config;
    CHECK(!k->flag && k->whole == 9 && k->natural == 0 && k->real == 0.001 && k->choice == 2 && k->bytes == 3);
    CHECK_STR(k->string, "s");
    CHECK(k->size.width == 320 && k->size.height == 240);
    CHECK(k->floats.count == 2 && k->floats.value[0] == -1 && k->floats.value[1] == 0.5);
    CHECK(k->strings.count == 3 && strcmp(k->strings.value[2], "c") == 0);
    lang_finish(&c);
    KIND("every", "every");
    KIND_REFUSES("every flag=on flag=1", "every: flag is given twice");
    KIND("every whole=3 'dark blue'", "every whole=3 choice=\"dark blue\""); /* only `choice` can be meant */
    KIND_REFUSES("every whole=3 7", "a value without a name follows name=value; which parameter is it?");
}

static void test_numbers(void)
{
    KIND("every whole=-9223372036854775808 natural=18446744073709551615",
         "every whole=-9223372036854775808 natural=18446744073709551615");
    KIND_SAME("every real=0.1");
    KIND("every real=0.30000000000000004", "every real=0.30000000000000004");
    KIND("every real=1.000", "every real=1");
    KIND("every real=1e-300", "every real=1e-300");
    KIND("every real=.25e+0", "every real=0.25");
    KIND("every bytes=1024", "every bytes=1K");
    KIND("every bytes=1025", "every bytes=1025");
    KIND("every bytes=67108864", "every");
    KIND("every bytes=0", "every bytes=0");
    KIND("every bytes=1.5T", "every bytes=1536G");
    KIND("every size=10000x1", "every size=10000x1");
    KIND("every size=0224", "every");
    KIND("every floats=", "every floats=\"\"");
    KIND("every floats=1.0,2,3e0", "every");
    KIND("every floats=1,2,3,4,5,6,7,-8e9", "every floats=1,2,3,4,5,6,7,-8e+09");
    KIND("every floats=-0", "every floats=-0");
    KIND("every strings=one", "every");
    KIND("every strings=two strings=three", "every strings=two strings=three");
    KIND_REFUSES("every whole=1.5", "every: whole is 1.5; expected a whole number");
    KIND_REFUSES("every whole=+1", "every: whole is +1; expected a whole number");
    KIND_REFUSES("every whole=-9223372036854775809", "every: whole is -9223372036854775809; expected a whole number");
    KIND_REFUSES("every natural=-1", "every: natural is -1; expected a whole number of 0 or more");
    KIND_REFUSES("every natural=18446744073709551616",
                 "every: natural is 18446744073709551616; expected a whole number of 0 or more");
    KIND_REFUSES("every real=nan", "every: real is nan; expected a number from 0 to 1");
    KIND_REFUSES("every real=0x1p-1", "every: real is 0x1p-1; expected a number from 0 to 1");
    KIND_REFUSES("every real=1,5", "every: real is 1,5; expected a number from 0 to 1");
    KIND_REFUSES("every real=1.0000001", "every: real is 1.0000001; expected a number from 0 to 1");
    KIND_REFUSES("every real=' 1'", "every: real is  1; expected a number from 0 to 1");
    KIND_REFUSES("every choice=gren", "every: choice cannot be gren; did you mean green?");
    KIND_REFUSES("every choice=mauve", "every: choice cannot be mauve; expected red, green, dark blue");
    KIND_REFUSES("every bytes=-1", "every: bytes is -1; expected a number of bytes such as 64M or 1.5GiB");
    KIND_REFUSES("every size=0", "every: size is 0; expected a size such as 224 or 320x240 (width x height) from 1 to 10000");
    KIND_REFUSES("every size=20x10001",
                 "every: size is 20x10001; expected a size such as 224 or 320x240 (width x height) from 1 to 10000");
    KIND_REFUSES("every size=20x",
                 "every: size is 20x; expected a size such as 224 or 320x240 (width x height) from 1 to 10000");
    KIND_REFUSES("every size=x20",
                 "every: size is x20; expected a size such as 224 or 320x240 (width x height) from 1 to 10000");
    KIND_REFUSES("every floats=1,2,3,4,5,6,7,8,9",
                 "every: floats is 1,2,3,4,5,6,7,8,9; expected up to 8 numbers as in 0.5,0.5,0.5");
    KIND_REFUSES("every floats=1,,2", "every: floats is 1,,2; expected up to 8 numbers as in 0.5,0.5,0.5");
    KIND_REFUSES("every floats=1,", "every: floats is 1,; expected up to 8 numbers as in 0.5,0.5,0.5");
    KIND_REFUSES("every floats=1e999", "every: floats is 1e999; expected up to 8 numbers as in 0.5,0.5,0.5");
}

static void test_locale(void)
{
    static const char *const with_comma[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8", "fr_FR", NULL};
    bool found = false;
    for (size_t i = 0; with_comma[i] && !found; i++)
        found = setlocale(LC_ALL, with_comma[i]) != NULL;
    KIND_SAME("every real=0.125 floats=0.5,1.5");
    setlocale(LC_ALL, "C");
}

/* Values without their names end where one is at its default, and behind a list. */
static void test_positional_text(void)
{
    static const pst_param params[] = {
        {"a", PST_PARAM_INT, offsetof(struct every_kind, whole), NULL, 0, 0, NULL, "first"},
        {"b", PST_PARAM_INT, offsetof(struct every_kind, natural), "2", 0, 0, NULL, "second"},
        {"c", PST_PARAM_STRING, offsetof(struct every_kind, string), NULL, 0, 0, NULL, "third"},
        {"d", PST_PARAM_STRINGS, offsetof(struct every_kind, strings), NULL, 0, 0, NULL, "rest"},
        {"e", PST_PARAM_INT, offsetof(struct every_kind, bytes), NULL, 0, 0, NULL, "last"},
        {0},
    };
    static const struct {
        pst_op_class op;
        const char *text, *want;
    } cases[] = {
        {{.params = params}, "op 1 3 x y z e=5", "op 1 b=3 c=x d=y d=z e=5"},
        {{.params = params}, "op 1 2 x y z e=5", "op 1 c=x d=y d=z e=5"},
        {{.params = params + 2}, "op x y z e=5", "op x y z e=5"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_op_class op = cases[i].op;
        op.size = sizeof(pst_op_class);
        op.name = "op";
        op.config_size = sizeof(struct every_kind);
        for (int again = 0; again < 2; again++) {
            struct lang_tree c = {0};
            pst_error error;
            REQUIRE_OK(bind(&c, &op, again ? cases[i].want : cases[i].text, &error), &error);
            char *got = first_text(&c);
            CHECK_STR(got, cases[i].want);
            free(got);
            lang_finish(&c);
        }
    }
}

static void test_add_class(void)
{
    struct chain c = {0};
    pst_error error = {0};
    struct every_kind config = {.flag = true, .choice = 9, .strings = {0}};
    REQUIRE_OK(chain_add_class(&c, &every_class, NULL, &error), &error);
    REQUIRE_OK(chain_add_class(&c, &every_class, &config, &error), &error);
    CHECK_INT(c.nodes[0].kind, PST_OP_SAMPLE);
    char *got = canonical(&c);
    CHECK_STR(got, "every | every whole=0 natural=0 real=0 choice=9 bytes=0 size=0 floats=\"\"");
    free(got);
    CHECK_STATUS(chain_add_class(&c, pst_op_find("batch"), NULL, &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "batch: size is missing: number of elements per batch");
    pst_op_class op = every_class;
    op.size = 2; /* the version of a class, as it was once */
    CHECK_STATUS(chain_add_class(&c, &op, NULL, &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "the operation's size is 2; set it to sizeof(pst_op_class)");
    op = (pst_op_class){.name = "older", .flags = 99, .fingerprint = (uint64_t(*)(const void *))(uintptr_t)1};
    op.size = offsetof(pst_op_class, flags); /* declared by an older header: what lies after it is not the class */
    REQUIRE_OK(chain_add_class(&c, &op, NULL, &error), &error);
    CHECK(c.nodes[2].op != &op && strcmp(c.nodes[2].op->name, "older") == 0 && c.nodes[2].op->size == sizeof(op));
    CHECK(c.nodes[2].op->flags == 0 && !c.nodes[2].op->fingerprint && c.nodes[2].kind == PST_OP_SAMPLE);
    op.size = sizeof(pst_op_class);
    op.name = "two words";
    CHECK_STATUS(chain_add_class(&c, &op, NULL, &error), PST_EINVAL, &error);
    op = (pst_op_class){.size = sizeof(pst_op_class), .name = "bare"};
    REQUIRE_OK(chain_add_class(&c, &op, NULL, &error), &error);
    got = node_text(&c.nodes[3]);
    CHECK_STR(got, "bare");
    mem_free(got);
    pst_fail(&error, PST_EINVAL, "something"); /* no text: nothing to draw */
    node_point(&c, &c.nodes[3], &error);
    CHECK_STR(error.message, "something");
    chain_finish(&c);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"kinds", test_kinds},         {"numbers", test_numbers},
        {"locale", test_locale},       {"positional_text", test_positional_text},
        {"add_class", test_add_class}, {0},
    };
    return test_main(argc, argv, tests);
}
