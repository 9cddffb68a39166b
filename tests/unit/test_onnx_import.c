/* test_onnx_import.c: ONNX files as models: what we export comes back, and operators that we do not write are read. test_onnx_hostile.c has
 * hostile files; files of PyTorch and Keras are compared with ONNX Runtime in tests/interop. */
#include "base/cpu.h"
#include "base/memory.h"
#include "export/onnx.h"
#include "harness.h"
#include "model/layer_list.h"
#include "model/fold.h"
#include "model/graph_write.h"
#include "model/step.h"
#include "quant/calibrate.h"
#include "unit/onnx_by_hand.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 4};
enum { SAMPLES = 2 };

/* ---- What we export comes back ---- */

/* The results of a graph; free. */
static float *results(const struct graph *g, float *params, const float *input)
{
    struct step *s = NULL;
    const void *out = NULL;
    pst_error error = {0};
    float *ret = NULL;
    pst_status st = step_create(&s, g, &(struct step_options){.batch = SAMPLES, .features = cpu_features()}, &error);
    if (st == PST_OK)
        st = step_forward(s, input, PST_DTYPE_F32, SAMPLES, params, false, &out, &error);
    if (CHECK_STATUS(st, PST_OK, &error)) {
        size_t bytes = SAMPLES * shape_values(step_out_shape(s)) * sizeof(float);
        ret = malloc(bytes);
        memcpy(ret, out, bytes);
    }
    step_destroy(s);
    return ret;
}

static bool is_scale(const struct graph_param *p)
{
    return strstr(p->name, "/gamma") || strstr(p->name, "variance");
}

static void check_again(const char *text, const struct shape *shape, bool nhwc)
{
    struct graph *g = NULL;
    struct text file = {0};
    struct onnx_model m = {0};
    pst_error error = {0};
    REQUIRE_OK(graph_create(&g, text, shape, &error), &error);
    float *params = calloc(g->values + 1, sizeof(float)), *input = calloc(SAMPLES * shape_values(shape), sizeof(float));
    graph_init_params(g, 3, params);
    for (size_t i = 0; i < g->param_count; i++)
        for (size_t k = 0; g->params[i].layer.init != INIT_GLOROT_UNIFORM && k < g->params[i].count; k++)
            params[g->params[i].offset + k] = (is_scale(&g->params[i]) ? 1 : 0) + 0.01f * (float)((k * 7 + i) % 30);
    for (size_t i = 0; i < g->count; i++) /* without a range, values pass */
        if (strcmp(g->nodes[i].layer->name, "fakequant") == 0)
            for (size_t k = 0; k < 2; k++)
                params[g->params[g->nodes[i].first_param + k].offset] = 0;
    hand_fill(input, SAMPLES * shape_values(shape), 5);
    REQUIRE_OK(onnx_write(&file, g, params, &(struct onnx_options){.nhwc = nhwc, .preprocessing = "decode"}, &error), &error);
    pst_status st = onnx_import_bytes(&m, "a.onnx", (const uint8_t *)file.data, file.length, &error);
    if (CHECK_MSG(st == PST_OK, "%s: %s", text, error.message)) {
        float *want = results(g, params, input), *got = results(m.graph, m.params, input);
        size_t count = SAMPLES * shape_values(graph_shape(g, g->count));
        double worst = 0, largest = 0;
        CHECK_MSG(shape_values(graph_shape(m.graph, m.graph->count)) == count / SAMPLES, "%s", text);
        for (size_t i = 0; want && got && i < count; i++) {
            worst = fmax(worst, fabs((double)want[i] - (double)got[i]));
            largest = fmax(largest, fabs((double)want[i]));
        }
        CHECK_MSG(worst <= 1e-5 * fmax(1, largest) && largest > 0, "%s: off by %g of %g: %s", text, worst, largest, m.text);
        CHECK(m.preprocessing && strcmp(m.preprocessing, "decode") == 0 && !m.classes);
        free(want), free(got);
    }
    onnx_model_finish(&m);
    text_finish(&file);
    graph_destroy(g);
    free(params), free(input);
}

