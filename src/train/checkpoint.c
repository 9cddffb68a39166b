/* checkpoint.c: the files of one checkpoint: see checkpoint.h. */
#include "train/checkpoint.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "export/onnx_import.h"
#include "export/safetensors.h"
#include "io/file.h"
#include "io/publish.h"
#include "io/publish_folder.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_STATE   ((size_t)64 << 20)
#define MAX_WEIGHTS ((size_t)1 << 40)
#define HASH_LINE   33 /* ,\n  "hash": "0123456789abcdef"\n}\n */

const char *const loss_names[] = {"auto", "sparse", "categorical", "binary", "mse", "custom", NULL};

static const char *const state_names[OPTIMIZER_STATES] = {"m", "v", "mean", "sum"};

/* ---- Arrays ---- */

/* Whether array `s` of the optimiser has values of parameter `p`: means exist of all, moments of trained ones, sums within a step. */
static bool has_state(pst_trainer *t, size_t s, size_t p, uint64_t accumulated)
{
    return optimizer_state(t->optimizer, s) && (s != 3 || accumulated) && (s == 2 || optimizer_trains(t->optimizer, p));
}

/* Weights that were pruned never come back: neither they nor the optimiser's values of them are stored. */
static struct safetensor describe(const pst_trainer *t, size_t param, const float *block, const char *name)
{
    const struct graph_param *p = &t->model->graph->params[param];
    struct safetensor x = {.name = name, .dtype = "F32", .rank = p->layer.rank, .count = p->count, .data = block + p->offset,
                           .bitmap = prune_mask(t->prune, param)};
    for (uint32_t i = 0; i < p->layer.rank; i++)
        x.shape[i] = p->layer.shape[i];
    return x;
}

static void weights_file(pst_trainer *t, struct text *to)
{
    const struct graph *g = t->model->graph;
    struct safetensor *list = mem_array(g->param_count + 1, sizeof(*list));
    to->failed |= !list;
    for (size_t i = 0; list && i < g->param_count; i++)
        list[i] = describe(t, i, t->params, g->params[i].name);
    if (list)
        safetensors_write(to, list, g->param_count);
    mem_free(list);
}

static void optimizer_file(pst_trainer *t, struct text *to)
{
    const struct graph *g = t->model->graph;
    size_t count = 0;
    struct safetensor *list = mem_array(OPTIMIZER_STATES * g->param_count + 1, sizeof(*list));
    to->failed |= !list;
    for (size_t s = 0; list && s < OPTIMIZER_STATES; s++)
        for (size_t i = 0; i < g->param_count; i++) {
            if (!has_state(t, s, i, t->accumulated))
                continue;
            char *name = mem_format("%s/%s", g->params[i].name, state_names[s]);
            to->failed |= !name;
            list[count++] = describe(t, i, optimizer_state(t->optimizer, s), name ? name : "");
            if (!name)
                count--;
        }
    if (list)
        safetensors_write(to, list, count);
    for (size_t i = 0; i < count; i++)
        mem_free((char *)(uintptr_t)list[i].name);
    mem_free(list);
}

static pst_status check_shape(const struct safetensor *x, const struct graph_param *p, pst_error *reterr)
{
    bool same = strcmp(x->dtype, "F32") == 0 && x->rank == p->layer.rank;
    for (uint32_t i = 0; same && i < x->rank; i++)
        same = x->shape[i] == p->layer.shape[i];
    return same ? PST_OK : pst_fail(reterr, PST_ETYPE, "%s has another shape or type than in the model; the checkpoint belongs to another model", p->name);
}

