/* test_network.c: networks through the public interface: made, quantised, saved, opened, evaluated; damaged folders. */
#include "base/cpu.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/random.h"
#include "export/stored_weights.h"
#include "harness.h"
#include "infer/infer.h"
#include "io/file.h"
#include "network/network.h"
#include "train/teacher.h"

#include <inttypes.h>
#include <math.h>
#include <penstock/compress.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT 96 /* samples */
#define SIDE  10
#define VALUES ((size_t)SIDE * SIDE * 3)

static const char *const model = "conv 16 3 pad=same bias=false | batchnorm | relu | residual relu ( conv 16 3 pad=same bias=false | batchnorm ) | "
                                 "dwconv 3 relu6 | conv 24 1 | relu | globalavgpool | dense 5 softmax";
static const pst_shape input = {.rank = 3, .size = {SIDE, SIDE, 3}};

/* A network, and data with the labels that it gives itself, so that its accuracy is 1. */
struct rig {
    pst_network *network;
    float *images;
    int64_t *labels;
    char folder[64];
};

static pst_network *make_network(void)
{
    pst_error error = {0};
    pst_model *m = NULL;
    pst_network *n = NULL;
    const float *values[64];
    struct random rng;
    random_init(&rng, 3, 0, 0, 0);
    if (!CHECK_STATUS(pst_model_parse(&m, model, &input, &error), PST_OK, &error))
        return NULL;
    float *params = calloc(m->graph->values, sizeof(float));
    graph_init_params(m->graph, 9, params);
    for (size_t i = 0; i < m->graph->param_count; i++) {
        const struct graph_param *p = &m->graph->params[i];
        for (size_t k = 0; p->layer.init != INIT_GLOROT_UNIFORM && k < p->count; k++)
            params[p->offset + k] = (float)random_between(&rng, p->layer.init == INIT_ONES ? 0.6 : -0.2, p->layer.init == INIT_ONES ? 1.4 : 0.2);
        values[i] = params + p->offset;
    }
    char *classes[] = {"ant", "bee", "cat", "dog", "eel"};
    pst_run_record record = {.size = sizeof(record), .step = 42, .loss = PST_LOSS_SPARSE, .classes = classes, .class_count = 5, .input_field = "image",
                             .target_field = "label"};
    CHECK_STATUS(pst_network_create(&n, model, &input, values, &record, &error), PST_OK, &error);
    free(params);
    pst_model_destroy(m);
    return n;
}

static bool predict(const pst_network *n, const float *images, size_t count, pst_precision precision, float *out)
{
    pst_error error = {0};
    pst_predictor *p = NULL;
    pst_predict_options o = {.size = sizeof(o), .threads = 2, .precision = precision, .output = PST_OUTPUT_LOGITS};
    pst_tensor t = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {count, SIDE, SIDE, 3}, .data = (void *)(uintptr_t)images};
    bool ok = CHECK_STATUS(pst_predictor_of_network(&p, n, &o, &error), PST_OK, &error) &&
              CHECK_STATUS(pst_predictor_run(p, &t, out, &error), PST_OK, &error);
    pst_predictor_destroy(p);
    return ok;
}

static bool rig_open(struct rig *r)
{
    struct random rng;
    *r = (struct rig){.network = make_network(), .images = malloc(COUNT * VALUES * sizeof(float)), .labels = malloc(COUNT * sizeof(int64_t)),
                      .folder = "/tmp/pst_network_XXXXXX"};
    random_init(&rng, 4, 0, 0, 0);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < VALUES; k++)
            r->images[i * VALUES + k] = (float)(random_between(&rng, -1, 1) * (1 + (double)(i % 5)) + ((double)(i % 7) - 3) / 3);
    float out[COUNT * 5];
    if (!r->network || !CHECK(mkdtemp(r->folder)) || !predict(r->network, r->images, COUNT, PST_PRECISION_AUTO, out))
        return false;
    for (size_t i = 0; i < COUNT; i++) {
        r->labels[i] = 0;
        for (int k = 1; k < 5; k++)
            if (out[i * 5 + (size_t)k] > out[i * 5 + (size_t)r->labels[i]])
                r->labels[i] = k;
    }
    return true;
}

static void rig_close(struct rig *r)
{
    char command[128];
    pst_network_destroy(r->network);
    free(r->images), free(r->labels);
    snprintf(command, sizeof(command), "rm -rf %s", r->folder);
    if (r->folder[16] != 'X')
        CHECK_INT(system(command), 0);
}

