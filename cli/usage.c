/* usage.c: lays out the help: paragraphs and a two-column list of options, wrapped. */
#include "cli/usage.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "cli/utf8.h"
#include <string.h>

enum { COLUMN = 26, NARROWEST = 40, WIDEST = 120 };

static size_t usable_width(FILE *out)
{
    size_t width = terminal_width(out);

    return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width;
}

void usage_wrap(FILE *out, const char *text, size_t n, size_t at, size_t indent)
{
    size_t width = usable_width(out) - 1;
    bool first = true;

    for (size_t i = 0; i < n;) {
        size_t word = strcspn(text + i, " \n");
        size_t columns;

        if (word > n - i)
            word = n - i;
        columns = utf8_columns(text + i, word);
        if (!first && at + 1 + columns > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            first = true;
        }
        if (word > 0) {
            fprintf(out, "%s%.*s", first ? "" : " ", (int)word, text + i);
            at += columns + !first;
            first = false;
        }
        i += word + 1;
    }
    fputc('\n', out);
}

/* Paragraphs; lines that start with a space stay as they are. */
static void put_doc(FILE *out, const char *doc)
{
    while (*doc) {
        const char *end = strstr(doc, "\n\n");
        size_t n = end ? (size_t)(end - doc) : strlen(doc);

        if (doc[0] == ' ')
            fprintf(out, "%.*s\n", (int)n, doc);
        else
            usage_wrap(out, doc, n, 0, 0);
        doc += n + (end ? 2 : 0);
        if (*doc)
            fputc('\n', out);
    }
}

static void put_option(FILE *out, const struct option *o)
{
    char left[64], doc[1024];
    size_t columns;

    snprintf(left, sizeof(left), "  %c%c%s %s%s%s", o->letter ? '-' : ' ', o->letter ? o->letter : ' ', o->letter ? "," : " ",
             o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
    option_text(o, doc, sizeof(doc));
    columns = utf8_columns(left, strlen(left));
    if (columns + 2 > COLUMN)
        fprintf(out, "%s\n%*s", left, COLUMN, "");
    else
        fprintf(out, "%s%*s", left, (int)(COLUMN - columns), "");
    usage_wrap(out, doc, strlen(doc), COLUMN, COLUMN);
}

static void put_heading(FILE *out, const char *heading)
{
    fprintf(out, "\n%s%s:%s\n", style_bold(out), heading, style_none(out));
}

void usage_command(FILE *out, const struct command *command)
{
    static const struct option help = {"--help", 'h', .doc = "show this help"};
    const struct option *o = option_at(command, 0);

    fprintf(out, "%susage:%s penstock %s%s%s%s\n\n", style_bold(out), style_none(out), command->name, o ? " [OPTION...]" : "",
            command->usage[0] ? " " : "", command->usage);
    put_doc(out, command->doc);
    if (!o || !o->group)
        put_heading(out, "Options");
    for (size_t i = 0; (o = option_at(command, i)) != NULL; i++) {
        if (o->group)
            put_heading(out, o->group);
        put_option(out, o);
    }
    put_option(out, &help);
    if (!command->examples)
        return;
    put_heading(out, "Examples");
    for (const struct example *e = command->examples; e->command; e++)
        fprintf(out, "  %s# %s%s\n  %s\n", style_dim(out), e->what, style_none(out), e->command);
}

void usage_overview(FILE *out)
{
    fprintf(out, "%susage:%s penstock COMMAND [OPTION...] [OPERAND...]\n\n", style_bold(out), style_none(out));
    put_doc(
        out,
        "Penstock keeps model training fed: it packs files, arrays and tables into shards of records that every "
        "framework can read, reports what shards contain, checks them for damage, and plans, measures and shows the pipelines "
        "that turn them into batches.");
    put_heading(out, "Commands");
    for (size_t i = 0; commands[i]; i++) {
        fprintf(out, "  %-12s", commands[i]->name);
        usage_wrap(out, commands[i]->summary, strlen(commands[i]->summary), 14, 14);
    }
    put_heading(out, "Exit codes");
    for (const struct exit_meaning *e = exit_meanings; e->meaning; e++) {
        fprintf(out, "  %-12d", e->code);
        usage_wrap(out, e->meaning, strlen(e->meaning), 14, 14);
    }
    fputs("\nMore about a command: penstock help COMMAND\n", out);
}
