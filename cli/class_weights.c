/* class_weights.c: how much each class weighs in the loss: counted from the labels, or read from a file. */
#include "cli/train_session.h"
#include "cli/values.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_SIZE = 512 };

/* Counts the labels of one pass. The fields that nothing needs are not decoded. */
static pst_status count_labels(pst_pipeline *p, const char *target, uint64_t *counts, size_t classes, pst_error *error)
{
    pst_batch *batch = NULL;
    pst_status status;

    if (pst_pipeline_length(p) == PST_NOWHERE)
        return pst_fail(error, PST_EINVAL, "--class-weight balanced needs data whose length is known; give a file of weights");
    while ((status = pst_pipeline_next(p, &batch, error)) == PST_OK) {
        const pst_tensor *t = pst_batch_get(batch, target);

        for (size_t i = 0; t && i < pst_batch_size(batch); i++) {
            double label = value_number(t, i);

            if (label >= 0 && label < (double)classes)
                counts[(size_t)label]++;
        }
        batch = pst_batch_unref(batch);
    }
    return status == PST_END ? PST_OK : status;
}

/* Every class weighs the same in total; the mean over all samples is 1. Classes without samples weigh 1. */
static pst_status balance(struct train_session *s, pst_error *error)
{
    size_t classes = s->class_weight_count, used = 0;
    uint64_t *counts = calloc(classes, sizeof(*counts)), total = 0;
    char *text = counts ? malloc(strlen(s->text) + strlen(s->fields.target) + 16) : NULL;
    pst_pipeline_options o = {.size = sizeof(o), .seed = s->config->pipeline.seed, .bad = s->config->pipeline.bad};
    pst_pipeline *p = NULL;
    pst_status status = text ? PST_OK : pst_fail(error, PST_ENOMEM, "out of memory");

    if (status == PST_OK && !s->fields.labels)
        status = pst_fail(error, PST_EINVAL, "--class-weight balanced counts integer labels; %s is not one: give a file of weights",
                          s->fields.target);
    if (status == PST_OK) {
        sprintf(text, "%s | select %s", s->text, s->fields.target);
        status = pst_pipeline_parse(&p, text, &o, error);
    }
    if (status == PST_OK)
        status = pst_pipeline_plan(p, error);
    if (status == PST_OK && pst_pipeline_endless(p))
        status = pst_fail(error, PST_EINVAL, "--class-weight balanced counts the labels of one pass, and the training data never ends: leave repeat out, or "
                                             "give a file of weights");
    if (status == PST_OK)
        status = count_labels(p, s->fields.target, counts, classes, error);
    for (size_t i = 0; status == PST_OK && i < classes; i++) {
        total += counts[i];
        used += counts[i] > 0;
    }
    for (size_t i = 0; status == PST_OK && i < classes; i++)
        s->class_weights[i] = counts[i] ? (double)total / ((double)used * (double)counts[i]) : 1;
    pst_pipeline_destroy(p);
    free(counts);
    free(text);
    return status;
}

static size_t find_class(const struct train_session *s, const char *name)
{
    char *end;
    unsigned long long number = strtoull(name, &end, 10);

    for (size_t i = 0; i < s->class_count; i++)
        if (strcmp(s->classes[i], name) == 0)
            return i;
    return end != name && *end == '\0' && number < s->class_weight_count ? (size_t)number : SIZE_MAX;
}

/* Lines of a class, by name or number, and its weight, with a blank or a comma between; classes that are not listed weigh 1. */
static pst_status read_line(struct train_session *s, const char *path, uint64_t number, char *line, pst_error *error)
{
    char *end, *value;
    size_t n = strcspn(line, "\r\n"), class;

    line[n] = '\0';
    line += strspn(line, " \t");
    if (*line == '\0' || *line == '#')
        return PST_OK;
    value = line + strlen(line);
    while (value > line && value[-1] != ',' && value[-1] != ' ' && value[-1] != '\t')
        value--;
    if (value == line)
        return pst_fail_at(error, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "line %" PRIu64 ": expected a class and its weight", number);
    errno = 0;
    double weight = strtod(value, &end);
    for (char *s2 = value - 1; s2 >= line && (*s2 == ',' || *s2 == ' ' || *s2 == '\t'); s2--)
        *s2 = '\0';
    if (end == value || *end || !(weight >= 0 && isfinite(weight)))
        return pst_fail_at(error, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "line %" PRIu64 ": invalid weight %.40s; expected 0 or more",
                           number, value);
    class = find_class(s, line);
    if (class == SIZE_MAX)
        return pst_fail_at(error, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "line %" PRIu64 ": there is no class %.60s", number, line);
    s->class_weights[class] = weight;
    return PST_OK;
}

static pst_status read_file(struct train_session *s, const char *path, pst_error *error)
{
    FILE *f = fopen(path, "r");
    char line[LINE_SIZE];
    pst_status status = PST_OK;

    if (!f)
        return pst_fail_at(error, errno == ENOENT ? PST_ENOTFOUND : PST_EIO, path, PST_NOWHERE, PST_NOWHERE,
                           "cannot read the weights of classes: %s", strerror(errno));
    for (uint64_t number = 1; status == PST_OK && fgets(line, sizeof(line), f); number++)
        status = read_line(s, path, number, line, error);
    fclose(f);
    return status;
}

pst_status class_weights_find(struct train_session *s, const char *how, pst_error *error)
{
    size_t results = pst_model_output(s->model).size[0];

    s->class_weight_count = results == 1 ? 2 : results;
    s->class_weights = calloc(s->class_weight_count, sizeof(*s->class_weights));
    if (!s->class_weights)
        return pst_fail(error, PST_ENOMEM, "out of memory");
    for (size_t i = 0; i < s->class_weight_count; i++)
        s->class_weights[i] = 1;
    return strcmp(how, "balanced") == 0 ? balance(s, error) : read_file(s, how, error);
}
