/* bench_infer.c: predictions per second of the models that inference engines are compared with.
 *
 *     bench_infer --model S3|M|R --batch 64 --threads 2 --kind fp32        prints `step N` after each batch, until it is stopped
 *     … --seconds 2        prints images per second instead, the best of windows of a tenth
 *     … --profile          prints the time and the kernel of each operation
 *     … --check            compares with the reference in double: exit 1 where a logit is off by more than 1e-3 */
#include "base/clock.h"
#include "base/cpu.h"
#include "base/memory.h"
#include "infer/infer.h"
#include "model/fold.h"
#include "model/model.h"
#include "model/step.h"
#include "train_models.h"

#include <math.h>
#include <penstock/predict.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct settings {
    const char *model, *kind, *onnx;
    size_t batch;
    unsigned threads;
    double seconds;
    bool check, profile;
};

/* A model ready to run. */
struct subject {
    pst_model *model;
    float *params; /* of the model */
    struct graph *folded;
    float *folded_params;
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

/* Batch normalisation as if the model had been trained: other than 1 and 0. */
static void start_statistics(const struct graph *g, float *params)
{
    for (size_t i = 0; i < g->param_count; i++) {
        const struct graph_param *p = &g->params[i];
        for (size_t k = 0; p->layer.fixed && k < p->count; k++)
            params[p->offset + k] = p->layer.init == INIT_ONES ? 0.5f + 0.1f * (float)(k % 7) : 0.02f * (float)(k % 5);
    }
}

static pst_status subject_open(struct subject *u, const struct settings *s, pst_error *error)
{
    uint32_t side = 0;
    const char *text = train_model_text(s->model, &side);
    pst_status st = text ? pst_model_parse(&u->model, text, &(pst_shape){.rank = 3, .size = {side, side, 3}}, error)
                         : pst_fail(error, PST_EINVAL, "there is no model %s; expected S3, M or R", s->model);
    if (st < 0)
        return st;
    const struct graph *g = u->model->graph;
    struct infer_options o = {.features = cpu_features(), .logits = true};
    u->values = shape_values(&g->input);
    u->params = malloc(g->values * sizeof(float));
    u->images = malloc(s->batch * u->values * sizeof(float));
    int64_t *labels = malloc(s->batch * sizeof(*labels));
    st = u->params && u->images && labels ? PST_OK : pst_fail(error, PST_ENOMEM, "out of memory");
    if (st == PST_OK) {
        graph_init_params(g, 0, u->params);
        train_start_weights(g, u->params);
        start_statistics(g, u->params);
        train_start_data(s->batch, u->values, u->images, labels);
        st = graph_fold(&u->folded, &u->folded_params, g, u->params, error);
    }
    free(labels);
    if (st == PST_OK)
        st = infer_plan_create(&u->plan, u->folded, u->folded_params, &o, error);
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
    graph_destroy(u->folded);
    mem_free(u->folded_params);
    pst_model_destroy(u->model);
    free(u->params), free(u->images), free(u->out);
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
            const struct graph_node *node = &u->folded->nodes[n];
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
    return s->batch > 0 && s->threads > 0;
}

int main(int argc, char **argv)
{
    struct settings s = {.model = "S3", .kind = "fp32", .batch = 64, .threads = 2};
    struct subject u = {0};
    pst_error error;
    int code = 0;
    if (!read_arguments(&s, argc, argv))
        return fail("usage: bench_infer --model S3|M|R [--batch N] [--threads N] [--kind fp32|int8] [--onnx FILE] [--check] [--profile] [--seconds N]");
    if (strcmp(s.kind, "fp32") != 0)
        return fail("--kind int8 is not available in this build");
    if (s.onnx)
        return fail("--onnx is not available in this build");
    if (subject_open(&u, &s, &error) < 0)
        code = fail(error.message);
    else if (s.check)
        code = check(&u, &s);
    else if (s.profile)
        profile(&u, &s);
    else
        run(&u, &s);
    subject_close(&u);
    return code;
}
