/* teacher.c: a trained model that a run learns from: its logits, computed once where inputs do not change from epoch to epoch, and its
 * values between layers. A sample's logits do not depend on its batch, so that those of the file are the same bits. */
#include "train/teacher.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/file.h"
#include "io/npy.h"
#include "model/model.h"
#include "model/step.h"
#include "model/tap.h"
#include "train/teacher_logits.h"
#include "train/trainer.h"
#include "train/weights.h"

#include <inttypes.h>
#include <penstock/predict.h>
#include <stdio.h>
#include <string.h>

#define MAX_NPY ((size_t)1 << 36)

struct pst_teacher {
    pst_teacher_options options; /* `features` is not kept */
    char *path, *cache;
    uint64_t hash;
    size_t width, batch;
    pst_predictor *predictor; /* NULL: rows of a file, or a step */
    /* Of a file: rows in the order of the source. */
    float *file_rows;
    uint64_t file_count;
    struct logit_table table; /* by place; empty: every batch is computed */
    bool from_table;          /* nothing else has logits */
    /* Of features: a model whose values are handed out. */
    pst_model *model;
    float *params;
    struct graph *tapped;
    struct tap *taps;
    struct step *step;
    float *logits;          /* batch × width */
    const float **features; /* one per tap */
};

pst_teacher *pst_teacher_destroy(pst_teacher *t)
{
    if (!t)
        return NULL;
    step_destroy(t->step);
    for (size_t i = 0; t->taps && i < t->options.feature_count; i++)
        mem_free(t->taps[i].copy);
    graph_destroy(t->tapped);
    mem_free(t->taps);
    mem_free(t->params);
    pst_model_destroy(t->model);
    pst_predictor_destroy(t->predictor);
    logit_finish(&t->table);
    mem_free(t->file_rows);
    mem_free(t->logits);
    mem_free(t->features);
    mem_free(t->path);
    mem_free(t->cache);
    mem_free(t);
    return NULL;
}

uint64_t teacher_hash(const pst_teacher *t)
{
    return t->hash ? t->hash : 1;
}

pst_shape pst_teacher_feature(const pst_teacher *t, size_t i)
{
    return t->taps && i < t->options.feature_count ? shape_public(&t->taps[i].shape) : (pst_shape){0};
}

/* ---- Opening ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Rows of float32 or float64. */
static pst_status open_npy(pst_teacher *t, pst_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t length = 0;
    struct npy_header h;
    pst_status st = file_read_all(&bytes, &length, t->path, MAX_NPY, reterr);
    if (st == PST_OK)
        st = npy_parse(&h, bytes, length < 65536 ? length : 65536, length, t->path, reterr);
    if (st == PST_OK && (h.kind != 'f' || (h.width != 4 && h.width != 8) || h.swapped || h.fortran || h.rank != 2 || h.shape[1] == 0))
        st = pst_fail_at(reterr, PST_ETYPE, t->path, PST_NOWHERE, PST_NOWHERE, "expected logits as samples × results of float32 or float64 in C order");
    if (st == PST_OK) {
        t->file_rows = mem_large((h.elements ? h.elements : 1) * sizeof(float));
        st = t->file_rows ? PST_OK : fail_memory(reterr, "reading the teacher's logits");
    }
    for (uint64_t i = 0; st == PST_OK && i < h.elements; i++) {
        double wide;
        float narrow;
        memcpy(&wide, bytes + h.data_offset + i * h.width, h.width == 8 ? 8 : 0);
        memcpy(&narrow, bytes + h.data_offset + i * h.width, h.width == 4 ? 4 : 0);
        t->file_rows[i] = h.width == 8 ? (float)wide : narrow;
    }
    if (st == PST_OK) {
        t->file_count = h.shape[0];
        t->width = h.shape[1];
        t->hash = hash_bytes(bytes, length, 1);
        t->from_table = true;
    }
    mem_free(bytes);
    return st;
}

