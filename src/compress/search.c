/* search.c: a share of zeros, or a number of bits, for each layer. First each layer alone loses some of its weights or bits, and the loss is measured
 * without training; then they go where that costs the least, until enough of all weights or bits are saved.
 *
 * Every measurement is kept in a file of OUT as soon as it is there: an interrupted search repeats none. The file counts for the weights and the
 * validation data that it was made with. */
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/json_read.h"
#include "base/memory.h"
#include "compress/compress.h"
#include "export/stored_weights.h"
#include "io/file.h"
#include "io/publish.h"
#include "network/network.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 4     /* the most */
#define WORST  1e300 /* the rise of a loss that is not finite: such a level is never chosen */

/* What is searched for. */
struct kind {
    const char *file;      /* in OUT */
    const char *what;      /* for progress */
    bool bits;             /* otherwise zeros */
    int levels;
    double saved[LEVELS];  /* the share of a layer that each level saves: of its weights, or of its 32 bits per weight; ascending */
    int order[LEVELS];     /* in which levels are measured */
};

static const struct kind zeros = {.file = "search.json",
                                  .what = "how sensitive layers are",
                                  .levels = 4,
                                  .saved = {0.5, 0.7, 0.85, 0.95},
                                  .order = {0, 1, 2, 3}};
/* 16 bits are measured last: they cost next to nothing, and tell little. */
static const struct kind bits = {.file = "search-bits.json",
                                 .what = "how sensitive layers are to fewer bits",
                                 .bits = true,
                                 .levels = 3,
                                 .saved = {1 - 16.0 / 32, 1 - 8.0 / 32, 1 - 4.0 / 32},
                                 .order = {1, 2, 0}};

struct layer {
    size_t param;
    size_t count;
    double loss[LEVELS]; /* rise of the validation loss at each level, up to WORST; NaN: not measured */
    int level;           /* chosen; −1: none */
    pst_weights_format half; /* its format of 16 bits: float16 where that holds every value */
};

struct search {
    struct compression *compression;
    const struct kind *kind;
    const pst_network *network;
    struct layer *layers;
    size_t count;
    uint64_t fingerprint; /* of the validation data and the weights that were measured */
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
    json_format(&j, "fingerprint", "%016" PRIx64, s->fingerprint);
    json_number(&j, "loss", s->base);
    json_number(&j, "seconds", s->seconds);
    json_begin_object(&j, "layers");
    for (size_t i = 0; i < s->count; i++) {
        json_begin_array(&j, graph_of(s)->params[s->layers[i].param].name);
        int count = s->kind->levels; /* without the last ones that are not measured */
        while (count > 0 && isnan(s->layers[i].loss[count - 1]))
            count--;
        for (int k = 0; k < count; k++)
            json_number(&j, NULL, s->layers[i].loss[k]); /* null: not measured */
        json_end_array(&j);
    }
    json_end_object(&j);
    json_end_object(&j);
    pst_status st = text.failed ? fail_memory(reterr, "searching") : publish_bytes(s->path, text.data, text.length, true, false, reterr);
    text_finish(&text);
    return st;
}

