/* test_channels.c: models with fewer channels compute what the original computes when it ignores those channels. */
#include "base/cpu.h"
#include "base/memory.h"
#include "base/random.h"
#include "compress/channels.h"
#include "harness.h"
#include "model/graph_write.h"
#include "model/preset.h"
#include "model/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 3

static const char *const models[] = {
    "conv 16 3 relu | maxpool 2 | conv 32 3 relu | flatten | dense 40 relu | dense 10",
    /* additions tie channels: the first convolution, both shortcuts and both branches of the first stage go together */
    "conv 16 3 pad=same bias=false | batchnorm | relu | repeat 2 ( residual relu ( conv 16 3 pad=same bias=false | batchnorm | relu | "
    "conv 16 3 pad=same bias=false | batchnorm ) ) | residual relu ( conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | "
    "conv 32 3 pad=same bias=false | batchnorm ) | globalavgpool | dense 10",
    /* depthwise layers pass channels on */
    "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6 | dwconv 3 pad=same bias=false | batchnorm | relu6 | conv 32 1 "
    "bias=false | batchnorm | relu6 | dwconv 3 stride=2 pad=same | relu6 | conv 48 1 bias=false | batchnorm | relu6 | globalavgpool | dense 10",
    "conv 16 3 tanh | concat ( conv 16 1 )( conv 24 3 relu pad=same | maxpool 3 stride=1 pad=same ) | avgpool 2 | conv 16 1 gelu | flatten | dense 24 sigmoid | "
    "dense 3",
    "conv 16 3 relu | sepconv 32 3 relu pad=same | conv 32 3 groups=2 pad=same | leaky | dense 24 relu | layernorm | globalavgpool | dense 4",
    "conv 16 3 relu pad=same | residual ( conv 16 3 pad=same | batchnorm )( conv 16 1 | batchnorm ) | conv 16 1 silu | globalavgpool | dense 5 | softmax",
};
#define MODELS (sizeof(models) / sizeof(models[0]))

static const struct shape image = {.rank = 3, .h = 12, .w = 12, .c = 3};

static float *run(const struct graph *g, float *params, const float *in, size_t *ret_count)
{
    struct step *s = NULL;
    const void *out = NULL;
    pst_error error;
    struct step_options o = {.batch = SAMPLES, .threads = 1, .features = cpu_features()};
    CHECK_STATUS(step_create(&s, g, &o, &error), PST_OK, &error);
    CHECK_STATUS(step_forward(s, in, PST_DTYPE_F32, SAMPLES, params, false, &out, &error), PST_OK, &error);
    *ret_count = SAMPLES * shape_values(step_out_shape(s));
    float *copy = malloc(*ret_count * sizeof(float));
    memcpy(copy, out, *ret_count * sizeof(float));
    step_destroy(s);
    return copy;
}

static uint64_t flops_of(const struct graph *g)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < g->count; i++)
        sum += g->nodes[i].layer->flops ? g->nodes[i].layer->flops(g->nodes[i].config, g->nodes[i].in, &g->nodes[i].out) : 0;
    return sum;
}

static void check_model(const char *text, const struct shape *input, double share, pst_channel_norm norm)
{
    struct graph *g = NULL, *small = NULL;
    struct channels *c = NULL;
    struct random r;
    pst_error error;
    char *written = NULL;
    float *shrunken = NULL;
    size_t wide, narrow;
    REQUIRE_OK(graph_create(&g, text, input, &error), &error);
    float *params = malloc((g->values + 16) * sizeof(float)), *in = malloc(SAMPLES * shape_values(input) * sizeof(float));
    random_init(&r, 17, 0, 0, 0);
    graph_init_params(g, 2, params);
    for (size_t i = 0; i < g->param_count; i++)
        for (size_t k = 0; g->params[i].layer.rank == 1 && k < g->params[i].count; k++)
            params[g->params[i].offset + k] += (float)random_between(&r, 0.05, 0.5);
    for (size_t i = 0; i < SAMPLES * shape_values(input); i++)
        in[i] = (float)random_between(&r, -1, 1);
    REQUIRE_OK(channels_create(&c, g, params, norm, &error), &error);
    CHECK_INT(channels_flops(c), flops_of(g));
    REQUIRE_OK(channels_reduce(c, share, &error), &error);
    REQUIRE_OK(channels_shrink(c, &written, &small, &shrunken, &error), &error);
    CHECK_MSG((double)flops_of(small) <= share * (double)flops_of(g), "%s: %g of %g operations", text, (double)flops_of(small), (double)flops_of(g));
    CHECK_INT(channels_flops(c), flops_of(small));
    channels_ignore(c, params);
    float *a = run(g, params, in, &wide), *b = run(small, shrunken, in, &narrow);
    CHECK_INT(narrow, wide);
    double most = 0, apart = 0;
    for (size_t i = 0; i < wide && i < narrow; i++) {
        most = fmax(most, fabs((double)a[i]));
        apart = fmax(apart, fabs((double)a[i] - (double)b[i]));
    }
    CHECK_MSG(apart <= 1e-5 * most + 1e-6, "%s: %g apart, largest %g\n%s", text, apart, most, written);
    free(a), free(b), free(params), free(in);
    mem_free(shrunken);
    mem_free(written);
    channels_destroy(c);
    graph_destroy(g);
    graph_destroy(small);
}

