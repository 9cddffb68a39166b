/* judge.c: from costs and predictions to a verdict.
 *
 * A remedy whose need has evidence in the costs (a flaw) names a cause. The cause of the verdict is that of the flaw whose removal
 * brings most for its effort; nothing is concluded from the text of the pipeline alone. */
#include "doctor/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BOUND 1.5 /* the gain that counts of an upper bound */

struct cause {
    const char *name, *bottleneck, *phrase;
};

static const struct cause causes[] = {
    {"many-small-files", "storage", "every sample is a small file of its own"},
    {"compressed-stream", "cpu", "the data is compressed as a whole, so that one thread at a time unpacks it"},
    {"slow-format", "cpu", "each sample is expensive to read from files of this format"},
    {"slow-storage", "storage", "storage delivers too few bytes per second"},
    {"page-cache", "storage", "the data set does not fit into memory, so that every epoch reads it from storage"},
    {"large-images", "cpu", "the images are stored much larger than they are used"},
    {"single-worker", "configuration", "a single worker prepares the data"},
    {"worker-limit", "cpu", "all workers are busy all the time"},
    {"shuffle-after-decode", "memory", "the shuffle buffer holds decoded samples"},
    {"early-floats", "cpu", "images are converted to floats before they are made smaller"},
    {"late-filter", "cpu", "samples are computed that a later stage leaves out"},
    {"shuffle-buffer", "memory", "a shuffle buffer must be filled from a stream before the first batch"},
    {"tiny-batch", "configuration", "batches are so small that handing them over costs more than the samples"},
    {"no-prefetch", "configuration", "too few batches are prepared ahead"},
    {"ram-limit", "memory", "the RAM budget has no room for batches ahead or for the cache"},
    {"python-function", "python", "a Python function takes most of the time"},
    {"heavy-augmentation", "cpu", "one operation costs far more than reading and decoding"},
    {"unused-fields", "configuration", "fields are read and delivered that training does not use"},
    {"lock-contention", "cpu", "workers wait for each other"},
    {"large-batch", "memory", "batches are too large for the memory: for the processor's cache, or for more than two of them at once"},
    {"heavy-model", "model", "the model's step is the limit"},
    {"consumer", "consumer", "the training step is the limit"},
    {"none", "consumer", "pipeline and step are about equally fast"},
};

static const struct cause *cause_of(const char *name)
{
    for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
        if (strcmp(causes[i].name, name) == 0)
            return &causes[i];
    return &causes[sizeof(causes) / sizeof(causes[0]) - 1];
}

/* ---- Waiting ---- */

static bool step_known(const struct pst_doctor *d)
{
    return d->step.rate > 0 && isfinite(d->step.rate);
}

static void judge_waiting(struct pst_doctor *d)
{
    double spread_low = d->run.rate > 0 ? d->run.low / d->run.rate : 1, spread_high = d->run.rate > 0 ? d->run.high / d->run.rate : 1;
    d->now_rate = predict_together(d, d->pipe_rate);
    d->now_low = predict_together(d, d->pipe_rate * spread_low);
    d->now_high = predict_together(d, d->pipe_rate * spread_high);
    d->limit_step_ms = d->pipe_rate > 0 ? 1e3 * (double)d->facts.batch / d->pipe_rate : NAN;
    d->wait_share = NAN;
    d->class_name = "unknown";
    if (!step_known(d))
        return;
    d->wait_share = d->now_rate < d->step.rate ? 1 - d->now_rate / d->step.rate : 0;
    if (isfinite(d->step.wait_share) && !d->cold_binds) { /* measured with the consumer: better than computed */
        d->wait_share = d->step.wait_share;
        d->now_rate = isfinite(d->step.together) ? d->step.together : d->now_rate;
        d->now_low = d->now_rate * spread_low;
        d->now_high = d->now_rate * spread_high;
    }
    d->class_name = d->wait_share > 0.2 ? "input-bound" : d->wait_share >= 0.05 ? "balanced" : "consumer-bound";
}

double judge_wait_ms(const struct pst_doctor *d)
{
    return d->now_rate > 0 ? 1e3 * (double)d->facts.batch / d->now_rate * d->wait_share : NAN;
}

double judge_compute_ms(const struct pst_doctor *d)
{
    return d->now_rate > 0 ? 1e3 * (double)d->facts.batch / d->now_rate * (1 - d->wait_share) : NAN;
}