static void our_files_come_back(void)
{
    static const char *const more[] = {
        "conv 16 3 relu stride=2 pad=same | conv 6 4 pad=same | conv 5 2 stride=3 pad=same | flatten | dense 3",
        "conv 16 3 stride=2 pad=1 | relu | conv 8 5 pad=3 stride=3 bias=false | flatten | dense 4 bias=false",
        "conv 12 3 groups=4 dilation=2 pad=same | conv 8 3 groups=4 bias=false pad=1 | globalavgpool",
        "conv 6 3 | layernorm | conv 5 3 | flatten | layernorm eps=0.01 | dense 3",
        "conv 8 3 gelu | conv 8 3 silu pad=same | conv 8 1 tanh | conv 8 1 | leaky 0.1 | conv 8 1 relu6 | conv 4 1 sigmoid | flatten | dense 6 softmax",
        "avgpool 3 stride=2 pad=same | maxpool 3 stride=1 pad=same | avgpool 2 stride=1 pad=1 | maxpool 2 stride=1 pad=1 | avgpool 2 | flatten",
        "conv 8 3 pad=same | repeat 2 ( residual relu ( conv 8 3 pad=same bias=false | batchnorm ) ) | residual ( conv 12 3 stride=2 pad=same | batchnorm "
        ") | globalavgpool | dense 10",
        "concat ( conv 5 1 )( conv 7 3 relu pad=same )( avgpool 3 stride=1 pad=same ) | add ( conv 4 1 )( conv 4 3 pad=same )( conv 4 1 tanh )",
        "conv 6 3 pad=same bias=false | batchnorm | relu | concat ( ) ( batchnorm | relu | conv 4 1 | conv 3 3 pad=same ) | concat ( batchnorm | conv 3 3 pad=same ) ( ) | "
        "add ( ) ( conv 12 1 ) ( conv 12 3 pad=same ) | globalavgpool | dense 3",
        "conv 4 3 pad=same | dense 6 relu | softmax",
        "residual ( conv 4 3 pad=same | residual ( conv 4 1 relu ) ( conv 4 3 pad=same ) ) | flatten | batchnorm | dense 3",
        NULL};
    for (size_t i = 0; layer_at(i); i++)
        for (int nhwc = 0; nhwc < 2; nhwc++)
            check_again(layer_at(i)->example, &image, nhwc);
    for (size_t i = 0; more[i]; i++)
        for (int nhwc = 0; nhwc < 2; nhwc++)
            check_again(more[i], &image, nhwc);
    check_again("dense 64 relu | flatten | dense 2 sigmoid", &(struct shape){.rank = 1, .h = 1, .w = 1, .c = 9}, false);
    check_again("conv 3 1 | flatten | dense 2", &(struct shape){.rank = 3, .h = 7, .w = 1, .c = 1}, false);
    check_again("batchnorm | conv 1 3 pad=same | batchnorm | flatten | dense 2", &(struct shape){.rank = 3, .h = 5, .w = 4, .c = 1}, true);
}

/* ---- Models in integers ---- */

static struct quant_model *quantise(const char *text, const struct shape *shape)
{
    struct graph *g = NULL, *folded = NULL;
    struct quant_calibration *c = NULL;
    struct quant_model *q = NULL;
    float *own = NULL, *input = calloc(8 * shape_values(shape), sizeof(float));
    pst_error error = {0};
    pst_status st = graph_create(&g, text, shape, &error);
    float *params = calloc(g->values + 1, sizeof(float));
    graph_init_params(g, 3, params);
    hand_fill(input, 8 * shape_values(shape), 5);
    if (st == PST_OK)
        st = graph_fold(&folded, &own, g, params, &error);
    struct quant_range *ranges = calloc(folded->count + 1, sizeof(*ranges));
    for (size_t i = 0; i < folded->param_count; i++)
        for (size_t k = 0; folded->params[i].layer.rank == 1 && k < folded->params[i].count; k++)
            own[folded->params[i].offset + k] += 0.01f * (float)(k % 9);
    if (st == PST_OK)
        st = quant_calibration_create(&c, folded, own, &error);
    if (st == PST_OK)
        st = quant_calibration_feed(c, input, 8, &error);
    if (st == PST_OK)
        st = quant_calibration_ranges(c, QUANT_MINMAX, 0, ranges, &error);
    if (st == PST_OK)
        st = quant_create(&q, folded, own, ranges, NULL, &error);
    CHECK_STATUS(st, PST_OK, &error);
    quant_calibration_destroy(c);
    graph_destroy(folded);
    graph_destroy(g);
    mem_free(own);
    free(ranges), free(params), free(input);
    return q;
}

