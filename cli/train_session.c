/* train_session.c: see train_session.h. */
#include "cli/train_session.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "cli/train_check.h"
#include "cli/train_ranks.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *const train_mixed[] = {"none", "float16", "bfloat16", NULL};
const char *const train_gradients[] = {"float32", "float16", NULL}; /* as pst_gradients */
const char *const train_bindings[] = {"auto", "none", NULL};
const char *const train_optimizers[] = {"adam", "adamw", "sgd", "nesterov", "lion", NULL};
const char *const train_losses[] = {"auto", "sparse", "categorical", "binary", "mse", NULL};

void session_close(struct train_session *s, int code)
{
    if (ranks_waiting(s, code))
        ranks_close(s, code); /* at once */
    pst_trainer_destroy(s->trainer);
    pst_teacher_destroy(s->teacher);
    pst_model_destroy(s->model);
    pst_pipeline_destroy(s->training);
    pst_pipeline_destroy(s->validation);
    ranks_close(s, code);
    free(s->text);
    free(s->class_weights);
    free(s->own_arguments);
    prune_options_free(s);
}

/* A trace is of the training pipeline alone. */
static int open_validation(struct train_session *s, const struct train_config *c, uint64_t ram)
{
    struct pipeline_config config = s->pipeline;
    pst_error error;
    int code;

    config.trace = NULL;
    config.uneven = s->comm ? PST_UNEVEN_ALLOW : config.uneven; /* every sample counts once */
    config.hosts = 1; /* every rank may take any batch: shards that hosts hold are of the training data */
    config.ram = ram;
    code = pipeline_open(&s->validation, s->command, &config, &c->val, 1, c->json);
    return code == EXIT_DONE && pst_fields_keep(s->validation, c->input, c->target, true, NULL, &error) < 0
               ? say_failure(s->command, &error, c->json)
               : code;
}

static int open_training(struct train_session *s, const struct pipeline_config *config, const char *const *operands, size_t count)
{
    const struct train_config *c = s->config;
    pst_error error;
    int code = pipeline_open(&s->training, s->command, config, operands, count, c->json);

    return code == EXIT_DONE && pst_fields_keep(s->training, c->input, c->target, true, c->sample_weight, &error) < 0
               ? say_failure(s->command, &error, c->json)
               : code;
}

/* --ram is for everything: the pipelines are opened again with what the step leaves of it, the validation with a quarter of that. */
static int share_memory(struct train_session *s, const char *const *operands, size_t count)
{
    const struct train_config *c = s->config;
    struct pipeline_config config = s->pipeline;
    pst_model_plan plan = {.size = sizeof(plan)};
    pst_model_param p = {.size = sizeof(p)};
    pst_error error;
    uint64_t rest;
    int code;

    if (pst_model_describe(s->model, s->fields.batch, (unsigned)c->threads, &plan, &error) < 0)
        return say_failure(s->command, &error, c->json);
    pst_free(plan.text);
    for (size_t i = 0; pst_model_param_at(s->model, i, &p); i++)
        plan.bytes += 4 * sizeof(float) * p.count; /* weights, gradients, two moments */
    rest = config.ram > plan.bytes && config.ram - plan.bytes > config.ram / 8 ? config.ram - plan.bytes : config.ram / 8;
    s->training = pst_pipeline_destroy(s->training);
    s->validation = pst_pipeline_destroy(s->validation);
    config.plugin = NULL; /* they are loaded */
    config.ram = c->val ? rest - rest / 4 : rest;
    code = open_training(s, &config, operands, count);
    if (code == EXIT_DONE && c->val)
        code = open_validation(s, c, rest / 4);
    if (code == EXIT_DONE && pst_fields_find(s->training, c->input, c->target, true, &s->fields, &error) < 0)
        code = say_failure(s->command, &error, c->json);
    return code;
}

static pst_status check_memory(const struct train_session *s, pst_error *error)
{
    uint64_t bytes = pst_trainer_bytes(s->trainer), ram = s->config->pipeline.ram;

    if (ram == 0 || bytes <= ram)
        return PST_OK;
    return pst_fail(error, PST_ENOMEM, "the training step takes %.1f MiB, more than the %.1f MiB of --ram: a smaller batch, --recompute or --mixed needs less",
                    (double)bytes / (1 << 20), (double)ram / (1 << 20));
}

static uint64_t total_steps(const struct train_session *s)
{
    const struct train_config *c = s->config;
    uint64_t length = c->steps_per_epoch ? c->steps_per_epoch : pst_pipeline_length(s->training), total = c->steps, all;
    uint64_t each = c->accumulate ? c->accumulate : 1;

    if (!c->steps_per_epoch && length != PST_NOWHERE)
        length = length / each + (length % each > 0);
    if (c->epochs && length != PST_NOWHERE) {
        if (__builtin_mul_overflow(c->epochs, length, &all))
            all = UINT64_MAX;
        total = total == 0 || all < total ? all : total;
    }
    return ranks_agree(s, total); /* a rank may have one batch less than another */
}

