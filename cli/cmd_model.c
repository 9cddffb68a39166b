/* cmd_model.c: `penstock model`: what a model is made of: layers, shapes, parameters, and how its training step runs. */
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "cli/train.h"
#include "cli/train_session.h"
#include "cli/usage.h"
#include <inttypes.h>
#include <penstock/image.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_COLUMN = 18 };

struct config {
    const char *input, *tune, *kernels;
    uint64_t batch, threads;
    int mixed;
    bool layers, presets, text, json, markdown;
};

char *shape_text(char buffer[SHAPE_SIZE], const pst_shape *s)
{
    if (s->rank == 1)
        snprintf(buffer, SHAPE_SIZE, "%" PRIu32, s->size[0]);
    else
        snprintf(buffer, SHAPE_SIZE, "%" PRIu32 "x%" PRIu32 "x%" PRIu32, s->size[0], s->size[1], s->size[2]);
    return buffer;
}

/* "224x224x3" or "784". */
static bool read_shape(const char *s, pst_shape *ret)
{
    *ret = (pst_shape){0};
    for (char *end; ret->rank < 3; s = end + 1) {
        unsigned long n = strtoul(s, &end, 10);

        if (*s < '0' || *s > '9' || n == 0 || n > 1000000)
            return false;
        ret->size[ret->rank++] = (uint32_t)n;
        if (*end == '\0')
            return ret->rank != 2;
        if (*end != 'x')
            return false;
    }
    return false;
}

/* ---- Lists ---- */

static void put_wrapped(const char *name, const char *doc, size_t length)
{
    printf("  %-*s", NAME_COLUMN - 2, name);
    usage_wrap(stdout, doc, length, NAME_COLUMN, NAME_COLUMN);
}

static void put_layers(void)
{
    pst_layer_doc l = {.size = sizeof(l)};

    printf("%sLayers:%s\n", style_bold(stdout), style_none(stdout));
    for (size_t i = 0; pst_layer_at(i, &l); i++) {
        put_wrapped(l.name, l.doc, strlen(l.doc));
        for (const pst_param *p = l.params; p && p->name; p++) {
            printf("    %s%s: %s (default: %s)\n", p->name, (size_t)(p - l.params) < l.positional ? "" : "=", p->doc,
                   p->fallback ? p->fallback[0] ? p->fallback : "\"\"" : "required");
        }
        printf("    %s%s%s\n", style_dim(stdout), l.example, style_none(stdout));
    }
}

static void put_markdown_layer(const pst_layer_doc *l)
{
    printf("## %s\n\n%s\n\n", l->name, l->doc);
    if (l->params && l->params->name)
        puts("| parameter | default | |\n|---|---|---|");
    for (const pst_param *p = l->params; p && p->name; p++)
        printf("| `%s%s` | %s%s%s | %s |\n", p->name, (size_t)(p - l->params) < l->positional ? "" : "=", p->fallback ? "`" : "",
               p->fallback ? p->fallback[0] ? p->fallback : "\"\"" : "required", p->fallback ? "`" : "", p->doc);
    printf("%s```\n%s\n```\n\n", l->params && l->params->name ? "\n" : "", l->example);
}

/* docs/layers.md. */
static void put_markdown(void)
{
    pst_layer_doc l = {.size = sizeof(l)};
    const char *name, *doc;

    puts("# Layers\n\n"
         "<!-- Written by `penstock model --layers --markdown`; change the declarations in src/model, not this page. -->\n\n"
         "A model is a chain of layers, separated by `|`, in the language of pipelines. Parameters without `=` are given by their place. Every\n"
         "layer has a name, such as `conv_1` for the first `conv`, or that of `name=`.\n");
    for (size_t i = 0; pst_layer_at(i, &l); i++)
        put_markdown_layer(&l);
    puts("## Presets\n\n| name | |\n|---|---|");
    for (size_t i = 0; pst_preset_at(i, &name, &doc); i++)
        printf("| `%s` | %s |\n", name, doc);
}

