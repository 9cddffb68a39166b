/* cmd_doctor.c: `penstock doctor`: why training is slow, and what each remedy would bring. */
#include "cli/command.h"
#include "cli/doctor_ranks.h"
#include "cli/interrupt.h"
#include "cli/pipeline_options.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include <penstock/doctor.h>
#include <errno.h>
#include <limits.h>
#include <penstock/report.h>
#include <penstock/train.h>
#include <stdlib.h>
#include <string.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    const char *model, *compare, *apply, *out, *html, *trace;
    double step_ms, step_rate, epoch_hours, wish, seconds;
    uint64_t epochs, samples, memory, link;
    int sweep;
    bool quick, verify, yes, json, quiet;
};

static void put_answer(const char *answer)
{
    const char *end = strchr(answer, '\n');

    printf("%s", style_bold(stdout));
    put_clean(stdout, answer, (size_t)(end - answer));
    printf("%s\n", style_none(stdout));
    put_clean_lines(stdout, 0, end + 1);
}

static pst_pipeline_options pipeline_settings(const struct pipeline_config *c, char *cache, size_t size)
{
    return (pst_pipeline_options){.size = sizeof(pst_pipeline_options),
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
                                  .cache_dir = c->cache ? c->cache : default_cache_folder(cache, size)};
}

/* What a command needs to know the same operations and indexes. */
static void put_words(const struct pipeline_config *c, const char **words)
{
    if (c->cache) {
        *words++ = "--cache";
        *words++ = c->cache;
    }
    if (c->plugin) {
        *words++ = "--plugin";
        *words++ = c->plugin;
    }
    *words = NULL;
}

/* ---- Comparing ---- */

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL, *more;
    size_t used = 0, got = 1;

    while (f && got > 0) {
        more = realloc(text, used + 65537);
        if (!more || used > (size_t)64 << 20) {
            free(more ? more : text);
            fclose(f);
            return NULL;
        }
        text = more;
        got = fread(text + used, 1, 65536, f);
        used += got;
        text[used] = '\0';
    }
    if (f)
        fclose(f);
    else
        say_error("%s: %s", path, strerror(errno));
    return text;
}

static int compare(const struct config *c, const char *const *operands, size_t count)
{
    char *before, *after, *text = NULL;
    pst_error error;
    int code = EXIT_FAILED;

    if (count != 1)
        return say_usage(&command_doctor, "--compare needs two results: --compare BEFORE.json AFTER.json");
    before = read_file(c->compare);
    after = before ? read_file(operands[0]) : NULL;
    if (after) {
        if (pst_doctor_compare(&text, before, after, c->json, &error) < 0) {
            code = say_failure(&command_doctor, &error, c->json);
        } else {
            if (c->json)
                fputs(text, stdout);
            else
                put_answer(text);
            code = EXIT_DONE;
        }
    }
    pst_free(text);
    free(before);
    free(after);
    return code;
}

/* ---- Applying ---- */

static bool find_remedy(const pst_doctor *doctor, const char *id, pst_remedy *ret)
{
    *ret = (pst_remedy){.size = sizeof(*ret)};
    for (size_t i = 0; pst_doctor_remedy_at(doctor, i, ret); i++)
        if (strcmp(ret->id, id) == 0)
            return true;
    return false;
}

static bool agreed(const struct config *c, const pst_remedy *r, const char *out)
{
    char line[16];

    if (c->yes)
        return true;
    fprintf(stderr, "Apply %s: ", r->id);
    put_clean_string(stderr, r->title);
    fprintf(stderr, out ? "\nThis writes " : "\nThis adds to the files beside the data");
    if (out)
        put_clean_string(stderr, out);
    fprintf(stderr, ". Continue? [y/N] ");
    return fgets(line, sizeof(line), stdin) && (line[0] == 'y' || line[0] == 'Y');
}

static int apply(const struct config *c, pst_doctor *doctor)
{
    struct progress progress;
    pst_remedy r;
    pst_error error;
    pst_status status;
    const char *out;

    if (!find_remedy(doctor, c->apply, &r)) {
        say_error("%s does not apply here; the remedies that do are listed above", c->apply);
        return EXIT_FAILED;
    }
    if (c->out && r.applies && !r.out) {
        say_error("%s adds to the files beside the data and writes nothing to %s; leave out --out", r.id, c->out);
        return EXIT_FAILED;
    }
    out = c->out ? c->out : r.out;
    if (r.applies && !agreed(c, &r, out)) {
        say_note("nothing was changed");
        return EXIT_FAILED;
    }
    progress_start(&progress, "samples", c->quiet, c->json);
    status = pst_doctor_apply(doctor, c->apply, out, progress_report, &progress, &error);
    progress_finish(&progress);
    if (status < 0)
        return say_failure(&command_doctor, &error, false);
    if (out)
        say_note("%s: wrote %s", r.id, out);
    else
        say_note("%s: added to the files beside the data", r.id);
    if (r.pipeline)
        say_note("the pipeline is now: %s", r.pipeline);
    return EXIT_DONE;
}

