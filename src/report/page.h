/* page.h: one HTML page that can be sent to a colleague: text, tables, charts, images; no scripts, no other files.
 *
 * Order on a page: page_begin, page_sentence (the answer, in large type), a chart that proves it, tables, folded details,
 * page_end. Every string is escaped; bytes that are not UTF-8 become U+FFFD. Failures are the text's: the caller checks
 * `failed` once. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "base/figure.h"
#include "base/text.h"

struct page {
    struct text *to;
    unsigned figures; /* so far, for ids */
};

void page_begin(struct page *p, struct text *to, const char *title);
void page_end(struct page *p);

void page_sentence(struct page *p, const char *text); /* the answer */
void page_heading(struct page *p, const char *text);  /* begins a section */
void page_paragraph(struct page *p, const char *text);
void page_command(struct page *p, const char *text);       /* a command that can be copied */
void page_fold_begin(struct page *p, const char *summary); /* details; printed unfolded */
void page_fold_end(struct page *p);

/* Cells are strings, row by row. Columns marked in `numbers` are right-aligned with figures of equal width. A column without text in
 * any row is left out. */
struct page_table {
    const char *title;
    const char *const *headings; /* `columns` of them, with units */
    const char *const *cells;    /* rows × columns */
    size_t columns, rows;
    uint64_t numbers; /* bit i: column i holds numbers */
    bool stacked;     /* on narrow screens every row becomes a block with one line per cell */
};
void page_table(struct page *p, const struct page_table *t);

/* Key figures side by side. */
struct page_fact {
    const char *name, *value;
    bool accent;
};
void page_facts(struct page *p, const struct page_fact *facts, size_t count);

/* An encoded image, PNG or JPEG, in the page itself. */
struct page_image {
    const void *data;
    size_t length;
    const char *caption;
};
void page_images(struct page *p, const char *title, const struct page_image *images, size_t count);
/* Images 0 and 1, 2 and 3, … stay beside each other on narrow screens. */
void page_image_pairs(struct page *p, const char *title, const struct page_image *images, size_t count);

/* ---- For charts ---- */

/* Hides what is secret in addresses. */
void page_escape(struct text *to, const char *s);
/* A figure with a title and a description for screen readers. */
void page_figure_begin(struct page *p, const char *class_name, const char *title, const char *description);
void page_figure_end(struct page *p);

/* The style sheet of pages. */

extern const char *const page_style[]; /* ends with NULL */

#endif
