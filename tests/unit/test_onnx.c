/* test_onnx.c: ONNX files: every layer has a form, the wire format is sound, memory may run out anywhere. What the files
 * compute is compared with ONNX Runtime in tests/interop. */
#include "base/fault.h"
#include "base/memory.h"
#include "export/onnx.h"
#include "harness.h"
#include "model/layer_list.h"

#include <stdlib.h>
#include <string.h>

static const struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 4};

static const char model_text[] =
    "conv 8 3 groups=2 pad=same | relu6 | batchnorm | residual ( dwconv 3 gelu pad=same ) | layernorm | "
    "concat ( conv 2 1 )( avgpool 3 stride=1 pad=same ) | flatten | dense 3 softmax";

/* The model with start weights as a file; a failure leaves `to` empty. */
static pst_status write_model(struct text *to, const char *text, const struct onnx_options *o, pst_error *error)
{
    struct graph *g = NULL;
    pst_status st = graph_create(&g, text, &image, error);
    if (st < 0)
        return st;
    float *params = calloc(g->values + 1, sizeof(float));
    graph_init_params(g, 1, params);
    st = onnx_write(to, g, params, o, error);
    if (st < 0) {
        text_finish(to);
        *to = (struct text){0};
    }
    free(params);
    graph_destroy(g);
    return st;
}

static void every_layer_has_a_form(void)
{
    for (size_t i = 0; layer_at(i); i++) {
        struct text file = {0};
        pst_error error = {0};
        for (int nhwc = 0; nhwc < 2; nhwc++) {
            CHECK_STATUS(write_model(&file, layer_at(i)->example, &(struct onnx_options){.nhwc = nhwc}, &error), PST_OK,
                         &error);
            CHECK(file.length > 100);
        }
        text_finish(&file);
    }
}

/* Reads a varint at `*at`; false: it is cut short. */
static bool varint(const uint8_t *p, size_t length, size_t *at, uint64_t *ret)
{
    *ret = 0;
    for (unsigned shift = 0; *at < length && shift < 64; shift += 7) {
        *ret |= (uint64_t)(p[*at] & 0x7f) << shift;
        if (p[(*at)++] < 0x80)
            return true;
    }
    return false;
}

/* Counts the fields with number `wanted` of a message; SIZE_MAX: the message is malformed. `*ret` is the last one's payload. */
static size_t count_fields(const uint8_t *p, size_t length, unsigned wanted, const uint8_t **ret, size_t *ret_length)
{
    size_t found = 0;
    for (size_t at = 0; at < length;) {
        uint64_t tag, value;
        if (!varint(p, length, &at, &tag))
            return SIZE_MAX;
        size_t begin = at;
        if ((tag & 7) == 0 && !varint(p, length, &at, &value))
            return SIZE_MAX;
        if ((tag & 7) == 5)
            at += 4;
        if ((tag & 7) == 2) {
            if (!varint(p, length, &at, &value) || value > length - at)
                return SIZE_MAX;
            begin = at;
            at += value;
        }
        if (at > length || ((tag & 7) != 0 && (tag & 7) != 2 && (tag & 7) != 5))
            return SIZE_MAX;
        if (tag >> 3 == wanted) {
            found++;
            *ret = p + begin;
            *ret_length = at - begin;
        }
    }
    return found;
}

static void messages_nest(void)
{
    struct text file = {0};
    pst_error error = {0};
    const uint8_t *graph = NULL, *part = NULL;
    size_t graph_length = 0, length = 0;
    REQUIRE_OK(write_model(&file, model_text, &(struct onnx_options){.model = model_text}, &error), &error);
    CHECK_INT(count_fields((const uint8_t *)file.data, file.length, 14, &part, &length), 1); /* metadata */
    CHECK_INT(count_fields((const uint8_t *)file.data, file.length, 7, &graph, &graph_length), 1);
    CHECK_INT(count_fields(graph, graph_length, 11, &part, &length), 1); /* input */
    CHECK_INT(count_fields(graph, graph_length, 12, &part, &length), 1); /* result */
    /* 14 parameters, 2 limits of relu6, 3 numbers of gelu */
    CHECK_INT(count_fields(graph, graph_length, 5, &part, &length), 14 + 2 + 3);
    text_finish(&file);
}

static void memory_may_run_out(void)
{
    struct text file = {0};
    pst_error error = {0};
    struct graph *g = NULL;
    const char *classes[] = {"a", "b"};
    struct onnx_options o = {
        .nhwc = true, .classes = classes, .class_count = 2, .preprocessing = "decode", .model = model_text};
    REQUIRE_OK(graph_create(&g, model_text, &image, &error), &error);
    float *params = calloc(g->values + 1, sizeof(float));
    uint64_t live = mem_live();
    for (uint64_t n = 0;; n++) {
        test_fault_arm(FAULT_MEMORY, n, false);
        pst_status st = onnx_save(test_path("model.onnx"), g, params, &o, true, &error);
        bool reached = test_fault_calls() > n;
        test_fault_clear();
        if (!reached) {
            CHECK_STATUS(st, PST_OK, &error);
            break;
        }
        CHECK_STATUS(st, PST_ENOMEM, &error);
        CHECK_INT(mem_live(), live);
    }
    /* The same weights give the same bytes. */
    size_t length;
    uint8_t *stored = test_read_file(test_path("model.onnx"), &length);
    REQUIRE_OK(onnx_write(&file, g, params, &o, &error), &error);
    CHECK(length == file.length && memcmp(stored, file.data, length) == 0);
    CHECK_STATUS(onnx_save(test_path("model.onnx"), g, params, &o, false, &error), PST_EEXIST, &error);
    CHECK_STATUS(onnx_save(test_path("missing/model.onnx"), g, params, &o, false, &error), PST_ENOTFOUND, &error);
    free(stored);
    text_finish(&file);
    graph_destroy(g);
    free(params);
}

/* Weights of more than 2 GiB: refused before they are touched. */
static void large_models_are_refused(void)
{
    struct text file = {0};
    pst_error error = {0};
    struct graph *g = NULL;
    REQUIRE_OK(graph_create(&g, "flatten | dense 4000000 | dense 200", &image, &error), &error);
    CHECK_STATUS(onnx_write(&file, g, NULL, &(struct onnx_options){0}, &error), PST_ELIMIT, &error);
    CHECK(strstr(error.message, "safetensors") != NULL);
    text_finish(&file);
    graph_destroy(g);
}

int main(int argc, char **argv)
{
    return test_main(argc, argv,
                     (const struct test[]){{"every layer has a form", every_layer_has_a_form},
                                           {"messages nest", messages_nest},
                                           {"memory may run out", memory_may_run_out},
                                           {"large models are refused", large_models_are_refused},
                                           {0}});
}