/* A model whose weights are here: its hash, and, for features, its parameters. */
static pst_status open_model(pst_teacher *t, bool features, pst_error *reterr)
{
    pst_run_record *record = NULL;
    size_t loaded;
    pst_status st = pst_run_record_read(&record, t->path, t->options.checkpoint, reterr);
    if (st == PST_OK)
        st = pst_model_parse(&t->model, record->model, &record->input, reterr);
    if (st == PST_OK) {
        size_t bytes = (t->model->graph->values + 16) * sizeof(float);
        t->params = mem_large(bytes);
        st = t->params ? PST_OK : fail_memory(reterr, "opening the teacher");
        if (st == PST_OK)
            memset(t->params, 0, bytes);
    }
    if (st == PST_OK)
        st = weights_of_checkpoint(record, t->model->graph, false, t->params, &loaded, reterr);
    if (st == PST_OK) {
        t->hash = hash_bytes(t->params, t->model->graph->values * sizeof(float), 0);
        t->hash = hash_combine(t->hash, hash_bytes(t->model->text, strlen(t->model->text), 0));
        st = weights_hash_quantised(record, &t->hash, reterr);
    }
    pst_run_record_destroy(record);
    if (st == PST_OK && !features) {
        mem_free(t->params);
        t->params = NULL;
        t->model = pst_model_destroy(t->model);
    }
    return st;
}

/* An ONNX file: its weights, and the file itself, which may compute in integers. */
static pst_status hash_file(pst_teacher *t, pst_error *reterr)
{
    uint8_t *bytes = NULL;
    size_t length = 0;
    pst_status st = open_model(t, false, reterr); /* weights may lie in other files */
    if (st == PST_OK)
        st = file_read_all(&bytes, &length, t->path, MAX_NPY, reterr);
    if (st == PST_OK)
        t->hash = hash_combine(t->hash, hash_bytes(bytes, length, 2));
    mem_free(bytes);
    return st;
}

static pst_status open_predictor(pst_teacher *t, pst_error *reterr)
{
    struct file_info info;
    pst_predict_options o = {.size = sizeof(o), .threads = t->options.threads, .output = PST_OUTPUT_LOGITS, .checkpoint = t->options.checkpoint};
    pst_status st = file_stat(t->path, &info, reterr);
    if (st == PST_OK)
        st = info.is_folder ? open_model(t, false, reterr) : hash_file(t, reterr);
    if (st == PST_OK)
        st = pst_predictor_open(&t->predictor, t->path, &o, reterr);
    if (st == PST_OK) {
        pst_shape out = pst_predictor_output(t->predictor);
        t->width = out.rank == 1 ? out.size[0] : (size_t)out.size[0] * out.size[1] * out.size[2];
    }
    return st;
}

static pst_status open_features(pst_teacher *t, const pst_teacher_options *o, pst_error *reterr)
{
    pst_status st = open_model(t, true, reterr);
    if (st == PST_OK)
        st = graph_tap(&t->tapped, &t->taps, t->model->graph, o->features, o->feature_count, reterr);
    t->features = mem_array(o->feature_count, sizeof(*t->features));
    if (st == PST_OK && !t->features)
        st = fail_memory(reterr, "opening the teacher");
    if (st == PST_OK)
        t->width = shape_values(graph_shape(t->tapped, t->tapped->count));
    return st;
}

pst_status pst_teacher_open(pst_teacher **ret, const char *path, const pst_teacher_options *options, pst_error *reterr)
{
    pst_teacher_options given = {0};
    pst_status st = options_take(&given, sizeof(given), options, reterr);
    if (st < 0)
        return st;
    options = &given;
    pst_teacher *t = mem_zalloc(sizeof(*t));
    if (!t)
        return fail_memory(reterr, "opening the teacher");
    t->options = given;
    t->options.features = NULL; /* the caller's */
    t->path = mem_strdup(path);
    t->cache = options->cache ? mem_strdup(options->cache) : NULL;
    st = t->path && (t->cache || !options->cache) ? PST_OK : fail_memory(reterr, "opening the teacher");
    bool npy = st == PST_OK && ends_with(path, ".npy");
    if (npy && options->feature_count)
        st = pst_fail(reterr, PST_EINVAL, "%.80s has logits only; values of layers need a teacher that is a model", path);
    if (st == PST_OK)
        st = npy ? open_npy(t, reterr) : options->feature_count ? open_features(t, options, reterr) : open_predictor(t, reterr);
    t->table.width = t->width;
    if (st < 0)
        pst_teacher_destroy(t);
    else
        *ret = t;
    return st;
}

/* ---- Whether inputs are the same in every epoch ---- */