static pst_pipeline *make_pipeline(const struct rig *r)
{
    pst_error error = {0};
    pst_pipeline *p = NULL;
    const char *names[] = {"image", "label"};
    pst_tensor arrays[] = {{.dtype = PST_DTYPE_F32, .rank = 4, .shape = {COUNT, SIDE, SIDE, 3}, .data = r->images},
                           {.dtype = PST_DTYPE_I64, .rank = 1, .shape = {COUNT}, .data = r->labels}};
    if (CHECK_STATUS(pst_pipeline_create(&p, NULL, &error), PST_OK, &error) &&
        CHECK_STATUS(pst_pipeline_add_arrays(p, names, arrays, 2, &error), PST_OK, &error) &&
        CHECK_STATUS(pst_pipeline_add(p, "batch", "16", &error), PST_OK, &error))
        return p;
    return pst_pipeline_destroy(p);
}

static pst_network *quantise(const struct rig *r, const pst_quantize_options *o)
{
    pst_error error = {0};
    pst_network *n = NULL;
    pst_pipeline *p = make_pipeline(r);
    CHECK_STATUS(pst_quantize(&n, r->network, p, o, &error), PST_OK, &error);
    pst_pipeline_destroy(p);
    return n;
}

/* ---- Tests ---- */

static double accuracy(const struct rig *r, const pst_network *n)
{
    pst_error error = {0};
    pst_pipeline *p = make_pipeline(r);
    pst_evaluation e = {.size = sizeof(e)};
    CHECK_STATUS(pst_network_evaluate(n, p, NULL, 2, &e, &error), PST_OK, &error);
    CHECK_INT(e.samples, COUNT);
    pst_free(e.confusion);
    pst_pipeline_destroy(p);
    return e.accuracy;
}

static uint64_t file_bytes(const char *folder, const char *name)
{
    char path[160];
    struct stat info;
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return stat(path, &info) == 0 ? (uint64_t)info.st_size : 0;
}

/* Saved and opened, a network of any format computes the same bits. */
static void test_save_and_open(void)
{
    struct rig r;
    pst_error error = {0};
    float want[COUNT * 5], got[COUNT * 5], full[COUNT * 5];
    char path[128];
    if (!rig_open(&r))
        return;
    predict(r.network, r.images, COUNT, PST_PRECISION_AUTO, full);
    CHECK(accuracy(&r, r.network) == 1);
    static const double nearest[] = {1e-30, 0.02, 0.003, 0.02, 0.5, 0.5};
    for (int format = PST_WEIGHTS_FLOAT32; format <= PST_WEIGHTS_QUANTIZED; format++) {
        pst_network *again = NULL, *n = format == PST_WEIGHTS_FLOAT32 ? NULL : quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .format = (pst_weights_format)format});
        const pst_network *from = n ? n : r.network;
        pst_network_info info = {.size = sizeof(info)};
        snprintf(path, sizeof(path), "%s/model%d", r.folder, format);
        CHECK_STATUS(pst_network_save(from, path, false, &error), PST_OK, &error);
        CHECK_INT(pst_network_save(from, path, false, &error), PST_EEXIST);
        CHECK_STATUS(pst_network_save(from, path, true, &error), PST_OK, &error);
        if (CHECK_STATUS(pst_network_open(&again, path, NULL, &error), PST_OK, &error)) {
            CHECK(predict(from, r.images, COUNT, PST_PRECISION_AUTO, want) && predict(again, r.images, COUNT, PST_PRECISION_AUTO, got));
            CHECK_MSG(memcmp(want, got, sizeof(want)) == 0, "format %d: opened again, the result differs", format);
            double worst = 0;
            for (size_t i = 0; i < COUNT * 5; i++)
                worst = fmax(worst, fabs((double)got[i] - (double)full[i]));
            CHECK_MSG(worst < nearest[format], "format %d: off by %g", format, worst);
            CHECK_STATUS(pst_network_describe(again, &info, &error), PST_OK, &error);
            CHECK_INT(info.format, format);
            CHECK_INT(pst_network_record(again)->step, 42);
            CHECK_INT(pst_network_record(again)->class_count, 5);
            CHECK(strcmp(pst_network_record(again)->classes[3], "dog") == 0);
            CHECK_MSG(accuracy(&r, again) > (format == PST_WEIGHTS_INT4 ? 0.7 : 0.93), "format %d: accuracy %g", format, accuracy(&r, again));
            CHECK(file_bytes(path, "weights.safetensors") >= info.weight_bytes);
            if (format == PST_WEIGHTS_QUANTIZED) {
                CHECK_INT(info.layers, 5);
                CHECK(predict(again, r.images, COUNT, PST_PRECISION_FP32, got) && memcmp(want, got, sizeof(want)) != 0);
            }
        }
        pst_network_destroy(again);
        pst_network_destroy(n);
    }
    rig_close(&r);
}

