/* fine_tune.c: training between the steps, in a run folder of its own, so that it continues after an interruption. The folder's name has a
 * fingerprint of everything that decides the run: another network or other options never continue it. */
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "compress/compress.h"
#include "io/file.h"
#include "network/network.h"
#include "quant/qat.h"

#include <inttypes.h>
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

/* The batches of a pipeline of unknown length, such as a compressed stream: one pass counts them, because schedules need their number. */
static pst_status count_batches(struct compression *c, uint64_t *ret, pst_error *reterr)
{
    pst_batch *batch = NULL;
    pst_run_progress p = {.size = sizeof(p)};
    pst_status st = pst_pipeline_seek(c->training, &c->start, reterr);
    while (st == PST_OK && (st = pst_pipeline_next(c->training, &batch, reterr)) == PST_OK) {
        batch = pst_batch_unref(batch);
        p.step++;
        if (progress(c, &p))
            return pst_fail(reterr, PST_ECANCELLED, "stopped while the batches of an epoch were counted");
    }
    *ret = p.step;
    return st == PST_END ? PST_OK : st;
}

/* Sets the total number of updates of a run, for the schedules. */
static pst_status total_steps(struct compression *c, uint64_t *ret, pst_error *reterr)
{
    const pst_compress_options *o = c->options;
    pst_status st = PST_OK;
    if (!c->length)
        c->length = o->steps_per_epoch ? o->steps_per_epoch : pst_pipeline_length(c->training);
    if (c->length == PST_NOWHERE)
        st = count_batches(c, &c->length, reterr);
    *ret = (o->epochs ? o->epochs : 2) * c->length;
    return st;
}

static pst_train_options train_options(const struct compression *c, const pst_network *n, const pst_prune_options *prune, uint64_t total)
{
    const pst_compress_options *o = c->options;
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
    pst_qat_options q = {.size = sizeof(q), .samples = c->options->samples, .weight_bits = c->options->weight_bits, .fields = &c->fields};
    pst_train_options plain = *o;
    pst_trainer *from = NULL;
    plain.prune = NULL;
    pst_status st = make_trainer(n, &plain, &from, reterr);
    if (st == PST_OK)
        st = pst_trainer_prepare_qat(ret, ret_model, from, o, c->training, &q, reterr);
    pst_trainer_destroy(from);
    return st;
}

static uint64_t hash_names(uint64_t hash, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = hash_bytes(names[i], strlen(names[i]) + 1, hash);
    return hash;
}

/* Of what decides a run: the network that it begins with, the data and the options. */
static pst_status fingerprint(const struct compression *c, const pst_network *from, const pst_train_options *o, bool qat, uint64_t *ret,
                              pst_error *reterr)
{
    const pst_prune_options *p = o->prune;
    pst_position data = {0};
    pst_model_param param = {.size = sizeof(param)};
    const char *text = pst_model_text(pst_network_model(from));
    uint64_t hash = hash_bytes(text, strlen(text), qat);
    if (qat && (c->options->samples || c->options->weight_bits)) {
        uint64_t rounding[] = {c->options->samples, c->options->weight_bits};
        hash = hash_bytes(rounding, sizeof(rounding), hash);
    }
    pst_status st = pst_cursor_get(&c->start, &data, reterr);
    for (size_t i = 0; pst_model_param_at(pst_network_model(from), i, &param); i++)
        hash = hash_bytes(pst_network_values(from, i), param.count * sizeof(float), hash);
    uint64_t numbers[] = {data.fingerprint, o->batch, o->seed, (uint64_t)o->loss, o->total_steps};
    hash = hash_bytes(numbers, sizeof(numbers), hash);
    hash = hash_bytes(&o->rate, sizeof(o->rate), hash);
    if (p) {
        uint64_t kinds[] = {(uint64_t)p->schedule, p->every, p->group, p->group_keep, p->exclude_count, p->layer_count};
        hash = hash_bytes(kinds, sizeof(kinds), hash);
        hash = hash_bytes(&p->sparsity, sizeof(p->sparsity), hash);
        hash = hash_names(hash, p->exclude, p->exclude_count);
        hash = hash_names(hash, p->layers, p->layer_count);
        if (p->layer_count)
            hash = hash_bytes(p->layer_sparsity, p->layer_count * sizeof(*p->layer_sparsity), hash);
    }
    *ret = hash;
    return st;
}

static pst_status run(struct compression *c, pst_trainer *t, const char *folder, uint64_t hash, pst_error *reterr)
{
    const pst_compress_options *o = c->options;
    char *path = mem_format("%s/%s-%016" PRIx64, o->out, folder, hash), *latest = path ? file_join(path, "latest") : NULL;
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
    pst_train_options o;
    uint64_t total = 0, hash = 0;
    pst_trainer *t = NULL;
    pst_model *model = NULL; /* of a prepared trainer */
    *ret = NULL;
    if (!c->options->out)
        return pst_fail(reterr, PST_EINVAL, NEEDS_FOLDER);
    pst_status st = total_steps(c, &total, reterr);
    o = train_options(c, from, prune, total);
    if (st == PST_OK)
        st = fingerprint(c, from, &o, qat, &hash, reterr);
    if (st == PST_OK)
        st = pst_pipeline_seek(c->training, &c->start, reterr);
    if (st == PST_OK)
        st = qat && !qat_is(from->model->graph, NULL) ? make_qat(c, from, &o, &t, &model, reterr) : make_trainer(from, &o, &t, reterr);
    if (st == PST_OK)
        st = run(c, t, folder, hash, reterr);
    if (st == PST_OK && !c->stop)
        st = pst_network_of_trainer(ret, t, pst_network_record(from), reterr);
    pst_trainer_destroy(t);
    pst_model_destroy(model);
    return st;
}
