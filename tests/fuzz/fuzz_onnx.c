/* fuzz_onnx.c: any bytes as an ONNX model. What is accepted is a model: its text builds the graph that it came with, and what we export of it
 * is read again as the same model. */
#include "expect.h"

#include "export/onnx.h"
#include "export/onnx_import.h"

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
    onnx_model_finish(&m);
    return 0;
}