/* Replaces model and trainer. */
static void take_trainer(struct train_session *s, pst_trainer *trainer, pst_model *model)
{
    pst_trainer_destroy(s->trainer);
    pst_model_destroy(s->model);
    s->trainer = trainer;
    s->model = model;
}

/* What is done to a trained model before training goes on: channels go, then it is prepared for int8. */
static pst_status prepare(struct train_session *s, pst_train_options *o, const pst_prune_options *prune, pst_error *error)
{
    const struct train_config *c = s->config;
    pst_qat_options q = {.size = sizeof(q), .samples = c->qat_samples, .weight_bits = (unsigned)c->qat_bits, .fields = &s->fields};
    pst_shrink_options shrink = {.size = sizeof(shrink), .flops = 1 - c->shrink, .norm = (pst_channel_norm)c->shrink_norm,
                                 .exclude = c->prune_exclude.items, .exclude_count = c->prune_exclude.count};
    pst_trainer *trainer = NULL;
    pst_model *model = NULL;
    pst_status status = PST_OK;

    if (c->shrink > 0) {
        o->prune = c->qat ? NULL : prune;
        status = pst_trainer_shrink(&trainer, &model, s->trainer, o, &shrink, error);
        if (status == PST_OK)
            take_trainer(s, trainer, model);
    }
    if (status == PST_OK && c->qat) {
        o->prune = prune;
        status = pst_trainer_prepare_qat(&trainer, &model, s->trainer, o, s->training, &q, error);
        if (status == PST_OK)
            take_trainer(s, trainer, model);
    }
    return status;
}

static bool teacher_progress(void *user, uint64_t done, uint64_t total)
{
    const struct train_config *c = user;

    if (!c->quiet && isatty(STDERR_FILENO))
        fprintf(stderr, "\rcomputing the teacher's logits, once: batch %" PRIu64 " of %" PRIu64 "%s", done, total, done == total ? "\n" : "");
    return interrupt_requested();
}

/* The pairs of --distill-features: names of the student's layers in `mine`, of the teacher's in `its`. */
static pst_status split_features(const struct option_list *list, char **mine, char **its, pst_error *error)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');

        if (!equals || equals == list->items[i] || !equals[1])
            return pst_fail(error, PST_EINVAL, "--distill-features %.80s: expected STUDENT_LAYER=TEACHER_LAYER", list->items[i]);
        mine[i] = strndup(list->items[i], (size_t)(equals - list->items[i]));
        its[i] = strdup(equals + 1);
        if (!mine[i] || !its[i])
            return pst_fail(error, PST_ENOMEM, "out of memory");
    }
    return PST_OK;
}

/* Opens the teacher, and sets the options of the trainer that depend on it: `names` and `shapes` have room for the pairs. */
static pst_status open_teacher(struct train_session *s, char **names, pst_shape *shapes, pst_train_options *o, pst_error *error)
{
    const struct train_config *c = s->config;
    size_t count = c->features.count;
    char folder[PATH_MAX];
    pst_teacher_options t = {.size = sizeof(t), .threads = (unsigned)c->threads, .features = (const char *const *)(names + count), .feature_count = count,
                             .cache = c->pipeline.cache ? c->pipeline.cache : default_cache_folder(folder, sizeof(folder)),
                             .progress = teacher_progress, .user = (void *)(uintptr_t)c};
    pst_status status = c->teacher ? split_features(&c->features, names, names + count, error)
                                   : pst_fail(error, PST_EINVAL, "--distill-features needs --teacher");

    if (status == PST_OK)
        status = pst_teacher_open(&s->teacher, c->teacher, &t, error);
    for (size_t i = 0; status == PST_OK && i < count; i++)
        shapes[i] = pst_teacher_feature(s->teacher, i);
    o->features = (const char *const *)names;
    o->feature_shapes = shapes;
    o->feature_count = count;
    return status;
}

static void note_loaded(const struct train_session *s, size_t loaded)
{
    pst_model_param p = {.size = sizeof(p)};
    size_t count = 0;

    while (pst_model_param_at(s->model, count, &p))
        count++;
    if (loaded == count)
        say_note("%zu parameters come from %s", loaded, s->config->weights);
    else
        say_note("%zu of %zu parameters come from %s; the others start fresh, as a last layer of another shape does", loaded, count, s->config->weights);
}

