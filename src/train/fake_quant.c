/* fake_quant.c: see fake_quant.h. */
#include "train/fake_quant.h"

#include "base/error.h"
#include "base/memory.h"
#include "quant/qat.h"

#include <math.h>
#include <string.h>

struct layer {
    size_t kernel, bias; /* parameters; SIZE_MAX: none */
    size_t input;        /* the value that it reads */
    size_t channels;
    float *scale; /* per channel */
};

struct fake_quant {
    const struct graph *graph;
    unsigned bits;
    float *block;
    struct layer *layers;
    size_t count;
    /* The present call. */
    struct team *team;
    const float *params;
};

pst_status fake_quant_create(struct fake_quant **ret, const struct graph *g, pst_error *reterr)
{
    unsigned bits = 0;
    *ret = NULL;
    if (!qat_is(g, &bits))
        return PST_OK;
    struct fake_quant *f = mem_zalloc(sizeof(*f));
    if (!f)
        return fail_memory(reterr, "making the trainer");
    f->graph = g;
    f->bits = bits;
    f->block = mem_large(g->values * sizeof(float) + 64);
    f->layers = mem_array(g->count + 1, sizeof(*f->layers));
    bool whole = f->block && f->layers;
    for (size_t i = 0; whole && i < g->count; i++) {
        const struct graph_node *n = &g->nodes[i];
        size_t channels = quant_channels(n);
        if (!channels)
            continue;
        struct layer *l = &f->layers[f->count++];
        *l = (struct layer){.kernel = n->first_param,
                            .bias = n->params > 1 ? n->first_param + 1 : SIZE_MAX,
                            .input = n->input[0],
                            .channels = channels,
                            .scale = mem_array(channels, sizeof(float))};
        whole = l->scale;
    }
    if (!whole) {
        fake_quant_destroy(f);
        return fail_memory(reterr, "making the trainer");
    }
    *ret = f;
    return PST_OK;
}

struct fake_quant *fake_quant_destroy(struct fake_quant *f)
{
    if (!f)
        return NULL;
    for (size_t i = 0; i < f->count; i++)
        mem_free(f->layers[i].scale);
    mem_free(f->layers);
    mem_free(f->block);
    mem_free(f);
    return NULL;
}

/* The numbers of quant_weights, row by row. */
static void round_kernel(const struct layer *l, const float *from, float *to, size_t count, unsigned bits)
{
    float *restrict scale = l->scale, most = (float)quant_weight_limit(bits);
    size_t channels = l->channels;
    memset(scale, 0, channels * sizeof(float));
    for (size_t i = 0; i < count; i += channels)
        for (size_t c = 0; c < channels; c++)
            scale[c] = fabsf(from[i + c]) > scale[c] ? fabsf(from[i + c]) : scale[c];
    quant_weight_scales(scale, channels, bits);
    for (size_t i = 0; i < count; i += channels)
        for (size_t c = 0; c < channels; c++) {
            float q = rintf(from[i + c] / scale[c]);
            to[i + c] = scale[c] * (q > most ? most : q < -most ? -most : q);
        }
}

static void round_layer(const struct fake_quant *f, const struct layer *l)
{
    const struct graph_param *kernel = &f->graph->params[l->kernel];
    round_kernel(l, f->params + kernel->offset, f->block + kernel->offset, kernel->count, f->bits);
    double in = (double)qat_scale(f->graph, f->params, l->input);
    if (l->bias == SIZE_MAX)
        return;
    size_t at = f->graph->params[l->bias].offset;
    for (size_t c = 0; c < l->channels; c++) {
        double unit = in * (double)l->scale[c];
        f->block[at + c] = unit > 0 ? (float)(nearbyint((double)f->params[at + c] / unit) * unit) : f->params[at + c];
    }
}

static void round_layers(void *user, unsigned worker)
{
    struct fake_quant *f = user;
    for (size_t i = worker; i < f->count; i += team_size(f->team))
        round_layer(f, &f->layers[i]);
}

float *fake_quant_params(struct fake_quant *f, struct team *team, const float *params)
{
    f->team = team;
    f->params = params;
    memcpy(f->block, params, f->graph->values * sizeof(float));
    team_run(team, round_layers, f);
    return f->block;
}

void fake_quant_take_fixed(struct fake_quant *f, float *params)
{
    for (size_t i = 0; i < f->graph->param_count; i++) {
        const struct graph_param *p = &f->graph->params[i];
        if (p->layer.fixed)
            memcpy(params + p->offset, f->block + p->offset, p->count * sizeof(float));
    }
}
