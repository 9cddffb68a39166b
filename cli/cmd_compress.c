/* cmd_compress.c: `penstock compress`: a smaller, faster model from a trained one, and what it costs. */
#include "cli/clock.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "cli/watch.h"
#include <inttypes.h>
#include <limits.h>
#include <penstock/compress.h>
#include <stdlib.h>
#include <string.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    const char *checkpoint, *prune, *data, *val, *target, *out, *html, *input, *label;
    double flops, rate, budget, bits, percentile;
    int format, norm, calibration;
    uint64_t epochs, steps_per_epoch, threads, save_every, samples, weight_bits;
    struct option_list exclude;
    bool structured, qat, search, json, quiet, bits_given;
};

/* As pst_weights_format; "int8" is integers throughout. */
static const char *const formats[] = {"none", "bfloat16", "float16", "weights-int8", "weights-int4", "int8", "weights-mixed", NULL};
static const char *const calibrations[] = {"auto", "minmax", "percentile", "entropy", "mse", NULL}; /* as pst_calibration */
static const char *const norms[] = {"l1", "l2", "scale", NULL}; /* as pst_channel_norm */

/* ---- What the command line says ---- */

/* "0.5", "2:4". */
static int read_prune(const struct config *c, pst_compress_options *o)
{
    char *end;
    unsigned long keep, group;

    if (!c->prune)
        return EXIT_DONE;
    keep = strtoul(c->prune, &end, 10);
    group = *end == ':' ? strtoul(end + 1, &end, 10) : 0;
    if (group && !*end && keep && keep < group && group <= 64 && !c->structured) {
        o->group_keep = (unsigned)keep;
        o->group = (unsigned)group;
        return EXIT_DONE;
    }
    o->sparsity = strtod(c->prune, &end);
    if (end == c->prune || *end || !(o->sparsity > 0 && o->sparsity < 1))
        return say_usage(&command_compress, "--prune %s: expected a share between 0 and 1 such as 0.5, or groups such as 2:4", c->prune);
    if (c->structured) {
        o->flops = 1 - o->sparsity;
        o->sparsity = 0;
    }
    return EXIT_DONE;
}

/* "-0.5%": the accuracy that may be lost, in percentage points; "-0.005" is the same. A larger number without % was meant as points. */
static int read_target(const struct config *c, pst_compress_options *o)
{
    char *end;
    double x;

    if (!c->target)
        return EXIT_DONE;
    x = strtod(c->target, &end);
    if (*end == '%') {
        x /= 100;
        end++;
    } else if (end != c->target && !*end && !(x > -0.1 && x < 0.1)) {
        return say_usage(&command_compress, "--target-accuracy %s is a share, %g percentage points; write %s%% for %s points, or %g%%", c->target, 100 * x, c->target,
                         c->target, 100 * x);
    }
    if (end == c->target || *end || !(x <= 0 && x > -1))
        return say_usage(&command_compress, "--target-accuracy %s: expected what may be lost, such as -0.5%%", c->target);
    o->bounded = true;
    o->max_loss = -x;
    return EXIT_DONE;
}

/* ---- Progress ---- */

struct view {
    const struct config *config;
    bool terminal, on_screen;
    double painted;
};

static void wipe(struct view *v)
{
    if (v->on_screen)
        fputs("\r\033[K", stderr);
    v->on_screen = false;
}

static bool progress(void *user, const char *what, const pst_run_progress *run, const pst_compress_variant *variant)
{
    struct view *v = user;

    if (variant && !v->config->quiet && !v->config->json) {
        wipe(v);
        printf("%-38s accuracy %6.2f %%  loss %.4f%s\n", what, 100 * variant->accuracy, variant->loss,
               variant->accepted ? "" : "  loses too much: not kept");
        fflush(stdout);
    } else if (run && v->terminal && !v->config->quiet && now_seconds() - v->painted >= 0.2) {
        v->painted = now_seconds();
        if (run->epoch)
            fprintf(stderr, "\r%s: epoch %" PRIu64 "  step %" PRIu64 "  loss %.4f  %.0f/s\033[K", what, run->epoch, run->step, run->loss,
                    run->samples_per_second);
        else
            fprintf(stderr, "\r%s: %" PRIu64 " of %" PRIu64 "\033[K", what, run->step, run->epoch_steps);
        fflush(stderr);
        v->on_screen = true;
    }
    return interrupt_requested();
}

