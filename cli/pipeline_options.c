/* pipeline_options.c: from the command line to a pst_pipeline. */
#include "cli/pipeline_options.h"
#include "cli/monitors.h"
#include "cli/say.h"
#include <limits.h>
#include <penstock/plugin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const uneven_choices[] = {"pad", "drop", "allow", NULL}; /* as pst_uneven numbers them */

const struct option pipeline_options[] = {
    {"--workers", 'j', "N", OPTION_UINT, INTO(struct pipeline_config, workers), .resumes = true, .min = 1, .max = 256,
     .doc = "number of threads; does not affect the output", .absent = "chosen and adapted", .group = "Execution"},
    {"--prefetch", .metavar = "N", .kind = OPTION_UINT, INTO(struct pipeline_config, prefetch), .resumes = true, .min = 1, .max = 1e6,
     .doc = "batches prepared ahead", .absent = "chosen and adapted"},
    {"--ram", .metavar = "BYTES", .kind = OPTION_BYTES, INTO(struct pipeline_config, ram), .resumes = true, .min = 1,
     .doc = "memory for batches, buffers and caches, such as 4G", .absent = "half of the available memory"},
    {"--seed", .metavar = "N", .kind = OPTION_UINT, INTO(struct pipeline_config, seed), .initial = "0",
     .doc = "seed of all random operations that have no seed of their own"},
    {"--rank", .metavar = "N", .kind = OPTION_UINT, INTO(struct pipeline_config, rank),
     .given = offsetof(struct pipeline_config, rank_given), .initial = "0", .max = UINT_MAX,
     .doc = "number of this process among the processes of --world"},
    {"--world", .metavar = "N", .kind = OPTION_UINT, INTO(struct pipeline_config, world), .initial = "1", .min = 1,
     .max = UINT_MAX, .doc = "number of processes that share the batches; more than 1 needs --rank"},
    {"--hosts", .metavar = "N", .kind = OPTION_UINT, INTO(struct pipeline_config, hosts), .initial = "1", .min = 1, .max = UINT_MAX,
     .zero = "auto",
     .doc = "number of machines that the processes of --world run on, auto where mpirun or srun has started `penstock train`: those of a machine get the samples of one part of the data, so that it reads and "
            "caches that part alone; the shuffle stays within the parts"},
    {"--uneven", .metavar = "WHAT", .kind = OPTION_CHOICE, INTO(struct pipeline_config, uneven), .choices = uneven_choices,
     .initial = "pad",
     .doc =
         "what to do if the batches do not divide evenly among the processes: pad repeats the first samples, drop leaves out "
         "the last, allow lets some processes end earlier"},
    {"--bad", .metavar = "POLICY", .kind = OPTION_STRING, INTO(struct pipeline_config, bad), .initial = "error",
     .doc = "what to do with records that are damaged, cannot be decoded or are refused by an operation: error stops at the "
            "first, skip leaves them "
            "out, skip:20 and skip:0.5% set a limit; each record counts once"},
    {"--no-fuse", .kind = OPTION_FLAG, INTO(struct pipeline_config, no_fuse),
     .doc = "run every operation separately: the same result, but slower"},
    {"--no-verify", .kind = OPTION_FLAG, INTO(struct pipeline_config, no_verify),
     .doc = "do not check the checksums of the data: slightly faster, but damage is not noticed"},
    {"--cache", .metavar = "FOLDER", .kind = OPTION_STRING, INTO(struct pipeline_config, cache), .resumes = true, .completion = COMPLETE_FOLDERS,
     .doc = "folder for the indexes of shards in read-only folders", .absent = "$XDG_CACHE_HOME/penstock or ~/.cache/penstock"},
    {"--live", .kind = OPTION_FLAG, INTO(struct pipeline_config, live), .resumes = true,
     .doc = "let `penstock top` look at the running pipeline; PENSTOCK_MONITOR=1 in the environment does the same"},
    {"--plugin", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct pipeline_config, plugin), .completion = COMPLETE_FILES,
     .doc = "shared object with operations of your own; several are separated by commas"},
    {0},
};

/* Events of a trace: about 100 MB of JSON at most. */
#define TRACE_EVENTS 1000000

char *pipeline_text(const char *const *operands, size_t count)
{
    size_t size = 1, used = 0;
    char *text;

    for (size_t i = 0; i < count; i++)
        size += strlen(operands[i]) + 1;
    text = malloc(size);
    if (!text)
        return NULL;
    text[0] = '\0';
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? " " : "", operands[i]);
    return text;
}

/* Returns the source that reads files of this name; NULL: none that the name shows. */
static const char *source_of(const char *path)
{
    static const struct {
        const char *ending, *source;
    } known[] = {{".csv", "csv"},   {".tsv", "csv"},   {".tar", "tar"},      {".tgz", "tar"},       {".txt", "lines"},
                 {".jsonl", "lines"}, {".h5", "hdf5"}, {".hdf5", "hdf5"},    {".npy", "npy"},       {".tfrecord", "tfrecord"},
                 {".tfrecords", "tfrecord"}};
    size_t length = strlen(path);

    if (length > 3 && strcmp(path + length - 3, ".gz") == 0)
        length -= 3;
    else if (length > 4 && strcmp(path + length - 4, ".zst") == 0)
        length -= 4;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t n = strlen(known[i].ending);

        if (length > n && memcmp(path + length - n, known[i].ending, n) == 0)
            return known[i].source;
    }
    return NULL;
}

