/* test_infer.c: folding and the inference engine against the unfolded model in double: random models and shapes, any batch, any
 * number of threads and callers, every number type of the input, memory. */
#include "base/cast.h"
#include "base/cpu.h"
#include "base/fault.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/thread.h"
#include "harness.h"
#include "infer/infer.h"
#include "infer/model_rig.h"
#include "model/fold.h"
#include "model/model.h"
#include "model/step.h"

#include <math.h>
#include <penstock/predict.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST      40   /* samples */
#define TOLERANCE 2e-5 /* root mean square of the difference over that of the values */

static const struct shape image = {.rank = 3, .h = 12, .w = 10, .c = 3};

static const char *const models[] = {
    "conv 8 3 relu | maxpool 2 | flatten | dense 10",
    "conv 16 3 relu pad=same | conv 32 3 relu6 pad=same | maxpool 2 | conv 24 3 pad=same | flatten | dense 10 relu | dense 7",
    "conv 16 3 pad=same bias=false | batchnorm | relu | dropout 0.2 | conv 16 3 pad=same | batchnorm | relu6 | globalavgpool | dense 5 | "
    "batchnorm | dropout 0.5",
    "conv 16 3 pad=same bias=false | batchnorm | relu | repeat 2 ( residual relu ( conv 16 3 pad=same bias=false | batchnorm | relu | "
    "conv 16 3 pad=same bias=false | batchnorm ) ) | residual relu ( conv 32 3 stride=2 pad=same bias=false | batchnorm | relu | "
    "conv 32 3 pad=same bias=false | batchnorm ) | globalavgpool | dense 10",
    "conv 16 3 stride=2 pad=same bias=false | batchnorm | relu6 | dwconv 3 pad=same bias=false | batchnorm | relu6 | conv 32 1 "
    "bias=false | batchnorm | relu6 | dwconv 3 stride=2 pad=same bias=false | batchnorm | relu6 | conv 48 1 bias=false | batchnorm | relu6 "
    "| globalavgpool | dense 10 softmax",
    "conv 9 3 tanh | concat ( conv 5 1 )( conv 7 3 relu pad=same | maxpool 3 stride=1 pad=same ) | dropout 0.3 | avgpool 2 | flatten | "
    "layernorm | dense 12 gelu | dense 3",
    "batchnorm | conv 8 3 relu | batchnorm | sepconv 20 3 pad=same | batchnorm | dropout 0.1 | batchnorm | leaky | globalavgpool | "
    "concat ( dense 21 )( dense 7 relu bias=false ) | dense 3",
    "residual ( conv 3 3 relu pad=same ) | maxpool 2 | conv 20 3 relu | maxpool 2 | flatten | dense 4 sigmoid",
    "residual relu ( batchnorm | relu | conv 16 3 pad=same )( conv 16 1 bias=false | batchnorm ) | residual ( dropout 0.5 ) | maxpool 2 | "
    "conv 40 5 relu pad=same | dwconv 3 | conv 64 3 pad=same groups=2 | flatten | dense 4",
    "conv 32 3 stride=2 pad=same bias=false | batchnorm | relu6 | residual ( conv 48 1 bias=false | batchnorm | relu6 | dwconv 3 pad=same "
    "bias=false | batchnorm | relu6 | conv 32 1 bias=false | batchnorm ) | conv 144 1 | relu6 | conv 128 3 pad=2 | conv 130 3 relu | "
    "maxpool 2 | globalavgpool | dense 100",
    "conv 32 3 dilation=2 pad=same relu | conv 32 3 groups=4 pad=same bias=false | batchnorm | relu | maxpool 2 | residual relu ( conv 32 3 groups=2 dilation=3 "
    "pad=same | dwconv 3 dilation=2 pad=same relu6 ) | conv 96 3 groups=32 relu pad=same | conv 96 3 groups=96 pad=same | conv 160 1 | conv 160 1 groups=5 | globalavgpool | dense 9",
};
#define MODELS (sizeof(models) / sizeof(models[0]))

