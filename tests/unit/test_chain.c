/* test_chain.c: the pipeline language: what reads as what, what is refused and how that is shown, files, canonical text. */
#include "harness.h"
#include "unit/chain_text.h"

#include "base/fault.h"
#include "base/memory.h"
#include "base/text.h"
#include "flow/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* `text` means `want`, and `want` means itself. */
static void reads(const char *text, const char *want, int line)
{
    for (int again = 0; again < 2; again++) {
        struct chain c = {0};
        pst_error error;
        pst_status st = chain_parse(&c, again ? want : text, &error);
        char *got = st == PST_OK ? canonical(&c) : strdup(error.message);
        test_report(strcmp(got, want) == 0, __FILE__, line, "\"%s\" reads as \"%s\", expected \"%s\"", again ? want : text, got,
                    want);
        free(got);
        chain_finish(&c);
    }
}

static void refuses(const char *text, uint64_t offset, const char *want, int line)
{
    struct chain c = {0};
    pst_error error = {0};
    pst_status st = chain_parse(&c, text, &error);
    test_report(st == PST_EINVAL && error.status == st, __FILE__, line, "\"%s\" gives %s", text, pst_status_name(st));
    test_report(strcmp(error.message, want) == 0, __FILE__, line, "\"%s\" gives\n%s\nexpected\n%s", text, error.message, want);
    test_report(error.offset == offset, __FILE__, line, "\"%s\": offset %" PRIu64 ", expected %" PRIu64, text, error.offset,
                offset);
    test_report(c.count == 0 && c.tree.script_count == 0, __FILE__, line, "\"%s\" leaves %zu nodes", text, c.count);
    chain_finish(&c);
}

#define READS(text, want)           reads(text, want, __LINE__)
#define SAME(text)                  reads(text, text, __LINE__)
#define REFUSES(text, offset, want) refuses(text, offset, want, __LINE__)

/* ---- The language ---- */

static void test_reads(void)
{
    SAME("shuffle");
    SAME("shuffle seed=7 | repeat count=2 | batch 64");
    READS("shuffle|batch 64", "shuffle | batch 64");
    READS("  shuffle\tseed=7\n|\r\n\nbatch\n64  ", "shuffle seed=7 | batch 64");
    READS("shuffle # the order | not an operation\n | batch 64 # and so on", "shuffle | batch 64");
    READS("# nothing but a comment\nshuffle", "shuffle");
    READS("shuffle seed=-1 reshuffle=yes buffer=0", "shuffle"); /* the defaults, spelled out */
    READS("shuffle 64M 1GiB 7 off", "shuffle buffer=64M window=1G seed=7 reshuffle=false");
    READS("shuffle 64M seed=7", "shuffle buffer=64M seed=7");
    READS("shuffle seed=7 buffer=1.5K", "shuffle buffer=1536B seed=7");
    READS("shuffle 1000", "shuffle buffer=1000"); /* elements, as in tf.data */
    READS("shuffle 1024", "shuffle buffer=1024");
    READS("shuffle 1024B window=1000B", "shuffle buffer=1K window=1000B");
    READS("shuffle 0B window=0", "shuffle");
    READS("batch size=8 drop_remainder=true", "batch 8 drop_remainder=true");
    READS("batch 8 true", "batch 8 drop_remainder=true");
    READS("shard 4 index=0", "shard 4 0");
    READS("shard index=3 count=4", "shard 4 3");
    SAME("take -1 | skip 0 | take 9223372036854775807");
    READS("take 007", "take 7");
    READS("cast dtype=bf16 field=x", "cast bf16 field=x");
    READS("cast f16 image", "cast f16");
    SAME("prefetch depth=4 | cache bytes=4G");
}

static void test_lists(void)
{
    SAME("select image label");
    READS("select fields=image fields=label", "select image label");
    READS("select image fields=label", "select image label");
    SAME("drop a");
    SAME("select a b c d e f g h i j k l m n o p q r s t u v w x y z");
    SAME("select shards/*.tfrecord train-*-of-00016 [ab]{c,d} ~/x $y `z` a\\b ;&()<>");
}

