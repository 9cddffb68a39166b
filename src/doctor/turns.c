/* turns.c: two pipelines compared in turns. What other programs do, and how fast the processor happens to run, changes from second to second by more
 * than many remedies bring; runs that follow each other directly share it. The gain is the median of the ratios of neighbours, so that one
 * disturbed turn does not count. Many short turns tell more than few long ones. */
#include "doctor/doctor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_BATCHES 4 /* per turn, which begins and ends with one */
#define LEAST_TURNS   3 /* 2 if the answer is to be quick */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *value, size_t count)
{
    qsort(value, count, sizeof(*value), by_value);
    return count % 2 ? value[count / 2] : (value[count / 2 - 1] + value[count / 2]) / 2;
}

/* Makes the mean of `count` - 1 trials that of `count`. */
static void add_costs(struct trial *mean, const struct trial *t, size_t count)
{
    double part = 1 / (double)count, rest = 1 - part;
    struct trial before = *mean;
    *mean = *t;
    mean->samples += before.samples;
    mean->cpu_us = rest * before.cpu_us + part * t->cpu_us;
    mean->busy_us = rest * before.busy_us + part * t->busy_us;
    mean->blocked_us = rest * before.blocked_us + part * t->blocked_us;
    mean->delay = rest * before.delay + part * t->delay;
    mean->own = rest * before.own + part * t->own;
    mean->read_bytes = rest * before.read_bytes + part * t->read_bytes;
    mean->out_bytes = rest * before.out_bytes + part * t->out_bytes;
}

/* Slow pipelines need longer turns: a few batches, if that takes no more than twice the time. There are fewer of them then. */
static double turn_seconds(const struct pst_doctor *d, double seconds)
{
    double batch = d->run.rate > 0 ? (double)d->facts.batch / d->run.rate : 0;
    return fmin(fmax(seconds, LEAST_BATCHES * batch), 2 * seconds);
}

static void evaluate(struct turns *ret, const struct tally *t)
{
    double mean, low, high, before[MOST_TURNS], ratio[MOST_TURNS];
    memcpy(before, t->before, sizeof(before));
    memcpy(ratio, t->ratio, sizeof(ratio));
    trial_range(ratio, t->count, &mean, &low, &high);
    ret->gain = median(ratio, t->count);
    ret->low = mean > 0 ? ret->gain * low / mean : 0;
    ret->high = mean > 0 ? ret->gain * high / mean : 0;
    ret->before.rate = median(before, t->count);
    ret->after.rate = ret->before.rate * ret->gain;
}

/* Both with smaller batches, if theirs are the same and take too long. */
static void shorten(const struct pst_doctor *d, const struct turns_request *q, double seconds, struct draft ret[2])
{
    size_t a = draft_find(q->before, "batch", 0), b = draft_find(q->after, "batch", 0);
    draft_copy(&ret[0], q->before);
    draft_copy(&ret[1], q->after);
    if (a == DRAFT_NONE || b == DRAFT_NONE || strcmp(q->before->stage[a].text, q->after->stage[b].text) != 0)
        return;
    doctor_shorten(d, &ret[0], seconds);
    doctor_shorten(d, &ret[1], seconds);
}

pst_status doctor_turns(struct pst_doctor *d, const struct turns_request *q, struct tally *tally, struct turns *ret, pst_error *reterr)
{
    double seconds = turn_seconds(d, q->seconds);
    double end = doctor_hurries(d) && !d->options.verify ? 0 : doctor_elapsed(d) + 3 * (double)q->rounds * q->seconds; /* with what opening them takes */
    size_t least = d->options.quick ? 2 : LEAST_TURNS;
    struct draft both[2];
    pst_status st = PST_OK;
    shorten(d, q, seconds, both);
    *ret = (struct turns){0};
    for (size_t i = 0; st == PST_OK && i < q->rounds && tally->count < MOST_TURNS && (tally->count < least || doctor_elapsed(d) < end); i++) {
        struct trial a = {0}, b = {0};
        bool first = tally->count % 2; /* who begins alternates, too */
        for (int k = 0; k < 2 && st == PST_OK; k++)
            st = (k == 0) != first ? doctor_trial(d, &both[0], seconds, false, &a, reterr)
                                   : doctor_trial(d, &both[1], seconds, q->warm_epoch, &b, reterr);
        if (st == PST_OK && q->whole && b.partial)
            st = PST_SKIP; /* the first epoch, which fills a cache, takes too long: later ones cannot be measured */
        if (st != PST_OK)
            break;
        add_costs(&ret->before, &a, i + 1);
        add_costs(&ret->after, &b, i + 1);
        tally->before[tally->count] = a.rate;
        tally->ratio[tally->count++] = a.rate > 0 ? b.rate / a.rate : 0;
    }
    draft_finish(&both[0]);
    draft_finish(&both[1]);
    if (st == PST_OK)
        evaluate(ret, tally);
    return st;
}
