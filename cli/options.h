/* options.h: from argv to a command's config, by its option table. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include "cli/command.h"

struct parsed {
    void *config;          /* config_size bytes, or NULL */
    const char **operands; /* pointers into argv */
    size_t count;
    bool *given; /* one per option_at: whether the command line has it */
    bool help; /* --help or -h was given: arguments after it were not read */
};

/* All options of a command in order, its own and the shared ones. NULL after the last. */
const struct option *option_at(const struct command *command, size_t i);

/* Returns EXIT_DONE, or prints the error and returns EXIT_USAGE. options_finish in both cases. */
int options_parse(struct parsed *ret, const struct command *command, int argc, char **argv);
void options_finish(struct parsed *parsed, const struct command *command);

/* An option in words, for help and man page: its doc, what it accepts, its default. Truncates safely; returns `buffer`. */
char *option_text(const struct option *option, char *buffer, size_t size);

#endif
