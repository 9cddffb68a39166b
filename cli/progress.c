/* progress.c: rates are moving averages over a few seconds, so that the estimate follows the machine and does not jump. */
#include "cli/progress.h"
#include "cli/clock.h"
#include "cli/interrupt.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include <math.h>
#include <string.h>

#define LINE_EVERY   5.0  /* seconds between plain lines */
#define PAINT_EVERY  0.09 /* seconds between two bars */
#define AVERAGE_OVER 4.0  /* seconds */
#define SAMPLE_EVERY 0.2

void progress_start(struct progress *p, const char *unit, bool quiet, bool json)
{
    memset(p, 0, sizeof(*p));
    p->unit = unit;
    p->mode = quiet ? PROGRESS_SILENT : terminal_is(stderr) ? PROGRESS_BAR : json ? PROGRESS_SILENT : PROGRESS_LINES;
}

static void start_stage(struct progress *p, const pst_progress *now, double time)
{
    p->stage = now->stage;
    p->started = p->sampled = time;
    p->painted = p->mode == PROGRESS_LINES ? time : 0; /* the first line is printed after a while */
    p->first_done = p->sampled_done = now->done;
    p->first_bytes = p->sampled_bytes = now->bytes;
    p->rate = p->byte_rate = 0;
    p->complete = false;
}

static void update_rates(struct progress *p, const pst_progress *now, double time)
{
    double elapsed = time - p->sampled, weight;

    if (elapsed < SAMPLE_EVERY || now->done < p->sampled_done || now->bytes < p->sampled_bytes)
        return;
    /* Until the average's span has passed, it is the mean since the start. */
    weight = fmax(1 - exp(-elapsed / AVERAGE_OVER), elapsed / (time - p->started));
    p->rate += weight * ((double)(now->done - p->sampled_done) / elapsed - p->rate);
    p->byte_rate += weight * ((double)(now->bytes - p->sampled_bytes) / elapsed - p->byte_rate);
    p->sampled = time;
    p->sampled_done = now->done;
    p->sampled_bytes = now->bytes;
}

/* The parts of a line, from the most to the least important; those that do not fit are left out. */
enum { PARTS = 5, PART_SIZE = 96 };

static size_t describe(char parts[PARTS][PART_SIZE], const struct progress *p, const pst_progress *now, double time)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE];
    size_t count = 0;
    double left = p->rate > 0 && now->total > now->done ? (double)(now->total - now->done) / p->rate : 0;

    if (!p->unit && now->total && p->mode == PROGRESS_LINES && now->done < now->total)
        snprintf(parts[count++], PART_SIZE, "%.0f %%", floor(100 * (double)now->done / (double)now->total));
    else if (p->unit && now->total)
        snprintf(parts[count++], PART_SIZE, "%s/%s %s", amount_count(a, now->done), amount_count(b, now->total), p->unit);
    else if (p->unit)
        snprintf(parts[count++], PART_SIZE, "%s %s", amount_count(a, now->done), p->unit);
    if (left > 0)
        snprintf(parts[count++], PART_SIZE, "%s left", amount_time(a, left));
    if (p->rate > 0 && p->unit)
        snprintf(parts[count++], PART_SIZE, "%s/s", amount_count(a, (uint64_t)(p->rate + 0.5)));
    if (p->byte_rate > 0)
        snprintf(parts[count++], PART_SIZE, "%s/s", amount_bytes(a, p->byte_rate));
    snprintf(parts[count++], PART_SIZE, "%s elapsed", amount_time(a, time - p->started));
    return count;
}

static void paint_bar(struct progress *p, const pst_progress *now, double time)
{
    char parts[PARTS][PART_SIZE];
    size_t columns = terminal_width(stderr), width = columns > 3 ? columns - 3 : 0; /* leaves room for the ^C of an echo */
    size_t count = describe(parts, p, now, time), used = strlen(now->stage);

    fprintf(stderr, "\r%s", now->stage);
    if (now->total) {
        double share = now->done >= now->total ? 1 : (double)now->done / (double)now->total;
        size_t bar = width / 4 < 10 ? 10 : width / 4 > 30 ? 30 : width / 4;

        if (used + 1 + bar + 5 <= width) {
            fputc(' ', stderr);
            terminal_bar(stderr, bar, share);
            fprintf(stderr, "%4.0f%%", floor(100 * share));
            used += 1 + bar + 5;
        }
    }
    for (size_t i = 0; i < count && used + 2 + strlen(parts[i]) <= width; i++) {
        fprintf(stderr, "  %s", parts[i]);
        used += 2 + strlen(parts[i]);
    }
    fputs("\033[K", stderr);
    fflush(stderr);
    p->on_screen = true;
}

static void print_line(const struct progress *p, const pst_progress *now, double time)
{
    char parts[PARTS][PART_SIZE];
    size_t count = describe(parts, p, now, time);

    fprintf(stderr, "%s:", now->stage);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s %s", i ? "," : "", parts[i]);
    fputc('\n', stderr);
}

int progress_report(void *user, const pst_progress *now)
{
    struct progress *p = user;
    double time = now_seconds();
    bool complete = now->total > 0 && now->done >= now->total;

    if (p->mode == PROGRESS_SILENT)
        return interrupt_requested();
    if (!p->stage || strcmp(p->stage, now->stage) != 0)
        start_stage(p, now, time);
    update_rates(p, now, time);
    if (time - p->painted >= (p->mode == PROGRESS_BAR ? PAINT_EVERY : LINE_EVERY) || (complete && !p->complete)) {
        if (p->mode == PROGRESS_BAR)
            paint_bar(p, now, time);
        else
            print_line(p, now, time);
        p->painted = time;
    }
    p->complete = complete;
    return interrupt_requested();
}

void progress_finish(struct progress *p)
{
    if (p->on_screen) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    p->on_screen = false;
}
