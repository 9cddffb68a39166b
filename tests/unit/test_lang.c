/* test_lang.c: the language with classes that take children: trees, parentheses, parameters that need their names. What all
 * languages share is tested with operations in test_chain.c and test_args.c. */
#include "harness.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "lang/script.h"
#include "unit/lang_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* `text` means `want`, and `want` means itself. */
static void reads(const char *text, const char *want, int line)
{
    for (int again = 0; again < 2; again++) {
        struct lang_tree t = {0};
        struct text got = {0};
        pst_error error;
        if (lang_parse(&t, &layers, again ? want : text, &error) == PST_OK)
            layers_text(&t, &got);
        else
            text_add(&got, error.message);
        test_report(strcmp(got.data, want) == 0, __FILE__, line, "\"%s\" reads as \"%s\", expected \"%s\"", again ? want : text,
                    got.data, want);
        text_finish(&got);
        lang_finish(&t);
    }
}

static void refuses(const char *text, pst_status status, const char *want, int line)
{
    struct lang_tree t = {0};
    pst_error error = {0};
    pst_status st = lang_parse(&t, &layers, text, &error);
    test_report(st == status && error.status == st, __FILE__, line, "\"%s\" gives %s", text, pst_status_name(st));
    test_report(strcmp(error.message, want) == 0, __FILE__, line, "\"%s\" gives\n%s\nexpected\n%s", text, error.message, want);
    test_report(t.count == 0 && t.top.count == 0 && t.script_count == 0, __FILE__, line, "\"%s\" leaves %zu nodes", text,
                t.count);
    lang_finish(&t);
}

#define READS(text, want)   reads(text, want, __LINE__)
#define SAME(text)          reads(text, text, __LINE__)
#define REFUSES(text, want) refuses(text, PST_EINVAL, want, __LINE__)

/* ---- Reading ---- */

static void test_trees(void)
{
    SAME("residual( conv 16 3 | relu )( conv 16 1 )");
    READS("residual(conv 16 3|relu)(conv 16 1)", "residual( conv 16 3 | relu )( conv 16 1 )");
    READS("residual ( conv 16 3 | relu ) # the shortcut:\n ( conv 16 1 ) | relu",
          "residual( conv 16 3 | relu )( conv 16 1 ) | relu");
    SAME("repeat 3 ( relu | relu ) | relu");
    READS("repeat 3(relu)", "repeat 3 ( relu )");
    READS("repeat count=3(relu)", "repeat 3 ( relu )");
    READS("repeat (relu) count=3 | relu", "repeat 3 ( relu ) | relu");
    READS("residual( repeat (relu) count=3 )( relu )", "residual( repeat 3 ( relu ) )( relu )");
    SAME("beside( )( relu )");
    READS("beside(# none )\n)(relu)(conv 8 3)", "beside( )( relu )( conv 8 3 )");
    READS("repeat 2 (beside(relu)())", "repeat 2 ( beside( relu )( ) )");
    SAME("sum");
    SAME("sum( relu )( relu )( relu )( relu )");
    SAME("sum words=a words=b ( relu )");
    SAME("residual( repeat 2 ( residual( relu )( sum | relu ) ) | relu )( repeat 3 ( relu ) )");
    READS("repeat 2\n(\n  # ) not this one\n  conv 8 3   # nor ( that\n  | relu\n)", "repeat 2 ( conv 8 3 | relu )");
    READS("repeat 2 (# )\nrelu)", "repeat 2 ( relu )");
}

