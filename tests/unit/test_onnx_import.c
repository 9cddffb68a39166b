/* test_onnx_import.c: ONNX files as models: what we export comes back, operators that we do not write are read, and hostile files fail with a
 * status and a place. Files of PyTorch and Keras are compared with ONNX Runtime in tests/interop. */
#include "base/cpu.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/proto.h"
#include "base/random.h"
#include "export/onnx.h"
#include "export/onnx_import.h"
#include "harness.h"
#include "model/layer_list.h"
#include "model/fold.h"
#include "model/graph_write.h"
#include "model/step.h"
#include "quant/calibrate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 4};
enum { SAMPLES = 2 };

/* ---- What we export comes back ---- */

static void fill(float *values, size_t count, uint64_t key)
{
    struct random r;
    random_init(&r, key, 0, 0, 0);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)random_between(&r, -1, 1);
}

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
    fill(input, SAMPLES * shape_values(shape), 5);
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
    fill(input, 8 * shape_values(shape), 5);
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

/* ---- Files by hand ---- */

enum { FLOAT = 1, INT64 = 7 };

struct hand {
    struct text graph;
};

static void constant(struct hand *h, const char *name, int type, const int64_t *dims, size_t rank, const void *data, size_t bytes)
{
    size_t begin = proto_begin(&h->graph, 5);
    for (size_t i = 0; i < rank; i++)
        proto_int(&h->graph, 1, dims[i]);
    proto_int(&h->graph, 2, type);
    proto_string(&h->graph, 8, name);
    proto_bytes(&h->graph, 9, data, bytes);
    proto_end(&h->graph, begin);
}

/* An attribute "name=1,2": whole numbers; "name:1": one of them; "name~0.5": a float. */
static void attribute(struct text *to, const char *text)
{
    size_t begin = proto_begin(to, 5), length = strcspn(text, "=:~");
    proto_bytes(to, 1, text, length);
    const char *at = text + length + 1;
    if (text[length] == '~')
        proto_float(to, 2, strtof(at, NULL));
    else if (text[length] == ':')
        proto_int(to, 3, strtoll(at, NULL, 10));
    for (char *end; text[length] == '=' && *at; at = *end ? end + 1 : end)
        proto_int(to, 8, strtoll(at, &end, 10));
    proto_end(to, begin);
}

/* A node; `words` are attributes, separated by spaces. */
static void node(struct hand *h, const char *op, const char *in, const char *out, const char *words)
{
    size_t begin = proto_begin(&h->graph, 1);
    char all[256], *rest = all, *word;
    snprintf(all, sizeof(all), "%s", in);
    while ((word = strsep(&rest, " ")))
        proto_string(&h->graph, 1, strcmp(word, "-") == 0 ? "" : word);
    proto_string(&h->graph, 2, out);
    proto_string(&h->graph, 3, out);
    proto_string(&h->graph, 4, op);
    snprintf(all, sizeof(all), "%s", words);
    for (rest = all; *words && (word = strsep(&rest, " "));)
        attribute(&h->graph, word);
    proto_end(&h->graph, begin);
}

/* An input (11) or a result (12); a size of −1 is open. */
static void port(struct hand *h, unsigned field, const char *name, const int64_t *dims, size_t rank)
{
    size_t begin = proto_begin(&h->graph, field);
    proto_string(&h->graph, 1, name);
    size_t type = proto_begin(&h->graph, 2), tensor = proto_begin(&h->graph, 1);
    proto_int(&h->graph, 1, FLOAT);
    size_t shape = proto_begin(&h->graph, 2);
    for (size_t i = 0; i < rank; i++) {
        size_t dimension = proto_begin(&h->graph, 1);
        if (dims[i] >= 0)
            proto_int(&h->graph, 1, dims[i]);
        else
            proto_string(&h->graph, 2, "N");
        proto_end(&h->graph, dimension);
    }
    proto_end(&h->graph, shape);
    proto_end(&h->graph, tensor);
    proto_end(&h->graph, type);
    proto_end(&h->graph, begin);
}

