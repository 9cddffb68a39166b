/* cmd_predict.c: `penstock predict`: what a trained model says about files.
 *
 * Files go through the preprocessing of the validation pipeline. Where a run had none, the training pipeline serves, with its random
 * operations left out or replaced by their deterministic counterparts. */
#include "cli/command.h"
#include "base/secret.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/stages.h"
#include "cli/train.h"
#include <inttypes.h>
#include <limits.h>
#include <penstock/inspect.h>
#include <penstock/network.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { BATCH = 64 };

struct config {
    const char *checkpoint;
    uint64_t top, threads;
    bool json, csv, fp32, small;
};

struct paths { /* pst_files_find */
    char **path;
    size_t count;
};

/* ---- Preprocessing ---- */

/* The operation of a stage; NULL: there is none of that name. */
static const pst_op_class *op_of(const char *stage)
{
    char name[64];

    snprintf(name, sizeof(name), "%.*s", (int)strcspn(stage, " \t\n"), stage);
    return pst_op_find(name);
}

/* Whether the stage changes the target alone. */
static bool is_for_target(const pst_op_class *op, const char *stage, const char *target)
{
    const pst_param *p = op->flags & PST_OP_ONE_FIELD ? op->params : NULL;
    char *field;
    bool same;

    while (p && p->name && strcmp(p->name, "field") != 0)
        p++;
    if (!p || !p->name)
        return false;
    field = stage_argument(stage, op, "field");
    same = strcmp(field ? field : p->fallback ? p->fallback : "", target) == 0;
    free(field);
    return same;
}

/* Whether the stage renames the one field that files have, too. */
static bool renames_image(const pst_op_class *op, const char *stage)
{
    char *from = strcmp(op->name, "rename") == 0 ? stage_argument(stage, op, "from") : NULL;
    bool ret = from && strcmp(from, "image") == 0;

    free(from);
    return ret;
}

/* Stages that do not compute the input: files have no other field. */
static bool is_left_out(const pst_op_class *op, const char *stage, const char *target)
{
    if (renames_image(op, stage))
        return false;
    return pst_op_kind_of(op) != PST_OP_SAMPLE || !op->run || op->flags & (PST_OP_RANDOM | PST_OP_PARSES) ||
           is_for_target(op, stage, target);
}

/* Adds a stage; random operations become their steady counterparts. */
static pst_status add_stage(pst_pipeline *p, const char *stage, const char *target, bool *random, pst_error *error)
{
    const pst_op_class *op = op_of(stage);
    const char *instead = op ? op->steady : NULL;
    char *arguments = instead ? stage_arguments_for(stage, instead) : NULL;
    size_t n = strcspn(stage, " \t\n");
    char name[64];
    pst_status status = PST_OK;

    *random |= op && pst_op_kind_of(op) == PST_OP_SAMPLE && op->flags & PST_OP_RANDOM;
    if (instead && !arguments)
        status = pst_fail(error, PST_ENOMEM, "out of memory");
    else if (instead)
        status = pst_pipeline_add(p, instead, arguments, error);
    else if (n < sizeof(name) && (!op || !is_left_out(op, stage, target))) {
        snprintf(name, sizeof(name), "%.*s", (int)n, stage);
        status = pst_pipeline_add(p, name, stage + n, error);
    }
    free(arguments);
    return status;
}

/* The files with the preprocessing of the run. `bad` is a policy. `*ret_random`: random operations were replaced. */
static pst_status open_pipeline(pst_pipeline **ret, const pst_run_record *r, const struct paths *files, const char *bad, bool *ret_random, pst_error *error)
{
    const char *text = r->validation ? r->validation : r->pipeline;
    pst_pipeline_options o = {.size = sizeof(o), .bad = bad};
    struct stages s;
    pst_status status;
    char batch[16];
    int cut;

    if (text && (cut = stages_cut(&s, text)) < 0)
        return pst_fail(error, PST_ENOMEM, "out of memory");
    if (text && cut > 0)
        return pst_fail(error, PST_EUNSUPPORTED, "the preprocessing of the model includes a file that is not read (%.60s); give the text of a pipeline in place of "
                                                 "paths: \"folder photos | decode | resize 224 | batch 64\"", text);
    if (!text)
        return pst_fail(error, PST_EUNSUPPORTED, "the model comes without a pipeline whose preprocessing could be repeated; give the text of one in place of paths: \"folder photos | decode | resize 224 | batch 64\"");
    status = pst_pipeline_create(ret, &o, error);
    if (status == PST_OK)
        status = pst_pipeline_add_files(*ret, (const char *const *)files->path, NULL, files->count, error);
    for (size_t i = 1; status == PST_OK && i < s.count; i++)
        status = add_stage(*ret, s.text[i], r->target_field ? r->target_field : "label", ret_random, error);
    snprintf(batch, sizeof(batch), "%d", BATCH);
    if (status == PST_OK)
        status = pst_pipeline_add(*ret, "batch", batch, error);
    stages_finish(&s);
    return status;
}