/* A format for each kernel: saved and opened again it is the same, to the bit and to the byte. */
static void test_mixed(void)
{
    struct rig r;
    pst_error error = {0};
    pst_network *folded = NULL, *again = NULL, *n = NULL, *twice = NULL;
    float want[COUNT * 5], got[COUNT * 5];
    char path[128];
    if (!rig_open(&r))
        return;
    REQUIRE_OK(network_round(&folded, r.network, PST_WEIGHTS_FLOAT32, NULL, &error), &error);
    const struct graph *g = folded->model->graph;
    pst_weights_format *each = calloc(g->param_count, sizeof(*each));
    static const pst_weights_format kinds[] = {PST_WEIGHTS_INT4, PST_WEIGHTS_FLOAT32, PST_WEIGHTS_INT8, PST_WEIGHTS_BFLOAT16, PST_WEIGHTS_FLOAT16};
    static const unsigned bits[] = {4, 32, 8, 16, 16};
    size_t kernels = 0;
    for (size_t i = 0; i < g->param_count; i++)
        if (stored_kernel(g, i))
            each[i] = kinds[kernels++ % 5];
    CHECK(kernels >= 5);
    REQUIRE_OK(network_round(&n, folded, PST_WEIGHTS_MIXED, each, &error), &error);
    REQUIRE_OK(network_round(&twice, r.network, PST_WEIGHTS_MIXED, each, &error), &error); /* folding again changes nothing */
    CHECK(memcmp(n->params, twice->params, g->values * sizeof(float)) == 0);
    snprintf(path, sizeof(path), "%s/mixed", r.folder);
    CHECK_STATUS(pst_network_save(n, path, false, &error), PST_OK, &error);
    REQUIRE_OK(pst_network_open(&again, path, NULL, &error), &error);
    kernels = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < g->param_count; i++) {
        bool kernel = stored_kernel(g, i);
        unsigned expected = kernel ? bits[kernels++ % 5] : 32;
        CHECK_INT(network_bits(again, i), expected);
        bytes += (g->params[i].count * expected + 7) / 8 + (expected < 16 ? 4 * quant_channels(&g->nodes[g->params[i].node]) : 0);
    }
    CHECK(memcmp(n->params, again->params, g->values * sizeof(float)) == 0);
    CHECK(predict(n, r.images, COUNT, PST_PRECISION_AUTO, want) && predict(again, r.images, COUNT, PST_PRECISION_AUTO, got) && memcmp(want, got, sizeof(want)) == 0);
    pst_network_info info = {.size = sizeof(info)};
    CHECK_STATUS(pst_network_describe(again, &info, &error), PST_OK, &error);
    CHECK_INT(info.format, PST_WEIGHTS_MIXED);
    CHECK_INT(info.weight_bytes, bytes);
    size_t size = file_bytes(path, "weights.safetensors");
    CHECK(size >= bytes && size < bytes + 4096);
    CHECK_STATUS(pst_network_save(again, path, true, &error), PST_OK, &error);
    CHECK_INT(file_bytes(path, "weights.safetensors"), size);
    pst_network *none = NULL;
    CHECK_STATUS(pst_quantize(&none, r.network, NULL, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .format = PST_WEIGHTS_MIXED}, &error), PST_EINVAL, &error);
    pst_network_destroy(n), pst_network_destroy(twice), pst_network_destroy(again), pst_network_destroy(folded);
    free(each);
    rig_close(&r);
}