/* Outside of children parentheses are characters like others. Inside, a word keeps those that it closes itself. */
static void test_parentheses_in_words(void)
{
    SAME("say a(b)c ( ) (( )) data(1)/x ;&()<>");
    READS("say 'a(b' ')'", "say a(b )");
    READS("residual( say a(b) )", "residual( say \"a(b)\" )");
    READS("residual(say a(b))", "residual( say \"a(b)\" )");
    READS("residual(say a(b)c(d(e)))", "residual( say \"a(b)c(d(e))\" )");
    READS("residual(say a)(say b)", "residual( say a )( say b )");
    READS("residual( say a(b | relu )", "residual( say \"a(b\" | relu )");
    READS("residual( say '(' \")\" x')'y )", "residual( say \"(\" \")\" \"x)y\" )");
    READS("residual( say a'('b)", "residual( say \"a(b\" )"); /* quoted ones do not count */
    READS("sum mean 'a(b)' \")\" (relu)", "sum mode=mean words=\"a(b)\" words=\")\" ( relu )");
    READS("residual(conv 8 3 name=w(1) stride=2)", "residual( conv 8 3 stride=2 name=\"w(1)\" )");
    READS("residual(conv 8 3 name=)", "residual( conv 8 3 )");
    SAME("conv 8 3 activation=hard(sigmoid)");
    SAME("repeat 2 ( conv 8 3 activation=\"hard(sigmoid)\" )");
    READS("repeat 2 (conv 8 3 hard(sigmoid))", "repeat 2 ( conv 8 3 activation=\"hard(sigmoid)\" )");
    READS("residual( 'residual' (relu) )", "residual( residual( relu ) )");
}

static void test_named_only(void)
{
    READS("conv 32 3 relu", "conv 32 3 activation=relu");
    READS("conv 32 3 relu stride=2 name=a", "conv 32 3 activation=relu stride=2 name=a");
    SAME("key name=x");
    REFUSES("conv 32 3 relu 2", "conv takes 3 values without a name, this is one more; write name=value\n"
                                "conv 32 3 relu 2\n"
                                "               ^");
    REFUSES("conv 32 3 rel", "conv: activation cannot be rel; did you mean relu?\n"
                             "conv 32 3 rel\n"
                             "          ^^^");
    REFUSES("key x", "key takes 0 values without a name, this is one more; write name=value\n"
                     "key x\n"
                     "    ^");
    REFUSES("key", "key: name is missing: must be given, by its name\nkey\n^^^");
}

static void test_errors(void)
{
    REFUSES("residual( conv 16 3 | rellu )( conv 16 1 )", "there is no layer rellu; did you mean relu?\n"
                                                          "residual( conv 16 3 | rellu )( conv 16 1 )\n"
                                                          "                      ^^^^^");
    REFUSES("relu |\nresidual(\n  conv 16 3 |\n  relu\n)(\n  repeat 2 ( conv 16 99 )\n) | relu",
            "conv: kernel is 99; expected a whole number from 1 to 31\n"
            "  repeat 2 ( conv 16 99 )\n"
            "                     ^^");
    REFUSES("say http://me:p@ss@host/@x | rellu", "there is no layer rellu; did you mean relu?\nsay http://*******@host/@x | rellu\n                             ^^^^^");
    REFUSES("resdual(relu)", "there is no layer resdual; did you mean residual?\nresdual(relu)\n^^^^^^^^^^^^^");
    REFUSES("relu(relu)", "relu takes no ( ); write arguments after a blank\nrelu(relu)\n^^^^^^^^^^");
    REFUSES("residual(relu(1))", "relu takes no ( ); write arguments after a blank\nresidual(relu(1))\n         ^^^^^^^");
    REFUSES("( relu )", "the name of a layer comes first, its ( after it\n( relu )\n^");
    REFUSES("relu (relu)", "relu takes no arguments\nrelu (relu)\n     ^^^^^^");
    REFUSES("relu | residual", "residual takes 1 to 2 chains in ( )\nrelu | residual\n       ^^^^^^^^");
    REFUSES("repeat 3", "repeat takes 1 chain in ( )\nrepeat 3\n^^^^^^^^");
    REFUSES("repeat 3 (relu)(relu)", "repeat takes 1 chain in ( )\nrepeat 3 (relu)(relu)\n               ^");
    REFUSES("repeat(relu)", "repeat: count is missing: how often\nrepeat(relu)\n^^^^^^");
    REFUSES("repeat (relu) 3",
            "arguments of repeat stand before its ( ), or after it as name=value\nrepeat (relu) 3\n              ^");
    REFUSES("sum (relu) a=1 (relu)",
            "all ( ) of sum stand together, without arguments between them\nsum (relu) a=1 (relu)\n               ^");
    REFUSES("sum (relu) mean",
            "arguments of sum stand before its ( ), or after it as name=value\nsum (relu) mean\n           ^^^^");
    REFUSES("residual()", "a layer is missing between these\nresidual()\n        ^^");
    REFUSES("residual( # )\n )", "a layer is missing between these\nresidual( # )\n        ^^^^^");
    REFUSES("beside( )( )", "a layer is missing between these\nbeside( )( )\n         ^^^");
    REFUSES("beside(|relu)(relu)", "a layer is missing before this\nbeside(|relu)(relu)\n       ^");
    REFUSES("beside( )", "beside takes 2 or more chains in ( )\nbeside( )\n^^^^^^");
    REFUSES("beside( ", "this ( is not closed\nbeside( \n      ^");
    REFUSES("residual(|relu)", "a layer is missing before this\nresidual(|relu)\n         ^");
    REFUSES("residual(relu|)", "a layer is missing after this\nresidual(relu|)\n             ^");
    REFUSES("", "there is no layer in the text\n\n^");
    REFUSES("relu 'x", "this quote is not closed\nrelu 'x\n     ^");
    REFUSES("residual(say 'x) | relu", "this quote is not closed\nresidual(say 'x) | relu\n             ^");
}