/* Whether what the operations of this list compute for a sample is the same in every epoch. `paired`: the sample is not of one element alone, so
 * that another order makes other samples. An operation that is not in the library, such as a function of the program, may do anything. */
static bool is_fixed(const struct json_document *d, size_t list, bool paired)
{
    for (size_t i = list + 1; i < d->items[list].next; i = d->items[i].next) {
        char *name = json_get_string(d, json_find(d, i, "name"));
        const pst_op_class *op = name ? pst_op_find(name) : NULL;
        size_t branches = json_find(d, i, "branches");
        bool fixed = op && !(op->flags & PST_OP_RANDOM) && !(paired && pst_op_kind_of(op) == PST_OP_ORDER);
        bool pairs = paired || (name && strcmp(name, "zip") == 0);
        mem_free(name);
        for (size_t b = branches + 1; fixed && branches != JSON_ABSENT && b < d->items[branches].next; b = d->items[b].next)
            fixed = is_fixed(d, b, pairs);
        if (!fixed)
            return false;
    }
    return true;
}

/* Looks at the operations: whether inputs are the same in every epoch, and the text of the source (mem_free). Either may be NULL. */
static pst_status look_at(pst_pipeline *p, bool *ret_fixed, char **ret_source, pst_error *reterr)
{
    char *text = NULL;
    struct json_document d = {0};
    pst_status st = pst_pipeline_describe(p, true, &text, reterr);
    if (st == PST_OK)
        st = json_parse(&d, text, strlen(text), reterr);
    size_t list = st == PST_OK ? json_find(&d, 0, "operations") : JSON_ABSENT;
    if (st == PST_OK && ret_fixed)
        *ret_fixed = list != JSON_ABSENT && is_fixed(&d, list, false);
    if (st == PST_OK && ret_source && list != JSON_ABSENT)
        *ret_source = json_get_string(&d, json_find(&d, list + 1, "text"));
    json_finish(&d);
    pst_free(text);
    return st;
}

/* ---- Tables ---- */

static pst_status key_of(pst_pipeline *p, const pst_batch *batch, size_t i, uint64_t *ret, pst_error *reterr)
{
    pst_place place = {0};
    pst_status st = pst_pipeline_locate(p, batch, i, &place, reterr);
    if (st == PST_OK)
        *ret = logit_key(&place);
    return st;
}

/* Rows of a file: the keys of the source's elements, in its order. */
static pst_status place_rows(pst_teacher *t, pst_pipeline *p, pst_error *reterr)
{
    char *first = NULL, *text = NULL;
    pst_pipeline *source = NULL;
    pst_batch *batch = NULL;
    uint64_t row = 0, key;
    pst_status st = look_at(p, NULL, &first, reterr);
    if (st == PST_OK && first)
        text = mem_format("%s | batch 1024", first);
    if (st == PST_OK)
        st = text ? pst_pipeline_parse(&source, text, &(pst_pipeline_options){.size = sizeof(pst_pipeline_options)}, reterr)
                  : fail_memory(reterr, "looking at the pipeline");
    while (st == PST_OK && (st = pst_pipeline_next(source, &batch, reterr)) == PST_OK) {
        for (size_t i = 0; st == PST_OK && i < pst_batch_size(batch); i++, row++) {
            st = key_of(source, batch, i, &key, reterr);
            if (st == PST_OK && row < t->file_count)
                st = logit_add(&t->table, key, t->file_rows + row * t->width, reterr);
        }
        batch = pst_batch_unref(batch);
    }
    st = st == PST_END ? PST_OK : st;
    if (st == PST_OK && row != t->file_count)
        st = pst_fail_at(reterr, PST_EINVAL, t->path, PST_NOWHERE, PST_NOWHERE, "%" PRIu64 " rows for %" PRIu64 " elements of the source", t->file_count, row);
    logit_sort(&t->table);
    pst_pipeline_destroy(source);
    mem_free(first);
    mem_free(text);
    return st;
}

static pst_status compute(pst_teacher *t, const pst_tensor *input, pst_error *reterr)
{
    if (input->rank < 1 || input->shape[0] > t->batch)
        return pst_fail(reterr, PST_EINVAL, "%" PRIu64 " samples; the teacher was made for %zu", input->rank ? input->shape[0] : 0, t->batch);
    return pst_predictor_run(t->predictor, input, t->logits, reterr);
}