/* A model with parameters and inputs. */
struct rig {
    struct model_rig m;
    double *want; /* of the whole model, in double */
    size_t width;
};

static bool compute_want(struct rig *r, size_t n)
{
    pst_error error = {0};
    struct step *s = NULL;
    const void *out = NULL;
    double *params = malloc(r->m.graph->values * sizeof(double));
    for (size_t i = 0; i < r->m.graph->values; i++)
        params[i] = (double)r->m.params[i];
    bool ok = CHECK_STATUS(step_create(&s, r->m.graph, &(struct step_options){.batch = n, .doubles = true}, &error), PST_OK, &error) &&
              CHECK_STATUS(step_forward(s, r->m.images, PST_DTYPE_F32, n, params, false, &out, &error), PST_OK, &error);
    if (ok) {
        r->width = shape_values(step_out_shape(s));
        r->want = malloc(n * r->width * sizeof(double));
        memcpy(r->want, out, n * r->width * sizeof(double));
    }
    step_destroy(s);
    free(params);
    return ok;
}

static void rig_close(struct rig *r)
{
    model_rig_close(&r->m);
    free(r->want);
}

static bool rig_open(struct rig *r, const char *text, const struct shape *input)
{
    *r = (struct rig){0};
    if (model_rig_open(&r->m, text, input, MOST) && compute_want(r, MOST))
        return true;
    rig_close(r);
    return false;
}

static double distance(const double *a, const float *b, size_t count)
{
    double difference = 0, size = 1e-30;
    for (size_t i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        size += a[i] * a[i];
    }
    return sqrt(difference / size);
}

/* ---- Folding ---- */

static size_t count_layers(const struct graph *g, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < g->count; i++)
        n += strcmp(g->nodes[i].layer->name, name) == 0;
    return n;
}

static void test_fold_computes_the_same(void)
{
    static const size_t left[MODELS] = {[6] = 2, [8] = 1}; /* batch normalisation with no layer to go into */
    for (size_t i = 0; i < MODELS; i++) {
        struct rig r;
        struct step *s = NULL;
        pst_error error = {0};
        const void *out = NULL;
        if (!rig_open(&r, models[i], &image))
            return;
        CHECK_INT(count_layers(r.m.folded, "batchnorm"), left[i]);
        CHECK_INT(count_layers(r.m.folded, "dropout"), i == 8); /* nothing else is in its chain */
        double *params = malloc(r.m.folded->values * sizeof(double));
        for (size_t k = 0; k < r.m.folded->values; k++)
            params[k] = (double)r.m.folded_params[k];
        if (CHECK_STATUS(step_create(&s, r.m.folded, &(struct step_options){.batch = MOST, .doubles = true}, &error), PST_OK, &error)) {
            CHECK_STATUS(step_forward(s, r.m.images, PST_DTYPE_F32, MOST, params, false, &out, &error), PST_OK, &error);
            double worst = 0;
            for (size_t k = 0; k < MOST * r.width; k++)
                worst = fmax(worst, fabs(((const double *)out)[k] - r.want[k]));
            CHECK_MSG(worst < 2e-5, "%s: folded by %g", models[i], worst);
        }
        char *text = graph_text(r.m.folded);
        struct graph *again = NULL;
        CHECK_STATUS(graph_create(&again, text, &image, &error), PST_OK, &error);
        CHECK_INT(again ? again->values : 0, r.m.folded->values);
        graph_destroy(again);
        mem_free(text);
        free(params);
        step_destroy(s);
        rig_close(&r);
    }
}

static const struct graph_param *find_param(const struct graph *g, const char *name)
{
    for (size_t i = 0; i < g->param_count; i++)
        if (strcmp(g->params[i].name, name) == 0)
            return &g->params[i];
    return NULL;
}

