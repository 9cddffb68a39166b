/* usage.h: help for people, from the command table, wrapped to the width of the stream. */
#ifndef CLI_USAGE_H
#define CLI_USAGE_H

#include "cli/command.h"
#include <stdio.h>

void usage_overview(FILE *out);
void usage_command(FILE *out, const struct command *command);

#endif
