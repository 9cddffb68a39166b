/* onnx_dump.c: a model with random weights as ONNX, beside what our own step computes: for tests in other languages.
 *
 *   onnx_dump TEXT HxWxC|C nchw|nhwc SAMPLES FOLDER          writes FOLDER/model.onnx, input.f32 and output.f32 (NHWC)
 *   onnx_dump TEXT HxWxC|C nchw|nhwc SAMPLES FOLDER int8     the same of the quantised model, by the inference engine; scale.f32 is the step of
 *                                                            its result, 0 where that is not stored in integers
 *
 * An error goes to standard error as STATUS and its text; the exit status is then 1. */
#include "base/cpu.h"
#include "base/memory.h"
#include "base/random.h"
#include "export/onnx.h"
#include "infer/infer.h"
#include "model/fold.h"
#include "model/step.h"
#include "quant/calibrate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_floats(const char *folder, const char *name, const float *values, size_t count)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(values, sizeof(*values), count, f) != count || fclose(f) != 0)
        abort();
}

/* Start values, moved: biases and statistics that are 0 or 1 would hide mistakes. */
static void fill_params(const struct graph *g, float *params, struct random *r)
{
    graph_init_params(g, 7, params);
    for (size_t i = 0; i < g->param_count; i++) {
        bool kernel = g->params[i].layer.init == INIT_GLOROT_UNIFORM;
        for (size_t k = 0; !kernel && k < g->params[i].count; k++)
            params[g->params[i].offset + k] += (float)random_between(r, -.4, .4);
    }
}

/* Quantises the model with its own input as samples, and writes it and its results. */
static pst_status run_quantised(char **args, const struct graph *g, const float *params, const float *input, size_t n,
                                const struct onnx_options *options, pst_error *error)
{
    struct graph *folded = NULL;
    struct quant_calibration *c = NULL;
    struct quant_model *q = NULL;
    struct infer_plan *plan = NULL;
    struct infer_context *context = NULL;
    struct onnx_options o = *options;
    float *own = NULL, *out = NULL;
    char path[4096];
    pst_status st = graph_fold(&folded, &own, g, params, error);
    if (st < 0)
        return st;
    struct quant_range *ranges = calloc(folded->count + 1, sizeof(*ranges));
    size_t count = n * shape_values(graph_shape(folded, folded->count));
    out = calloc(count, sizeof(float));
    if (!ranges || !out)
        abort();
    st = quant_calibration_create(&c, folded, own, error);
    if (st == PST_OK)
        st = quant_calibration_feed(c, input, n, error);
    if (st == PST_OK)
        st = quant_calibration_ranges(c, QUANT_MINMAX, 0, ranges, error);
    if (st == PST_OK)
        st = quant_create(&q, folded, own, ranges, NULL, error);
    if (st == PST_OK)
        st = infer_plan_create(&plan, q->graph, NULL, &(struct infer_options){.features = cpu_features(), .quant = q}, error);
    if (st == PST_OK)
        st = infer_context_create(&context, plan, 1, error);
    if (st == PST_OK) {
        const struct quant_value *last = &q->values[q->graph->count];
        float scale = last->form == QUANT_U8 ? last->scale : 0;
        infer_run(context, input, PST_DTYPE_F32, n, out);
        write_floats(args[4], "output.f32", out, count);
        write_floats(args[4], "scale.f32", &scale, 1);
        snprintf(path, sizeof(path), "%s/model.onnx", args[4]);
        o.quant = q;
        quant_dequantise(q, own);
        st = onnx_save(path, q->graph, own, &o, true, error);
    }
    infer_context_destroy(context);
    infer_plan_destroy(plan);
    quant_unref(q);
    quant_calibration_destroy(c);
    graph_destroy(folded);
    mem_free(own);
    free(ranges), free(out);
    return st;
}

static pst_status run(char **args, pst_error *error)
{
    static const char *const classes[] = {"cat", "dog \"big\"", "häuschen"};
    struct shape in = {.rank = 3};
    size_t n = (size_t)atoi(args[3]);
    struct random r;
    if (sscanf(args[1], "%ux%ux%u", &in.h, &in.w, &in.c) != 3)
        in = (struct shape){.rank = 1, .h = 1, .w = 1, .c = (uint32_t)atoi(args[1])};
    struct graph *g = NULL;
    struct step *s = NULL;
    const void *out;
    pst_status st = graph_create(&g, args[0], &in, error);
    if (st < 0)
        return st;
    float *params = calloc(g->values + 1, sizeof(float)), *input = calloc(n * shape_values(&in), sizeof(float));
    if (!params || !input)
        abort();
    random_init(&r, 3, 0, 0, 0);
    fill_params(g, params, &r);
    for (size_t i = 0; i < n * shape_values(&in); i++)
        input[i] = (float)random_between(&r, -1, 1);
    st = step_create(&s, g, &(struct step_options){.batch = n, .features = cpu_features()}, error);
    if (st == PST_OK)
        st = step_forward(s, input, PST_DTYPE_F32, n, params, false, &out, error);
    struct onnx_options o = {.nhwc = strcmp(args[2], "nhwc") == 0,
                             .classes = classes,
                             .class_count = 3,
                             .preprocessing = "decode | resize 32",
                             .model = args[0]};
    if (st == PST_OK)
        write_floats(args[4], "input.f32", input, n * shape_values(&in));
    if (st == PST_OK && args[5])
        st = run_quantised(args, g, params, input, n, &o, error);
    if (st == PST_OK && !args[5]) {
        char path[4096];
        write_floats(args[4], "output.f32", out, n * shape_values(step_out_shape(s)));
        snprintf(path, sizeof(path), "%s/model.onnx", args[4]);
        st = onnx_save(path, g, params, &o, true, error);
    }
    step_destroy(s);
    graph_destroy(g);
    free(params), free(input);
    return st;
}

int main(int argc, char **argv)
{
    pst_error error = {0};
    char text[512];
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: onnx_dump TEXT HxWxC|C nchw|nhwc SAMPLES FOLDER [int8]\n");
        return 2;
    }
    pst_status st = run(argv + 1, &error);
    if (st < 0)
        fprintf(stderr, "%s %s\n", pst_status_name(st), pst_error_text(&error, text, sizeof(text)));
    return st < 0;
}