/* ---- The result ---- */

static void put_row(const pst_compress_variant *v, bool chosen)
{
    char parameters[AMOUNT_SIZE], nonzero[AMOUNT_SIZE], file[AMOUNT_SIZE], memory[AMOUNT_SIZE];

    printf("%c %-36.36s %7.2f %9s %9s %9s %8.1f %8.3f %8.2f %9s\n", chosen ? '*' : ' ', v->name, 100 * v->accuracy,
           amount_count(parameters, v->parameters), amount_count(nonzero, v->nonzero), amount_bytes(file, v->file_bytes), 1e-6 * (double)v->flops,
           1e3 * v->latency1, 1e3 * v->latency64, amount_bytes(memory, v->memory));
}

static double zeros_of(const pst_compress_layer *l)
{
    return l->weights ? 100 * (1 - (double)l->nonzero / (double)l->weights) : 0;
}

/* The layers of the result, where a search has treated them differently. */
static void put_layers(const pst_compress_result *r)
{
    printf("\n  %-36s %9s %9s %5s\n", "layer", "weights", "zeros %", "bits");
    pst_compress_layer l = {.size = sizeof(l)};
    for (size_t i = 0; pst_compress_layer_at(r, i, &l); i++)
        printf("  %-36.36s %9" PRIu64 " %9.1f %5u\n", l.name, l.weights, zeros_of(&l), l.bits);
}

static void put_table(const pst_compress_result *r, bool layers, const char *out)
{
    printf("\n  %-36s %7s %9s %9s %9s %8s %8s %8s %9s\n", "variant", "acc %", "params", "non-zero", "file", "MFLOP", "ms at 1", "ms at 64", "memory");
    pst_compress_variant v = {.size = sizeof(v)};
    for (size_t i = 0; pst_compress_variant_at(r, i, &v); i++)
        put_row(&v, i == r->chosen);
    if (layers && r->chosen)
        put_layers(r);
    if (r->chosen && out)
        printf("\n* written to %s\n", out);
    else if (r->chosen)
        puts("\nnothing was written: give --out FOLDER to keep the model marked *");
    else
        puts("\nno step stayed within the bound: nothing was written");
}

