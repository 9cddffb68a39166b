/* train_check.c: see train_check.h. */
#include "cli/train_check.h"
#include "cli/options.h"
#include "cli/say.h"
#include <dirent.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int train_check_resume(const struct command *command, const char *run)
{
    struct parsed parsed = {0};
    const struct option *o;
    int code = options_parse(&parsed, command, (int)command_arguments.count, (char **)(uintptr_t)command_arguments.items);

    for (size_t i = 0; code == EXIT_DONE && (o = option_at(command, i)) != NULL; i++)
        if (parsed.given[i] && !o->resumes)
            code = say_usage(command, "a run that is resumed keeps its options, and %s cannot change; leave it out, or begin a new run with --weights %s",
                             o->name, run);
    options_finish(&parsed, command);
    return code;
}

/* Whether a name belongs to the folder of a run, also of one that was stopped before its first checkpoint. Names with a dot are hidden. */
static bool is_of_run(const char *name)
{
    static const char *const names[] = {"latest", "best", "logs", "report.html", "trace.json"};

    if (name[0] == '.' || strncmp(name, "step_", 5) == 0)
        return true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

int train_check_out(const char *out)
{
    DIR *folder = strstr(out, "://") ? NULL : opendir(out);
    struct dirent *e;
    int code = EXIT_DONE;

    while (folder && code == EXIT_DONE && (e = readdir(folder)) != NULL)
        if (!is_of_run(e->d_name)) {
            say_error("%s is a folder with other files, such as %s, and not a run", out, e->d_name);
            say_try("penstock train … --out %s/run", out);
            code = EXIT_USAGE;
        }
    if (folder)
        closedir(folder);
    return code;
}

int train_find_run(const struct command *command, const char *path, char run[PATH_MAX])
{
    char whole[PATH_MAX], newest[PATH_MAX], state[PATH_MAX + 16], latest[PATH_MAX + 16], *slash;

    snprintf(run, PATH_MAX, "%s", path);
    snprintf(state, sizeof(state), "%s/state.json", path);
    if (access(state, F_OK) < 0 || !realpath(path, whole) || (slash = strrchr(whole, '/')) == NULL)
        return EXIT_DONE;
    snprintf(latest, sizeof(latest), "%.*s/latest", (int)(slash - whole), whole);
    if (!realpath(latest, newest)) /* it stands alone: what follows says that it is not a run */
        return EXIT_DONE;
    if (strcmp(newest, whole) != 0)
        return say_usage(command, "%s is one checkpoint; a run continues from its newest: give the folder of the run, or begin a new run with --weights %s", path,
                         path);
    snprintf(run, PATH_MAX, "%.*s", (int)(slash - whole), whole);
    return EXIT_DONE;
}

void train_note_frozen(const struct train_config *c, const pst_model *model)
{
    pst_model_param p = {.size = sizeof(p)};
    size_t trained = 0;

    for (size_t i = 0; pst_model_param_at(model, i, &p); i++) {
        const char *slash = strrchr(p.name, '/');
        char layer[256];
        bool frozen = p.fixed;

        snprintf(layer, sizeof(layer), "%.*s", (int)(slash ? (size_t)(slash - p.name) : strlen(p.name)), p.name);
        for (size_t k = 0; !frozen && k < c->freeze.count; k++)
            frozen = fnmatch(c->freeze.items[k], layer, 0) == 0 || fnmatch(c->freeze.items[k], p.name, 0) == 0;
        trained += !frozen;
    }
    if (c->freeze.count && trained == 0)
        say_note("--freeze names every layer with parameters: nothing is trained");
}
