/* training_fields.c: which fields of a pipeline a model is trained on, and which loss suits them. */
#include "base/options.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool is_number(const pst_field *f)
{
    return f->dtype != PST_DTYPE_BYTES && f->dtype != PST_DTYPE_NONE;
}

/* Batches have one dimension more than elements: the first. */
static bool varies(const pst_field *f)
{
    for (uint32_t i = 1; i < f->rank; i++)
        if (f->shape[i] == PST_ANY)
            return true;
    return false;
}

/* "image", otherwise the only numeric field besides the target, those with more dimensions first; -1: none, -2: several. */
static int guess_input(const pst_spec *spec, int target)
{
    int found = -1, image = pst_spec_find(spec, "image");
    if (image >= 0 && image != target)
        return image;
    for (size_t i = 0; i < spec->count; i++) {
        const pst_field *f = &spec->field[i];
        if ((int)i == target || !is_number(f))
            continue;
        if (found < 0 || f->rank > spec->field[found].rank)
            found = (int)i;
        else if (f->rank == spec->field[found].rank)
            return -2;
    }
    return found;
}

static pst_status find_input(const pst_spec *spec, const char *name, int target, int *ret, pst_error *reterr)
{
    char text[160];
    *ret = name ? pst_spec_find(spec, name) : guess_input(spec, target);
    if (*ret >= 0)
        return PST_OK;
    pst_spec_text(spec, text, sizeof(text));
    if (name)
        return pst_fail(reterr, PST_EINVAL, "the pipeline has no field %.40s; it has %s", name, text);
    if (*ret == -2)
        return pst_fail(reterr, PST_EINVAL, "several fields could be the input: %s; choose one with --input-field", text);
    return pst_fail(reterr, PST_EINVAL, "the pipeline has no field that could be the input: %s", text);
}

static pst_status check_input(const pst_field *f, bool guessed, pst_shape *ret, pst_error *reterr)
{
    if (!is_number(f))
        return pst_fail(reterr, PST_ETYPE, "field %s is %s, not numbers; add `decode` to the pipeline", f->name, pst_dtype_name(f->dtype));
    if (varies(f))
        return pst_fail(reterr, PST_ETYPE, "the shape of field %s varies; add `resize 224` (or a crop) to the pipeline", f->name);
    if (f->rank != 4 && f->rank != 2)
        return pst_fail(reterr, PST_ETYPE, "field %s has %" PRIu32 " dimensions besides the batch; a model takes 3 (height, width, channels) "
                                           "or 1%s", f->name, f->rank - 1, guessed ? "; choose another field with --input-field" : "");
    ret->rank = f->rank - 1;
    for (uint32_t i = 0; i < ret->rank; i++) {
        if (f->shape[i + 1] == 0 || f->shape[i + 1] > UINT32_MAX)
            return pst_fail(reterr, PST_ETYPE, "dimension %" PRIu32 " of field %s is %" PRIu64, i, f->name, f->shape[i + 1]);
        ret->size[i] = (uint32_t)f->shape[i + 1];
    }
    return PST_OK;
}

static pst_status check_target(const pst_spec *spec, int target, const char *name, bool needed, pst_fields *ret, pst_error *reterr)
{
    char text[160];
    if (target < 0 && !needed)
        return PST_OK;
    if (target < 0)
        return pst_fail(reterr, PST_EINVAL, "the pipeline has no field %.40s to learn; it has %s: choose another with --target", name,
                        pst_spec_text(spec, text, sizeof(text)));
    const pst_field *f = &spec->field[target];
    if (!is_number(f) || varies(f))
        return pst_fail(reterr, PST_ETYPE, "field %s is the target, but not numbers of a fixed shape", f->name);
    ret->width = 1;
    for (uint32_t i = 1; i < f->rank; i++)
        if (__builtin_mul_overflow(ret->width, f->shape[i], &ret->width))
            return pst_fail(reterr, PST_ETYPE, "field %s is too large for a target", f->name);
    bool integer = f->dtype == PST_DTYPE_U8 || f->dtype == PST_DTYPE_I32 || f->dtype == PST_DTYPE_I64;
    ret->labels = integer && ret->width == 1;
    snprintf(ret->target, sizeof(ret->target), "%s", f->name);
    return PST_OK;
}

pst_status pst_fields_find(pst_pipeline *p, const char *input, const char *target, bool needs_target, pst_fields *ret, pst_error *reterr)
{
    pst_fields found = {.size = sizeof(found)};
    int i = -1;
    pst_status st = result_check(ret, reterr);
    if (st == PST_OK)
        st = pst_pipeline_plan(p, reterr);
    if (st < 0)
        return st;
    if (pst_pipeline_length(p) == 0)
        return pst_fail(reterr, PST_EINVAL, "the pipeline delivers no batch: its source is empty, or drop_remainder leaves nothing");
    const pst_spec *spec = pst_pipeline_spec(p);
    const char *target_name = target ? target : "label";
    int t = pst_spec_find(spec, target_name);
    st = find_input(spec, input, t, &i, reterr);
    if (st == PST_OK)
        st = check_input(&spec->field[i], !input, &found.shape, reterr);
    if (st == PST_OK)
        st = check_target(spec, t, target_name, needs_target, &found, reterr);
    if (st < 0)
        return st;
    snprintf(found.input, sizeof(found.input), "%s", spec->field[i].name);
    found.batch = (size_t)pst_pipeline_batch_size(p);
    result_give(ret, &found, sizeof(found));
    return PST_OK;
}

/* The names of the fields to keep; an empty one: the default, or none. */
struct wanted {
    char input[PST_NAME_SIZE], target[PST_NAME_SIZE], weights[PST_NAME_SIZE];
    bool has_input, needs_target, has_weights;
};

static void choose(void *user, const pst_spec *spec, bool *keep)
{
    const struct wanted *w = user;
    int target = pst_spec_find(spec, w->target);
    int input = w->has_input ? pst_spec_find(spec, w->input) : guess_input(spec, target);
    int weights = w->has_weights ? pst_spec_find(spec, w->weights) : -1;
    if (input < 0 || (w->needs_target && target < 0) || (w->has_weights && weights < 0))
        return;
    keep[input] = true;
    if (target >= 0)
        keep[target] = true;
    if (weights >= 0)
        keep[weights] = true;
}

pst_status pst_fields_keep(pst_pipeline *p, const char *input, const char *target, bool needs_target, const char *weights, pst_error *reterr)
{
    struct wanted w = {.has_input = input != NULL, .needs_target = needs_target, .has_weights = weights != NULL};
    snprintf(w.input, sizeof(w.input), "%s", input ? input : "");
    snprintf(w.target, sizeof(w.target), "%s", target ? target : "label");
    snprintf(w.weights, sizeof(w.weights), "%s", weights ? weights : "");
    return pst_pipeline_keep(p, choose, &w, sizeof(w), reterr);
}

pst_loss pst_loss_choose(const pst_model *model, const pst_fields *fields)
{
    const char *ending = model_ending(model);
    pst_shape out = pst_model_output(model);
    if (fields->labels)
        return out.size[0] > 1 || out.rank != 1 ? PST_LOSS_SPARSE : strcmp(ending, "") == 0 || strcmp(ending, "sigmoid") == 0 ? PST_LOSS_BINARY : PST_LOSS_SPARSE;
    return strcmp(ending, "softmax") == 0 ? PST_LOSS_CATEGORICAL : strcmp(ending, "sigmoid") == 0 ? PST_LOSS_BINARY : PST_LOSS_MSE;
}