static void check_integers(const char *text, const struct quant_model *a, const struct quant_model *b)
{
    REQUIRE(b && a->graph->count == b->graph->count && a->weight_bits == b->weight_bits);
    CHECK(a->values[0].scale == b->values[0].scale && a->values[0].zero == b->values[0].zero);
    for (size_t i = 0; i < a->graph->count; i++) {
        const struct graph_node *n = &a->graph->nodes[i], *found = graph_find_node(b->graph, n->name);
        size_t k = found ? (size_t)(found - b->graph->nodes) : i, channels = quant_channels(n);
        const struct quant_layer *x = &a->layers[i], *y = &b->layers[k];
        CHECK_MSG(a->values[i + 1].form == b->values[k + 1].form && (a->values[i + 1].form != QUANT_U8 || a->values[i + 1].scale == b->values[k + 1].scale),
                  "%s: %s has other levels", text, n->name);
        CHECK_MSG(!x->weights == !y->weights, "%s: %s", text, n->name);
        if (x->weights && y->weights)
            CHECK_MSG(memcmp(x->weights, y->weights, quant_kernel_values(a->graph, n)) == 0 && memcmp(x->bias, y->bias, channels * sizeof(int32_t)) == 0 &&
                          memcmp(x->weight_scale, y->weight_scale, channels * sizeof(float)) == 0,
                      "%s: %s has other integers", text, n->name);
    }
}

static void integers_come_back(void)
{
    static const char *const texts[] = {
        "conv 8 3 pad=same bias=false | batchnorm | relu | maxpool 2 | conv 12 1 relu6 | flatten | dense 5",
        "conv 8 3 pad=same relu | residual relu ( conv 8 3 pad=same | batchnorm | relu | dwconv 3 pad=same ) | globalavgpool | dense 10 | softmax",
        "concat ( conv 4 1 relu )( conv 4 3 pad=same relu ) | avgpool 2 | conv 6 3 tanh | flatten | dense 3 bias=false", NULL};
    for (size_t i = 0; texts[i]; i++)
        for (int nhwc = 0; nhwc < 2; nhwc++) {
            struct quant_model *q = quantise(texts[i], &image);
            struct text file = {0};
            struct onnx_model m = {0};
            pst_error error = {0};
            float *params = calloc(q->graph->values + 1, sizeof(float));
            quant_dequantise(q, params);
            REQUIRE_OK(onnx_write(&file, q->graph, params, &(struct onnx_options){.quant = q, .nhwc = nhwc}, &error), &error);
            if (CHECK_STATUS(onnx_import_bytes(&m, "a.onnx", (const uint8_t *)file.data, file.length, &error), PST_OK, &error))
                check_integers(texts[i], q, m.quant);
            onnx_model_finish(&m);
            text_finish(&file);
            free(params);
            quant_unref(q);
        }
}

/* ---- Operators that we do not write ---- */

/* Imports one chain from "x" to "y" and gives its text; "" on failure. */
static char *text_of(struct hand *h)
{
    struct onnx_model m = {0};
    pst_error error;
    hand_port(h, 12, "y", NULL, 0);
    pst_status st = hand_import(h, &m, &error);
    char *text = strdup(st == PST_OK ? m.text : error.message);
    onnx_model_finish(&m);
    return text;
}

#define CHECK_TEXT(h, want)                                                                                                                            \
    do {                                                                                                                                               \
        char *got = text_of(h);                                                                                                                        \
        CHECK_MSG(strstr(got, want), "expected %s, found %s", want, got);                                                                              \
        free(got);                                                                                                                                     \
    } while (0)

static void windows_are_found(void)
{
    static const struct {
        const char *attributes, *want;
    } rows[] = {
        {"strides=1,1", "conv 2 3 bias=false"},
        {"pads=1,1,1,1", "conv 2 3 pad=same"},
        {"strides=2,2 pads=1,1,1,1", "conv 2 3 stride=2 pad=1"},
        {"strides=2,2 pads=0,0,1,1", "conv 2 3 stride=2 pad=same"},
        {"dilations=2,2 pads=2,2,2,2", "conv 2 3 pad=same dilation=2"},
        {"pads=1,0,0,1", "conv 2 4 pad=1"}, /* zeros of two sides: a larger kernel */
        {"pads=0,1,0,1", "no layer pads"},
        {"strides=1,2", "no layer pads"},
        {"pads=-1,0,0,0", "pads has -1"},
        {"strides=0,1", "strides is 0"},
        {"kernel_shape=3,3 strides=1", "strides has 1"},
        {"group:3", "a kernel for 3 channels in 3 groups"},
    };
    float kernel[2 * 3 * 9];
    hand_fill(kernel, 54, 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hand h = {0};
        hand_port(&h, 11, "x", DIMS(-1, 3, 8, 8));
        hand_constant(&h, "k", FLOAT, DIMS(2, 3, 3, 3), kernel, sizeof(kernel));
        hand_node(&h, "Conv", "x k", "y", rows[i].attributes);
        CHECK_TEXT(&h, rows[i].want);
    }
}

