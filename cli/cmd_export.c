/* cmd_export.c: `penstock export`: a trained model as a file for other programs. */
#include "cli/command.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/train.h"
#include <inttypes.h>
#include <penstock/export.h>
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
    uint64_t bytes = stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;

    if (c->json) {
        struct json j = json_to(stdout);

        json_begin_object(&j, NULL);
        json_string(&j, "command", "export");
        json_string(&j, "checkpoint", r->folder);
        json_uint(&j, "step", r->step);
        json_string(&j, "path", path);
        json_uint(&j, "bytes", bytes);
        json_end_object(&j);
        putchar('\n');
    } else {
        printf("%s: %s, step %" PRIu64 " of %s\n", path, amount_bytes(size, (double)bytes), r->step, r->folder);
    }
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct loaded l = {0};
    pst_error error;
    int code = loaded_open(&l, &command_export, operands[0], c->checkpoint, 1, 1, c->json);

    (void)count;
    if (code == EXIT_DONE) {
        pst_export_options o = {.size = sizeof(o),
                                .nhwc = c->layout == NHWC,
                                .classes = l.record->class_count ? (const char *const *)l.record->classes : NULL,
                                .class_count = l.record->class_count,
                                .preprocessing = l.record->validation ? l.record->validation : l.record->pipeline,
                                .overwrite = c->force};

        if (pst_trainer_export(l.trainer, operands[1], &o, &error) < 0)
            code = say_failure(&command_export, &error, c->json);
        else
            put_result(c, l.record, operands[1]);
    }
    loaded_close(&l);
    return code;
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
    .usage = "RUN FILE",
    .doc =
        "RUN is the folder of a run or of one checkpoint. The ending of FILE chooses the format.\n\n"
        ".onnx holds the whole model: opset 17, IR version 8, weights inline, float32. The input is called images (inputs for "
        "vectors), "
        "its batch dimension N is open, the result is called output: probabilities where the model ends with softmax or "
        "sigmoid. The "
        "metadata has the names of the classes, the text of the pipeline that prepares images, and the text of the model.\n\n"
        ".safetensors holds the weights by name, as in checkpoints: kernels of convolutions are height, width, in, out.",
    .options = options,
    .examples = examples,
    .min_operands = 2,
    .max_operands = 2,
    .completion = COMPLETE_FILES,
    .config_size = sizeof(struct config),
    .run = run,
};
