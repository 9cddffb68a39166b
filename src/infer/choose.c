/* choose.c: see choose.h. Whole models run with one way for all layers; the times of their operations are compared layer by layer. */
#include "infer/choose.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "infer/infer.h"

#include <assert.h>
#include <string.h>

#define BATCH  64
#define ROUNDS 4
#define CLEAR  1.03 /* float32 must be faster by so much */

static const enum quant_run ways[] = {QUANT_RUN_WINOGRAD, QUANT_RUN_PRODUCT, QUANT_RUN_FLOAT};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

struct trial {
    struct infer_plan *plan;
    struct infer_context *context;
};

static void set_all(struct quant_model *q, enum quant_run run)
{
    for (size_t i = 0; i < q->graph->count; i++)
        q->layers[i].run = q->layers[i].weights ? run : QUANT_RUN_AUTO;
}

static pst_status open_trial(struct trial *t, struct quant_model *q, enum quant_run run, pst_error *reterr)
{
    struct infer_options o = {.features = cpu_features(), .quant = q, .logits = true};
    set_all(q, run);
    pst_status st = infer_plan_create(&t->plan, q->graph, NULL, &o, reterr);
    if (st == PST_OK)
        st = infer_context_create(&t->context, t->plan, 1, reterr);
    if (st == PST_OK)
        infer_measure(t->context, true);
    return st;
}

/* The operation that holds a node. */
static size_t op_of(const struct trial *t, size_t node)
{
    for (size_t i = 0; i < infer_op_count(t->plan); i++) {
        const struct infer_op *op = infer_op_at(t->plan, i);
        if (node >= op->first && node < op->first + op->count)
            return i;
    }
    assert(!"every node is in an operation");
    return 0;
}

/* Whether both run the node by the same kernel: their times differ by chance only. */
static bool is_same(const struct trial *a, const struct trial *b, size_t node)
{
    return strcmp(infer_op_at(a->plan, op_of(a, node))->why, infer_op_at(b->plan, op_of(b, node))->why) == 0;
}

static void choose(struct quant_model *q, const struct trial trials[WAYS])
{
    set_all(q, QUANT_RUN_AUTO);
    for (size_t i = 0; i < q->graph->count; i++) {
        double best = 0;
        for (size_t w = 0; w < WAYS && q->layers[i].weights; w++) {
            double took = (double)infer_time(trials[w].context, op_of(&trials[w], i)) * (ways[w] == QUANT_RUN_FLOAT ? CLEAR : 1);
            if (w > 0 && (took >= best || is_same(&trials[0], &trials[w], i)))
                continue;
            best = took;
            q->layers[i].run = ways[w];
        }
    }
}

pst_status infer_choose(struct quant_model *q, const float *samples, size_t n, pst_error *reterr)
{
    struct trial trials[WAYS] = {0};
    size_t values = shape_values(&q->graph->input), width = shape_values(graph_shape(q->graph, q->graph->count));
    float *in = mem_array(BATCH, values * sizeof(float)), *out = mem_array(BATCH, width * sizeof(float) + sizeof(float));
    pst_status st = in && out ? PST_OK : fail_memory(reterr, "measuring layers");
    for (size_t i = 0; st == PST_OK && n && i < BATCH; i++)
        memcpy(in + i * values, samples + i % n * values, values * sizeof(float));
    for (size_t w = 0; st == PST_OK && w < WAYS; w++)
        st = open_trial(&trials[w], q, ways[w], reterr);
    for (size_t round = 0; st == PST_OK && round < ROUNDS; round++)
        for (size_t w = 0; w < WAYS; w++)
            infer_run(trials[w].context, in, PST_DTYPE_F32, BATCH, out);
    if (st == PST_OK)
        choose(q, trials);
    for (size_t w = 0; w < WAYS; w++) {
        infer_context_destroy(trials[w].context);
        infer_plan_destroy(trials[w].plan);
    }
    mem_free(in);
    mem_free(out);
    return st;
}