/* A kernel with zeros around it computes what the node says: compared with the sums themselves. */
static void uneven_zeros_are_exact(void)
{
    static const int64_t pads[][4] = {{1, 0, 0, 1}, {0, 2, 2, 0}, {2, 1, 1, 2}, {0, 0, 2, 2}};
    enum { H = 7, W = 6, K = 3 };
    float kernel[K * K], input[SAMPLES * H * W];
    hand_fill(kernel, K * K, 3);
    hand_fill(input, SAMPLES * H * W, 4);
    for (size_t i = 0; i < 4; i++) {
        struct hand h = {0};
        struct onnx_model m;
        pst_error error;
        char words[64];
        const int64_t *p = pads[i];
        snprintf(words, sizeof(words), "pads=%d,%d,%d,%d", (int)p[0], (int)p[1], (int)p[2], (int)p[3]);
        hand_port(&h, 11, "x", DIMS(-1, 1, H, W));
        hand_port(&h, 12, "y", NULL, 0);
        hand_constant(&h, "k", FLOAT, DIMS(1, 1, K, K), kernel, sizeof(kernel));
        hand_node(&h, "Conv", "x k", "y", words);
        if (!CHECK_STATUS(hand_import(&h, &m, &error), PST_OK, &error))
            continue;
        float *got = results(m.graph, m.params, input);
        int rows = H + (int)(p[0] + p[2]) - K + 1, columns = W + (int)(p[1] + p[3]) - K + 1;
        CHECK_INT(shape_values(graph_shape(m.graph, m.graph->count)), rows * columns);
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
                double sum = 0;
                for (int a = 0; a < K; a++)
                    for (int b = 0; b < K; b++) {
                        int y = r + a - (int)p[0], x = c + b - (int)p[1];
                        sum += y >= 0 && y < H && x >= 0 && x < W ? (double)kernel[a * K + b] * (double)input[y * W + x] : 0;
                    }
                CHECK_MSG(fabs(sum - (double)got[r * columns + c]) < 1e-5, "%s: %d, %d: %g, not %g", words, r, c, (double)got[r * columns + c], sum);
            }
        free(got);
        onnx_model_finish(&m);
    }
}

static void shapes_are_followed(void)
{
    const float two = 2, weights[2 * 60] = {1};
    struct hand h = {0};
    hand_port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    hand_constant(&h, "w", FLOAT, DIMS(60, 2), weights, sizeof(weights));
    hand_constant(&h, "zero", INT64, NULL, 0, &(int64_t){0}, 8);
    hand_constant(&h, "one", INT64, DIMS(1), &(int64_t){0}, 8);
    hand_constant(&h, "rest", INT64, DIMS(1), &(int64_t){-1}, 8);
    hand_node(&h, "Shape", "x", "shape", "");
    hand_node(&h, "Gather", "shape zero", "batch", "axis:0");
    hand_node(&h, "Unsqueeze", "batch one", "first", "");
    hand_node(&h, "Concat", "first rest", "wanted", "axis:0");
    hand_node(&h, "Reshape", "x wanted", "flat", "");
    hand_node(&h, "MatMul", "flat w", "y", "");
    CHECK_TEXT(&h, "flatten name=flatten_1 | dense 2 bias=false");
    hand_port(&h, 11, "x", DIMS(1, 4, 5, 3)); /* height × width × channels, by the Transpose after the scale */
    hand_constant(&h, "two", FLOAT, NULL, 0, &two, sizeof(two));
    hand_node(&h, "Mul", "x two", "scaled", "");
    hand_node(&h, "Transpose", "scaled", "t", "perm=0,3,1,2");
    hand_node(&h, "GlobalAveragePool", "t", "g", "");
    hand_node(&h, "Flatten", "g", "y", "");
    CHECK_TEXT(&h, "batchnorm name=batchnorm_1 | globalavgpool");
    hand_port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    hand_node(&h, "Transpose", "x", "t", "perm=0,2,3,1");
    hand_node(&h, "Relu", "t", "r", "");
    hand_node(&h, "ReduceMean", "r", "y", "axes=1,2 keepdims:0");
    CHECK_TEXT(&h, "relu name=relu_1 | globalavgpool");
    hand_port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    hand_node(&h, "Relu", "x", "r", "");
    hand_node(&h, "Flatten", "r", "y", "");
    CHECK_TEXT(&h, "another order than height, width, channel");
    hand_port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    hand_node(&h, "ReduceMean", "x", "y", "axes=1");
    CHECK_TEXT(&h, "expected the mean over height and width");
    hand_port(&h, 11, "x", DIMS(-1, 6));
    hand_node(&h, "Relu", "x", "r", "");
    hand_node(&h, "ReduceMean", "r", "y", ""); /* over all values */
    CHECK_TEXT(&h, "no axes");
    hand_port(&h, 11, "x", DIMS(-1, 1, 4, 5));
    hand_node(&h, "Relu", "x", "r", "");
    hand_node(&h, "Concat", "r x", "y", "axis:2"); /* one image below the other */
    CHECK_TEXT(&h, "expected channels");
}

