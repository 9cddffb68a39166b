/* prune.c: see prune.h. */
#include "train/prune.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/options.h"

#include <fnmatch.h>
#include <math.h>
#include <string.h>

#define CHUNK   8192  /* values that a worker takes at once; a multiple of 8 */
#define BUCKETS 65536 /* half of the bits of a float */

struct mask {
    uint8_t *bits; /* NULL: the parameter is not pruned */
    double share;  /* of its values that go in the end */
};

struct chunk {
    size_t offset, count;
    const uint8_t *bits;
};

struct prune {
    pst_prune_options options; /* lists of names are not kept */
    const struct graph *graph;
    struct mask *masks; /* by parameter */
    struct chunk *chunks;
    size_t chunk_count, chunk_capacity;
    uint32_t *histogram; /* BUCKETS */
    /* The present call. */
    struct team *team;
    float *block;
};

/* ---- The schedule ---- */

double prune_schedule(const pst_prune_options *o, uint64_t step)
{
    if (o->schedule != PST_PRUNE_POLYNOMIAL)
        return o->sparsity;
    double length = (double)(o->end - o->begin), p = step > o->begin ? (double)(step - o->begin) / length : 0;
    return (o->initial - o->sparsity) * pow(1 - (p < 1 ? p : 1), o->power) + o->sparsity;
}

bool prune_is_due(const pst_prune_options *o, uint64_t step)
{
    if (o->schedule == PST_PRUNE_KEEP)
        return step == 0;
    if (step < o->begin || (o->end && step > o->end))
        return false;
    return (step - o->begin) % o->every == 0 || (o->end && step == o->end); /* the last one reaches the final sparsity */
}

/* ---- Making ---- */

static pst_status check_options(pst_prune_options *o, uint64_t total_steps, pst_error *reterr)
{
    if (o->schedule > PST_PRUNE_KEEP)
        return pst_fail(reterr, PST_EINVAL, "there is no pruning schedule %d", (int)o->schedule);
    if (!(o->sparsity >= 0 && o->sparsity < 1) || !(o->initial >= 0 && o->initial <= 1))
        return pst_fail(reterr, PST_EINVAL, "sparsity from %g to %g; expected 0 or more and less than 1", o->initial, o->sparsity);
    if (o->group && (o->group > 64 || o->group_keep == 0 || o->group_keep >= o->group))
        return pst_fail(reterr, PST_EINVAL, "pruning keeps %u of %u weights; expected 1 or more, fewer than the group, and up to 64",
                        o->group_keep, o->group);
    o->power = o->power > 0 ? o->power : 3;
    o->every = o->every ? o->every : 100;
    if (o->schedule != PST_PRUNE_POLYNOMIAL)
        return PST_OK;
    if (o->initial > o->sparsity)
        return pst_fail(reterr, PST_EINVAL, "sparsity begins with %g and ends with %g; expected it to grow", o->initial, o->sparsity);
    if (o->end == 0 && total_steps)
        o->end = o->begin + (total_steps > o->begin ? (total_steps - o->begin + 1) / 4 * 3 : 0);
    else if (o->end == 0)
        return pst_fail(reterr, PST_EINVAL, "the polynomial schedule of pruning needs the step at which it ends, because the length of the run is not "
                                            "known: give --prune-end or --steps-per-epoch");
    if (o->end == o->begin)
        o->end++;
    if (o->end < o->begin)
        return pst_fail(reterr, PST_EINVAL, "the polynomial schedule of pruning ends at step %llu, before it begins at step %llu",
                        (unsigned long long)o->end, (unsigned long long)o->begin);
    return PST_OK;
}

static bool fits(const struct graph *g, const struct graph_param *p, const char *name)
{
    return fnmatch(name, g->nodes[p->node].name, 0) == 0 || fnmatch(name, p->name, 0) == 0;
}

/* Kernels of convolutions and dense layers; depthwise ones have too few weights to lose any. */
static bool is_prunable(const struct graph *g, const struct graph_param *p)
{
    const char *layer = g->nodes[p->node].layer->name;
    return p->layer.rank >= 2 && (strcmp(layer, "conv") == 0 || strcmp(layer, "dense") == 0);
}

/* Sets the share of the kernels that `name` stands for. */
static pst_status set_share(struct prune *p, const char *name, double share, bool *chosen, pst_error *reterr)
{
    bool found = false;
    if (!(share >= 0 && share < 1))
        return pst_fail(reterr, PST_EINVAL, "pruning %.60s: sparsity %g; expected 0 or more and less than 1", name, share);
    for (size_t i = 0; i < p->graph->param_count; i++) {
        const struct graph_param *q = &p->graph->params[i];
        if (!fits(p->graph, q, name))
            continue;
        found = true;
        if (is_prunable(p->graph, q)) {
            p->masks[i].share = share;
            chosen[i] &= share > 0;
        }
    }
    return found ? PST_OK
                 : pst_fail(reterr, PST_EINVAL, "pruning: no layer with parameters is called \"%.60s\"; `penstock model` lists names", name);
}