static void test_unbalanced(void)
{
    REFUSES("residual( relu", "this ( is not closed\nresidual( relu\n        ^");
    REFUSES("residual(", "this ( is not closed\nresidual(\n        ^");
    REFUSES("residual( relu |", "this ( is not closed\nresidual( relu |\n        ^");
    REFUSES("residual( relu )(\n  repeat 2 ( relu )", "this ( is not closed\nresidual( relu )(\n                ^");
    REFUSES("residual( relu )(\n  repeat 2 ( relu", "this ( is not closed\n  repeat 2 ( relu\n           ^");
    REFUSES("residual( relu ) )", "this ) closes nothing\nresidual( relu ) )\n                 ^");
    REFUSES("residual( relu )) | relu", "this ) closes nothing\nresidual( relu )) | relu\n                ^");
    REFUSES("relu )", "relu takes no arguments\nrelu )\n     ^");
}

/* The text of `depth` residuals inside each other. */
static char *nested(size_t depth)
{
    struct text t = {0};
    for (size_t i = 0; i < depth; i++)
        text_add(&t, "residual( ");
    text_add(&t, "relu");
    for (size_t i = 0; i < depth; i++)
        text_add(&t, " )");
    return t.data;
}

static void test_limits(void)
{
    struct lang_tree t = {0};
    pst_error error = {0};
    char *text = nested(LANG_MAX_DEPTH);
    SAME(text);
    mem_free(text);
    text = nested(LANG_MAX_DEPTH + 1);
    CHECK_STATUS(lang_parse(&t, &layers, text, &error), PST_ELIMIT, &error);
    CHECK_MSG(strncmp(error.message, "more than 32 ( ) inside each other\n", 35) == 0, "%s", error.message);
    CHECK_INT(error.offset, 10 * LANG_MAX_DEPTH + 8);
    mem_free(text);

    struct text many = {0};
    text_add(&many, "residual( relu");
    for (size_t i = 2; i < LANG_MAX_NODES; i++)
        text_add(&many, "|relu");
    size_t length = many.length;
    text_add(&many, " )");
    CHECK_STATUS(lang_parse(&t, &layers, many.data, &error), PST_OK, &error);
    CHECK_INT(t.count, LANG_MAX_NODES);
    lang_finish(&t);
    many.length = length;
    text_add(&many, "|relu )");
    CHECK_STATUS(lang_parse(&t, &layers, many.data, &error), PST_ELIMIT, &error);
    CHECK_MSG(strncmp(error.message, "a model has at most 1000 layers\n", 32) == 0, "%s", error.message);
    CHECK_INT(error.offset, length + 1);
    CHECK_INT(t.count, 0);
    text_finish(&many);
    lang_finish(&t);
}

/* ---- Files ---- */

static void write_text(const char *name, const char *text)
{
    test_write_file(test_path(name), text, strlen(text));
}