static void activations_are_found(void)
{
    const float half = 0.5f, one = 1, root = 1.41421356f;
    for (int form = 0; form < 3; form++) {
        struct hand h = {0};
        hand_port(&h, 11, "x", DIMS(-1, 6));
        hand_constant(&h, "half", FLOAT, NULL, 0, &half, 4);
        hand_constant(&h, "one", FLOAT, NULL, 0, &one, 4);
        hand_constant(&h, "root", FLOAT, NULL, 0, &root, 4);
        hand_node(&h, "Div", "x root", "a", "");
        hand_node(&h, "Erf", "a", "b", "");
        hand_node(&h, "Add", form ? "b one" : "one b", "c", "");
        hand_node(&h, "Mul", form == 0 ? "x c" : form == 1 ? "c half" : "x half", "d", "");
        hand_node(&h, "Mul", form == 0 ? "d half" : form == 1 ? "x d" : "d c", "y", "");
        char *text = text_of(&h);
        CHECK_MSG(strcmp(text, "gelu name=gelu_1") == 0, "form %d: %s", form, text);
        free(text);
    }
    struct hand h = {0};
    hand_port(&h, 11, "x", DIMS(-1, 6));
    hand_node(&h, "Sigmoid", "x", "s", "");
    hand_node(&h, "Mul", "s x", "y", "");
    CHECK_TEXT(&h, "silu name=silu_1");
    hand_port(&h, 11, "x", DIMS(-1, 6));
    hand_node(&h, "Relu", "x", "r", "");
    hand_node(&h, "Sigmoid", "x", "s", "");
    hand_node(&h, "Mul", "s r", "y", "");
    CHECK_TEXT(&h, "of two values");
    for (int which = 0; which < 2; which++) { /* what another domain calls Sigmoid may be anything */
        hand_port(&h, 11, "x", DIMS(-1, 6));
        hand_node_of(&h, which ? "" : "com.other", "Sigmoid", "x", "s", "");
        hand_node_of(&h, which ? "com.other" : "", "Mul", "s x", "y", "");
        CHECK_TEXT(&h, which ? "(Mul): an operator of the domain com.other" : "(Sigmoid): an operator of the domain com.other");
    }
    hand_port(&h, 11, "x", DIMS(-1, 6));
    hand_node_of(&h, "ai.onnx", "Sigmoid", "x", "s", "");
    hand_node_of(&h, "ai.onnx", "Mul", "s x", "y", "");
    CHECK_TEXT(&h, "silu name=silu_1");
}