static void test_quotes(void)
{
    READS("select 'image' \"label\"", "select image label");
    READS("select im'age' \"la\"bel", "select image label");
    SAME("select \"two words\" \"\" \"tab\\t\" \"line\\nline\\r\" \"\\x01\\x7f\"");
    READS("select 'two words' '' 'a\"b' \"a'b\"", "select \"two words\" \"\" \"a\\\"b\" \"a'b\"");
    READS("select 'back\\slash' \"back\\\\slash\" 'both \\'", "select back\\slash back\\slash \"both \\\\\"");
    READS("select '|' 'a|b' '#' 'a#b' a#b", "select \"|\" \"a|b\" \"#\" a#b a#b");
    READS("select \"a=b\" 'year=2020/x' x/y=z =", "select \"a=b\" \"year=2020/x\" x/y=z \"=\"");
    READS("select \"\\x41\\x62\\xc3\\xa9\"", "select Ab\xc3\xa9");
    SAME("select gr\xc3\xbcn \xff\xfe");
    READS("example schema=\"a:bytes \\\"b c\\\":int64\"", "example schema=\"a:bytes \\\"b c\\\":int64\"");
    READS("example 'a:bytes \"b c\":int64=[1,2]'", "example schema=\"a:bytes \\\"b c\\\":int64=[1,2]\"");
    READS("cast f32 field='a b'", "cast f32 field=\"a b\"");
    READS("cast f32 field=", "cast f32 field=\"\"");
    READS("cast f32 field=a=b", "cast f32 field=a=b");
    READS("cast f32 field=#", "cast f32 field=#");
    READS("'shuffle' seed='7'", "shuffle seed=7");
}

static void test_errors(void)
{
    REFUSES("shufle | batch 64", 0,
            "there is no operation shufle; did you mean shuffle?\n"
            "shufle | batch 64\n"
            "^^^^^^");
    REFUSES("shuffle | transmogrify x", 10,
            "there is no operation transmogrify; `penstock ops` lists them\n"
            "shuffle | transmogrify x\n"
            "          ^^^^^^^^^^^^");
    REFUSES("frobnicate x", 0,
            "there is no operation frobnicate; `penstock ops` lists them\n"
            "frobnicate x\n"
            "^^^^^^^^^^");
    REFUSES("shuffle | batch(64)", 10,
            "batch takes no ( ); write arguments after a blank\n"
            "shuffle | batch(64)\n"
            "          ^^^^^^^^^");
    REFUSES("shuffle | bach 64", 10,
            "there is no operation bach; did you mean batch?\n"
            "shuffle | bach 64\n"
            "          ^^^^");
    REFUSES("shuffle sed=7 | batch 64", 8,
            "shuffle has no parameter sed; did you mean seed?\n"
            "shuffle sed=7 | batch 64\n"
            "        ^^^");
    REFUSES("shuffle colour=red", 8,
            "shuffle has no parameter colour; it has buffer, window, seed, reshuffle\n"
            "shuffle colour=red\n"
            "        ^^^^^^");
    REFUSES("shuffle | cast f33", 15,
            "cast: dtype cannot be f33; did you mean f32?\n"
            "shuffle | cast f33\n"
            "               ^^^");
    REFUSES("cast dtype=colour", 11,
            "cast: dtype cannot be colour; expected u8, i32, i64, f16, bf16, f32, f64\n"
            "cast dtype=colour\n"
            "           ^^^^^^");
    REFUSES("batch 0", 6,
            "batch: size is 0; expected a whole number from 1 to 1000000000\n"
            "batch 0\n"
            "      ^");
    REFUSES("batch size=many", 11,
            "batch: size is many; expected a whole number from 1 to 1000000000\n"
            "batch size=many\n"
            "           ^^^^");
    REFUSES("shuffle | batch", 10,
            "batch: size is missing: number of elements per batch\n"
            "shuffle | batch\n"
            "          ^^^^^");
    REFUSES("batch 64 drop_remainder", 9,
            "batch: drop_remainder has no value; write drop_remainder=true\n"
            "batch 64 drop_remainder\n"
            "         ^^^^^^^^^^^^^^");
    REFUSES("batch 64 maybe", 9,
            "batch: drop_remainder is maybe; expected true or false\n"
            "batch 64 maybe\n"
            "         ^^^^^");
    REFUSES("batch 64 true 3", 14,
            "batch takes 2 arguments, this is one more\n"
            "batch 64 true 3\n"
            "              ^");
    REFUSES("batch 64 size=32", 9,
            "batch: size is given twice\n"
            "batch 64 size=32\n"
            "         ^^^^^^^");
    REFUSES("shuffle seed=7 64M", 15,
            "a value without a name follows name=value; which parameter is it?\n"
            "shuffle seed=7 64M\n"
            "               ^^^");
    REFUSES("shuffle buffer=lots", 15,
            "shuffle: buffer is lots; expected a number of elements such as 1000, or of bytes such as 64M or 1.5GiB\n"
            "shuffle buffer=lots\n"
            "               ^^^^");
    REFUSES("take -2", 5,
            "take: count is -2; expected a whole number of at least -1\n"
            "take -2\n"
            "     ^^");
    REFUSES("take 9223372036854775808", 5,
            "take: count is 9223372036854775808; expected a whole number of at least -1\n"
            "take 9223372036854775808\n"
            "     ^^^^^^^^^^^^^^^^^^^");
    REFUSES("take ''", 5,
            "take: count is empty; expected a whole number of at least -1\n"
            "take ''\n"
            "     ^^");
    REFUSES("seed=7 | batch 3", 0,
            "the name of an operation comes first, its arguments after it\n"
            "seed=7 | batch 3\n"
            "^^^^^^");
}