static void test_files(void)
{
    char text[512];
    struct lang_tree t = {0};
    pst_error error = {0};
    struct text got = {0};
    mkdir(test_path("parts"), 0755);
    write_text("block.pst", "residual( @parts/body.pst )(@parts/short.pst)");
    write_text("parts/body.pst", "conv 8 3 relu |\n@short.pst # and again");
    write_text("parts/short.pst", "conv 8 1");
    snprintf(text, sizeof(text), "repeat 2 (@%s/block.pst|relu)", test_folder());
    REQUIRE_OK(lang_parse(&t, &layers, text, &error), &error);
    layers_text(&t, &got);
    CHECK_STR(got.data, "repeat 2 ( residual( conv 8 3 activation=relu | conv 8 1 )( conv 8 1 ) | relu )");
    const struct lang_node *block = t.top.nodes[0]->children[0].nodes[0], *second = block->children[0].nodes[1];
    pst_fail(&error, PST_ETYPE, "too narrow");
    lang_point(&t, second, &error);
    CHECK_STR(error.message, "too narrow\nconv 8 1\n^^^^^^^^");
    CHECK_STR(error.path, test_path("parts/short.pst"));
    text_finish(&got);
    lang_finish(&t);
}

static void test_file_errors(void)
{
    char text[512];
    struct lang_tree t = {0};
    pst_error error = {0};
    write_text("bad.pst", "residual( relu )(\n  relu | rellu )\n");
    snprintf(text, sizeof(text), "repeat 2 ( @%s )", test_path("bad.pst"));
    CHECK_STATUS(lang_parse(&t, &layers, text, &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "there is no layer rellu; did you mean relu?\n  relu | rellu )\n         ^^^^^");
    CHECK_STR(error.path, test_path("bad.pst"));
    CHECK_INT(error.offset, 27);

    write_text("closes.pst", "relu ) | relu"); /* a file cannot close what it did not open */
    snprintf(text, sizeof(text), "repeat 2 ( @%s )", test_path("closes.pst"));
    CHECK_STATUS(lang_parse(&t, &layers, text, &error), PST_EINVAL, &error);
    CHECK_STR(error.path, test_path("closes.pst"));
    CHECK_STR(error.message, "relu takes no arguments\nrelu ) | relu\n     ^");
    write_text("opens.pst", "residual( relu");
    snprintf(text, sizeof(text), "repeat 2 ( @%s ) )", test_path("opens.pst"));
    CHECK_STATUS(lang_parse(&t, &layers, text, &error), PST_EINVAL, &error);
    CHECK_STR(error.path, test_path("opens.pst"));
    CHECK_STR(error.message, "this ( is not closed\nresidual( relu\n        ^");

    write_text("self.pst", "repeat 2 ( @self.pst )"); /* the parentheses around the file count too */
    snprintf(text, sizeof(text), "@%s", test_path("self.pst"));
    CHECK_STATUS(lang_parse(&t, &layers, text, &error), PST_EINVAL, &error);
    CHECK_MSG(strstr(error.message, "it includes itself through this file\n") != NULL, "%s", error.message);
    char *deep = nested(LANG_MAX_DEPTH);
    write_text("deep.pst", deep);
    mem_free(deep);
    snprintf(text, sizeof(text), "repeat 2 ( @%s )", test_path("deep.pst"));
    CHECK_STATUS(lang_parse(&t, &layers, text, &error), PST_ELIMIT, &error);
    CHECK_STR(error.path, test_path("deep.pst"));
    CHECK_INT(t.count + t.script_count, 0);
    lang_finish(&t);
}

/* A text from elsewhere includes files below one folder, as they are written, or none. */
static void test_below(void)
{
    static const struct {
        const char *text;
        bool may, taken;
    } cases[] = {{"relu", false, true},           {"say a@b | relu", false, true},  {"say '@x'", false, true},      {"@parts/short.pst", true, true},
                 {"relu |@parts/short.pst", true, true}, {"repeat 2 (@parts/short.pst)", true, true}, {"@parts/../parts/short.pst", true, false},
                 {"@../short.pst", true, false},  {"relu #\n@/etc/passwd", true, false}, {"@parts/out.pst", true, false}, {"@parts/a..b.pst", true, true}};
    struct lang_tree t = {0};
    pst_error error = {0};
    mkdir(test_path("parts"), 0755);
    write_text("short.pst", "relu");
    write_text("parts/short.pst", "conv 8 1");
    write_text("parts/a..b.pst", "conv 8 1");
    write_text("parts/out.pst", "@../short.pst");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CHECK_MSG(lang_may_include(cases[i].text) == cases[i].may, "%s", cases[i].text);
        pst_status st = lang_parse_below(&t, &layers, cases[i].text, test_folder(), &error);
        CHECK_MSG((st == PST_OK) == cases[i].taken, "%s: %s", cases[i].text, st == PST_OK ? "taken" : error.message);
        st = lang_parse_below(&t, &layers, cases[i].text, "", &error);
        CHECK_MSG((st == PST_OK) == !cases[i].may, "%s without a folder: %s", cases[i].text, st == PST_OK ? "taken" : error.message);
    }
    lang_finish(&t);
}

