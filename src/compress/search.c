/* search.c: a share of zeros for each layer. First each layer alone loses some of its weights, and the accuracy is measured without
 * training; then zeros go where they cost the least, until enough of all weights are zero.
 *
 * Every measurement is kept in OUT/search.json as soon as it is there: an interrupted search repeats none. */
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "compress/compress.h"
#include "io/file.h"
#include "io/publish.h"
#include "network/network.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 4
static const double levels[LEVELS] = {0.5, 0.7, 0.85, 0.95};

struct layer {
    size_t param;
    size_t count;
    double loss[LEVELS]; /* rise of the validation loss at each level; NaN: not measured */
    int level;           /* chosen; −1: none */
};

struct search {
    struct compression *compression;
    const pst_network *network;
    struct layer *layers;
    size_t count;
    uint64_t fingerprint; /* of the weights that were measured */
    char *path;           /* of the file; NULL: none */
    double base;          /* loss without zeros; NaN: not measured */
    double seconds;       /* of the budget that are used, also by earlier calls */
};

static const struct graph *graph_of(const struct search *s)
{
    return s->network->model->graph;
}

/* ---- The file ---- */

static pst_status save(const struct search *s, pst_error *reterr)
{
    struct text text = {0};
    struct json j = {.put = text_put, .to = &text, .indent = 2};
    json_begin_object(&j, NULL);
    json_format(&j, "weights", "%016" PRIx64, s->fingerprint);
    json_number(&j, "loss", s->base);
    json_number(&j, "seconds", s->seconds);
    json_begin_object(&j, "layers");
    for (size_t i = 0; i < s->count; i++) {
        json_begin_array(&j, graph_of(s)->params[s->layers[i].param].name);
        for (size_t k = 0; k < LEVELS && !isnan(s->layers[i].loss[k]); k++)
            json_number(&j, NULL, s->layers[i].loss[k]);
        json_end_array(&j);
    }
    json_end_object(&j);
    json_end_object(&j);
    pst_status st = text.failed ? fail_memory(reterr, "searching") : publish_bytes(s->path, text.data, text.length, true, false, reterr);
    text_finish(&text);
    return st;
}

/* Takes what an earlier search has measured with the same weights; anything else in the file is measured again. */
static void load(struct search *s)
{
    struct json_document d = {0};
    uint8_t *bytes = NULL;
    size_t length = 0;
    char want[17];
    snprintf(want, sizeof(want), "%016" PRIx64, s->fingerprint);
    if (file_read_all(&bytes, &length, s->path, (size_t)64 << 20, NULL) < 0)
        return;
    if (json_parse(&d, (char *)bytes, length, NULL) == PST_OK) {
        char *found = json_get_string(&d, json_find(&d, 0, "weights"));
        size_t all = json_find(&d, 0, "layers");
        if (found && strcmp(found, want) == 0 && all != JSON_ABSENT && json_get_number(&d, json_find(&d, 0, "loss"), &s->base)) {
            if (!json_get_number(&d, json_find(&d, 0, "seconds"), &s->seconds))
                s->seconds = 0;
            for (size_t i = 0; i < s->count; i++) {
                size_t at = json_find(&d, all, graph_of(s)->params[s->layers[i].param].name);
                if (at != JSON_ABSENT && d.items[at].kind == JSON_ARRAY)
                    for (size_t k = 0; k < LEVELS && k < d.items[at].count; k++)
                        if (!json_get_number(&d, at + 1 + k, &s->layers[i].loss[k]))
                            s->layers[i].loss[k] = NAN;
            }
        }
        mem_free(found);
    }
    json_finish(&d);
    mem_free(bytes);
}

/* ---- Measuring ---- */

static int by_magnitude(const void *a, const void *b)
{
    float x = fabsf(*(const float *)a), y = fabsf(*(const float *)b);
    return x < y ? -1 : x > y;
}

/* The loss on the validation data when `share` of one layer's smallest weights are zero; `layer` NULL: none. */
static pst_status measure(struct search *s, const struct layer *layer, double share, double *ret, pst_error *reterr)
{
    const struct graph *g = graph_of(s);
    const float **values = mem_array(g->param_count + 1, sizeof(*values));
    float *copy = layer ? mem_array(layer->count + 1, sizeof(*copy)) : NULL, *sorted = layer ? mem_array(layer->count + 1, sizeof(*sorted)) : NULL;
    pst_network *n = NULL;
    pst_evaluation e = {.size = sizeof(e)};
    pst_shape input = pst_model_input(s->network->model);
    pst_status st = values && (!layer || (copy && sorted)) ? PST_OK : fail_memory(reterr, "searching");
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++)
        values[i] = pst_network_values(s->network, i);
    if (st == PST_OK && layer) {
        memcpy(copy, values[layer->param], layer->count * sizeof(*copy));
        memcpy(sorted, copy, layer->count * sizeof(*copy));
        qsort(sorted, layer->count, sizeof(*sorted), by_magnitude);
        float limit = fabsf(sorted[(size_t)(share * (double)(layer->count - 1))]);
        for (size_t i = 0; i < layer->count; i++)
            copy[i] = fabsf(copy[i]) <= limit ? 0 : copy[i];
        values[layer->param] = copy;
    }
    if (st == PST_OK)
        st = pst_network_create(&n, pst_model_text(s->network->model), &input, values, s->network->record, reterr);
    if (st == PST_OK)
        st = pst_network_evaluate(n, s->compression->validation, &s->compression->validation_fields, s->compression->options->threads, &e, reterr);
    if (st == PST_OK)
        *ret = e.loss;
    pst_free(e.confusion);
    pst_network_destroy(n);
    mem_free(values);
    mem_free(copy);
    mem_free(sorted);
    return st;
}