static void test_syntax_errors(void)
{
    REFUSES("", 0, "there is no operation in the text\n\n^");
    REFUSES("  # nothing", 0, "there is no operation in the text\n  # nothing\n^");
    REFUSES("| batch 64", 0, "an operation is missing before this\n| batch 64\n^");
    REFUSES("shuffle | | batch 64", 10, "an operation is missing before this\nshuffle | | batch 64\n          ^");
    REFUSES("shuffle |", 8, "an operation is missing after this\nshuffle |\n        ^");
    REFUSES("shuffle |  # that | this\n", 8, "an operation is missing after this\nshuffle |  # that | this\n        ^");
    REFUSES("select \"image label", 7, "this quote is not closed\nselect \"image label\n       ^");
    REFUSES("select 'image\\' ' x", 16, "this quote is not closed\nselect 'image\\' ' x\n                ^");
    REFUSES("select \"a\\qb\"", 9,
            "invalid escape; those in double quotes are \\\" \\\\ \\n \\r \\t \\xHH, but not \\x00\n"
            "select \"a\\qb\"\n"
            "         ^^");
    REFUSES("select \"a\\x4\"", 9,
            "invalid escape; those in double quotes are \\\" \\\\ \\n \\r \\t \\xHH, but not \\x00\n"
            "select \"a\\x4\"\n"
            "         ^^");
}

/* Only the line of the mistake is shown; long ones are cut around the place. */
static void test_drawing(void)
{
    REFUSES("shuffle\n  | bach 64 # x\n  | prefetch", 12,
            "there is no operation bach; did you mean batch?\n"
            "  | bach 64 # x\n"
            "    ^^^^");
    REFUSES("shuffle |\tbach\t64", 10,
            "there is no operation bach; did you mean batch?\n"
            "shuffle | bach 64\n"
            "          ^^^^");
    REFUSES("select gr\xc3\xbcn \xe2\x82\xac | bach 64", 19,
            "there is no operation bach; did you mean batch?\n"
            "select gr\xc3\xbcn \xe2\x82\xac | bach 64\n"
            "                ^^^^");
    REFUSES("select aaaaaaaaaa bbbbbbbbbb cccccccccc dddddddddd eeeeeeeeee ffffffffff gggggggggg | bach 64 | select aaaaaaaaaa "
            "bbbbbbbbbb cccccccccc dddddddddd eeeeeeeeee ffffffffff gggggggggg",
            86,
            "there is no operation bach; did you mean batch?\n"
            "\xe2\x80\xa6"
            "c dddddddddd eeeeeeeeee ffffffffff gggggggggg | bach 64 | select aaaaaaaaaa bbbbbbbbbb cccccccccc dd"
            "\xe2\x80\xa6\n"
            "                                                 ^^^^");
    /* a place longer than any line, with a message that is cut itself */
    REFUSES(
        "batch xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        6,
        "batch: size is xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xe2\x80\xa6; expected a whole number from 1 to 1000000000\n"
        "\xe2\x80\xa6xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xe2\x80\xa6\n"
        " ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^");
}

/* Wherever the mistake is and however long the line: the carets stand below the place, and nothing is cut in the middle of a
 * character. */
