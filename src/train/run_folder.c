/* run_folder.c: the folder of a run: which checkpoints it has, the links, what is kept, the record of the command. */
#include "train/checkpoint.h"

#include "base/error.h"
#include "base/memory.h"
#include "export/onnx_import.h"
#include "io/file.h"
#include "io/publish_folder.h"
#include "io/walk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PREFIX "step_"

char *checkpoint_path(const char *run, uint64_t step)
{
    return mem_format("%s/" PREFIX "%08" PRIu64, run, step);
}

/* ---- Keeping ---- */

/* The steps of a folder's name; false: it is not a checkpoint. */
static bool step_of(const char *path, uint64_t *ret)
{
    const char *name = file_base(path);
    char *end;
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0 || name[strlen(PREFIX)] < '0' || name[strlen(PREFIX)] > '9')
        return false;
    *ret = strtoull(name + strlen(PREFIX), &end, 10);
    return *end == 0;
}

static int by_step(const void *a, const void *b)
{
    uint64_t x = 0, y = 0;
    step_of(*(char *const *)a, &x);
    step_of(*(char *const *)b, &y);
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Checkpoints of a run, newest first. */
static pst_status list(struct path_list *ret, const char *run, pst_error *reterr)
{
    size_t kept = 0;
    uint64_t step;
    pst_status st = walk_folders(ret, run, reterr);
    for (size_t i = 0; i < ret->count; i++) {
        if (step_of(ret->paths[i], &step))
            ret->paths[kept++] = ret->paths[i];
        else
            mem_free(ret->paths[i]);
    }
    ret->count = kept;
    if (kept > 1)
        qsort(ret->paths, kept, sizeof(*ret->paths), by_step);
    return st;
}

/* Keeps the newest up to `newest`, which was just written, and the best. Those beyond it are left from before a resume. */
static pst_status remove_old(const char *run, const struct run_state *state, uint64_t newest, unsigned keep, pst_error *reterr)
{
    struct path_list l = {0};
    pst_status st = list(&l, run, reterr);
    for (size_t i = 0, kept = 0; st == PST_OK && i < l.count; i++) {
        uint64_t step = 0;
        step_of(l.paths[i], &step);
        bool old = step > newest || kept++ >= keep;
        if (old && step != state->best_step)
            publish_folder_remove(l.paths[i]);
    }
    path_list_finish(&l);
    return st;
}

static pst_status make_link(const char *run, const char *name, const char *folder, pst_error *reterr)
{
    char *path = file_join(run, name);
    pst_status st = path ? publish_link(path, file_base(folder), reterr) : fail_memory(reterr, "saving");
    mem_free(path);
    return st;
}

pst_status checkpoint_publish(pst_trainer *t, const struct run_state *state, const pst_run_options *o, bool best, pst_error *reterr)
{
    char *folder = checkpoint_path(o->out, t->steps);
    pst_status st = folder ? checkpoint_write(t, folder, state, o, reterr) : fail_memory(reterr, "saving");
    if (st == PST_OK)
        st = make_link(o->out, "latest", folder, reterr);
    if (st == PST_OK && best)
        st = make_link(o->out, "best", folder, reterr);
    if (st == PST_OK)
        st = remove_old(o->out, state, t->steps, o->keep ? o->keep : 2, reterr);
    mem_free(folder);
    return st;
}

/* A run that was killed between a checkpoint and its links has stale ones. Where they cannot be made, the checkpoints are still found. */
static void mend_links(const char *run, const char *newest, const struct run_state *state)
{
    struct file_info info;
    char *best = state->best_step ? checkpoint_path(run, state->best_step) : NULL;
    make_link(run, "latest", newest, NULL);
    if (best && file_stat(best, &info, NULL) == PST_OK)
        make_link(run, "best", best, NULL);
    mem_free(best);
}

pst_status checkpoint_resume(pst_trainer *t, const char *run, struct run_state *state, pst_error *reterr)
{
    struct path_list l = {0};
    pst_error first = {0};
    pst_status st = list(&l, run, reterr), got = PST_ENOTFOUND;
    for (size_t i = 0; st == PST_OK && got != PST_OK && i < l.count; i++) {
        pst_error error;
        got = checkpoint_read(t, l.paths[i], state, &error);
        if (got == PST_OK && state)
            mend_links(run, l.paths[i], state);
        if (got < 0 && got != PST_ECORRUPT && got != PST_ENOTFOUND) { /* not damage: an older one would not do either */
            st = got;
            first = error;
        } else if (got < 0 && !first.status) {
            first = error;
        }
    }
    if (st == PST_OK && got < 0 && l.count == 0)
        st = pst_fail_at(reterr, PST_ENOTFOUND, run, PST_NOWHERE, PST_NOWHERE, "has no checkpoint to resume from");
    else if (st < 0 || got < 0) {
        st = got < 0 ? got : st;
        if (first.status && reterr)
            *reterr = first;
    }
    path_list_finish(&l);
    return st;
}

/* ---- The record ---- */

static bool exists(const char *folder, const char *name)
{
    struct file_info info;
    char *path = file_join(folder, name);
    bool ret = path && file_stat(path, &info, NULL) == PST_OK;
    mem_free(path);
    return ret;
}

/* The checkpoint that the link NAME of a run leads to. */
static char *follow(const char *run, const char *name)
{
    char *path = file_join(run, name), *ret = path ? publish_follow(path) : NULL;
    mem_free(path);
    return ret;
}

static char *find_folder(const char *path, const char *which)
{
    char *end, *own = which ? NULL : publish_follow(path); /* s3://…/run/best may be named itself */
    if (!which && (!own || exists(own, "state.json")))
        return own;
    mem_free(own);
    if (!which) {
        char *best = follow(path, "best");
        if (best && exists(best, "state.json"))
            return best;
        mem_free(best);
        char *latest = follow(path, "latest"), *model = latest && !exists(latest, "state.json") ? file_join(path, "model") : NULL;
        bool compressed = model && exists(model, "state.json"); /* the folder of `penstock compress` */
        mem_free(compressed ? latest : model);
        return compressed ? model : latest;
    }
    if (strcmp(which, "best") == 0 || strcmp(which, "latest") == 0)
        return follow(path, which);
    uint64_t step = strtoull(which, &end, 10);
    return *which && !*end ? checkpoint_path(path, step) : file_join(path, which);
}

static char **get_strings(const struct json_document *d, size_t at, size_t *ret_count)
{
    *ret_count = 0;
    if (at == JSON_ABSENT || d->items[at].kind != JSON_ARRAY)
        return NULL;
    char **ret = mem_array(d->items[at].count + 1, sizeof(*ret));
    for (size_t i = 0; ret && i < d->items[at].count; i++) {
        char *s = json_get_string(d, at + 1 + i);
        if (s)
            ret[(*ret_count)++] = s;
    }
    return ret;
}

/* Whether `start`, which the record of a checkpoint names as the folder in which its run began, may be believed: the record may be a
 * stranger's, and name a folder with others' files, or a store. */
static bool is_start_of(const char *start, const char *checkpoint)
{
    char *whole = NULL;
    size_t n = start ? strlen(start) : 0;
    while (n > 0 && start[n - 1] == '/')
        n--;
    if (n == 0 || start[0] != '/' || strstr(checkpoint, "://") || file_absolute(&whole, checkpoint, NULL) < 0)
        return false;
    bool ret = strncmp(whole, start, n) == 0 && whole[n] == '/';
    mem_free(whole);
    return ret;
}

/* Puts the whole text in place of a recorded one that includes files, as runs of earlier versions do, if those are below the folder in
 * which the run began. */
static void complete(char **text, const char *folder)
{
    char *whole = NULL;
    if (!*text || !lang_may_include(*text) || pst_pipeline_expand(&whole, *text, folder, NULL) < 0)
        return;
    mem_free(*text);
    *text = whole;
}

static bool fill_record(pst_run_record *r, const struct json_document *d)
{
    uint64_t size = 0;
    size_t shape = json_find(d, 0, "input");
    char *loss = json_get_string(d, json_find(d, 0, "loss"));
    json_get_uint(d, json_find(d, 0, "step"), &r->step);
    json_get_uint(d, json_find(d, json_find(d, 0, "run"), "epoch"), &r->epoch);
    r->model = json_get_string(d, json_find(d, 0, "model"));
    r->start = json_get_string(d, json_find(d, 0, "folder"));
    r->kernels = json_get_string(d, json_find(d, 0, "kernels"));
    r->instructions = json_get_string(d, json_find(d, 0, "instructions"));
    r->threads = json_get_uint(d, json_find(d, 0, "threads"), &size) ? (unsigned)size : 0;
    r->batches_per_step = json_get_uint(d, json_find(d, 0, "batches_per_step"), &size) ? (unsigned)size : 1;
    r->pipeline = json_get_string(d, json_find(d, 0, "pipeline"));
    r->validation = json_get_string(d, json_find(d, 0, "validation"));
    if (is_start_of(r->start, r->folder)) {
        complete(&r->pipeline, r->start);
        complete(&r->validation, r->start);
    }
    r->input_field = json_get_string(d, json_find(d, 0, "input_field"));
    r->target_field = json_get_string(d, json_find(d, 0, "target_field"));
    r->arguments = get_strings(d, json_find(d, 0, "arguments"), &r->argument_count);
    r->classes = get_strings(d, json_find(d, 0, "classes"), &r->class_count);
    for (int i = 1; loss && loss_names[i]; i++)
        if (strcmp(loss_names[i], loss) == 0)
            r->loss = (pst_loss)i;
    mem_free(loss);
    if (shape == JSON_ABSENT || d->items[shape].kind != JSON_ARRAY || (d->items[shape].count != 1 && d->items[shape].count != 3))
        return false;
    r->input.rank = (uint32_t)d->items[shape].count;
    for (uint32_t i = 0; i < r->input.rank; i++) {
        if (!json_get_uint(d, shape + 1 + i, &size) || size > UINT32_MAX)
            return false;
        r->input.size[i] = (uint32_t)size;
    }
    return r->model && r->loss != PST_LOSS_AUTO;
}

/* The record of one checkpoint; takes `folder`. */
static pst_status read_record(pst_run_record **ret, char *folder, pst_error *reterr)
{
    struct json_document d = {0};
    char *text = NULL;
    pst_run_record *r = mem_zalloc(sizeof(*r));
    if (r)
        r->folder = folder;
    else
        mem_free(folder);
    pst_status st = r && r->folder ? checkpoint_open_state(r->folder, &text, &d, reterr) : fail_memory(reterr, "reading a run");
    if (st == PST_OK) {
        r->size = sizeof(*r);
        if (!fill_record(r, &d))
            st = pst_fail_at(reterr, PST_ECORRUPT, r->folder, PST_NOWHERE, PST_NOWHERE, "state.json lacks a part");
        else if (lang_may_include(r->model))
            st = pst_fail_at(reterr, PST_ECORRUPT, r->folder, PST_NOWHERE, PST_NOWHERE,
                             "the model in state.json is in another file (%.60s); a checkpoint holds the whole model", r->model);
    }
    json_finish(&d);
    mem_free(text);
    if (st < 0)
        pst_run_record_destroy(r);
    else
        *ret = r;
    return st;
}

static pst_status fill_onnx(pst_run_record *r, const struct onnx_model *m, pst_error *reterr)
{
    struct json_document d = {0};
    const struct shape *in = &m->graph->input;
    const char *ending = m->graph->nodes[m->graph->count - 1].layer->name;
    r->size = sizeof(*r);
    r->foreign = true;
    r->batches_per_step = 1;
    r->loss = strcmp(ending, "sigmoid") == 0 ? PST_LOSS_BINARY : PST_LOSS_SPARSE;
    r->input = in->rank == 1 ? (pst_shape){.rank = 1, .size = {in->c}} : (pst_shape){.rank = 3, .size = {in->h, in->w, in->c}};
    r->model = mem_strdup(m->text);
    pst_status st = m->preprocessing && m->preprocessing[0] ? pst_pipeline_expand(&r->pipeline, m->preprocessing, "", NULL) : PST_OK;
    if (!r->folder || !r->model || st == PST_ENOMEM) /* a text that includes files is left out: the file comes from elsewhere */
        return fail_memory(reterr, "reading ONNX");
    if (m->classes && json_parse(&d, m->classes, strlen(m->classes), NULL) == PST_OK) /* other programs may mean something else by it */
        r->classes = get_strings(&d, 0, &r->class_count);
    json_finish(&d);
    return PST_OK;
}

/* The record of an ONNX file: its model, and what our own export wrote as metadata. */
pst_status run_record_of_onnx(pst_run_record **ret, struct onnx_model *m, const char *path, const char *which, pst_error *reterr)
{
    if (which)
        return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE, "an ONNX file has no checkpoints; leave the checkpoint out");
    pst_run_record *r = mem_zalloc(sizeof(*r));
    pst_status st = r ? onnx_import(m, path, reterr) : fail_memory(reterr, "reading ONNX");
    if (st == PST_OK) {
        r->folder = mem_strdup(path);
        st = fill_onnx(r, m, reterr);
        if (st < 0)
            onnx_model_finish(m);
    }
    if (st < 0)
        pst_run_record_destroy(r);
    else
        *ret = r;
    return st;
}