/* ---- Results ---- */

struct output {
    const struct config *config;
    const pst_run_record *record;
    size_t width;
};

/* A cell of a CSV table: quoted where it has a comma, a quote or a line break. */
static void put_cell(const char *text)
{
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    char *cell = malloc(2 * strlen(text) + 1), *to = cell;

    if (!cell)
        return;
    for (; *text; *to++ = *text++)
        if (*text == '"')
            *to++ = '"';
    *to = '\0';
    fputs(quoted ? "\"" : "", stdout);
    put_clean_string(stdout, cell);
    fputs(quoted ? "\"" : "", stdout);
    free(cell);
}

static void put_one(const struct output *o, const char *path, const float *p)
{
    struct json j = json_to(stdout);
    bool classes = o->record->loss != PST_LOSS_MSE;
    size_t top = classes && o->config->top < o->width ? (size_t)o->config->top : o->width;
    float last = 0;
    size_t last_at = 0;
    char name[CLASS_SIZE];

    if (o->config->json) {
        json_begin_object(&j, NULL);
        json_shown(&j, "path", path);
        json_begin_array(&j, "top");
    } else if (!o->config->csv) {
        put_clean_string(stdout, path);
    }
    for (size_t i = 0; i < top; i++) {
        size_t best = SIZE_MAX;

        for (size_t k = 0; k < o->width; k++) /* the next after the last one: by value, then by number */
            if ((i == 0 || p[k] < last || (p[k] == last && k > last_at)) && (best == SIZE_MAX || p[k] > p[best]))
                best = k;
        best = classes && best != SIZE_MAX ? best : i;
        last = p[best];
        last_at = best;
        if (o->config->json) {
            json_begin_object(&j, NULL);
            json_string(&j, "class", class_name(o->record, best, name));
            json_uint(&j, "index", best);
            json_number(&j, classes ? "probability" : "value", (double)p[best]);
            json_end_object(&j);
        } else if (o->config->csv) {
            put_cell(path);
            putchar(',');
            put_cell(class_name(o->record, best, name));
            printf(",%zu,%.6g\n", best, (double)p[best]);
        } else if (classes) {
            printf("  %s %.2f %%", class_name(o->record, best, name), 100 * (double)p[best]);
        } else {
            printf("  %.6g", (double)p[best]);
        }
    }
    if (o->config->json) {
        json_end_array(&j);
        json_end_object(&j);
    }
    if (!o->config->csv)
        putchar('\n');
}

/* The name of sample `i` of a batch: its file, with the record where the file has several. */
static const char *sample_name(pst_pipeline *pipeline, const pst_batch *batch, size_t i, char *buffer, size_t size)
{
    pst_place place;
    pst_error error;

    if (pst_pipeline_locate(pipeline, batch, i, &place, &error) < 0 || (!place.path && place.record == PST_NOWHERE))
        return "";
    if (place.path && place.record == PST_NOWHERE)
        return place.path;
    snprintf(buffer, size, "%s%s%" PRIu64, place.path ? place.path : "", place.path ? "#" : "", place.record);
    return buffer;
}

