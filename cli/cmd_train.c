/* cmd_train.c: `penstock train`: trains a model on the data of a pipeline, with validation, checkpoints and resume. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/train.h"
#include "cli/train_report.h"
#include "cli/watch.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    const char *model, *val, *out, *resume, *weights, *input, *target;
    uint64_t epochs, steps, steps_per_epoch, warmup, schedule_every, plateau_patience;
    uint64_t threads, keep, save_every, log_every, patience;
    double rate, momentum, weight_decay, clip, clip_value, smoothing, ema, gamma, min_rate;
    int optimizer, schedule, loss;
    struct option_list freeze;
    bool json, quiet;
    bool epochs_given, steps_given;
};

static const char *const optimizers[] = {"adam", "adamw", "sgd", "nesterov", NULL};                    /* as pst_optimizer */
static const char *const schedules[] = {"constant", "step", "cosine", "one-cycle", "plateau", NULL}; /* as pst_schedule */
static const char *const losses[] = {"auto", "sparse", "categorical", "binary", "mse", NULL};        /* as pst_loss */

/* Everything that a run needs. */
struct session {
    const struct config *config;
    char *text;           /* of the training pipeline */
    const char *resume;   /* a run folder, or NULL */
    const char *const *arguments;
    size_t argument_count;
    pst_pipeline *training, *validation;
    pst_fields fields;
    pst_model *model;
    pst_trainer *trainer;
    const char *const *classes; /* the training pipeline's */
    size_t class_count;
};

static void finish(struct session *s)
{
    pst_trainer_destroy(s->trainer);
    pst_model_destroy(s->model);
    pst_pipeline_destroy(s->training);
    pst_pipeline_destroy(s->validation);
    free(s->text);
}

static uint64_t total_steps(const struct session *s)
{
    const struct config *c = s->config;
    uint64_t length = c->steps_per_epoch ? c->steps_per_epoch : pst_pipeline_length(s->training), total = c->steps;

    if (c->epochs && length != PST_NOWHERE && (total == 0 || c->epochs * length < total))
        total = c->epochs * length;
    return total;
}

static pst_status make_trainer(struct session *s, pst_error *error)
{
    const struct config *c = s->config;
    pst_train_options o = {.size = sizeof(o),
                           .batch = s->fields.batch,
                           .threads = (unsigned)c->threads,
                           .seed = c->pipeline.seed,
                           .loss = c->loss ? (pst_loss)c->loss : pst_loss_choose(s->model, &s->fields),
                           .label_smoothing = c->smoothing,
                           .optimizer = (pst_optimizer)c->optimizer,
                           .rate = c->rate,
                           .momentum = c->momentum,
                           .weight_decay = c->weight_decay,
                           .clip_norm = c->clip,
                           .clip_value = c->clip_value,
                           .ema = c->ema,
                           .schedule = (pst_schedule)c->schedule,
                           .warmup_steps = c->warmup,
                           .total_steps = total_steps(s),
                           .schedule_every = c->schedule_every,
                           .gamma = c->gamma,
                           .min_rate = c->min_rate,
                           .plateau_patience = (unsigned)c->plateau_patience,
                           .freeze = c->freeze.items,
                           .freeze_count = c->freeze.count};
    size_t loaded = 0;
    pst_status status = pst_trainer_create(&s->trainer, s->model, &o, error);

    if (status == PST_OK && c->weights) {
        status = pst_trainer_load_weights(s->trainer, c->weights, &loaded, error);
        if (status == PST_OK)
            say_note("%zu parameters come from %s", loaded, c->weights);
    }
    return status;
}

/* The names of the classes, where they are known and are as many as the model has results. Validation data must have the same. */
static pst_status find_classes(struct session *s, pst_error *error)
{
    const char *const *other = NULL;
    size_t others = 0;
    pst_status status = pst_pipeline_class_names(s->training, &s->classes, &s->class_count, error);

    if (status == PST_OK && s->validation)
        status = pst_pipeline_class_names(s->validation, &other, &others, error);
    if (status < 0)
        return status;
    for (size_t i = 0; s->class_count && others && (i < others || i < s->class_count); i++)
        if (i >= others || i >= s->class_count || strcmp(s->classes[i], other[i]) != 0)
            return pst_fail(error, PST_EINVAL, "class %zu is %.40s in the training data and %.40s in the validation data", i,
                            i < s->class_count ? s->classes[i] : "missing", i < others ? other[i] : "missing");
    if (strcmp(s->fields.target, "label") != 0 || s->class_count != pst_model_output(s->model).size[0])
        s->class_count = 0;
    return PST_OK;
}

