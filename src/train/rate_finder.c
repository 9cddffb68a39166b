/* rate_finder.c: a range test of the learning rate: it rises exponentially from step to step while the model trains. */
#include "train/evaluate_model.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/options.h"
#include "io/publish.h"
#include "report/chart.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#define SMOOTHING 0.9 /* share of the older losses in the mean */
#define EXPLODED  4.  /* times the lowest loss: the search ends */
#define SETTLED   5   /* steps before the loss is judged */
#define BEGUN     0.1 /* share of the whole fall after which the loss has begun to fall */
#define WINDOWS   8   /* means and slopes are taken over this part of all steps, and over 5 at least */
#define NOISE     1.2 /* times the noise of a mean that a fall must have */

struct search {
    pst_trainer *trainer;
    pst_pipeline *pipeline;
    const pst_rate_options *options;
    double low, high, mean;
    uint64_t steps;
    size_t count;
    double *rates, *losses, *exponents;
    double *raw; /* the losses of the steps */
};

/* The next batch that is not empty; the pipeline is repeated. */
static pst_status next_batch(struct search *s, pst_batch **ret, pst_error *reterr)
{
    for (int ends = 0; ends < 2;) {
        pst_status st = pst_pipeline_next(s->pipeline, ret, reterr);
        if (st == PST_OK && pst_batch_size(*ret) > 0)
            return st;
        if (st == PST_OK)
            *ret = pst_batch_unref(*ret);
        else if (st != PST_END)
            return st;
        ends += st == PST_END;
    }
    return pst_fail(reterr, PST_EINVAL, "the pipeline delivers no batch");
}

/* One step; `*ret_over` when the loss has exploded. */
static pst_status advance(struct search *s, bool *ret_over, pst_error *reterr)
{
    double share = s->steps > 1 ? (double)s->count / (double)(s->steps - 1) : 0, rate = s->low * pow(s->high / s->low, share);
    pst_step_result result = {.size = sizeof(result)};
    pst_samples samples;
    pst_batch *batch = NULL;
    pst_status st = next_batch(s, &batch, reterr);
    if (st < 0)
        return st;
    pst_trainer_set_rate(s->trainer, rate);
    st = samples_of(batch, s->options->fields, &samples, reterr);
    if (st == PST_OK)
        st = locate_sample(s->pipeline, batch, pst_trainer_step(s->trainer, &samples, &result, reterr), reterr);
    pst_batch_unref(batch);
    if (st == PST_ETYPE && s->count > SETTLED) { /* the loss is not finite: that is an answer, too */
        *ret_over = true;
        return PST_OK;
    }
    if (st < 0)
        return st;
    s->mean = SMOOTHING * s->mean + (1 - SMOOTHING) * result.loss;
    s->rates[s->count] = rate;
    s->raw[s->count] = result.loss;
    s->exponents[s->count] = log10(rate);
    s->losses[s->count] = s->mean / (1 - pow(SMOOTHING, (double)s->count + 1));
    s->count++;
    return PST_OK;
}

static size_t lowest_of(const struct search *s)
{
    size_t best = SETTLED;
    for (size_t i = SETTLED + 1; i < s->count; i++)
        if (s->losses[i] < s->losses[best])
            best = i;
    return best;
}

/* The steps around step `i` that its mean and its slope are taken over. */
struct window {
    size_t first, last;
};

static struct window window_at(const struct search *s, size_t i)
{
    size_t half = s->steps / WINDOWS / 2 > 2 ? s->steps / WINDOWS / 2 : 2;
    return (struct window){i > half ? i - half : 0, i + half < s->count ? i + half : s->count - 1};
}

/* The mean loss around step `i`: unlike the running mean of the curve, it does not lag. */
static double mean_at(const struct search *s, size_t i)
{
    struct window w = window_at(s, i);
    double sum = 0;
    for (size_t k = w.first; k <= w.last; k++)
        sum += s->raw[k];
    return sum / (double)(w.last - w.first + 1);
}

/* The slope of the line through the losses around step `i`, by least squares. Steps are equal parts of a decade. */
static double slope_at(const struct search *s, size_t i)
{
    struct window w = window_at(s, i);
    double mean = ((double)w.first + (double)w.last) / 2, above = 0, below = 0;
    for (size_t k = w.first; k <= w.last; k++) {
        above += ((double)k - mean) * s->raw[k];
        below += ((double)k - mean) * ((double)k - mean);
    }
    return above / below;
}

/* The standard deviation of mean_at, from the differences of successive losses up to step `end`. */
static double noise_before(const struct search *s, size_t end)
{
    struct window w = window_at(s, end / 2);
    double sum = 0;
    for (size_t i = 1; i <= end; i++)
        sum += (s->raw[i] - s->raw[i - 1]) * (s->raw[i] - s->raw[i - 1]);
    return sqrt(sum / (2 * (double)end) / (double)(w.last - w.first + 1));
}

/* The mean loss before it falls: on the first third of the way to the lowest. */
static double level_before(const struct search *s, size_t end)
{
    size_t count = (end - SETTLED) / 3 + 1;
    double sum = 0;
    for (size_t i = SETTLED; i < SETTLED + count; i++)
        sum += mean_at(s, i);
    return sum / (double)count;
}

/* The place before the lowest loss where it falls fastest per decade of the rate, once it has begun to fall for good. SIZE_MAX: it
 * falls no deeper than its noise. */