static void test_fold_keeps_names(void)
{
    struct rig r;
    if (!rig_open(&r, "conv 4 3 bias=false name=first | batchnorm | relu | residual ( conv 8 3 stride=2 pad=same bias=false | batchnorm ) | "
                      "sepconv 5 3 bias=false | batchnorm | globalavgpool | dense 2", &image))
        return;
    CHECK(find_param(r.m.folded, "first/bias") && find_param(r.m.folded, "conv_1/bias") && find_param(r.m.folded, "residual_1_shortcut/bias"));
    CHECK(find_param(r.m.folded, "sepconv_1_pointwise/bias") && !find_param(r.m.folded, "sepconv_1_depthwise/bias"));
    rig_close(&r);
}

/* ---- The engine ---- */

struct engine {
    struct infer_plan *plan;
    struct infer_context *context;
};

static bool engine_open(struct engine *e, const struct rig *r, unsigned features, unsigned threads)
{
    pst_error error = {0};
    struct infer_options o = {.features = features};
    *e = (struct engine){0};
    return CHECK_STATUS(infer_plan_create(&e->plan, r->m.folded, r->m.folded_params, &o, &error), PST_OK, &error) &&
           CHECK_STATUS(infer_context_create(&e->context, e->plan, threads, &error), PST_OK, &error);
}

static void engine_close(struct engine *e)
{
    infer_context_destroy(e->context);
    infer_plan_destroy(e->plan);
}

static void check_model(const char *text, const struct shape *input)
{
    struct rig r;
    float *out = NULL;
    if (!rig_open(&r, text, input))
        return;
    out = malloc(MOST * r.width * sizeof(float));
    for (int fast = 0; fast < 2; fast++) {
        struct engine e;
        if (engine_open(&e, &r, fast ? cpu_features() : 0, 2)) {
            infer_run(e.context, r.m.images, PST_DTYPE_F32, MOST, out);
            double off = distance(r.want, out, MOST * r.width);
            CHECK_MSG(off < TOLERANCE, "%s on %u×%u×%u, %s: off by %g", text, input->h, input->w, input->c, fast ? "fast" : "portable", off);
        }
        engine_close(&e);
    }
    free(out);
    rig_close(&r);
}

static void test_near_double(void)
{
    for (size_t i = 0; i < MODELS; i++)
        check_model(models[i], &image);
}

static void test_random_models(void)
{
    struct random rng;
    random_init(&rng, 11, 0, 0, 0);
    for (int round = 0; round < 40; round++) {
        char text[1024] = "";
        size_t at = 0, layers = 1 + random_below(&rng, 5);
        struct shape input = {.rank = 3, .h = 5 + (uint32_t)random_below(&rng, 24), .w = 5 + (uint32_t)random_below(&rng, 24),
                              .c = 1 + (uint32_t)random_below(&rng, 20)};
        for (size_t i = 0; i < layers; i++) {
            static const char *const ends[] = {"", " | relu", " | relu6", " | batchnorm | relu", " | batchnorm", " | silu"};
            unsigned filters = 1 + (unsigned)random_below(&rng, 40), kind = (unsigned)random_below(&rng, 5);
            const char *end = ends[random_below(&rng, 6)];
            if (kind == 0)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "dwconv 3 stride=%u pad=same%s | ", 1 + (unsigned)random_below(&rng, 2), end);
            else if (kind == 1)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "conv %u 1%s | ", filters, end);
            else if (kind == 2)
                at += (size_t)snprintf(text + at, sizeof(text) - at, "residual relu ( conv %u 3 pad=same%s | conv %u 3 stride=%u pad=same ) | ", filters,
                                       end, filters, 1 + (unsigned)random_below(&rng, 2));
            else
                at += (size_t)snprintf(text + at, sizeof(text) - at, "conv %u %u stride=%u pad=same%s | ", filters, 1 + 2 * (unsigned)random_below(&rng, 3),
                                       1 + (unsigned)random_below(&rng, 2), end);
        }
        snprintf(text + at, sizeof(text) - at, "%s | dense %u", random_below(&rng, 2) ? "flatten" : "globalavgpool", 1 + (unsigned)random_below(&rng, 40));
        check_model(text, &input);
    }
}

