/* chart_line.c: lines over a common axis, labelled at their ends. The picture stretches with the page; letters do not, so they
 * are placed beside it by percentages. */
#include "report/chart.h"

#include "base/digits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICKS      4
#define MAX_POINTS 1000 /* of a line; longer ones are drawn by the least and the largest value of each part */
#define LABEL_GAP  7.   /* per cent of the height that a label takes */
#define MAX_LABELS 64

struct axis {
    double from, to, step;
};

/* Extends the axis by a value. */
static void include_value(struct axis *a, double v, bool *any)
{
    a->from = !*any || v < a->from ? v : a->from;
    a->to = !*any || v > a->to ? v : a->to;
    *any = true;
}

/* A distance of 1, 2 or 5 times a power of ten that gives about TICKS ticks. */
static double nice_step(double range)
{
    double power = pow(10, floor(log10(range / TICKS))), times = range / TICKS / power;
    return power * (times < 1.5 ? 1 : times < 3.5 ? 2 : times < 7.5 ? 5 : 10);
}

static void finish_axis(struct axis *a, bool whole)
{
    if (!(a->to - a->from > 1e-12 * fmax(fabs(a->to), fabs(a->from)))) { /* one value: room around it */
        double room = a->from == 0 ? 1 : fabs(a->from) / 2;
        a->from -= whole ? room : 0;
        a->to += room;
    }
    a->step = nice_step(a->to - a->from);
    if (whole) {
        a->from = floor(a->from / a->step + 1e-9) * a->step;
        a->to = ceil(a->to / a->step - 1e-9) * a->step;
    }
}

static double share(const struct axis *a, double v)
{
    return (v - a->from) / (a->to - a->from);
}

static bool find_axes(const struct line_chart *c, struct axis *x, struct axis *y)
{
    bool any_x = false, any_y = false;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->lines[i].count; k++)
            if (isfinite(c->lines[i].x[k]) && isfinite(c->lines[i].y[k])) {
                include_value(x, c->lines[i].x[k], &any_x);
                include_value(y, c->lines[i].y[k], &any_y);
            }
    if (!any_x)
        return false;
    if (c->from_zero)
        include_value(y, 0, &any_y);
    finish_axis(x, false);
    finish_axis(y, true);
    return true;
}

/* The value of a tick, with as many decimals as the step between ticks has. */
static void print_tick(char number[FIGURE_SIZE], double value, int digits)
{
    if (fabs(value) >= 1e9 || digits > 6)
        digits_print(number, FIGURE_SIZE, "%.1e", value);
    else if (digits == 0)
        figure_count(number, value);
    else
        digits_print(number, FIGURE_SIZE, "%.*f", digits, value);
}

static void add_ticks(struct text *to, const struct axis *a, const char *class_name, const char *side)
{
    double first = ceil(a->from / a->step - 1e-9);
    int digits = a->step >= 1 ? 0 : (int)ceil(-log10(a->step) - 1e-9);
    for (int i = 0; i <= 2 * TICKS + 2; i++) {
        double v = (first + i) * a->step;
        if (v > a->to + a->step * 1e-6)
            break;
        char number[FIGURE_SIZE];
        print_tick(number, fabs(v) < a->step / 2 ? 0 : v, digits);
        text_addf(to, "<span class=\"%s\" style=\"%s:%.1f%%\">%s</span>", class_name, side, 100 * share(a, v), number);
    }
}

static void add_grid(struct text *to, const struct axis *y)
{
    double first = ceil(y->from / y->step - 1e-9);
    for (int i = 0; i <= 2 * TICKS + 2 && (first + i) * y->step <= y->to + y->step * 1e-6; i++) {
        double at = 1000 - 1000 * share(y, (first + i) * y->step);
        text_addf(to, "<line class=\"g\" x1=\"0\" x2=\"1000\" y1=\"%.1f\" y2=\"%.1f\"/>", at, at);
    }
}

static void add_point(struct text *to, const struct chart_line *l, size_t k, const struct axis *x, const struct axis *y)
{
    text_addf(to, "%.1f,%.1f ", 1000 * share(x, l->x[k]), 1000 - 1000 * share(y, l->y[k]));
}

static void open_polyline(struct text *to, const struct chart_line *l)
{
    text_addf(to, "<polyline class=\"%s%s\" points=\"", l->accent ? "a " : "", l->count == 1 ? "d" : l->predicted ? "p" : "");
}