/* Copies arrays called NAME or NAME/SUFFIX to `block`; with `block` NULL, only checks that they are there and fit. */
static pst_status take_arrays(pst_trainer *t, const struct safetensors *from, size_t state, uint64_t accumulated, float *block,
                              pst_error *reterr)
{
    const struct graph *g = t->model->graph;
    for (size_t i = 0; i < g->param_count; i++) {
        if (state < OPTIMIZER_STATES && !has_state(t, state, i, accumulated))
            continue;
        char *name = state < OPTIMIZER_STATES ? mem_format("%s/%s", g->params[i].name, state_names[state]) : mem_strdup(g->params[i].name);
        if (!name)
            return fail_memory(reterr, "reading a checkpoint");
        const struct safetensor *x = safetensors_find(from, name);
        mem_free(name);
        if (!x)
            return pst_fail(reterr, PST_ETYPE, "the checkpoint has no %s%s%s; it belongs to another model or optimiser", g->params[i].name,
                            state < OPTIMIZER_STATES ? "/" : "", state < OPTIMIZER_STATES ? state_names[state] : "");
        pst_status st = check_shape(x, &g->params[i], reterr);
        if (st < 0)
            return st;
        if (block)
            memcpy(block + g->params[i].offset, x->data, x->count * sizeof(float));
        if (block && state == OPTIMIZER_STATES && prune_mask(t->prune, i))
            prune_set_mask(t->prune, i, x->bitmap);
    }
    return PST_OK;
}

/* ---- state.json ---- */

static void put_strings(struct json *j, const char *key, const char *const *list, size_t count)
{
    json_begin_array(j, key);
    for (size_t i = 0; i < count; i++)
        json_string(j, NULL, list[i]);
    json_end_array(j);
}

/* The bytes continue the run; the numbers are for people. */
static void put_cursor(struct json *j, const pst_cursor *c)
{
    static const char digits[] = "0123456789abcdef";
    char bytes[2 * PST_CURSOR_BYTES + 1];
    pst_position at = {0};
    for (size_t i = 0; i < c->size; i++) {
        bytes[2 * i] = digits[c->bytes[i] >> 4];
        bytes[2 * i + 1] = digits[c->bytes[i] & 15];
    }
    bytes[2 * c->size] = 0;
    (void)pst_cursor_get(c, &at, NULL);
    json_begin_object(j, "cursor");
    json_uint(j, "fingerprint", at.fingerprint);
    json_uint(j, "seed", at.seed);
    json_uint(j, "epoch", at.epoch);
    json_uint(j, "next", at.next);
    json_string(j, "bytes", bytes);
    json_end_object(j);
}

static void put_run(struct json *j, const struct run_state *s)
{
    json_begin_object(j, "run");
    json_uint(j, "epoch", s->epoch);
    json_uint(j, "epoch_step", s->epoch_step);
    json_uint(j, "samples", s->samples);
    json_uint(j, "correct", s->correct);
    json_number(j, "loss_sum", s->loss_sum);
    json_number(j, "best_loss", s->best_loss);
    json_uint(j, "best_step", s->best_step);
    json_uint(j, "wait", s->wait);
    json_uint(j, "validations", s->validations);
    json_uint(j, "validated_step", s->validated_step);
    if (s->teacher)
        json_uint(j, "teacher", s->teacher);
    json_end_object(j);
    if (s->has_cursor)
        put_cursor(j, &s->cursor);
}

static void put_record(struct json *j, const pst_run_options *o)
{
    put_strings(j, "arguments", o->arguments, o->arguments ? o->argument_count : 0);
    json_string(j, "folder", o->folder);
    json_string(j, "pipeline", o->pipeline);
    json_string(j, "validation", o->validation);
    json_string(j, "input_field", o->fields ? o->fields->input : NULL);
    json_string(j, "target_field", o->fields ? o->fields->target : NULL);
    put_strings(j, "classes", o->classes, o->classes ? o->class_count : 0);
}