/* Every border that a depthwise window can reach over. */
static void test_depthwise(void)
{
    static const uint32_t sizes[] = {1, 2, 3, 4, 7, 8};
    for (size_t i = 0; i < 36; i++)
        for (unsigned stride = 1; stride <= 2; stride++)
            for (int valid = 0; valid < 2; valid++) {
                char text[80];
                struct shape input = {.rank = 3, .h = sizes[i / 6], .w = sizes[i % 6], .c = (const uint32_t[]){8, 24, 32}[(i + i / 6) % 3]};
                if (valid && (input.h < 3 || input.w < 3))
                    continue;
                snprintf(text, sizeof(text), "dwconv 3 relu6 stride=%u pad=%s | dwconv 3 pad=same bias=false", stride, valid ? "valid" : "same");
                check_model(text, &input);
            }
}

/* A sample's bits depend on nothing but the sample. */
static void test_batches_and_threads(void)
{
    static const size_t batches[] = {1, 2, 3, 5, 16, 17, 33, MOST};
    for (size_t i = 0; i < MODELS; i++) {
        struct rig r;
        if (!rig_open(&r, models[i], &image))
            return;
        float *want = malloc(MOST * r.width * sizeof(float)), *got = malloc(MOST * r.width * sizeof(float));
        for (unsigned threads = 1; threads <= 4; threads++) {
            struct engine e;
            if (engine_open(&e, &r, cpu_features(), threads)) {
                if (threads == 1)
                    infer_run(e.context, r.m.images, PST_DTYPE_F32, MOST, want);
                for (size_t b = 0; b < sizeof(batches) / sizeof(batches[0]); b++) {
                    memset(got, 0xff, MOST * r.width * sizeof(float));
                    infer_run(e.context, r.m.images, PST_DTYPE_F32, batches[b], got);
                    CHECK_MSG(memcmp(want, got, batches[b] * r.width * sizeof(float)) == 0, "%s: %zu samples, %u threads differ", models[i], batches[b],
                              threads);
                }
            }
            engine_close(&e);
        }
        free(want), free(got);
        rig_close(&r);
    }
}

/* Sets nine of ten weights of 1 × 1 convolutions to zero. */
static bool thin_out(struct rig *r)
{
    pst_error error = {0};
    struct random rng;
    random_init(&rng, 9, 0, 0, 0);
    for (size_t i = 0; i < r->m.graph->count; i++) {
        const struct graph_node *n = &r->m.graph->nodes[i];
        const struct graph_param *p = &r->m.graph->params[n->first_param];
        for (size_t k = 0; strcmp(n->layer->name, "conv") == 0 && p->count == n->in[0].c * n->out.c && k < p->count; k++)
            r->m.params[p->offset + k] = random_below(&rng, 10) ? 0 : r->m.params[p->offset + k];
    }
    graph_destroy(r->m.folded);
    mem_free(r->m.folded_params);
    r->m.folded = NULL;
    r->m.folded_params = NULL;
    free(r->want);
    r->want = NULL;
    return CHECK_STATUS(graph_fold(&r->m.folded, &r->m.folded_params, r->m.graph, r->m.params, &error), PST_OK, &error) && compute_want(r, MOST);
}

static size_t count_sparse(const struct infer_plan *plan)
{
    size_t n = 0;
    for (size_t i = 0; i < infer_op_count(plan); i++)
        n += strncmp(infer_op_at(plan, i)->why, "sparse", 6) == 0;
    return n;
}

