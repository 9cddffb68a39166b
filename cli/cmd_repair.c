/* cmd_repair.c: `penstock repair`: writes clean copies of damaged shards and reports the lost records. */
#include "cli/command.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/progress.h"
#include "cli/say.h"
#include <errno.h>
#include <limits.h>
#include <penstock/inspect.h>
#include <penstock/record.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PLACES_SHOWN 10

struct config {
    int compress;
    int64_t level;
    bool force, no_sync, json, quiet;
};

static const char *const compressions[] = {"same", "none", "gzip", "zlib", "zstd", NULL};

/* ---- Reporting ---- */

static void put_text(const char *path, const pst_repair_report *r, const pst_damage_log *log)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE];
    size_t places = pst_damage_log_places(log);
    uint64_t all = pst_damage_log_total(log);

    put_clean_string(stdout, path);
    printf(": kept %s %s (%s)", amount_count(a, r->kept), plural(r->kept, "record", "records"),
           amount_bytes(b, (double)r->kept_bytes));
    if (all)
        printf(", lost %s (%s)", amount_count(a, r->lost_records), amount_bytes(b, (double)r->lost_bytes));
    else
        fputs(", nothing lost", stdout);
    putchar('\n');
    for (size_t i = 0; i < places && i < PLACES_SHOWN; i++) {
        pst_damage d = pst_damage_log_place(log, i);

        printf("    record %s at byte %s: %s\n", amount_count(a, d.record), amount_count(b, d.offset), pst_cause_name(d.cause));
    }
    if (all > PLACES_SHOWN)
        printf("    … and %s more\n", amount_count(a, all - PLACES_SHOWN));
}

static void put_failure_json(struct json *j, const char *path, const pst_error *error)
{
    json_begin_object(j, NULL);
    json_shown(j, "path", path);
    json_error(j, "error", error);
    json_end_object(j);
}