/* Callers that know fewer members of a result get those, and nothing beyond them is written. */
static void test_older_callers(void)
{
    struct rig r;
    pst_error error = {0};
    if (!rig_open(&r))
        return;
    struct {
        pst_network_info info;
        uint64_t after;
    } described = {.info = {.size = offsetof(pst_network_info, weight_bytes), .weight_bytes = 77, .layers = 78}};
    CHECK_STATUS(pst_network_describe(r.network, &described.info, &error), PST_OK, &error);
    CHECK(described.info.parameters > 0 && described.info.weight_bytes == 77 && described.info.layers == 78);
    CHECK_STATUS(pst_network_describe(r.network, &(pst_network_info){0}, &error), PST_EINVAL, &error);
    uint64_t live = mem_live();
    const size_t ends[] = {offsetof(pst_evaluation, accuracy), offsetof(pst_evaluation, confusion), sizeof(pst_evaluation), 0};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        pst_pipeline *p = make_pipeline(&r);
        pst_evaluation e = {.size = ends[i], .accuracy = -7};
        CHECK_STATUS(pst_network_evaluate(r.network, p, NULL, 1, &e, &error), ends[i] ? PST_OK : PST_EINVAL, &error);
        CHECK(e.size == ends[i] && !e.confusion == (ends[i] < sizeof(e)) && (e.accuracy < 0) == (ends[i] <= offsetof(pst_evaluation, accuracy)));
        CHECK_INT(e.samples, ends[i] ? COUNT : 0);
        pst_free(e.confusion);
        pst_pipeline_destroy(p);
    }
    const size_t sizes[] = {offsetof(pst_rate_result, rates), offsetof(pst_rate_result, losses), offsetof(pst_rate_result, suggested), offsetof(pst_rate_result, lowest),
                            sizeof(pst_rate_result), 0};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        pst_pipeline *p = make_pipeline(&r);
        pst_trainer *t = NULL;
        pst_fields fields = {.size = sizeof(fields)};
        pst_rate_result found = {.size = sizes[i], .lowest = -7};
        REQUIRE_OK(pst_fields_find(p, NULL, NULL, true, &fields, &error), &error);
        REQUIRE_OK(pst_trainer_create(&t, pst_network_model(r.network), &(pst_train_options){.size = sizeof(pst_train_options), .batch = 16, .threads = 1, .loss = PST_LOSS_SPARSE}, &error), &error);
        pst_status st = pst_trainer_find_rate(t, p, &(pst_rate_options){.size = sizeof(pst_rate_options), .fields = &fields, .steps = 20}, &found, &error);
        CHECK_STATUS(st, sizes[i] ? PST_OK : PST_EINVAL, &error);
        if (sizes[i]) {
            CHECK(found.size == sizes[i] && found.count > 10 && (found.lowest == -7) == (sizes[i] < sizeof(found)));
            CHECK(!found.rates == (sizes[i] <= offsetof(pst_rate_result, rates)) && !found.losses == (sizes[i] <= offsetof(pst_rate_result, losses)));
        }
        pst_free(found.rates), pst_free(found.losses);
        pst_trainer_destroy(t);
        pst_pipeline_destroy(p);
    }
    CHECK_INT(mem_live(), live);
    rig_close(&r);
}

/* Options that are NULL are the defaults. */
static void test_no_options(void)
{
    struct rig r;
    pst_error error = {0};
    pst_network *n = NULL;
    pst_predictor *p = NULL;
    if (!rig_open(&r))
        return;
    CHECK_STATUS(pst_shrink(&n, r.network, NULL, &error), PST_OK, &error);
    if (n) {
        pst_network_info info = {.size = sizeof(info)}, whole = {.size = sizeof(whole)};
        CHECK_STATUS(pst_network_describe(n, &info, &error), PST_OK, &error);
        CHECK_STATUS(pst_network_describe(r.network, &whole, &error), PST_OK, &error);
        CHECK_MSG(2 * info.flops <= whole.flops, "%g of %g operations", (double)info.flops, (double)whole.flops);
    }
    n = pst_network_destroy(n);
    CHECK_STATUS(pst_quantize(&n, r.network, NULL, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .format = PST_WEIGHTS_INT8}, &error), PST_OK, &error);
    CHECK_STATUS(pst_predictor_of_network(&p, r.network, NULL, &error), PST_OK, &error);
    pst_predictor_destroy(p);
    pst_network_destroy(n);
    rig_close(&r);
}

static void test_calibrations(void)
{
    struct rig r;
    if (!rig_open(&r))
        return;
    for (int c = PST_CALIBRATION_MINMAX; c <= PST_CALIBRATION_MSE; c++)
        for (unsigned bits = 7; bits <= 8; bits++) {
            pst_network *n = quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .calibration = (pst_calibration)c, .weight_bits = bits, .no_choice = true,
                                                                  .percentile = 0.999, .samples = bits == 7 ? 40 : 0});
            if (n)
                CHECK_MSG(accuracy(&r, n) > 0.85, "calibration %d, %u bits: accuracy %g", c, bits, accuracy(&r, n));
            pst_network_destroy(n);
        }
    rig_close(&r);
}