/* 1 × 1 convolutions of which most weights are zeros, with everything that follows them; layers with few inputs or pixels run as before. */
static void test_sparse_layers(void)
{
    static const char *const text = "conv 136 3 stride=2 pad=same bias=false | batchnorm | relu6 | conv 128 1 bias=false | residual relu ( conv 144 1 bias=false | batchnorm | "
                                    "relu6 | conv 128 1 ) | conv 40 1 | conv 32 1 | maxpool 4 | conv 136 1 | conv 16 1 | flatten | dense 5";
    struct rig r;
    if (!rig_open(&r, text, &image))
        return;
    float *want = malloc(MOST * r.width * sizeof(float)), *got = malloc(MOST * r.width * sizeof(float));
    for (unsigned threads = 1; threads <= 3 && thin_out(&r); threads++) {
        struct engine e;
        if (engine_open(&e, &r, cpu_features(), threads)) {
            CHECK_INT(count_sparse(e.plan), cpu_features() & CPU_AVX2 ? 4 : 0);
            infer_run(e.context, r.m.images, PST_DTYPE_F32, MOST, threads == 1 ? want : got);
            CHECK(threads == 1 || memcmp(want, got, MOST * r.width * sizeof(float)) == 0);
            infer_run(e.context, r.m.images, PST_DTYPE_F32, 1, got);
            CHECK(memcmp(want, got, r.width * sizeof(float)) == 0);
            double off = distance(r.want, want, MOST * r.width);
            CHECK_MSG(off < TOLERANCE, "sparse layers: off by %g", off);
        }
        engine_close(&e);
    }
    free(want), free(got);
    rig_close(&r);
}

static void test_input_types(void)
{
    static const pst_dtype types[] = {PST_DTYPE_U8, PST_DTYPE_I32, PST_DTYPE_I64, PST_DTYPE_F64, PST_DTYPE_F32};
    struct rig r;
    struct engine e;
    if (!rig_open(&r, models[8], &image)) /* the input is read twice */
        return;
    size_t values = MOST * shape_values(&image);
    float *whole = malloc(values * sizeof(float)), *want = malloc(MOST * r.width * sizeof(float)), *got = malloc(MOST * r.width * sizeof(float));
    void *other = malloc(values * sizeof(double));
    for (size_t i = 0; i < values; i++)
        whole[i] = (float)(i * 7 % 256);
    if (engine_open(&e, &r, cpu_features(), 3)) {
        infer_run(e.context, whole, PST_DTYPE_F32, MOST, want);
        for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
            for (size_t n = 1; n <= MOST; n += 13) {
                cast_values(other, types[i], whole, PST_DTYPE_F32, values);
                infer_run(e.context, other, types[i], n, got);
                CHECK_MSG(memcmp(want, got, n * r.width * sizeof(float)) == 0, "%s, %zu samples", pst_dtype_name(types[i]), n);
            }
    }
    engine_close(&e);
    free(whole), free(want), free(got), free(other);
    rig_close(&r);
}

static void test_every_allocation_may_fail(void)
{
    for (size_t i = 0; i < MODELS; i += 3)
        for (uint64_t n = 0;; n++) {
            pst_error error = {0};
            struct graph *g = NULL, *folded = NULL;
            struct infer_plan *plan = NULL;
            struct infer_context *context = NULL;
            float *params = NULL, *new = NULL;
            uint64_t live = mem_live();
            if (graph_create(&g, models[i], &image, &error) == PST_OK)
                params = calloc(g->values, sizeof(float));
            test_fault_arm(FAULT_MEMORY, n, false);
            pst_status st = graph_fold(&folded, &new, g, params, &error);
            if (st == PST_OK)
                st = infer_plan_create(&plan, folded, new, &(struct infer_options){.features = cpu_features()}, &error);
            if (st == PST_OK)
                st = infer_context_create(&context, plan, 2, &error);
            bool failed = test_fault_calls() > n;
            test_fault_clear();
            CHECK_MSG(failed ? st == PST_ENOMEM : st == PST_OK, "allocation %llu: %s", (unsigned long long)n, error.message);
            infer_context_destroy(context);
            infer_plan_destroy(plan);
            graph_destroy(folded);
            graph_destroy(g);
            mem_free(new);
            free(params);
            CHECK_INT(mem_live(), live);
            if (!failed)
                break;
        }
}

/* ---- The public face ---- */

static pst_predictor *open_predictor(const char *text, pst_model **ret_model, const pst_predict_options *o)
{
    pst_error error = {0};
    pst_predictor *p = NULL;
    const float *values[256];
    if (!CHECK_STATUS(pst_model_parse(ret_model, text, &(pst_shape){.rank = 3, .size = {12, 10, 3}}, &error), PST_OK, &error))
        return NULL;
    const struct graph *g = (*ret_model)->graph;
    float *params = calloc(g->values, sizeof(float));
    fill_params(g, params);
    for (size_t i = 0; i < g->param_count; i++)
        values[i] = params + g->params[i].offset;
    CHECK_STATUS(pst_predictor_create(&p, *ret_model, values, o, &error), PST_OK, &error);
    free(params);
    return p;
}

