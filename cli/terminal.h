/* terminal.h: capabilities of the terminal of a stream. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

bool terminal_is(FILE *stream);      /* a terminal that can move its cursor (TERM is not dumb) */
bool terminal_color(FILE *stream);   /* …and NO_COLOR is not set */
size_t terminal_width(FILE *stream); /* in columns; 80 if unknown */
bool terminal_utf8(void);            /* the locale's text is UTF-8 */

/* A bar of `columns` that is filled by `share`, 0 to 1. */
void terminal_bar(FILE *stream, size_t columns, double share);

/* Escape sequences, or "" where the stream has no colour. */
const char *style_bold(FILE *stream);
const char *style_dim(FILE *stream);
const char *style_red(FILE *stream);
const char *style_none(FILE *stream);

#endif
