/* measure.c: a network on the way: accuracy, size, speed. */
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "compress/compress.h"
#include "network/network.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS   15
#define SECONDS 1.0 /* of measuring at most, per batch size */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The median time of a prediction of `batch` samples. */
static pst_status measure(pst_predictor *p, size_t batch, double *ret, pst_error *reterr)
{
    pst_shape in = pst_predictor_input(p), out = pst_predictor_output(p);
    size_t values = 1, results = 1, calls = 0;
    double times[CALLS];
    for (uint32_t i = 0; i < in.rank; i++)
        values *= in.size[i];
    for (uint32_t i = 0; i < out.rank; i++)
        results *= out.size[i];
    float *x = mem_array(batch, values * sizeof(float)), *y = mem_array(batch, results * sizeof(float));
    pst_tensor t = {.dtype = PST_DTYPE_F32, .rank = in.rank + 1, .shape = {batch}, .data = x};
    pst_status st = x && y ? PST_OK : fail_memory(reterr, "measuring");
    for (uint32_t i = 0; i < in.rank; i++)
        t.shape[i + 1] = in.size[i];
    for (size_t i = 0; st == PST_OK && i < batch * values; i++)
        x[i] = (float)(i * 2654435761u % 1000) / 500 - 1;
    if (st == PST_OK)
        st = pst_predictor_run(p, &t, y, reterr); /* warms up */
    for (uint64_t begin = clock_ns(); st == PST_OK && calls < CALLS && (calls < 3 || (double)(clock_ns() - begin) < 1e9 * SECONDS); calls++) {
        uint64_t before = clock_ns();
        st = pst_predictor_run(p, &t, y, reterr);
        times[calls] = 1e-9 * (double)(clock_ns() - before);
    }
    if (st == PST_OK) {
        qsort(times, calls, sizeof(times[0]), by_value);
        *ret = times[calls / 2];
    }
    mem_free(x);
    mem_free(y);
    return st;
}

static pst_status measure_all(const struct compression *c, const pst_network *n, pst_compress_variant *v, pst_error *reterr)
{
    pst_predict_options o = {.size = sizeof(o), .threads = c->options->threads, .output = PST_OUTPUT_LOGITS};
    pst_predictor_plan plan = {.size = sizeof(plan)};
    pst_predictor *p = NULL;
    pst_status st = pst_predictor_of_network(&p, n, &o, reterr);
    if (st == PST_OK)
        st = pst_predictor_describe(p, &plan, reterr);
    if (st == PST_OK)
        st = measure(p, 1, &v->latency1, reterr);
    if (st == PST_OK)
        st = measure(p, 64, &v->latency64, reterr);
    v->memory = plan.weight_bytes + plan.call_bytes;
    pst_free(plan.text);
    pst_predictor_destroy(p);
    return st;
}

pst_status compression_judge(struct compression *c, const pst_network *n, const char *name, bool *ret_accepted, pst_error *reterr)
{
    pst_network_info info = {.size = sizeof(info)};
    pst_evaluation e = {.size = sizeof(e)};
    pst_compress_variant v = {.size = sizeof(v)};
    if (mem_grow((void **)&c->variants, &c->capacity, c->count + 1, sizeof(*c->variants)) < 0)
        return fail_memory(reterr, "compressing");
    snprintf(v.name, sizeof(v.name), "%s", name);
    pst_status st = pst_network_describe(n, &info, reterr);
    if (st == PST_OK)
        st = pst_network_evaluate(n, c->validation, &c->validation_fields, c->options->threads, &e, reterr);
    if (st == PST_OK)
        st = measure_all(c, n, &v, reterr);
    pst_free(e.confusion);
    if (st < 0)
        return st;
    v.accuracy = e.accuracy;
    v.loss = e.loss;
    v.parameters = info.parameters;
    v.nonzero = info.nonzero;
    v.file_bytes = info.weight_bytes;
    v.flops = info.flops;
    v.accepted = c->count == 0 || !(v.accuracy < c->wanted);
    *ret_accepted = v.accepted;
    c->variants[c->count++] = v;
    if (c->options->progress && c->options->progress(c->options->user, name, NULL, &v))
        c->stop = true;
    return PST_OK;
}
