/* test_words.c: the tool's small change: UTF-8, cleaned text, quoted words, amounts, JSON. */
#include "cli/json.h"
#include "cli/say.h"
#include "cli/utf8.h"
#include "harness.h"
#include <stdlib.h>
#include <string.h>

static void test_utf8(void)
{
    static const struct {
        const char *bytes;
        size_t length, width;
        uint32_t code;
    } cases[] = {
        {"a", 1, 1, 'a'},
        {"\xc3\xa9", 2, 2, 0xe9},
        {"\xe2\x82\xac", 3, 3, 0x20ac},
        {"\xf0\x9f\x98\x80", 4, 4, 0x1f600},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10ffff},
        {"", 0, 0, 0},                 /* nothing */
        {"\x80", 1, 0, 0},             /* a continuation alone */
        {"\xc3", 1, 0, 0},             /* cut off */
        {"\xc0\xaf", 2, 0, 0},         /* overlong */
        {"\xe0\x80\xaf", 3, 0, 0},     /* overlong */
        {"\xed\xa0\x80", 3, 0, 0},     /* a surrogate */
        {"\xf4\x90\x80\x80", 4, 0, 0}, /* above U+10FFFF */
        {"\xff", 1, 0, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t code = 0;

        CHECK_INT(utf8_decode(cases[i].bytes, cases[i].length, &code), cases[i].width);
        if (cases[i].width)
            CHECK_INT(code, cases[i].code);
    }
    CHECK_INT(utf8_columns("ab\xe6\x97\xa5", 5), 4); /* a CJK character takes two columns */
}

static void test_clean_text(void)
{
    char buffer[64];

    CHECK_STR(clean_text(buffer, sizeof(buffer), "plain é 日本"), "plain é 日本");
    CHECK_STR(clean_text(buffer, sizeof(buffer), "a\nb\tc\rd"), "a\\nb\\tc\\rd");
    CHECK_STR(clean_text(buffer, sizeof(buffer), "\033[31m\x7f"), "\\x1b[31m\\x7f");
    CHECK_STR(clean_text(buffer, sizeof(buffer), "\xff\xc3"), "\\xff\\xc3");
    CHECK_STR(clean_text(buffer, sizeof(buffer),
                         "\xc2\x9b"
                         "31m"),
              "\\u009b31m");
    CHECK_STR(clean_text(buffer, sizeof(buffer), "\xe2\x80\xae"), "\\u202e");
    CHECK_STR(clean_text(buffer, 6, "abc\033def"), "abc"); /* an escape is not cut in two */
    CHECK_STR(clean_text(buffer, 1, "abc"), "");
}

static void test_shell_word(void)
{
    char buffer[64];

    CHECK_STR(shell_word(buffer, sizeof(buffer), "shards/a-1.tfrecord"), "shards/a-1.tfrecord");
    CHECK_STR(shell_word(buffer, sizeof(buffer), "a b"), "'a b'");
    CHECK_STR(shell_word(buffer, sizeof(buffer), "it's"), "'it'\\''s'");
    CHECK_STR(shell_word(buffer, sizeof(buffer), "$(x)"), "'$(x)'");
    CHECK_STR(shell_word(buffer, sizeof(buffer), "-rf"), "./-rf");
    CHECK_STR(shell_word(buffer, sizeof(buffer), "- x"), "'./- x'");
    CHECK_STR(shell_word(buffer, sizeof(buffer), ""), "''");
}

static void test_amounts(void)
{
    char b[AMOUNT_SIZE];

    CHECK_STR(amount_count(b, 0), "0");
    CHECK_STR(amount_count(b, 999), "999");
    CHECK_STR(amount_count(b, 1000), "1,000");
    CHECK_STR(amount_count(b, UINT64_MAX), "18,446,744,073,709,551,615");
    CHECK_STR(amount_bytes(b, 0), "0 bytes");
    CHECK_STR(amount_bytes(b, 999), "999 bytes");
    CHECK_STR(amount_bytes(b, 1000), "1.0 kB");
    CHECK_STR(amount_bytes(b, 9960), "10 kB");
    CHECK_STR(amount_bytes(b, 999600), "1.0 MB");
    CHECK_STR(amount_bytes(b, 1.5e9), "1.5 GB");
    CHECK_STR(amount_time(b, 0.04), "0.0 s");
    CHECK_STR(amount_time(b, 9.96), "10 s");
    CHECK_STR(amount_time(b, 59.6), "1:00");
    CHECK_STR(amount_time(b, 187), "3:07");
    CHECK_STR(amount_time(b, 3753), "1:02:33");
}

static void test_json(void)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    struct json j = json_to(out);

    REQUIRE(out != NULL);
    json_begin_object(&j, NULL);
    json_string(&j, "a\"b", "line\nquote\"back\\\033 \xc3\xa9 \xff");
    json_string(&j, "none", NULL);
    json_begin_array(&j, "list");
    json_uint(&j, NULL, UINT64_MAX);
    json_int(&j, NULL, INT64_MIN);
    json_number(&j, NULL, 0.1);
    json_number(&j, NULL, 1.0 / 0.0);
    json_begin_object(&j, NULL);
    json_end_object(&j);
    json_end_array(&j);
    json_bool(&j, "yes", true);
    json_end_object(&j);
    fclose(out);
    CHECK_STR(text, "{\"a\\\"b\": \"line\\nquote\\\"back\\\\\\u001b \xc3\xa9 \xef\xbf\xbd\", \"none\": null, "
                    "\"list\": [18446744073709551615, -9223372036854775808, 0.1, null, {}], \"yes\": true}");
    free(text);
}

static const struct test tests[] = {
    {"utf8", test_utf8},
    {"clean_text", test_clean_text},
    {"shell_word", test_shell_word},
    {"amounts", test_amounts},
    {"json", test_json},
    {0},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