static bool stop_at_32(void *user, uint64_t samples, uint64_t of)
{
    *(uint64_t *)user = of;
    return samples < 32;
}

static void test_mistakes(void)
{
    struct rig r;
    pst_error error = {0};
    pst_network *n = NULL, *twice = NULL;
    uint64_t of = 0;
    if (!rig_open(&r))
        return;
    CHECK_INT(pst_quantize(&n, r.network, NULL, NULL, &error), PST_EINVAL);
    CHECK(strstr(error.message, "samples"));
    pst_pipeline *p = make_pipeline(&r);
    pst_quantize_options o = {.size = sizeof(o), .progress = stop_at_32, .user = &of};
    CHECK_INT(pst_quantize(&n, r.network, p, &o, &error), PST_ECANCELLED);
    CHECK_INT(of, 512);
    pst_pipeline_destroy(p);
    n = quantise(&r, NULL);
    p = make_pipeline(&r);
    CHECK_INT(pst_quantize(&twice, n, p, NULL, &error), PST_EINVAL);
    pst_pipeline_destroy(p);
    CHECK_INT(pst_network_open(&twice, "/tmp/there/is/none", NULL, &error), PST_ENOTFOUND);
    pst_predictor *predictor = NULL;
    CHECK_INT(pst_predictor_of_network(&predictor, r.network, &(pst_predict_options){.size = sizeof(pst_predict_options), .precision = PST_PRECISION_INT8}, &error),
              PST_ETYPE);
    pst_network_destroy(n);
    rig_close(&r);
}

/* Writes a file whose hash, if it has one, is right: what the reader must notice is inside. */
static bool write_state(const char *path, char *text, size_t length)
{
    FILE *f = fopen(path, "wb");
    bool ok = f && fwrite(text, 1, length, f) == length;
    return f && fclose(f) == 0 && ok;
}

/* Every truncation and bit flip of the files is refused; nothing crashes. */
static void test_damaged_files(void)
{
    static const char *const names[] = {"state.json", "weights.safetensors"};
    struct rig r;
    pst_error error = {0};
    char path[128], file[160];
    if (!rig_open(&r))
        return;
    pst_network *n = quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .no_choice = true});
    snprintf(path, sizeof(path), "%s/model", r.folder);
    CHECK_STATUS(pst_network_save(n, path, false, &error), PST_OK, &error);
    for (int i = 0; i < 2; i++) {
        uint8_t *bytes = NULL;
        size_t length = 0;
        snprintf(file, sizeof(file), "%s/%s", path, names[i]);
        if (!CHECK_STATUS(file_read_all(&bytes, &length, file, 1 << 24, &error), PST_OK, &error))
            continue;
        for (size_t at = 0; at < length; at += 1 + length / 300) {
            pst_network *again = NULL;
            bytes[at] ^= (uint8_t)(1u << at % 8);
            CHECK(write_state(file, (char *)bytes, length));
            CHECK_MSG(pst_network_open(&again, path, NULL, &error) == PST_ECORRUPT, "%s: bit flip at %zu: %s", names[i], at, error.message);
            bytes[at] ^= (uint8_t)(1u << at % 8);
            CHECK(write_state(file, (char *)bytes, at));
            CHECK_MSG(pst_network_open(&again, path, NULL, &error) == PST_ECORRUPT, "%s: cut at %zu: %s", names[i], at, error.message);
            pst_network_destroy(again);
        }
        CHECK(write_state(file, (char *)bytes, length));
        mem_free(bytes);
    }
    pst_network_destroy(n);
    rig_close(&r);
}

/* Two int8 models of the same weights that run differently are two teachers. */
static void test_int8_teachers(void)
{
    struct rig r;
    pst_error error = {0};
    uint64_t hashes[3] = {0};
    if (!rig_open(&r))
        return;
    pst_network *n = quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .no_choice = true});
    for (int i = 0; n && i < 3; i++) {
        char path[128];
        pst_teacher *t = NULL;
        pst_teacher_options o = {.size = sizeof(o), .threads = 1};
        snprintf(path, sizeof(path), "%s/teacher-%d", r.folder, i);
        for (size_t k = 0; i == 2 && k < n->quant->graph->count; k++)
            ((struct quant_model *)(uintptr_t)n->quant)->layers[k].run = QUANT_RUN_FLOAT;
        CHECK_STATUS(pst_network_save(n, path, false, &error), PST_OK, &error);
        if (CHECK_STATUS(pst_teacher_open(&t, path, &o, &error), PST_OK, &error))
            hashes[i] = teacher_hash(t);
        pst_teacher_destroy(t);
    }
    CHECK(hashes[0] == hashes[1] && hashes[1] != hashes[2]);
    pst_network_destroy(n);
    rig_close(&r);
}

