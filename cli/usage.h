/* usage.h: help for people, from the command table, wrapped to the width of the stream. */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include "cli/command.h"
#include <stdio.h>

void usage_overview(FILE *out);
void usage_command(FILE *out, const struct command *command);

/* Prints the words of `text` (`n` bytes) from column `at` on, continuing at `indent`; ends the line. */
void usage_wrap(FILE *out, const char *text, size_t n, size_t at, size_t indent);

#endif
