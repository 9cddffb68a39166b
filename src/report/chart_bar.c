/* chart_bar.c: bars from zero with their numbers: measured ones solid, predicted ones hatched, ranges as lines. */
#include "report/chart.h"

#include <math.h>

static bool has_range(const struct chart_bar *b)
{
    return isfinite(b->low) && isfinite(b->high) && b->high > b->low;
}

static double longest(const struct bar_chart *c)
{
    double most = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct chart_bar *b = &c->bars[i];
        most = isfinite(b->value) && b->value > most ? b->value : most;
        most = has_range(b) && b->high > most ? b->high : most;
    }
    return most > 0 ? most : 1;
}

static void add_number(struct text *to, const struct bar_chart *c, const struct chart_bar *b)
{
    char number[FIGURE_SIZE], low[FIGURE_SIZE], high[FIGURE_SIZE];
    text_addf(to, "<td class=\"n\">%s", figure_number(number, b->value));
    if (c->unit[0]) {
        text_add(to, "\xC2\xA0");
        page_escape(to, c->unit);
    }
    if (has_range(b))
        text_addf(to, "<br><small>%s–%s</small>", figure_number(low, b->low), figure_number(high, b->high));
    if (b->predicted)
        text_add(to, "<br><small>predicted</small>");
    text_add(to, "</td>");
}

void chart_bars(struct page *p, const struct bar_chart *c)
{
    double most = longest(c);
    page_figure_begin(p, "bars-figure", c->title, c->description);
    text_add(p->to, "<table class=\"bars\">\n");
    for (size_t i = 0; i < c->count; i++) {
        const struct chart_bar *b = &c->bars[i];
        double width = isfinite(b->value) && b->value > 0 ? 100 * b->value / most : 0;
        text_add(p->to, "<tr><th scope=\"row\">");
        page_escape(p->to, b->label);
        text_addf(p->to, "</th><td><svg aria-hidden=\"true\"><rect class=\"b%s%s\" height=\"100%%\" width=\"%.2f%%\"/>",
                  b->accent ? " a" : "", b->predicted ? " p" : "", width);
        if (has_range(b))
            text_addf(p->to, "<line class=\"r\" x1=\"%.2f%%\" x2=\"%.2f%%\" y1=\"50%%\" y2=\"50%%\"/>",
                      100 * fmax(b->low, 0) / most, 100 * b->high / most);
        text_add(p->to, "</svg></td>");
        add_number(p->to, c, b);
        text_add(p->to, "</tr>\n");
    }
    text_add(p->to, "</table>\n");
    page_figure_end(p);
}
