/* predictor.c: the public face of predictions: include/penstock/predict.h. A predictor owns the folded graph and the plan, which
 * every call shares, and a list of contexts, of which every call takes one. */
#include "infer/predictor.h"

#include "base/cpu.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "infer/infer.h"
#include "model/convert_input.h"
#include "model/fold.h"
#include "model/model.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

struct idle {
    struct infer_context *context;
    struct idle *next;
};

struct pst_predictor {
    const struct graph *graph; /* folded: one of the next two */
    struct graph *folded;
    float *params;
    struct quant_model *quant; /* NULL: float32 */
    struct infer_plan *plan;
    pst_output output; /* LOGITS, SOFTMAX or SIGMOID */
    unsigned threads;
    size_t width;
    pthread_mutex_t lock;
    struct idle *idle; /* under lock */
};

/* ---- Making ---- */

static const char *ending_of(const struct graph *g)
{
    const char *name = g->nodes[g->count - 1].layer->name;
    return g->count > 1 && (strcmp(name, "softmax") == 0 || strcmp(name, "sigmoid") == 0) ? name : "";
}

/* What is done to the logits. */
static pst_output choose_output(const struct graph *g, pst_output wanted, pst_loss loss)
{
    const char *ending = ending_of(g);
    pst_output own = strcmp(ending, "softmax") == 0 ? PST_OUTPUT_SOFTMAX : strcmp(ending, "sigmoid") == 0 ? PST_OUTPUT_SIGMOID : PST_OUTPUT_LOGITS;
    if (wanted == PST_OUTPUT_MODEL)
        return own;
    if (wanted != PST_OUTPUT_PROBABILITIES)
        return wanted;
    if (loss == PST_LOSS_MSE || loss == PST_LOSS_CUSTOM || own != PST_OUTPUT_LOGITS)
        return own;
    return loss == PST_LOSS_BINARY || shape_values(graph_shape(g, g->count)) == 1 ? PST_OUTPUT_SIGMOID : PST_OUTPUT_SOFTMAX;
}

/* Copies the caller's options, which may be those of an older version, to the zeroed `o` and checks them. */
static pst_status take_options(pst_predict_options *o, const pst_predict_options *given, bool quantised, pst_error *reterr)
{
    pst_status st = options_take(o, sizeof(*o), given, reterr);
    if (st < 0)
        return st;
    if (o->threads > 1024)
        return pst_fail(reterr, PST_EINVAL, "%u threads; expected up to 1024", o->threads);
    if (o->precision == PST_PRECISION_INT8 && !quantised)
        return pst_fail(reterr, PST_ETYPE, "the model is not quantised: int8 needs one that `penstock compress --quantize int8` wrote");
    return PST_OK;
}

pst_status predictor_create(pst_predictor **ret, const struct predictor_source *from, const pst_predict_options *options, pst_error *reterr)
{
    pst_predict_options own = {0};
    const pst_predict_options *o = &own;
    pst_status st = take_options(&own, options, from->quant, reterr);
    if (st < 0)
        return st;
    pst_predictor *p = mem_zalloc(sizeof(*p));
    struct infer_context *first = NULL;
    if (!p)
        return fail_memory(reterr, "preparing predictions");
    pthread_mutex_init(&p->lock, NULL);
    p->threads = o->threads ? o->threads : cpu_cores();
    p->quant = from->quant && o->precision != PST_PRECISION_FP32 ? quant_ref(from->quant) : NULL;
    if (!p->quant)
        st = graph_fold(&p->folded, &p->params, from->graph, from->params, reterr);
    p->graph = p->quant ? p->quant->graph : p->folded;
    struct infer_options plan = {.features = o->portable ? 0 : cpu_features(), .logits = true, .small = o->small, .quant = p->quant};
    if (st == PST_OK) {
        p->output = choose_output(p->graph, o->output, from->loss);
        st = infer_plan_create(&p->plan, p->graph, p->params, &plan, reterr);
    }
    if (st == PST_OK)
        st = infer_context_create(&first, p->plan, p->threads, reterr); /* the first call allocates nothing */
    p->idle = st == PST_OK ? mem_zalloc(sizeof(*p->idle)) : NULL;
    if (p->idle)
        p->idle->context = first;
    else if (st == PST_OK) {
        infer_context_destroy(first);
        st = fail_memory(reterr, "preparing predictions");
    }
    if (st < 0) {
        pst_predictor_destroy(p);
        return st;
    }
    p->width = shape_values(infer_out_shape(p->plan));
    *ret = p;
    return PST_OK;
}

pst_status pst_predictor_create(pst_predictor **ret, const pst_model *model, const float *const *values, const pst_predict_options *options,
                                pst_error *reterr)
{
    const struct graph *g = model->graph;
    pst_predict_options own = {0};
    pst_status st = take_options(&own, options, false, reterr);
    if (st < 0)
        return st;
    float *params = mem_large((g->values ? g->values : 1) * sizeof(float));
    if (!params)
        return fail_memory(reterr, "preparing predictions");
    memset(params, 0, g->values * sizeof(float));
    for (size_t i = 0; i < g->param_count; i++)
        memcpy(params + g->params[i].offset, values[i], g->params[i].count * sizeof(float));
    st = predictor_create(ret, &(struct predictor_source){.graph = g, .params = params}, options, reterr);
    mem_free(params);
    return st;
}