static bool add_mask(struct prune *p, size_t param)
{
    const struct graph_param *q = &p->graph->params[param];
    uint8_t *bits = mem_alloc((q->count + 7) / 8);
    p->masks[param].bits = bits;
    if (!bits)
        return false;
    memset(bits, 0xff, (q->count + 7) / 8);
    for (size_t at = 0; at < q->count; at += CHUNK) {
        if (mem_grow((void **)&p->chunks, &p->chunk_capacity, p->chunk_count + 1, sizeof(*p->chunks)) < 0)
            return false;
        p->chunks[p->chunk_count++] = (struct chunk){
            .offset = q->offset + at, .count = q->count - at < CHUNK ? q->count - at : CHUNK, .bits = bits + at / 8};
    }
    return true;
}

static pst_status choose(struct prune *p, const bool *trained, bool *chosen, pst_error *reterr)
{
    const pst_prune_options *o = &p->options;
    pst_status st = PST_OK;
    bool any = false, whole = true;
    for (size_t i = 0; i < p->graph->param_count; i++) {
        chosen[i] = trained[i] && is_prunable(p->graph, &p->graph->params[i]);
        p->masks[i].share = o->sparsity;
    }
    for (size_t i = 0; st == PST_OK && i < o->exclude_count; i++)
        st = set_share(p, o->exclude[i], 0, chosen, reterr);
    for (size_t i = 0; st == PST_OK && i < o->layer_count; i++)
        st = set_share(p, o->layers[i], o->layer_sparsity[i], chosen, reterr);
    for (size_t i = 0; st == PST_OK && i < p->graph->param_count; i++) {
        any |= chosen[i];
        whole = whole && (!chosen[i] || add_mask(p, i));
    }
    if (st == PST_OK && !any)
        return pst_fail(reterr, PST_EINVAL, "pruning: no trained convolution or dense layer is left to prune");
    return st < 0 || whole ? st : fail_memory(reterr, "making masks");
}

pst_status prune_create(struct prune **ret, const struct graph *g, const bool *trained, const pst_prune_options *o, uint64_t total_steps,
                        pst_error *reterr)
{
    struct prune *p = mem_zalloc(sizeof(*p));
    bool *chosen = mem_array(g->param_count + 1, sizeof(*chosen));
    if (p) {
        p->graph = g;
        p->masks = mem_array(g->param_count + 1, sizeof(*p->masks));
        p->histogram = mem_array(BUCKETS, sizeof(*p->histogram));
    }
    pst_status st = p && chosen && p->masks && p->histogram ? options_take(&p->options, sizeof(p->options), o, reterr)
                                                            : fail_memory(reterr, "making masks");
    if (st == PST_OK)
        st = check_options(&p->options, total_steps, reterr);
    if (st == PST_OK)
        st = choose(p, trained, chosen, reterr);
    mem_free(chosen);
    if (st < 0) {
        prune_destroy(p);
        return st;
    }
    p->options.exclude = p->options.layers = NULL; /* the caller's */
    p->options.layer_sparsity = NULL;
    *ret = p;
    return PST_OK;
}

struct prune *prune_destroy(struct prune *p)
{
    if (!p)
        return NULL;
    for (size_t i = 0; p->masks && i < p->graph->param_count; i++)
        mem_free(p->masks[i].bits);
    mem_free(p->masks);
    mem_free(p->chunks);
    mem_free(p->histogram);
    mem_free(p);
    return NULL;
}

/* ---- Masks ---- */

static bool stays(const uint8_t *bits, size_t i)
{
    return bits[i / 8] >> (i % 8) & 1;
}

static void remove_value(uint8_t *bits, size_t i)
{
    bits[i / 8] &= (uint8_t) ~(1u << (i % 8));
}

/* The bits of |x|, which are in the order of the values. */
static uint32_t magnitude(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u & 0x7fffffff;
}

/* The bucket in which the value number `keep`, counted from the largest, lies; `*keep` becomes its number within the bucket. */
static uint32_t find_bucket(const uint32_t *histogram, size_t *keep)
{
    uint32_t b = BUCKETS - 1;
    while (b > 0 && histogram[b] < *keep)
        *keep -= histogram[b--];
    return b;
}

/* Removes all but the `keep` largest values; of equal ones, the first stay. */
static void keep_largest(struct prune *p, const float *w, uint8_t *bits, size_t count, size_t keep)
{
    size_t alive = 0, equal = keep;
    memset(p->histogram, 0, BUCKETS * sizeof(*p->histogram));
    for (size_t i = 0; i < count; i++)
        if (stays(bits, i)) {
            alive++;
            p->histogram[magnitude(w[i]) >> 16]++;
        }
    if (alive <= keep)
        return;
    uint32_t high = find_bucket(p->histogram, &equal);
    memset(p->histogram, 0, BUCKETS * sizeof(*p->histogram));
    for (size_t i = 0; i < count; i++)
        if (stays(bits, i) && magnitude(w[i]) >> 16 == high)
            p->histogram[magnitude(w[i]) & 0xffff]++;
    uint32_t limit = high << 16 | find_bucket(p->histogram, &equal);
    for (size_t i = 0; i < count; i++) {
        uint32_t m = magnitude(w[i]);
        if (!stays(bits, i) || m > limit)
            continue;
        if (m == limit && equal > 0)
            equal--;
        else
            remove_value(bits, i);
    }
}

