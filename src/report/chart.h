/* chart.h: charts of a page. One accent colour marks what the reader should look at; lines and bars carry their labels, so that
 * no meaning hangs on colour alone. Values that are not finite are left out. */
#ifndef REPORT_CHART_H
#define REPORT_CHART_H

#include "report/page.h"

struct chart_line {
    const char *label; /* beside the end of the line */
    const double *x, *y;
    size_t count;
    bool accent;
    bool predicted; /* dashed */
};

struct line_chart {
    const char *title, *description; /* the description is for screen readers */
    const char *x_label, *y_label;   /* with units */
    const struct chart_line *lines;
    size_t count;
    bool from_zero; /* the y axis begins at 0 */
};
void chart_lines(struct page *p, const struct line_chart *c);

struct chart_bar {
    const char *label;
    double value;     /* 0 or more */
    double low, high; /* range of an uncertain value; both 0: none */
    bool accent;
    bool predicted; /* hatched */
};

struct bar_chart {
    const char *title, *description;
    const char *unit; /* after each number; "" for none */
    const struct chart_bar *bars;
    size_t count;
};
void chart_bars(struct page *p, const struct bar_chart *c);

/* One step: the quantity before it and after it. */
struct chart_step {
    const char *label;
    double before, after;
    double measured;    /* the value after the step as measured, beside a predicted `after`; NAN: none */
    const char *number; /* the value after the step in words, with its unit */
    const char *note;   /* in small letters below; NULL: none */
    bool accent;
    bool predicted; /* `after` is hatched */
};

struct waterfall_chart {
    const char *title, *description;
    const struct chart_step *steps;
    size_t count;
};
void chart_waterfall(struct page *p, const struct waterfall_chart *c);

#define CHART_MAX_CELLS 25 /* classes whose counts are printed; more are drawn, and the most frequent mistakes listed */

struct confusion_chart {
    const char *title, *description;
    const char *const *classes;
    const uint64_t *counts; /* classes × classes: row true class, column predicted */
    size_t count;
};
void chart_confusion(struct page *p, const struct confusion_chart *c);

#endif