/* The file around the graph, whose text it frees. */
static struct text finish(struct hand *h)
{
    struct text file = {0};
    proto_int(&file, 1, 8);
    size_t opset = proto_begin(&file, 8);
    proto_int(&file, 2, 17);
    proto_end(&file, opset);
    proto_bytes(&file, 7, h->graph.data, h->graph.length);
    text_finish(&h->graph);
    *h = (struct hand){0};
    return file;
}

static pst_status import(struct hand *h, struct onnx_model *m, pst_error *error)
{
    struct text file = finish(h);
    *m = (struct onnx_model){0};
    *error = (pst_error){0};
    pst_status st = onnx_import_bytes(m, "by-hand.onnx", (const uint8_t *)file.data, file.length, error);
    text_finish(&file);
    return st;
}

#define DIMS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

/* ---- Operators that we do not write ---- */

/* Imports one chain from "x" to "y" and gives its text; "" on failure. */
static char *text_of(struct hand *h)
{
    struct onnx_model m = {0};
    pst_error error;
    port(h, 12, "y", NULL, 0);
    pst_status st = import(h, &m, &error);
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
    fill(kernel, 54, 1);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct hand h = {0};
        port(&h, 11, "x", DIMS(-1, 3, 8, 8));
        constant(&h, "k", FLOAT, DIMS(2, 3, 3, 3), kernel, sizeof(kernel));
        node(&h, "Conv", "x k", "y", rows[i].attributes);
        CHECK_TEXT(&h, rows[i].want);
    }
}

