/* remedy_model.c: remedies that change the training step: other layers, a smaller model, numbers of 16 bits, and more machines. Each changed step is run
 * briefly; what it brings with the pipeline follows from both. */
#include "doctor/remedy.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "doctor/step.h"

#include <math.h>
#include <penstock/compress.h>
#include <stdio.h>
#include <string.h>

/* ---- A changed step ---- */

static double together(const struct pst_doctor *d, double step_ms)
{
    double step = 1e3 * (double)d->facts.batch / step_ms;
    return 1 / (1 / d->pipe_rate + 1 / step); /* both compute on the same cores */
}

/* Runs the step of `r->change` and predicts from it. PST_SKIP: it cannot be run, or there is no time. */
static pst_status try_step(struct pst_doctor *d, struct remedy *r, double *ret_ms, pst_error *reterr)
{
    pst_error error = {0};
    double share = NAN;
    if (!doctor_has_time(d, 2))
        return PST_SKIP;
    pst_status st = step_compare(d, &r->change, doctor_span(d, 0.5, 1.5), &share, &error);
    *ret_ms = share * d->step.ms;
    if (st == PST_ENOMEM || st == PST_ECANCELLED) {
        if (reterr)
            *reterr = error;
        return st;
    }
    if (st < 0 || !(*ret_ms > 0) || !(d->step.ms > 0) || !(d->pipe_rate > 0))
        return PST_SKIP;
    r->model_gain = together(d, *ret_ms) / together(d, d->step.ms);
    r->changes_step = true;
    snprintf(r->basis, sizeof(r->basis), "steps of both models in turns, and the rate of the pipeline");
    return PST_OK;
}

static pst_status unavailable(struct remedy *r, const char *title)
{
    r->available = false;
    snprintf(r->title, sizeof(r->title), "%s", title);
    return PST_OK;
}

/* The tool does not know the operations of a program: there is no command for them. */
static pst_status set_command(const struct pst_doctor *d, struct remedy *r, const char *model, const char *rest, pst_error *reterr)
{
    if (draft_has_custom(&d->now))
        return PST_OK;
    r->command = doctor_train_command(d, model, false, rest);
    return r->command ? PST_OK : fail_memory(reterr, "describing a remedy");
}

/* ---- Layers ---- */

/* Convolutions from the second on, as depthwise and pointwise ones. mem_free it; NULL: there are none. */
static char *separable(const char *model)
{
    struct text t = {0};
    size_t convolutions = 0, changed = 0;
    for (const char *s = model; *s;) {
        size_t n = strcspn(s, "|"), skip = strspn(s, " \t\n(");
        bool convolution = strncmp(s + skip, "conv ", 5) == 0 && strcmp(s + skip, "conv ") != 0;
        if (convolution && convolutions++ > 0) {
            text_add_n(&t, s, skip);
            text_add(&t, "sep");
            text_add_n(&t, s + skip, n - skip);
            changed++;
        } else {
            text_add_n(&t, s, n);
        }
        s += n;
        if (*s == '|')
            text_add_n(&t, s++, 1);
    }
    if (t.failed || !changed)
        text_finish(&t);
    return t.data;
}

static pst_status find_separable(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    double ms = NAN;
    r->change.model = d->step.model ? separable(d->step.model) : NULL;
    if (!r->change.model)
        return PST_SKIP;
    pst_status st = try_step(d, r, &ms, reterr);
    if (st != PST_OK)
        return st;
    snprintf(r->title, sizeof(r->title), "use separable convolutions: a step of %s ms instead of %s", FIGURE(ms), FIGURE(d->step.ms));
    snprintf(r->risk, sizeof(r->risk), "fewer parameters: accuracy may differ");
    return set_command(d, r, r->change.model, "", reterr);
}

static pst_status find_mixed_precision(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    double ms = NAN;
    if (!d->step.model)
        return PST_SKIP;
    r->change.mixed = PST_MIXED_BFLOAT16;
    pst_status st = try_step(d, r, &ms, reterr);
    if (st != PST_OK)
        return st;
    snprintf(r->title, sizeof(r->title), "store values and gradients between layers as bfloat16: a step of %s ms instead of %s", FIGURE(ms), FIGURE(d->step.ms));
    snprintf(r->risk, sizeof(r->risk), "rounding: compare the loss of both");
    return set_command(d, r, d->step.model, " --mixed bfloat16", reterr);
}

