/* cmd_plan.c: `penstock plan`: shows what a pipeline would do, without running it. The library makes the plan. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/watch.h"
#include <penstock/image.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    bool json;
};

static void put_json(const char *plan)
{
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    json_string(&j, "command", "plan");
    json_raw(&j, "plan", plan);
    json_end_object(&j);
    putchar('\n');
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct watch watch;
    pst_pipeline *pipeline = NULL;
    pst_error error;
    pst_status status;
    char *plan = NULL;
    int code = pipeline_open(&pipeline, &command_plan, &c->pipeline, operands, count, c->json);

    if (code != EXIT_DONE)
        return code;
    watch_start(&watch, pipeline, NULL, NULL);
    status = pst_pipeline_describe(pipeline, c->json, &plan, &error);
    watch_stop(&watch);
    if (status == PST_OK && interrupt_requested())
        status = pst_fail(&error, PST_ECANCELLED, "interrupted");
    if (status < 0)
        code = say_failure(&command_plan, &error, c->json);
    else if (c->json)
        put_json(plan);
    else
        put_clean_lines(stdout, 0, plan);
    pst_free(plan);
    pst_pipeline_destroy(pipeline);
    return code;
}

static const struct option options[] = {
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object", .group = "What to show"},
    {0},
};

static const struct example examples[] = {
    {"show the fields, shapes and order of a training pipeline",
     "penstock plan \"tfrecord shards/ | shuffle | example | decode | resize 224 | normalize imagenet | batch 64\""},
    {"plan a pipeline from a file", "penstock plan @train.pst"},
    {"show the batches of the second of four processes",
     "penstock plan \"folder photos/ | shuffle | batch 32\" --rank 1 --world 4 --uneven drop"},
    {0},
};

const struct command command_plan = {
    .name = "plan",
    .summary = "show what a pipeline would do, and find errors in it",
    .doc = "Opens the source, infers the fields of every operation with their types and shapes, and prints the plan: the "
           "result of each operation, which operations are fused, how the order is made, the size of a batch, memory, and the "
           "number of workers with the reason for it. No image is decoded and no worker starts. If the pipeline has an error, "
           "the command shows where.\n\n" PIPELINE_DOC,
    PIPELINE_COMMAND,
    .options = options,
    .examples = examples,
    .config_size = sizeof(struct config),
    .run = run,
};