/* A kernel with zeros around it computes what the node says: compared with the sums themselves. */
static void uneven_zeros_are_exact(void)
{
    static const int64_t pads[][4] = {{1, 0, 0, 1}, {0, 2, 2, 0}, {2, 1, 1, 2}, {0, 0, 2, 2}};
    enum { H = 7, W = 6, K = 3 };
    float kernel[K * K], input[SAMPLES * H * W];
    fill(kernel, K * K, 3);
    fill(input, SAMPLES * H * W, 4);
    for (size_t i = 0; i < 4; i++) {
        struct hand h = {0};
        struct onnx_model m;
        pst_error error;
        char words[64];
        const int64_t *p = pads[i];
        snprintf(words, sizeof(words), "pads=%d,%d,%d,%d", (int)p[0], (int)p[1], (int)p[2], (int)p[3]);
        port(&h, 11, "x", DIMS(-1, 1, H, W));
        port(&h, 12, "y", NULL, 0);
        constant(&h, "k", FLOAT, DIMS(1, 1, K, K), kernel, sizeof(kernel));
        node(&h, "Conv", "x k", "y", words);
        if (!CHECK_STATUS(import(&h, &m, &error), PST_OK, &error))
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
    port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    constant(&h, "w", FLOAT, DIMS(60, 2), weights, sizeof(weights));
    constant(&h, "zero", INT64, NULL, 0, &(int64_t){0}, 8);
    constant(&h, "one", INT64, DIMS(1), &(int64_t){0}, 8);
    constant(&h, "rest", INT64, DIMS(1), &(int64_t){-1}, 8);
    node(&h, "Shape", "x", "shape", "");
    node(&h, "Gather", "shape zero", "batch", "axis:0");
    node(&h, "Unsqueeze", "batch one", "first", "");
    node(&h, "Concat", "first rest", "wanted", "axis:0");
    node(&h, "Reshape", "x wanted", "flat", "");
    node(&h, "MatMul", "flat w", "y", "");
    CHECK_TEXT(&h, "flatten name=flatten_1 | dense 2 bias=false");
    port(&h, 11, "x", DIMS(1, 4, 5, 3)); /* height × width × channels, by the Transpose after the scale */
    constant(&h, "two", FLOAT, NULL, 0, &two, sizeof(two));
    node(&h, "Mul", "x two", "scaled", "");
    node(&h, "Transpose", "scaled", "t", "perm=0,3,1,2");
    node(&h, "GlobalAveragePool", "t", "g", "");
    node(&h, "Flatten", "g", "y", "");
    CHECK_TEXT(&h, "batchnorm name=batchnorm_1 | globalavgpool");
    port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    node(&h, "Transpose", "x", "t", "perm=0,2,3,1");
    node(&h, "Relu", "t", "r", "");
    node(&h, "ReduceMean", "r", "y", "axes=1,2 keepdims:0");
    CHECK_TEXT(&h, "relu name=relu_1 | globalavgpool");
    port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    node(&h, "Relu", "x", "r", "");
    node(&h, "Flatten", "r", "y", "");
    CHECK_TEXT(&h, "another order than height, width, channel");
    port(&h, 11, "x", DIMS(-1, 3, 4, 5));
    node(&h, "ReduceMean", "x", "y", "axes=1");
    CHECK_TEXT(&h, "expected the mean over height and width");
    port(&h, 11, "x", DIMS(-1, 6));
    node(&h, "Relu", "x", "r", "");
    node(&h, "ReduceMean", "r", "y", ""); /* over all values */
    CHECK_TEXT(&h, "no axes");
    port(&h, 11, "x", DIMS(-1, 1, 4, 5));
    node(&h, "Relu", "x", "r", "");
    node(&h, "Concat", "r x", "y", "axis:2"); /* one image below the other */
    CHECK_TEXT(&h, "expected channels");
}

static void activations_are_found(void)
{
    const float half = 0.5f, one = 1, root = 1.41421356f;
    for (int form = 0; form < 3; form++) {
        struct hand h = {0};
        port(&h, 11, "x", DIMS(-1, 6));
        constant(&h, "half", FLOAT, NULL, 0, &half, 4);
        constant(&h, "one", FLOAT, NULL, 0, &one, 4);
        constant(&h, "root", FLOAT, NULL, 0, &root, 4);
        node(&h, "Div", "x root", "a", "");
        node(&h, "Erf", "a", "b", "");
        node(&h, "Add", form ? "b one" : "one b", "c", "");
        node(&h, "Mul", form == 0 ? "x c" : form == 1 ? "c half" : "x half", "d", "");
        node(&h, "Mul", form == 0 ? "d half" : form == 1 ? "x d" : "d c", "y", "");
        char *text = text_of(&h);
        CHECK_MSG(strcmp(text, "gelu name=gelu_1") == 0, "form %d: %s", form, text);
        free(text);
    }
    struct hand h = {0};
    port(&h, 11, "x", DIMS(-1, 6));
    node(&h, "Sigmoid", "x", "s", "");
    node(&h, "Mul", "s x", "y", "");
    CHECK_TEXT(&h, "silu name=silu_1");
    port(&h, 11, "x", DIMS(-1, 6));
    node(&h, "Relu", "x", "r", "");
    node(&h, "Sigmoid", "x", "s", "");
    node(&h, "Mul", "s r", "y", "");
    CHECK_TEXT(&h, "of two values");
}

/* ---- Hostile files ---- */

static struct text small_model(void)
{
    struct hand h = {0};
    float kernel[2 * 2 * 4], weights[3 * 18];
    fill(kernel, 16, 1);
    fill(weights, 54, 2);
    port(&h, 11, "x", DIMS(-1, 2, 4, 4));
    constant(&h, "c.weight", FLOAT, DIMS(2, 2, 2, 2), kernel, sizeof(kernel));
    constant(&h, "w", FLOAT, DIMS(3, 18), weights, sizeof(weights));
    constant(&h, "s", INT64, DIMS(2), (const int64_t[]){0, -1}, 16);
    node(&h, "Conv", "x c.weight", "c", "kernel_shape=2,2");
    node(&h, "Relu", "c", "r", "");
    node(&h, "Add", "r c", "a", "");
    node(&h, "Reshape", "a s", "f", "");
    node(&h, "Gemm", "f w", "y", "transB:1");
    port(&h, 12, "y", DIMS(-1, 3));
    return finish(&h);
}

static bool is_refusal(pst_status st, const pst_error *e)
{
    return (st == PST_ECORRUPT || st == PST_EUNSUPPORTED || st == PST_ELIMIT || st == PST_EINVAL || st == PST_ETYPE) && e->status == st && e->message[0];
}

static void damage_is_refused(void)
{
    struct text file = small_model();
    uint8_t *copy = malloc(file.length);
    pst_error error = {0};
    struct onnx_model m = {0};
    uint64_t live;
    size_t taken = 0;
    CHECK_STATUS(onnx_import_bytes(&m, NULL, (const uint8_t *)file.data, file.length, &error), PST_OK, &error);
    CHECK(m.text && strstr(m.text, "residual") && strstr(m.text, "name=c"));
    onnx_model_finish(&m);
    live = mem_live();
    for (size_t cut = 0; cut < file.length; cut++) {
        memcpy(copy, file.data, cut);
        pst_status st = onnx_import_bytes(&m, NULL, copy, cut, &error);
        CHECK_MSG(is_refusal(st, &error), "cut at %zu: %s", cut, error.message);
    }
    for (size_t bit = 0; bit < 8 * file.length; bit++) {
        memcpy(copy, file.data, file.length);
        copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
        pst_status st = onnx_import_bytes(&m, NULL, copy, file.length, &error);
        CHECK_MSG(st == PST_OK || is_refusal(st, &error), "bit %zu: %s", bit, error.message);
        taken += st == PST_OK;
        onnx_model_finish(&m);
    }
    CHECK(taken > 8 * 70 * 4); /* weights have other values then */
    CHECK_INT(mem_live(), live);
    free(copy);
    text_finish(&file);
}

static void check_refused(struct hand *h, pst_status want, const char *part)
{
    struct onnx_model m;
    pst_error error;
    pst_status st = import(h, &m, &error);
    CHECK_MSG(st == want && strstr(error.message, part) && strcmp(error.path, "by-hand.onnx") == 0, "%s: status %d, %s", part, (int)st, error.message);
    onnx_model_finish(&m);
}

static void nonsense_is_refused(void)
{
    struct hand h = {0};
    const float number = 2;
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    node(&h, "Add", "x b", "a", "");
    node(&h, "Relu", "a", "b", "");
    node(&h, "Relu", "b", "y", "");
    check_refused(&h, PST_ECORRUPT, "cycle");
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    node(&h, "Relu", "nowhere", "y", "");
    check_refused(&h, PST_ECORRUPT, "\"nowhere\" is not defined");
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    node(&h, "Relu", "x", "y", "");
    node(&h, "Tanh", "x", "y", "");
    check_refused(&h, PST_ECORRUPT, "a name that is taken");
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    node(&h, "Teleport", "x", "y", "");
    check_refused(&h, PST_EUNSUPPORTED, "node 0 \"y\" (Teleport): the operator is not supported");
    port(&h, 11, "x", DIMS(-1, 3, -1, 8));
    port(&h, 12, "y", NULL, 0);
    node(&h, "Relu", "x", "y", "");
    check_refused(&h, PST_EUNSUPPORTED, "dimension 2 of the input \"x\" is open");
    port(&h, 11, "x", DIMS(-1, 65536, 65536, 65536));
    port(&h, 12, "y", NULL, 0);
    node(&h, "Relu", "x", "y", "");
    check_refused(&h, PST_ELIMIT, "2^32");
    port(&h, 11, "x", DIMS(-1, 2000000000)); /* one number for each of so many channels */
    port(&h, 12, "y", NULL, 0);
    constant(&h, "n", FLOAT, NULL, 0, &number, 4);
    node(&h, "Mul", "x n", "y", "");
    check_refused(&h, PST_ELIMIT, "a single number");
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    constant(&h, "w", FLOAT, DIMS((int64_t)1 << 62, 4), &number, 4);
    node(&h, "MatMul", "x w", "y", "");
    check_refused(&h, PST_ECORRUPT, "more values than there are numbers");
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    constant(&h, "w", FLOAT, DIMS(4, 1000000), &number, 4);
    node(&h, "MatMul", "x w", "y", "");
    check_refused(&h, PST_ECORRUPT, "another number of bytes");
}

/* Sums whose inputs are read again and again would double the text with each of them. */
static void tangles_are_refused(void)
{
    struct hand h = {0};
    char in[32], out[16];
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "v200", NULL, 0);
    node(&h, "Relu", "x", "v0", "");
    node(&h, "Tanh", "v0", "v1", "");
    for (int i = 2; i <= 200; i++) {
        snprintf(in, sizeof(in), "v%d v%d", i - 1, i - 2);
        snprintf(out, sizeof(out), "v%d", i);
        node(&h, "Add", in, out, "");
    }
    check_refused(&h, PST_EUNSUPPORTED, "cross");
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "w39", NULL, 0);
    node(&h, "Relu", "x", "w0", "");
    for (int i = 1; i < 40; i++) {
        snprintf(in, sizeof(in), "w%d w%d", i - 1, i - 1);
        snprintf(out, sizeof(out), "w%d", i);
        node(&h, "Concat", in, out, "axis:1");
    }
    check_refused(&h, PST_ELIMIT, "2^32");
}

