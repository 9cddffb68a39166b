/* bench_infer.c: predictions per second of the models that inference engines are compared with.
 *
 *     bench_infer --model S3|M|R --batch 64 --threads 2 --kind fp32        prints `step N` after each batch, until it is stopped
 *     … --seconds 2        prints images per second instead, the best of windows of a tenth
 *     … --profile          prints the time and the kernel of each operation
 *     … --kind int8        quantised, each layer by the fastest kernel; --small: int8 kernels only
 *     … --onnx FILE        that model instead; --check EXPECTED.npy then compares with those results of the same images (without a name:
 *                          OUT/MODEL-expected.npy beside OUT/MODEL-fp32.onnx)
 *     … --memory           prints bytes of weights and of a call
 *     … --check            compares with the reference: exit 1 where a logit is off by more than 1e-3 from the model in double, or int8 differs
 *                          from the plain C meaning of the integers where all layers run in integers */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "export/onnx_import.h"
#include "infer/choose.h"
#include "infer/infer.h"
#include "model/fold.h"
#include "model/model.h"
#include "model/step.h"
#include "quant/calibrate.h"
#include "quant/float_node.h"
#include "io/file.h"
#include "io/npy.h"
#include "train_models.h"

#include <math.h>
#include <penstock/predict.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST   16  /* images whose statistics batch normalisation has */
#define SAMPLES 256 /* images that quantisation is calibrated with */

struct settings {
    const char *model, *kind, *onnx, *expected;
    size_t batch;
    unsigned threads;
    double seconds;
    bool check, profile, small, memory, int8;
};

/* A model ready to run. */
struct subject {
    pst_model *model;
    float *params; /* of the model */
    struct graph *folded;
    float *folded_params;
    struct quant_model *quant; /* NULL: fp32 */
    struct infer_plan *plan;
    struct infer_context *context;
    size_t values, width; /* per sample */
    float *images, *out;
};

static int fail(const char *what)
{
    fprintf(stderr, "bench_infer: %s\n", what);
    return 1;
}

/* Gives batch normalisation the statistics of the first images, as if the model had been trained. */
static pst_status start_statistics(const struct graph *g, float *params, const float *images, pst_error *error)
{
    float **values = calloc(g->count + 1, sizeof(float *));
    pst_status st = values ? PST_OK : pst_fail(error, PST_ENOMEM, "out of memory");
    for (size_t i = 0; st == PST_OK && i < g->count; i++) {
        const struct graph_node *n = &g->nodes[i];
        const struct graph_param *p = &g->params[n->first_param];
        const float *own[LAYER_MAX_PARAMS] = {NULL}, *in[LAYER_MAX_INPUTS];
        struct float_node *f = NULL;
        for (size_t k = 0; k < n->inputs; k++)
            in[k] = n->input[k] ? values[n->input[k]] : images;
        for (size_t k = 0; k < n->params; k++)
            own[k] = params + p[k].offset;
        for (size_t c = 0, count = FIRST * shape_values(&n->out); n->params == 4 && c < n->out.c; c++) {
            double sum = 0, squares = 0, size = (double)(count / n->out.c);
            for (size_t k = c; k < count; k += n->out.c) {
                sum += (double)in[0][k];
                squares += (double)in[0][k] * (double)in[0][k];
            }
            params[p[2].offset + c] = (float)(sum / size);
            params[p[3].offset + c] = (float)(squares / size - sum / size * sum / size);
        }
        values[i + 1] = malloc(FIRST * shape_values(&n->out) * sizeof(float));
        st = values[i + 1] ? float_node_create(&f, n, own, cpu_features(), -INFINITY, INFINITY, error) : pst_fail(error, PST_ENOMEM, "out of memory");
        void *scratch = st == PST_OK ? mem_aligned(float_node_scratch(f, FIRST)) : NULL;
        if (scratch)
            float_node_run(f, FIRST, in, values[i + 1], scratch);
        mem_free(scratch);
        float_node_destroy(f);
    }
    for (size_t i = 0; values && i <= g->count; i++)
        free(values[i]);
    free(values);
    return st;
}

