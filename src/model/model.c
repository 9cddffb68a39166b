/* model.c: the public face of models: include/penstock/model.h. */
#include "model/model.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "model/kernel_table.h"
#include "model/layer_list.h"
#include "model/preset.h"
#include "model/step.h"

#include <string.h>

pst_shape shape_public(const struct shape *s)
{
    return s->rank == 1 ? (pst_shape){.rank = 1, .size = {s->c}} : (pst_shape){.rank = 3, .size = {s->h, s->w, s->c}};
}

pst_status model_create(pst_model **ret, const char *text, const pst_shape *input, pst_error *reterr)
{
    struct shape shape = {.rank = input->rank, .h = 1, .w = 1, .c = input->size[0]};
    if (input->rank == 3)
        shape = (struct shape){.rank = 3, .h = input->size[0], .w = input->size[1], .c = input->size[2]};
    pst_model *m = mem_zalloc(sizeof(*m));
    pst_status st = m ? graph_create(&m->graph, text, &shape, reterr) : fail_memory(reterr, "building the model");
    if (st == PST_OK && !(m->text = graph_text(m->graph))) /* a file that "@FILE" named need not exist later */
        st = fail_memory(reterr, "building the model");
    if (st < 0)
        pst_model_destroy(m);
    else
        *ret = m;
    return st;
}

pst_status pst_model_parse(pst_model **ret, const char *text, const pst_shape *input, pst_error *reterr)
{
    char *whole = NULL;
    pst_status st = preset_expand(&whole, text, reterr);
    if (st == PST_OK)
        st = model_create(ret, whole, input, reterr);
    mem_free(whole);
    return st;
}

pst_model *pst_model_destroy(pst_model *model)
{
    if (!model)
        return NULL;
    graph_destroy(model->graph);
    mem_free(model->text);
    mem_free(model);
    return NULL;
}

const char *pst_model_text(const pst_model *model)
{
    return model->text;
}

pst_shape pst_model_input(const pst_model *model)
{
    return shape_public(&model->graph->input);
}

pst_shape pst_model_output(const pst_model *model)
{
    return shape_public(graph_shape(model->graph, model->graph->count));
}

const char *model_ending(const pst_model *m)
{
    const char *name = m->graph->nodes[m->graph->count - 1].layer->name;
    return m->graph->count > 1 && (strcmp(name, "softmax") == 0 || strcmp(name, "sigmoid") == 0) ? name : "";
}

bool pst_model_layer_at(const pst_model *model, size_t i, pst_model_layer *ret)
{
    const struct graph *g = model->graph;
    if (i >= g->count || result_check(ret, NULL) < 0)
        return false;
    const struct graph_node *n = &g->nodes[i];
    pst_model_layer layer = {.name = n->name, .kind = n->layer->name, .output = shape_public(&n->out)};
    for (size_t k = 0; k < n->params; k++)
        layer.parameters += g->params[n->first_param + k].count;
    layer.flops = n->layer->flops ? n->layer->flops(n->config, n->in, &n->out) : 0;
    result_give(ret, &layer, sizeof(layer));
    return true;
}

bool pst_model_param_at(const pst_model *model, size_t i, pst_model_param *ret)
{
    if (i >= model->graph->param_count || result_check(ret, NULL) < 0)
        return false;
    const struct graph_param *p = &model->graph->params[i];
    pst_model_param param = {.name = p->name, .rank = p->layer.rank, .count = p->count, .fixed = p->layer.fixed};
    memcpy(param.shape, p->layer.shape, sizeof(param.shape));
    result_give(ret, &param, sizeof(param));
    return true;
}

pst_status pst_model_describe(const pst_model *model, size_t batch, unsigned threads, pst_model_plan *ret, pst_error *reterr)
{
    struct step_options o = {
        .batch = batch, .threads = threads ? threads : cpu_cores(), .training = true, .logits = true, .features = cpu_features()};
    struct step *s = NULL;
    struct text t = {0};
    struct kernel_table kernels = {0};
    if (ret->size < sizeof(*ret))
        return pst_fail(reterr, PST_EINVAL, "pst_model_plan.size is not set");
    pst_status st = kernel_table_parse(&kernels, ret->kernels, o.features, reterr);
    o.kernels = &kernels;
    if (st == PST_OK)
        st = step_create(&s, model->graph, &o, reterr);
    kernel_table_finish(&kernels);
    if (st < 0)
        return st;
    step_describe(s, &t);
    ret->bytes = step_bytes(s);
    ret->text = t.data;
    step_destroy(s);
    if (!t.failed)
        return PST_OK;
    text_finish(&t);
    return fail_memory(reterr, "describing the step");
}

bool pst_layer_at(size_t i, pst_layer_doc *ret)
{
    const struct layer_class *l = layer_at(i);
    if (!l || result_check(ret, NULL) < 0)
        return false;
    const pst_layer_doc doc = {.name = l->name, .doc = l->doc, .example = l->example, .params = l->params, .positional = l->positional,
                               .min_chains = l->min_children, .max_chains = l->max_children};
    result_give(ret, &doc, sizeof(doc));
    return true;
}

bool pst_preset_at(size_t i, const char **ret_name, const char **ret_doc)
{
    return preset_at(i, ret_name, ret_doc);
}

pst_status pst_preset_text(const char *name, char **ret, pst_error *reterr)
{
    return preset_text(ret, name, reterr);
}
