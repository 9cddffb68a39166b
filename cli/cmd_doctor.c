/* cmd_doctor.c: `penstock doctor`: why training is slow, and what each remedy would bring. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/pipeline_options.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include <penstock/doctor.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    const char *model;
    double step_ms, step_rate, epoch_hours;
    uint64_t epochs, samples, memory;
    bool quick, json, quiet;
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
                                  .bad = c->bad,
                                  .no_fuse = c->no_fuse,
                                  .no_verify = c->no_verify,
                                  .cache_dir = c->cache ? c->cache : default_cache_folder(cache, size)};
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct progress progress;
    char cache[PATH_MAX];
    pst_pipeline_options pipeline = pipeline_settings(&c->pipeline, cache, sizeof(cache));
    pst_doctor_options options = {.size = sizeof(options), .pipeline = &pipeline, .step_ms = c->step_ms, .step_rate = c->step_rate,
                                  .model = c->model,
                                  .epochs = c->epochs, .samples = c->samples, .epoch_hours = c->epoch_hours, .memory = c->memory,
                                  .quick = c->quick, .cache_dir = pipeline.cache_dir, .progress = progress_report, .user = &progress};
    pst_doctor *doctor = NULL;
    pst_error error;
    int code = EXIT_DONE;
    char *text = pipeline_text(operands, count);

    if (!text) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    progress_start(&progress, "tenths of seconds", c->quiet, c->json);
    pst_status status = pst_doctor_run(&doctor, text, &options, &error);
    progress_finish(&progress);
    free(text);
    if (status < 0)
        code = status == PST_ECANCELLED && interrupt_requested() ? interrupt_exit_code() : say_failure(&command_doctor, &error, c->json);
    else if (c->json)
        fputs(pst_doctor_json(doctor), stdout);
    else
        put_answer(pst_doctor_answer(doctor));
    pst_doctor_destroy(doctor);
    return code;
}

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
    {"--memory", .metavar = "BYTES", .kind = OPTION_BYTES, INTO(struct config, memory), .min = 1,
     .doc = "memory that is free for the data, such as 64G: a larger data set is read from storage in every epoch",
     .absent = "the available memory"},
    {"--quick", .kind = OPTION_FLAG, INTO(struct config, quick), .doc = "answer within 10 seconds, with wider ranges",
     .group = "What to measure"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object", .group = "What to show"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "no progress; print the result only"},
    {0},
};

static const struct example examples[] = {
    {"examine a folder of photos", "penstock doctor photos/"},
    {"examine a pipeline that feeds an accelerator with steps of 45 ms",
     "penstock doctor \"tfrecord shards/ | shuffle | example | decode | random_resized_crop 224 | flip | batch 64\" --step-ms 45"},
    {"examine a sample of a data set of 1.28 million photos, of which an epoch takes 236 hours",
     "penstock doctor photos/ --samples 1281167 --epoch-hours 236 --epochs 90"},
    {0},
};

const struct command command_doctor = {
    .name = "doctor",
    .summary = "say why training is slow, and what each remedy would bring",
    .usage = "PIPELINE|PATH",
    .doc = "Runs the pipeline on the actual data for some seconds, measures the cost of each stage and the limits of the machine, and "
           "predicts the rate after each remedy that applies. The first line of the answer says what is wrong. Every number is measured, "
           "or marked as predicted. For a PATH (a folder of images, shards, a list), the usual pipeline is written and shown.\n\n"
           PIPELINE_DOC,
    .options = options,
    .shared = pipeline_options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_PIPELINE,
    .config_size = sizeof(struct config),
    .run = run,
};