/* Repeated numbers cannot make more weights than the file could pay for. */
static void many_numbers_are_refused(void)
{
    struct hand h = {0};
    const float number = 2;
    char in[32], out[16];
    port(&h, 11, "v0", DIMS(-1, 1000000));
    port(&h, 12, "v100", NULL, 0);
    constant(&h, "n", FLOAT, NULL, 0, &number, 4);
    for (int i = 1; i <= 100; i++) {
        snprintf(in, sizeof(in), "v%d n", i - 1);
        snprintf(out, sizeof(out), "v%d", i);
        node(&h, "Mul", in, out, "");
    }
    check_refused(&h, PST_ELIMIT, "more weights than the file has");
}

/* ---- External data ---- */

static struct text external_model(const char *location, const char *offset, const char *length)
{
    struct hand h = {0};
    port(&h, 11, "x", DIMS(-1, 4));
    port(&h, 12, "y", NULL, 0);
    size_t begin = proto_begin(&h.graph, 5);
    proto_int(&h.graph, 1, 4);
    proto_int(&h.graph, 1, 2);
    proto_int(&h.graph, 2, FLOAT);
    proto_string(&h.graph, 8, "w");
    const char *const entries[][2] = {{"location", location}, {"offset", offset}, {"length", length}};
    for (size_t i = 0; i < 3; i++) {
        if (!entries[i][1])
            continue;
        size_t entry = proto_begin(&h.graph, 13);
        proto_string(&h.graph, 1, entries[i][0]);
        proto_string(&h.graph, 2, entries[i][1]);
        proto_end(&h.graph, entry);
    }
    proto_int(&h.graph, 14, 1);
    proto_end(&h.graph, begin);
    node(&h, "MatMul", "x w", "y", "");
    return finish(&h);
}

