/* test_graph.c: from text to nodes: shapes, names, parameters, defaults as in Keras, mistakes with their place. */
#include "harness.h"
#include "base/memory.h"
#include "model/graph.h"
#include <penstock/model.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct shape image = {.rank = 3, .h = 32, .w = 32, .c = 3};

static struct graph *build(const char *text, struct shape input)
{
    pst_error error = {0};
    struct graph *g = NULL;
    test_check_status(graph_create(&g, text, &input, &error), PST_OK, &error, __FILE__, __LINE__, text);
    return g;
}

static void check_shape(const char *text, uint32_t rank, uint32_t h, uint32_t w, uint32_t c)
{
    struct graph *g = build(text, image);
    if (!g)
        return;
    const struct shape *out = graph_shape(g, g->count);
    CHECK_MSG(out->rank == rank && out->h == h && out->w == w && out->c == c, "%s gives %u: %u×%u×%u", text, out->rank, out->h,
              out->w, out->c);
    graph_destroy(g);
}

/* Values computed with Keras. */
static void test_shapes(void)
{
    check_shape("conv 8 3", 3, 30, 30, 8);
    check_shape("conv 8 3 pad=same", 3, 32, 32, 8);
    check_shape("conv 8 3 stride=2 pad=same relu", 3, 16, 16, 8);
    check_shape("conv 8 3 stride=2", 3, 15, 15, 8);
    check_shape("conv 8 3 stride=2 pad=1", 3, 16, 16, 8);
    check_shape("conv 8 3 dilation=2", 3, 28, 28, 8);
    check_shape("dwconv 5 stride=3 pad=same", 3, 11, 11, 3);
    check_shape("maxpool 3", 3, 10, 10, 3);
    check_shape("maxpool 3 stride=2 pad=same", 3, 16, 16, 3);
    check_shape("flatten", 1, 1, 1, 3072);
    check_shape("globalavgpool | dense 7", 1, 1, 1, 7);
    check_shape("concat ( conv 4 1 )( conv 5 1 )", 3, 32, 32, 9);
    check_shape("residual ( conv 6 3 stride=2 pad=same )", 3, 16, 16, 6);
}

static void test_names(void)
{
    static const char *const want[] = {"conv_1", "relu_1", "head", "residual_1_shortcut", "residual_1_shortcut_batchnorm", "residual_1",
                                       "conv_2", "batchnorm_1", "dense_1"};
    struct graph *g = build("conv 4 3 relu | conv 8 1 name=head | residual ( conv 16 1 bias=false | batchnorm ) | flatten | dense 10", image);
    if (!g)
        return;
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        bool found = false;
        for (size_t k = 0; k < g->count; k++)
            found |= strcmp(g->nodes[k].name, want[i]) == 0;
        CHECK_MSG(found, "no layer is called %s", want[i]);
    }
    CHECK_STR(g->params[0].name, "conv_1/kernel");
    CHECK_STR(g->params[1].name, "conv_1/bias");
    graph_destroy(g);
}

/* ResNet-20 and MobileNet have as many parameters as their papers' code. */
static void test_counts(void)
{
    struct graph *g = build("conv 32 3 relu pad=same | conv 32 3 relu pad=same | maxpool 2 | conv 64 3 relu pad=same | conv 64 3 relu "
                            "pad=same | maxpool 2 | conv 128 3 relu pad=same | maxpool 2 | flatten | dense 10",
                            image);
    size_t count = 0;
    for (size_t i = 0; g && i < g->param_count; i++)
        count += g->params[i].count;
    CHECK_INT(count, 159914);
    graph_destroy(g);
}

static void test_start_values(void)
{
    struct graph *g = build("conv 16 3 | batchnorm | globalavgpool | dense 10", image);
    if (!g)
        return;
    float *a = calloc(g->values, sizeof(float)), *b = calloc(g->values, sizeof(float)), *c = calloc(g->values, sizeof(float));
    graph_init_params(g, 1, a);
    graph_init_params(g, 1, b);
    graph_init_params(g, 2, c);
    CHECK(memcmp(a, b, g->values * sizeof(float)) == 0);
    CHECK(memcmp(a, c, g->values * sizeof(float)) != 0);
    double limit = sqrt(6. / (27 + 144)), most = 0, sum = 0;
    for (size_t i = 0; i < g->params[0].count; i++) {
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
        sum += a[i];
    }
    CHECK(most <= limit && most > 0.95 * limit && fabs(sum / (double)g->params[0].count) < 0.1 * limit);
    CHECK(a[g->params[1].offset] == 0);                                       /* bias */
    CHECK(a[g->params[2].offset] == 1 && a[g->params[5].offset] == 1);        /* gamma, moving_variance */
    free(a), free(b), free(c);
    graph_destroy(g);
}

