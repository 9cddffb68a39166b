/* cmd_version.c: `penstock version`. */
#include "cli/command.h"
#include "cli/json.h"
#include <penstock/base.h>

struct config {
    bool json;
};

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct json j = json_to(stdout);

    (void)operands;
    (void)count;
    if (!c->json) {
        printf("penstock %s\n", pst_version());
        return EXIT_DONE;
    }
    json_begin_object(&j, NULL);
    json_string(&j, "version", pst_version());
    json_end_object(&j);
    putchar('\n');
    return EXIT_DONE;
}

static const struct option options[] = {
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print a JSON object"},
    {0},
};

const struct command command_version = {
    .name = "version",
    .summary = "print the version",
    .usage = "",
    .doc = "Prints the version of the library that the tool uses.",
    .options = options,
    .config_size = sizeof(struct config),
    .run = run,
};