static bool stopped(struct search *s, size_t done, size_t all)
{
    struct compression *c = s->compression;
    pst_run_progress p = {.step = done, .epoch_steps = all};
    if (c->options->progress && c->options->progress(c->options->user, "how sensitive layers are", &p, NULL))
        c->stop = true;
    return c->stop;
}

/* All layers at one level, then at the next: an interrupted budget leaves every layer with its first ones. */
static pst_status measure_layers(struct search *s, pst_error *reterr)
{
    double budget = s->compression->options->budget > 0 ? s->compression->options->budget : 300;
    uint64_t last = clock_ns();
    size_t done = 0;
    pst_status st = isnan(s->base) ? measure(s, NULL, 0, &s->base, reterr) : PST_OK;
    for (size_t k = 0; st == PST_OK && k < LEVELS; k++)
        for (size_t i = 0; st == PST_OK && i < s->count; i++, done++) {
            double *to = &s->layers[i].loss[k], loss = 0;
            if (!isnan(*to))
                continue;
            if (stopped(s, done, LEVELS * s->count) || (k > 0 && s->seconds > budget))
                return PST_OK;
            st = measure(s, &s->layers[i], levels[k], &loss, reterr);
            if (st == PST_OK) {
                uint64_t now = clock_ns();
                s->seconds += 1e-9 * (double)(now - last);
                last = now;
                *to = loss - s->base;
                st = s->path ? save(s, reterr) : PST_OK;
            }
        }
    return st;
}

/* ---- Distributing ---- */

static double share_of(const struct layer *l)
{
    return l->level < 0 ? 0 : levels[l->level];
}

/* Raises the level of the layer whose next zeros cost the least loss per weight, until enough weights are zero. */
static void distribute(struct search *s, double wanted)
{
    double all = 0, zeros = 0;
    for (size_t i = 0; i < s->count; i++)
        all += (double)s->layers[i].count;
    while (zeros < wanted * all) {
        struct layer *best = NULL;
        double least = INFINITY, gained = 0;
        for (size_t i = 0; i < s->count; i++) {
            struct layer *l = &s->layers[i];
            int next = l->level + 1;
            if (next >= LEVELS || isnan(l->loss[next]))
                continue;
            double more = (levels[next] - share_of(l)) * (double)l->count;
            double loss = fmax(l->loss[next], 0) - (l->level < 0 ? 0 : fmax(l->loss[l->level], 0)), cost = (loss + 1e-6) / more;
            if (cost < least) {
                least = cost;
                best = l;
                gained = more;
            }
        }
        if (!best)
            return;
        best->level++;
        zeros += gained;
    }
}

/* ---- The whole ---- */

static bool is_excluded(const pst_compress_options *o, const char *layer, const char *param)
{
    for (size_t i = 0; i < o->exclude_count; i++)
        if (fnmatch(o->exclude[i], layer, 0) == 0 || fnmatch(o->exclude[i], param, 0) == 0)
            return true;
    return false;
}

static pst_status find_layers(struct search *s, pst_error *reterr)
{
    const struct graph *g = graph_of(s);
    s->layers = mem_array(g->param_count + 1, sizeof(*s->layers));
    if (!s->layers)
        return fail_memory(reterr, "searching");
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        const char *kind = g->nodes[p->node].layer->name;
        s->fingerprint = hash_bytes(s->network->params + p->offset, p->count * sizeof(float), s->fingerprint);
        if (p->layer.rank < 2 || (strcmp(kind, "conv") != 0 && strcmp(kind, "dense") != 0) ||
            is_excluded(s->compression->options, g->nodes[p->node].name, p->name))
            continue;
        s->layers[s->count++] = (struct layer){.param = i, .count = p->count, .loss = {NAN, NAN, NAN, NAN}, .level = -1};
    }
    return PST_OK;
}

static pst_status take_shares(const struct search *s, struct compression_shares *ret, pst_error *reterr)
{
    ret->names = mem_array(s->count + 1, sizeof(*ret->names));
    ret->shares = mem_array(s->count + 1, sizeof(*ret->shares));
    if (!ret->names || !ret->shares)
        return fail_memory(reterr, "searching");
    for (size_t i = 0; i < s->count; i++) {
        ret->names[i] = mem_strdup(graph_of(s)->params[s->layers[i].param].name);
        if (!ret->names[i])
            return fail_memory(reterr, "searching");
        ret->shares[i] = share_of(&s->layers[i]);
        ret->count++;
    }
    return PST_OK;
}

pst_status compression_search(struct compression *c, const pst_network *n, struct compression_shares *ret, pst_error *reterr)
{
    struct search s = {.compression = c, .network = n, .base = NAN};
    s.path = c->options->out ? file_join(c->options->out, "search.json") : NULL;
    pst_status st = c->options->out && !s.path ? fail_memory(reterr, "searching") : find_layers(&s, reterr);
    if (st == PST_OK && s.path)
        load(&s);
    if (st == PST_OK)
        st = measure_layers(&s, reterr);
    if (st == PST_OK && !c->stop) {
        distribute(&s, c->options->sparsity);
        st = take_shares(&s, ret, reterr);
    }
    mem_free(s.layers);
    mem_free(s.path);
    return st;
}

void compression_shares_finish(struct compression_shares *s)
{
    for (size_t i = 0; i < s->count; i++)
        mem_free(s->names[i]);
    mem_free(s->names);
    mem_free(s->shares);
    *s = (struct compression_shares){0};
}