static void put_json(const pst_compress_result *r, const char *out)
{
    struct json j = json_to(stdout);
    pst_compress_variant v = {.size = sizeof(v)};
    pst_compress_layer l = {.size = sizeof(l)};

    json_begin_object(&j, NULL);
    json_string(&j, "command", "compress");
    json_bool(&j, "done", !r->stopped);
    json_string(&j, "out", r->chosen && !r->stopped ? out : NULL);
    json_uint(&j, "chosen", r->chosen);
    json_begin_array(&j, "variants");
    for (size_t i = 0; pst_compress_variant_at(r, i, &v); i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "name", v.name);
        json_bool(&j, "accepted", v.accepted);
        json_number(&j, "accuracy", v.accuracy);
        json_number(&j, "loss", v.loss);
        json_uint(&j, "parameters", v.parameters);
        json_uint(&j, "nonzero", v.nonzero);
        json_uint(&j, "file_bytes", v.file_bytes);
        json_uint(&j, "flops", v.flops);
        json_number(&j, "latency1_s", v.latency1);
        json_number(&j, "latency64_s", v.latency64);
        json_uint(&j, "memory_bytes", v.memory);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_begin_array(&j, "layers");
    for (size_t i = 0; pst_compress_layer_at(r, i, &l); i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "name", l.name);
        json_uint(&j, "weights", l.weights);
        json_uint(&j, "nonzero", l.nonzero);
        json_uint(&j, "bits", l.bits);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

static int finish(const struct config *c, const pst_network *n, const pst_compress_result *r, const char *title)
{
    pst_error error;
    char model[PATH_MAX];
    pst_status status = PST_OK;

    snprintf(model, sizeof(model), "%s/model", c->out ? c->out : "");
    if (c->out && r->chosen && !r->stopped)
        status = pst_network_save(n, model, true, &error);
    if (status == PST_OK && c->html && !r->stopped)
        status = pst_compress_report(r, title, c->html, &error);
    if (status < 0)
        return say_failure(&command_compress, &error, c->json);
    if (c->json)
        put_json(r, c->out ? model : NULL);
    else if (!c->quiet && !r->stopped)
        put_table(r, c->search || c->format == PST_WEIGHTS_MIXED, c->out ? model : NULL);
    if (r->stopped) {
        say_note("stopped: the same command continues");
        return interrupt_exit_code();
    }
    return r->chosen ? EXIT_DONE : EXIT_FAILED;
}

/* ---- Running ---- */

static int compress(const struct config *c, const char *path, const pst_network *from, pst_pipeline *data, pst_pipeline *val)
{
    struct view view = {.config = c, .terminal = terminal_is(stderr)};
    pst_compress_options o = {.size = sizeof(o),
                              .flops = c->flops,
                              .norm = (pst_channel_norm)c->norm,
                              .exclude = c->exclude.items,
                              .exclude_count = c->exclude.count,
                              .format = (pst_weights_format)c->format,
                              .qat = c->qat,
                              .epochs = c->epochs,
                              .steps_per_epoch = c->steps_per_epoch,
                              .rate = c->rate,
                              .seed = c->pipeline.seed,
                              .threads = (unsigned)c->threads,
                              .out = c->out,
                              .save_every = c->save_every,
                              .search = c->search,
                              .budget = c->budget,
                              .bits = c->bits_given ? c->bits : 0,
                              .calibration = (pst_calibration)c->calibration,
                              .percentile = c->percentile,
                              .samples = c->samples,
                              .weight_bits = (unsigned)c->weight_bits,
                              .input_field = c->input,
                              .target_field = c->label,
                              .progress = progress,
                              .user = &view};
    pst_compress_result result = {.size = sizeof(result)};
    pst_network *small = NULL;
    struct watch watch;
    pst_error error;
    pst_status status;
    int code = read_prune(c, &o);

    if (code == EXIT_DONE)
        code = read_target(c, &o);
    if (code != EXIT_DONE)
        return code;
    if (!(o.flops > 0 && o.flops < 1) && !o.sparsity && !o.group && !o.format)
        return say_usage(&command_compress, "nothing to do: give --prune, --flops or --quantize");
    watch_start(&watch, val, NULL, NULL);
    if (data)
        watch_also(&watch, data);
    status = pst_compress(&small, from, data, val, &o, &result, &error);
    watch_stop(&watch);
    wipe(&view);
    if (status < 0)
        return say_failure(&command_compress, &error, c->json);
    code = finish(c, small, &result, path);
    pst_network_destroy(small);
    pst_free(result.variants);
    pst_free(result.layers);
    return code;
}

static pst_status keep_fields(const struct config *c, const pst_network *from, pst_pipeline *p, pst_error *error)
{
    const pst_run_record *r = pst_network_record(from);

    return p ? pst_fields_keep(p, c->input ? c->input : r->input_field, c->label ? c->label : r->target_field, true, NULL, error) : PST_OK;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    pst_network *from = NULL;
    pst_pipeline *data = NULL, *val = NULL;
    const char *training = c->data, *validation = c->val;
    pst_error error;
    int code = EXIT_DONE;

    (void)count;
    if (c->structured && (!c->prune || c->flops > 0))
        return say_usage(&command_compress, "--structured needs --prune SHARE, and excludes --flops, which says the same by operations");
    if (pst_network_open(&from, operands[0], c->checkpoint, &error) < 0)
        return say_failure(&command_compress, &error, c->json);
    if (!training && !pst_network_record(from)->foreign)
        training = pst_network_record(from)->pipeline;
    if (!validation)
        validation = pst_network_record(from)->validation;
    if (!validation)
        code = say_usage(&command_compress, "--val is missing: the data on which accuracy is measured");
    if (code == EXIT_DONE)
        code = pipeline_open(&val, &command_compress, &c->pipeline, &validation, 1, c->json);
    if (code == EXIT_DONE && training)
        code = pipeline_open(&data, &command_compress, &c->pipeline, &training, 1, c->json);
    if (code == EXIT_DONE && (keep_fields(c, from, val, &error) < 0 || keep_fields(c, from, data, &error) < 0))
        code = say_failure(&command_compress, &error, c->json);
    if (code == EXIT_DONE)
        code = compress(c, operands[0], from, data, val);
    pst_pipeline_destroy(data);
    pst_pipeline_destroy(val);
    pst_network_destroy(from);
    return code;
}

static const struct option options[] = {
    {"--prune", 'p', "SHARE|N:M", OPTION_STRING, INTO(struct config, prune),
     .doc = "set the smallest weights of each layer to zero while training: a share such as 0.5, or groups such as 2:4", .absent = "none",
     .group = "What to do"},
    {"--structured", .kind = OPTION_FLAG, INTO(struct config, structured),
     .doc = "--prune removes whole channels instead, until the share of operations is saved: a smaller model, faster everywhere"},
    {"--flops", .metavar = "SHARE", .kind = OPTION_FLOAT, INTO(struct config, flops), .initial = "0", .max = 1,
     .doc = "remove channels until this share of the operations is left, before anything else; 0: do not"},
    {"--norm", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct config, norm), .choices = norms, .initial = "l1",
     .doc = "which channels go first: by the l1 or l2 norm of their kernels, or by the scale of batch normalisation"},
    {"--exclude", .metavar = "LAYER", .kind = OPTION_REPEATED, INTO(struct config, exclude), .doc = "set no weight of this layer to zero, and remove none of its channels, nor those that are tied to them; such as dense_*"},
    {"--quantize", .metavar = "TYPE", .kind = OPTION_CHOICE, INTO(struct config, format), .choices = formats, .initial = "none",
     .doc = "in the end: int8 computes in 8-bit integers; the others store weights in fewer bits and compute in float32; weights-mixed "
            "finds 4, 8, 16 or 32 bits for each layer, as --search finds zeros"},
    {"--bits", .metavar = "N", .kind = OPTION_FLOAT, INTO(struct config, bits), .given = offsetof(struct config, bits_given), .initial = "6", .min = 4,
     .max = 32, .doc = "the mean bits per weight that --quantize weights-mixed reaches, if --search-seconds suffices to measure them"},
    {"--qat", .kind = OPTION_FLAG, INTO(struct config, qat),
     .doc = "train for --quantize int8 first; without it, only where int8 loses too much otherwise"},
    {"--calibration", .metavar = "NAME", .kind = OPTION_CHOICE, INTO(struct config, calibration), .choices = calibrations, .initial = "auto",
     .doc = "how --quantize int8 chooses the range of a value from those that occur: minmax covers all, percentile all but a few, entropy loses the "
            "least information, mse has the least squared error; auto is mse"},
    {"--percentile", .metavar = "SHARE", .kind = OPTION_FLOAT, INTO(struct config, percentile), .max = 1,
     .doc = "the share of the values that --calibration percentile covers at either end", .absent = "0.9999"},
    {"--calibration-samples", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, samples), .min = 1, .max = 1e12,
     .doc = "samples of --data, otherwise of --val, from which ranges are chosen", .absent = "512, or all where there are fewer"},
    {"--weight-bits", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, weight_bits), .min = 7, .max = 8,
     .doc = "bits of the kernels of --quantize int8: 7 is faster on processors without VNNI, 8 is more exact",
     .absent = "7, and 8 where that loses too much"},
    {"--search", .kind = OPTION_FLAG, INTO(struct config, search),
     .doc = "find a share of zeros for each layer: measure how sensitive each one is, then set weights to zero where that costs the least"},
    {"--search-seconds", .metavar = "S", .kind = OPTION_FLOAT, INTO(struct config, budget), .initial = "300", .min = 0.01, .max = 1e9,
     .doc = "time for the measurements of --search and of weights-mixed, half of it for each where both are asked for; layers that --search has "
            "not measured by then get the share of --prune"},
    {"--target-accuracy", .metavar = "LOSS", .kind = OPTION_STRING, INTO(struct config, target),
     .doc = "the accuracy that may be lost in percentage points, such as -0.5%: a step that loses more is repeated with less, then left out",
     .absent = "any"},
    {"--data", 'd', "PIPELINE", OPTION_STRING, INTO(struct config, data), .completion = COMPLETE_PIPELINE,
     .doc = "training data", .absent = "as the run of MODEL recorded", .group = "Data and training"},
    {"--val", .metavar = "PIPELINE", .kind = OPTION_STRING, INTO(struct config, val), .completion = COMPLETE_PIPELINE,
     .doc = "the data on which accuracy is measured", .absent = "as the run of MODEL recorded"},
    {"--epochs", 'e', "N", OPTION_UINT, INTO(struct config, epochs), .initial = "2", .min = 1, .max = 1e6, .doc = "epochs of training after each step"},
    {"--steps-per-epoch", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, steps_per_epoch), .max = 1e15,
     .doc = "end an epoch after N updates", .absent = "with the data"},
    {"--lr", .metavar = "RATE", .kind = OPTION_FLOAT, INTO(struct config, rate), .initial = "0.0003", .min = 1e-12, .max = 1e6,
     .doc = "the learning rate, which falls along a cosine"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct config, threads), .min = 1, .max = 256, .doc = "threads of training and predictions",
     .absent = "one per core"},
    {"--input-field", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, input), .doc = "the field that the model takes",
     .absent = "as the run recorded"},
    {"--target", .metavar = "NAME", .kind = OPTION_STRING, INTO(struct config, label), .doc = "the field that it learned", .absent = "as the run recorded"},
    {"--checkpoint", .metavar = "WHICH", .kind = OPTION_STRING, INTO(struct config, checkpoint), .doc = "of a run: best, latest or a number of steps",
     .absent = "best, otherwise latest"},
    {"--out", 'o', "FOLDER", OPTION_STRING, INTO(struct config, out), .completion = COMPLETE_FOLDERS,
     .doc = "the folder for the smaller model (FOLDER/model) and the runs on the way; the same command continues an interrupted one",
     .absent = "nothing is saved", .group = "Results"},
    {"--save-every", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, save_every), .max = 1e15,
     .doc = "also save after every N updates", .absent = "only after each epoch"},
    {"--html", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, html), .completion = COMPLETE_FILES,
     .doc = "write a page with accuracy against speed", .absent = "none is written"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object at the end"},
    {"--quiet", 'q', .kind = OPTION_FLAG, INTO(struct config, quiet), .doc = "print only errors"},
    {0},
};