/* Quantises the model with its own images as samples. */
static pst_status quantise(struct subject *u, const struct settings *s, pst_error *error)
{
    struct quant_calibration *c = NULL;
    struct quant_range *ranges = calloc(u->folded->count + 1, sizeof(*ranges));
    pst_status st = ranges ? quant_calibration_create(&c, u->folded, u->folded_params, error) : pst_fail(error, PST_ENOMEM, "out of memory");
    if (st == PST_OK)
        st = quant_calibration_feed(c, u->images, SAMPLES, error);
    if (st == PST_OK)
        st = quant_calibration_ranges(c, QUANT_MINMAX, 0, ranges, error);
    if (st == PST_OK)
        st = quant_create(&u->quant, u->folded, u->folded_params, ranges, NULL, error);
    if (st == PST_OK && !s->small)
        st = infer_choose(u->quant, u->images, 64, error);
    quant_calibration_destroy(c);
    free(ranges);
    return st;
}

static pst_status open_text(struct subject *u, const char *model, pst_error *error)
{
    uint32_t side = 0;
    const char *text = train_model_text(model, &side);
    if (!text)
        return pst_fail(error, PST_EINVAL, "there is no model %s; expected S3, M or R", model);
    pst_status st = pst_model_parse(&u->model, text, &(pst_shape){.rank = 3, .size = {side, side, 3}}, error);
    u->params = st == PST_OK ? mem_large(u->model->graph->values * sizeof(float)) : NULL;
    return st == PST_OK && !u->params ? pst_fail(error, PST_ENOMEM, "out of memory") : st;
}

static pst_status open_onnx(struct subject *u, const char *path, pst_error *error)
{
    struct onnx_model m = {0};
    pst_status st = onnx_import(&m, path, error);
    if (st < 0)
        return st;
    pst_shape in = shape_public(&m.graph->input);
    st = pst_model_parse(&u->model, m.text, &in, error); /* the same text: the same places of parameters */
    u->params = m.params;
    m.params = NULL;
    onnx_model_finish(&m);
    return st;
}

static pst_status subject_open(struct subject *u, const struct settings *s, pst_error *error)
{
    pst_status st = s->onnx ? open_onnx(u, s->onnx, error) : open_text(u, s->model, error);
    if (st < 0)
        return st;
    const struct graph *g = u->model->graph;
    struct infer_options o = {.features = cpu_features(), .logits = true};
    u->values = shape_values(&g->input);
    size_t images = s->batch < SAMPLES ? SAMPLES : s->batch;
    u->images = malloc(images * u->values * sizeof(float));
    int64_t *labels = malloc(images * sizeof(*labels));
    st = u->params && u->images && labels ? PST_OK : pst_fail(error, PST_ENOMEM, "out of memory");
    if (st == PST_OK)
        train_start_data(images, u->values, u->images, labels);
    if (st == PST_OK && !s->onnx) {
        graph_init_params(g, 0, u->params);
        train_start_weights(g, u->params);
        st = start_statistics(g, u->params, u->images, error);
    }
    if (st == PST_OK)
        st = graph_fold(&u->folded, &u->folded_params, g, u->params, error);
    free(labels);
    if (st == PST_OK && s->int8)
        st = quantise(u, s, error);
    o.quant = u->quant;
    o.small = s->small;
    if (st == PST_OK)
        st = infer_plan_create(&u->plan, u->quant ? u->quant->graph : u->folded, u->folded_params, &o, error);
    if (st == PST_OK)
        st = infer_context_create(&u->context, u->plan, s->threads, error);
    if (st == PST_OK) {
        u->width = shape_values(infer_out_shape(u->plan));
        u->out = malloc(s->batch * u->width * sizeof(float));
        st = u->out ? PST_OK : pst_fail(error, PST_ENOMEM, "out of memory");
    }
    return st;
}

static void subject_close(struct subject *u)
{
    infer_context_destroy(u->context);
    infer_plan_destroy(u->plan);
    quant_unref(u->quant);
    graph_destroy(u->folded);
    mem_free(u->folded_params);
    pst_model_destroy(u->model);
    mem_free(u->params);
    free(u->images), free(u->out);
}

