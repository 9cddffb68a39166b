/* cmd_help.c: `penstock help`. */
#include "cli/command.h"
#include "cli/usage.h"

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct command *command = NULL;

    (void)config;
    if (count == 0) {
        usage_overview(stdout);
        return EXIT_DONE;
    }
    command = command_find(operands[0]);
    if (!command)
        return EXIT_USAGE;
    usage_command(stdout, command);
    return EXIT_DONE;
}

const struct command command_help = {
    .name = "help",
    .summary = "explain a command, or list all commands",
    .usage = "[COMMAND]",
    .doc = "Explains COMMAND with all its options and some examples. Without COMMAND, lists the commands.",
    .max_operands = 1,
    .completion = COMPLETE_COMMANDS,
    .run = run,
};
