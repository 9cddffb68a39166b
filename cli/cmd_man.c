/* cmd_man.c: `penstock man`: the man pages, made of the same tables as the help. The build installs them. */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/utf8.h"
#include <ctype.h>
#include <penstock/base.h>
#include <stdio.h>
#include <string.h>

/* Prints `n` bytes of text with roff's special characters escaped. */
static void put_roff(const char *s, size_t n)
{
    bool line_start = true;

    for (size_t i = 0; i < n;) {
        uint32_t c = '?';
        size_t width = utf8_decode(s + i, n - i, &c);

        if (c == '-')
            fputs("\\-", stdout);
        else if (c == '\\')
            fputs("\\e", stdout);
        else if (c >= 0x80)
            printf("\\[u%04X]", (unsigned)c);
        else
            printf("%s%c", line_start && (c == '.' || c == '\'') ? "\\&" : "", (int)c);
        line_start = c == '\n';
        i += width ? width : 1;
    }
}

static void put(const char *s)
{
    put_roff(s, strlen(s));
}

static void put_title(const char *page)
{
    fputs(".TH ", stdout);
    for (; *page; page++)
        putchar(toupper((unsigned char)*page));
    printf(" 1 \"\" \"penstock %s\" \"Penstock manual\"\n", pst_version());
}

static void put_doc(const char *doc)
{
    while (*doc) {
        const char *end = strstr(doc, "\n\n");
        size_t n = end ? (size_t)(end - doc) : strlen(doc);
        bool as_it_is = doc[0] == ' ';

        puts(as_it_is ? ".PP\n.nf" : ".PP");
        put_roff(doc, n);
        puts(as_it_is ? "\n.fi" : "");
        doc += n + (end ? 2 : 0);
    }
}

static void put_option(const struct option *o)
{
    char text[1024];
    size_t length = strlen(option_text(o, text, sizeof(text)));

    fputs(".TP\n", stdout);
    if (o->letter)
        printf("\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB", stdout);
    put(o->name);
    fputs("\\fR", stdout);
    if (o->metavar) {
        fputs(" \\fI", stdout);
        put(o->metavar);
        fputs("\\fR", stdout);
    }
    putchar('\n');
    put(text);
    puts(length && text[length - 1] == '.' ? "" : ".");
}

static void put_options(const struct command *command)
{
    static const struct option help = {"--help", 'h', .doc = "show the help"};
    const struct option *o;

    puts(".SH OPTIONS");
    for (size_t i = 0; (o = option_at(command, i)) != NULL; i++) {
        if (o->group) {
            fputs(".SS ", stdout);
            put(o->group);
            putchar('\n');
        }
        put_option(o);
    }
    put_option(&help);
    puts(".PP\nThe prefix \\fB\\-\\-no\\-\\fR turns a flag off; if a flag is given several times, the last one counts.");
}

static void put_exit_status(void)
{
    puts(".SH EXIT STATUS");
    for (const struct exit_meaning *e = exit_meanings; e->meaning; e++) {
        printf(".TP\n.B %d\n", e->code);
        put(e->meaning);
        puts(".");
    }
}

static void put_environment(void)
{
    puts(".SH ENVIRONMENT\n"
         ".TP\n.B NO_COLOR\nset and not empty: no colours.\n"
         ".TP\n.B TERM\nif it is \\fBdumb\\fR, progress is printed as plain lines.\n"
         ".TP\n.B COLUMNS\nthe width of the help and of the progress bar; overrides the width of the terminal.\n"
         ".TP\n.B XDG_CACHE_HOME\nindexes of shards in read\\-only folders go to its folder \\fBpenstock\\fR (default: "
         "\\fB~/.cache/penstock\\fR).");
}

static void put_see_also(const struct command *self)
{
    puts(".SH SEE ALSO");
    if (self)
        fputs(".BR penstock (1)", stdout);
    for (size_t i = 0, count = self != NULL; commands[i]; i++) {
        if (commands[i] != self)
            printf("%s.BR penstock\\-%s (1)", count++ ? ",\n" : "", commands[i]->name);
    }
    putchar('\n');
}

static void put_command_page(const struct command *command)
{
    char page[64];

    snprintf(page, sizeof(page), "penstock-%s", command->name);
    put_title(page);
    printf(".SH NAME\npenstock\\-%s \\- ", command->name);
    put(command->summary);
    printf("\n.SH SYNOPSIS\n.B penstock %s\n", command->name);
    if (option_at(command, 0))
        puts("[\\fIOPTION\\fR...]");
    if (command->usage[0]) {
        fputs(".I ", stdout);
        put(command->usage);
        putchar('\n');
    }
    puts(".SH DESCRIPTION");
    put_doc(command->doc);
    put_options(command);
    if (command->examples)
        puts(".SH EXAMPLES");
    for (const struct example *e = command->examples; e && e->command; e++) {
        puts(".PP");
        put(e->what);
        puts(":\n.PP\n.RS 4\n.nf");
        put(e->command);
        puts("\n.fi\n.RE");
    }
    put_exit_status();
    put_environment();
    put_see_also(command);
}

static void put_overview_page(void)
{
    put_title("penstock");
    puts(".SH NAME\npenstock \\- packs, inspects, checks and feeds training data\n"
         ".SH SYNOPSIS\n.B penstock\n\\fICOMMAND\\fR [\\fIOPTION\\fR...] [\\fIOPERAND\\fR...]\n"
         ".SH DESCRIPTION\n"
         "Penstock keeps model training fed: it packs files, arrays and tables into shards of records that every framework "
         "can read, reports what shards contain, checks them for damage, and plans, measures and shows the pipelines that turn "
         "them into batches. Shards are TFRecord files of tf.train.Example.\n"
         ".SH COMMANDS");
    for (size_t i = 0; commands[i]; i++) {
        printf(".TP\n.BR penstock\\-%s (1)\n", commands[i]->name);
        put(commands[i]->summary);
        puts(".");
    }
    put_exit_status();
    put_environment();
    put_see_also(NULL);
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct command *command = count ? command_find(operands[0]) : NULL;

    (void)config;
    if (count && !command)
        return EXIT_USAGE;
    if (command)
        put_command_page(command);
    else
        put_overview_page();
    return EXIT_DONE;
}

static const struct example examples[] = {
    {"read the page of pack without installing it", "penstock man pack | man -l -"},
    {0},
};

const struct command command_man = {
    .name = "man",
    .summary = "print a man page",
    .usage = "[COMMAND]",
    .doc = "Prints the man page of COMMAND, or of the tool itself, as roff.",
    .examples = examples,
    .max_operands = 1,
    .completion = COMPLETE_COMMANDS,
    .run = run,
};