/* One pass over the pipeline. */
static pst_status fill_table(pst_teacher *t, pst_pipeline *p, const char *field, pst_error *reterr)
{
    pst_batch *batch = NULL;
    uint64_t done = 0, total = pst_pipeline_length(p), key;
    pst_status st = PST_OK;
    while (st == PST_OK && (st = pst_pipeline_next(p, &batch, reterr)) == PST_OK) {
        const pst_tensor *input = pst_batch_get(batch, field);
        if (pst_batch_size(batch))
            st = input ? compute(t, input, reterr) : pst_fail(reterr, PST_EINVAL, "a batch lacks the field %s", field);
        for (size_t i = 0; st == PST_OK && i < pst_batch_size(batch); i++) {
            st = key_of(p, batch, i, &key, reterr);
            if (st == PST_OK)
                st = logit_add(&t->table, key, t->logits + i * t->width, reterr);
        }
        batch = pst_batch_unref(batch);
        if (st == PST_OK && t->options.progress && t->options.progress(t->options.user, ++done, total))
            st = pst_fail(reterr, PST_ECANCELLED, "stopped while the teacher's logits were computed");
    }
    logit_sort(&t->table);
    return st == PST_END ? PST_OK : st;
}

/* Beside the shards, or in the folder for caches. mem_free; NULL: nowhere. */
static char *table_path(const pst_teacher *t, const char *data, uint64_t fingerprint)
{
    const char *slash = data ? strrchr(data, '/') : NULL;
    bool shards = data && strstr(slash ? slash : data, ".tfrecord") && !strstr(data, "://");
    if (shards)
        return mem_format("%.*s.teacher-%016" PRIx64 ".logits", slash ? (int)(slash + 1 - data) : 0, data, fingerprint);
    return t->cache ? mem_format("%s/teacher-%016" PRIx64 ".logits", t->cache, fingerprint) : NULL;
}

/* The first sample of the first batch: its path (mem_free) and its key; no path if it has none. */
static pst_status first_sample(pst_pipeline *p, char **ret_path, uint64_t *ret_key, pst_error *reterr)
{
    pst_batch *batch = NULL;
    pst_place place = {0};
    pst_status st = pst_pipeline_next(p, &batch, reterr);
    if (st == PST_OK && pst_batch_size(batch) && pst_pipeline_locate(p, batch, 0, &place, reterr) == PST_OK && place.path) {
        *ret_path = mem_strdup(place.path);
        *ret_key = logit_key(&place);
    }
    pst_batch_unref(batch);
    return st == PST_END ? PST_OK : st;
}

/* Every rank gets the rows of all: a stored table is that of all data, and any number of ranks may read it. */
static pst_status share_table(pst_teacher *t, pst_comm *comm, pst_error *reterr)
{
    size_t ranks = pst_comm_size(comm), row = t->width * sizeof(float), each = sizeof(uint64_t) + row;
    uint64_t count = t->table.count, most = 0, *counts = mem_array(ranks, sizeof(*counts));
    uint8_t *mine = NULL, *all = NULL;
    pst_status st = counts ? pst_comm_gather(comm, &count, sizeof(count), counts, reterr) : fail_memory(reterr, "gathering logits");
    for (size_t r = 0; st == PST_OK && r < ranks; r++)
        most = counts[r] > most ? counts[r] : most;
    if (st == PST_OK && most) {
        mine = mem_large(most * each);
        all = mem_large(ranks * most * each);
        st = mine && all ? PST_OK : fail_memory(reterr, "gathering logits");
    }
    for (size_t i = 0; st == PST_OK && i < most; i++) {
        const struct logit_entry *e = i < count ? &t->table.entries[i] : NULL;
        memcpy(mine + i * each, e ? &e->key : &(uint64_t){0}, sizeof(uint64_t));
        if (e)
            memcpy(mine + i * each + sizeof(uint64_t), t->table.rows + e->row * t->width, row);
        else
            memset(mine + i * each + sizeof(uint64_t), 0, row);
    }
    if (st == PST_OK && most)
        st = pst_comm_gather(comm, mine, most * each, all, reterr);
    for (size_t r = 0; st == PST_OK && r < ranks; r++)
        for (size_t i = 0; st == PST_OK && r != pst_comm_rank(comm) && i < counts[r]; i++) {
            const uint8_t *from = all + (r * most + i) * each;
            uint64_t key;
            memcpy(&key, from, sizeof(key));
            st = logit_add(&t->table, key, (const float *)(const void *)(from + sizeof(key)), reterr);
        }
    logit_sort(&t->table);
    mem_free(counts);
    mem_free(mine);
    mem_free(all);
    return st;
}

