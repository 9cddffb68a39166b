/* cmd_train.c: `penstock train`: trains a model on the data of a pipeline, with validation, checkpoints and resume. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/say.h"
#include "cli/sweep.h"
#include "cli/train_check.h"
#include "cli/train_ranks.h"
#include "cli/train_report.h"
#include "cli/train_session.h"
#include "cli/watch.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROFILE_WARMUP = 3 }; /* updates before --profile measures */

static const char *const schedules[] = {"constant", "step", "cosine", "one-cycle", "plateau", NULL}; /* as pst_schedule */
static const char *const monitors[] = {"auto",    "loss",   "accuracy", "val-loss", "val-accuracy",
                                       "val-auc", "val-f1", "val-mae",  "val-r2",   NULL}; /* as pst_monitor */

static const char *const prune_schedules[] = {"polynomial", "constant", NULL}; /* as pst_prune_schedule */

static const char *const channel_norms[] = {"l1", "l2", "scale", NULL}; /* as pst_channel_norm */

static void put_end(const struct train_session *s, const pst_run_result *r)
{
    const char *out = s->resume ? s->resume : s->config->out;
    char time[AMOUNT_SIZE];

    if (s->config->json) {
        struct json j = json_to(stdout);

        json_begin_object(&j, NULL);
        json_string(&j, "command", "train");
        json_bool(&j, "done", !r->stopped);
        json_bool(&j, "early", r->early);
        train_report_numbers(&j, &r->last);
        json_uint(&j, "best_step", r->best_step);
        json_number(&j, "best_loss", r->best_loss);
        json_uint(&j, "skipped_records", pst_damage_log_total(pst_pipeline_damage(s->training)));
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
    if (!s->config->json && !s->config->quiet) {
        say_skipped("training: ", pst_pipeline_damage(s->training));
        if (s->validation)
            say_skipped("validation: ", pst_pipeline_damage(s->validation));
    }
    if (r->stopped && out)
        say_try("penstock train --resume %s", out);
}

/* The report, and the steps that --profile measures. */
struct watcher {
    struct train_report report;
    struct train_session *session;
    uint64_t first; /* the step before the first one here; UINT64_MAX: not known yet */
};

/* Called after every step: measures `profile` of them, after some that warm up. */
static bool progress(void *user, const pst_run_progress *p)
{
    struct watcher *w = user;
    const struct train_config *c = w->session->config;
    bool stop = train_report_progress(&w->report, p);

    if (!c->profile || p->epoch_end || p->validated)
        return stop;
    if (w->first == UINT64_MAX)
        w->first = p->step - 1;
    if (p->step - w->first == PROFILE_WARMUP)
        pst_trainer_measure(w->session->trainer, true, NULL);
    if (p->step - w->first == PROFILE_WARMUP + c->profile)
        pst_trainer_measure(w->session->trainer, false, NULL);
    return stop;
}

/* Prints what was measured, and writes the trace. */
static int put_profile(struct train_session *s)
{
    const struct train_config *c = s->config;
    const char *out = s->resume ? s->resume : c->out;
    char path[PATH_MAX];
    pst_error error;

    if (!train_profile(s->trainer, c->json))
        say_note("--profile: the run was too short; it measures after %d updates", PROFILE_WARMUP);
    else if (out) {
        snprintf(path, sizeof(path), "%s/trace.json", out);
        if (pst_trainer_write_trace(s->trainer, path, &error) < 0)
            return say_failure(&command_train, &error, c->json);
        if (!c->json)
            printf("trace in %s: open it in chrome://tracing or ui.perfetto.dev\n", path);
    }
    return EXIT_DONE;
}

static int train(struct train_session *s, pst_run_result *result)
{
    const struct train_config *c = s->config;
    struct watcher watcher = {.session = s, .first = UINT64_MAX};
    struct watch watch;
    char folder[PATH_MAX];
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
                         .monitor = (pst_monitor)c->monitor,
                         .validate_every = c->val_every,
                         .weight_field = c->sample_weight,
                         .teacher = s->teacher,
                         .folder = getcwd(folder, sizeof(folder)),
                         .arguments = s->arguments,
                         .argument_count = s->argument_count,
                         .pipeline = s->text,
                         .validation = c->val,
                         .classes = s->class_count ? s->classes : NULL,
                         .class_count = s->class_count,
                         .progress = progress,
                         .user = &watcher};

    train_report_start(&watcher.report, c->json && !s->silent, c->quiet || s->silent, s->silent ? 0 : c->log_every, c->epochs);
    watcher.report.shows_f1 = c->monitor == PST_MONITOR_VAL_F1;
    watch_start(&watch, s->training, NULL, NULL);
    watch_also(&watch, s->validation);
    status = pst_trainer_run(s->trainer, s->training, s->validation, &o, result, &error);
    watch_stop(&watch);
    train_report_finish(&watcher.report);
    if (status < 0)
        return say_failure(&command_train, &error, c->json);
    s->together = true;
    if (!s->silent)
        put_end(s, result);
    if (c->profile && !s->silent && put_profile(s) != EXIT_DONE)
        return EXIT_FAILED;
    if (pipeline_save_trace(s->training, &command_train, &c->pipeline, c->json) != EXIT_DONE)
        return EXIT_FAILED;
    return result->stopped ? interrupt_exit_code() : EXIT_DONE;
}

