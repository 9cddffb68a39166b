/* cmd_lr-find.c: `penstock lr-find`: a range test of the learning rate. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/train_report.h"
#include "cli/train_session.h"
#include "cli/watch.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 12, COLUMNS = 60 }; /* of the curve on a terminal */

/* The loss from bottom to top, the rate from left to right. Losses above twice the first are at the top. */
static void put_curve(const pst_rate_result *r)
{
    char cells[ROWS][COLUMNS + 1];
    double low = INFINITY, high = -INFINITY;

    memset(cells, ' ', sizeof(cells));
    for (size_t i = 0; i < r->count; i++) {
        double x = fmin(r->losses[i], 2 * r->losses[0]);

        low = fmin(low, x);
        high = fmax(high, x);
    }
    for (size_t i = 0; i < r->count; i++) {
        double x = fmin(r->losses[i], 2 * r->losses[0]), share = high > low ? (high - x) / (high - low) : 0;
        size_t column = r->count > 1 ? i * (COLUMNS - 1) / (r->count - 1) : 0, row = (size_t)(share * (ROWS - 1) + 0.5);

        if (cells[row][column] != '#')
            cells[row][column] = r->rates[i] == r->suggested ? '#' : '*';
    }
    for (size_t y = 0; y < ROWS; y++) {
        cells[y][COLUMNS] = '\0';
        if (y == 0 || y == ROWS - 1)
            printf("%9.4g |%s\n", y ? low : high, cells[y]);
        else
            printf("%9s |%s\n", y == ROWS / 2 ? "loss" : "", cells[y]);
    }
    printf("%9s  %-8.2g%*s%8.2g\n", "", r->rates[0], COLUMNS - 16, "learning rate", r->rates[r->count - 1]);
}

static void put_result(const struct train_config *c, const pst_rate_result *r)
{
    struct json j = json_to(stdout);

    if (c->json) {
        json_begin_object(&j, NULL);
        json_string(&j, "command", "lr-find");
        json_number(&j, "suggested", r->suggested);
        json_number(&j, "lowest", r->lowest);
        json_begin_array(&j, "rates");
        for (size_t i = 0; i < r->count; i++)
            json_number(&j, NULL, r->rates[i]);
        json_end_array(&j);
        json_begin_array(&j, "losses");
        for (size_t i = 0; i < r->count; i++)
            json_number(&j, NULL, r->losses[i]);
        json_end_array(&j);
        json_string(&j, "page", c->out);
        json_end_object(&j);
        putchar('\n');
        return;
    }
    put_curve(r);
    if (isnan(r->suggested))
        puts("The loss did not fall at any rate.");
    else
        printf("The loss falls fastest at %.2g (#), and is lowest at %.2g. Try --lr %.1g.\n", r->suggested, r->lowest, r->suggested);
    if (c->out)
        printf("The curve is in %s.\n", c->out);
}

static int search(struct train_session *s)
{
    const struct train_config *c = s->config;
    struct train_report report;
    struct watch watch;
    pst_rate_result result = {.size = sizeof(result)};
    pst_error error;
    pst_status status;
    pst_rate_options o = {.size = sizeof(o), .fields = &s->fields, .low = c->low, .high = c->high, .steps = c->steps, .page = c->out,
                          .progress = train_report_progress, .user = &report};

    train_report_start(&report, false, c->quiet || c->json, 0, 0);
    watch_start(&watch, s->training, NULL, NULL);
    status = pst_trainer_find_rate(s->trainer, s->training, &o, &result, &error);
    watch_stop(&watch);
    train_report_finish(&report);
    if (interrupt_requested())
        return interrupt_exit_code();
    if (status < 0)
        return say_failure(&command_lr_find, &error, c->json);
    put_result(c, &result);
    pst_free(result.rates);
    pst_free(result.losses);
    return EXIT_DONE;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct train_config *c = config;
    struct train_session s = {.command = &command_lr_find, .config = c};
    int code;

    if (!c->model)
        return say_usage(&command_lr_find, "--model is missing; `penstock model --presets` lists models with names");
    code = session_open(&s, operands, count);
    if (code == EXIT_DONE)
        code = search(&s);
    session_close(&s, code);
    return code;
}

static const struct option options[] = {
    {"--model", 'm', "MODEL", OPTION_STRING, INTO(struct train_config, model), .completion = COMPLETE_FILES,
     .doc = "a chain of layers, @FILE or the name of a preset", .absent = "required", .group = "What to train"},
    {"--weights", 'w', "PATH", OPTION_STRING, INTO(struct train_config, weights), .completion = COMPLETE_FILES,
     .doc = "start with the weights of a run, a checkpoint, a safetensors file or a .weights.h5 of Keras", .absent = "fresh"},
    {"--freeze", .metavar = "LAYER", .kind = OPTION_REPEATED, INTO(struct train_config, freeze),
     .doc = "do not train this layer, such as conv_1 or conv_*"},
    {"--input-field", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct train_config, input), .doc = "the field that the model takes",
     .absent = "image, or the only field of numbers besides the target"},
    {"--target", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct train_config, target), .doc = "the field that it learns",
     .absent = "label"},
    {"--optimizer", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, optimizer), .choices = train_optimizers,
     .initial = "adam", .doc = "how weights are updated"},
    {"--loss", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct train_config, loss), .choices = train_losses, .initial = "auto",
     .doc = "the loss, as for train"},
    {"--momentum", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, momentum), .initial = "0.9", .max = 1,
     .doc = "of sgd and nesterov"},
    {"--weight-decay", .metavar = "F", .kind = OPTION_FLOAT, INTO(struct train_config, weight_decay), .initial = "0", .max = 1e3,
     .doc = "decoupled weight decay of kernels"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct train_config, threads), .min = 1, .max = 256, .doc = "threads of the training step",
     .absent = "one per core"},
    {"--from", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct train_config, low), .initial = "1e-7", .min = 1e-12, .max = 1e6,
     .doc = "the first learning rate", .group = "The search"},
    {"--to", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct train_config, high), .initial = "10", .min = 1e-12, .max = 1e6,
     .doc = "the last learning rate"},
    {"--steps", 's', "N", OPTION_UINT, INTO(struct train_config, steps), .initial = "100", .min = 10, .max = 1e6,
     .doc = "updates from the first to the last rate; the search ends earlier when the loss explodes"},
    {"--out", 'o', "FILE", OPTION_STRING, INTO(struct train_config, out), .completion = COMPLETE_FILES,
     .doc = "an HTML page with the curve", .absent = "none", .group = "What to show"},
    {"--json", .kind = OPTION_FLAG, INTO(struct train_config, json), .doc = "print one JSON object with all rates and losses"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct train_config, quiet), .doc = "show no progress"},
    {0},
};

static const struct example examples[] = {
    {"which learning rate suits this model?",
     "penstock lr-find \"tfrecord train/ | shuffle | example | decode | normalize imagenet | batch 64\" --model cnn --out rates.html"},
    {0},
};

const struct command command_lr_find = {
    .name = "lr-find",
    .summary = "search for a learning rate",
    .doc = "Trains the model for some steps while the learning rate rises from one step to the next, and prints the loss by rate. The loss "
           "falls fastest where learning works best; it explodes where the rate is too high. Nothing is saved but the page.\n\n" PIPELINE_DOC,
    PIPELINE_COMMAND,
    .options = options,
    .examples = examples,
    .config_size = sizeof(struct train_config),
    .run = run,
};
