/* cmd_export.c: `penstock export`: a trained model as a file for other programs. */
#include "cli/command.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/train.h"
#include <inttypes.h>
#include <penstock/network.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { NCHW, NHWC };
static const char *const layouts[] = {"nchw", "nhwc", NULL};

struct config {
    const char *checkpoint;
    int layout;
    bool force, json;
};

static void put_result(const struct config *c, const pst_run_record *r, const char *path)
{
    struct stat info;
    char size[AMOUNT_SIZE];
    bool known = stat(path, &info) == 0; /* not in a store */
    uint64_t bytes = known ? (uint64_t)info.st_size : 0;

    if (c->json) {
        struct json j = json_to(stdout);

        json_begin_object(&j, NULL);
        json_string(&j, "command", "export");
        json_string(&j, "checkpoint", r->folder);
        json_uint(&j, "step", r->step);
        json_string(&j, "path", path);
        if (known)
            json_uint(&j, "bytes", bytes);
        json_end_object(&j);
        putchar('\n');
    } else {
        printf("%s: ", path);
        if (known)
            printf("%s, ", amount_bytes(size, (double)bytes));
        if (r->step)
            printf("step %" PRIu64 " ", r->step);
        printf("of %s\n", r->folder);
    }
}

/* Formats of the file that are larger than what the network stores. */
static void say_widened(const pst_network *network, const char *path)
{
    pst_network_info info = {.size = sizeof(info)};
    size_t length = strlen(path);
    bool tensors = length > 12 && strcasecmp(path + length - 12, ".safetensors") == 0;

    if (pst_network_describe(network, &info, NULL) < 0 || info.format == PST_WEIGHTS_FLOAT32 || (!tensors && info.format == PST_WEIGHTS_QUANTIZED))
        return;
    say_note("the model stores its weights in fewer bits; this file has them in float32%s", info.format == PST_WEIGHTS_QUANTIZED ? ", without the ranges of its activations: .onnx keeps both" : "");
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    pst_network *network = NULL;
    pst_error error;
    pst_status status = pst_network_open(&network, operands[0], c->checkpoint, &error);

    (void)count;
    if (status == PST_OK) {
        const pst_run_record *r = pst_network_record(network);
        pst_export_options o = {.size = sizeof(o),
                                .nhwc = c->layout == NHWC,
                                .classes = r->class_count ? (const char *const *)r->classes : NULL,
                                .class_count = r->class_count,
                                .preprocessing = r->validation ? r->validation : r->pipeline,
                                .overwrite = c->force};

        status = pst_network_export(network, operands[1], &o, &error);
        if (status == PST_OK)
            say_widened(network, operands[1]);
        if (status == PST_OK)
            put_result(c, r, operands[1]);
    }
    pst_network_destroy(network);
    return status < 0 ? say_failure(&command_export, &error, c->json) : EXIT_DONE;
}

static const struct option options[] = {
    {"--checkpoint", .metavar = "WHICH", .kind = OPTION_STRING, INTO(struct config, checkpoint),
     .doc = "best, latest or a number of steps", .absent = "best if there is one, otherwise latest"},
    {"--layout", .metavar = "LAYOUT", .kind = OPTION_CHOICE, INTO(struct config, layout), .choices = layouts, .initial = "nchw",
     .doc = "order of images in ONNX: nchw (channels first) or nhwc (channels last)"},
    {"--force", 'f', .kind = OPTION_FLAG, INTO(struct config, force), .doc = "replace a file that exists"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object"},
    {0},
};

static const struct example examples[] = {
    {"the best checkpoint of a run as ONNX", "penstock export runs/first model.onnx"},
    {"the weights at step 2000", "penstock export runs/first weights.safetensors --checkpoint 2000"},
    {0},
};

const struct command command_export = {
    .name = "export",
    .summary = "write a trained model as ONNX or safetensors",
    .usage = "MODEL FILE",
    .doc =
        MODEL_DOC " The ending of FILE chooses the format.\n\n"
        ".onnx holds the whole model: opset 17, IR version 8, weights inline, float32. The input is called images (inputs for "
        "vectors), "
        "its batch dimension N is open, the result is called output: probabilities where the model ends with softmax or "
        "sigmoid. The "
        "metadata has the names of the classes, the text of the pipeline that prepares images, and the text of the model.\n\n"
        "A quantised model becomes integers with QuantizeLinear and DequantizeLinear around them, which programs such as ONNX Runtime fuse "
        "into integer kernels.\n\n"
        ".safetensors holds the weights by name in float32, also those of a quantised model, as in checkpoints: kernels of convolutions are height, width, in, out.",
    .options = options,
    .examples = examples,
    .min_operands = 2,
    .max_operands = 2,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