/* One part of a long line: the points with the least and the largest value, in their order. */
static void add_part(struct text *to, const struct chart_line *l, size_t from, size_t end, const struct axis *x,
                     const struct axis *y)
{
    size_t least = from, most = from;
    for (size_t k = from; k < end; k++) {
        least = l->y[k] < l->y[least] ? k : least;
        most = l->y[k] > l->y[most] ? k : most;
    }
    add_point(to, l, least < most ? least : most, x, y);
    if (least != most)
        add_point(to, l, least < most ? most : least, x, y);
}

/* Gaps, values that are not finite, end a polyline and begin the next. */
static void add_line(struct text *to, const struct chart_line *l, const struct axis *x, const struct axis *y)
{
    size_t part = 1 + 2 * l->count / MAX_POINTS;
    bool open = false;
    part = l->count <= MAX_POINTS ? 1 : part;
    for (size_t k = 0; k < l->count;) {
        size_t end = k;
        while (end < l->count && end < k + part && isfinite(l->x[end]) && isfinite(l->y[end]))
            end++;
        if (end == k) {
            text_add(to, open ? "\"/>" : "");
            open = false;
            k++;
            continue;
        }
        if (!open)
            open_polyline(to, l);
        open = true;
        add_part(to, l, k, end, x, y);
        if (l->count == 1)
            add_point(to, l, k, x, y); /* a line of no length, whose ends make a dot */
        k = end;
    }
    text_add(to, open ? "\"/>\n" : "");
}

struct label {
    const struct chart_line *line;
    double at; /* per cent from the bottom */
};

static int by_height(const void *a, const void *b)
{
    double x = ((const struct label *)a)->at, y = ((const struct label *)b)->at;
    return (x > y) - (x < y);
}

static void add_labels(struct text *to, const struct line_chart *c, const struct axis *y)
{
    struct label labels[MAX_LABELS];
    size_t count = 0;
    for (size_t i = 0; i < c->count && count < MAX_LABELS; i++) {
        size_t last = c->lines[i].count;
        while (last && !(isfinite(c->lines[i].x[last - 1]) && isfinite(c->lines[i].y[last - 1])))
            last--;
        if (last)
            labels[count++] = (struct label){&c->lines[i], 100 * share(y, c->lines[i].y[last - 1])};
    }
    if (count > 1)
        qsort(labels, count, sizeof(*labels), by_height);
    for (size_t i = 1; i < count; i++) /* up, where they would overlap */
        labels[i].at = fmax(labels[i].at, labels[i - 1].at + LABEL_GAP);
    for (size_t i = count; i-- > 0;) { /* and down again, where that leads out of the picture */
        double most = i + 1 < count ? labels[i + 1].at - LABEL_GAP : 100;
        labels[i].at = fmin(labels[i].at, most);
    }
    for (size_t i = 0; i < count; i++) {
        text_addf(to, "<span class=\"l%s\" style=\"bottom:%.1f%%\">", labels[i].line->accent ? " a" : "", labels[i].at);
        page_escape(to, labels[i].line->label);
        text_add(to, "</span>");
    }
}

static void add_axis_label(struct text *to, const char *class_name, const char *label)
{
    text_addf(to, "<span class=\"%s\">", class_name);
    page_escape(to, label);
    text_add(to, "</span>\n");
}

void chart_lines(struct page *p, const struct line_chart *c)
{
    struct axis x = {0}, y = {0};
    page_figure_begin(p, "lines", c->title, c->description);
    if (!find_axes(c, &x, &y)) {
        page_paragraph(p, "There are no values to draw.");
    } else {
        text_add(p->to, "<div class=\"plot\"><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\"><title>");
        page_escape(p->to, c->title);
        text_add(p->to, "</title><desc>");
        page_escape(p->to, c->description);
        text_add(p->to, "</desc>\n");
        add_grid(p->to, &y);
        for (int accent = 0; accent < 2; accent++) /* those with the accent on top */
            for (size_t i = 0; i < c->count; i++)
                if (c->lines[i].accent == (accent == 1))
                    add_line(p->to, &c->lines[i], &x, &y);
        text_add(p->to, "</svg>\n");
        add_ticks(p->to, &y, "y", "bottom");
        add_ticks(p->to, &x, "x", "left");
        add_labels(p->to, c, &y);
        add_axis_label(p->to, "yl", c->y_label);
        add_axis_label(p->to, "xl", c->x_label);
        text_add(p->to, "</div>\n");
    }
    page_figure_end(p);
}
