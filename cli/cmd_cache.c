/* cmd_cache.c: `penstock cache`: lists and removes the caches on disk that `cache path=DIR` made, and the copies of remote data. */
#include "cli/command.h"
#include "cli/json.h"
#include "cli/say.h"
#include <penstock/pipeline.h>
#include <penstock/store.h>
#include <string.h>
#include <time.h>

struct config {
    bool clear, json, remote;
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

static const char *time_words(char when[32], int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm local;
    when[0] = 0;
    if (localtime_r(&t, &local))
        strftime(when, 32, "%Y-%m-%d %H:%M", &local);
    return when;
}

static void put_text(const pst_cache_info *info, bool removed)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], when[32];
    printf("%s%s  %s in %s %s, changed %s\n", removed ? "removed " : "", info->key, amount_bytes(a, (double)info->bytes),
           amount_count(b, info->parts), plural(info->parts, "part", "parts"), time_words(when, info->changed));
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

/* ---- Copies of remote data ---- */

static void put_copy(struct json *j, const pst_store_copy *copy, bool removed, bool as_json)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], when[32];
    if (!as_json) {
        printf("%s%s  ", removed ? "removed " : "", copy->key);
        put_clean_string(stdout, *copy->address ? copy->address : "an object");
        printf(": %s of %s, used %s%s\n", amount_bytes(a, (double)copy->bytes), amount_bytes(b, (double)copy->size_whole), time_words(when, copy->used),
               copy->in_use ? ", in use now" : "");
        return;
    }
    json_begin_object(j, NULL);
    json_string(j, "key", copy->key);
    json_string(j, "address", copy->address);
    json_uint(j, "bytes", copy->bytes);
    json_uint(j, "size", copy->size_whole);
    json_uint(j, "used", (uint64_t)copy->used);
    json_bool(j, "in_use", copy->in_use);
    json_bool(j, "removed", removed);
    json_end_object(j);
}

static void put_sum(struct json *j, bool as_json, size_t copies, uint64_t bytes, size_t removed)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE];
    if (as_json)
        json_uint(j, "bytes", bytes);
    else if (removed)
        printf("%s removed\n", amount_bytes(a, (double)bytes));
    else
        printf("%s in %s %s\n", amount_bytes(a, (double)bytes), amount_count(b, copies), plural(copies, "copy", "copies"));
}

/* What a process has open stays. */
static int run_remote(const struct config *c, const char *folder)
{
    struct json j = json_to(stdout);
    pst_store_copy *list = NULL;
    size_t copies = 0, gone = 0;
    uint64_t bytes = 0;
    pst_error error;
    pst_status st = pst_store_cache_list(folder, &list, &copies, &error);
    if (st < 0)
        return say_failure(&command_cache, &error, c->json);
    if (c->json) {
        json_begin_object(&j, NULL);
        json_string(&j, "command", "cache");
        json_begin_array(&j, "copies");
    }
    for (size_t i = 0; i < copies && st == PST_OK; i++) {
        bool removed = false;
        if (c->clear)
            st = pst_store_cache_remove(folder, list[i].key, &removed, &error);
        gone += removed;
        bytes += removed || !c->clear ? list[i].bytes : 0;
        put_copy(&j, &list[i], removed, c->json);
    }
    if (c->json)
        json_end_array(&j);
    put_sum(&j, c->json, copies, bytes, gone);
    if (c->json) {
        json_end_object(&j);
        putchar('\n');
    }
    pst_free(list);
    return st < 0 ? say_failure(&command_cache, &error, false) : EXIT_DONE;
}

/* ---- The command ---- */

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    if (c->remote && count > 1)
        return say_usage(&command_cache, "--remote takes one folder, or none");
    if (c->remote)
        return run_remote(c, count ? operands[0] : NULL);
    if (!count)
        return say_usage(&command_cache, "a folder is missing; --remote looks at the copies of remote data");
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
    {"--remote", .kind = OPTION_FLAG, INTO(struct config, remote),
     .doc = "the copies of remote data instead, in DIR or where this tool keeps them; --clear leaves those alone that a process has open"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {0},
};

static const struct example examples[] = {
    {"list the caches in a folder", "penstock cache caches/"},
    {"remove one of them", "penstock cache caches/ 3f9a --clear"},
    {"remove what was downloaded", "penstock cache --remote --clear"},
    {0},
};

const struct command command_cache = {
    .name = "cache",
    .summary = "list and remove caches on disk",
    .usage = "[DIR [KEY...]]",
    .doc = "Lists the caches that pipelines with `cache path=DIR` made: size, pipeline, fields and version of the library. A "
           "cache belongs to its data, its operations and the version: after a change, the old one is never read again and can "
           "be removed. KEY is the beginning of a key; without one, all caches are listed or removed. With --remote, the copies of objects that "
           "were downloaded from stores are listed or removed (PENSTOCK_CACHE names their folder).",
    .options = options,
    .examples = examples,
    .min_operands = 0,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