/* The path of rank 0's first sample on every rank: all look for the table in one place. */
static pst_status share_path(pst_comm *comm, char **path, pst_error *reterr)
{
    char shared[4096] = "";
    if (*path && strlen(*path) < sizeof(shared))
        memcpy(shared, *path, strlen(*path));
    pst_status st = pst_comm_broadcast(comm, shared, sizeof(shared), 0, reterr);
    mem_free(*path);
    *path = st == PST_OK && shared[0] ? mem_strdup(shared) : NULL;
    return st;
}

/* Whether every rank has it. */
static pst_status all_have(pst_comm *comm, bool *have, pst_error *reterr)
{
    size_t ranks = pst_comm_size(comm);
    uint8_t mine = *have, *all = mem_array(ranks, 1);
    pst_status st = all ? pst_comm_gather(comm, &mine, 1, all, reterr) : fail_memory(reterr, "gathering logits");
    for (size_t r = 0; st == PST_OK && r < ranks; r++)
        *have &= all[r];
    mem_free(all);
    return st;
}

/* One rank of each machine: what it writes is whole at every moment, and the same on all. */
static bool is_writer(const pst_comm *comm)
{
    pst_rank_info me = {.size = sizeof(me)};
    return !comm || (pst_comm_info(comm, pst_comm_rank(comm), &me) && me.local == 0);
}

static pst_status make_table(pst_teacher *t, pst_pipeline *p, const char *field, pst_comm *comm, pst_error *reterr)
{
    logit_finish(&t->table);
    pst_status st = fill_table(t, p, field, reterr);
    return st == PST_OK && comm ? share_table(t, comm, reterr) : st;
}

static pst_status prepare_table(pst_teacher *t, pst_pipeline *p, const pst_fields *fields, pst_comm *comm, pst_error *reterr)
{
    pst_cursor begin;
    pst_position at = {0};
    char *data = NULL, *path = NULL;
    uint64_t key = 0;
    pst_error ignored;
    pst_status st = pst_pipeline_tell(p, &begin, reterr);
    if (st == PST_OK)
        st = pst_cursor_get(&begin, &at, reterr);
    uint64_t fingerprint = hash_combine(hash_combine(at.fingerprint, teacher_hash(t)), hash_bytes(fields->input, strlen(fields->input), cpu_features()));
    if (st == PST_OK)
        st = first_sample(p, &data, &key, reterr);
    bool placed = data;
    if (st == PST_OK && comm)
        st = share_path(comm, &data, reterr);
    if (st == PST_OK)
        path = table_path(t, data, fingerprint);
    bool have = st == PST_OK && path && logit_load(&t->table, path, fingerprint, &ignored) == PST_OK;
    have &= !placed || logit_find(&t->table, key); /* keys hold paths: the table of data that were moved since has none of these samples */
    if (st == PST_OK && comm)
        st = all_have(comm, &have, reterr);
    if (st == PST_OK && !have) {
        st = pst_pipeline_seek(p, &begin, reterr);
        if (st == PST_OK)
            st = make_table(t, p, fields->input, comm, reterr);
        if (st == PST_OK && path && is_writer(comm))
            (void)logit_save(&t->table, path, fingerprint, &ignored); /* a folder that cannot be written to: they stay in memory */
    }
    if (st == PST_OK)
        st = pst_pipeline_seek(p, &begin, reterr);
    mem_free(data);
    mem_free(path);
    return st;
}

/* ---- Of a run ---- */

static pst_status check_shapes(const pst_teacher *t, const pst_fields *fields, size_t width, pst_error *reterr)
{
    pst_shape in = t->predictor ? pst_predictor_input(t->predictor) : t->model ? pst_model_input(t->model) : fields->shape;
    if (t->width != width)
        return pst_fail(reterr, PST_ETYPE, "the teacher has %zu results, the model %zu", t->width, width);
    if (memcmp(&in, &fields->shape, sizeof(in)) != 0)
        return pst_fail(reterr, PST_ETYPE, "the teacher takes samples of %ux%ux%u, the pipeline delivers %ux%ux%u", in.size[0], in.size[1], in.size[2],
                        fields->shape.size[0], fields->shape.size[1], fields->shape.size[2]);
    return PST_OK;
}

