/* tune.c: training between the steps, in a run folder of its own, so that it continues after an interruption. */
#include "base/error.h"
#include "base/memory.h"
#include "compress/compress.h"
#include "io/file.h"
#include "network/network.h"

#include <string.h>

static bool progress(void *user, const pst_run_progress *p)
{
    struct compression *c = user;
    if (c->options->progress && c->options->progress(c->options->user, c->what, p, NULL))
        c->stop = true;
    return c->stop;
}

static bool exists(const char *path)
{
    struct file_info info;
    return file_stat(path, &info, NULL) == PST_OK;
}

/* The total number of updates, for the schedules; PST_NOWHERE counts as unknown. */
static uint64_t total_steps(const struct compression *c, uint64_t epochs)
{
    uint64_t length = c->options->steps_per_epoch ? c->options->steps_per_epoch : pst_pipeline_length(c->training);
    return length == PST_NOWHERE ? 0 : epochs * length;
}

static pst_train_options train_options(const struct compression *c, const pst_network *n, const pst_prune_options *prune)
{
    const pst_compress_options *o = c->options;
    uint64_t total = total_steps(c, o->epochs ? o->epochs : 2);
    return (pst_train_options){.size = sizeof(pst_train_options),
                               .batch = c->fields.batch,
                               .threads = o->threads,
                               .seed = o->seed,
                               .loss = pst_network_record(n)->loss,
                               .rate = o->rate > 0 ? o->rate : 3e-4,
                               .schedule = total ? PST_SCHEDULE_COSINE : PST_SCHEDULE_CONSTANT,
                               .total_steps = total,
                               .prune = prune};
}

/* A trainer with the network's weights. */
static pst_status make_trainer(const pst_network *n, const pst_train_options *o, pst_trainer **ret, pst_error *reterr)
{
    pst_model_param p = {.size = sizeof(p)};
    pst_status st = pst_trainer_create(ret, pst_network_model(n), o, reterr);
    for (size_t i = 0; st == PST_OK && pst_model_param_at(pst_network_model(n), i, &p); i++)
        memcpy(pst_trainer_values(*ret, i), pst_network_values(n, i), p.count * sizeof(float));
    if (st == PST_OK)
        pst_trainer_restart_mean(*ret);
    return st;
}

/* For int8: the prepared model's text depends on the data and the weights only, so that a resumed run has the same one. */
static pst_status make_qat(struct compression *c, const pst_network *n, const pst_train_options *o, pst_trainer **ret, pst_model **ret_model,
                           pst_error *reterr)
{
    pst_qat_options q = {.size = sizeof(q), .fields = &c->fields};
    pst_train_options plain = *o;
    pst_trainer *from = NULL;
    plain.prune = NULL;
    pst_status st = make_trainer(n, &plain, &from, reterr);
    if (st == PST_OK)
        st = pst_trainer_prepare_qat(ret, ret_model, from, o, c->training, &q, reterr);
    pst_trainer_destroy(from);
    return st;
}

static pst_status run(struct compression *c, pst_trainer *t, const char *folder, pst_error *reterr)
{
    const pst_compress_options *o = c->options;
    char *path = file_join(o->out, folder), *latest = path ? file_join(path, "latest") : NULL;
    pst_run_options r = {.size = sizeof(r),
                         .epochs = o->epochs ? o->epochs : 2,
                         .steps_per_epoch = o->steps_per_epoch,
                         .fields = &c->fields,
                         .out = path,
                         .resume = latest && exists(latest),
                         .keep = 1,
                         .save_every = o->save_every,
                         .progress = progress,
                         .user = c};
    pst_status st = latest ? pst_pipeline_seek(c->training, &c->start, reterr) : fail_memory(reterr, "compressing");
    if (st == PST_OK)
        st = pst_trainer_run(t, c->training, NULL, &r, NULL, reterr);
    mem_free(path);
    mem_free(latest);
    return st;
}

pst_status compression_train(struct compression *c, const pst_network *from, const char *folder, const pst_prune_options *prune, bool qat,
                             pst_network **ret, pst_error *reterr)
{
    pst_train_options o = train_options(c, from, prune);
    pst_trainer *t = NULL;
    pst_model *model = NULL; /* of a prepared trainer */
    *ret = NULL;
    if (!c->options->out)
        return pst_fail(reterr, PST_EINVAL, "training needs a folder for its checkpoints: set pst_compress_options.out");
    pst_status st = pst_pipeline_seek(c->training, &c->start, reterr);
    if (st == PST_OK)
        st = qat ? make_qat(c, from, &o, &t, &model, reterr) : make_trainer(from, &o, &t, reterr);
    if (st == PST_OK)
        st = run(c, t, folder, reterr);
    if (st == PST_OK && !c->stop)
        st = pst_network_of_trainer(ret, t, pst_network_record(from), reterr);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
    return st;
}