static const struct example examples[] = {
    {"int8 with at most half a point of accuracy lost", "penstock compress runs/first --quantize int8 --target-accuracy -0.5% --out small"},
    {"half of the operations, then int8, with a page to look at",
     "penstock compress runs/first --prune 0.5 --structured --quantize int8 --epochs 4 --out small --html small.html"},
    {"zeros where they cost the least", "penstock compress runs/first --prune 0.8 --search --data @train.pst --val @test.pst --out sparse"},
    {"5 bits per weight, more for the layers that need them",
     "penstock compress runs/first --quantize weights-mixed --bits 5 --target-accuracy -0.5% --out small"},
    {"the result is a model as any other", "penstock predict small/model photos/ --top 5"},
    {0},
};

const struct command command_compress = {
    .name = "compress",
    .summary = "make a trained model smaller and faster",
    .usage = "MODEL",
    .doc = "Removes channels, sets weights to zero and quantises, in this order, as the options ask. After each step the model is trained for some "
           "epochs, evaluated on --val and measured. With --target-accuracy a step that loses more is repeated with less, and left out if that "
           "does not help. Prints a table: accuracy, parameters, weights that are not zero, bytes of the file, operations, milliseconds "
           "of a prediction of 1 and of 64 samples, memory. MODEL is a run, a checkpoint or an ONNX file. Ctrl-C saves and stops; the same command continues, "
           "and ends with the same weights.\n\n" PIPELINE_DOC,
    .shared = pipeline_options,
    .options = options,
    .examples = examples,
    .min_operands = 1,
    .max_operands = 1,
    .completion = COMPLETE_FOLDERS,
    .config_size = sizeof(struct config),
    .run = run,
};
