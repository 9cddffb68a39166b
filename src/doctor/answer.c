/* answer.c: the result as text for people: one sentence, then now, the best remedy, all remedies, the costs. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "3.2 h", "4 min 5 s", "12 s", "45 ms". */
static const char *duration(char *buffer, size_t size, double s)
{
    if (!isfinite(s))
        snprintf(buffer, size, "unknown");
    else if (s >= 36000)
        snprintf(buffer, size, "%.0f h", s / 3600);
    else if (s >= 3600)
        snprintf(buffer, size, "%.1f h", s / 3600);
    else if (s >= 60)
        snprintf(buffer, size, "%.0f min %02.0f s", floor(s / 60), floor(fmod(s, 60)));
    else if (s >= 1)
        snprintf(buffer, size, "%.1f s", s);
    else
        snprintf(buffer, size, "%.0f ms", 1e3 * s);
    return buffer;
}

static void add_shown(struct text *t, const char *before, const char *text)
{
    text_add(t, before);
    text_add_shown(t, text);
    text_add(t, "\n");
}

const char *doctor_figure(char *buffer, size_t size, double v)
{
    if (!isfinite(v))
        snprintf(buffer, size, "?");
    else if (v >= 99.95)
        snprintf(buffer, size, "%.0f", v);
    else
        snprintf(buffer, size, "%.3g", v);
    return buffer;
}

static void put_now(struct text *t, const struct pst_doctor *d)
{
    char a[32], b[32], c[32], e[48];
    double seconds = d->epoch_samples / d->now_rate;
    text_addf(t, "Now          %s samples/s (%s to %s)", doctor_figure(a, sizeof(a), d->now_rate), doctor_figure(b, sizeof(b), d->now_low),
              doctor_figure(c, sizeof(c), d->now_high));
    if (isfinite(seconds))
        text_addf(t, "; %s per epoch of %.0f samples", duration(e, sizeof(e), seconds), d->epoch_samples);
    if (isfinite(seconds) && d->options.epochs)
        text_addf(t, "; %s for %llu epochs", duration(e, sizeof(e), seconds * (double)d->options.epochs),
                  (unsigned long long)d->options.epochs);
    text_add(t, "\n");
    if (d->options.epoch_hours > 0 && isfinite(seconds))
        text_addf(t, "             the measured costs explain %.*f %% of the observed %.3g h per epoch\n", seconds < 36 * d->options.epoch_hours ? 2 : 0,
                  100 * seconds / (3600 * d->options.epoch_hours), d->options.epoch_hours);
    if (!isfinite(d->step.rate) && isfinite(d->limit_step_ms))
        text_addf(t, "             data becomes the limit for steps shorter than %.3g ms per batch of %llu; --step-ms gives a verdict\n",
                  d->limit_step_ms, (unsigned long long)d->facts.batch);
    if (d->cold)
        text_add(t, "             the data set does not fit into memory: predictions use the rate of the storage, not of the page cache;\n"
                    "             epoch 1 of a small sample reads from cache, later epochs of the real data will not\n");
    if (d->remote.known)
        text_addf(t, "             the store: %.3g ms per request, %.4g MB/s over %u connections, %.3g small requests/s; an epoch takes %.0f requests\n"
                     "             and %.3g GB once, %s\n",
                  1e3 * d->remote.latency, d->remote.present / 1e6, d->remote.connections, d->remote.requests, remote_requests(d),
                  d->data_bytes / 1e9, remote_later_words(d));
    if (d->run.delay > 0.15)
        text_addf(t, "             other programs took %.0f %% of the processor time that the pipeline wanted; ranges are wide\n",
                  100 * d->run.delay);
}

static void put_remedy(struct text *t, const struct pst_doctor *d, const struct remedy *r)
{
    char a[32], b[32];
    double after = isfinite(r->rate) || r->model_gain > 0 ? d->now_rate * r->gain : NAN;
    if (!r->available) {
        text_addf(t, "  %-20s not predicted: %s\n", r->id, r->title);
        return;
    }
    text_addf(t, "  %-20s", r->id);
    if (isfinite(after))
        text_addf(t, " %s%s samples/s, %.2f times", r->upper ? "up to " : "", doctor_figure(a, sizeof(a), after), r->gain);
    else
        text_add(t, " not predicted");
    if (isfinite(r->measured))
        text_addf(t, "; on the sample predicted %s, measured %s", doctor_figure(a, sizeof(a), r->rate_on_sample),
                  doctor_figure(b, sizeof(b), r->measured));
    text_addf(t, "\n                       %s\n", r->title);
}