/* ---- Ranking ---- */

static int by_rank(const void *a, const void *b)
{
    const struct remedy *x = a, *y = b;
    if (x->available != y->available)
        return x->available ? -1 : 1;
    return x->score > y->score ? -1 : x->score < y->score ? 1 : strcmp(x->id, y->id);
}

/* The gain if the pipeline by itself reaches `rate`. */
static double gain_at(const struct pst_doctor *d, double rate)
{
    double after = predict_together(d, rate), before = predict_together(d, d->pipe_rate);
    double gain = isfinite(rate) && before > 0 ? after / before : NAN;
    if (isfinite(gain) && step_known(d) && !d->step.shared && d->now_rate > 0) /* of the rate that was measured with the step, which stays the limit */
        gain = fmin(gain, fmax(1, d->step.rate / d->now_rate));
    return gain;
}

double remedy_after(const struct pst_doctor *d, const struct remedy *r)
{
    return isfinite(r->rate) || r->model_gain > 0 ? d->now_rate * r->gain : NAN;
}

const char *remedy_effort(const struct remedy *r)
{
    return r->effort <= 2 ? "low" : r->effort == 3 ? "medium" : "high";
}

bool remedy_is_for(const struct pst_doctor *d, const struct remedy *r)
{
    return r->flaw && r->available && strcmp(r->cause, d->cause) == 0;
}

bool remedy_is_bound(const struct remedy *r)
{
    return r->upper && r->model_gain > 0;
}

static bool changes_consumer(const struct remedy *r)
{
    return strcmp(r->id, "faster-step") == 0 || r->model_gain > 0;
}

void remedy_range(const struct pst_doctor *d, const struct remedy *r, double *ret_low, double *ret_high)
{
    bool known = !changes_consumer(r);
    *ret_low = known ? d->now_rate * gain_at(d, r->low) : NAN;
    *ret_high = known ? d->now_rate * gain_at(d, r->high) : NAN;
}

double judge_measured(const struct pst_doctor *d, const struct remedy *r)
{
    if (!isfinite(r->measured) || !(r->measured_now > 0) || !(r->rate_on_sample > 0))
        return NAN;
    return d->now_rate * (changes_consumer(r) ? r->measured / r->measured_now : gain_at(d, r->rate * r->measured / r->rate_on_sample));
}

static void score(struct pst_doctor *d, struct remedy *r)
{
    r->gain = changes_consumer(r) ? r->model_gain : gain_at(d, r->rate);
    if (r->evened > 0 && step_known(d) && d->now_rate > 0) /* that gains beside a step, too, which is as fast as the pipeline */
        r->gain = fmax(r->gain, fmin(1 / (1 - r->evened), fmax(1, d->step.rate / d->now_rate)));
    r->score = r->gain > 0 ? log(r->gain) / r->effort : -1;
    if (remedy_is_bound(r))
        r->score = fmin(r->score, log(BOUND) / r->effort); /* what the data allows is far away; a step that is measured comes first */
    if (r->ranks && !(d->options.wish_rate > 0))
        r->score = fmin(r->score, -0.5); /* an offer to those who ask for more, not a remedy for something wrong */
}

/* Ranks by gain per effort; the remedy of the cause comes first. */
static void rank(struct pst_doctor *d, const char *cause)
{
    for (size_t i = 0; i < d->remedies; i++)
        if (d->remedy[i].flaw && strcmp(d->remedy[i].cause, cause) == 0)
            d->remedy[i].score += 1000;
    qsort(d->remedy, d->remedies, sizeof(d->remedy[0]), by_rank);
}

static const struct remedy *worst_flaw(const struct pst_doctor *d)
{
    const struct remedy *worst = NULL;
    for (size_t i = 0; i < d->remedies; i++) {
        const struct remedy *r = &d->remedy[i];
        if (r->flaw && r->available && r->gain >= r->least && (!worst || r->score > worst->score))
            worst = r;
    }
    return worst;
}

static const char *choose_cause(struct pst_doctor *d)
{
    bool known = step_known(d);
    if (known && d->wait_share < 0.05)
        return d->pipe_rate <= 3 * d->step.rate ? "none" : d->step.model ? "heavy-model" : "consumer";
    const struct remedy *worst = worst_flaw(d);
    if (worst)
        return worst->cause;
    if (d->cold_binds || d->remote.binds)
        return d->remote.binds ? "slow-storage" : "page-cache";
    return known && d->wait_share > 0.2 ? "worker-limit" : "none";
}

