/* test_options.c: the option parser on a command of its own that has every kind of option. */
#include "cli/options.h"
#include "harness.h"
#include <stdio.h>
#include <string.h>

struct config {
    int64_t whole;
    uint64_t count, bytes, seed;
    double share;
    const char *name;
    int color;
    struct option_list tags;
    bool loud, no_sync, seeded;
};

static const char *const colors[] = {"red", "green", "blue", NULL};

static const struct option options[] = {
    {"--whole", .metavar = "N", .kind = OPTION_INT, INTO(struct config, whole), .initial = "-5", .min = -10, .max = 10,
     .doc = "w"},
    {"--count", 'c', "N", OPTION_UINT, INTO(struct config, count), .initial = "7", .doc = "how many"},
    {"--bytes", .metavar = "SIZE", .kind = OPTION_BYTES, INTO(struct config, bytes), .initial = "64M", .doc = "how much"},
    {"--share", .metavar = "X", .kind = OPTION_FLOAT, INTO(struct config, share), .min = 0, .max = 1, .doc = "of it"},
    {"--name", 'n', "NAME", OPTION_STRING, INTO(struct config, name), .absent = "none", .doc = "its name"},
    {"--color", .metavar = "C", .kind = OPTION_CHOICE, INTO(struct config, color), .choices = colors, .initial = "green",
     .doc = "c"},
    {"--tag", 't', "TAG", OPTION_REPEATED, INTO(struct config, tags), .doc = "a tag"},
    {"--loud", 'l', .kind = OPTION_FLAG, INTO(struct config, loud), .doc = "shout"},
    {"--no-sync", 's', .kind = OPTION_FLAG, INTO(struct config, no_sync), .doc = "do not wait"},
    {"--seed", .metavar = "S", .kind = OPTION_UINT, INTO(struct config, seed), .given = offsetof(struct config, seeded),
     .doc = "s"},
    {0},
};

static const struct command command = {
    .name = "test", .usage = "[PATH...]", .options = options, .max_operands = 3, .config_size = sizeof(struct config)};

/* Parses words separated by single spaces; the result points into `line`. */
static int parse(struct parsed *ret, char *line)
{
    char *words[32];
    int count = 0;

    for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
        words[count++] = word;
    return options_parse(ret, &command, count, words);
}

static void test_defaults(void)
{
    struct parsed p;
    char line[] = "";
    const struct config *c;

    CHECK_INT(parse(&p, line), EXIT_DONE);
    c = p.config;
    CHECK_INT(c->whole, -5);
    CHECK_INT(c->count, 7);
    CHECK_INT(c->bytes, 64 << 20);
    CHECK_INT(c->color, 1);
    CHECK(c->share == 0 && !c->name && !c->loud && !c->no_sync && !c->seeded && c->tags.count == 0 && p.count == 0);
    options_finish(&p, &command);
}

static void test_every_kind(void)
{
    struct parsed p;
    char line[] =
        "a --whole=-10 -c12 --bytes 1.5kB --share=0.25 -n x --color blue -t one --tag two -ttwo -ls --seed 0 b -- --loud";
    const struct config *c;

    CHECK_INT(parse(&p, line), EXIT_DONE);
    c = p.config;
    CHECK_INT(c->whole, -10);
    CHECK_INT(c->count, 12);
    CHECK_INT(c->bytes, 1536);
    CHECK(c->share == 0.25);
    CHECK_STR(c->name, "x");
    CHECK_INT(c->color, 2);
    REQUIRE(c->tags.count == 3);
    CHECK_STR(c->tags.items[0], "one");
    CHECK_STR(c->tags.items[2], "two");
    CHECK(c->loud && c->no_sync && c->seeded && c->seed == 0);
    REQUIRE(p.count == 3);
    CHECK_STR(p.operands[0], "a");
    CHECK_STR(p.operands[1], "b");
    CHECK_STR(p.operands[2], "--loud");
    options_finish(&p, &command);
}

static void test_flags_are_taken_back(void)
{
    struct parsed p;
    char line[] = "--loud --no-loud --no-sync --sync -";
    const struct config *c;

    CHECK_INT(parse(&p, line), EXIT_DONE);
    c = p.config;
    CHECK(!c->loud && !c->no_sync);
    CHECK_INT(p.count, 1); /* a dash alone is an operand */
    options_finish(&p, &command);
}

static void test_help_ends_the_reading(void)
{
    char first[] = "--help --nonsense", second[] = "-lh --nonsense";
    struct parsed p;

    CHECK_INT(parse(&p, first), EXIT_DONE);
    CHECK(p.help);
    options_finish(&p, &command);
    CHECK_INT(parse(&p, second), EXIT_DONE);
    CHECK(p.help);
    options_finish(&p, &command);
}

static void test_refusals(void)
{
    static const char *const wrong[] = {
        "--whole 11",
        "--whole 1x",
        "--whole",
        "--count -1",
        "--count 18446744073709551616",
        "--count=",
        "--count +1",
        "--bytes 1Q",
        "--bytes -1",
        "--bytes 1e30",
        "--bytes inf",
        "--bytes 1KiBB",
        "--share 1.01",
        "--share nan",
        "--share x",
        "--color",
        "--color purple",
        "--color bluee",
        "--loud=1",
        "--no-name",
        "--cou 3",
        "--seed 0x10",
        "-x",
        "-lx",
        "-n -x",
        "--name --loud",
        "--tag",
        "---",
        "--=3",
        "a b c d",
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct parsed p;
        char line[64];

        snprintf(line, sizeof(line), "%s", wrong[i]);
        CHECK_MSG(parse(&p, line) == EXIT_USAGE, "accepted: %s", wrong[i]);
        options_finish(&p, &command);
    }
}

static void test_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"0", 0},          {"17", 17},       {"17b", 17},       {"1k", 1 << 10},
                 {"1KiB", 1 << 10}, {"2MB", 2 << 20}, {"0.5g", 1 << 29}, {"1T", (uint64_t)1 << 40}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct parsed p;
        char line[64];

        snprintf(line, sizeof(line), "--bytes %s", sizes[i].text);
        CHECK_INT(parse(&p, line), EXIT_DONE);
        CHECK_INT(((const struct config *)p.config)->bytes, sizes[i].bytes);
        options_finish(&p, &command);
    }
}

static void test_words(void)
{
    char text[256];

    CHECK_STR(option_text(&options[0], text, sizeof(text)), "w (-10 to 10; default: -5)");
    CHECK_STR(option_text(&options[3], text, sizeof(text)), "of it (0 to 1)");
    CHECK_STR(option_text(&options[4], text, sizeof(text)), "its name (default: none)");
    CHECK_STR(option_text(&options[5], text, sizeof(text)), "c (red, green, blue; default: green)");
    CHECK_STR(option_text(&options[6], text, sizeof(text)), "a tag; may be given several times");
    CHECK_STR(option_text(&options[7], text, sizeof(text)), "shout");
    CHECK_STR(option_text(&options[5], text, 6), "c (re");
}

static const struct test tests[] = {
    {"defaults", test_defaults},
    {"every_kind", test_every_kind},
    {"flags_are_taken_back", test_flags_are_taken_back},
    {"help_ends_the_reading", test_help_ends_the_reading},
    {"refusals", test_refusals},
    {"sizes", test_sizes},
    {"words", test_words},
    {0},
};

int main(int argc, char **argv)
{
    if (!freopen("/dev/null", "w", stderr)) /* what is said about wrong lines is tested elsewhere */
        return 1;
    return test_main(argc, argv, tests);
}