static void state_file(pst_trainer *t, const struct run_state *s, const pst_run_options *o, const struct text *weights,
                       const struct text *optimizer, struct text *to)
{
    struct json j = {.put = text_put, .to = to, .indent = 2};
    pst_shape in = pst_model_input(t->model);
    json_begin_object(&j, NULL);
    json_lines(&j);
    json_uint(&j, "format", t->prune ? CHECKPOINT_FORMAT : 1);
    json_string(&j, "penstock", pst_version());
    json_uint(&j, "step", t->steps);
    json_uint(&j, "seed", t->options.seed);
    json_uint(&j, "batches_per_step", trainer_batches_per_step(t));
    json_uint(&j, "accumulated", t->accumulated);
    json_uint(&j, "accumulated_samples", t->accumulated_samples);
    json_uint(&j, "threads", t->options.threads);
    json_string(&j, "instructions", t->instructions);
    json_string(&j, "kernels", pst_trainer_kernels(t));
    json_string(&j, "model", t->model->text);
    json_begin_array(&j, "input");
    for (uint32_t i = 0; i < in.rank; i++)
        json_uint(&j, NULL, in.size[i]);
    json_end_array(&j);
    json_string(&j, "loss", loss_names[t->options.loss]);
    json_begin_object(&j, "schedule");
    json_number(&j, "factor", t->schedule.factor);
    json_number(&j, "best", t->schedule.best);
    json_uint(&j, "wait", t->schedule.wait);
    json_end_object(&j);
    json_begin_object(&j, "loss_scale");
    json_number(&j, "factor", t->scale.factor);
    json_bool(&j, "dynamic", t->options.mixed == PST_MIXED_FLOAT16);
    json_uint(&j, "finite", t->scale.finite);
    json_uint(&j, "skipped", t->scale.skipped);
    json_end_object(&j);
    if (s)
        put_run(&j, s);
    if (o)
        put_record(&j, o);
    json_format(&j, "weights_hash", "%016" PRIx64, hash_bytes(weights->data, weights->length, 0));
    json_format(&j, "optimizer_hash", "%016" PRIx64, hash_bytes(optimizer->data, optimizer->length, 0));
    json_end_object(&j);
    if (to->failed)
        return;
    to->length -= 2; /* "\n}" */
    text_addf(to, ",\n  \"hash\": \"%016" PRIx64 "\"\n}\n", hash_bytes(to->data, to->length, 0));
}

pst_status checkpoint_open_state(const char *folder, char **ret_text, struct json_document *ret, pst_error *reterr)
{
    char *path = file_join(folder, "state.json"), line[HASH_LINE + 1];
    uint8_t *bytes = NULL;
    size_t length;
    uint64_t format = 0;
    pst_status st = path ? file_read_all(&bytes, &length, path, MAX_STATE, reterr) : fail_memory(reterr, "reading a checkpoint");
    if (st == PST_OK && length > HASH_LINE)
        snprintf(line, sizeof(line), ",\n  \"hash\": \"%016" PRIx64 "\"\n}\n", hash_bytes(bytes, length - HASH_LINE, 0));
    if (st == PST_OK && (length <= HASH_LINE || memcmp(bytes + length - HASH_LINE, line, HASH_LINE) != 0))
        st = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE, "the checkpoint is damaged: its hash does not match; use an older one");
    if (st == PST_OK)
        st = json_parse(ret, (char *)bytes, length, reterr);
    if (st == PST_OK && (!json_get_uint(ret, json_find(ret, 0, "format"), &format) || format > CHECKPOINT_NETWORK)) {
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, path, PST_NOWHERE, PST_NOWHERE,
                         "checkpoint format %" PRIu64 "; this version reads up to %d: use a newer penstock", format, CHECKPOINT_NETWORK);
        json_finish(ret);
    }
    mem_free(path);
    if (st < 0)
        mem_free(bytes);
    else
        *ret_text = (char *)bytes;
    return st;
}

static void get_double(const struct json_document *d, size_t object, const char *key, double absent, double *ret)
{
    if (!json_get_number(d, json_find(d, object, key), ret))
        *ret = absent;
}