/* The largest distance of a logit from the unfolded model in double. */
static int check(struct subject *u, const struct settings *s)
{
    const struct graph *g = u->model->graph;
    double *params = malloc(g->values * sizeof(double)), worst = 0;
    struct step *step = NULL;
    const void *want = NULL;
    pst_error error;
    for (size_t i = 0; params && i < g->values; i++)
        params[i] = (double)u->params[i];
    pst_status st = params ? step_create(&step, g, &(struct step_options){.batch = s->batch, .logits = true, .doubles = true}, &error)
                           : pst_fail(&error, PST_ENOMEM, "out of memory");
    if (st == PST_OK)
        st = step_forward(step, u->images, PST_DTYPE_F32, s->batch, params, false, &want, &error);
    infer_run(u->context, u->images, PST_DTYPE_F32, s->batch, u->out);
    for (size_t i = 0; st == PST_OK && i < s->batch * u->width; i++)
        worst = fmax(worst, fabs((double)u->out[i] - ((const double *)want)[i]));
    step_destroy(step);
    free(params);
    if (st < 0)
        return fail(error.message);
    printf("%s: logits differ by at most %.3g from the reference in double\n", s->model, worst);
    return worst < 1e-3 ? 0 : 1;
}

/* Whether the integers are those of the plain C meaning, and how far they are from the floats. */
static int check_int8(struct subject *u, const struct settings *s)
{
    size_t count = s->batch * u->width, floats = 0;
    float *want = malloc(count * sizeof(float));
    double worst = 0;
    pst_error error;
    if (!want || quant_reference(u->quant, u->images, s->batch, want, NULL, &error) < 0) {
        free(want);
        return fail("the reference failed");
    }
    infer_run(u->context, u->images, PST_DTYPE_F32, s->batch, u->out);
    for (size_t i = 0; i < count; i++)
        worst = fmax(worst, fabs((double)u->out[i] - (double)want[i]));
    for (size_t i = 0; !s->small && i < u->quant->graph->count; i++)
        floats += u->quant->layers[i].run == QUANT_RUN_FLOAT;
    free(want);
    printf("%s int8: %zu layers in fp32, logits differ by at most %.3g from the reference in integers\n", s->model, floats, worst);
    return floats || worst == 0 ? 0 : 1;
}

/* Compares with MODEL-expected.npy beside MODEL-fp32.onnx: exit 1 where the relative error is above 1e-4, or a tenth for int8. */
static int check_expected(struct subject *u, const struct settings *s)
{
    char path[4096];
    uint8_t *bytes = NULL;
    size_t length = 0, count = s->batch * u->width, same = 0;
    struct npy_header h;
    pst_error error;
    double distance = 0, size = 0;
    int folder = (int)(strlen(s->onnx) > 10 ? strlen(s->onnx) - strlen("-fp32.onnx") : 0);
    snprintf(path, sizeof(path), "%.*s-expected.npy", folder, s->onnx);
    if (s->expected)
        snprintf(path, sizeof(path), "%s", s->expected);
    if (file_read_all(&bytes, &length, path, 1 << 30, &error) < 0 || npy_parse(&h, bytes, length, length, path, &error) < 0)
        return fail(error.message);
    if (h.kind != 'f' || h.width != 4 || h.rank != 2 || h.shape[1] != u->width || h.shape[0] < s->batch)
        return fail("the expected results have another shape");
    const float *want = (const float *)(const void *)(bytes + h.data_offset);
    infer_run(u->context, u->images, PST_DTYPE_F32, s->batch, u->out);
    for (size_t i = 0; i < count; i++) {
        distance += pow((double)u->out[i] - (double)want[i], 2);
        size += pow((double)want[i], 2);
    }
    for (size_t i = 0; i < s->batch; i++) {
        size_t a = 0, b = 0;
        for (size_t k = 1; k < u->width; k++) {
            a = want[i * u->width + k] > want[i * u->width + a] ? k : a;
            b = u->out[i * u->width + k] > u->out[i * u->width + b] ? k : b;
        }
        same += a == b;
    }
    mem_free(bytes);
    printf("%s ours %s batch %zu: relative error %.7f same class %.0f%%\n", s->model, s->kind, s->batch, sqrt(distance / size), 100. * (double)same / (double)s->batch);
    return sqrt(distance / size) < (s->int8 ? 0.1 : 1e-4) ? 0 : 1;
}