/* Opens pipelines, model and trainer: every mistake shows here. */
static int prepare(struct session *s, const char *const *operands, size_t count)
{
    const struct config *c = s->config;
    pst_error error;
    pst_status status;
    int code = pipeline_open(&s->training, &command_train, &c->pipeline, operands, count, c->json);

    if (code == EXIT_DONE && c->val)
        code = pipeline_open(&s->validation, &command_train, &c->pipeline, &c->val, 1, c->json);
    if (code != EXIT_DONE)
        return code;
    s->text = pipeline_text(operands, count);
    s->fields.size = sizeof(s->fields);
    status = pst_fields_find(s->training, c->input, c->target, true, &s->fields, &error);
    if (status == PST_OK)
        status = pst_model_parse(&s->model, c->model, &s->fields.shape, &error);
    if (status == PST_OK)
        status = make_trainer(s, &error);
    if (status == PST_OK)
        status = find_classes(s, &error);
    if (status < 0)
        return say_failure(&command_train, &error, c->json);
    return EXIT_DONE;
}

static void put_end(const struct session *s, const pst_run_result *r)
{
    const char *out = s->resume ? s->resume : s->config->out;
    char time[AMOUNT_SIZE];

    if (s->config->json) {
        struct json j = json_to(stdout);

        json_begin_object(&j, NULL);
        json_string(&j, "command", "train");
        json_bool(&j, "done", !r->stopped);
        json_bool(&j, "early", r->early);
        json_uint(&j, "step", pst_trainer_steps(s->trainer));
        json_uint(&j, "best_step", r->best_step);
        json_number(&j, "best_loss", r->best_loss);
        json_number(&j, "seconds", r->last.seconds);
        json_string(&j, "out", out);
        json_end_object(&j);
        putchar('\n');
    } else if (!s->config->quiet) {
        printf("%s after step %" PRIu64 ", %s", r->stopped ? "stopped" : r->early ? "no improvement: ended" : "done",
               pst_trainer_steps(s->trainer), amount_time(time, r->last.seconds));
        if (out)
            printf("; checkpoints in %s", out);
        putchar('\n');
    }
    if (r->stopped && out)
        say_try("penstock train --resume %s", out);
}

static int train(struct session *s)
{
    const struct config *c = s->config;
    struct train_report report;
    struct watch watch;
    pst_run_result result = {.size = sizeof(result)};
    pst_error error;
    pst_status status;
    pst_run_options o = {.size = sizeof(o),
                         .epochs = c->epochs,
                         .steps = c->steps,
                         .steps_per_epoch = c->steps_per_epoch,
                         .fields = &s->fields,
                         .out = s->resume ? s->resume : c->out,
                         .resume = s->resume != NULL,
                         .keep = (unsigned)c->keep,
                         .save_every = c->save_every,
                         .patience = (unsigned)c->patience,
                         .arguments = s->arguments,
                         .argument_count = s->argument_count,
                         .pipeline = s->text,
                         .validation = c->val,
                         .classes = s->class_count ? s->classes : NULL,
                         .class_count = s->class_count,
                         .progress = train_report_progress,
                         .user = &report};

    train_report_start(&report, c->json, c->quiet, c->log_every, c->epochs);
    watch_start(&watch, s->training, NULL, NULL);
    status = pst_trainer_run(s->trainer, s->training, s->validation, &o, &result, &error);
    watch_stop(&watch);
    train_report_finish(&report);
    if (status < 0)
        return say_failure(&command_train, &error, c->json);
    put_end(s, &result);
    return result.stopped ? interrupt_exit_code() : EXIT_DONE;
}

static int run_session(struct session *s, const char *const *operands, size_t count)
{
    const struct config *c = s->config;
    int code;

    if (!c->model)
        return say_usage(&command_train, "--model is missing; `penstock model --presets` lists models with names");
    if (count == 0)
        return say_usage(&command_train, "a pipeline is missing");
    if (!s->resume && c->out && access(c->out, F_OK) == 0) {
        char latest[4096];

        snprintf(latest, sizeof(latest), "%s/latest", c->out);
        if (access(latest, F_OK) == 0) {
            say_error("%s has checkpoints of an earlier run", c->out);
            say_try("penstock train --resume %s", c->out);
            return EXIT_FAILED;
        }
    }
    code = prepare(s, operands, count);
    if (code == EXIT_DONE)
        code = train(s);
    finish(s);
    return code;
}