pst_predictor *pst_predictor_destroy(pst_predictor *p)
{
    if (!p)
        return NULL;
    for (struct idle *i = p->idle, *next; i; i = next) {
        next = i->next;
        infer_context_destroy(i->context);
        mem_free(i);
    }
    infer_plan_destroy(p->plan);
    graph_destroy(p->folded);
    quant_unref(p->quant);
    mem_free(p->params);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
    return NULL;
}

/* ---- Calls ---- */

/* An idle context, or a new one. */
static pst_status take_context(pst_predictor *p, struct idle **ret, pst_error *reterr)
{
    pthread_mutex_lock(&p->lock);
    struct idle *i = p->idle;
    if (i)
        p->idle = i->next;
    pthread_mutex_unlock(&p->lock);
    if (i) {
        *ret = i;
        return PST_OK;
    }
    i = mem_zalloc(sizeof(*i));
    pst_status st = i ? infer_context_create(&i->context, p->plan, p->threads, reterr) : fail_memory(reterr, "preparing predictions");
    if (st < 0)
        mem_free(i);
    else
        *ret = i;
    return st;
}

static void give_context(pst_predictor *p, struct idle *i)
{
    pthread_mutex_lock(&p->lock);
    i->next = p->idle;
    p->idle = i;
    pthread_mutex_unlock(&p->lock);
}

static pst_status check_input(const pst_predictor *p, const pst_tensor *t, pst_error *reterr)
{
    const struct shape *s = &p->graph->input;
    uint64_t values = 1;
    bool fits = t->rank >= 1;
    if (!convert_takes(t->dtype))
        return pst_fail(reterr, PST_ETYPE, "the input is of type %s; expected numbers", pst_dtype_name(t->dtype));
    for (uint32_t i = 1; fits && i < t->rank; i++)
        fits = !__builtin_mul_overflow(values, t->shape[i], &values);
    if (!fits || values != shape_values(s) || (s->rank == 3 && t->rank == 4 && (t->shape[1] != s->h || t->shape[2] != s->w)))
        return pst_fail(reterr, PST_ETYPE, "samples of %" PRIu64 " values; the model takes %u×%u×%u (height × width × channels)", values, s->h, s->w,
                        s->c);
    return PST_OK;
}

static void softmax(float *x, size_t width)
{
    double sum = 0;
    float most = x[0];
    for (size_t k = 1; k < width; k++)
        most = x[k] > most ? x[k] : most;
    for (size_t k = 0; k < width; k++)
        sum += exp((double)x[k] - (double)most);
    double normal = log(sum) + (double)most;
    for (size_t k = 0; k < width; k++)
        x[k] = (float)exp((double)x[k] - normal);
}

pst_status pst_predictor_run(pst_predictor *p, const pst_tensor *input, float *out, pst_error *reterr)
{
    struct idle *i = NULL;
    pst_status st = check_input(p, input, reterr);
    if (st == PST_OK)
        st = take_context(p, &i, reterr);
    if (st < 0)
        return st;
    size_t n = (size_t)input->shape[0];
    infer_run(i->context, input->data, input->dtype, n, out);
    give_context(p, i);
    for (size_t k = 0; p->output == PST_OUTPUT_SOFTMAX && k < n; k++)
        softmax(out + k * p->width, p->width);
    for (size_t k = 0; p->output == PST_OUTPUT_SIGMOID && k < n * p->width; k++)
        out[k] = (float)(1 / (1 + exp(-(double)out[k])));
    return PST_OK;
}

/* ---- Telling ---- */

pst_shape pst_predictor_input(const pst_predictor *p)
{
    return shape_public(&p->graph->input);
}

pst_shape pst_predictor_output(const pst_predictor *p)
{
    return shape_public(infer_out_shape(p->plan));
}

pst_status pst_predictor_describe(const pst_predictor *p, pst_predictor_plan *ret, pst_error *reterr)
{
    struct text t = {0};
    pst_status st = result_check(ret, reterr);
    if (st < 0)
        return st;
    infer_describe(p->plan, &t);
    if (t.failed) {
        text_finish(&t);
        return fail_memory(reterr, "describing predictions");
    }
    pst_predictor_plan found = {
        .weight_bytes = infer_weight_bytes(p->plan), .call_bytes = infer_call_bytes(p->plan, p->threads), .text = t.data};
    if (ret->size < offsetof(pst_predictor_plan, text) + sizeof(ret->text)) /* a caller that has no place for it does not free it */
        text_finish(&t);
    result_give(ret, &found, sizeof(found));
    return PST_OK;
}
