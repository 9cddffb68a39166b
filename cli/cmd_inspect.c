/* cmd_inspect.c: `penstock inspect`: reports what shards contain and checks them for damage. The report itself is in
 * inspect_report.c. */
#include "cli/command.h"
#include "cli/inspect_report.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/say.h"
#include <limits.h>
#include <penstock/inspect.h>

struct config {
    const char *sheet, *image, *label, *cache;
    uint64_t sample, head, tiles, tile_size, workers, max_record;
    bool verify, all, json, quiet, verbose, allow_missing;
    bool sample_given, tiles_given, tile_size_given;
};

/* ---- The first records ---- */

struct head {
    struct json *json; /* NULL: plain lines */
};

static void put_line(void *user, const char *line)
{
    const struct head *head = user;

    if (head->json) {
        json_string(head->json, NULL, line);
    } else {
        put_clean_string(stdout, line);
        putchar('\n');
    }
}

/* Prints the first records, from several shards if needed; names each shard after the first. */
static pst_status put_head(const pst_inspection *n, uint64_t records, struct head *head, pst_error *error)
{
    pst_status status = PST_OK;

    for (size_t i = 0; i < n->shards && records && status == PST_OK && !interrupt_requested(); i++) {
        uint64_t here = n->shard[i].records < records ? n->shard[i].records : records;

        if (n->shards > 1 && here)
            put_line(head, n->shard[i].path);
        status = pst_inspect_head(n->shard[i].path, here, put_line, head, error);
        records -= here;
    }
    return status;
}

/* ---- Answering ---- */

static pst_status answer_json(const struct config *c, const pst_inspection *n, pst_error *error)
{
    struct json j = json_to(stdout);
    struct head head = {.json = &j};
    pst_status status = PST_OK;

    json_begin_object(&j, NULL);
    json_string(&j, "command", "inspect");
    put_report_json(&j, n, c->verify);
    json_string(&j, "sheet", c->sheet);
    json_begin_array(&j, "head");
    if (c->head)
        status = put_head(n, c->head, &head, error);
    json_end_array(&j);
    if (status < 0)
        json_error(&j, "error", error);
    json_end_object(&j);
    putchar('\n');
    return status;
}

static pst_status answer_text(const struct config *c, const pst_inspection *n, pst_error *error)
{
    struct head head = {.json = NULL};
    struct report_style style = {.verified = c->verify, .verbose = c->verbose};

    if (!c->quiet) {
        put_report(n, style);
        if (c->sheet) {
            put_heading("Sheet");
            put_clean_string(stdout, c->sheet);
            putchar('\n');
        }
        if (c->head)
            putchar('\n');
    }
    return c->head ? put_head(n, c->head, &head, error) : PST_OK;
}

static int answer(const struct config *c, const pst_inspection *n, pst_error *error)
{
    int code = pst_damage_log_total(n->damage) ? EXIT_DAMAGE : EXIT_DONE;
    pst_status status = PST_OK;

    if (c->sheet)
        status = pst_inspect_sheet(n, c->sheet, (uint32_t)c->tiles, (uint32_t)c->tile_size, error);
    if (status < 0)
        return exit_worse(code, say_failure(&command_inspect, error, c->json));
    status = c->json ? answer_json(c, n, error) : answer_text(c, n, error);
    return status < 0 ? exit_worse(code, say_failure(&command_inspect, error, false)) : code;
}

/* ---- The command ---- */

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    char cache[PATH_MAX];
    struct progress progress;
    pst_inspection *n = NULL;
    pst_error error;
    pst_status status;
    pst_inspect_options options = {.size = sizeof(options),
                                   .verify = c->verify,
                                   .sample = c->all ? UINT64_MAX : c->sample,
                                   .image_feature = c->image,
                                   .label_feature = c->label,
                                   .workers = (unsigned)c->workers,
                                   .cache_dir = c->cache ? c->cache : default_cache_folder(cache, sizeof(cache)),
                                   .max_record_bytes = c->max_record,
                                   .progress = progress_report,
                                   .user = &progress,
                                   .allow_missing = c->allow_missing};
    int code;

    if (c->sample_given && (c->all || c->verify))
        return say_usage(&command_inspect, "--sample and %s exclude each other", c->all ? "--all" : "--verify");
    if (!c->sheet && (c->tiles_given || c->tile_size_given))
        return say_usage(&command_inspect, "%s needs --sheet", c->tiles_given ? "--tiles" : "--tile-size");
    progress_start(&progress, "records", c->quiet, c->json);
    status = pst_inspect(operands, count, &options, &n, &error);
    progress_finish(&progress);
    code = status < 0 ? say_failure(&command_inspect, &error, c->json) : answer(c, n, &error);
    pst_inspection_destroy(n);
    return code;
}