static void write_file(const char *path, const void *data, size_t length)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, length, f) != length || fclose(f) != 0)
        abort();
}

static void external_data_stays_inside(void)
{
    static const struct {
        const char *location, *offset, *length, *want; /* NULL: accepted */
    } rows[] = {
        {"weights.bin", NULL, NULL, NULL},
        {"weights.bin", "4", "32", NULL},
        {"below/weights.bin", "0", "32", NULL},
        {"./weights.bin", NULL, NULL, NULL},
        {"../secret.bin", NULL, NULL, "not a path inside"},
        {"below/../../secret.bin", NULL, NULL, "not a path inside"},
        {"..", NULL, NULL, "not a path inside"},
        {"/etc/passwd", NULL, NULL, "not a path inside"},
        {"", NULL, NULL, "not a path inside"},
        {"https://example.com/w", NULL, NULL, "not a path inside"},
        {"link.bin", NULL, NULL, "a link out of the model's folder"},
        {"linked/secret.bin", NULL, NULL, "a link out of the model's folder"},
        {"below", NULL, NULL, "not a file"},
        {"pipe", NULL, NULL, "not a file"},
        {"missing.bin", NULL, NULL, ""},
        {"weights.bin", "8", NULL, "shorter than its part"},
        {"weights.bin", "18446744073709551612", NULL, "shorter than its part"},
        {"weights.bin", "99999999999999999999", NULL, "offset of external data is not a number"},
        {"weights.bin", "-4", NULL, "offset of external data is not a number"},
        {"weights.bin", "0", "4", "another length than its shape"},
    };
    float values[9];
    char root[400], path[512];
    fill(values, 9, 1);
    snprintf(root, sizeof(root), "%s", test_path("outside"));
    const char *const folders[] = {"", "/model", "/model/below", "/other"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s%s", root, folders[i]);
        mkdir(path, 0700);
    }
    const char *const files[] = {"/model/weights.bin", "/model/below/weights.bin", "/secret.bin", "/other/secret.bin"};
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof(path), "%s%s", root, files[i]);
        write_file(path, values, sizeof(values));
    }
    snprintf(path, sizeof(path), "%s/model/link.bin", root);
    CHECK(symlink("../secret.bin", path) == 0);
    snprintf(path, sizeof(path), "%s/model/linked", root);
    CHECK(symlink("../other", path) == 0);
    snprintf(path, sizeof(path), "%s/model/pipe", root);
    CHECK(mkfifo(path, 0600) == 0);
    snprintf(path, sizeof(path), "%s/model/a.onnx", root);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct text file = external_model(rows[i].location, rows[i].offset, rows[i].length);
        struct onnx_model m = {0};
        pst_error error = {0};
        write_file(path, file.data, file.length);
        pst_status st = onnx_import(&m, path, &error);
        if (!rows[i].want) {
            CHECK_STATUS(st, PST_OK, &error);
            size_t skipped = rows[i].offset && rows[i].offset[0] == '4' ? 1 : 0;
            CHECK(m.params && memcmp(m.params, values + skipped, 8 * sizeof(float)) == 0);
        } else {
            CHECK_MSG(st < 0 && strstr(error.message, rows[i].want), "%s: %s", rows[i].location, error.message);
        }
        onnx_model_finish(&m);
        text_finish(&file);
    }
    struct text file = external_model("weights.bin", NULL, NULL);
    struct onnx_model m = {0};
    pst_error error = {0};
    CHECK_STATUS(onnx_import_bytes(&m, NULL, (const uint8_t *)file.data, file.length, &error), PST_EUNSUPPORTED, &error);
    text_finish(&file);
}

static void memory_may_run_out(void)
{
    struct text file = small_model();
    pst_error error = {0};
    struct onnx_model m = {0};
    uint64_t live = mem_live();
    for (uint64_t n = 0;; n++) {
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = onnx_import_bytes(&m, NULL, (const uint8_t *)file.data, file.length, &error);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        if (!reached) {
            CHECK_STATUS(st, PST_OK, &error);
            onnx_model_finish(&m);
            break;
        }
        CHECK_STATUS(st, PST_ENOMEM, &error);
        CHECK_INT(mem_live(), live);
    }
    text_finish(&file);
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
                                           {"damage is refused", damage_is_refused},
                                           {"nonsense is refused", nonsense_is_refused},
                                           {"tangles are refused", tangles_are_refused},
                                           {"many numbers are refused", many_numbers_are_refused},
                                           {"external data stays inside", external_data_stays_inside},
                                           {"memory may run out", memory_may_run_out},
                                           {0}});
}