struct crowd {
    pst_predictor *predictor;
    const float *images, *want;
    size_t width;
    atomic_uint wrong;
};

static void call_often(void *user, unsigned worker)
{
    struct crowd *c = user;
    float *out = malloc(MOST * c->width * sizeof(float));
    for (size_t i = 0; i < 30; i++) {
        size_t n = 1 + (i * 5 + worker * 3) % 12, first = (i * 3 + worker) % (MOST - n);
        pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {n, 12, 10, 3}, .data = (void *)(uintptr_t)(c->images + first * 360)};
        if (pst_predictor_run(c->predictor, &input, out, NULL) != PST_OK ||
            memcmp(out, c->want + first * c->width, n * c->width * sizeof(float)) != 0)
            atomic_fetch_add(&c->wrong, 1);
    }
    free(out);
}

static void test_concurrent_callers(void)
{
    pst_error error = {0};
    struct rig r;
    struct thread_group *group = NULL;
    pst_model *model = NULL;
    if (!rig_open(&r, models[3], &image))
        return;
    pst_predictor *p = open_predictor(models[3], &model, &(pst_predict_options){.size = sizeof(pst_predict_options), .threads = 2});
    float *want = malloc(MOST * r.width * sizeof(float));
    pst_tensor all = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {MOST, 12, 10, 3}, .data = r.m.images};
    if (p && CHECK_STATUS(pst_predictor_run(p, &all, want, &error), PST_OK, &error)) {
        struct crowd c = {.predictor = p, .images = r.m.images, .want = want, .width = r.width};
        CHECK(distance(r.want, want, MOST * r.width) < TOLERANCE);
        REQUIRE_OK(thread_group_start(&group, 6, "caller", call_often, &c, &error), &error);
        thread_group_join(group);
        CHECK_INT(atomic_load(&c.wrong), 0);
        uint64_t live = mem_live();
        test_fault_arm(FAULT_MEMORY, 0, true); /* a call allocates nothing once so many contexts exist */
        call_often(&c, 0);
        test_fault_clear();
        CHECK_INT(atomic_load(&c.wrong), 0);
        CHECK_INT(mem_live(), live);
    }
    pst_predictor_destroy(p);
    pst_model_destroy(model);
    free(want);
    rig_close(&r);
}

static void test_outputs(void)
{
    static const char *const texts[] = {"globalavgpool | dense 4", "globalavgpool | dense 4 softmax", "globalavgpool | dense 4 sigmoid",
                                        "globalavgpool | dense 1"};
    static const pst_output outputs[] = {PST_OUTPUT_MODEL, PST_OUTPUT_LOGITS, PST_OUTPUT_SOFTMAX, PST_OUTPUT_SIGMOID, PST_OUTPUT_PROBABILITIES};
    /* what each is: l logits, s softmax, g sigmoid */
    static const char *const expected[] = {"llsgs", "slsgs", "glsgg", "llsgg"};
    float images[360], out[4], logits[4];
    for (size_t i = 0; i < 360; i++)
        images[i] = (float)i / 360;
    pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {1, 12, 10, 3}, .data = images};
    for (size_t t = 0; t < 4; t++)
        for (size_t o = 0; o < 5; o++) {
            pst_model *model = NULL;
            pst_error error = {0};
            pst_predictor *plain = open_predictor(texts[t], &model, &(pst_predict_options){.size = sizeof(pst_predict_options), .output = PST_OUTPUT_LOGITS});
            pst_model_destroy(model);
            pst_predictor *p = open_predictor(texts[t], &model, &(pst_predict_options){.size = sizeof(pst_predict_options), .output = outputs[o]});
            size_t width = t == 3 ? 1 : 4;
            double sum = 0;
            CHECK_STATUS(pst_predictor_run(plain, &input, logits, &error), PST_OK, &error);
            CHECK_STATUS(pst_predictor_run(p, &input, out, &error), PST_OK, &error);
            for (size_t k = 0; k < width; k++)
                sum += exp((double)logits[k]);
            for (size_t k = 0; k < width; k++) {
                double x = (double)logits[k];
                double want = expected[t][o] == 's' ? exp(x) / sum : expected[t][o] == 'g' ? 1 / (1 + exp(-x)) : x;
                CHECK_MSG(fabs(want - (double)out[k]) < 1e-6, "%s, output %d: %g, expected %g", texts[t], (int)outputs[o], (double)out[k], want);
            }
            pst_predictor_destroy(plain);
            pst_predictor_destroy(p);
            pst_model_destroy(model);
        }
}