/* Replaces the hash at the end of the text of state.json by the right one, and writes it. */
static bool write_hashed(const char *path, const char *text, size_t length)
{
    struct text whole = {0};
    text_add_n(&whole, text, length - 33);
    text_addf(&whole, ",\n  \"hash\": \"%016" PRIx64 "\"\n}\n", hash_bytes(text, length - 33, 0));
    bool ok = !whole.failed && write_state(path, whole.data, whole.length);
    text_finish(&whole);
    return ok;
}

/* Bit flips of state.json whose hash is right: whatever opens predicts, and nothing crashes or takes long. */
static void test_hostile_state(void)
{
    static const pst_weights_format formats[] = {PST_WEIGHTS_QUANTIZED, PST_WEIGHTS_INT4, PST_WEIGHTS_FLOAT32};
    struct rig r;
    pst_error error = {0};
    struct random rng;
    size_t refused = 0, accepted = 0;
    if (!rig_open(&r))
        return;
    random_init(&rng, 12, 0, 0, 0);
    for (size_t f = 0; f < sizeof(formats) / sizeof(formats[0]); f++) {
        pst_network *n = NULL;
        char path[128], file[160];
        uint8_t *bytes = NULL;
        size_t length = 0;
        if (formats[f] != PST_WEIGHTS_FLOAT32)
            n = quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .format = formats[f], .no_choice = true});
        snprintf(path, sizeof(path), "%s/state%zu", r.folder, f);
        snprintf(file, sizeof(file), "%s/state.json", path);
        CHECK_STATUS(pst_network_save(n ? n : r.network, path, false, &error), PST_OK, &error);
        REQUIRE_OK(file_read_all(&bytes, &length, file, 1 << 24, &error), &error);
        for (int round = 0; round < 400; round++) {
            pst_network *again = NULL;
            float out[5];
            size_t at = random_below(&rng, length - 33);
            uint8_t bit = (uint8_t)(1u << random_below(&rng, 8));
            bytes[at] ^= bit;
            CHECK(write_hashed(file, (char *)bytes, length));
            bytes[at] ^= bit;
            pst_status st = pst_network_open(&again, path, NULL, &error);
            accepted += st == PST_OK;
            refused += st < 0;
            pst_shape in = st == PST_OK ? pst_model_input(pst_network_model(again)) : (pst_shape){0};
            if (st == PST_OK && memcmp(&in, &input, sizeof(in)) == 0 && pst_model_output(pst_network_model(again)).size[0] == 5)
                predict(again, r.images, 1, PST_PRECISION_AUTO, out);
            pst_network_destroy(again);
        }
        mem_free(bytes);
        pst_network_destroy(n);
    }
    CHECK_MSG(accepted > 100 && refused > 100, "%zu accepted, %zu refused", accepted, refused);
    rig_close(&r);
}

/* Records of earlier versions name files with pipelines: those below the folder in which the run began are read, if the run lies there, and no
 * others; a model names none. */