/* A text that is the path of a file, as in `penstock cat houses.csv`, stands for the source that reads it. */
static char *complete_text(char *text)
{
    const char *source = text && access(text, F_OK) == 0 && !strchr(text, '\'') ? source_of(text) : NULL;
    size_t size = source ? strlen(source) + strlen(text) + 4 : 0;
    char *whole = source ? malloc(size) : NULL;

    if (!whole)
        return text; /* also where memory ran out: the error names the text */
    snprintf(whole, size, "%s '%s'", source, text);
    free(text);
    return whole;
}

pst_status pipeline_check_path(const char *text, bool takes_folders, pst_error *error)
{
    char word[PATH_MAX];
    size_t length = strcspn(text, " \t\n|");

    if (length == 0 || length >= sizeof(word) || strcspn(text, "'\"@") < length)
        return PST_OK;
    memcpy(word, text, length);
    word[length] = '\0';
    if (!strchr(word, '/') && !source_of(word) && (pst_op_find(word) || access(word, F_OK) < 0))
        return PST_OK; /* the name of an operation, right or wrong */
    if (!strstr(word, "://") && !strpbrk(word, "*?[") && access(word, F_OK) < 0)
        return pst_fail_at(error, PST_ENOTFOUND, word, PST_NOWHERE, PST_NOWHERE,
                           "no such file or folder; check the spelling, and whether a relative path starts in the folder that you are in");
    if (takes_folders)
        return PST_OK;
    return pst_fail_at(error, PST_EINVAL, word, PST_NOWHERE, PST_NOWHERE,
                       "a pipeline begins with the name of a source, such as `folder PATH` or `tfrecord PATH`");
}

pst_status pipeline_load_plugins(const char *list, pst_error *error)
{
    pst_status status = PST_OK;

    while (list && *list && status == PST_OK) {
        char path[PATH_MAX];
        size_t length = strcspn(list, ",");
        int wrote = snprintf(path, sizeof(path), "%s%.*s", memchr(list, '/', length) ? "" : "./", (int)length, list);

        if (wrote >= (int)sizeof(path))
            return pst_fail(error, PST_EINVAL, "--plugin: the path is too long");
        status = pst_plugin_load(path, NULL, error);
        list += length + (list[length] == ',');
    }
    return status;
}

int pipeline_check(const struct command *command, const struct pipeline_config *c, bool json)
{
    pst_policy policy;
    pst_error error;

    if (c->world > 1 && !c->rank_given) /* every process would take the batches of rank 0 */
        return say_usage(command, "--world %llu needs --rank, 0 to %llu", (unsigned long long)c->world,
                         (unsigned long long)c->world - 1);
    if (c->hosts == 0)
        return say_usage(command, "--hosts auto: only `penstock train` learns from mpirun or srun where its ranks are; give the number of machines");
    if (pst_policy_parse(&policy, c->bad, &error) < 0)
        return say_usage(command, "--bad %s: %s", c->bad, error.message);
    return pipeline_load_plugins(c->plugin, &error) < 0 ? say_failure(command, &error, json) : EXIT_DONE;
}

int pipeline_open(pst_pipeline **ret, const struct command *command, const struct pipeline_config *c,
                  const char *const *operands, size_t count, bool json)
{
    char cache[PATH_MAX], live[256];
    pst_pipeline_options options = {.size = sizeof(options),
                                    .seed = c->seed,
                                    .workers = (unsigned)c->workers,
                                    .prefetch = (unsigned)c->prefetch,
                                    .ram = c->ram,
                                    .rank = (unsigned)c->rank,
                                    .world = (unsigned)c->world,
                                    .uneven = (pst_uneven)c->uneven,
                                    .hosts = (unsigned)c->hosts,
                                    .bad = c->bad,
                                    .no_fuse = c->no_fuse,
                                    .no_verify = c->no_verify,
                                    .cache_dir = c->cache ? c->cache : default_cache_folder(cache, sizeof(cache)),
                                    .monitor = monitor_wanted(live, sizeof(live), c->live),
                                    .trace = c->trace ? TRACE_EVENTS : 0};
    pst_error error;
    pst_status status;
    char *text;
    int code = pipeline_check(command, c, json);

    if (code != EXIT_DONE)
        return code;
    text = complete_text(pipeline_text(operands, count));
    if (!text) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    status = pipeline_check_path(text, false, &error);
    if (status == PST_OK)
        status = pst_pipeline_parse(ret, text, &options, &error);
    free(text);
    return status < 0 ? say_failure(command, &error, json) : EXIT_DONE;
}

int pipeline_save_trace(pst_pipeline *p, const struct command *command, const struct pipeline_config *c, bool json)
{
    pst_error error;

    if (!c->trace || pst_pipeline_trace(p, c->trace, true, &error) == PST_OK)
        return EXIT_DONE;
    return say_failure(command, &error, json);
}

void say_skipped(const char *what, const pst_damage_log *log)
{
    uint64_t damaged = pst_damage_log_total(log), records = pst_damage_log_records(log);
    char count[AMOUNT_SIZE], of[AMOUNT_SIZE], causes[256] = "", record[32] = "";
    size_t length = 0;

    if (!damaged)
        return;
    for (int cause = 0; cause < PST_CAUSES; cause++) {
        uint64_t n = pst_damage_log_count(log, (pst_cause)cause);

        if (n && length < sizeof(causes))
            length += (size_t)snprintf(causes + length, sizeof(causes) - length, "%s%s %s", length ? ", " : "",
                                       amount_count(count, n), pst_cause_name((pst_cause)cause));
    }
    pst_damage first = pst_damage_log_place(log, 0);
    if (first.record != PST_NOWHERE)
        snprintf(record, sizeof(record), ", record %llu", (unsigned long long)first.record);
    say_note("%sskipped %s of %s %s: %s; the first: %s%s", what, amount_count(count, damaged), amount_count(of, records),
             plural(records, "record", "records"), causes, first.path, record);
}