static void put_presets(void)
{
    const char *name, *doc;

    for (size_t i = 0; pst_preset_at(i, &name, &doc); i++) {
        char *text = NULL;

        put_wrapped(name, doc, strlen(doc));
        if (pst_preset_text(name, &text, NULL) == PST_OK)
            put_wrapped("", text, strlen(text));
        pst_free(text);
    }
    puts("\nNAME:100 has 100 classes instead of 10.");
}

/* ---- A model ---- */

static void put_table(const pst_model *m, const pst_model_plan *plan, uint64_t batch)
{
    pst_model_layer l = {.size = sizeof(l)};
    uint64_t parameters = 0, flops = 0;
    char shape[SHAPE_SIZE], count[AMOUNT_SIZE], work[AMOUNT_SIZE];
    pst_shape in = pst_model_input(m);

    printf("%-24s %-14s %14s %18s\n", "layer", "output", "parameters", "flops per sample");
    printf("%-24s %-14s\n", "input", shape_text(shape, &in));
    for (size_t i = 0; pst_model_layer_at(m, i, &l); i++) {
        printf("%-24s %-14s %14s %18s\n", l.name, shape_text(shape, &l.output), l.parameters ? amount_count(count, l.parameters) : "",
               l.flops ? amount_count(work, l.flops) : "");
        parameters += l.parameters;
        flops += l.flops;
    }
    printf("%-24s %-14s %14s %18s\n\n", "total", "", amount_count(count, parameters), amount_count(work, flops));
    printf("Step of %" PRIu64 " %s: %s of activations, gradients and workspaces\n", batch, plural(batch, "sample", "samples"), amount_bytes(count, (double)plan->bytes));
    put_clean_lines(stdout, 2, plan->text);
}

static void put_json(const pst_model *m, const pst_model_plan *plan, uint64_t batch)
{
    struct json j = json_to(stdout);
    pst_model_layer l = {.size = sizeof(l)};
    char shape[SHAPE_SIZE];

    json_begin_object(&j, NULL);
    json_string(&j, "command", "model");
    json_string(&j, "text", pst_model_text(m));
    json_begin_array(&j, "layers");
    for (size_t i = 0; pst_model_layer_at(m, i, &l); i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "name", l.name);
        json_string(&j, "kind", l.kind);
        json_string(&j, "output", shape_text(shape, &l.output));
        json_uint(&j, "parameters", l.parameters);
        json_uint(&j, "flops", l.flops);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_uint(&j, "batch", batch);
    json_uint(&j, "step_bytes", plan->bytes);
    json_string(&j, "plan", plan->text);
    json_end_object(&j);
    putchar('\n');
}

static bool tune_progress(void *user, unsigned done, unsigned total)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\rmeasured: candidate %u of %u%s", done, total, done == total ? "\n" : "");
    return interrupt_requested();
}

static pst_status tune(const struct config *c, const pst_model *m, pst_error *error)
{
    pst_tune_options o = {.size = sizeof(o), .batch = c->batch, .threads = (unsigned)c->threads, .mixed = (pst_mixed)c->mixed, .progress = tune_progress};

    return pst_model_tune(m, c->tune, &o, error);
}

/* The model of a text, or of a run or an ONNX file, which have their input. */
static pst_status open_model(pst_model **ret, const char *text, const pst_shape *shape, pst_error *error)
{
    pst_run_record *record = NULL;
    pst_status status;

    if (!pst_run_record_is(text))
        return pst_model_parse(ret, text, shape, error);
    status = pst_run_record_read(&record, text, NULL, error);
    if (status == PST_OK)
        status = pst_model_parse(ret, record->model, &record->input, error);
    pst_run_record_destroy(record);
    return status;
}

