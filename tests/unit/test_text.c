/* test_text.c: growing text, JSON, UTF-8, sizes, near names. */
#include "base/fault.h"
#include "base/memory.h"
#include "base/digits.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/nearest.h"
#include "base/text.h"
#include "harness.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check_growing(bool secret)
{
    uint64_t before = mem_live();
    struct text t = {.secret = secret};
    text_add(&t, "");
    CHECK(t.data == NULL && t.length == 0);
    text_addf(&t, "%s", "");
    CHECK(t.data == NULL);
    text_add(&t, "a");
    text_add_n(&t, "bcdef", 3);
    text_addf(&t, "-%d-%s", 42, "x");
    CHECK_STR(t.data, "abcd-42-x");
    CHECK_INT(t.length, 9);
    text_add_n(&t, "\0\0", 2);
    CHECK_INT(t.length, 11);
    for (int i = 0; i < 1000; i++)
        text_addf(&t, "%d,", i);
    CHECK_INT(t.length, strlen("abcd-42-x") + 2 + 3890);
    CHECK(t.length < t.capacity && t.data[t.length] == '\0' && !t.failed);
    text_finish(&t);
    CHECK(t.data == NULL && t.length == 0 && t.capacity == 0);
    text_finish(&t);
    CHECK_INT(mem_live(), before);
}

static void test_growing(void)
{
    check_growing(false);
    check_growing(true);
}

static void test_shell(void)
{
    static const char *const words[][2] = {
        {"runs/first", "runs/first"}, {"", "''"}, {"a b", "'a b'"}, {"x;y", "'x;y'"}, {"it's", "'it'\\''s'"}};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        struct text t = {0};
        text_add_shell(&t, words[i][0]);
        CHECK_STR(t.data, words[i][1]);
        text_finish(&t);
    }
}

static void build(struct text *t)
{
    for (int i = 0; i < 30; i++) {
        text_add(t, "name: ");
        text_add_json(t, "\"q\"\n\xff…", 8);
        text_addf(t, " %0100d\n", i);
    }
}

static void test_faults(void)
{
    uint64_t before = mem_live();
    struct text whole = {0};
    build(&whole);
    CHECK(!whole.failed);
    for (int forever = 0; forever < 2; forever++) {
        for (uint64_t n = 0;; n++) {
            struct text t = {.secret = n % 2};
            test_fault_arm(FAULT_MEMORY, n, forever);
            build(&t);
            bool hit = test_fault_calls() > n;
            CHECK(!hit || test_fault_calls() == n + 1); /* failed text asks for nothing more */
            test_fault_clear();
            CHECK_INT(t.failed, hit);
            CHECK(t.length <= whole.length && (t.length == 0 || memcmp(t.data, whole.data, t.length) == 0));
            text_finish(&t);
            if (!hit)
                break;
        }
    }
    text_finish(&whole);
    CHECK_INT(mem_live(), before);
}

static void check_json(const char *bytes, size_t n, const char *want)
{
    struct text t = {0};
    char *exact = malloc(n ? n : 1); /* without a NUL behind it, for the sanitizer */
    if (!exact)
        abort();
    memcpy(exact, bytes, n);
    text_add_json(&t, exact, n);
    CHECK_STR(t.data, want);
    CHECK(text_is_utf8(t.data, t.length));
    text_finish(&t);
    free(exact);
}

#define JSON(bytes, want) check_json(bytes, sizeof(bytes) - 1, "\"" want "\"")
#define BAD               "\xef\xbf\xbd"