static unsigned hex_digit(char c)
{
    return c >= '0' && c <= '9' ? (unsigned)(c - '0') : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

/* The bytes; where there are none, as in earlier checkpoints, the numbers. */
static bool take_cursor(const struct json_document *d, size_t at, pst_cursor *ret)
{
    pst_position numbers;
    char *bytes = json_get_string(d, json_find(d, at, "bytes"));
    bool ok = json_get_uint(d, json_find(d, at, "fingerprint"), &numbers.fingerprint) &&
              json_get_uint(d, json_find(d, at, "seed"), &numbers.seed) && json_get_uint(d, json_find(d, at, "epoch"), &numbers.epoch) &&
              json_get_uint(d, json_find(d, at, "next"), &numbers.next);
    if (ok && !bytes)
        pst_cursor_set(ret, &numbers);
    if (bytes) {
        *ret = (pst_cursor){.size = strlen(bytes) / 2};
        ok = strlen(bytes) % 2 == 0 && ret->size <= sizeof(ret->bytes);
        for (size_t i = 0; ok && i < ret->size; i++) {
            unsigned high = hex_digit(bytes[2 * i]), low = hex_digit(bytes[2 * i + 1]);
            ok = high < 16 && low < 16;
            ret->bytes[i] = (uint8_t)(high << 4 | low);
        }
    }
    mem_free(bytes);
    return ok;
}

static bool take_run(const struct json_document *d, struct run_state *s)
{
    size_t run = json_find(d, 0, "run"), cursor = json_find(d, 0, "cursor");
    *s = (struct run_state){.best_loss = INFINITY};
    if (run == JSON_ABSENT)
        return true;
    get_double(d, run, "loss_sum", 0, &s->loss_sum);
    get_double(d, run, "best_loss", INFINITY, &s->best_loss);
    s->has_cursor = cursor != JSON_ABSENT;
    bool ok = json_get_uint(d, json_find(d, run, "epoch"), &s->epoch) && json_get_uint(d, json_find(d, run, "epoch_step"), &s->epoch_step) &&
              json_get_uint(d, json_find(d, run, "samples"), &s->samples) && json_get_uint(d, json_find(d, run, "correct"), &s->correct) &&
              json_get_uint(d, json_find(d, run, "best_step"), &s->best_step) && json_get_uint(d, json_find(d, run, "wait"), &s->wait);
    if (!json_get_uint(d, json_find(d, run, "validations"), &s->validations)) /* of an older version: one per epoch */
        s->validations = s->epoch;
    json_get_uint(d, json_find(d, run, "validated_step"), &s->validated_step);
    json_get_uint(d, json_find(d, run, "teacher"), &s->teacher);
    return ok && (!s->has_cursor || take_cursor(d, cursor, &s->cursor));
}

/* ---- Whole checkpoints ---- */

static pst_status write_files(const char *hidden, const struct text *const *files, pst_error *reterr)
{
    static const char *const names[] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < 3; i++) {
        char *path = file_join(hidden, names[i]);
        st = path ? publish_bytes(path, files[i]->data, files[i]->length, false, true, reterr) : fail_memory(reterr, "saving");
        mem_free(path);
    }
    return st;
}

pst_status checkpoint_write(pst_trainer *t, const char *folder, const struct run_state *state, const pst_run_options *options,
                            pst_error *reterr)
{
    struct text weights = {0}, optimizer = {0}, json = {0};
    char *hidden = NULL;
    weights_file(t, &weights);
    optimizer_file(t, &optimizer);
    state_file(t, state, options, &weights, &optimizer, &json);
    pst_status st = weights.failed || optimizer.failed || json.failed ? fail_memory_at(reterr, folder, "saving") : PST_OK;
    if (st == PST_OK)
        st = publish_folder_open(&hidden, folder, reterr);
    if (st == PST_OK)
        st = write_files(hidden, (const struct text *const[]){&weights, &optimizer, &json}, reterr);
    if (st == PST_OK)
        st = publish_folder_commit(hidden, folder, reterr);
    if (hidden && st < 0)
        publish_folder_remove(hidden);
    mem_free(hidden);
    text_finish(&weights);
    text_finish(&optimizer);
    text_finish(&json);
    return st;
}