/* Blocks of DenseNet, as Keras writes them (a concat of the block's input and its layers) and as PyTorch does (of all values so far). */
static void dense_blocks_are_found(void)
{
    static const struct {
        const char *inputs, *want;
    } rows[] = {
        {"j", "concat name=concat_1 ( ) ( relu name=relu_1 ) | concat name=concat_2 ( ) ( tanh name=tanh_1 )"},
        {"x r", "concat name=concat_1 ( ) ( relu name=relu_1 ) | concat name=concat_2 ( ) ( tanh name=tanh_1 )"},
    };
    float input[SAMPLES * 24];
    hand_fill(input, SAMPLES * 24, 7);
    for (size_t i = 0; i < 2; i++) {
        struct hand h = {0};
        struct onnx_model m;
        pst_error error;
        char all[32];
        hand_port(&h, 11, "x", DIMS(-1, 4, 3, 2));
        hand_node(&h, "Concat", "x", "first", "axis:1"); /* of one, as in PyTorch's first layer */
        hand_node(&h, "Relu", "first", "r", "");
        hand_node(&h, "Concat", "x r", "j", "axis:1");
        hand_node(&h, "Tanh", "j", "s", "");
        snprintf(all, sizeof(all), "%s s", rows[i].inputs);
        hand_node(&h, "Concat", all, "y", "axis:1");
        hand_port(&h, 12, "y", NULL, 0);
        if (!CHECK_STATUS(hand_import(&h, &m, &error), PST_OK, &error))
            continue;
        CHECK_MSG(strcmp(m.text, rows[i].want) == 0, "%s", m.text);
        float *got = results(m.graph, m.params, input);
        for (size_t p = 0; got && p < SAMPLES * 6; p++)
            for (size_t c = 0; c < 16; c++) {
                double x = (double)input[p * 4 + c % 4], r = c / 4 % 2 ? fmax(x, 0) : x, want = c < 8 ? r : tanh(r);
                CHECK_MSG(fabs((double)got[p * 16 + c] - want) < 1e-5, "pixel %zu, channel %zu: %g, not %g", p, c, (double)got[p * 16 + c], want);
            }
        free(got);
        onnx_model_finish(&m);
    }
    struct hand h = {0};
    hand_port(&h, 11, "x", DIMS(-1, 4, 3, 2));
    hand_node(&h, "Concat", "x x", "y", "axis:1");
    CHECK_TEXT(&h, "cross");
    /* In integers, the first concat is rounded to levels of its own: the second does not read it. */
    hand_port(&h, 11, "x", DIMS(-1, 4, 3, 2));
    hand_constant(&h, "scale", FLOAT, DIMS(1), (const float[]){0.01F}, sizeof(float));
    hand_constant(&h, "zero", 2 /* uint8 */, DIMS(1), (const uint8_t[]){128}, 1);
    hand_node(&h, "Relu", "x", "r", "");
    hand_node(&h, "Concat", "x r", "j", "axis:1");
    hand_node(&h, "QuantizeLinear", "j scale zero", "q", "");
    hand_node(&h, "DequantizeLinear", "q scale zero", "d", "");
    hand_node(&h, "Tanh", "d", "s", "");
    hand_node(&h, "Concat", "x r s", "y", "axis:1");
    CHECK_TEXT(&h, "cross");
}

/* ---- What is computed before the model runs ---- */

static const int64_t numbers[] = {6, -1, 24, 4, 0, 1, 1, 1, 1, 1, 2, 8, 9};

/* Input x of 6 values; the same weights w (6, 4) as wt (4, 6), flat (24) and w3 (6, 1, 4); lists of whole numbers. */
static void begin_computed(struct hand *h, const float *w)
{
    float wt[24];
    for (size_t i = 0; i < 24; i++)
        wt[i % 4 * 6 + i / 4] = w[i];
    hand_port(h, 11, "x", DIMS(-1, 6));
    hand_constant(h, "w", FLOAT, DIMS(6, 4), w, 96);
    hand_constant(h, "wt", FLOAT, DIMS(4, 6), wt, 96);
    hand_constant(h, "flat", FLOAT, DIMS(24), w, 96);
    hand_constant(h, "w3", FLOAT, DIMS(6, 1, 4), w, 96);
    hand_constant(h, "6,-1", INT64, DIMS(2), numbers, 16);
    hand_constant(h, "-1", INT64, DIMS(1), numbers + 1, 8);
    hand_constant(h, "4", INT64, DIMS(1), numbers + 3, 8);
    hand_constant(h, "4,0", INT64, DIMS(2), numbers + 3, 16);
    hand_constant(h, "0", INT64, DIMS(1), numbers + 4, 8);
    hand_constant(h, "9", INT64, DIMS(1), numbers + 12, 8);
    hand_constant(h, "2", INT64, DIMS(1), numbers + 10, 8);
    hand_constant(h, "1111", INT64, DIMS(4), numbers + 5, 32);
    hand_constant(h, "pairs", INT64, DIMS(2), numbers + 9, 16);
    hand_constant(h, "far", INT64, DIMS(1), &(int64_t){-INT64_MAX}, 8);
    hand_constant(h, "many", INT64, DIMS(1), &(int64_t){100}, 8);
}

