/* cmd_cat.c: `penstock cat`: prints the elements of a pipeline or draws its images. */
#include "cli/command.h"
#include "cli/contact_sheet.h"
#include "cli/elements.h"
#include "cli/pipeline_options.h"
#include "cli/say.h"
#include "cli/watch.h"
#include <stdio.h>
#include <stdlib.h>

struct config {
    struct pipeline_config pipeline; /* first: the shared options */
    uint64_t head, batches, values, tile_size;
    const char *sheet, *image, *label;
    bool json, head_given, tile_size_given;
};

struct cat {
    const struct config *config;
    struct contact_sheet sheet;
    uint64_t elements, batches; /* so far */
    bool prints;                /* a sheet alone does not */
};

static void show_batch(struct cat *cat, const pst_batch *batch)
{
    const struct config *c = cat->config;

    if (c->batches && c->json)
        put_batch_json(batch, cat->batches, c->values);
    else if (c->batches)
        put_batch(batch, cat->batches, c->values);
    for (size_t i = 0; i < pst_batch_size(batch) && !c->batches; i++) {
        uint64_t number = cat->elements + i;

        if (c->head && number >= c->head)
            break;
        if (c->json)
            put_element_json(batch, i, number, c->values);
        else
            put_element(batch, i, number, c->values);
    }
}

/* Whether everything requested has been delivered. */
static bool is_enough(const struct cat *cat)
{
    const struct config *c = cat->config;

    if (cat->prints && c->batches)
        return cat->batches >= c->batches;
    if (cat->prints && c->head == 0)
        return false;
    return cat->batches > 0 && cat->elements >= c->head;
}

/* Runs up to the end of the first epoch. */
static pst_status show(struct cat *cat, pst_pipeline *pipeline, pst_error *error)
{
    pst_batch *batch = NULL;
    pst_status status = PST_OK;

    while (!is_enough(cat)) {
        status = pst_pipeline_next(pipeline, &batch, error);
        if (status != PST_OK)
            break;
        if (cat->prints)
            show_batch(cat, batch);
        cat->elements += pst_batch_size(batch);
        cat->batches++;
        if (cat->config->sheet && !contact_sheet_add(&cat->sheet, batch))
            status = pst_fail(error, PST_ENOMEM, "out of memory for the sheet");
        batch = pst_batch_unref(batch);
        if (status < 0 || ferror(stdout)) /* the reader closed the pipe */
            break;
    }
    return status < 0 ? status : PST_OK;
}

static pst_status write_sheet(const struct cat *cat, const char *const *operands, size_t count, pst_error *error)
{
    char *text = pipeline_text(operands, count);
    pst_status status =
        contact_sheet_write(&cat->sheet, cat->config->sheet, (uint32_t)cat->config->tile_size, text ? text : "", error);

    free(text);
    if (status == PST_OK && !cat->config->json) {
        printf("%zu %s on ", cat->sheet.elements, plural(cat->sheet.elements, "image", "images"));
        put_clean_string(stdout, cat->config->sheet);
        putchar('\n');
    }
    return status;
}

static int check(const struct config *c)
{
    if (c->batches && c->head_given)
        return say_usage(&command_cat, "--head and --batches exclude each other");
    if (!c->sheet && (c->image || c->label || c->tile_size_given))
        return say_usage(&command_cat, "%s needs --sheet", c->image ? "--image" : c->label ? "--label" : "--tile-size");
    return EXIT_DONE;
}

static int run(const void *config, const char *const *operands, size_t count)
{
    const struct config *c = config;
    struct cat cat = {
        .config = c, .sheet = {.image = c->image, .label = c->label}, .prints = !c->sheet || c->head_given || c->batches};
    struct watch watch;
    pst_pipeline *pipeline = NULL;
    pst_error error;
    pst_status status;
    int code = check(c);

    if (code == EXIT_DONE)
        code = pipeline_open(&pipeline, &command_cat, &c->pipeline, operands, count, c->json);
    if (code != EXIT_DONE)
        return code;
    watch_start(&watch, pipeline, NULL, NULL);
    status = show(&cat, pipeline, &error);
    if (status == PST_OK && c->sheet)
        status = write_sheet(&cat, operands, count, &error);
    watch_stop(&watch);
    if (status == PST_OK)
        say_skipped("", pst_pipeline_damage(pipeline));
    if (status < 0)
        code = say_failure(&command_cat, &error, c->json);
    contact_sheet_finish(&cat.sheet);
    pst_pipeline_destroy(pipeline);
    return code;
}

static const struct option options[] = {
    {"--head", 'n', "N", OPTION_UINT, INTO(struct config, head), .given = offsetof(struct config, head_given), .initial = "10",
     .doc = "number of elements to print; 0: all elements of one epoch", .group = "What to show"},
    {"--batches", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, batches), .min = 1,
     .doc = "print the first N batches instead of elements", .absent = "print elements"},
    {"--values", .metavar = "N", .kind = OPTION_UINT, INTO(struct config, values), .initial = "8", .min = 1,
     .doc = "number of values to print per field; for longer fields, the range, mean and a digest of all values follow"},
    {"--json", .kind = OPTION_FLAG, INTO(struct config, json), .doc = "print one JSON object per element or batch"},
    {"--sheet", .metavar = "FILE", .kind = OPTION_STRING, INTO(struct config, sheet), .completion = COMPLETE_FILES,
     .doc = "write the images of the first batch with their labels into one PNG (several batches if they are small: at least "
            "--head images); elements are then printed only if --head or --batches is given"},
    {"--image", .metavar = "FIELD", .kind = OPTION_STRING, INTO(struct config, image),
     .doc = "the field with the images for the sheet", .absent = "image, or the first field with images"},
    {"--label", .metavar = "FIELD", .kind = OPTION_STRING, INTO(struct config, label),
     .doc = "the field printed below each image", .absent = "label"},
    {"--tile-size", .metavar = "PIXELS", .kind = OPTION_UINT, INTO(struct config, tile_size),
     .given = offsetof(struct config, tile_size_given), .initial = "160", .min = 32, .max = 1024,
     .doc = "width of one image on the sheet"},
    {0},
};

static const struct example examples[] = {
    {"print the first three records", "penstock cat \"tfrecord shards/ | example\" --head 3"},
    {"print the batches of a small pipeline", "penstock cat \"range 10 | shuffle seed=7 | batch 3\" --batches 4"},
    {"draw the images that the model will get",
     "penstock cat \"folder photos/ | shuffle | decode | random_resized_crop 224 | flip | batch 24\" --sheet batch.png"},
    {"print every label as JSON", "penstock cat \"tfrecord shards/ | example | select label\" --head 0 --json"},
    {0},
};

const struct command command_cat = {
    .name = "cat",
    .summary = "print the elements of a pipeline, or draw its images",
    .doc =
        "Runs the pipeline and prints its first elements, field by field: numbers, text, the kind of image or bytes, and for "
        "long fields their range and a digest. Stops at the end of the first epoch. The output is the same for any number of "
        "workers and on any machine.\n\n" PIPELINE_DOC,
    PIPELINE_COMMAND,
    .options = options,
    .examples = examples,
    .config_size = sizeof(struct config),
    .run = run,
};