pst_status checkpoint_open_arrays(const char *folder, const char *name, const struct json_document *d, const char *hash_key,
                                  uint8_t **ret_bytes, struct safetensors *ret, pst_error *reterr)
{
    char *path = file_join(folder, name), *stored = json_get_string(d, json_find(d, 0, hash_key)), found[17];
    size_t length;
    pst_status st = path ? file_read_all(ret_bytes, &length, path, MAX_WEIGHTS, reterr) : fail_memory(reterr, "reading a checkpoint");
    if (st == PST_OK) {
        snprintf(found, sizeof(found), "%016" PRIx64, hash_bytes(*ret_bytes, length, 0));
        if (!stored || strcmp(stored, found) != 0)
            st = pst_fail_at(reterr, PST_ECORRUPT, path, PST_NOWHERE, PST_NOWHERE,
                             "the checkpoint is damaged: its hash does not match; use an older one");
    }
    if (st == PST_OK)
        st = safetensors_parse(ret, path, *ret_bytes, length, reterr);
    mem_free(path);
    mem_free(stored);
    return st;
}

/* Twice: everything is checked before anything is copied. */
static pst_status take_all(pst_trainer *t, const struct safetensors *weights, const struct safetensors *optimizer, uint64_t accumulated,
                           pst_error *reterr)
{
    pst_status st = PST_OK;
    for (int copy = 0; copy < 2; copy++) {
        if (st == PST_OK)
            st = take_arrays(t, weights, OPTIMIZER_STATES, 0, copy ? t->params : NULL, reterr);
        for (size_t s = 0; st == PST_OK && s < OPTIMIZER_STATES; s++)
            st = take_arrays(t, optimizer, s, accumulated, copy ? optimizer_state(t->optimizer, s) : NULL, reterr);
    }
    return st;
}

/* What of state.json is the trainer's. */
struct progress {
    uint64_t steps, batches_per_step, accumulated, accumulated_samples;
    struct schedule_state schedule;
    struct loss_scale scale;
    struct run_state place;
};

/* A run in float32 has the factor 1; where it continues with 16 bits, the scale begins anew, and the other way round. */
static void take_scale(const pst_trainer *t, const struct json_document *d, struct loss_scale *ret)
{
    size_t at = json_find(d, 0, "loss_scale");
    *ret = t->scale;
    if (at == JSON_ABSENT)
        return;
    json_get_uint(d, json_find(d, at, "skipped"), &ret->skipped);
    double factor = 1;
    bool dynamic = false;
    get_double(d, at, "factor", 1, &factor);
    if (!json_get_bool(d, json_find(d, at, "dynamic"), &dynamic))
        dynamic = factor != 1; /* an older version */
    if (t->options.mixed == PST_MIXED_FLOAT16 && dynamic) {
        ret->factor = factor;
        json_get_uint(d, json_find(d, at, "finite"), &ret->finite);
    }
}

static pst_status read_progress(pst_trainer *t, const char *folder, const struct json_document *d, struct progress *ret, pst_error *reterr)
{
    size_t s = json_find(d, 0, "schedule");
    *ret = (struct progress){.batches_per_step = 1};
    get_double(d, s, "factor", 1, &ret->schedule.factor);
    get_double(d, s, "best", INFINITY, &ret->schedule.best);
    if (!json_get_uint(d, json_find(d, 0, "step"), &ret->steps) || !json_get_uint(d, json_find(d, s, "wait"), &ret->schedule.wait) ||
        !take_run(d, &ret->place))
        return pst_fail_at(reterr, PST_ECORRUPT, folder, PST_NOWHERE, PST_NOWHERE, "state.json lacks a part");
    json_get_uint(d, json_find(d, 0, "batches_per_step"), &ret->batches_per_step); /* older versions have none: 1 */
    json_get_uint(d, json_find(d, 0, "accumulated"), &ret->accumulated);
    json_get_uint(d, json_find(d, 0, "accumulated_samples"), &ret->accumulated_samples);
    take_scale(t, d, &ret->scale);
    if (ret->accumulated && t->ranks)
        return pst_fail_at(reterr, PST_ETYPE, folder, PST_NOWHERE, PST_NOWHERE,
                           "the checkpoint was written within a step of %" PRIu64 " batches; continue it in one process, or use an older one", ret->batches_per_step);
    if (ret->accumulated && ret->batches_per_step != t->options.accumulate)
        return pst_fail_at(reterr, PST_ETYPE, folder, PST_NOWHERE, PST_NOWHERE,
                           "the checkpoint was written within a step of %" PRIu64 " batches; this trainer's steps have %u", ret->batches_per_step,
                           t->options.accumulate);
    return PST_OK;
}

