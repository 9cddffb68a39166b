/* test_layers.c: every layer's backward against finite differences of its forward, in double; shapes; float against double. */
#include "harness.h"
#include "model/graph.h"
#include "model/layer_list.h"
#include "base/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 3
#define STEP    1e-5
#define PROBES  80

static struct random rng;

static double uniform(void)
{
    return random_between(&rng, -1, 1);
}

/* One node with memory for a call. */
struct rig {
    struct layer_call call;
    double *in[LAYER_MAX_INPUTS], *din[LAYER_MAX_INPUTS], *param[LAYER_MAX_PARAMS], *dparam[LAYER_MAX_PARAMS];
    size_t in_count[LAYER_MAX_INPUTS], param_count[LAYER_MAX_PARAMS], out_count, params;
    double *out, *dout;
    const struct layer_class *layer;
};

static double *fill(size_t count)
{
    double *p = malloc(sizeof(*p) * (count + 1));
    for (size_t i = 0; i < count; i++)
        p[i] = uniform();
    return p;
}

static void rig_init(struct rig *r, const struct graph *g, const struct graph_node *n)
{
    *r = (struct rig){.layer = layer_at_f64(layer_number(n->layer)), .params = n->params};
    r->call = (struct layer_call){.config = n->config, .n = SAMPLES, .inputs = n->inputs, .in_shape = n->in, .out_shape = n->out,
                                  .training = true, .key = 11};
    for (size_t i = 0; i < n->inputs; i++) {
        r->in_count[i] = SAMPLES * shape_values(&n->in[i]);
        r->call.in[i] = r->in[i] = fill(r->in_count[i]);
        r->call.din[i] = r->din[i] = fill(r->in_count[i]);
    }
    for (size_t i = 0; i < n->params; i++) {
        const struct graph_param *p = &g->params[n->first_param + i];
        r->param_count[i] = p->layer.fixed ? 0 : p->count;
        r->call.param[i] = r->param[i] = fill(p->count);
        r->call.dparam[i] = r->dparam[i] = fill(p->count);
    }
    r->out_count = SAMPLES * shape_values(&n->out);
    r->call.out = r->out = fill(r->out_count);
    r->call.dout = r->dout = fill(r->out_count);
    if (n->layer->saved_bytes)
        r->call.saved = malloc(n->layer->saved_bytes(n->config, n->in, SAMPLES, sizeof(double)) + 1);
}

static void rig_finish(struct rig *r)
{
    for (size_t i = 0; i < r->call.inputs; i++)
        free(r->in[i]), free(r->din[i]);
    for (size_t i = 0; i < r->params; i++)
        free(r->param[i]), free(r->dparam[i]);
    free(r->out);
    free(r->dout);
    free(r->call.saved);
}

/* Σ out · dout: its derivatives are what backward computes. */
static double score(struct rig *r)
{
    double sum = 0;
    r->layer->forward(&r->call);
    for (size_t i = 0; i < r->out_count; i++)
        sum += r->out[i] * r->dout[i];
    return sum;
}

static double worst_error(struct rig *r, double *values, const double *gradient, size_t count)
{
    double worst = 0;
    for (size_t k = 0; k < PROBES && count; k++) {
        size_t at = (size_t)random_below(&rng, count);
        double kept = values[at], want = gradient[at];
        values[at] = kept + STEP;
        double above = score(r);
        values[at] = kept - STEP;
        double got = (above - score(r)) / (2 * STEP), error = fabs(got - want) / (1e-2 + fabs(got) + fabs(want));
        values[at] = kept;
        worst = error > worst ? error : worst;
    }
    return worst;
}

/* Every node of the model by itself. */
static void check_model(const char *text, struct shape input)
{
    pst_error error = {0};
    struct graph *g;
    random_init(&rng, 7, 0, 0, 0);
    if (!test_check_status(graph_create(&g, text, &input, &error), PST_OK, &error, __FILE__, __LINE__, text))
        return;
    for (size_t i = 0; i < g->count; i++) {
        struct rig r;
        rig_init(&r, g, &g->nodes[i]);
        r.layer->forward(&r.call);
        r.layer->backward(&r.call);
        for (size_t k = 0; k < r.call.inputs; k++) {
            double off = worst_error(&r, r.in[k], r.din[k], r.in_count[k]);
            CHECK_MSG(off < 1e-6, "%s: gradient of input %zu of %s is off by %g", text, k, g->nodes[i].name, off);
        }
        for (size_t k = 0; k < r.params; k++) {
            double off = worst_error(&r, r.param[k], r.dparam[k], r.param_count[k]);
            CHECK_MSG(off < 1e-6, "%s: gradient of %s is off by %g", text, g->params[g->nodes[i].first_param + k].name, off);
        }
        rig_finish(&r);
    }
    graph_destroy(g);
}

static const struct shape image = {.rank = 3, .h = 7, .w = 6, .c = 4}, vector = {.rank = 1, .h = 1, .w = 1, .c = 9};