/* Nodes "Op|inputs|output|attributes", separated by semicolons. */
static void add_nodes(struct hand *h, const char *nodes)
{
    char all[512], *rest = all, *node;
    snprintf(all, sizeof(all), "%s", nodes);
    while ((node = strsep(&rest, ";"))) {
        const char *op = strsep(&node, "|"), *in = strsep(&node, "|"), *out = strsep(&node, "|");
        hand_node(h, op, in, out, node ? node : "");
    }
}

/* Weights that a file turns and reshapes: the results are those of the weights as they should lie. */
static void weights_are_computed(void)
{
    static const char *const rows[] = {
        "MatMul|x w|y",
        "Transpose|wt|W|perm=1,0;MatMul|x W|y",
        "Transpose|wt|W;MatMul|x W|y",
        "Reshape|flat 6,-1|W;MatMul|x W|y",
        "Constant||s|value_ints=6,4;Reshape|flat s|W;MatMul|x W|y",
        "Constant||s|value_int:4;Unsqueeze|s 0|t;Concat|-1 t|u|axis:0;Reshape|flat u|W;MatMul|x W|y",
        "Squeeze|w3|W|axes=1;MatMul|x W|y",
        "Squeeze|w3|W;MatMul|x W|y",
        "Unsqueeze|w|a|axes=0,3;Squeeze|a|W|axes=0,-1;MatMul|x W|y",
        "Identity|w|a;Cast|a|W|to:1;MatMul|x W|y",
        "Unsqueeze|x|a|axes=1,2;Squeeze|a|b|axes=1,2;MatMul|b w|y",
        "Unsqueeze|x|a|axes=2;Transpose|a|b|perm=0,2,1;Squeeze|b|c;MatMul|c w|y",
        "Shape|x|s;Slice|s 0 pairs|t;Shape|x|u|start:1;Gather|u 0|v;Concat|v|z|axis:0;Slice|s 0 4|k;Reshape|x k|a;MatMul|a w|y",
        "Shape|x|s;Slice|s|t|starts=0 ends=1;Concat|t -1|k|axis:0;Reshape|x k|a;MatMul|a w|y",
    };
    float w[24], input[SAMPLES * 6];
    hand_fill(w, 24, 8);
    hand_fill(input, SAMPLES * 6, 9);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hand h = {0};
        struct onnx_model m;
        pst_error error;
        begin_computed(&h, w);
        add_nodes(&h, rows[i]);
        hand_port(&h, 12, "y", NULL, 0);
        pst_status st = hand_import(&h, &m, &error);
        if (!CHECK_MSG(st == PST_OK, "%s: %s", rows[i], error.message))
            continue;
        float *got = results(m.graph, m.params, input);
        for (size_t k = 0; got && k < SAMPLES * 4; k++) {
            double sum = 0;
            for (size_t j = 0; j < 6; j++)
                sum += (double)input[k / 4 * 6 + j] * (double)w[j * 4 + k % 4];
            CHECK_MSG(fabs((double)got[k] - sum) < 1e-5, "%s: result %zu is %g, not %g", rows[i], k, (double)got[k], sum);
        }
        free(got);
        onnx_model_finish(&m);
    }
}

/* PyTorch's way to the zeros of a Pad: pairs of numbers in the other order, turned by operators. */
static void zeros_are_computed(void)
{
    float kernel[18];
    struct hand h = {0};
    hand_fill(kernel, 18, 2);
    hand_port(&h, 11, "x", DIMS(-1, 1, 5, 6));
    hand_constant(&h, "k", FLOAT, DIMS(2, 1, 3, 3), kernel, sizeof(kernel));
    hand_constant(&h, "4", INT64, DIMS(1), numbers + 3, 8);
    hand_constant(&h, "0", INT64, DIMS(1), numbers + 4, 8);
    hand_constant(&h, "-1", INT64, DIMS(1), numbers + 1, 8);
    hand_constant(&h, "-1,2", INT64, DIMS(2), &(int64_t[]){-1, 2}, 16);
    hand_constant(&h, "1111", INT64, DIMS(4), numbers + 5, 32);
    hand_constant(&h, "far", INT64, DIMS(1), &(int64_t){-INT64_MAX}, 8);
    add_nodes(&h, "ConstantOfShape|4|rest|value@0;Concat|1111 rest|all|axis:0;Reshape|all -1,2|two;Slice|two -1 far 0 -1|back;"
                  "Transpose|back|turned|perm=1,0;Reshape|turned -1|line;Cast|line|zeros|to:7;Pad|x zeros|padded;Conv|padded k|y");
    CHECK_TEXT(&h, "conv 2 3 pad=same");
}