static void put_best(struct text *t, const struct pst_doctor *d)
{
    const struct remedy *r = d->remedies ? &d->remedy[0] : NULL;
    char a[32];
    if (!r || !r->available || !(r->gain >= 1.05))
        return;
    double after = isfinite(r->rate) || r->model_gain > 0 ? d->now_rate * r->gain : NAN;
    text_addf(t, "Best remedy  %s: %s\n", r->id, r->title);
    text_addf(t, "             %s%s samples/s, %.2f times as fast (predicted)\n", r->upper ? "up to " : "", doctor_figure(a, sizeof(a), after), r->gain);
    if (r->command)
        add_shown(t, "             $ ", r->command);
    for (const char *line = r->diff; line && *line;) {
        size_t n = strcspn(line, "\n");
        text_add(t, "             ");
        text_add_n(t, line, n);
        text_add(t, "\n");
        line += n + (line[n] == '\n');
    }
    if (r->price[0])
        text_addf(t, "             price: %s\n", r->price);
    if (r->risk[0])
        text_addf(t, "             risk: %s\n", r->risk);
}

static void put_stages(struct text *t, const struct pst_doctor *d)
{
    text_add(t, "Stages                                µs/sample        range   share  alone  by difference\n");
    for (size_t i = 0; i < d->stages; i++) {
        const struct stage_cost *s = &d->stage[i];
        char range[48], alone[16] = "", difference[16] = "";
        snprintf(range, sizeof(range), "%.3g-%.3g", s->low, s->high);
        if (isfinite(s->alone_us))
            snprintf(alone, sizeof(alone), "%.1f", s->alone_us);
        if (isfinite(s->difference_us))
            snprintf(difference, sizeof(difference), "%.1f", s->difference_us);
        text_addf(t, "  %-32.32s %12.1f %12s %6.0f%% %6s %14s\n", s->name, s->us, range, 100 * s->share, alone, difference);
    }
}

static void put_step(struct text *t, const struct pst_doctor *d)
{
    const struct step *s = &d->step;
    if (!s->origin)
        return;
    text_addf(t, "Step         %.3g ms per batch of %llu (%s)", s->ms, (unsigned long long)d->facts.batch, s->origin);
    if (isfinite(d->wait_share) && d->wait_share < 1)
        text_addf(t, ", and %.3g ms of waiting for data", s->ms * d->wait_share / (1 - d->wait_share));
    text_add(t, "\n");
    if (s->model)
        text_addf(t, "             forward %.3g ms, backward %.3g ms, optimiser %.3g ms\n", s->forward_ms, s->backward_ms, s->optimizer_ms);
}

static void put_sweep(struct text *t, const struct pst_doctor *d)
{
    static const char *const names[] = {"", "batch", "workers", "prefetch"};
    double most = 0;
    for (size_t i = 0; i < d->sweeps; i++)
        most = d->sweep[i].rate > most ? d->sweep[i].rate : most;
    if (!d->sweeps)
        return;
    text_addf(t, "Sweep        of %s\n", names[d->options.sweep]);
    for (size_t i = 0; i < d->sweeps; i++) {
        const struct sweep_point *p = &d->sweep[i];
        char bytes[32];
        text_addf(t, "  %8llu %12.0f samples/s %12s  ", (unsigned long long)p->value, p->rate, text_bytes(p->ram, bytes, sizeof(bytes)));
        for (int k = 0; most > 0 && k < (int)(30 * p->rate / most + 0.5); k++)
            text_add(t, "#");
        text_add(t, p->value == d->sweep_choice ? " <- recommended\n" : "\n");
    }
    text_addf(t, "             %s\n", d->sweep_reason);
}

pst_status result_answer(struct pst_doctor *d, pst_error *reterr)
{
    struct text t = {0};
    text_addf(&t, "%s\n\n", d->sentence);
    if (d->written)
        add_shown(&t, "Pipeline     ", d->text);
    put_now(&t, d);
    put_step(&t, d);
    put_best(&t, d);
    put_stages(&t, d);
    if (d->remedies)
        text_add(&t, "Remedies, by gain for the effort\n");
    for (size_t i = 0; i < d->remedies; i++)
        put_remedy(&t, d, &d->remedy[i]);
    put_sweep(&t, d);
    if (t.failed) {
        text_finish(&t);
        return fail_memory(reterr, "writing the answer");
    }
    mem_free(d->answer);
    d->answer = t.data;
    return PST_OK;
}