static pst_status predict(const struct output *o, pst_predictor *predictor, pst_pipeline *pipeline, const char *field, pst_error *error)
{
    float *out = NULL;
    size_t room = 0;
    pst_batch *batch = NULL;
    pst_status status = PST_OK;
    char name[PATH_MAX + 32];

    while (status == PST_OK && !interrupt_requested() && (status = pst_pipeline_next(pipeline, &batch, error)) == PST_OK) {
        const pst_tensor *input = pst_batch_get(batch, field);
        size_t count = pst_batch_size(batch);

        if (!input)
            status = pst_fail(error, PST_EINVAL, "the preprocessing has no field %s", field);
        if (count > room) {
            free(out);
            out = malloc(count * o->width * sizeof(*out));
            room = out ? count : 0;
            if (!out)
                status = pst_fail(error, PST_ENOMEM, "out of memory");
        }
        if (status == PST_OK && count > 0)
            status = pst_predictor_run(predictor, input, out, error);
        for (size_t i = 0; status == PST_OK && i < count; i++)
            put_one(o, sample_name(pipeline, batch, i, name, sizeof(name)), out + i * o->width);
        batch = pst_batch_unref(batch);
    }
    free(out);
    return status == PST_END ? PST_OK : status;
}

/* ---- Files that cannot be read ---- */

/* What is wrong with a file that was left out: it is read again alone. */
static void explain(const pst_run_record *r, const pst_damage *d, pst_error *error)
{
    char *path = (char *)(uintptr_t)d->path; /* not written to */
    const struct paths one = {.path = &path, .count = 1};
    pst_pipeline *p = NULL;
    pst_batch *batch = NULL;
    bool random = false;
    pst_status status = open_pipeline(&p, r, &one, "error", &random, error);

    while (status == PST_OK && (status = pst_pipeline_next(p, &batch, error)) == PST_OK)
        batch = pst_batch_unref(batch);
    pst_pipeline_destroy(p);
    if (status >= 0)
        pst_fail_at(error, PST_ECORRUPT, d->path, PST_NOWHERE, PST_NOWHERE, "%s", pst_cause_name(d->cause));
}

/* Reports the files that were left out. Returns the exit code. */
static int put_bad(const struct output *o, const pst_damage_log *log)
{
    uint64_t all = pst_damage_log_total(log);
    pst_error error;
    char text[1024];

    for (size_t i = 0; i < pst_damage_log_places(log) && !interrupt_requested(); i++) {
        pst_damage d = pst_damage_log_place(log, i);
        struct json j = json_to(stdout);

        explain(o->record, &d, &error);
        say_error("%s", pst_error_text(&error, text, sizeof(text)));
        if (!o->config->json)
            continue;
        json_begin_object(&j, NULL);
        json_shown(&j, "path", d.path);
        json_error(&j, "error", &error);
        json_end_object(&j);
        putchar('\n');
    }
    if (all > pst_damage_log_places(log) && !interrupt_requested())
        say_note("%" PRIu64 " files were left out; the first %zu are listed", all, pst_damage_log_places(log));
    return all ? EXIT_DAMAGE : EXIT_DONE;
}

/* Whether an operand is the text of a pipeline: it has several stages, or is read from a file. */
static bool is_pipeline(const char *operand)
{
    struct stat st;

    return stat(operand, &st) < 0 && (operand[0] == '@' || strchr(operand, '|'));
}

/* The files of all operands with the preprocessing of the run, or the one pipeline. */
static pst_status open_input(pst_pipeline **ret, const pst_run_record *r, const char *const *operands, size_t count, struct paths *files,
                             pst_error *error)
{
    pst_pipeline_options o = {.size = sizeof(o)};
    bool random = false;
    pst_status status;

    if (count == 1 && is_pipeline(operands[0]))
        return pst_pipeline_parse(ret, operands[0], &o, error);
    status = pst_files_find(&files->path, &files->count, operands, count, error);
    if (status < 0)
        return status;
    status = open_pipeline(ret, r, files, "skip", &random, error);
    if (status == PST_OK && !r->validation && random)
        say_note("the run had no validation pipeline: its training pipeline is used, with random operations replaced");
    return status;
}