/* Errors of an expression have a text, an offset and a drawing of their own: the place in the node's text counts. */
static void test_expressions(void)
{
    char text[1024], long_one[256] = "";
    struct lang_tree t = {0};
    pst_error error = {0};
    for (int i = 0; i < 16; i++)
        sprintf(long_one + strlen(long_one), "%sname_%02d", i ? " + " : "", i);
    snprintf(text, sizeof(text), "relu |\nsay 'xay < b + a' |\nsay a |\nsay '%s' |\nrelu", long_one);
    write_text("said.pst", text);
    snprintf(text, sizeof(text), "@%s", test_path("said.pst"));
    REQUIRE_OK(lang_parse(&t, &layers, text, &error), &error);
    struct lang_node **nodes = t.top.nodes;

    script_fail(&(struct script){.text = (char[]){"xay < b + a"}}, 10, 11, PST_ENOTFOUND, &error, "there is no field a");
    lang_point(&t, nodes[1], &error);
    CHECK_STR(error.message, "there is no field a\nsay 'xay < b + a' |\n               ^");
    CHECK_STR(error.path, test_path("said.pst"));
    CHECK_INT(error.offset, 7 + 15);
    lang_point(&t, nodes[0], &error); /* an outer node: the place stays */
    CHECK_STR(error.message, "there is no field a\nsay 'xay < b + a' |\n               ^");
    CHECK_INT(error.offset, 7 + 15);

    script_fail(&(struct script){.text = (char[]){"a"}}, 0, 1, PST_ENOTFOUND, &error, "there is no field a");
    lang_point(&t, nodes[2], &error); /* not the a of say */
    CHECK_STR(error.message, "there is no field a\nsay a |\n    ^");

    script_fail(&(struct script){.text = long_one}, 8 * 10, 8 * 10 + 7, PST_ENOTFOUND, &error, "there is no field name_08");
    CHECK_MSG(strstr(error.message, "\xe2\x80\xa6") != NULL, "not cut: %s", error.message);
    lang_point(&t, nodes[3], &error);
    CHECK_INT(error.offset, nodes[3]->begin + 5 + 8 * 10);
    const char *carets = strrchr(error.message, ' ');
    CHECK_STR(carets, " ^^^^^^^");

    script_fail(&(struct script){.text = (char[]){"elsewhere"}}, 0, 9, PST_EINVAL, &error, "wrong");
    lang_point(&t, nodes[4], &error); /* written in another way in the text: the node */
    CHECK_STR(error.message, "wrong\nrelu\n^^^^");
    CHECK_INT(error.offset, nodes[4]->begin);

    pst_fail(&error, PST_EINVAL, "f: shapes differ:\n  image (32, 32)\n  mask (16, 16)");
    lang_point(&t, nodes[4], &error);
    CHECK_STR(error.message, "f: shapes differ:\n  image (32, 32)\n  mask (16, 16)\nrelu\n^^^^");
    lang_finish(&t);
}

/* ---- Robustness ---- */

/* Every node points at its name in the text. */
static void check_places(const struct lang_tree *t, const struct lang_chain *c, const char *text)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct lang_node *n = c->nodes[i];
        CHECK_MSG(strncmp(text + n->begin, n->class.name, strlen(n->class.name)) == 0, "%s at %zu of %s", n->class.name,
                  n->begin, text);
        pst_error error = {0};
        pst_fail(&error, PST_EINVAL, "x");
        lang_point(t, n, &error);
        CHECK_INT(error.offset, n->begin);
        for (size_t k = 0; k < n->child_count; k++)
            check_places(t, &n->children[k], text);
    }
}