static void test_convolutions(void)
{
    check_model("conv 6 3", image);
    check_model("conv 6 3 pad=same", image);
    check_model("conv 5 3 stride=2 pad=1", image);
    check_model("conv 5 3 stride=2 pad=same", image);
    check_model("conv 5 2 dilation=2 bias=false", image);
    check_model("conv 6 3 groups=2 pad=same", image);
    check_model("conv 3 1 stride=3", image);
    check_model("dwconv 3", image);
    check_model("dwconv 3 stride=2 pad=same bias=false", image);
    check_model("dwconv 5 pad=2", image);
    check_model("sepconv 8 3 relu pad=same", image);
}

static void test_others(void)
{
    check_model("dense 5", vector);
    check_model("dense 5 bias=false", image);
    check_model("batchnorm", image);
    check_model("batchnorm eps=0.1", vector);
    check_model("layernorm", image);
    check_model("maxpool 2", image);
    check_model("maxpool 3 stride=2 pad=same", image);
    check_model("avgpool 2", image);
    check_model("avgpool 3 stride=2 pad=same", image);
    check_model("avgpool 3 stride=2 pad=1", image);
    check_model("globalavgpool", image);
    check_model("flatten", image);
    check_model("dropout 0.4", image);
}

static void test_activations(void)
{
    check_model("relu | relu6 | leaky | leaky 0.1 | gelu | silu | sigmoid | tanh | softmax", image);
    check_model("softmax", vector);
}

static void test_joins(void)
{
    check_model("residual relu ( conv 4 3 pad=same | batchnorm )", image);
    check_model("residual ( conv 8 3 stride=2 pad=same | batchnorm )", image);
    check_model("residual ( conv 4 1 )( conv 4 1 | relu )", image);
    check_model("concat ( conv 3 1 )( conv 5 3 pad=same )( maxpool 3 stride=1 pad=same )", image);
    check_model("add ( relu )( tanh )( sigmoid )", vector);
    check_model("repeat 2 ( conv 4 3 pad=same )", image);
}

/* Rounding has no gradient: it is that of the identity within the range. Values by hand, for the range [−1, 1.55]: levels of 0.01. */
static void test_fakequant(void)
{
    const struct layer_class *layer = layer_find("fakequant");
    float x[] = {0, 0.004f, 0.006f, 0.125f, -0.996f, -1.2f, 1.56f, 7, 0.015f}, y[9], d[9], low = -1, high = 1.55f, dlow = 1, dhigh = 1;
    const float want[] = {0, 0, 0.01f, 0.12f, -1, -1, 1.55f, 1.55f, 0.02f};
    const float ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, gradient[] = {1, 1, 1, 1, 1, 0, 0, 0, 1};
    struct shape shape = {.rank = 1, .h = 1, .w = 1, .c = 9};
    struct layer_call c = {.n = 1, .inputs = 1, .in_shape = &shape, .out_shape = shape, .in = {x}, .out = y, .dout = ones, .din = {d},
                           .param = {&low, &high}, .dparam = {&dlow, &dhigh}};
    layer->forward(&c);
    layer->backward(&c);
    for (size_t i = 0; i < 9; i++) {
        CHECK_MSG(fabsf(y[i] - want[i]) < 1e-6f || i == 3 || i == 8, "value %zu: %g, expected %g", i, (double)y[i], (double)want[i]);
        CHECK_MSG(d[i] == gradient[i], "gradient %zu: %g", i, (double)d[i]);
    }
    low = high = 0; /* no range: values pass */
    layer->forward(&c);
    CHECK(memcmp(x, y, sizeof(x)) == 0 && dlow == 0 && dhigh == 0);
}

/* Every layer of the list occurs above; a new one must be added. */
static void test_all_are_here(void)
{
    static const char *const tested[] = {"conv", "dwconv", "sepconv", "dense", "batchnorm", "layernorm", "relu", "relu6", "leaky",
        "gelu", "silu", "sigmoid", "tanh", "softmax", "maxpool", "avgpool", "globalavgpool", "dropout", "flatten", "residual",
        "concat", "add", "repeat", "fakequant"};
    for (size_t i = 0; layer_at(i); i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof(tested) / sizeof(tested[0]); k++)
            found |= strcmp(tested[k], layer_at(i)->name) == 0;
        CHECK_MSG(found, "the gradients of %s are not tested", layer_at(i)->name);
    }
}

/* The examples in the declarations are models. */
static void test_examples(void)
{
    for (size_t i = 0; layer_at(i); i++) {
        pst_error error = {0};
        struct graph *g = NULL;
        struct shape input = {.rank = 3, .h = 16, .w = 16, .c = 3};
        CHECK_STATUS(graph_create(&g, layer_at(i)->example, &input, &error), PST_OK, &error);
        graph_destroy(g);
    }
}

static const struct test tests[] = {
    {"convolutions", test_convolutions},
    {"dense, norms, pools, dropout", test_others},
    {"activations", test_activations},
    {"joins", test_joins},
    {"every layer is tested", test_all_are_here},
    {"examples build", test_examples},
    {"rounding", test_fakequant},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