/* Fails where an option has no meaning for the network. */
static pst_status check(const struct config *c, const pst_network *n, pst_error *error)
{
    pst_network_info info = {.size = sizeof(info)};
    pst_status status = pst_network_describe(n, &info, error);

    if (status == PST_OK && c->fp32 && info.format != PST_WEIGHTS_QUANTIZED)
        return pst_fail(error, PST_EINVAL, "--fp32 is for quantised models; this one is computed in float32 without it");
    return status;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct paths files = {0};
    pst_network *network = NULL;
    pst_predictor *predictor = NULL;
    pst_pipeline *pipeline = NULL;
    pst_fields fields = {.size = sizeof(fields)};
    pst_predict_options o = {.size = sizeof(o),
                             .threads = (unsigned)c->threads,
                             .output = PST_OUTPUT_PROBABILITIES,
                             .precision = c->fp32 ? PST_PRECISION_FP32 : PST_PRECISION_AUTO,
                             .small = c->small};
    pst_error error;
    pst_status status;
    int code = EXIT_DONE;

    if (c->csv && c->json)
        return say_usage(&command_predict, "--csv and --json exclude each other");
    status = pst_network_open(&network, operands[0], c->checkpoint, &error);
    if (status == PST_OK)
        status = check(c, network, &error);
    if (status == PST_OK)
        status = pst_predictor_of_network(&predictor, network, &o, &error);
    if (status == PST_OK)
        status = open_input(&pipeline, pst_network_record(network), operands + 1, count - 1, &files, &error);
    if (status == PST_OK)
        status = pst_fields_keep(pipeline, pst_network_record(network)->input_field, NULL, false, NULL, &error);
    if (status == PST_OK)
        status = pst_fields_find(pipeline, pst_network_record(network)->input_field, NULL, false, &fields, &error);
    if (status == PST_OK) {
        struct output to = {.config = c, .record = pst_network_record(network), .width = pst_model_output(pst_network_model(network)).size[0]};

        status = predict(&to, predictor, pipeline, fields.input, &error);
        if (status == PST_OK)
            code = put_bad(&to, pst_pipeline_damage(pipeline));
    }
    pst_pipeline_destroy(pipeline);
    pst_predictor_destroy(predictor);
    pst_network_destroy(network);
    pst_free(files.path);
    if (status < 0)
        return say_failure(&command_predict, &error, c->json);
    return interrupt_requested() ? interrupt_exit_code() : code;
}

static const struct option options[] = {
    {"--top", 'k', "N", OPTION_UINT, INTO(struct config, top), .initial = "5", .min = 1, .max = 1e6,
     .doc = "how many classes to print per file, the most likely first"},
    {"--checkpoint", .metavar = "WHICH", .kind = OPTION_STRING, INTO(struct config, checkpoint),
     .doc = "best, latest or a number of steps", .absent = "best if there is one, otherwise latest"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct config, threads), .min = 1, .max = 256, .doc = "threads of the model",
     .absent = "one per core"},
    {"--fp32", .kind = OPTION_FLAG, INTO(struct config, fp32), .doc = "compute a quantised model in float32"},
    {"--small", .kind = OPTION_FLAG, INTO(struct config, small), .doc = "take the least memory: few samples at a time, and of a quantised model int8 kernels only"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object per file; one that cannot be read has an error in it"},
    {"--csv", .kind = OPTION_FLAG, INTO(struct config, csv), .doc = "print lines of path, class, number and probability"},
    {0},
};

static const struct example examples[] = {
    {"what is in these pictures?", "penstock predict runs/first photo.jpg more/ --top 3"},
    {"the records of shards, with a pipeline of your own",
     "penstock predict runs/first \"tfrecord test/ | example | decode | resize 32 | normalize imagenet | batch 64\" --csv"},
    {0},
};

const struct command command_predict = {
    .name = "predict",
    .summary = "print what a trained model says about files",
    .usage = "MODEL PATH...",
    .doc = MODEL_DOC " A PATH is a file, a folder whose files are all taken, or a quoted pattern; it may be in a store. Files are preprocessed as by the validation pipeline of the run. A run "
           "without one uses its training pipeline: random crops become deterministic ones, flips are left out. In place of paths, the text of a "
           "pipeline that makes batches may be given; it is used as it is.\n\n"
           "Files that cannot be read are named on stderr, and the others are predicted; the exit code is then 3.",
    .options = options,
    .examples = examples,
    .min_operands = 2,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