static int run_session(struct train_session *s, const char *const *operands, size_t count, pst_run_result *result);

/* Without --model, the model is that of the run in --weights. */
static int run_weights_model(struct train_session *s, const char *const *operands, size_t count, pst_run_result *result)
{
    struct train_config c = *s->config;
    struct train_session with = *s;
    pst_run_record *record = NULL;
    int code;

    if (pst_run_record_read(&record, c.weights, NULL, NULL) < 0)
        return say_usage(&command_train, "--model is missing, and %s is not a run that has one; `penstock model --presets` lists models with names",
                         c.weights);
    c.model = record->model;
    with.config = &c;
    code = run_session(&with, operands, count, result);
    pst_run_record_destroy(record);
    return code;
}

static int run_session(struct train_session *s, const char *const *operands, size_t count, pst_run_result *result)
{
    const struct train_config *c = s->config;
    int code;

    if (!c->model && c->weights)
        return run_weights_model(s, operands, count, result);
    if (!c->model)
        return say_usage(&command_train, "--model is missing; `penstock model --presets` lists models with names");
    if (count == 0)
        return say_usage(&command_train, "a pipeline is missing");
    if (!s->resume && c->out) {
        pst_run_record *earlier = NULL;
        char latest[4096];

        snprintf(latest, sizeof(latest), "%s/latest", c->out);
        if (access(latest, F_OK) == 0 || (strstr(c->out, "://") && pst_run_record_read(&earlier, c->out, "latest", NULL) == PST_OK)) {
            pst_run_record_destroy(earlier);
            say_error("%s has checkpoints of an earlier run", c->out);
            say_try("penstock train --resume %s", c->out);
            return EXIT_FAILED;
        }
        code = train_check_out(c->out);
        if (code != EXIT_DONE)
            return code;
    }
    code = session_open(s, operands, count);
    if (code == EXIT_DONE)
        code = train(s, result);
    session_close(s, code);
    return code;
}

/* Goes to the folder that the recorded command was given in, if it is still there. `run`: the run folder's path from then on. */
static void return_to(const char *start, const char *path, char run[PATH_MAX])
{
    char here[PATH_MAX], full[PATH_MAX];

    snprintf(run, PATH_MAX, "%s", path);
    if (!start || !getcwd(here, sizeof(here)) || strcmp(here, start) == 0 || !realpath(path, full) || chdir(start) < 0)
        return;
    snprintf(run, PATH_MAX, "%s", full);
    say_note("relative paths start from %s, as when the run began", start);
}

/* Whether the command gives data, from another folder than the run began in. */
static bool moves_data(const struct train_config *now, size_t count, const pst_run_record *r)
{
    char here[PATH_MAX];

    return (count || now->val) && r->start && getcwd(here, sizeof(here)) && strcmp(here, r->start) != 0;
}

enum { ANCHOR_SIZE = 2 * PATH_MAX };