static void test_text(void)
{
    static const char *const models[] = {
        "conv 32 3 relu | maxpool 2 | flatten | dense 10",
        "repeat 2 ( residual relu ( conv 3 3 pad=same | batchnorm )( conv 3 1 ) ) | concat ( relu )( tanh ) | globalavgpool | dense 4",
    };
    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct graph *g = build(models[i], image);
        char *text = g ? graph_text(g) : NULL;
        struct graph *again = text ? build(text, image) : NULL;
        REQUIRE(again);
        CHECK_INT(again->count, g->count);
        CHECK_INT(again->values, g->values);
        char *second = graph_text(again);
        CHECK_STR(second, text);
        mem_free(text), mem_free(second);
        graph_destroy(g), graph_destroy(again);
    }
}

static void check_mistake(const char *text, pst_status want, const char *part, uint64_t offset)
{
    pst_error error = {0};
    struct graph *g = NULL;
    CHECK_STATUS(graph_create(&g, text, &image, &error), want, &error);
    CHECK_MSG(strstr(error.message, part) != NULL, "%s: \"%s\" is not in \"%s\"", text, part, error.message);
    CHECK_MSG(error.offset == offset, "%s: byte %llu", text, (unsigned long long)error.offset);
}

static void test_mistakes(void)
{
    check_mistake("conv 8 3 | cov 8 3", PST_EINVAL, "did you mean conv", 11);
    check_mistake("conv 8", PST_EINVAL, "size", 0);
    check_mistake("conv 8 40", PST_EINVAL, "does not fit", 0);
    check_mistake("flatten | conv 8 3", PST_ETYPE, "takes an image", 10);
    check_mistake("conv 8 3 groups=2", PST_EINVAL, "groups=2", 0);
    check_mistake("conv 8 3 pad=maybe", PST_EINVAL, "pad=maybe", 0);
    check_mistake("conv 8 3 name=a | conv 8 3 name=a", PST_EINVAL, "\"a\"", 18);
    check_mistake("repeat 2 ( sepconv 8 3 name=a pad=same )", PST_EINVAL, "a_depthwise", 11);
    check_mistake("add ( relu )( conv 8 1 )", PST_ETYPE, "differ", 0);
    check_mistake("relu | residual ( flatten )", PST_ETYPE, "shortcut", 7);
    check_mistake("residual ( conv 8 99 )", PST_EINVAL, "does not fit", 11);
    check_mistake("", PST_EINVAL, "no layer", 0);
}

/* Structs of programs that were built with older headers end earlier; what lies behind them stays. */
static void test_older_structs(void)
{
    pst_error error;
    pst_model *m = NULL;
    const pst_shape input = {.rank = 3, .size = {8, 8, 3}};
    REQUIRE_OK(pst_model_parse(&m, "conv 8 3 | flatten | dense 2", &input, &error), &error);
    pst_model_layer layer = {.size = offsetof(pst_model_layer, flops), .flops = 77};
    pst_model_param param = {.size = offsetof(pst_model_param, count), .count = 77};
    pst_layer_doc doc = {.size = offsetof(pst_layer_doc, example), .example = "none"};
    REQUIRE(pst_model_layer_at(m, 0, &layer) && pst_model_param_at(m, 0, &param) && pst_layer_at(0, &doc));
    CHECK_STR(layer.kind, "conv");
    CHECK(layer.parameters == 8 * 28 && layer.flops == 77 && param.rank > 0 && param.count == 77);
    CHECK(doc.doc && strcmp(doc.example, "none") == 0);
    CHECK(!pst_model_layer_at(m, 0, &(pst_model_layer){0}) && !pst_model_param_at(m, 0, &(pst_model_param){0}));
    pst_model_destroy(m);
}

static const struct test tests[] = {
    {"shapes", test_shapes},         {"names", test_names}, {"parameters", test_counts}, {"start values", test_start_values},
    {"text and back", test_text},    {"mistakes", test_mistakes}, {"older structs", test_older_structs},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
