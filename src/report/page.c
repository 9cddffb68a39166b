/* page.c: text, tables and images of a page. See page.h. */
#include "report/page.h"

#include "base/secret.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- Strings ---- */

static void escape(struct text *to, const char *s)
{
    size_t left = strlen(s);
    while (left) {
        bool valid = true;
        size_t n = utf8_step((const unsigned char *)s, left, &valid);
        if (!valid || ((unsigned char)*s < ' ' && *s != '\n' && *s != '\t') || *s == 127)
            text_add(to, "\xEF\xBF\xBD");
        else if (strchr("&<>\"'", *s))
            text_addf(to, "&#%d;", *s);
        else
            text_add_n(to, s, n);
        s += n;
        left -= n;
    }
}

void page_escape(struct text *to, const char *s)
{
    struct text shown = {0};
    text_add_shown(&shown, s);
    to->failed |= shown.failed;
    escape(to, shown.data ? shown.data : "");
    text_finish(&shown);
}

static void element(struct page *p, const char *open, const char *text, const char *close)
{
    text_add(p->to, open);
    page_escape(p->to, text);
    text_add(p->to, close);
}

/* ---- The frame ---- */

void page_begin(struct page *p, struct text *to, const char *title)
{
    *p = (struct page){.to = to};
    text_add(to, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                 "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n");
    element(p, "<title>", title, "</title>\n");
    text_add(to, "<style>\n");
    for (size_t i = 0; page_style[i]; i++)
        text_add(to, page_style[i]);
    text_add(to, "</style></head>\n<body><main>\n");
    text_add(to, "<svg class=\"hidden\" aria-hidden=\"true\"><defs>");
    for (int accent = 0; accent < 2; accent++)
        text_addf(to,
                  "<pattern id=\"hatch%s\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\"><path d=\"M-1,1 l2,-2 M0,6 "
                  "l6,-6 M5,7 l2,-2\" "
                  "stroke-width=\"1.5\"/></pattern>",
                  accent ? "-a" : "");
    text_add(to, "</defs></svg>\n");
    element(p, "<h1>", title, "</h1>\n");
}

void page_end(struct page *p)
{
    text_add(p->to, "</main></body></html>\n");
}

void page_sentence(struct page *p, const char *text)
{
    element(p, "<p class=\"answer\">", text, "</p>\n");
}

void page_heading(struct page *p, const char *text)
{
    element(p, "<h2>", text, "</h2>\n");
}

void page_paragraph(struct page *p, const char *text)
{
    element(p, "<p>", text, "</p>\n");
}

void page_command(struct page *p, const char *text)
{
    element(p, "<pre>", text, "</pre>\n");
}

void page_fold_begin(struct page *p, const char *summary)
{
    element(p, "<details><summary>", summary, "</summary>\n");
}

void page_fold_end(struct page *p)
{
    text_add(p->to, "</details>\n");
}

/* ---- Tables and figures ---- */

static void add_cell(struct page *p, const char *tag, const char *scope, bool number, const char *heading, const char *text)
{
    text_addf(p->to, "<%s%s%s", tag, scope, number ? " class=\"n\"" : "");
    if (heading)
        element(p, " data-h=\"", heading, "\"");
    text_add(p->to, ">");
    page_escape(p->to, text);
    text_addf(p->to, "</%s>", tag);
}

static bool is_number(const struct page_table *t, size_t column)
{
    return column < 64 && t->numbers >> column & 1;
}

static bool is_shown(const struct page_table *t, size_t column)
{
    bool shown = t->rows == 0;
    for (size_t i = 0; i < t->rows && !shown; i++)
        shown = t->cells[i * t->columns + column] && t->cells[i * t->columns + column][0];
    return shown;
}

void page_table(struct page *p, const struct page_table *t)
{
    text_add(p->to, t->stacked ? "<table class=\"stacked\">" : "<table>");
    if (t->title)
        element(p, "<caption>", t->title, "</caption>");
    text_add(p->to, "\n<thead><tr>");
    for (size_t k = 0; k < t->columns; k++)
        if (is_shown(t, k))
            add_cell(p, "th", " scope=\"col\"", is_number(t, k), NULL, t->headings[k]);
    text_add(p->to, "</tr></thead>\n<tbody>\n");
    for (size_t i = 0; i < t->rows; i++) {
        text_add(p->to, "<tr>");
        for (size_t k = 0; k < t->columns; k++)
            if (is_shown(t, k))
                add_cell(p, "td", "", is_number(t, k), t->stacked ? t->headings[k] : NULL, t->cells[i * t->columns + k]);
        text_add(p->to, "</tr>\n");
    }
    text_add(p->to, "</tbody></table>\n");
}

void page_facts(struct page *p, const struct page_fact *facts, size_t count)
{
    text_add(p->to, "<dl class=\"facts\">\n");
    for (size_t i = 0; i < count; i++) {
        text_add(p->to, facts[i].accent ? "<div class=\"a\">" : "<div>");
        element(p, "<dt>", facts[i].name, "</dt>");
        element(p, "<dd>", facts[i].value, "</dd></div>\n");
    }
    text_add(p->to, "</dl>\n");
}

void page_figure_begin(struct page *p, const char *class_name, const char *title, const char *description)
{
    unsigned id = ++p->figures;
    text_addf(p->to, "<figure class=\"%s\" aria-labelledby=\"t%u\" aria-describedby=\"d%u\">\n<figcaption id=\"t%u\">",
              class_name, id, id, id);
    page_escape(p->to, title);
    text_addf(p->to, "</figcaption>\n<p class=\"hidden\" id=\"d%u\">", id);
    page_escape(p->to, description);
    text_add(p->to, "</p>\n");
}

void page_figure_end(struct page *p)
{
    text_add(p->to, "</figure>\n");
}

/* ---- Images ---- */

static void add_images(struct page *p, const char *class_name, const char *title, const struct page_image *images, size_t count)
{
    page_figure_begin(p, "pictures", title, title);
    text_addf(p->to, "<div class=\"%s\">\n", class_name);
    for (size_t i = 0; i < count; i++) {
        bool png = images[i].length > 1 && ((const uint8_t *)images[i].data)[0] == 0x89;
        text_addf(p->to, "<div><img src=\"data:image/%s;base64,", png ? "png" : "jpeg");
        text_add_base64(p->to, images[i].data, images[i].length);
        element(p, "\" alt=\"", images[i].caption, "\">");
        element(p, "<p>", images[i].caption, "</p></div>\n");
    }
    text_add(p->to, "</div>\n");
    page_figure_end(p);
}

void page_images(struct page *p, const char *title, const struct page_image *images, size_t count)
{
    add_images(p, "images", title, images, count);
}

void page_image_pairs(struct page *p, const char *title, const struct page_image *images, size_t count)
{
    add_images(p, "images pairs", title, images, count);
}