/* Makes the path of an option of the recorded command absolute, in `room`: from now on relative paths start from another folder. */
static void anchor(char **arguments, size_t count, const char *option, const char *start, char room[ANCHOR_SIZE])
{
    size_t n = strlen(option);

    for (size_t i = 0; i < count; i++) {
        bool joined = strncmp(arguments[i], option, n) == 0 && arguments[i][n] == '=';
        size_t at = joined ? i : i + 1;
        const char *path = joined ? arguments[i] + n + 1 : strcmp(arguments[i], option) == 0 && at < count ? arguments[at] : NULL;

        if (!path || path[0] == '/' || strstr(path, "://") || strcmp(path, "balanced") == 0)
            continue;
        snprintf(room, ANCHOR_SIZE, "%.*s%s/%s", joined ? (int)n + 1 : 0, arguments[i], start, path);
        arguments[at] = room;
        return;
    }
}

/* AVX-512 computes the bits of AVX2. */
static bool same_bits(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || (strncmp(a, "avx", 3) == 0 && strncmp(b, "avx", 3) == 0);
}

static void compare_instructions(const struct train_session *s, const pst_run_record *r)
{
    if (r->instructions && !same_bits(r->instructions, pst_trainer_instructions(s->trainer)))
        say_note("the run began with %s instructions, this machine continues with %s: bits will differ from an uninterrupted run", r->instructions,
                 pst_trainer_instructions(s->trainer));
}

/* The recorded command with what may be changed: the end of the run, and data that has moved. */
static int run_recorded(const struct train_config *now, const pst_run_record *record, struct parsed *parsed, const char *run,
                        const char *const *operands, size_t count, pst_run_result *result)
{
    const char *text = record->pipeline; /* the newest: the data may have moved before */
    struct train_config *c = parsed->config;
    struct train_session s = {.command = &command_train, .config = c, .resume = run, .arguments = (const char *const *)record->arguments,
                              .argument_count = record->argument_count};
    int code;

    c->json |= now->json;
    c->quiet |= now->quiet;
    c->log_every = now->log_every ? now->log_every : c->log_every;
    c->profile = now->profile;
    c->pipeline.trace = now->pipeline.trace;
    c->rank_timeout = now->rank_timeout;
    c->pipeline.workers = now->pipeline.workers ? now->pipeline.workers : c->pipeline.workers;
    c->pipeline.prefetch = now->pipeline.prefetch ? now->pipeline.prefetch : c->pipeline.prefetch;
    c->pipeline.ram = now->pipeline.ram ? now->pipeline.ram : c->pipeline.ram;
    c->pipeline.cache = now->pipeline.cache ? now->pipeline.cache : c->pipeline.cache;
    c->pipeline.live |= now->pipeline.live;
    c->bind = now->bind;
    c->epochs = now->epochs_given ? now->epochs : c->epochs;
    c->steps = now->steps_given ? now->steps : c->steps;
    c->val = now->val ? now->val : record->validation ? record->validation : c->val;
    c->model = record->model;
    c->weights = NULL; /* the checkpoint has them */
    c->model = record->model; /* also where it was changed before the run began, as by --qat */
    c->threads = now->threads ? now->threads : pst_launch_find(&(pst_launch){.size = sizeof(pst_launch)}) ? 0 : record->threads ? record->threads : c->threads;
    s.kernels = record->kernels; /* the same bits, whatever the file of --kernels holds by now */
    code = ranks_divide(&command_train, c, record->batches_per_step ? record->batches_per_step : 1);
    if (code == EXIT_DONE)
        code = session_open(&s, count ? operands : text ? &text : parsed->operands, count ? count : text ? 1 : parsed->count);
    if (code == EXIT_DONE) {
        compare_instructions(&s, record);
        code = train(&s, result);
    }
    session_close(&s, code);
    return code;
}

