/* chart_waterfall.c: how a quantity falls step by step: what remains is a bar from zero, what a step saves is an outline after
 * it. Measured values are solid, predicted ones hatched. */
#include "report/chart.h"

#include <math.h>

static double longest(const struct waterfall_chart *c)
{
    double most = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct chart_step *s = &c->steps[i];
        most = isfinite(s->before) ? fmax(most, s->before) : most;
        most = isfinite(s->after) ? fmax(most, s->after) : most;
        most = isfinite(s->measured) ? fmax(most, s->measured) : most;
    }
    return most > 0 ? most : 1;
}

static void add_bar(struct text *to, const char *class_name, double from, double until, const char *y, const char *height)
{
    if (isfinite(from) && isfinite(until) && until > from)
        text_addf(to, "<rect class=\"%s\" x=\"%.2f%%\" width=\"%.2f%%\" y=\"%s\" height=\"%s\"/>", class_name, 100 * from,
                  100 * (until - from), y, height);
}

static void add_step(struct text *to, const struct chart_step *s, double most)
{
    bool both = s->predicted && isfinite(s->measured);
    char class_name[16] = "b";
    if (s->accent)
        class_name[1] = ' ', class_name[2] = 'a';
    add_bar(to, "saved", fmin(s->after, s->before) / most, s->before / most, "0", "100%");
    if (both)
        add_bar(to, class_name, 0, s->measured / most, "55%", "45%");
    if (s->predicted)
        add_bar(to, s->accent ? "b a p" : "b p", 0, s->after / most, "0", both ? "45%" : "100%");
    else
        add_bar(to, class_name, 0, s->after / most, "0", "100%");
}

void chart_waterfall(struct page *p, const struct waterfall_chart *c)
{
    double most = longest(c);
    page_figure_begin(p, "bars-figure", c->title, c->description);
    text_add(p->to, "<table class=\"bars falls\">\n");
    for (size_t i = 0; i < c->count; i++) {
        const struct chart_step *s = &c->steps[i];
        text_add(p->to, "<tr><th scope=\"row\">");
        page_escape(p->to, s->label);
        text_add(p->to, "</th><td><svg aria-hidden=\"true\">");
        add_step(p->to, s, most);
        text_add(p->to, "</svg></td><td class=\"n\">");
        page_escape(p->to, s->number);
        if (s->note && s->note[0]) {
            text_add(p->to, "<br><small>");
            page_escape(p->to, s->note);
            text_add(p->to, "</small>");
        }
        text_add(p->to, "</td></tr>\n");
    }
    text_add(p->to, "</table>\n");
    page_figure_end(p);
}