static pst_status make_trainer(struct train_session *s, pst_error *error)
{
    const struct train_config *c = s->config;
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
                           .freeze_count = c->freeze.count,
                           .mixed = (pst_mixed)c->mixed,
                           .recompute = c->recompute,
                           .accumulate = (unsigned)c->accumulate,
                           .temperature = c->temperature,
                           .alpha = c->alpha > 0 ? c->alpha : -1,
                           .feature_weight = c->feature_weight > 0 ? c->feature_weight : -1,
                           .comm = s->comm,
                           .exact_ranks = c->exact_ranks,
                           .gradients = (pst_gradients)c->gradients,
                           .sync_norm = c->sync_norm,
                           .class_weights = s->class_weights,
                           .class_count = s->class_weight_count};
    pst_prune_options prune = {0};
    bool prepares = (c->qat || c->shrink > 0) && !s->resume;
    size_t loaded = 0;
    char *kernels = NULL, **names = calloc(2 * c->features.count + 1, sizeof(*names));
    pst_shape *shapes = calloc(c->features.count + 1, sizeof(*shapes));
    pst_status status = names && shapes ? prune_options_read(s, &prune, error) : pst_fail(error, PST_ENOMEM, "out of memory");

    if (status == PST_OK && !s->resume && !c->teacher && (c->temperature_given || c->alpha_given || c->feature_weight_given))
        status = pst_fail(error, PST_EINVAL, "%s is for learning from a teacher: give --teacher MODEL, or leave it out",
                          c->temperature_given ? "--temperature" : c->alpha_given ? "--alpha" : "--feature-weight");
    if (status == PST_OK && prepares && !c->weights)
        status = pst_fail(error, PST_EINVAL, "%s starts from a trained model: give its run with --weights", c->qat ? "--qat" : "--prune-structured");
    if (status == PST_OK && c->kernels && !s->kernels)
        status = kernels_read(&kernels, c->kernels, error);
    if (status == PST_OK && (c->teacher || c->features.count))
        status = open_teacher(s, names, shapes, &o, error);
    o.kernels = s->kernels ? s->kernels : kernels;
    o.prune = prune.size && !prepares ? &prune : NULL;
    if (status == PST_OK)
        status = pst_trainer_create(&s->trainer, s->model, &o, error);
    if (status == PST_OK && o.kernels)
        kernels_compare(o.kernels, pst_trainer_kernels(s->trainer), s->kernels ? s->resume : c->kernels);
    if (status == PST_OK && !s->silent)
        train_note_frozen(c, s->model);
    if (status == PST_OK && c->weights) {
        status = pst_trainer_load_weights(s->trainer, c->weights, &loaded, error);
        if (status == PST_OK && !s->silent)
            note_loaded(s, loaded);
    }
    o.kernels = NULL; /* of the model as it was */
    if (status == PST_OK && prepares)
        status = prepare(s, &o, prune.size ? &prune : NULL, error);
    for (size_t i = 0; names && i < 2 * c->features.count; i++)
        free(names[i]);
    free(names);
    free(shapes);
    free(kernels);
    return status;
}

/* The names of the classes, where they are known and are as many as the model has results. Validation data must have the same. */
static pst_status find_classes(struct train_session *s, pst_error *error)
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

static int say_wrong_model(const struct train_session *s, const pst_error *error)
{
    const struct train_config *c = s->config;
    pst_error named;

    if (!pst_run_record_is(c->model))
        return say_model_failure(s->command, error, c->json);
    pst_fail(&named, PST_EINVAL, "--model %.150s is a run or a file of weights, not the text of a model: give it with --weights", c->model);
    return say_failure(s->command, &named, c->json);
}

int session_open(struct train_session *s, const char *const *operands, size_t count)
{
    const struct train_config *c = s->config;
    pst_error error;
    pst_status status;
    int code;

    s->pipeline = c->pipeline;
    code = s->command == &command_train ? ranks_open(s) : EXIT_DONE;
    if (code == EXIT_DONE)
        code = open_training(s, &s->pipeline, operands, count);
    if (code == EXIT_DONE && c->val)
        code = open_validation(s, c, c->pipeline.ram);
    if (code != EXIT_DONE)
        return code;
    s->text = pipeline_text(operands, count);
    s->fields.size = sizeof(s->fields);
    status = pst_fields_find(s->training, c->input, c->target, true, &s->fields, &error);
    if (status == PST_OK && pst_model_parse(&s->model, c->model, &s->fields.shape, &error) < 0)
        return say_wrong_model(s, &error);
    if (status == PST_OK && c->pipeline.ram && (code = share_memory(s, operands, count)) != EXIT_DONE)
        return code;
    if (status == PST_OK)
        status = find_classes(s, &error);
    if (status == PST_OK && c->class_weight)
        status = class_weights_find(s, c->class_weight, &error);
    if (status == PST_OK)
        status = make_trainer(s, &error);
    if (status == PST_OK)
        status = check_memory(s, &error);
    if (status == PST_OK && s->class_count)
        status = pst_trainer_set_classes(s->trainer, s->classes, s->class_count, &error);
    if (status < 0)
        return say_failure(s->command, &error, c->json);
    return EXIT_DONE;
}