/* The recorded command; where its data is named anew from another folder, with the paths of its other files made absolute. */
static int parse_recorded(struct parsed *parsed, const struct train_config *now, pst_run_record *r, const char *path, size_t count, char run[PATH_MAX])
{
    static char rooms[3][ANCHOR_SIZE]; /* `parsed` points into them */

    snprintf(run, PATH_MAX, "%s", path);
    if (!moves_data(now, count, r))
        return_to(r->start, path, run);
    else if (count == 0 || (r->validation && !now->val))
        return say_usage(&command_train, "the run began in %s; name the new data from there, or give %s, too, so that all paths start from here",
                         r->start, count ? "--val" : "the pipeline");
    else {
        anchor(r->arguments, r->argument_count, "--class-weight", r->start, rooms[0]);
        anchor(r->arguments, r->argument_count, "--plugin", r->start, rooms[1]);
        anchor(r->arguments, r->argument_count, "--teacher", r->start, rooms[2]);
    }
    return options_parse(parsed, &command_train, (int)r->argument_count, r->arguments);
}

int train_again(const struct train_config *now, const char *path, const char *const *operands, size_t count, pst_run_result *result)
{
    struct parsed parsed = {0};
    pst_run_record *record = NULL;
    char run[PATH_MAX], **arguments;
    pst_error error;
    int code;

    if (pst_run_record_read(&record, path, "latest", &error) < 0 && pst_run_record_read(&record, path, NULL, &error) < 0)
        return say_failure(&command_train, &error, now->json);
    arguments = calloc(record->argument_count + 1, sizeof(*arguments));
    if (arguments)
        memcpy(arguments, record->arguments, record->argument_count * sizeof(*arguments));
    code = arguments ? parse_recorded(&parsed, now, record, path, count, run) : EXIT_FAILED;
    if (code == EXIT_DONE)
        code = run_recorded(now, record, &parsed, run, operands, count, result);
    options_finish(&parsed, &command_train);
    if (arguments)
        memcpy(record->arguments, arguments, record->argument_count * sizeof(*arguments)); /* what it frees */
    free(arguments);
    pst_run_record_destroy(record);
    return code;
}

int train_once(const struct train_config *c, const char *const *operands, size_t count, struct option_list arguments, pst_run_result *result)
{
    struct train_session s = {.command = &command_train, .config = c, .arguments = (const char *const *)arguments.items,
                              .argument_count = arguments.count};

    return run_session(&s, operands, count, result);
}

static int resume(const struct train_config *c, const char *const *operands, size_t count, pst_run_result *result)
{
    char run[PATH_MAX];
    int code = train_find_run(&command_train, c->resume, run);

    if (code == EXIT_DONE)
        code = train_check_resume(&command_train, run);
    return code == EXIT_DONE ? train_again(c, run, operands, count, result) : code;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct train_config *c = config;
    pst_run_result result = {.size = sizeof(result)};

    if ((c->sweep.count || c->qat) && pst_launch_find(&(pst_launch){.size = sizeof(pst_launch)}))
        return say_usage(&command_train, "%s trains in one process; start it without mpirun", c->qat ? "--qat" : "--sweep");
    if (c->sweep.count)
        return sweep(c, operands, count);
    return c->resume ? resume(c, operands, count, &result) : train_once(c, operands, count, command_arguments, &result);
}