bool pst_run_record_is(const char *model)
{
    struct file_info info;
    const char *name, *doc;
    if (strchr(model, '|') || model[0] == '@')
        return false;
    for (size_t i = 0; pst_preset_at(i, &name, &doc); i++)
        if (strcmp(name, model) == 0)
            return false;
    size_t length = strlen(model);
    bool onnx = length > 5 && strcasecmp(model + length - 5, ".onnx") == 0; /* one that is missing is an error by its name, too */
    return onnx || strstr(model, "://") || (file_stat(model, &info, NULL) == PST_OK && info.is_folder);
}

pst_status pst_run_record_read(pst_run_record **ret, const char *path, const char *which, pst_error *reterr)
{
    struct path_list l = {0};
    if (onnx_is_file(path)) {
        struct onnx_model m = {0};
        pst_status read = run_record_of_onnx(ret, &m, path, which, reterr);
        onnx_model_finish(&m);
        return read;
    }
    struct file_info info;
    if (!strstr(path, "://")) {
        pst_status found = file_stat(path, &info, NULL);
        if (found == PST_ENOTFOUND)
            return pst_fail_at(reterr, PST_ENOTFOUND, path, PST_NOWHERE, PST_NOWHERE, "no such run, checkpoint or file");
        if (found == PST_OK && !info.is_folder)
            return pst_fail_at(reterr, PST_EINVAL, path, PST_NOWHERE, PST_NOWHERE,
                               "is a file that does not end with .onnx; a model is the folder of a run or of a compressed model, or an ONNX file");
    }
    pst_status st = read_record(ret, find_folder(path, which), reterr);
    bool lost = st == PST_ENOTFOUND || st == PST_ECORRUPT;
    /* A run that was killed before its first link was made, or whose newest checkpoint is damaged, has others. */
    if (!lost || (which && strcmp(which, "latest") != 0) || list(&l, path, NULL) < 0)
        return st;
    for (size_t i = 0; st < 0 && i < l.count; i++)
        st = read_record(ret, mem_strdup(l.paths[i]), i ? NULL : reterr);
    path_list_finish(&l);
    return st;
}

pst_run_record *pst_run_record_destroy(pst_run_record *r)
{
    if (!r)
        return NULL;
    for (size_t i = 0; i < r->argument_count; i++)
        mem_free(r->arguments[i]);
    for (size_t i = 0; i < r->class_count; i++)
        mem_free(r->classes[i]);
    mem_free(r->arguments);
    mem_free(r->classes);
    mem_free(r->folder);
    mem_free(r->start);
    mem_free(r->instructions);
    mem_free(r->kernels);
    mem_free(r->model);
    mem_free(r->pipeline);
    mem_free(r->validation);
    mem_free(r->input_field);
    mem_free(r->target_field);
    mem_free(r);
    return NULL;
}