pst_status checkpoint_read(pst_trainer *t, const char *folder, struct run_state *state, pst_error *reterr)
{
    struct json_document d = {0};
    struct safetensors weights = {0}, optimizer = {0};
    uint8_t *weight_bytes = NULL, *optimizer_bytes = NULL;
    struct progress p;
    char *text = NULL;
    pst_status st = checkpoint_open_state(folder, &text, &d, reterr);
    if (st < 0)
        return st;
    if (json_find(&d, 0, "optimizer_hash") == JSON_ABSENT)
        st = pst_fail_at(reterr, PST_EUNSUPPORTED, folder, PST_NOWHERE, PST_NOWHERE,
                         "holds weights without the state of an optimiser: training cannot resume from it; it can start from its weights");
    if (st == PST_OK)
        st = read_progress(t, folder, &d, &p, reterr);
    if (st == PST_OK)
        st = checkpoint_open_arrays(folder, "weights.safetensors", &d, "weights_hash", &weight_bytes, &weights, reterr);
    if (st == PST_OK)
        st = checkpoint_open_arrays(folder, "optimizer.safetensors", &d, "optimizer_hash", &optimizer_bytes, &optimizer, reterr);
    if (st == PST_OK)
        st = take_all(t, &weights, &optimizer, p.accumulated, reterr);
    if (st == PST_OK) {
        t->steps = p.steps;
        t->schedule = p.schedule;
        t->scale = p.scale;
        t->accumulated = p.accumulated;
        t->accumulated_samples = p.accumulated_samples;
        if (state)
            *state = p.place;
    }
    safetensors_finish(&weights);
    safetensors_finish(&optimizer);
    mem_free(weight_bytes);
    mem_free(optimizer_bytes);
    json_finish(&d);
    mem_free(text);
    return st;
}

/* Fails where something other than a checkpoint or an empty folder would be replaced. */
pst_status checkpoint_replaceable(const char *path, pst_error *reterr)
{
    struct file_info info, state;
    if (file_stat(path, &info, NULL) < 0)
        return PST_OK;
    char *inside = file_join(path, "state.json");
    if (!inside)
        return fail_memory(reterr, "saving");
    bool checkpoint = info.is_folder && file_stat(inside, &state, NULL) == PST_OK;
    mem_free(inside);
    if (checkpoint || (info.is_folder && rmdir(path) == 0))
        return PST_OK;
    return pst_fail_at(reterr, PST_EEXIST, path, PST_NOWHERE, PST_NOWHERE, "exists and is not a checkpoint; choose another path");
}

pst_status pst_trainer_save(pst_trainer *t, const char *path, pst_error *reterr)
{
    pst_run_options record = {.size = sizeof(record), .classes = (const char *const *)t->classes, .class_count = t->class_count};
    pst_status st = checkpoint_replaceable(path, reterr);
    return st < 0 ? st : checkpoint_write(t, path, NULL, t->class_count ? &record : NULL, reterr);
}

pst_status pst_trainer_load(pst_trainer *t, const char *path, pst_error *reterr)
{
    if (onnx_is_file(path))
        return pst_fail_at(reterr, PST_ETYPE, path, PST_NOWHERE, PST_NOWHERE, "an ONNX file has weights, but no state of an optimiser; load its weights alone");
    char *folder = publish_follow(path);
    pst_status st = folder ? checkpoint_read(t, folder, NULL, reterr) : fail_memory_at(reterr, path, "loading");
    mem_free(folder);
    return st;
}