static const struct option options[] = {
    {"--model", 'm', "MODEL", OPTION_STRING, INTO(struct train_config, model), .completion = COMPLETE_FILES,
     .doc = "a chain of layers, @FILE or the name of a preset; `penstock model --layers` and `--presets` list them", .absent = "required",
     .group = "What to train"},
    {"--val", .metavar = "PIPELINE", .kind = OPTION_STRING, INTO(struct train_config, val), .resumes = true, .completion = COMPLETE_PIPELINE,
     .doc = "the data that is evaluated after each epoch", .absent = "none: the training loss is monitored"},
    {"--weights", 'w', "PATH", OPTION_STRING, INTO(struct train_config, weights), .completion = COMPLETE_FILES,
     .doc = "start with the weights of a run, a checkpoint, an ONNX or a safetensors file; parameters that it lacks start fresh", .absent = "fresh"},
    {"--class-weight", .metavar = "HOW", .kind = OPTION_STRING, INTO(struct train_config, class_weight), .completion = COMPLETE_FILES,
     .doc = "weigh the loss by class: balanced counts the training labels, and every class weighs the same in total; otherwise a file with "
            "lines of class and weight", .absent = "every sample weighs 1"},
    {"--sample-weight", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct train_config, sample_weight),
     .doc = "the field of the training data with one weight per sample", .absent = "every sample weighs 1"},
    {"--freeze", .metavar = "LAYER", .kind = OPTION_REPEATED, INTO(struct train_config, freeze),
     .doc = "do not train this layer, such as conv_1 or conv_*"},
    {"--input-field", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct train_config, input), .doc = "the field that the model takes",
     .absent = "image, or the only field of numbers besides the target"},
    {"--target", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct train_config, target), .doc = "the field that it learns", .absent = "label"},
    {"--epochs", 'e', "N", OPTION_UINT, INTO(struct train_config, epochs), .resumes = true, .given = offsetof(struct train_config, epochs_given), .initial = "10",
     .max = 1e9, .doc = "passes over the data; 0: as many as --steps takes", .group = "How long"},
    {"--steps", 's', "N", OPTION_UINT, INTO(struct train_config, steps), .resumes = true, .given = offsetof(struct train_config, steps_given), .max = 1e15,
     .doc = "stop after N updates", .absent = "any number"},
    {"--steps-per-epoch", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, steps_per_epoch), .max = 1e15,
     .doc = "end an epoch after N updates", .absent = "with the data"},
    {"--patience", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, patience), .max = 1e6,
     .doc = "stop when the monitored value has not improved for N validations, or for N epochs without --val", .absent = "never"},
    {"--monitor", .metavar = "VALUE", .kind = OPTION_CHOICE, INTO(struct train_config, monitor), .choices = monitors, .initial = "auto",
     .doc = "what decides the best checkpoint, --patience and --schedule plateau; auto: val-loss, or loss without --val"},
    {"--val-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, val_every), .max = 1e15,
     .doc = "validate after every N updates", .absent = "after each epoch"},
    {"--optimizer", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, optimizer), .choices = train_optimizers, .initial = "adam",
     .doc = "how weights are updated", .group = "How it learns"},
    {"--lr", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct train_config, rate), .initial = "0.001", .min = 1e-12, .max = 1e6,
     .doc = "the learning rate"},
    {"--schedule", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, schedule), .choices = schedules, .initial = "constant",
     .doc = "how the learning rate changes: step multiplies it by --gamma after every --schedule-every updates, cosine lets it fall to "
            "--min-lr, one-cycle lets it rise and fall, plateau multiplies it by --gamma when the loss stays"},
    {"--warmup", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, warmup), .max = 1e15,
     .doc = "updates during which the learning rate rises from 0", .absent = "none"},
    {"--schedule-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, schedule_every), .initial = "1000", .min = 1,
     .doc = "updates between steps of --schedule step"},
    {"--gamma", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, gamma), .initial = "0.1", .min = 1e-6, .max = 1,
     .doc = "the factor of --schedule step and plateau"},
    {"--min-lr", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct train_config, min_rate), .initial = "0",
     .doc = "the lowest rate of --schedule cosine and plateau"},
    {"--plateau", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, plateau_patience), .initial = "5", .min = 1, .max = 1e6,
     .doc = "epochs without improvement before --schedule plateau acts"},
    {"--loss", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, loss), .choices = train_losses, .initial = "auto",
     .doc = "sparse and categorical cross-entropy, binary cross-entropy or mean squared error; auto chooses by the target's type and the "
            "model's last layer"},
    {"--accumulate", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, accumulate), .initial = "1", .min = 1, .max = 1e6,
     .doc = "batches per update, on each rank: their gradients are averaged"},
    {"--recompute", .kind = OPTION_FLAG, INTO(struct train_config, recompute),
     .doc = "keep few values for the backward pass and compute the others again: less memory, more time, the same result"},
    {"--mixed", .metavar = "TYPE", .kind = OPTION_CHOICE, INTO(struct train_config, mixed), .choices = train_mixed, .initial = "none",
     .doc = "store values and gradients between layers in 16 bits: float16, with scaling of the loss as in Keras, or bfloat16; weights stay "
            "float32"},
    {"--label-smoothing", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, smoothing), .initial = "0", .max = 0.999,
     .doc = "the share of the target that is spread over all classes"},
    {"--momentum", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, momentum), .initial = "0.9", .max = 1,
     .doc = "of sgd and nesterov"},
    {"--weight-decay", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, weight_decay), .initial = "0", .max = 1e3,
     .doc = "decoupled weight decay of kernels; adamw has 0.004 where this is 0"},
    {"--clip", .metavar = "NORM", .kind = OPTION_FLOAT, INTO(struct train_config, clip), .initial = "0", .max = 1e12,
     .doc = "the largest norm of all gradients together; 0: any"},
    {"--clip-value", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, clip_value), .initial = "0", .max = 1e12,
     .doc = "the largest absolute value of a gradient; 0: any"},
    {"--ema", .metavar = "DECAY", .kind = OPTION_FLOAT, INTO(struct train_config, ema), .initial = "0", .max = 0.999999,
     .doc = "evaluate with a moving mean of the weights, such as 0.999; 0: none"},
    {"--prune", .metavar = "SHARE|N:M", .kind = OPTION_STRING, INTO(struct train_config, prune),
     .doc = "set the smallest weights of each convolution and dense layer to zero and keep them zero: a share such as 0.5; groups such as 2:4, of "
            "each 4 inputs 2 stay; or keep: what is zero in --weights stays zero", .absent = "none", .group = "Make it smaller"},
    {"--prune-schedule", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, prune_schedule), .choices = prune_schedules,
     .initial = "polynomial", .doc = "how the share of zeros grows: polynomial, fast at first and slower towards --prune-end, or constant from "
                                     "--prune-begin on"},
    {"--prune-begin", .metavar = "STEP", .kind = OPTION_UINT, INTO(struct train_config, prune_begin), .max = 1e15,
     .doc = "the first update after which weights are chosen", .absent = "before the first one"},
    {"--prune-end", .metavar = "STEP", .kind = OPTION_UINT, INTO(struct train_config, prune_end), .max = 1e15,
     .doc = "the last one", .absent = "polynomial: three quarters of the run; constant: none"},
    {"--prune-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, prune_every), .initial = "100", .min = 1, .max = 1e15,
     .doc = "updates between two choices"},
    {"--prune-initial", .metavar = "SHARE", .kind = OPTION_FLOAT, INTO(struct train_config, prune_initial), .initial = "0", .max = 1,
     .doc = "the share of zeros that polynomial begins with"},
    {"--prune-exclude", .metavar = "LAYER", .kind = OPTION_REPEATED, INTO(struct train_config, prune_exclude),
     .doc = "do not prune this layer, and keep its channels, such as dense_*"},
    {"--prune-layer", .metavar = "LAYER=SHARE", .kind = OPTION_REPEATED, INTO(struct train_config, prune_layers),
     .doc = "the share of one layer, such as conv_1=0.3; 0: it is not pruned"},
    {"--prune-structured", .metavar = "SHARE", .kind = OPTION_FLOAT, INTO(struct train_config, shrink), .initial = "0", .max = 0.99,
     .doc = "before training, remove the least important channels of the model of --weights until this share of its operations is saved: the "
            "result is an ordinary smaller model; 0: none"},
    {"--prune-norm", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, shrink_norm), .choices = channel_norms, .initial = "l1",
     .doc = "which channels go first: by the l1 or l2 norm of their kernels, or by the scale of batch normalisation"},
    {"--qat", .kind = OPTION_FLAG, INTO(struct train_config, qat),
     .doc = "train the model of --weights for int8: batch normalisation is folded, and weights and values are rounded as int8 inference does; "
            "`penstock compress RUN --quantize int8` then makes the int8 model"},
    {"--qat-samples", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, qat_samples), .initial = "512", .min = 1, .max = 1e9,
     .doc = "samples from which --qat finds the ranges of values"},
    {"--qat-bits", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, qat_bits), .initial = "7", .min = 7, .max = 8,
     .doc = "bits of the kernels of --qat: 7 is faster on processors without VNNI, 8 is more exact"},
    {"--teacher", .metavar = "MODEL", .kind = OPTION_STRING, INTO(struct train_config, teacher), .completion = COMPLETE_FILES,
     .doc = "learn from this model, too: a run, a checkpoint, an ONNX file, or an .npy file with one row of logits per element of the source. Where the inputs "
            "are the same in every epoch, its logits are computed once and stored beside the shards", .absent = "none", .group = "Distillation"},
    {"--temperature", .metavar = "T", .kind = OPTION_FLOAT, INTO(struct train_config, temperature), .given = offsetof(struct train_config, temperature_given), .initial = "3", .min = 1e-3, .max = 1e6,
     .doc = "logits of both are divided by it"},
    {"--alpha", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, alpha), .given = offsetof(struct train_config, alpha_given), .initial = "0.5", .max = 1,
     .doc = "the share of the loss by the labels; the rest is by the teacher, times T squared"},
    {"--distill-features", .metavar = "STUDENT=TEACHER", .kind = OPTION_REPEATED, INTO(struct train_config, features),
     .doc = "also bring the results of this layer close to those of a layer of the teacher: by their squared difference, or, where only height "
            "and width are equal, by the maps of their energy"},
    {"--feature-weight", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, feature_weight), .given = offsetof(struct train_config, feature_weight_given), .initial = "1", .max = 1e9,
     .doc = "the factor of the loss of --distill-features"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct train_config, threads), .resumes = true, .min = 1, .max = 256, .group = "Machine",
     .doc = "threads of the training step; the result does not depend on it", .absent = "one per core"},
    {"--kernels", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct train_config, kernels), .completion = COMPLETE_FILES,
     .doc = "the kernels that `penstock model --tune` found to be the fastest on this machine", .absent = "chosen by shape and instruction set"},
    {"--out", 'o', "RUN", OPTION_STRING, INTO(struct train_config, out), .completion = COMPLETE_FOLDERS,
     .doc = "the folder for checkpoints", .absent = "nothing is saved", .group = "Checkpoints"},
    {"--resume", 'r', "RUN", OPTION_STRING, INTO(struct train_config, resume), .resumes = true, .completion = COMPLETE_FOLDERS,
     .doc = "continue the run in this folder with its recorded command; --epochs and --steps extend it, a pipeline and --val say where the data is "
            "now; kernels and threads are those of the run"},
    {"--keep", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, keep), .initial = "2", .min = 1, .max = 1e6,
     .doc = "checkpoints that are kept besides the best"},
    {"--save-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, save_every), .max = 1e15,
     .doc = "also save after every N updates", .absent = "only after each epoch"},
    {"--exact-ranks", .kind = OPTION_FLAG, INTO(struct train_config, exact_ranks),
     .doc = "give the same bits for any number of ranks with the same number of batches per update, --accumulate times ranks; one process gives them too. "
            "Keeps the gradients of half of the batches of each rank", .group = "Several processes (mpirun, srun)"},
    {"--gradients", .metavar = "TYPE", .kind = OPTION_CHOICE, INTO(struct train_config, gradients), .choices = train_gradients, .initial = "float32",
     .doc = "numbers in which gradients travel between ranks; float16 halves the bytes"},
    {"--sync-norm", .kind = OPTION_FLAG, INTO(struct train_config, sync_norm),
     .doc = "batch normalisation takes its statistics over the batches of all ranks, for small batches; the last batches of an epoch are left out if there "
            "is not one for every rank"},
    {"--rank-timeout", .metavar = "S", .kind = OPTION_FLOAT, INTO(struct train_config, rank_timeout), .resumes = true, .initial = "20", .min = 1, .max = 1e6,
     .doc = "seconds without a sign of life after which a rank counts as lost, and the job ends"},
    {"--bind", .metavar = "HOW", .kind = OPTION_CHOICE, INTO(struct train_config, bind), .resumes = true, .choices = train_bindings, .initial = "auto",
     .doc = "auto: ranks of a machine that the launcher has not bound share its cores evenly; none: they may use all"},
    {"--sweep", .metavar = "NAME=A,B", .kind = OPTION_REPEATED, INTO(struct train_config, sweep),
     .doc = "train once for each of these values of an option, such as lr=0.1,0.01; several sweeps make all combinations. Each run has a folder "
            "in --out; the same command continues a sweep that was interrupted", .group = "Several runs"},
    {"--log-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, log_every), .resumes = true, .max = 1e15,
     .doc = "print a line after every N updates", .absent = "only after each epoch", .group = "What to show"},
    {"--profile", .metavar = "N", .kind = OPTION_UINT, INTO(struct train_config, profile), .resumes = true, .max = 1e6,
     .doc = "measure N updates: milliseconds, GFLOP/s and bytes of each layer and pass, as a table and as RUN/trace.json", .absent = "none"},
    {"--json", .kind = OPTION_FLAG, INTO(struct train_config, json), .resumes = true, .doc = "print one JSON object per epoch, and one at the end"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct train_config, quiet), .resumes = true, .doc = "print only errors"},
    {"--trace", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct train_config, pipeline.trace), .resumes = true, .completion = COMPLETE_FILES,
     .doc = "write what each worker and each step did when, for ui.perfetto.dev or chrome://tracing", .absent = "none is written"},
    {0},
};