static const char *random_word(uint64_t bits)
{
    static const char *const words[] = {"a", "a(b)", ")", "(",   "x)y(", "|", "#",  "a b",
                                        "'", "\"",   "=", "a=1", "@",    "",  "\\", "\n)"};
    return words[bits % 16];
}

/* Adds a random chain, with words that need quotes somewhere or everywhere. */
static void random_chain(struct text *t, struct random *state, unsigned depth);

static uint64_t draw(struct random *state)
{
    return random_u64(state) >> 8;
}

static void random_quoted(struct text *t, const char *s)
{
    text_add(t, "\"");
    for (; *s; s++)
        text_addf(t, strchr("\"\\", *s) ? "\\%c" : "%c", *s);
    text_add(t, "\"");
}

static void random_node(struct text *t, struct random *state, unsigned depth)
{
    uint64_t kind = draw(state) % (depth < 6 ? 6 : 3);
    const char *blank = draw(state) % 2 ? " " : "";
    if (kind == 0) {
        text_add(t, "relu");
    } else if (kind == 1) {
        text_addf(t, "conv %d %d%s", (int)(1 + draw(state) % 64), (int)(1 + draw(state) % 31), draw(state) % 2 ? " relu" : "");
        text_add(t, " name=");
        random_quoted(t, random_word(draw(state)));
    } else if (kind == 2) {
        text_add(t, "say");
        for (uint64_t n = 1 + draw(state) % 4; n > 0; n--) {
            text_add(t, " ");
            random_quoted(t, random_word(draw(state)));
        }
    } else {
        uint64_t children = kind == 3 ? 1 + draw(state) % 2 : kind == 4 ? 1 : draw(state) % 4;
        text_add(t, kind == 3 ? "residual" : kind == 4 ? "repeat 7" : "sum mean");
        if (kind == 5 && draw(state) % 2) {
            text_add(t, " ");
            random_quoted(t, random_word(draw(state)));
        }
        for (; children > 0; children--) {
            text_addf(t, "%s(%s", blank, blank);
            random_chain(t, state, depth + 1);
            text_addf(t, "%s)", blank);
        }
    }
}

static void random_chain(struct text *t, struct random *state, unsigned depth)
{
    for (uint64_t n = 1 + draw(state) % 3; n > 0; n--) {
        random_node(t, state, depth);
        text_add(t, n > 1 ? " | " : "");
    }
}

static bool same_words(const pst_strings *a, const pst_strings *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->value[i], b->value[i]) == 0;
    return same;
}

static bool same_chain(const struct lang_chain *a, const struct lang_chain *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++) {
        const struct lang_node *n = a->nodes[i], *m = b->nodes[i];
        same = strcmp(n->class.name, m->class.name) == 0 && n->child_count == m->child_count;
        if (same && n->class.config_size) {
            const struct layer_config *x = n->config, *y = m->config;
            same = x->filters == y->filters && x->kernel == y->kernel && x->activation == y->activation && x->mode == y->mode &&
                   x->count == y->count && same_words(&x->words, &y->words) &&
                   strcmp(x->name ? x->name : "", y->name ? y->name : "") == 0;
        }
        for (size_t k = 0; same && k < n->child_count; k++)
            same = same_chain(&n->children[k], &m->children[k]);
    }
    return same;
}

/* Random trees: the canonical text parses to the same tree and to itself, and every node knows its place. */
static void test_round_trip(void)
{
    struct random state;
    size_t largest = 0;
    random_init(&state, 1, 2, 3, 4);
    for (int i = 0; i < 3000; i++) {
        struct lang_tree t = {0}, again = {0};
        struct text text = {0}, first = {0}, second = {0};
        pst_error error = {0};
        random_chain(&text, &state, 0);
        pst_status st = lang_parse(&t, &layers, text.data, &error);
        if (st == PST_ELIMIT) { /* too many nodes */
            text_finish(&text);
            continue;
        }
        CHECK_MSG(st == PST_OK, "%s\n%s", text.data, error.message);
        check_places(&t, &t.top, text.data);
        CHECK(layers_text(&t, &first));
        CHECK_MSG(lang_parse(&again, &layers, first.data, &error) == PST_OK, "%s\n%s", first.data, error.message);
        CHECK(layers_text(&again, &second));
        CHECK_STR(second.data, first.data);
        CHECK_MSG(same_chain(&t.top, &again.top) && t.count == again.count, "%s", first.data);
        largest = t.count > largest ? t.count : largest;
        text_finish(&text);
        text_finish(&first);
        text_finish(&second);
        lang_finish(&t);
        lang_finish(&again);
    }
    CHECK_MSG(largest > 100, "the largest tree has %zu nodes", largest);
}