/* Repeats the recorded command; --epochs and --steps may extend it. */
static int run_again(const struct config *now)
{
    struct parsed parsed = {0};
    pst_run_record *record = NULL;
    pst_error error;
    int code;

    if (pst_run_record_read(&record, now->resume, "latest", &error) < 0 && pst_run_record_read(&record, now->resume, NULL, &error) < 0)
        return say_failure(&command_train, &error, now->json);
    code = options_parse(&parsed, &command_train, (int)record->argument_count, record->arguments);
    if (code == EXIT_DONE) {
        struct config *c = parsed.config;
        struct session s = {.config = c, .resume = now->resume, .arguments = (const char *const *)record->arguments,
                            .argument_count = record->argument_count};

        c->json |= now->json;
        c->quiet |= now->quiet;
        c->epochs = now->epochs_given ? now->epochs : c->epochs;
        c->steps = now->steps_given ? now->steps : c->steps;
        c->weights = NULL; /* the checkpoint has them */
        code = run_session(&s, parsed.operands, parsed.count);
    }
    options_finish(&parsed, &command_train);
    pst_run_record_destroy(record);
    return code;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct session s = {.config = c, .arguments = (const char *const *)command_arguments.items, .argument_count = command_arguments.count};

    if (c->resume && count > 0)
        return say_usage(&command_train, "--resume repeats the recorded command; leave out the pipeline");
    return c->resume ? run_again(c) : run_session(&s, operands, count);
}