static void test_equal(void)
{
    for (size_t i = 0; i < MODELS; i++)
        for (int norm = PST_CHANNEL_L1; norm <= PST_CHANNEL_SCALE; norm++)
            check_model(models[i], &image, i == 4 ? 0.95 : 0.5, (pst_channel_norm)norm);
}

static void test_presets(void)
{
    static const struct shape small = {.rank = 3, .h = 32, .w = 32, .c = 3};
    static const char *const names[] = {"resnet20", "mobilenet"};
    for (size_t i = 0; i < 2; i++) {
        char *text = NULL;
        pst_error error;
        REQUIRE_OK(pst_preset_text(names[i], &text, &error), &error);
        check_model(text, &small, 0.5, PST_CHANNEL_L1);
        pst_free(text);
    }
}

/* The least important go first: a layer whose kernels grow with the channel keeps the last ones. */
static void test_order(void)
{
    struct graph *g = NULL, *small = NULL;
    struct channels *c = NULL;
    pst_error error;
    char *text = NULL;
    float *params = NULL;
    size_t all;
    REQUIRE_OK(graph_create(&g, "conv 16 1 bias=false | globalavgpool | dense 2", &image, &error), &error);
    float *w = calloc(g->values, sizeof(float));
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 16; k++)
            w[g->params[0].offset + i * 16 + k] = (float)(k + 1);
    for (size_t i = 0; i < 32; i++)
        w[g->params[1].offset + i] = (float)i;
    REQUIRE_OK(channels_create(&c, g, w, PST_CHANNEL_L2, &error), &error);
    REQUIRE(channels_sets(c) == 1);
    CHECK_STR(channels_set_name(c, 0), "conv_1");
    CHECK(channels_remove(c, 0) && channels_left(c, 0, &all) == 8 && all == 16);
    CHECK(!channels_remove(c, 0)); /* a quarter stays, in whole vectors */
    REQUIRE_OK(channels_shrink(c, &text, &small, &params, &error), &error);
    CHECK(small->nodes[0].out.c == 8 && params[small->params[0].offset] == 9 && params[small->params[1].offset] == 16);
    CHECK_STATUS(channels_reduce(c, 0.01, &error), PST_ELIMIT, &error);
    channels_restore(c, 0);
    CHECK_INT(channels_left(c, 0, &all), 16);
    mem_free(text);
    mem_free(params);
    free(w);
    channels_destroy(c);
    graph_destroy(g);
    graph_destroy(small);
}

/* Layers that are named keep all their channels, and so do those that an addition ties to them. */
static void test_keep(void)
{
    static const char text[] = "conv 16 3 pad=same | residual ( conv 16 3 pad=same ) | conv 32 3 | relu | conv 24 3 | batchnorm | globalavgpool | dense 4";
    struct graph *g = NULL, *small = NULL;
    struct channels *c = NULL;
    pst_error error;
    char *written = NULL;
    float *shrunken = NULL;
    REQUIRE_OK(graph_create(&g, text, &image, &error), &error);
    float *params = malloc((g->values + 16) * sizeof(float));
    graph_init_params(g, 2, params);
    REQUIRE_OK(channels_create(&c, g, params, PST_CHANNEL_L1, &error), &error);
    CHECK_STATUS(channels_keep(c, "nope", &error), PST_EINVAL, &error);
    CHECK_STATUS(channels_keep(c, "relu_1", &error), PST_EINVAL, &error);
    REQUIRE_OK(channels_keep(c, "conv_2", &error), &error);
    REQUIRE_OK(channels_keep(c, "batchnorm_*", &error), &error);
    CHECK_STATUS(channels_reduce(c, 0.01, &error), PST_ELIMIT, &error);
    REQUIRE_OK(channels_shrink(c, &written, &small, &shrunken, &error), &error);
    static const struct {
        const char *name;
        size_t left;
    } want[] = {{"conv_1", 16}, {"conv_2", 16}, {"conv_3", 8}, {"conv_4", 24}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
        CHECK_INT(graph_find_node(small, want[i].name)->out.c, want[i].left);
    free(params);
    mem_free(shrunken);
    mem_free(written);
    channels_destroy(c);
    graph_destroy(g);
    graph_destroy(small);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"equal to ignored channels", test_equal}, {"presets", test_presets}, {"order", test_order}, {"keep", test_keep}, {0}};
    return test_main(argc, argv, tests);
}