static void test_drawing_everywhere(void)
{
    static const char *const letters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    for (size_t n = 0; n < 4 * 200; n++) {
        struct text t = {0};
        pst_error error = {0};
        struct chain c = {0};
        const char *letter = letters[n % 4];
        text_add(&t, "select ");
        for (size_t i = 0; i <= n / 4; i++)
            text_add(&t, letter);
        text_add(&t, " | bach |");
        for (size_t i = n / 4; i < 200; i++)
            text_add(&t, letter);
        CHECK_STATUS(chain_parse(&c, t.data, &error), PST_EINVAL, &error);
        CHECK(text_is_utf8(error.message, strlen(error.message)));
        const char *line = strchr(error.message, '\n'), *carets = line ? strchr(line + 1, '\n') : NULL;
        if (CHECK(line && carets)) {
            size_t column = strspn(carets + 1, " ");
            const char *at = line + 1;
            for (size_t i = 0; i < column; i++)
                for (at++; ((unsigned char)*at & 0xc0) == 0x80;)
                    at++;
            CHECK_MSG(strncmp(at, "bach", 4) == 0 && strcmp(carets + 1 + column, "^^^^") == 0, "%s", error.message);
        }
        chain_finish(&c);
        text_finish(&t);
    }
}

/* ---- The table ---- */

static void test_table(void)
{
    CHECK(pst_op_at(SIZE_MAX) == NULL && pst_op_find("none of them") == NULL);
    for (size_t i = 0; pst_op_at(i); i++) {
        const pst_op_class *op = pst_op_at(i);
        pst_error error = {0};
        struct chain c = {0};
        CHECK_MSG(op->size == sizeof(*op) && pst_op_find(op->name) == op, "%s: found by its name", op->name);
        CHECK_MSG(chain_parse(&c, op->example, &error) == PST_OK, "the example of %s:\n%s", op->name, error.message);
        bool used = false;
        for (size_t n = 0; n < c.count; n++)
            used |= c.nodes[n].op == op;
        CHECK_MSG(used, "the example of %s does not have it", op->name);
        CHECK_MSG(op->doc && op->doc[0] && op->doc[strlen(op->doc) - 1] == '.', "%s: its doc is sentences", op->name);
        CHECK_MSG(pst_op_kind_of(op) != PST_OP_SAMPLE || op->plan, "%s: has a plan", op->name);
        for (const pst_param *p = op->params; p && p->name; p++)
            CHECK_MSG(p->doc && p->doc[0] && (p->kind == PST_PARAM_CHOICE) == (p->choices != NULL), "%s: %s", op->name,
                      p->name);
        chain_finish(&c);
    }
}

/* ---- Files ---- */

static void write_text(const char *name, const char *text)
{
    test_write_file(test_path(name), text, strlen(text));
}

static void include_reads(const char *format, const char *want, int line)
{
    char text[512];
    snprintf(text, sizeof(text), format, test_folder());
    struct chain c = {0};
    pst_error error = {0};
    pst_status st = chain_parse(&c, text, &error);
    char *got = st == PST_OK ? canonical(&c) : strdup(error.message);
    test_report(strcmp(got, want) == 0, __FILE__, line, "\"%s\" reads as \"%s\", expected \"%s\"", text, got, want);
    for (size_t i = 0; i < c.count; i++)
        CHECK_INT(c.nodes[i].ordinal, i);
    free(got);
    chain_finish(&c);
}

/* What is wrong with a text or with a file that it includes. */
static void include_refuses(const char *format, pst_status status, const char *file, uint64_t offset, const char *want,
                            int line)
{
    char text[512];
    snprintf(text, sizeof(text), format, test_folder());
    struct chain c = {0};
    pst_error error = {0};
    pst_status st = chain_parse(&c, text, &error);
    test_report(st == status, __FILE__, line, "\"%s\" gives %s", text, pst_status_name(st));
    test_report(strcmp(error.path, file ? test_path(file) : "") == 0, __FILE__, line, "\"%s\": in \"%s\"", text, error.path);
    test_report(error.offset == offset, __FILE__, line, "\"%s\": offset %" PRIu64 ", expected %" PRIu64, text, error.offset,
                offset);
    test_report(strstr(error.message, want) != NULL, __FILE__, line, "\"%s\" gives\n%s\nexpected\n%s", text, error.message,
                want);
    test_report(c.count == 0 && c.tree.script_count == 0, __FILE__, line, "\"%s\" leaves %zu nodes", text, c.count);
    chain_finish(&c);
}

