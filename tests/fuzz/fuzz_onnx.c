/* fuzz_onnx.c: any bytes as an ONNX model. What is accepted is a model: its text builds the graph that it came with, and what we export of it
 * is read again as the same model. A small one is planned and predicts. */
#include "expect.h"

#include "base/cpu.h"
#include "base/memory.h"
#include "export/onnx.h"
#include "export/onnx_import.h"
#include "infer/infer.h"
#include "model/fold.h"
#include "quant/quant.h"

#include <string.h>

static void export_again(const struct onnx_model *m)
{
    struct text file = {0};
    struct onnx_model again = {0};
    pst_error error = {0};
    if (onnx_write(&file, m->graph, m->params, &(struct onnx_options){0}, &error) == PST_OK) {
        pst_status st = onnx_import_bytes(&again, NULL, (const uint8_t *)file.data, file.length, &error);
        EXPECT(st == PST_OK || st == PST_EUNSUPPORTED || st == PST_ELIMIT);
        if (st == PST_OK)
            EXPECT(again.graph->values >= m->graph->values);
    }
    onnx_model_finish(&again);
    text_finish(&file);
}

/* Whether a prediction takes a moment only. */
static bool is_small(const struct graph *g)
{
    uint64_t work = shape_values(&g->input);
    for (size_t i = 0; i < g->count && work < 1 << 22; i++) {
        const struct graph_node *n = &g->nodes[i];
        work += shape_values(&n->out) + (n->layer->flops ? n->layer->flops(n->config, n->in, &n->out) : 0);
    }
    return work < 1 << 22;
}

static void predict(const struct graph *g, const float *params, const struct quant_model *q)
{
    struct infer_plan *plan = NULL;
    struct infer_context *context = NULL;
    struct infer_options o = {.features = cpu_features(), .quant = q};
    pst_error error = {0};
    if (infer_plan_create(&plan, g, params, &o, &error) == PST_OK && infer_context_create(&context, plan, 1, &error) == PST_OK) {
        float *in = mem_array(2 * shape_values(&g->input) + 1, sizeof(float)), *out = mem_array(2 * shape_values(infer_out_shape(plan)) + 1, sizeof(float));
        if (in && out)
            infer_run(context, in, PST_DTYPE_F32, 2, out);
        mem_free(in);
        mem_free(out);
    } else {
        EXPECT(error.status < 0 && error.message[0]);
    }
    infer_context_destroy(context);
    infer_plan_destroy(plan);
}

static void run_model(const struct onnx_model *m)
{
    struct graph *folded = NULL;
    float *params = NULL;
    pst_error error = {0};
    if (m->quant)
        predict(m->quant->graph, NULL, m->quant);
    else if (graph_fold(&folded, &params, m->graph, m->params, &error) == PST_OK)
        predict(folded, params, NULL);
    graph_destroy(folded);
    mem_free(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct onnx_model m = {0};
    pst_error e = {0};
    pst_status st = onnx_import_bytes(&m, NULL, data, size, &e);
    if (st != PST_OK) {
        EXPECT(st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT || st == PST_ETYPE || st == PST_EINVAL);
        EXPECT(e.status == st && e.message[0] && !m.text && !m.graph && !m.params);
        return 0;
    }
    struct graph *g = NULL;
    EXPECT(graph_create(&g, m.text, &m.graph->input, &e) == PST_OK);
    EXPECT(g->count == m.graph->count && g->values == m.graph->values);
    graph_destroy(g);
    if (m.graph->values < 1 << 16)
        export_again(&m);
    if (m.graph->values < 1 << 16 && is_small(m.graph))
        run_model(&m);
    onnx_model_finish(&m);
    return 0;
}