static void profile(struct subject *u, const struct settings *s)
{
    double sum = 0, work = 0;
    infer_measure(u->context, true);
    for (int i = 0; i < 200; i++)
        infer_run(u->context, u->images, PST_DTYPE_F32, s->batch, u->out);
    double share = (double)(s->batch < s->threads ? s->batch : s->batch / s->threads); /* worker 0 is measured */
    for (size_t i = 0; i < infer_op_count(u->plan); i++) {
        const struct infer_op *op = infer_op_at(u->plan, i);
        double flops = 0, us = (double)infer_time(u->context, i) / 1e3;
        for (size_t n = op->first; n < op->first + op->count; n++) {
            const struct graph_node *node = &u->folded->nodes[n]; /* the quantised graph has the same */
            flops += node->layer->flops ? (double)node->layer->flops(node->config, node->in, &node->out) : 0;
        }
        printf("%-24s %9.1f us %7.1f GFLOP/s  %s (%s)\n", u->folded->nodes[op->first].name, us / share, flops * share / us / 1e3, op->class->name,
               op->why);
        sum += us / share;
        work += flops;
    }
    printf("%-24s %9.1f us %7.1f GFLOP/s\n", "all", sum, work / sum / 1e3);
}

static void run(struct subject *u, const struct settings *s)
{
    uint64_t begin = clock_ns(), window = begin, steps = 0, best = 0;
    for (uint64_t i = 1;; i++) {
        infer_run(u->context, u->images, PST_DTYPE_F32, s->batch, u->out);
        if (s->seconds <= 0) {
            if (s->batch > 8 || i % 16 == 0) {
                printf("step %llu\n", (unsigned long long)i);
                fflush(stdout);
            }
            continue;
        }
        uint64_t now = clock_ns();
        steps++;
        if (now - window >= 100000000) {
            uint64_t rate = (uint64_t)((double)steps * (double)s->batch * 1e9 / (double)(now - window));
            best = rate > best ? rate : best;
            window = now;
            steps = 0;
        }
        if ((double)(now - begin) > s->seconds * 1e9)
            break;
    }
    printf("%s batch %zu threads %u: %llu images/s\n", s->model, s->batch, s->threads, (unsigned long long)best);
}

static bool read_arguments(struct settings *s, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--check") == 0) {
            s->check = true;
            if (v && v[0] != '-') {
                s->expected = v;
                i++;
            }
            continue;
        }
        if (strcmp(argv[i], "--small") == 0) {
            s->small = true;
            continue;
        }
        if (strcmp(argv[i], "--memory") == 0) {
            s->memory = true;
            continue;
        }
        if (strcmp(argv[i], "--profile") == 0) {
            s->profile = true;
            continue;
        }
        if (!v)
            return false;
        if (strcmp(argv[i], "--model") == 0)
            s->model = v;
        else if (strcmp(argv[i], "--kind") == 0)
            s->kind = v;
        else if (strcmp(argv[i], "--onnx") == 0)
            s->onnx = v;
        else if (strcmp(argv[i], "--batch") == 0)
            s->batch = strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--threads") == 0)
            s->threads = (unsigned)strtoul(v, NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            s->seconds = strtod(v, NULL);
        else
            return false;
        i++;
    }
    if (!s->model)
        s->model = s->onnx ? s->onnx : "S3";
    s->int8 = strcmp(s->kind, "int8") == 0;
    return s->batch > 0 && s->threads > 0 && (s->int8 || strcmp(s->kind, "fp32") == 0);
}

int main(int argc, char **argv)
{
    struct settings s = {.kind = "fp32", .batch = 64, .threads = 2};
    struct subject u = {0};
    pst_error error;
    int code = 0;
    if (!read_arguments(&s, argc, argv))
        return fail("usage: bench_infer --model S3|M|R [--batch N] [--threads N] [--kind fp32|int8] [--small] [--onnx FILE] [--check [EXPECTED.npy]] [--profile] [--memory] [--seconds N]");
    if (subject_open(&u, &s, &error) < 0)
        code = fail(error.message);
    else if (s.check)
        code = s.onnx ? check_expected(&u, &s) : s.int8 ? check_int8(&u, &s) : check(&u, &s);
    else if (s.memory)
        printf("%s %s%s: weights %llu bytes, a call %llu bytes\n", s.model, s.kind, s.small ? " small" : "",
               (unsigned long long)infer_weight_bytes(u.plan), (unsigned long long)infer_call_bytes(u.plan, s.threads));
    else if (s.profile)
        profile(&u, &s);
    else
        run(&u, &s);
    subject_close(&u);
    return code;
}