static const struct option options[] = {
    {"--verify", .kind = OPTION_FLAG, INTO(struct config, verify),
     .doc = "read every record, check every CRC, decode every image, and list what is damaged", .group = "What to read"},
    {"--sample", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, sample),
     .given = offsetof(struct config, sample_given), .min = 1, .initial = "100000",
     .doc = "compute the statistics from N records, spread evenly over the shards"},
    {"--all", .kind = OPTION_FLAG, INTO(struct config, all), .doc = "compute the statistics from every record"},
    {"--allow-missing", .kind = OPTION_FLAG, INTO(struct config, allow_missing),
     .doc = "accept a folder or pattern with missing shards, such as x-00003-of-00008, and read the others"},
    {"--image", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, image), .doc = "the feature that holds the image",
     .absent = "the feature whose values are images"},
    {"--label", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, label), .doc = "the feature that holds the class",
     .absent = "label, or the only feature with a similar name"},
    {"--max-record", .metavar = "SIZE", .kind = OPTION_BYTES, INTO(struct config, max_record), .initial = "1G", .min = 1,
     .doc = "the largest valid record; a longer one is reported as damage"},
    {"--head", 'n', "N", OPTION_UINT, INTO(struct config, head), .doc = "show the first N records in readable form",
     .absent = "none", .group = "What to show"},
    {"--sheet", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, sheet), .completion = COMPLETE_FILES,
     .doc = "write a contact sheet of samples with their classes, as a PNG"},
    {"--tiles", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, tiles), .given = offsetof(struct config, tiles_given),
     .initial = "24", .min = 1, .max = 10000, .doc = "samples on the sheet"},
    {"--tile-size", .metavar = "PIXELS", .kind = OPTION_UINT, INTO(struct config, tile_size),
     .given = offsetof(struct config, tile_size_given), .initial = "160", .min = 32, .max = 1024, .doc = "width of one sample"},
    {"--verbose", 'v', .kind = OPTION_FLAG, INTO(struct config, verbose),
     .doc = "list every shard, every class and every damaged record"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet),
     .doc = "no report; print only errors and --head, and set the exit code"},
    {"--workers", 'j', "N", OPTION_UINT, INTO(struct config, workers), .min = 1, .max = 1024,
     .doc = "number of threads; does not affect the result", .absent = "one per core", .group = "Execution"},
    {"--cache", .metavar = "FOLDER", .kind = OPTION_STRING, INTO(struct config, cache), .completion = COMPLETE_FOLDERS,
     .doc = "folder for the indexes of shards in read-only folders", .absent = "$XDG_CACHE_HOME/penstock or ~/.cache/penstock"},
    {0},
};

static const struct example examples[] = {
    {"show what a folder of shards contains", "penstock inspect shards/"},
    {"check every record for damage", "penstock inspect --verify shards/"},
    {"draw a contact sheet of 48 images", "penstock inspect shards/ --sheet sheet.png --tiles 48"},
    {"print the first records of a TensorBoard log", "penstock inspect runs/ --head 10"},
    {0},
};

const struct command command_inspect = {
    .name = "inspect",
    .summary = "show what shards contain and check them for damage",
    .usage = "PATH...",
    .doc =
        "Reports on TFRecord files written by any program: records, shards and how even they are, features with their types "
        "and "
        "ranges, images, classes, indexes, damage, and a fingerprint of the data. A PATH is a shard, a folder of shards, or a "
        "pattern. "
        "TensorBoard's event files are TFRecords too; their scalars are listed.\n\n"
        "Statistics come from a sample of the records, unless --all or --verify is given or a shard is compressed: compressed "
        "shards are always read completely. Missing indexes are created and kept for later use.\n\n"
        "Class names come from labels.txt or FEATURE.labels.txt beside the shards.\n\n"
        "Exits with 3 if damage was found, with or without --verify.",
    .options = options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