static pst_status prepare_step(pst_teacher *t, pst_error *reterr)
{
    struct step_options o = {.batch = t->batch, .threads = t->options.threads ? t->options.threads : cpu_cores(), .logits = true, .features = cpu_features()};
    if (t->step)
        return PST_OK;
    for (size_t i = 0; i < t->options.feature_count; i++) {
        t->taps[i].copy = mem_large(t->batch * shape_values(&t->taps[i].shape) * sizeof(float));
        t->features[i] = t->taps[i].copy;
        if (!t->taps[i].copy)
            return fail_memory(reterr, "opening the teacher");
    }
    return step_create(&t->step, t->tapped, &o, reterr);
}

/* The teacher's results are logits, and a mean squared error takes the student's results as they are. */
static pst_status check_results(const pst_trainer *student, pst_error *reterr)
{
    const char *ending = model_ending(student->model);
    if (student->options.loss != PST_LOSS_MSE || (strcmp(ending, "softmax") != 0 && strcmp(ending, "sigmoid") != 0))
        return PST_OK;
    return pst_fail(reterr, PST_EINVAL, "the teacher has logits, and with the loss mse the model is compared with them after its %s: remove %s from the model, "
                                        "or choose another loss", ending, ending);
}

pst_status teacher_prepare(pst_teacher *t, pst_pipeline *p, const pst_fields *fields, const pst_trainer *student, pst_error *reterr)
{
    bool fixed = true;
    pst_comm *comm = student->options.comm && pst_comm_size(student->options.comm) > 1 ? student->options.comm : NULL;
    pst_status st = check_shapes(t, fields, student->width, reterr);
    if (st == PST_OK)
        st = check_results(student, reterr);
    if (st < 0)
        return st;
    logit_finish(&t->table); /* that of an earlier run */
    if (!t->logits) {
        t->batch = fields->batch;
        t->logits = mem_array(t->batch, t->width * sizeof(float));
        if (!t->logits)
            return fail_memory(reterr, "opening the teacher");
    }
    if (t->from_table)
        return place_rows(t, p, reterr);
    if (t->tapped)
        return prepare_step(t, reterr);
    if (t->options.no_cache || pst_pipeline_length(p) == PST_NOWHERE)
        return PST_OK;
    st = look_at(p, &fixed, NULL, reterr);
    return st == PST_OK && fixed ? prepare_table(t, p, fields, comm, reterr) : st;
}

/* Rows from the table. PST_ENOTFOUND: it lacks one. */
static pst_status look_up(pst_teacher *t, pst_pipeline *p, const pst_batch *batch, pst_error *reterr)
{
    uint64_t key;
    for (size_t i = 0; i < pst_batch_size(batch); i++) {
        pst_status st = key_of(p, batch, i, &key, reterr);
        const float *row = st == PST_OK ? logit_find(&t->table, key) : NULL;
        if (st < 0)
            return st;
        if (!row)
            return pst_fail(reterr, PST_ENOTFOUND, "sample %zu of the batch has no row of logits in %.100s", i, t->path);
        memcpy(t->logits + i * t->width, row, t->width * sizeof(float));
    }
    return PST_OK;
}

pst_status teacher_batch(pst_teacher *t, pst_pipeline *p, const pst_batch *batch, pst_samples *samples, pst_error *reterr)
{
    const void *out = NULL;
    pst_status st = PST_ENOTFOUND;
    size_t n = pst_batch_size(batch);
    samples->teacher = t->logits;
    if (n > t->batch)
        return pst_fail(reterr, PST_EINVAL, "%zu samples; the teacher was made for %zu", n, t->batch);
    if (t->step) {
        st = step_forward(t->step, samples->input->data, samples->input->dtype, n, t->params, false, &out, reterr);
        if (st == PST_OK)
            memcpy(t->logits, out, n * t->width * sizeof(float));
        samples->features = t->features;
        return st;
    }
    if (t->table.count || t->from_table)
        st = look_up(t, p, batch, reterr);
    return st == PST_ENOTFOUND && !t->from_table ? compute(t, samples->input, reterr) : st;
}