static void test_files(void)
{
    mkdir(test_path("parts"), 0755);
    write_text("train.pst", "shuffle seed=7   # the order\n| @parts/augment.pst\n| batch 64\n");
    write_text("parts/augment.pst", "select image | @'two words.pst'");
    write_text("parts/two words.pst", "@../cast.pst");
    write_text("cast.pst", "cast f16 |\ncast f32");
    include_reads("@%s/train.pst", "shuffle seed=7 | select image | cast f16 | cast f32 | batch 64", __LINE__);
    include_reads("take 3 | @\"%s/cast.pst\" | @%1$s/cast.pst # twice", "take 3 | cast f16 | cast f32 | cast f16 | cast f32",
                  __LINE__);
    include_reads("select @cast.pst", "select @cast.pst", __LINE__); /* an argument is not a file */
}

static void test_file_errors(void)
{
    mkdir(test_path("parts"), 0755);
    write_text("bad.pst", "shuffle\n| bach 64\n");
    write_text("outer.pst", "take 3 | @bad.pst");
    write_text("empty.pst", "# nothing\n");
    write_text("self.pst", "shuffle | @self.pst");
    write_text("a.pst", "@parts/b.pst");
    write_text("parts/b.pst", "@../parts/../a.pst");
    write_text("missing.pst", "shuffle | @nowhere.pst");
    test_write_file(test_path("nul.pst"), "shuffle\0", 8);
    include_refuses("@%s/bad.pst", PST_EINVAL, "bad.pst", 10,
                    "there is no operation bach; did you mean batch?\n| bach 64\n  ^^^^", __LINE__);
    include_refuses("@%s/outer.pst", PST_EINVAL, "bad.pst", 10,
                    "there is no operation bach; did you mean batch?\n| bach 64\n  ^^^^", __LINE__);
    include_refuses("@%s/empty.pst", PST_EINVAL, "empty.pst", 0, "there is no operation in the text\n# nothing\n^", __LINE__);
    include_refuses("@%s/self.pst", PST_EINVAL, "self.pst", 10,
                    "self.pst cannot be included: it includes itself through this file\nshuffle | @self.pst\n          ^^^^^^^^^",
                    __LINE__);
    include_refuses("@%s/a.pst", PST_EINVAL, "parts/b.pst", 0, "it includes itself through this file\n@../parts/../a.pst\n^^^^",
                    __LINE__);
    include_refuses("@%s/missing.pst", PST_ENOTFOUND, "missing.pst", 10, "nowhere.pst cannot be included: ", __LINE__);
    include_refuses("shuffle | @nowhere.pst", PST_ENOTFOUND, NULL, 10, "\nshuffle | @nowhere.pst\n          ^^^^^^^^^^^^",
                    __LINE__);
    include_refuses("shuffle | @", PST_ENOTFOUND, NULL, 10, "\nshuffle | @\n          ^", __LINE__);
    include_refuses("@%s/parts", PST_EINVAL, NULL, 0, "parts cannot be included: it is not a regular file\n", __LINE__);
    include_refuses("@/dev/zero", PST_EINVAL, NULL, 0, "/dev/zero cannot be included: it is not a regular file\n", __LINE__);
    include_refuses("@%s/nul.pst", PST_EINVAL, NULL, 0, "it has a NUL byte: it is not text\n", __LINE__);
    include_refuses("@x.pst 7 8", PST_EINVAL, NULL, 7, "a file takes no arguments\n@x.pst 7 8\n       ^^^", __LINE__);
    for (int i = 0; i < 17; i++) {
        char name[16], text[32];
        snprintf(name, sizeof(name), "deep%d.pst", i);
        snprintf(text, sizeof(text), i < 16 ? "@deep%d.pst" : "shuffle", i + 1);
        write_text(name, text);
    }
    include_reads("@%s/deep1.pst", "shuffle", __LINE__);
    include_refuses("@%s/deep0.pst", PST_ELIMIT, "deep15.pst", 0, "more than 16 files include each other\n@deep16.pst\n",
                    __LINE__);
}

