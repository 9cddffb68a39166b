/* cmd_cache.c: `penstock cache`: lists and removes the caches on disk that `cache path=DIR` made. */
#include "cli/command.h"
#include "cli/json.h"
#include "cli/say.h"
#include <penstock/pipeline.h>
#include <string.h>
#include <time.h>

struct config {
    bool clear, json;
};

static void put_about(const char *about)
{
    while (*about) {
        size_t n = strcspn(about, "\n");
        fputs("    ", stdout);
        fwrite(about, 1, n, stdout);
        putchar('\n');
        about += n + (about[n] == '\n');
    }
}

static void put_text(const pst_cache_info *info, bool removed)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], when[32] = "";
    time_t changed = (time_t)info->changed;
    struct tm local;
    if (localtime_r(&changed, &local))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &local);
    printf("%s%s  %s in %s %s, changed %s\n", removed ? "removed " : "", info->key, amount_bytes(a, (double)info->bytes),
           amount_count(b, info->parts), plural(info->parts, "part", "parts"), when);
    if (!removed)
        put_about(info->about);
}

static void put_json(struct json *j, const pst_cache_info *info, bool removed)
{
    json_begin_object(j, NULL);
    json_string(j, "key", info->key);
    json_uint(j, "bytes", info->bytes);
    json_uint(j, "parts", info->parts);
    json_uint(j, "changed", (uint64_t)info->changed);
    json_string(j, "about", info->about);
    json_bool(j, "removed", removed);
    json_end_object(j);
}

static bool is_wanted(const char *key, const char *const *keys, size_t count)
{
    bool wanted = count == 0;
    for (size_t i = 0; i < count; i++)
        wanted |= strncmp(key, keys[i], strlen(keys[i])) == 0;
    return wanted;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct json j = json_to(stdout);
    pst_cache_info *list = NULL;
    size_t caches = 0, shown = 0;
    pst_error error;
    pst_status st = pst_cache_list(operands[0], &list, &caches, &error);
    if (st < 0)
        return say_failure(&command_cache, &error, c->json);
    if (c->json) {
        json_begin_object(&j, NULL);
        json_string(&j, "command", "cache");
        json_begin_array(&j, "caches");
    }
    for (size_t i = 0; i < caches && st == PST_OK; i++) {
        if (!is_wanted(list[i].key, operands + 1, count - 1))
            continue;
        if (c->clear)
            st = pst_cache_remove(operands[0], list[i].key, &error);
        if (st < 0)
            break;
        shown++;
        if (c->json)
            put_json(&j, &list[i], c->clear);
        else
            put_text(&list[i], c->clear);
    }
    if (c->json) {
        json_end_array(&j);
        json_end_object(&j);
        putchar('\n');
    } else if (st == PST_OK && shown == 0) {
        puts(caches ? "no cache has this key" : "no caches");
    }
    pst_free(list);
    return st < 0 ? say_failure(&command_cache, &error, false) : EXIT_DONE;
}

static const struct option options[] = {
    {"--clear", .kind = OPTION_FLAG, INTO(struct config, clear), .doc = "remove the caches; pipelines that use them continue"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {0},
};

static const struct example examples[] = {
    {"list the caches in a folder", "penstock cache caches/"},
    {"remove one of them", "penstock cache caches/ 3f9a --clear"},
    {0},
};

const struct command command_cache = {
    .name = "cache",
    .summary = "list and remove caches on disk",
    .usage = "DIR [KEY...]",
    .doc = "Lists the caches that pipelines with `cache path=DIR` made: size, pipeline, fields and version of the library. A "
           "cache belongs to its data, its operations and the version: after a change, the old one is never read again and can "
           "be removed. KEY is the beginning of a key; without one, all caches are listed or removed.",
    .options = options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