/* What limits the pipeline itself, where nothing is wrong. */
static const char *resource(const struct pst_doctor *d)
{
    if (d->cold_binds || d->remote.binds || d->costs.blocked_us > d->costs.cpu_us)
        return "storage";
    return step_known(d) && d->wait_share < 0.05 ? (d->step.model ? "model" : "consumer") : "cpu";
}

/* ---- The sentence ---- */

static void add(char *buffer, size_t size, const char *text)
{
    size_t n = strlen(buffer);
    snprintf(buffer + n, size - n, "%s", text);
}

static void best_remedy_words(const struct pst_doctor *d, char *buffer, size_t size)
{
    const struct remedy *r = d->remedies ? &d->remedy[0] : NULL;
    char text[160];
    if (!r || !r->available || !(r->gain >= 1.05) || remedy_is_bound(r))
        return;
    snprintf(text, sizeof(text), " Remedy: %s, %s%s times as fast (predicted).", r->id, r->upper ? "up to " : "", FIGURE(r->gain));
    add(buffer, size, text);
}

/* What the verdict rests on, if that is not all. */
static void compose_doubt(struct pst_doctor *d)
{
    if (d->run.skipped >= 0.005) {
        char text[100];
        snprintf(text, sizeof(text), " %.0f %% of the samples are left out, as damaged or by a function.", fmax(100 * d->run.skipped, 1));
        add(d->sentence, sizeof(d->sentence), text);
    }
    if (d->cold_unknown)
        add(d->sentence, sizeof(d->sentence), " The data set does not fit into memory, and the rate of its storage is not known: this holds for data in memory.");
}

static void compose(struct pst_doctor *d)
{
    char text[200], rate[32], *s = d->sentence;
    size_t size = sizeof(d->sentence);
    bool none = strcmp(d->cause, "none") == 0, step = step_known(d);
    const char *phrase = cause_of(d->cause)->phrase;
    char delay[64] = "";
    if (strcmp(d->cause, "shuffle-buffer") == 0)
        snprintf(delay, sizeof(delay), ", which takes %s", FIGURE_TIME(d->run.first_batch));
    if (step && d->wait_share < 0.05) {
        snprintf(s, size, "Training waits %.1f %% of the time for data; the step is the limit.", 100 * d->wait_share);
        if (!none)
            snprintf(text, sizeof(text), " The pipeline could deliver %s times as much.", FIGURE(d->pipe_rate / d->step.rate));
        add(s, size, !none ? text : d->cold_unknown ? "" : " Nothing is wrong with the data.");
        return;
    }
    if (step && none && d->pipe_rate > 1.2 * d->step.rate)
        snprintf(s, size, "Training waits %.0f %% of the time for data, although the pipeline alone is %s times as fast as the step: batches come unevenly.",
                 100 * d->wait_share, FIGURE(d->pipe_rate / d->step.rate));
    else if (step)
        snprintf(s, size, "Training waits %.0f %% of the time for data: %s%s.", 100 * d->wait_share, phrase, delay);
    else if (none)
        snprintf(s, size, "The pipeline delivers %s samples/s%s; data becomes the limit for steps shorter than %s.",
                 doctor_figure(rate, sizeof(rate), d->pipe_rate), d->cold_unknown ? " at most" : d->run.skipped >= 0.005 ? "" : ", and no flaw stands out",
                 FIGURE_TIME(1e-3 * d->limit_step_ms));
    else
        snprintf(s, size, "The pipeline delivers %s samples/s: %s%s.", doctor_figure(rate, sizeof(rate), d->pipe_rate), phrase, delay);
    if (!none || step)
        best_remedy_words(d, s, size);
}

void doctor_judge(struct pst_doctor *d)
{
    judge_waiting(d);
    for (size_t i = 0; i < d->remedies; i++)
        score(d, &d->remedy[i]);
    d->cause = cause_of(choose_cause(d))->name;
    d->bottleneck = strcmp(d->cause, "none") == 0 ? resource(d) : cause_of(d->cause)->bottleneck;
    rank(d, d->cause);
    doctor_find_path(d);
    compose(d);
    compose_doubt(d);
}
