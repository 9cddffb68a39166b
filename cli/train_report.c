/* train_report.c: see train_report.h. */
#include "cli/train_report.h"
#include "cli/clock.h"
#include "cli/interrupt.h"
#include "cli/json.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

#define REPAINT_SECONDS 0.2
#define LINE_SIZE       256

void train_report_start(struct train_report *r, bool json, bool quiet, uint64_t log_every, uint64_t epochs)
{
    *r = (struct train_report){.json = json, .quiet = quiet, .log_every = log_every, .epochs = epochs, .terminal = terminal_is(stderr)};
}

/* Adds the metrics of the latest validation that its loss has. F1 of classes shows where it is monitored. */
static int add_metrics(char line[LINE_SIZE], int n, const struct train_report *r, const pst_run_progress *p)
{
    const struct {
        const char *name;
        double value;
        bool shows;
    } all[] = {{"AUC", p->val_auc, true}, {"F1", p->val_f1, r->shows_f1 || !isnan(p->val_auc)}, {"MAE", p->val_mae, true}, {"R\xc2\xb2", p->val_r2, true}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (all[i].shows && !isnan(all[i].value))
            n += snprintf(line + n, LINE_SIZE - (size_t)n, "  val %s %.4g", all[i].name, all[i].value);
    return n;
}

static char *line_text(char line[LINE_SIZE], const struct train_report *r, const pst_run_progress *p)
{
    char eta[AMOUNT_SIZE];
    int n = snprintf(line, LINE_SIZE, "epoch %" PRIu64, p->epoch);

    if (r->epochs)
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "/%" PRIu64, r->epochs);
    n += snprintf(line + n, LINE_SIZE - (size_t)n, "  step %" PRIu64 "  loss %.4f", p->step, p->loss);
    if (!isnan(p->accuracy))
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "  accuracy %.2f %%", 100 * p->accuracy);
    if (p->validated && !isnan(p->val_loss))
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "  val loss %.4f", p->val_loss);
    if (p->validated && !isnan(p->val_accuracy))
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "  val accuracy %.2f %%", 100 * p->val_accuracy);
    if (p->validated)
        n = add_metrics(line, n, r, p);
    n += snprintf(line + n, LINE_SIZE - (size_t)n, "  lr %.3g  %.0f/s  waiting %.0f %%", p->rate, p->samples_per_second,
                  100 * p->wait_share);
    if (!p->epoch_end && !p->validated && !p->ended && !isnan(p->seconds_left))
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "  %s left", amount_time(eta, p->seconds_left));
    if (p->skipped)
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "  %" PRIu64 " skipped", p->skipped);
    if (p->sparsity > 0)
        n += snprintf(line + n, LINE_SIZE - (size_t)n, "  zeros %.1f %%", 100 * p->sparsity);
    if (p->best)
        snprintf(line + n, LINE_SIZE - (size_t)n, "  best");
    return line;
}

static void put_metric(struct json *j, const char *key, double value)
{
    if (!isnan(value))
        json_number(j, key, value);
}

void train_report_numbers(struct json *j, const pst_run_progress *p)
{
    struct rusage usage;

    json_uint(j, "epoch", p->epoch);
    json_uint(j, "step", p->step);
    json_number(j, "loss", p->loss);
    json_number(j, "accuracy", p->accuracy);
    json_number(j, "val_loss", p->val_loss);
    json_number(j, "val_accuracy", p->val_accuracy);
    put_metric(j, "val_auc", p->val_auc);
    put_metric(j, "val_f1", p->val_f1);
    put_metric(j, "val_mae", p->val_mae);
    put_metric(j, "val_r2", p->val_r2);
    json_number(j, "lr", p->rate);
    json_number(j, "images_per_s", p->samples_per_second);
    json_number(j, "wait_share", p->wait_share);
    if (p->loss_scale > 0 && p->loss_scale != 1) {
        json_number(j, "loss_scale", p->loss_scale);
        json_uint(j, "skipped_steps", p->skipped);
    }
    if (p->sparsity > 0)
        json_number(j, "sparsity", p->sparsity);
    json_uint(j, "peak_bytes", getrusage(RUSAGE_SELF, &usage) == 0 ? (uint64_t)usage.ru_maxrss * 1024 : 0);
}

static void put_json(const pst_run_progress *p)
{
    struct json j = json_to(stdout);

    json_begin_object(&j, NULL);
    train_report_numbers(&j, p);
    json_bool(&j, "epoch_end", p->epoch_end);
    json_bool(&j, "best", p->best);
    json_end_object(&j);
    putchar('\n');
    fflush(stdout);
}

static void wipe(struct train_report *r)
{
    if (r->on_screen)
        fputs("\r\033[K", stderr);
    r->on_screen = false;
}

bool train_report_progress(void *user, const pst_run_progress *p)
{
    struct train_report *r = user;
    char line[LINE_SIZE];
    bool whole = p->epoch_end || p->validated || p->ended;
    bool logged = r->log_every && p->step % r->log_every == 0;

    if (whole && r->json) {
        wipe(r);
        put_json(p);
    } else if (!r->json && ((whole && !r->quiet) || (logged && !whole))) {
        wipe(r);
        puts(line_text(line, r, p));
        fflush(stdout);
    } else if (r->terminal && !r->quiet && now_seconds() - r->painted >= REPAINT_SECONDS) {
        r->painted = now_seconds();
        fprintf(stderr, "\r%.*s\033[K", (int)terminal_width(stderr) - 1, line_text(line, r, p));
        fflush(stderr);
        r->on_screen = true;
    }
    return interrupt_requested();
}

void train_report_finish(struct train_report *r)
{
    wipe(r);
}
