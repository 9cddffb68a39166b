/* bench_train_f64.c: the first losses of a model computed in float64 with the reference layers, and how far a float32 run of
 * the same steps is from them: the yardstick for rounding.
 *
 *     bench_train_f64 --model M --batch 8 --steps 50 [--isa plain|c|avx2] [--part N]
 *
 * --isa plain: the reference layers. --part: train on samples N · batch and following.
 *
 * Prints one line per step: the loss in float64, the loss in float32, and the distance between both runs' weights over the
 * distance that the weights have gone (root mean square). */
#include "base/cpu.h"
#include "model/model.h"
#include "model/step.h"
#include "train_models.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE    1e-3
#define BETA1   0.9
#define BETA2   0.999
#define EPSILON 1e-7

/* One run, in float or in double. */
struct run {
    bool doubles;
    struct step *step;
    void *params, *grads, *dout;
    double *m, *v; /* in double in both: the optimiser's own rounding is another question */
};

static double get(const struct run *r, const void *block, size_t i)
{
    return r->doubles ? ((const double *)block)[i] : ((const float *)block)[i];
}

static void set(const struct run *r, void *block, size_t i, double v)
{
    if (r->doubles)
        ((double *)block)[i] = v;
    else
        ((float *)block)[i] = (float)v;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench_train_f64: %s\n", what);
    return 1;
}

static bool start(struct run *r, const struct graph *g, const struct step_options *o, const float *params)
{
    pst_error error;
    size_t size = r->doubles ? sizeof(double) : sizeof(float);
    struct step_options options = *o;
    options.doubles = r->doubles;
    if (step_create(&r->step, g, &options, &error) < 0)
        return false;
    r->params = calloc(g->values, size);
    r->grads = calloc(g->values, size);
    r->dout = calloc(o->batch * shape_values(step_out_shape(r->step)), size);
    r->m = calloc(g->values, sizeof(double));
    r->v = calloc(g->values, sizeof(double));
    if (!r->params || !r->grads || !r->dout || !r->m || !r->v)
        return false;
    for (size_t i = 0; i < g->values; i++)
        set(r, r->params, i, params[i]);
    return true;
}

static void finish(struct run *r)
{
    step_destroy(r->step);
    free(r->params), free(r->grads), free(r->dout), free(r->m), free(r->v);
}

/* Mean softmax cross-entropy, and its gradient. */
static double loss(const struct run *r, const void *out, const int64_t *labels, size_t n, size_t width)
{
    double sum = 0;
    for (size_t s = 0; s < n; s++) {
        double most = -INFINITY, total = 0;
        for (size_t k = 0; k < width; k++)
            most = fmax(most, get(r, out, s * width + k));
        for (size_t k = 0; k < width; k++)
            total += exp(get(r, out, s * width + k) - most);
        sum += log(total) + most - get(r, out, s * width + (size_t)labels[s]);
        for (size_t k = 0; k < width; k++)
            set(r, r->dout, s * width + k, (exp(get(r, out, s * width + k) - most) / total - ((size_t)labels[s] == k)) / (double)n);
    }
    return sum / (double)n;
}

static void update(struct run *r, const struct graph *g, unsigned t)
{
    double rate = RATE * sqrt(1 - pow(BETA2, t)) / (1 - pow(BETA1, t));
    for (size_t p = 0; p < g->param_count; p++)
        for (size_t i = g->params[p].offset; !g->params[p].layer.fixed && i < g->params[p].offset + g->params[p].count; i++) {
            double x = get(r, r->grads, i);
            r->m[i] += (x - r->m[i]) * (1 - BETA1);
            r->v[i] += (x * x - r->v[i]) * (1 - BETA2);
            set(r, r->params, i, get(r, r->params, i) - rate * r->m[i] / (sqrt(r->v[i]) + EPSILON));
        }
}