static int describe(const struct config *c, const char *text)
{
    pst_model *m = NULL;
    pst_model_plan plan = {.size = sizeof(plan)};
    pst_error error;
    pst_shape shape;
    pst_status status;
    int code = EXIT_DONE;
    char *kernels = NULL;
    const char *table = c->kernels ? c->kernels : c->tune;

    if (!read_shape(c->input, &shape))
        return say_usage(&command_model, "--input %s: expected height x width x channels, as in 224x224x3, or a length", c->input);
    status = open_model(&m, text, &shape, &error);
    if (status == PST_OK && c->tune)
        status = tune(c, m, &error);
    if (status == PST_OK && table)
        status = kernels_read(&kernels, table, &error);
    plan.kernels = kernels;
    if (status == PST_OK && !c->text)
        status = pst_model_describe(m, c->batch, (unsigned)c->threads, &plan, &error);
    if (status < 0)
        code = m || pst_run_record_is(text) ? say_failure(&command_model, &error, c->json) : say_model_failure(&command_model, &error, c->json);
    else if (c->text)
        puts(pst_model_text(m));
    else if (c->json)
        put_json(m, &plan, c->batch);
    else
        put_table(m, &plan, c->batch);
    if (code == EXIT_DONE && c->tune && !c->json)
        printf("kernels in %s: penstock train --kernels %s uses them\n", c->tune, c->tune);
    free(kernels);
    pst_free(plan.text);
    pst_model_destroy(m);
    return code;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    char *text;
    int code;

    if (c->layers || c->presets) {
        if (c->layers && c->markdown)
            put_markdown();
        else if (c->layers)
            put_layers();
        if (c->presets)
            put_presets();
        return EXIT_DONE;
    }
    if (count == 0)
        return say_usage(&command_model, "a model is missing");
    text = pipeline_text(operands, count);
    if (!text) {
        say_error("out of memory");
        return EXIT_FAILED;
    }
    code = describe(c, text);
    free(text);
    return code;
}

static const struct option options[] = {
    {"--input", 'i', "SHAPE", OPTION_STRING, INTO(struct config, input), .initial = "224x224x3",
     .doc = "the shape of one sample: height x width x channels, or the length of a vector; runs and ONNX files have their own"},
    {"--batch", 'b', "N", OPTION_UINT, INTO(struct config, batch), .initial = "64", .min = 1, .max = 65536,
     .doc = "samples per step"},
    {"--threads", 't', "N", OPTION_UINT, INTO(struct config, threads), .min = 1, .max = 256, .doc = "threads of the step",
     .absent = "one per core"},
    {"--tune", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, tune), .completion = COMPLETE_FILES,
     .doc = "measure which kernel is the fastest for each convolution, with this batch and these threads, and write the table that `train --kernels` "
            "takes", .absent = "nothing is measured"},
    {"--mixed", .metavar = "TYPE", .kind = OPTION_CHOICE, INTO(struct config, mixed), .choices = train_mixed, .initial = "none",
     .doc = "--tune for values stored in 16 bits"},
    {"--kernels", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, kernels), .completion = COMPLETE_FILES,
     .doc = "show the step with the kernels of this table", .absent = "chosen by shape and instruction set"},
    {"--layers", .kind = OPTION_FLAG, INTO(struct config, layers), .doc = "list the layers that models are made of"},
    {"--markdown", .kind = OPTION_FLAG, INTO(struct config, markdown), .doc = "print --layers as Markdown, with the presets"},
    {"--presets", .kind = OPTION_FLAG, INTO(struct config, presets), .doc = "list the models that have names, with their text"},
    {"--text", .kind = OPTION_FLAG, INTO(struct config, text), .doc = "print the model as one line of text only"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {0},
};

static const struct example examples[] = {
    {"how large is this model, and which kernels run it?",
     "penstock model \"conv 32 3 relu | maxpool 2 | flatten | dense 10\" --input 32x32x3"},
    {"what is in this ONNX file?", "penstock model resnet18.onnx"},
    {"a preset as text, to be changed", "penstock model resnet20:100 --input 32x32x3 --text > model.pst"},
    {"which kernels are the fastest here?", "penstock model resnet20 --input 32x32x3 --batch 128 --tune kernels.txt"},
    {"what can a model be made of?", "penstock model --layers"},
    {0},
};

const struct command command_model = {
    .name = "model",
    .summary = "describe a model: shapes, parameters, work, memory, kernels",
    .usage = "MODEL...",
    .doc = "MODEL is a chain of layers, quoted so that the shell leaves it alone, \"@model.pst\" to read it from a file, the name of a preset, "
           "the folder of a run, or an ONNX file. "
           "Prints each layer with the shape of its result, its parameters and its work, then the memory of a training step and which "
           "implementation runs each group of layers, and why.",
    .options = options,
    .examples = examples,
    .max_operands = ANY_NUMBER,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