static const struct example examples[] = {
    {"a small network on packed images, validated after each epoch",
     "penstock train \"tfrecord train/ | shuffle | example | decode | flip | normalize imagenet | batch 64\" --val \"tfrecord test/ | example "
     "| decode | normalize imagenet | batch 64\" --model cnn --epochs 10 --out runs/first"},
    {"four batches per update, rare classes weigh more",
     "penstock train @train.pst --model resnet20 --accumulate 4 --class-weight balanced --out runs/balanced"},
    {"which learning rate?", "penstock train @train.pst --val @test.pst --model cnn --epochs 3 --sweep lr=0.01,0.001,0.0001 --out runs/sweep"},
    {"half of the weights become zero while a trained model is trained on",
     "penstock train @train.pst --val @test.pst --model resnet20 --weights runs/first --prune 0.5 --prune-exclude \"dense_*\" --epochs 4 --lr 1e-4 "
     "--out runs/pruned"},
    {"half of the operations: a model with fewer channels",
     "penstock train @train.pst --val @test.pst --weights runs/first --prune-structured 0.5 --epochs 4 --lr 1e-3 --out runs/half"},
    {"train a trained model for int8 inference",
     "penstock train @train.pst --val @test.pst --weights runs/first --qat --epochs 2 --lr 1e-4 --out runs/qat"},
    {"four processes, each with a quarter of the batches", "mpirun -n 4 --bind-to none penstock train @train.pst --val @test.pst --model resnet20 --out runs/ranks"},
    {"the same on two machines with two processes each, named in a file with lines such as node1 slots=2",
     "mpirun -n 4 --hostfile hosts --bind-to none penstock train @train.pst --model resnet20 --out runs/ranks"},
    {"continue after an interruption", "penstock train --resume runs/first"},
    {"a small model learns from a large one",
     "penstock train @train.pst --val @test.pst --model cnn --teacher runs/large --temperature 3 --alpha 0.5 --out runs/small"},
    {"a new head on the layers of an earlier run",
     "penstock train @train.pst --model @model.pst --weights runs/first --freeze \"conv_*\" --lr 1e-4 --out runs/second"},
    {0},
};

const struct command command_train = {
    .name = "train",
    .summary = "train a model on the data of a pipeline",
    .usage = "PIPELINE...",
    .doc = "Trains the model for some epochs. A terminal shows loss, accuracy, learning rate, samples per second, the share of time spent "
           "waiting for data, and the time left. Checkpoints go to RUN/step_NNNNNNNN; RUN/latest and RUN/best are links to them; RUN/report.html shows curves, the "
           "confusion matrix and the worst mistakes. A run that was "
           "killed at any moment continues bit-identically with --resume; Ctrl-C saves and stops.\n\n"
           "Started by mpirun or srun, the processes train one model together: an update takes --accumulate batches of each, and their gradients are "
           "averaged while the backward pass still runs. Rank 0 prints and saves. A run may be resumed with another number of processes. A process that "
           "stops or is lost ends the job, which names it.\n\n" PIPELINE_DOC,
    .shared = pipeline_options,
    .options = options,
    .examples = examples,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_PIPELINE,
    .config_size = sizeof(struct train_config),
    .run = run,
};