/* ---- Fewer channels, and integers ---- */

struct lab { /* the model with fresh weights: its speed is that of the trained one */
    struct bench bench;
    pst_network *whole, *small, *int8;
    pst_network_info before, after;
    double share; /* of the operations, that was asked of the smaller one */
};

static void lab_finish(struct lab *l)
{
    pst_network_destroy(l->whole);
    pst_network_destroy(l->small);
    pst_network_destroy(l->int8);
    bench_finish(&l->bench);
}

/* Makes the smaller model: this share of the operations, or what can be had. */
static pst_status shrink(struct pst_doctor *d, struct lab *l, double share, pst_error *reterr)
{
    l->before.size = l->after.size = sizeof(l->before);
    pst_status st = bench_open(d, &(struct step_change){0}, &l->bench, reterr);
    if (st == PST_OK)
        st = pst_network_of_trainer(&l->whole, l->bench.trainer, NULL, reterr);
    if (st == PST_OK)
        st = pst_network_describe(l->whole, &l->before, reterr);
    for (pst_status tried = PST_ELIMIT; st == PST_OK && tried == PST_ELIMIT; share += 0.1) {
        if (share > 0.95)
            return PST_SKIP; /* nothing can go */
        pst_shrink_options o = {.size = sizeof(o), .flops = share};
        l->share = share;
        tried = pst_shrink(&l->small, l->whole, &o, reterr);
        if (tried < 0 && tried != PST_ELIMIT)
            st = tried;
    }
    if (st == PST_OK)
        st = pst_network_describe(l->small, &l->after, reterr);
    return st;
}

/* Predictions per second, by the shortest call. */
static pst_status infer_rate(struct pst_doctor *d, const struct lab *l, const pst_network *n, double *ret, pst_error *reterr)
{
    pst_predict_options o = {.size = sizeof(o)};
    pst_samples s = bench_samples(&l->bench);
    pst_predictor *p = NULL;
    float *out = NULL;
    pst_status st = pst_predictor_of_network(&p, n, &o, reterr);
    if (st == PST_OK) {
        pst_shape shape = pst_predictor_output(p);
        size_t values = (size_t)s.input->shape[0];
        for (uint32_t i = 0; i < shape.rank; i++)
            values *= (size_t)shape.size[i];
        out = mem_array(values, sizeof(*out));
        st = out ? PST_OK : fail_memory(reterr, "measuring predictions");
    }
    uint64_t best = UINT64_MAX, end = clock_ns() + (uint64_t)(1e9 * doctor_span(d, 0.1, 0.3));
    for (int i = 0; st == PST_OK && (i < 3 || clock_ns() < end); i++) {
        uint64_t begin = clock_ns(), took;
        st = pst_predictor_run(p, s.input, out, reterr);
        took = clock_ns() - begin;
        best = took < best ? took : best;
    }
    if (st == PST_OK && best > 0)
        *ret = (double)s.input->shape[0] / (1e-9 * (double)best);
    mem_free(out);
    pst_predictor_destroy(p);
    return st;
}

/* The same model in int8, calibrated with a few samples of the pipeline. */
static pst_status quantize(struct pst_doctor *d, struct lab *l, pst_error *reterr)
{
    pst_pipeline *p = NULL;
    pst_fields fields = {.size = sizeof(fields)};
    pst_status st = draft_open(&d->now, &p, reterr);
    if (st == PST_OK)
        st = pst_fields_find(p, NULL, NULL, false, &fields, reterr);
    pst_quantize_options o = {.size = sizeof(o), .samples = 32, .fields = &fields};
    if (st == PST_OK)
        st = pst_quantize(&l->int8, l->whole, p, &o, reterr);
    pst_pipeline_destroy(p);
    return st;
}

/* Whether a part that cannot be done is left out; otherwise it ends the examination. */
static bool left_out(pst_status *st, const pst_error *error, pst_error *reterr)
{
    if (*st >= 0)
        return *st == PST_SKIP;
    if ((*st == PST_ENOMEM || *st == PST_ECANCELLED) && reterr)
        *reterr = *error;
    if (*st != PST_ENOMEM && *st != PST_ECANCELLED)
        *st = PST_SKIP;
    return true;
}

