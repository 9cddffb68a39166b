/* live.c: each call of live_look compares the totals with those of the previous one. */
#include "cli/live.h"
#include "cli/clock.h"
#include "cli/say.h"
#include "cli/terminal.h"
#include "cli/utf8.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define PAINT_EVERY  0.2 /* seconds */
#define LINE_EVERY   5.0
#define STAGES_SHOWN 8
#define NAME_COLUMNS 24
#define READY_SHOWN  16

void live_start(struct live *l, pst_pipeline *pipeline, bool quiet, bool json)
{
    memset(l, 0, sizeof(*l));
    l->pipeline = pipeline;
    l->started = l->seen = l->painted = now_seconds();
    l->mode = quiet ? LIVE_SILENT : terminal_is(stderr) ? LIVE_VIEW : json ? LIVE_SILENT : LIVE_LINES;
    l->last.size = sizeof(l->last);
}

/* ---- Lines, each at most as wide as the terminal ---- */

struct line {
    size_t width, used; /* columns */
};

static struct line line_begin(struct live *l)
{
    size_t columns = terminal_width(stderr);

    l->lines++;
    return (struct line){.width = columns > 3 ? columns - 3 : 0}; /* room for the ^C of an echo */
}

static void line_end(void)
{
    fputs("\033[K\n", stderr);
}

/* A piece of plain text, if there is room for it. */
static bool PST_PRINTF(2, 3) line_add(struct line *line, const char *format, ...)
{
    char text[256];
    va_list args;
    size_t columns;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    columns = utf8_columns(text, strlen(text));
    if (line->used + columns > line->width)
        return false;
    put_clean_string(stderr, text);
    line->used += columns;
    return true;
}

/* ---- The view ---- */

static void put_sparkline(const struct live *l, struct line *line)
{
    static const char *const utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {".", ":", "-", "=", "+", "*", "%", "#"};
    const char *const *levels = terminal_utf8() ? utf8 : ascii;
    size_t room = line->width > line->used + 2 ? line->width - line->used - 2 : 0, shown = l->rates < room ? l->rates : room;
    double most = 0;

    for (size_t i = l->rates - shown; i < l->rates; i++)
        most = fmax(most, l->rate[i]);
    if (shown < 4 || most <= 0)
        return;
    line_add(line, "  ");
    for (size_t i = l->rates - shown; i < l->rates; i++)
        fputs(levels[(size_t)(7 * l->rate[i] / most + 0.5)], stderr);
    line->used += shown;
}

static void paint_rate(struct live *l, const pst_stats *now, double time)
{
    struct line line = line_begin(l);
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE];
    double rate = l->rates ? l->rate[l->rates - 1] : 0;

    line_add(&line, "%s  %s samples/s", amount_time(a, time - l->started), amount_count(b, (uint64_t)(rate + 0.5)));
    line_add(&line, "  %s samples", amount_count(c, now->samples));
    put_sparkline(l, &line);
    line_end();
}

static void paint_ready(struct live *l, const pst_stats *now, double passed)
{
    struct line line = line_begin(l);
    double waited = 1e-9 * (double)(now->consumer_wait_ns - l->last.consumer_wait_ns) / passed;
    double calls = (double)(now->batches - l->last.batches);
    double sum = now->ready_mean * (double)now->batches - l->last.ready_mean * (double)l->last.batches;
    double ready = calls > 0 ? fmin(fmax(sum / calls, 0), now->prefetch) : 0;
    size_t columns = now->prefetch < READY_SHOWN ? now->prefetch : READY_SHOWN;

    line_add(&line, "ready ");
    if (now->prefetch && line.used + columns <= line.width) {
        terminal_bar(stderr, columns, ready / now->prefetch);
        line.used += columns;
    }
    line_add(&line, " %.1f of %u batches", ready, now->prefetch);
    line_add(&line, "  consumer waits %.0f%%", 100 * fmin(waited, 1));
    line_add(&line, "  %u %s", now->workers, plural(now->workers, "worker", "workers"));
    line_end();
}

static void paint_stages(struct live *l, const pst_stats *now)
{
    double all = 0;
    size_t names = 5;

    for (size_t i = 0; i < now->stages; i++) {
        size_t length = strlen(now->stage[i].name);

        all += (double)(now->stage[i].ns - l->last.stage[i].ns);
        names = length > names ? length : names;
    }
    names = names < NAME_COLUMNS ? names : NAME_COLUMNS;
    for (size_t i = 0; i < now->stages && i < STAGES_SHOWN && all > 0; i++) {
        double share = (double)(now->stage[i].ns - l->last.stage[i].ns) / all;
        struct line line = line_begin(l);

        line_add(&line, "%-*.*s ", (int)names, (int)names, now->stage[i].name);
        if (line.width > line.used + 16) {
            size_t columns = line.width - line.used - 6;

            columns = columns < 40 ? columns : 40;
            terminal_bar(stderr, columns, share);
            line.used += columns;
        }
        line_add(&line, " %3.0f%%", 100 * share);
        line_end();
    }
}

/* Goes back to the first line of the view. */
static void rewind_view(struct live *l)
{
    if (l->lines)
        fprintf(stderr, "\033[%zuA\r", l->lines);
    l->lines = 0;
}

static void paint(struct live *l, const pst_stats *now, double time)
{
    rewind_view(l);
    paint_rate(l, now, time);
    paint_ready(l, now, time - l->seen);
    paint_stages(l, now);
    if (now->stalled) {
        struct line line = line_begin(l);

        line_add(&line, "%.*s", (int)line.width, now->stall);
        line_end();
    }
    fputs("\033[J", stderr); /* lines of an earlier, longer view */
    fflush(stderr);
}

static void print_line(struct live *l, const pst_stats *now, double time)
{
    char a[AMOUNT_SIZE], b[AMOUNT_SIZE], c[AMOUNT_SIZE];
    double rate = (double)(now->samples - l->last.samples) / (time - l->seen);

    fprintf(stderr, "running: %s samples, %s/s, %s elapsed\n", amount_count(a, now->samples),
            amount_count(b, (uint64_t)(rate + 0.5)), amount_time(c, time - l->started));
    if (now->stalled && !l->told)
        say_note("%s", now->stall);
    l->told = now->stalled;
}

static void remember(struct live *l, const pst_stats *now, double time)
{
    double rate = (double)(now->samples - l->last.samples) / (time - l->seen);

    if (l->rates == LIVE_HISTORY)
        memmove(l->rate, l->rate + 1, (LIVE_HISTORY - 1) * sizeof(*l->rate));
    else
        l->rates++;
    l->rate[l->rates - 1] = rate;
}

void live_look(void *user)
{
    struct live *l = user;
    pst_stats now = {.size = sizeof(now)};
    double time = now_seconds();

    if (l->mode == LIVE_SILENT || time - l->painted < (l->mode == LIVE_VIEW ? PAINT_EVERY : LINE_EVERY))
        return;
    if (pst_pipeline_stats(l->pipeline, &now, NULL) < 0)
        return;
    if (now.stages != l->last.stages)
        memcpy(l->last.stage, now.stage, sizeof(now.stage)); /* just planned: nothing to compare with */
    if (l->mode == LIVE_VIEW) {
        remember(l, &now, time);
        paint(l, &now, time);
    } else {
        print_line(l, &now, time);
    }
    l->last = now;
    l->seen = l->painted = time;
}

void live_finish(struct live *l)
{
    if (l->lines) {
        rewind_view(l);
        fputs("\033[J", stderr);
        fflush(stderr);
    }
}