static void what_cannot_be_computed_is_named(void)
{
    static const struct {
        const char *nodes, *want;
    } rows[] = {
        {"Transpose|wt|W|perm=0,0;MatMul|x W|y", "perm is not a permutation"},
        {"Transpose|wt|W|perm=0;MatMul|x W|y", "perm does not fit its input"},
        {"Reshape|flat 4,0|W;MatMul|x W|y", "a constant of 24 values gets another shape"},
        {"Constant||s|value_ints=-2,4;Reshape|flat s|W;MatMul|x W|y", "the shape of a constant makes no sense"},
        {"Constant||s|value_ints=0,2,3;Reshape|x s|a;Flatten|a|y", "a reshape that cuts axes apart"},
        {"Constant||s|value_ints=0,4,2;Reshape|x s|a;Flatten|a|y", "with 6 values per sample"},
        {"Constant||s|value_ints=0,7;Reshape|x s|a;Flatten|a|y", "dimension 1 of the new shape is 7"},
        {"Reshape|x w|a;Flatten|a|y", "whole numbers"},
        {"Squeeze|x|y|axes=1", "dimension 1 is not 1"},
        {"Squeeze|x|y|axes=7", "axis 7 of 2 dimensions"},
        {"Squeeze|-|y", "it has no input"},
        {"Unsqueeze|-|y", "it has no input"},
        {"Identity|-|y", "it has no input"},
        {"Unsqueeze|x|y|axes=1,2,3,4,5,6,7", "more than 8 dimensions"},
        {"Flatten|x|y|axis:0", "expected 1: one row per sample"},
        {"Unsqueeze|x|a|axes=2;Flatten|a|y|axis:2", "expected 1: one row per sample"},
        {"Unsqueeze|x|a|axes=2;Transpose|a|b|perm=1,0,2;Flatten|b|y", "the batch is not the first dimension"},
        {"Shape|x|s;Gather|s 9|t;Reshape|x t|y", "number 9 of 2"},
        {"Gather|x 0|y", "input 0 is not a list of whole numbers"},
        {"Shape|x|s;Slice|s 0 9 0 2|t;Reshape|x t|y", "parts of a shape in steps of 1"},
        {"Slice|1111 0 9 0 2|t;Reshape|x t|y", "parts of short lists, in steps of 1"},
        {"Slice|1111 pairs 9|t;Reshape|x t|y", "parts along one dimension"},
        {"Constant||s;Reshape|x s|y", "neither a tensor nor a number"},
        {"Cast|x|y|to:7", "values of the model become whole numbers"},
        {"Cast|w|W|to:9;MatMul|x W|y", "a constant becomes type 9"},
        {"ConstantOfShape|4|s;Reshape|x s|y", "short lists of whole numbers"},
        {"ConstantOfShape|many|s|value@0;Reshape|x s|y", "more than 64 numbers"},
        {"Add|x w3|y", "more dimensions than the value"},
        {"Unsqueeze|x|a|axes=2;Add|a w|y", "differs along several dimensions"},
        {"Add|x 1111|y", "has 4 values, its input 6"},
    };
    float w[24];
    hand_fill(w, 24, 8);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hand h = {0};
        begin_computed(&h, w);
        add_nodes(&h, rows[i].nodes);
        char *got = text_of(&h);
        CHECK_MSG(strstr(got, rows[i].want), "%s: expected %s, found %s", rows[i].nodes, rows[i].want, got);
        free(got);
    }
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){{"our files come back", our_files_come_back},
                                           {"integers come back", integers_come_back},
                                           {"windows are found", windows_are_found},
                                           {"uneven zeros are exact", uneven_zeros_are_exact},
                                           {"shapes are followed", shapes_are_followed},
                                           {"activations are found", activations_are_found},
                                           {"dense blocks are found", dense_blocks_are_found},
                                           {"weights are computed", weights_are_computed},
                                           {"zeros are computed", zeros_are_computed},
                                           {"what cannot be computed is named", what_cannot_be_computed_is_named},
                                           {0}});
}