/* ---- Examining ---- */

static int show(const struct config *c, pst_doctor *doctor)
{
    const char *json = pst_doctor_json(doctor);
    pst_error error;

    if (c->json)
        fputs(json, stdout);
    else
        put_answer(pst_doctor_answer(doctor));
    if (c->html && pst_doctor_report(c->html, json, strlen(json), true, &error) < 0)
        return say_failure(&command_doctor, &error, false);
    return c->apply ? apply(c, doctor) : EXIT_DONE;
}

/* The pipeline of a run stands for itself: `doctor --model RUN` needs no text. */
static char *text_of(const struct config *c, const char *const *operands, size_t count)
{
    pst_run_record *record = NULL;
    char *text = NULL;

    if (count > 0)
        return pipeline_text(operands, count);
    if (c->model && pst_run_record_read(&record, c->model, NULL, NULL) == PST_OK && record->pipeline && !record->foreign)
        text = strdup(record->pipeline);
    pst_run_record_destroy(record);
    return text;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct progress progress;
    char cache[PATH_MAX];
    pst_pipeline_options pipeline = pipeline_settings(&c->pipeline, cache, sizeof(cache));
    pst_doctor_options options = {.size = sizeof(options), .pipeline = &pipeline, .step_ms = c->step_ms, .step_rate = c->step_rate,
                                  .model = c->model, .epochs = c->epochs, .samples = c->samples, .epoch_hours = c->epoch_hours,
                                  .memory = c->memory, .quick = c->quick, .seconds = c->seconds, .verify = c->verify, .sweep = (pst_sweep)c->sweep,
                                  .cache_dir = pipeline.cache_dir, .temp_dir = getenv("TMPDIR"), .progress = progress_report, .user = &progress,
                                  .trace = c->trace, .wish_rate = c->wish, .link_rate = (double)c->link, .run_ranks = doctor_run_ranks,
                                  .ranks_user = (void *)(uintptr_t)&c->pipeline};
    const char *words[5] = {NULL};
    pst_doctor *doctor = NULL;
    pst_error error;
    int code = EXIT_DONE;
    char *text;

    put_words(&c->pipeline, words);
    options.command_words = words;
    if (c->compare)
        return compare(c, operands, count);
    if ((c->step_ms > 0) + (c->step_rate > 0) + (c->model != NULL) > 1)
        return say_usage(&command_doctor, "--step-ms, --step-rate and --model exclude each other: each says how long a step takes");
    code = pipeline_check(&command_doctor, &c->pipeline, c->json);
    if (code != EXIT_DONE)
        return code;
    text = text_of(c, operands, count);
    if (!text)
        return say_usage(&command_doctor, "a pipeline, a folder, shards or a list is missing");
    if (pipeline_check_path(text, true, &error) < 0) {
        free(text);
        return say_failure(&command_doctor, &error, c->json);
    }
    progress_start(&progress, NULL, c->quiet, c->json);
    pst_status status = pst_doctor_run(&doctor, text, &options, &error);
    progress_finish(&progress);
    free(text);
    if (status < 0)
        code = status == PST_ECANCELLED && interrupt_requested() ? interrupt_exit_code() : say_failure(&command_doctor, &error, c->json);
    else
        code = show(c, doctor);
    pst_doctor_destroy(doctor);
    return code;
}

static const char *const sweeps[] = {"none", "batch", "workers", "prefetch", NULL}; /* as pst_sweep */