static size_t steepest_of(const struct search *s)
{
    size_t best = SIZE_MAX, end = SETTLED, begin = SETTLED;
    double slope = 0;
    for (size_t i = SETTLED; i < s->count; i++)
        end = mean_at(s, i) < mean_at(s, end) ? i : end;
    double before = level_before(s, end), fall = before - mean_at(s, end);
    if (!(fall > NOISE * noise_before(s, end)))
        return SIZE_MAX;
    for (size_t i = SETTLED; i < end; i++)
        if (mean_at(s, i) > before - BEGUN * fall)
            begin = i + 1;
    for (size_t i = begin; i <= end; i++)
        if (slope_at(s, i) < slope) {
            slope = slope_at(s, i);
            best = i;
        }
    return best;
}

static pst_status write_page(const struct search *s, size_t steepest, pst_error *reterr)
{
    struct text t = {0};
    struct page p;
    char text[200], number[FIGURE_SIZE];
    struct chart_line line = {.label = "loss", .x = s->exponents, .y = s->losses, .count = s->count, .accent = true};
    page_begin(&p, &t, "Search for the learning rate");
    if (steepest == SIZE_MAX)
        snprintf(text, sizeof(text), "The loss did not fall at any rate from %.2g to %.2g.", s->low, s->high);
    else
        snprintf(text, sizeof(text), "Try a learning rate of %.2g: there the loss falls fastest.", s->rates[steepest]);
    page_sentence(&p, text);
    chart_lines(&p, &(struct line_chart){.title = "Loss by learning rate",
                                         .description = "The smoothed training loss while the learning rate rises.",
                                         .x_label = "learning rate, as a power of 10",
                                         .y_label = "loss",
                                         .lines = &line,
                                         .count = 1});
    snprintf(text, sizeof(text), "The lowest loss, %s, was reached at %.2g. A good rate is well below that.",
             figure_number(number, s->losses[lowest_of(s)]), s->rates[lowest_of(s)]);
    page_paragraph(&p, text);
    page_end(&p);
    pst_status st = t.failed ? fail_memory(reterr, "writing the page") : publish_bytes(s->options->page, t.data, t.length, true, false, reterr);
    text_finish(&t);
    return st;
}

static pst_status search(struct search *s, pst_error *reterr)
{
    pst_status st = PST_OK;
    double lowest = INFINITY;
    for (bool over = false; st == PST_OK && !over && s->count < s->steps;) {
        st = advance(s, &over, reterr);
        if (st < 0 || over)
            break;
        double loss = s->losses[s->count - 1];
        pst_run_progress progress = {.size = sizeof(progress), .step = s->count, .epoch = 1, .loss = loss, .accuracy = NAN, .val_loss = NAN, .val_accuracy = NAN,
                                     .rate = s->rates[s->count - 1], .epoch_steps = s->steps, .epoch_step = s->count, .seconds_left = NAN};
        if (s->count > SETTLED)
            lowest = loss < lowest ? loss : lowest;
        over = loss > EXPLODED * lowest;
        if (s->options->progress && s->options->progress(s->options->user, &progress))
            st = pst_fail(reterr, PST_ECANCELLED, "stopped");
    }
    return st == PST_OK && s->count <= SETTLED ? pst_fail(reterr, PST_EINVAL, "a search needs more than %d steps", SETTLED) : st;
}

pst_status pst_trainer_find_rate(pst_trainer *t, pst_pipeline *p, const pst_rate_options *o, pst_rate_result *ret, pst_error *reterr)
{
    pst_rate_options given = {0};
    pst_status st = options_take(&given, sizeof(given), o, reterr);
    if (st < 0)
        return st;
    o = &given;
    st = result_check(ret, reterr);
    if (st < 0)
        return st;
    if (!o->fields)
        return pst_fail(reterr, PST_EINVAL, "pst_rate_options.fields is not set");
    struct search s = {.trainer = t,
                       .pipeline = p,
                       .options = o,
                       .low = o->low > 0 ? o->low : 1e-7,
                       .high = o->high > 0 ? o->high : 10,
                       .steps = o->steps ? o->steps : 100};
    if (!(s.high > s.low))
        return pst_fail(reterr, PST_EINVAL, "the search goes from %g to %g; the first rate should be lower", s.low, s.high);
    s.rates = mem_array(s.steps, sizeof(double));
    s.losses = mem_array(s.steps, sizeof(double));
    s.exponents = mem_array(s.steps, sizeof(double));
    s.raw = mem_array(s.steps, sizeof(double));
    st = s.rates && s.losses && s.exponents && s.raw ? search(&s, reterr) : fail_memory(reterr, "searching for the learning rate");
    size_t steepest = st == PST_OK ? steepest_of(&s) : SIZE_MAX;
    if (st == PST_OK && o->page)
        st = write_page(&s, steepest, reterr);
    mem_free(s.exponents);
    mem_free(s.raw);
    if (st < 0) {
        mem_free(s.rates);
        mem_free(s.losses);
        return st;
    }
    pst_rate_result found = {.count = s.count,
                             .rates = s.rates,
                             .losses = s.losses,
                             .suggested = steepest == SIZE_MAX ? NAN : s.rates[steepest],
                             .lowest = s.rates[lowest_of(&s)]};
    if (ret->size < offsetof(pst_rate_result, losses) + sizeof(ret->losses)) { /* a caller that has no place for them does not free them */
        mem_free(s.losses);
        if (ret->size < offsetof(pst_rate_result, rates) + sizeof(ret->rates))
            mem_free(s.rates);
    }
    result_give(ret, &found, sizeof(found));
    return PST_OK;
}