static void put_shard_json(struct json *j, const char *path, const char *target, const pst_repair_report *r,
                           const pst_damage_log *log)
{
    json_begin_object(j, NULL);
    json_shown(j, "path", path);
    json_string(j, "copy", target);
    json_uint(j, "kept", r->kept);
    json_uint(j, "kept_bytes", r->kept_bytes);
    json_uint(j, "lost_records", r->lost_records);
    json_uint(j, "lost_bytes", r->lost_bytes);
    json_begin_array(j, "damage");
    for (size_t i = 0; i < pst_damage_log_places(log); i++) {
        pst_damage d = pst_damage_log_place(log, i);

        json_begin_object(j, NULL);
        json_string(j, "cause", pst_cause_name(d.cause));
        json_uint(j, "record", d.record);
        json_uint(j, "offset", d.offset);
        json_uint(j, "bytes", d.bytes);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

/* ---- Working ---- */

struct job {
    const struct config *config;
    const char *out;
    bool all_of_folder; /* the only operand is a folder, and these are its shards */
    bool into_folder;   /* copies keep their names, in the folder `out` */
    size_t copies;
    struct json json;
    struct progress progress;
};

static bool is_remote(const char *path)
{
    return strstr(path, "://") != NULL;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat in, out;

    if (is_remote(a))
        return strcmp(a, b) == 0;
    return stat(a, &in) == 0 && stat(b, &out) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static pst_status find_target(const struct job *job, const char *path, char target[PATH_MAX], pst_error *reterr)
{
    bool slash = job->into_folder && *base_name(job->out);
    int length = snprintf(target, PATH_MAX, "%s%s%s", job->out, slash ? "/" : "", job->into_folder ? base_name(path) : "");

    if (length >= PATH_MAX)
        return pst_fail_at(reterr, PST_EIO, path, PST_NOWHERE, PST_NOWHERE, "the path of its copy is too long");
    if (is_same_file(path, target))
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                           "the copy would replace the damaged shard; name another OUT");
    return PST_OK;
}

/* A pst_stop_fn. */
static bool is_interrupted(void *user)
{
    (void)user;
    return interrupt_requested();
}

static pst_status repair(const struct config *c, const char *path, const char *target, pst_damage_log *log,
                         pst_repair_report *ret, pst_error *reterr)
{
    pst_writer_options options = {
        .size = sizeof(options), .level = (int)c->level, .no_sync = c->no_sync, .overwrite = c->force};

    if (c->compress) {
        pst_status status = pst_compression_parse(&options.compression, compressions[c->compress], reterr);

        if (status < 0)
            return status;
    } /* else PST_COMPRESSION_AUTO: as the original shard */
    return pst_repair(path, target, &options, log, is_interrupted, NULL, ret, reterr);
}

static int say_failed(struct job *job, const char *path, const pst_error *error)
{
    int code;

    if (job->config->json)
        put_failure_json(&job->json, path, error);
    code = say_failure(&command_repair, error, false);
    if (error->status == PST_EEXIST)
        say_try("--force to replace it");
    return code;
}

static int repair_one(struct job *job, const char *path)
{
    static const pst_policy tolerate = {.skip = true};
    const struct config *c = job->config;
    char target[PATH_MAX];
    pst_damage_log *log = NULL;
    pst_repair_report report = {.size = sizeof(report)};
    pst_error error;
    pst_status status = find_target(job, path, target, &error);
    int code;

    if (status == PST_OK)
        status = pst_damage_log_create(&log, &tolerate, &error);
    if (status == PST_OK)
        status = repair(c, path, target, log, &report, &error);
    progress_finish(&job->progress); /* the following lines scroll; the bar is painted again below them */
    if (status == PST_ECANCELLED) {
        code = EXIT_INTERRUPTED;
    } else if (status < 0) {
        code = say_failed(job, path, &error);
    } else {
        if (c->json)
            put_shard_json(&job->json, path, target, &report, log);
        else if (!c->quiet)
            put_text(path, &report, log);
        job->copies++;
        code = pst_damage_log_total(log) ? EXIT_DAMAGE : EXIT_DONE;
    }
    pst_damage_log_destroy(log);
    return code;
}

/* Stores the folder of all shards; false: they are in several folders. */
static bool find_folder(char folder[PATH_MAX], char **paths, size_t count)
{
    size_t length = (size_t)(base_name(paths[0]) - paths[0]);

    for (size_t i = 1; i < count; i++)
        if ((size_t)(base_name(paths[i]) - paths[i]) != length || strncmp(paths[i], paths[0], length) != 0)
            return false;
    if (length >= PATH_MAX)
        return false;
    snprintf(folder, PATH_MAX, "%.*s", (int)length, length ? paths[0] : "");
    if (length == 0)
        snprintf(folder, PATH_MAX, ".");
    return true;
}

/* Copies the files that describe the shards with them. dataset_info.json counts records: it goes along only if none was lost, and
 * the shards are all of the folder's. */
static int copy_companions(const struct job *job, char **paths, size_t count, bool whole)
{
    char folder[PATH_MAX], info[PATH_MAX + 32];
    struct stat there;
    pst_error error;

    if (!job->into_folder || !find_folder(folder, paths, count) || is_same_file(folder, job->out))
        return EXIT_DONE;
    if (pst_repair_companions(folder, job->out, whole && job->all_of_folder, job->config->force, NULL, &error) < 0)
        return say_failure(&command_repair, &error, false);
    snprintf(info, sizeof(info), "%s/dataset_info.json", folder);
    if (!whole && job->all_of_folder && stat(info, &there) == 0 && !job->config->quiet)
        say_note("dataset_info.json was not copied, because it counts records that were lost; penstock pack writes a new one");
    return EXIT_DONE;
}

static int repair_all(struct job *job, char **paths, size_t count)
{
    bool json = job->config->json;
    int code = EXIT_DONE;
    size_t done = 0;

    progress_start(&job->progress, "shards", job->config->quiet || count == 1, json);
    if (json) {
        json_begin_object(&job->json, NULL);
        json_string(&job->json, "command", "repair");
        json_begin_array(&job->json, "shards");
    }
    for (; done < count && !interrupt_requested(); done++) {
        pst_progress now = {.stage = "repairing", .done = done, .total = count};

        progress_report(&job->progress, &now);
        int one = repair_one(job, paths[done]);
        if (one == EXIT_INTERRUPTED)
            break;
        code = exit_worse(code, one);
    }
    if (json) {
        json_end_array(&job->json);
        json_end_object(&job->json);
        putchar('\n');
    } else if (job->into_folder && job->copies && !job->config->quiet) {
        printf("%zu %s in ", job->copies, plural(job->copies, "copy is", "copies are"));
        put_clean_string(stdout, job->out);
        putchar('\n');
    }
    if (done == count)
        return code == EXIT_DONE || code == EXIT_DAMAGE
                   ? exit_worse(code, copy_companions(job, paths, count, code == EXIT_DONE))
                   : code;
    say_note("interrupted; %zu of %zu shards are done", done, count);
    return interrupt_exit_code();
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(base_name(*(char *const *)a), base_name(*(char *const *)b));
}

/* Copies keep their shards' names: two shards of one name would end up as one file. Leaves `paths` sorted by name. */
static const char *find_twins(char **paths, size_t count)
{
    qsort(paths, count, sizeof(*paths), compare_names);
    for (size_t i = 1; i < count; i++)
        if (compare_names(&paths[i - 1], &paths[i]) == 0)
            return paths[i];
    return NULL;
}

/* A folder in a store exists while objects lie in it: a slash at the end says that one is meant. */
static bool is_folder(const char *path)
{
    struct stat s;

    if (is_remote(path))
        return !*base_name(path);
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static int run(const void *config, const char *const *operands, size_t count)
{
    struct job job = {.config = config, .out = operands[count - 1], .json = json_to(stdout)};
    char **paths = NULL;
    const char *twin;
    size_t found = 0;
    pst_error error;
    int code;

    if (pst_shards_find(&paths, &found, operands, count - 1, &error) < 0)
        return say_failure(&command_repair, &error, job.config->json);
    job.all_of_folder = count == 2 && (is_remote(operands[0]) ? strcmp(paths[0], operands[0]) != 0 && !strpbrk(operands[0], "*?[") : is_folder(operands[0]));
    job.into_folder = is_folder(job.out) || found > 1;
    twin = job.into_folder ? find_twins(paths, found) : NULL;
    if (twin) {
        pst_fail_at(&error, PST_EINVAL, twin, PST_NOWHERE, PST_NOWHERE,
                    "another shard has the same name, so their copies would too; repair them into different folders");
        code = say_failure(&command_repair, &error, job.config->json);
    } else if (job.into_folder && !is_remote(job.out) && mkdir(job.out, 0777) < 0 && errno != EEXIST) {
        pst_fail_at(&error, PST_EIO, job.out, PST_NOWHERE, PST_NOWHERE, "cannot create the folder: %s", strerror(errno));
        code = say_failure(&command_repair, &error, job.config->json);
    } else {
        code = repair_all(&job, paths, found);
    }
    pst_free(paths);
    return code;
}

static const struct option options[] = {
    {"--compress", .metavar = "KIND", .kind = OPTION_CHOICE, INTO(struct config, compress), .choices = compressions,
     .initial = "same", .doc = "compression of the copies; same: as the original shard"},
    {"--level", .metavar = "N", .kind = OPTION_INT, INTO(struct config, level), .min = 1, .max = 22, .doc = "compression level",
     .absent = "the library's default"},
    {"--force", 'f', .kind = OPTION_FLAG, INTO(struct config, force), .doc = "replace existing copies"},
    {"--no-sync", .kind = OPTION_FLAG, INTO(struct config, no_sync),
     .doc = "do not wait until the data is on the disk: faster, but a crash of the machine may lose data"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "print errors only"},
    {0},
};

static const struct example examples[] = {
    {"write a clean copy of one shard", "penstock repair damaged.tfrecord clean.tfrecord"},
    {"write clean copies of all shards in a folder", "penstock repair shards/ clean/"},
    {0},
};

const struct command command_repair = {
    .name = "repair",
    .summary = "write clean copies of damaged shards",
    .usage = "PATH... OUT",
    .doc =
        "Copies every undamaged record of each PATH (a shard, a folder of shards, or a pattern) and reports the records that "
        "were lost. The original shards are not changed. OUT is the file for the copy; if it is an existing folder, ends with "
        "a slash in a store, or if there are several shards, OUT is the folder for the copies. features.json and labels.txt are copied from the folder "
        "of the shards, and dataset_info.json if nothing was lost.\n\n"
        "Only damaged records are lost: after a damaged length, the command searches for the next valid record.\n\n"
        "Exits with 0 if nothing was lost and with 3 if records were lost; the copies are complete in both cases.",
    .options = options,
    .examples = examples,
    .min_operands = 2,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
