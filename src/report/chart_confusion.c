/* chart_confusion.c: how often each class was taken for each other. Few classes are a table with shaded cells; many are a map
 * and the list of the most frequent mistakes. Shades are roots of shares of a row: rare
 * mistakes can be seen, and classes with few samples count as much as others. */
#include "report/chart.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define MOST_MISTAKES 20

static uint64_t row_sum(const struct confusion_chart *c, size_t row)
{
    uint64_t sum = 0;
    for (size_t k = 0; k < c->count; k++)
        sum += c->counts[row * c->count + k];
    return sum;
}

static double shade(const struct confusion_chart *c, size_t row, size_t column, uint64_t sum)
{
    return sum ? sqrt((double)c->counts[row * c->count + column] / (double)sum) : 0;
}

/* Columns are numbered: names would not fit. */
static void add_cells(struct page *p, const struct confusion_chart *c)
{
    text_add(p->to, "<table class=\"heat\">\n<tr><th scope=\"row\">true \xE2\x86\x93 predicted \xE2\x86\x92</th>");
    for (size_t k = 0; k < c->count; k++)
        text_addf(p->to, "<th scope=\"col\">%zu</th>", k);
    text_add(p->to, "</tr>\n");
    for (size_t i = 0; i < c->count; i++) {
        uint64_t sum = row_sum(c, i);
        text_add(p->to, "<tr><th scope=\"row\">");
        page_escape(p->to, c->classes[i]);
        text_addf(p->to, " %zu</th>", i);
        for (size_t k = 0; k < c->count; k++)
            text_addf(p->to, "<td%s style=\"--v:%.3f\">%" PRIu64 "</td>", i == k ? " class=\"d\"" : "", shade(c, i, k, sum),
                      c->counts[i * c->count + k]);
        text_add(p->to, "</tr>\n");
    }
    text_add(p->to, "</table>\n");
}

static void add_map(struct page *p, const struct confusion_chart *c)
{
    text_addf(p->to, "<svg viewBox=\"0 0 %zu %zu\" role=\"img\"><title>", c->count, c->count);
    page_escape(p->to, c->title);
    text_add(p->to, "</title><desc>");
    page_escape(p->to, c->description);
    text_add(p->to, "</desc>\n");
    for (size_t i = 0; i < c->count; i++) {
        uint64_t sum = row_sum(c, i);
        for (size_t k = 0; k < c->count; k++)
            if (c->counts[i * c->count + k])
                text_addf(p->to, "<rect x=\"%zu\" y=\"%zu\" width=\"1\" height=\"1\" opacity=\"%.2f\"/>", k, i,
                          .1 + .9 * shade(c, i, k, sum));
    }
    text_add(p->to, "</svg>\n");
}

struct mistake {
    size_t row, column;
    uint64_t count;
};

/* The most frequent mistakes, most frequent first. Returns how many there are. */
static size_t find_mistakes(const struct confusion_chart *c, struct mistake ret[MOST_MISTAKES])
{
    size_t found = 0;
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->count; k++) {
            uint64_t n = c->counts[i * c->count + k];
            if (i == k || n == 0 || (found == MOST_MISTAKES && n <= ret[found - 1].count))
                continue;
            size_t at = found < MOST_MISTAKES ? found++ : found - 1;
            for (; at && ret[at - 1].count < n; at--)
                ret[at] = ret[at - 1];
            ret[at] = (struct mistake){i, k, n};
        }
    return found;
}

static void add_mistakes(struct page *p, const struct confusion_chart *c)
{
    static const char *const headings[] = {"true class", "predicted as", "samples"};
    struct mistake mistakes[MOST_MISTAKES];
    char numbers[MOST_MISTAKES][24];
    const char *cells[3 * MOST_MISTAKES];
    size_t count = find_mistakes(c, mistakes);
    for (size_t i = 0; i < count; i++) {
        snprintf(numbers[i], sizeof(numbers[i]), "%" PRIu64, mistakes[i].count);
        cells[3 * i] = c->classes[mistakes[i].row];
        cells[3 * i + 1] = c->classes[mistakes[i].column];
        cells[3 * i + 2] = numbers[i];
    }
    page_table(p, &(struct page_table){.title = "Most frequent mistakes",
                                       .headings = headings,
                                       .cells = cells,
                                       .columns = 3,
                                       .rows = count,
                                       .numbers = 4});
}

void chart_confusion(struct page *p, const struct confusion_chart *c)
{
    page_figure_begin(p, "map", c->title, c->description);
    if (c->count <= CHART_MAX_CELLS)
        add_cells(p, c);
    else
        add_map(p, c);
    page_figure_end(p);
    if (c->count > CHART_MAX_CELLS)
        add_mistakes(p, c);
}