static const struct option options[] = {
    {"--model", 'm', "MODEL", OPTION_STRING, INTO(struct config, model), .completion = COMPLETE_FILES,
     .doc = "a chain of layers, @FILE or the name of a preset; `penstock model --layers` and `--presets` list them", .absent = "required",
     .group = "What to train"},
    {"--val", .metavar = "PIPELINE", .kind = OPTION_STRING, INTO(struct config, val), .completion = COMPLETE_PIPELINE,
     .doc = "the data that is evaluated after each epoch", .absent = "none: the training loss is monitored"},
    {"--weights", 'w', "PATH", OPTION_STRING, INTO(struct config, weights), .completion = COMPLETE_FILES,
     .doc = "start with the weights of a run, a checkpoint or a safetensors file; parameters that it lacks start fresh", .absent = "fresh"},
    {"--freeze", .metavar = "LAYER", .kind = OPTION_REPEATED, INTO(struct config, freeze),
     .doc = "do not train this layer, such as conv_1 or conv_*"},
    {"--input-field", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, input), .doc = "the field that the model takes",
     .absent = "image, or the only field of numbers besides the target"},
    {"--target", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, target), .doc = "the field that it learns", .absent = "label"},
    {"--epochs", 'e', "N", OPTION_UINT, INTO(struct config, epochs), .given = offsetof(struct config, epochs_given), .initial = "10",
     .max = 1e9, .doc = "passes over the data; 0: as many as --steps takes", .group = "How long"},
    {"--steps", 's', "N", OPTION_UINT, INTO(struct config, steps), .given = offsetof(struct config, steps_given), .max = 1e15,
     .doc = "stop after N updates", .absent = "any number"},
    {"--steps-per-epoch", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, steps_per_epoch), .max = 1e15,
     .doc = "end an epoch after N updates", .absent = "with the data"},
    {"--patience", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, patience), .max = 1e6,
     .doc = "stop when the monitored loss has not improved for N epochs", .absent = "never"},
    {"--optimizer", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct config, optimizer), .choices = optimizers, .initial = "adam",
     .doc = "how weights are updated", .group = "How it learns"},
    {"--lr", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct config, rate), .initial = "0.001", .min = 1e-12, .max = 1e6,
     .doc = "the learning rate"},
    {"--schedule", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct config, schedule), .choices = schedules, .initial = "constant",
     .doc = "how the learning rate changes: step multiplies it by --gamma after every --schedule-every updates, cosine lets it fall to "
            "--min-lr, one-cycle lets it rise and fall, plateau multiplies it by --gamma when the loss stays"},
    {"--warmup", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, warmup), .max = 1e15,
     .doc = "updates during which the learning rate rises from 0", .absent = "none"},
    {"--schedule-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, schedule_every), .initial = "1000", .min = 1,
     .doc = "updates between steps of --schedule step"},
    {"--gamma", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct config, gamma), .initial = "0.1", .min = 1e-6, .max = 1,
     .doc = "the factor of --schedule step and plateau"},
    {"--min-lr", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct config, min_rate), .initial = "0",
     .doc = "the lowest rate of --schedule cosine and plateau"},
    {"--plateau", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, plateau_patience), .initial = "5", .min = 1, .max = 1e6,
     .doc = "epochs without improvement before --schedule plateau acts"},
    {"--loss", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct config, loss), .choices = losses, .initial = "auto",
     .doc = "sparse and categorical cross-entropy, binary cross-entropy or mean squared error; auto chooses by the target's type and the "
            "model's last layer"},
    {"--label-smoothing", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct config, smoothing), .initial = "0", .max = 0.999,
     .doc = "the share of the target that is spread over all classes"},
    {"--momentum", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct config, momentum), .initial = "0.9", .max = 1,
     .doc = "of sgd and nesterov"},
    {"--weight-decay", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct config, weight_decay), .initial = "0", .max = 1e3,
     .doc = "decoupled weight decay of kernels; adamw has 0.004 where this is 0"},
    {"--clip", .metavar = "NORM", .kind = OPTION_FLOAT, INTO(struct config, clip), .initial = "0", .max = 1e12,
     .doc = "the largest norm of all gradients together; 0: any"},
    {"--clip-value", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct config, clip_value), .initial = "0", .max = 1e12,
     .doc = "the largest absolute value of a gradient; 0: any"},
    {"--ema", .metavar = "DECAY", .kind = OPTION_FLOAT, INTO(struct config, ema), .initial = "0", .max = 0.999999,
     .doc = "evaluate with a moving mean of the weights, such as 0.999; 0: none"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct config, threads), .min = 1, .max = 256,
     .doc = "threads of the training step; the result does not depend on it", .absent = "one per core"},
    {"--out", 'o', "RUN", OPTION_STRING, INTO(struct config, out), .completion = COMPLETE_FOLDERS,
     .doc = "the folder for checkpoints", .absent = "nothing is saved", .group = "Checkpoints"},
    {"--resume", 'r', "RUN", OPTION_STRING, INTO(struct config, resume), .completion = COMPLETE_FOLDERS,
     .doc = "continue the run in this folder with its recorded command; --epochs and --steps extend it"},
    {"--keep", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, keep), .initial = "2", .min = 1, .max = 1e6,
     .doc = "checkpoints that are kept besides the best"},
    {"--save-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, save_every), .max = 1e15,
     .doc = "also save after every N updates", .absent = "only after each epoch"},
    {"--log-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, log_every), .max = 1e15,
     .doc = "print a line after every N updates", .absent = "only after each epoch", .group = "What to show"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object per epoch, and one at the end"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "print only errors"},
    {0},
};

static const struct example examples[] = {
    {"a small network on packed images, validated after each epoch",
     "penstock train \"tfrecord train/ | shuffle | example | decode | flip | normalize imagenet | batch 64\" --val \"tfrecord test/ | example "
     "| decode | normalize imagenet | batch 64\" --model cnn --epochs 10 --out runs/first"},
    {"continue after an interruption", "penstock train --resume runs/first"},
    {"a new head on the layers of an earlier run",
     "penstock train @train.pst --model @model.pst --weights runs/first --freeze \"conv_*\" --lr 1e-4 --out runs/second"},
    {0},
};

const struct command command_train = {
    .name = "train",
    .summary = "train a model on the data of a pipeline",
    .usage = "PIPELINE...",
    .doc = "Trains the model for some epochs. A terminal shows loss, accuracy, learning rate, samples per second, the share of time spent "
           "waiting for data, and the time left. Checkpoints go to RUN/step_NNNNNNNN; RUN/latest and RUN/best are links to them. A run that was "
           "killed at any moment continues bit-identically with --resume; Ctrl-C saves and stops.\n\n" PIPELINE_DOC,
    .shared = pipeline_options,
    .options = options,
    .examples = examples,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_PIPELINE,
    .config_size = sizeof(struct config),
    .run = run,
};