static double train(struct run *r, const struct graph *g, const float *images, const int64_t *labels, size_t batch, unsigned t)
{
    pst_error error;
    const void *out;
    if (step_forward(r->step, images, PST_DTYPE_F32, batch, r->params, true, &out, &error) < 0)
        return NAN;
    double l = loss(r, out, labels, batch, shape_values(step_out_shape(r->step)));
    step_backward(r->step, r->dout, r->grads);
    update(r, g, t);
    return l;
}

/* How far apart the weights of both runs are, over how far they have gone. */
static double distance(const struct run *a, const struct run *b, const struct graph *g, const float *begin)
{
    double apart = 0, gone = 1e-300;
    for (size_t p = 0; p < g->param_count; p++)
        for (size_t i = g->params[p].offset; !g->params[p].layer.fixed && i < g->params[p].offset + g->params[p].count; i++) {
            double x = get(a, a->params, i), y = get(b, b->params, i);
            apart += (x - y) * (x - y);
            gone += (x - begin[i]) * (x - begin[i]);
        }
    return sqrt(apart / gone);
}

static int compare(const struct graph *g, struct step_options o, unsigned steps, const float *images, const int64_t *labels)
{
    struct run wide = {.doubles = true}, narrow = {0};
    float *params = calloc(g->values, sizeof(float));
    if (!params)
        return fail("out of memory");
    graph_init_params(g, 0, params);
    train_start_weights(g, params);
    bool ok = start(&wide, g, &o, params) && start(&narrow, g, &o, params);
    for (unsigned t = 1; ok && t <= steps; t++) {
        double exact = train(&wide, g, images, labels, o.batch, t), rounded = train(&narrow, g, images, labels, o.batch, t);
        printf("%u %.9f %.9f %.3g\n", t, exact, rounded, distance(&wide, &narrow, g, params));
        fflush(stdout);
    }
    finish(&wide);
    finish(&narrow);
    free(params);
    return ok ? 0 : fail("out of memory");
}

int main(int argc, char **argv)
{
    const char *model = "S3", *isa = "";
    struct step_options o = {.batch = 8, .threads = 2, .training = true};
    unsigned steps = 50;
    size_t part = 0;
    uint32_t side;
    pst_error error;
    for (int i = 1; i + 1 < argc; i += 2) {
        model = strcmp(argv[i], "--model") == 0 ? argv[i + 1] : model;
        isa = strcmp(argv[i], "--isa") == 0 ? argv[i + 1] : isa;
        o.batch = strcmp(argv[i], "--batch") == 0 ? strtoul(argv[i + 1], NULL, 10) : o.batch;
        part = strcmp(argv[i], "--part") == 0 ? strtoul(argv[i + 1], NULL, 10) : part;
        steps = strcmp(argv[i], "--steps") == 0 ? (unsigned)strtoul(argv[i + 1], NULL, 10) : steps;
    }
    const char *text = train_model_text(model, &side);
    if (!text || o.batch == 0 || argc % 2 == 0)
        return fail("usage: bench_train_f64 --model S1|S2|S3|M|R [--batch N] [--steps N] [--isa plain|c|avx2] [--part N]");
    o.features = strcmp(isa, "c") == 0 ? 0 : cpu_features();
    o.reference = strcmp(isa, "plain") == 0;
    pst_model *m = NULL;
    size_t values = (size_t)side * side * 3, samples = o.batch * (part + 1);
    float *images = malloc(samples * values * sizeof(float));
    int64_t *labels = malloc(samples * sizeof(*labels));
    int code = 1;
    if (!images || !labels) {
        fail("out of memory");
    } else {
        train_start_data(samples, values, images, labels);
        code = pst_model_parse(&m, text, &(pst_shape){.rank = 3, .size = {side, side, 3}}, &error) < 0 ? fail(error.message)
                                                                                                      : compare(m->graph, o, steps, images + part * o.batch * values, labels + part * o.batch);
    }
    pst_model_destroy(m);
    free(images), free(labels);
    return code;
}
