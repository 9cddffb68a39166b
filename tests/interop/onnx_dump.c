/* onnx_dump.c: a model with random weights as ONNX, beside what our own step computes: for tests in other languages.
 *
 *   onnx_dump TEXT HxWxC|C nchw|nhwc SAMPLES FOLDER     writes FOLDER/model.onnx, input.f32 and output.f32 (NHWC)
 *
 * An error goes to standard error as STATUS and its text; the exit status is then 1. */
#include "base/cpu.h"
#include "base/random.h"
#include "export/onnx.h"
#include "model/step.h"

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
    if (st == PST_OK) {
        char path[4096];
        struct onnx_options o = {.nhwc = strcmp(args[2], "nhwc") == 0,
                                 .classes = classes,
                                 .class_count = 3,
                                 .preprocessing = "decode | resize 32",
                                 .model = args[0]};
        write_floats(args[4], "input.f32", input, n * shape_values(&in));
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
    if (argc != 6) {
        fprintf(stderr, "usage: onnx_dump TEXT HxWxC|C nchw|nhwc SAMPLES FOLDER\n");
        return 2;
    }
    pst_status st = run(argv + 1, &error);
    if (st < 0)
        fprintf(stderr, "%s %s\n", pst_status_name(st), pst_error_text(&error, text, sizeof(text)));
    return st < 0;
}
