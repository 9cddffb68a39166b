/* answer.c: the result as text for people: one sentence, then now, the best remedy, the costs, all remedies. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/secret.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Detail lines begin where the values of the headings do. */
#define INDENT "             "
#define REST   "                         "

const char *doctor_figure(char *buffer, size_t size, double v)
{
    snprintf(buffer, size, "%s", isfinite(v) ? FIGURE(v) : "?");
    return buffer;
}

static void put_now(struct text *t, const struct pst_doctor *d)
{
    double seconds = d->epoch_samples / d->now_rate, hours = d->options.epoch_hours;
    char bytes[32];
    text_addf(t, "Now          %s samples/s (%s to %s)", FIGURE(d->now_rate), FIGURE(d->now_low), FIGURE(d->now_high));
    if (isfinite(seconds))
        text_addf(t, "; %s per epoch of %s samples", FIGURE_TIME(seconds), FIGURE_COUNT(d->epoch_samples));
    if (isfinite(seconds) && d->options.epochs)
        text_addf(t, "; %s for %s epochs", FIGURE_TIME(seconds * (double)d->options.epochs), FIGURE_COUNT((double)d->options.epochs));
    text_add(t, "\n");
    if (hours > 0 && isfinite(seconds))
        text_addf(t, INDENT "the measured costs explain %s %% of the observed %s per epoch\n", FIGURE(100 * seconds / (3600 * hours)), FIGURE_TIME(3600 * hours));
    if (!isfinite(d->step.rate) && isfinite(d->limit_step_ms))
        text_addf(t, INDENT "data becomes the limit for steps shorter than %s per batch of %s; --step-ms gives a verdict\n", FIGURE_TIME(1e-3 * d->limit_step_ms),
                  FIGURE_COUNT((double)d->facts.batch));
    if (d->cold_unknown)
        text_add(t, INDENT "the data set does not fit into memory, and its storage could not be read past the page cache: all rates\n" INDENT
                           "are those of data in memory, and the real ones may be far lower\n");
    else if (d->cold)
        text_add(t, INDENT "the data set does not fit into memory: predictions use the rate of the storage, not of the page cache;\n" INDENT
                           "epoch 1 of a small sample reads from cache, later epochs of the real data will not\n");
    if (d->remote.known)
        text_addf(t, INDENT "the store: %s ms per request, %s MB/s over %u connections, %s small requests/s; an epoch takes %s requests\n" INDENT
                            "and %s once; %s\n",
                  FIGURE(1e3 * d->remote.latency), FIGURE(d->remote.present / 1e6), d->remote.connections, FIGURE(d->remote.requests),
                  FIGURE_COUNT(remote_requests(d)), d->data_bytes >= 0 ? text_bytes((uint64_t)d->data_bytes, bytes, sizeof(bytes)) : "an unknown number of bytes",
                  remote_later_words(d));
    if (d->run.delay > 0.15)
        text_addf(t, INDENT "other programs took %.0f %% of the processor time that the pipeline wanted; ranges are wide\n", 100 * d->run.delay);
}

/* ---- Remedies ---- */

static const struct remedy *best_remedy(const struct pst_doctor *d)
{
    const struct remedy *r = d->remedies ? &d->remedy[0] : NULL;
    return r && r->available && r->gain >= 1.05 && !remedy_is_bound(r) ? r : NULL;
}

static void put_gain(struct text *t, const struct pst_doctor *d, const struct remedy *r)
{
    text_addf(t, "%s%s samples/s, %s times as fast", r->upper ? "up to " : "", FIGURE(d->now_rate * r->gain), FIGURE(r->gain));
}

/* How it is done, what it costs, what may go wrong. */
static void put_details(struct text *t, const struct remedy *r, const char *indent)
{
    if (r->command)
        text_addf(t, "%s%s%s\n", indent, strstr(r->command, "penstock ") ? "$ " : "option: ", r->command);
    for (const char *line = r->diff; line && *line;) {
        int n = (int)strcspn(line, "\n");
        text_addf(t, "%s%.*s\n", indent, n, line);
        line += n + (line[n] == '\n');
    }
    if (r->price[0])
        text_addf(t, "%sprice: %s\n", indent, r->price);
    if (r->risk[0])
        text_addf(t, "%srisk: %s\n", indent, r->risk);
}

static void put_remedy(struct text *t, const struct pst_doctor *d, const struct remedy *r)
{
    if (!r->available) {
        text_addf(t, "  %-22s not predicted: %s\n", r->id, r->title);
        return;
    }
    text_addf(t, "  %-22s ", r->id);
    if (isfinite(remedy_after(d, r)))
        put_gain(t, d, r);
    else
        text_add(t, "not predicted");
    text_addf(t, "; effort %s", remedy_effort(r));
    if (remedy_is_for(d, r))
        text_addf(t, "; removes the cause, %s", r->cause);
    text_addf(t, "\n" REST "%s\n", r->title);
    if (isfinite(r->measured))
        text_addf(t, REST "on the sample predicted %s, measured %s samples/s\n", FIGURE(r->rate_on_sample), FIGURE(r->measured));
    if (r != best_remedy(d)) /* its details stand above */
        put_details(t, r, REST);
}

