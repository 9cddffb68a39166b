/* cmd_eval.c: `penstock eval`: how good a trained model is on the data of a pipeline. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/train.h"
#include "cli/watch.h"
#include <inttypes.h>
#include <math.h>
#include <penstock/image.h>
#include <penstock/network.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    const char *checkpoint, *input, *target;
    uint64_t threads;
    bool json;
};

enum { MOST_SHOWN = 20 }; /* classes of a confusion matrix on a terminal */

static void put_confusion(const pst_run_record *r, const pst_evaluation *e)
{
    char name[CLASS_SIZE];

    printf("\nconfusion matrix: rows are true classes, columns predicted ones\n%16s", "");
    for (size_t k = 0; k < e->classes; k++)
        printf(" %6.6s", class_name(r, k, name));
    puts("   recall");
    for (size_t i = 0; i < e->classes; i++) {
        uint64_t total = 0;

        printf("%-16.16s", class_name(r, i, name));
        for (size_t k = 0; k < e->classes; k++) {
            printf(" %6" PRIu64, e->confusion[i * e->classes + k]);
            total += e->confusion[i * e->classes + k];
        }
        if (total)
            printf("  %6.2f %%", 100. * (double)e->confusion[i * e->classes + i] / (double)total);
        putchar('\n');
    }
}

static void put_result(const pst_run_record *r, const pst_evaluation *e)
{
    char count[AMOUNT_SIZE];

    printf("%s %s, step %" PRIu64 "\n", amount_count(count, e->samples), plural(e->samples, "sample", "samples"), r->step);
    printf("loss      %.5f\n", e->loss);
    if (!isnan(e->accuracy))
        printf("accuracy  %.2f %%\n", 100 * e->accuracy);
    if (!isnan(e->top5) && e->classes > 5)
        printf("top 5     %.2f %%\n", 100 * e->top5);
    if (!isnan(e->auc))
        printf("AUC       %.5f\n", e->auc);
    if (!isnan(e->f1))
        printf("F1        %.5f\n", e->f1);
    if (!isnan(e->mae))
        printf("MAE       %.5g\nR2        %.5f\n", e->mae, e->r2);
    if (e->confusion && e->classes <= MOST_SHOWN)
        put_confusion(r, e);
}

static void put_json(const pst_run_record *r, const pst_evaluation *e)
{
    struct json j = json_to(stdout);
    char name[CLASS_SIZE];

    json_begin_object(&j, NULL);
    json_string(&j, "command", "eval");
    json_string(&j, "checkpoint", r->folder);
    json_uint(&j, "step", r->step);
    json_uint(&j, "samples", e->samples);
    json_number(&j, "loss", e->loss);
    json_number(&j, "accuracy", e->accuracy);
    json_number(&j, "top5", e->top5);
    json_number(&j, "auc", e->auc);
    json_number(&j, "f1", e->f1);
    json_number(&j, "mae", e->mae);
    json_number(&j, "r2", e->r2);
    json_begin_array(&j, "classes");
    for (size_t i = 0; i < e->classes; i++)
        json_string(&j, NULL, class_name(r, i, name));
    json_end_array(&j);
    json_begin_array(&j, "confusion");
    for (size_t i = 0; i < e->classes && e->confusion; i++) {
        json_begin_array(&j, NULL);
        for (size_t k = 0; k < e->classes; k++)
            json_uint(&j, NULL, e->confusion[i * e->classes + k]);
        json_end_array(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

static int evaluate(const struct config *c, const char *path, pst_pipeline *pipeline)
{
    struct watch watch;
    pst_evaluation e = {.size = sizeof(e)};
    pst_fields fields = {.size = sizeof(fields)};
    pst_network *network = NULL;
    const pst_run_record *record = NULL;
    const char *input = NULL, *target = NULL;
    pst_error error;
    pst_status status = pst_network_open(&network, path, c->checkpoint, &error);

    if (status == PST_OK) {
        record = pst_network_record(network);
        input = c->input ? c->input : record->input_field;
        target = c->target ? c->target : record->target_field;
        status = pst_fields_keep(pipeline, input, target, true, NULL, &error);
    }
    if (status == PST_OK)
        status = pst_fields_find(pipeline, input, target, true, &fields, &error);
    if (status == PST_OK) {
        watch_start(&watch, pipeline, NULL, NULL);
        status = pst_network_evaluate(network, pipeline, &fields, (unsigned)c->threads, &e, &error);
        watch_stop(&watch);
    }
    if (status == PST_OK && c->json)
        put_json(record, &e);
    else if (status == PST_OK)
        put_result(record, &e);
    pst_free(e.confusion);
    pst_network_destroy(network);
    return status < 0 ? say_failure(&command_eval, &error, c->json) : EXIT_DONE;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    pst_pipeline *pipeline = NULL;
    int code = pipeline_open(&pipeline, &command_eval, &c->pipeline, operands + 1, count - 1, c->json);

    if (code == EXIT_DONE)
        code = evaluate(c, operands[0], pipeline);
    pst_pipeline_destroy(pipeline);
    return code;
}

static const struct option options[] = {
    {"--checkpoint", .metavar = "WHICH", .kind = OPTION_STRING, INTO(struct config, checkpoint),
     .doc = "best, latest or a number of steps", .absent = "best if there is one, otherwise latest", .group = "What to evaluate"},
    {"--input-field", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, input), .doc = "the field of the input",
     .absent = "as in training"},
    {"--target", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, target), .doc = "the field with the labels",
     .absent = "as in training"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct config, threads), .min = 1, .max = 256, .doc = "threads of the model",
     .absent = "one per core"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {0},
};

static const struct example examples[] = {
    {"the best checkpoint of a run on test data",
     "penstock eval runs/first \"tfrecord test/ | example | decode | resize 32 | normalize imagenet | batch 64\""},
    {0},
};

const struct command command_eval = {
    .name = "eval",
    .summary = "measure a trained model on the data of a pipeline",
    .usage = "MODEL PIPELINE...",
    .doc = MODEL_DOC " Prints loss, accuracy, F1 and the confusion matrix; AUC for binary targets; for regression the mean absolute "
           "error and R2.\n\n" PIPELINE_DOC,
    .shared = pipeline_options,
    .options = options,
    .examples = examples,
    .min_operands = 2,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_PIPELINE,
    .config_size = sizeof(struct config),
    .run = run,
};