/* Takes what an earlier search has measured with the same weights and data; anything else in the file is measured again. */
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
        char *found = json_get_string(&d, json_find(&d, 0, "fingerprint"));
        size_t all = json_find(&d, 0, "layers");
        if (found && strcmp(found, want) == 0 && all != JSON_ABSENT && json_get_number(&d, json_find(&d, 0, "loss"), &s->base)) {
            if (!json_get_number(&d, json_find(&d, 0, "seconds"), &s->seconds))
                s->seconds = 0;
            for (size_t i = 0; i < s->count; i++) {
                size_t at = json_find(&d, all, graph_of(s)->params[s->layers[i].param].name);
                if (at != JSON_ABSENT && d.items[at].kind == JSON_ARRAY)
                    for (int k = 0; k < s->kind->levels && (size_t)k < d.items[at].count; k++)
                        if (!json_get_number(&d, at + 1 + (size_t)k, &s->layers[i].loss[k]))
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

/* A network in which `share` of one layer's smallest weights are zero. */
static pst_status with_zeros(const struct search *s, const struct layer *layer, double share, pst_network **ret, pst_error *reterr)
{
    const struct graph *g = graph_of(s);
    const float **values = mem_array(g->param_count + 1, sizeof(*values));
    float *copy = mem_array(layer->count + 1, sizeof(*copy)), *sorted = mem_array(layer->count + 1, sizeof(*sorted));
    pst_shape input = pst_model_input(s->network->model);
    pst_status st = values && copy && sorted ? PST_OK : fail_memory(reterr, "searching");
    for (size_t i = 0; st == PST_OK && i < g->param_count; i++)
        values[i] = pst_network_values(s->network, i);
    if (st == PST_OK) {
        memcpy(copy, values[layer->param], layer->count * sizeof(*copy));
        memcpy(sorted, copy, layer->count * sizeof(*copy));
        qsort(sorted, layer->count, sizeof(*sorted), by_magnitude);
        float limit = fabsf(sorted[(size_t)(share * (double)(layer->count - 1))]);
        for (size_t i = 0; i < layer->count; i++)
            copy[i] = fabsf(copy[i]) <= limit ? 0 : copy[i];
        values[layer->param] = copy;
    }
    if (st == PST_OK)
        st = pst_network_create(ret, pst_model_text(s->network->model), &input, values, s->network->record, reterr);
    mem_free(values);
    mem_free(copy);
    mem_free(sorted);
    return st;
}

static pst_weights_format format_at(const struct layer *l, int level)
{
    return level < 0 ? PST_WEIGHTS_FLOAT32 : level == 0 ? l->half : level == 1 ? PST_WEIGHTS_INT8 : PST_WEIGHTS_INT4;
}

/* A network in which one layer has fewer bits. */
static pst_status with_bits(const struct search *s, const struct layer *layer, int level, pst_network **ret, pst_error *reterr)
{
    pst_weights_format *each = mem_array(graph_of(s)->param_count + 1, sizeof(*each));
    if (!each)
        return fail_memory(reterr, "searching");
    each[layer->param] = format_at(layer, level);
    pst_status st = network_round(ret, s->network, PST_WEIGHTS_MIXED, each, reterr);
    mem_free(each);
    return st;
}

/* The loss on the validation data when one layer is at a level; `layer` NULL: none is. */
static pst_status measure(struct search *s, const struct layer *layer, int level, double *ret, pst_error *reterr)
{
    pst_network *n = NULL;
    pst_evaluation e = {.size = sizeof(e)};
    pst_status st = !layer          ? PST_OK
                    : s->kind->bits ? with_bits(s, layer, level, &n, reterr)
                                    : with_zeros(s, layer, s->kind->saved[level], &n, reterr);
    if (st == PST_OK)
        st = pst_network_evaluate(n ? n : s->network, s->compression->validation, &s->compression->validation_fields, s->compression->options->threads, &e, reterr);
    if (st == PST_OK)
        *ret = e.loss;
    pst_free(e.confusion);
    pst_network_destroy(n);
    return st;
}

static bool stopped(struct search *s, size_t done, size_t all)
{
    struct compression *c = s->compression;
    pst_run_progress p = {.size = sizeof(p), .step = done, .epoch_steps = all};
    if (c->options->progress && c->options->progress(c->options->user, s->kind->what, &p, NULL))
        c->stop = true;
    return c->stop;
}

/* All layers at one level, then at the next: a budget that ends leaves as many layers as possible with their first measurements. */
static pst_status measure_layers(struct search *s, pst_error *reterr)
{
    const pst_compress_options *o = s->compression->options;
    double budget = o->budget > 0 ? o->budget : 300;
    if (o->search && o->sparsity > 0 && o->format == PST_WEIGHTS_MIXED)
        budget /= 2; /* two searches */
    uint64_t last = clock_ns();
    size_t done = 0;
    pst_status st = isnan(s->base) ? measure(s, NULL, -1, &s->base, reterr) : PST_OK;
    if (st == PST_OK && !isfinite(s->base))
        st = pst_fail(reterr, PST_EINVAL, "the loss on the validation data is %g: what layers lose cannot be measured; train the model anew, or give other data (--val)",
                      s->base);
    for (int k = 0; st == PST_OK && k < s->kind->levels; k++)
        for (size_t i = 0; st == PST_OK && i < s->count; i++, done++) {
            int level = s->kind->order[k];
            double *to = &s->layers[i].loss[level], loss = 0;
            if (!isnan(*to))
                continue;
            bool late = s->seconds > budget && (k > 0 || !s->kind->bits); /* every layer has its first measurement of bits */
            if (stopped(s, done, (size_t)s->kind->levels * s->count) || late)
                return PST_OK;
            st = measure(s, &s->layers[i], level, &loss, reterr);
            if (st == PST_OK) {
                uint64_t now = clock_ns();
                s->seconds += 1e-9 * (double)(now - last);
                last = now;
                *to = isfinite(loss) ? fmin(loss - s->base, WORST) : WORST;
                st = s->path ? save(s, reterr) : PST_OK;
            }
        }
    return st;
}

/* ---- Distributing ---- */

static double saved_of(const struct search *s, const struct layer *l)
{
    return l->level < 0 ? 0 : s->kind->saved[l->level];
}

/* The next level that is measured and may be chosen; `levels` where there is none. */
static int next_level(const struct search *s, const struct layer *l)
{
    int next = l->level + 1;
    while (next < s->kind->levels && !(l->loss[next] < WORST))
        next++;
    return next;
}

static bool is_measured(const struct search *s, const struct layer *l)
{
    for (int k = 0; k < s->kind->levels; k++)
        if (!isnan(l->loss[k]))
            return true;
    return false;
}

/* Raises the level of the layer whose next one costs the least loss per weight or bit saved, until `wanted` of all are saved. Returns the share that
 * is. Zeros are distributed among the layers that were measured: others get the share that is wanted. */
static double distribute(struct search *s, double wanted)
{
    double all = 0, saved = 0;
    for (size_t i = 0; i < s->count; i++) {
        all += s->kind->bits || is_measured(s, &s->layers[i]) ? (double)s->layers[i].count : 0;
        s->layers[i].level = -1;
    }
    while (saved < wanted * all) {
        struct layer *best = NULL;
        double least = INFINITY, gained = 0;
        for (size_t i = 0; i < s->count; i++) {
            struct layer *l = &s->layers[i];
            int next = next_level(s, l);
            if (next >= s->kind->levels)
                continue;
            double more = (s->kind->saved[next] - saved_of(s, l)) * (double)l->count;
            double loss = fmax(l->loss[next], 0) - (l->level < 0 ? 0 : fmax(l->loss[l->level], 0)), cost = (loss + 1e-6) / more;
            if (cost < least) {
                least = cost;
                best = l;
                gained = more;
            }
        }
        if (!best)
            break;
        best->level = next_level(s, best);
        saved += gained;
    }
    return all > 0 ? saved / all : 0;
}

/* ---- The whole ---- */

static bool is_excluded(const pst_compress_options *o, const char *layer, const char *param)
{
    for (size_t i = 0; i < o->exclude_count; i++)
        if (fnmatch(o->exclude[i], layer, 0) == 0 || fnmatch(o->exclude[i], param, 0) == 0)
            return true;
    return false;
}

static bool fits_float16(const float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(x[i]) <= 65504))
            return false;
    return true;
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
        bool taken = s->kind->bits ? stored_kernel(g, i)
                                   : p->layer.rank >= 2 && (strcmp(kind, "conv") == 0 || strcmp(kind, "dense") == 0) &&
                                         !is_excluded(s->compression->options, g->nodes[p->node].name, p->name);
        if (taken)
            s->layers[s->count++] = (struct layer){.param = i,
                                                   .count = p->count,
                                                   .loss = {NAN, NAN, NAN, NAN},
                                                   .level = -1,
                                                   .half = fits_float16(s->network->params + p->offset, p->count) ? PST_WEIGHTS_FLOAT16 : PST_WEIGHTS_BFLOAT16};
    }
    return PST_OK;
}

