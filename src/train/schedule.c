/* schedule.c: see schedule.h. */
#include "train/schedule.h"

#include <math.h>

#define PI           3.14159265358979323846
#define CYCLE_RISE   0.3  /* share of the steps */
#define CYCLE_START  25.  /* the rate starts as peak / 25… */
#define CYCLE_FINISH 25e4 /* …and ends as peak / 250000 */

/* From `a` to `b` along half a cosine; `share` from 0 to 1. */
static double half_cosine(double a, double b, double share)
{
    return b + (a - b) * 0.5 * (1 + cos(PI * (share < 1 ? share : 1)));
}

static double one_cycle(const pst_train_options *o, double step)
{
    double rise = CYCLE_RISE * (double)o->total_steps;
    if (step < rise)
        return half_cosine(o->rate / CYCLE_START, o->rate, step / rise);
    return half_cosine(o->rate, o->rate / CYCLE_FINISH, (step - rise) / ((double)o->total_steps - rise));
}

double schedule_rate(const pst_train_options *o, const struct schedule_state *s, uint64_t step)
{
    if (step < o->warmup_steps)
        return o->rate * (double)(step + 1) / (double)o->warmup_steps;
    uint64_t after = step - o->warmup_steps;
    switch (o->schedule) {
    case PST_SCHEDULE_STEP:
        return o->rate * pow(o->gamma, (double)(after / o->schedule_every));
    case PST_SCHEDULE_COSINE:
        return half_cosine(o->rate, o->min_rate, (double)after / fmax(1, (double)o->total_steps - (double)o->warmup_steps));
    case PST_SCHEDULE_ONE_CYCLE:
        return one_cycle(o, (double)step);
    case PST_SCHEDULE_PLATEAU:
        return fmax(o->rate * s->factor, o->min_rate);
    default:
        return o->rate;
    }
}

void schedule_epoch(const pst_train_options *o, struct schedule_state *s, double loss)
{
    if (loss < s->best) {
        s->best = loss;
        s->wait = 0;
    } else if (++s->wait >= o->plateau_patience) {
        s->factor *= o->gamma;
        s->wait = 0;
    }
}
