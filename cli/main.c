/* main.c: the `penstock` tool: finds the command, reads its options, runs it, and answers the shell.
 *
 * The tool sees the library through its public headers only. What the library must not do (print, read the environment, catch
 * signals, exit) is done here. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/usage.h"
#include <fcntl.h>
#include <locale.h>
#include <penstock/base.h>
#include <penstock/store.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A caller may have closed stdin, stdout or stderr. Their numbers must not go to the next file that is opened: what is printed
 * would end up in it. The stand-in is not writable, so that printing still fails. */
static void fill_standard_descriptors(void)
{
    int fd;

    do
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* A source of many archives or shards holds a descriptor for each; the usual soft limit of 1024 is for select(2), not used
 * here. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static bool is_interrupted(void *user)
{
    (void)user;
    return interrupt_requested();
}

/* Remote data are kept in the user's cache folder; PENSTOCK_CACHE names another one (empty: none), PENSTOCK_CACHE_BYTES its
 * size; PENSTOCK_CACHE_EVICT=lru has old copies make room for new ones. PENSTOCK_CONNECTIONS is the number of connections.
 * Without a folder, PENSTOCK_STORE_MEMORY is the most memory for what is downloaded. PENSTOCK_VIRTUAL_HOST=1: buckets are parts of the host's name. */
static void set_up_stores(void)
{
    const char *folder = getenv("PENSTOCK_CACHE"), *bytes = getenv("PENSTOCK_CACHE_BYTES"), *connections = getenv("PENSTOCK_CONNECTIONS");
    const char *evict = getenv("PENSTOCK_CACHE_EVICT"), *memory = getenv("PENSTOCK_STORE_MEMORY"), *host = getenv("PENSTOCK_VIRTUAL_HOST");
    char user[4096], own[4104];
    pst_store_options options = {.size = sizeof(options), .cache_bytes = bytes ? strtoull(bytes, NULL, 10) : 0,
                                 .virtual_host = host && strcmp(host, "1") == 0,
                                 .cache_evict = evict && strcmp(evict, "lru") == 0,
                                 .connections = connections ? (unsigned)strtoul(connections, NULL, 10) : 0,
                                 .memory_bytes = memory ? strtoull(memory, NULL, 10) : 0};

    if (!folder && default_cache_folder(user, sizeof(user))) {
        snprintf(own, sizeof(own), "%s/remote", user);
        folder = own;
    }
    options.cache_folder = folder && *folder ? folder : NULL;
    pst_store_configure(&options, NULL);
    pst_store_use_environment();
    pst_store_stop(is_interrupted, NULL);
}

static int run(const struct command *command, int argc, char **argv)
{
    struct parsed parsed;
    int code;

    command_arguments = (struct option_list){.items = (const char **)(void *)argv, .count = (size_t)argc};
    code = options_parse(&parsed, command, argc, argv);

    if (code == EXIT_DONE && parsed.help)
        usage_command(stdout, command);
    else if (code == EXIT_DONE)
        code = command->run(parsed.config, parsed.operands, parsed.count);
    options_finish(&parsed, command);
    return code;
}

int main(int argc, char **argv)
{
    const struct command *command;
    const char *name = argc > 1 ? argv[1] : NULL;

    fill_standard_descriptors();
    raise_descriptor_limit();
    setlocale(LC_CTYPE, "");
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* one write per line, so that lines of several processes do not mix */
    interrupt_install();
    set_up_stores();
    pst_guard_install(NULL); /* a mapped file that is truncated becomes an error, not SIGBUS */
    if (!name) {
        usage_overview(stderr);
        return EXIT_USAGE;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = command_help.name;
    else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        name = command_version.name;
    command = command_find(name);
    if (!command)
        return EXIT_USAGE;
    return finish_output(run(command, argc - 2, argv + 2));
}
