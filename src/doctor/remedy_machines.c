/* remedy_machines.c: `more-machines`: how many of them a wished rate takes. Every machine prepares its own part of the data and computes its own steps;
 * the gradients of all are added up while the backward pass still runs, over a link of known speed. */
#include "doctor/remedy.h"

#include "base/error.h"
#include "base/memory.h"
#include "doctor/link.h"

#include <math.h>
#include <stdio.h>

#define USUAL_LINK 1.25e9 /* bytes per second: 10 Gbit/s */
#define HOP        50e-6  /* seconds of one message */
#define MOST_RANKS 65536u

struct exchange {
    double step, hidden; /* seconds of a step with its data, and the part of it during which gradients travel */
    double bytes, link;
    char device[LINK_NAME]; /* whose speed `link` is; "": none */
};

/* Every value goes around twice, but for the part that is at home: once to be added up, once to be known. */
static double exchange_seconds(const struct exchange *e, unsigned ranks)
{
    return ranks < 2 || !(e->bytes > 0) ? 0 : 2 * (double)(ranks - 1) / ranks * e->bytes / e->link + 2 * log2(ranks) * HOP;
}

/* Steps of all ranks in the time of one step of one. */
static double gain_of(const struct exchange *e, unsigned ranks)
{
    double step = fmax(e->step, e->step - e->hidden + exchange_seconds(e, ranks));
    return ranks * e->step / step;
}

static struct exchange exchange_of(const struct pst_doctor *d)
{
    double rate = isfinite(d->step.together) && d->step.together > 0 ? d->step.together : predict_together(d, d->pipe_rate);
    struct exchange e = {.step = rate > 0 ? (double)d->facts.batch / rate : 0};
    double link = d->options.link_rate > 0 ? d->options.link_rate : link_read("", e.device);
    e.link = link > 0 ? link : USUAL_LINK;
    e.bytes = d->step.gradient_bytes;
    e.hidden = d->step.model && d->step.ms > 0 ? e.step * d->step.backward_ms / d->step.ms : 0;
    return e;
}

double remedy_ranks_here(const struct pst_doctor *d, unsigned ranks)
{
    struct exchange e = exchange_of(d);
    e.step *= ranks; /* they share the cores… */
    e.hidden *= ranks;
    e.link = d->limits.memory_bandwidth > 0 ? d->limits.memory_bandwidth / 4 : USUAL_LINK; /* …and exchange through memory */
    return gain_of(&e, ranks) / ranks;
}

static unsigned ranks_for(const struct exchange *e, double gain)
{
    unsigned n = 1;
    while (n < MOST_RANKS && gain_of(e, n) < gain)
        n++;
    return n;
}

static pst_status find_more_machines(struct pst_doctor *d, struct remedy *r, pst_error *reterr)
{
    struct exchange e = exchange_of(d);
    double rate = e.step > 0 ? (double)d->facts.batch / e.step : 0, wish = d->options.wish_rate;
    if (!(rate > 0) || !isfinite(rate))
        return PST_SKIP;
    unsigned n = wish > rate ? ranks_for(&e, wish / rate) : wish > 0 ? 1 : 2;
    r->ranks = n;
    r->model_gain = gain_of(&e, n);
    bool model = d->step.model != NULL;
    r->upper = !model && d->step.origin; /* what a step of a given length exchanges is not known */
    if (wish > rate)
        snprintf(r->title, sizeof(r->title), "%s%u machines like this one for %s samples/s: each prepares and computes its part",
                 r->model_gain * rate < wish ? "more than " : "", n, FIGURE(wish));
    else if (wish > 0)
        snprintf(r->title, sizeof(r->title), "none: this machine by itself gives the %s samples/s that are wished for", FIGURE(wish));
    else
        snprintf(r->title, sizeof(r->title), model || d->step.origin ? "train on %u machines: each prepares and computes its part of every step"
                                                                     : "prepare the data on %u machines, each its part", n);
    char origin[LINK_NAME + 16] = "";
    if (!(d->options.link_rate > 0))
        snprintf(origin, sizeof(origin), e.device[0] ? " (%s)" : " (assumed)", e.device);
    if (model)
        snprintf(r->basis, sizeof(r->basis), "a step of %s ms, %s MB of gradients, %s ms to exchange them at %s GB/s%s", FIGURE(1e3 * e.step),
                 FIGURE(e.bytes / 1e6), FIGURE(1e3 * exchange_seconds(&e, n)), FIGURE(e.link / 1e9), origin);
    else
        snprintf(r->basis, sizeof(r->basis), "the rate of this machine, times their number%s", r->upper ? ", without the exchange of gradients: an upper bound" : "");
    if (n == 1)
        return PST_OK; /* nothing is to be done: no price, no risk, no command */
    snprintf(r->price, sizeof(r->price), "%u more machine%s", n - 1, n == 2 ? "" : "s");
    if (d->step.origin)
        snprintf(r->risk, sizeof(r->risk), "a step then takes %llu samples: the learning rate may have to grow with it",
                 (unsigned long long)n * d->facts.batch);
    if (!model || draft_has_custom(&d->now))
        return PST_OK; /* the tool does not know the training, or the operations of the program */
    char *train = doctor_train_command(d, d->step.model, true, "");
    r->command = train ? mem_format("mpirun -n %u --map-by ppr:1:node --bind-to none --hostfile HOSTS %s", n, train) : NULL;
    mem_free(train);
    return r->command ? PST_OK : fail_memory(reterr, "describing a remedy");
}

const struct remedy_class remedy_machines[] = {
    {"more-machines", 5, find_more_machines, GROUP_NONE},
    {0},
};
