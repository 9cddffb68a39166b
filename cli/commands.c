/* commands.c: the only list of commands, and what their exit codes mean. */
#include "base/nearest.h"
#include "cli/command.h"
#include "cli/say.h"
#include <string.h>

const struct command *const commands[] = {
    &command_pack,  &command_inspect, &command_index,    &command_repair, &command_plan,    &command_bench, &command_top,      &command_doctor, &command_cat,
    &command_cache,
    &command_ops,   &command_model,   &command_train,    &command_lr_find, &command_eval,   &command_compress, &command_predict, &command_export, &command_generate,   &command_help,
    &command_version, &command_completion, &command_man, NULL,
};

struct option_list command_arguments;

const struct exit_meaning exit_meanings[] = {
    {EXIT_DONE, "done"},
    {EXIT_FAILED, "failed: a file could not be read or written, the output exists, memory ran out"},
    {EXIT_USAGE, "wrong input: the command line, an option's value, the pipeline's text or a field that it names"},
    {EXIT_DAMAGE, "the data are damaged, or not what they were declared to be"},
    {EXIT_INTERRUPTED, "interrupted by Ctrl-C (other signals: 128 + the signal's number)"},
    {0},
};

const struct command *command_find(const char *name)
{
    const char *names[sizeof(commands) / sizeof(commands[0])], *nearest;
    size_t count = 0;

    for (; commands[count]; count++) {
        if (strcmp(commands[count]->name, name) == 0)
            return commands[count];
        names[count] = commands[count]->name;
    }
    say_error("unknown command %s", name);
    names[count] = NULL;
    nearest = text_nearest(name, names);
    if (nearest)
        say_try("penstock %s", nearest);
    else
        say_try("penstock help");
    return NULL;
}