static void test_json(void)
{
    JSON("", "");
    JSON("plain text /", "plain text /");
    JSON("say \"hi\" \\ there", "say \\\"hi\\\" \\\\ there");
    JSON("\b\f\n\r\t", "\\b\\f\\n\\r\\t");
    JSON("\0\x01\x1f\x7f", "\\u0000\\u0001\\u001f\\u007f");
    JSON("\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0"); /* commands to some terminals */
    JSON("é…😀", "é…😀");
    JSON("\x80", BAD);
    JSON("\xff\xfe", BAD BAD);
    JSON("a\xc3", "a" BAD);                    /* cut off at the end */
    JSON("\xe2\x80", BAD);                     /* one start of a character, one mark */
    JSON("\xe2\x80x", BAD "x");                /* the next character survives */
    JSON("\xf0\x9f\x98\"", BAD "\\\"");        /* so does a quote */
    JSON("\xc0\xaf", BAD BAD);                 /* overlong */
    JSON("\xe0\x80\xaf", BAD BAD BAD);         /* overlong */
    JSON("\xed\xa0\x80", BAD BAD BAD);         /* a surrogate */
    JSON("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* beyond the last code point */
    JSON("\xf5\x80", BAD BAD);
    JSON("\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80", "\xf4\x8f\xbf\xbf\xed\x9f\xbf\xee\x80\x80");
}

/* The whole writer: commas, keys, lines and numbers. */
static void test_json_writer(void)
{
    struct text t = {0};
    struct json j = {.put = text_put, .to = &t, .indent = 2};
    json_begin_object(&j, NULL);
    json_lines(&j);
    json_string(&j, "a\"b", "x");
    json_string(&j, "none", NULL);
    json_begin_array(&j, "list");
    json_uint(&j, NULL, UINT64_MAX);
    json_int(&j, NULL, INT64_MIN);
    json_number(&j, NULL, 0.1);
    json_number(&j, NULL, 1.0 / 0.0);
    json_begin_object(&j, NULL);
    json_end_object(&j);
    json_end_array(&j);
    json_begin_array(&j, "lines");
    json_lines(&j);
    for (int i = 0; i < 2; i++) {
        json_begin_object(&j, NULL);
        json_bool(&j, "yes", i == 0);
        json_format(&j, "text", "%d of %d", i, 2);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_begin_array(&j, "empty");
    json_lines(&j);
    json_end_array(&j);
    json_null(&j, "last");
    json_end_object(&j);
    CHECK_STR(t.data, "{\n"
                      "  \"a\\\"b\": \"x\",\n"
                      "  \"none\": null,\n"
                      "  \"list\": [18446744073709551615, -9223372036854775808, 0.1, null, {}],\n"
                      "  \"lines\": [\n"
                      "    {\"yes\": true, \"text\": \"0 of 2\"},\n"
                      "    {\"yes\": false, \"text\": \"1 of 2\"}\n"
                      "  ],\n"
                      "  \"empty\": [],\n"
                      "  \"last\": null\n"
                      "}");
    text_finish(&t);
}

/* Encodes every code point, and checks the encoding of every surrogate to be refused. */
static void test_utf8(void)
{
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        unsigned char s[4];
        size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
        for (size_t i = n; i-- > 1;)
            s[i] = (unsigned char)(0x80 | (c >> (6 * (n - 1 - i)) & 0x3f));
        s[0] = (unsigned char)(n == 1 ? c : (0xf00u >> n & 0xff) | c >> 6 * (n - 1));
        bool want = c < 0xd800 || c > 0xdfff;
        if (text_is_utf8(s, n) != want)
            CHECK_MSG(false, "U+%04X", c);
        if (n > 1 && text_is_utf8(s, n - 1))
            CHECK_MSG(false, "U+%04X without its last byte", c);
    }
    CHECK(text_is_utf8("", 0));
    CHECK(text_is_utf8("plain", 5));
    CHECK(!text_is_utf8("pl\xff", 3));
    CHECK(!text_is_utf8("\xc1\xbf", 2));
    CHECK(!text_is_utf8("\xf0\x80\x80\x80", 4));
}

static void test_bytes(void)
{
    static const struct {
        const char *text;
        uint64_t want;
    } good[] = {
        {"0", 0},
        {"123", 123},
        {"5B", 5},
        {"64M", 64u << 20},
        {"1.5GiB", UINT64_C(3) << 29},
        {"200kB", 200u << 10},
        {"1K", 1024},
        {"1k", 1024},
        {"1KiB", 1024},
        {"2T", UINT64_C(2) << 40},
        {".5M", 512u << 10},
        {"1.M", 1u << 20},
        {"1.001953125K", 1026},
        {"0.1K", 102},
        {"18446744073709551615", UINT64_MAX},
        {"16777215T", UINT64_C(16777215) << 40},
    };
    static const char *const bad[] = {"",    "M",   ".",   "-1",  "+1",   " 1",  "1 M",  "1.5", "1.5B", "1X",
                                      "1MM", "1iB", "1Mi", "1e6", "0x10", "1M ", "1,5M", "abc", "1BB",  "1P"};
    static const char *const huge[] = {"18446744073709551616", "16777216T", "99999999999999999999999G",
                                       "16777215.9999999999999T"};
    pst_error e;
    uint64_t v;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        v = 12345;
        CHECK_STATUS(text_parse_bytes(&v, good[i].text, &e), PST_OK, &e);
        CHECK_MSG(v == good[i].want, "%s is %llu, expected %llu", good[i].text, (unsigned long long)v,
                  (unsigned long long)good[i].want);
    }
    v = 12345;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        CHECK_MSG(text_parse_bytes(&v, bad[i], &e) == PST_EINVAL, "\"%s\" was taken for a size", bad[i]);
        CHECK(strstr(e.message, bad[i]) && strstr(e.message, "64M"));
    }
    for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
        CHECK_MSG(text_parse_bytes(&v, huge[i], &e) == PST_EINVAL, "\"%s\" was taken for a size", huge[i]);
        CHECK(strstr(e.message, "2^64") != NULL);
    }
    CHECK_INT(v, 12345); /* written only on success */
}