static const char everything[] =
    "residual( conv 16 3 relu | say a(b) \"c)\" )( repeat 2 ( sum 'mean' x ( relu )(key name=y) ) )\n| relu";

/* Cut anywhere, and with any byte anywhere, the text is read or refused; a refusal points into the text. */
static void test_hostile(void)
{
    static const char odd[] = "()|\"'\\#=@ \n\xff"
                              "a0";
    char text[sizeof(everything)];
    for (size_t i = 0; i < sizeof(everything) - 1; i++) {
        for (size_t o = 0; o < sizeof(odd); o++) { /* the NUL too */
            struct lang_tree t = {0};
            pst_error error = {0};
            memcpy(text, everything, sizeof(text));
            text[i] = odd[o];
            uint64_t before = mem_live();
            pst_status st = lang_parse(&t, &layers, text, &error);
            CHECK_MSG(st == PST_OK || st == PST_EINVAL || st == PST_ENOTFOUND, "byte %zu: %s", i, pst_status_name(st));
            if (st != PST_OK)
                CHECK_MSG(error.offset <= strlen(text) && strchr(error.message, '^'), "byte %zu: %s", i, error.message);
            lang_finish(&t);
            CHECK_INT(mem_live(), before);
        }
    }
}

static void test_memory_faults(void)
{
    char text[1024];
    write_text("fault.pst", everything);
    snprintf(text, sizeof(text), "%s | repeat 2 ( @%s ) | relu", everything, test_path("fault.pst"));
    uint64_t before = mem_live();
    for (uint64_t n = 0;; n++) {
        struct lang_tree t = {0};
        struct text canon = {0};
        pst_error error = {0};
        CHECK_STATUS(lang_parse(&t, &layers, "relu", &error), PST_OK, &error);
        test_fault_arm(FAULT_MEMORY, n, n % 2);
        pst_status st = lang_parse(&t, &layers, text, &error);
        bool whole = st == PST_OK && layers_text(&t, &canon);
        bool done = test_fault_calls() <= n;
        test_fault_clear();
        if (st != PST_OK) {
            CHECK_STATUS(st, PST_ENOMEM, &error);
            CHECK(t.count == 1 && t.top.count == 1 && t.script_count == 1); /* as it was */
        }
        CHECK(whole || !done);
        text_finish(&canon);
        lang_finish(&t);
        REQUIRE(mem_live() == before);
        if (done)
            break;
    }
}

static void test_add(void)
{
    struct lang_tree t = {0};
    struct text got = {0};
    pst_error error = {0};
    REQUIRE_OK(lang_add(&t, &layers, "repeat", "3 ( relu | relu )", &error), &error);
    REQUIRE_OK(lang_add(&t, &layers, "residual", "(relu)", &error), &error);
    CHECK_STATUS(lang_add(&t, &layers, "residual", "(relu) | relu", &error), PST_EINVAL, &error);
    CHECK_STR(error.message,
              "one layer per call; quote | where it is part of a value\nresidual (relu) | relu\n                ^");
    CHECK_STATUS(lang_add(&t, &layers, "residual(", "relu)", &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "\"residual(\" is not the name of a layer; see the table");
    layers_text(&t, &got);
    CHECK_STR(got.data, "repeat 3 ( relu | relu ) | residual( relu )");
    text_finish(&got);
    lang_finish(&t);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"trees", test_trees},
        {"parentheses_in_words", test_parentheses_in_words},
        {"named_only", test_named_only},
        {"errors", test_errors},
        {"unbalanced", test_unbalanced},
        {"limits", test_limits},
        {"files", test_files},
        {"file_errors", test_file_errors},
        {"below", test_below},
        {"expressions", test_expressions},
        {"round_trip", test_round_trip},
        {"hostile", test_hostile},
        {"memory_faults", test_memory_faults},
        {"add", test_add},
        {0},
    };
    return test_main(argc, argv, tests);
}