/* Files that double what they include end at the limit, not in memory. */
static void test_file_bomb(void)
{
    write_text("bomb0.pst", "shuffle");
    for (int i = 1; i < 16; i++) {
        char name[16], text[64];
        snprintf(name, sizeof(name), "bomb%d.pst", i);
        snprintf(text, sizeof(text), "@bomb%d.pst | @bomb%d.pst", i - 1, i - 1);
        write_text(name, text);
    }
    struct chain c = {0};
    pst_error error;
    char text[256];
    snprintf(text, sizeof(text), "@%s", test_path("bomb15.pst"));
    CHECK_STATUS(chain_parse(&c, text, &error), PST_ELIMIT, &error);
    CHECK(strncmp(error.message, "a pipeline has at most 1000 operations\n", 39) == 0);
    CHECK_INT(c.count, 0);
    chain_finish(&c);
}

/* ---- Calls ---- */

static void test_add(void)
{
    struct chain c = {0};
    pst_error error = {0};
    REQUIRE_OK(chain_parse(&c, "shuffle seed=7", &error), &error);
    REQUIRE_OK(chain_add(&c, "select", "image 'a|b'", &error), &error);
    REQUIRE_OK(chain_add(&c, "shuffle", NULL, &error), &error);
    REQUIRE_OK(chain_add(&c, "repeat", "", &error), &error);
    char *got = canonical(&c);
    CHECK_STR(got, "shuffle seed=7 | select image \"a|b\" | shuffle | repeat");
    free(got);
    CHECK_STATUS(chain_add(&c, "batch", "0", &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "batch: size is 0; expected a whole number from 1 to 1000000000\nbatch 0\n      ^");
    CHECK_STATUS(chain_add(&c, "batch", "3 | shuffle", &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "one operation per call; quote | where it is part of a value\nbatch 3 | shuffle\n        ^");
    CHECK_STATUS(chain_add(&c, "batch 3", NULL, &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "\"batch 3\" is not the name of an operation; `penstock ops` lists them");
    CHECK_STATUS(chain_add(&c, "@x", NULL, &error), PST_EINVAL, &error);
    CHECK_STATUS(chain_add(&c, "", NULL, &error), PST_EINVAL, &error);
    CHECK_STATUS(chain_add(&c, "bach", "3", &error), PST_EINVAL, &error);
    CHECK_STR(error.message, "there is no operation bach; did you mean batch?\nbach 3\n^^^^");
    CHECK_INT(c.count, 4);
    CHECK_INT(c.nodes[3].ordinal, 3);
    chain_finish(&c);
    CHECK_STATUS(chain_parse(&c, "bach", NULL), PST_EINVAL, NULL); /* nobody wants to know */
    CHECK_STATUS(chain_add(&c, "batch", "x", NULL), PST_EINVAL, NULL);
    chain_finish(&c);
}

static void test_point(void)
{
    struct chain c = {0};
    pst_error error = {0};
    write_text("point.pst", "cast\tf16 field=x # half");
    char text[256];
    snprintf(text, sizeof(text), "shuffle | batch 64 true | @%s", test_path("point.pst"));
    REQUIRE_OK(chain_parse(&c, text, &error), &error);
    pst_fail(&error, PST_ETYPE, "field x has bytes");
    strcpy(error.op, "cast");
    node_point(&c, &c.nodes[2], &error);
    CHECK_STR(error.message, "field x has bytes\ncast f16 field=x # half\n^^^^^^^^^^^^^^^^");
    CHECK_STR(error.path, test_path("point.pst"));
    CHECK_STR(error.op, "cast");
    CHECK_INT(error.offset, 0);
    pst_fail_at(&error, PST_EIO, "a file", 3, PST_NOWHERE, "cannot be read");
    node_point(&c, &c.nodes[1], &error);
    CHECK(strncmp(error.message, "cannot be read\nshuffle | batch 64 true | @", 40) == 0);
    CHECK(strstr(error.message, "\n          ^^^^^^^^^^^^^") != NULL);
    CHECK_STR(error.path, "a file");
    CHECK_INT(error.record, 3);
    pst_fail(&error, PST_EINVAL, "%0250d", 7); /* no room */
    node_point(&c, &c.nodes[1], &error);
    CHECK_INT(strlen(error.message), 250);
    pst_fail(&error, PST_EINVAL, "%0220d", 7); /* hardly any */
    node_point(&c, &c.nodes[1], &error);
    CHECK(strchr(error.message, '^') && strlen(error.message) < sizeof(error.message));
    pst_fail(&error, PST_ENOMEM, "out of memory");
    node_point(&c, &c.nodes[1], &error);
    CHECK_STR(error.message, "out of memory");
    node_point(&c, &c.nodes[1], NULL);
    chain_finish(&c);
}

/* ---- Robustness ---- */

static const char everything[] =
    "shuffle 64M seed=7 reshuffle=false # order\n| example \"a:bytes \\\"b c\\\":int64[*]\" field='x y'\n"
    "| select a \"b\\x20c\" | cast f16 field=a | one_hot 10 a | rename a b | batch 8 true | prefetch 3";

/* Cut anywhere, and with any byte anywhere, the text is read or refused; a refusal points into the text. */
static void test_hostile(void)
{
    static const char odd[] = "|\"'\\#=@ \n\x01\x7f\xff"
                              "a0";
    char text[sizeof(everything)];
    for (size_t i = 0; i < sizeof(everything) - 1; i++) {
        for (size_t o = 0; o < sizeof(odd); o++) { /* the NUL too */
            struct chain c = {0};
            pst_error error = {0};
            memcpy(text, everything, sizeof(text));
            text[i] = odd[o];
            uint64_t before = mem_live();
            pst_status st = chain_parse(&c, text, &error);
            if (st != PST_OK) {
                CHECK_MSG(st == PST_EINVAL || st == PST_ENOTFOUND, "byte %zu: %s", i, pst_status_name(st));
                CHECK_MSG(error.offset <= strlen(text) && strchr(error.message, '^'), "byte %zu: %s", i, error.message);
            } else {
                char *first = canonical(&c);
                struct chain again = {0};
                if (CHECK_STATUS(chain_parse(&again, first, &error), PST_OK, &error)) {
                    char *second = canonical(&again);
                    CHECK_STR(second, first);
                    free(second);
                }
                free(first);
                chain_finish(&again);
            }
            chain_finish(&c);
            CHECK_INT(mem_live(), before);
        }
    }
}

static void test_memory_faults(void)
{
    write_text("fault.pst", everything);
    char text[1024];
    snprintf(text, sizeof(text), "%s | @%s | shuffle", everything, test_path("fault.pst"));
    uint64_t before = mem_live();
    for (uint64_t n = 0;; n++) {
        struct chain c = {0};
        pst_error error = {0};
        test_fault_arm(FAULT_MEMORY, n, n % 2);
        pst_status st = chain_parse(&c, text, &error);
        char *canon = st == PST_OK ? node_text(&c.nodes[1]) : NULL;
        bool done = test_fault_calls() <= n;
        test_fault_clear();
        if (st != PST_OK) {
            CHECK_STATUS(st, PST_ENOMEM, &error);
            CHECK_INT(c.count + c.tree.count + c.tree.script_count, 0);
        }
        mem_free(canon);
        chain_finish(&c);
        REQUIRE(mem_live() == before);
        if (done)
            break;
    }
}

static void test_io_faults(void)
{
    write_text("fault.pst", "shuffle");
    char text[256];
    snprintf(text, sizeof(text), "@%s", test_path("fault.pst"));
    for (uint64_t n = 0;; n++) {
        struct chain c = {0};
        pst_error error = {0};
        test_fault_arm(FAULT_IO, n, false);
        pst_status st = chain_parse(&c, text, &error);
        bool done = test_fault_calls() <= n;
        test_fault_clear();
        if (!done)
            CHECK_MSG(st == PST_EIO && strchr(error.message, '^'), "call %" PRIu64 ": %s", n, error.message);
        else
            CHECK_STATUS(st, PST_OK, &error);
        chain_finish(&c);
        if (done)
            break;
    }
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {
        {"reads", test_reads},
        {"lists", test_lists},
        {"quotes", test_quotes},
        {"errors", test_errors},
        {"syntax_errors", test_syntax_errors},
        {"drawing", test_drawing},
        {"drawing_everywhere", test_drawing_everywhere},
        {"table", test_table},
        {"files", test_files},
        {"file_errors", test_file_errors},
        {"file_bomb", test_file_bomb},
        {"add", test_add},
        {"point", test_point},
        {"hostile", test_hostile},
        {"memory_faults", test_memory_faults},
        {"io_faults", test_io_faults},
        {0},
    };
    return test_main(argc, argv, tests);
}