/* Hashes the data on which losses are measured; find_layers adds the weights. */
static pst_status hash_data(struct search *s, pst_error *reterr)
{
    const struct compression *c = s->compression;
    pst_cursor start;
    pst_position at = {0};
    pst_status st = pst_pipeline_tell(c->validation, &start, reterr);
    if (st == PST_OK)
        st = pst_cursor_get(&start, &at, reterr);
    s->fingerprint = hash_bytes(c->validation_fields.input, strlen(c->validation_fields.input) + 1, at.fingerprint);
    s->fingerprint = hash_bytes(c->validation_fields.target, strlen(c->validation_fields.target) + 1, s->fingerprint);
    return st;
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
        ret->shares[i] = is_measured(s, &s->layers[i]) ? saved_of(s, &s->layers[i]) : s->compression->options->sparsity;
        ret->late |= !is_measured(s, &s->layers[i]);
        ret->count++;
    }
    return PST_OK;
}

/* Measures every layer, or takes what the file has; leaves levels to distribute(). */
static pst_status begin(struct search *s, pst_error *reterr)
{
    const char *out = s->compression->options->out;
    s->path = out ? file_join(out, s->kind->file) : NULL;
    pst_status st = out && !s->path ? fail_memory(reterr, "searching") : hash_data(s, reterr);
    if (st == PST_OK)
        st = find_layers(s, reterr);
    if (st == PST_OK && s->path)
        load(s);
    return st == PST_OK ? measure_layers(s, reterr) : st;
}

static void finish(struct search *s)
{
    mem_free(s->layers);
    mem_free(s->path);
}

pst_status compression_search(struct compression *c, const pst_network *n, struct compression_shares *ret, pst_error *reterr)
{
    struct search s = {.compression = c, .kind = &zeros, .network = n, .base = NAN};
    pst_status st = begin(&s, reterr);
    if (st == PST_OK && !c->stop) {
        distribute(&s, c->options->sparsity);
        st = take_shares(&s, ret, reterr);
    }
    finish(&s);
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

pst_status compression_bits_create(struct search **ret, struct compression *c, const pst_network *folded, pst_error *reterr)
{
    struct search *s = mem_zalloc(sizeof(*s));
    if (!s)
        return fail_memory(reterr, "searching");
    *s = (struct search){.compression = c, .kind = &bits, .network = folded, .base = NAN};
    pst_status st = begin(s, reterr);
    if (st == PST_OK)
        *ret = s;
    else
        compression_bits_destroy(s);
    return st;
}

double compression_bits_distribute(struct search *s, double mean, pst_weights_format *ret_each, bool *ret_late)
{
    double reached = 32 * (1 - distribute(s, 1 - mean / 32));
    bool missing = false;
    for (size_t i = 0; i < s->count; i++) {
        ret_each[s->layers[i].param] = format_at(&s->layers[i], s->layers[i].level);
        for (int k = 0; k < s->kind->levels; k++)
            missing |= isnan(s->layers[i].loss[k]);
    }
    *ret_late = missing && reached > mean + 0.005;
    return reached;
}

void compression_bits_destroy(struct search *s)
{
    if (s)
        finish(s);
    mem_free(s);
}
