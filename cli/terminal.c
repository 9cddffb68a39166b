/* terminal.c: asks the system and the environment; keeps nothing. */
#include "cli/terminal.h"
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_is(FILE *stream)
{
    const char *term = getenv("TERM");

    return isatty(fileno(stream)) && term && term[0] && strcmp(term, "dumb") != 0;
}

bool terminal_color(FILE *stream)
{
    const char *no_color = getenv("NO_COLOR");

    return terminal_is(stream) && !(no_color && no_color[0]);
}

size_t terminal_width(FILE *stream)
{
    const char *columns = getenv("COLUMNS");
    struct winsize size;
    unsigned long width = columns ? strtoul(columns, NULL, 10) : 0;

    if (width > 0 && width < 10000)
        return width;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

bool terminal_utf8(void)
{
    return strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

static const char *style(FILE *stream, const char *sequence)
{
    return terminal_color(stream) ? sequence : "";
}

const char *style_bold(FILE *stream)
{
    return style(stream, "\033[1m");
}

const char *style_dim(FILE *stream)
{
    return style(stream, "\033[2m");
}

const char *style_red(FILE *stream)
{
    return style(stream, "\033[1;31m");
}

const char *style_none(FILE *stream)
{
    return style(stream, "\033[0m");
}

void terminal_bar(FILE *stream, size_t columns, double share)
{
    bool utf8 = terminal_utf8();
    size_t halves = (size_t)(share * (double)(2 * columns) + 0.5);

    for (size_t i = 0; i < halves / 2; i++)
        fputs(utf8 ? "━" : "#", stream);
    if (halves % 2)
        fputs(utf8 ? "╸" : "-", stream);
    fputs(style_dim(stream), stream);
    for (size_t i = (halves + 1) / 2; i < columns; i++)
        fputs(utf8 ? "─" : ".", stream);
    fputs(style_none(stream), stream);
}