static void test_compare(void)
{
    const char *names[] = {"b", "a10", "A", "a2", "", "\xc3\xa9", "a"};
    const char *want[] = {"", "A", "a", "a10", "a2", "b", "\xc3\xa9"};
    qsort(names, 7, sizeof(names[0]), text_compare);
    for (int i = 0; i < 7; i++)
        CHECK_STR(names[i], want[i]);
}

/* A locale with a decimal comma, made for this test. False: the system has no tool or no definitions for it. */
static bool comma_locale(void)
{
    char command[4096];
    snprintf(command, sizeof(command), "localedef -i de_DE -f UTF-8 %s >/dev/null 2>&1", test_path("de_DE.UTF-8"));
    bool made = system(command) == 0;
    setenv("LOCPATH", test_folder(), 1);
    return made && setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

static void test_locale(void)
{
    struct text t = {0};
    struct json j = {.put = text_put, .to = &t};
    struct json_document d;
    pst_error error;
    char buffer[DIGITS_SIZE], plain[DIGITS_SIZE], *end;
    double number = 0;
    bool comma = comma_locale();
    snprintf(plain, sizeof(plain), "%.2f", 0.25);
    CHECK_STR(plain, comma ? "0,25" : "0.25"); /* the rest holds in any locale, but shows nothing without a comma */
    if (!comma)
        printf("# no locale with a decimal comma can be made here\n");
    json_begin_object(&j, NULL);
    json_number(&j, "x", 0.1);
    json_end_object(&j);
    CHECK_STR(t.data, "{\"x\": 0.1}");
    REQUIRE_OK(json_parse(&d, t.data, t.length, &error), &error);
    CHECK(json_get_number(&d, json_find(&d, 0, "x"), &number) && number == 0.1);
    json_finish(&d);
    text_finish(&t);
    text_addf(&t, "%g", 1.5);
    CHECK_STR(t.data, "1.5");
    text_finish(&t);
    CHECK_STR(text_bytes(1536, buffer, sizeof(buffer)), "1.5 KiB");
    CHECK_STR(digits_shortest(0.3, 1, buffer), "0.3");
    CHECK_STR(digits_shortest_float(0.3f, 1, buffer), "0.3");
    CHECK(digits_double("2.5x", &end) == 2.5 && *end == 'x');
    CHECK(digits_float("2.5", NULL) == 2.5f);
    pst_fail(&error, PST_EINVAL, "expected %g", 0.5);
    CHECK_STR(error.message, "expected 0.5");
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
}

static void test_nearest(void)
{
    static const char *const options[] = {"--shards", "--shard-size", "--shuffle", "--resize", "--quality",
                                          "jpeg",     "png",          "",          NULL};
    CHECK_STR(text_nearest("--shard", options), "--shards");
    CHECK_STR(text_nearest("--shrads", options), "--shards");
    CHECK_STR(text_nearest("--reszie", options), "--resize");
    CHECK_STR(text_nearest("--QUALITY", options), "--quality");
    CHECK_STR(text_nearest("--shardsize", options), "--shard-size");
    CHECK_STR(text_nearest("jpg", options), "jpeg");
    CHECK_STR(text_nearest("pgn", options), "png");
    CHECK_STR(text_nearest("png", options), "png");
    CHECK(text_nearest("gif", options) == NULL);
    CHECK(text_nearest("--verbose", options) == NULL);
    CHECK_STR(text_nearest("--qual", options), "--quality"); /* an abbreviation */
    static const char *const operations[] = {"folder", "files", "shuffle", "random_crop", "normalize", NULL};
    CHECK(text_nearest("filter", operations) == NULL);
    CHECK(text_nearest("flip", operations) == NULL);
    CHECK_STR(text_nearest("foldr", operations), "folder");
    CHECK_STR(text_nearest("shuffel", operations), "shuffle");
    CHECK_STR(text_nearest("Shufle", operations), "shuffle");
    CHECK_STR(text_nearest("radom_corp", operations), "random_crop");
    CHECK_STR(text_nearest("normalise", operations), "normalize");
    CHECK_STR(text_nearest("norm", operations), "normalize");
    CHECK(text_nearest("no", operations) == NULL);
    CHECK(text_nearest("", options) == NULL);
    CHECK(text_nearest("x", options) == NULL);
    CHECK(text_nearest("png", options + 8) == NULL);
    char word[200];
    memset(word, 'x', 199);
    word[199] = '\0';
    const char *long_one[] = {word, NULL};
    CHECK(text_nearest(word, long_one) == NULL);
    CHECK(text_nearest("xxx", long_one) == NULL);
}

static const struct test tests[] = {
    {"growing text", test_growing},
    {"words for a shell", test_shell},
    {"text: the Nth allocation fails", test_faults},
    {"JSON strings", test_json},
    {"JSON writer", test_json_writer},
    {"UTF-8: every code point", test_utf8},
    {"sizes in bytes", test_bytes},
    {"byte order of names", test_compare},
    {"numbers in a locale with a decimal comma", test_locale},
    {"names that were nearly right", test_nearest},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