static void test_recorded_files(void)
{
    static char inside[160], beside[128], whole[128];
    static const struct {
        const char *text, *want; /* NULL: stays */
        const char *start;       /* NULL: the folder with the run */
    } cases[] = {{"@v.pst", "folder photos | decode", NULL}, {"folder x |@v.pst", "folder x | folder photos | decode", NULL}, {"@../out.pst", NULL, NULL},
                 {"@/dev/zero", NULL, NULL}, {"@fifo", NULL, NULL}, {"@none.pst", NULL, NULL}, {"my_op 3 | batch 2", NULL, NULL}, {"", NULL, NULL},
                 {inside, NULL, "/"}, {inside, NULL, "///"}, {inside, NULL, beside}, {inside, NULL, "."}, {"@v.pst", NULL, "https://127.0.0.1:9/x"},
                 {inside, "folder photos | decode", whole}};
    struct rig r;
    pst_error error = {0};
    pst_network *n = NULL;
    char path[128], file[192];
    if (!rig_open(&r))
        return;
    snprintf(path, sizeof(path), "%s/home", r.folder);
    CHECK_INT(mkdir(path, 0755), 0);
    snprintf(inside, sizeof(inside), "@%s/v.pst", path);
    snprintf(beside, sizeof(beside), "%s/hom", r.folder);
    snprintf(whole, sizeof(whole), "%s", r.folder);
    snprintf(file, sizeof(file), "%s/v.pst", path);
    CHECK(write_state(file, (char[]){"folder photos | decode # here\n"}, 30));
    snprintf(file, sizeof(file), "%s/out.pst", r.folder);
    CHECK(write_state(file, (char[]){"folder photos"}, 13));
    snprintf(file, sizeof(file), "%s/fifo", path);
    CHECK_INT(mkfifo(file, 0644), 0);
    const float *values[64];
    for (size_t i = 0; i < 64; i++)
        values[i] = pst_network_values(r.network, i);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pst_run_record record = {.size = sizeof(record), .pipeline = (char *)(uintptr_t)cases[i].text, .start = cases[i].start ? (char *)(uintptr_t)cases[i].start : path};
        snprintf(file, sizeof(file), "%s/recorded%zu", path, i);
        REQUIRE_OK(pst_network_create(&n, model, &input, values, &record, &error), &error);
        CHECK_STATUS(pst_network_save(n, file, false, &error), PST_OK, &error);
        n = pst_network_destroy(n);
        REQUIRE_OK(pst_network_open(&n, file, NULL, &error), &error);
        CHECK_STR(pst_network_record(n)->pipeline, cases[i].want ? cases[i].want : cases[i].text);
        n = pst_network_destroy(n);
    }
    char *empty = NULL;
    CHECK_STATUS(pst_pipeline_expand(&empty, "", NULL, &error), PST_OK, &error);
    CHECK_STR(empty, "");
    pst_free(empty);
    rig_close(&r);
}

/* Zeros take a bit each where that is less: in every format, with the same bits after opening, and described by their bytes. */
static void test_zeros(void)
{
    struct rig r;
    pst_error error = {0};
    pst_network *n = NULL, *again = NULL;
    const float *values[64];
    if (!rig_open(&r))
        return;
    const struct graph *g = r.network->model->graph;
    for (size_t i = 0; i < g->param_count; i++) {
        float *x = (float *)(uintptr_t)pst_network_values(r.network, i);
        for (size_t k = 0; g->params[i].layer.rank > 1 && k < g->params[i].count; k++)
            x[k] = k % 4 ? (k % 8 == 1 ? -0.f : 0) : x[k];
        values[i] = x;
    }
    REQUIRE_OK(pst_network_create(&n, model, &input, values, pst_network_record(r.network), &error), &error);
    for (int format = PST_WEIGHTS_FLOAT32; format <= PST_WEIGHTS_QUANTIZED; format++) {
        char path[128];
        pst_network *small = format ? NULL : n;
        pst_network_info info = {.size = sizeof(info)};
        if (format)
            small = quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .format = (pst_weights_format)format, .no_choice = true});
        snprintf(path, sizeof(path), "%s/zeros%d", r.folder, format);
        CHECK_STATUS(pst_network_save(small, path, false, &error), PST_OK, &error);
        REQUIRE_OK(pst_network_open(&again, path, NULL, &error), &error);
        const struct graph *folded = small->model->graph;
        CHECK_MSG(memcmp(small->params, again->params, folded->values * sizeof(float)) == 0, "format %d: other bits", format);
        CHECK_STATUS(pst_network_describe(again, &info, &error), PST_OK, &error);
        size_t size = file_bytes(path, "weights.safetensors"), dense = 0;
        for (size_t i = 0; i < folded->param_count; i++)
            dense += (folded->params[i].count * (stored_kernel(folded, i) ? stored_bits((pst_weights_format)format) : 32) + 7) / 8;
        CHECK_MSG((double)info.weight_bytes < (format ? 0.95 : 0.6) * (double)dense, "format %d: %llu bytes of %zu", format, (unsigned long long)info.weight_bytes, dense);
        CHECK_MSG(size >= info.weight_bytes && size < info.weight_bytes + 6144, "format %d: %zu bytes, %llu described", format, size,
                  (unsigned long long)info.weight_bytes);
        again = pst_network_destroy(again);
        if (format)
            pst_network_destroy(small);
    }
    pst_network_destroy(n);
    rig_close(&r);
}