/* Removes the smallest of up to `size` values, `stride` apart from `at` on, until `keep` are left. */
static void keep_of_group(const float *w, uint8_t *bits, size_t at, size_t stride, size_t size, size_t keep)
{
    size_t alive = 0;
    for (size_t i = 0; i < size; i++)
        alive += stays(bits, at + i * stride);
    for (; alive > keep; alive--) {
        size_t least = SIZE_MAX;
        for (size_t i = 0; i < size; i++) { /* of equal ones, the last goes */
            size_t k = at + i * stride;
            if (stays(bits, k) && (least == SIZE_MAX || magnitude(w[k]) <= magnitude(w[least])))
                least = k;
        }
        remove_value(bits, least);
    }
}

/* Groups lie along the inputs of a kernel (…, inputs, outputs), as sparse tensor units want them. */
static void keep_of_groups(const pst_prune_options *o, const struct graph_param *q, const float *w, uint8_t *bits)
{
    size_t outputs = q->layer.shape[q->layer.rank - 1], inputs = q->layer.shape[q->layer.rank - 2];
    for (size_t first = 0; first < q->count; first += inputs * outputs)
        for (size_t i = 0; i < inputs; i += o->group)
            for (size_t k = 0; k < outputs; k++)
                keep_of_group(w, bits, first + i * outputs + k, outputs, inputs - i < o->group ? inputs - i : o->group, o->group_keep);
}

static void update_mask(struct prune *p, size_t param, uint64_t step, const float *w)
{
    const struct graph_param *q = &p->graph->params[param];
    struct mask *m = &p->masks[param];
    pst_prune_options o = p->options;
    o.initial = o.initial < m->share ? o.initial : m->share;
    o.sparsity = m->share;
    if (o.schedule == PST_PRUNE_KEEP) {
        for (size_t i = 0; i < q->count; i++)
            if (w[i] == 0)
                remove_value(m->bits, i);
    } else if (o.group) {
        keep_of_groups(&o, q, w, m->bits);
    } else {
        keep_largest(p, w, m->bits, q->count, (size_t)nearbyint((double)q->count * (1 - prune_schedule(&o, step))));
    }
}

static void apply_chunk(const struct chunk *c, float *x)
{
    for (size_t i = 0; i < c->count; i += 8) {
        uint8_t bits = c->bits[i / 8];
        for (size_t k = 0; bits != 0xff && k < 8 && i + k < c->count; k++)
            if (!(bits >> k & 1))
                x[i + k] = 0;
    }
}

static void apply_chunks(void *user, unsigned worker)
{
    struct prune *p = user;
    for (size_t i = worker; i < p->chunk_count; i += team_size(p->team))
        apply_chunk(&p->chunks[i], p->block + p->chunks[i].offset);
}

void prune_apply(struct prune *p, struct team *team, float *block)
{
    p->team = team;
    p->block = block;
    team_run(team, apply_chunks, p);
}

void prune_weights(struct prune *p, struct team *team, uint64_t step, float *params, float *mean)
{
    for (size_t i = 0; prune_is_due(&p->options, step) && i < p->graph->param_count; i++)
        if (p->masks[i].bits)
            update_mask(p, i, step, params + p->graph->params[i].offset);
    prune_apply(p, team, params);
    if (mean)
        prune_apply(p, team, mean);
}

const uint8_t *prune_mask(const struct prune *p, size_t param)
{
    return p ? p->masks[param].bits : NULL;
}

void prune_set_mask(struct prune *p, size_t param, const uint8_t *mask)
{
    size_t bytes = (p->graph->params[param].count + 7) / 8;
    if (mask)
        memcpy(p->masks[param].bits, mask, bytes);
    else
        memset(p->masks[param].bits, 0xff, bytes);
}

double prune_share(const struct prune *p)
{
    uint64_t all = 0, gone = 0;
    for (size_t i = 0; p && i < p->graph->param_count; i++) {
        size_t count = p->graph->params[i].count, bytes = (count + 7) / 8;
        all += p->masks[i].bits ? count : 0;
        for (size_t k = 0; p->masks[i].bits && k < bytes; k++)
            gone += (uint64_t)(8 - __builtin_popcount(p->masks[i].bits[k])); /* bits after the last value are never cleared */
    }
    return all ? (double)gone / (double)all : 0;
}

uint64_t prune_hash(const struct prune *p)
{
    if (!p)
        return 0;
    const pst_prune_options *o = &p->options;
    double numbers[] = {o->sparsity, o->initial, o->power, o->schedule, (double)o->begin, (double)o->end, (double)o->every, o->group_keep, o->group};
    uint64_t hash = hash_bytes(numbers, sizeof(numbers), 0);
    for (size_t i = 0; i < p->graph->param_count; i++) {
        double share = p->masks[i].bits ? p->masks[i].share : -1;
        hash = hash_bytes(&share, sizeof(share), hash);
    }
    return hash;
}
