/* model_rig.h: a model with parameters and inputs, and the same model folded: what tests of the inference engine begin with. */
#ifndef TESTS_INFER_MODEL_RIG_H
#define TESTS_INFER_MODEL_RIG_H

#include "base/memory.h"
#include "base/random.h"
#include "harness.h"
#include "model/fold.h"

#include <stdlib.h>

struct model_rig {
    struct graph *graph, *folded;
    float *params, *folded_params;
    float *images;
};

/* Start weights; scales and statistics that are not those of a fresh model. */
static void fill_params(const struct graph *g, float *params)
{
    struct random r;
    random_init(&r, 7, 0, 0, 0);
    graph_init_params(g, 3, params);
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        double low = p->layer.init == INIT_ONES ? 0.5 : -0.3, high = p->layer.init == INIT_ONES ? 1.5 : 0.3;
        for (size_t k = 0; p->layer.init != INIT_GLOROT_UNIFORM && k < p->count; k++)
            params[p->offset + k] = (float)random_between(&r, low, high);
    }
}

static void model_rig_close(struct model_rig *r)
{
    graph_destroy(r->graph);
    graph_destroy(r->folded);
    mem_free(r->folded_params);
    free(r->params), free(r->images);
}

/* Close it also where this returns false. */
static bool model_rig_open(struct model_rig *r, const char *text, const struct shape *input, size_t samples)
{
    pst_error error = {0};
    struct random rng;
    *r = (struct model_rig){0};
    if (!test_check_status(graph_create(&r->graph, text, input, &error), PST_OK, &error, __FILE__, __LINE__, text))
        return false;
    r->params = calloc(r->graph->values, sizeof(float));
    r->images = malloc(samples * shape_values(input) * sizeof(float));
    fill_params(r->graph, r->params);
    random_init(&rng, 5, 0, 0, 0);
    for (size_t i = 0; i < samples * shape_values(input); i++)
        r->images[i] = (float)random_between(&rng, -1, 1);
    return CHECK_STATUS(graph_fold(&r->folded, &r->folded_params, r->graph, r->params, &error), PST_OK, &error);
}

#endif