/* A text with huge layers is refused before memory is asked for. */
static void test_hostile_text(void)
{
    struct rig r;
    pst_error error = {0};
    pst_network *n = NULL;
    char path[128], file[160], *text;
    uint8_t *bytes = NULL;
    size_t length = 0;
    if (!rig_open(&r))
        return;
    snprintf(path, sizeof(path), "%s/model", r.folder);
    snprintf(file, sizeof(file), "%s/state.json", path);
    CHECK_STATUS(pst_network_save(r.network, path, false, &error), PST_OK, &error);
    if (CHECK_STATUS(file_read_all(&bytes, &length, file, 1 << 24, &error), PST_OK, &error) && CHECK(text = strstr((char *)bytes, "dense 5"))) {
        FILE *f = fopen(file, "wb");
        struct text whole = {0};
        text_add_n(&whole, (char *)bytes, (size_t)(text - (char *)bytes));
        text_add(&whole, "dense 400000 | dense 400000 | ");
        text_add(&whole, text);
        whole.length -= 33; /* the hash */
        fwrite(whole.data, 1, whole.length, f);
        fprintf(f, ",\n  \"hash\": \"%016" PRIx64 "\"\n}\n", hash_bytes(whole.data, whole.length, 0));
        fclose(f);
        text_finish(&whole);
        CHECK_MSG(pst_network_open(&n, path, NULL, &error) == PST_ECORRUPT && strstr(error.message, "weights"), "%s", error.message);
    }
    mem_free(bytes);
    rig_close(&r);
}

/* Files whose hashes are right and whose numbers are not: whatever is accepted runs without harm. */
static void test_hostile_numbers(void)
{
    struct rig r;
    pst_error error = {0};
    struct random rng;
    struct text file = {0};
    size_t refused = 0, accepted = 0;
    if (!rig_open(&r))
        return;
    pst_network *n = quantise(&r, &(pst_quantize_options){.size = sizeof(pst_quantize_options), .no_choice = true});
    CHECK_STATUS(stored_write_quantised(&file, n->quant, &error), PST_OK, &error);
    random_init(&rng, 8, 0, 0, 0);
    for (int round = 0; round < 600; round++) {
        struct quant_model *q = NULL;
        struct safetensors arrays = {0};
        uint8_t *bytes = malloc(file.length);
        memcpy(bytes, file.data, file.length);
        for (int k = 0; k < 1 + round % 4; k++)
            bytes[random_below(&rng, round % 3 ? file.length : 2000)] ^= (uint8_t)(1u << random_below(&rng, 8));
        pst_status st = safetensors_parse(&arrays, NULL, bytes, file.length, &error);
        if (st == PST_OK)
            st = quant_create_empty(&q, pst_network_record(n)->model, &n->model->graph->input, 7, &error);
        if (st == PST_OK)
            st = stored_read_quantised(q, &arrays, &error);
        CHECK_MSG(st == PST_OK || st == PST_ECORRUPT || st == PST_EUNSUPPORTED, "round %d: %s", round, error.message);
        if (st == PST_OK && round % 8 == 0) {
            struct infer_plan *plan = NULL;
            struct infer_context *context = NULL;
            float out[5];
            CHECK_STATUS(infer_plan_create(&plan, q->graph, NULL, &(struct infer_options){.features = cpu_features(), .quant = q}, &error), PST_OK, &error);
            CHECK_STATUS(infer_context_create(&context, plan, 1, &error), PST_OK, &error);
            infer_run(context, r.images, PST_DTYPE_F32, 1, out);
            infer_context_destroy(context);
            infer_plan_destroy(plan);
        }
        accepted += st == PST_OK;
        refused += st < 0;
        safetensors_finish(&arrays);
        quant_unref(q);
        free(bytes);
    }
    CHECK_MSG(accepted > 50 && refused > 50, "%zu accepted, %zu refused", accepted, refused);
    text_finish(&file);
    pst_network_destroy(n);
    rig_close(&r);
}

int main(int argc, char **argv)
{
    static const struct test tests[] = {{"save and open", test_save_and_open},
                                        {"mixed formats", test_mixed},
                                        {"older callers", test_older_callers},
                                        {"no options", test_no_options},
                                        {"calibrations", test_calibrations},
                                        {"mistakes", test_mistakes},
                                        {"int8 teachers", test_int8_teachers},
                                        {"damaged files", test_damaged_files},
                                        {"zeros", test_zeros},
                                        {"hostile text", test_hostile_text},
                                        {"hostile state", test_hostile_state},
                                        {"recorded files", test_recorded_files},
                                        {"hostile numbers", test_hostile_numbers},
                                        {0}};
    return test_main(argc, argv, tests);
}