static void test_mistakes(void)
{
    pst_error error = {0};
    pst_model *model = NULL;
    float out[64], images[360] = {0};
    pst_predictor *p = open_predictor(models[0], &model, &(pst_predict_options){.size = sizeof(pst_predict_options)}), *none = NULL;
    pst_tensor input = {.dtype = PST_DTYPE_F32, .rank = 4, .shape = {1, 10, 12, 3}, .data = images};
    CHECK_STATUS(pst_predictor_run(p, &input, out, &error), PST_ETYPE, &error);
    input = (pst_tensor){.dtype = PST_DTYPE_BYTES, .rank = 1, .shape = {1}};
    CHECK_STATUS(pst_predictor_run(p, &input, out, &error), PST_ETYPE, &error);
    CHECK_STATUS(pst_predictor_create(&none, model, NULL, &(pst_predict_options){0}, &error), PST_EINVAL, &error);
    /* A program whose options end earlier. */
    const pst_predict_options first = {.size = offsetof(pst_predict_options, small), .threads = 1, .checkpoint = "not read"};
    CHECK_STATUS(pst_predictor_open(&none, "/nowhere", &first, &error), PST_ENOTFOUND, &error);
    CHECK_STATUS(pst_predictor_create(&none, model, NULL, &(pst_predict_options){.size = first.size, .threads = 1025}, &error), PST_EINVAL, &error);
    CHECK_MSG(strstr(error.message, "1025 threads"), "%s", error.message);
    CHECK_STATUS(pst_predictor_open(&none, "/nowhere", &(pst_predict_options){.size = sizeof(pst_predict_options)}, &error), PST_ENOTFOUND, &error);
    pst_predictor_plan plan = {.size = sizeof(plan)};
    CHECK_STATUS(pst_predictor_describe(p, &plan, &error), PST_OK, &error);
    CHECK(strstr(plan.text, "conv_1 + relu_1 + maxpool_1: conv (") && plan.weight_bytes > 0 && plan.call_bytes > 0);
    pst_free(plan.text);
    /* A program whose result ends earlier has no text to free. */
    pst_predictor_plan older = {.size = offsetof(pst_predictor_plan, text)};
    uint64_t live = mem_live();
    CHECK_STATUS(pst_predictor_describe(p, &older, &error), PST_OK, &error);
    CHECK(older.weight_bytes == plan.weight_bytes && older.call_bytes == plan.call_bytes && !older.text);
    CHECK_INT(mem_live(), live);
    pst_predictor_destroy(p);
    pst_model_destroy(model);
    p = open_predictor(models[0], &model, NULL);
    CHECK(p != NULL);
    pst_predictor_destroy(p);
    pst_model_destroy(model);
}

static const struct test tests[] = {
    {"folding computes the same", test_fold_computes_the_same},
    {"folding keeps names", test_fold_keeps_names},
    {"near double", test_near_double},
    {"random models", test_random_models},
    {"depthwise borders", test_depthwise},
    {"batches and threads", test_batches_and_threads},
    {"sparse layers", test_sparse_layers},
    {"input types", test_input_types},
    {"every allocation may fail", test_every_allocation_may_fail},
    {"concurrent callers", test_concurrent_callers},
    {"outputs", test_outputs},
    {"mistakes", test_mistakes},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