static const struct option options[] = {
    {"--step-ms", .metavar = "MS", .kind = OPTION_FLOAT, INTO(struct config, step_ms), .min = 0.001, .max = 1e7,
     .doc = "the time of one training step without waiting for data, in milliseconds", .absent = "unknown: there is no verdict on waiting",
     .group = "The training"},
    {"--step-rate", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct config, step_rate), .min = 1e-6, .max = 1e12,
     .doc = "the same as samples per second"},
    {"--model", 'm', "MODEL", OPTION_STRING, INTO(struct config, model), .completion = COMPLETE_FILES,
     .doc = "measure the training steps of this model: a chain of layers, @FILE, the name of a preset, or the folder of a run"},
    {"--epochs", 'e', "N", OPTION_UINT, INTO(struct config, epochs), .min = 1, .doc = "epochs of the training, for the total time",
     .absent = "no total"},
    {"--samples", 'n', "N", OPTION_UINT, INTO(struct config, samples), .min = 1,
     .doc = "samples of the real data set, if only a part of it is here", .absent = "all are here"},
    {"--epoch-hours", .metavar = "H", .kind = OPTION_FLOAT, INTO(struct config, epoch_hours), .min = 1e-9, .max = 1e9,
     .doc = "the duration of an epoch that you see; the answer says how much of it the measured costs explain"},
    {"--wish", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct config, wish), .min = 1e-6, .max = 1e12,
     .doc = "samples per second that you wish for: the answer says how many machines and connections they take"},
    {"--link", .metavar = "BYTES", .kind = OPTION_BYTES, INTO(struct config, link), .min = 1,
     .doc = "bytes per second between machines, such as 1250M", .absent = "as the system says of its network, or 1250M"},
    {"--memory", .metavar = "BYTES", .kind = OPTION_BYTES, INTO(struct config, memory), .min = 1,
     .doc = "memory that is free for the data, such as 64G: a larger data set is read from storage in every epoch",
     .absent = "the available memory"},
    {"--quick", .kind = OPTION_FLAG, INTO(struct config, quick), .doc = "answer within 10 seconds, with wider ranges",
     .group = "What to measure"},
    {"--seconds", .metavar = "S", .kind = OPTION_FLOAT, INTO(struct config, seconds), .min = 0.5, .max = 1e5,
     .doc = "answer within about S seconds: the more, the narrower the ranges", .absent = "30, or 10 with --quick"},
    {"--verify", .kind = OPTION_FLAG, INTO(struct config, verify),
     .doc = "also apply each remedy to a sample in a temporary folder, and measure it in turns with the present pipeline"},
    {"--sweep", .metavar = "WHAT", .kind = OPTION_CHOICE, INTO(struct config, sweep), .choices = sweeps, .initial = "none",
     .doc = "also run the pipeline with several values of one setting, and recommend one"},
    {"--apply", .metavar = "ID", .kind = OPTION_STRING, INTO(struct config, apply),
     .doc = "then apply this remedy to all data, after asking: new shards beside the data, more in their indexes, or the changed pipeline in a file",
     .group = "What to do"},
    {"--out", 'o', "PATH", OPTION_STRING, INTO(struct config, out), .completion = COMPLETE_FILES,
     .doc = "the folder or file that --apply writes", .absent = "as the answer says"},
    {"--yes", 'y', .kind = OPTION_FLAG, INTO(struct config, yes), .doc = "do not ask before --apply"},
    {"--compare", .metavar = "BEFORE.json", .kind = OPTION_STRING, INTO(struct config, compare), .completion = COMPLETE_FILES,
     .doc = "compare two results of --json instead: --compare BEFORE.json AFTER.json"},
    {"--html", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, html), .completion = COMPLETE_FILES,
     .doc = "also write the report as one HTML page", .group = "What to show"},
    {"--trace", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, trace), .completion = COMPLETE_FILES,
     .doc = "also write what workers, stages, batches and the consumer did when, for ui.perfetto.dev or chrome://tracing"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "no progress; print the result only"},
    {0},
};

static const struct example examples[] = {
    {"examine a folder of photos", "penstock doctor photos/"},
    {"examine a pipeline that feeds an accelerator with steps of 45 ms",
     "penstock doctor \"tfrecord shards/ | shuffle | example | decode | random_resized_crop 224 | flip | batch 64\" --step-ms 45"},
    {"examine a sample of a data set of 1.28 million photos, of which an epoch takes 236 hours",
     "penstock doctor photos/ --samples 1281167 --epoch-hours 236 --epochs 90"},
    {"prove what each remedy brings, and write a page for colleagues", "penstock doctor photos/ --verify --html report.html"},
    {"store the photos at the size that training uses", "penstock doctor photos/ --apply resize-offline --out photos-256"},
    {"ask how many machines 5000 samples per second take, and try two processes here",
     "penstock doctor \"tfrecord shards/ | shuffle | example | decode | resize 96 | normalize 0..1 | batch 64\" --model resnet20 --wish 5000 --verify"},
    {"see what a change brought", "penstock doctor --compare before.json after.json"},
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .summary = "say why training is slow, and what each remedy would bring",
    .usage = "PIPELINE|PATH",
    .doc = "Runs the pipeline on the actual data for some seconds, measures the cost of each stage and the limits of the machine, and "
           "predicts the rate after each remedy that applies. The first line of the answer says what is wrong. Every number is measured, "
           "or marked as predicted. For a PATH (a folder of images, shards, a list, a table, arrays), the usual pipeline is written and shown.\n\n"
           PIPELINE_DOC,
    .options = options,
    .shared = pipeline_options,
    .examples = examples,
    .min_operands = 0,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_PIPELINE,
    .config_size = sizeof(struct config),
    .run = run,
};