/* What predictions gain, which need no training step. */
static pst_status measure_inference(struct pst_doctor *d, struct remedy *r, struct lab *l, pst_error *reterr)
{
    pst_error error = {0};
    pst_status st = infer_rate(d, l, l->whole, &r->infer_now, &error);
    if (st == PST_OK)
        st = infer_rate(d, l, l->small, &r->infer_small, &error);
    if (st == PST_OK && doctor_has_time(d, 3))
        st = quantize(d, l, &error);
    if (st == PST_OK && l->int8)
        st = infer_rate(d, l, l->int8, &r->infer_int8, &error);
    return left_out(&st, &error, reterr) && st < 0 ? st : PST_OK;
}

static pst_status try_smaller(struct pst_doctor *d, struct remedy *r, double share, bool inference, struct lab *l, double *ret_ms, pst_error *reterr)
{
    pst_error error = {0};
    if (!doctor_has_time(d, 3))
        return PST_SKIP;
    pst_status st = shrink(d, l, share, &error);
    if (left_out(&st, &error, reterr))
        return st;
    r->change.model = mem_strdup(pst_model_text(pst_network_model(l->small)));
    st = r->change.model ? try_step(d, r, ret_ms, reterr) : fail_memory(reterr, "describing a remedy");
    return st == PST_OK && inference ? measure_inference(d, r, l, reterr) : st;
}

static pst_status find_compress(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct lab l = {0};
    double ms = NAN;
    if (!d->step.model)
        return unavailable(r, "prune, quantise or distil the model; --model MODEL predicts and measures it");
    pst_status st = try_smaller(d, r, 0.5, true, &l, &ms, reterr);
    if (st == PST_OK) {
        double left = l.before.flops ? (double)l.after.flops / (double)l.before.flops : 1;
        int n = snprintf(r->title, sizeof(r->title), "remove channels until %.0f %% of the operations are left: a step of %s ms instead of %s", 100 * left,
                         FIGURE(ms), FIGURE(d->step.ms));
        if (r->infer_small > 0 && n > 0 && (size_t)n < sizeof(r->title))
            n += snprintf(r->title + n, sizeof(r->title) - (size_t)n, "; predictions %s/s instead of %s", FIGURE(r->infer_small), FIGURE(r->infer_now));
        if (r->infer_int8 > 0 && n > 0 && (size_t)n < sizeof(r->title))
            snprintf(r->title + n, sizeof(r->title) - (size_t)n, ", or %s/s as int8", FIGURE(r->infer_int8));
        snprintf(r->price, sizeof(r->price), "some epochs of training after it");
        snprintf(r->risk, sizeof(r->risk), "accuracy: `penstock compress --target-accuracy` keeps within a bound");
        bool foreign = draft_has_custom(&d->now);
        char *data = remedy_shell(d->text);
        r->command = data && !foreign ? mem_format("penstock compress RUN --flops %.1f --quantize int8 --data %s --val PIPELINE --target-accuracy -0.5%% --out SMALL", l.share, data)
                          : NULL;
        mem_free(data);
        st = r->command || foreign ? PST_OK : fail_memory(reterr, "describing a remedy");
    }
    lab_finish(&l);
    return st;
}

static pst_status find_smaller_model(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct lab l = {0};
    double ms = NAN;
    if (!d->step.model)
        return PST_SKIP;
    pst_status st = try_smaller(d, r, 0.25, false, &l, &ms, reterr);
    if (st == PST_OK) {
        snprintf(r->title, sizeof(r->title), "train a student with %.0f %% of the operations, taught by a trained model: a step of %s ms instead of %s",
                 l.before.flops ? 100 * (double)l.after.flops / (double)l.before.flops : 100, FIGURE(ms), FIGURE(d->step.ms));
        snprintf(r->price, sizeof(r->price), "the teacher's predictions of all samples, once");
        snprintf(r->risk, sizeof(r->risk), "a small model learns less: compare its accuracy");
        st = set_command(d, r, r->change.model, " --teacher RUN", reterr);
    }
    lab_finish(&l);
    return st;
}

const struct remedy_class remedy_model[] = {
    {"separable-convolutions", 3, find_separable, GROUP_STEP},
    {"compress", 4, find_compress, GROUP_NONE},
    {"mixed-precision", 2, find_mixed_precision, GROUP_STEP},
    {"smaller-model", 4, find_smaller_model, GROUP_NONE},
    {0},
};