static void put_best(struct text *t, const struct pst_doctor *d)
{
    const struct remedy *r = best_remedy(d);
    if (!r)
        return;
    text_addf(t, "Best remedy  %s: %s\n" INDENT, r->id, r->title);
    put_gain(t, d, r);
    text_addf(t, " (predicted); effort %s\n", remedy_effort(r));
    put_details(t, r, INDENT);
}

/* Remedies one after the other: each line with those before it. */
static void put_path(struct text *t, const struct pst_doctor *d)
{
    if (d->path_steps)
        text_add(t, "Together     remedies one after the other (predicted)\n");
    for (size_t i = 0; i < d->path_steps; i++)
        text_addf(t, "  %s%-*s %s samples/s, %s times as fast as now\n", i ? "+ " : "", i ? 20 : 22, d->path[i].remedy->id, FIGURE(d->path[i].rate),
                  FIGURE(d->path[i].rate / d->now_rate));
}

/* It was tried, and brings nothing here. */
static bool is_idle(const struct pst_doctor *d, const struct remedy *r)
{
    return r->available && !remedy_is_for(d, r) && isfinite(remedy_after(d, r)) && r->gain < 1.02 && !isfinite(r->measured);
}

static void put_idle(struct text *t, const struct pst_doctor *d)
{
    size_t count = 0;
    for (size_t i = 0; i < d->remedies; i++)
        if (is_idle(d, &d->remedy[i]))
            text_addf(t, "%s%s (%s)", count++ ? ", " : "  no gain here           ", d->remedy[i].id, FIGURE(d->remedy[i].gain));
    text_add(t, count ? " times as fast\n" : "");
}

static void put_remedies(struct text *t, const struct pst_doctor *d)
{
    if (d->remedies)
        text_addf(t, "Remedies     %sby gain for the effort\n", remedy_is_for(d, &d->remedy[0]) ? "the one that removes the cause first, the others " : "");
    for (size_t i = 0; i < d->remedies; i++)
        if (!is_idle(d, &d->remedy[i]))
            put_remedy(t, d, &d->remedy[i]);
    put_idle(t, d);
}

static void put_stages(struct text *t, const struct pst_doctor *d)
{
    text_add(t, "Stages                              µs/sample              range   share  alone  by difference\n");
    for (size_t i = 0; i < d->stages; i++) {
        const struct stage_cost *s = &d->stage[i];
        char range[2 * FIGURE_SIZE];
        snprintf(range, sizeof(range), "%s to %s", FIGURE(s->low), FIGURE(s->high));
        text_addf(t, "  %-32.32s %12s %18s %6.0f%% %6s %14s\n", s->name, FIGURE(s->us), range, 100 * s->share,
                  isfinite(s->alone_us) ? FIGURE(s->alone_us) : "", isfinite(s->difference_us) ? FIGURE(s->difference_us) : "");
        if (i == 0 && d->limits.checksum_us > 0)
            text_addf(t, "  %-32s %12s  of the first read of a record\n", "  checksum", FIGURE(d->limits.checksum_us));
    }
}

static void put_step(struct text *t, const struct pst_doctor *d)
{
    const struct step *s = &d->step;
    if (!s->origin)
        return;
    text_addf(t, "Step         %s ms per batch of %s (%s)", FIGURE(s->ms), FIGURE_COUNT((double)d->facts.batch), s->origin);
    if (isfinite(judge_wait_ms(d)))
        text_addf(t, ", and %s ms of waiting for data", FIGURE(judge_wait_ms(d)));
    text_add(t, "\n");
    if (s->model)
        text_addf(t, INDENT "forward %s ms, backward %s ms, optimiser %s ms\n", FIGURE(s->forward_ms), FIGURE(s->backward_ms), FIGURE(s->optimizer_ms));
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
        text_addf(t, "  %8llu %12s samples/s %12s", (unsigned long long)p->value, FIGURE(p->rate), text_bytes(p->ram, bytes, sizeof(bytes)));
        if (isfinite(p->epoch_seconds))
            text_addf(t, " %12s per epoch", FIGURE_TIME(p->epoch_seconds));
        text_add(t, "  ");
        for (int k = 0; most > 0 && k < (int)(30 * p->rate / most + 0.5); k++)
            text_add(t, "#");
        text_add(t, p->value == d->sweep_choice ? " <- recommended\n" : "\n");
    }
    text_addf(t, "             %s\n             %s\n", d->sweep_basis, d->sweep_reason);
}

pst_status result_answer(struct pst_doctor *d, pst_error *reterr)
{
    struct text t = {0}, shown = {0};
    text_addf(&t, "%s\n\n", d->sentence);
    if (d->written)
        text_addf(&t, "Pipeline     %s\n", d->text);
    put_now(&t, d);
    put_step(&t, d);
    put_best(&t, d);
    put_stages(&t, d);
    put_remedies(&t, d);
    put_path(&t, d);
    put_sweep(&t, d);
    text_add_shown(&shown, t.data ? t.data : "");
    bool failed = t.failed || shown.failed;
    text_finish(&t);
    if (failed) {
        text_finish(&shown);
        return fail_memory(reterr, "writing the answer");
    }
    mem_free(d->answer);
    d->answer = shown.data;
    return PST_OK;
}
